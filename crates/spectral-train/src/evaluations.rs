//! An agent's evaluations: when they are due, which are still to be played, the table of them, the best model so far.
//!
//! An evaluation that is still to be played is part of the agent's state, with the copy of the model that it needs. So none is
//! lost or played twice, whenever the process is killed, and no checkpoint waits for one.

use crate::claim::Fence;
use crate::error::TrainError;
use crate::frozen_games::{Request, Row};
use crate::model_file::{self, Model};
use crate::population::ModelKind;
use crate::resolve::ResolvedRun;
use crate::store::{CsvWriter, Field, StoreError, disk, sync_folder};
use crate::table_sums::{TableSum, check_length};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NAME: &str = "eval.csv";
const COLUMNS: [&str; 9] = [
    "frame",
    "model",
    "games",
    "score_mean",
    "score_least",
    "score_most",
    "return_mean",
    "steps_mean",
    "cut",
];
/// The models of an agent that are evaluated, as far as it has them, and what `eval.csv` and checkpoints call them.
pub(crate) const MODELS: [(&str, ModelKind); 2] =
    [("last", ModelKind::Last), ("average", ModelKind::Average)];

/// The evaluations of one agent.
pub(crate) struct Evaluations {
    /// The run with this agent alone.
    run: Arc<ResolvedRun>,
    /// Steps from one evaluation to the next.
    period: u64,
    /// The step of the newest one that was asked for.
    requested: u64,
    /// Those that are still to be played, the oldest first.
    pending: VecDeque<Arc<Request>>,
    best: Option<Best>,
    /// The best model's file is not of this model yet.
    unwritten: bool,
    table: Table,
    fence: Fence,
}

/// The model with the highest mean score so far; of equal ones the last.
struct Best {
    frame: u64,
    score: f64,
    model: &'static str,
    bytes: Vec<u8>,
}

/// A restored table is opened only once its whole checkpoint has been verified.
enum Table {
    Closed,
    /// The length that a checkpoint recorded; 0 if it knows of no table.
    Recorded(u64),
    Open(CsvWriter, PathBuf),
}

impl Evaluations {
    /// Those of one agent, if the run has any.
    pub(crate) fn new(run: &ResolvedRun, agent: usize, frames_per_step: u64) -> Option<Box<Self>> {
        let settings = &run.plan.run;
        settings.evaluates().then(|| {
            Box::new(Evaluations {
                run: Arc::new(run.only(agent)),
                period: settings.eval_every.div_ceil(frames_per_step).max(1),
                requested: 0,
                pending: VecDeque::new(),
                best: None,
                unwritten: false,
                table: Table::Closed,
                fence: Fence::default(),
            })
        })
    }

    /// From now on the best model is replaced only if the run is still this process's.
    pub(crate) fn set_fence(&mut self, fence: Fence) {
        self.fence = fence;
    }

    /// Whether one is due after so many steps, of which the last is number `end`.
    pub(crate) fn due(&self, steps: u64, end: u64) -> bool {
        steps > self.requested && (steps.is_multiple_of(self.period) || steps == end)
    }

    /// The first step after `steps` after which one is due, the run's end aside.
    pub(crate) fn next(&self, steps: u64) -> u64 {
        (steps / self.period + 1) * self.period
    }

