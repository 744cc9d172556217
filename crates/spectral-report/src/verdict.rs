//! The verdict on a claim: what our data show, whether that agrees, and why.

use crate::analysis::{Agent, Task};
use crate::claims::{Claim, Judgement, Rule, TdErrors, Verdict};
use crate::format::{number, short_count};
use crate::stats::{self, Interval, LEVEL};
use crate::td_verdict::{ending, last_errors, stability};

/// Judges every claim.
pub(crate) fn judge(claims: &[Claim], tasks: &[Task<'_>]) -> Vec<Judgement> {
    claims.iter().map(|claim| judge_one(claim, tasks)).collect()
}

/// One comparison that a claim consists of.
pub(crate) struct Check {
    verdict: Verdict,
    reason: String,
}

impl Check {
    pub fn new(verdict: Verdict, reason: impl Into<String>) -> Self {
        Self { verdict, reason: reason.into() }
    }
}

fn judge_one(claim: &Claim, tasks: &[Task<'_>]) -> Judgement {
    let judgement = |ours: String, verdict: Verdict, reason: String| Judgement {
        claim: claim.clone(),
        ours,
        verdict,
        reason,
        not_run: not_run(claim, tasks),
    };
    let Some(task) = longest(tasks, &claim.task) else {
        let reason = format!("{} was not run.", claim.task);
        return judgement("No data.".to_owned(), Verdict::Undecided, reason);
    };
    let ours = measured(task, tasks, claim);
    let checks = match preconditions(task, tasks, claim) {
        Err(reason) => return judgement(ours, Verdict::Undecided, reason),
        Ok(()) => checks(task, tasks, claim),
    };
    // One clear contradiction decides; agreement needs all.
    let has = |verdict: Verdict| checks.iter().any(|check| check.verdict == verdict);
    let verdict = if has(Verdict::Differ) {
        Verdict::Differ
    } else if has(Verdict::Undecided) {
        Verdict::Undecided
    } else {
        Verdict::Agree
    };
    let telling: Vec<String> =
        checks.iter().filter(|check| check.verdict == verdict).map(|check| check.reason.clone()).collect();
    let mut reason = sentence(&telling.join("; "));
    if verdict != Verdict::Agree && has(Verdict::Agree) {
        let agreeing = checks.iter().filter(|check| check.verdict == Verdict::Agree);
        let agreeing: Vec<String> = agreeing.map(|check| check.reason.clone()).collect();
        reason.push_str(&format!(" In agreement: {}.", agreeing.join("; ")));
    }
    let shortest = claim.agents().iter().filter_map(|name| trained(task, name)).min();
    if let Some(frames) = shortest.filter(|frames| *frames < claim.min_frames) {
        reason.push_str(&format!(
            " The runs end at {} frames, before the {} that the claim is about.",
            short_count(frames as f64),
            short_count(claim.min_frames as f64)
        ));
    }
    judgement(ours, verdict, reason)
}

/// Whether what a claim is about was not run at all: its task, or one of its agents on that task.
fn not_run(claim: &Claim, tasks: &[Task<'_>]) -> bool {
    longest(tasks, &claim.task)
        .is_none_or(|task| claim.agents().iter().any(|name| task.agent(name).is_none()))
}

/// Of several lengths of one task, the longest decides.
fn longest<'t, 'a>(tasks: &'t [Task<'a>], name: &str) -> Option<&'t Task<'a>> {
    tasks.iter().filter(|task| task.name == name).max_by_key(|task| task.trained())
}

/// Ends with a full stop. Names of agents stay as they are written everywhere else, even at the beginning.
fn sentence(text: &str) -> String {
    match text.strip_prefix("the ") {
        Some(rest) => format!("The {rest}."),
        None => format!("{text}."),
    }
}

/// Frames that every finished seed of an agent has trained for.
fn trained(task: &Task<'_>, name: &str) -> Option<u64> {
    task.agent(name)?.finished.iter().map(|run| run.frames).min()
}

/// A sentence with the measured values of the agents concerned.
fn measured(task: &Task<'_>, tasks: &[Task<'_>], claim: &Claim) -> String {
    let mut parts = Vec::new();
    let frames = claim.agents().iter().filter_map(|name| trained(task, name)).min().unwrap_or(task.frames);
    let after = short_count(frames as f64);
    if let Some(of) = claim.rule.td_errors() {
        for name in &of.agents {
            let mut errors = task.agent(name).map_or_else(Vec::new, |agent| last_errors(agent, of.scores));
            errors.sort_by(f64::total_cmp);
            parts.push(match errors.as_slice() {
                [] => format!("{name} meets none of the scores"),
                [low, .., high] => format!("{name} {} to {}%", number(*low), number(*high)),
                [one] => format!("{name} {}%", number(*one)),
            });
        }
        let [first, last] = of.scores;
        return format!(
            "TD error after {after} frames at the player’s scores {first} to {last}, lowest and highest of all seeds: {}.",
            parts.join("; ")
        );
    }
    if let Rule::HigherOnTask { agents, than } = &claim.rule {
        for name in agents {
            parts.push(format!("{} on {}", score_of(task, name), task.name));
            for other in than {
                parts.push(match longest(tasks, other) {
                    Some(there) => format!("{} on {other}", score_of(there, name)),
                    None => format!("{other} was not run"),
                });
            }
        }
    } else {
        parts.extend(claim.agents().into_iter().map(|name| score_of(task, name)));
    }
    format!("Final score after {after} frames: {}.", parts.join("; "))
}

/// An agent's final score on a task, as text.
fn score_of(task: &Task<'_>, name: &str) -> String {
    let Some(row) = task.row(name) else { return format!("{name} was not run") };
    let Some(mean) = row.mean else { return format!("{name} has no finished seed") };
    let count = row.per_seed.len();
    let seeds = if count == 1 { "1 seed".to_owned() } else { format!("{count} seeds") };
    let range = match (row.low95, row.high95) {
        (Some(low), Some(high)) => format!("{} to {}, ", number(low), number(high)),
        _ => String::new(),
    };
    format!("{name} {} ({range}{seeds})", number(mean))
}

/// Why an agent with stopped seeds cannot be judged. Seeds are mostly stopped because they diverge, so those that are left are
/// the better ones.
fn stopped(task: &Task<'_>, name: &str) -> Option<String> {
    let agent = task.agent(name).filter(|agent| agent.stopped() > 0)?;
    let (count, all) = (agent.stopped(), agent.seeds());
    let verb = if count == 1 { "was" } else { "were" };
    Some(format!(
        "{count} of {all} seeds of {name} {verb} stopped on {}; the others alone do not represent the agent.",
        task.name
    ))
}

/// The conditions without which nothing can be decided.
fn preconditions(task: &Task<'_>, tasks: &[Task<'_>], claim: &Claim) -> Result<(), String> {
    for name in claim.agents() {
        if task.agent(name).is_none() {
            return Err(format!("{name} was not run on {}.", task.name));
        }
        let count = task.row(name).map_or(0, |row| row.per_seed.len());
        if count < 2 {
            let have = if count == 0 { "no finished seed" } else { "one finished seed only" };
            return Err(format!("{name} has {have}; an interval needs two."));
        }
        if let Some(reason) = stopped(task, name) {
            return Err(reason);
        }
        if let Rule::HigherOnTask { than, .. } = &claim.rule {
            let there = than.iter().filter_map(|other| longest(tasks, other));
            if let Some(reason) = there.into_iter().find_map(|there| stopped(there, name)) {
                return Err(reason);
            }
        }
    }
    let resting: Vec<&str> = match &claim.rule {
        Rule::HigherFinal { better, .. } | Rule::OnParFinal { better, .. } => vec![better],
        rule if rule.td_errors().is_some() => Vec::new(),
        _ => claim.agents(),
    };
    for name in resting {
        if let Some(frames) = flat_until(task, name, claim) {
            return Err(format!(
                "The curve of {name} is flat so far and ends at {} frames; the paper’s may rise as late as {}.",
                short_count(frames as f64),
                short_count(claim.min_frames as f64)
            ));
        }
    }
    Ok(())
}

