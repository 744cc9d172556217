//! The backward pass of a population's networks, with the steps of Adam.

use super::{Networks, launch_of, of_networks};
use crate::cuda::compile::Module;
use crate::cuda::device::{Arg, CudaError, Device, Kernel, Memory, Shape, Stream};
use crate::cuda::plan::{BackwardKernels, InputGradientKernel, NetworkPlan};

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
    /// One kernel for everything, or `down` for the input gradient first; with the shape for all networks.
    Fused { down: Option<Kernel>, kernel: Kernel, shape: Shape },
    /// Input gradient, with the shape for one network; then a kernel through whose shared memory the parameters stream as they
    /// are trained, with the shape for all networks.
    Streamed { down: (Kernel, Shape), kernel: Kernel, shape: Shape },
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

/// Queues a kernel of the backward pass.
fn queue(stream: &Stream, kernel: &Kernel, shape: Shape, args: &[Arg]) -> Result<(), CudaError> {
    // SAFETY: `queue_backward`, the only caller, passes each kernel what its text asks for, in that order. All
    // of it is memory of the networks, whose owner keeps them until `stream` is done, and `stream` waits for the others.
    unsafe { stream.launch(kernel, shape, args) }
}

impl Networks {
    /// Queues the backward pass of the online networks and their steps of Adam, after both heads and the gradients of the
    /// outputs. Weight gradients run concurrently with what is queued on `stream`, which waits for them at the end.
    pub fn queue_backward(&self, stream: &Stream) -> Result<(), CudaError> {
        let agents = self.plan.agents();
        let mut used = [false; 3];
        // What the critical path does not wait for goes to one of these.
        let mut side_stream = |number: usize| {
            used[number] = true;
            self.sides[number].wait_for(stream, &self.forks[number])?;
            Ok(&self.sides[number])
        };
        // The head's step, which is not on the critical path: it would only take memory bandwidth from what is.
        let mut deferred: Option<(&Kernel, Shape, [Arg; 7])> = None;
        for l in (0..self.backward.len()).rev() {
            let layer = self.plan.trunk.layer(l);
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
                How::Fused { down, kernel, shape } => {
                    let args = [nets, input, last.into(), trunk.into(), pitch, scale, below];
                    match down {
                        None => queue(stream, kernel, *shape, &args)?,
                        Some(down) => {
                            queue(stream, down, *shape, &args)?;
                            deferred = Some((kernel, *shape, args));
                        }
                    }
                }
                How::Streamed { down: (down, one), kernel, shape } => {
                    let args = [nets, trunk.into(), pitch, input, below];
                    queue(stream, down, of_networks(one, agents), &args)?;
                    let args = [nets, Arg::Int(agents as i32), input, last.into(), scale];
                    queue(side_stream(2)?, kernel, *shape, &args)?;
                }
                How::Apart { down, weights, shape: own, partial, most, step } => {
                    if let Some((kernel, shape)) = down {
                        let shape = of_networks(shape, agents);
                        queue(stream, kernel, shape, &[nets, trunk.into(), pitch, input, below])?;
                    }
                    // The step changes weights that the input gradient reads: so it comes after it, but concurrently with
                    // what follows.
                    let side = if l == 0 { stream } else { side_stream(l % 2)? };
                    if let Some((kernel, shape, args)) = deferred.take() {
                        queue(side, kernel, shape, &args)?;
                    }
                    let shape = of_networks(own, agents);
                    let most = Arg::Int(*most as i32);
                    let args = [nets, input, last.into(), pitch, scale, partial.into(), most];
                    queue(side, weights, shape, &args)?;
                    let numbers = (layer.fan_in() + 1) * self.plan.filters(layer);
                    let shape = Shape::new([numbers.div_ceil(256), agents, 1], 256);
                    queue(side, step, shape, &[nets, partial.into(), Arg::Int(own.grid[1] as i32), most])?;
                }
            }
        }
        if let Some((kernel, shape, args)) = deferred {
            queue(stream, kernel, shape, &args)?;
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
        plan: &NetworkPlan,
        l: usize,
    ) -> Result<Backward, CudaError> {
        let layer = plan.trunk.layer(l);
        let numbers = plan.agents() * plan.batch * layer.output_len();
        let delta = match layer.filters {
            0 => None,
            _ => Some(device.zeros(numbers * plan.precision.activation())?),
        };
        let named = |name: &str, shape: Shape| {
            let kernel = module.kernel(&format!("{name}_{l}"))?;
            let shape = launch_of(&kernel, shape)?;
            Ok((kernel, shape))
        };
        let down = |way: &InputGradientKernel| named("down", way.launch());
        let how = match &plan.layers[l].backward {
            BackwardKernels::Fused { twice, launch } => {
                let (kernel, shape) = named("backward", *launch)?;
                let down = if *twice { Some(named("down", *launch)?.0) } else { None };
                How::Fused { down, kernel, shape }
            }
            BackwardKernels::Streamed { input_gradient, launch } => {
                let (kernel, shape) = named("backward", *launch)?;
                How::Streamed { down: down(input_gradient)?, kernel, shape }
            }
            BackwardKernels::Separate { input_gradient, weight_gradient } => {
                let (weights, shape) = named("weights", weight_gradient.launch())?;
                let most = (layer.fan_in() + 1) * plan.filters(layer);
                How::Apart {
                    down: input_gradient.as_ref().map(down).transpose()?,
                    weights,
                    shape,
                    partial: device.zeros(4 * plan.agents() * shape.grid[1] * most)?,
                    most,
                    step: module.kernel(&format!("step_{l}"))?,
                }
            }
        };
        Ok(Backward { delta, how })
    }
}
