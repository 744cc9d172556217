//! Checkpoints of a whole population: everything, whole or not at all, and the previous one kept.
//!
//! A checkpoint is one container file with a section per agent; replay's records lie beside it in append-only segments, so
//! that a checkpoint costs what was gathered since the last one, not the whole replay.

use crate::agent_run::{AgentRun, Restored};
use crate::error::TrainError;
use crate::plan::{AgentPlan, Plan};
use crate::run_dir::RunDir;
use crate::store::{
    Container, ContainerWriter, SegmentRef, StoreError, append_segments, collect_garbage, load_segments,
    write_atomically,
};
use crate::workshop::Workshop;
use spectral_core::bytes::{StateReader, StateWriter};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

spectral_agent::choices! {
    /// What a checkpoint holds.
    CheckpointKind {
        /// Full if the disk has room for twice the population's replay, else light.
        Auto = "auto",
        /// Everything: a resumed run goes on bit for bit.
        Full = "full",
        /// Everything but replay, which fills anew when the run is resumed.
        Light = "light",
    }
}

const SUFFIX: &str = ".checkpoint";
const MANIFEST: &str = "manifest";
/// How many checkpoints are kept.
const KEPT: usize = 2;

/// Writes checkpoints, one after the other.
pub struct Checkpoints {
    folder: PathBuf,
    fingerprint: u32,
    number: u64,
    /// Per agent, the segments of the newest checkpoint.
    segments: Vec<Vec<SegmentRef>>,
    /// The checkpoints on disk, the next to be removed first, each with the segments that it needs.
    kept: Vec<(PathBuf, HashSet<String>)>,
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
    pub fn new(dir: &RunDir, plan: &Plan) -> Self {
        Checkpoints {
            folder: dir.checkpoints(),
            fingerprint: plan.fingerprint(),
            number: 0,
            segments: vec![Vec::new(); plan.agents.len()],
            kept: Vec::new(),
        }
    }

    /// Writes the whole population; when it returns, a kill or a power cut loses nothing before this moment.
    ///
    /// When it fails, everything written before is as it was, and what it had written itself is gone again: a disk that
    /// is full does not stay full of half a checkpoint.
    pub fn write(&mut self, agents: &mut [&mut AgentRun]) -> Result<Cost, StoreError> {
        let result = self.try_write(agents);
        if result.is_err() {
            let _ = collect_garbage(&self.folder, &self.needed());
        }
        result
    }

    fn try_write(&mut self, agents: &mut [&mut AgentRun]) -> Result<Cost, StoreError> {
        let start = std::time::Instant::now();
        let mut bytes = 0;
        let mut segments = Vec::with_capacity(agents.len());
        for (agent, previous) in agents.iter().zip(&self.segments) {
            let manifest = append_segments(&self.folder, agent.id(), previous, agent.replay())?;
            let old: HashSet<&str> = previous.iter().map(|s| s.file.as_str()).collect();
            bytes += manifest.iter().filter(|s| !old.contains(s.file.as_str())).map(|s| s.bytes).sum::<u64>();
            segments.push(manifest);
        }
        let states: Vec<Vec<u8>> = agents.iter_mut().map(|a| a.save()).collect::<Result<_, _>>()?;
        let number = self.number + 1;
        let path = self.folder.join(format!("{number:08}{SUFFIX}"));
        write_atomically(&path, |out| {
            let mut container = ContainerWriter::new(out)?;
            let mut manifest = StateWriter::default();
            manifest.u32(self.fingerprint);
            container.section(MANIFEST, &manifest.into_bytes())?;
            for ((agent, state), manifest) in agents.iter().zip(&states).zip(&segments) {
                container.section(&format!("agent/{}", agent.id()), state)?;
                container
                    .section(&format!("segments/{}", agent.id()), &SegmentRef::manifest_to_bytes(manifest))?;
            }
            container.finish()
        })?;
        bytes += path.metadata().map_or(0, |m| m.len());
        // Committed. Only now may anything older go.
        self.number = number;
        self.kept.push((path, segments.iter().flatten().map(|s| s.file.clone()).collect()));
        self.segments = segments;
        while self.kept.len() > KEPT {
            let (old, _) = self.kept.remove(0);
            // A checkpoint that the user keeps elsewhere is the user's.
            if old.parent() == Some(&self.folder) {
                std::fs::remove_file(&old).map_err(|e| StoreError::io(&old, "remove", e))?;
            }
        }
        collect_garbage(&self.folder, &self.needed())?;
        Ok(Cost { seconds: start.elapsed().as_secs_f64(), bytes })
    }

    fn needed(&self) -> HashSet<String> {
        self.kept.iter().flat_map(|(_, files)| files.iter().cloned()).collect()
    }

    /// The checkpoints of a run, oldest first.
    pub fn list(dir: &RunDir) -> Result<Vec<PathBuf>, StoreError> {
        let folder = dir.checkpoints();
        let entries = match std::fs::read_dir(&folder) {
            // A run killed before it had made the folder.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|e| StoreError::io(&folder, "read", e))?,
        };
        let mut paths: Vec<PathBuf> =
            entries.flatten().map(|e| e.path()).filter(|p| number_of(p).is_some()).collect();
        paths.sort();
        Ok(paths)
    }

