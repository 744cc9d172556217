//! The paper's claims as data, and the verdict on each: agree, differ or undecided, always with the reason.
//!
//! An experiment's TOML file holds its claims as a list of `[[claim]]` tables; [`Claim::from_toml`] reads them and
//! ignores everything else in the file. `docs/CLAIMS.md` describes every kind with an example.

use serde::{Deserialize, Serialize};

use crate::error::ReportError;
use crate::format::list;

/// One statement of the paper, and the rule that decides whether our data agree with it.
///
/// ```
/// use spectral_report::{Claim, Rule};
///
/// let claims = Claim::from_toml(
///     r#"
///     task = "exponential-pong"            # the experiment's own keys are not looked at
///
///     [[claim]]
///     text = "Spectral DQN makes far more meaningful progress than the baselines."
///     source = "section 6, figure 3"
///     task = "exponential-pong"
///     kind = "higher_final"
///     better = "spectral"
///     worse = ["compressed", "popart"]
///     min_frames = 100_000_000
///     "#,
///     "fig3.toml",
/// )?;
/// assert_eq!(claims.len(), 1);
/// assert!(matches!(&claims[0].rule, Rule::HigherFinal { better, .. } if better == "spectral"));
/// # Ok::<(), spectral_report::ReportError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// What the paper says, in a sentence.
    pub text: String,
    /// Where it says so, as in "section 6, figure 3"; may be empty.
    pub source: String,
    /// The task that the claim is about, by its name in the run directories.
    pub task: String,
    /// Emulator frames below which a flat curve decides nothing; 0 where any length will do.
    pub min_frames: u64,
    /// The rise of the score, in points, up to which a curve counts as flat. Without it, a tenth of the spread
    /// between the highest and the lowest curve of the task, or the standard deviation of early episodes if larger.
    pub flat_within: Option<f64>,
    /// How it is decided.
    pub rule: Rule,
}

/// How a claim is decided. All scores are final scores: means of the training episodes that end in the last tenth of
/// a seed's frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rule {
    /// `better` ends clearly above each agent of `worse`.
    HigherFinal {
        /// The agent that the paper puts first.
        better: String,
        /// The agents that it is put above.
        worse: Vec<String>,
    },
    /// `better` ends at least on par with each agent of `worse`: not clearly lower by more than `margin`.
    OnParFinal {
        /// The agent that the paper says keeps up.
        better: String,
        /// The agents that it keeps up with.
        worse: Vec<String>,
        /// The shortfall that still counts as on par, as a share of the larger of the two |means|.
        margin: f64,
    },
    /// The agents end alike: every difference of two means lies within `margin`.
    SimilarFinal {
        /// The agents, two at least.
        agents: Vec<String>,
        /// The difference that still counts as alike, as a share of the larger of the two |means|.
        margin: f64,
    },
    /// Each agent's mean final score lies clearly above `value`.
    FinalAbove {
        /// The agents.
        agents: Vec<String>,
        /// The score to pass.
        value: f64,
    },
    /// Each agent's mean final score lies clearly below `value`.
    FinalBelow {
        /// The agents.
        agents: Vec<String>,
        /// The score not to reach.
        value: f64,
    },
    /// Each agent ends clearly higher on the claim's task than on each of the tasks `than`.
    HigherOnTask {
        /// The agents.
        agents: Vec<String>,
        /// The tasks on which they are said to end lower.
        than: Vec<String>,
    },
    /// In every seed the error ends at or below the percentage at all of the scores.
    TdErrorBelow(TdErrors),
    /// In every seed the error ends above the percentage, or the score was never met, at all of the scores.
    TdErrorAbove(TdErrors),
    /// In every seed the error falls to the percentage or below at all of the scores, all of them are met to the end, and it
    /// never rises above twice that at any of them.
    TdErrorStable(TdErrors),
    /// In every seed the error, once at or below the percentage, rises above twice that again at more than half of the
    /// scores.
    TdErrorSpikes(TdErrors),
}

/// What a claim about TD errors is about: each agent's percentage error at some of the player's scores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TdErrors {
    /// The agents.
    pub agents: Vec<String>,
    /// The percentage.
    pub percent: f64,
    /// First and last of the player's scores.
    pub scores: [i64; 2],
}

