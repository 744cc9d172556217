//! The file format of checkpoints, replay segments and version 0.1 models: named byte sections with checksums.
//!
//! ```text
//! header    "SPECTRAL", format version u32, crc32 of these 12 bytes
//! section*  0x01, name length u16, name, compressed u8, raw length u64, stored length u64, crc32 of the
//!           stored bytes, crc32 of this heading; then the stored bytes (an LZ4 block if compressed)
//! end       0xFF, number of sections u32, total length of the file u64, crc32 of all headings, crc32 of
//!           this marker
//! ```
//!
//! All numbers are little-endian. Every heading has its own checksum, so a damaged length is never used, and a truncated file
//! lacks its end marker. The 16 bytes of the header stay the same in every future version.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use spectral_core::bytes::{StateReader, StateWriter};

use super::StoreError;
use super::disk::File;

const MAGIC: &[u8; 8] = b"SPECTRAL";
/// The version that is written, and the only one read so far.
pub const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;
const SECTION_MARK: u8 = 0x01;
const END_MARK: u8 = 0xFF;
/// The length of a section's heading without its mark, the name's length and the name.
const HEADING_TAIL_BYTES: usize = 1 + 8 + 8 + 4 + 4;
const END_TAIL_BYTES: usize = 4 + 8 + 4 + 4;
/// Larger sections are stored uncompressed: LZ4 blocks are limited to less than 2 GiB.
const MAX_COMPRESSED: usize = 1 << 30;
/// No LZ4 block shrinks its input by more than this factor, so a heading that claims more is wrong.
const MAX_LZ4_RATIO: u64 = 256;

/// Writes a container, section by section, to the writer that [`write_atomically`](super::write_atomically)
/// hands out.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("spectral-doc-container-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// use spectral_train::store::{Container, ContainerWriter, write_atomically};
/// let path = dir.join("1.checkpoint");
/// write_atomically(&path, |out| {
///     let mut container = ContainerWriter::new(out)?;
///     container.section("weights", &[1, 2, 3])?;
///     container.section("statistics", &[])?;
///     container.finish()
/// })?;
/// let container = Container::open(&path)?;
/// assert_eq!(container.names().collect::<Vec<_>>(), ["weights", "statistics"]);
/// assert_eq!(container.section("weights")?, [1, 2, 3]);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ContainerWriter<'a> {
    out: &'a mut dyn Write,
    names: Vec<String>,
    headings: crc32fast::Hasher,
    written: u64,
}

impl<'a> ContainerWriter<'a> {
    /// Begins a container.
    pub fn new(out: &'a mut dyn Write) -> io::Result<Self> {
        out.write_all(&header(FORMAT_VERSION))?;
        let headings = crc32fast::Hasher::new();
        Ok(ContainerWriter { out, names: Vec::new(), headings, written: HEADER_BYTES as u64 })
    }

    /// Adds a section, compressed if that makes it at least an eighth smaller.
    ///
    /// A name used twice, or one longer than 65,535 bytes, is an error of kind `InvalidInput`.
    pub fn section(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if self.names.iter().any(|n| n == name) {
            return refuse(format!("two sections named '{name}'"));
        }
        let Ok(name_length) = u16::try_from(name.len()) else {
            return refuse(format!("a section's name of {} bytes", name.len()));
        };
        let compressed = compress_if_it_helps(bytes);
        let stored = compressed.as_deref().unwrap_or(bytes);
        let mut heading = StateWriter::default();
        heading.u8(SECTION_MARK);
        heading.u16(name_length);
        for byte in name.bytes() {
            heading.u8(byte);
        }
        heading.bool(compressed.is_some());
        heading.u64(bytes.len() as u64);
        heading.u64(stored.len() as u64);
        heading.u32(crc32fast::hash(stored));
        let heading = with_crc(heading.into_bytes());
        self.headings.update(&heading);
        self.out.write_all(&heading)?;
        self.out.write_all(stored)?;
        self.names.push(name.to_owned());
        self.written += (heading.len() + stored.len()) as u64;
        Ok(())
    }

    /// Writes the end marker, without which the file counts as cut short.
    pub fn finish(self) -> io::Result<()> {
        let mut end = StateWriter::default();
        end.u8(END_MARK);
        end.u32(self.names.len() as u32);
        end.u64(self.written + 1 + END_TAIL_BYTES as u64);
        end.u32(self.headings.finalize());
        self.out.write_all(&with_crc(end.into_bytes()))
    }
}

