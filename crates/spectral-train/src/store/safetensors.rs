//! The safetensors format, in which models are written: the length of a header as u64, the header as JSON, then the bytes of
//! all tensors. All numbers are little-endian.
//!
//! The header maps each tensor's name to its type, shape and byte range, and `__metadata__` to pairs of strings. The writer keeps
//! the order in which these are given, so that equal models give equal files. The reader validates everything before it uses
//! it: see [`TensorFile::open`].

use super::StoreError;
use super::disk::File;
use super::tensor_header::{self, Header};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The longest header that is read. A model's has a few thousand bytes.
const MAX_HEADER: u64 = 1 << 20;
/// The header is filled up with spaces to a multiple of this, so that tensors are aligned in a mapped file.
const ALIGNMENT: usize = 8;

/// What the elements of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
}

impl Dtype {
    /// The name in a header.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F32 => "F32",
            Dtype::F64 => "F64",
        }
    }

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::F32 => 4,
            Dtype::F64 => 8,
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        [Dtype::F32, Dtype::F64].into_iter().find(|dtype| dtype.name() == name)
    }
}

/// A tensor with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The name.
    pub name: String,
    /// What its elements are.
    pub dtype: Dtype,
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// Elements, the last index fastest, each little-endian.
    pub bytes: Vec<u8>,
}

/// A tensor as a header describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorEntry {
    /// The name.
    pub name: String,
    /// What its elements are.
    pub dtype: Dtype,
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// Where its bytes lie, counted from the header's end.
    pub range: Range<u64>,
}

/// Writes a file of tensors, in the order in which they are given. Tensors of larger elements must come first, so that all
/// are aligned.
///
/// ```
/// use spectral_train::store::safetensors::{Dtype, Tensor, write};
/// let bytes = 1.5f32.to_le_bytes().to_vec();
/// let mut file = Vec::new();
/// write(&mut file, &[("k", "v")], &[Tensor { name: "x".into(), dtype: Dtype::F32, shape: vec![1], bytes }])?;
/// assert_eq!(
///     &file[8..],
///     b"{\"__metadata__\":{\"k\":\"v\"},\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}} \0\0\xc0\x3f"
/// );
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Panics
/// If a tensor's shape does not fit its bytes.
pub fn write(out: &mut dyn Write, metadata: &[(&str, &str)], tensors: &[Tensor]) -> io::Result<()> {
    let mut end = 0;
    let entry = |tensor: &Tensor| {
        let elements: usize = tensor.shape.iter().product();
        assert_eq!(
            tensor.bytes.len(),
            elements * tensor.dtype.bytes(),
            "{}: {:?}",
            tensor.name,
            tensor.shape
        );
        let start = end;
        end += tensor.bytes.len() as u64;
        let (name, shape) = (tensor.name.clone(), tensor.shape.clone());
        TensorEntry { name, dtype: tensor.dtype, shape, range: start..end }
    };
    let entries: Vec<TensorEntry> = tensors.iter().map(entry).collect();
    let mut header = tensor_header::format(metadata, &entries).into_bytes();
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    tensors.iter().try_for_each(|tensor| out.write_all(&tensor.bytes))
}

/// A file of tensors whose header has been read and checked.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    file: File,
    data_at: u64,
    header: Header,
}

