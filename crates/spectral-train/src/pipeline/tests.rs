//! A device population with learners on the CPU writes the same bits as a CPU population.

use crate::checkpoint::Checkpoints;
use crate::config::Configuration;
use crate::control::Control;
use crate::devices::DeviceChoice;
use crate::plan::Plan;
use crate::registry::Registry;
use crate::run_dir::{RunDir, Status};
use crate::store::{Container, seal, testing::ScratchDir};
use crate::trainer::{Resumption, Trainer};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_env::{Env, Observation, ObservationSpec, Picture, Step, Stream, TaskEntry, TaskSpec};
use std::collections::BTreeMap;
use std::path::Path;

const SMALL: [&str; 8] = [
    "hidden=16",
    "batch=8",
    "replay=700",
    "learning_starts=100",
    "update_period=3",
    "target_period=70",
    "epsilon_frames=900",
    "log_frames=130",
];
const FIVE: [&str; 2] = ["agents=spectral,popart,categorical,clipped,compressed", "seeds=4..4"];

pub(super) fn plan(task: &str, further: &[&str]) -> Plan {
    let mut config = Configuration::default();
    config.set(&format!("task={task}")).unwrap();
    for pair in SMALL.iter().chain(&FIVE).chain(further) {
        config.set(pair).unwrap();
    }
    registry().plan(&config).unwrap()
}

/// Everything in a run that must not depend on where it was trained: tables, models, and the newest checkpoint's sections.
pub(super) fn results(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let (dir, plan) = RunDir::open(run, &registry()).map(|(dir, file)| (dir, file.plan)).unwrap();
    let mut found = BTreeMap::new();
    for agent in &plan.agents {
        for entry in std::fs::read_dir(dir.agent(&agent.id)).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".csv") || name.ends_with(".safetensors") {
                found.insert(format!("{}/{name}", agent.id), std::fs::read(entry.path()).unwrap());
            }
        }
        let newest = Checkpoints::list(&dir).unwrap().pop().unwrap();
        let container = Container::open(&newest).unwrap();
        let mut state = container.section(&format!("agent/{}", agent.id)).unwrap();
        // The name and length of the event file come last. The file holds wall-clock times.
        let name = b"events.out.tfevents.";
        let cut = state.windows(name.len()).rposition(|w| w == name).unwrap();
        state.truncate(cut);
        found.insert(format!("{}/checkpoint", agent.id), state);
        let average = format!("average/{}", agent.id);
        if container.names().any(|name| name == average) {
            found.insert(format!("{}/average", agent.id), container.section(&average).unwrap());
        }
    }
    found
}

#[track_caller]
pub(super) fn assert_same(found: &Path, expected: &Path) {
    let (found, expected) = (results(found), results(expected));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, bytes) in &expected {
        let at = bytes.iter().zip(&found[name]).position(|(a, b)| a != b);
        assert!(*bytes == found[name], "{name} differs at byte {at:?} of {}", bytes.len());
    }
}

pub(super) fn train(path: &Path, plan: &Plan, device: DeviceChoice, threads: usize) {
    let mut trainer = create(path, plan.with(|run| (run.device, run.threads) = (device, threads)));
    let outcome = trainer.run().unwrap();
    assert_eq!(outcome.status, Status::Finished);
}

pub(super) fn resume(path: &Path, device: DeviceChoice, frames: Option<u64>) -> Vec<String> {
    let how = Resumption { device: Some(device), frames, threads: 2, ..Resumption::default() };
    let mut trainer = Trainer::resume(path, &registry(), how).unwrap();
    trainer.run().unwrap();
    trainer.notes().to_vec()
}

#[test]
fn five_codecs_write_the_same_files_with_any_number_of_groups_and_threads() {
    let dir = ScratchDir::new();
    let tasks: [(&str, &[&str]); 3] = [
        ("exponential-pong-mini", &["frames=1501"]),
        ("catch-scale", &["frames=1300", "observation=planes", "agents=spectral,popart", "seeds=2"]),
        // A number of frames that is not a multiple of a step's.
        ("pong-mini", &["frames=3003", "frame_skip=4", "prioritised=true", "double=true"]),
    ];
    for (task, further) in tasks {
        let plan = plan(task, further);
        train(&dir.join(&format!("{task}-cpu")), &plan, DeviceChoice::Cpu, 1);
        // With ten threads only workers step tasks.
        for (groups, threads) in [(0, 1), (0, 2), (1, 2), (3, 2), (4, 10), (99, 3)] {
            let path = dir.join(&format!("{task}-{groups}-{threads}"));
            train(&path, &plan.with(|run| run.groups = groups), DeviceChoice::CpuLockstep, threads);
            assert_same(&path, &dir.join(&format!("{task}-cpu")));
        }
    }
}

