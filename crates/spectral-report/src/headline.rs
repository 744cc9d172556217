//! The result in one sentence, for the top of a report.

use crate::analysis::Task;
use crate::exploration;
use crate::findings::stopped_words;
use crate::format::{interval, list, number, short_count};
use crate::learning::{Learning, learning};
use crate::stats::tied;
use crate::summary::Row;

/// More tasks than this are counted, not named.
const MOST_NAMED: usize = 4;

/// The sentence.
pub(crate) fn sentence(tasks: &[Task<'_>]) -> String {
    match tasks {
        [task] => of_one(task),
        tasks => of_several(tasks),
    }
}

/// The agents with a mean, best first.
fn measured<'t>(task: &'t Task<'_>) -> Vec<&'t Row> {
    task.rows.iter().filter(|row| row.mean.is_some()).collect()
}

/// The first of `rows`, best first, and those whose means are no lower.
pub(crate) fn tied_best<'r, 't>(rows: &'r [&'t Row]) -> &'r [&'t Row] {
    let best = rows.first().and_then(|row| row.mean);
    let count = rows.iter().take_while(|row| row.mean.zip(best).is_some_and(|(a, b)| tied(a, b))).count();
    &rows[..count]
}

fn name_of(task: &Task<'_>, twice: bool) -> String {
    if twice {
        format!("{} ({} frames)", task.name, short_count(task.frames as f64))
    } else {
        task.name.clone()
    }
}

/// An agent's name, and how many of its seeds its mean covers if some were stopped.
fn named(task: &Task<'_>, row: &Row) -> String {
    match stopped_words(task, &row.agent) {
        Some(words) => format!("{} ({words})", row.agent),
        None => row.agent.clone(),
    }
}

/// Why it is too early for a result, with the values of ε where exploration hides what was learned; `None` if it is not.
fn too_early<'t, 'a: 't>(tasks: impl Iterator<Item = &'t Task<'a>>) -> Option<String> {
    let finished: Vec<&Task<'_>> = tasks.filter(|task| !measured(task).is_empty()).collect();
    let early = |task: &&Task<'_>| learning(task) == Learning::TooFewEpisodes;
    if finished.is_empty() || !finished.iter().all(early) {
        return None;
    }
    let mut epsilon: Vec<String> = finished.iter().filter_map(|task| exploration::much(task)).collect();
    epsilon.sort();
    epsilon.dedup();
    let explored = match epsilon.is_empty() {
        true => String::new(),
        false => format!(", and at the end ε was still {}, which hides what was learned", list(&epsilon)),
    };
    Some(format!("{}{explored}", Learning::TooFewEpisodes.doubt().unwrap_or_default()))
}

fn of_one(task: &Task<'_>) -> String {
    if let Some(why) = too_early(std::iter::once(task)) {
        let rows = measured(task);
        let after = format!("after {} frames of {}", short_count(task.trained() as f64), task.name);
        let leaders: Vec<String> = tied_best(&rows).iter().map(|row| named(task, row)).collect();
        let score = rows[0].mean.map_or_else(String::new, number);
        let so_far = if rows.len() > 1 { "Highest so far" } else { "So far" };
        return format!(
            "Too early for a result {after}: {why}. {so_far}: {}, {score}{}.",
            list(&leaders),
            lost(task)
        );
    }
    let mut parts = vec![result_of_one(task) + &lost(task)];
    if !measured(task).is_empty() {
        parts.extend(learning(task).doubt().map(str::to_owned));
        parts.extend(
            exploration::much(task)
                .map(|epsilon| format!("at the end ε was still {epsilon}, which hides what was learned")),
        );
    }
    format!("{}.", parts.join("; "))
}

/// The agents that have no final score because seeds were stopped.
fn lost(task: &Task<'_>) -> String {
    let lost = task.rows.iter().filter(|row| row.mean.is_none() && stopped_words(task, &row.agent).is_some());
    lost.map(|row| format!("; {} has no final score", named(task, row))).collect()
}

