//! Devices that answer late, as a GPU does, and devices that fail.

use super::*;
use crate::config::Configuration;
use crate::registry::Registry;
use crate::store::testing::ScratchDir;
use spectral_agent::diagnostics::ScoreError;
use spectral_agent::lockstep::{Decision, DeviceFailure, ObservationRef};
use spectral_agent::replay::Outcome;
use spectral_env::ActionMask;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Answers only after a delay, and fails after so many submissions.
struct SlowDevice {
    group: Box<dyn Group>,
    delay: Duration,
    submitted: Option<Instant>,
    ready: bool,
    /// Submissions before it fails.
    left: u64,
}

impl Group for SlowDevice {
    fn len(&self) -> usize {
        self.group.len()
    }
    fn stage(
        &mut self,
        agent: usize,
        outcome: Option<Outcome>,
        observation: Option<ObservationRef<'_>>,
        legal: Option<&ActionMask>,
    ) {
        assert!(self.submitted.is_none(), "staged while the device reads");
        self.group.stage(agent, outcome, observation, legal);
    }
    fn submit(&mut self, update: bool, refresh: bool) -> Result<(), DeviceFailure> {
        (self.submitted, self.ready) = (Some(Instant::now()), false);
        self.group.submit(update, refresh)
    }
    fn ready(&mut self) -> Result<bool, DeviceFailure> {
        if self.left == 0 {
            return Err(DeviceFailure("lost on purpose".into()));
        }
        self.ready = self.submitted.is_some_and(|then| then.elapsed() >= self.delay);
        Ok(self.ready)
    }
    fn wait(&mut self) -> Result<&[Decision], DeviceFailure> {
        assert!(self.ready, "the main thread must not wait for a group while others have work");
        self.submitted = None;
        self.left -= 1;
        self.group.wait()
    }
    fn flush(&mut self, outcomes: &[(usize, Outcome)]) -> Result<&[Decision], DeviceFailure> {
        self.group.flush(outcomes)
    }
    fn updates(&mut self, agent: usize) -> Result<u64, DeviceFailure> {
        self.group.updates(agent)
    }
    fn metric_columns(&self, agent: usize) -> Vec<String> {
        self.group.metric_columns(agent)
    }
    fn drain_metrics(&mut self, agent: usize) -> Result<Vec<Option<f64>>, DeviceFailure> {
        self.group.drain_metrics(agent)
    }
    fn td_by_score(&mut self, agent: usize) -> Result<Vec<ScoreError>, DeviceFailure> {
        self.group.td_by_score(agent)
    }
    fn save_model(
        &mut self,
        agent: usize,
        kind: ModelKind,
        out: &mut StateWriter,
    ) -> Result<bool, DeviceFailure> {
        self.group.save_model(agent, kind, out)
    }
    fn save(&mut self, agent: usize, out: &mut StateWriter) -> Result<(), DeviceFailure> {
        self.group.save(agent, out)
    }
    fn restore(&mut self, agent: usize, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.group.restore(agent, from)
    }
    fn save_average(&mut self, agent: usize, out: &mut StateWriter) -> Result<bool, DeviceFailure> {
        self.group.save_average(agent, out)
    }
    fn restore_average(&mut self, agent: usize, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.group.restore_average(agent, from)
    }
    fn forget_before(&mut self, agent: usize, first: u64) {
        self.group.forget_before(agent, first);
    }
    fn begin_episode(&mut self, agent: usize) -> Result<(), StateError> {
        self.group.begin_episode(agent)
    }
    fn records(&self, agent: usize) -> Range<u64> {
        self.group.records(agent)
    }
    fn get_records(
        &mut self,
        agent: usize,
        first: u64,
        count: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), DeviceFailure> {
        self.group.get_records(agent, first, count, out)
    }
    fn put_records(&mut self, agent: usize, first: u64, count: u64, bytes: &[u8]) -> Result<(), StateError> {
        self.group.put_records(agent, first, count, bytes)
    }
}

fn population(folder: &ScratchDir, name: &str, groups: usize, threads: usize) -> DevicePopulation {
    let mut config = Configuration::default();
    for pair in [
        "task=exponential-pong-mini",
        "agents=spectral,popart",
        "seeds=3",
        "hidden=16",
        "batch=8",
        "replay=200",
        "learning_starts=50",
        "log_frames=100",
        "device=cpu-lockstep",
    ] {
        config.set(pair).unwrap();
    }
    let registry = Registry::default();
    let plan = registry.plan(&config).unwrap().with(|run| (run.groups, run.threads) = (groups, threads));
    let mut population = DevicePopulation::new(&registry.resolve_plan(plan.clone()).unwrap()).unwrap();
    for (number, agent) in plan.agents.iter().enumerate() {
        let at = folder.join(name).join(&agent.id);
        std::fs::create_dir_all(&at).unwrap();
        let columns = population.metric_columns(number);
        population.actor(number).create_files(&at, &columns).unwrap();
    }
    population
}

/// Delays every group. The first is the slowest.
fn delayed(mut population: DevicePopulation, left: u64) -> DevicePopulation {
    let groups = std::mem::take(&mut population.groups).into_iter().enumerate();
    let wrap = |(number, group): (usize, Box<dyn Group>)| {
        let delay = Duration::from_micros(500 / (1 + number as u64).pow(2));
        Box::new(SlowDevice { group, delay, submitted: None, ready: false, left }) as Box<dyn Group>
    };
    population.groups = groups.map(wrap).collect();
    population
}

fn train(population: &mut DevicePopulation, frames: u64, due: Duration) -> Result<(), TrainError> {
    let interrupt = AtomicBool::new(false);
    population.train(TrainSlice { frames, due: Instant::now() + due, interrupt: &interrupt, observer: &() })
}

fn model(population: &mut DevicePopulation, agent: usize) -> Vec<u8> {
    let mut out = StateWriter::default();
    population.save_model(agent, ModelKind::Last, &mut out).unwrap();
    out.into_bytes()
}

#[test]
fn a_slow_device_changes_nothing() {
    let dir = ScratchDir::new();
    let mut expected = population(&dir, "at-once", 2, 2);
    train(&mut expected, 400, Duration::from_secs(1000)).unwrap();
    for (groups, threads) in [(2, 2), (3, 9), (6, 2)] {
        let mut found = delayed(population(&dir, &format!("late-{groups}"), groups, threads), u64::MAX);
        // In slices of a few steps, after which no group is far ahead and nothing is in flight.
        while (0..6).any(|agent| found.actor(agent).is_active(400)) {
            train(&mut found, 400, Duration::from_millis(20)).unwrap();
            let steps: Vec<u64> = (0..6).map(|agent| found.actor(agent).steps()).collect();
            let (least, most) = (steps.iter().min().unwrap(), steps.iter().max().unwrap());
            assert!(most - least <= MAX_LEAD + 3, "{steps:?}");
        }
        for agent in 0..6 {
            assert_eq!(found.actor(agent).steps(), expected.actor(agent).steps());
            assert!(
                model(&mut found, agent) == model(&mut expected, agent),
                "agent {agent}, {groups} groups"
            );
        }
    }
}

#[test]
fn a_device_that_is_lost_ends_the_run() {
    let dir = ScratchDir::new();
    for (groups, threads) in [(2, 2), (3, 9)] {
        let mut lost = delayed(population(&dir, &format!("lost-{groups}"), groups, threads), 70);
        let error = train(&mut lost, 400, Duration::from_secs(1000)).unwrap_err();
        assert!(error.to_string().contains("lost on purpose"), "{error}");
    }
}