#[test]
fn one_agent_alone_and_an_even_population_are_the_same_too() {
    let dir = ScratchDir::new();
    for (name, seeds) in [("one", "seeds=9..9"), ("four", "seeds=9..12")] {
        let plan = plan("ponglantis-mini", &["agents=spectral", seeds, "frames=900"]);
        train(&dir.join(&format!("{name}-cpu")), &plan, DeviceChoice::Cpu, 2);
        train(&dir.join(name), &plan, DeviceChoice::CpuLockstep, 2);
        assert_same(&dir.join(name), &dir.join(&format!("{name}-cpu")));
    }
}

/// A checkpoint every few steps, so that checkpoints fall on every kind of step.
#[test]
fn checkpoints_in_between_change_nothing() {
    let dir = ScratchDir::new();
    let set = [
        "frames=60",
        "checkpoint_seconds=0.000001",
        "learning_starts=20",
        "log_frames=13",
        "target_period=7",
    ];
    let plan = plan("exponential-pong-mini", &[&set[..], &["agents=spectral,popart,compressed"]].concat());
    let once = plan.with(|run| run.checkpoint_seconds = 60.0);
    train(&dir.join("once"), &once, DeviceChoice::Cpu, 2);
    for (groups, threads) in [(2, 2), (3, 2), (3, 9)] {
        let often = dir.join(&format!("often-{groups}-{threads}"));
        train(&often, &plan.with(|run| run.groups = groups), DeviceChoice::CpuLockstep, threads);
        assert_same(&often, &dir.join("once"));
    }
}

#[test]
fn runs_move_between_the_populations() {
    let dir = ScratchDir::new();
    let whole = plan("exponential-pong-mini", &["frames=2000"]);
    train(&dir.join("whole"), &whole, DeviceChoice::Cpu, 2);
    let moved = dir.join("moved");
    train(&moved, &whole.with(|run| run.frames = 457), DeviceChoice::Cpu, 2);
    for (device, frames) in [
        (DeviceChoice::CpuLockstep, 911),
        (DeviceChoice::Cpu, 1333),
        (DeviceChoice::CpuLockstep, 1340),
        (DeviceChoice::Cpu, 2000),
    ] {
        assert!(resume(&moved, device, Some(frames)).is_empty());
    }
    assert_same(&moved, &dir.join("whole"));
    let text = std::fs::read_to_string(moved.join("run.toml")).unwrap();
    assert!(
        text.contains("device = \"cpu, then cpu-lockstep, then cpu, then cpu-lockstep, then cpu\""),
        "{text}"
    );
}

/// A CPU population leaves agents at different steps when it is interrupted. A device population brings them level first.
#[test]
fn agents_at_different_steps_are_brought_level() {
    struct InterruptAt(Control, u64);
    impl crate::trainer::Observer for InterruptAt {
        fn tick(&self, progress: &[crate::trainer::AgentProgress]) {
            if progress.iter().any(|p| p.frames > self.1) {
                self.0.cancel();
            }
        }
    }
    let dir = ScratchDir::new();
    let whole = plan("exponential-pong-mini", &["frames=60000", "log_frames=1500"]);
    let cut = dir.join("cut");
    // One thread and 50 ms per agent: some agents have not even begun when the run is interrupted.
    let one = whole.with(|run| (run.device, run.threads) = (DeviceChoice::Cpu, 1));
    let mut trainer = create(&cut, one);
    let outcome = trainer.run_watched(&InterruptAt(trainer.control(), 500)).unwrap();
    assert_eq!(outcome.status, Status::Interrupted);
    let frames: Vec<u64> = outcome.agents.iter().map(|a| a.frames).collect();
    assert!(frames.iter().any(|&f| f != frames[0]), "{frames:?}");
    drop(trainer);
    let end = frames.iter().max().unwrap() + 700;
    let mut plan = RunDir::open(&cut, &registry()).unwrap().1.plan;
    // An earlier end than planned keeps the test short.
    let text = std::fs::read_to_string(cut.join("run.toml")).unwrap();
    let text = seal(&text.replace("\nframes = 60000\n", &format!("\nframes = {end}\n")));
    std::fs::write(cut.join("run.toml"), text).unwrap();
    resume(&cut, DeviceChoice::CpuLockstep, None);
    plan.run.frames = end;
    train(&dir.join("whole"), &plan, DeviceChoice::Cpu, 2);
    assert_same(&cut, &dir.join("whole"));
}

