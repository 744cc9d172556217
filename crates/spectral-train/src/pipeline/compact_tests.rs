//! Compact checkpoints: replay that is played again is the replay that there was.

use super::forged_tests::forge_segment;
use super::tests::{assert_same, plan, registry, resume, train};
use crate::checkpoint::Checkpoints;
use crate::config::Configuration;
use crate::devices::DeviceChoice;
use crate::registry::Registry;
use crate::run_dir::RunDir;
use crate::store::{Container, seal, testing::ScratchDir};
use crate::trainer::{Resumption, Trainer};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_env::{Env, Observation, Step, Stream, TaskEntry, TaskSpec};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The segments of a run, and whether each holds a recipe.
fn segments(run: &Path) -> Vec<(PathBuf, bool)> {
    let entries = std::fs::read_dir(run.join("checkpoints")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        entries.filter(|path| path.to_string_lossy().ends_with(".segment")).collect();
    found.sort();
    let is_recipe = |path: &PathBuf| Container::open(path).unwrap().names().any(|name| name == "recipe");
    found.into_iter().map(|path| (path.clone(), is_recipe(&path))).collect()
}

pub(super) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Runs that stop again and again, each time elsewhere and on another kind of population. Their rings hold 700 records, so that most
/// of what was written is gone by the end, and segments begin before the oldest record.
#[test]
fn a_run_that_plays_its_replay_again_goes_on_to_the_bit() {
    let tasks: [(&str, &[&str]); 4] = [
        ("exponential-pong-mini", &["observation=planes"]),
        // Lives, frames that are skipped, priorities.
        ("ponglantis-mini", &["frame_skip=3", "prioritised=true", "agents=spectral,popart"]),
        // Legal actions.
        ("2048", &["agents=spectral", "seeds=2"]),
        ("catch-scale", &["agents=clipped", "average=300"]),
    ];
    for (task, further) in tasks {
        let dir = ScratchDir::new();
        let full = plan(task, &[further, &["frames=2400", "checkpoint=full"]].concat());
        train(&dir.join("straight"), &full, DeviceChoice::Cpu, 2);
        let compact = plan(task, &[further, &["frames=350", "checkpoint=compact"]].concat());
        let mut path = dir.join("0");
        train(&path, &compact, DeviceChoice::Cpu, 2);
        for (number, frames) in [351, 600, 1_200, 1_800, 2_400].into_iter().enumerate() {
            let next = dir.join(&(number + 1).to_string());
            copy(&path, &next);
            std::fs::remove_dir_all(&path).unwrap();
            path = next;
            let device = if number % 2 == 0 { DeviceChoice::CpuLockstep } else { DeviceChoice::Cpu };
            resume(&path, device, Some(frames));
            let segments = segments(&path);
            assert!(!segments.is_empty() && segments.iter().all(|(_, is_recipe)| *is_recipe), "{segments:?}");
        }
        assert_same(&path, &dir.join("straight"));
    }
}

/// Checkpoints in quick succession, in the middle of episodes, and kinds that take turns.
#[test]
fn recipes_and_records_follow_on_one_another() {
    let dir = ScratchDir::new();
    let set = ["frames=900", "checkpoint=compact", "checkpoint_seconds=0.001"];
    let compact = plan("pong-mini", &set);
    let path = dir.join("turns");
    train(&path, &compact, DeviceChoice::CpuLockstep, 2);
    for (kind, frames) in [("full", 1_000), ("compact", 1_100), ("full", 1_400), ("compact", 1_500)] {
        let text = std::fs::read_to_string(path.join("run.toml")).unwrap();
        let (before, after) = text.split_once("checkpoint = \"").unwrap();
        let after = &after[after.find('"').unwrap()..];
        std::fs::write(path.join("run.toml"), seal(&format!("{before}checkpoint = \"{kind}{after}")))
            .unwrap();
        resume(&path, DeviceChoice::Cpu, Some(frames));
    }
    let kinds: Vec<bool> = segments(&path).into_iter().map(|(_, is_recipe)| is_recipe).collect();
    assert!(kinds.contains(&true) && kinds.contains(&false), "{kinds:?}");
    train(&dir.join("straight"), &compact.with(|run| run.frames = 1_500), DeviceChoice::Cpu, 1);
    assert_same(&path, &dir.join("straight"));
}

/// An agent that resumed from a light checkpoint has a replay that does not begin at record 0.
#[test]
fn a_compact_checkpoint_after_a_light_one_goes_on_to_the_bit() {
    let dir = ScratchDir::new();
    let light = plan("exponential-pong-mini", &["frames=800", "checkpoint=light"]);
    for (name, stops) in [("straight", vec![1_500]), ("halting", vec![850, 1_100, 1_500])] {
        let path = dir.join(name);
        train(&path, &light, DeviceChoice::CpuLockstep, 2);
        let text = std::fs::read_to_string(path.join("run.toml")).unwrap();
        let text = text.replace("checkpoint = \"light\"", "checkpoint = \"compact\"");
        std::fs::write(path.join("run.toml"), seal(&text)).unwrap();
        for frames in stops {
            resume(&path, DeviceChoice::Cpu, Some(frames));
        }
    }
    assert_same(&dir.join("halting"), &dir.join("straight"));
}

/// A compact checkpoint holds a fiftieth of what a full one does where observations are pictures.
#[test]
fn a_recipe_is_small() {
    let dir = ScratchDir::new();
    let set = ["observation=pixels", "frames=700", "agents=spectral", "hidden=4", "learning_starts=600"];
    let mut sizes = Vec::new();
    for kind in ["full", "compact"] {
        let plan = plan("pong-mini", &[&set[..], &[&format!("checkpoint={kind}")]].concat());
        train(&dir.join(kind), &plan, DeviceChoice::Cpu, 2);
        let bytes: u64 =
            segments(&dir.join(kind)).iter().map(|(path, _)| path.metadata().unwrap().len()).sum();
        sizes.push(bytes);
    }
    assert_same(&dir.join("compact"), &dir.join("full"));
    assert!(50 * sizes[1] < sizes[0], "{sizes:?}");
    // 700 actions, and where the task stood.
    assert!(sizes[1] < 1_500, "{sizes:?}");
}

/// What was written for another game is noticed, though file and checkpoint agree: every piece has a checksum of what there was.
#[test]
fn a_recipe_that_makes_other_records_is_refused_and_nothing_changes() {
    let dir = ScratchDir::new();
    let trained = |name: &str, seed: &str| {
        let set = ["frames=500", "checkpoint=compact", "agents=clipped", seed];
        train(&dir.join(name), &plan("pong-mini", &set), DeviceChoice::Cpu, 1);
        dir.join(name)
    };
    let (run, other) = (trained("run", "seeds=1..1"), trained("other", "seeds=5..5"));
    copy(&run, &dir.join("whole"));
    let theirs = Container::open(&segments(&other)[0].0).unwrap().section("recipe").unwrap();
    forge_segment(&run, "clipped-s1", &|bytes| *bytes = theirs.clone());
    let resumption = Resumption { frames: Some(900), ..Resumption::default() };
    let error = Trainer::resume(&run, &registry(), resumption).err().unwrap().to_string();
    assert!(error.contains("came out differently") && error.contains("nothing was changed"), "{error}");
    resume(&dir.join("whole"), DeviceChoice::Cpu, Some(900));
}

/// Whatever replay a checkpoint has can be left out; the run then goes on as from a light one. The checkpoint keeps its replay, as
/// long as it is kept.
#[test]
fn replay_that_is_left_out_is_as_that_of_a_light_checkpoint() {
    let dir = ScratchDir::new();
    let expected = dir.join("light");
    let of = |kind: &str| plan("exponential-pong-mini", &["frames=800", &format!("checkpoint={kind}")]);
    train(&expected, &of("light"), DeviceChoice::CpuLockstep, 2);
    resume(&expected, DeviceChoice::Cpu, Some(1_200));
    for kind in ["full", "compact"] {
        let path = dir.join(kind);
        train(&path, &of(kind), DeviceChoice::Cpu, 2);
        let how = Resumption { frames: Some(1_200), without_replay: true, ..Resumption::default() };
        let mut trainer = Trainer::resume(&path, &registry(), how).unwrap();
        assert!(
            trainer.notes().iter().any(|note| note.contains("replay is left out")),
            "{:?}",
            trainer.notes()
        );
        trainer.run().unwrap();
        drop(trainer);
        assert_same(&path, &expected);
        // What was written since stands by itself, and what it departed from still has its replay.
        let (run, _) = RunDir::open(&path, &registry()).unwrap();
        for (number, checkpoint) in Checkpoints::list(&run).unwrap().into_iter().enumerate() {
            let again = dir.join(&format!("{kind}-{number}"));
            copy(&path, &again);
            let checkpoint = again.join("checkpoints").join(checkpoint.file_name().unwrap());
            let how = Resumption { checkpoint: Some(&checkpoint), ..Resumption::default() };
            let trainer = Trainer::resume(&again, &registry(), how).unwrap();
            assert!(!trainer.notes().iter().any(|note| note.contains("left out")), "{:?}", trainer.notes());
        }
    }
}

/// A task that is not a function of its state: what it shows after some steps depends on all steps of all its instances.
struct Drifting {
    spec: TaskSpec,
    steps: u64,
    from: u64,
}

static STEPS_OF_ALL: AtomicU64 = AtomicU64::new(0);

impl Env for Drifting {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }
    fn reset(&mut self, _: &mut Stream) {}
    fn step(&mut self, action: usize, _: &mut Stream) -> Step {
        self.steps += 1;
        STEPS_OF_ALL.fetch_add(1, Ordering::Relaxed);
        Step { reward: action as f64, terminated: self.steps.is_multiple_of(23), ..Step::default() }
    }
    fn observe(&self, out: Observation<'_>) {
        let of_all = STEPS_OF_ALL.load(Ordering::Relaxed);
        out.vector().fill(if self.steps > self.from { of_all } else { self.steps } as f32);
    }
    fn save(&self, out: &mut StateWriter) {
        out.u64(self.steps);
    }
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.steps = from.u64()?;
        Ok(())
    }
}

