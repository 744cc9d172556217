//! Where every parameter lies: the flat canonical layout, shared by all backends and by checkpoints.
//!
//! The parameters of one network are one slice of f32. Layer after layer, from the input to the head, it holds the
//! layer's weights and then its biases:
//!
//! - a fully connected layer: weights `[input][unit]`, the units of one input side by side, then one bias per unit;
//! - a convolution: weights `[kernel row][kernel column][input channel][filter]`, then one bias per filter. A fully
//!   connected layer is the convolution of a 1×1 image, and is stored as one;
//! - activations are `[sample][row][column][channel]`, so a fully connected layer after a convolution counts its
//!   inputs in the order row, column, channel;
//! - the head is one fully connected layer with outputs `[action][k]`; a dueling head is two: the value stream with
//!   outputs `[k]`, then the advantage stream with outputs `[action][k]`.
//!
//! Gradients and Adam's moments have the same layout. A population holds these slices agent after agent, each padded to
//! a multiple of 16 floats.

use crate::architecture::{Architecture, ArchitectureError, Input, Layer};

/// One layer as the backends see it: an affine map of image patches. A fully connected layer has a 1×1 image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affine {
    /// Rows of the input image.
    pub height: usize,
    /// Columns of the input image.
    pub width: usize,
    /// Channels of the input image.
    pub channels: usize,
    /// Side of the square kernel.
    pub kernel: usize,
    /// Step between neighbouring patches.
    pub stride: usize,
    /// Output channels.
    pub filters: usize,
    /// Whether a rectifier follows.
    pub relu: bool,
    /// Whether the input comes from a rectifier, so that many inputs are 0.
    pub rectified: bool,
    /// Where this layer's input starts within a sample's activations.
    pub input_at: usize,
    /// Floats between the inputs of neighbouring samples.
    pub input_pitch: usize,
    /// Where this layer's output starts within a sample's activations.
    pub output_at: usize,
    /// Floats between the outputs of neighbouring samples.
    pub output_pitch: usize,
    /// Where this layer's weights start within a network's parameters.
    pub weights_at: usize,
}

impl Affine {
    /// Rows of the output image.
    pub fn out_height(&self) -> usize {
        (self.height - self.kernel) / self.stride + 1
    }

    /// Columns of the output image.
    pub fn out_width(&self) -> usize {
        (self.width - self.kernel) / self.stride + 1
    }

    /// Patches per sample.
    pub fn positions(&self) -> usize {
        self.out_height() * self.out_width()
    }

    /// Inputs that each output depends on.
    pub fn fan_in(&self) -> usize {
        self.kernel * self.kernel * self.channels
    }