/// The built-in tasks, and those of tests.
pub(super) fn registry() -> Registry {
    let broken = || Broken {
        spec: TaskSpec {
            name: "broken".into(),
            observation: ObservationSpec::Vector { len: 3 },
            actions: vec!["a".into(), "b".into()],
            frames_per_step: 1,
            max_player_score: 0,
            masks_actions: false,
        },
        steps: 0,
    };
    let own =
        [TaskEntry::new("broken", "breaks", broken), TaskEntry::new("unsaved", "forgets", Unsaved::new)];
    let tasks = own.into_iter().chain(super::legal_tests::entries());
    tasks.fold(Registry::default(), |registry, task| registry.with_task(task).unwrap())
}

pub(super) fn create(path: &Path, plan: Plan) -> Trainer {
    let registry = registry();
    Trainer::create(path, registry.resolve_plan(plan).unwrap(), &registry, "test").unwrap()
}

/// A task whose rewards stop being numbers for some seeds.
struct Broken {
    spec: TaskSpec,
    steps: u64,
}

impl Env for Broken {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }
    fn reset(&mut self, _: &mut Stream) {}
    fn step(&mut self, action: usize, rng: &mut Stream) -> Step {
        self.steps += 1;
        let reward = if self.steps > 300 && rng.chance(0.002) { f64::NAN } else { action as f64 };
        Step { reward, score: reward, terminated: self.steps.is_multiple_of(17), ..Step::default() }
    }
    fn observe(&self, out: Observation<'_>) {
        let Observation::Vector(out) = out else { unreachable!() };
        out.fill((self.steps % 17) as f32 / 17.0);
    }
    fn picture(&self, _: &mut Picture) -> bool {
        false
    }
    fn save(&self, out: &mut StateWriter) {
        out.u64(self.steps);
    }
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.steps = from.u64()?;
        Ok(())
    }
}

#[test]
fn an_agent_that_is_stopped_leaves_the_others_alone() {
    let dir = ScratchDir::new();
    // A learning rate that makes values overflow stops another agent.
    let plan = plan(
        "broken",
        &["agents=spectral,compressed", "seeds=3", "frames=1000", "agent.compressed.learning_rate=1e37"],
    );
    let mut reasons = Vec::new();
    let ways = [
        ("cpu", DeviceChoice::Cpu, 0),
        ("two", DeviceChoice::CpuLockstep, 2),
        ("four", DeviceChoice::CpuLockstep, 4),
    ];
    for (name, device, groups) in ways {
        let path = dir.join(name);
        let plan = plan.with(|run| (run.device, run.groups, run.threads) = (device, groups, 2));
        let mut trainer = create(&path, plan);
        let outcome = trainer.run().unwrap();
        assert_eq!(outcome.status, Status::Finished);
        reasons.push(outcome.agents.iter().map(|a| (a.frames, a.stopped.clone())).collect::<Vec<_>>());
    }
    assert_eq!(reasons[0], reasons[1]);
    assert_eq!(reasons[0], reasons[2]);
    let stopped: Vec<&String> = reasons[0].iter().filter_map(|(_, reason)| reason.as_ref()).collect();
    assert!(stopped.iter().any(|r| r.contains("finite")), "{reasons:?}");
    assert!(stopped.iter().any(|r| r.contains("reward")), "{reasons:?}");
    assert!(stopped.len() < 6, "some agent must go on: {reasons:?}");
    for way in ["two", "four"] {
        let (mut found, mut expected) = (results(&dir.join(way)), results(&dir.join("cpu")));
        for ((_, reason), agent) in reasons[0].iter().zip(&plan.agents) {
            // An agent that was stopped never continues, so the state of its task does not matter.
            if reason.is_some() {
                found.remove(&format!("{}/checkpoint", agent.id));
                expected.remove(&format!("{}/checkpoint", agent.id));
            }
        }
        for (name, bytes) in &expected {
            assert!(*bytes == found[name], "{name} differs");
        }
    }
}

