//! A codec's decoding as a graph of a few operations, for models that other programs run (ONNX).
//!
//! Everything is computed in double precision: at the top of a spectrum 2²⁰·y swamps what low frequencies add to an f32 sum.

use spectral_core::squash::Squash;

/// One step of a decoding. Every value is a row of numbers for each action: K of them, or one.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// The action's K outputs.
    Outputs,
    /// The same numbers for every action: K of them, or one.
    Constant(Vec<f64>),
    /// A function of every number.
    Map(Function, Value),
    /// Two rows, number by number; a single number goes with all of the other row.
    Join(Operation, Value, Value),
    /// One number: all of a row together.
    Fold(Reduction, Value),
}

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// |x|.
    Abs,
    /// −1, 0 or 1.
    Sign,
    /// √x.
    Sqrt,
    /// eˣ.
    Exp,
    /// ln x.
    Log,
}

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// x + y.
    Add,
    /// x − y.
    Sub,
    /// x · y.
    Mul,
    /// x / y.
    Div,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
}

/// A function of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Σ.
    Sum,
    /// The largest.
    Max,
}

/// A node of a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value(usize);

impl Value {
    /// Its place among [`Graph::nodes`].
    pub fn index(self) -> usize {
        self.0
    }
}

/// A decoding: nodes, of which each uses earlier ones, and the last is the action-value.
///
/// ```
/// use spectral_agent::codecs::Graph;
/// let mut graph = Graph::new();
/// let (outputs, weights) = (graph.outputs(), graph.constant(&[1.0, 2.0]));
/// let weighted = graph.mul(outputs, weights);
/// graph.sum(weighted);
/// assert_eq!(graph.evaluate(&[3.0, 4.0]), 11.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    nodes: Vec<Node>,
}

impl Default for Graph {
    fn default() -> Self {
        Graph::new()
    }
}

impl Graph {
    /// The graph that leaves outputs as they are.
    pub fn new() -> Self {
        Graph { nodes: vec![Node::Outputs] }
    }

    /// All nodes, in an order in which they can be computed.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// An action's outputs.
    pub fn outputs(&self) -> Value {
        Value(0)
    }

    fn push(&mut self, node: Node) -> Value {
        self.nodes.push(node);
        Value(self.nodes.len() - 1)
    }

    /// These numbers.
    pub fn constant(&mut self, numbers: &[f64]) -> Value {
        self.push(Node::Constant(numbers.to_vec()))
    }

    /// A function of every number of a row.
    pub fn map(&mut self, function: Function, x: Value) -> Value {
        self.push(Node::Map(function, x))
    }

    /// Two rows, number by number.
    pub fn join(&mut self, operation: Operation, x: Value, y: Value) -> Value {
        self.push(Node::Join(operation, x, y))
    }

    /// x + y.
    pub fn add(&mut self, x: Value, y: Value) -> Value {
        self.join(Operation::Add, x, y)
    }

    /// x − y.
    pub fn sub(&mut self, x: Value, y: Value) -> Value {
        self.join(Operation::Sub, x, y)
    }

    /// x · y.
    pub fn mul(&mut self, x: Value, y: Value) -> Value {
        self.join(Operation::Mul, x, y)
    }

    /// x / y.
    pub fn div(&mut self, x: Value, y: Value) -> Value {
        self.join(Operation::Div, x, y)
    }

    /// The sum of a row.
    pub fn sum(&mut self, x: Value) -> Value {
        self.push(Node::Fold(Reduction::Sum, x))
    }

    /// The largest of a row.
    pub fn largest(&mut self, x: Value) -> Value {
        self.push(Node::Fold(Reduction::Max, x))
    }

    /// Numbers within ±`bound`.
    pub fn bounded(&mut self, x: Value, bound: f64) -> Value {
        let (low, high) = (self.constant(&[-bound]), self.constant(&[bound]));
        let x = self.join(Operation::Max, x, low);
        self.join(Operation::Min, x, high)
    }

