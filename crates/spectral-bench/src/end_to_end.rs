//! Training from end to end: environments, replay, updates, through the trainer that `spectral train --device cuda` uses.

use crate::failure::{DATA, Failure};
use crate::floor::frames_per_second;
use crate::gpu::{failed, show};
use crate::group_times::{GroupTimes, Noise, USUAL, measure};
use crate::output::{Table, note, number, print};
use serde_json::{Value, json};
use spectral_core::rng::{Purpose, Stream};
use spectral_env::{Observation, ObservationSpec};
use spectral_nn::cuda::{Device, Precision};
use spectral_train::config::Configuration;
use spectral_train::control::Control;
use spectral_train::devices::DeviceChoice;
use spectral_train::pipeline::group_sizes;
use spectral_train::plan::Plan;
use spectral_train::registry::Registry;
use spectral_train::resolve::ResolvedRun;
use spectral_train::trainer::{AgentProgress, Observer, Trainer};
use std::collections::btree_map::{BTreeMap, Entry};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Frames before the first update: a thousand steps.
const LEARNING_STARTS: u64 = 4_000;
/// Frames of every agent before the clock starts.
const SETTLED: u64 = 2 * LEARNING_STARTS;
/// If learning has not started by then, it never will.
const PATIENCE: Duration = Duration::from_secs(90);

/// What to train.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The GPU's number.
    pub gpu: usize,
    /// Arithmetic of products.
    pub precision: Precision,
    /// Agents.
    pub agents: usize,
    /// Groups in which they train; 0 leaves it to the trainer.
    pub groups: usize,
    /// Seconds from the start of the clock to its end.
    pub seconds: f64,
}

/// Trains on each task and prints frames a second beside the limits of the GPU and of the environments.
pub fn run(
    device: &Device,
    wanted: &Wanted,
    tasks: &[String],
    noise: &Noise,
    json: bool,
) -> Result<(), Failure> {
    let times = |agents| measure(device, wanted.precision, (USUAL, agents), 0, noise, 1.0).map_err(failed);
    let whole = times(wanted.agents)?;
    // The trainer works in groups; what they allow one after the other tells its own losses from those of smaller groups.
    let mut by_size: BTreeMap<usize, GroupTimes> = BTreeMap::from([(wanted.agents, whole)]);
    let mut table = Table::new(&[
        "task",
        "P",
        "products",
        "frames/s",
        "GPU allows",
        "share",
        "groups",
        "in groups",
        "tasks allow",
        "binds",
        "share",
    ]);
    let registry = Registry::default();
    for name in tasks {
        let plan = plan(name, wanted).map_err(Failure::from)?;
        let on_cpu = match resolve_on_cpu(&plan) {
            Ok(run) => run,
            Err(why) => {
                note!("{name} is not measured: {why}");
                continue;
            }
        };
        let tasks_allow = task_limit(&on_cpu, wanted.seconds.min(3.0))?;
        let sizes = group_sizes(&plan);
        for &size in &sizes {
            if let Entry::Vacant(unknown) = by_size.entry(size) {
                unknown.insert(times(size)?);
            }
        }
        let rate = train(plan, &registry, wanted.seconds)?;
        let limits = Limits::new(&whole, &sizes, &by_size, tasks_allow);
        if json {
            print(&line(name, wanted, rate, &limits, &whole).to_string())?;
        }
        table.row(row(name, wanted, rate, &limits));
    }
    show(&table, json)?;
    note!(
        "GPU allows: 16 P / (update {} ms + 4 · act {} ms); in groups: the same for one group after the other",
        number(whole.update.median),
        number(whole.act.median)
    );
    Ok(())
}

/// Frames a second that nothing can exceed, but for `grouped`, which groups that share the GPU can.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limits {
    gpu: f64,
    groups: usize,
    grouped: f64,
    tasks: f64,
}

impl Limits {
    fn new(whole: &GroupTimes, sizes: &[usize], by_size: &BTreeMap<usize, GroupTimes>, tasks: f64) -> Limits {
        let agents = sizes.iter().sum();
        let sum = |time: fn(&GroupTimes) -> f64| sizes.iter().map(|size| time(&by_size[size])).sum();
        Limits {
            gpu: frames_per_second(agents, whole.update.median, whole.act.median),
            groups: sizes.len(),
            grouped: frames_per_second(agents, sum(|t| t.update.median), sum(|t| t.act.median)),
            tasks,
        }
    }

