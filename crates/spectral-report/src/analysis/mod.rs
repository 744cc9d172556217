//! Turns runs into what a report shows: merges the runs of one experiment, groups agents, and computes curves and final scores.

use crate::error::ReportError;
use crate::human::HumanScore;
use crate::palette::{Palette, Style};
use crate::reference::{self, Mark, ReferenceScores};
use crate::run::{AgentRun, AgentStatus, Run};
use crate::stats;
use crate::summary::{Comparison, Improvement, Row};

mod curves;
mod diagnostics;
mod frozen;
mod merge;
mod naming;
mod overall;
mod scores;

pub(crate) use curves::{Clock, Curves, TdLine};
pub(crate) use diagnostics::{Panel, Scale, Series};
pub(crate) use frozen::Frozen;
pub(crate) use naming::tell_apart;
pub(crate) use overall::{Overall, overall};
pub(crate) use scores::{Profile, ProfileLine, profile};

/// All runs of one task under one protocol and length.
pub(crate) struct Task<'a> {
    pub name: String,
    pub protocol: String,
    pub frames: u64,
    /// Unique beginning of this task's file names.
    pub slug: String,
    pub runs: Vec<&'a Run>,
    /// Notes about the merging of these runs.
    pub merge_notes: Vec<String>,
    pub grid: Vec<u64>,
    /// Milliseconds; empty if no run recorded its time.
    pub hour_grid: Vec<u64>,
    pub frames_per_step: u64,
    pub human: Option<&'static HumanScore>,
    /// Scores that are drawn beside the curves.
    pub marks: Vec<Mark>,
    /// What frozen games are here, in words, if there were any.
    pub frozen_games: Option<String>,
    /// Whether some of them were played by the averaged model.
    pub both_models: bool,
    pub agents: Vec<Agent<'a>>,
    pub rows: Vec<Row>,
    /// Pairs of agents of which the first ends clearly above the second, all pairs of the task considered.
    clear: Vec<(String, String)>,
    pub comparisons: Vec<Comparison>,
    pub improvements: Vec<Improvement>,
    pub profile: Option<Profile>,
}

/// One agent's seeds on one task.
pub(crate) struct Agent<'a> {
    pub name: String,
    pub style: Style,
    pub finished: Vec<&'a AgentRun>,
    /// Running, interrupted or stopped.
    pub unfinished: Vec<&'a AgentRun>,
    /// Whether no seed has finished, so that the curves are over unfinished ones.
    pub provisional: bool,
    by_frames: Curves<'a>,
    by_hours: Curves<'a>,
    pub frozen: Frozen,
    pub td_lines: Vec<TdLine>,
    pub panels: Vec<Panel>,
}

impl Task<'_> {
    /// Frames of the longest finished seed: more than planned if a run was extended.
    pub(crate) fn trained(&self) -> u64 {
        let finished = self.agents.iter().flat_map(|agent| &agent.finished);
        finished.map(|run| run.frames).max().unwrap_or(self.frames)
    }

    /// Over which seeds the curves are, in words.
    /// What the curves of training scores are, and how far back they remember.
    pub(crate) fn smoothed_score(&self) -> String {
        let seeds = self.agents.iter().flat_map(Agent::runs).filter(|run| !run.episodes.is_empty());
        let memory: Vec<f64> = seeds.map(|run| stats::memory(run.episodes.len()).round()).collect();
        let low = memory.iter().copied().fold(f64::INFINITY, f64::min);
        let high = memory.iter().copied().fold(0.0, f64::max);
        match high {
            0.0..=1.0 => "Training score".to_owned(),
            _ if low == high => format!("Training score smoothed over about {high} episodes"),
            _ => format!("Training score smoothed over about {low} to {high} episodes"),
        }
    }

    pub(crate) fn averaged_seeds(&self) -> &'static str {
        let mut provisional = self.agents.iter().map(|agent| agent.provisional);
        let (any, all) = (provisional.clone().any(|one| one), provisional.all(|one| one));
        match (any, all, self.frozen_games.is_some()) {
            (false, ..) => "finished seeds",
            (_, true, false) => "unfinished seeds (dashed)",
            (_, true, true) => "unfinished seeds (dashed, without dots)",
            (_, _, false) => "finished seeds (dashed: unfinished ones)",
            (_, _, true) => "finished seeds (dashed without dots: unfinished ones)",
        }
    }

    pub(crate) fn agent(&self, name: &str) -> Option<&Agent<'_>> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    pub(crate) fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.agent == name)
    }

    /// Whether an agent ends clearly above another ([`stats::clear_pairs`]).
    pub(crate) fn is_clear(&self, agent: &str, above: &str) -> bool {
        self.clear.iter().any(|(higher, lower)| higher == agent && lower == above)
    }

    pub(crate) fn grid(&self, clock: Clock) -> &[u64] {
        match clock {
            Clock::Frames => &self.grid,
            Clock::Time => &self.hour_grid,
        }
    }
}

impl<'a> Agent<'a> {
    pub(crate) fn seeds(&self) -> usize {
        self.finished.len() + self.unfinished.len()
    }

