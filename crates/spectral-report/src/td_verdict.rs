//! Verdicts on how TD errors end, and on whether they are stable.
//!
//! Each seed is judged for itself. If errors and targets were summed over seeds first, the seed with the largest targets would
//! decide, and targets of seeds that reached different scores differ by factors of a thousand.

use crate::analysis::Agent;
use crate::claims::{TdErrors, Verdict};
use crate::run::{AgentRun, TdError};
use crate::stats::final_frame;
use crate::verdict::Check;

/// An error has spiked when it rises above this many times the percentage that it had fallen to.
const SPIKE: f64 = 2.0;
/// The rate of the running means in `td_error.csv`. The crate that writes them (`spectral-agent/src/diagnostics.rs`) and this
/// one share no code, so the number stands in both, and in docs/RUN_DIRECTORY.md.
const RATE: f64 = 1e-3;

/// How the TD error at one of the player's scores ended, in one seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    /// The score was never sampled.
    Never,
    /// The score is no longer met: the last value is that of an earlier agent.
    Stale,
    /// The percentage at the end of training; infinite after a divergence.
    At(f64),
}

/// How the errors of one seed, which trained for so many frames, ended at each of the scores.
pub(crate) fn ends(rows: &[TdError], frames: u64, [first, last]: [i64; 2]) -> Vec<End> {
    let end = |score: i64| {
        let rows = || rows.iter().filter(|row| row.player_score == score && row.abs_target != 0.0);
        let Some(row) = rows().next_back() else { return End::Never };
        // Where records are far apart, the last one but one may be older than the last tenth.
        let since = final_frame(frames).min(row.frame.saturating_sub(1));
        let before = rows().rfind(|row| row.frame <= since);
        if is_stale(row, before) { End::Stale } else { End::At(percentage(row)) }
    };
    (first..=last).map(end).collect()
}

/// Whether most of what a running mean holds is older than the last tenth of training, which began when it stood at `before`.
fn is_stale(now: &TdError, before: Option<&TdError>) -> bool {
    let Some(before) = before else { return false };
    match (now.samples, before.samples) {
        (Some(now), Some(before)) => {
            let weight = |samples: u64| -((samples as f64) * (-RATE).ln_1p()).exp_m1();
            weight(now.saturating_sub(before)) < 0.5 * weight(now)
        }
        // Without counts this much is known: what is not sampled does not move.
        _ => now.abs_error == before.abs_error && now.abs_target == before.abs_target,
    }
}

/// An error as a percentage of its target. A value that is not finite is a divergence, which counts as higher than any.
fn percentage(row: &TdError) -> f64 {
    let share = 100.0 * row.abs_error / row.abs_target;
    if share.is_finite() && row.abs_target.is_finite() { share } else { f64::INFINITY }
}

/// Finished seeds whose TD errors were recorded.
fn recorded<'a>(agent: &Agent<'a>) -> impl Iterator<Item = &'a AgentRun> {
    agent.finished.iter().copied().filter(|run| !run.td_errors.is_empty())
}

/// Where the TD percentage errors of all seeds ended, at those of the scores that are still met.
pub(crate) fn last_errors(agent: &Agent<'_>, scores: [i64; 2]) -> Vec<f64> {
    let all = recorded(agent).flat_map(|run| ends(&run.td_errors, run.frames, scores));
    all.filter_map(|end| if let End::At(percent) = end { Some(percent) } else { None }).collect()
}

