//! Cuts runs at an earlier frame, so that runs of different lengths can be compared and merged there.

use super::{AgentRun, AgentStatus, Run, RunStatus};
use crate::format::short_count;

/// Cuts every run at `frames`: later data of an agent is left out, and an agent that reached the frame counts as finished.
/// Also returns notes for the reader.
pub(crate) fn cut(runs: &[Run], frames: u64) -> (Vec<Run>, Vec<String>) {
    let mut notes = vec![format!(
        "Every run is read up to {} frames only: curves end there, final scores are taken there, and a seed that got \
         so far counts as finished.",
        short_count(frames as f64)
    )];
    let mut cut_runs = Vec::with_capacity(runs.len());
    for run in runs {
        let furthest = run.agents.iter().map(|agent| agent.frames).max().unwrap_or(0);
        let mut cut = run.clone();
        cut.frames = frames;
        if furthest > frames {
            cut.seconds *= frames as f64 / furthest as f64;
        }
        for agent in &mut cut.agents {
            if agent.frames > frames && agent.status == AgentStatus::Stopped {
                notes.push(format!(
                    "{} with seed {} on {} was stopped later, at {} frames ({}).",
                    agent.agent,
                    agent.seed,
                    run.task,
                    short_count(agent.frames as f64),
                    agent.reason
                ));
            }
            cut_agent(agent, frames);
        }
        // A run that was planned shorter has ended all the same: its agents say that they are not that far.
        if cut.agents.iter().all(|agent| agent.status != AgentStatus::Running) {
            cut.status = RunStatus::Finished;
        }
        cut_runs.push(cut);
    }
    (cut_runs, notes)
}

fn cut_agent(agent: &mut AgentRun, frames: u64) {
    if agent.frames < frames {
        // Its own plan was shorter: at this length it is not finished.
        if agent.status == AgentStatus::Finished {
            agent.status = AgentStatus::Running;
        }
        return;
    }
    agent.status = AgentStatus::Finished;
    agent.frames = frames;
    agent.episodes.retain(|episode| episode.frame <= frames);
    agent.evaluations.retain(|row| row.frame <= frames);
    agent.td_errors.retain(|row| row.frame <= frames);
    agent.metrics.cut(frames);
    agent.saturated = agent.metrics.last("saturated").map_or(0, |count| count as u64);
}