    /// The inverse of a squashing function, as [`Squash::inverse_f32`] has it.
    pub fn unsquash(&mut self, squash: Squash, y: Value) -> Value {
        let (a, sign) = (self.map(Function::Abs, y), self.map(Function::Sign, y));
        let value = match squash {
            Squash::Sqrt { epsilon } => self.unsquash_sqrt(f64::from(epsilon as f32), a),
            Squash::Log { epsilon } if epsilon > 0.0 => self.unsquash_log(f64::from(epsilon as f32), a),
            Squash::Log { .. } | Squash::Symlog => self.exp_m1(a),
        };
        let largest = self.constant(&[f64::from(f32::MAX)]);
        let value = self.join(Operation::Min, value, largest);
        self.mul(value, sign)
    }

    fn unsquash_sqrt(&mut self, epsilon: f64, a: Value) -> Value {
        let half = 0.5 + epsilon;
        let [epsilon, half, square, two] = [epsilon, half, half * half, 2.0].map(|x| self.constant(&[x]));
        let grown = self.mul(epsilon, a);
        let radicand = self.add(square, grown);
        let root = self.map(Function::Sqrt, radicand);
        let below = self.add(half, root);
        let s = self.div(a, below);
        let longer = self.add(s, two);
        self.mul(s, longer)
    }

    /// Newton's method on u + ε(eᵘ − 1) = a, as in [`Squash`], with a fixed number of steps.
    fn unsquash_log(&mut self, epsilon: f64, a: Value) -> Value {
        /// Twice what the worst ε and value need.
        const STEPS: usize = 12;
        let [epsilon, one, highest, zero] = [epsilon, 1.0, 709.78, 0.0].map(|x| self.constant(&[x]));
        let ratio = self.div(a, epsilon);
        let ratio = self.add(ratio, one);
        let logarithm = self.map(Function::Log, ratio);
        let mut u = self.join(Operation::Min, a, logarithm);
        u = self.join(Operation::Min, u, highest);
        let steep = self.add(one, epsilon);
        for _ in 0..STEPS {
            let exponential = self.exp_m1(u);
            let grown = self.mul(epsilon, exponential);
            let sum = self.add(u, grown);
            let excess = self.sub(sum, a);
            let slope = self.add(steep, grown);
            let descent = self.div(excess, slope);
            u = self.sub(u, descent);
            u = self.join(Operation::Min, u, highest);
        }
        let x = self.exp_m1(u);
        self.join(Operation::Max, x, zero)
    }

    /// ONNX has no function of its own for eˣ − 1; in double precision, the difference keeps enough digits.
    fn exp_m1(&mut self, x: Value) -> Value {
        let one = self.constant(&[1.0]);
        let exponential = self.map(Function::Exp, x);
        self.sub(exponential, one)
    }

    /// What the graph gives for one action's outputs.
    ///
    /// # Panics
    /// If rows of different lengths meet, or the last value is not one number.
    pub fn evaluate(&self, outputs: &[f32]) -> f32 {
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let row = match node {
                Node::Outputs => outputs.iter().map(|&y| f64::from(y)).collect(),
                Node::Constant(numbers) => numbers.clone(),
                Node::Map(function, x) => rows[x.0].iter().map(|&x| function.of(x)).collect(),
                Node::Join(operation, x, y) => {
                    let (x, y) = (&rows[x.0], &rows[y.0]);
                    assert!(x.len() == y.len() || x.len() == 1 || y.len() == 1, "rows must fit each other");
                    let at = |row: &[f64], i: usize| row[if row.len() == 1 { 0 } else { i }];
                    (0..x.len().max(y.len())).map(|i| operation.of(at(x, i), at(y, i))).collect()
                }
                Node::Fold(Reduction::Sum, x) => vec![rows[x.0].iter().sum()],
                Node::Fold(Reduction::Max, x) => vec![rows[x.0].iter().copied().fold(f64::MIN, f64::max)],
            };
            rows.push(row);
        }
        let last = rows.last().expect("there are the outputs at least");
        assert_eq!(last.len(), 1, "an action-value is one number");
        last[0] as f32
    }
}