    /// Reads a population back from the newest checkpoint, or from `chosen`. `None` if there is none yet.
    ///
    /// A damaged checkpoint is an error that names the previous one; nothing is overwritten.
    pub fn load(
        dir: &RunDir,
        plan: &Plan,
        workshop: &Workshop,
        chosen: Option<&Path>,
    ) -> Result<Option<(Self, Vec<AgentRun>)>, TrainError> {
        let all = Self::list(dir)?;
        // However the user writes its path, a checkpoint of this run is known by its own.
        let own = |path: &Path| all.iter().find(|p| same_file(p, path)).cloned().unwrap_or(path.into());
        let Some(path) = chosen.map(own).or_else(|| all.last().cloned()) else {
            return Ok(None);
        };
        match Self::read(dir, plan, workshop, &path, &all) {
            Err(TrainError::Store(error)) if error.is_damage() => {
                let whole = |file: &String| {
                    Container::open(&dir.checkpoints().join(file)).and_then(|c| c.verify()).is_ok()
                };
                let sound = |p: &&PathBuf| {
                    **p != path && segments_needed(p, plan).is_some_and(|files| files.iter().all(whole))
                };
                let hint = all.iter().rev().find(sound).map_or_else(
                    || "there is no other sound checkpoint of this run".to_string(),
                    |p| {
                        let (run, p) = (dir.path().display(), p.display());
                        format!(
                            "another checkpoint is sound: `spectral resume {run} --checkpoint {p}` uses it"
                        )
                    },
                );
                Err(TrainError::Data(format!("{error}\nnothing was changed; {hint}")))
            }
            other => other.map(Some),
        }
    }

    fn read(
        dir: &RunDir,
        plan: &Plan,
        workshop: &Workshop,
        path: &Path,
        all: &[PathBuf],
    ) -> Result<(Self, Vec<AgentRun>), TrainError> {
        let mut checkpoints = Checkpoints::new(dir, plan);
        let container = Container::open(path)?;
        container.verify()?;
        let manifest = container.section(MANIFEST)?;
        if StateReader::new(&manifest).u32() != Ok(checkpoints.fingerprint) {
            let detail = "it belongs to a run with other settings".into();
            return Err(StoreError::Mismatch { path: path.into(), detail }.into());
        }
        let mut restored: Vec<Restored> = Vec::with_capacity(plan.agents.len());
        for (agent, kept) in plan.agents.iter().zip(&mut checkpoints.segments) {
            let state = container.section(&format!("agent/{}", agent.id))?;
            *kept = segments_of(&container, &agent.id)?;
            let mut run = AgentRun::restore(plan, agent, workshop, &state, path)?;
            load_segments(&checkpoints.folder, kept, run.replay_mut())?;
            run.check(&dir.agent(&agent.id))?;
            restored.push(run);
        }
        // The whole checkpoint is sound: only now may files be cut back to it.
        let open = |(run, agent): (Restored, &AgentPlan)| run.open(&dir.agent(&agent.id));
        let agents = restored.into_iter().zip(&plan.agents).map(open).collect::<Result<_, _>>()?;
        // Numbers go on after the newest file, read or not. The one that was read is kept longest; before it go those that
        // it replaces, first the newer ones, from which the run now departs.
        checkpoints.number = all.iter().filter_map(|p| number_of(p)).max().unwrap_or(0);
        let (newer, older): (Vec<&PathBuf>, Vec<&PathBuf>) =
            all.iter().filter(|p| *p != path).partition(|p| number_of(p) > number_of(path));
        for other in newer.into_iter().chain(older) {
            checkpoints.kept.push((other.clone(), segments_needed(other, plan).unwrap_or_default()));
        }
        let files = checkpoints.segments.iter().flatten().map(|s| s.file.clone()).collect();
        checkpoints.kept.push((path.into(), files));
        Ok((checkpoints, agents))
    }
}

fn segments_of(container: &Container, id: &str) -> Result<Vec<SegmentRef>, StoreError> {
    let bytes = container.section(&format!("segments/{id}"))?;
    SegmentRef::manifest_from_bytes(&bytes).map_err(|e| StoreError::state(container.path(), &e))
}

/// The segments that a checkpoint beside the one in use needs, if it is sound and of this plan.
fn segments_needed(path: &Path, plan: &Plan) -> Option<HashSet<String>> {
    let container = Container::open(path).ok()?;
    container.verify().ok()?;
    let manifest = container.section(MANIFEST).ok()?;
    if StateReader::new(&manifest).u32() != Ok(plan.fingerprint()) {
        return None;
    }
    let mut files = HashSet::new();
    for agent in &plan.agents {
        files.extend(segments_of(&container, &agent.id).ok()?.into_iter().map(|s| s.file));
    }
    Some(files)
}

fn same_file(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.parse().ok()
}
