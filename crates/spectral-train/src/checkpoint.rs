//! Checkpoints of a whole population: everything, whole or not at all, and the previous one kept.
//!
//! A checkpoint is one container file with a section per agent; replay's records lie beside it in append-only segments, so
//! that a checkpoint costs what was gathered since the last one, not the whole replay. A *light* checkpoint is the same file
//! with a mark and without segments: an agent resumed from it has all that it had learned and an empty replay.

mod advice;
mod models;
mod sections;

use crate::checked_records::CheckedRecords;
use crate::claim::Fence;
use crate::cpu_population::threads;
use crate::error::TrainError;
use crate::plan::Plan;
use crate::population::{ModelKind, Population};
use crate::recipe::{Anchor, Recipe, Remaking, remake};
use crate::resolve::ResolvedRun;
use crate::run_dir::RunDir;
use crate::store::{
    Container, ContainerWriter, Records, SegmentRef, StoreError, append_recipe, append_segments,
    collect_garbage_if, disk, load_segments, open_plain, segment_names, sync_folder, write_and_rename_if,
};
use crate::table_sums::{self, TableSum};
use sections::{
    MANIFEST, average_section, check_room, read_manifest, segments_needed, segments_of, tables_section,
};
use spectral_agent::replay::Replay;
use spectral_core::bytes::{StateError, StateWriter};
use spectral_env::Env;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

spectral_core::choices! {
    /// What a checkpoint holds.
    CheckpointKind {
        /// Full if the disk has room for twice the population's replay, else compact, or light where the task is not known to repeat itself.
        Auto = "auto",
        /// Everything: a resumed run goes on bit for bit.
        Full = "full",
        /// Everything, but of replay only how it came about, so that it is made again when the run is resumed.
        Compact = "compact",
        /// Everything but replay, which fills anew when the run is resumed.
        Light = "light",
    }
}

/// What the checkpoints of a run at work hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saving {
    /// Everything.
    Full,
    /// Replay as recipes, which are played again.
    Compact,
    /// No replay.
    Light,
}

const SUFFIX: &str = ".checkpoint";
/// The highest number from which a run goes on: enough for all times, and far from where numbers end.
const HIGHEST: u64 = u64::MAX / 2;
/// How many checkpoints are kept.
const KEPT: usize = 2;

/// Writes checkpoints, one after the other.
pub struct Checkpoints {
    folder: PathBuf,
    fingerprint: u32,
    ids: Vec<String>,
    number: u64,
    saving: Saving,
    /// Per agent, where its task stood at the end of the segments of the newest checkpoint; empty unless that is wanted.
    anchors: Vec<Option<Anchor>>,
    /// An instance of the task on which recipes are tried.
    spare: Option<Box<dyn Env>>,
    /// Per agent, what the newest checkpoint knows of its tables; nothing in one of an older version.
    tables: Vec<Vec<TableSum>>,
    /// Per agent, the segments of the newest checkpoint.
    segments: Vec<Vec<SegmentRef>>,
    /// The checkpoints on disk, the next to be removed first, each with the segments that it needs.
    kept: Vec<(PathBuf, HashSet<String>)>,
    /// Asked before each file that is made or removed.
    fence: Fence,
}

/// A population's state was read.
pub struct Loaded {
    /// Writes the ones that follow.
    pub checkpoints: Checkpoints,
    /// It was a light one, or its replay was to be left out.
    pub without_replay: bool,
}

/// What writing a checkpoint cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Seconds.
    pub seconds: f64,
    /// Bytes written.
    pub bytes: u64,
}

impl Checkpoints {
    /// For a run that has none yet.
    pub fn new(dir: &RunDir, plan: &Plan, saving: Saving) -> Self {
        Checkpoints {
            folder: dir.checkpoints(),
            fingerprint: plan.fingerprint(),
            ids: plan.agents.iter().map(|agent| agent.id.clone()).collect(),
            number: 0,
            saving,
            anchors: Vec::new(),
            spare: None,
            tables: vec![Vec::new(); plan.agents.len()],
            segments: vec![Vec::new(); plan.agents.len()],
            kept: Vec::new(),
            fence: Fence::default(),
        }
    }

