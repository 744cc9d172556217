//! One agent's replay in a device's memory, or its observations in pinned memory of the host.

use spectral_env::ObservationSpec;
use spectral_nn::cuda::{CudaError, Device, Memory};

/// Rings of observations, actions, rewards, flags and scores.
pub(super) struct Ring {
    pub frames: Memory,
    /// Whether they are in the host's memory.
    pub host_resident: bool,
    /// Rewards, then actions, flags and scores.
    pub small: Memory,
    pub capacity: usize,
    /// Bytes of one observation.
    pub frame: usize,
    /// One past the newest complete record, and the first that is not gone, as the device's counters say.
    pub newest: u64,
    pub floor: u64,
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
        spec: ObservationSpec,
        capacity: usize,
        host_resident: bool,
    ) -> Result<Ring, CudaError> {
        let frame = frame_bytes(spec);
        let bytes = capacity * frame;
        let frames = if host_resident { device.pinned(bytes)? } else { device.zeros(bytes)? };
        Ok(Ring {
            frames,
            host_resident,
            small: device.zeros(7 * capacity)?,
            capacity,
            frame,
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
    fn fields(&self) -> [(&Memory, usize, usize); 5] {
        let n = self.capacity;
        [
            (&self.small, 4 * n, 1),
            (&self.small, 5 * n, 1),
            (&self.small, 6 * n, 1),
            (&self.small, 0, 4),
            (&self.frames, 0, self.frame),
        ]
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
