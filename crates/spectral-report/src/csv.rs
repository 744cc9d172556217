//! The numeric CSV files of run directories: a header line, columns found by name, empty fields for missing values.

use std::fs::{FileType, OpenOptions};
use std::io::{Error, ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::ReportError;

/// The words that may stand in the column [`MODEL`]; each is read as its place here.
pub(crate) const MODELS: [&str; 2] = ["last", "average"];
const MODEL: &str = "model";

/// Whether a last line without a line break may be dropped. A process that is still writing, or was killed while writing,
/// leaves one behind, and half a number would read as a different number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The writer has finished: a torn last line is an error.
    Complete,
    /// The writer may still be writing: a torn last line is ignored.
    MayBeTorn,
}

/// How a table begins, as `state.toml` has it. What is appended later does not matter to it while somebody may append.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Recorded {
    /// Length in bytes.
    bytes: u64,
    /// CRC-32 in hexadecimal.
    crc32: String,
}

impl Recorded {
    /// Refuses a text that begins in another way: its figures would be others than those that were measured.
    fn check(&self, path: &Path, text: &str, growth: Growth) -> Result<(), ReportError> {
        let Recorded { bytes, crc32 } = self;
        let problem = match usize::try_from(*bytes).ok().and_then(|length| text.as_bytes().get(..length)) {
            None => {
                format!("{} bytes long, though state.toml knows of {bytes}: rows are missing", text.len())
            }
            Some(first) if u32::from_str_radix(crc32, 16) != Ok(crc32fast::hash(first)) => {
                format!(
                    "its first {bytes} bytes are not those that state.toml knows: something in it was changed"
                )
            }
            Some(first) if growth == Growth::Over && first.len() < text.len() => {
                format!(
                    "{} bytes long, though it ended at {bytes} by state.toml: rows were added",
                    text.len()
                )
            }
            Some(_) => return Ok(()),
        };
        Err(ReportError::malformed(path, None, format!("{problem}; restore the file from a copy")))
    }
}

/// Whether rows may have come since `state.toml` was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// They may.
    Open,
    /// The last one had been written by then.
    Over,
}

/// A CSV file and what is known of it before it is read.
pub(crate) struct Source<'a> {
    pub(crate) path: PathBuf,
    pub(crate) ending: Ending,
    pub(crate) growth: Growth,
    pub(crate) recorded: Option<&'a Recorded>,
}

/// One CSV file in memory.
pub(crate) struct Table {
    path: PathBuf,
    columns: Vec<String>,
    rows: Vec<Vec<Option<f64>>>,
}

impl Table {
    /// Reads a file; `None` when it does not exist.
    pub(crate) fn read(source: &Source<'_>) -> Result<Option<Self>, ReportError> {
        let Source { path, ending, growth, recorded } = source;
        let text = match (read_text(path), recorded) {
            (Ok(text), _) => text,
            (Err(error), None) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            (Err(error), Some(_)) if error.kind() == std::io::ErrorKind::NotFound => {
                let problem = "the file is missing, though state.toml knows of it; restore it from a copy";
                return Err(ReportError::malformed(path, None, problem));
            }
            (Err(error), _) => return Err(ReportError::io(path, "read", error)),
        };
        recorded.map_or(Ok(()), |recorded| recorded.check(path, &text, *growth))?;
        Self::parse(path, &text, *ending).map(Some)
    }

    fn parse(path: &Path, text: &str, ending: Ending) -> Result<Self, ReportError> {
        let mut text = text;
        if !text.is_empty() && !text.ends_with('\n') {
            let lines = text.lines().count();
            if ending == Ending::Complete {
                return Err(ReportError::malformed(
                    path,
                    Some(lines),
                    "the last line has no line break: the file was cut short",
                ));
            }
            text = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
        }
        let mut lines = text.lines().enumerate();
        let Some((_, header)) = lines.next() else {
            // A file that has been opened but not yet written to.
            if ending == Ending::MayBeTorn {
                return Ok(Self { path: path.to_owned(), columns: Vec::new(), rows: Vec::new() });
            }
            return Err(ReportError::malformed(path, None, "the file is empty: a header line was expected"));
        };
        let columns: Vec<String> = header.split(',').map(|name| name.trim().to_owned()).collect();
        let mut rows = Vec::new();
        for (index, line) in lines {
            rows.push(parse_row(path, index + 1, line, &columns)?);
        }
        Ok(Self { path: path.to_owned(), columns, rows })
    }