fn result_of_one(task: &Task<'_>) -> String {
    let rows = measured(task);
    let Some((best, others)) = rows.split_first() else {
        return format!("No seed has finished on {} yet, so there is no result", task.name);
    };
    let after = format!("After {} frames of {}", short_count(task.trained() as f64), task.name);
    let score = best.mean.map_or_else(String::new, number);
    let certainty = match (best.low95, best.per_seed.len()) {
        (Some(_), _) => interval(best.low95, best.high95),
        (None, 1) => "one seed".to_owned(),
        (None, count) => format!("{count} seeds that ended alike"),
    };
    let stopped = stopped_words(task, &best.agent).map_or_else(String::new, |words| format!("; {words}"));
    let range = format!("{score} ({certainty}{stopped})");
    let leaders = tied_best(&rows);
    let tied =
        (leaders.len() > 1).then(|| list(&leaders.iter().map(|row| named(task, row)).collect::<Vec<_>>()));
    if learning(task) == Learning::NotSeen {
        return match tied {
            Some(names) => {
                format!("{after}, no agent was seen to learn; {names} share the highest mean score, {score}")
            }
            None => format!("{after}, no agent was seen to learn; {} ends highest, at {range}", best.agent),
        };
    }
    if others.is_empty() {
        return format!("{after}, {} scores {range}", best.agent);
    }
    let others = &rows[leaders.len()..];
    let beaten = |other: &&&Row| leaders.iter().all(|leader| task.is_clear(&leader.agent, &other.agent));
    let below: Vec<String> = others.iter().filter(beaten).map(|row| named(task, row)).collect();
    let level: Vec<String> = others.iter().filter(|row| !beaten(row)).map(|row| named(task, row)).collect();
    let it = if tied.is_some() { "them" } else { "it" };
    let head = match tied {
        Some(names) => format!("{after}, {names} share the highest mean score, {score}"),
        None => format!("{after}, {} scores highest, {range}", best.agent),
    };
    match (below.len(), level.len()) {
        (0, 0) => head,
        (_, 0) if below.len() == 1 => format!("{head}, clearly above {}", below[0]),
        (_, 0) => {
            let stopped = others.iter().any(|row| stopped_words(task, &row.agent).is_some());
            let others = format!("the other {} agents", below.len());
            format!("{head}, clearly above {}", if stopped { list(&below) } else { others })
        }
        (0, 1) => format!("{head}, but these seeds do not tell {it} from {}", level[0]),
        (0, _) => format!("{head}, but these seeds do not tell {it} from any of the others"),
        _ => {
            format!(
                "{head}, clearly above {}; these seeds do not tell {it} from {}",
                list(&below),
                list(&level)
            )
        }
    }
}

/// The tasks on which one agent scores highest, or several with equal means.
struct Winner {
    agent: String,
    /// Each of them with the score and what makes it doubtful.
    won: Vec<String>,
    /// On how many it lies clearly above all others.
    clear: usize,
    /// On how many no agent was seen to learn.
    unlearned: usize,
}

