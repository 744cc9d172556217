//! What a network looks like: its input, its hidden layers and its head.

use crate::layout::Plan;

/// What one sample is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Byte planes, channel after channel, each row by row; the network sees the byte divided by 255.
    Planes {
        /// Number of planes.
        channels: usize,
        /// Rows of a plane.
        height: usize,
        /// Columns of a plane.
        width: usize,
    },
    /// A vector of floats.
    Vector {
        /// Number of floats.
        len: usize,
    },
}

impl Input {
    /// Numbers in one sample.
    pub fn len(&self) -> usize {
        match *self {
            Input::Planes { channels, height, width } => channels * height * width,
            Input::Vector { len } => len,
        }
    }

    /// Whether a sample holds no numbers at all, which [`Architecture::validate`] refuses.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A hidden layer; each is followed by a rectifier (ReLU).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    /// A square convolution without padding.
    Conv {
        /// Output channels.
        filters: usize,
        /// Side of the square kernel.
        kernel: usize,
        /// Step between neighbouring outputs, in both directions.
        stride: usize,
    },
    /// A fully connected layer.
    Linear {
        /// Output units.
        units: usize,
    },
}

/// The last layer: `per_action` outputs for each of `actions` actions, action by action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of actions.
    pub actions: usize,
    /// Outputs per action, such as the frequencies of a spectral agent.
    pub per_action: usize,
    /// Two streams: Q\[a,k\] = V\[k\] + A\[a,k\] − mean over a of A\[a,k\]. The last hidden layer, which must be fully
    /// connected, is doubled: its first half feeds V, its second half feeds A.
    pub dueling: bool,
    /// Start the last layer at zero instead of at random.
    pub zero_init: bool,
}

impl Head {
    /// A plain head: no dueling streams, random initial weights.
    pub fn new(actions: usize, per_action: usize) -> Head {
        Head { actions, per_action, dueling: false, zero_init: false }
    }
}

/// The shape shared by all networks of a population.
///
/// ```
/// use spectral_nn::{Architecture, Head, Input};
/// let pixels = Input::Planes { channels: 4, height: 84, width: 84 };
/// let nature = Architecture::suited(pixels, Head::new(6, 21));
/// nature.validate().unwrap();
/// assert_eq!(nature.outputs(), 126);
/// assert_eq!(nature.parameters(), 1_748_766);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// What the network sees.
    pub input: Input,
    /// Hidden layers, first to last; convolutions come before fully connected layers.
    pub layers: Vec<Layer>,
    /// The last layer.
    pub head: Head,
}

/// Why an architecture cannot be built, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchitectureError {
    /// A size that must be at least one is zero.
    Zero {
        /// The name of the size.
        what: String,
    },
    /// A convolution's kernel does not fit into what it convolves.
    KernelTooLarge {
        /// Index of the layer, from 0.
        layer: usize,
        /// Side of its kernel.
        kernel: usize,
        /// Rows it receives.
        height: usize,
        /// Columns it receives.
        width: usize,
    },
    /// A convolution follows a vector, which has no rows and columns.
    ConvOnVector {
        /// Index of the layer, from 0.
        layer: usize,
    },
    /// Dueling streams need a fully connected last hidden layer.
    DuelingWithoutLinear,
    /// The sizes multiply to more than this machine can address.
    TooLarge,
}

impl std::fmt::Display for ArchitectureError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ArchitectureError::Zero { what } => write!(f, "{what} is 0; it must be at least 1"),
            ArchitectureError::KernelTooLarge { layer, kernel, height, width } => write!(
                f,
                "hidden layer {layer} has a {kernel}×{kernel} kernel but receives only {height}×{width} values per \
                 channel; use a smaller kernel, smaller strides before it, or a larger observation"
            ),
            ArchitectureError::ConvOnVector { layer } => write!(
                f,
                "hidden layer {layer} is a convolution but receives a vector; put convolutions first, on planes"
            ),
            ArchitectureError::DuelingWithoutLinear => {
                write!(
                    f,
                    "a dueling head needs a fully connected last hidden layer; add one or turn dueling off"
                )
            }
            ArchitectureError::TooLarge => {
                write!(
                    f,
                    "the network has more values than this machine can address; use fewer or smaller layers"
                )
            }
        }
    }
}

