//! Writes TensorBoard event files: a handful of protobuf fields in TFRecord frames.
//!
//! A frame is the payload's length (u64), the masked CRC-32C of those eight bytes, the payload, and the
//! payload's masked CRC-32C, all little-endian. A payload is an `Event` message: `wall_time` (field 1,
//! double), `step` (2, varint) and either `file_version` (3, string), once at the start, or `summary` (5),
//! whose `value`s (1) each have a `tag` (1, string) and a `simple_value` (2, float).

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::disk::File;
use super::{Message, StoreError, reopen_at};

/// Writes scalars to an event file that TensorBoard reads.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("spectral-doc-events-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// use spectral_train::store::EventWriter;
/// let mut events = EventWriter::create(&dir, 1_700_000_000.0)?;
/// events.scalars(1000, &[("score_mean", 3.5), ("loss", 0.25)], 1_700_000_001.5)?;
/// events.flush()?;
/// let (path, length) = (events.path().to_owned(), events.len()); // a checkpoint remembers these
/// drop(events);
/// let mut events = EventWriter::append_at(&path, length)?;
/// events.scalars(2000, &[("score_mean", 4.0)], 1_700_000_002.5)?;
/// events.flush()?;
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EventWriter {
    path: PathBuf,
    out: BufWriter<File>,
    length: u64,
}

// There is no `is_empty`: a file begins with its version and is never empty.
#[allow(clippy::len_without_is_empty)]
impl EventWriter {
    /// Begins an event file in `dir`, named after `wall_time_seed` (seconds since 1970), which is also the time of its first
    /// record. An existing file is not touched: the new one then gets another name, see [`path`](EventWriter::path).
    pub fn create(dir: &Path, wall_time_seed: f64) -> Result<Self, StoreError> {
        let stem = format!("events.out.tfevents.{:010}.spectral", wall_time_seed.max(0.0) as u64);
        let mut attempt = 0u64;
        let (path, file) = loop {
            let path = dir.join(if attempt == 0 { stem.clone() } else { format!("{stem}.{attempt}") });
            match File::create_new(&path) {
                Ok(file) => break (path, file),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => attempt += 1,
                Err(e) => return Err(StoreError::io(&path, "create", e)),
            }
        };
        let mut writer = EventWriter { path, out: BufWriter::new(file), length: 0 };
        let event = Message::default().double(1, wall_time_seed).bytes(3, b"brain.Event:2");
        writer.record(event.as_bytes())?;
        Ok(writer)
    }

    /// Continues an event file after its first `byte_length` bytes, as returned by [`len`](EventWriter::len), and truncates
    /// the rest. A shorter file is an error.
    pub fn append_at(path: &Path, byte_length: u64) -> Result<Self, StoreError> {
        Self::append_at_if(path, byte_length, || Ok(()))
    }

    /// [`append_at`](EventWriter::append_at), which cuts nothing unless `allowed` agrees.
    pub(crate) fn append_at_if(
        path: &Path,
        byte_length: u64,
        allowed: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<Self, StoreError> {
        let out = BufWriter::new(reopen_at(path, byte_length, allowed)?);
        Ok(EventWriter { path: path.into(), out, length: byte_length })
    }

    /// Records values of several tags at one step; `wall_time` is in seconds since 1970.
    pub fn scalars(&mut self, step: i64, values: &[(&str, f32)], wall_time: f64) -> Result<(), StoreError> {
        let mut summary = Message::default();
        for (tag, number) in values {
            summary = summary.message(1, &Message::default().text(1, tag).float(2, *number));
        }
        let event = Message::default().double(1, wall_time).number(2, step).message(5, &summary);
        self.record(event.as_bytes())
    }

    fn record(&mut self, payload: &[u8]) -> Result<(), StoreError> {
        let framed = frame(payload);
        self.out.write_all(&framed).map_err(|e| StoreError::io(&self.path, "write", e))?;
        self.length += framed.len() as u64;
        Ok(())
    }

    /// Hands all records to the operating system.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.out.flush().map_err(|e| StoreError::io(&self.path, "write", e))
    }

    /// Like [`flush`](EventWriter::flush), and waits until the records are on disk.
    pub fn sync_data(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.out.get_ref().sync_data().map_err(|e| StoreError::io(&self.path, "sync", e))
    }

