//! The text of the learner's kernels for one group of agents.

use super::abi;
use crate::codecs::Codec;
use crate::settings::AgentSettings;
use spectral_env::ObservationSpec;
use std::fmt::Write;

/// Rows of a minibatch that the kernels have shared memory for.
pub const MAX_ROWS: usize = 512;

/// A codec as device code: what [`Codec::device`] returns.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceCodec {
    /// The name of the struct in the source.
    pub name: &'static str,
    /// The source, one struct as `codec.cuh` describes.
    pub source: &'static str,
    /// What the struct reads at `agent.codec`.
    pub constants: Vec<f64>,
}

/// Why a group cannot be trained on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(pub String);

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsupported {}

/// The device code of a codec, if it has all phases that the codec's Rust code says it has. Other code would train the agent
/// otherwise than a CPU does, without a word.
///
/// ```
/// use spectral_agent::codecs::configure;
/// use spectral_agent::gpu::source::device_code;
/// let (_, steady) = configure("spectral choice=steady", Default::default())?;
/// assert_eq!(device_code(steady.as_ref())?.name, "Spectral");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn device_code(codec: &dyn Codec) -> Result<DeviceCodec, Unsupported> {
    let Some(device) = codec.device() else {
        return Err(Unsupported(format!(
            "the codec {codec:?} has no device code (Codec::device returns None); use --device cpu"
        )));
    };
    for (wanted, asked, called, function) in [
        (codec.prefers(), "Codec::prefers", "Codec::preferences", "prefer"),
        (codec.compares(), "Codec::compares", "Codec::compare", "compare"),
    ] {
        if wanted && !names_function(device.source, function) {
            return Err(Unsupported(format!(
                "the codec {codec:?} has {called} ({asked} returns true), but its device code, the struct {}, has no function \
                 '{function}': write one that does the same, or use --device cpu",
                device.name
            )));
        }
    }
    Ok(device)
}

/// True if a function of this name occurs in the text, outside comments.
fn names_function(source: &str, function: &str) -> bool {
    let code = without_comments(source);
    code.match_indices(function).any(|(at, _)| {
        let starts = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        starts && code[at + function.len()..].trim_start().starts_with('(')
    })
}

fn without_comments(source: &str) -> String {
    let (mut code, mut rest) = (String::with_capacity(source.len()), source);
    while let Some(at) = rest.find('/') {
        let (before, comment) = rest.split_at(at);
        code.push_str(before);
        let behind = match comment.get(..2) {
            Some("//") => comment.find('\n'),
            Some("/*") => comment[2..].find("*/").map(|at| at + 4),
            _ => {
                code.push('/');
                Some(1)
            }
        };
        rest = behind.map_or("", |at| &comment[at..]);
    }
    code + rest
}

/// A codec's device code in a group, and what some of the agents that use it say.
struct Present {
    device: DeviceCodec,
    prefers: bool,
    compares: bool,
}

/// What all agents of a group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of a minibatch.
    pub batch: usize,
    /// Steps of a return.
    pub n_step: usize,
    /// Actions of the task.
    pub actions: usize,
    /// What the task shows.
    pub observation: ObservationSpec,
    /// Where the last layer starts within an agent's parameters.
    pub head_at: usize,
    /// Inputs of the last layer.
    pub head_in: usize,
    /// Floats from one row of outputs to the next; at least actions × outputs of every codec, one more with dueling heads.
    pub pitch: usize,
    /// Bytes of one state's legal actions ([`TaskSpec::mask_bytes`](spectral_env::TaskSpec::mask_bytes)); 0 if all always are.
    pub mask_bytes: usize,
    /// What some agents do beyond plain Q-learning; the kernels of other groups are compiled without it.
    pub extras: Extras,
}

/// What agents may do beyond plain Q-learning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Some agents choose by the online network what the target network values, or compare the two.
    pub double: bool,
    /// Some agents draw from replay by priority.
    pub prioritised: bool,
    /// All agents have dueling heads.
    pub dueling: bool,
}

impl Extras {
    /// What any of these agents does.
    pub fn of<'a>(agents: impl IntoIterator<Item = (&'a AgentSettings, &'a dyn Codec)>) -> Extras {
        agents.into_iter().fold(Extras::default(), |extras, (agent, codec)| Extras {
            double: extras.double || agent.double || codec.compares(),
            prioritised: extras.prioritised || agent.prioritised,
            dueling: extras.dueling || agent.dueling,
        })
    }
}