impl Function {
    fn of(self, x: f64) -> f64 {
        match self {
            Function::Abs => x.abs(),
            Function::Sign => {
                if x == 0.0 {
                    0.0
                } else {
                    x.signum()
                }
            }
            Function::Sqrt => x.sqrt(),
            Function::Exp => x.exp(),
            Function::Log => x.ln(),
        }
    }
}

impl Operation {
    fn of(self, x: f64, y: f64) -> f64 {
        match self {
            Operation::Add => x + y,
            Operation::Sub => x - y,
            Operation::Mul => x * y,
            Operation::Div => x / y,
            Operation::Min => x.min(y),
            Operation::Max => x.max(y),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::codecs::Codec as _;
    use crate::codecs::compressed::{CompressedSettings, TransformKind};
    use crate::codecs::{Compressed, builtin, configure, test_variants};
    use crate::settings::AgentSettings;
    use spectral_core::rng::{Purpose, Stream};

    /// A codec need not have a graph; those of the paper and `categorical` have one.
    #[test]
    fn the_codecs_that_can_be_exported() {
        let names: Vec<String> = builtin().iter().map(|codec| codec.name().to_string()).collect();
        let has = |name: &&String| {
            let (_, codec) = configure(name, AgentSettings::default()).unwrap();
            codec.decode_graph(&codec.init()).is_some()
        };
        let exported: Vec<&String> = names.iter().filter(has).collect();
        for name in ["spectral", "compressed", "popart", "clipped", "categorical"] {
            assert!(exported.iter().any(|exported| *exported == name), "{name}");
        }
    }

    /// The codecs' own f32 sums round. A mean over a support rounds by the size of the support, however small the mean.
    #[test]
    fn a_graph_gives_what_decode_gives() {
        for name in test_variants() {
            let (_, codec) = configure(&name, AgentSettings::default()).unwrap();
            let mut rng = Stream::new(1, Purpose::Other, 0);
            let mut state = codec.init();
            state.iter_mut().for_each(|x| *x += 100.0 * rng.unit_f64());
            let Some(graph) = codec.decode_graph(&state) else { continue };
            let support: f64 = match &name {
                name if name.contains("support_max=2000") => 2e3,
                name if name.contains("readout=mean") => 1e7,
                name if name.contains("categorical") => 16.0,
                _ => 0.0,
            };
            let mut largest = 0.0f64;
            for scale in [0.0f32, 1e-6, 1e-3, 0.3, 1.0, 8.0, 100.0, 1e5, 1e9] {
                let (mut difference, mut size) = (0.0f64, support);
                for _ in 0..30 {
                    let outputs: Vec<f32> =
                        (0..codec.outputs()).map(|_| scale * (2.0 * rng.unit_f32() - 1.0)).collect();
                    let (found, expected) = (graph.evaluate(&outputs), codec.decode(&outputs, &state));
                    assert!(found.is_finite(), "{name} at {scale}: {found}");
                    difference = difference.max((f64::from(found) - f64::from(expected)).abs());
                    size = size.max(f64::from(expected.abs()));
                }
                largest = largest.max(difference / size.max(1e-30));
            }
            println!("{name}: {largest:.1e}");
            assert!(largest < 1e-5, "{name}: {largest}");
        }
    }

    #[test]
    fn newtons_steps_suffice_for_every_epsilon() {
        for exponent in -12..=6 {
            let transform_epsilon = 10f64.powi(exponent);
            let settings =
                CompressedSettings { transform: TransformKind::Log, transform_epsilon, ..Default::default() };
            let codec = Compressed::new(&settings).unwrap();
            let graph = codec.decode_graph(&[]).unwrap();
            for y in (-40..152).map(|i| 10f32.powf(i as f32 / 4.0)) {
                let (found, expected) = (graph.evaluate(&[y]), codec.decode(&[y], &[]));
                let error = (f64::from(found) - f64::from(expected)).abs();
                assert!(
                    error <= 1e-6 * f64::from(expected) + 1e-12,
                    "ε = 1e{exponent}, y = {y}: {found} {expected}"
                );
            }
        }
    }
}