    /// From now on nothing is written, and nothing removed, unless the run is still this process's.
    pub fn set_fence(&mut self, fence: Fence) {
        self.fence = fence;
    }

    /// Notes where the tasks stand before training goes on, which compact checkpoints have to know. To be called once, with a
    /// population that is at its beginning or at the checkpoint that was read.
    pub fn begin(&mut self, run: &ResolvedRun, population: &mut dyn Population) -> Result<(), TrainError> {
        if self.saving == Saving::Compact {
            self.spare = Some(run.make_task()?);
            self.anchors = anchors(population);
        }
        Ok(())
    }

    /// Writes the whole population; when it returns, a kill or a power cut loses nothing before this moment.
    ///
    /// When it fails, everything written before is as it was. What it had written itself is gone again, so that a disk that is full
    /// does not stay full of half a checkpoint; or it is whole, where only the last step failed, and is one more to go on from.
    pub fn write(&mut self, population: &mut dyn Population) -> Result<Cost, TrainError> {
        let result = self.try_write(population);
        // In a run that is another's, other checkpoints need the files.
        if result.is_err() && self.fence.check().is_ok() {
            let _ = self.collect_garbage();
        }
        result
    }

    fn collect_garbage(&self) -> Result<(), StoreError> {
        collect_garbage_if(&self.folder, &self.needed(), || self.fence.allow()).map(drop)
    }

    fn try_write(&mut self, population: &mut dyn Population) -> Result<Cost, TrainError> {
        let start = std::time::Instant::now();
        let mut bytes = 0;
        let mut segments = vec![Vec::new(); self.ids.len()];
        if self.saving != Saving::Light {
            for (agent, manifest) in segments.iter_mut().enumerate() {
                self.fence.check()?;
                *manifest = self.append(agent, population).map_err(unread)?;
                let previous = &self.segments[agent];
                let old: HashSet<&str> = previous.iter().map(|s| s.file.as_str()).collect();
                let new = manifest.iter().filter(|s| !old.contains(s.file.as_str()));
                bytes += new.map(|s| s.bytes).sum::<u64>();
            }
        }
        let states: Vec<Vec<u8>> =
            (0..self.ids.len()).map(|agent| population.save(agent)).collect::<Result<_, _>>()?;
        let averages: Vec<Option<Vec<u8>>> =
            (0..self.ids.len()).map(|agent| population.save_average(agent)).collect::<Result<_, _>>()?;
        // Of the same moment: nothing was written since.
        let tables: Vec<Vec<TableSum>> =
            (0..self.ids.len()).map(|agent| population.actor(agent).table_sums()).collect();
        let number = self.number + 1;
        let path = self.folder.join(format!("{number:08}{SUFFIX}"));
        let whole = |out: &mut dyn std::io::Write| {
            let mut container = ContainerWriter::new(out)?;
            let mut manifest = StateWriter::default();
            manifest.u32(self.fingerprint);
            if self.saving == Saving::Light {
                manifest.bool(true);
            }
            container.section(MANIFEST, &manifest.into_bytes())?;
            for ((id, state), manifest) in self.ids.iter().zip(&states).zip(&segments) {
                container.section(&format!("agent/{id}"), state)?;
                container.section(&format!("segments/{id}"), &SegmentRef::manifest_to_bytes(manifest))?;
            }
            for (id, average) in self.ids.iter().zip(&averages) {
                if let Some(average) = average {
                    container.section(&average_section(id), average)?;
                }
            }
            for (id, tables) in self.ids.iter().zip(&tables) {
                container.section(&tables_section(id), &table_sums::to_bytes(tables))?;
            }
            container.finish()
        };
        let renamed = write_and_rename_if(&path, whole, || self.fence.allow());
        // Whatever the system says of the renaming, and of the sync that follows: a checkpoint that has its name may be what the
        // run goes on from, and needs its segments.
        if renamed.is_ok() || may_be_there(&path) {
            self.number = number;
            self.kept.push((path.clone(), segments.iter().flatten().map(|s| s.file.clone()).collect()));
            self.segments = segments;
            self.tables = tables;
            if self.saving == Saving::Compact {
                self.anchors = anchors(population);
            }
        }
        renamed?;
        sync_folder(&self.folder)?;
        bytes += disk::metadata(&path).map_or(0, |m| m.len());
        // Committed. Only now may anything older go.
        while self.kept.len() > KEPT {
            self.fence.check()?;
            let (old, _) = &self.kept[0];
            // A checkpoint that the user keeps elsewhere is the user's.
            if old.parent() == Some(&self.folder) {
                match disk::remove_file(old) {
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    removed => removed.map_err(|e| StoreError::io(old, "remove", e))?,
                }
            }
            // One that could not be removed still needs its segments.
            self.kept.remove(0);
        }
        self.collect_garbage()?;
        Ok(Cost { seconds: start.elapsed().as_secs_f64(), bytes })
    }

