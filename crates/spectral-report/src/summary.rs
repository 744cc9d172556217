//! The results of a report as data: the same numbers as in the HTML, for programs.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::claims::{Judgement, judged_and_not_run, missing};
use crate::format::{interval, number, thousands};
use crate::frozen_words;

/// All results of a report. Written beside it as `summary.json`.
#[derive(Clone, Debug, Serialize)]
pub struct ReportSummary {
    /// The result in one sentence.
    pub headline: String,
    /// The HTML report. Names that are no UTF-8 cannot be written as JSON; there, what is not has a replacement character.
    #[serde(serialize_with = "as_text")]
    pub html: PathBuf,
    /// One entry per task.
    pub tasks: Vec<TaskSummary>,
    /// The verdict on each claim that the report was given, in order.
    pub claims: Vec<Judgement>,
    /// All Atari games together, where there are two or more with human scores.
    pub overall: Option<OverallSummary>,
}

fn as_text<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// The results on one task under one protocol and length.
#[derive(Clone, Debug, Serialize)]
pub struct TaskSummary {
    /// Name of the task.
    pub task: String,
    /// Protocol of the runs.
    pub protocol: String,
    /// Planned emulator frames per agent.
    pub frames: u64,
    /// What the values measure: `score`, the plain score of training episodes.
    pub metric: String,
    /// One row per agent, best mean first.
    pub rows: Vec<Row>,
    /// The baseline (or, without one, the agent with the best mean) against each other agent.
    pub comparisons: Vec<Comparison>,
    /// Probability that the same agent improves on each other agent.
    pub improvements: Vec<Improvement>,
    /// The findings as sentences.
    pub findings: Vec<String>,
    /// What a reader must know before relying on the numbers.
    pub warnings: Vec<String>,
}

/// Final scores of one agent on one task. Only finished seeds count; with none, there is no mean.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the agent.
    pub agent: String,
    /// Seeds requested.
    pub seeds: usize,
    /// Seeds that trained for all planned frames.
    pub finished: usize,
    /// Mean of `per_seed`.
    pub mean: Option<f64>,
    /// Lower end of the mean's 90% interval ([`cautious_mean`](crate::stats::cautious_mean)); `None` with one seed and with two
    /// that ended alike, as are the other ends.
    pub low90: Option<f64>,
    /// Upper end of the 90% interval.
    pub high90: Option<f64>,
    /// Lower end of the 95% interval.
    pub low95: Option<f64>,
    /// Upper end of the 95% interval.
    pub high95: Option<f64>,
    /// Interquartile mean of `per_seed`.
    pub iqm: Option<f64>,
    /// Lower end of the interquartile mean's 95% interval.
    pub iqm_low95: Option<f64>,
    /// Upper end of the interquartile mean's 95% interval.
    pub iqm_high95: Option<f64>,
    /// Mean over finished seeds of the last evaluation: whole games with a copy of the model that does not learn. Left out where
    /// there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<f64>,
    /// Mean over finished seeds of the last evaluation of the model with the running mean of the weights. Left out where some
    /// seed had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub averaged: Option<f64>,
    /// Mean over finished seeds of each one's best evaluation, of either model, which chance flatters: it is the highest of
    /// several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen_best: Option<f64>,
    /// The mean as a share of the way from random play (0) to a human tester (1), on Atari games that have both.
    pub human_normalised: Option<f64>,
    /// Final scores of the finished seeds, in order of seed.
    pub per_seed: Vec<f64>,
    /// Mean score of random play, where it is known.
    pub random_baseline: Option<f64>,
}

/// Two agents side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The agent that is compared.
    pub agent: String,
    /// The agent it is compared to.
    pub other: String,
    /// Mean of `agent` minus mean of `other`.
    pub difference: f64,
    /// Lower end of the difference's 90% interval, the wider of the bootstrap's and Welch's; `None` if either agent has one
    /// seed, or two that ended alike.
    pub low90: Option<f64>,
    /// Upper end of the difference's 90% interval.
    pub high90: Option<f64>,
    /// Lower end of the difference's 95% interval.
    pub low95: Option<f64>,
    /// Upper end of the difference's 95% interval.
    pub high95: Option<f64>,
    /// Whether the two means' own 90% intervals overlap.
    pub overlap90: Option<bool>,
}