    /// Floats of one sample's input.
    pub fn input_len(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Floats of one sample's output.
    pub fn output_len(&self) -> usize {
        self.positions() * self.filters
    }

    /// Where this layer's biases start within a network's parameters.
    pub fn bias_at(&self) -> usize {
        self.weights_at + self.fan_in() * self.filters
    }

    /// Where this layer's parameters end within a network's parameters.
    pub fn end(&self) -> usize {
        self.bias_at() + self.filters
    }

    /// Whether all addresses that operations on the layer form lie within a sample's activations and a network's parameters,
    /// and no size is beyond counting. Every layer of a [`Plan`] is sound; the fields are public, so others may not be.
    pub(crate) fn is_sound(&self) -> bool {
        let counted = |sizes: &[usize]| checked(sizes).is_ok();
        let places = [self.input_at, self.output_at, self.weights_at, self.input_pitch, self.output_pitch];
        let sides = [self.kernel, self.stride, self.channels, self.filters];
        places.iter().all(|&place| counted(&[place]))
            && sides.iter().all(|&side| side > 0)
            && self.kernel <= self.height.min(self.width)
            && counted(&[self.height, self.width, self.channels])
            && counted(&[self.height, self.width, self.filters])
            && counted(&[self.kernel, self.kernel, self.channels, self.filters])
            && self.input_at + self.input_len() <= self.input_pitch
            && self.output_at + self.output_len() <= self.output_pitch
            // Samples of a convolution's input lie without gaps: their gradients are cleared together.
            && (self.is_linear() || self.input_pitch == self.input_len())
    }

    /// Makes output j `scale[j mod n] · y + shift[j mod n]`, n being `scale`'s length, in these parameters of a network; an empty
    /// `shift` is none.
    pub(crate) fn rescale(&self, parameters: &mut [f32], scale: &[f32], shift: &[f32]) {
        // The biases are one more row.
        for row in parameters[self.weights_at..self.end()].chunks_exact_mut(self.filters) {
            for (weight, scale) in row.iter_mut().zip(scale.iter().cycle()) {
                *weight *= scale;
            }
        }
        for (bias, shift) in parameters[self.bias_at()..self.end()].iter_mut().zip(shift.iter().cycle()) {
            *bias += shift;
        }
    }

    /// Whether this is a fully connected layer: one patch, which is the whole input.
    pub fn is_linear(&self) -> bool {
        self.height == self.kernel && self.width == self.kernel
    }
}

/// An architecture resolved into affine layers with their places.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Hidden layers.
    pub trunk: Vec<Affine>,
    /// The head: one layer, or the value and the advantage stream.
    pub heads: Vec<Affine>,
    /// Floats of one sample after the head's layers (before dueling streams are joined).
    pub raw: usize,
    /// Floats of one input sample.
    pub input: usize,
    /// Parameters of one network.
    pub parameters: usize,
    /// Floats from one agent's parameters to the next one's: whole cache lines.
    pub stride: usize,
}

impl Plan {
    pub fn new(architecture: &Architecture) -> Result<Plan, ArchitectureError> {
        let head = &architecture.head;
        let (channels, height, width) = match architecture.input {
            Input::Planes { channels, height, width } => (channels, height, width),
            Input::Vector { len } => (len, 1, 1),
        };
        let vector = matches!(architecture.input, Input::Vector { .. });
        for (what, size) in [
            ("the number of input channels (or the length of the input vector)", channels),
            ("the input's height", height),
            ("the input's width", width),
            ("the number of actions", head.actions),
            ("the number of outputs per action", head.per_action),
        ] {
            nonzero(what, size)?;
        }
        let mut builder = Builder { channels, height, width, vector, parameters: 0 };
        checked(&[channels, height, width])?;
        let mut trunk = Vec::with_capacity(architecture.layers.len());
        for (index, layer) in architecture.layers.iter().enumerate() {
            let last = index + 1 == architecture.layers.len();
            trunk.push(builder.layer(index, layer, last && head.dueling)?);
        }
        let input = checked(&[channels, height, width])?;
        let outputs = checked(&[head.actions, head.per_action])?;
        let mut heads = Vec::new();
        let mut raw = outputs;
        if head.dueling {
            if !matches!(architecture.layers.last(), Some(Layer::Linear { .. })) {
                return Err(ArchitectureError::DuelingWithoutLinear);
            }
            raw = outputs.checked_add(head.per_action).ok_or(ArchitectureError::TooLarge)?;
            let pitch = builder.channels;
            for (filters, input_at, output_at) in
                [(head.per_action, 0, 0), (outputs, pitch / 2, head.per_action)]
            {
                builder.channels = pitch / 2;
                let mut affine = builder.linear(filters, false)?;
                (affine.input_at, affine.input_pitch) = (input_at, pitch);
                (affine.output_at, affine.output_pitch) = (output_at, raw);
                heads.push(affine);
            }
        } else {
            heads.push(builder.linear(outputs, false)?);
        }
        let parameters = builder.parameters;
        Ok(Plan { trunk, heads, raw, input, parameters, stride: parameters.next_multiple_of(16) })
    }

    /// All layers, first to last.
    pub fn affines(&self) -> impl Iterator<Item = &Affine> {
        self.trunk.iter().chain(&self.heads)
    }

    /// Where the last layer's parameters start.
    pub fn head_at(&self) -> usize {
        self.heads[0].weights_at
    }