/// Whether the errors of every seed end at or below a percentage, or above it. `short`: training ended before the claim's
/// frames.
pub(crate) fn ending(agent: &Agent<'_>, of: &TdErrors, below: bool, short: bool) -> Check {
    let (name, percent, scores) = (&agent.name, of.percent, of.scores);
    let seeds: Vec<Vec<End>> = recorded(agent).map(|run| ends(&run.td_errors, run.frames, scores)).collect();
    if seeds.is_empty() {
        return none_recorded(name);
    }
    let total = (scores[1] - scores[0] + 1) as usize;
    let accurate = |end: &End| matches!(end, End::At(error) if *error <= percent);
    let high = |end: &End| matches!(end, End::At(error) if *error > percent) || *end == End::Never;
    let holds = |end: &End| if below { accurate(end) } else { high(end) };
    let fails = |end: &End| if below { high(end) } else { accurate(end) };
    let number = |seed: &[End], of: &dyn Fn(&End) -> bool| seed.iter().filter(|end| of(end)).count();
    let agreeing = seeds.iter().filter(|seed| number(seed, &holds) == total).count();
    let differing = seeds.iter().filter(|seed| 2 * number(seed, &fails) > total).count();
    let all = seeds.concat();
    let mut reason = format!(
        "the TD error of {name} ends {} {percent}% at all of the {total} scores from {} to {} in {agreeing} of {} seeds, and \
         does not at more than half of them in {differing}; in all seeds together it ends at or below {percent}% at {} of {}",
        if below { "at or below" } else { "above" },
        scores[0],
        scores[1],
        seeds.len(),
        number(&all, &accurate),
        all.len()
    );
    let stale = number(&all, &|end| *end == End::Stale);
    if stale > 0 {
        reason.push_str(&format!(", and {stale} are no longer met"));
    }
    let verdict = if agreeing == seeds.len() {
        Verdict::Agree
    } else if 2 * differing > seeds.len() {
        Verdict::Differ
    } else {
        Verdict::Undecided
    };
    // Errors fall with training: one that has not fallen yet may still fall.
    let rests_on_high_errors = (verdict == Verdict::Agree) != below;
    if short && verdict != Verdict::Undecided && rests_on_high_errors {
        return Check::new(Verdict::Undecided, format!("{reason}, and may still fall"));
    }
    Check::new(verdict, reason)
}

/// Whether the errors of every seed, once at or below a percentage, spike or never do.
pub(crate) fn stability(agent: &Agent<'_>, of: &TdErrors, spikes: bool, short: bool) -> Check {
    let (name, percent, scores) = (&agent.name, of.percent, of.scores);
    let seeds: Vec<Course> =
        recorded(agent).map(|run| Course::of(&run.td_errors, run.frames, percent, scores)).collect();
    if seeds.is_empty() {
        return none_recorded(name);
    }
    let (stable, spiking) = (count(&seeds, Course::is_stable), count(&seeds, Course::spikes));
    let highest = seeds.iter().map(|seed| seed.highest).fold(0.0, f64::max);
    let mut reason = format!(
        "the TD errors of {name} at the scores from {} to {}, once at or below {percent}%, rise above {}% again at more than \
         half of the scores in {spiking} of {} seeds; in {stable} they fall to it at all scores and never do",
        scores[0],
        scores[1],
        SPIKE * percent,
        seeds.len()
    );
    if highest > SPIKE * percent {
        reason.push_str(&format!("; the highest rises to {}%", crate::format::number(highest)));
    }
    let stale: usize = seeds.iter().map(|seed| seed.stale).sum();
    if stale > 0 {
        reason.push_str(&format!("; {stale} of {} are no longer met, so that nothing is known of them", {
            seeds.iter().map(|seed| seed.scores).sum::<usize>()
        }));
    }
    let (claimed, opposite) = if spikes { (spiking, stable) } else { (stable, spiking) };
    let verdict = if claimed == seeds.len() {
        Verdict::Agree
    } else if 2 * opposite > seeds.len() {
        Verdict::Differ
    } else {
        Verdict::Undecided
    };
    // An error that has been stable so far may still spike.
    let rests_on_stability = (verdict == Verdict::Agree) != spikes;
    if short && verdict != Verdict::Undecided && rests_on_stability {
        return Check::new(Verdict::Undecided, format!("{reason}, so far"));
    }
    Check::new(verdict, reason)
}

/// The course of one seed's TD errors at a range of scores.
struct Course {
    scores: usize,
    /// Scores at which the error fell to the percentage.
    settled: usize,
    /// Scores that are no longer met, whose errors can therefore no longer rise.
    stale: usize,
    /// Of these, scores at which it spiked afterwards, and the highest percentage that one rose to.
    spiked: usize,
    highest: f64,
}

impl Course {
    fn of(rows: &[TdError], frames: u64, percent: f64, [first, last]: [i64; 2]) -> Course {
        let scores = (last - first + 1) as usize;
        let stale = ends(rows, frames, [first, last]).iter().filter(|end| **end == End::Stale).count();
        let mut course = Course { scores, settled: 0, stale, spiked: 0, highest: 0.0 };
        for score in first..=last {
            let rows = rows.iter().filter(|row| row.player_score == score && row.abs_target != 0.0);
            let mut errors = rows.map(percentage);
            if !errors.by_ref().any(|error| error <= percent) {
                continue;
            }
            course.settled += 1;
            let highest = errors.fold(0.0, f64::max);
            course.spiked += usize::from(highest > SPIKE * percent);
            course.highest = course.highest.max(highest);
        }
        course
    }

