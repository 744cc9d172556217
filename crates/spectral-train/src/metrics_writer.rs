//! Writes one agent's metrics to CSV files and TensorBoard events in its own folder.

use crate::claim::Fence;
use crate::machine::unix_seconds;
use crate::store::{CsvWriter, EventWriter, Field, StoreError, disk, sweep_temporaries, sync_folder};
use crate::table_sums::{TableSum, check_length};
use spectral_agent::diagnostics::ScoreError;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use std::path::Path;

pub(crate) const EPISODES: &str = "episodes.csv";
const METRICS: &str = "metrics.csv";
const TD_ERROR: &str = "td_error.csv";
/// New columns come last: the table of a run that an older version began keeps its columns.
const TD_COLUMNS: [&str; 5] = ["frame", "player_score", "abs_error", "abs_target", "samples"];

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
        disk::create_dir_all(folder).map_err(|e| StoreError::io(folder, "create", e))?;
        sweep_temporaries(folder)?;
        for entry in disk::read_dir(folder).map_err(|e| StoreError::io(folder, "read", e))? {
            let entry = entry.map_err(|e| StoreError::io(folder, "read", e))?;
            if entry.file_name().to_string_lossy().starts_with("events.out.tfevents.") {
                let path = entry.path();
                disk::remove_file(&path).map_err(|e| StoreError::io(&path, "remove", e))?;
            }
        }
        let header = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
        let td_header = header(&TD_COLUMNS);
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
        td: impl Iterator<Item = ScoreError>,
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
            for at in td {
                let score = at.player_score as u64;
                let fields: [Field; TD_COLUMNS.len()] = [
                    frame.into(),
                    score.into(),
                    at.abs_error.into(),
                    at.abs_target.into(),
                    at.samples.into(),
                ];
                // Versions that did not write the samples began the file of a run that is resumed.
                table.row(&fields[..fields.len().min(table.columns())])?;
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

    /// Lengths and checksums of the tables. The file of events has checksums of its own.
    pub(crate) fn sums(&self) -> Vec<TableSum> {
        [Some(&self.episodes), Some(&self.metrics), self.td_error.as_ref()]
            .into_iter()
            .flatten()
            .map(CsvWriter::sum)
            .collect()
    }

    /// Opens the files of an interrupted run and truncates them to the recorded lengths, if the run is still this process's.
    pub fn resume(
        folder: &Path,
        columns: &[String],
        at: &RecordedFiles,
        fence: &Fence,
    ) -> Result<Self, StoreError> {
        let allowed = || fence.allow();
        sweep_temporaries(folder)?;
        let [episodes, metrics, td_error] = at.lengths;
        Ok(MetricsWriter {
            episodes: CsvWriter::resume_if(&folder.join(EPISODES), episodes, allowed)?,
            metrics: CsvWriter::resume_if(&folder.join(METRICS), metrics, allowed)?,
            td_error: (td_error > 0)
                .then(|| CsvWriter::resume_if(&folder.join(TD_ERROR), td_error, allowed))
                .transpose()?,
            events: EventWriter::append_at_if(&folder.join(&at.events), at.events_length, allowed)?,
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
            if recorded > 0 {
                check_length(&folder.join(name), recorded)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::ScratchDir;

    fn log(files: &mut MetricsWriter, frame: u64) {
        let at = ScoreError { player_score: 3, abs_error: 0.5, abs_target: 2.0, samples: frame / 10 };
        files.metrics(&[frame.into()], [at].into_iter()).unwrap();
    }

    fn resumed(folder: &Path, columns: &[String], saved: &[u8]) -> MetricsWriter {
        let at = RecordedFiles::read(&mut StateReader::new(saved)).unwrap();
        MetricsWriter::resume(folder, columns, &at, &Fence::default()).unwrap()
    }

    #[test]
    fn a_table_that_an_older_version_began_keeps_its_columns() {
        let scratch = ScratchDir::new();
        let (folder, columns) = (scratch.path().to_path_buf(), ["frame".to_owned()]);
        let table = || std::fs::read_to_string(folder.join(TD_ERROR)).unwrap();
        let mut files = MetricsWriter::create(&folder, &columns, true).unwrap();
        log(&mut files, 10);
        let mut saved = StateWriter::default();
        files.save(&mut saved).unwrap();
        let saved = saved.into_bytes();
        log(&mut resumed(&folder, &columns, &saved), 20);
        assert_eq!(table(), "frame,player_score,abs_error,abs_target,samples\n10,3,0.5,2,1\n20,3,0.5,2,2\n");
        // As a version without samples would have left it.
        let mut files = resumed(&folder, &columns, &saved);
        let old = "frame,player_score,abs_error,abs_target\n";
        files.td_error = Some({
            std::fs::write(folder.join(TD_ERROR), old).unwrap();
            CsvWriter::resume(&folder.join(TD_ERROR), old.len() as u64).unwrap()
        });
        let mut saved = StateWriter::default();
        files.save(&mut saved).unwrap();
        log(&mut resumed(&folder, &columns, &saved.into_bytes()), 20);
        assert_eq!(table(), format!("{old}20,3,0.5,2\n"));
    }
}
