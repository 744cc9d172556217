//! The running means of a group's weights: fetched from the device after a refresh and mixed on the host, beside training.
//!
//! Target networks stay as they are until the next refresh, so there is time: they are copied by a stream of their own, and a
//! thread waits for the copies and mixes. Only the next refresh, or somebody who asks for a mean, waits for that thread.

use super::{CudaGroup, DeviceAgent};
use crate::average::{Average, ModelKind};
use crate::gpu::abi::{Counters, Staged};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_nn::abi::from_bytes;
use spectral_nn::cuda::{CudaError, Device, Event, Memory, Networks, Stream, Weights};
use spectral_nn::{Architecture, DenseHead};
use std::thread::JoinHandle;

/// The means of the agents that keep one.
pub(super) struct Averages {
    /// Copies run beside updates.
    copies: Stream,
    refreshed: Event,
    desk: Where,
}

/// Where the means are.
enum Where {
    Here(Box<Desk>),
    /// With the thread that mixes.
    Away(JoinHandle<Result<Box<Desk>, CudaError>>),
    /// Lost with the device.
    Lost(CudaError),
}

/// Everything that mixing takes.
struct Desk {
    /// Per agent, its mean if it keeps one.
    slots: Vec<Option<Slot>>,
    /// What was fetched, in the host's memory.
    fetched: Memory,
    scratch: Vec<f32>,
}

/// One agent's mean, and where its numbers are fetched to.
struct Slot {
    average: Average,
    /// If the device holds dueling streams as one layer.
    dense: Option<DenseHead>,
    /// Numbers of the network on the device, and of the codec's state.
    stored: usize,
    state: usize,
    /// Bytes before its counters, after which come state and parameters.
    at: usize,
    /// Whether it took part in the refresh.
    refreshed: bool,
}

impl Slot {
    fn state_at(&self) -> usize {
        self.at + size_of::<Counters>()
    }
    fn parameters_at(&self) -> usize {
        self.state_at() + 8 * self.state
    }
    fn end(&self) -> usize {
        (self.parameters_at() + 4 * self.stored).next_multiple_of(16)
    }
}

impl Averages {
    /// Those of a group; `None` if no agent keeps any.
    pub fn of(
        device: &Device,
        members: &[DeviceAgent],
        networks: &Networks,
        shapes: &[Architecture],
    ) -> Result<Option<Averages>, CudaError> {
        let mut slots = Vec::with_capacity(members.len());
        let mut end = 0;
        for (agent, (member, shape)) in members.iter().zip(shapes).enumerate() {
            let average = Average::of(&member.spec.settings, member.spec.codec.clone(), shape.clone());
            let slot = average.map(|average| Slot {
                average,
                dense: networks.dense(agent),
                stored: networks.stored(agent),
                state: member.state,
                at: end,
                refreshed: false,
            });
            end = slot.as_ref().map_or(end, Slot::end);
            slots.push(slot);
        }
        if end == 0 {
            return Ok(None);
        }
        let desk = Desk { slots, fetched: device.pinned(end)?, scratch: Vec::new() };
        let (copies, refreshed) = (device.stream()?, device.mark()?);
        Ok(Some(Averages { copies, refreshed, desk: Where::Here(Box::new(desk)) }))
    }

    /// Waits until everything fetched is mixed.
    fn settle(&mut self) -> Result<&mut Desk, CudaError> {
        if let Where::Away(_) = self.desk {
            let gone = CudaError("the thread that averages weights has ended".into());
            let Where::Away(thread) = std::mem::replace(&mut self.desk, Where::Lost(gone.clone())) else {
                unreachable!("it was away")
            };
            self.desk = match thread.join().unwrap_or(Err(gone)) {
                Ok(desk) => Where::Here(desk),
                Err(error) => Where::Lost(error),
            };
        }
        match &mut self.desk {
            Where::Here(desk) => Ok(desk),
            Where::Lost(error) => Err(error.clone()),
            Where::Away(_) => unreachable!("it was joined"),
        }
    }

    /// Waits for everything that was begun, whatever comes of it.
    pub fn end(&mut self) {
        let _ = self.settle();
        let _ = self.copies.synchronise();
    }