impl Rule {
    /// The subject of a claim about TD errors; `None` for other claims.
    pub(crate) fn td_errors(&self) -> Option<&TdErrors> {
        match self {
            Self::TdErrorBelow(of)
            | Self::TdErrorAbove(of)
            | Self::TdErrorStable(of)
            | Self::TdErrorSpikes(of) => Some(of),
            _ => None,
        }
    }
}

/// Whether our data agree with a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The data clearly say the same.
    Agree,
    /// The data clearly say the opposite.
    Differ,
    /// The data do not decide it: too few seeds, too few frames, or no clear difference.
    Undecided,
}

impl Verdict {
    /// The verdict in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Differ => "differ",
            Self::Undecided => "undecided",
        }
    }
}

/// A claim, what our data show, and the verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// The claim.
    pub claim: Claim,
    /// What our data show about it, in a sentence with numbers.
    pub ours: String,
    /// Whether the two agree.
    pub verdict: Verdict,
    /// Why, in words.
    pub reason: String,
    /// Whether what the claim is about was not run, so that there is nothing to judge.
    pub not_run: bool,
}

impl Judgement {
    /// What a reader may stumble over: a clear verdict beside a probability of improvement that may be a half.
    pub(crate) fn explanation(&self) -> Option<&'static str> {
        let shows_probability =
            matches!(self.claim.rule, Rule::HigherFinal { .. } | Rule::HigherOnTask { .. });
        (shows_probability && !self.not_run && self.verdict != Verdict::Undecided).then_some(
            "The verdict rests on the interval of the difference between the means. The probability of improvement only counts \
             how often a seed of one agent ends above a seed of the other, so with few seeds its interval is wide even where \
             all of them do.",
        )
    }
}

/// The claims about what was run, and those about what was not.
pub(crate) fn judged_and_not_run(claims: &[Judgement]) -> (Vec<&Judgement>, Vec<&Judgement>) {
    claims.iter().partition(|judged| !judged.not_run)
}

/// How many claims were judged how, such as "6 claims: 1 agree and 2 undecided; 3 not run here".
pub(crate) fn tally(claims: &[Judgement]) -> String {
    let (judged, not_run) = judged_and_not_run(claims);
    let mut counts = Vec::new();
    for verdict in [Verdict::Agree, Verdict::Differ, Verdict::Undecided] {
        let count = judged.iter().filter(|judged| judged.verdict == verdict).count();
        if count > 0 {
            counts.push(format!("{count} {}", verdict.word()));
        }
    }
    if !not_run.is_empty() {
        counts.push(format!("{} not run here", not_run.len()));
    }
    let noun = if claims.len() == 1 { "claim" } else { "claims" };
    format!("{} {noun}: {}", claims.len(), list(&counts))
}

/// What the claims that were not run are about, in a line: the reasons, each once.
pub(crate) fn missing(not_run: &[&Judgement]) -> String {
    let mut reasons: Vec<String> = Vec::new();
    for judged in not_run {
        let reason = judged.reason.trim_end_matches('.').to_owned();
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let noun = if not_run.len() == 1 { "claim was" } else { "claims were" };
    format!("{} {noun} not judged: {}.", not_run.len(), list(&reasons))
}

/// The kinds, as a file writes them.
const KINDS: [&str; 10] = [
    "higher_final",
    "on_par_final",
    "similar_final",
    "final_above",
    "final_below",
    "higher_on_task",
    "td_error_below",
    "td_error_above",
    "td_error_stable",
    "td_error_spikes",
];
/// Margin of `on_par_final` and `similar_final` where a claim names none.
const DEFAULT_MARGIN: f64 = 0.1;

#[derive(Deserialize)]
struct ClaimsFile {
    #[serde(default)]
    claim: Vec<ClaimTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimTable {
    text: String,
    #[serde(default)]
    source: String,
    task: String,
    kind: String,
    #[serde(default)]
    min_frames: u64,
    flat_within: Option<f64>,
    better: Option<String>,
    worse: Option<Vec<String>>,
    agents: Option<Vec<String>>,
    than: Option<Vec<String>>,
    value: Option<f64>,
    margin: Option<f64>,
    percent: Option<f64>,
    scores: Option<[i64; 2]>,
}

impl Claim {
    /// Reads the `[[claim]]` tables of an experiment's TOML text, in order, and ignores other keys. `file` is the name that
    /// errors show.
    pub fn from_toml(text: &str, file: &str) -> Result<Vec<Self>, ReportError> {
        let path = std::path::Path::new(file);
        let read: ClaimsFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1));
            ReportError::malformed(path, line, error.message().to_owned())
        })?;
        let numbered = read.claim.into_iter().enumerate();
        numbered
            .map(|(index, table)| {
                table.resolve().map_err(|problem| {
                    ReportError::malformed(path, None, format!("claim {}: {problem}", index + 1))
                })
            })
            .collect()
    }

    /// Every agent that the rule names.
    pub fn agents(&self) -> Vec<&str> {
        match &self.rule {
            Rule::HigherFinal { better, worse } | Rule::OnParFinal { better, worse, .. } => {
                std::iter::once(better).chain(worse).map(String::as_str).collect()
            }
            Rule::SimilarFinal { agents, .. }
            | Rule::FinalAbove { agents, .. }
            | Rule::FinalBelow { agents, .. }
            | Rule::HigherOnTask { agents, .. }
            | Rule::TdErrorBelow(TdErrors { agents, .. })
            | Rule::TdErrorAbove(TdErrors { agents, .. })
            | Rule::TdErrorStable(TdErrors { agents, .. })
            | Rule::TdErrorSpikes(TdErrors { agents, .. }) => agents.iter().map(String::as_str).collect(),
        }
    }
}

