//! How a run is doing: its pace, what is left, and whether somebody should look after it.

use serde_json::{Value, json};
use spectral_train::trainer::AgentProgress;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Over which time a rate is measured.
const WINDOW: Duration = Duration::from_secs(10);
/// Without a frame for so long, a run that is at work deserves a look.
const STANDSTILL: Duration = Duration::from_secs(30);

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Running,
    Finished,
    Interrupted,
    /// Marked as running, but nobody works on it.
    Silent,
    /// Its folder is not there any more.
    Gone,
}

impl Standing {
    fn name(self) -> &'static str {
        match self {
            Standing::Running => "running",
            Standing::Finished => "finished",
            Standing::Interrupted => "interrupted",
            Standing::Silent => "silent",
            Standing::Gone => "gone",
        }
    }
}

/// Frames per second over the last seconds.
#[derive(Debug, Default)]
pub(crate) struct Pace(VecDeque<(Instant, u64)>);

impl Pace {
    pub(crate) fn add(&mut self, now: Instant, frames: u64) {
        // A run that was resumed from before counts anew.
        if self.0.back().is_some_and(|&(_, before)| before > frames) {
            self.0.clear();
        }
        self.0.push_back((now, frames));
        while self.0.len() > 2 && now.duration_since(self.0[1].0) > WINDOW {
            self.0.pop_front();
        }
    }

    pub(crate) fn rate(&self) -> Option<f64> {
        let (&(start, first), &(end, last)) = (self.0.front()?, self.0.back()?);
        let seconds = end.duration_since(start).as_secs_f64();
        (seconds > 0.2).then(|| (last - first) as f64 / seconds)
    }

    /// How long the count has stood still.
    fn standstill(&self, now: Instant) -> Duration {
        let Some(&(_, last)) = self.0.back() else { return Duration::ZERO };
        let since = self.0.iter().find(|(_, frames)| *frames == last).map_or(now, |(at, _)| *at);
        now.duration_since(since)
    }
}

/// What there is to say of a run's progress.
pub(crate) struct Progress<'a> {
    pub standing: Standing,
    pub seconds: f64,
    pub frames: u64,
    pub learning_starts: u64,
    pub checkpoint_age: Option<Duration>,
    pub checkpoint_seconds: f64,
    /// How long the process that trains has been at work, or longer.
    pub at_work: Duration,
    pub agents: &'a [AgentProgress],
    pub epsilons: &'a [Option<f64>],
    pub pace: &'a Pace,
    pub now: Instant,
}

impl Progress<'_> {
    /// The `progress` event.
    pub(crate) fn event(&self) -> Value {
        let rate = self.pace.rate().filter(|_| self.standing == Standing::Running);
        let left: u64 = self.agents.iter().map(|agent| self.left(agent)).sum();
        let (level, text) = self.health();
        let agent = |(agent, epsilon): (&AgentProgress, &Option<f64>)| {
            json!({
                "frames": agent.frames, "score": agent.score, "epsilon": epsilon,
                "stopped": agent.stopped, "saturated": agent.saturated,
            })
        };
        json!({
            "status": self.standing.name(), "seconds": self.seconds, "rate": rate,
            "left_seconds": rate.filter(|rate| *rate >= 1.0).map(|rate| left as f64 / rate),
            "checkpoint_age": self.checkpoint_age.map(|age| age.as_secs_f64()),
            "checkpoint_seconds": self.checkpoint_seconds,
            "health": {"level": level, "text": text},
            "agents": self.agents.iter().zip(self.epsilons).map(agent).collect::<Vec<_>>(),
        })
    }

    fn left(&self, agent: &AgentProgress) -> u64 {
        if agent.stopped.is_some() { 0 } else { self.frames.saturating_sub(agent.frames) }
    }

    /// `well`, `look` or `bad`, and why.
    fn health(&self) -> (&'static str, String) {
        let ids = |which: &dyn Fn(&AgentProgress) -> bool| {
            self.agents.iter().filter(|a| which(a)).map(|a| a.id.as_str()).collect::<Vec<_>>()
        };
        let stopped = ids(&|agent| agent.stopped.is_some());
        if !stopped.is_empty() {
            return (
                "bad",
                format!("{} of {} agents stopped: {}.", stopped.len(), self.agents.len(), few(&stopped)),
            );
        }
        if self.standing == Standing::Silent {
            return (
                "bad",
                "No process works on this run any more: `spectral resume` goes on with it.".into(),
            );
        }
        if self.standing == Standing::Gone {
            return ("bad", "The run's folder is not there any more.".into());
        }
        let late = Duration::from_secs_f64(30.0 + 3.0 * self.checkpoint_seconds.clamp(0.0, 1e6));
        if self.standing == Standing::Running {
            let still = self.pace.standstill(self.now);
            if still > STANDSTILL {
                return ("look", format!("No frame for {} seconds.", still.as_secs()));
            }
            if self.checkpoint_age.is_some_and(|age| age.min(self.at_work) > late) {
                return ("look", "The last checkpoint is older than it should be: is the disk full?".into());
            }
        }
        let saturated = ids(&|agent| agent.saturated > 0);
        if !saturated.is_empty() {
            return ("look", format!("Rewards beyond what the codec can represent: {}.", few(&saturated)));
        }
        if self.standing == Standing::Interrupted {
            return ("look", "Interrupted and saved: `spectral resume` goes on with it.".into());
        }
        if self.learning_starts >= self.frames {
            let (starts, ends) = (self.learning_starts, self.frames);
            let text = format!(
                "No agent learns in this run: learning starts at frame {starts}, and it ends at {ends}."
            );
            return ("look", text);
        }
        let text = match self.standing {
            Standing::Finished => "Finished.".into(),
            _ if self.agents.iter().all(|agent| agent.frames < self.learning_starts) => {
                format!("Filling replay: learning starts at frame {}.", self.learning_starts)
            }
            _ if self.agents.len() == 1 => "The agent is running.".into(),
            _ => format!("All {} agents are running.", self.agents.len()),
        };
        ("well", text)
    }
}

