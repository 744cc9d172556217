//! The score of an agent while it trains, the same wherever it is shown: the mean of its last training episodes.

use std::collections::VecDeque;

/// Episodes over which a score is the mean.
const EPISODES: usize = 20;

/// Scores of an agent's last training episodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecentScores(VecDeque<f64>);

impl RecentScores {
    /// Adds the score of one more episode.
    pub fn push(&mut self, score: f64) {
        if self.0.len() == EPISODES {
            self.0.pop_front();
        }
        self.0.push_back(score);
    }

    /// Their mean, once there is one.
    pub fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.iter().sum::<f64>() / self.0.len() as f64)
    }
}

impl FromIterator<f64> for RecentScores {
    fn from_iter<T: IntoIterator<Item = f64>>(scores: T) -> Self {
        let mut recent = RecentScores::default();
        scores.into_iter().for_each(|score| recent.push(score));
        recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_episodes_count_and_older_ones_do_not() {
        assert_eq!(RecentScores::default().mean(), None);
        assert_eq!([3.0, 5.0].into_iter().collect::<RecentScores>().mean(), Some(4.0));
        let many: RecentScores = (1..=60).map(f64::from).collect();
        assert_eq!(many.mean(), Some(50.5));
    }
}
