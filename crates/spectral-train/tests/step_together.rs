//! Tasks that are stepped by one call: each agent's files are those of an agent alone, to the bit.

use spectral_env::{
    Env, Observation, StateError, StateReader, StateWriter, Step, StepTogether, Stream, TaskEntry, TaskError,
    TaskGroup, TaskOptions, TaskSpec, make,
};
use spectral_train::config::Configuration;
use spectral_train::control::Control;
use spectral_train::error::TrainError;
use spectral_train::events::{Event, Events};
use spectral_train::registry::Registry;
use spectral_train::run_dir::Status;
use spectral_train::trainer::{Observer, Resumption, StepTaken, Trainer};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// How the stepper behaves.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Resets when it is asked to.
    Plain,
    /// Resets in the course of the next step, as vector environments with Gymnasium's autoreset do.
    Late,
    /// Fails in its 300th step.
    Fails,
}

struct Instance {
    env: Box<dyn Env>,
    /// What the last step brought, until the member takes it.
    step: Option<Step>,
    chance: Stream,
    state: State,
}

enum State {
    Playing,
    Resetting(Stream),
    Fresh,
}

type Shared = Arc<Mutex<Vec<Instance>>>;

struct Member {
    spec: TaskSpec,
    shared: Shared,
    index: usize,
}

impl Env for Member {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }
    fn reset(&mut self, _: &mut Stream) {}
    fn step(&mut self, _: usize, _: &mut Stream) -> Step {
        self.shared.lock().unwrap()[self.index].step.take().expect("stepped just before")
    }
    fn observe(&self, out: Observation<'_>) {
        self.shared.lock().unwrap()[self.index].env.observe(out);
    }
    fn save(&self, out: &mut StateWriter) {
        self.shared.lock().unwrap()[self.index].env.save(out);
    }
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.shared.lock().unwrap()[self.index].env.restore(from)
    }
}

struct Stepper {
    shared: Shared,
    way: Way,
    calls: usize,
}

impl StepTogether for Stepper {
    fn reset(&mut self, tasks: &mut [(usize, Stream)]) -> Result<(), TaskError> {
        for (task, stream) in tasks {
            let instance = &mut self.shared.lock().unwrap()[*task];
            if self.way == Way::Late {
                if matches!(instance.state, State::Playing) {
                    instance.state = State::Resetting(stream.clone());
                }
                continue;
            }
            instance.env.reset(stream);
            instance.chance = stream.clone();
        }
        Ok(())
    }

    fn is_ready(&self, task: usize) -> bool {
        !matches!(self.shared.lock().unwrap()[task].state, State::Resetting(_))
    }

    fn step(&mut self, actions: &[(usize, usize)]) -> Result<(), TaskError> {
        self.calls += 1;
        if self.way == Way::Fails && self.calls == 300 {
            return Err(TaskError::Failed("it broke".into()));
        }
        let mut instances = self.shared.lock().unwrap();
        for instance in instances.iter_mut() {
            if let State::Resetting(stream) = &mut instance.state {
                instance.env.reset(stream);
                instance.chance = stream.clone();
                instance.state = State::Fresh;
            }
        }
        for &(task, action) in actions {
            // Catch draws nothing after its reset, so one stream for the whole episode serves.
            let Instance { env, step, chance, state } = &mut instances[task];
            *step = Some(env.step(action, chance));
            *state = State::Playing;
        }
        Ok(())
    }
}

/// Catch, alone or in a group, under the same name.
fn registry(way: Option<Way>) -> Registry {
    let catch = || make("catch-scale", &TaskOptions::default()).unwrap();
    let entry = TaskEntry::with_settings("catch", "", move |(): &()| Ok(catch()));
    let entry = match way {
        None => entry,
        Some(way) => entry.stepped_together(move |(): &(), count| {
            let stream = || Stream::new(0, spectral_env::Purpose::Other, 0);
            let instance = || Instance { env: catch(), step: None, chance: stream(), state: State::Playing };
            let shared: Shared = Arc::new(Mutex::new((0..count).map(|_| instance()).collect()));
            let spec = catch().spec().clone();
            let member = |index| Member { spec: spec.clone(), shared: shared.clone(), index };
            let tasks = (0..count).map(|index| Box::new(member(index)) as Box<dyn Env>).collect();
            Ok(TaskGroup { tasks, stepper: Box::new(Stepper { shared: shared.clone(), way, calls: 0 }) })
        }),
    };
    Registry::default().with_task(entry).unwrap()
}

fn config(agents: &str, seeds: &str) -> Configuration {
    let mut config = Configuration::default();
    let set = ["task=catch", "frames=1500", "learning_starts=200", "hidden=16", "checkpoint_seconds=0.05"];
    set.iter().for_each(|pair| config.set(pair).unwrap());
    config.add("agents", agents);
    config.add("seeds", seeds);
    config
}

fn files(run: &Path, id: &str) -> Vec<Vec<u8>> {
    let read = |name: &str| std::fs::read(run.join("agents").join(id).join(name)).unwrap();
    ["episodes.csv", "metrics.csv", "model.safetensors"].map(read).into()
}

