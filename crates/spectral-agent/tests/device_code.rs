//! The device code of every codec against its Rust code, and through NVIDIA's compiler; and that a difference is found.

use spectral_agent::codecs::{
    Codec, DeviceCodec, NextStates, Rows, configure, squared_error_gradient, test_variants,
};
use spectral_agent::settings::AgentSettings;
use spectral_agent::testing::{
    BOARDS, Comparison, Runner, SCREENS, VECTORS, Variant, compare_device_code, compare_group,
    compare_masked_group,
};
use spectral_env::{ActionMask, ObservationSpec};
use std::io::Write as _;
use std::sync::Arc;

/// Every codec, at defaults and at its main variants.
fn variants() -> Vec<(String, AgentSettings, Arc<dyn Codec>)> {
    test_variants().iter().map(|text| variant(text)).collect()
}

fn variant(text: &str) -> Variant {
    // Statistics that move within a short life, where there are any.
    let fast = format!("{text} statistics_rate=0.05");
    let built = configure(&fast, AgentSettings::default());
    let (settings, codec) = built.or_else(|_| configure(text, AgentSettings::default())).unwrap();
    (text.into(), settings, codec)
}

/// The variants that have one of these names.
fn named(names: &[&str]) -> Vec<Variant> {
    let found: Vec<Variant> =
        variants().into_iter().filter(|(name, ..)| names.contains(&name.as_str())).collect();
    assert_eq!(found.len(), names.len());
    found
}

/// Compares a group over one life; returns the updates that were compared, if any were.
fn agree(agents: &[Variant], observation: ObservationSpec, runner: Runner) -> Option<usize> {
    updates(compare_group(agents, observation, runner))
}

/// The same on a task that says which actions are legal.
fn agree_masked(agents: &[Variant], observation: ObservationSpec, runner: Runner) -> Option<usize> {
    updates(compare_masked_group(agents, observation, runner))
}

fn updates(compared: Result<Comparison, String>) -> Option<usize> {
    match compared.unwrap_or_else(|why| panic!("{why}")) {
        Comparison::Agreed { updates, .. } => Some(updates),
        Comparison::Skipped(why) => {
            say(&why);
            None
        }
    }
}

/// Not `eprintln`, which the test harness hides.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[test]
fn screens_agree_to_the_bit() {
    let Some(updates) = agree(&variants(), SCREENS, Runner::Serial) else { return };
    assert!(updates > 200, "{updates} updates were compared");
}

#[test]
fn boards_agree_to_the_bit() {
    agree(&named(&["popart", "spectral"]), BOARDS, Runner::Serial);
}

#[test]
fn vectors_agree_to_the_bit() {
    agree(&named(&["compressed", "categorical"]), VECTORS, Runner::Serial);
}

#[test]
fn legal_actions_agree_to_the_bit() {
    let Some(updates) = agree_masked(&variants(), SCREENS, Runner::Serial) else { return };
    assert!(updates > 200, "{updates} updates were compared");
    agree_masked(&named(&["popart", "spectral"]), BOARDS, Runner::Serial);
    agree_masked(&named(&["compressed", "categorical"]), VECTORS, Runner::Serial);
}

#[test]
fn teams_of_threads_agree_but_for_rounding() {
    agree(&variants(), SCREENS, Runner::Teams);
    agree_masked(&variants(), SCREENS, Runner::Teams);
}

#[cfg(feature = "cuda")]
#[test]
fn a_gpu_agrees_but_for_rounding() {
    agree(&variants(), SCREENS, Runner::Gpu);
}

#[cfg(feature = "cuda")]
#[test]
fn legal_actions_on_a_gpu_agree_but_for_rounding() {
    agree_masked(&variants(), SCREENS, Runner::Gpu);
    agree_masked(&named(&["compressed", "categorical"]), VECTORS, Runner::Gpu);
}

/// Every codec with options of the learner, beside one without.
fn extended(options: &str) -> Vec<Variant> {
    let with = |codec: &str| variant(&format!("{codec} {options}"));
    let mut all: Vec<Variant> = ["spectral", "categorical", "compressed", "clipped"].map(with).to_vec();
    // Its last layer changes before the online network's own pass, but after the one that chooses. Heads are the same for all.
    let plain = if options.contains("dueling") { "popart dueling=true" } else { "popart" };
    all.extend([with("popart"), variant(plain)]);
    all
}

/// Options of the learner that its kernels are compiled for.
const OPTIONS: [&str; 6] = [
    "double=true",
    "prioritised=true",
    "prioritised=true priority_exponent=1 importance_exponent=1",
    "double=true prioritised=true",
    "dueling=true",
    "double=true dueling=true prioritised=true",
];

#[test]
fn options_of_the_learner_agree_to_the_bit() {
    for options in OPTIONS {
        let Some(updates) = agree(&extended(options), SCREENS, Runner::Serial) else { return };
        assert!(updates > 100, "{options}: {updates} updates were compared");
        agree(&extended(options)[..2], VECTORS, Runner::Serial);
        agree_masked(&extended(options), SCREENS, Runner::Serial);
    }
}

