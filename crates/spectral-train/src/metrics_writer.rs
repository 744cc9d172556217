//! Writes one agent's metrics to CSV files and TensorBoard events in its own folder.

use crate::machine::unix_seconds;
use crate::store::{CsvWriter, EventWriter, Field, StoreError, sweep_temporaries, sync_folder};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use std::path::Path;

const EPISODES: &str = "episodes.csv";
const METRICS: &str = "metrics.csv";
const TD_ERROR: &str = "td_error.csv";

/// One finished training episode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Episode {
    /// The agent's frame count at the end of the episode.
    pub frame: u64,
    /// Sum of raw rewards.
    pub sum: f64,
    /// Sum of scores.
    pub score: f64,
    /// Its length in frames.
    pub length: u64,
}

/// The open metric files of one agent.
pub struct MetricsWriter {
    episodes: CsvWriter,
    metrics: CsvWriter,
    td_error: Option<CsvWriter>,
    events: EventWriter,
    columns: Vec<String>,
}

impl MetricsWriter {
    /// Opens fresh files in `folder`, replacing what an earlier attempt without a checkpoint left there.
    pub fn create(folder: &Path, columns: &[String], by_score: bool) -> Result<Self, StoreError> {
        std::fs::create_dir_all(folder).map_err(|e| StoreError::io(folder, "create", e))?;
        for entry in std::fs::read_dir(folder).map_err(|e| StoreError::io(folder, "read", e))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with("events.out.tfevents.") {
                let path = entry.path();
                std::fs::remove_file(&path).map_err(|e| StoreError::io(&path, "remove", e))?;
            }
        }
        let header = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
        let td_header = header(&["frame", "player_score", "abs_error", "abs_target"]);
        let writer = MetricsWriter {
            episodes: CsvWriter::create(
                &folder.join(EPISODES),
                &header(&["frame", "return", "score", "length"]),
            )?,
            metrics: CsvWriter::create(&folder.join(METRICS), columns)?,
            td_error: by_score.then(|| CsvWriter::create(&folder.join(TD_ERROR), &td_header)).transpose()?,
            events: EventWriter::create(folder, unix_seconds())?,
            columns: columns.to_vec(),
        };
        // Checkpoints depend on these files, so their names must survive a power cut as well.
        for made in folder.ancestors().take(3) {
            sync_folder(made)?;
        }
        Ok(writer)
    }

    /// Appends one episode.
    pub fn episode(&mut self, e: Episode) -> Result<(), StoreError> {
        self.episodes.row(&[e.frame.into(), e.sum.into(), e.score.into(), e.length.into()])
    }

    /// Appends one row of metrics, in the order of the columns, and the TD errors by score. Returns the row, without the values
    /// that do not exist yet.
    pub fn metrics(
        &mut self,
        values: &[Field],
        td: impl Iterator<Item = (usize, f64, f64)>,
    ) -> Result<Vec<(String, f64)>, StoreError> {
        self.metrics.row(values)?;
        let frame = match values.first() {
            Some(Field::U64(frame)) => *frame,
            _ => 0,
        };
        let numbers: Vec<(String, f64)> = self
            .columns
            .iter()
            .zip(values)
            .filter_map(|(name, value)| match value {
                Field::U64(x) => Some((name.clone(), *x as f64)),
                Field::F64(x) => Some((name.clone(), *x)),
                _ => None,
            })
            .collect();
        let scalars: Vec<(&str, f32)> =
            numbers.iter().skip(1).map(|(name, x)| (name.as_str(), *x as f32)).collect();
        self.events.scalars(frame as i64, &scalars, unix_seconds())?;
        if let Some(table) = &mut self.td_error {
            for (score, error, target) in td {
                table.row(&[frame.into(), (score as u64).into(), error.into(), target.into()])?;
            }
        }
        self.flush()?;
        Ok(numbers)
    }

    /// Hands all buffered rows to the operating system.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.episodes.flush()?;
        self.metrics.flush()?;
        self.td_error.as_mut().map(CsvWriter::flush).transpose()?;
        self.events.flush()
    }

    /// Syncs all files to disk and appends their lengths to `out`.
    pub fn save(&mut self, out: &mut StateWriter) -> Result<(), StoreError> {
        out.u64(self.episodes.sync_data()?);
        out.u64(self.metrics.sync_data()?);
        out.u64(self.td_error.as_mut().map_or(Ok(0), CsvWriter::sync_data)?);
        self.events.sync_data()?;
        let name = self.events.path().file_name().unwrap_or_default();
        out.blob(name.to_string_lossy().as_bytes());
        out.u64(self.events.len());
        Ok(())
    }

    /// Opens the files of an interrupted run and truncates them to the recorded lengths.
    pub fn resume(folder: &Path, columns: &[String], at: &RecordedFiles) -> Result<Self, StoreError> {
        sweep_temporaries(folder)?;
        let [episodes, metrics, td_error] = at.lengths;
        Ok(MetricsWriter {
            episodes: CsvWriter::resume(&folder.join(EPISODES), episodes)?,
            metrics: CsvWriter::resume(&folder.join(METRICS), metrics)?,
            td_error: (td_error > 0)
                .then(|| CsvWriter::resume(&folder.join(TD_ERROR), td_error))
                .transpose()?,
            events: EventWriter::append_at(&folder.join(&at.events), at.events_length)?,
            columns: columns.to_vec(),
        })
    }
}

/// The lengths of an agent's files as a checkpoint recorded them.
///
/// Reading it touches no file, so that a checkpoint that turns out to be damaged later truncates nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFiles {
    /// Lengths of the three tables. The last is 0 if the task has no player's score.
    lengths: [u64; 3],
    events: String,
    events_length: u64,
}

impl RecordedFiles {
    /// Reads what [`MetricsWriter::save`] wrote.
    pub fn read(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        let lengths = [from.u64()?, from.u64()?, from.u64()?];
        let events = String::from_utf8_lossy(from.blob()?).into_owned();
        // The name is joined to the agent's folder: it must not lead out of it.
        if Path::new(&events).file_name().is_none_or(|f| f.to_string_lossy() != events) {
            return Err(StateError(format!("'{events}' is no event file")));
        }
        Ok(RecordedFiles { lengths, events, events_length: from.u64()? })
    }

    /// Checks that every file exists and is at least as long as recorded.
    pub fn check(&self, folder: &Path) -> Result<(), StoreError> {
        let tables = [EPISODES, METRICS, TD_ERROR].into_iter().zip(self.lengths);
        for (name, recorded) in tables.chain([(self.events.as_str(), self.events_length)]) {
            let path = folder.join(name);
            if recorded > 0 {
                let found =
                    path.metadata().map_err(|e| StoreError::io(&path, "read the length of", e))?.len();
                if found < recorded {
                    return Err(StoreError::TooShort { path, found, recorded });
                }
            }
        }
        Ok(())
    }
}