/// A task that does not say how it is saved: a counter from 0 to 40, which is also what is seen.
struct Unsaved {
    spec: TaskSpec,
    steps: u32,
}

impl Unsaved {
    fn new() -> Self {
        Unsaved { spec: TaskSpec::vector("unsaved", 1, &["a", "b"]), steps: 0 }
    }
}

impl Env for Unsaved {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }
    fn reset(&mut self, _: &mut Stream) {
        self.steps = 0;
    }
    fn step(&mut self, action: usize, _: &mut Stream) -> Step {
        self.steps += 1;
        let reward = f64::from(self.steps) * action as f64;
        Step { reward, score: reward, terminated: self.steps == 40, ..Step::default() }
    }
    fn observe(&self, out: Observation<'_>) {
        out.vector()[0] = self.steps as f32 / 40.0;
    }
}

/// Episodes of 40 steps and a checkpoint after 450: the run is resumed twice in the middle of an episode, on a CPU and behind
/// a device's pipeline, with the same result; and it is said that an episode is lost.
#[test]
fn a_task_that_saves_nothing_is_resumed_at_an_episode_s_start() {
    let dir = ScratchDir::new();
    let short = plan("unsaved", &["frames=450"]);
    for (name, device) in [("cpu", DeviceChoice::Cpu), ("lockstep", DeviceChoice::CpuLockstep)] {
        let path = dir.join(name);
        train(&path, &short, device, 2);
        for frames in [610, 900] {
            let notes = resume(&path, device, Some(frames));
            assert!(notes.iter().any(|note| note.contains("begins a new episode")), "{notes:?}");
        }
    }
    assert_same(&dir.join("lockstep"), &dir.join("cpu"));
    let episodes = std::fs::read_to_string(dir.join("cpu").join("agents/spectral-s4/episodes.csv")).unwrap();
    let ends: Vec<u64> =
        episodes.lines().skip(1).map(|row| row.split(',').next().unwrap().parse().unwrap()).collect();
    // 11 episodes up to 440; then from 450 on, 4 up to 610, which is an end; then 7 from there on.
    assert_eq!(ends.len(), 11 + 4 + 7, "{ends:?}");
    assert_eq!((ends[10], ends[11], ends[14], ends[15]), (440, 490, 610, 650));
}

/// A run is interrupted while all groups are between two steps, and continues with another number of groups.
#[test]
fn an_interrupted_run_goes_on_with_other_groups() {
    struct InterruptAt(Control, u64);
    impl crate::trainer::Observer for InterruptAt {
        fn tick(&self, progress: &[crate::trainer::AgentProgress]) {
            assert_eq!(progress.len(), 5);
            if progress.iter().all(|p| p.frames > self.1) {
                self.0.cancel();
            }
        }
    }
    let dir = ScratchDir::new();
    let long = plan("exponential-pong-mini", &["frames=1000000", "log_frames=1500"]);
    for (groups, threads, others) in [(3, 2, 4), (4, 10, 2), (5, 3, 1)] {
        let cut = dir.join(&format!("cut-{groups}"));
        let first = long.with(|run| {
            (run.device, run.groups, run.threads) = (DeviceChoice::CpuLockstep, groups, threads);
        });
        let mut trainer = create(&cut, first);
        let outcome = trainer.run_watched(&InterruptAt(trainer.control(), 300)).unwrap();
        assert_eq!(outcome.status, Status::Interrupted);
        let frames: Vec<u64> = outcome.agents.iter().map(|a| a.frames).collect();
        let (least, most) = (*frames.iter().min().unwrap(), *frames.iter().max().unwrap());
        assert!(most - least <= super::MAX_LEAD + 3, "{frames:?}");
        drop(trainer);
        // An earlier end than planned keeps the test short.
        let text = std::fs::read_to_string(cut.join("run.toml")).unwrap();
        let text = text.replace("\nframes = 1000000\n", &format!("\nframes = {}\n", most + 200));
        let text = text.replace(&format!("\ngroups = {groups}\n"), &format!("\ngroups = {others}\n"));
        std::fs::write(cut.join("run.toml"), seal(&text)).unwrap();
        resume(&cut, DeviceChoice::CpuLockstep, None);
        let whole = dir.join(&format!("whole-{groups}"));
        train(&whole, &long.with(|run| run.frames = most + 200), DeviceChoice::Cpu, 2);
        assert_same(&cut, &whole);
    }
}