#[test]
fn options_of_the_learner_in_teams_agree_but_for_rounding() {
    for options in OPTIONS {
        agree_masked(&extended(options), SCREENS, Runner::Teams);
    }
}

#[cfg(feature = "cuda")]
#[test]
fn options_of_the_learner_on_a_gpu_agree_but_for_rounding() {
    for options in OPTIONS {
        agree(&extended(options), SCREENS, Runner::Gpu);
        agree_masked(&extended(options), SCREENS, Runner::Gpu);
    }
}

/// A codec from outside the library, whose device code divides by a number of its own.
#[derive(Debug)]
struct Scaled {
    by: f32,
    on_device: f64,
    source: &'static str,
}

impl Codec for Scaled {
    fn outputs(&self) -> usize {
        1
    }
    fn encode_reward(&self, reward: f32, factor: f32, out: &mut [f32]) {
        out[0] += factor * (reward / self.by);
    }
    fn decode(&self, outputs: &[f32], _: &[f64]) -> f32 {
        outputs[0] * self.by
    }
    fn target(&self, encoded: &[f32], bootstrap: f32, next: &[f32], _: &[f64], out: &mut [f32]) {
        out[0] = encoded[0] + bootstrap * next[0];
    }
    fn gradient(&self, rows: &Rows<'_>, _: &mut [f64], gradients: &mut [f32], trunk: &mut [f32]) {
        squared_error_gradient(rows, gradients);
        trunk.fill(1.0);
    }
    fn device(&self) -> Option<DeviceCodec> {
        Some(DeviceCodec { name: "Scaled", source: self.source, constants: vec![self.on_device] })
    }
}

const SCALED: &str = "
struct Scaled : CodecDefaults<Scaled> {
    static __device__ void encode(const Agent& agent, float reward, float factor, float* out) {
        if (lane() == 0) out[0] += factor * (reward / (float)agent.codec[0]);
    }
    static __device__ float decode(const Agent& agent, const float* outputs, const double*) {
        return outputs[0] * (float)agent.codec[0];
    }
    static __device__ void target(const Agent&, const float* encoded, float bootstrap, const float* next, float* out) {
        if (lane() == 0) out[0] = encoded[0] + bootstrap * next[0];
    }
};
";

#[test]
fn a_codec_of_ones_own_is_checked_and_its_faults_are_found() {
    let compare = |codec: Scaled| compare_device_code(&AgentSettings::default(), Arc::new(codec));
    match compare(Scaled { by: 10.0, on_device: 10.0, source: SCALED }).unwrap() {
        Comparison::Agreed { updates, .. } => assert!(updates > 100, "{updates}"),
        Comparison::Skipped(why) => return say(&why),
    }
    // The last bit of a constant.
    let error = compare(Scaled { by: 10.0, on_device: 10.000001, source: SCALED }).unwrap_err();
    assert!(error.contains("Scaled") && error.contains("in the learner"), "{error}");
    let error = compare(Scaled { by: 10.0, on_device: 10.0, source: "struct Scaled { oops };" }).unwrap_err();
    assert!(error.contains("oops"), "{error}");
}

/// A codec from outside the library that takes part in the greedy choice: values count only by whole multiples of what the two
/// networks disagree on.
#[derive(Debug)]
struct Coarse {
    source: &'static str,
}

impl Codec for Coarse {
    fn outputs(&self) -> usize {
        1
    }
    fn init(&self) -> Vec<f64> {
        vec![0.0]
    }
    fn encode_reward(&self, reward: f32, factor: f32, out: &mut [f32]) {
        out[0] += factor * reward;
    }
    fn decode(&self, outputs: &[f32], _: &[f64]) -> f32 {
        outputs[0]
    }
    fn prefers(&self) -> bool {
        true
    }
    fn preferences(&self, outputs: &[f32], state: &[f64], _: Option<&ActionMask>, preferences: &mut [f32]) {
        for (preference, y) in preferences.iter_mut().zip(outputs) {
            *preference = -(y / (state[0] as f32 + 0.01)).floor();
        }
    }
    fn compares(&self) -> bool {
        true
    }
    fn compare(&self, next: &NextStates<'_>, state: &mut [f64]) {
        for (online, target) in next.online.iter().zip(next.target) {
            state[0] = state[0].max(f64::from((online - target).abs()));
        }
    }
    fn target(&self, encoded: &[f32], bootstrap: f32, next: &[f32], _: &[f64], out: &mut [f32]) {
        out[0] = encoded[0] + bootstrap * next[0];
    }
    fn gradient(&self, rows: &Rows<'_>, _: &mut [f64], gradients: &mut [f32], trunk: &mut [f32]) {
        squared_error_gradient(rows, gradients);
        trunk.fill(1.0);
    }
    fn device(&self) -> Option<DeviceCodec> {
        Some(DeviceCodec { name: "Coarse", source: self.source, constants: vec![] })
    }
}

