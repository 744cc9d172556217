//! Replay that a checkpoint does not store but makes again: where the task stood, and the actions since.
//!
//! A task is deterministic given its state, its actions and the agent's random streams, which are functions of the seed and the step. So
//! the records of a stretch of training follow from the task's state before it and the actions in it: a byte a record instead of
//! seven thousand. Each piece of a stretch has a checksum of the records that were there when the recipe was written.

use crate::error::TrainError;
use crate::plan::AgentPlan;
use crate::resolve::ResolvedRun;
use crate::store::{Records, SegmentRef, StoreError};
use spectral_agent::replay::{Outcome, Replay};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::rng::{Purpose, Stream};
use spectral_env::Env;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

/// Bytes of records that are made, checked and passed on together.
const PIECE_BYTES: usize = 4 << 20;
/// The most bytes of a task's state in a recipe. A task whose state is larger keeps its records.
const TASK_BYTES: usize = 64 << 20;
/// How many records are tried when a recipe is written.
const TRIED: u64 = 256;

/// Where a task stands between two steps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Anchor {
    /// Steps taken, which is the number of the next record.
    pub step: u64,
    /// Whether the next step begins with a reset.
    pub fresh: bool,
    /// The player's score.
    pub player_score: u8,
    /// What the task saves.
    pub task: Vec<u8>,
}

/// How to make a range of records again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recipe {
    /// Where the task stood before the first record.
    pub anchor: Anchor,
    /// Whether the first record begins an episode, or a life.
    pub starting: bool,
    /// One per record.
    pub actions: Vec<u8>,
    /// Records of a piece; the last one may have fewer.
    pub per_piece: u64,
    /// CRC-32 of each piece's records.
    pub sums: Vec<u32>,
}

impl Recipe {
    /// The recipe of records `anchor.step..newest` of a replay that still has them. `None` if there are none, or if `task`, an
    /// instance that nobody else uses, does not bring about the first of them again.
    pub fn of(
        anchor: &Anchor,
        records: &mut dyn Records,
        agent: &AgentPlan,
        task: &mut dyn Env,
    ) -> Result<Option<Self>, StateError> {
        let (first, newest) = (anchor.step, records.newest());
        if first >= newest || first < records.oldest() || anchor.task.len() > TASK_BYTES {
            return Ok(None);
        }
        let per_piece = (PIECE_BYTES / records.bytes_per_record().max(1)).max(1) as u64;
        let mut recipe = Recipe {
            anchor: anchor.clone(),
            starting: false,
            actions: Vec::new(),
            per_piece,
            sums: Vec::new(),
        };
        let mut bytes = Vec::new();
        let mut at = first;
        while at < newest {
            let count = per_piece.min(newest - at);
            bytes.clear();
            records.write_range(at, count, &mut bytes)?;
            let (actions, starts) = Replay::played(&bytes, count);
            if at == first {
                recipe.starting = starts;
            }
            recipe.actions.extend_from_slice(actions);
            recipe.sums.push(crc32fast::hash(&bytes));
            at += count;
        }
        let count = TRIED.min(newest - first);
        bytes.clear();
        records.write_range(first, count, &mut bytes)?;
        let again = recipe.begin(agent, task).and_then(|mut rerun| rerun.advance(count));
        Ok(again.is_ok_and(|again| again == bytes).then_some(recipe))
    }

    /// The first record and one past the last.
    fn range(&self) -> (u64, u64) {
        (self.anchor.step, self.anchor.step + self.actions.len() as u64)
    }

    /// The most bytes that a recipe of so many records has: an action and at most one checksum for each, the task's state, and its
    /// numbers.
    pub fn most_bytes(count: u64) -> u64 {
        count.saturating_mul(5).saturating_add(TASK_BYTES as u64 + 64)
    }

