//! A [`Policy`] as an ONNX file: the network and its decoding, for every program that runs such files.
//!
//! The input `observation` has one row per stacked observation: bytes `[batch, channels, rows, columns]`, which the graph
//! divides by 255 itself, or floats `[batch, length]`. The outputs are `q_values` `[batch, actions]`, in true reward units,
//! and `outputs` `[batch, actions, K]`, the network's own.

mod protobuf;

use crate::error::TrainError;
use crate::policy::Policy;
use crate::store::write_atomically;
use protobuf::{Attribute, Element, GraphMessage, Size};
use spectral_agent::codecs::{Function, Graph, Node, Operation, Reduction, Value};
use spectral_nn::{Architecture, Head, Input, Layer};
use std::path::Path;

/// The version of ONNX's operators that files use.
const OPSET: i64 = 17;
/// Protobuf files cannot be larger than 2 GB; some room is left for names.
const MAX_PARAMETERS: usize = 500_000_000;

/// Writes a policy as an ONNX file, atomically.
///
/// A codec that does not describe its decoding ([`Codec::decode_graph`](spectral_agent::codecs::Codec::decode_graph)) is refused.
pub fn export(policy: &Policy, path: &Path) -> Result<(), TrainError> {
    let bytes = model(policy)?;
    Ok(write_atomically(path, |out| out.write_all(&bytes))?)
}

/// The bytes of a policy's ONNX file.
pub fn model(policy: &Policy) -> Result<Vec<u8>, TrainError> {
    let description = policy.description();
    let decoding = description.codec().decode_graph(policy.codec_state()).ok_or_else(|| {
        TrainError::Usage(format!(
            "the codec {} cannot be exported: it does not describe its decoding as a graph (Codec::decode_graph)",
            description.codec_name
        ))
    })?;
    let network = description.network();
    if policy.parameters().len() > MAX_PARAMETERS {
        return Err(TrainError::Usage("the network is too large for an ONNX file of 2 GB".into()));
    }
    let mut graph = GraphMessage::new(&description.agent);
    for tensor in description.tensors() {
        let raw: Vec<u8> = tensor.places().flat_map(|at| policy.parameters()[at].to_le_bytes()).collect();
        graph.tensor(&tensor.name, Element::Float, &tensor.shape, &raw);
    }
    let input = declare_input(&mut graph, &network.input);
    write_network(&mut graph, network, input);
    write_decoding(&mut graph, &decoding);
    let Head { actions, per_action, .. } = network.head;
    graph.output("q_values", Element::Float, &[Size::Batch, Size::Fixed(actions)]);
    graph.output("outputs", Element::Float, &[Size::Batch, Size::Fixed(actions), Size::Fixed(per_action)]);
    let mut metadata = description.metadata();
    metadata.push(("frames", policy.frames().to_string()));
    Ok(graph.into_model(OPSET, env!("CARGO_PKG_VERSION"), &metadata))
}

/// Declares the input and returns the name of what the first layer sees.
fn declare_input(graph: &mut GraphMessage, input: &Input) -> String {
    const NAME: &str = "observation";
    match *input {
        Input::Vector { len } => {
            graph.input(NAME, Element::Float, &[Size::Batch, Size::Fixed(len)]);
            NAME.into()
        }
        Input::Planes { channels, height, width } => {
            let sizes = [channels, height, width].map(Size::Fixed);
            graph.input(NAME, Element::Byte, &[&[Size::Batch][..], &sizes].concat());
            let floats = graph.node("Cast", &[NAME], &[Attribute::Int("to", Element::Float as i64)]);
            // As the CPU computes it: a product, not a quotient.
            let factor = graph.constant(Element::Float, &[], &(1.0f32 / 255.0).to_le_bytes());
            graph.node("Mul", &[&floats, &factor], &[])
        }
    }
}

/// Adds the layers, in the words of [`spectral_nn::Tensor`]'s names; the last value is `outputs`.
fn write_network(graph: &mut GraphMessage, network: &Architecture, input: String) {
    let Head { actions, per_action, dueling, .. } = network.head;
    let shared = network.layers.len() - usize::from(dueling);
    let (mut x, mut flat) = (input, matches!(network.input, Input::Vector { .. }));
    for (index, layer) in network.layers[..shared].iter().enumerate() {
        let name = format!("hidden.{index}");
        let sums = match *layer {
            Layer::Conv { kernel, stride, .. } => {
                let [kernel, stride] = [kernel, stride].map(|size| vec![size as i64; 2]);
                let attributes =
                    [Attribute::Ints("kernel_shape", kernel), Attribute::Ints("strides", stride)];
                graph.node("Conv", &[&x, &format!("{name}.weight"), &format!("{name}.bias")], &attributes)
            }
            Layer::Linear { .. } => {
                flatten(graph, &mut x, &mut flat);
                linear(graph, &name, &x)
            }
        };
        x = graph.node("Relu", &[&sums], &[]);
    }
    flatten(graph, &mut x, &mut flat);
    // A size of 0 keeps the batch as it is, even an empty one.
    let shape =
        |graph: &mut GraphMessage, actions: usize| graph.integers(&[0, actions as i64, per_action as i64]);
    if !dueling {
        let outputs = linear(graph, "head", &x);
        let shape = shape(graph, actions);
        return graph.named_node("Reshape", &[&outputs, &shape], &[], "outputs");
    }
    let mut stream = |name: &str, actions: usize| {
        let hidden = linear(graph, &format!("{name}.hidden"), &x);
        let hidden = graph.node("Relu", &[&hidden], &[]);
        let outputs = linear(graph, &format!("{name}.head"), &hidden);
        let shape = shape(graph, actions);
        graph.node("Reshape", &[&outputs, &shape], &[])
    };
    let (value, advantage) = (stream("value", 1), stream("advantage", actions));
    let axes = [Attribute::Ints("axes", vec![1]), Attribute::Int("keepdims", 1)];
    let mean = graph.node("ReduceMean", &[&advantage], &axes);
    let above = graph.node("Sub", &[&advantage, &mean], &[]);
    graph.named_node("Add", &[&value, &above], &[], "outputs");
}

