//! Populations on an NVIDIA GPU.
//!
//! [`Device`] is the device: memory, kernels compiled at run time, streams, graphs. [`Networks`] are the networks of a
//! population on it, of one trunk and with heads of their own widths. Other crates add kernels of their own through the
//! same [`Device`] and reach the networks' buffers by their addresses.
//!
//! Numbers are stored in fp32; products are made in the [`Precision`] asked for. Sums are made in an order that depends on
//! the shapes alone, so the same device gives the same bits again.

mod compile;
mod compiler;
mod device;
mod direct;
mod linear;
mod net;
mod networks;
mod plan;
mod shapes;
mod source;
mod warpgroups;

pub use compile::{Module, check, has_compiler};
pub use compiler::{also_search, compiler};
pub use device::{Arg, CudaError, Device, DeviceInfo, Event, Graph, Kernel, Memory, Rank, Shape, Stream};
pub use net::net_header;
pub use networks::{Member, Networks, Pass, Weights};
pub use shapes::{Precision, Target, Trunk};
pub use source::network_source;
