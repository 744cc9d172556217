//! What an actor counts, and when its periods are over.

use crate::plan::{AgentPlan, Plan};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::schedule::Linear;

/// The protocol's periods in agent steps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Clock {
    pub(super) frames_per_step: u64,
    pub(super) learning_starts: u64,
    pub(super) update_period: u64,
    pub(super) target_period: u64,
    pub(super) log_period: u64,
    pub(super) exploration: Linear,
}

/// State that changes with every step and is saved with every checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counters {
    pub(super) steps: u64,
    pub(super) episodes: u64,
    pub(super) saturated: u64,
    /// Whether the next step begins with a reset.
    pub(super) fresh: bool,
    pub(super) player_score: u8,
    pub(super) episode_steps: u64,
    pub(super) episode_return: f64,
    pub(super) episode_score: f64,
    /// In the current logging interval: number of episodes, sum of returns, sum of scores.
    pub(super) interval: [f64; 3],
    /// A moving average of scores. Only checkpoints have it, which versions that show it may read.
    pub(super) smoothed_score: f64,
    /// The step at which replay was last empty: 0, or the step at which a light checkpoint was resumed.
    pub(super) emptied: u64,
    /// Steps at which the run was resumed in the middle of an episode of a task that cannot be saved.
    pub(super) seams: Vec<u64>,
}

impl Clock {
    pub(super) fn new(plan: &Plan, agent: &AgentPlan, frames_per_step: u64) -> Self {
        let s = &agent.settings;
        let steps = |frames: u64| frames.div_ceil(frames_per_step).max(1);
        Clock {
            frames_per_step,
            learning_starts: steps(s.learning_starts),
            update_period: steps(s.update_period),
            target_period: steps(s.target_period),
            log_period: steps(plan.run.log_frames),
            exploration: Linear {
                from: s.epsilon_start,
                to: s.epsilon_final,
                start: s.learning_starts,
                duration: s.epsilon_frames,
            },
        }
    }
}

impl Counters {
    /// Gives up the episode under way; the next step begins another.
    pub(super) fn abandon_episode(&mut self, replay: u64) {
        self.fresh = true;
        (self.episode_steps, self.episode_return, self.episode_score) = (0, 0.0, 0.0);
        let steps = self.steps;
        self.seams.retain(|seam| seam + replay > steps);
        self.seams.push(steps);
    }

    pub(super) fn save(&self, out: &mut StateWriter) {
        let mut counts = vec![self.steps, self.episodes, self.saturated, self.episode_steps];
        // What follows is rare, and checkpoints of older versions never have it.
        if self.emptied > 0 || !self.seams.is_empty() {
            counts.push(self.emptied);
            counts.extend(&self.seams);
        }
        out.u64s(&counts);
        out.bool(self.fresh);
        out.u8(self.player_score);
        out.f64s(&[self.episode_return, self.episode_score, self.smoothed_score]);
        out.f64s(&self.interval);
    }

    /// `longest` is how many steps the longest run has. Counters beyond that would overflow later.
    pub(super) fn restore(from: &mut StateReader<'_>, longest: u64) -> Result<Self, StateError> {
        let foreign = || StateError("counters of another version".into());
        let counts = from.u64s()?;
        if let Some(beyond) = counts.iter().find(|&&count| count > longest) {
            return Err(StateError(format!("counters that no run reaches ({beyond})")));
        }
        let (&[steps, episodes, saturated, episode_steps], rest) =
            counts.split_first_chunk().ok_or_else(foreign)?;
        let (emptied, seams) = match rest {
            [] => (0, Vec::new()),
            [emptied, seams @ ..] if rest.iter().all(|&step| step <= steps) => (*emptied, seams.to_vec()),
            _ => return Err(foreign()),
        };
        let (fresh, player_score) = (from.bool()?, from.u8()?);
        let &[episode_return, episode_score, smoothed_score] = from.f64s()?.as_slice() else {
            return Err(foreign());
        };
        let interval = from.f64s()?.try_into().map_err(|_| foreign())?;
        Ok(Counters {
            steps,
            episodes,
            saturated,
            fresh,
            player_score,
            episode_steps,
            episode_return,
            episode_score,
            interval,
            smoothed_score,
            emptied,
            seams,
        })
    }
}