    /// The position of a column that must exist.
    pub(crate) fn column(&self, name: &str) -> Result<usize, ReportError> {
        self.optional_column(name).ok_or_else(|| {
            let found = self.columns.join(", ");
            ReportError::malformed(
                &self.path,
                Some(1),
                format!("no column `{name}` in the header, which has: {found}"),
            )
        })
    }

    /// The position of a column that older or other writers may not have.
    pub(crate) fn optional_column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// Names of the columns, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(String::as_str)
    }

    /// Whether not even a header has been written.
    pub(crate) fn is_blank(&self) -> bool {
        self.columns.is_empty()
    }

    /// Number of data rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Everything, column by column; empty fields are NaN.
    pub(crate) fn into_columns(self) -> Vec<(String, Vec<f64>)> {
        let values = |column: usize| self.rows.iter().map(|row| row[column].unwrap_or(f64::NAN)).collect();
        self.columns.iter().enumerate().map(|(column, name)| (name.clone(), values(column))).collect()
    }

    /// The field, if it is not empty.
    pub(crate) fn get(&self, row: usize, column: usize) -> Option<f64> {
        self.rows[row][column]
    }

    /// The field, which must hold a finite number.
    pub(crate) fn number(&self, row: usize, column: usize) -> Result<f64, ReportError> {
        match self.rows[row][column] {
            Some(value) if value.is_finite() => Ok(value),
            Some(value) => Err(self.wrong(row, column, format!("is {value}, not a finite number"))),
            None => Err(self.wrong(row, column, "is empty".to_owned())),
        }
    }

    /// The field, which must hold a whole number that is not negative.
    pub(crate) fn count(&self, row: usize, column: usize) -> Result<u64, ReportError> {
        let value = self.number(row, column)?;
        if value < 0.0 || value.fract() != 0.0 {
            return Err(self.wrong(row, column, format!("is {value}, not a count")));
        }
        Ok(value as u64)
    }

    /// An error about one field.
    pub(crate) fn wrong(&self, row: usize, column: usize, problem: String) -> ReportError {
        let problem = format!("`{}` {problem}", self.columns[column]);
        // Row 0 stands on line 2, below the header.
        ReportError::malformed(&self.path, Some(row + 2), problem)
    }
}

/// Bytes of the longest run.toml or state.toml that is read.
const LONGEST_TOML: u64 = 64 << 20;

/// The text of a plain file. A pipe would keep us waiting, and a device might never end.
fn read_text(path: &Path) -> std::io::Result<String> {
    read_up_to(path, u64::MAX)
}

/// The text of a description or a state: as far as other commands read one.
pub(crate) fn read_toml_text(path: &Path) -> std::io::Result<String> {
    read_up_to(path, LONGEST_TOML)
}

fn read_up_to(path: &Path, most: u64) -> std::io::Result<String> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        let what = format!("it is {}, not a plain file", kind(metadata.file_type()));
        return Err(Error::new(ErrorKind::InvalidInput, what));
    }
    let mut text = String::new();
    let file = OpenOptions::new().read(true).open(path)?;
    file.take(most.saturating_add(1)).read_to_string(&mut text)?;
    match text.len() as u64 <= most {
        true => Ok(text),
        false => Err(Error::new(ErrorKind::InvalidData, "it is far longer than it should be")),
    }
}

/// What is no plain file, in words.
fn kind(file: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if file.is_fifo() {
            return "a named pipe";
        } else if file.is_char_device() || file.is_block_device() {
            return "a device";
        }
    }
    if file.is_dir() { "a folder" } else { "something else" }
}

/// Refuses a link in place of a run's description: what says which run a folder holds is in that folder.
pub(crate) fn refuse_link(path: &Path) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink()) {
        true => Err(Error::new(ErrorKind::InvalidInput, "it is a link, which is not followed")),
        false => Ok(()),
    }
}

