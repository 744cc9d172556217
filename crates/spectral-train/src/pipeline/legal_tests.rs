//! Tasks that say which actions are legal: none other is ever played, wherever the agent is trained and however often it is
//! interrupted.

use super::tests::{assert_same, create, plan, registry, resume, train};
use crate::devices::DeviceChoice;
use crate::eval::{Player, evaluate};
use crate::run_dir::{RunDir, Status};
use crate::store::testing::ScratchDir;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_env::{ActionMask, Env, Observation, Purpose, Step, Stream, TaskEntry, TaskSpec};
use std::ops::ControlFlow;
use std::path::Path;

/// Two bytes of mask.
const ACTIONS: usize = 11;

/// A random walk through states in which random actions are legal. Whoever plays another one is found out.
pub(super) struct Strict {
    spec: TaskSpec,
    state: u64,
    /// The state after which no action is legal although the episode goes on.
    traps: bool,
}

/// The tasks of these tests, for the registry.
pub(super) fn entries() -> [TaskEntry; 2] {
    let make = |name: &'static str, traps| {
        move || Strict { spec: TaskSpec::vector(name, 4, &["a"; ACTIONS]).masking(), state: 0, traps }
    };
    [
        TaskEntry::new("strict", "plays legal actions only", make("strict", false)),
        TaskEntry::new("trapped", "leads where nothing is legal", make("trapped", true)),
    ]
}

impl Env for Strict {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }
    fn reset(&mut self, rng: &mut Stream) {
        self.state = u64::from(rng.next_u32());
    }
    fn step(&mut self, action: usize, rng: &mut Stream) -> Step {
        assert!(self.legal().allows(action), "action {action} is illegal in state {}", self.state);
        self.state = u64::from(rng.next_u32());
        let reward = action as f64 * if rng.chance(0.2) { 100.0 } else { 1.0 };
        Step { reward, score: reward, terminated: rng.chance(0.05), ..Step::default() }
    }
    fn observe(&self, out: Observation<'_>) {
        let mut rng = Stream::new(self.state, Purpose::Other, 1);
        out.vector().fill_with(|| rng.unit_f32());
    }
    fn legal_actions(&self, legal: &mut ActionMask) {
        legal.clear();
        let mut rng = Stream::new(self.state, Purpose::Other, 2);
        if self.traps && rng.chance(0.002) {
            return;
        }
        legal.allow(rng.below(ACTIONS));
        (0..ACTIONS).filter(|_| rng.chance(0.2)).for_each(|action| legal.allow(action));
    }
    fn save(&self, out: &mut StateWriter) {
        out.u64(self.state);
    }
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.state = from.u64()?;
        Ok(())
    }
}

/// Alone, in lockstep, and interrupted over and over: the same files, and no illegal action, which would end the test.
#[test]
fn agents_keep_to_legal_actions_and_write_the_same_files_everywhere() {
    let dir = ScratchDir::new();
    let ways: [&[&str]; 2] = [&[], &["double=true", "prioritised=true", "dueling=true", "n_step=1"]];
    for (number, further) in ways.into_iter().enumerate() {
        let name = |way: &str| dir.join(&format!("{way}-{number}"));
        let whole = plan("strict", &[&["frames=1500", "epsilon_final=0.1"], further].concat());
        train(&name("cpu"), &whole, DeviceChoice::Cpu, 1);
        for (groups, threads) in [(1, 2), (3, 2), (4, 9)] {
            let path = name(&format!("lockstep-{groups}"));
            train(&path, &whole.with(|run| run.groups = groups), DeviceChoice::CpuLockstep, threads);
            assert_same(&path, &name("cpu"));
        }
        let moved = name("moved");
        train(&moved, &whole.with(|run| run.frames = 457), DeviceChoice::Cpu, 2);
        for (device, frames) in
            [(DeviceChoice::CpuLockstep, 703), (DeviceChoice::Cpu, 1111), (DeviceChoice::CpuLockstep, 1500)]
        {
            assert!(resume(&moved, device, Some(frames)).is_empty());
        }
        assert_same(&moved, &name("cpu"));
        plays_legal_actions(&name("cpu"));
    }
    let text = std::fs::read_to_string(dir.join("cpu-0").join("run.toml")).unwrap();
    assert!(text.contains("\nmasks_actions = true\n"), "{text}");
}

/// Evaluation of every agent, greedy and at random.
fn plays_legal_actions(run: &Path) {
    let (dir, file) = RunDir::open(run, &registry()).unwrap();
    assert!(file.task.as_ref().is_some_and(|task| task.masks_actions));
    let resolved = registry().resolve_plan(file.plan).unwrap();
    for agent in 0..resolved.codecs.len() {
        for epsilon in [0.0, 0.5] {
            let played = evaluate(&dir, &resolved, agent, 20, epsilon).unwrap();
            assert_eq!(played.scores.len(), 20);
        }
    }
    let mut task = resolved.make_task().unwrap();
    for seed in 0..20 {
        let see =
            |_: &dyn Env, _: Option<&Step>| Ok::<_, std::convert::Infallible>(ControlFlow::Continue(()));
        let Ok(episode) = Player::random(seed).play(task.as_mut(), see);
        assert!(episode.over && episode.steps > 0);
    }
}

#[test]
fn an_agent_for_whom_nothing_is_legal_is_stopped_alone() {
    let dir = ScratchDir::new();
    let plan = plan("trapped", &["agents=spectral,popart", "seeds=4", "frames=600"]);
    let mut reasons = Vec::new();
    let ways = [("cpu", DeviceChoice::Cpu, 0), ("lockstep", DeviceChoice::CpuLockstep, 3)];
    for (name, device, groups) in ways {
        let plan = plan.with(|run| (run.device, run.groups, run.threads) = (device, groups, 2));
        let outcome = create(&dir.join(name), plan).run().unwrap();
        assert_eq!(outcome.status, Status::Finished);
        reasons.push(outcome.agents.iter().map(|a| (a.frames, a.stopped.clone())).collect::<Vec<_>>());
    }
    assert_eq!(reasons[0], reasons[1]);
    let stopped: Vec<&String> = reasons[0].iter().filter_map(|(_, reason)| reason.as_ref()).collect();
    assert!(!stopped.is_empty() && stopped.len() < 8, "{reasons:?}");
    assert!(
        stopped.iter().all(|reason| reason.contains("the task trapped has no legal action")),
        "{stopped:?}"
    );
    // An agent that is stopped never plays on, so its task is where it was on both sides.
    assert_same(&dir.join("lockstep"), &dir.join("cpu"));
}
