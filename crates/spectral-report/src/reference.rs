//! Scores that curves are set beside: those of random play, of the best play, and of a human tester.

use std::collections::BTreeMap;

use crate::format::{list, number};
use crate::human::HumanScore;
use crate::run::Run;

/// What random play and the best play score on a task. Run directories do not hold it: who calls for a report may know it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceScores {
    /// The task's name.
    pub task: String,
    /// Mean score of uniformly random play.
    pub random: f64,
    /// The best known or possible mean score; `None` where nobody knows.
    pub best: Option<f64>,
    /// Where the best score comes from.
    pub best_is: String,
    /// The task's settings with which these scores hold. Runs with other values, and runs that do not record one of these
    /// settings, are drawn without the scores.
    pub settings: BTreeMap<String, String>,
}

/// Settings that change what is seen, or the size of rewards, but not the plain score.
const INDIFFERENT: [&str; 2] = ["observation", "reward_scale"];

impl ReferenceScores {
    /// Scores that hold with a task's default settings.
    ///
    /// ```
    /// use spectral_report::ReferenceScores;
    /// let defaults = [("observation", "auto"), ("frame_skip", "1")];
    /// let scores = ReferenceScores::new("my-pong", -11.3, Some(21.0), "exact optimum", defaults);
    /// assert_eq!(scores.settings.keys().collect::<Vec<_>>(), ["frame_skip"], "how a task is seen changes no score");
    /// ```
    pub fn new<'s>(
        task: &str,
        random: f64,
        best: Option<f64>,
        best_is: &str,
        defaults: impl IntoIterator<Item = (&'s str, &'s str)>,
    ) -> Self {
        let relevant = defaults.into_iter().filter(|(key, _)| !INDIFFERENT.contains(key));
        ReferenceScores {
            task: task.to_owned(),
            random,
            best,
            best_is: best_is.to_owned(),
            settings: relevant.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        }
    }

    fn hold_for(&self, run: &Run) -> bool {
        self.task == run.task
            && self.settings.iter().all(|(key, value)| {
                let recorded =
                    run.options.get(key).or_else(|| run.options.get(&format!("task_settings.{key}")));
                recorded.is_some_and(|recorded| same(recorded, value))
            })
    }
}

/// `1` and `1.0` are one value.
fn same(a: &str, b: &str) -> bool {
    a == b || a.parse::<f64>().ok().zip(b.parse::<f64>().ok()).is_some_and(|(a, b)| a == b)
}

/// A score that is drawn as a level line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    /// What stands beside the line.
    pub label: &'static str,
    pub value: f64,
    /// Where the score comes from; may be empty.
    source: String,
}

/// The lines of a task: as the caller knows them, or else those of the table of Atari games.
pub(crate) fn marks(runs: &[&Run], known: &[ReferenceScores], human: Option<&HumanScore>) -> Vec<Mark> {
    let mark = |label, value, source: &str| Mark { label, value, source: source.to_owned() };
    let found = known.iter().find(|scores| runs.iter().all(|run| scores.hold_for(run)));
    let marks = match (found, human) {
        (Some(scores), _) => {
            let best = scores.best.map(|best| mark("best play", best, &scores.best_is));
            std::iter::once(mark("random play", scores.random, "")).chain(best).collect()
        }
        (None, Some(human)) => {
            vec![mark("random play", human.random, ""), mark("human tester", human.human, "")]
        }
        (None, None) => Vec::new(),
    };
    marks.into_iter().filter(|mark: &Mark| mark.value.is_finite()).collect()
}

/// What the dotted lines are, with their scores, for a caption.
pub(crate) fn words(marks: &[Mark]) -> Option<String> {
    let each = |mark: &Mark| match mark.source.as_str() {
        "" => format!("{} ({})", mark.label, number(mark.value)),
        source => format!("{} ({}, {source})", mark.label, number(mark.value)),
    };
    let each: Vec<String> = marks.iter().map(each).collect();
    (!each.is_empty()).then(|| format!("Dotted lines: {}.", list(&each)))
}
