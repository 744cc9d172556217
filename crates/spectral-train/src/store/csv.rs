//! CSV tables of numbers that grow row by row and can be truncated to where a checkpoint left them.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::disk::{self, File};
use super::plain_file::create_plain;
use super::{StoreError, reopen_at};
use crate::table_sums::{TableSum, crc_of};

/// One field of a row. Floats are written in the shortest form that reads back to the same bits of their own
/// type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field {
    /// A count.
    U64(u64),
    /// A signed whole number.
    I64(i64),
    /// A single-precision number.
    F32(f32),
    /// A double-precision number.
    F64(f64),
    /// A plain word.
    Word(&'static str),
    /// A missing value.
    Empty,
}

macro_rules! field_from {
    ($($kind:ty => $variant:ident),*) => {$(
        impl From<$kind> for Field {
            fn from(value: $kind) -> Field {
                Field::$variant(value.into())
            }
        }
        impl From<Option<$kind>> for Field {
            fn from(value: Option<$kind>) -> Field {
                value.map_or(Field::Empty, Field::from)
            }
        }
    )*};
}

field_from!(u64 => U64, u32 => U64, i64 => I64, i32 => I64, f32 => F32, f64 => F64);

/// A CSV file that is written row by row.
///
/// Rows are buffered: they are in the file after [`flush`](CsvWriter::flush) and safe from a power cut after
/// [`sync_data`](CsvWriter::sync_data).
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("spectral-doc-csv-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// use spectral_train::store::{CsvWriter, Field};
/// let path = dir.join("metrics.csv");
/// let mut table = CsvWriter::create(&path, &["frame".into(), "loss".into()])?;
/// table.row(&[1000u64.into(), Field::Empty])?;
/// let length = table.flush()?;                    // a checkpoint remembers this
/// table.row(&[2000u64.into(), 0.1f32.into()])?;
/// drop(table);
/// let mut table = CsvWriter::resume(&path, length)?; // the second row is gone
/// table.row(&[2000u64.into(), 0.2f32.into()])?;
/// table.flush()?;
/// assert_eq!(std::fs::read_to_string(&path)?, "frame,loss\n1000,\n2000,0.2\n");
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CsvWriter {
    path: PathBuf,
    out: BufWriter<File>,
    columns: usize,
    length: u64,
    /// Of everything up to that length.
    crc: crc32fast::Hasher,
    line: String,
}

impl CsvWriter {
    /// Begins a table. An existing file is replaced, but no link is followed.
    pub fn create(path: &Path, header: &[String]) -> Result<Self, StoreError> {
        let file = create_plain(path).map_err(|e| StoreError::io(path, "create", e))?;
        let line = header.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",");
        let out = BufWriter::new(file);
        let (columns, crc) = (header.len(), crc32fast::Hasher::new());
        let mut table = CsvWriter { path: path.into(), out, columns, length: 0, crc, line };
        table.write_line()?;
        Ok(table)
    }

    /// Continues a table after its first `bytes` bytes, as returned by an earlier [`flush`](CsvWriter::flush), and truncates
    /// the rest. A file that is shorter, or in which no row ends there, is an error.
    pub fn resume(path: &Path, bytes: u64) -> Result<Self, StoreError> {
        Self::resume_if(path, bytes, || Ok(()))
    }

    /// [`resume`](CsvWriter::resume), which cuts nothing unless `allowed` agrees.
    pub(crate) fn resume_if(
        path: &Path,
        bytes: u64,
        allowed: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<Self, StoreError> {
        let (columns, crc) = read_if_row_ends_at(path, bytes)?;
        let out = BufWriter::new(reopen_at(path, bytes, allowed)?);
        Ok(CsvWriter { path: path.into(), out, columns, length: bytes, crc, line: String::new() })
    }

    /// Appends a row, which must have as many fields as the header.
    pub fn row(&mut self, fields: &[Field]) -> Result<(), StoreError> {
        if fields.len() != self.columns {
            let (expected, found) = (self.columns, fields.len());
            return Err(StoreError::Columns { path: self.path.clone(), expected, found });
        }
        self.line.clear();
        for (i, field) in fields.iter().enumerate() {
            if i > 0 {
                self.line.push(',');
            }
            let written = match field {
                Field::U64(v) => write!(self.line, "{v}"),
                Field::I64(v) => write!(self.line, "{v}"),
                Field::F32(v) => write!(self.line, "{v}"),
                Field::F64(v) => write!(self.line, "{v}"),
                Field::Word(v) => write!(self.line, "{v}"),
                Field::Empty => Ok(()),
            };
            written.expect("writing to a string does not fail");
        }
        self.write_line()
    }

    fn write_line(&mut self) -> Result<(), StoreError> {
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes()).map_err(|e| StoreError::io(&self.path, "write", e))?;
        self.length += self.line.len() as u64;
        self.crc.update(self.line.as_bytes());
        Ok(())
    }

    /// Hands all rows to the operating system and returns the length of the file, for
    /// [`resume`](CsvWriter::resume).
    pub fn flush(&mut self) -> Result<u64, StoreError> {
        self.out.flush().map_err(|e| StoreError::io(&self.path, "write", e))?;
        Ok(self.length)
    }

    /// Like [`flush`](CsvWriter::flush), and waits until the rows are on disk.
    pub fn sync_data(&mut self) -> Result<u64, StoreError> {
        let length = self.flush()?;
        self.out.get_ref().sync_data().map_err(|e| StoreError::io(&self.path, "sync", e))?;
        // A checkpoint that counts on rows which somebody has removed could not be resumed.
        let file =
            disk::symlink_metadata(&self.path).map_err(|e| StoreError::io(&self.path, "look at", e))?;
        if !file.is_file() || file.len() != length {
            let detail = format!(
                "it was replaced or changed while the run wrote to it: it should have {length} bytes"
            );
            return Err(StoreError::Mismatch { path: self.path.clone(), detail });
        }
        Ok(length)
    }

    /// Length and checksum of all rows so far, flushed or not.
    pub(crate) fn sum(&self) -> TableSum {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        TableSum { name, bytes: self.length, crc: self.crc.clone().finalize() }
    }

    /// How many fields a row has.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The number of columns of the table, and the checksum of its first `bytes` bytes, provided that a row ends there.
fn read_if_row_ends_at(path: &Path, bytes: u64) -> Result<(usize, crc32fast::Hasher), StoreError> {
    let failed = |e| StoreError::io(path, "read", e);
    let file = super::open_plain(path).map_err(|e| StoreError::io(path, "open", e))?;
    let found = file.metadata().map_err(failed)?.len();
    if found < bytes {
        return Err(StoreError::TooShort { path: path.into(), found, recorded: bytes });
    }
    let (mut header, mut header_ended, mut last) = (Vec::new(), false, None);
    let crc = crc_of(file, bytes, |part| {
        if !header_ended {
            let end = part.iter().position(|&byte| byte == b'\n');
            header.extend_from_slice(&part[..end.unwrap_or(part.len())]);
            header_ended = end.is_some();
        }
        last = part.last().copied();
    });
    let crc = crc.map_err(failed)?;
    if last != Some(b'\n') {
        let detail = format!("no row ends at byte {bytes}, where the checkpoint left the table");
        return Err(StoreError::Corrupt { path: path.into(), detail });
    }
    let mut inside_quotes = false;
    let commas = header.iter().filter(|&&byte| {
        inside_quotes ^= byte == b'"';
        byte == b',' && !inside_quotes
    });
    Ok((commas.count() + 1, crc32fast::Hasher::new_with_initial_len(crc, bytes)))
}

/// A column's name, quoted if necessary.
fn quoted(name: &str) -> String {
    if name.contains([',', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::testing::ScratchDir;
    use super::*;

    fn header(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| n.to_string()).collect()
    }

    #[test]
    fn floats_read_back_to_the_same_bits() {
        let dir = ScratchDir::new();
        let path = dir.join("t.csv");
        let singles = [0.1f32, -0.0, 1e-45, f32::MAX, 16_777_217.0, 1.0 / 3.0, f32::INFINITY];
        let doubles = [0.1f64, -0.0, 5e-324, f64::MAX, 0.1f32 as f64, 1.0 / 3.0, f64::NEG_INFINITY];
        let mut table = CsvWriter::create(&path, &header(&["single", "double"])).unwrap();
        for (&s, &d) in singles.iter().zip(&doubles) {
            table.row(&[s.into(), d.into()]).unwrap();
        }
        table.row(&[f32::NAN.into(), None::<f64>.into()]).unwrap();
        table.sync_data().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let rows: Vec<(&str, &str)> = text.lines().skip(1).map(|l| l.split_once(',').unwrap()).collect();
        for ((s, d), (single, double)) in rows.iter().zip(singles.iter().zip(&doubles)) {
            assert_eq!(s.parse::<f32>().unwrap().to_bits(), single.to_bits(), "{s}");
            assert_eq!(d.parse::<f64>().unwrap().to_bits(), double.to_bits(), "{d}");
        }
        assert_eq!(rows[0], ("0.1", "0.1"), "a single is written as a single, without the tail of a double");
        assert_eq!(rows[7], ("NaN", ""));
    }

    #[test]
    fn a_killed_and_resumed_table_has_the_bytes_of_an_uninterrupted_one() {
        let dir = ScratchDir::new();
        let (whole, resumed) = (dir.join("whole.csv"), dir.join("resumed.csv"));
        let row = |table: &mut CsvWriter, i: u64| table.row(&[i.into(), (i as f32 / 7.0).into()]).unwrap();
        let names = header(&["frame", "a, \"quoted\" name"]);
        let mut table = CsvWriter::create(&whole, &names).unwrap();
        (0..100).for_each(|i| row(&mut table, i));
        table.flush().unwrap();
        let mut table = CsvWriter::create(&resumed, &names).unwrap();
        for start in [0u64, 10, 20, 90] {
            let end = if start == 20 { 90 } else { start + 10 };
            (start..end).for_each(|i| row(&mut table, i));
            let length = table.flush().unwrap();
            (end..end + 5).for_each(|i| row(&mut table, i * 1000));
            table.flush().unwrap();
            drop(table);
            table = CsvWriter::resume(&resumed, length).unwrap();
        }
        table.flush().unwrap();
        assert_eq!(std::fs::read(whole).unwrap(), std::fs::read(resumed).unwrap());
    }

    #[test]
    fn short_files_odd_lengths_and_odd_rows_are_errors() {
        let dir = ScratchDir::new();
        let path = dir.join("t.csv");
        let mut table = CsvWriter::create(&path, &header(&["frame", "loss"])).unwrap();
        let error = table.row(&[Field::Empty]).unwrap_err();
        assert!(matches!(error, StoreError::Columns { expected: 2, found: 1, .. }));
        table.row(&[1u64.into(), 2.5f64.into()]).unwrap();
        let length = table.flush().unwrap();
        assert_eq!(length, std::fs::metadata(&path).unwrap().len());
        let error = CsvWriter::resume(&path, length + 1).err().unwrap();
        assert!(matches!(error, StoreError::TooShort { .. }), "{error}");
        for odd in [0, length - 1] {
            let error = CsvWriter::resume(&path, odd).err().unwrap();
            assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length, "a refused resumption cuts nothing");
        assert!(matches!(
            CsvWriter::resume(&dir.join("none"), 1).err().unwrap(),
            StoreError::NotFound { .. }
        ));
        let mut table = CsvWriter::resume(&path, length).unwrap();
        assert!(table.row(&[Field::Empty]).is_err(), "the columns are known after a resumption too");
    }

    /// What a link leads to may be anybody's, and is neither cut nor written.
    #[cfg(unix)]
    #[test]
    fn links_and_pipes_are_no_tables() {
        let dir = ScratchDir::new();
        let (precious, link, pipe) = (dir.join("precious"), dir.join("t.csv"), dir.join("pipe"));
        std::fs::write(&precious, "frame\n1\n2\n").unwrap();
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&link, &pipe, &dir.path().to_path_buf()] {
            CsvWriter::create(path, &header(&["frame"])).err().unwrap();
            CsvWriter::resume(path, 8).err().unwrap();
        }
        super::super::EventWriter::append_at(&link, 8).err().unwrap();
        let said = CsvWriter::create(&link, &header(&["frame"])).err().unwrap().to_string();
        assert!(said.contains("it is a link, which is not followed; put the plain file"), "{said}");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "frame\n1\n2\n");
        // A file that is there is begun anew.
        drop(CsvWriter::create(&precious, &header(&["loss"])).unwrap());
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "loss\n");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_called_a_full_disk() {
        let dir = ScratchDir::new();
        let mut table = CsvWriter::create(&dir.join("t.csv"), &header(&["frame"])).unwrap();
        let full =
            super::super::disk::open_with(std::fs::OpenOptions::new().write(true), Path::new("/dev/full"))
                .unwrap();
        table.out = BufWriter::new(full);
        table.row(&[1u64.into()]).unwrap();
        let error = table.flush().unwrap_err();
        assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
        assert!(error.to_string().contains("the disk is full: "));
    }
}