/// How likely one agent's seed is to beat another's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Improvement {
    /// The agent that is compared.
    pub agent: String,
    /// The agent it is compared to.
    pub other: String,
    /// Probability that a seed of `agent` ends above a seed of `other`, ties counted half.
    pub probability: f64,
    /// Lower end of its 95% interval ([`improvement_interval`](crate::stats::improvement_interval)).
    pub low95: Option<f64>,
    /// Upper end of its 95% interval.
    pub high95: Option<f64>,
}

/// Several Atari games together, on human-normalised final scores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverallSummary {
    /// The games.
    pub tasks: Vec<String>,
    /// One row per agent with finished seeds on every game, best interquartile mean first.
    pub rows: Vec<OverallRow>,
    /// Agents without a finished seed on some of the games.
    pub left_out: Vec<String>,
}

/// One agent over several games; 1 is the human tester, 0 random play.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverallRow {
    /// Name of the agent.
    pub agent: String,
    /// Interquartile mean over all games and seeds.
    pub iqm: Aggregate,
    /// Median over games of the mean over seeds.
    pub median: Aggregate,
    /// Mean over games of the mean over seeds.
    pub mean: Aggregate,
    /// How far scores fall short of the human's on average, scores beyond the human's counting as no shortfall.
    pub optimality_gap: Aggregate,
}

/// A statistic with its 95% stratified bootstrap interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Aggregate {
    /// Point estimate.
    pub value: f64,
    /// Lower end; `None` if a game has fewer than two seeds.
    pub low95: Option<f64>,
    /// Upper end.
    pub high95: Option<f64>,
}

/// What files say, in a line: names are anybody's.
fn in_line(text: &str) -> String {
    text.replace(['\n', '\r', '\t'], " ")
}

/// The aligned table of final scores that the command prints.
pub fn text_table(summary: &ReportSummary) -> String {
    let mut text = String::new();
    for (index, task) in summary.tasks.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        text.push_str(&format!(
            "{}: final score, {} frames per agent\n",
            in_line(&task.task),
            thousands(task.frames)
        ));
        let frozen = frozen_words::columns(task.rows.iter());
        let mut columns = vec!["agent", "seeds", "mean", "95% interval", "IQM"];
        columns.extend(frozen.iter().map(|column| column.name));
        let mut lines = vec![columns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
        for row in &task.rows {
            let seeds = if row.finished == row.seeds {
                row.seeds.to_string()
            } else {
                format!("{} of {}", row.finished, row.seeds)
            };
            let mut line = vec![
                in_line(&row.agent),
                seeds,
                row.mean.map_or_else(|| "–".to_owned(), number),
                interval(row.low95, row.high95),
                row.iqm.map_or_else(|| "–".to_owned(), number),
            ];
            let values = frozen.iter().map(|column| (column.value)(row));
            line.extend(values.map(|value| value.map_or_else(|| "–".to_owned(), number)));
            lines.push(line);
        }
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns.len()).map(width).collect();
        for line in &lines {
            let mut out = format!("  {:<1$}", line[0], widths[0]);
            for column in 1..columns.len() {
                out.push_str(&format!("   {:>1$}", line[column], widths[column]));
            }
            text.push_str(out.trim_end());
            text.push('\n');
        }
        let both_models = frozen.iter().any(|column| column.name == "averaged");
        if let Some(note) = frozen_words::table_note(&task.rows, "whole games without learning", both_models)
        {
            text.push_str(&format!("  {note}\n"));
        }
        for warning in &task.warnings {
            text.push_str(&format!("  note: {}\n", in_line(warning)));
        }
    }
    if !summary.claims.is_empty() {
        text.push_str("\nthe paper and our data:\n");
    }
    let (judged, not_run) = judged_and_not_run(&summary.claims);
    for judged in judged {
        let (word, claim) = (judged.verdict.word(), &judged.claim);
        text.push_str(&format!("  {word:<9}  {} ({})\n", claim.text, claim.task));
        text.push_str(&format!("             {}\n", judged.reason));
    }
    if !not_run.is_empty() {
        text.push_str(&format!("  {}\n", missing(&not_run)));
    }
    text
}