fn flatten(graph: &mut GraphMessage, x: &mut String, flat: &mut bool) {
    if !std::mem::replace(flat, true) {
        *x = graph.node("Flatten", &[x], &[Attribute::Int("axis", 1)]);
    }
}

fn linear(graph: &mut GraphMessage, name: &str, x: &str) -> String {
    let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
    graph.node("Gemm", &[x, &weight, &bias], &[Attribute::Int("transB", 1)])
}

/// Adds what turns `outputs` into `q_values`.
fn write_decoding(graph: &mut GraphMessage, decoding: &Graph) {
    let mut names: Vec<String> = Vec::new();
    for node in decoding.nodes() {
        let at = |value: &Value| names[value.index()].as_str();
        let name = match node {
            Node::Outputs => {
                graph.node("Cast", &["outputs"], &[Attribute::Int("to", Element::Double as i64)])
            }
            Node::Constant(numbers) => {
                let raw: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
                graph.constant(Element::Double, &[numbers.len()], &raw)
            }
            Node::Map(function, x) => {
                let operator = match function {
                    Function::Abs => "Abs",
                    Function::Sign => "Sign",
                    Function::Sqrt => "Sqrt",
                    Function::Exp => "Exp",
                    Function::Log => "Log",
                };
                graph.node(operator, &[at(x)], &[])
            }
            Node::Join(operation, x, y) => {
                let operator = match operation {
                    Operation::Add => "Add",
                    Operation::Sub => "Sub",
                    Operation::Mul => "Mul",
                    Operation::Div => "Div",
                    Operation::Min => "Min",
                    Operation::Max => "Max",
                };
                graph.node(operator, &[at(x), at(y)], &[])
            }
            // Before version 18 of the operators, axes are an input of sums and an attribute of all other reductions.
            Node::Fold(Reduction::Sum, x) => {
                let axes = graph.integers(&[2]);
                graph.node("ReduceSum", &[at(x), &axes], &[Attribute::Int("keepdims", 1)])
            }
            Node::Fold(Reduction::Max, x) => {
                let axes = [Attribute::Ints("axes", vec![2]), Attribute::Int("keepdims", 1)];
                graph.node("ReduceMax", &[at(x)], &axes)
            }
        };
        names.push(name);
    }
    let value = names.last().expect("a graph has the outputs at least");
    let floats = graph.node("Cast", &[value], &[Attribute::Int("to", Element::Float as i64)]);
    let axes = graph.integers(&[2]);
    graph.named_node("Squeeze", &[&floats, &axes], &[], "q_values");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Configuration;
    use crate::registry::Registry;
    use spectral_agent::codecs::{Codec, CodecEntry, Rows};
    use spectral_agent::learner::Learner;
    use spectral_core::bytes::StateWriter;
    use std::sync::Arc;

    fn policy(registry: &Registry, settings: &[&str]) -> Policy {
        let mut config = Configuration::default();
        settings.iter().chain(&["device=cpu"]).for_each(|pair| config.set(pair).unwrap());
        let run = registry.resolve(&config).unwrap();
        let settings = run.plan.agents[0].settings.clone();
        let learner = Learner::new(settings, run.codecs[0].clone(), &run.task, 1).unwrap();
        let mut model = StateWriter::default();
        learner.save_model(&mut model);
        Policy::from_model(&run, 0, 0, &model.into_bytes()).unwrap()
    }

    /// What onnxruntime computes is compared in `python/tests/test_onnx.py`; here, that every combination is written.
    #[test]
    fn every_network_and_agent_is_written() {
        let registry = Registry::default();
        for (_, preset) in registry.agents() {
            let agent = format!("agents={}", preset.name);
            for network in [&["hidden=5"][..], &["hidden=5", "dueling=true"], &["observation=planes"]] {
                let policy = policy(&registry, &[&["task=catch-scale", agent.as_str()], network].concat());
                let bytes = model(&policy).unwrap();
                let holds = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
                assert!(holds("observation") && holds("q_values") && holds("batch"), "{}", preset.name);
                assert_eq!(model(&policy).unwrap(), bytes, "equal models give equal files");
            }
        }
    }

    /// A codec of somebody's own that says nothing of graphs.
    #[derive(Debug)]
    struct Mine;

    impl Codec for Mine {
        fn outputs(&self) -> usize {
            1
        }
        fn encode_reward(&self, reward: f32, factor: f32, out: &mut [f32]) {
            out[0] += factor * reward;
        }
        fn decode(&self, outputs: &[f32], _: &[f64]) -> f32 {
            outputs[0]
        }
        fn target(&self, encoded: &[f32], bootstrap: f32, next: &[f32], _: &[f64], out: &mut [f32]) {
            out[0] = encoded[0] + bootstrap * next[0];
        }
        fn gradient(&self, _: &Rows<'_>, _: &mut [f64], _: &mut [f32], _: &mut [f32]) {}
    }

    #[test]
    fn a_codec_without_a_graph_is_refused() {
        let mine = CodecEntry::new("mine", "", |_: &(), _| Ok(Arc::new(Mine)));
        let registry = Registry::default().with_codec(mine).unwrap();
        let policy = policy(&registry, &["task=catch-scale", "agents=mine", "hidden=4"]);
        let said = model(&policy).unwrap_err().to_string();
        assert!(said.contains("mine cannot be exported") && said.contains("decode_graph"), "{said}");
    }
}
