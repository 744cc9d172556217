//! Frozen games: the curve of an agent's evaluations, the last of them, and the best.

use super::curves::Clock;
use crate::csv::MODELS;
use crate::format::list;
use crate::run::{AgentRun, Evaluation, Run};
use crate::stats;

/// The model that is being trained, and that with the running mean of its weights.
const LAST: &str = MODELS[0];
const AVERAGE: &str = MODELS[1];

/// The frozen games of an agent.
#[derive(Default)]
pub(crate) struct Frozen {
    /// By frames and by time, the mean over seeds at every moment at which all of them played.
    by_frames: Vec<(u64, f64)>,
    by_time: Vec<(u64, f64)>,
    /// Mean over finished seeds of the last evaluation, with the model as it was then.
    pub last: Option<f64>,
    /// Mean over finished seeds of the last evaluation of the averaged model.
    pub averaged: Option<f64>,
    /// Mean over finished seeds of each one's best evaluation, of either model.
    pub best: Option<f64>,
}

impl Frozen {
    /// Of these seeds; only finished ones count for the last and the best.
    pub(super) fn of<'r>(averaged: &[&'r AgentRun], finished: &[&'r AgentRun]) -> Self {
        let mut frozen = Frozen::default();
        let [first, others @ ..] = averaged else { return frozen };
        for row in plays(first, LAST) {
            let same = |run: &&'r AgentRun| plays(run, LAST).find(move |other| other.frame == row.frame);
            let all: Option<Vec<&Evaluation>> =
                std::iter::once(Some(row)).chain(others.iter().map(same)).collect();
            let Some(mean) = all.and_then(|all| mean(all.iter().map(|row| row.score))) else { continue };
            frozen.by_frames.push((row.frame, mean));
            let times = averaged.iter().map(|run| Clock::Time.read(run, row.frame));
            if let Some(times) = times.collect::<Option<Vec<u64>>>() {
                frozen.by_time.push((times.iter().sum::<u64>() / times.len() as u64, mean));
            }
        }
        frozen.last = over_seeds(finished, |run| plays(run, LAST).last().map(|row| row.score));
        frozen.averaged = over_seeds(finished, |run| plays(run, AVERAGE).last().map(|row| row.score));
        frozen.best = over_seeds(finished, |run| {
            run.evaluations.iter().map(|row| row.score).filter(|score| score.is_finite()).reduce(f64::max)
        });
        frozen
    }

    /// The curve against one clock.
    pub(crate) fn curve(&self, clock: Clock) -> &[(u64, f64)] {
        match clock {
            Clock::Frames => &self.by_frames,
            Clock::Time => &self.by_time,
        }
    }
}

/// The evaluations of one of the agent's models.
fn plays<'r>(run: &'r AgentRun, model: &'static str) -> impl Iterator<Item = &'r Evaluation> {
    run.evaluations.iter().filter(move |row| row.model == model)
}

/// Whether the averaged model played too, in any of these runs.
pub(super) fn both_models(runs: &[&Run]) -> bool {
    let mut agents = runs.iter().flat_map(|run| &run.agents);
    agents.any(|run| plays(run, AVERAGE).next().is_some())
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    stats::mean(&values.collect::<Vec<f64>>()).filter(|mean| mean.is_finite())
}

/// The mean over seeds, if each of them has a value.
fn over_seeds(seeds: &[&AgentRun], value: impl Fn(&AgentRun) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = seeds.iter().map(|run| value(run)).collect();
    values.and_then(|values| mean(values.into_iter()))
}

/// What frozen games of these runs are, in words; none if they played none.
pub(super) fn words(runs: &[&Run]) -> Option<String> {
    let agents = || runs.iter().flat_map(|run| &run.agents);
    let distinct = |mut values: Vec<String>| {
        values.sort();
        values.dedup();
        list(&values)
    };
    let games: Vec<String> =
        agents().flat_map(|run| &run.evaluations).map(|row| row.games.to_string()).collect();
    if games.is_empty() {
        return None;
    }
    let played = |run: &&&Run| run.agents.iter().any(|agent| !agent.evaluations.is_empty());
    let epsilons = runs.iter().filter(played).filter_map(|run| run.eval_epsilon);
    let epsilons: Vec<String> = epsilons.map(|epsilon| epsilon.to_string()).collect();
    let at = if epsilons.is_empty() { String::new() } else { format!(" at ε {}", distinct(epsilons)) };
    Some(format!("{} whole games{at} with a copy of the model that does not learn", distinct(games)))
}