    /// The head's layers, each with the shift that it gets when every action's outputs are shifted.
    pub fn shifted_heads<'a>(&self, shift: &'a [f32]) -> impl Iterator<Item = (&Affine, &'a [f32])> {
        // Of dueling streams only the value carries the shift: advantages count by their differences.
        self.heads.iter().enumerate().map(move |(index, layer)| (layer, if index == 0 { shift } else { &[] }))
    }

    /// The largest activation of one sample, the input and the head's output included.
    pub fn widest(&self) -> usize {
        self.trunk.iter().map(Affine::output_len).chain([self.input, self.raw]).max().unwrap_or(0)
    }

    /// Floats that a network needs, at most, to transpose weights or output gradients in.
    pub fn scratch(&self, max_batch: usize) -> usize {
        let needed = |layer: &Affine| {
            if layer.is_linear() {
                layer.filters * max_batch.next_multiple_of(32)
            } else {
                layer.kernel * (layer.kernel * layer.channels).next_multiple_of(32) * layer.filters
            }
        };
        self.affines().map(needed).max().unwrap_or(0)
    }

    /// Floats that a network holds for each sample of its largest batch.
    pub fn floats_per_sample(&self) -> usize {
        let kept: usize = self.input + self.trunk.iter().map(Affine::output_len).sum::<usize>();
        kept + 4 * self.widest() + 8 * self.raw
    }
}

fn nonzero(what: &str, size: usize) -> Result<(), ArchitectureError> {
    if size == 0 { Err(ArchitectureError::Zero { what: what.into() }) } else { Ok(()) }
}

/// The product of sizes, refused where a population could not be addressed (a quarter of the address space).
fn checked(sizes: &[usize]) -> Result<usize, ArchitectureError> {
    let product = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    product.filter(|&product| product < 1 << 40).ok_or(ArchitectureError::TooLarge)
}

/// The shape that the next layer receives, and the parameters placed so far.
struct Builder {
    channels: usize,
    height: usize,
    width: usize,
    vector: bool,
    parameters: usize,
}

impl Builder {
    fn layer(&mut self, index: usize, layer: &Layer, doubled: bool) -> Result<Affine, ArchitectureError> {
        match *layer {
            Layer::Conv { filters, kernel, stride } => {
                for (what, size) in [("filters", filters), ("kernel", kernel), ("stride", stride)] {
                    nonzero(&format!("the {what} of hidden layer {index}"), size)?;
                }
                if self.vector {
                    return Err(ArchitectureError::ConvOnVector { layer: index });
                }
                if kernel > self.height.min(self.width) {
                    let (height, width) = (self.height, self.width);
                    return Err(ArchitectureError::KernelTooLarge { layer: index, kernel, height, width });
                }
                self.affine(filters, kernel, stride, true)
            }
            Layer::Linear { units } => {
                nonzero(&format!("the units of hidden layer {index}"), units)?;
                self.linear(if doubled { checked(&[units, 2])? } else { units }, true)
            }
        }
    }

    fn linear(&mut self, units: usize, relu: bool) -> Result<Affine, ArchitectureError> {
        self.channels = checked(&[self.channels, self.height, self.width])?;
        (self.height, self.width, self.vector) = (1, 1, true);
        self.affine(units, 1, 1, relu)
    }

    fn affine(
        &mut self,
        filters: usize,
        kernel: usize,
        stride: usize,
        relu: bool,
    ) -> Result<Affine, ArchitectureError> {
        let mut affine = Affine {
            height: self.height,
            width: self.width,
            channels: self.channels,
            kernel,
            stride,
            filters,
            relu,
            rectified: self.parameters > 0,
            input_at: 0,
            input_pitch: checked(&[self.height, self.width, self.channels])?,
            output_at: 0,
            output_pitch: 0,
            weights_at: self.parameters,
        };
        checked(&[kernel, kernel, self.channels, filters])?;
        affine.output_pitch = checked(&[affine.out_height(), affine.out_width(), filters])?;
        (self.height, self.width, self.channels) = (affine.out_height(), affine.out_width(), filters);
        self.parameters = affine.end();
        checked(&[self.parameters])?;
        Ok(affine)
    }
}
