//! The backward pass of a population's networks, with the steps of Adam.

use super::{Networks, direct_shape, of_networks};
use crate::cuda::compile::Module;
use crate::cuda::device::{Arg, CudaError, Device, Kernel, Memory, Shape, Stream};
use crate::cuda::shapes::Trunk;
use crate::cuda::source::{
    STREAM_INPUTS, STREAM_THREADS, Size, backward_blocks, backward_shared, stream_shared, weight_cut,
};

/// A layer's backward pass.
#[derive(Debug)]
pub(super) struct Backward {
    /// Gradient of the layer's outputs; the head's are `last` and `trunk_gradient`.
    delta: Option<Memory>,
    how: How,
}

// There is one of these per layer: their sizes do not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
enum How {
    /// One kernel for everything, or `down` for the input gradient first.
    Fused { down: Option<Kernel>, kernel: Kernel, shared: usize },
    /// Input gradient, then a kernel through whose shared memory the parameters stream as they are trained.
    Streamed { down: (Kernel, Shape), kernel: Kernel, shared: usize },
    /// Input gradient, weight gradient in shares, and a kernel that adds them up and takes the step.
    Apart {
        /// With the shape for one network.
        down: Option<(Kernel, Shape)>,
        weights: Kernel,
        /// For one network; the second number is the splits.
        shape: Shape,
        partial: Memory,
        most: usize,
        step: Kernel,
    },
}

impl Networks {
    /// Queues the backward pass of the online networks and their steps of Adam, after both heads and the gradients of the
    /// outputs. Weight gradients run beside what is queued on `stream`, which waits for them at the end.
    pub fn queue_backward(&self, stream: &Stream) -> Result<(), CudaError> {
        let agents = self.outputs.len();
        let mut used = [false; 3];
        // What does not have to be waited for goes to one of these.
        let mut beside = |number: usize| {
            used[number] = true;
            self.sides[number].wait_for(stream, &self.forks[number])?;
            Ok(&self.sides[number])
        };
        // The head's step, which nobody waits for: it would only take the memory from what is waited for.
        let mut late: Option<(&Kernel, Shape, [Arg; 7])> = None;
        for l in (0..self.backward.len()).rev() {
            let layer = self.trunk.layer(l);
            let head = layer.filters == 0;
            let pitch = Arg::Int(if head { self.pitch } else { layer.filters } as i32);
            let input: Arg =
                if l == 0 { self.minibatch().into() } else { (&self.training[l - 1].output).into() };
            let own = &self.backward[l];
            let delta = own.delta.as_ref();
            let (last, trunk) = (delta.unwrap_or(&self.last), delta.unwrap_or(&self.trunk_gradient));
            let below: Arg = match l {
                0 => Arg::At(0),
                _ => self.backward[l - 1].delta.as_ref().expect("hidden layers have one").into(),
            };
            let (nets, scale) = ((&self.nets).into(), Arg::Float(self.scale_of(l)));
            match &own.how {
                How::Fused { down, kernel, shared } => {
                    let grid = [backward_blocks(layer.fan_in(), agents, self.target.processors), 1, agents];
                    let shape = Shape { grid, threads: 256, shared: *shared };
                    let args = [nets, input, last.into(), trunk.into(), pitch, scale, below];
                    match down {
                        None => unsafe { stream.launch(kernel, shape, &args) }?,
                        Some(down) => {
                            unsafe { stream.launch(down, shape, &args) }?;
                            late = Some((kernel, shape, args));
                        }
                    }
                }
                How::Streamed { down: (down, shape), kernel, shared } => {
                    let shape = of_networks(shape, agents);
                    unsafe { stream.launch(down, shape, &[nets, trunk.into(), pitch, input, below]) }?;
                    let tiles = agents * layer.fan_in() / STREAM_INPUTS;
                    let grid = [self.target.processors.min(tiles), 1, 1];
                    let shape = Shape { grid, threads: STREAM_THREADS, shared: *shared };
                    let args = [nets, Arg::Int(agents as i32), input, last.into(), scale];
                    unsafe { beside(2)?.launch(kernel, shape, &args) }?;
                }
                How::Apart { down, weights, shape: own, partial, most, step } => {
                    if let Some((kernel, shape)) = down {
                        let shape = of_networks(shape, agents);
                        unsafe { stream.launch(kernel, shape, &[nets, trunk.into(), pitch, input, below]) }?;
                    }
                    // The step changes weights that the input gradient reads: so it comes after it, but beside what
                    // follows.
                    let side = if l == 0 { stream } else { beside(l % 2)? };
                    if let Some((kernel, shape, args)) = late.take() {
                        unsafe { side.launch(kernel, shape, &args) }?;
                    }
                    let shape = of_networks(own, agents);
                    let most = Arg::Int(*most as i32);
                    let args = [nets, input, last.into(), pitch, scale, partial.into(), most];
                    unsafe { side.launch(weights, shape, &args) }?;
                    let size = Size {
                        outputs: &self.outputs,
                        batch: self.batch,
                        target: self.target,
                        precision: self.precision,
                    };
                    let numbers = (layer.fan_in() + 1) * size.filters(layer);
                    let shape = Shape::new([numbers.div_ceil(256), agents, 1], 256);
                    unsafe {
                        side.launch(step, shape, &[nets, partial.into(), Arg::Int(own.grid[1] as i32), most])
                    }?;
                }
            }
        }
        if let Some((kernel, shape, args)) = late {
            unsafe { stream.launch(kernel, shape, &args) }?;
        }
        for ((side, join), _) in self.sides.iter().zip(&self.joins).zip(used).filter(|(_, used)| *used) {
            stream.wait_for(side, join)?;
        }
        Ok(())
    }
}