impl std::error::Error for ArchitectureError {}

impl Architecture {
    /// The network of the Nature DQN paper: conv 32 8×8/4, conv 64 4×4/2, conv 64 3×3/1, fully connected 512.
    pub fn nature(input: Input, head: Head) -> Architecture {
        let layers = vec![
            Layer::Conv { filters: 32, kernel: 8, stride: 4 },
            Layer::Conv { filters: 64, kernel: 4, stride: 2 },
            Layer::Conv { filters: 64, kernel: 3, stride: 1 },
            Layer::Linear { units: 512 },
        ];
        Architecture { input, layers, head }
    }

    /// For small boards: conv 16 3×3/1, fully connected 128.
    pub fn small_cnn(input: Input, head: Head) -> Architecture {
        let layers = vec![Layer::Conv { filters: 16, kernel: 3, stride: 1 }, Layer::Linear { units: 128 }];
        Architecture { input, layers, head }
    }

    /// Fully connected layers of the given widths.
    pub fn mlp(input: Input, hidden: &[usize], head: Head) -> Architecture {
        let layers = hidden.iter().map(|&units| Layer::Linear { units }).collect();
        Architecture { input, layers, head }
    }

    /// What suits the input: [`nature`](Self::nature) for planes of at least 64 pixels a side,
    /// [`small_cnn`](Self::small_cnn) for smaller planes, an MLP 128-128 for vectors.
    pub fn suited(input: Input, head: Head) -> Architecture {
        match input {
            Input::Planes { height, width, .. } if height.min(width) >= 64 => Self::nature(input, head),
            Input::Planes { .. } => Self::small_cnn(input, head),
            Input::Vector { .. } => Self::mlp(input, &[128, 128], head),
        }
    }

    /// Checks that every layer fits the one before it and that nothing is empty.
    pub fn validate(&self) -> Result<(), ArchitectureError> {
        Plan::new(self).map(|_| ())
    }

    /// Parameters of one network: weights and biases. 0 if the architecture is not valid.
    pub fn parameters(&self) -> usize {
        Plan::new(self).map_or(0, |plan| plan.parameters)
    }

    /// Outputs of one network for one sample.
    pub fn outputs(&self) -> usize {
        self.head.actions * self.head.per_action
    }

    /// Makes every action's output k `scale[k] · y + shift[k]` by changing the last layer in these parameters of one network, as
    /// [`Network::affine_outputs`](crate::Network::affine_outputs) does.
    ///
    /// ```
    /// use spectral_nn::{Architecture, Head, Input};
    /// let network = Architecture::mlp(Input::Vector { len: 1 }, &[], Head::new(1, 2));
    /// let mut parameters = [1.0, 2.0, 3.0, 4.0]; // weights, then biases
    /// network.affine_outputs(&mut parameters, &[10.0, 100.0], &[0.5, 0.25])?;
    /// assert_eq!(parameters, [10.0, 200.0, 30.5, 400.25]);
    /// # Ok::<(), spectral_nn::ArchitectureError>(())
    /// ```
    ///
    /// # Panics
    /// If the parameters are not as many as the network has, or the other slices have not one entry per output of an action.
    pub fn affine_outputs(
        &self,
        parameters: &mut [f32],
        scale: &[f32],
        shift: &[f32],
    ) -> Result<(), ArchitectureError> {
        let (plan, k) = (Plan::new(self)?, self.head.per_action);
        assert_eq!(parameters.len(), plan.parameters, "as many parameters as the network has");
        assert_eq!((scale.len(), shift.len()), (k, k), "one scale and one shift per output of an action");
        plan.shifted_heads(shift).for_each(|(layer, shift)| layer.rescale(parameters, scale, shift));
        Ok(())
    }

    /// Outputs of its last layer: of a dueling head, those of both streams.
    pub fn head_outputs(&self) -> usize {
        self.outputs() + if self.head.dueling { self.head.per_action } else { 0 }
    }

