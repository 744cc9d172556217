//! One agent's replay in a device's memory, or its observations in pinned memory of the host.

use spectral_env::{ObservationSpec, TaskSpec};
use spectral_nn::cuda::{CudaError, Device, Memory};

/// Rings of observations, actions, rewards, flags and scores, and of legal actions if the task says which they are.
pub(super) struct Ring {
    pub frames: Memory,
    /// Whether they are in the host's memory.
    pub host_resident: bool,
    /// Rewards, then actions, flags and scores, then legal actions.
    pub small: Memory,
    pub capacity: usize,
    /// Bytes of one observation.
    pub frame: usize,
    /// Bytes of one state's legal actions, or 0.
    pub mask: usize,
    /// One past the newest complete record, and the first that is not gone, as the device's counters say.
    pub newest: u64,
    pub floor: u64,
}

/// Bytes of a record without its observation.
pub(super) fn small_bytes(task: &TaskSpec) -> usize {
    7 + task.mask_bytes()
}

/// Bytes of an observation.
pub(super) fn frame_bytes(spec: ObservationSpec) -> usize {
    match spec {
        ObservationSpec::Planes { .. } => spec.len(),
        ObservationSpec::Vector { .. } => 4 * spec.len(),
    }
}

impl Ring {
    /// A ring for `capacity` records; its observations lie in the host's memory if `host_resident`.
    pub fn new(
        device: &Device,
        task: &TaskSpec,
        capacity: usize,
        host_resident: bool,
    ) -> Result<Ring, CudaError> {
        let frame = frame_bytes(task.observation);
        let bytes = capacity * frame;
        let frames = if host_resident { device.pinned(bytes)? } else { device.zeros(bytes)? };
        Ok(Ring {
            frames,
            host_resident,
            small: device.zeros(small_bytes(task) * capacity)?,
            capacity,
            frame,
            mask: task.mask_bytes(),
            newest: 0,
            floor: 0,
        })
    }

    pub fn rewards(&self) -> u64 {
        self.small.at()
    }
    pub fn actions(&self) -> u64 {
        self.small.offset(4 * self.capacity)
    }
    pub fn flags(&self) -> u64 {
        self.small.offset(5 * self.capacity)
    }
    pub fn scores(&self) -> u64 {
        self.small.offset(6 * self.capacity)
    }

    /// Null if the task does not say which actions are legal.
    pub fn legal(&self) -> u64 {
        if self.mask > 0 { self.small.offset(7 * self.capacity) } else { 0 }
    }

    /// Bytes of one record.
    pub fn record_bytes(&self) -> usize {
        7 + self.mask + self.frame
    }

    pub fn oldest(&self) -> u64 {
        self.newest.saturating_sub(self.capacity as u64).max(self.floor)
    }

    /// Where records first..first + count lie: (slot, how many), in one piece or two.
    fn pieces(&self, first: u64, count: u64) -> impl Iterator<Item = (usize, usize)> {
        let slot = (first % self.capacity as u64) as usize;
        let (count, before_end) = (count as usize, self.capacity - slot);
        let one = count.min(before_end);
        [(slot, one), (0, count - one)].into_iter().filter(|(_, n)| *n > 0)
    }

    /// The fields in the order of [`Replay::write_range`](crate::replay::Replay::write_range): memory, place of its first
    /// record, bytes per record.
    fn fields(&self) -> impl Iterator<Item = (&Memory, usize, usize)> {
        let n = self.capacity;
        let fields = [
            (&self.small, 4 * n, 1),
            (&self.small, 5 * n, 1),
            (&self.small, 6 * n, 1),
            (&self.small, 0, 4),
            (&self.small, 7 * n, self.mask),
            (&self.frames, 0, self.frame),
        ];
        fields.into_iter().filter(|(_, _, size)| *size > 0)
    }

    /// Appends records in the format of [`Replay::write_range`](crate::replay::Replay::write_range).
    pub fn get(&self, first: u64, count: u64, out: &mut Vec<u8>) -> Result<(), CudaError> {
        for (memory, at, size) in self.fields() {
            for (slot, records) in self.pieces(first, count) {
                let start = out.len();
                out.resize(start + records * size, 0);
                memory.read(at + slot * size, &mut out[start..])?;
            }
        }
        Ok(())
    }

    /// Puts back what [`get`](Ring::get) or [`Replay::write_range`](crate::replay::Replay::write_range) wrote.
    pub fn put(&self, first: u64, count: u64, mut bytes: &[u8]) -> Result<(), CudaError> {
        for (memory, at, size) in self.fields() {
            for (slot, records) in self.pieces(first, count) {
                let (own, rest) = bytes.split_at(records * size);
                memory.write(at + slot * size, own)?;
                bytes = rest;
            }
        }
        Ok(())
    }
}
