//! The settings that every agent has. Those of one codec alone are declared beside it, in [`codecs`](crate::codecs).

pub use spectral_core::settings::{Schema, Setting, SettingError, SettingInfo, Settings, Values};
use spectral_core::{choices, settings};
use std::ops::RangeInclusive;

choices! {
    /// Which network.
    NetworkKind {
        /// By the observation: Nature CNN for screens, a small CNN for boards, an MLP for vectors.
        Auto = "auto",
        /// Nature DQN's convolutions.
        Nature = "nature",
        /// One convolution and one hidden layer.
        SmallCnn = "small-cnn",
        /// Fully connected layers.
        Mlp = "mlp",
    }
}

/// The most refreshes of the target network over which weights are averaged.
const MAX_REFRESHES: u64 = 10_000;

settings! {
    /// What every agent has, whatever its codec. The defaults are the paper's.
    AgentSettings {
        /// Adam's step size.
        learning_rate: f64 = 2.5e-5,
        /// Adam's decay of the first moment.
        adam_beta1: f64 = 0.9,
        /// Adam's decay of the second moment.
        adam_beta2: f64 = 0.999,
        /// Adam's regularisation constant.
        adam_epsilon: f64 = 0.005 / 32.0,
        /// Discount per agent step.
        discount: f64 = 0.996_655_493_412_596_4,
        /// Steps of reward before bootstrapping.
        n_step: usize = 3,
        /// Transitions in a minibatch.
        batch: usize = 32,
        /// Transitions that replay holds.
        replay: usize = 1_000_000,
        /// Frames before the first update.
        learning_starts: u64 = 200_000,
        /// Frames from one update to the next.
        update_period: u64 = 16,
        /// Frames from one refresh of the target network to the next.
        target_period: u64 = 40_000,
        /// Frames over which the running mean of the weights reaches back, a model of its own (0: none).
        average: u64 = 0,
        /// Exploration before learning starts.
        epsilon_start: f64 = 1.0,
        /// Exploration in the end.
        epsilon_final: f64 = 0.01,
        /// Frames, after learning starts, over which exploration falls.
        epsilon_frames: u64 = 4_000_000,
        /// The loss of a life ends the episode for the learner.
        life_loss_terminal: bool = true,
        /// Which network.
        network: NetworkKind = NetworkKind::Auto,
        /// Widths of the MLP's hidden layers, separated by commas.
        hidden: String = "128,128".into(),
        /// Double Q-learning: the online network chooses the action that the target network values.
        double: bool = false,
        /// Dueling heads: a value stream and an advantage stream.
        dueling: bool = false,
        /// Prioritised replay.
        prioritised: bool = false,
        /// Prioritised: how strongly priorities count (0: uniform).
        priority_exponent: f64 = 0.6,
        /// Prioritised: how far sampling bias is corrected (1: fully).
        importance_exponent: f64 = 0.4,
    }
}

impl AgentSettings {
    /// Checks what no single value can show to be wrong.
    pub fn validate(&self) -> Result<(), SettingError> {
        check_positive("learning_rate", self.learning_rate)?;
        check_positive("adam_epsilon", self.adam_epsilon)?;
        for (key, value) in [
            ("epsilon_start", self.epsilon_start),
            ("epsilon_final", self.epsilon_final),
            ("priority_exponent", self.priority_exponent),
            ("importance_exponent", self.importance_exponent),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(SettingError::bad(key, value.show(), "a number from 0 to 1"));
            }
        }
        check_fraction("discount", self.discount)?;
        check_fraction("adam_beta1", self.adam_beta1)?;
        check_fraction("adam_beta2", self.adam_beta2)?;
        check_count("n_step", self.n_step, 1..=1000)?;
        check_count("batch", self.batch, 1..=65_536)?;
        for (key, value) in [("update_period", self.update_period), ("target_period", self.target_period)] {
            if value == 0 {
                return Err(SettingError::bad(key, "0", "at least one frame"));
            }
        }
        // A mean in f32 would no longer move by smaller parts of a difference.
        if self.average / MAX_REFRESHES > self.target_period {
            let most = format!("at most {MAX_REFRESHES} times target_period");
            return Err(SettingError::bad("average", self.average.show(), most));
        }
        if self.replay < self.batch + self.n_step + 8 {
            return Err(SettingError::bad("replay", self.replay.show(), "room for at least one minibatch"));
        }
        self.hidden_widths().map(|_| ())
    }

    /// Settings that came after runs had been made, with the values that mean what there was before there was a choice. With these
    /// values a run is the same run as before.
    pub const LATER: &[(&str, &str)] = &[("average", "0")];

    /// The MLP's hidden widths as numbers.
    pub fn hidden_widths(&self) -> Result<Vec<usize>, SettingError> {
        let expected = "widths from 1 to 65536 separated by commas, such as \"128,128\"";
        let widths: Result<Vec<usize>, _> =
            self.hidden.split(',').map(|w| w.trim().parse::<usize>()).collect();
        match widths {
            Ok(widths) if widths.iter().all(|w| (1..=65_536).contains(w)) => Ok(widths),
            _ => Err(SettingError::bad("hidden", self.hidden.clone(), expected)),
        }
    }
}

/// Refuses what is not above 0; NaN is not.
pub fn check_positive(key: &str, value: f64) -> Result<(), SettingError> {
    match value.partial_cmp(&0.0) {
        Some(std::cmp::Ordering::Greater) => Ok(()),
        _ => Err(SettingError::bad(key, value.show(), "a number above 0")),
    }
}

/// Refuses what is not in [0, 1).
pub fn check_fraction(key: &str, value: f64) -> Result<(), SettingError> {
    match (0.0..1.0).contains(&value) {
        true => Ok(()),
        false => Err(SettingError::bad(key, value.show(), "a number from 0 up to, but not including, 1")),
    }
}

/// Refuses a count outside a range.
pub fn check_count(key: &str, value: usize, range: RangeInclusive<usize>) -> Result<(), SettingError> {
    match range.contains(&value) {
        true => Ok(()),
        false => Err(SettingError::bad(key, value.show(), format!("{} to {}", range.start(), range.end()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_papers() {
        let s = AgentSettings::default();
        assert_eq!(s.discount, 0.99f64.powf(1.0 / 3.0));
        assert_eq!((s.learning_rate, s.adam_epsilon), (2.5e-5, 0.005 / 32.0));
        assert_eq!((s.n_step, s.batch), (3, 32));
        s.validate().unwrap();
    }

    #[test]
    fn wrong_keys_and_values_say_what_would_be_right() {
        let mut s = AgentSettings::default();
        let message = s.set("learning_rat", "1").unwrap_err().to_string();
        assert!(message.contains("learning_rate"), "{message}");
        let message = s.set("network", "small").unwrap_err().to_string();
        assert!(message.contains("auto | nature"), "{message}");
        assert!(s.set("discount", "NaN").is_err());
        s.set("discount", "1.0").unwrap();
        assert!(s.validate().unwrap_err().to_string().contains("discount"));
    }
}