impl ClaimTable {
    fn resolve(mut self) -> Result<Claim, String> {
        let rule = match self.kind.as_str() {
            "higher_final" => Rule::HigherFinal { better: self.better()?, worse: self.worse()? },
            "on_par_final" => {
                Rule::OnParFinal { better: self.better()?, worse: self.worse()?, margin: self.margin()? }
            }
            "similar_final" => {
                let agents = self.agents()?;
                if agents.len() < 2 {
                    return Err("`agents` of similar_final must name two agents or more".to_owned());
                }
                Rule::SimilarFinal { agents, margin: self.margin()? }
            }
            "final_above" => Rule::FinalAbove { agents: self.agents()?, value: self.value()? },
            "final_below" => Rule::FinalBelow { agents: self.agents()?, value: self.value()? },
            "higher_on_task" => Rule::HigherOnTask { agents: self.agents()?, than: self.than()? },
            "td_error_below" => Rule::TdErrorBelow(self.td_errors()?),
            "td_error_above" => Rule::TdErrorAbove(self.td_errors()?),
            "td_error_stable" => Rule::TdErrorStable(self.td_errors()?),
            "td_error_spikes" => Rule::TdErrorSpikes(self.td_errors()?),
            other => return Err(format!("kind `{other}` is not known; the kinds are {}", KINDS.join(", "))),
        };
        self.nothing_left()?;
        if self.flat_within.is_some_and(|rise| !rise.is_finite() || rise < 0.0) {
            return Err("`flat_within` must be a score of 0 or more".to_owned());
        }
        Ok(Claim {
            text: self.text,
            source: self.source,
            task: self.task,
            min_frames: self.min_frames,
            flat_within: self.flat_within,
            rule,
        })
    }

    fn missing(&self, key: &str) -> String {
        format!("kind `{}` needs the key `{key}`", self.kind)
    }

    fn better(&mut self) -> Result<String, String> {
        self.better.take().ok_or_else(|| self.missing("better"))
    }

    fn worse(&mut self) -> Result<Vec<String>, String> {
        let names = self.worse.take();
        names.filter(|names| !names.is_empty()).ok_or_else(|| self.missing("worse"))
    }

    fn agents(&mut self) -> Result<Vec<String>, String> {
        let names = self.agents.take();
        names.filter(|names| !names.is_empty()).ok_or_else(|| self.missing("agents"))
    }

    fn than(&mut self) -> Result<Vec<String>, String> {
        let names = self.than.take();
        names.filter(|names| !names.is_empty()).ok_or_else(|| self.missing("than"))
    }

    fn value(&mut self) -> Result<f64, String> {
        let value = self.value.take();
        value.filter(|value| value.is_finite()).ok_or_else(|| self.missing("value"))
    }