const AGENTS: [&str; 2] = ["spectral", "popart"];

fn assert_same_as_alone(folder: &Path, together: &Path) {
    for agent in AGENTS {
        for seed in [1, 2] {
            let alone = folder.join(format!("{agent}-{seed}"));
            if !alone.exists() {
                let (registry, config) = (registry(None), config(agent, &format!("{seed},")));
                let run = registry.resolve(&config).unwrap();
                Trainer::create(&alone, run, &registry, "test").unwrap().run().unwrap();
            }
            let id = format!("{agent}-s{seed}");
            assert!(files(&alone, &id) == files(together, &id), "{id}");
        }
    }
}

#[test]
fn agents_together_are_agents_alone() {
    let folder = tempfile::tempdir().unwrap();
    for (name, way) in [("plain", Way::Plain), ("late", Way::Late)] {
        let (registry, path) = (registry(Some(way)), folder.path().join(name));
        let run = registry.resolve(&config(&AGENTS.join(","), "2")).unwrap();
        assert!(run.step_together);
        Trainer::create(&path, run, &registry, "test").unwrap().run().unwrap();
        assert_same_as_alone(folder.path(), &path);
    }
}

/// Cancels after some steps, and counts what it is told.
struct Watch {
    control: Control,
    after: usize,
    steps: AtomicUsize,
}

impl Observer for Watch {
    fn wants_steps(&self) -> bool {
        true
    }
    fn steps(&self, taken: &[StepTaken]) {
        if self.steps.fetch_add(taken.len(), Ordering::Relaxed) + taken.len() >= self.after {
            self.control.cancel();
        }
    }
}

#[test]
fn stopped_again_and_again_it_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    for way in [Some(Way::Plain), None] {
        let (registry, path) = (registry(way), folder.path().join(format!("stopped-{}", way.is_some())));
        let mut run = registry.resolve(&config(&AGENTS.join(","), "2")).unwrap();
        run.step_together = true;
        let mut trainer = Trainer::create(&path, run, &registry, "test").unwrap();
        let mut steps = 0;
        loop {
            let control = Control::default();
            trainer.set_control(control.clone());
            let watch = Watch { control, after: 777, steps: AtomicUsize::new(0) };
            let summary = trainer.run_watched(&watch).unwrap();
            steps += watch.steps.into_inner();
            if summary.status == Status::Finished {
                break;
            }
            drop(trainer);
            let how = Resumption { step_together: true, ..Resumption::default() };
            trainer = Trainer::resume(&path, &registry, how).unwrap();
        }
        assert_eq!(steps, 4 * 1500);
        assert_same_as_alone(folder.path(), &path);
    }
}

#[test]
fn a_task_that_fails_ends_the_run_and_leaves_the_last_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fails");
    let failing = registry(Some(Way::Fails));
    let mut settings = config(&AGENTS.join(","), "2");
    settings.set("frames=200").unwrap();
    let run = failing.resolve(&settings).unwrap();
    let mut trainer = Trainer::create(&path, run, &failing, "test").unwrap();
    trainer.run().unwrap();
    trainer.set_end(1500).unwrap();
    let error = trainer.run().unwrap_err();
    assert!(matches!(&error, TrainError::Task(text) if text == "it broke"), "{error}");
    assert_eq!(error.exit_code(), 6);
    drop(trainer);
    let whole = registry(Some(Way::Plain));
    Trainer::resume(&path, &whole, Resumption::default()).unwrap().run().unwrap();
    let log_as_planned = folder.path().join("planned");
    let mut trainer =
        Trainer::create(&log_as_planned, whole.resolve(&settings).unwrap(), &whole, "test").unwrap();
    trainer.run().unwrap();
    trainer.set_end(1500).unwrap();
    trainer.run().unwrap();
    for id in ["spectral-s1", "popart-s2"] {
        assert!(files(&path, id) == files(&log_as_planned, id), "{id}");
    }
}

#[test]
fn episodes_and_metrics_are_told() {
    let folder = tempfile::tempdir().unwrap();
    for way in [None, Some(Way::Plain)] {
        let (registry, path) = (registry(way), folder.path().join(format!("told-{}", way.is_some())));
        let run = registry.resolve(&config("spectral", "2")).unwrap();
        let mut trainer = Trainer::create(&path, run, &registry, "test").unwrap();
        let events = Arc::new(Events::default());
        trainer.tell(&events);
        trainer.run().unwrap();
        let told = events.take();
        for number in 0..2 {
            let rows = |name: &str| {
                let path = path.join(format!("agents/spectral-s{}/{name}.csv", number + 1));
                std::fs::read_to_string(path).unwrap().lines().count() - 1
            };
            let episodes = |e: &&Event| matches!(e, Event::Episode { agent, .. } if *agent == number);
            let metrics = |e: &&Event| matches!(e, Event::Metrics { agent, .. } if *agent == number);
            let counts = (told.iter().filter(episodes).count(), told.iter().filter(metrics).count());
            assert_eq!(counts, (rows("episodes"), rows("metrics")));
            assert!(counts.0 > 100 && counts.1 > 5, "{counts:?}");
        }
    }
}