    /// Asks for games with these copies of the agent's models.
    pub(crate) fn request(&mut self, steps: u64, frame: u64, models: Vec<(&'static str, Vec<u8>)>) {
        self.requested = steps;
        self.pending.push_back(Arc::new(Request { frame, models }));
    }

    /// How many are still to be played.
    pub(crate) fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// The run with this agent alone, and the request to be played first.
    pub(crate) fn first(&self) -> Option<(Arc<ResolvedRun>, Arc<Request>)> {
        self.pending.front().map(|request| (self.run.clone(), request.clone()))
    }

    /// Writes down how the first of those that are to be played went, and remembers the best model. Its file follows with the next
    /// checkpoint, because training on a device waits meanwhile.
    pub(crate) fn played(&mut self, rows: &[Row]) -> Result<(), TrainError> {
        let Some(request) = self.pending.pop_front() else { return Ok(()) };
        let Table::Open(table, _) = &mut self.table else {
            unreachable!("files are opened before the first step")
        };
        for row in rows {
            table.row(&fields(row))?;
        }
        table.flush()?;
        let mut models = Arc::unwrap_or_clone(request).models;
        for row in rows {
            let better = self.best.as_ref().is_none_or(|best| row.score_mean >= best.score);
            let place = models.iter().position(|(name, _)| *name == row.model);
            if let Some(place) = place.filter(|_| better && row.score_mean.is_finite()) {
                let (model, bytes) = models.swap_remove(place);
                self.best = Some(Best { frame: row.frame, score: row.score_mean, model, bytes });
                self.unwritten = true;
            }
        }
        Ok(())
    }

    /// Begins the agent's files in a folder that no checkpoint speaks of.
    pub(crate) fn create_files(&mut self, folder: &Path) -> Result<(), StoreError> {
        disk::create_dir_all(folder).map_err(|e| StoreError::io(folder, "create", e))?;
        let columns = COLUMNS.map(String::from);
        self.table = Table::Open(CsvWriter::create(&folder.join(NAME), &columns)?, folder.into());
        model_file::remove_best(folder)?;
        // Checkpoints will depend on the table.
        sync_folder(folder)
    }

    /// Checks that the table is at least as long as recorded.
    pub(crate) fn check_files(&self, folder: &Path) -> Result<(), StoreError> {
        let Table::Recorded(recorded @ 1..) = self.table else { return Ok(()) };
        check_length(&folder.join(NAME), recorded)
    }

    /// Length and checksum of the table, once it is open.
    pub(crate) fn sum(&self) -> Option<TableSum> {
        match &self.table {
            Table::Open(table, _) => Some(table.sum()),
            _ => None,
        }
    }

    /// Brings the agent's files to where the checkpoint was.
    pub(crate) fn open_files(&mut self, folder: &Path) -> Result<(), StoreError> {
        match self.table {
            Table::Recorded(0) => return self.create_files(folder),
            Table::Recorded(length) => {
                let table = CsvWriter::resume_if(&folder.join(NAME), length, || self.fence.allow())?;
                self.table = Table::Open(table, folder.into());
            }
            _ => return Ok(()),
        }
        // The file may be of a moment after the checkpoint, which need not come again.
        self.write_best(folder)
    }

    /// Writes the best model, or removes the file if there is none.
    fn write_best(&mut self, folder: &Path) -> Result<(), StoreError> {
        write_best(&self.run, folder, self.best.as_ref(), &self.fence).map_err(|e| match e {
            TrainError::Store(error) => error,
            lost => StoreError::io(folder, "write to", std::io::Error::other(lost)),
        })?;
        self.unwritten = false;
        Ok(())
    }

    /// Writes the state, and the best model if there is a new one. The rows of the table are synced to disk before the state refers
    /// to them.
    pub(crate) fn save(&mut self, out: &mut StateWriter) -> Result<(), StoreError> {
        if let (true, Table::Open(_, folder)) = (self.unwritten, &self.table) {
            let folder = folder.clone();
            self.write_best(&folder)?;
        }
        out.u64(self.requested);
        out.u64(match &mut self.table {
            Table::Open(table, _) => table.sync_data()?,
            _ => 0,
        });
        out.u64(self.pending.len() as u64);
        for request in &self.pending {
            out.u64(request.frame);
            out.u64(request.models.len() as u64);
            for (name, bytes) in &request.models {
                out.blob(name.as_bytes());
                out.blob(bytes);
            }
        }
        out.bool(self.best.is_some());
        if let Some(best) = &self.best {
            out.u64(best.frame);
            out.f64(best.score);
            out.blob(best.model.as_bytes());
            out.blob(&best.bytes);
        }
        Ok(())
    }

    /// Restores the state of an agent that has made so many steps.
    pub(crate) fn restore(&mut self, steps: u64, saved: Option<Saved>) {
        // A checkpoint of a run that did not evaluate yet knows of nothing.
        let begin = || Saved { requested: steps, length: 0, pending: VecDeque::new(), best: None };
        let Saved { requested, length, pending, best } = saved.unwrap_or_else(begin);
        (self.requested, self.pending, self.best) = (requested, pending, best);
        self.table = Table::Recorded(length);
    }
}

/// What a checkpoint says of an agent's evaluations.
pub(crate) struct Saved {
    requested: u64,
    length: u64,
    pending: VecDeque<Arc<Request>>,
    best: Option<Best>,
}

impl Saved {
    /// Reads what [`Evaluations::save`] wrote.
    pub(crate) fn read(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        let (requested, length) = (from.u64()?, from.u64()?);
        let mut pending = VecDeque::new();
        for _ in 0..from.u64()? {
            let frame = from.u64()?;
            let mut models = Vec::new();
            for _ in 0..from.u64()? {
                models.push((name(from)?, from.blob()?.to_vec()));
            }
            pending.push_back(Arc::new(Request { frame, models }));
        }
        let best = match from.bool()? {
            false => None,
            true => Some(Best {
                frame: from.u64()?,
                score: from.f64()?,
                model: name(from)?,
                bytes: from.blob()?.to_vec(),
            }),
        };
        Ok(Saved { requested, length, pending, best })
    }
}

fn name(from: &mut StateReader<'_>) -> Result<&'static str, StateError> {
    let found = from.blob()?;
    let known = MODELS.into_iter().map(|(name, _)| name).find(|name| name.as_bytes() == found);
    known.ok_or_else(|| StateError("a kind of model of another version".into()))
}

fn fields(row: &Row) -> [Field; COLUMNS.len()] {
    [
        row.frame.into(),
        Field::Word(row.model),
        row.games.into(),
        row.score_mean.into(),
        row.score_least.into(),
        row.score_most.into(),
        row.return_mean.into(),
        row.steps_mean.into(),
        row.cut.into(),
    ]
}

/// Writes the best model, or removes the file if there is none.
fn write_best(
    run: &ResolvedRun,
    folder: &Path,
    best: Option<&Best>,
    fence: &Fence,
) -> Result<(), TrainError> {
    let Some(Best { frame, score, model, bytes }) = best else {
        fence.check()?;
        return Ok(model_file::remove_best(folder)?);
    };
    let path = model_file::best_in(folder);
    let found = Model::of(run, 0, *frame, bytes).map_err(|e| StoreError::state(&path, &e))?;
    found.write_with(&path, &[("score", format!("{score}")), ("model", (*model).into())], fence)
}
