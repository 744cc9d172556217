//! Checkpoints of a whole population: everything, whole or not at all, and the previous one kept.
//!
//! A checkpoint is one container file with a section per agent; replay's records lie beside it in append-only segments, so
//! that a checkpoint costs what was gathered since the last one, not the whole replay.

use crate::agent_run::AgentRun;
use crate::error::TrainError;
use crate::plan::Plan;
use crate::run_dir::RunDir;
use crate::store::{
    Container, ContainerWriter, SegmentRef, StoreError, append_segments, collect_garbage, load_segments,
    write_atomically,
};
use crate::workshop::Workshop;
use spectral_core::bytes::{StateReader, StateWriter};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

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
    /// Names of the segments that each kept checkpoint needs.
    needed: Vec<(PathBuf, HashSet<String>)>,
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
            needed: Vec::new(),
        }
    }

    /// Writes the whole population; when it returns, a kill or a power cut loses nothing before this moment.
    pub fn write(&mut self, agents: &mut [&mut AgentRun]) -> Result<Cost, StoreError> {
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
        self.needed.push((path, segments.iter().flatten().map(|s| s.file.clone()).collect()));
        self.segments = segments;
        while self.needed.len() > KEPT {
            let (old, _) = self.needed.remove(0);
            std::fs::remove_file(&old).map_err(|e| StoreError::io(&old, "remove", e))?;
        }
        let keep: HashSet<String> = self.needed.iter().flat_map(|(_, files)| files.iter().cloned()).collect();
        collect_garbage(&self.folder, &keep)?;
        Ok(Cost { seconds: start.elapsed().as_secs_f64(), bytes })
    }

    /// The checkpoints of a run, oldest first.
    pub fn list(dir: &RunDir) -> Result<Vec<PathBuf>, StoreError> {
        let folder = dir.checkpoints();
        let entries = std::fs::read_dir(&folder).map_err(|e| StoreError::io(&folder, "read", e))?;
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
        let Some(path) = chosen.map(Path::to_path_buf).or_else(|| all.last().cloned()) else {
            return Ok(None);
        };
        match Self::read(dir, plan, workshop, &path, &all) {
            Err(TrainError::Store(error)) if error.is_damage() => {
                let others: Vec<&PathBuf> = all.iter().filter(|p| **p != path).collect();
                let hint = others.last().map_or_else(
                    || "there is no other checkpoint of this run".to_string(),
                    |p| format!("the previous checkpoint may be good: add --checkpoint {}", p.display()),
                );
                Err(TrainError::Data(format!("{error}\n{hint}")))
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
        let mut agents = Vec::with_capacity(plan.agents.len());
        for (agent, kept) in plan.agents.iter().zip(&mut checkpoints.segments) {
            let state = container.section(&format!("agent/{}", agent.id))?;
            let folder = dir.agent(&agent.id);
            *kept = segments_of(&container, &agent.id)?;
            let mut run = AgentRun::restore(plan, agent, workshop, &folder, &state, path)?;
            load_segments(&checkpoints.folder, kept, run.replay_mut())?;
            agents.push(run);
        }
        // Numbers go on after the newest file, read or not; the one that was read, and what it needs, is kept.
        checkpoints.number = all.iter().filter_map(|p| number_of(p)).max().unwrap_or(0);
        let files = checkpoints.segments.iter().flatten().map(|s| s.file.clone()).collect();
        checkpoints.needed.push((path.into(), files));
        Ok((checkpoints, agents))
    }
}

fn segments_of(container: &Container, id: &str) -> Result<Vec<SegmentRef>, StoreError> {
    let bytes = container.section(&format!("segments/{id}"))?;
    SegmentRef::manifest_from_bytes(&bytes).map_err(|e| StoreError::state(container.path(), &e))
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.parse().ok()
}