/// The kernels of one group, and what each agent's `Agent` structure needs of them.
#[derive(Clone, Debug)]
pub struct Source {
    /// CUDA C without any include. Compile it with `--fmad=false` to have the CPU's rounding.
    pub text: String,
    /// Per agent: which codec of the text (`Agent::kind`).
    pub kinds: Vec<u32>,
    /// Per agent: what `Agent::codec` points to.
    pub constants: Vec<Vec<f64>>,
    /// Floats from one row of targets to the next: the largest K.
    pub max_outputs: usize,
    /// Floats from one row of encoded returns to the next: the largest E.
    pub max_encoded: usize,
}

/// The kernels for agents with these codecs, in this order.
///
/// ```
/// use spectral_agent::codecs::{Clipped, Codec};
/// use spectral_agent::gpu::source::{Extras, Shape, build};
/// use spectral_env::ObservationSpec;
/// let shape = Shape {
///     batch: 32,
///     n_step: 3,
///     actions: 2,
///     observation: ObservationSpec::Vector { len: 4 },
///     head_at: 80,
///     head_in: 16,
///     pitch: 2,
///     mask_bytes: 0,
///     extras: Extras::default(),
/// };
/// let source = build(&shape, &[&Clipped, &Clipped])?;
/// assert_eq!(source.kinds, [0, 0]);
/// assert!(source.text.contains("struct Clipped"));
/// # Ok::<(), spectral_agent::gpu::source::Unsupported>(())
/// ```
pub fn build(shape: &Shape, codecs: &[&dyn Codec]) -> Result<Source, Unsupported> {
    if shape.batch > MAX_ROWS {
        return Err(Unsupported(format!(
            "a minibatch of {} rows does not fit a GPU's shared memory: set batch to at most {MAX_ROWS}, or train on \
             the CPU",
            shape.batch
        )));
    }
    if !shape.extras.double && codecs.iter().any(|codec| codec.compares()) {
        return Err(Unsupported("a codec compares both networks, which these extras leave out".into()));
    }
    let (mut kinds, mut constants, mut present) = (vec![], vec![], Vec::<Present>::new());
    for &codec in codecs {
        let device = device_code(codec)?;
        if (shape.actions + usize::from(shape.extras.dueling)) * codec.outputs() > shape.pitch {
            return Err(Unsupported(format!(
                "{} actions of {} outputs do not fit rows of {} floats",
                shape.actions,
                codec.outputs(),
                shape.pitch
            )));
        }
        let known = present.iter().position(|other| other.device.name == device.name);
        if known.is_some_and(|at| present[at].device.source != device.source) {
            return Err(Unsupported(format!(
                "two codecs of a group have device code of the name {}",
                device.name
            )));
        }
        let kind = known.unwrap_or(present.len());
        kinds.push(kind as u32);
        constants.push(device.constants.clone());
        if known.is_none() {
            present.push(Present { device, prefers: false, compares: false });
        }
        present[kind].prefers |= codec.prefers();
        present[kind].compares |= codec.compares();
    }
    let max_outputs = codecs.iter().map(|codec| codec.outputs()).max().unwrap_or(1);
    let max_encoded = codecs.iter().map(|codec| codec.encoded()).max().unwrap_or(1);
    let mut text = defines(shape, max_outputs, max_encoded);
    for part in [
        include_str!("warp.cuh"),
        &abi::header(),
        include_str!("squash.cuh"),
        include_str!("replay.cuh"),
        include_str!("priorities.cuh"),
        include_str!("dueling.cuh"),
        include_str!("codec.cuh"),
    ] {
        text.push_str(part);
    }
    for codec in &present {
        text.push_str(codec.device.source);
    }
    text.push_str(&dispatch(&present));
    text.push_str(include_str!("learner.cu"));
    Ok(Source { text, kinds, constants, max_outputs, max_encoded })
}

