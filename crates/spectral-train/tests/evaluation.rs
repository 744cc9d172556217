//! Frozen games beside training: they change nothing of it, and their table is the same wherever and however a run trains.

use spectral_train::checkpoint::Checkpoints;
use spectral_train::config::Configuration;
use spectral_train::control::Control;
use spectral_train::devices::DeviceChoice;
use spectral_train::error::TrainError;
use spectral_train::model_file::Model;
use spectral_train::plan::Plan;
use spectral_train::registry::Registry;
use spectral_train::run_dir::{RunDir, Status};
use spectral_train::trainer::{AgentProgress, Observer, Resumption, Trainer};
use std::collections::BTreeMap;
use std::path::Path;

const SMALL: [&str; 10] = [
    "task=exponential-pong-mini",
    "agents=spectral,popart",
    "seeds=2",
    "hidden=16",
    "batch=8",
    "replay=700",
    "learning_starts=100",
    "update_period=3",
    "frames=1500",
    "log_frames=130",
];
const ON: [&str; 3] = ["eval_every=400", "eval_games=3", "eval_epsilon=0.05"];

fn plan(further: &[&str]) -> Result<Plan, TrainError> {
    let mut config = Configuration::default();
    SMALL.iter().chain(further).for_each(|pair| config.set(pair).unwrap());
    Registry::default().plan(&config)
}

fn create(path: &Path, plan: &Plan, device: DeviceChoice, threads: usize) -> Trainer {
    let registry = Registry::default();
    let plan = plan.with(|run| (run.device, run.threads) = (device, threads));
    Trainer::create(path, registry.resolve_plan(plan).unwrap(), &registry, "test").unwrap()
}

fn train(path: &Path, plan: &Plan, device: DeviceChoice, threads: usize) {
    assert_eq!(create(path, plan, device, threads).run().unwrap().status, Status::Finished);
}

fn resume(path: &Path, how: Resumption<'_>) -> Trainer {
    Trainer::resume(path, &Registry::default(), how).unwrap()
}

/// Tables and models of all agents.
fn results(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for agent in std::fs::read_dir(run.join("agents")).unwrap().flatten() {
        for file in std::fs::read_dir(agent.path()).unwrap().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            if name.ends_with(".csv") || name.ends_with(".safetensors") {
                let name = format!("{}/{name}", agent.file_name().to_string_lossy());
                found.insert(name, std::fs::read(file.path()).unwrap());
            }
        }
    }
    found
}

/// What a run without frozen games leaves.
fn old(mut files: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    files.retain(|name, _| !name.ends_with("eval.csv") && !name.ends_with("model-best.safetensors"));
    files
}

#[track_caller]
fn assert_same(found: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    expected.iter().for_each(|(name, bytes)| assert!(&found[name] == bytes, "{name} differs"));
}

/// Frames and mean scores of an agent's table.
fn table(run: &Path, id: &str) -> Vec<(u64, f64)> {
    let text = std::fs::read_to_string(run.join("agents").join(id).join("eval.csv")).unwrap();
    let mut lines = text.lines();
    let header = "frame,model,games,score_mean,score_least,score_most,return_mean,steps_mean,cut";
    assert_eq!(lines.next(), Some(header));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!((fields[1], fields.len()), ("last", 9), "{line}");
            (fields[0].parse().unwrap(), fields[3].parse().unwrap())
        })
        .collect()
}

#[test]
fn frozen_games_change_nothing_and_are_the_same_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    train(&path("off"), &plan(&[]).unwrap(), DeviceChoice::Cpu, 1);
    assert!(!path("off").join("agents/spectral-s1/eval.csv").exists());
    let on = plan(&ON).unwrap();
    train(&path("on"), &on, DeviceChoice::Cpu, 1);
    let expected = results(&path("on"));
    assert_same(&old(expected.clone()), &results(&path("off")));
    assert_eq!(expected.len(), results(&path("off")).len() + 2 * 4);
    let frames: Vec<u64> = table(&path("on"), "spectral-s1").iter().map(|row| row.0).collect();
    assert_eq!(frames, [400, 800, 1200, 1500], "every 400 frames, and at the end");
    assert_ne!(table(&path("on"), "spectral-s1"), table(&path("on"), "spectral-s2"));
    for (device, threads, groups) in [
        (DeviceChoice::Cpu, 2, 0),
        (DeviceChoice::CpuLockstep, 1, 1),
        (DeviceChoice::CpuLockstep, 2, 0),
        (DeviceChoice::CpuLockstep, 5, 3),
    ] {
        let name = format!("{device:?}-{threads}-{groups}");
        train(&path(&name), &on.with(|run| run.groups = groups), device, threads);
        assert_same(&results(&path(&name)), &expected);
    }
}