    /// The file's length in bytes once all records are [flushed](EventWriter::flush).
    pub fn len(&self) -> u64 {
        self.length
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn frame(payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u64).to_le_bytes();
    let mut framed = Vec::with_capacity(payload.len() + 16);
    framed.extend_from_slice(&length);
    framed.extend_from_slice(&masked(crc32c(&length)).to_le_bytes());
    framed.extend_from_slice(payload);
    framed.extend_from_slice(&masked(crc32c(payload)).to_le_bytes());
    framed
}

/// A checksum of data that contains its own checksums is weak, so TFRecord stores this permutation of it
/// instead.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), a byte at a time: event files grow by a few hundred bytes a second.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, &byte| CRC32C_TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

const CRC32C_TABLE: [u32; 256] = {
    const REVERSED_POLYNOMIAL: u32 = 0x82f6_3b78;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ REVERSED_POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::super::testing::ScratchDir;
    use super::*;

    #[test]
    fn crc32c_known_answers() {
        // From RFC 3720, appendix B.4, and the customary check value.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|i| i as u8)), 0x46dd_794e);
        assert_eq!(crc32c(b""), 0);
        // The mask by its definition, on a value whose bits are easy to follow.
        assert_eq!(masked(0), 0xa282_ead8);
        assert_eq!(masked(1 << 15), 0xa282_ead9);
        assert_eq!(masked(1), 0xa284_ead8);
    }

    #[test]
    fn the_first_record_is_framed_and_encoded_as_documented() {
        let dir = ScratchDir::new();
        let mut events = EventWriter::create(dir.path(), 1.0).unwrap();
        events.scalars(300, &[("ab", 2.0)], 1.5).unwrap();
        events.flush().unwrap();
        assert_eq!(dir.names(), ["events.out.tfevents.0000000001.spectral"]);
        let bytes = std::fs::read(events.path()).unwrap();
        assert_eq!(bytes.len() as u64, events.len());
        let mut version = vec![0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x1a, 13];
        version.extend_from_slice(b"brain.Event:2");
        assert_eq!(bytes[..8], 24u64.to_le_bytes());
        assert_eq!(bytes[8..12], masked(crc32c(&bytes[..8])).to_le_bytes());
        assert_eq!(bytes[12..36], version);
        assert_eq!(bytes[36..40], masked(crc32c(&version)).to_le_bytes());
        let scalar = [0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x10, 0xac, 0x02, 0x2a, 11, 0x0a, 9];
        assert_eq!(bytes[52..52 + scalar.len()], scalar);
        assert_eq!(bytes[68..77], [0x0a, 2, b'a', b'b', 0x15, 0, 0, 0, 0x40]);
    }

    #[test]
    fn an_existing_file_gets_a_neighbour_and_a_short_one_is_refused() {
        let dir = ScratchDir::new();
        let first = EventWriter::create(dir.path(), 5.0).unwrap();
        let second = EventWriter::create(dir.path(), 5.0).unwrap();
        assert_ne!(first.path(), second.path());
        let (path, length) = (first.path().to_owned(), first.len());
        drop(first);
        let error = EventWriter::append_at(&path, length + 1).err().unwrap();
        assert!(matches!(error, StoreError::TooShort { .. }), "{error}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
    }

    /// TensorBoard's own reader must see the tags, steps, times and values that were written, before and
    /// after a resumption.
    #[test]
    fn tensorboard_reads_back_what_was_written() {
        if std::env::var("SPECTRAL_ORACLES").as_deref() != Ok("1") {
            // Not eprintln!, whose words libtest swallows when a test passes.
            let skipped = "SKIPPED: comparison with TensorBoard's reader; set SPECTRAL_ORACLES=1 to run it";
            let _ = writeln!(std::io::stderr(), "{skipped}");
            return;
        }
        const SCRIPT: &str = r"
import struct, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0})
events.Reload()
for tag in sorted(events.Tags()['scalars']):
    for e in events.Scalars(tag):
        bits = struct.unpack('<I', struct.pack('<f', e.value))[0]
        print(tag, e.step, '%r' % e.wall_time, bits)
";
        let dir = ScratchDir::new();
        let mut events = EventWriter::create(dir.path(), 1_700_000_000.25).unwrap();
        let mut expected = Vec::new();
        let mut write = |events: &mut EventWriter, step: i64, values: &[(&str, f32)]| {
            let time = 1_700_000_000.5 + step as f64 / 1e6;
            events.scalars(step, values, time).unwrap();
            expected.extend(values.iter().map(|(tag, v)| format!("{tag} {step} {time:?} {}", v.to_bits())));
        };
        let long_tag = "a".repeat(200);
        write(&mut events, 0, &[("loss", 0.1), ("q/mean", -1.5e30), ("größe", 1e-45)]);
        for step in 1..300 {
            write(&mut events, step * 1000, &[("loss", 1.0 / step as f32), (&long_tag, step as f32)]);
        }
        write(&mut events, 1 << 40, &[("loss", f32::INFINITY)]);
        events.flush().unwrap();
        let (path, length) = (events.path().to_owned(), events.len());
        // What a killed run wrote after its checkpoint must be gone.
        events.scalars(1 << 41, &[("lost", 1.0)], 0.0).unwrap();
        events.out.write_all(b"half a reco").unwrap();
        drop(events);
        let mut events = EventWriter::append_at(&path, length).unwrap();
        write(&mut events, (1 << 40) + 1, &[("loss", 0.0), ("late", -0.0)]);
        events.sync_data().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), events.len());

        let python = std::env::var("SPECTRAL_PYTHON").unwrap_or_else(|_| "python3".into());
        let run = std::process::Command::new(&python)
            .args(["-c", SCRIPT])
            .arg(&path)
            .env("PYTHONIOENCODING", "utf-8")
            .output()
            .unwrap_or_else(|e| panic!("cannot run {python}: {e}"));
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let mut found: Vec<String> =
            String::from_utf8(run.stdout).unwrap().lines().map(str::to_owned).collect();
        found.sort();
        expected.sort();
        assert_eq!(found.len(), expected.len());
        assert_eq!(found, expected);
    }
}