    fn binding(&self) -> (&'static str, f64) {
        if self.tasks < self.gpu { ("tasks", self.tasks) } else { ("GPU", self.gpu) }
    }
}

fn row(name: &str, wanted: &Wanted, rate: f64, limits: &Limits) -> Vec<Value> {
    let share = |limit: f64| json!(format!("{:.0}%", 100.0 * rate / limit));
    let (binds, least) = limits.binding();
    vec![
        json!(name),
        json!(wanted.agents),
        json!(wanted.precision.name()),
        json!(rate),
        json!(limits.gpu),
        share(limits.gpu),
        json!(limits.groups),
        json!(limits.grouped),
        json!(limits.tasks),
        json!(binds),
        share(least),
    ]
}

fn line(name: &str, wanted: &Wanted, rate: f64, limits: &Limits, whole: &GroupTimes) -> Value {
    let (binds, least) = limits.binding();
    json!({
        "stack": "spectral", "what": "train", "task": name, "P": wanted.agents, "precision": wanted.precision.name(),
        "frames_per_second": rate, "gpu_allows": limits.gpu, "share_of_gpu": rate / limits.gpu,
        "groups": limits.groups, "groups_allow": limits.grouped, "tasks_allow": limits.tasks, "binds": binds, "share_of_binding": rate / least,
        "update_ms": whole.update.median, "act_ms": whole.act.median, "seconds": wanted.seconds,
    })
}

/// The paper's agent at its schedule, learning from the start.
fn plan(task: &str, wanted: &Wanted) -> Result<Plan, spectral_train::error::TrainError> {
    let mut config = Configuration::default();
    let pairs = [
        ("task", task.to_string()),
        ("agents", "spectral".into()),
        ("seeds", wanted.agents.to_string()),
        ("protocol", "paper".into()),
        ("network", "nature".into()),
        ("replay", "100000".into()),
        ("learning_starts", LEARNING_STARTS.to_string()),
        ("epsilon_frames", "40000".into()),
        ("update_period", "16".into()),
        ("frames", "1000000000".into()),
        ("log_frames", "1000000".into()),
        ("checkpoint", "light".into()),
        ("checkpoint_seconds", "1000000".into()),
        ("device", format!("cuda:{}", wanted.gpu)),
        ("precision", wanted.precision.name().into()),
        ("groups", wanted.groups.to_string()),
    ];
    for (key, value) in pairs {
        config.add(key, value);
    }
    if !task.starts_with("atari/") {
        config.add("observation", "pixels");
        config.add("frame_skip", "4");
    }
    Registry::default().plan(&config)
}

/// The same population without a GPU: its tasks can be made wherever their files are.
fn resolve_on_cpu(plan: &Plan) -> Result<ResolvedRun, spectral_train::error::TrainError> {
    Registry::default().resolve_plan(plan.with(|run| run.device = DeviceChoice::Cpu))
}

/// Frames a second of all cores that do nothing but play at random and look.
fn task_limit(run: &ResolvedRun, seconds: f64) -> Result<f64, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut envs = Vec::new();
    for _ in 0..cores {
        envs.push(run.make_task()?);
    }
    let frames = AtomicU64::new(0);
    let (limit, begun) = (Duration::from_secs_f64(seconds), Instant::now());
    std::thread::scope(|scope| {
        for (seed, mut env) in envs.into_iter().enumerate() {
            let frames = &frames;
            scope.spawn(move || {
                let spec = env.spec().clone();
                let (mut bytes, mut numbers) = match spec.observation {
                    ObservationSpec::Planes { .. } => (vec![0; spec.observation.len()], Vec::new()),
                    ObservationSpec::Vector { len } => (Vec::new(), vec![0.0; len]),
                };
                env.reset(&mut Stream::new(seed as u64, Purpose::Other, 0));
                let mut steps = 0;
                while begun.elapsed() < limit {
                    for _ in 0..16 {
                        steps += 1;
                        let mut rng = Stream::new(seed as u64, Purpose::Other, steps);
                        let step = env.step(rng.below(spec.actions.len()), &mut rng);
                        if step.terminated || step.truncated {
                            env.reset(&mut rng);
                        }
                        env.observe(match spec.observation {
                            ObservationSpec::Planes { .. } => Observation::Planes(&mut bytes),
                            ObservationSpec::Vector { .. } => Observation::Vector(&mut numbers),
                        });
                        std::hint::black_box((&bytes, &numbers));
                    }
                }
                frames.fetch_add(steps * spec.frames_per_step, Ordering::Relaxed);
            });
        }
    });
    Ok(frames.into_inner() as f64 / begun.elapsed().as_secs_f64())
}