#[test]
fn groups_are_even_and_two_or_four_unless_told_otherwise() {
    let sizes = |pairs: &[&str]| super::group_sizes(&plan("pong-mini", pairs));
    assert_eq!(sizes(&["agents=spectral", "seeds=1"]), [1]);
    assert_eq!(sizes(&["agents=spectral", "seeds=20"]), [10, 10]);
    assert_eq!(sizes(&["agents=spectral", "seeds=50"]), [13, 13, 12, 12]);
    assert_eq!(sizes(&["agents=spectral", "seeds=17", "groups=4"]), [5, 4, 4, 4]);
    assert_eq!(sizes(&["agents=spectral", "seeds=3", "groups=1000"]), [1, 1, 1]);
    assert_eq!(sizes(&["agents=spectral", "seeds=15"]), [8, 7]);
}

#[test]
fn a_light_checkpoint_is_small_marked_and_fills_its_replay_before_it_learns() {
    let dir = ScratchDir::new();
    let set = ["frames=1000", "checkpoint=light", "observation=planes", "log_frames=10", "update_period=1"];
    let plan = plan("exponential-pong-mini", &set);
    for (name, device) in [("cpu", DeviceChoice::Cpu), ("lockstep", DeviceChoice::CpuLockstep)] {
        let path = dir.join(name);
        train(&path, &plan, device, 2);
        let files: Vec<String> = std::fs::read_dir(path.join("checkpoints"))
            .unwrap()
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        assert!(files.iter().all(|name| name.ends_with(".checkpoint")), "{files:?}");
    }
    assert_same(&dir.join("lockstep"), &dir.join("cpu"));
    for (name, device) in [("cpu", DeviceChoice::Cpu), ("lockstep", DeviceChoice::CpuLockstep)] {
        let notes = resume(&dir.join(name), device, Some(1240));
        assert!(notes.iter().any(|note| note.contains("light")), "{notes:?}");
        let text = std::fs::read_to_string(dir.join(name).join("agents/spectral-s4/metrics.csv")).unwrap();
        let updates: BTreeMap<u64, u64> = text
            .lines()
            .skip(1)
            .map(|line| {
                let mut fields = line.split(',').map(|f| f.parse().unwrap());
                (fields.next().unwrap(), fields.next().unwrap())
            })
            .collect();
        // 100 frames come before the first update, both at the start and after resuming.
        assert_eq!(updates[&90], 0);
        assert_eq!(updates[&1000], 1000 - 100);
        assert_eq!(updates[&1090], updates[&1000], "no updates while replay fills");
        assert_eq!(updates[&1240], updates[&1000] + 140);
    }
    assert_same(&dir.join("lockstep"), &dir.join("cpu"));
}

/// A full checkpoint that is written while replay refills keeps the records that exist and knows which are missing.
#[test]
fn a_full_checkpoint_after_a_light_one_goes_on_to_the_bit() {
    let dir = ScratchDir::new();
    let light = plan("exponential-pong-mini", &["frames=800", "checkpoint=light"]);
    for (name, stops) in [("straight", vec![1500]), ("halting", vec![850, 1100, 1500])] {
        let path = dir.join(name);
        train(&path, &light, DeviceChoice::CpuLockstep, 2);
        let text = std::fs::read_to_string(path.join("run.toml")).unwrap();
        let text = seal(&text.replace("checkpoint = \"light\"", "checkpoint = \"full\""));
        std::fs::write(path.join("run.toml"), text).unwrap();
        for (number, frames) in stops.into_iter().enumerate() {
            let device = if number % 2 == 0 { DeviceChoice::Cpu } else { DeviceChoice::CpuLockstep };
            resume(&path, device, Some(frames));
        }
    }
    assert_same(&dir.join("halting"), &dir.join("straight"));
}