impl Backward {
    pub(super) fn new(
        device: &Device,
        module: &Module,
        trunk: &Trunk,
        l: usize,
        size: Size<'_>,
    ) -> Result<Backward, CudaError> {
        let layer = trunk.layer(l);
        let head = layer.filters == 0;
        let samples = size.agents() * size.batch;
        let delta = match head {
            true => None,
            false => Some(device.zeros(samples * size.precision.activation() * layer.output_len())?),
        };
        if trunk.streamed(l, size.batch, size.precision, size.target) {
            let kernel = module.kernel(&format!("backward_{l}"))?;
            let shared = stream_shared(layer.filters, size.batch);
            kernel.allow_shared(shared)?;
            let down = input_gradient(module, trunk, l, size)?;
            return Ok(Backward { delta, how: How::Streamed { down, kernel, shared } });
        }
        if trunk.fused(l, size.batch, size.precision, size.target) {
            let kernel = module.kernel(&format!("backward_{l}"))?;
            let apart = trunk.learns_apart(l);
            let shared = backward_shared(head && !apart, size.batch, size.precision);
            kernel.allow_shared(shared)?;
            let down = match apart {
                false => None,
                true => {
                    let kernel = module.kernel(&format!("down_{l}"))?;
                    kernel.allow_shared(shared)?;
                    Some(kernel)
                }
            };
            return Ok(Backward { delta, how: How::Fused { down, kernel, shared } });
        }
        let down = if l == 0 { None } else { Some(input_gradient(module, trunk, l, size)?) };
        let weights = module.kernel(&format!("weights_{l}"))?;
        let shape = match (size.warpgroup_weights(trunk, l), size.direct_weights(trunk, l)) {
            (Some(way), _) => way.shape(&weights)?,
            (None, Some(direct)) => {
                weights.allow_shared(direct.shared)?;
                let grid = [direct.tiles, direct.shares, 1];
                Shape { grid, threads: direct.threads(), shared: direct.shared }
            }
            (None, None) => {
                let cut = weight_cut(trunk, l, size);
                Shape::new([cut.tiles, cut.splits, 1], cut.tile.threads())
            }
        };
        let most = (layer.fan_in() + 1) * size.filters(layer);
        let how = How::Apart {
            down,
            weights,
            shape,
            partial: device.zeros(4 * size.agents() * shape.grid[1] * most)?,
            most,
            step: module.kernel(&format!("step_{l}"))?,
        };
        Ok(Backward { delta, how })
    }
}

/// The kernel of a layer's input gradient, unless it is `linear_backward`, and its shape for one network.
fn input_gradient(
    module: &Module,
    trunk: &Trunk,
    l: usize,
    size: Size<'_>,
) -> Result<(Kernel, Shape), CudaError> {
    let layer = trunk.layer(l);
    let kernel = module.kernel(&format!("down_{l}"))?;
    let shape = match (size.warpgroup_input_gradient(trunk, l), size.direct_input_gradient(trunk, l)) {
        (Some(way), _) => way.shape(&kernel)?,
        (None, Some(direct)) => direct_shape(&kernel, &direct)?,
        (None, None) => {
            let cut = size.input_gradient(layer);
            let mut shared = 0;
            if size.copied(trunk, l) {
                shared = cut.copied_shared(true);
                kernel.allow_shared(shared)?;
            }
            Shape { grid: [cut.tiles, layer.stride * layer.stride, 1], threads: cut.tile.threads(), shared }
        }
    };
    Ok((kernel, shape))
}