fn header(version: u32) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&version.to_le_bytes());
    with_crc(bytes)
}

fn with_crc(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn compress_if_it_helps(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < 64 || bytes.len() > MAX_COMPRESSED {
        return None;
    }
    let compressed = lz4_flex::block::compress(bytes);
    (compressed.len() <= bytes.len() / 8 * 7).then_some(compressed)
}

struct Section {
    name: String,
    compressed: bool,
    raw: u64,
    stored: u64,
    crc: u32,
    offset: u64,
}

/// A container whose headings were verified. Sections are read, and their checksums verified, one by one.
pub struct Container {
    path: PathBuf,
    // The file has one cursor, so reads are serialised.
    file: Mutex<File>,
    sections: Vec<Section>,
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Container")
            .field("path", &self.path)
            .field("names", &self.names().collect::<Vec<_>>())
            .finish()
    }
}

impl Container {
    /// Opens a container and reads all headings up to the end marker. A file of another kind, of another
    /// version, cut short or damaged in its headings is refused here; damaged contents are found by
    /// [`section`](Container::section) and [`verify`](Container::verify).
    pub fn open(path: &Path) -> Result<Container, StoreError> {
        let file = super::open_plain(path).map_err(|e| match e.kind() {
            io::ErrorKind::InvalidInput => StoreError::Foreign { path: path.into() },
            _ => StoreError::io(path, "open", e),
        })?;
        let metadata = file.metadata().map_err(|e| StoreError::io(path, "read the length of", e))?;
        let mut walk = Walk { path, file: &file, length: metadata.len(), position: 0 };
        walk.header()?;
        let sections = walk.sections()?;
        Ok(Container { path: path.into(), file: Mutex::new(file), sections })
    }

    /// Names of the sections, in the order in which they were written.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sections.iter().map(|s| s.name.as_str())
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads one section. A section that does not exist, or whose bytes fail their checksum, is an error.
    pub fn section(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        let Some(section) = self.sections.iter().find(|s| s.name == name) else {
            return Err(StoreError::MissingSection { path: self.path.clone(), section: name.into() });
        };
        let corrupt = |what: &str| StoreError::Corrupt {
            path: self.path.clone(),
            detail: format!("the part '{name}' {what}"),
        };
        let mut stored = vec![0; section.stored as usize];
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(section.offset))
                .and_then(|_| file.read_exact(&mut stored))
                .map_err(|e| StoreError::io(&self.path, "read", e))?;
        }
        if crc32fast::hash(&stored) != section.crc {
            return Err(corrupt("fails its checksum"));
        }
        if !section.compressed {
            return Ok(stored);
        }
        let raw = lz4_flex::block::decompress(&stored, section.raw as usize)
            .map_err(|_| corrupt("does not decompress"))?;
        if raw.len() as u64 != section.raw {
            return Err(corrupt("decompresses to another length than was recorded"));
        }
        Ok(raw)
    }

    /// Reads every section once to check that the whole file is intact.
    pub fn verify(&self) -> Result<(), StoreError> {
        self.sections.iter().try_for_each(|s| self.section(&s.name).map(drop))
    }
}

/// A pass over a file's headings.
struct Walk<'a> {
    path: &'a Path,
    file: &'a File,
    length: u64,
    position: u64,
}