/// The frames at which an agent's curve ends that is flat and shorter than the claim asks for; `None` if it is not so.
fn flat_until(task: &Task<'_>, name: &str, claim: &Claim) -> Option<u64> {
    let (agent, frames) = (task.agent(name)?, trained(task, name)?);
    (frames < claim.min_frames && is_flat(task, agent, claim.flat_within)).then_some(frames)
}

/// A lead over an agent decides nothing while that agent's curve is flat and may still rise: the paper's own curves are flat
/// for long and then rise.
fn unless_it_may_rise(check: Check, task: &Task<'_>, worse: &str, claim: &Claim) -> Check {
    match flat_until(task, worse, claim) {
        Some(_) if check.verdict == Verdict::Agree => Check::new(
            Verdict::Undecided,
            format!(
                "{} so far, but the curve of {worse} is flat on {} and may still rise",
                check.reason, task.name
            ),
        ),
        _ => check,
    }
}

/// What an agent has not reached decides nothing before the claim's frames, even if its curve has risen already: `behind` is
/// the agent that would have to rise further for the check to come out otherwise.
fn unless_too_short(check: Check, task: &Task<'_>, behind: &str, decided: Verdict, claim: &Claim) -> Check {
    let short = trained(task, behind).is_some_and(|frames| frames < claim.min_frames);
    if short && check.verdict == decided {
        return Check::new(
            Verdict::Undecided,
            format!("{} so far, and {behind} may still rise", check.reason),
        );
    }
    check
}