    /// Floating-point operations of one forward pass of one network. 0 if the architecture is not valid.
    pub fn flops_forward(&self, batch: usize) -> u64 {
        let Ok(plan) = Plan::new(self) else { return 0 };
        plan.affines().map(|a| 2 * (batch * a.positions() * a.fan_in() * a.filters) as u64).sum()
    }

    /// Floating-point operations of one training step of one network: target forward, online forward, and backward
    /// (weights everywhere, inputs everywhere but at the first layer). 0 if the architecture is not valid.
    pub fn flops_step(&self, batch: usize) -> u64 {
        let Ok(plan) = Plan::new(self) else { return 0 };
        let first = if plan.trunk.is_empty() { &plan.heads[..] } else { &plan.trunk[..1] };
        let spared: u64 =
            first.iter().map(|a| 2 * (batch * a.positions() * a.fan_in() * a.filters) as u64).sum();
        4 * self.flops_forward(batch) - spared
    }

    /// Bytes that a population of this architecture holds: parameters, target parameters, gradients, Adam's moments,
    /// the activations of `max_batch` samples and scratch. 0 if the architecture is not valid.
    pub fn memory_bytes(&self, agents: usize, max_batch: usize) -> u64 {
        let Ok(plan) = Plan::new(self) else { return 0 };
        let activations = max_batch as u64 * plan.floats_per_sample() as u64;
        let floats = 5 * plan.stride as u64 + activations + plan.scratch(max_batch) as u64;
        4 * agents as u64 * floats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planes(side: usize) -> Input {
        Input::Planes { channels: 4, height: side, width: side }
    }

    #[test]
    fn suited_follows_the_observation() {
        let head = Head::new(3, 21);
        assert_eq!(Architecture::suited(planes(84), head.clone()).layers.len(), 4);
        assert_eq!(Architecture::suited(planes(10), head.clone()).layers.len(), 2);
        let mlp = Architecture::suited(Input::Vector { len: 32 }, head);
        assert_eq!(mlp.parameters(), 32 * 128 + 128 + 128 * 128 + 128 + 128 * 63 + 63);
        assert_eq!(mlp.flops_forward(32), 2 * 32 * (32 * 128 + 128 * 128 + 128 * 63));
        assert_eq!(mlp.flops_step(32), 2 * 32 * (3 * 32 * 128 + 4 * (128 * 128 + 128 * 63)));
    }

    #[test]
    fn nature_counts() {
        let nature = Architecture::nature(planes(84), Head::new(6, 21));
        // 32·(256+1) + 64·(512+1) + 64·(576+1) + 512·(3136+1) + 126·(512+1)
        assert_eq!(nature.parameters(), 8224 + 32832 + 36928 + 1606144 + 64638);
        assert!((nature.flops_step(32) as f64 / 2.2e9 - 1.0).abs() < 0.01, "{}", nature.flops_step(32));
    }

    #[test]
    fn bad_shapes_are_named() {
        let head = Head::new(3, 1);
        assert_eq!(
            Architecture::nature(planes(10), head.clone()).validate(),
            Err(ArchitectureError::KernelTooLarge { layer: 1, kernel: 4, height: 1, width: 1 })
        );
        assert!(matches!(
            Architecture::mlp(Input::Vector { len: 0 }, &[8], head.clone()).validate(),
            Err(ArchitectureError::Zero { .. })
        ));
        assert!(matches!(
            Architecture::mlp(Input::Vector { len: 4 }, &[0], head.clone()).validate(),
            Err(ArchitectureError::Zero { .. })
        ));
        assert_eq!(
            Architecture::small_cnn(Input::Vector { len: 4 }, head.clone()).validate(),
            Err(ArchitectureError::ConvOnVector { layer: 0 })
        );
        let dueling = Head { dueling: true, ..head.clone() };
        assert_eq!(
            Architecture::mlp(Input::Vector { len: 4 }, &[], dueling).validate(),
            Err(ArchitectureError::DuelingWithoutLinear)
        );
        let huge = Architecture::mlp(Input::Vector { len: usize::MAX / 2 }, &[128], head);
        assert_eq!(huge.validate(), Err(ArchitectureError::TooLarge));
        assert_eq!(huge.parameters(), 0);
    }
}