/// A task that is not the same when it is played again keeps its records where that shows at once, and is named where it shows
/// later.
#[test]
fn a_task_that_does_not_repeat_itself_keeps_its_records_or_is_named() {
    for (from, at_once) in [(600, true), (900, false)] {
        let dir = ScratchDir::new();
        let path = dir.join("run");
        let task = TaskEntry::new("drifting", "drifts", move || Drifting {
            spec: TaskSpec::vector("drifting", 2, &["a", "b"]),
            steps: 0,
            from,
        });
        let registry = Registry::default().with_task(task).unwrap();
        let resumed = |frames: u64| {
            let how = Resumption { frames: Some(frames), ..Resumption::default() };
            let mut trainer = Trainer::resume(&path, &registry, how)?;
            trainer.run()?;
            // Both checkpoints that are kept need what was gathered up to the first.
            trainer.set_end(frames + 50)?;
            trainer.run()
        };
        let mut config = Configuration::default();
        let set = ["task=drifting", "agents=spectral", "frames=500", "replay=2000", "learning_starts=100"];
        for pair in set.iter().chain(&["checkpoint=compact", "hidden=8", "device=cpu"]) {
            config.set(pair).unwrap();
        }
        let run = registry.resolve(&config).unwrap();
        Trainer::create(&path, run, &registry, "test").unwrap().run().unwrap();
        resumed(1_000).unwrap();
        let kinds: Vec<bool> = segments(&path).into_iter().map(|(_, is_recipe)| is_recipe).collect();
        assert_eq!(kinds, [true, !at_once, false]);
        match resumed(1_100) {
            Ok(_) => assert!(at_once),
            Err(error) => {
                assert!(!at_once, "{error}");
                let error = error.to_string();
                assert!(
                    error.contains("not deterministic") && error.contains("nothing was changed"),
                    "{error}"
                );
                // No checkpoint's replay can be had again, but that is no reason to lose the run.
                let way = format!("`spectral resume {} --without-replay`", path.display());
                assert!(error.contains(&way) && error.contains("no other sound checkpoint"), "{error}");
                let how = Resumption { frames: Some(1_100), without_replay: true, ..Resumption::default() };
                let mut trainer = Trainer::resume(&path, &registry, how).unwrap();
                assert_eq!(trainer.progress()[0].frames, 1_050);
                trainer.run().unwrap();
            }
        }
    }
}
