//! `train --json`: what happens in a run as it happens, one JSON object a line, for programs.

use crate::failure::Failure;
use crate::output::print;
use crate::progress::Progress;
use serde_json::{Map, Value, json};
use spectral_train::checkpoint::Cost;
use spectral_train::events::{Event, Events};
use spectral_train::run_dir::Status;
use spectral_train::trainer::{AgentProgress, Observer, TrainSummary, Trainer};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Columns of metrics that count something.
const COUNTS: [&str; 4] = ["frame", "updates", "episodes", "saturated"];

/// Prints a run's events.
pub struct EventStream {
    ids: Vec<String>,
    events: Arc<Events>,
    last_progress: Mutex<Option<Instant>>,
    /// The first line that could not be printed. Training goes on without its reader; the command does not end well.
    failure: Mutex<Option<Failure>>,
}

impl EventStream {
    /// Listens to a run, and says which it is.
    pub fn of(trainer: &mut Trainer) -> Self {
        let events = Arc::new(Events::default());
        trainer.tell(&events);
        let plan = trainer.plan();
        let stream = EventStream {
            ids: plan.agents.iter().map(|agent| agent.id.clone()).collect(),
            events,
            last_progress: Mutex::default(),
            failure: Mutex::default(),
        };
        let agents: Vec<Value> = plan
            .agents
            .iter()
            .map(|agent| json!({"id": agent.id, "agent": agent.agent, "codec": agent.codec, "seed": agent.seed}))
            .collect();
        stream.say(json!({
            "event": "begin",
            "run": trainer.dir().path().display().to_string(),
            "task": plan.task,
            "frames": plan.run.frames,
            "device": trainer.resolved().device_name(),
            "agents": agents,
            "notes": trainer.notes(),
        }));
        stream
    }

    /// Says what happened last and how it ended.
    pub fn end(&self, summary: &TrainSummary) {
        self.drain();
        let status = match summary.status {
            Status::Finished => "finished",
            Status::Interrupted => "interrupted",
            Status::Running => "running",
        };
        let agents = agents(&summary.agents);
        self.say(json!({"event": "end", "status": status, "seconds": summary.seconds, "agents": agents}));
    }

    /// Says what happened last and why it ended.
    pub fn fail(&self, failure: &Failure) {
        self.drain();
        self.say(json!({"event": "failed", "error": failure.text, "exit_code": failure.exit_code}));
    }

    /// Why some line could not be printed, if so.
    pub fn close(self) -> Result<(), Failure> {
        self.failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// Tells what is known of a run's progress, now and then.
    pub fn tick(&self, progress: &[AgentProgress], shown: &Progress) {
        self.drain();
        let mut last = self.last_progress.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < PROGRESS_EVERY) {
            return;
        }
        *last = Some(Instant::now());
        let pace = shown.pace(progress, |_| true);
        self.say(json!({
            "event": "progress",
            "frames_per_second": pace.map(|(rate, _)| rate),
            "seconds_left": pace.map(|(_, left)| left),
            "agents": agents(progress),
        }));
    }

    /// Tells of a checkpoint.
    pub fn checkpoint(&self, cost: Cost) {
        self.say(json!({"event": "checkpoint", "seconds": cost.seconds, "bytes": cost.bytes}));
    }

    fn drain(&self) {
        for event in self.events.take() {
            self.say(match event {
                Event::Episode { agent, episode } => json!({
                    "event": "episode", "agent": self.ids[agent], "frame": episode.frame, "score": episode.score,
                    "return": episode.sum, "length": episode.length,
                }),
                Event::Metrics { agent, values } => {
                    let value = |key: &str, x: f64| match COUNTS.contains(&key) {
                        true => json!(x as u64),
                        false => json!(x),
                    };
                    let values: Map<String, Value> =
                        values.into_iter().map(|(key, x)| (key.clone(), value(&key, x))).collect();
                    json!({"event": "metrics", "agent": self.ids[agent], "values": values})
                }
            });
        }
    }

    fn say(&self, line: Value) {
        if let Err(error) = print(&line.to_string()) {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}

fn agents(progress: &[AgentProgress]) -> Vec<Value> {
    let one = |agent: &AgentProgress| {
        json!({
            "id": agent.id, "frames": agent.frames, "score": agent.score, "stopped": agent.stopped,
            "saturated": agent.saturated,
        })
    };
    progress.iter().map(one).collect()
}

/// Progress for people, and events for programs if they are asked for.
pub struct Shown<'a> {
    pub progress: &'a Progress,
    pub events: Option<&'a EventStream>,
}

impl Observer for Shown<'_> {
    fn tick(&self, progress: &[AgentProgress]) {
        self.progress.tick(progress);
        if let Some(events) = self.events {
            events.tick(progress, self.progress);
        }
    }

    fn checkpoint(&self, cost: Cost) {
        self.progress.checkpoint(cost);
        if let Some(events) = self.events {
            events.checkpoint(cost);
        }
    }
}
