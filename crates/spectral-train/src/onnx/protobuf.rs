//! The few messages of ONNX's protobuf schema that a model needs, written field by field.
//!
//! A message is its fields one after the other, each a key (number and wire type) and a value. Numbers are those of
//! `onnx.proto3`.

use crate::store::Message;

/// What the elements of a tensor are, by ONNX's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Float = 1,
    Byte = 2,
    Int64 = 7,
    Double = 11,
}

/// An attribute of a node.
#[derive(Clone, Debug)]
pub(super) enum Attribute {
    Int(&'static str, i64),
    Ints(&'static str, Vec<i64>),
}

impl Attribute {
    fn message(&self) -> Message {
        const INT: i64 = 2;
        const INTS: i64 = 7;
        match self {
            Attribute::Int(name, value) => Message::default().text(1, name).number(3, *value).number(20, INT),
            Attribute::Ints(name, values) => {
                let named = Message::default().text(1, name);
                values.iter().fold(named, |m, value| m.number(8, *value)).number(20, INTS)
            }
        }
    }
}

/// A size of an input or output.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    /// As many rows as are given.
    Batch,
    /// So many.
    Fixed(usize),
}

/// The graph under construction.
#[derive(Debug, Default)]
pub(super) struct GraphMessage {
    message: Message,
    values: usize,
}

impl GraphMessage {
    pub fn new(name: &str) -> Self {
        GraphMessage { message: Message::default().text(2, name), values: 0 }
    }

    /// Adds a node whose output gets a name of its own, which is returned.
    pub fn node(&mut self, operator: &str, inputs: &[&str], attributes: &[Attribute]) -> String {
        let output = format!("{}_{}", operator.to_lowercase(), self.values);
        self.named_node(operator, inputs, attributes, &output);
        output
    }

    /// Adds a node whose output has this name.
    pub fn named_node(&mut self, operator: &str, inputs: &[&str], attributes: &[Attribute], output: &str) {
        self.values += 1;
        let node = inputs.iter().fold(Message::default(), |m, input| m.text(1, input));
        let node = node.text(2, output).text(3, output).text(4, operator);
        let node = attributes.iter().fold(node, |m, attribute| m.message(5, &attribute.message()));
        self.add(1, &node);
    }

    /// Adds numbers under this name.
    pub fn tensor(&mut self, name: &str, element: Element, shape: &[usize], raw: &[u8]) {
        let tensor = shape.iter().fold(Message::default(), |m, &size| m.number(1, size as i64));
        let tensor = tensor.number(2, element as i64).text(8, name).bytes(9, raw);
        self.add(5, &tensor);
    }

    /// Adds numbers under a name of their own, which is returned.
    pub fn constant(&mut self, element: Element, shape: &[usize], raw: &[u8]) -> String {
        let name = format!("constant_{}", self.values);
        self.values += 1;
        self.tensor(&name, element, shape, raw);
        name
    }

    /// Adds whole numbers, such as a shape or axes.
    pub fn integers(&mut self, numbers: &[i64]) -> String {
        let raw: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.constant(Element::Int64, &[numbers.len()], &raw)
    }

    /// Declares an input.
    pub fn input(&mut self, name: &str, element: Element, shape: &[Size]) {
        self.add(11, &value_info(name, element, shape));
    }

    /// Declares an output.
    pub fn output(&mut self, name: &str, element: Element, shape: &[Size]) {
        self.add(12, &value_info(name, element, shape));
    }

    fn add(&mut self, field: u64, message: &Message) {
        self.message = std::mem::take(&mut self.message).message(field, message);
    }

    /// The whole model: the graph, and what is said of it.
    pub fn into_model(self, opset: i64, version: &str, metadata: &[(&str, String)]) -> Vec<u8> {
        /// The intermediate representation's version that belongs to the operators' version 17.
        const IR_VERSION: i64 = 8;
        let operators = Message::default().text(1, "").number(2, opset);
        let model = Message::default().number(1, IR_VERSION).text(2, "spectral-rl").text(3, version);
        let model = model.message(7, &self.message).message(8, &operators);
        let entry = |(key, value): &(&str, String)| Message::default().text(1, key).text(2, value);
        metadata.iter().fold(model, |m, pair| m.message(14, &entry(pair))).into_bytes()
    }
}

fn value_info(name: &str, element: Element, shape: &[Size]) -> Message {
    let dimension = |size: &Size| match size {
        Size::Batch => Message::default().text(2, "batch"),
        Size::Fixed(size) => Message::default().number(1, *size as i64),
    };
    let shape = shape.iter().fold(Message::default(), |m, size| m.message(1, &dimension(size)));
    let tensor = Message::default().number(1, element as i64).message(2, &shape);
    Message::default().text(1, name).message(2, &Message::default().message(1, &tensor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_protobuf_has_them() {
        // The examples of protobuf's own documentation: field 1 = 150, field 2 = "testing".
        let message = Message::default().number(1, 150).text(2, "testing");
        assert_eq!(message.clone().into_bytes(), b"\x08\x96\x01\x12\x07testing");
        let outer = Message::default().message(3, &message).number(20, -1);
        assert_eq!(
            outer.into_bytes(),
            b"\x1a\x0c\x08\x96\x01\x12\x07testing\xa0\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
        );
    }
}