#[test]
fn agents_that_step_together_are_evaluated_too() {
    let dir = tempfile::tempdir().unwrap();
    let (alone, together) = (dir.path().join("alone"), dir.path().join("together"));
    let on = plan(&ON).unwrap();
    train(&alone, &on, DeviceChoice::Cpu, 2);
    let registry = Registry::default();
    let mut run = registry.resolve_plan(on.with(|run| run.device = DeviceChoice::Cpu)).unwrap();
    run.step_together = true;
    Trainer::create(&together, run, &registry, "test").unwrap().run().unwrap();
    assert_same(&results(&together), &results(&alone));
}

#[test]
fn the_best_model_is_that_of_the_best_row() {
    let dir = tempfile::tempdir().unwrap();
    // Games of nine steps that are mostly lost, so that there are ties.
    let plan = plan(&["task=catch-scale", "frames=3000", "eval_every=100", "eval_games=2"]).unwrap();
    train(dir.path().join("run").as_path(), &plan, DeviceChoice::Cpu, 2);
    let mut ties = 0;
    for agent in &plan.agents {
        let rows = table(&dir.path().join("run"), &agent.id);
        assert_eq!(rows.len(), 30);
        let most = rows.iter().map(|row| row.1).fold(f64::MIN, f64::max);
        let best = rows.iter().rev().find(|row| row.1 == most).unwrap();
        ties += rows.iter().filter(|row| row.1 == most).count() - 1;
        let file = dir.path().join("run/agents").join(&agent.id).join("model-best.safetensors");
        let model = Model::load(&file, &Registry::default()).unwrap();
        assert_eq!(model.frames, best.0);
        let bytes = std::fs::read(&file).unwrap();
        let score = format!("\"score\":\"{}\"", best.1);
        assert!(bytes.windows(score.len()).any(|found| found == score.as_bytes()), "{score}");
    }
    assert!(ties > 0, "the later of equal ones was never asked for");
}

/// Cancels once an agent has come so far.
struct CancelAt(u64, Control);

impl Observer for CancelAt {
    fn tick(&self, progress: &[AgentProgress]) {
        if progress.iter().any(|agent| agent.frames >= self.0) {
            self.1.cancel();
        }
    }
}

/// Games of up to 27,000 steps take long enough to be cancelled in their midst: `endless` of these tests.
#[test]
fn cancelled_with_games_under_way_and_resumed_the_table_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    // Many games, so that some are always under way.
    let on = plan(&["eval_every=100", "eval_games=300", "frames=700", "seeds=1"]).unwrap();
    train(&whole, &on, DeviceChoice::Cpu, 2);
    let expected = results(&whole);
    let mut waited = 0;
    for (device, other) in [
        (DeviceChoice::Cpu, DeviceChoice::Cpu),
        (DeviceChoice::CpuLockstep, DeviceChoice::CpuLockstep),
        (DeviceChoice::CpuLockstep, DeviceChoice::Cpu),
        (DeviceChoice::Cpu, DeviceChoice::CpuLockstep),
    ] {
        let path = dir.path().join(format!("{device:?}-{other:?}"));
        let mut trainer = create(&path, &on, device, 2);
        let status = trainer.run_watched(&CancelAt(100, trainer.control())).unwrap().status;
        assert_eq!(status, Status::Interrupted);
        drop(trainer);
        // The copy of the model that has still to play is in the checkpoint.
        let (dir, file) = RunDir::open(&path, &Registry::default()).unwrap();
        let rows: usize = file.plan.agents.iter().map(|agent| table(&path, &agent.id).len()).sum();
        let frames: u64 = file.plan.agents.iter().map(|agent| dir.frames(&agent.id) / 100).sum();
        waited += usize::from((rows as u64) < frames);
        assert_eq!(Checkpoints::list(&dir).unwrap().len(), 1);
        let mut trainer = resume(&path, Resumption { device: Some(other), ..Resumption::default() });
        assert_eq!(trainer.run().unwrap().status, Status::Finished);
        assert_same(&results(&path), &expected);
    }
    assert!(waited > 0, "no evaluation was under way when a run was cancelled");
}

#[test]
fn a_run_that_is_extended_goes_on_with_its_evaluations() {
    let dir = tempfile::tempdir().unwrap();
    let (long, short) = (dir.path().join("long"), dir.path().join("short"));
    let ends_with_a_row = ["eval_every=500", "eval_games=2"];
    train(&long, &plan(&[&ends_with_a_row[..], &["frames=2200"]].concat()).unwrap(), DeviceChoice::Cpu, 1);
    train(&short, &plan(&ends_with_a_row).unwrap(), DeviceChoice::Cpu, 1);
    resume(&short, Resumption { frames: Some(2200), ..Resumption::default() }).run().unwrap();
    assert_same(&results(&short), &results(&long));
    let frames: Vec<u64> = table(&long, "popart-s2").iter().map(|row| row.0).collect();
    assert_eq!(frames, [500, 1000, 1500, 2000, 2200]);
    // An end that is moved to where the agents are is an end like others.
    for device in [DeviceChoice::Cpu, DeviceChoice::CpuLockstep] {
        let path = dir.path().join(format!("ended-{device:?}"));
        let mut trainer = create(&path, &plan(&["eval_every=1000", "frames=1000000"]).unwrap(), device, 2);
        let slow = CancelAt(0, trainer.control());
        assert_eq!(trainer.run_watched(&slow).unwrap().status, Status::Interrupted);
        let reached = trainer.progress().iter().map(|agent| agent.frames).max().unwrap().max(1);
        trainer.set_end(reached).unwrap();
        trainer.set_control(Control::default());
        assert_eq!(trainer.run().unwrap().status, Status::Finished);
        let last = table(&path, "popart-s2").pop().unwrap();
        assert_eq!(last.0, reached);
    }
}