/// Frames a second of the whole population, once learning is under way.
fn train(plan: Plan, registry: &Registry, seconds: f64) -> Result<f64, Failure> {
    let folder = Scratch::new();
    let mut trainer = Trainer::create(
        &folder.0,
        registry.resolve_plan(plan)?,
        registry,
        "spectral-bench gpu --end-to-end",
    )?;
    let device = trained_on(&folder.0);
    if !device.starts_with("cuda") {
        return Err(Failure::usage(format!(
            "the trainer trains on {device}, not on the GPU: there is nothing to measure"
        )));
    }
    watch(&mut trainer, seconds)
}

/// Lets a run go on until its rate is known.
fn watch(trainer: &mut Trainer, seconds: f64) -> Result<f64, Failure> {
    let clock = Clock { seconds, made: Instant::now(), state: Mutex::default(), stop: trainer.control() };
    let outcome = trainer.run_watched(&clock)?;
    if let Some((number, reason)) =
        outcome.agents.iter().enumerate().find_map(|(n, a)| Some((n, a.stopped.as_ref()?)))
    {
        return Err(Failure { text: format!("agent {number} was stopped: {reason}"), exit_code: DATA });
    }
    let state = clock.state.into_inner().unwrap_or_else(|e| e.into_inner());
    state.rate().ok_or_else(|| {
        Failure::usage(format!(
            "learning had not started after {} s: the agents had played {} frames, and the slowest needs {}",
            PATIENCE.as_secs(),
            state.latest.1,
            SETTLED
        ))
    })
}

/// What the run's directory says that it trains on.
fn trained_on(run: &Path) -> String {
    let text = std::fs::read_to_string(run.join("run.toml")).unwrap_or_default();
    let table: toml::Table = text.parse().unwrap_or_default();
    let device = table.get("hardware").and_then(|h| h.get("device")).and_then(|d| d.as_str());
    device.unwrap_or("an unknown device").to_string()
}

/// Watches a run: starts counting when everybody learns, and ends it when time is up.
struct Clock {
    seconds: f64,
    made: Instant,
    state: Mutex<Counted>,
    stop: Control,
}

/// Seconds and frames of the whole population at the start of the count and now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counted {
    first: Option<(f64, u64)>,
    latest: (f64, u64),
    done: bool,
}

impl Counted {
    fn tick(&mut self, now: f64, least: u64, sum: u64, seconds: f64) {
        if self.done {
            return;
        }
        self.latest = (now, sum);
        if self.first.is_none() && least >= SETTLED {
            self.first = Some((now, sum));
        }
        let waited_in_vain = self.first.is_none() && now > PATIENCE.as_secs_f64();
        self.done = waited_in_vain || self.first.is_some_and(|(start, _)| now - start >= seconds);
    }

    fn rate(&self) -> Option<f64> {
        let (start, before) = self.first?;
        let (end, after) = self.latest;
        (end > start).then(|| (after - before) as f64 / (end - start))
    }
}

impl Observer for Clock {
    fn tick(&self, progress: &[AgentProgress]) {
        let now = self.made.elapsed().as_secs_f64();
        let least = progress.iter().map(|p| p.frames).min().unwrap_or(0);
        let sum = progress.iter().map(|p| p.frames).sum();
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        state.tick(now, least, sum, self.seconds);
        if state.done {
            self.stop.cancel();
        }
    }
}

