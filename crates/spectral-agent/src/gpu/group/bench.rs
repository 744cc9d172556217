//! What benchmarks need of a group and training does not: its pieces alone, and replay that seems to have been played.

use super::{CudaGroup, failed};
use crate::gpu::abi::Counters;
use crate::lockstep::DeviceFailure;
use spectral_nn::cuda::Stream;

impl CudaGroup {
    /// Counts the records up to number `newest` as played, in the middle of an episode; what they hold was put there
    /// before. For benchmarks.
    #[doc(hidden)]
    pub fn pretend_newest(&mut self, agent: usize, newest: u64) -> Result<(), DeviceFailure> {
        let write = || {
            let mut counters = Counters { newest, starting: 0, ..self.counters(agent)? };
            counters.floor = 0;
            let member = &self.members[agent];
            if let Some(priorities) = &member.priorities {
                priorities.write(vec![1.0; newest.min(member.ring.capacity as u64) as usize])?;
            }
            member.counters.write(0, &[counters])
        };
        write().map_err(failed)?;
        let ring = &mut self.members[agent].ring;
        (ring.newest, ring.floor) = (newest, 0);
        Ok(())
    }

    /// Queues one update of every agent alone, without a step: for benchmarks. Only agents that were staged in the last
    /// submission take part.
    pub fn queue_update_alone(&self) -> Result<(), DeviceFailure> {
        self.graphs().update.launch().map_err(failed)
    }

    /// Queues action selection alone: for benchmarks.
    pub fn queue_act_alone(&self) -> Result<(), DeviceFailure> {
        self.graphs().act.launch().map_err(failed)
    }

    /// The stream that the group's work is queued on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}