    /// Seeds that were taken out of training, mostly because they diverged.
    pub(crate) fn stopped(&self) -> usize {
        self.unfinished.iter().filter(|run| run.status == AgentStatus::Stopped).count()
    }

    /// The largest number of seeds in any point of the mean curve.
    pub(crate) fn full(&self) -> usize {
        if self.provisional { self.unfinished.len() } else { self.finished.len() }
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = &'a AgentRun> {
        self.finished.iter().chain(&self.unfinished).copied()
    }

    /// Whether it learns the values of the task's own rewards. Otherwise its TD errors cannot be compared with other agents'.
    pub(crate) fn sees_true_rewards(&self) -> bool {
        self.runs().all(|run| run.sees_true_rewards)
    }

    pub(crate) fn curves(&self, clock: Clock) -> &Curves<'a> {
        match clock {
            Clock::Frames => &self.by_frames,
            Clock::Time => &self.by_hours,
        }
    }
}

/// Groups and merges runs and computes all results.
pub(crate) fn analyse<'a>(
    named: &'a naming::Named<'_>,
    baseline: Option<&str>,
    references: &[ReferenceScores],
) -> Result<Vec<Task<'a>>, ReportError> {
    let runs: &[Run] = &named.runs;
    if runs.is_empty() {
        return Err(ReportError::Empty);
    }
    let mut names: Vec<&str> = Vec::new();
    for agent in runs.iter().flat_map(|run| &run.agents) {
        if !names.contains(&agent.agent.as_str()) {
            names.push(&agent.agent);
        }
    }
    let palette = Palette::new(&names);
    merge::experiments(runs)
        .into_iter()
        .map(|experiment| {
            let notes = named.notes_of(experiment.runs[0]).collect();
            analyse_task(experiment, notes, &palette, baseline, references)
        })
        .collect()
}

fn analyse_task<'a>(
    experiment: merge::Experiment<'a>,
    mut merge_notes: Vec<String>,
    palette: &Palette,
    baseline: Option<&str>,
    references: &[ReferenceScores],
) -> Result<Task<'a>, ReportError> {
    let merge::Experiment { slug, runs } = experiment;
    merge_notes.extend(merge::check(&runs)?);
    let mut order: Vec<&str> = Vec::new();
    for agent in runs.iter().flat_map(|run| &run.agents) {
        if !order.contains(&agent.agent.as_str()) {
            order.push(&agent.agent);
        }
    }
    // The baseline comes first. The others keep the order in which the runs name them.
    order.sort_by_key(|name| Some(*name) != baseline);

    let agent_runs = || runs.iter().flat_map(|run| &run.agents);
    let planned = runs[0].frames;
    let last = agent_runs().map(|agent| agent.frames).max().unwrap_or(0).max(planned);
    let grid = stats::frame_grid(last, curves::GRID_POINTS);
    let hour_grid = curves::hour_grid(agent_runs());
    let human = HumanScore::of_task(&runs[0].task);
    let mut agents = Vec::new();
    for name in order {
        let mut seeds: Vec<&AgentRun> = agent_runs().filter(|agent| agent.agent == name).collect();
        seeds.sort_by_key(|agent| agent.seed);
        agents.push(analyse_agent(name, seeds, &grid, &hour_grid, palette.style(name)));
    }
    let mut rows: Vec<Row> = agents.iter().map(|agent| scores::final_row(agent, human)).collect();
    rows.sort_by(|a, b| {
        let key = |row: &Row| row.mean.unwrap_or(f64::NEG_INFINITY);
        key(b).total_cmp(&key(a))
    });
    Ok(Task {
        name: runs[0].task.clone(),
        protocol: runs[0].protocol.clone(),
        frames: planned,
        frames_per_step: runs[0].frames_per_step,
        clear: scores::clear(&rows),
        comparisons: scores::compare(&rows, baseline),
        improvements: scores::improvements(&rows, baseline),
        profile: scores::task_profile(&rows),
        frozen_games: frozen::words(&runs),
        both_models: frozen::both_models(&runs),
        marks: reference::marks(&runs, references, human),
        slug,
        merge_notes,
        grid,
        hour_grid,
        human,
        agents,
        rows,
        runs,
    })
}

fn analyse_agent<'a>(
    name: &str,
    seeds: Vec<&'a AgentRun>,
    grid: &[u64],
    hour_grid: &[u64],
    style: Style,
) -> Agent<'a> {
    let (finished, unfinished): (Vec<&AgentRun>, Vec<&AgentRun>) =
        seeds.into_iter().partition(|agent| agent.status == AgentStatus::Finished);
    let provisional = finished.is_empty();
    let averaged = if provisional { &unfinished } else { &finished };
    let apart: &[&AgentRun] = if provisional { &[] } else { &unfinished };
    Agent {
        name: name.to_owned(),
        style,
        by_frames: curves::curves(averaged, apart, grid, Clock::Frames),
        by_hours: curves::curves(averaged, apart, hour_grid, Clock::Time),
        provisional,
        frozen: Frozen::of(averaged, &finished),
        td_lines: curves::td_lines(averaged, grid),
        panels: diagnostics::panels(averaged, grid),
        finished,
        unfinished,
    }
}