/// A folder that is gone when nobody needs it any more.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("spectral-bench-{}-{number}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left of it is small and in the system's folder for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group_times::Times;
    use spectral_agent::settings::Setting;

    const WANTED: Wanted = Wanted { gpu: 1, precision: Precision::Bf16, agents: 20, groups: 0, seconds: 1.0 };

    fn times(update: f64, act: f64) -> GroupTimes {
        let times = |median| Times { median, min: median, launches: 1 };
        GroupTimes { update: times(update), act: times(act), step: times(act) }
    }

    #[test]
    fn the_plan_is_the_paper_s_schedule_on_a_gpu() {
        for (task, side) in [("exponential-pong-mini", 84), ("atari/pong", 84)] {
            let plan = plan(task, &WANTED).unwrap();
            assert_eq!((plan.agents.len(), plan.run.device.show().as_str()), (20, "cuda:1"));
            assert_eq!(
                (plan.run.precision.show().as_str(), plan.agents[0].settings.update_period),
                ("bf16", 16)
            );
            let Ok(run) = resolve_on_cpu(&plan) else { continue };
            let spec = &run.task;
            assert_eq!(spec.frames_per_step, 4, "{task}");
            let ObservationSpec::Planes { height, width, stack, .. } = spec.observation else {
                panic!("{task}")
            };
            assert_eq!((height, width, stack), (side, side, 4), "{task}");
        }
        assert!(plan("no-such-task", &WANTED).is_err());
    }

    #[test]
    fn frames_are_counted_from_the_start_of_learning() {
        let mut counted = Counted::default();
        counted.tick(1.0, SETTLED - 1, 500_000, 2.0);
        assert_eq!(counted.rate(), None);
        counted.tick(2.0, SETTLED, 1_000_000, 2.0);
        counted.tick(3.0, 2 * SETTLED, 1_500_000, 2.0);
        assert!(!counted.done);
        counted.tick(4.5, 3 * SETTLED, 2_000_000, 2.0);
        assert!(counted.done);
        // The last tick, after the work has stopped, does not count.
        counted.tick(9.0, 3 * SETTLED, 2_000_001, 2.0);
        assert_eq!(counted.rate(), Some(400_000.0));
        let mut never = Counted::default();
        never.tick(PATIENCE.as_secs_f64() + 1.0, 10, 200, 2.0);
        assert!(never.done && never.rate().is_none());
    }

    #[test]
    fn a_run_is_stopped_when_its_rate_is_known() {
        let mut config = Configuration::default();
        for pair in
            ["task=catch-scale", "update_period=100", "replay=1000", "frames=1000000000", "device=cpu"]
        {
            config.set(pair).unwrap();
        }
        let folder = Scratch::new();
        let registry = Registry::default();
        let run = registry.resolve(&config).unwrap();
        let mut trainer = Trainer::create(&folder.0, run, &registry, "test").unwrap();
        assert_eq!(trained_on(&folder.0), "cpu");
        let rate = watch(&mut trainer, 0.3).unwrap();
        assert!(rate > 1000.0, "{rate}");
        let path = folder.0.clone();
        drop((trainer, folder));
        assert!(!path.exists());
    }

    #[test]
    fn the_tighter_limit_binds() {
        let by_size = BTreeMap::from([(20, times(0.8, 0.1)), (7, times(0.4, 0.07)), (6, times(0.35, 0.06))]);
        let limits = Limits::new(&by_size[&20], &[7, 7, 6], &by_size, 1e6);
        assert!((limits.gpu - 320.0 / 1.2e-3).abs() < 1e-6);
        assert_eq!(limits.groups, 3);
        assert!((limits.grouped - 320.0 / 1.95e-3).abs() < 1e-6);
        assert_eq!(limits.binding().0, "GPU");
        let slow = Limits { tasks: 1e5, ..limits };
        assert_eq!(slow.binding(), ("tasks", 1e5));
        let line = line("x", &WANTED, 8e4, &slow, &times(0.8, 0.1));
        assert_eq!((&line["binds"], &line["share_of_binding"]), (&json!("tasks"), &json!(0.8)));
        assert!(line.get("ms_median").is_none(), "the comparison of updates must not take it for one");
        assert_eq!(row("x", &WANTED, 8e4, &slow).last().unwrap(), &json!("80%"));
    }

    #[test]
    fn tasks_are_timed_without_a_gpu() {
        let plan = plan("exponential-pong-mini", &WANTED).unwrap();
        assert!(task_limit(&resolve_on_cpu(&plan).unwrap(), 0.05).unwrap() > 1000.0);
    }
}