    /// Has the staged agents' target networks fetched and mixed, once what is queued on `stream` is done.
    fn fetch(
        &mut self,
        stream: &Stream,
        networks: &Networks,
        members: &[DeviceAgent],
        staged: impl Fn(usize) -> bool,
    ) -> Result<(), CudaError> {
        self.settle()?;
        let gone = CudaError("fetching weights for their mean failed before".into());
        let Where::Here(mut desk) = std::mem::replace(&mut self.desk, Where::Lost(gone)) else {
            unreachable!("it has settled")
        };
        let Desk { slots, fetched, .. } = &mut *desk;
        let averaged = || members.iter().enumerate().zip(slots.iter());
        // The counters move with the next update, so they are copied before it; the rest stays until the next refresh.
        for ((_, member), slot) in averaged() {
            if let Some(slot) = slot {
                // SAFETY: memory of the group, which waits for its streams and for the thread before it goes; each copy has its own
                // part of the desk's, which nobody reads before the thread has waited for all copies.
                unsafe {
                    stream.fetch(&member.counters, 0..size_of::<Counters>(), fetched, slot.at)?;
                }
            }
        }
        self.copies.wait_for(stream, &self.refreshed)?;
        for ((agent, member), slot) in averaged() {
            if let Some(slot) = slot {
                let frozen = 8 * slot.state..16 * slot.state;
                // SAFETY: as for the counters.
                unsafe {
                    self.copies.fetch(&member.doubles, frozen, fetched, slot.state_at())?;
                    networks.fetch(&self.copies, Weights::Target, agent, fetched, slot.parameters_at())?;
                }
            }
        }
        for (agent, slot) in slots.iter_mut().enumerate() {
            slot.iter_mut().for_each(|slot| slot.refreshed = staged(agent));
        }
        let copies = self.copies.clone();
        let thread = std::thread::Builder::new().name("average".into()).spawn(move || {
            copies.synchronise()?;
            desk.mix();
            Ok(desk)
        });
        let thread = thread.map_err(|e| CudaError(format!("the system gives no thread: {e}")))?;
        self.desk = Where::Away(thread);
        Ok(())
    }
}

impl Desk {
    fn mix(&mut self) {
        let bytes = self.fetched.host_bytes();
        for slot in self.slots.iter_mut().flatten().filter(|slot| slot.refreshed) {
            let (counters, state) = (slot.at..slot.state_at(), slot.state_at()..slot.parameters_at());
            let counters: Counters = from_bytes(&bytes[counters]).expect("as many bytes as there are");
            // As the kernel, which leaves the target of such an agent as it was.
            if counters.not_finite != 0 {
                continue;
            }
            let state: Vec<f64> = bytes[state].as_chunks().0.iter().map(|x| f64::from_le_bytes(*x)).collect();
            let parameters = bytes[slot.parameters_at()..][..4 * slot.stored].as_chunks().0;
            self.scratch.clear();
            self.scratch.extend(parameters.iter().map(|x| f32::from_le_bytes(*x)));
            match &slot.dense {
                None => slot.average.refreshed(counters.updates, &self.scratch, &state),
                Some(dense) => {
                    slot.average.refreshed(counters.updates, &dense.collect(&self.scratch), &state);
                }
            }
        }
    }
}

impl CudaGroup {
    /// Queues a refresh of the staged agents' targets, and what follows from it for the means of their weights.
    pub(super) fn queue_refresh_and_averages(&mut self) -> Result<(), CudaError> {
        // What the last refresh brought must be fetched before it is overwritten.
        if let Some(averages) = &mut self.averages {
            averages.settle()?;
        }
        self.queue_refresh()?;
        let Some(averages) = &mut self.averages else { return Ok(()) };
        let size = size_of::<Staged>();
        let active: Vec<bool> = self
            .staging
            .host_bytes()
            .chunks_exact(size)
            .map(|bytes| from_bytes::<Staged>(bytes).is_some_and(|staged| staged.active != 0))
            .collect();
        averages.fetch(&self.stream, &self.networks, &self.members, |agent| active[agent])
    }

    /// The mean of an agent's weights, if it keeps one, with everything mixed that was fetched.
    pub(super) fn average(&mut self, agent: usize) -> Result<Option<&mut Average>, CudaError> {
        let Some(averages) = &mut self.averages else { return Ok(None) };
        Ok(averages.settle()?.slots[agent].as_mut().map(|slot| &mut slot.average))
    }

    pub(super) fn write_model(
        &mut self,
        agent: usize,
        kind: ModelKind,
        out: &mut StateWriter,
    ) -> Result<bool, CudaError> {
        match kind {
            ModelKind::Last => {
                let (online_state, _) = self.states(agent)?;
                out.f32s(&self.networks.read(Weights::Online, agent)?);
                out.f64s(&online_state);
                Ok(true)
            }
            ModelKind::Average => Ok(self.average(agent)?.is_some_and(|average| average.save_model(out))),
        }
    }

    pub(super) fn write_average(&mut self, agent: usize, out: &mut StateWriter) -> Result<bool, CudaError> {
        Ok(self.average(agent)?.map(|average| average.save(out)).is_some())
    }

    pub(super) fn read_average(
        &mut self,
        agent: usize,
        from: &mut StateReader<'_>,
    ) -> Result<(), StateError> {
        let none = || StateError("a mean of the weights of an agent that keeps none".into());
        self.average(agent).map_err(|e| StateError(e.0))?.ok_or_else(none)?.restore(from)
    }
}
