//! A run before it starts, with nothing left open: made once, from a plan, and handed to everything that follows.

use crate::checkpoint::{CheckpointKind, Saving};
use crate::devices::{self, Chosen, Place};
use crate::error::TrainError;
use crate::machine::{free_disk, human_bytes};
use crate::memory::Memory;
use crate::plan::{AgentPlan, Plan};
use crate::registry::Registry;
use spectral_agent::average::Average;
use spectral_agent::codecs::Codec;
use spectral_agent::learner::architecture;
use spectral_agent::replay::Replay;
use spectral_env::{Env, Purpose, StateReader, StateWriter, Stream, TaskEntry, TaskGroup, TaskSpec};
use std::path::Path;
use std::sync::Arc;

/// Weights, target weights and two moments, four bytes each.
const BYTES_PER_PARAMETER: u64 = 16;
/// What an evaluated agent adds: its best model, and one that is still to be played.
const BYTES_PER_EVALUATED: u64 = 8;
/// The most outputs per action, and numbers of an encoded return, that a codec may have.
const MAX_OUTPUTS: usize = 65_536;
/// Checkpoints that a run keeps.
const CHECKPOINTS: u64 = 2;

/// A plan with all that follows from it: the task's shape, the codecs, where it trains, what it needs.
///
/// [`Registry::resolve`] makes it. It is written as `run.toml`; populations, checkpoints and forecasts read it.
#[derive(Clone, Debug)]
pub struct ResolvedRun {
    /// The plan.
    pub plan: Plan,
    /// What the task says of itself.
    pub task: TaskSpec,
    /// One codec per agent, in the plan's order.
    pub codecs: Vec<Arc<dyn Codec>>,
    /// Where it trains.
    pub device: Chosen,
    /// Memory that it needs and that there is.
    pub memory: Memory,
    /// Bytes of disk that it may come to need at most, before compression.
    pub disk: u64,
    /// What was decided for the user and should be told.
    pub notes: Vec<String>,
    /// Whether agents on a CPU take their steps together: tasks that are stepped by one call do, and runs whose every step
    /// somebody watches.
    pub step_together: bool,
    entry: TaskEntry,
    place: Place,
}

/// A plan's task and codecs, before a device is chosen.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub plan: &'a Plan,
    pub task: &'a TaskSpec,
    pub codecs: &'a [Arc<dyn Codec>],
    pub place: &'a Place,
}

impl ResolvedRun {
    pub(crate) fn new(registry: &Registry, plan: Plan, place: &Place) -> Result<Self, TrainError> {
        let entry = registry.task(&plan.task)?.clone();
        if plan.run.evaluates() && !entry.has_spares() {
            return Err(TrainError::Usage(format!(
                "eval_every = {}: the task {} has no instance to spare for frozen games, because all of them train; give a \
                 function that makes one, or leave eval_every out of a new run",
                plan.run.eval_every,
                entry.name()
            )));
        }
        // The one instance that is made to be asked; agents get instances of their own.
        let mut probe = entry.make(&plan.task_settings)?;
        let task = checked_spec(probe.spec(), entry.name())?;
        check_saving(probe.as_mut(), entry.name())?;
        let codecs = build_codecs(registry, &plan.agents)?;
        let parts = Parts { plan: &plan, task: &task, codecs: &codecs, place };
        let (device, note) = devices::choose(parts)?;
        let memory = Memory::of(parts, &device)?;
        let disk = parts.disk()?;
        let (notes, step_together) = (note.into_iter().collect(), entry.is_stepped_together());
        let place = place.clone();
        Ok(ResolvedRun { task, codecs, device, memory, disk, notes, step_together, entry, place, plan })
    }

    /// A fresh instance of the task.
    pub fn make_task(&self) -> Result<Box<dyn Env>, TrainError> {
        let task = self.entry.make(&self.plan.task_settings)?;
        self.check_same(task.as_ref())?;
        Ok(task)
    }

    fn check_same(&self, task: &dyn Env) -> Result<(), TrainError> {
        if *task.spec() != self.task {
            return Err(TrainError::Usage(format!(
                "the task {} is not the same each time it is made: {}",
                self.plan.task,
                self.task.difference(task.spec())
            )));
        }
        Ok(())
    }

    /// One fresh instance of the task per agent, stepped together, if the task offers that.
    pub(crate) fn make_group(&self) -> Result<Option<TaskGroup>, TrainError> {
        let group = self.entry.make_group(&self.plan.task_settings, self.plan.agents.len()).transpose()?;
        group.iter().flat_map(|group| &group.tasks).try_for_each(|task| self.check_same(task.as_ref()))?;
        Ok(group)
    }

