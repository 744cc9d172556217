//! Agents on a GPU: the learner's own kernels, as CUDA C that is compiled when a group is made.
//!
//! [`source`] puts the text together: the group's constants, the structures that host and device share ([`abi`]), the
//! codecs that are present and the kernels of `learner.cu`. `testing` runs the same text on the CPU and compares it with
//! [`Learner`](crate::learner::Learner). What talks to a device needs the feature `cuda`.

pub mod abi;
#[cfg(feature = "cuda")]
mod group;
#[cfg(feature = "cuda")]
mod ring;
pub mod source;

#[cfg(feature = "cuda")]
pub use group::{AgentSpec, CudaGroup, average_bytes, host_resident, memory_bytes};
