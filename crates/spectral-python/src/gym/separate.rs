//! Environments of single agents, stepped one after another by one call.

use super::lock;
use super::member::{Group, seed};
use spectral_env::{StepTogether, Stream, TaskError};
use std::sync::Arc;

/// Steps environments one after another on the thread that trains, and takes Python's lock once for all of them.
pub struct SeparateStepper(pub Arc<Group>);

impl StepTogether for SeparateStepper {
    fn reset(&mut self, tasks: &mut [(usize, Stream)]) -> Result<(), TaskError> {
        let Group { source, slots } = self.0.as_ref();
        source.attached(|py| {
            for (task, stream) in tasks {
                let mut slot = lock(&slots[*task]);
                slot.reset(py, source, seed(stream))?;
                slot.is_reset = true;
            }
            Ok(())
        })
    }

    fn step(&mut self, actions: &[(usize, usize)]) -> Result<(), TaskError> {
        let Group { source, slots } = self.0.as_ref();
        source.attached(|py| {
            for &(task, action) in actions {
                let mut slot = lock(&slots[task]);
                let step = slot.play(py, source, action)?;
                slot.step = Some(step);
            }
            Ok(())
        })
    }
}
