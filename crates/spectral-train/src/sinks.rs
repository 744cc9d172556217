//! Where one agent's metrics go: CSV files and TensorBoard events in its own folder.

use crate::machine::unix_seconds;
use crate::store::{CsvWriter, EventWriter, Field, StoreError};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use std::path::{Path, PathBuf};

/// One finished training episode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Episode {
    /// The agent's frame count at the end.
    pub frame: u64,
    /// Sum of raw rewards.
    pub sum: f64,
    /// Sum of plain scores.
    pub score: f64,
    /// Frames.
    pub length: u64,
}

/// The open files of one agent.
pub struct Sinks {
    episodes: CsvWriter,
    metrics: CsvWriter,
    td_error: Option<CsvWriter>,
    events: EventWriter,
    columns: Vec<String>,
}

impl Sinks {
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
        Ok(Sinks {
            episodes: CsvWriter::create(
                &folder.join("episodes.csv"),
                &header(&["frame", "return", "score", "length"]),
            )?,
            metrics: CsvWriter::create(&folder.join("metrics.csv"), columns)?,
            td_error: by_score
                .then(|| CsvWriter::create(&folder.join("td_error.csv"), &td_header))
                .transpose()?,
            events: EventWriter::create(folder, unix_seconds())?,
            columns: columns.to_vec(),
        })
    }

    /// One episode.
    pub fn episode(&mut self, e: Episode) -> Result<(), StoreError> {
        self.episodes.row(&[e.frame.into(), e.sum.into(), e.score.into(), e.length.into()])
    }

    /// One row of metrics, in the order of the columns, and the TD errors by score.
    pub fn metrics(
        &mut self,
        values: &[Field],
        td: impl Iterator<Item = (usize, f64, f64)>,
    ) -> Result<(), StoreError> {
        self.metrics.row(values)?;
        let frame = match values.first() {
            Some(Field::U64(frame)) => *frame,
            _ => 0,
        };
        let scalars: Vec<(&str, f32)> = self
            .columns
            .iter()
            .map(String::as_str)
            .zip(values)
            .skip(1)
            .filter_map(|(name, value)| match value {
                Field::U64(x) => Some((name, *x as f32)),
                Field::F64(x) => Some((name, *x as f32)),
                _ => None,
            })
            .collect();
        self.events.scalars(frame as i64, &scalars, unix_seconds())?;
        if let Some(table) = &mut self.td_error {
            for (score, error, target) in td {
                table.row(&[frame.into(), (score as u64).into(), error.into(), target.into()])?;
            }
        }
        self.flush()
    }

    /// Hands everything to the operating system.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.episodes.flush()?;
        self.metrics.flush()?;
        self.td_error.as_mut().map(CsvWriter::flush).transpose()?;
        self.events.flush()
    }

    /// Makes sure that the disk has everything, and writes the files' lengths.
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

    /// Opens the files of an interrupted run and cuts them back to the recorded lengths.
    pub fn resume(
        folder: &Path,
        columns: &[String],
        by_score: bool,
        from: &mut StateReader<'_>,
    ) -> Result<Self, StoreError> {
        let bad = |e: StateError| StoreError::state(folder, &e);
        let lengths = [from.u64().map_err(bad)?, from.u64().map_err(bad)?, from.u64().map_err(bad)?];
        let name = String::from_utf8_lossy(from.blob().map_err(bad)?).into_owned();
        // The name is joined to the folder: it must not lead out of it.
        let plain = Path::new(&name).file_name().is_some_and(|f| f.to_string_lossy() == name);
        if !plain {
            return Err(bad(StateError(format!("'{name}' is no event file"))));
        }
        let events: PathBuf = folder.join(name);
        Ok(Sinks {
            episodes: CsvWriter::resume(&folder.join("episodes.csv"), lengths[0])?,
            metrics: CsvWriter::resume(&folder.join("metrics.csv"), lengths[1])?,
            td_error: by_score
                .then(|| CsvWriter::resume(&folder.join("td_error.csv"), lengths[2]))
                .transpose()?,
            events: EventWriter::append_at(&events, from.u64().map_err(bad)?)?,
            columns: columns.to_vec(),
        })
    }
}