impl TensorFile {
    /// Opens a file and reads its header.
    ///
    /// An error that names the file is returned if the header is too long, is not valid, or repeats a name; if a tensor's byte
    /// range does not fit its type and shape; or if the tensors overlap, leave gaps, or do not end where the file ends.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |doing| move |e| StoreError::io(path, doing, e);
        let mut file = super::open_plain(path).map_err(failed("open"))?;
        let length = file.metadata().map_err(failed("read the length of"))?.len();
        let wrong = |detail: String| StoreError::Model { path: path.into(), detail };
        let mut prefix = [0; 8];
        if length < prefix.len() as u64 {
            return Err(wrong(format!("it has only {length} bytes")));
        }
        file.read_exact(&mut prefix).map_err(failed("read"))?;
        let header_length = u64::from_le_bytes(prefix);
        if header_length > MAX_HEADER || header_length > length - 8 {
            return Err(wrong(format!(
                "it declares a header of {header_length} bytes, but {} bytes follow, and the limit is {MAX_HEADER}",
                length - 8
            )));
        }
        let mut header = vec![0; header_length as usize];
        file.read_exact(&mut header).map_err(failed("read"))?;
        let data_at = 8 + header_length;
        let header = std::str::from_utf8(&header).map_err(|_| wrong("its header is not UTF-8".into()))?;
        let header =
            tensor_header::parse(header).map_err(|why| wrong(format!("its header is invalid: {why}")))?;
        check_places(&header.tensors, length - data_at).map_err(wrong)?;
        Ok(TensorFile { path: path.into(), file, data_at, header })
    }

    /// The metadata, in the file's order.
    pub fn metadata(&self) -> &[(String, String)] {
        &self.header.metadata
    }

    /// The tensors, in the header's order.
    pub fn entries(&self) -> &[TensorEntry] {
        &self.header.tensors
    }

    /// Reads one tensor's bytes. [`open`](TensorFile::open) has checked that they are in the file, so this allocates no more
    /// than the file's length.
    pub fn read(&mut self, entry: &TensorEntry) -> Result<Tensor, StoreError> {
        let failed = |e| StoreError::io(&self.path, "read", e);
        let mut bytes = vec![0; (entry.range.end - entry.range.start) as usize];
        self.file.seek(SeekFrom::Start(self.data_at + entry.range.start)).map_err(failed)?;
        self.file.read_exact(&mut bytes).map_err(failed)?;
        Ok(Tensor { name: entry.name.clone(), dtype: entry.dtype, shape: entry.shape.clone(), bytes })
    }
}