    fn is_stable(&self) -> bool {
        self.settled == self.scores && self.spiked == 0 && self.stale == 0
    }

    fn spikes(&self) -> bool {
        2 * self.spiked > self.scores
    }
}

fn count(seeds: &[Course], of: impl Fn(&Course) -> bool) -> usize {
    seeds.iter().filter(|seed| of(seed)).count()
}

fn none_recorded(name: &str) -> Check {
    Check::new(Verdict::Undecided, format!("no TD errors of {name} were recorded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(errors: &[(i64, f64)]) -> Course {
        let row = |(at, (player_score, share)): (usize, &(i64, f64))| TdError {
            frame: at as u64,
            player_score: *player_score,
            abs_error: share / 100.0 * 8.0,
            abs_target: 8.0,
            samples: None,
        };
        let rows: Vec<TdError> = errors.iter().enumerate().map(row).collect();
        Course::of(&rows, rows.len() as u64, 10.0, [0, 1])
    }

    #[test]
    fn a_seed_spikes_only_from_where_it_had_settled() {
        let falls = course(&[(0, 60.0), (1, 90.0), (0, 9.0), (1, 8.0), (0, 19.0), (1, 20.0), (7, 99.0)]);
        assert!(falls.is_stable() && !falls.spikes());
        let one = course(&[(0, 9.0), (1, 9.0), (0, 21.0), (1, 9.0)]);
        assert!(!one.is_stable() && !one.spikes(), "half of the scores are not most");
        let both = course(&[(0, 9.0), (1, 9.0), (0, 21.0), (1, f64::NAN), (0, 2.0), (1, 2.0)]);
        assert!(both.spikes() && both.highest == f64::INFINITY);
        let never = course(&[(0, 9.0), (1, 50.0), (1, 11.0)]);
        assert!(!never.is_stable() && !never.spikes(), "what never settled is neither");
        let gone = course(&[(0, 9.0), (1, 9.0), (0, 8.0), (1, 9.0)]);
        assert!(!gone.is_stable() && !gone.spikes(), "what is no longer met has not been stable to the end");
    }

    #[test]
    fn an_error_counts_only_while_its_score_is_met() {
        let row = |frame: u64, player_score: i64, share: f64, samples: Option<u64>| TdError {
            frame,
            player_score,
            abs_error: share,
            abs_target: 100.0,
            samples,
        };
        // Score 0 is met to the end, 1 only until half of the training, 2 once more at the end, 3 first at the end.
        let counted = [
            [row(50, 0, 9.0, Some(10_000)), row(50, 1, 4.0, Some(5_000)), row(50, 2, 7.0, Some(5_000))],
            [row(90, 0, 8.0, Some(20_000)), row(90, 1, 4.0, Some(5_000)), row(90, 2, 7.0, Some(5_000))],
            [row(100, 0, 6.0, Some(22_000)), row(100, 1, 4.0, Some(5_000)), row(100, 2, 7.1, Some(5_001))],
        ];
        let mut rows = counted.concat();
        rows.push(row(100, 3, 60.0, Some(3)));
        let expected = [End::At(6.0), End::Stale, End::Stale, End::At(60.0), End::Never];
        assert_eq!(ends(&rows, 100, [0, 4]), expected);
        // Half of a long running mean is that of its last 693 samples; of a short one, half of its samples.
        let met = |before: u64, now: u64| {
            let rows = [row(90, 0, 9.0, Some(before)), row(100, 0, 8.0, Some(now))];
            ends(&rows, 100, [0, 0]) == [End::At(8.0)]
        };
        assert!(met(1_000_000, 1_000_693) && !met(1_000_000, 1_000_692) && met(10, 20) && !met(10, 19));
        // Files of older versions have no counts. What is not sampled does not move; one sample more cannot be told.
        for row in &mut rows {
            row.samples = None;
        }
        let expected = [End::At(6.0), End::Stale, End::At(7.1), End::At(60.0), End::Never];
        assert_eq!(ends(&rows, 100, [0, 4]), expected);
        // Records that are further apart than a tenth: the last two are compared.
        let sparse =
            [row(40, 0, 9.0, None), row(80, 0, 8.0, None), row(40, 1, 9.0, None), row(80, 1, 9.0, None)];
        assert_eq!(ends(&sparse, 100, [0, 1]), [End::At(8.0), End::Stale]);
        let diverged = [row(50, 0, 9.0, None), row(100, 0, f64::NAN, None)];
        assert_eq!(ends(&diverged, 100, [0, 0]), [End::At(f64::INFINITY)]);
    }
}
