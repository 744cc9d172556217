//! Records that come from files: looked at before a replay takes them, on a CPU or on a device.

use crate::store::Records;
use spectral_agent::replay::Replay;
use spectral_core::bytes::StateError;
use spectral_env::TaskSpec;

/// Records of which only those are restored that a play of the task can have left. Learners, and kernels on a device, use what
/// they find there as indices without asking again.
pub(crate) struct CheckedRecords<'a> {
    records: Box<dyn Records + 'a>,
    task: &'a TaskSpec,
}

impl<'a> CheckedRecords<'a> {
    pub fn new(records: Box<dyn Records + 'a>, task: &'a TaskSpec) -> Self {
        CheckedRecords { records, task }
    }
}

impl Records for CheckedRecords<'_> {
    fn oldest(&self) -> u64 {
        self.records.oldest()
    }
    fn newest(&self) -> u64 {
        self.records.newest()
    }
    fn write_range(&mut self, first: u64, count: u64, out: &mut Vec<u8>) -> Result<(), StateError> {
        self.records.write_range(first, count, out)
    }
    fn bytes_per_record(&self) -> usize {
        self.records.bytes_per_record()
    }
    fn read_range(&mut self, first: u64, count: u64, bytes: &[u8]) -> Result<(), StateError> {
        Replay::check(self.task, count, bytes)?;
        self.records.read_range(first, count, bytes)
    }
}