/// All columns of one of a run's CSV files, in order, with NaN for empty fields; none if the file does not exist. In the column
/// `model` of `eval.csv`, 0 stands for `last` and 1 for `average`.
///
/// If its writer may still be at work, a last line without a line break is left out, as in a report; otherwise it is an error.
///
/// ```no_run
/// let columns = spectral_report::read_columns("run/agents/spectral-s1/episodes.csv".as_ref(), true)?;
/// assert_eq!(columns[0].0, "frame");
/// # Ok::<(), spectral_report::ReportError>(())
/// ```
pub fn read_columns(path: &Path, at_work: bool) -> Result<Vec<(String, Vec<f64>)>, ReportError> {
    let ending = if at_work { Ending::MayBeTorn } else { Ending::Complete };
    let source = Source { path: path.to_owned(), ending, growth: Growth::Open, recorded: None };
    Ok(Table::read(&source)?.map(Table::into_columns).unwrap_or_default())
}

fn parse_row(
    path: &Path,
    line_number: usize,
    line: &str,
    columns: &[String],
) -> Result<Vec<Option<f64>>, ReportError> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if fields.len() != columns.len() {
        let problem = format!("{} fields where the header has {}", fields.len(), columns.len());
        return Err(ReportError::malformed(path, Some(line_number), problem));
    }
    fields
        .iter()
        .zip(columns)
        .map(|(field, column)| match field {
            &"" => Ok(None),
            text if *column == MODEL && MODELS.contains(text) => {
                Ok(MODELS.iter().position(|word| word == text).map(|place| place as f64))
            }
            text => text.parse::<f64>().map(Some).map_err(|_| {
                ReportError::malformed(
                    path,
                    Some(line_number),
                    format!("`{column}` is `{text}`, not a number"),
                )
            }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, ending: Ending) -> Result<Table, ReportError> {
        Table::parse(Path::new("x/episodes.csv"), text, ending)
    }

    #[test]
    fn columns_are_found_by_name_and_empty_fields_are_missing_values() {
        let table = parse("frame,other,score\n10,1,2.5\n20,,-3e2\n", Ending::Complete).unwrap();
        let (frame, score) = (table.column("frame").unwrap(), table.column("score").unwrap());
        assert_eq!(table.count(1, frame).unwrap(), 20);
        assert_eq!(table.number(1, score).unwrap(), -300.0);
        assert_eq!(table.get(1, table.optional_column("other").unwrap()), None);
        let columns = table.into_columns();
        assert_eq!(
            columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["frame", "other", "score"]
        );
        assert_eq!((columns[0].1[1], columns[1].1[0]), (20.0, 1.0));
        assert!(columns[1].1[1].is_nan());
    }

    #[test]
    fn errors_name_file_line_and_field() {
        let message = parse("frame,score\n10,1\n20,abc\n", Ending::Complete).err().unwrap().to_string();
        assert_eq!(message, "x/episodes.csv, line 3: `score` is `abc`, not a number");
        let message = parse("frame,score\n10\n", Ending::Complete).err().unwrap().to_string();
        assert_eq!(message, "x/episodes.csv, line 2: 1 fields where the header has 2");
        let table = parse("frame,score\n10,NaN\n-1,\n", Ending::Complete).unwrap();
        assert!(table.column("length").err().unwrap().to_string().contains("no column `length`"));
        assert!(table.number(0, 1).err().unwrap().to_string().contains("line 2: `score` is NaN"));
        assert!(table.number(1, 1).err().unwrap().to_string().contains("line 3: `score` is empty"));
        assert!(table.count(1, 0).err().unwrap().to_string().contains("`frame` is -1, not a count"));
    }

    #[test]
    fn a_torn_last_line_is_dropped_only_while_the_writer_may_be_at_work() {
        let torn = "frame,score\n10,1\n20,13";
        assert_eq!(parse(torn, Ending::MayBeTorn).unwrap().len(), 1);
        assert!(parse(torn, Ending::Complete).err().unwrap().to_string().contains("line 3"));
        assert!(parse("", Ending::MayBeTorn).unwrap().is_blank());
        assert!(parse("fra", Ending::MayBeTorn).unwrap().is_blank());
        assert!(parse("", Ending::Complete).is_err());
    }
}
