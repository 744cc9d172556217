//! The border between the networks and the arithmetic: what a device has to offer.

use crate::architecture::Input;
use crate::layout::Affine;

/// Settings of one agent's Adam, with PyTorch's meaning of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamSettings {
    /// Step size.
    pub learning_rate: f32,
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the bias-corrected second moment.
    pub epsilon: f32,
}

impl Default for AdamSettings {
    /// The settings of the paper's agents: 2.5e-5, 0.9, 0.999, 0.005/32.
    fn default() -> Self {
        AdamSettings { learning_rate: 2.5e-5, beta1: 0.9, beta2: 0.999, epsilon: 0.005 / 32.0 }
    }
}

/// How much one operation covers: all agents, so many samples each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Networks in the population.
    pub agents: usize,
    /// Samples per network.
    pub batch: usize,
    /// Floats between neighbouring agents in parameter buffers: the parameters of one network and some padding.
    pub stride: usize,
}

/// Buffers of Adam: parameters, both moments and the gradients, all in the canonical layout.
#[derive(Debug)]
pub struct AdamBuffers<'a, F> {
    /// Online parameters, updated.
    pub parameters: &'a mut F,
    /// First moments, updated.
    pub adam_m: &'a mut F,
    /// Second moments, updated.
    pub adam_v: &'a mut F,
    /// Gradients.
    pub gradients: &'a F,
}

/// The operations that a device offers to populations of networks.
///
/// Every operation covers the whole population and one whole layer. The border lies here, and not at matrix
/// products, for three reasons. A convolution is handed over as geometry, so a backend may gather patches while it
/// multiplies and need never write them out. Bias, rectifier and rectifier mask belong to the operation before or
/// after them, so they cost no pass over memory. And a GPU can make each operation one kernel launch, whatever the
/// population, which is what small networks need there. A fully connected layer is a convolution of a 1×1 image, so
/// three operations ([`forward`](Self::forward), [`weight_gradient`](Self::weight_gradient),
/// [`input_gradient`](Self::input_gradient)) are all the linear algebra there is.
///
/// Activations are `[agent][sample][row][column][channel]`; parameters are in the canonical
/// [layout](crate::layout), agent after agent.
///
/// No operation may split a sum in a way that depends on the number of agents or threads.
pub trait Backend {
    /// A buffer of floats on the device.
    type Floats;
    /// A read-only view of the start of a buffer, as callers receive outputs and hand over output gradients.
    type View: ?Sized;
    /// Input samples as callers hand them over.
    type Samples<'a>;

    /// Makes room for whatever the operations need for these layers, so that none of them allocates later.
    fn prepare(&mut self, layers: &[Affine], agents: usize, max_batch: usize);

    /// A new buffer of zeros.
    fn zeros(&mut self, len: usize) -> Self::Floats;

    /// The first `len` floats of a buffer.
    fn view(buffer: &Self::Floats, len: usize) -> &Self::View;

    /// Copies a caller's view, of exactly `len` floats, into a buffer.
    fn fill(&mut self, from: &Self::View, to: &mut Self::Floats, len: usize);

    /// Copies `len` floats from one buffer to the same place in another.
    fn copy(&mut self, from: &Self::Floats, to: &mut Self::Floats, at: usize, len: usize);

    /// Turns input samples into activations: bytes are divided by 255 and their channels put innermost.
    fn load(&mut self, pass: Pass, input: &Input, samples: Self::Samples<'_>, to: &mut Self::Floats);

    /// Rounds the first `len` floats of a buffer to bf16.
    fn round_to_bf16(&mut self, buffer: &mut Self::Floats, len: usize);

    /// `output = relu(patches(input) · weights + bias)`, without the rectifier where the layer has none.
    fn forward(
        &mut self,
        pass: Pass,
        layer: &Affine,
        parameters: &Self::Floats,
        input: &Self::Floats,
        output: &mut Self::Floats,
    );

    /// Gradients of a layer's weights and biases: `patches(input)ᵀ · delta`, and the sum of `delta`.
    fn weight_gradient(
        &mut self,
        pass: Pass,
        layer: &Affine,
        input: &Self::Floats,
        delta: &Self::Floats,
        gradients: &mut Self::Floats,
    );

    /// Gradient of a layer's input, masked by the rectifier that made the input (0 where `input` is 0).
    fn input_gradient(
        &mut self,
        pass: Pass,
        layer: &Affine,
        parameters: &Self::Floats,
        delta: &Self::Floats,
        input: &Self::Floats,
        input_delta: &mut Self::Floats,
    );

    /// Joins dueling streams: `[k] + [action][k]` raw outputs become `[action][k]` values.
    fn duel(
        &mut self,
        pass: Pass,
        actions: usize,
        per_action: usize,
        raw: &Self::Floats,
        q: &mut Self::Floats,
    );

    /// Gradient of [`duel`](Self::duel).
    fn duel_gradient(
        &mut self,
        pass: Pass,
        actions: usize,
        per_action: usize,
        q_delta: &Self::Floats,
        raw_delta: &mut Self::Floats,
    );

    /// One step of Adam for every active agent over all its parameters; `steps` counts from 1, this step included.
    fn adam(
        &mut self,
        pass: Pass,
        settings: &[AdamSettings],
        active: &[bool],
        steps: &[u64],
        buffers: AdamBuffers<'_, Self::Floats>,
    );

    /// Makes output j of one agent's layer `scale[j mod n] · y + shift[j mod n]`, n being `scale`'s length, by
    /// changing the layer's weights and biases; an empty `shift` is none.
    fn rescale(
        &mut self,
        pass: Pass,
        agent: usize,
        layer: &Affine,
        parameters: &mut Self::Floats,
        scale: &[f32],
        shift: &[f32],
    );
}