    /// Writes what an agent's replay gained: as a recipe if that is wanted and possible, else the records themselves.
    fn append(
        &mut self,
        agent: usize,
        population: &mut dyn Population,
    ) -> Result<Vec<SegmentRef>, StoreError> {
        let (folder, id, previous) = (&self.folder, &self.ids[agent], &self.segments[agent]);
        let plan = population.actor(agent).plan().clone();
        let mut records = population.records(agent);
        let covered = previous.last().map_or(records.oldest(), SegmentRef::end);
        let anchor = self.anchors.get(agent).and_then(Option::as_ref).filter(|anchor| anchor.step == covered);
        if let (Some(anchor), Some(task)) = (anchor, &mut self.spare) {
            let recipe = Recipe::of(anchor, records.as_mut(), &plan, task.as_mut());
            if let Some(recipe) =
                recipe.map_err(|e| StoreError::Source { path: folder.clone(), detail: e.0 })?
            {
                let range = (covered, records.newest() - covered);
                return append_recipe(folder, id, previous, records.oldest(), range, &recipe.to_bytes());
            }
        }
        append_segments(folder, id, previous, records.as_mut())
    }

    /// The checkpoint written last, or the one that was read if none was written since.
    pub fn last(&self) -> Option<&Path> {
        self.kept.last().map(|(path, _)| path.as_path())
    }

    /// What the checkpoint written last, or else the one that was read, knows of an agent's tables.
    pub(crate) fn tables(&self, agent: usize) -> &[TableSum] {
        &self.tables[agent]
    }

    fn needed(&self) -> HashSet<String> {
        self.kept.iter().flat_map(|(_, files)| files.iter().cloned()).collect()
    }

    /// The checkpoints of a run, oldest first.
    pub fn list(dir: &RunDir) -> Result<Vec<PathBuf>, StoreError> {
        let folder = dir.checkpoints();
        let entries = match disk::read_dir(&folder) {
            // A run killed before it had made the folder.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|e| StoreError::io(&folder, "read", e))?,
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(|e| StoreError::io(&folder, "read", e))?.path();
            paths.extend(number_of(&path).map(|_| path));
        }
        paths.sort();
        Ok(paths)
    }

    /// Reads a fresh population's state from the newest checkpoint, or from `chosen`. `None` if there is none yet.
    /// Those written later hold what `saving` says, whatever this one holds.
    ///
    /// A checkpoint that is damaged, or cannot be read, is an error that names another from which the run can go on with its files
    /// as they are; nothing is overwritten. A device that fails meanwhile is not taken for damage.
    ///
    /// A checkpoint that was chosen in place of a newer one becomes the newest, so that the run goes on from it even if it is killed at
    /// once.
    ///
    /// `without_replay` leaves out the replay that a checkpoint has, as if it were a light one: for a task that did not repeat itself,
    /// or segments that are lost.
    pub fn load(
        dir: &RunDir,
        run: &ResolvedRun,
        population: &mut dyn Population,
        chosen: Option<&Path>,
        saving: Saving,
        without_replay: bool,
    ) -> Result<Option<Loaded>, TrainError> {
        Self::load_as(dir, run, population, chosen, saving, without_replay, &Fence::default())
    }

