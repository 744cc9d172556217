//! Instances of a task that are stepped by one call, as vector environments are.

use crate::env::Env;
use crate::registry::TaskError;
use spectral_core::rng::Stream;

/// Several instances of a task and what steps them together.
///
/// Each instance is still an [`Env`] of one agent. Its `reset` and `step` only hand out what [`StepTogether`] has done for it
/// just before; everything else works as it does for a task alone.
pub struct TaskGroup {
    /// One instance per agent.
    pub tasks: Vec<Box<dyn Env>>,
    /// Resets and steps them.
    pub stepper: Box<dyn StepTogether>,
}

/// Steps the instances of a [`TaskGroup`] by one call. Agents learn meanwhile, on other threads; all calls come from the
/// thread that trains.
pub trait StepTogether: Send {
    /// Begins an episode in these instances, each with its stream.
    fn reset(&mut self, tasks: &mut [(usize, Stream)]) -> Result<(), TaskError>;

    /// Whether an instance can be observed and stepped now. One that resets itself in the course of a step is not ready
    /// between [`reset`](StepTogether::reset) and that step.
    fn is_ready(&self, _task: usize) -> bool {
        true
    }

    /// Plays actions, each an instance and an index into its actions. Instances that are not named stay as they are.
    fn step(&mut self, actions: &[(usize, usize)]) -> Result<(), TaskError>;
}