/// Checks that the tensors' byte ranges fit their shapes and cover `length` bytes exactly once.
fn check_places(entries: &[TensorEntry], length: u64) -> Result<(), String> {
    let mut in_order: Vec<&TensorEntry> = entries.iter().collect();
    in_order.sort_by_key(|entry| (entry.range.start, entry.range.end));
    let mut end = 0;
    for TensorEntry { name, dtype, shape, range } in in_order {
        let size = shape.iter().try_fold(dtype.bytes() as u64, |size, &n| size.checked_mul(n as u64));
        if size.is_none() || range.end.checked_sub(range.start) != size {
            let dtype = dtype.name();
            return Err(format!("{name} is {dtype} {shape:?}, which does not fit its byte range {range:?}"));
        }
        if range.start != end {
            return Err(format!(
                "{name} begins at byte {}, but the tensor before it ends at {end}",
                range.start
            ));
        }
        end = range.end;
    }
    match end == length {
        true => Ok(()),
        false => Err(format!("its tensors have {end} bytes, but {length} follow the header")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::ScratchDir;
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        let tensor = |name: &str, dtype: Dtype, shape: &[usize]| {
            let len = shape.iter().product::<usize>() * dtype.bytes();
            let (name, shape) = (name.into(), shape.to_vec());
            Tensor { name, dtype, shape, bytes: (0..len).map(|i| i as u8).collect() }
        };
        let tensors = [
            tensor("state", Dtype::F64, &[2]),
            tensor("none", Dtype::F64, &[0]),
            tensor("a \"quoted\"\n\u{1F600} name", Dtype::F32, &[2, 1, 3]),
            tensor("scalar", Dtype::F32, &[]),
        ];
        let mut file = Vec::new();
        write(&mut file, &[("k", "v"), ("text", "two\nlines\t\u{7f}\u{1}\\ü")], &tensors).unwrap();
        file
    }

    /// A file with this header and that many bytes of data.
    fn with_header(header: &str, data: usize) -> Vec<u8> {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file.resize(file.len() + data, 0);
        file
    }

    fn open(dir: &ScratchDir, bytes: &[u8]) -> Result<TensorFile, StoreError> {
        let path = dir.join("some.safetensors");
        std::fs::write(&path, bytes).unwrap();
        TensorFile::open(&path)
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = ScratchDir::new();
        let bytes = sample();
        let mut file = open(&dir, &bytes).unwrap();
        assert_eq!(file.metadata()[1].1, "two\nlines\t\u{7f}\u{1}\\ü");
        let names: Vec<String> = file.entries().iter().map(|e| e.name.clone()).collect();
        assert_eq!(names, ["state", "none", "a \"quoted\"\n\u{1F600} name", "scalar"]);
        let entries = file.entries().to_vec();
        let tensors: Vec<Tensor> = entries.iter().map(|entry| file.read(entry).unwrap()).collect();
        assert_eq!((tensors[2].shape.as_slice(), tensors[2].bytes[23]), (&[2, 1, 3][..], 23));
        assert_eq!((tensors[3].shape.len(), tensors[3].bytes.len()), (0, 4));
        let mut again = Vec::new();
        let metadata: Vec<(&str, &str)> =
            file.metadata().iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        write(&mut again, &metadata, &tensors).unwrap();
        assert_eq!(again, bytes);
        assert_eq!(file.data_at % 8, 0, "tensors are aligned");
    }

    #[test]
    fn hostile_files_are_refused_by_name() {
        let dir = ScratchDir::new();
        let sound = sample();
        let mut cases: Vec<(Vec<u8>, &str)> = vec![
            (vec![], "0 bytes"),
            (vec![0; 7], "7 bytes"),
            (u64::MAX.to_le_bytes().to_vec(), "header"),
            ([&(1u64 << 40).to_le_bytes()[..], b"{}"].concat(), "header"),
            ([&(MAX_HEADER + 1).to_le_bytes()[..], &vec![b' '; MAX_HEADER as usize + 1]].concat(), "header"),
            ([&2u64.to_le_bytes()[..], &[0xff, 0xfe]].concat(), "UTF-8"),
            (sound[..sound.len() - 1].to_vec(), "bytes"),
            ([&sound[..], &[0]].concat(), "bytes"),
        ];
        let x = |inner: &str| format!("{{\"x\":{{{inner}}}}}");
        let entry = |shape: &str, offsets: &str| {
            format!("\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":{offsets}")
        };
        for (header, data, word) in [
            (x(&entry("[2]", "[0,4]")), 4, "[2]"),
            (x(&entry("[1]", "[4,8]")), 8, "begins at byte 4"),
            (x(&entry("[1]", "[4,0]")), 4, "4..0"),
            (x(&entry("[1]", "[0,4]")), 8, "8 follow"),
            (x(&entry("[1]", "[0,4]")), 0, "0 follow"),
            (x(&entry("[9223372036854775807,4]", "[0,4]")), 4, "[9223372036854775807, 4]"),
            (x(&entry("[4611686018427387904]", "[0,0]")), 0, "0..0"),
            (x(&entry("[1]", "[0,18446744073709551615]")), 4, "x is F32"),
            (format!("{{\"a\":{{{0}}},\"b\":{{{0}}}}}", entry("[1]", "[0,4]")), 4, "b begins at byte 0"),
            (
                format!("{{\"a\":{{{}}},\"b\":{{{}}}}}", entry("[2]", "[0,8]"), entry("[2]", "[4,12]")),
                12,
                "b begins at byte 4",
            ),
        ] {
            cases.push((with_header(&header, data), word));
        }
        for (bytes, word) in &cases {
            let error = open(&dir, bytes).unwrap_err();
            let said = error.to_string();
            assert!(matches!(error, StoreError::Model { .. }), "{said}");
            assert!(said.contains("some.safetensors") && said.contains(word), "{word}: {said}");
        }
    }

    proptest! {
        /// Whatever a file holds, it is read or refused, and never more memory is taken than it has bytes.
        #[test]
        fn damaged_files_do_no_harm(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<prop::sample::Index>(),
            shorten: bool,
        ) {
            let mut bytes = sample();
            for (place, value) in changes {
                // Damage beyond the header is not the format's to find.
                let header = bytes.len() - 44;
                bytes[place.index(header)] = value;
            }
            if shorten {
                bytes.truncate(cut.index(bytes.len()));
            }
            let dir = ScratchDir::new();
            if let Ok(mut file) = open(&dir, &bytes) {
                for entry in file.entries().to_vec() {
                    file.read(&entry).unwrap();
                }
            }
        }
    }
}