/// Mean scores of a run's episodes in each fifth of its frames.
fn fifths(run: &crate::run::AgentRun) -> [Option<f64>; 5] {
    std::array::from_fn(|k| {
        let part =
            |frame: u64| (5 * u128::from(frame.saturating_sub(1)) / u128::from(run.frames.max(1))).min(4);
        let scores: Vec<f64> =
            run.episodes.iter().filter(|e| part(e.frame) == k as u128).map(|e| e.score).collect();
        stats::mean(&scores)
    })
}

/// No later fifth of the frames has a mean score above that of the first by more than `within` points; without
/// `within`, by more than a tenth of the spread of all the task's curves and than the spread of early episodes.
fn is_flat(task: &Task<'_>, agent: &Agent<'_>, within: Option<f64>) -> bool {
    let seeds: Vec<[Option<f64>; 5]> = agent.finished.iter().map(|run| fifths(run)).collect();
    let over_seeds = |k: usize| stats::mean(&seeds.iter().filter_map(|fifths| fifths[k]).collect::<Vec<_>>());
    let Some(start) = over_seeds(0) else { return true };
    let rise = (1..5).filter_map(over_seeds).map(|mean| mean - start).fold(0.0, f64::max);
    let within = within.unwrap_or_else(|| {
        let means = || task.agents.iter().flat_map(|a| &a.curves(crate::analysis::Clock::Frames).mean);
        let high = means().map(|point| point.mean).fold(f64::NEG_INFINITY, f64::max);
        let low = means().map(|point| point.mean).fold(f64::INFINITY, f64::min);
        let early: Vec<f64> = agent
            .finished
            .iter()
            .flat_map(|run| run.episodes.iter().filter(|e| e.frame <= run.frames / 5).map(|e| e.score))
            .collect();
        let centre = stats::mean(&early).unwrap_or(0.0);
        let squares: Vec<f64> = early.iter().map(|score| (score - centre).powi(2)).collect();
        (0.1 * (high - low)).max(stats::mean(&squares).unwrap_or(0.0).sqrt())
    });
    rise <= within
}