    /// [`load`](Checkpoints::load), and from then on nothing is written, and nothing removed, unless the run is still this process's.
    pub(crate) fn load_as(
        dir: &RunDir,
        run: &ResolvedRun,
        population: &mut dyn Population,
        chosen: Option<&Path>,
        saving: Saving,
        without_replay: bool,
        fence: &Fence,
    ) -> Result<Option<Loaded>, TrainError> {
        let all = Self::list(dir)?;
        // However the user writes its path, a checkpoint of this run is known by its own.
        let own = |path: &Path| all.iter().find(|p| same_file(p, path)).cloned().unwrap_or(path.into());
        let Some(path) = chosen.map(own).or_else(|| all.last().cloned()) else {
            return Ok(None);
        };
        let mut loaded = match Self::read(dir, run, population, &path, saving, without_replay) {
            Err(TrainError::Store(error)) if error.may_spare_others() => {
                // A device that takes nothing any more gives nothing back either: then no file is to blame.
                population.save_model(0, ModelKind::Last, &mut StateWriter::default())?;
                let hint = advice::after_damage(dir, run, population, &path, &all, saving, without_replay);
                return Err(TrainError::Data(format!("{error}\nnothing was changed; {hint}")));
            }
            other => other?,
        };
        loaded.checkpoints.set_fence(fence.clone());
        loaded.checkpoints.take_up(&path, &all, &run.plan)?;
        if without_replay {
            // The checkpoint keeps its segments; those to come do not refer to them.
            loaded.checkpoints.segments.iter_mut().for_each(Vec::clear);
        }
        if all.last() != Some(&path) {
            // It knows of rows that are about to go.
            dir.forget_tables(fence)?;
        }
        // The whole checkpoint is sound, and the newest: only now may files be cut back to it.
        for (agent, id) in loaded.checkpoints.ids.iter().enumerate() {
            let columns = population.metric_columns(agent);
            fence.check()?;
            population.actor(agent).open_files(&dir.agent(id), &columns, fence)?;
        }
        Ok(Some(loaded))
    }

    /// Goes on from the checkpoint that was read, one of `all` or a file from elsewhere.
    fn take_up(&mut self, path: &Path, all: &[PathBuf], plan: &Plan) -> Result<(), TrainError> {
        self.number = all.iter().filter_map(|p| number_of(p)).max().unwrap_or(0);
        if self.number > HIGHEST {
            let last = all.iter().find(|p| number_of(p) == Some(self.number)).unwrap_or(&all[0]);
            return Err(TrainError::Data(format!(
                "{}: no run has so many checkpoints, and there would be no number for the next; give the file a lower one \
                 (nothing was changed)",
                last.display()
            )));
        }
        // A checkpoint that cannot be read now may be readable later, if it still has its segments.
        let needed = |p: &PathBuf| match segments_needed(p, plan) {
            Some(files) => Ok(files),
            None => segment_names(&self.folder).map(HashSet::from_iter),
        };
        let others = all.iter().filter(|p| *p != path).map(|p| Ok((p.clone(), needed(p)?)));
        let mut kept = others.collect::<Result<Vec<_>, StoreError>>()?;
        let files: HashSet<String> = self.segments.iter().flatten().map(|s| s.file.clone()).collect();
        let mut newest = path.to_path_buf();
        if all.last().map(PathBuf::as_path) != Some(path) {
            // A run that is killed before its next checkpoint must not find a newer one from which it has departed.
            kept.push((newest, files.clone()));
            self.number += 1;
            newest = self.folder.join(format!("{:08}{SUFFIX}", self.number));
            let mut from = open_plain(path).map_err(|e| StoreError::io(path, "read", e))?;
            let copy = |out: &mut dyn std::io::Write| std::io::copy(&mut from, out).map(drop);
            write_and_rename_if(&newest, copy, || self.fence.allow())?;
            sync_folder(&self.folder)?;
        }
        kept.push((newest, files));
        self.kept = kept;
        Ok(())
    }

