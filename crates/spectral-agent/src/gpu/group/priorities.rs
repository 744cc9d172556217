//! The priorities of one agent's replay in a device's memory.

use crate::replay::SumTree;
use spectral_nn::cuda::{CudaError, Device, Memory};

/// A tree of sums as [`SumTree`] has it, and what belongs to a minibatch drawn by it.
pub(super) struct Priorities {
    tree: Memory,
    /// Norms of gradients, records, importance weights: of one minibatch.
    rows: Memory,
    batch: usize,
    pub leaves: usize,
    /// Records that the ring has room for.
    capacity: usize,
}

/// Bytes that they take.
pub(super) fn bytes(capacity: usize, batch: usize) -> usize {
    16 * capacity.next_power_of_two() + 20 * batch
}

impl Priorities {
    /// Nothing can be drawn yet.
    pub fn new(device: &Device, capacity: usize, batch: usize) -> Result<Priorities, CudaError> {
        let leaves = capacity.next_power_of_two();
        let (tree, rows) = (device.zeros(16 * leaves)?, device.zeros(20 * batch)?);
        Ok(Priorities { tree, rows, batch, leaves, capacity })
    }

    pub fn tree(&self) -> u64 {
        self.tree.at()
    }
    pub fn norms(&self) -> u64 {
        self.rows.at()
    }
    pub fn drawn(&self) -> u64 {
        self.rows.offset(8 * self.batch)
    }
    pub fn importance(&self) -> u64 {
        self.rows.offset(16 * self.batch)
    }

    /// The leaves, one per slot of the ring.
    pub fn read(&self) -> Result<Vec<f64>, CudaError> {
        let mut leaves = vec![0.0; self.capacity];
        self.tree.read(8 * self.leaves, &mut leaves)?;
        Ok(leaves)
    }

    /// Makes these the leaves.
    pub fn write(&self, leaves: Vec<f64>) -> Result<(), CudaError> {
        self.tree.write(0, SumTree::of(leaves, self.capacity).nodes())
    }
}