fn checks(task: &Task<'_>, tasks: &[Task<'_>], claim: &Claim) -> Vec<Check> {
    let scores =
        |task: &Task<'_>, name: &str| task.row(name).map_or_else(Vec::new, |row| row.per_seed.clone());
    // A check for every agent, given whether it ended before the claim's frames.
    let of_td = |of: &TdErrors, check: &dyn Fn(&Agent<'_>, bool) -> Check| {
        let agents = of.agents.iter().filter_map(|name| Some((task.agent(name)?, trained(task, name))));
        let short = |frames: Option<u64>| frames.is_some_and(|frames| frames < claim.min_frames);
        agents.map(|(agent, frames)| check(agent, short(frames))).collect::<Vec<_>>()
    };
    let mut checks = Vec::new();
    match &claim.rule {
        Rule::HigherFinal { better, worse } => {
            for other in worse {
                let check = higher(better, &scores(task, better), other, &scores(task, other));
                let check = unless_too_short(check, task, better, Verdict::Differ, claim);
                checks.push(unless_it_may_rise(check, task, other, claim));
            }
        }
        Rule::OnParFinal { better, worse, margin } => {
            for other in worse {
                let check = on_par(better, &scores(task, better), other, &scores(task, other), *margin);
                let check = unless_too_short(check, task, better, Verdict::Differ, claim);
                checks.push(unless_it_may_rise(check, task, other, claim));
            }
        }
        Rule::SimilarFinal { agents, margin } => {
            for (k, one) in agents.iter().enumerate() {
                for other in &agents[k + 1..] {
                    let (first, second) = (scores(task, one), scores(task, other));
                    let check = similar(one, &first, other, &second, *margin);
                    let behind = if gap(&first, &second) < 0.0 { one } else { other };
                    checks.push(unless_too_short(check, task, behind, Verdict::Differ, claim));
                }
            }
        }
        Rule::FinalAbove { agents, value } | Rule::FinalBelow { agents, value } => {
            let above = matches!(claim.rule, Rule::FinalAbove { .. });
            for agent in agents {
                let check = against_value(agent, &scores(task, agent), *value, above);
                // Scores rise with training: what has not been reached yet may still be.
                let low = if above { Verdict::Differ } else { Verdict::Agree };
                checks.push(unless_too_short(check, task, agent, low, claim));
            }
        }
        Rule::HigherOnTask { agents, than } => {
            for agent in agents {
                for other in than {
                    checks.push(match longest(tasks, other) {
                        Some(there) if scores(there, agent).len() >= 2 => {
                            let here = format!("{agent} on {}", task.name);
                            let there_name = format!("on {other}");
                            let check =
                                higher(&here, &scores(task, agent), &there_name, &scores(there, agent));
                            let check = unless_too_short(check, task, agent, Verdict::Differ, claim);
                            unless_it_may_rise(check, there, agent, claim)
                        }
                        _ => Check::new(
                            Verdict::Undecided,
                            format!("{agent} has fewer than two finished seeds on {other}"),
                        ),
                    });
                }
            }
        }
        Rule::TdErrorBelow(of) => checks = of_td(of, &|agent, short| ending(agent, of, true, short)),
        Rule::TdErrorAbove(of) => checks = of_td(of, &|agent, short| ending(agent, of, false, short)),
        Rule::TdErrorStable(of) => checks = of_td(of, &|agent, short| stability(agent, of, false, short)),
        Rule::TdErrorSpikes(of) => checks = of_td(of, &|agent, short| stability(agent, of, true, short)),
    }
    checks
}

fn range(interval: Interval) -> String {
    format!("95% interval {} to {}", number(interval.low), number(interval.high))
}

fn no_interval(name: &str) -> Check {
    let needed = "it takes three seeds, or two that did not end alike";
    Check::new(Verdict::Undecided, format!("there is no interval for {name}: {needed}"))
}

