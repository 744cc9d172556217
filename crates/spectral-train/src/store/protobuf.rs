//! Protobuf messages, written field by field.
//!
//! A message is its fields one after the other, each a key (number and wire type) and a value.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    /// A whole number.
    pub fn number(mut self, field: u64, value: i64) -> Self {
        self.key(field, 0);
        self.varint(value as u64);
        self
    }

    /// A number of double precision.
    pub fn double(mut self, field: u64, value: f64) -> Self {
        self.key(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A number of single precision.
    pub fn float(mut self, field: u64, value: f32) -> Self {
        self.key(field, 5);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Bytes: a text, a message or raw data.
    pub fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// A text.
    pub fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    /// A message within this one.
    pub fn message(self, field: u64, message: &Message) -> Self {
        self.bytes(field, &message.0)
    }

    /// Everything that was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Everything that was written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