const COARSE: &str = "
struct Coarse : CodecDefaults<Coarse> {
    static __device__ void encode(const Agent&, float reward, float factor, float* out) {
        if (lane() == 0) out[0] += factor * reward;
    }
    static __device__ float decode(const Agent&, const float* outputs, const double*) { return outputs[0]; }
    static __device__ void target(const Agent&, const float* encoded, float bootstrap, const float* next, float* out) {
        if (lane() == 0) out[0] = encoded[0] + bootstrap * next[0];
    }
    static __device__ float prefer(const Agent&, const float* outputs, int action, const u8*, const double* state) {
        return -floorf(outputs[action] / ((float)state[0] + 0.01f));
    }
    static __device__ void compare(const Agent& agent, const Row*, const float* online, const float* target) {
        if (thread() != 0) return;
        for (int row = 0; row < BATCH; row++) {
            for (int a = 0; a < ACTIONS; a++) {
                const double apart = (double)fabsf(online[row * PITCH + a] - target[row * PITCH + a]);
                agent.online_state[0] = fmax(agent.online_state[0], apart);
            }
        }
    }
};
";

#[test]
fn a_greedy_choice_of_ones_own_is_made_on_a_device_or_refused() {
    let compare = |source| compare_device_code(&AgentSettings::default(), Arc::new(Coarse { source }));
    match compare(COARSE).unwrap() {
        Comparison::Agreed { updates, .. } => assert!(updates > 100, "{updates}"),
        Comparison::Skipped(why) => return say(&why),
    }
    // Another choice is found, so the agreement above is one of choices.
    let error = compare(&*COARSE.replace("return -floorf", "return floorf").leak()).unwrap_err();
    assert!(error.contains("the decision"), "{error}");
    for (function, renamed) in [(" prefer(", " favour("), (" compare(", " contrast(")] {
        let error = compare(&*COARSE.replace(function, renamed).leak()).unwrap_err();
        assert!(error.contains(&format!("'{}'", function.trim_matches([' ', '(']))), "{error}");
    }
    // A call is no function.
    let calls = COARSE
        .replace(" prefer(", " favour(")
        .replace("return outputs[0];", "return outputs[0] * prefer(1);");
    let error = compare(&*calls.leak()).unwrap_err();
    assert!(error.contains("prefer"), "the compiler refuses it: {error}");
}

#[cfg(feature = "cuda")]
#[test]
fn every_group_of_codecs_compiles() {
    use spectral_agent::gpu::source::{Extras, MAX_ROWS};
    use spectral_agent::testing::{Compilation, compile_device_code_with};
    const SCREEN: ObservationSpec = ObservationSpec::Planes { channels: 1, height: 84, width: 84, stack: 4 };
    const BOARD: ObservationSpec = ObservationSpec::Planes { channels: 3, height: 10, width: 10, stack: 1 };
    let (board, vector) = (named(&["popart", "spectral"]), variants().split_off(8));
    // As much shared memory as any group can ask for.
    let large = vec![variant("categorical atoms=4096"), variant("popart")];
    let (plain, double) = (Extras::default(), Extras { double: true, ..Default::default() });
    let prioritised = Extras { prioritised: true, ..Default::default() };
    let dueling = Extras { dueling: true, ..Default::default() };
    let all = Extras { double: true, prioritised: true, dueling: true };
    for (agents, observation, batch, masked, extras) in [
        (&variants(), SCREEN, 32, false, plain),
        (&variants(), SCREEN, 32, true, all),
        (&named(&["spectral"]), SCREEN, 32, false, double),
        (&[&board[..], &board[..1]].concat(), BOARD, 7, false, prioritised),
        (
            &[vector, variants()[..1].to_vec()].concat(),
            ObservationSpec::Vector { len: 5 },
            32,
            false,
            dueling,
        ),
        (&large, BOARD, MAX_ROWS, true, all),
    ] {
        let codecs: Vec<&dyn Codec> = agents.iter().map(|(_, _, codec)| codec.as_ref()).collect();
        let compiled = compile_device_code_with(&codecs, observation, batch, masked, extras);
        let image = match compiled.unwrap_or_else(|e| panic!("{e}")) {
            Compilation::Compiled(image) => image,
            Compilation::Skipped(why) => return say(&why),
        };
        let has = |kernel: &str| {
            let section = format!(".text.{kernel}\0");
            image.windows(section.len()).any(|bytes| bytes == section.as_bytes())
        };
        for kernel in ["enter", "record", "gather", "targets", "gradients", "choose", "refresh"] {
            assert!(has(kernel), "{codecs:?} lack the kernel {kernel}");
        }
        for kernel in ["draw", "reprioritise"] {
            assert_eq!(has(kernel), extras.prioritised, "{codecs:?}: the kernel {kernel}");
        }
    }
    let without_headers = spectral_nn::cuda::check("header", "#include <cuda.h>", "sm_90");
    assert!(without_headers.is_err(), "a header that is not there");
}