/// The winners of several tasks: by name where there are few tasks, by number where there are many.
fn of_several(tasks: &[Task<'_>]) -> String {
    let mut winners: Vec<Winner> = Vec::new();
    let (mut contested, mut all_clear) = (false, true);
    let early = too_early(tasks.iter());
    for task in tasks {
        let rows = measured(task);
        let Some((best, others)) = rows.split_first() else { continue };
        let twice = tasks.iter().filter(|other| other.name == task.name).count() > 1;
        let learning = learning(task);
        let leaders = tied_best(&rows);
        let tied = leaders.len() > 1;
        // Agents with equal means lie above none of each other.
        let clear = learning != Learning::NotSeen
            && others.iter().all(|other| task.is_clear(&best.agent, &other.agent));
        contested |= !others.is_empty();
        all_clear &= clear;
        let mut words = vec![best.mean.map_or_else(String::new, number)];
        match learning {
            // Said once, before the scores.
            _ if early.is_some() => {}
            Learning::NotSeen => words.push("no learning seen".to_owned()),
            _ if !clear && !tied => words.push("not clearly".to_owned()),
            _ => {}
        }
        if early.is_none() {
            words.extend(learning.doubt().map(str::to_owned));
            words.extend(exploration::much(task).map(|epsilon| format!("ε still {epsilon}")));
        }
        let agent = match tied {
            true => list(&leaders.iter().map(|row| row.agent.clone()).collect::<Vec<_>>()) + " together",
            false => best.agent.clone(),
        };
        let stopped = leaders.iter().filter_map(|row| {
            let words = stopped_words(task, &row.agent)?;
            Some(if tied { format!("; {}: {words}", row.agent) } else { format!("; {words}") })
        });
        let stopped: String = stopped.collect();
        let won = format!("{} ({}{stopped})", name_of(task, twice), words.join(", "));
        let place = winners.iter().position(|winner| winner.agent == agent).unwrap_or_else(|| {
            winners.push(Winner { agent, won: Vec::new(), clear: 0, unlearned: 0 });
            winners.len() - 1
        });
        let winner = &mut winners[place];
        winner.won.push(won);
        winner.clear += usize::from(clear && !others.is_empty());
        winner.unlearned += usize::from(learning == Learning::NotSeen);
    }
    if winners.is_empty() {
        return format!(
            "No seed has finished on any of the {} tasks yet, so there is no result.",
            tasks.len()
        );
    }
    winners.sort_by_key(|winner| std::cmp::Reverse(winner.won.len()));
    let by_name = tasks.len() <= MOST_NAMED;
    let clearly = contested && all_clear;
    let each: Vec<String> = winners
        .iter()
        .map(|winner| match by_name {
            true => format!("{} on {}", winner.agent, list(&winner.won)),
            false => counted(winner, contested && !clearly && early.is_none()),
        })
        .collect();
    let of = if by_name { String::new() } else { format!(", of {} tasks", tasks.len()) };
    if let Some(why) = early {
        let reservations = reservations(tasks, true);
        return format!("Too early for a result: {why}. Highest so far{of}: {}{reservations}.", list(&each));
    }
    let clearly = if clearly { ", clearly above all others" } else { "" };
    format!("Highest mean score{of}: {}{clearly}{}.", list(&each), reservations(tasks, by_name))
}

/// A winner of many tasks.
fn counted(winner: &Winner, say_how_clearly: bool) -> String {
    let mut words = Vec::new();
    if say_how_clearly {
        words.push(format!("{} clearly", winner.clear));
    }
    if winner.unlearned > 0 {
        words.push(format!("{} with no learning seen", winner.unlearned));
    }
    let words = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
    format!("{} on {}{words}", winner.agent, winner.won.len())
}

/// What is doubtful on how many tasks. What stands beside each task that is named is not said again.
fn reservations(tasks: &[Task<'_>], by_name: bool) -> String {
    type Of<'f> = &'f dyn Fn(&Task<'_>) -> bool;
    let finished = |task: &Task<'_>| !measured(task).is_empty();
    let doubt = |task: &Task<'_>, kind: Learning| finished(task) && learning(task) == kind;
    let stopped = |task: &Task<'_>| task.agents.iter().any(|agent| agent.stopped() > 0);
    let always: [(Of<'_>, &str); 2] =
        [(&|task| !finished(task), "no seed has finished"), (&stopped, "seeds were stopped")];
    let unnamed: [(Of<'_>, &str); 3] = [
        (&|task| doubt(task, Learning::TooFewSeeds), Learning::TooFewSeeds.doubt().unwrap_or_default()),
        (&|task| doubt(task, Learning::TooFewEpisodes), Learning::TooFewEpisodes.doubt().unwrap_or_default()),
        (
            &|task| finished(task) && exploration::much(task).is_some(),
            "much was still explored at the end, which hides what was learned",
        ),
    ];
    let unnamed = if by_name { &[][..] } else { &unnamed };
    let mut text = String::new();
    for (of, words) in always.iter().chain(unnamed) {
        match tasks.iter().filter(|task| of(task)).count() {
            0 => {}
            1 => text.push_str(&format!("; on one task {words}")),
            count => text.push_str(&format!("; on {count} tasks {words}")),
        }
    }
    text
}
