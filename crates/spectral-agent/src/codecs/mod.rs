//! Value codecs: all that differs between the agents of the paper and their rivals.
//!
//! Every agent is the same DQN. A [`Codec`] says how a reward becomes a training target and how the network's outputs
//! become an action-value; the [learner](crate::learner) owns everything else. A codec is a set of pure functions over
//! slices and a flat state of numbers, in a live copy and a copy frozen at each refresh of the target network, so that the
//! same phases can be written as device functions for a GPU and compared number by number.
//!
//! The state is f64, not f32: a running variance is a difference of running means, and a few doubles per agent cost
//! nothing anywhere.
//!
//! Each codec is one file, which also declares the codec's settings, its agents and the variants that tests run: see
//! [`CodecEntry`]. The list below is the one place that names the built-in ones.

mod choice;
mod entry;
mod graph;

/// Declares the built-in codecs: a module each, whose `entry()` describes it.
macro_rules! builtin {
    ($($(#[$doc:meta])* $module:ident),* $(,)?) => {
        $($(#[$doc])* pub mod $module;)*

        /// The built-in codecs.
        ///
        /// ```
        /// let codecs = spectral_agent::codecs::builtin();
        /// assert!(codecs.iter().any(|codec| codec.name() == "spectral"));
        /// ```
        pub fn builtin() -> Vec<CodecEntry> {
            vec![$($module::entry()),*]
        }
    };
}

builtin!(spectral, compressed, popart, clipped, categorical);

pub use crate::gpu::source::DeviceCodec;
pub use categorical::Categorical;
pub use choice::{MAX_ACTIONS, greedy};
pub use clipped::Clipped;
pub use compressed::Compressed;
pub use entry::{AgentPreset, CodecEntry};
pub use graph::{Function, Graph, Node, Operation, Reduction, Value};
pub use popart::PopArt;
pub use spectral::Spectral;

use crate::settings::{AgentSettings, Setting, SettingError};
use spectral_core::squash::Squash;
use spectral_env::ActionMask;
use std::fmt::Debug;
use std::sync::Arc;

/// What one minibatch looks like to [`Codec::gradient`]. Rows are samples; only the taken action's outputs are shown.
#[derive(Debug)]
pub struct Rows<'a> {
    /// `[batch][K]` outputs of the online network.
    pub outputs: &'a [f32],
    /// `[batch][K]` targets, after [`Codec::before_forward`].
    pub targets: &'a [f32],
    /// `[batch][E]` encoded n-step returns, without the bootstrap; E is [`Codec::encoded`].
    pub returns: &'a [f32],
    /// False for rows that are not to be learned from: too close to a time-out.
    pub live: &'a [bool],
}

/// What both networks say of a minibatch's next states: see [`Codec::compare`].
#[derive(Debug)]
pub struct NextStates<'a> {
    /// `[batch][actions][K]` outputs of the online network.
    pub online: &'a [f32],
    /// `[batch][actions][K]` outputs of the target network.
    pub target: &'a [f32],
    /// Actions of the task.
    pub actions: usize,
    /// The legal actions of each state; empty if all are always legal.
    pub legal: &'a [ActionMask],
}

/// A change of the last layer that keeps or moves outputs: output k becomes `scale[k]`·y + `shift[k]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Affine {
    /// One factor per output.
    pub scale: Vec<f32>,
    /// One offset per output.
    pub shift: Vec<f32>,
}

impl Affine {
    /// The change that changes nothing.
    pub fn identity(outputs: usize) -> Self {
        Affine { scale: vec![1.0; outputs], shift: vec![0.0; outputs] }
    }
}

/// What the outputs of one action look like to people.
#[derive(Clone, Debug, PartialEq)]
pub enum Spectrum {
    /// Only the decoded value means something.
    Value,
    /// One bar per frequency; each counts what [`Codec::frequency_weights`] says.
    Frequencies,
    /// A probability for each of these values.
    Distribution(Vec<f64>),
}

/// How a reward becomes a target and outputs become an action-value.
///
/// Phases of one update, in order: [`encode_reward`](Codec::encode_reward) over the n steps,
/// [`preferences`](Codec::preferences) and [`decode`](Codec::decode) of the next state's outputs to find the
/// [greedy](greedy()) action, [`target`](Codec::target), [`compare`](Codec::compare) if the codec wants it,
/// [`before_forward`](Codec::before_forward), then the online network's forward pass, then
/// [`gradient`](Codec::gradient).
pub trait Codec: Send + Sync + Debug {
    /// K: outputs per action.
    fn outputs(&self) -> usize;

    /// Numbers of an encoded return.
    fn encoded(&self) -> usize {
        1
    }

    /// True if the last layer starts at zero.
    fn zero_init(&self) -> bool {
        false
    }

    /// True if errors are divided by their running magnitude (a detail of the authors' code).
    fn error_correction(&self) -> bool {
        false
    }

    /// True if the last layer trains as if every trunk weight were 1.
    fn undo_last_layer(&self) -> bool {
        true
    }

    /// The state before the first update; its length never changes.
    fn init(&self) -> Vec<f64> {
        Vec::new()
    }

    /// False if rewards are changed on their way in such that large ones cannot be told from small ones.
    fn sees_true_rewards(&self) -> bool {
        true
    }

    /// True if this reward is beyond what the codec can represent. Counted and shown, never silent.
    fn saturates(&self, _reward: f64) -> bool {
        false
    }

    /// Adds `factor` times the encoded reward to `out`, which has [`encoded`](Codec::encoded) elements.
    fn encode_reward(&self, reward: f32, factor: f32, out: &mut [f32]);

    /// The action-value, in true reward units, that K outputs stand for.
    fn decode(&self, outputs: &[f32], state: &[f64]) -> f32;

    /// True if [`preferences`](Codec::preferences) is to be called.
    fn prefers(&self) -> bool {
        false
    }

    /// Writes what the greedy choice goes by, a number for each action of a row of outputs `[action][K]`; larger is better. It
    /// counts in acting, in targets and in evaluation, if [`prefers`](Codec::prefers) says so. Of legal actions with equal
    /// numbers the one with the larger [value](Codec::decode) is chosen, so values alone decide if all numbers stay the zeros
    /// that they are.
    fn preferences(
        &self,
        _outputs: &[f32],
        _state: &[f64],
        _legal: Option<&ActionMask>,
        _preferences: &mut [f32],
    ) {
    }

    /// True if [`compare`](Codec::compare) is to be called, which takes one more forward pass unless double Q-learning makes it.
    fn compares(&self) -> bool {
        false
    }

    /// Called once per update, after targets were made, with both networks' outputs for the next states.
    fn compare(&self, _next: &NextStates<'_>, _state: &mut [f64]) {}

    /// The K targets of one row: an encoded return, γⁿ (0 after a terminal state), the target network's K outputs at
    /// the greedy action and the state frozen with that network.
    fn target(&self, encoded: &[f32], bootstrap: f32, next: &[f32], frozen: &[f64], out: &mut [f32]);

    /// Called with all `[batch][K]` targets before the online network runs: Pop-Art moves its statistics, normalises the
    /// targets in place and writes the change of the last layer that preserves its outputs. True if there is one to make.
    fn before_forward(&self, _targets: &mut [f32], _state: &mut [f64], _change: &mut Affine) -> bool {
        false
    }

    /// Writes the change of the last layer after which outputs mean with the state `to` what they meant with the state `from`.
    /// True if there is one to make. A codec whose [`decode`](Codec::decode) depends on its state needs this: weights of two
    /// moments can be [averaged](crate::average) only if their outputs mean the same.
    fn rebase(&self, _from: &[f64], _to: &[f64], _change: &mut Affine) -> bool {
        false
    }

    /// The action-value, in true reward units, that K targets (after [`before_forward`](Codec::before_forward)) stand for.
    fn target_value(&self, targets: &[f32], state: &[f64]) -> f32 {
        self.decode(targets, state)
    }

    /// Writes `[batch][K]` derivatives of each row's loss by its outputs, not yet divided by the batch, and the K weights with
    /// which they are multiplied on their way to the hidden layers. `gradients` of rows that are not live are ignored.
    fn gradient(&self, rows: &Rows<'_>, state: &mut [f64], gradients: &mut [f32], trunk: &mut [f32]);

    /// True if outputs are frequencies whose activity, mean target and share of the loss are worth logging.
    fn has_frequencies(&self) -> bool {
        false
    }

    /// What each output counts in the action-value, if outputs are frequencies.
    fn frequency_weights(&self) -> Option<&[f64]> {
        None
    }

    /// What the K outputs of an action look like to people: the live page draws it.
    fn spectrum(&self) -> Spectrum {
        if self.has_frequencies() { Spectrum::Frequencies } else { Spectrum::Value }
    }

    /// Turns K outputs, in place, into what [`spectrum`](Codec::spectrum) says: heights of bars, or probabilities.
    fn show(&self, _outputs: &mut [f32]) {}

    /// What [`decode`](Codec::decode) does with this state, as a graph for programs of others; `None` if the codec cannot be
    /// exported.
    fn decode_graph(&self, _state: &[f64]) -> Option<Graph> {
        None
    }

    /// The same phases as device code, for training on a GPU; `None` keeps the codec on the CPU. Device code that lacks
    /// `prefer` or `compare` is refused if the codec [prefers](Codec::prefers) or [compares](Codec::compares).
    fn device(&self) -> Option<DeviceCodec> {
        None
    }

    /// Statistics worth logging, by column name. The names never change.
    fn statistics(&self, _state: &[f64]) -> Vec<(String, f64)> {
        Vec::new()
    }
}

/// A built-in codec and its agent's settings from a text: the codec's name, then `key=value` pairs for either. `agent` holds
/// what the text does not set.
///
/// ```
/// use spectral_agent::codecs::configure;
/// let (settings, codec) = configure("spectral max_frequency=9 batch=16", Default::default())?;
/// assert_eq!((settings.batch, codec.outputs()), (16, 10));
/// # Ok::<(), spectral_agent::settings::SettingError>(())
/// ```
pub fn configure(text: &str, agent: AgentSettings) -> Result<(AgentSettings, Arc<dyn Codec>), SettingError> {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let codecs = builtin();
    match codecs.iter().find(|codec| codec.name() == name) {
        Some(codec) => codec.configure(agent, rest),
        None => {
            let names: Vec<&str> = codecs.iter().map(CodecEntry::name).collect();
            Err(SettingError::bad("codec", name, names.join(" | ")))
        }
    }
}

/// Every variant of every built-in codec that tests run: its name and the text for [`configure`].
pub fn test_variants() -> Vec<String> {
    let of = |codec: &CodecEntry| codec.test_variants().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    builtin().iter().flat_map(of).collect()
}

/// What the device code's `Squash` reads: its kind and ε.
fn squash_constants(squash: Squash) -> [f64; 2] {
    match squash {
        Squash::Sqrt { epsilon } => [0.0, epsilon],
        Squash::Log { epsilon } => [1.0, epsilon],
        Squash::Symlog => [2.0, 0.0],
    }
}

/// Refuses an ε that squashing functions cannot have.
fn check_transform_epsilon(epsilon: f64) -> Result<(), SettingError> {
    match (0.0..=1e6).contains(&epsilon) {
        true => Ok(()),
        false => Err(SettingError::bad("transform_epsilon", epsilon.show(), "a number from 0 to 1e6")),
    }
}

/// y − T, element by element: the gradient of half the squared error, for codecs that use it.
pub fn squared_error_gradient(rows: &Rows<'_>, gradients: &mut [f32]) {
    for ((g, y), t) in gradients.iter_mut().zip(rows.outputs).zip(rows.targets) {
        *g = y - t;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    /// Every codec, at defaults and at its main variants.
    fn all() -> Vec<(String, Arc<dyn Codec>)> {
        let build = |name: String| {
            let (_, codec) = configure(&name, AgentSettings::default()).unwrap();
            (name, codec)
        };
        test_variants().into_iter().map(build).collect()
    }

    /// A network that already predicts its targets gets no gradient, whatever the codec.
    #[test]
    fn a_fixed_point_has_no_gradient() {
        for (name, codec) in all() {
            let k = codec.outputs();
            let mut state = codec.init();
            // Outputs that stand for a value; a terminal transition whose return is what they stand for.
            let outputs = vec![0.0; k];
            let mut encoded = vec![0.0; codec.encoded()];
            codec.encode_reward(0.0, 1.0, &mut encoded);
            let mut targets = vec![0.0; k];
            codec.target(&encoded, 0.0, &outputs, &state, &mut targets);
            codec.before_forward(&mut targets, &mut state, &mut Affine::identity(k));
            if name.contains("categorical") {
                continue; // A uniform softmax is not the distribution of zero; its own tests cover this.
            }
            let (mut gradients, mut trunk) = (vec![1.0; k], vec![1.0; k]);
            let rows = Rows { outputs: &outputs, targets: &targets, returns: &encoded, live: &[true] };
            codec.gradient(&rows, &mut state, &mut gradients, &mut trunk);
            assert!(gradients.iter().all(|g| g.abs() < 1e-6), "{name}: {gradients:?}");
            assert!(trunk.iter().all(|w| w.is_finite() && *w > 0.0), "{name}: {trunk:?}");
        }
    }

    /// Stepping outputs against the gradient brings the decoded value towards the target, for a small and a large reward.
    ///
    /// With a whole gradient, squared errors arrive, and twice the gradient would already fail. A small part of one would not
    /// show everywhere: the mean over a support of ±10⁷ is known to about a tenth, because a float has 24 bits.
    #[test]
    fn gradients_point_at_the_target() {
        const STEP: f32 = 1.0;
        for (name, codec) in all() {
            for reward in [-1.0f32, 0.7, 30.0, -900.0] {
                let k = codec.outputs();
                let mut state = codec.init();
                let mut encoded = vec![0.0; codec.encoded()];
                codec.encode_reward(reward, 1.0, &mut encoded);
                let mut targets = vec![0.0; 2 * k];
                let (first, second) = targets.split_at_mut(k);
                codec.target(&encoded, 0.0, &vec![0.0; k], &state, first);
                codec.target(&vec![0.0; codec.encoded()], 0.0, &vec![0.0; k], &state, second);
                let mut affine = Affine::identity(k);
                codec.before_forward(&mut targets, &mut state, &mut affine);
                let mut outputs: Vec<f32> = (0..2 * k).map(|i| affine.shift[i % k]).collect();
                let want = codec.target_value(&targets[..k], &state);
                let before = (codec.decode(&outputs[..k], &state) - want).abs();
                let returns: Vec<f32> = encoded.iter().copied().chain(vec![0.0; codec.encoded()]).collect();
                let (mut gradients, mut trunk) = (vec![0.0; 2 * k], vec![0.0; k]);
                let rows =
                    Rows { outputs: &outputs, targets: &targets, returns: &returns, live: &[true, true] };
                codec.gradient(&rows, &mut state, &mut gradients, &mut trunk);
                for (y, g) in outputs.iter_mut().zip(&gradients) {
                    *y -= STEP * g;
                }
                let after = (codec.decode(&outputs[..k], &state) - want).abs();
                assert!(after < before, "{name}, reward {reward}: {before} then {after}, towards {want}");
            }
        }
    }

    #[test]
    fn what_a_codec_refuses_names_the_setting() {
        for (text, key) in [
            ("spectral statistics_rate=0", "statistics_rate"),
            ("spectral base=0.5", "base"),
            ("popart statistics_rate=1", "statistics_rate"),
            ("compressed transform_epsilon=-1", "transform_epsilon"),
            ("categorical atoms=1", "atoms"),
            ("categorical gauss_bins=0", "gauss_bins"),
            ("categorical support_max=-3", "support_max"),
            ("clipped base=2", "there is no setting 'base'"),
            ("clipped batch=0", "batch"),
            ("clip", "spectral | compressed"),
        ] {
            let said = configure(text, AgentSettings::default()).unwrap_err().to_string();
            assert!(said.contains(key), "{text}: {said}");
        }
    }

    /// What a codec does in the greedy choice, it says, and its device code has it; otherwise a GPU would refuse the codec.
    #[test]
    fn codecs_say_what_they_do_in_the_greedy_choice() {
        let mut preferring = 0;
        for (name, codec) in all() {
            crate::gpu::source::device_code(codec.as_ref()).unwrap_or_else(|e| panic!("{name}: {e}"));
            let outputs: Vec<f32> = (0..3 * codec.outputs()).map(|i| (i as f32).sin()).collect();
            let mut preferences = [0.0; 3];
            codec.preferences(&outputs, &codec.init(), None, &mut preferences);
            assert_eq!(codec.prefers(), preferences != [0.0; 3], "{name}");
            preferring += usize::from(codec.prefers());
        }
        assert!(preferring >= 2, "the variants of steady do");
    }

    /// A codec's settings live beside the agent's in one table, so no name may stand for two things.
    #[test]
    fn keys_do_not_collide_with_those_of_every_agent() {
        for codec in builtin() {
            for key in codec.schema().keys() {
                assert!(!AgentSettings::KEYS.contains(key), "{}: {key}", codec.name());
            }
        }
    }
}