    /// Reads a checkpoint to its end into a population, its replay only if it is wanted. No file is changed.
    fn read(
        dir: &RunDir,
        run: &ResolvedRun,
        population: &mut dyn Population,
        path: &Path,
        saving: Saving,
        leave_out: bool,
    ) -> Result<Loaded, TrainError> {
        let plan = &run.plan;
        let mut checkpoints = Checkpoints::new(dir, plan, saving);
        let mut remaking = Vec::new();
        let container = Container::open(path)?;
        container.verify()?;
        let without_replay = match read_manifest(&container)? {
            (fingerprint, is_light) if fingerprint == checkpoints.fingerprint => is_light || leave_out,
            _ => {
                let detail = "it belongs to a run with other settings".into();
                return Err(StoreError::Mismatch { path: path.into(), detail }.into());
            }
        };
        for (agent, id) in checkpoints.ids.iter().enumerate() {
            let state = container.section(&format!("agent/{id}"))?;
            let segments = segments_of(&container, id)?;
            check_room(&checkpoints.folder, &segments, plan.agents[agent].settings.replay as u64)?;
            population.restore(agent, &state).map_err(|e| StoreError::state(path, &e))?;
            // A checkpoint without one is that of an agent that kept none; its mean begins at the next refresh.
            if container.names().any(|name| name == average_section(id)) {
                let average = container.section(&average_section(id))?;
                population.restore_average(agent, &average).map_err(|e| StoreError::state(path, &e))?;
            }
            let actor = population.actor(agent);
            if without_replay {
                actor.empty_replay();
            }
            let emptied = actor.emptied();
            if emptied > 0 {
                population.forget_before(agent, emptied);
            }
            let wanted = if leave_out { &[] } else { segments.as_slice() };
            let mut records = CheckedRecords::new(population.records(agent), &run.task);
            let (oldest, recipes) =
                (records.oldest(), load_segments(&checkpoints.folder, wanted, &mut records)?);
            drop(records);
            let remake = |(segment, recipe)| Remaking { agent, oldest, segment, recipe };
            remaking.extend(recipes.into_iter().map(remake));
            mark_seams(population, agent).map_err(|e| StoreError::state(path, &e))?;
            population.actor(agent).check_files(&dir.agent(id))?;
            let section = tables_section(id);
            // Older versions wrote none.
            if container.names().any(|name| name == section) {
                let sums = table_sums::from_bytes(&container.section(&section)?);
                let sums = sums.map_err(|e| StoreError::state(path, &e))?;
                sums.iter().try_for_each(|sum| sum.check(&dir.agent(id)))?;
                checkpoints.tables[agent] = sums;
            }
            checkpoints.segments[agent] = segments;
        }
        remake(run, &checkpoints.folder, &remaking, threads(plan)?, |agent, first, count, bytes| {
            population.records(agent).read_range(first, count, bytes)
        })?;
        Ok(Loaded { checkpoints, without_replay })
    }
}

/// Whether a file may have this name: nobody denies it.
fn may_be_there(path: &Path) -> bool {
    !disk::symlink_metadata(path).is_err_and(|e| e.kind() == ErrorKind::NotFound)
}

/// Where every agent's task stands.
fn anchors(population: &mut dyn Population) -> Vec<Option<Anchor>> {
    (0..population.len()).map(|agent| population.actor(agent).anchor()).collect()
}

/// Marks the episodes that were cut off by resuming a task that cannot be saved, as time-outs: no return reaches across.
fn mark_seams(population: &mut dyn Population, agent: usize) -> Result<(), StateError> {
    let seams = population.actor(agent).seams().to_vec();
    let mut records = population.records(agent);
    let (oldest, newest) = (records.oldest(), records.newest());
    for &seam in seams.iter().filter(|&&seam| seam > oldest && seam <= newest) {
        let mut record = Vec::new();
        records.write_range(seam - 1, 1, &mut record)?;
        Replay::mark_truncated(&mut record);
        records.read_range(seam - 1, 1, &record)?;
    }
    drop(records);
    if seams.last() == Some(&newest) {
        population.begin_episode(agent)?;
    }
    Ok(())
}

/// Replay that a device does not give back is the device's failure and no file's.
fn unread(error: StoreError) -> TrainError {
    match error {
        StoreError::Source { detail, .. } => TrainError::Device(detail),
        other => other.into(),
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.parse().ok()
}
