//! A network's parameters as the tensors that PyTorch would hold: their names, their shapes, and where in the canonical
//! [layout](crate::layout) each of their elements lies.
//!
//! Hidden layers are `hidden.0`, `hidden.1` and so on, the last layer is `head`; each has a `weight` and a `bias`. A fully
//! connected layer's weight is `[units, inputs]`, a convolution's `[filters, channels, rows, columns]`. A fully connected
//! layer on top of an image counts its inputs in the order channel, row, column, which is that of `torch.flatten`.
//!
//! A dueling network has two streams in place of its last hidden layer and its head: `value.hidden`, `value.head`,
//! `advantage.hidden` and `advantage.head`.

use crate::architecture::{Architecture, ArchitectureError, Input, Layer};
use crate::layout::{Affine, Plan};
use std::ops::Range;

/// One tensor: a weight or a bias of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The name, such as `hidden.0.weight`.
    pub name: String,
    /// The sizes, outermost first.
    pub shape: Vec<usize>,
    /// Where the layer's weights, or its biases, start in the canonical layout.
    start: usize,
    /// All output channels of the layer: the distance between two inputs of one unit.
    filters: usize,
    /// The output channels that this tensor holds.
    units: Range<usize>,
    image: Image,
}

/// What one unit sees: a patch, a whole image, or a vector, which is an image of one pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Image {
    channels: usize,
    height: usize,
    width: usize,
}

impl Image {
    fn pixel(channels: usize) -> Image {
        Image { channels, height: 1, width: 1 }
    }

    fn len(self) -> usize {
        self.channels * self.height * self.width
    }
}

impl Tensor {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the tensor has no elements, which no tensor of a valid architecture has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// For every element, the last index fastest, its place in the canonical layout.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        let Image { channels, height, width } = self.image;
        self.units.clone().flat_map(move |unit| {
            (0..channels).flat_map(move |channel| {
                (0..height * width)
                    .map(move |pixel| self.start + (pixel * channels + channel) * self.filters + unit)
            })
        })
    }
}

impl Architecture {
    /// The tensors of one network, first layer to last. Together they hold every parameter once.
    ///
    /// ```
    /// use spectral_nn::{Architecture, Head, Input};
    /// let pixels = Input::Planes { channels: 4, height: 84, width: 84 };
    /// let tensors = Architecture::nature(pixels, Head::new(6, 21)).tensors()?;
    /// assert_eq!((tensors[0].name.as_str(), &tensors[0].shape[..]), ("hidden.0.weight", &[32, 4, 8, 8][..]));
    /// assert_eq!((tensors[8].name.as_str(), &tensors[8].shape[..]), ("head.weight", &[126, 512][..]));
    /// # Ok::<(), spectral_nn::ArchitectureError>(())
    /// ```
    pub fn tensors(&self) -> Result<Vec<Tensor>, ArchitectureError> {
        let plan = Plan::new(self)?;
        let mut tensors = Vec::new();
        let mut image = match self.input {
            Input::Planes { channels, height, width } => Image { channels, height, width },
            Input::Vector { len } => Image::pixel(len),
        };
        let last = plan.trunk.len().checked_sub(1);
        for (index, (layer, affine)) in self.layers.iter().zip(&plan.trunk).enumerate() {
            let all = 0..affine.filters;
            match *layer {
                Layer::Conv { kernel, .. } => {
                    let patch = Image { channels: affine.channels, height: kernel, width: kernel };
                    let shape = [patch.channels, kernel, kernel];
                    push(&mut tensors, &format!("hidden.{index}"), affine, all, patch, &shape);
                }
                Layer::Linear { units } if self.head.dueling && last == Some(index) => {
                    for (stream, half) in [("value", 0..units), ("advantage", units..2 * units)] {
                        push(&mut tensors, &format!("{stream}.hidden"), affine, half, image, &[image.len()]);
                    }
                }
                Layer::Linear { .. } => {
                    push(&mut tensors, &format!("hidden.{index}"), affine, all, image, &[image.len()]);
                }
            }
            image =
                Image { channels: affine.filters, height: affine.out_height(), width: affine.out_width() };
        }
        match &plan.heads[..] {
            [head] => push(&mut tensors, "head", head, 0..head.filters, image, &[image.len()]),
            streams => {
                for (name, stream) in ["value.head", "advantage.head"].into_iter().zip(streams) {
                    let inputs = Image::pixel(stream.channels);
                    push(&mut tensors, name, stream, 0..stream.filters, inputs, &[inputs.len()]);
                }
            }
        }
        Ok(tensors)
    }
}