/// The group's constants as macros:
///
/// | macro | |
/// |---|---|
/// | `BATCH`, `N_STEP`, `ACTIONS` | rows of a minibatch, steps of a return, actions of the task |
/// | `OBSERVATION`, `STACK` | elements of one observation, observations that the network sees at once |
/// | `VECTOR` | 1 if observations are vectors of floats, 0 if they are planes of bytes |
/// | `CHANNELS`, `HEIGHT`, `WIDTH` | planes of one observation (1, 1 and `OBSERVATION` for vectors) |
/// | `PITCH` | floats from one row of outputs to the next, the same for every agent of the group |
/// | `MAX_OUTPUTS`, `MAX_ENCODED` | the largest K and E of the group's codecs: strides of targets and of encoded returns |
/// | `HEAD_AT`, `HEAD_IN` | where the last layer lies within an agent's parameters, and its inputs: weights `[HEAD_IN][(ACTIONS + DUELING) * K]`, then as many biases |
/// | `ROW_BYTES` | the size of a sampled transition with its rewards |
/// | `MASK_BYTES` | the size of one state's legal actions; 0 if all actions are always legal, and then nothing is kept or read |
/// | `DOUBLE_Q` | 1 if some agents choose by the online network what the target network values, or compare the two |
/// | `PRIORITISED` | 1 if some agents draw from replay by priority |
/// | `DUELING` | 1 if heads are dueling: K outputs of the value stand before those of the actions |
fn defines(shape: &Shape, max_outputs: usize, max_encoded: usize) -> String {
    let (vector, channels, height, width) = match shape.observation {
        ObservationSpec::Vector { len } => (1, 1, 1, len),
        ObservationSpec::Planes { channels, height, width, .. } => (0, channels, height, width),
    };
    let mut text = String::new();
    for (name, value) in [
        ("BATCH", shape.batch),
        ("N_STEP", shape.n_step),
        ("ACTIONS", shape.actions),
        ("OBSERVATION", shape.observation.len()),
        ("STACK", shape.observation.stack()),
        ("VECTOR", vector),
        ("CHANNELS", channels),
        ("HEIGHT", height),
        ("WIDTH", width),
        ("PITCH", shape.pitch),
        ("MAX_OUTPUTS", max_outputs),
        ("MAX_ENCODED", max_encoded),
        ("HEAD_AT", shape.head_at),
        ("HEAD_IN", shape.head_in),
        ("ROW_BYTES", abi::row_bytes(shape.n_step)),
        ("MASK_BYTES", shape.mask_bytes),
        ("DOUBLE_Q", shape.extras.double.into()),
        ("PRIORITISED", shape.extras.prioritised.into()),
        ("DUELING", shape.extras.dueling.into()),
    ] {
        let _ = writeln!(text, "#define {name} {value}");
    }
    text
}