fn gap(first: &[f64], second: &[f64]) -> f64 {
    stats::mean(first).unwrap_or(f64::NAN) - stats::mean(second).unwrap_or(f64::NAN)
}

fn higher(better: &str, first: &[f64], worse: &str, second: &[f64]) -> Check {
    let Some(interval) = stats::cautious_difference(first, second, LEVEL) else { return no_interval(better) };
    let details = format!("{}, probability of improvement {}", range(interval), chance(first, second));
    let by = number(gap(first, second).abs());
    if interval.low > 0.0 {
        Check::new(Verdict::Agree, format!("{better} ends above {worse} by {by} ({details})"))
    } else if interval.high < 0.0 {
        Check::new(Verdict::Differ, format!("{better} ends below {worse} by {by} ({details})"))
    } else {
        let reason = format!(
            "{better} and {worse} cannot be told apart: the difference’s {} includes zero (probability of improvement {})",
            range(interval),
            chance(first, second)
        );
        Check::new(Verdict::Undecided, reason)
    }
}

/// The probability of improvement with its interval.
fn chance(first: &[f64], second: &[f64]) -> String {
    let point = stats::probability_of_improvement(&[first.to_vec()], &[second.to_vec()]).unwrap_or(f64::NAN);
    match stats::improvement_interval(first, second, LEVEL) {
        Some(range) => format!("{point:.2}, {:.2} to {:.2}", range.low, range.high),
        None => format!("{point:.2}"),
    }
}

/// A `share` of the larger |mean|, in points.
fn points(share: f64, first: &[f64], second: &[f64]) -> f64 {
    let size = |values: &[f64]| stats::mean(values).unwrap_or(0.0).abs();
    share * size(first).max(size(second))
}

fn on_par(better: &str, first: &[f64], worse: &str, second: &[f64], margin: f64) -> Check {
    let Some(interval) = stats::cautious_difference(first, second, LEVEL) else { return no_interval(better) };
    let room = points(margin, first, second);
    let (details, room_text) = (range(interval), number(room));
    if interval.low > -room {
        Check::new(
            Verdict::Agree,
            format!("{better} minus {worse} is no less than −{room_text}, the margin ({details})"),
        )
    } else if interval.high < -room {
        Check::new(
            Verdict::Differ,
            format!("{better} ends below {worse} by more than {room_text} ({details})"),
        )
    } else {
        Check::new(
            Verdict::Undecided,
            format!("{better} may lie below {worse} by more than {room_text} or not ({details})"),
        )
    }
}

fn similar(one: &str, first: &[f64], other: &str, second: &[f64], margin: f64) -> Check {
    let Some(interval) = stats::cautious_difference(first, second, LEVEL) else { return no_interval(one) };
    let room = points(margin, first, second);
    let (details, room_text) = (range(interval), number(room));
    if interval.low > -room && interval.high < room {
        Check::new(Verdict::Agree, format!("{one} and {other} differ by less than {room_text} ({details})"))
    } else if interval.low > room || interval.high < -room {
        Check::new(Verdict::Differ, format!("{one} and {other} differ by more than {room_text} ({details})"))
    } else {
        Check::new(
            Verdict::Undecided,
            format!("{one} and {other} may differ by more than {room_text} or not ({details})"),
        )
    }
}

fn against_value(agent: &str, scores: &[f64], value: f64, above: bool) -> Check {
    let Some(interval) = stats::cautious_mean(scores, LEVEL) else { return no_interval(agent) };
    let (details, bound) = (range(interval), number(value));
    let verdict = |claimed: bool| if claimed { Verdict::Agree } else { Verdict::Differ };
    if interval.low > value {
        Check::new(verdict(above), format!("{agent} ends above {bound} ({details})"))
    } else if interval.high < value {
        Check::new(verdict(!above), format!("{agent} ends below {bound} ({details})"))
    } else {
        Check::new(
            Verdict::Undecided,
            format!("the mean of {agent} may lie on either side of {bound} ({details})"),
        )
    }
}