    /// Refuses a run whose task has another shape now than when the run in `folder` began.
    pub fn check_task(&self, recorded: Option<&TaskSpec>, folder: &Path) -> Result<(), TrainError> {
        match recorded.filter(|recorded| **recorded != self.task) {
            None => Ok(()),
            Some(recorded) => Err(TrainError::Data(format!(
                "the task {} is another one than when {} began: {}; train anew in another folder",
                self.plan.task,
                folder.display(),
                recorded.difference(&self.task)
            ))),
        }
    }

    /// The task's entry in the registry.
    pub fn entry(&self) -> &TaskEntry {
        &self.entry
    }

    /// The same run on the CPU, because a device that was found cannot be used.
    pub(crate) fn on_cpu(&self, reason: &str) -> Result<Self, TrainError> {
        let memory = self.memory_on(&Chosen::Cpu)?;
        let notes = vec![format!("trains on the CPU: {reason}")];
        Ok(ResolvedRun { device: Chosen::Cpu, memory, notes, ..self.clone() })
    }

    /// The same run with one of its agents alone, whose number is then 0.
    pub(crate) fn only(&self, agent: usize) -> Self {
        let Plan { task, task_settings, run, agents, legacy_fingerprint, unrecorded } = &self.plan;
        let plan = Plan {
            legacy_fingerprint: *legacy_fingerprint,
            unrecorded: unrecorded.clone(),
            ..Plan::new(task, task_settings.clone(), run.clone(), vec![agents[agent].clone()])
        };
        ResolvedRun {
            plan,
            task: self.task.clone(),
            codecs: vec![self.codecs[agent].clone()],
            device: self.device.clone(),
            memory: self.memory.clone(),
            disk: self.disk,
            notes: Vec::new(),
            step_together: self.step_together,
            entry: self.entry.clone(),
            place: self.place.clone(),
        }
    }

    /// Memory that it would need elsewhere.
    pub fn memory_on(&self, device: &Chosen) -> Result<Memory, TrainError> {
        Memory::of(self.parts(), device)
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts { plan: &self.plan, task: &self.task, codecs: &self.codecs, place: &self.place }
    }

    /// The device as `run.toml` names it.
    pub fn device_name(&self) -> String {
        self.device.name(self.plan.run.precision)
    }

    /// What checkpoints in `folder` hold, and what to tell the user about it. `taken` is what earlier checkpoints of this run take
    /// there, which counts as room. A task that saves its state can be played again, but one that is stepped together with
    /// others has no instances of its own. What is decided for the user relies on a task only if it says that it repeats itself: that
    /// it does not may show when nothing but the actions is left.
    pub fn checkpoints_hold(&self, folder: &Path, taken: u64, saves_task: bool) -> (Saving, Option<String>) {
        let replay = self.parts().replay_bytes();
        let can_repeat = saves_task && !self.entry.is_stepped_together();
        let repeats = can_repeat && self.entry.repeats_itself();
        let small = free_disk(folder).filter(|&free| replay.saturating_mul(2) > free.saturating_add(taken));
        let room = |free| {
            format!(
                "twice replay's {} do not fit into the {} free on the disk",
                human_bytes(replay),
                human_bytes(free)
            )
        };
        match (self.plan.run.checkpoint, small) {
            (CheckpointKind::Light, _) => (Saving::Light, None),
            (CheckpointKind::Full, _) | (CheckpointKind::Auto, None) => (Saving::Full, None),
            (CheckpointKind::Compact, _) if can_repeat => (Saving::Compact, None),
            (CheckpointKind::Compact, _) => {
                let note = format!(
                    "checkpoints are full, not compact: the task {} cannot be played again from where it stood",
                    self.plan.task
                );
                (Saving::Full, Some(note))
            }
            (CheckpointKind::Auto, Some(free)) if repeats => {
                let note = format!(
                    "checkpoints are compact: {}; a resumed run plays again what replay holds (--set checkpoint=full insists)",
                    room(free)
                );
                (Saving::Compact, Some(note))
            }
            (CheckpointKind::Auto, Some(free)) => {
                let compact = match can_repeat {
                    true => ", and checkpoint=compact plays it again, if the task repeats itself to the bit",
                    false => "",
                };
                let note = format!(
                    "checkpoints leave out replay: {}; a resumed run will fill it anew before it learns on (--set \
                     checkpoint=full insists{compact})",
                    room(free)
                );
                (Saving::Light, Some(note))
            }
        }
    }
}