    /// For a segment.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = StateWriter::default();
        out.u64(self.anchor.step);
        out.bool(self.anchor.fresh);
        out.u8(self.anchor.player_score);
        out.blob(&self.anchor.task);
        out.bool(self.starting);
        out.blob(&self.actions);
        out.u64(self.per_piece);
        self.sums.iter().for_each(|&sum| out.u32(sum));
        out.into_bytes()
    }

    /// Reads what [`to_bytes`](Recipe::to_bytes) wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        let mut from = StateReader::new(bytes);
        let (step, fresh, player_score) = (from.u64()?, from.bool()?, from.u8()?);
        let anchor = Anchor { step, fresh, player_score, task: from.blob()?.to_vec() };
        let (starting, actions, per_piece) = (from.bool()?, from.blob()?.to_vec(), from.u64()?);
        let count = actions.len() as u64;
        if per_piece == 0 || step.checked_add(count).is_none() {
            return Err(StateError("a recipe with impossible counts".into()));
        }
        let sums = (0..count.div_ceil(per_piece)).map(|_| from.u32()).collect::<Result<_, _>>()?;
        from.finish()?;
        Ok(Recipe { anchor, starting, actions, per_piece, sums })
    }

    /// Begins to make the records again, with this instance of the task.
    fn begin<'a>(&'a self, agent: &'a AgentPlan, task: &'a mut dyn Env) -> Result<Rerun<'a>, StateError> {
        // A piece is held in memory, whatever the file says.
        let largest = PIECE_BYTES / Replay::bytes_per_record(task.spec()).max(1);
        if self.per_piece > largest.max(1) as u64 {
            return Err(StateError(format!("a recipe in pieces of {} records", self.per_piece)));
        }
        let mut from = StateReader::new(&self.anchor.task);
        task.restore(&mut from)?;
        from.finish()?;
        // One more than a piece: where the current observation is.
        let room = self.per_piece.min(self.actions.len() as u64) as usize + 1;
        let mut made = Replay::of_task(task.spec(), room, 1);
        made.begin_at(self.anchor.step, self.starting);
        let Anchor { step, fresh, player_score, .. } = self.anchor;
        Ok(Rerun { recipe: self, agent, task, made, step, fresh, player_score })
    }
}

/// A stretch of training that is played again.
struct Rerun<'a> {
    recipe: &'a Recipe,
    agent: &'a AgentPlan,
    task: &'a mut dyn Env,
    /// The records made last.
    made: Replay,
    step: u64,
    fresh: bool,
    player_score: u8,
}

impl Rerun<'_> {
    /// Makes the next `count` records, a piece's at most: the same calls with the same streams as in `Actor::begin` and `Actor::play`.
    fn advance(&mut self, count: u64) -> Result<Vec<u8>, StateError> {
        let first = self.step;
        for _ in 0..count {
            let mut chance = Stream::new(self.agent.seed, Purpose::Environment, self.step);
            if self.fresh {
                self.task.reset(&mut chance);
                self.player_score = 0;
                self.check()?;
            }
            self.task.observe(self.made.observation());
            let legal = self.task.legal();
            if self.task.spec().masks_actions {
                self.made.allow(&legal);
            }
            let action = self.recipe.actions[(self.step - self.recipe.anchor.step) as usize];
            if !legal.allows(usize::from(action)) {
                return Err(StateError(format!(
                    "the task has no action {action}, or none that is legal there"
                )));
            }
            let step = self.task.step(usize::from(action), &mut chance);
            self.check()?;
            let life_loss_terminal = self.agent.settings.life_loss_terminal;
            self.made.record(Outcome::of(&step, action, self.player_score, life_loss_terminal));
            self.fresh = step.terminated || step.truncated;
            self.player_score = step.player_score;
            self.step += 1;
        }
        Ok(self.bytes(first))
    }

    /// Tasks of others may fail.
    fn check(&self) -> Result<(), StateError> {
        self.task.failure().map_or(Ok(()), |reason| Err(StateError(reason)))
    }

    /// The records from `first` on, which are among those made last.
    fn bytes(&self, first: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.made.write_range(first, self.step - first, &mut bytes);
        bytes
    }
}

/// A segment of an agent whose records are to be made again, those before `oldest` only to get to the others.
pub(crate) struct Remaking {
    /// The agent's number.
    pub agent: usize,
    /// The oldest record that its replay keeps.
    pub oldest: u64,
    /// The segment.
    pub segment: SegmentRef,
    /// Its recipe, as bytes.
    pub recipe: Vec<u8>,
}