impl Walk<'_> {
    fn corrupt(&self, detail: impl Into<String>) -> StoreError {
        StoreError::Corrupt { path: self.path.into(), detail: detail.into() }
    }

    fn truncated(&self, missing: &str) -> StoreError {
        StoreError::Truncated { path: self.path.into(), detail: format!("{} bytes, {missing}", self.length) }
    }

    /// Reads the next bytes. `what` names them in the error if the file ends first.
    fn take(&mut self, count: usize, what: &str) -> Result<Vec<u8>, StoreError> {
        if self.length - self.position < count as u64 {
            return Err(self.truncated(&format!("ends inside {what}")));
        }
        let mut bytes = vec![0; count];
        let read =
            self.file.seek(SeekFrom::Start(self.position)).and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(|e| StoreError::io(self.path, "read", e))?;
        self.position += count as u64;
        Ok(bytes)
    }

    fn header(&mut self) -> Result<(), StoreError> {
        let path = self.path;
        let foreign = || StoreError::Foreign { path: path.into() };
        if self.length < HEADER_BYTES as u64 {
            let start = self.take(self.length as usize, "its header")?;
            let ours = start.iter().zip(MAGIC).all(|(a, b)| a == b);
            return Err(if ours { self.truncated("ends inside its header") } else { foreign() });
        }
        let found = self.take(HEADER_BYTES, "its header")?;
        let version = u32::from_le_bytes(found[8..12].try_into().expect("four bytes"));
        let expected = header(version);
        if found == expected {
            return if version == FORMAT_VERSION {
                Ok(())
            } else {
                Err(StoreError::UnknownVersion {
                    path: self.path.into(),
                    found: version,
                    known: FORMAT_VERSION,
                })
            };
        }
        // If a single field is damaged, the other two still agree with the name or with the known version.
        let ours = found[..8] == MAGIC[..] || found[8..] == expected[8..];
        Err(if ours { self.corrupt("its header fails its checksum") } else { foreign() })
    }

    fn sections(&mut self) -> Result<Vec<Section>, StoreError> {
        let mut sections: Vec<Section> = Vec::new();
        let mut headings = crc32fast::Hasher::new();
        loop {
            let what = match sections.last() {
                Some(last) => format!("what follows the part '{}'", last.name),
                None => "its first part".to_owned(),
            };
            let mark = self.take(1, &what)?;
            match mark[0] {
                SECTION_MARK => sections.push(self.section(mark, &what, &mut headings)?),
                END_MARK => {
                    self.end(mark, sections.len(), headings.finalize())?;
                    return Ok(sections);
                }
                other => return Err(self.corrupt(format!("byte {other} in {what} begins nothing known"))),
            }
        }
    }

    fn section(
        &mut self,
        mut heading: Vec<u8>,
        what: &str,
        headings: &mut crc32fast::Hasher,
    ) -> Result<Section, StoreError> {
        heading.extend(self.take(2, what)?);
        let name_length = u16::from_le_bytes([heading[1], heading[2]]) as usize;
        // A damaged name length would look like a truncated file. Only an intact end marker tells the two apart.
        let left = self.length - self.position;
        if left < (name_length + HEADING_TAIL_BYTES) as u64 && self.ends_with_a_marker()? {
            return Err(self.corrupt(format!("the heading in {what} has an impossible length")));
        }
        heading.extend(self.take(name_length + HEADING_TAIL_BYTES, what)?);
        let (body, crc) = heading.split_at(heading.len() - 4);
        if crc32fast::hash(body).to_le_bytes() != crc {
            return Err(self.corrupt(format!("the heading in {what} fails its checksum")));
        }
        headings.update(&heading);
        let nonsense = |_| self.corrupt(format!("the heading in {what} makes no sense"));
        let name = String::from_utf8(body[3..3 + name_length].to_vec())
            .map_err(|_| self.corrupt(format!("the name in {what} is no text")))?;
        let mut rest = StateReader::new(&body[3 + name_length..]);
        let compressed = rest.bool().map_err(nonsense)?;
        let raw = rest.u64().map_err(nonsense)?;
        let stored = rest.u64().map_err(nonsense)?;
        let crc = rest.u32().map_err(nonsense)?;
        let plausible = if compressed { raw / MAX_LZ4_RATIO <= stored } else { raw == stored };
        if !plausible {
            return Err(self.corrupt(format!("the lengths of the part '{name}' do not agree")));
        }
        if self.length - self.position < stored {
            return Err(self.truncated(&format!("ends inside the part '{name}'")));
        }
        let offset = self.position;
        self.position += stored;
        Ok(Section { name, compressed, raw, stored, crc, offset })
    }

    fn end(&mut self, mut marker: Vec<u8>, sections: usize, headings: u32) -> Result<(), StoreError> {
        marker.extend(self.take(END_TAIL_BYTES, "its end marker")?);
        let (body, crc) = marker.split_at(marker.len() - 4);
        if crc32fast::hash(body).to_le_bytes() != crc {
            return Err(self.corrupt("its end marker fails its checksum"));
        }
        let mut rest = StateReader::new(&body[1..]);
        let nonsense = |_| self.corrupt("its end marker makes no sense");
        let count = rest.u32().map_err(nonsense)?;
        let total = rest.u64().map_err(nonsense)?;
        let directory = rest.u32().map_err(nonsense)?;
        if count as usize != sections || total != self.position || directory != headings {
            return Err(self.corrupt("its end marker does not agree with its parts"));
        }
        if self.length > total {
            return Err(self.corrupt(format!("{} bytes follow its end", self.length - total)));
        }
        Ok(())
    }

    /// Whether the last bytes of the file are an intact end marker.
    fn ends_with_a_marker(&mut self) -> Result<bool, StoreError> {
        let back_to = self.position;
        let Some(start) = self.length.checked_sub(1 + END_TAIL_BYTES as u64) else { return Ok(false) };
        self.position = start;
        let marker = self.take(1 + END_TAIL_BYTES, "its end marker")?;
        self.position = back_to;
        let (body, crc) = marker.split_at(marker.len() - 4);
        Ok(body[0] == END_MARK && crc32fast::hash(body).to_le_bytes() == crc)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::ScratchDir;
    use super::super::write_atomically;
    use super::*;

    fn sample() -> Vec<(&'static str, Vec<u8>)> {
        let mut state = 1u32;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        vec![("noise", noise.take(300).collect()), ("zeros", vec![0; 5000]), ("nothing", vec![])]
    }

    fn write_sample(path: &Path) {
        write_atomically(path, |out| {
            let mut writer = ContainerWriter::new(out)?;
            for (name, bytes) in sample() {
                writer.section(name, &bytes)?;
            }
            writer.finish()
        })
        .unwrap();
    }

    fn open_and_verify(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        std::fs::write(path, bytes).unwrap();
        Container::open(path)?.verify()
    }

    #[test]
    fn round_trip_compresses_what_shrinks() {
        let dir = ScratchDir::new();
        let path = dir.join("c.bin");
        write_sample(&path);
        let container = Container::open(&path).unwrap();
        assert_eq!(container.names().collect::<Vec<_>>(), ["noise", "zeros", "nothing"]);
        for (name, bytes) in sample() {
            assert_eq!(container.section(name).unwrap(), bytes);
        }
        assert!(std::fs::metadata(&path).unwrap().len() < 600);
        let flags: Vec<bool> = container.sections.iter().map(|s| s.compressed).collect();
        assert_eq!(flags, [false, true, false]);
    }

    #[test]
    fn a_missing_section_is_named() {
        let dir = ScratchDir::new();
        let path = dir.join("c.bin");
        write_sample(&path);
        let error = Container::open(&path).unwrap().section("replay").unwrap_err();
        assert!(matches!(&error, StoreError::MissingSection { section, .. } if section == "replay"));
        let text = error.to_string();
        assert!(text.contains("c.bin") && text.contains("'replay'"), "{text}");
    }

    #[test]
    fn every_truncation_is_called_a_truncation() {
        let dir = ScratchDir::new();
        let path = dir.join("c.bin");
        write_sample(&path);
        let whole = std::fs::read(&path).unwrap();
        open_and_verify(&path, &whole).unwrap();
        for cut in 0..whole.len() {
            let error = open_and_verify(&path, &whole[..cut]).unwrap_err();
            assert!(matches!(error, StoreError::Truncated { .. }), "cut at {cut}: {error}");
            assert!(error.to_string().contains("c.bin"));
        }
    }

    #[test]
    fn every_flipped_bit_is_found_and_called_damage() {
        let dir = ScratchDir::new();
        let path = dir.join("c.bin");
        write_sample(&path);
        let whole = std::fs::read(&path).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let error = open_and_verify(&path, &flipped).expect_err("a flipped bit");
            assert!(matches!(error, StoreError::Corrupt { .. }), "bit {bit}: {error}");
        }
    }

    #[test]
    fn foreign_files_future_versions_and_appended_bytes_are_told_apart() {
        let dir = ScratchDir::new();
        let path = dir.join("c.bin");
        for foreign in [&b"hello"[..], b"task = \"pong-mini\"\nframes = 1\n", &[0; 100], b"SPECIALS"] {
            let error = open_and_verify(&path, foreign).unwrap_err();
            assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
        }
        let error = Container::open(dir.path()).unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "a folder: {error}");

        let mut future = header(FORMAT_VERSION + 1);
        future.extend_from_slice(b"whatever the future holds");
        let error = open_and_verify(&path, &future).unwrap_err();
        assert!(matches!(error, StoreError::UnknownVersion { found: 2, known: 1, .. }), "{error}");

        write_sample(&path);
        let mut longer = std::fs::read(&path).unwrap();
        longer.push(0);
        let error = open_and_verify(&path, &longer).unwrap_err();
        assert!(error.to_string().contains("1 bytes follow its end"), "{error}");
    }

    #[test]
    fn a_name_used_twice_is_refused() {
        let mut out = Vec::new();
        let mut writer = ContainerWriter::new(&mut out).unwrap();
        writer.section("a", b"1").unwrap();
        assert_eq!(writer.section("a", b"2").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
