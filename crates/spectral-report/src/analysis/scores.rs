//! Final scores: rows, comparisons, probabilities of improvement and performance profiles.

use std::slice;

use super::Agent;
use crate::human::HumanScore;
use crate::stats::{self, Interval, LEVEL};
use crate::summary::{Comparison, Improvement, Row};

/// Performance profiles of several agents over common thresholds.
pub(crate) struct Profile {
    /// Every score at which a profile steps, in ascending order.
    pub thresholds: Vec<f64>,
    pub lines: Vec<ProfileLine>,
}

/// One agent's profile.
pub(crate) struct ProfileLine {
    pub agent: String,
    /// Share of seeds above each threshold.
    pub share: Vec<f64>,
    /// 95% band; empty where there is none.
    pub band: Vec<Interval>,
}

pub(super) fn final_row(agent: &Agent<'_>, human: Option<&HumanScore>) -> Row {
    let per_seed: Vec<f64> =
        agent.finished.iter().filter_map(|run| stats::final_score(&run.episodes, run.frames)).collect();
    let at90 = stats::cautious_mean(&per_seed, 0.90);
    let at95 = stats::cautious_mean(&per_seed, LEVEL);
    let tasks = [per_seed];
    let iqm95 = stats::stratified_interval(&tasks, stats::interquartile_mean, LEVEL);
    let iqm = stats::interquartile_mean(&tasks);
    let [per_seed] = tasks;
    let mean = stats::mean(&per_seed);
    Row {
        agent: agent.name.clone(),
        seeds: agent.seeds(),
        finished: agent.finished.len(),
        mean,
        low90: at90.map(|interval| interval.low),
        high90: at90.map(|interval| interval.high),
        low95: at95.map(|interval| interval.low),
        high95: at95.map(|interval| interval.high),
        iqm,
        iqm_low95: iqm95.map(|interval| interval.low),
        iqm_high95: iqm95.map(|interval| interval.high),
        frozen: agent.frozen.last,
        averaged: agent.frozen.averaged,
        frozen_best: agent.frozen.best,
        human_normalised: human.zip(mean).map(|(human, mean)| human.normalise(mean)),
        per_seed,
        random_baseline: human.map(|human| human.random),
    }
}

/// Pairs of agents of which the first ends clearly above the second.
pub(super) fn clear(rows: &[Row]) -> Vec<(String, String)> {
    let groups: Vec<&[f64]> = rows.iter().map(|row| row.per_seed.as_slice()).collect();
    let name = |place: usize| rows[place].agent.clone();
    stats::clear_pairs(&groups, LEVEL).into_iter().map(|(one, other)| (name(one), name(other))).collect()
}

/// The baseline, or the best agent if there is none, and the others.
fn sides<'r>(rows: &'r [Row], baseline: Option<&str>) -> Option<(&'r Row, Vec<&'r Row>)> {
    let named = rows.iter().find(|row| Some(row.agent.as_str()) == baseline && row.mean.is_some());
    let agent = named.or_else(|| rows.iter().find(|row| row.mean.is_some()))?;
    Some((agent, rows.iter().filter(|other| other.agent != agent.agent).collect()))
}

pub(super) fn compare(rows: &[Row], baseline: Option<&str>) -> Vec<Comparison> {
    let Some((agent, others)) = sides(rows, baseline) else { return Vec::new() };
    others.into_iter().filter_map(|other| between(agent, other)).collect()
}

fn between(agent: &Row, other: &Row) -> Option<Comparison> {
    let at90 = stats::cautious_difference(&agent.per_seed, &other.per_seed, 0.90);
    let at95 = stats::cautious_difference(&agent.per_seed, &other.per_seed, LEVEL);
    let own = |row: &Row| Some(Interval { low: row.low90?, high: row.high90? });
    Some(Comparison {
        agent: agent.agent.clone(),
        other: other.agent.clone(),
        difference: agent.mean? - other.mean?,
        low90: at90.map(|interval| interval.low),
        high90: at90.map(|interval| interval.high),
        low95: at95.map(|interval| interval.low),
        high95: at95.map(|interval| interval.high),
        overlap90: own(agent).zip(own(other)).map(|(a, b)| a.overlaps(&b)),
    })
}

pub(super) fn improvements(rows: &[Row], baseline: Option<&str>) -> Vec<Improvement> {
    let Some((agent, others)) = sides(rows, baseline) else { return Vec::new() };
    others.into_iter().filter_map(|other| improvement(agent, other)).collect()
}

fn improvement(agent: &Row, other: &Row) -> Option<Improvement> {
    let (first, second) = (&agent.per_seed, &other.per_seed);
    let at95 = stats::improvement_interval(first, second, LEVEL);
    Some(Improvement {
        agent: agent.agent.clone(),
        other: other.agent.clone(),
        probability: stats::probability_of_improvement(slice::from_ref(first), slice::from_ref(second))?,
        low95: at95.map(|interval| interval.low),
        high95: at95.map(|interval| interval.high),
    })
}

/// The profile of one task's final scores; `None` if no agent has one.
pub(super) fn task_profile(rows: &[Row]) -> Option<Profile> {
    let agents = rows.iter().map(|row| (row.agent.clone(), vec![row.per_seed.clone()]));
    profile(agents.filter(|(_, tasks)| !tasks[0].is_empty()).collect())
}

/// The band of a profile. On one task, the share of seeds above a score is that of independent trials, for which there is an
/// interval that holds with few of them. Over several tasks it is the stratified bootstrap's.
fn band(tasks: &[Vec<f64>], thresholds: &[f64]) -> Vec<Interval> {
    let [seeds] = tasks else { return stats::profile_band(tasks, thresholds, LEVEL) };
    let shares = stats::performance_profile(tasks, thresholds);
    shares.iter().filter_map(|share| stats::binomial_interval(*share, seeds.len(), LEVEL)).collect()
}

/// Profiles of agents over the scores of one or more tasks.
pub(crate) fn profile(agents: Vec<(String, Vec<Vec<f64>>)>) -> Option<Profile> {
    let mut thresholds: Vec<f64> = agents.iter().flat_map(|(_, tasks)| tasks.concat()).collect();
    thresholds.sort_by(f64::total_cmp);
    thresholds.dedup();
    if thresholds.is_empty() {
        return None;
    }
    let line = |(agent, tasks): (String, Vec<Vec<f64>>)| ProfileLine {
        share: stats::performance_profile(&tasks, &thresholds),
        band: band(&tasks, &thresholds),
        agent,
    };
    let lines = agents.into_iter().map(line).collect();
    Some(Profile { thresholds, lines })
}
