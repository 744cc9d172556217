//! Verdicts on how TD errors end, and on whether they are stable.

use crate::analysis::Agent;
use crate::claims::{TdErrors, Verdict};
use crate::run::TdError;
use crate::verdict::Check;

/// An error has spiked when it rises above this many times the percentage that it had fallen to.
const SPIKE: f64 = 2.0;

/// Where the TD percentage errors ended, at those of the scores that were met.
pub(crate) fn last_errors(agent: &Agent<'_>, scores: [i64; 2]) -> Vec<f64> {
    let lines = agent.td_lines.iter().filter(|line| (scores[0]..=scores[1]).contains(&line.player_score));
    lines.filter_map(|line| line.values.iter().rev().find_map(|value| *value)).collect()
}

/// Whether the errors end at or below a percentage, or above it. `short`: training ended before the claim's frames.
pub(crate) fn ending(agent: &Agent<'_>, of: &TdErrors, below: bool, short: bool) -> Check {
    let (name, percent, scores) = (&agent.name, of.percent, of.scores);
    if agent.td_lines.is_empty() {
        return none_recorded(name);
    }
    let total = (scores[1] - scores[0] + 1) as usize;
    let accurate = last_errors(agent, scores).into_iter().filter(|error| *error <= percent).count();
    let reason = format!(
        "the TD error of {name} ends at or below {percent}% at {accurate} of the {total} scores from {} to {}",
        scores[0], scores[1]
    );
    let holding = if below { accurate } else { total - accurate };
    let verdict = if holding == total {
        Verdict::Agree
    } else if 2 * holding < total {
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
    let recorded = agent.finished.iter().filter(|run| !run.td_errors.is_empty());
    let seeds: Vec<Course> = recorded.map(|run| Course::of(&run.td_errors, percent, scores)).collect();
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
    /// Of these, scores at which it spiked afterwards, and the highest percentage that one rose to.
    spiked: usize,
    highest: f64,
}

impl Course {
    fn of(rows: &[TdError], percent: f64, [first, last]: [i64; 2]) -> Course {
        let mut course = Course { scores: (last - first + 1) as usize, settled: 0, spiked: 0, highest: 0.0 };
        for score in first..=last {
            let rows = rows.iter().filter(|row| row.player_score == score);
            // A value that is not finite is a divergence, which counts as higher than any.
            let mut errors = rows.filter(|row| row.abs_target != 0.0).map(|row| {
                let share = 100.0 * row.abs_error / row.abs_target;
                if share.is_finite() && row.abs_target.is_finite() { share } else { f64::INFINITY }
            });
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
        self.settled == self.scores && self.spiked == 0
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
        };
        let rows: Vec<TdError> = errors.iter().enumerate().map(row).collect();
        Course::of(&rows, 10.0, [0, 1])
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
    }
}
