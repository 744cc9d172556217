//! Whether agents end above their own first scores: without that, final scores do not compare what was learned.

use crate::analysis::{Agent, Task};
use crate::format::{list, number};
use crate::stats::{self, FIRST_EPISODES, LEVEL};

/// With fewer finished seeds than this, that no agent was seen to learn is about the seeds and not about the agents.
const SEEDS_TO_SEE_LEARNING: usize = 3;

/// Whether agents end above their own first scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learning {
    /// One does clearly, or none has finished.
    Seen,
    /// None does.
    NotSeen,
    /// There are too few seeds to tell.
    TooFewSeeds,
    /// There are too few episodes to tell: none is far enough from the end to count as a first one.
    TooFewEpisodes,
}

impl Learning {
    /// What stands in the way of an answer, in a few words.
    pub(crate) fn doubt(self) -> Option<&'static str> {
        match self {
            Self::Seen | Self::NotSeen => None,
            Self::TooFewSeeds => Some("too few seeds to test whether any agent learned"),
            Self::TooFewEpisodes => Some("too few episodes to test whether any agent learned"),
        }
    }
}

/// One agent with finished seeds.
struct Progress {
    name: String,
    /// Its first and its final score; nothing where the first is not known.
    scores: Option<String>,
    risen: bool,
    few: bool,
}

fn progress(task: &Task<'_>, agent: &Agent<'_>) -> Option<Progress> {
    let row = task.row(&agent.name).filter(|row| row.finished > 0)?;
    let first: Option<Vec<f64>> =
        agent.finished.iter().map(|run| stats::first_score(&run.episodes, run.frames)).collect();
    let ends = first.as_deref().and_then(stats::mean).zip(row.mean);
    let rise = first.and_then(|first| stats::cautious_difference(&row.per_seed, &first, LEVEL));
    Some(Progress {
        name: agent.name.clone(),
        scores: ends
            .map(|(first, last)| format!("{} from {} to {}", agent.name, number(first), number(last))),
        risen: rise.is_some_and(|interval| interval.low > 0.0),
        few: row.per_seed.len() < SEEDS_TO_SEE_LEARNING,
    })
}

fn all(task: &Task<'_>) -> Vec<Progress> {
    task.agents.iter().filter_map(|agent| progress(task, agent)).collect()
}

fn conclude(agents: &[Progress]) -> Learning {
    let tells = |agent: &Progress| !agent.few && agent.scores.is_some();
    if agents.is_empty() || agents.iter().any(|agent| agent.risen) {
        Learning::Seen
    } else if agents.iter().any(tells) {
        Learning::NotSeen
    } else if agents.iter().any(|agent| agent.few) {
        Learning::TooFewSeeds
    } else {
        Learning::TooFewEpisodes
    }
}

/// Whether a task's agents were seen to learn.
pub(crate) fn learning(task: &Task<'_>) -> Learning {
    conclude(&all(task))
}

/// A warning if no agent was seen to end above its first scores.
pub(crate) fn warning(task: &Task<'_>) -> Option<String> {
    let agents = all(task);
    let scores: Vec<String> = agents.iter().filter_map(|agent| agent.scores.clone()).collect();
    let each = if scores.is_empty() { String::new() } else { format!(" ({})", list(&scores)) };
    let names = |of: &dyn Fn(&Progress) -> bool| {
        let names: Vec<String> =
            agents.iter().filter(|agent| of(agent)).map(|agent| agent.name.clone()).collect();
        (!names.is_empty()).then(|| list(&names))
    };
    let consequence = "Comparisons of these final scores, and verdicts that rest on them, say little.";
    let unclear = format!("with fewer than {SEEDS_TO_SEE_LEARNING} finished seeds, hardly any rise is clear");
    let short = format!("the first {FIRST_EPISODES} would run into those of the final score");
    match conclude(&agents) {
        Learning::Seen => None,
        Learning::TooFewSeeds => Some(format!(
            "Too few seeds to test whether any agent learned: {unclear}, and none is here from an agent's own first twentieth \
             of episodes to its end{each}. {consequence}"
        )),
        Learning::TooFewEpisodes => {
            Some(format!("Too few episodes to test whether any agent learned: {short}. {consequence}"))
        }
        Learning::NotSeen => {
            let few = names(&|agent| agent.few)
                .map_or_else(String::new, |names| format!(" Of {names} this says little: {unclear}."));
            let unknown = names(&|agent| !agent.few && agent.scores.is_none())
                .map_or_else(String::new, |names| {
                    format!(" Of {names} it is not known, for want of episodes: {short}.")
                });
            Some(format!(
                "No agent was seen to learn: none ends clearly above its own first twentieth of episodes{each}.{few}{unknown} \
                 {consequence}"
            ))
        }
    }
}
