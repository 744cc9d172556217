//! From runs to what a report shows: runs of one experiment merged, agents grouped, curves and final scores.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::ReportError;
use crate::palette::{Palette, Style};
use crate::run::{AgentRun, AgentStatus, Run};
use crate::stats;
use crate::stats::CurvePoint;
use crate::summary::{Comparison, Row};

/// Points along the frame axis of every curve.
const GRID_POINTS: u64 = 240;

/// All runs of one task under one protocol and length.
pub(crate) struct Task<'a> {
    pub name: String,
    pub protocol: String,
    pub frames: u64,
    /// Unique beginning of this task's file names.
    pub slug: String,
    pub runs: Vec<&'a Run>,
    pub grid: Vec<u64>,
    pub agents: Vec<Agent<'a>>,
    pub rows: Vec<Row>,
    pub comparisons: Vec<Comparison>,
}

/// One agent's seeds on one task.
pub(crate) struct Agent<'a> {
    pub name: String,
    pub style: Style,
    pub finished: Vec<&'a AgentRun>,
    /// Running, interrupted or stopped.
    pub unfinished: Vec<&'a AgentRun>,
    /// Over finished seeds; over unfinished ones only if none has finished (then `provisional`).
    pub curve: Vec<CurvePoint>,
    pub provisional: bool,
    /// Unfinished seeds drawn for themselves, because they must not be averaged with finished ones.
    pub apart: Vec<SeedCurve<'a>>,
    pub td_lines: Vec<TdLine>,
}

/// The curve of a single seed.
pub(crate) struct SeedCurve<'a> {
    pub run: &'a AgentRun,
    pub points: Vec<(u64, f64)>,
}

/// TD percentage error at one of the player's scores, along the grid.
pub(crate) struct TdLine {
    pub player_score: i64,
    pub values: Vec<Option<f64>>,
}

impl Task<'_> {
    /// Frames of the longest finished seed: more than planned where a run was taken further.
    pub(crate) fn trained(&self) -> u64 {
        let finished = self.agents.iter().flat_map(|agent| &agent.finished);
        finished.map(|run| run.frames).max().unwrap_or(self.frames)
    }
}

impl Agent<'_> {
    pub(crate) fn seeds(&self) -> usize {
        self.finished.len() + self.unfinished.len()
    }

    /// How many seeds the mean curve holds where it holds most.
    pub(crate) fn full(&self) -> usize {
        if self.provisional { self.unfinished.len() } else { self.finished.len() }
    }

    pub(crate) fn settings_source(&self) -> Option<&AgentRun> {
        self.finished.iter().chain(&self.unfinished).next().copied()
    }
}

/// Groups, merges and computes.
pub(crate) fn analyse<'a>(runs: &'a [Run], baseline: Option<&str>) -> Result<Vec<Task<'a>>, ReportError> {
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

    let mut groups: Vec<Vec<&Run>> = Vec::new();
    for run in runs {
        // Runs of another length or protocol are another experiment: averaging them would compare unlike things.
        let same = |group: &&mut Vec<&Run>| {
            let first = group[0];
            (&first.task, &first.protocol, first.frames) == (&run.task, &run.protocol, run.frames)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    let mut slugs = BTreeSet::new();
    let mut tasks = Vec::new();
    for group in groups {
        let slug = unique_slug(group[0], &mut slugs);
        tasks.push(analyse_task(group, slug, &palette, baseline)?);
    }
    Ok(tasks)
}

fn unique_slug(run: &Run, taken: &mut BTreeSet<String>) -> String {
    let base = file_name(&run.task);
    let candidates = [base.clone(), file_name(&format!("{base}-{}-{}", run.protocol, run.frames))];
    let counted = (2..).map(|k| format!("{}-{k}", candidates[1]));
    let slug = candidates.iter().cloned().chain(counted).find(|name| !taken.contains(name));
    // The chain is endless, so a free name is always found.
    let slug = slug.unwrap_or(base);
    taken.insert(slug.clone());
    slug
}

/// Task names are free text: keep what is safe in a file name everywhere.
fn file_name(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = text.chars().map(safe).collect();
    let name = name.trim_matches(|c| c == '.' || c == '-').to_owned();
    if name.is_empty() { "task".to_owned() } else { name }
}

fn analyse_task<'a>(
    runs: Vec<&'a Run>,
    slug: String,
    palette: &Palette,
    baseline: Option<&str>,
) -> Result<Task<'a>, ReportError> {
    let mut seen: BTreeMap<(&str, u64), &Run> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for &run in &runs {
        for agent in &run.agents {
            if let Some(first) = seen.insert((&agent.agent, agent.seed), run) {
                return Err(ReportError::Duplicate {
                    task: run.task.clone(),
                    agent: agent.agent.clone(),
                    seed: agent.seed,
                    directories: [first.path.clone(), run.path.clone()],
                });
            }
            if !order.contains(&agent.agent.as_str()) {
                order.push(&agent.agent);
            }
        }
    }
    // The baseline leads; the others keep the order in which the runs name them.
    order.sort_by_key(|name| Some(*name) != baseline);

    let members = || runs.iter().flat_map(|run| &run.agents);
    let planned = runs[0].frames;
    let last = members().map(|agent| agent.frames).max().unwrap_or(0).max(planned);
    let grid = stats::frame_grid(last, GRID_POINTS);
    let mut agents = Vec::new();
    for name in order {
        let mut seeds: Vec<&AgentRun> = members().filter(|agent| agent.agent == name).collect();
        seeds.sort_by_key(|agent| agent.seed);
        agents.push(analyse_agent(name, seeds, &grid, palette.style(name)));
    }
    let mut rows: Vec<Row> = agents.iter().map(final_row).collect();
    rows.sort_by(|a, b| {
        let key = |row: &Row| row.mean.unwrap_or(f64::NEG_INFINITY);
        key(b).total_cmp(&key(a))
    });
    Ok(Task {
        name: runs[0].task.clone(),
        protocol: runs[0].protocol.clone(),
        frames: planned,
        slug,
        comparisons: compare(&rows, baseline),
        grid,
        agents,
        rows,
        runs,
    })
}

