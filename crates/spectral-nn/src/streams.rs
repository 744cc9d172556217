//! Dueling streams as one fully connected layer, which is how a GPU's kernels hold them.

use crate::architecture::{Architecture, ArchitectureError};
use crate::layout::Plan;

/// The two streams' last layers as one: all inputs, value and advantages side by side as outputs. The value sees the first half of
/// the inputs only, and the advantages the second; the weights in between are zeros, which are never trained.
///
/// ```
/// use spectral_nn::{Architecture, DenseHead, Head, Input};
/// let head = Head { dueling: true, ..Head::new(2, 1) };
/// let network = Architecture::mlp(Input::Vector { len: 4 }, &[3], head);
/// let dense = DenseHead::of(&network)?.expect("the head is dueling");
/// let parameters: Vec<f32> = (0..network.parameters()).map(|i| i as f32).collect();
/// let spread = dense.spread(&parameters);
/// assert_eq!(spread.len(), dense.parameters());
/// assert_eq!(dense.collect(&spread), parameters);
/// # Ok::<(), spectral_nn::ArchitectureError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseHead {
    /// Where it starts within a network's parameters.
    pub at: usize,
    /// Its inputs, those of both streams.
    pub inputs: usize,
    /// Outputs of the value.
    pub value: usize,
    /// Outputs of the advantages.
    pub advantages: usize,
}

impl DenseHead {
    /// That of an architecture; `None` if its head is plain.
    pub fn of(architecture: &Architecture) -> Result<Option<DenseHead>, ArchitectureError> {
        let plan = Plan::new(architecture)?;
        let [value, advantages] = plan.heads.as_slice() else { return Ok(None) };
        Ok(Some(DenseHead {
            at: value.weights_at,
            inputs: value.fan_in() + advantages.fan_in(),
            value: value.filters,
            advantages: advantages.filters,
        }))
    }

    /// Outputs of both streams.
    pub fn outputs(&self) -> usize {
        self.value + self.advantages
    }

    /// Floats of a network that holds it in this form.
    pub fn parameters(&self) -> usize {
        self.at + (self.inputs + 1) * self.outputs()
    }

    /// Floats of the network in the canonical [layout](crate::layout).
    pub fn canonical(&self) -> usize {
        self.at + (self.inputs / 2 + 1) * self.outputs()
    }

    /// For every stretch of floats: where it lies in the canonical [layout](crate::layout), where in this one, and its length.
    fn stretches(self) -> impl Iterator<Item = (usize, usize, usize)> {
        let (half, width) = (self.inputs / 2, self.outputs());
        let streams = [(0, 0, self.value, 0), (half, self.value, self.advantages, (half + 1) * self.value)];
        let rows = streams.into_iter().flat_map(move |(first_input, first_output, outputs, start)| {
            // The biases follow the last row of weights, in both forms.
            (0..=half).map(move |row| {
                let input = if row == half { self.inputs } else { first_input + row };
                (self.at + start + row * outputs, self.at + input * width + first_output, outputs)
            })
        });
        std::iter::once((0, 0, self.at)).chain(rows)
    }

    /// A network's parameters, or their moments, in this form.
    ///
    /// # Panics
    /// If they are not as many as the architecture has.
    pub fn spread(&self, canonical: &[f32]) -> Vec<f32> {
        let mut dense = vec![0.0; self.parameters()];
        for (from, to, len) in self.stretches() {
            dense[to..to + len].copy_from_slice(&canonical[from..from + len]);
        }
        dense
    }

    /// What [`spread`](DenseHead::spread) was given.
    ///
    /// # Panics
    /// If they are not as many as [`parameters`](DenseHead::parameters).
    pub fn collect(&self, dense: &[f32]) -> Vec<f32> {
        let mut canonical = vec![0.0; self.canonical()];
        for (to, from, len) in self.stretches() {
            canonical[to..to + len].copy_from_slice(&dense[from..from + len]);
        }
        canonical
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::{Head, Input};
    use crate::{Cpu, Network, Samples, Which};

    /// One dense product and the streams' own give the same outputs before they are joined.
    #[test]
    fn a_dense_head_computes_what_two_streams_do() {
        let head = Head { dueling: true, ..Head::new(3, 2) };
        let shape = Architecture::mlp(Input::Vector { len: 4 }, &[7, 5], head);
        let dense = DenseHead::of(&shape).unwrap().unwrap();
        assert_eq!((dense.inputs, dense.outputs()), (10, 8));
        let mut network = Network::new(Cpu::new(), shape.clone(), 1, 1).unwrap();
        let mut next = 0.0f32;
        network.init(0, || {
            next = (next + 0.37) % 1.0;
            next
        });
        let all = dense.spread(network.parameters(Which::Online, 0));
        assert_eq!(all[dense.at..].iter().filter(|x| **x == 0.0).count(), 5 * 2 + 5 * 6 + 8);
        let input = [0.3f32, -0.4, 0.9, 0.1];
        let layer = |input: &[f32], weights: &[f32], outputs: usize| -> Vec<f32> {
            let bias = &weights[input.len() * outputs..];
            let sum = |o: usize| {
                input.iter().enumerate().map(|(i, x)| x * weights[i * outputs + o]).sum::<f32>() + bias[o]
            };
            (0..outputs).map(sum).collect()
        };
        let relu = |mut values: Vec<f32>| {
            values.iter_mut().for_each(|x| *x = x.max(0.0));
            values
        };
        let first = relu(layer(&input, &all, 7));
        let second = relu(layer(&first, &all[4 * 7 + 7..], 10));
        let raw = layer(&second, &all[dense.at..], 8);
        network.forward(Which::Online, Samples::Floats(&input), 1);
        for (got, want) in raw.iter().zip(network.streams(1).unwrap()) {
            assert!((got - want).abs() < 1e-5, "{got} {want}");
        }
        assert_eq!(
            DenseHead::of(&Architecture::mlp(Input::Vector { len: 4 }, &[7], Head::new(3, 2))),
            Ok(None)
        );
    }
}