impl Parts<'_> {
    /// Bytes of replay's records when the population has come to its end, before compression.
    fn replay_bytes(self) -> u64 {
        self.replay_records().saturating_mul(Replay::bytes_per_record(self.task) as u64)
    }

    /// Replay's records when the population has come to its end.
    fn replay_records(self) -> u64 {
        let steps = self.plan.run.frames.div_ceil(self.task.frames_per_step);
        self.plan.agents.iter().map(|agent| (agent.settings.replay as u64).min(steps)).sum()
    }

    /// Bytes of disk at most: checkpoints and replay.
    fn disk(self) -> Result<u64, TrainError> {
        let mut bytes = match self.plan.run.checkpoint {
            CheckpointKind::Light => 0,
            // An action a record; the states of tasks are small beside networks.
            CheckpointKind::Compact => self.replay_records(),
            CheckpointKind::Auto | CheckpointKind::Full => self.replay_bytes(),
        };
        for (agent, codec) in self.plan.agents.iter().zip(self.codecs) {
            let network = architecture(&agent.settings, self.task, codec.as_ref())?;
            let average = Average::memory_bytes(&agent.settings, &network);
            let evaluated = u64::from(self.plan.run.evaluates()) * BYTES_PER_EVALUATED;
            bytes +=
                CHECKPOINTS * ((BYTES_PER_PARAMETER + evaluated) * network.parameters() as u64 + average);
        }
        Ok(bytes)
    }
}

/// The codecs of these agents.
pub(crate) fn build_codecs(
    registry: &Registry,
    agents: &[AgentPlan],
) -> Result<Vec<Arc<dyn Codec>>, TrainError> {
    let build = |agent: &AgentPlan| {
        let codec = registry.codec(&agent.codec)?.build(&agent.codec_settings, &agent.settings);
        let codec = codec.map_err(|e| TrainError::Usage(format!("agent {}: {e}", agent.agent)))?;
        let sizes = 1..=MAX_OUTPUTS;
        if !sizes.contains(&codec.outputs()) || !sizes.contains(&codec.encoded()) {
            return Err(TrainError::Usage(format!(
                "agent {}: its codec has {} outputs and {} numbers of an encoded return; both must be from 1 to {MAX_OUTPUTS}",
                agent.agent,
                codec.outputs(),
                codec.encoded()
            )));
        }
        Ok(codec)
    };
    agents.iter().map(build).collect()
}

/// Refuses a task that does not restore what it saves: its checkpoints could never be resumed. Tried on an instance that no
/// agent plays.
fn check_saving(task: &mut dyn Env, name: &str) -> Result<(), TrainError> {
    let saved = |task: &dyn Env| {
        let mut out = StateWriter::default();
        task.save(&mut out);
        out.into_bytes()
    };
    task.reset(&mut Stream::new(0, Purpose::Other, 0));
    if let Some(reason) = task.failure() {
        return Err(TrainError::Task(reason));
    }
    let before = saved(task);
    let mut from = StateReader::new(&before);
    let restored = task.restore(&mut from).and_then(|()| from.finish());
    let why = match restored {
        Err(error) => error.to_string(),
        Ok(()) if saved(task) != before => "it then saves something else".into(),
        Ok(()) => return Ok(()),
    };
    Err(TrainError::Usage(format!(
        "the task {name} does not restore what it saves, so its runs could not be resumed ({why}): let Env::restore read \
         what Env::save writes, or leave both out"
    )))
}