fn analyse_agent<'a>(name: &str, seeds: Vec<&'a AgentRun>, grid: &[u64], style: Style) -> Agent<'a> {
    let (finished, unfinished): (Vec<&AgentRun>, Vec<&AgentRun>) =
        seeds.into_iter().partition(|agent| agent.status == AgentStatus::Finished);
    let provisional = finished.is_empty();
    let averaged = if provisional { &unfinished } else { &finished };
    let curves: Vec<_> =
        averaged.iter().map(|run| stats::seed_curve(&run.episodes, grid, reach(run, grid))).collect();
    let mut apart = Vec::new();
    if !provisional {
        for &run in &unfinished {
            let curve = stats::seed_curve(&run.episodes, grid, reach(run, grid));
            let points = grid.iter().zip(curve).filter_map(|(&frame, value)| Some((frame, value?))).collect();
            apart.push(SeedCurve { run, points });
        }
    }
    Agent {
        name: name.to_owned(),
        style,
        curve: stats::curve_over_seeds(grid, &curves),
        provisional,
        apart,
        td_lines: td_lines(averaged, grid),
        finished,
        unfinished,
    }
}

/// The frame up to which an agent's curve is drawn: a whole grid step is granted, so that a curve does not end
/// one step early for want of a few frames.
fn reach(run: &AgentRun, grid: &[u64]) -> u64 {
    run.frames + grid[0].saturating_sub(1)
}

/// Mean |error| over seeds ÷ mean |target| over seeds, at every score that was ever sampled.
fn td_lines(seeds: &[&AgentRun], grid: &[u64]) -> Vec<TdLine> {
    let scores: BTreeSet<i64> =
        seeds.iter().flat_map(|run| run.td_errors.iter().map(|row| row.player_score)).collect();
    let mut lines = Vec::new();
    for player_score in scores {
        let mut errors = vec![0.0; grid.len()];
        let mut targets = vec![0.0; grid.len()];
        for run in seeds {
            let rows: Vec<_> = run.td_errors.iter().filter(|row| row.player_score == player_score).collect();
            let frames: Vec<u64> = rows.iter().map(|row| row.frame).collect();
            let error: Vec<f64> = rows.iter().map(|row| row.abs_error).collect();
            let target: Vec<f64> = rows.iter().map(|row| row.abs_target).collect();
            let until = reach(run, grid);
            let error = stats::interpolate(&frames, &error, grid, until);
            let target = stats::interpolate(&frames, &target, grid, until);
            for at in 0..grid.len() {
                if let (Some(error), Some(target)) = (error[at], target[at])
                    && (error + target).is_finite()
                {
                    errors[at] += error;
                    targets[at] += target;
                }
            }
        }
        let percent = |(error, target): (&f64, &f64)| {
            let share = 100.0 * error / target;
            (*target > 0.0 && share.is_finite() && share > 0.0).then_some(share)
        };
        let values: Vec<_> = errors.iter().zip(&targets).map(percent).collect();
        if values.iter().any(Option::is_some) {
            lines.push(TdLine { player_score, values });
        }
    }
    lines
}

fn final_row(agent: &Agent<'_>) -> Row {
    let per_seed: Vec<f64> =
        agent.finished.iter().filter_map(|run| stats::final_score(&run.episodes)).collect();
    let at90 = stats::mean_interval(&per_seed, 0.90);
    let at95 = stats::mean_interval(&per_seed, 0.95);
    Row {
        agent: agent.name.clone(),
        seeds: agent.seeds(),
        finished: agent.finished.len(),
        mean: stats::mean(&per_seed),
        low90: at90.map(|interval| interval.low),
        high90: at90.map(|interval| interval.high),
        low95: at95.map(|interval| interval.low),
        high95: at95.map(|interval| interval.high),
        per_seed,
        random_baseline: None,
    }
}

/// The baseline, or the best agent where there is none, against each of the others.
fn compare(rows: &[Row], baseline: Option<&str>) -> Vec<Comparison> {
    let named = rows.iter().find(|row| Some(row.agent.as_str()) == baseline && row.mean.is_some());
    let Some(agent) = named.or_else(|| rows.iter().find(|row| row.mean.is_some())) else { return Vec::new() };
    rows.iter().filter(|other| other.agent != agent.agent).filter_map(|other| between(agent, other)).collect()
}

fn between(agent: &Row, other: &Row) -> Option<Comparison> {
    let interval = stats::difference_interval(&agent.per_seed, &other.per_seed, 0.90);
    let own = |row: &Row| Some(stats::Interval { low: row.low90?, high: row.high90? });
    Some(Comparison {
        agent: agent.agent.clone(),
        other: other.agent.clone(),
        difference: agent.mean? - other.mean?,
        low90: interval.map(|interval| interval.low),
        high90: interval.map(|interval| interval.high),
        overlap90: own(agent).zip(own(other)).map(|(a, b)| a.overlaps(&b)),
    })
}
