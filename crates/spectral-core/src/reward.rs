//! Rewards that no agent can learn from are errors, never silently clipped or skipped.

use std::fmt;

/// A task returned a reward that is not a usable number.
#[derive(Clone, Debug, PartialEq)]
pub struct RewardError {
    /// The task's name.
    pub task: String,
    /// The step of the task at which the reward was given.
    pub step: u64,
    /// The reward.
    pub reward: f64,
}

impl fmt::Display for RewardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RewardError { task, step, reward } = self;
        write!(f, "task `{task}` gave a reward of {reward:e} at step {step}: ")?;
        if reward.is_finite() {
            write!(
                f,
                "agents compute in single precision, which ends at {:e}; scale the task's rewards",
                f32::MAX
            )
        } else {
            write!(f, "rewards must be finite numbers; correct the task's reward at that step")
        }
    }
}

impl std::error::Error for RewardError {}

/// Accepts every finite reward that single precision can hold; anything else is an error that names task and
/// step.
///
/// ```
/// use spectral_core::reward::check_reward;
/// assert!(check_reward(-1e9, "pong", 3).is_ok());
/// let error = check_reward(f64::NAN, "pong", 17).unwrap_err().to_string();
/// assert!(error.contains("`pong`") && error.contains("step 17"));
/// ```
#[inline]
pub fn check_reward(r: f64, task: &str, step: u64) -> Result<(), RewardError> {
    if (r as f32).is_finite() { Ok(()) } else { Err(RewardError { task: task.to_owned(), step, reward: r }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_rewards_are_refused_with_the_reason() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e39, -1e300] {
            let error = check_reward(bad, "investor", 12_345).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("`investor`") && text.contains("step 12345"), "{text}");
            assert_eq!(text.contains("single precision"), bad.is_finite(), "{text}");
        }
        for good in [0.0, -0.0, 1e-300, 1e38, -3.4e38] {
            assert_eq!(check_reward(good, "investor", 0), Ok(()));
        }
    }
}