/// `FOR_CODEC(kind, code)`: runs the code with `Codec` standing for the codec of that kind, which also says whether it takes part
/// in the greedy choice. Only what Rust says counts: device code that does not have what is called then does not compile.
fn dispatch(present: &[Present]) -> String {
    let mut text = String::from("\n");
    for (kind, Present { device, prefers, compares }) in present.iter().enumerate() {
        let name = device.name;
        let says = format!("static const bool PREFERS = {prefers}, COMPARES = {compares};");
        let _ = writeln!(text, "struct Codec{kind} : {name} {{ {says} }};");
    }
    text.push_str("#define FOR_CODEC(kind, ...) switch (kind) { \\\n");
    for kind in 0..present.len() {
        let _ = writeln!(text, "    case {kind}: {{ typedef Codec{kind} Codec; __VA_ARGS__; break; }} \\");
    }
    text.push_str("}\n\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::{Clipped, PopArt, Rows, Spectral};

    const SHAPE: Shape = Shape {
        batch: 32,
        n_step: 3,
        actions: 2,
        observation: ObservationSpec::Planes { channels: 2, height: 3, width: 5, stack: 4 },
        head_at: 100,
        head_in: 16,
        pitch: 42,
        mask_bytes: 0,
        extras: Extras { double: false, prioritised: false, dueling: false },
    };

    #[test]
    fn each_codec_is_there_once_and_only_if_it_is_used() {
        let spectral = Spectral::new(&Default::default(), 0.99).unwrap();
        let popart = PopArt::new(&Default::default()).unwrap();
        let source = build(&SHAPE, &[&spectral, &popart, &spectral]).unwrap();
        assert_eq!(source.kinds, [0, 1, 0]);
        assert_eq!((source.max_outputs, source.max_encoded), (21, 21));
        for (text, times) in [
            ("struct Spectral ", 1),
            ("struct PopArt ", 1),
            ("struct Clipped ", 0),
            ("#define OBSERVATION 30\n", 1),
            ("#define STACK 4\n", 1),
            ("#define MAX_OUTPUTS 21\n", 1),
            ("struct Codec1 : PopArt { static const bool PREFERS = false, COMPARES = false; };", 1),
            ("case 1: { typedef Codec1 Codec;", 1),
            ("#include", 0),
        ] {
            assert_eq!(source.text.matches(text).count(), times, "{text}");
        }
        assert_eq!(source.constants[1], [3e-4]);
    }

    /// A codec that somebody wrote for the CPU alone.
    #[derive(Debug)]
    struct Homemade;

    impl Codec for Homemade {
        fn outputs(&self) -> usize {
            1
        }
        fn encode_reward(&self, _: f32, _: f32, _: &mut [f32]) {}
        fn decode(&self, _: &[f32], _: &[f64]) -> f32 {
            0.0
        }
        fn target(&self, _: &[f32], _: f32, _: &[f32], _: &[f64], _: &mut [f32]) {}
        fn gradient(&self, _: &Rows<'_>, _: &mut [f64], _: &mut [f32], _: &mut [f32]) {}
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_reason() {
        let refused = |shape: &Shape, codecs: &[&dyn Codec]| build(shape, codecs).unwrap_err().to_string();
        let message = refused(&SHAPE, &[&Clipped, &Homemade]);
        assert!(message.contains("Homemade") && message.contains("--device cpu"), "{message}");
        let message = refused(&Shape { batch: 513, ..SHAPE }, &[&Clipped]);
        assert!(message.contains("513") && message.contains("512"), "{message}");
        let message = refused(&Shape { pitch: 1, ..SHAPE }, &[&Clipped]);
        assert!(message.contains("2 actions"), "{message}");
        let comparing = Choosy { prefers: false, compares: true, source: CHOOSY };
        let message = refused(&SHAPE, &[&comparing]);
        assert!(message.contains("compares"), "{message}");
    }

    /// A codec that takes part in the greedy choice, perhaps not on a device.
    #[derive(Debug)]
    struct Choosy {
        prefers: bool,
        compares: bool,
        source: &'static str,
    }

    impl Codec for Choosy {
        fn outputs(&self) -> usize {
            1
        }
        fn encode_reward(&self, _: f32, _: f32, _: &mut [f32]) {}
        fn decode(&self, _: &[f32], _: &[f64]) -> f32 {
            0.0
        }
        fn prefers(&self) -> bool {
            self.prefers
        }
        fn compares(&self) -> bool {
            self.compares
        }
        fn target(&self, _: &[f32], _: f32, _: &[f32], _: &[f64], _: &mut [f32]) {}
        fn gradient(&self, _: &Rows<'_>, _: &mut [f64], _: &mut [f32], _: &mut [f32]) {}
        fn device(&self) -> Option<DeviceCodec> {
            Some(DeviceCodec { name: "Choosy", source: self.source, constants: vec![] })
        }
    }

    const CHOOSY: &str = "struct Choosy {
        static float prefer (const Agent&); // compare() is not here,
        /* nor here: compare(); */ static void compared(int); void precompare(int);
        static int half(int a) { return a / compares; } };";

    #[test]
    fn what_device_code_lacks_is_refused_and_never_ignored() {
        for (prefers, compares, source, lacks) in [
            (false, false, "", None),
            (true, false, CHOOSY, None),
            (true, false, "struct Choosy {}; // prefer(", Some("'prefer'")),
            (true, false, "struct Choosy { int prefer; };", Some("'prefer'")),
            (false, true, CHOOSY, Some("'compare'")),
            (true, true, CHOOSY, Some("'compare'")),
            (true, true, "void prefer(); /* */ void compare\n();", None),
        ] {
            let codec = Choosy { prefers, compares, source };
            let said = device_code(&codec).err().map(|e| e.to_string());
            assert_eq!(said.is_some(), lacks.is_some(), "{codec:?}: {said:?}");
            if let (Some(said), Some(lacks)) = (said, lacks) {
                for part in ["Choosy", lacks, "returns true", "--device cpu"] {
                    assert!(said.contains(part), "{part}: {said}");
                }
            }
        }
    }

    /// Agents that share a struct share its functions, if one of them needs them.
    #[test]
    fn kernels_ask_codecs_for_what_their_rust_code_says() {
        let plain = Spectral::new(&Default::default(), 0.99).unwrap();
        let (_, steady) = crate::codecs::configure("spectral choice=steady", Default::default()).unwrap();
        let shape = Shape { extras: Extras { double: true, ..SHAPE.extras }, ..SHAPE };
        for (codecs, says) in [
            (&[&plain as &dyn Codec, &plain], "PREFERS = false, COMPARES = false"),
            (&[&plain, steady.as_ref()], "PREFERS = true, COMPARES = true"),
            (&[steady.as_ref(), &plain], "PREFERS = true, COMPARES = true"),
        ] {
            let text = build(&shape, codecs).unwrap().text;
            let line = format!("struct Codec0 : Spectral {{ static const bool {says}; }};");
            assert!(text.contains(&line), "{line}");
        }
    }
}
