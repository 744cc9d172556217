//! What can go wrong, sorted by whose turn it is to act.

use crate::store::StoreError;
use spectral_agent::lockstep::DeviceFailure;
use spectral_agent::settings::SettingError;
use spectral_env::TaskError;

/// Why a command could not do its work.
#[derive(Debug)]
pub enum TrainError {
    /// Something that the user wrote is not right.
    Usage(String),
    /// A file is missing, damaged, or could not be written.
    Store(StoreError),
    /// A file of the run does not make sense.
    Data(String),
    /// A run is of a task or a codec that this program does not have.
    Unregistered(String),
    /// Another process is at work in the run; later it may not be.
    Busy(String),
    /// This machine lacks what the run needs, a GPU or memory: another machine, or this one later, may have it.
    Machine(String),
    /// A task failed while it was played.
    Task(String),
    /// A device failed.
    Device(String),
}

impl TrainError {
    /// The process's exit code: 2 for usage, for what this machine lacks and for a run that another process has, 3 for data, 5 for a
    /// device, 6 for a task.
    pub fn exit_code(&self) -> u8 {
        match self {
            TrainError::Usage(_)
            | TrainError::Unregistered(_)
            | TrainError::Busy(_)
            | TrainError::Machine(_) => 2,
            TrainError::Store(_) | TrainError::Data(_) => 3,
            TrainError::Device(_) => 5,
            TrainError::Task(_) => 6,
        }
    }
}

impl std::fmt::Display for TrainError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TrainError::Usage(text)
            | TrainError::Data(text)
            | TrainError::Unregistered(text)
            | TrainError::Machine(text)
            | TrainError::Busy(text) => f.write_str(text),
            TrainError::Task(text) => write!(f, "the task failed: {text}"),
            TrainError::Device(text) => write!(f, "the device failed: {text}"),
            TrainError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TrainError {}

impl From<StoreError> for TrainError {
    fn from(error: StoreError) -> Self {
        TrainError::Store(error)
    }
}

impl From<DeviceFailure> for TrainError {
    fn from(error: DeviceFailure) -> Self {
        TrainError::Device(error.0)
    }
}

impl From<SettingError> for TrainError {
    fn from(error: SettingError) -> Self {
        TrainError::Usage(error.to_string())
    }
}

impl From<TaskError> for TrainError {
    fn from(error: TaskError) -> Self {
        match error {
            TaskError::Missing(text) => TrainError::Data(text),
            TaskError::Failed(text) => TrainError::Task(text),
            other => TrainError::Usage(other.to_string()),
        }
    }
}
