//! Populations of neural networks with explicit forward and backward passes.
//!
//! A [`Network`] is P independent networks of one [`Architecture`], each with online parameters, target parameters,
//! gradients and Adam's moments. Forward and backward are written out, layer by layer; there is no automatic
//! differentiation. The arithmetic is behind [`Backend`], a border of a few whole-layer operations that a CPU and a
//! GPU can both make fast; its page says why it lies there. [`layout`] says where every parameter lies, and
//! [`Architecture::tensors`] what PyTorch would call it.
//!
//! On the [`Cpu`] the work of an operation is cut into tasks by its shape alone. Threads decide only who computes
//! which task and no sum is ever split among them, so results do not depend on population or threads. Fully connected
//! layers skip the zeros that rectifiers leave when an agent's own activations hold enough of them; the sums stay the
//! same to the last bit.
//!
//! The feature `cuda` adds populations on an NVIDIA GPU.

pub mod abi;
mod access;
mod architecture;
mod backend;
pub mod bench;
mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod layout;
mod network;
mod rounding;
mod streams;
mod tensors;

pub use architecture::{Architecture, ArchitectureError, Head, Input, Layer};
pub use backend::{AdamBuffers, AdamSettings, Backend, Pass};
pub use cpu::{Cpu, Floats, Instructions, Samples};
pub use network::{Network, Which};
pub use rounding::round_to_bf16;
pub use streams::DenseHead;
pub use tensors::Tensor;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