/// Makes the records of all these segments again, on several threads, and passes them to `take` with their agent and the
/// number of the first, in no particular order. A segment whose task does not repeat itself is an error that names it.
pub(crate) fn remake(
    run: &ResolvedRun,
    folder: &std::path::Path,
    all: &[Remaking],
    threads: usize,
    mut take: impl FnMut(usize, u64, u64, &[u8]) -> Result<(), StateError>,
) -> Result<(), TrainError> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let threads = threads.clamp(1, all.len().max(1));
    std::thread::scope(|scope| {
        // A few pieces wait for a replay that is slower than the threads; the rest is not made before.
        let (send, made) = sync_channel::<Result<(usize, u64, Vec<u8>), TrainError>>(threads);
        for _ in 0..threads {
            let (send, next, failed) = (send.clone(), &next, &failed);
            scope.spawn(move || {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let pass = |piece| !failed.load(Ordering::Relaxed) && send.send(piece).is_ok();
                    let outcome =
                        remake_one(run, folder, one, &mut |at, bytes| pass(Ok((one.agent, at, bytes))));
                    match outcome {
                        Ok(true) => {}
                        Ok(false) => return,
                        Err(error) => {
                            pass(Err(error));
                            return;
                        }
                    }
                }
            });
        }
        drop(send);
        let record = Replay::bytes_per_record(&run.task);
        let mut outcome = Ok(());
        for piece in made {
            if outcome.is_ok() {
                outcome = piece.and_then(|(agent, first, bytes)| {
                    let count = (bytes.len() / record) as u64;
                    take(agent, first, count, &bytes).map_err(|e| StoreError::state(folder, &e).into())
                });
                failed.store(outcome.is_err(), Ordering::Relaxed);
            }
        }
        outcome
    })
}

/// Makes one segment again, piece by piece; false if `pass` wants no more.
fn remake_one(
    run: &ResolvedRun,
    folder: &std::path::Path,
    one: &Remaking,
    pass: &mut dyn FnMut(u64, Vec<u8>) -> bool,
) -> Result<bool, TrainError> {
    let path = folder.join(&one.segment.file);
    let foreign = |e: StateError| TrainError::from(StoreError::state(&path, &e));
    let recipe = Recipe::from_bytes(&one.recipe).map_err(foreign)?;
    if recipe.range() != (one.segment.first, one.segment.end()) {
        return Err(foreign(StateError("a recipe for other records than the checkpoint means".into())));
    }
    let mut task = run.make_task()?;
    let mut rerun = recipe.begin(&run.plan.agents[one.agent], task.as_mut()).map_err(foreign)?;
    let (mut at, end) = recipe.range();
    for &sum in &recipe.sums {
        let count = recipe.per_piece.min(end - at);
        let bytes = rerun.advance(count).map_err(foreign)?;
        if crc32fast::hash(&bytes) != sum {
            let detail = format!(
                "records {at} to {} came out differently when they were played again: the task is not deterministic, or is not \
                 what it was",
                at + count
            );
            return Err(StoreError::Mismatch { path, detail }.into());
        }
        let goes_on = match one.oldest {
            oldest if oldest >= at + count => true,
            oldest if oldest > at => pass(oldest, rerun.bytes(oldest)),
            _ => pass(at, bytes),
        };
        if !goes_on {
            return Ok(false);
        }
        at += count;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe() -> Recipe {
        let anchor = Anchor { step: 70, fresh: true, player_score: 3, task: vec![1, 2, 3] };
        Recipe { anchor, starting: true, actions: vec![0, 1, 2, 1, 0], per_piece: 2, sums: vec![7, 8, 9] }
    }

    #[test]
    fn recipes_survive_bytes_and_what_is_cut_or_impossible_is_refused() {
        let bytes = recipe().to_bytes();
        assert_eq!(Recipe::from_bytes(&bytes).unwrap(), recipe());
        assert_eq!(recipe().range(), (70, 75));
        for cut in 0..bytes.len() {
            assert!(Recipe::from_bytes(&bytes[..cut]).is_err());
        }
        let refused = |change: fn(&mut Recipe)| {
            let mut recipe = recipe();
            change(&mut recipe);
            assert!(Recipe::from_bytes(&recipe.to_bytes()).is_err(), "{recipe:?}");
        };
        refused(|recipe| recipe.per_piece = 0);
        refused(|recipe| recipe.per_piece = 5);
        refused(|recipe| recipe.anchor.step = u64::MAX - 2);
    }
}
