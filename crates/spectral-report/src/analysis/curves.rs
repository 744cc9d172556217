//! Curves over seeds, against frames and against time, and the TD error by the player's score.

use std::collections::BTreeSet;

use crate::run::{AgentRun, Episode};
use crate::stats::{self, CurvePoint};

/// Points along the horizontal axis of every curve.
pub(super) const GRID_POINTS: u64 = 240;

/// The quantity on a horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Emulator frames of the agent.
    Frames,
    /// Milliseconds of training of the agent's population, at the run's mean speed.
    Time,
}

/// An agent's curves against one clock.
pub(crate) struct Curves<'a> {
    /// Over finished seeds; over unfinished ones only if none has finished.
    pub mean: Vec<CurvePoint>,
    /// Unfinished seeds, drawn separately because they must not be averaged with finished ones.
    pub apart: Vec<SeedCurve<'a>>,
    /// The seeds behind the mean, one by one.
    pub seeds: Vec<SeedCurve<'a>>,
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

/// Milliseconds up to the end of the slowest run; empty if no run has recorded its time.
pub(super) fn hour_grid<'a>(members: impl Iterator<Item = &'a AgentRun>) -> Vec<u64> {
    let last = members.filter_map(|run| Clock::Time.read(run, run.frames)).max();
    last.filter(|last| *last > 0).map_or_else(Vec::new, |last| stats::frame_grid(last, GRID_POINTS))
}

impl Clock {
    /// The clock's value when the agent had seen `frame` frames.
    pub(super) fn read(self, run: &AgentRun, frame: u64) -> Option<u64> {
        match self {
            Self::Frames => Some(frame),
            Self::Time => Some((frame as f64 * run.seconds_per_frame? * 1000.0).round() as u64),
        }
    }
}

pub(super) fn curves<'a>(
    averaged: &[&'a AgentRun],
    apart: &[&'a AgentRun],
    grid: &[u64],
    clock: Clock,
) -> Curves<'a> {
    if grid.is_empty() {
        return Curves { mean: Vec::new(), apart: Vec::new(), seeds: Vec::new() };
    }
    let one = |run: &AgentRun| -> Option<Vec<Option<f64>>> {
        let episodes: Option<Vec<Episode>> = run
            .episodes
            .iter()
            .map(|episode| Some(Episode { frame: clock.read(run, episode.frame)?, ..*episode }))
            .collect();
        // One grid step is allowed, so that a curve does not end one step early because a few frames are missing.
        let reach = clock.read(run, run.frames)? + grid[0].saturating_sub(1);
        Some(stats::seed_curve(&episodes?, grid, reach))
    };
    let with_curve = |runs: &[&'a AgentRun]| -> Vec<(&'a AgentRun, Vec<Option<f64>>)> {
        runs.iter().filter_map(|&run| Some((run, one(run)?))).collect()
    };
    let drawn = |(run, curve): &(&'a AgentRun, Vec<Option<f64>>)| SeedCurve {
        run,
        points: grid.iter().zip(curve).filter_map(|(&at, value)| Some((at, (*value)?))).collect(),
    };
    let averaged = with_curve(averaged);
    let seeds = averaged.iter().map(drawn).collect();
    let apart = with_curve(apart).iter().map(drawn).collect();
    let averaged: Vec<_> = averaged.into_iter().map(|(_, curve)| curve).collect();
    Curves { mean: stats::curve_over_seeds(grid, &averaged), apart, seeds }
}

/// The frame up to which an agent's values are drawn.
pub(super) fn reach(run: &AgentRun, grid: &[u64]) -> u64 {
    run.frames + grid[0].saturating_sub(1)
}

/// Mean |error| over seeds ÷ mean |target| over seeds, at every score that was ever sampled.
pub(super) fn td_lines(seeds: &[&AgentRun], grid: &[u64]) -> Vec<TdLine> {
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
