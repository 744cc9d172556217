//! Plain little-endian bytes: how environments, replay and learners write their state into checkpoints.

/// The bytes of a saved state ended early or do not fit what is being restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateError(pub String);

impl std::fmt::Display for StateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "saved state does not fit: {}", self.0)
    }
}

impl std::error::Error for StateError {}

/// Appends values to a byte buffer.
///
/// ```
/// use spectral_core::bytes::{StateReader, StateWriter};
/// let mut w = StateWriter::default();
/// w.u64(7);
/// w.f32s(&[1.0, 2.0]);
/// let bytes = w.into_bytes();
/// let mut r = StateReader::new(&bytes);
/// assert_eq!(r.u64().unwrap(), 7);
/// assert_eq!(r.f32s().unwrap(), vec![1.0, 2.0]);
/// r.finish().unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct StateWriter {
    bytes: Vec<u8>,
}

/// Reads back, in the same order, what a [`StateWriter`] wrote.
#[derive(Clone, Debug)]
pub struct StateReader<'a> {
    bytes: &'a [u8],
}

macro_rules! scalar {
    ($($name:ident),*) => {
        impl StateWriter {
            $(#[doc = concat!("Appends one `", stringify!($name), "`.")]
            pub fn $name(&mut self, value: $name) {
                self.bytes.extend_from_slice(&value.to_le_bytes());
            })*
        }
        impl StateReader<'_> {
            $(#[doc = concat!("Reads one `", stringify!($name), "`.")]
            pub fn $name(&mut self) -> Result<$name, StateError> {
                const N: usize = std::mem::size_of::<$name>();
                let raw = self.take(N)?;
                Ok($name::from_le_bytes(raw.try_into().expect("take gives N bytes")))
            })*
        }
    };
}

scalar!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

macro_rules! slice {
    ($($plural:ident: $name:ident),*) => {
        impl StateWriter {
            $(#[doc = concat!("Appends a length and then that many `", stringify!($name), "`.")]
            pub fn $plural(&mut self, values: &[$name]) {
                self.u64(values.len() as u64);
                self.bytes.reserve(std::mem::size_of_val(values));
                for value in values {
                    self.$name(*value);
                }
            })*
        }
        impl StateReader<'_> {
            $(#[doc = concat!("Reads a length and then that many `", stringify!($name), "`.")]
            pub fn $plural(&mut self) -> Result<Vec<$name>, StateError> {
                const N: usize = std::mem::size_of::<$name>();
                let len = self.u64()? as usize;
                let raw = self.take(len.checked_mul(N).ok_or_else(|| StateError("absurd length".into()))?)?;
                let chunks = raw.chunks_exact(N);
                Ok(chunks.map(|c| $name::from_le_bytes(c.try_into().expect("chunks of N"))).collect())
            })*
        }
    };
}

slice!(u64s: u64, f32s: f32, f64s: f64);

impl StateWriter {
    /// Appends a truth value as one byte.
    pub fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// Appends a length and then the bytes.
    pub fn blob(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// All that was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl<'a> StateReader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        StateReader { bytes }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], StateError> {
        if n > self.bytes.len() {
            return Err(StateError(format!("{n} more bytes expected, {} left", self.bytes.len())));
        }
        let (head, tail) = self.bytes.split_at(n);
        self.bytes = tail;
        Ok(head)
    }

    /// Reads a truth value.
    pub fn bool(&mut self) -> Result<bool, StateError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(StateError(format!("{other} is no truth value"))),
        }
    }

    /// Reads a length and then that many bytes, without copying them.
    pub fn blob(&mut self) -> Result<&'a [u8], StateError> {
        let len = self.u64()? as usize;
        self.take(len)
    }

    /// Reads a slice of f32 into a buffer of exactly that length.
    pub fn f32s_into(&mut self, out: &mut [f32]) -> Result<(), StateError> {
        let values = self.f32s()?;
        if values.len() != out.len() {
            return Err(StateError(format!("{} numbers found, {} expected", values.len(), out.len())));
        }
        out.copy_from_slice(&values);
        Ok(())
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Checks that nothing is left over.
    pub fn finish(self) -> Result<(), StateError> {
        if self.bytes.is_empty() {
            Ok(())
        } else {
            Err(StateError(format!("{} bytes left over", self.bytes.len())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_and_oversized_input_is_an_error() {
        let mut w = StateWriter::default();
        w.f64s(&[1.0, -2.5]);
        w.bool(true);
        let bytes = w.into_bytes();
        for cut in 0..bytes.len() {
            let mut r = StateReader::new(&bytes[..cut]);
            assert!(r.f64s().and_then(|_| r.bool()).is_err(), "cut at {cut}");
        }
        let mut absurd = StateWriter::default();
        absurd.u64(u64::MAX);
        assert!(StateReader::new(&absurd.into_bytes()).f64s().is_err());
        let mut r = StateReader::new(&bytes);
        r.f64s().unwrap();
        assert!(r.finish().is_err());
    }
}
