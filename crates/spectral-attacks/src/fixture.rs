//! Small finished runs, whose files are what attacks change.

use crate::scratch::Scratch;
use spectral_train::config::Configuration;
use spectral_train::registry::Registry;
use spectral_train::resolve::ResolvedRun;
use spectral_train::run_dir::RunDir;
use spectral_train::store::{Container, ContainerWriter};
use spectral_train::trainer::Trainer;
use std::cell::LazyCell;
use std::fs;
use std::path::{Path, PathBuf};

/// Frames of every run.
pub const FRAMES: u64 = 400;

/// What the runs have in common: as small as a run can be that learns.
const SETTINGS: &[&str] = &[
    "seeds=1",
    "frames=400",
    "hidden=2",
    "batch=2",
    "replay=120",
    "learning_starts=40",
    "target_period=50",
    "epsilon_frames=100",
    "log_frames=100",
    "update_period=4",
    "eval_games=0",
    "checkpoint_seconds=1000",
    "device=cpu",
    "threads=1",
];

/// Tasks, codecs and kinds of checkpoints that have states of their own. A compact checkpoint holds recipes only if replay still
/// has all records since the one before it.
const RUNS: &[&[&str]] = &[
    &["task=pong-mini", "agents=spectral", "checkpoint=full"],
    &["task=pong-mini", "agents=popart", "checkpoint=compact", "replay=500", "average=200"],
    &[
        "task=exponential-pong-mini",
        "agents=compressed",
        "checkpoint=full",
        "prioritised=true",
        "double=true",
        "dueling=true",
    ],
    &["task=2048", "agents=categorical", "checkpoint=full"],
    &["task=2048", "agents=steady", "checkpoint=compact", "replay=500", "prioritised=true"],
    &["task=ponglantis-mini", "agents=clipped", "checkpoint=light"],
];

/// The name of a container's part, and what it holds.
pub type Part = (String, Vec<u8>);

/// A finished run.
pub struct Fixture {
    /// What it was resolved to.
    pub run: ResolvedRun,
    /// Its folder.
    pub dir: RunDir,
    /// All its files and what they hold.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// The checkpoint and its segments, part by part.
    pub containers: Vec<(PathBuf, Vec<Part>)>,
    _folder: Scratch,
}

impl Fixture {
    fn new(own: &[&str]) -> Self {
        let (registry, mut config) = (Registry::default(), Configuration::default());
        SETTINGS.iter().chain(own).for_each(|pair| config.set(pair).expect("a setting"));
        let run = registry.resolve(&config).expect("a run");
        let folder = Scratch::new();
        let path = folder.path().join("run");
        let mut trainer = Trainer::create(&path, run, &registry, "attack").expect("a run directory");
        trainer.run().expect("a trained run");
        let (run, dir) = (trainer.resolved().clone(), trainer.dir().clone());
        drop(trainer);
        let mut files = Vec::new();
        read_all(&path, &mut files);
        let in_checkpoints = |path: &Path| path.parent() == Some(&dir.checkpoints());
        let containers: Vec<(PathBuf, Vec<Part>)> =
            files.iter().filter(|(path, _)| in_checkpoints(path)).map(|(path, _)| parts(path)).collect();
        let has_recipe = containers.iter().flat_map(|(_, parts)| parts).any(|(name, _)| name == "recipe");
        assert_eq!(has_recipe, own.contains(&"checkpoint=compact"), "a run of another kind than was meant");
        Fixture { run, dir, files, containers, _folder: folder }
    }

    /// Makes all files again as they were, those of agents or of checkpoints.
    pub fn mend(&self, of_agents: bool) {
        let agents = self.dir.path().join("agents");
        for (path, bytes) in self.files.iter().filter(|(path, _)| path.starts_with(&agents) == of_agents) {
            fs::write(path, bytes).expect("a file of the run");
        }
    }

    /// The content of a file of the run, by the end of its name.
    pub fn text(&self, name: &str) -> String {
        let found = self.files.iter().find(|(path, _)| path.ends_with(name));
        String::from_utf8_lossy(&found.expect("a file of the run").1).into_owned()
    }
}

fn read_all(folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    let entries = fs::read_dir(folder).expect("a folder of the run").flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read_all(&path, files);
        } else {
            let bytes = fs::read(&path).expect("a file of the run");
            files.push((path, bytes));
        }
    }
}

fn parts(path: &Path) -> (PathBuf, Vec<(String, Vec<u8>)>) {
    let container = Container::open(path).expect("a container");
    let part = |name: &str| (name.to_owned(), container.section(name).expect("a part"));
    (path.to_owned(), container.names().map(part).collect())
}

/// A container of these parts, with sums that are right.
pub fn container(parts: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ContainerWriter::new(&mut bytes).expect("memory takes everything");
    parts.iter().for_each(|(name, part)| writer.section(name, part).expect("memory takes everything"));
    writer.finish().expect("memory takes everything");
    bytes
}

thread_local! {
    static FIXTURES: LazyCell<Vec<Fixture>> =
        const { LazyCell::new(|| RUNS.iter().map(|own| Fixture::new(own)).collect()) };
}

/// Does something with all finished runs of this thread, which are trained at the first call.
pub fn with_all<T>(act: impl FnOnce(&[Fixture]) -> T) -> T {
    FIXTURES.with(|fixtures| act(fixtures))
}