/// What a task says of itself, if an agent can learn it. Tasks of other people are checked once, here.
fn checked_spec(spec: &TaskSpec, name: &str) -> Result<TaskSpec, TrainError> {
    let wrong = |what: &str| Err(TrainError::Usage(format!("the task {name} cannot be learned: {what}")));
    if spec.observation.is_empty() || spec.observation.stack() == 0 {
        return wrong("its observations have no elements");
    }
    if !(1..=256).contains(&spec.actions.len()) {
        return wrong("it must have 1 to 256 actions");
    }
    if spec.frames_per_step == 0 {
        return wrong("a step must play at least one frame (TaskSpec::frames_per_step)");
    }
    Ok(spec.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Configuration;
    use spectral_env::{TaskError, TaskOptions};

    #[test]
    fn compact_or_light_where_the_disk_is_small() {
        let mut config = Configuration::default();
        let set = [
            "task=pong-mini",
            "observation=pixels",
            "seeds=5",
            "replay=1000000",
            "frames=1000000000000000",
            "device=cpu",
        ];
        set.iter().for_each(|pair| config.set(pair).unwrap());
        let run = Registry::default().resolve(&config).unwrap();
        let bytes = run.parts().replay_bytes();
        assert_eq!(bytes, 5_000_000 * 7063);
        let here = std::env::temp_dir();
        let with = |plan: Plan| ResolvedRun { plan, ..run.clone() };
        let decide = |plan: Plan, taken| with(plan).checkpoints_hold(&here, taken, true);
        assert_eq!(decide(run.plan.clone(), 2 * bytes), (Saving::Full, None));
        let huge = Plan { agents: vec![run.plan.agents[0].clone(); 100_000], ..run.plan.clone() };
        let (saving, note) = decide(huge.clone(), 0);
        assert!(saving == Saving::Compact && note.unwrap().contains("checkpoint=full"));
        // Whoever watches every step does not change what the task can do.
        let watched = ResolvedRun { step_together: true, ..with(huge.clone()) };
        assert_eq!(watched.checkpoints_hold(&here, 0, true).0, Saving::Compact);
        // A task that does not say that it repeats itself is only played again if the user asks for it.
        let make = |options: &TaskOptions| spectral_env::make("pong-mini", options);
        let entry = TaskEntry::with_settings("pong-mini", "", make);
        let unknown = ResolvedRun { entry: entry.clone(), ..with(huge.clone()) };
        let (saving, note) = unknown.checkpoints_hold(&here, 0, true);
        assert!(saving == Saving::Light && note.unwrap().contains("checkpoint=compact plays it again"));
        let compact = unknown.plan.with(|run| run.checkpoint = CheckpointKind::Compact);
        let asked = ResolvedRun { plan: compact, ..unknown };
        assert_eq!(asked.checkpoints_hold(&here, 0, true), (Saving::Compact, None));
        // A task that saves nothing, or has no instances of its own, cannot be played again.
        let group =
            |_: &TaskOptions, _| -> Result<TaskGroup, TaskError> { unreachable!("none is made here") };
        let entry = entry.repeating().stepped_together(group);
        let together = ResolvedRun { entry, ..with(huge.clone()) };
        for (run, saves_task) in [(with(huge.clone()), false), (together, true)] {
            let (saving, note) = run.checkpoints_hold(&here, 0, saves_task);
            assert!(saving == Saving::Light && note.unwrap().contains("leave out replay"));
            let compact = run.plan.with(|run| run.checkpoint = CheckpointKind::Compact);
            let (saving, note) = ResolvedRun { plan: compact, ..run }.checkpoints_hold(&here, 0, saves_task);
            assert!(saving == Saving::Full && note.unwrap().contains("not compact"));
        }
        let full = huge.with(|run| run.checkpoint = CheckpointKind::Full);
        assert_eq!(decide(full, 0), (Saving::Full, None));
        let short = run.plan.with(|run| (run.checkpoint, run.frames) = (CheckpointKind::Light, 10));
        assert_eq!(decide(short.clone(), 0), (Saving::Light, None));
        // A short run never fills its replay.
        assert_eq!(with(short).parts().replay_bytes(), 50 * 7063);
    }

    /// A task of which `restore` reads less than `save` wrote, or that is never the same twice.
    struct Odd {
        spec: TaskSpec,
        forgets: bool,
    }

    impl Env for Odd {
        fn spec(&self) -> &TaskSpec {
            &self.spec
        }
        fn reset(&mut self, _: &mut Stream) {}
        fn step(&mut self, _: usize, _: &mut Stream) -> spectral_env::Step {
            spectral_env::Step::default()
        }
        fn observe(&self, _: spectral_env::Observation<'_>) {}
        fn save(&self, out: &mut StateWriter) {
            out.u64(1);
            out.u64(2);
        }
        fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), spectral_env::StateError> {
            from.u64()?;
            if !self.forgets {
                from.u64()?;
            }
            Ok(())
        }
    }

    #[test]
    fn tasks_that_could_not_be_resumed_are_refused() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static MADE: AtomicUsize = AtomicUsize::new(1);
        let resolve = |make: fn() -> Odd| {
            let registry = Registry::default().with_task(TaskEntry::new("odd", "", make)).unwrap();
            let mut config = Configuration::default();
            config.set("task=odd").unwrap();
            registry.resolve(&config)
        };
        let forgets = resolve(|| Odd { spec: TaskSpec::vector("odd", 1, &["a"]), forgets: true });
        let said = forgets.unwrap_err().to_string();
        assert!(said.contains("Env::restore") && said.contains("odd"), "{said}");
        let changes = resolve(|| {
            let len = MADE.fetch_add(1, Ordering::Relaxed);
            Odd { spec: TaskSpec::vector("odd", len, &["a"]), forgets: false }
        });
        let run = changes.unwrap();
        let said = run.make_task().err().unwrap().to_string();
        assert!(said.contains("not the same each time it is made: an observation was "), "{said}");
        assert!(said.ends_with(" numbers"), "{said}");
        let recorded = TaskSpec { actions: vec!["a".into(), "b".into()], ..run.task.clone() };
        let said = run.check_task(Some(&recorded), Path::new("run")).unwrap_err().to_string();
        assert_eq!(
            said,
            "the task odd is another one than when run began: the number of actions was 2 and is 1; train anew in another folder"
        );
    }
}
