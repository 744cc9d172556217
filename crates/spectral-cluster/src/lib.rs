//! Runs as jobs of a cluster.
//!
//! The unit is one population on one GPU or one node, with a run directory of its own; jobs share nothing but a file system.
//! A [`JobPlan`] is a folder that says what is to be trained, as data: nothing of it is decided again on the node that trains.
//! [`slurm`] and [`ray`] write the script that a scheduler runs, [`JobStatus`] is how far one job has come, [`attempt`] decides
//! what an attempt at a job may do, and [`survey`] puts everything that is known of a plan into a table.

pub mod attempt;
mod earlier;
mod environment;
mod place;
mod plan;
pub mod ray;
pub mod slurm;
mod status;
pub mod survey;

pub use environment::Environment;
pub use plan::{JobEntry, JobPlan, Kind, NewPlan, Resources};
pub use status::{JobState, JobStatus, StatusWriter};
