//! Statistics, figures and the HTML report, from run directories alone.
//!
//! Two calls make a report: [`read_runs`] reads and checks run directories, [`write_report`] computes and writes.
//! Seeds are the unit of replication; seeds that were stopped or have not finished are shown as such and never
//! averaged with finished ones.
//!
//! ```no_run
//! use spectral_report::{ReportOptions, read_runs, text_table, write_report};
//!
//! let runs = read_runs(&["runs".into()])?;
//! let options = ReportOptions {
//!     title: "Four agents on exploding rewards".into(),
//!     out: "report".into(),
//!     baseline: Some("spectral".into()),
//!     ..ReportOptions::default()
//! };
//! let summary = write_report(&runs, &options)?;
//! print!("{}", text_table(&summary));
//! println!("{}", summary.html.display());
//! # Ok::<(), spectral_report::ReportError>(())
//! ```

use std::fs;
use std::path::PathBuf;

mod analysis;
mod axis;
mod canvas;
mod claims;
mod comparison_figure;
mod csv;
mod diagnostics_figure;
mod error;
mod exploration;
mod figure;
mod findings;
mod format;
mod frozen_words;
mod headline;
mod html;
mod human;
mod learning;
mod markdown;
mod output;
mod overview;
mod palette;
mod plot;
mod reference;
mod run;
mod settings;
pub mod stats;
mod summary;
mod sweep_figure;
mod td_figure;
mod td_verdict;
mod text;
mod verdict;

pub use claims::{Claim, Judgement, Rule, TdErrors, Verdict};
pub use csv::read_columns;
pub use error::{Difference, ReportError};
pub use format::duration;
pub use human::{ATARI_57, HumanScore};
pub use output::csv_field;
pub use palette::{AgentStyle, agent_styles};
pub use reference::ReferenceScores;
pub use run::{
    AgentRun, AgentStatus, Episode, Evaluation, Hardware, Metrics, Run, RunStatus, TdError, read_runs,
};
pub use summary::{
    Aggregate, Comparison, Improvement, OverallRow, OverallSummary, ReportSummary, Row, TaskSummary,
    text_table,
};
pub use sweep_figure::{SweepFigure, SweepLine, SweepPoint};

/// What a report is to be called, and where it goes.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// Heading of the report.
    pub title: String,
    /// Folder that the files are written to; made if it does not exist.
    pub out: PathBuf,
    /// The agent that others are compared to; the best one where there is none.
    pub baseline: Option<String>,
    /// What the paper says about these tasks; the report gives a verdict on each.
    pub claims: Vec<Claim>,
    /// Remarks for the report's head, as that a run is shorter than the paper's; may be empty.
    pub notes: Vec<String>,
    /// Reads every run up to this frame only. Runs of unlike lengths can then be merged, and a seed that is still
    /// running counts as soon as it has got that far. The report says so.
    pub at_frames: Option<u64>,
    /// Scores of random and of the best play, which are drawn beside the curves of their tasks.
    pub references: Vec<ReferenceScores>,
}

/// Writes `report.html` and `report.md`, the figures as SVG and PNG, the data behind them as CSV, and `summary.json`.
///
/// Every file is written under a temporary name and renamed, the page last.
pub fn write_report(runs: &[Run], options: &ReportOptions) -> Result<ReportSummary, ReportError> {
    let Some(frames) = options.at_frames else { return write(runs, options) };
    let (runs, notes) = run::cut(runs, frames);
    let mut options = options.clone();
    options.notes.extend(notes);
    write(&runs, &options)
}

/// The names that agents have in a report of these runs, in the order in which runs have them. An agent that was trained with
/// different settings has several.
pub fn agent_names(runs: &[Run], options: &ReportOptions) -> Vec<String> {
    let cut = options.at_frames.map(|frames| run::cut(runs, frames).0);
    let named = analysis::tell_apart(cut.as_deref().unwrap_or(runs));
    let mut names: Vec<String> = Vec::new();
    for agent in named.runs.iter().flat_map(|run| &run.agents) {
        if !names.contains(&agent.agent) {
            names.push(agent.agent.clone());
        }
    }
    names
}

fn write(runs: &[Run], options: &ReportOptions) -> Result<ReportSummary, ReportError> {
    let named = analysis::tell_apart(runs);
    let tasks = analysis::analyse(&named, options.baseline.as_deref(), &options.references)?;
    let overall = analysis::overall(&tasks);
    let clips = html::Clips::read(&tasks)?;
    let folder = &options.out;
    fs::create_dir_all(folder).map_err(|error| ReportError::io(folder, "make the folder", error))?;
    let summary = ReportSummary {
        headline: headline::sentence(&tasks),
        html: folder.join("report.html"),
        tasks: tasks
            .iter()
            .map(|task| TaskSummary {
                task: task.name.clone(),
                protocol: task.protocol.clone(),
                frames: task.frames,
                metric: "score".to_owned(),
                rows: task.rows.clone(),
                comparisons: task.comparisons.clone(),
                improvements: task.improvements.clone(),
                findings: findings::findings(task),
                warnings: findings::warnings(task, &tasks),
            })
            .collect(),
        claims: verdict::judge(&options.claims, &tasks),
        overall: overall.as_ref().map(|overall| overall.summary.clone()),
    };
    for task in &tasks {
        output::write_task(folder, task)?;
    }
    if overview::wanted(&tasks) {
        let draw = |canvas: &mut dyn canvas::Canvas| overview::figure(canvas, &tasks, &options.title);
        output::write_figure(folder, "overview", overview::size(&tasks), "All tasks at a glance", &draw)?;
    }
    output::write_file(folder, "final.csv", output::final_csv(&tasks).as_bytes())?;
    output::write_file(folder, "seeds.csv", output::seeds_csv(&tasks).as_bytes())?;
    output::write_file(folder, "improvement.csv", output::improvement_csv(&tasks).as_bytes())?;
    if !summary.claims.is_empty() {
        output::write_file(folder, "claims.csv", output::claims_csv(&summary.claims).as_bytes())?;
    }
    let json = serde_json::to_string_pretty(&summary)
        .map_err(|error| ReportError::Encoding { problem: format!("summary.json: {error}") })?;
    output::write_file(folder, "summary.json", json.as_bytes())?;
    output::write_file(folder, "report.md", markdown::page(&tasks, &summary, options).as_bytes())?;
    let page = html::page(&tasks, overall.as_ref(), &summary, &clips, options);
    output::write_file(folder, "report.html", page.as_bytes())?;
    Ok(summary)
}

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