/// Adds the weight and the bias of some units of a layer.
fn push(
    tensors: &mut Vec<Tensor>,
    name: &str,
    layer: &Affine,
    units: Range<usize>,
    image: Image,
    inputs: &[usize],
) {
    let filters = layer.filters;
    tensors.push(Tensor {
        name: format!("{name}.weight"),
        shape: [&[units.len()], inputs].concat(),
        start: layer.weights_at,
        filters,
        units: units.clone(),
        image,
    });
    tensors.push(Tensor {
        name: format!("{name}.bias"),
        shape: vec![units.len()],
        start: layer.bias_at(),
        filters,
        units,
        image: Image::pixel(1),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cpu, Head, Network, Samples, Which};

    fn planes(channels: usize, height: usize, width: usize) -> Input {
        Input::Planes { channels, height, width }
    }

    fn networks() -> Vec<Architecture> {
        let head = Head::new(3, 2);
        let dueling = Head { dueling: true, ..head.clone() };
        vec![
            Architecture::mlp(Input::Vector { len: 5 }, &[7, 4], head.clone()),
            Architecture::mlp(Input::Vector { len: 5 }, &[], head.clone()),
            Architecture::mlp(planes(2, 3, 4), &[6], head.clone()),
            Architecture::mlp(planes(2, 3, 4), &[], head.clone()),
            Architecture::mlp(planes(2, 3, 4), &[6], dueling.clone()),
            Architecture::mlp(Input::Vector { len: 5 }, &[7, 4], dueling.clone()),
            Architecture::small_cnn(planes(3, 5, 6), head.clone()),
            Architecture::small_cnn(planes(3, 3, 3), dueling.clone()),
            Architecture::nature(planes(2, 36, 40), head),
            Architecture::nature(planes(4, 40, 36), dueling),
        ]
    }

    #[test]
    fn every_parameter_is_in_one_tensor() {
        for network in networks() {
            let tensors = network.tensors().unwrap();
            let mut places: Vec<usize> =
                tensors.iter().flat_map(|t| t.places().collect::<Vec<_>>()).collect();
            for tensor in &tensors {
                assert_eq!(tensor.places().count(), tensor.len(), "{network:?}: {}", tensor.name);
            }
            places.sort_unstable();
            assert!(places.into_iter().eq(0..network.parameters()), "{network:?}");
        }
    }

    /// A tensor element times an input, summed as PyTorch does it, is what the network computes.
    #[test]
    fn tensors_compute_what_the_network_does() {
        for network in networks() {
            let mut state = 1u32;
            let mut draw = || {
                state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                (state >> 8) as f32 / (1 << 24) as f32
            };
            let sample: Vec<f32> = (0..network.input.len()).map(|_| draw()).collect();
            let mut population = Network::new(Cpu::new(), network.clone(), 1, 1).unwrap();
            population.init(0, &mut draw);
            let found = population.forward(Which::Online, Samples::Floats(&sample), 1).to_vec();
            let parameters = population.parameters(Which::Online, 0);
            let expected = forward(&network, parameters, &sample);
            for (found, expected) in found.iter().zip(&expected) {
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{network:?}: {found} {expected}");
            }
        }
    }

    /// The network in the words of PyTorch: `Conv2d`, `flatten`, `Linear`, `relu`.
    fn forward(network: &Architecture, parameters: &[f32], sample: &[f32]) -> Vec<f64> {
        let tensors = network.tensors().unwrap();
        let tensor = |name: &str| {
            let tensor = tensors.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("no {name}"));
            (tensor.shape.clone(), tensor.places().map(|at| f64::from(parameters[at])).collect::<Vec<_>>())
        };
        let linear = |name: &str, input: &[f64]| -> Vec<f64> {
            let (shape, weight) = tensor(&format!("{name}.weight"));
            let (_, bias) = tensor(&format!("{name}.bias"));
            assert_eq!((shape[1], bias.len()), (input.len(), shape[0]), "{name}");
            let unit = |(row, b): (&[f64], &f64)| b + row.iter().zip(input).map(|(w, x)| w * x).sum::<f64>();
            weight.chunks_exact(shape[1]).zip(&bias).map(unit).collect()
        };
        let relu = |x: Vec<f64>| x.into_iter().map(|x| x.max(0.0)).collect::<Vec<_>>();
        let mut x: Vec<f64> = sample.iter().map(|&x| f64::from(x)).collect();
        let (mut height, mut width) = match network.input {
            Input::Planes { height, width, .. } => (height, width),
            Input::Vector { .. } => (1, 1),
        };
        let shared = network.layers.len() - usize::from(network.head.dueling);
        for (index, layer) in network.layers[..shared].iter().enumerate() {
            let name = format!("hidden.{index}");
            let Layer::Conv { kernel, stride, .. } = *layer else {
                x = relu(linear(&name, &x));
                continue;
            };
            let (shape, weight) = tensor(&format!("{name}.weight"));
            let (_, bias) = tensor(&format!("{name}.bias"));
            let (rows, columns) = ((height - kernel) / stride + 1, (width - kernel) / stride + 1);
            let mut out = Vec::new();
            for (filter, bias) in bias.iter().enumerate() {
                for (row, column) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
                    let mut sum = *bias;
                    for (channel, i, j) in (0..shape[1])
                        .flat_map(|c| (0..kernel).flat_map(move |i| (0..kernel).map(move |j| (c, i, j))))
                    {
                        let weight = weight[((filter * shape[1] + channel) * kernel + i) * kernel + j];
                        sum +=
                            weight * x[(channel * height + row * stride + i) * width + column * stride + j];
                    }
                    out.push(sum);
                }
            }
            (x, height, width) = (relu(out), rows, columns);
        }
        if !network.head.dueling {
            return linear("head", &x);
        }
        let stream =
            |name: &str| linear(&format!("{name}.head"), &relu(linear(&format!("{name}.hidden"), &x)));
        let (value, advantage) = (stream("value"), stream("advantage"));
        let Head { actions, per_action, .. } = network.head;
        let mean =
            |k: usize| (0..actions).map(|a| advantage[a * per_action + k]).sum::<f64>() / actions as f64;
        let output = |i: usize| value[i % per_action] + advantage[i] - mean(i % per_action);
        (0..actions * per_action).map(output).collect()
    }
}