#[test]
fn a_run_from_before_there_were_evaluations_goes_on_without_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let long = ["frames=60000", "log_frames=600"];
    let mut trainer =
        create(&path, &plan(&[&long[..], &["eval_games=0"]].concat()).unwrap(), DeviceChoice::Cpu, 2);
    trainer.run_watched(&CancelAt(1, trainer.control())).unwrap();
    drop(trainer);
    let file = path.join("run.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let before: String = text
        .lines()
        .filter(|line| !line.starts_with("eval_") && !line.starts_with('#'))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert_eq!(text.lines().count(), before.lines().count() + 4);
    std::fs::write(&file, &before).unwrap();
    let (_, old) = RunDir::open(&path, &Registry::default()).unwrap();
    assert!(!old.plan.run.evaluates());
    // It is the same run as one of today, which has evaluations without being asked.
    let today = plan(&long).unwrap();
    assert!(today.run.evaluates());
    assert_eq!((today.run.eval_every, today.run.eval_games), (6000, 10));
    assert_eq!((today.difference(&old.plan), today.fingerprint()), (None, old.plan.fingerprint()));
    assert_eq!(resume(&path, Resumption::default()).run().unwrap().status, Status::Finished);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    for agent in &old.plan.agents {
        let folder = path.join("agents").join(&agent.id);
        assert!(!folder.join("eval.csv").exists() && !folder.join("model-best.safetensors").exists());
    }
    // Extended, neither.
    resume(&path, Resumption { frames: Some(61_000), ..Resumption::default() }).run().unwrap();
    assert!(!path.join("agents/popart-s1/eval.csv").exists());
}

#[test]
fn a_task_without_spare_instances_is_not_evaluated() {
    let pong = |_: &()| spectral_env::make("pong-mini", &spectral_env::TaskOptions::default());
    let entry = spectral_env::TaskEntry::with_settings("mine", "", pong);
    let resolve = |entry: spectral_env::TaskEntry, pairs: &[&str]| {
        let mut config = Configuration::default();
        ["task=mine", "frames=60000", "device=cpu"].iter().chain(pairs).for_each(|p| config.set(p).unwrap());
        Registry::default().with_task(entry).unwrap().resolve(&config)
    };
    let together = |_: &(), _: usize| -> Result<spectral_env::TaskGroup, spectral_env::TaskError> {
        unreachable!("nothing is trained here")
    };
    let grouped = entry.clone().stepped_together(together);
    assert!(resolve(entry, &[]).unwrap().plan.run.evaluates());
    assert!(!resolve(grouped.clone(), &[]).unwrap().plan.run.evaluates(), "only where it is asked for");
    assert!(resolve(grouped.clone(), &["eval_every=5000"]).unwrap().plan.run.evaluates());
    let error = resolve(grouped.without_spares(), &["eval_every=5000"]).unwrap_err();
    assert!(
        error.to_string().contains("eval_every = 5000: the task mine has no instance to spare"),
        "{error}"
    );
}

#[test]
fn what_is_asked_for_is_decided_once() {
    let every = |pairs: &[&str]| {
        let run = plan(pairs).unwrap().run;
        (run.evaluates(), run.eval_every)
    };
    assert_eq!(every(&["frames=49999"]), (false, 0));
    assert_eq!(every(&["frames=50000"]), (true, 5000));
    assert_eq!(every(&["frames=50001"]), (true, 5001), "ten, of which the last is at the end");
    assert_eq!(every(&["frames=100", "eval_every=7"]), (true, 7));
    assert_eq!(every(&["frames=1M", "eval_games=0", "eval_every=7"]), (false, 0));
    for (pair, words) in [
        ("eval_epsilon=1.5", &["eval_epsilon", "from 0 to 1"][..]),
        ("eval_epsilon=nan", &["eval_epsilon"]),
        ("eval_games=10001", &["eval_games", "10000"]),
        ("eval_games=-1", &["eval_games", "whole number"]),
        ("eval_every=9e18", &["eval_every"]),
    ] {
        let error = plan(&[pair]).unwrap_err();
        assert!(matches!(error, TrainError::Usage(_)));
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
    }
}