    fn margin(&mut self) -> Result<f64, String> {
        let margin = self.margin.take().unwrap_or(DEFAULT_MARGIN);
        if margin.is_finite() && margin >= 0.0 {
            Ok(margin)
        } else {
            Err("`margin` must be 0 or more".to_owned())
        }
    }

    fn td_errors(&mut self) -> Result<TdErrors, String> {
        let agents = self.agents()?;
        let percent = self.percent.take().ok_or_else(|| self.missing("percent"))?;
        let scores = self.scores.take().ok_or_else(|| self.missing("scores"))?;
        if !(percent.is_finite() && percent > 0.0) {
            return Err("`percent` must be more than 0".to_owned());
        }
        if scores[0] > scores[1] {
            return Err("`scores` must be [first, last], the smaller one first".to_owned());
        }
        Ok(TdErrors { agents, percent, scores })
    }

    /// A key that the kind does not use would be silently ignored, which is worse than an error.
    fn nothing_left(&self) -> Result<(), String> {
        let left = [
            ("better", self.better.is_some()),
            ("worse", self.worse.is_some()),
            ("agents", self.agents.is_some()),
            ("than", self.than.is_some()),
            ("value", self.value.is_some()),
            ("margin", self.margin.is_some()),
            ("percent", self.percent.is_some()),
            ("scores", self.scores.is_some()),
        ];
        match left.iter().find(|(_, set)| *set) {
            Some((key, _)) => Err(format!("kind `{}` has no key `{key}`", self.kind)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Vec<Claim>, String> {
        let text =
            format!("task = \"x\"\n[agent]\nlr = 1\n[[claim]]\ntext = \"t\"\ntask = \"pong\"\n{body}\n");
        Claim::from_toml(&text, "fig.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn every_kind_can_be_written() {
        let agents = "agents = [\"a\", \"b\"]";
        let bodies = [
            "kind = \"higher_final\"\nbetter = \"a\"\nworse = [\"b\"]\nmin_frames = 100_000_000".to_owned(),
            "kind = \"on_par_final\"\nbetter = \"a\"\nworse = [\"b\"]".to_owned(),
            format!("kind = \"similar_final\"\n{agents}\nmargin = 0.2"),
            format!("kind = \"final_above\"\n{agents}\nvalue = 0"),
            format!("kind = \"final_below\"\n{agents}\nvalue = -15.5"),
            format!("kind = \"higher_on_task\"\n{agents}\nthan = [\"ponglantis\"]"),
            format!("kind = \"td_error_below\"\n{agents}\npercent = 5\nscores = [0, 20]"),
            format!("kind = \"td_error_above\"\n{agents}\npercent = 5\nscores = [8, 20]"),
            format!("kind = \"td_error_stable\"\n{agents}\npercent = 10\nscores = [0, 7]"),
            format!("kind = \"td_error_spikes\"\n{agents}\npercent = 10\nscores = [0, 7]"),
        ];
        assert_eq!(bodies.len(), KINDS.len());
        for body in bodies {
            let claims = read(&body).unwrap();
            assert_eq!(claims[0].agents(), ["a", "b"], "{body}");
        }
        assert_eq!(Claim::from_toml("task = \"pong\"\n", "x").unwrap(), []);
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("kind = \"higher\"", "kind `higher` is not known; the kinds are higher_final"),
            ("kind = \"higher_final\"\nworse = [\"b\"]", "needs the key `better`"),
            ("kind = \"higher_final\"\nbetter = \"a\"\nworse = []", "needs the key `worse`"),
            ("kind = \"higher_final\"\nbetter = \"a\"\nworse = [\"b\"]\nvalue = 3", "has no key `value`"),
            ("kind = \"similar_final\"\nagents = [\"a\"]", "two agents or more"),
            ("kind = \"final_above\"\nagents = [\"a\"]\nvalue = 1\nfrobs = 2", "unknown field `frobs`"),
            (
                "kind = \"td_error_below\"\nagents = [\"a\"]\npercent = 5\nscores = [9, 1]",
                "smaller one first",
            ),
            (
                "kind = \"td_error_stable\"\nagents = [\"a\"]\npercent = 0\nscores = [0, 1]",
                "`percent` must be more than 0",
            ),
        ];
        for (body, expected) in cases {
            let message = read(body).unwrap_err();
            assert!(message.contains(expected) && message.starts_with("fig.toml"), "{message}");
        }
    }
}
