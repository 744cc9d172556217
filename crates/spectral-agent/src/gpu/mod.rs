//! Agents on a GPU: the learner's own kernels, as CUDA C that is compiled when a group is made.
//!
//! [`source`] puts the text together: the group's constants, the structures that host and device share ([`abi`]), the
//! codecs that are present and the kernels of `learner.cu`. Tests run the same text on the CPU and compare it with
//! [`Learner`](crate::learner::Learner).

pub mod abi;
#[cfg(test)]
mod driver;
#[cfg(test)]
pub(crate) mod emulator;
mod group;
#[cfg(test)]
mod nvrtc;
mod ring;
pub mod source;

pub use group::{CudaGroup, Trainee, memory_bytes, spills, unsupported};