/// The first names of a list.
fn few(ids: &[&str]) -> String {
    match ids {
        [a, b, c, _, ..] => format!("{a}, {b}, {c} and {} more", ids.len() - 3),
        _ => ids.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(id: &str, frames: u64) -> AgentProgress {
        AgentProgress { id: id.into(), frames, ..AgentProgress::default() }
    }

    fn judge(change: impl FnOnce(&mut Progress<'_>, &mut Vec<AgentProgress>)) -> Value {
        let mut agents = vec![agent("a-s1", 50), agent("b-s1", 60)];
        let (mut pace, start) = (Pace::default(), Instant::now());
        pace.add(start, 0);
        pace.add(start + Duration::from_secs(2), 110);
        let epsilons = [Some(0.5), None];
        let mut progress = Progress {
            standing: Standing::Running,
            seconds: 2.0,
            frames: 100,
            learning_starts: 10,
            checkpoint_age: None,
            checkpoint_seconds: 60.0,
            at_work: Duration::from_secs(9999),
            agents: &[],
            epsilons: &epsilons,
            pace: &pace,
            now: start + Duration::from_secs(2),
        };
        change(&mut progress, &mut agents);
        Progress { agents: &agents, ..progress }.event()
    }

    #[test]
    fn rate_and_time_left_follow_from_frames() {
        let event = judge(|_, _| {});
        assert_eq!(event["rate"], 55.0);
        assert_eq!(event["left_seconds"], 90.0 / 55.0);
        assert_eq!(event["health"]["text"], "All 2 agents are running.");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let level = |event: &Value| event["health"]["level"].as_str().unwrap().to_string();
        let stopped = judge(|_, agents| agents[1].stopped = Some("no".into()));
        assert!(level(&stopped) == "bad" && stopped["health"]["text"] == "1 of 2 agents stopped: b-s1.");
        assert_eq!(stopped["left_seconds"], 50.0 / 55.0, "a stopped agent has nothing left");
        assert_eq!(level(&judge(|p, _| p.standing = Standing::Silent)), "bad");
        assert_eq!(level(&judge(|p, _| p.now += Duration::from_secs(40))), "look");
        assert_eq!(level(&judge(|p, _| p.checkpoint_age = Some(Duration::from_secs(999)))), "look");
        assert_eq!(level(&judge(|_, agents| agents[0].saturated = 1)), "look");
        assert_eq!(level(&judge(|p, _| p.standing = Standing::Interrupted)), "look");
        assert_eq!(level(&judge(|p, _| p.standing = Standing::Finished)), "well");
        let early = judge(|p, _| p.learning_starts = 80);
        assert_eq!(early["health"]["text"], "Filling replay: learning starts at frame 80.");
        assert_eq!(level(&judge(|p, _| p.learning_starts = 100)), "look", "it will never learn");
        let resumed = judge(|p, _| {
            (p.checkpoint_age, p.at_work) = (Some(Duration::from_secs(9999)), Duration::from_secs(3));
        });
        assert_eq!(
            level(&resumed),
            "well",
            "an old checkpoint is no fault of a run that has just begun again"
        );
    }
}
