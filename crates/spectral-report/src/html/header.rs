//! The header and the footer of the page: what was run, on what, for how long, and how the numbers were computed.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::analysis::{Agent, Task};
use crate::canvas::escape;
use crate::format::{list, short_count, thousands, training_time};
use crate::frozen_words;
use crate::run::Run;
use crate::stats::{LONGEST_MEMORY, MEMORY_PART};
use crate::summary::ReportSummary;

fn distinct<'r>(runs: impl Iterator<Item = &'r Run>, of: impl Fn(&Run) -> String) -> String {
    let values: BTreeSet<String> = runs.map(of).filter(|text| !text.is_empty()).collect();
    if values.is_empty() {
        "not recorded".to_owned()
    } else {
        values.into_iter().collect::<Vec<_>>().join("; ")
    }
}

fn hardware(run: &Run) -> String {
    let machine = &run.hardware;
    let mut parts = Vec::new();
    if !machine.cpu.is_empty() {
        parts.push(machine.cpu.clone());
    }
    match machine.cores {
        0 => {}
        1 => parts.push("1 core".to_owned()),
        cores => parts.push(format!("{cores} cores")),
    }
    if !machine.device.is_empty() {
        parts.push(format!("trained on {}", machine.device));
    }
    parts.join(", ")
}

/// What was run, on what, for how long, and how much of it has finished.
pub(super) fn facts(tasks: &[Task<'_>]) -> String {
    let runs = || tasks.iter().flat_map(|task| task.runs.iter().copied());
    let requested: usize = tasks.iter().flat_map(|task| &task.agents).map(Agent::seeds).sum();
    let finished: usize = tasks.iter().flat_map(|task| &task.agents).map(|agent| agent.finished.len()).sum();
    let names: Vec<String> = tasks.iter().map(|task| task.name.clone()).collect();
    let seconds: f64 = runs().map(|run| run.seconds).sum();
    let per_agent: BTreeSet<u64> = tasks.iter().map(|task| task.frames).collect();
    let per_agent: Vec<String> = per_agent.into_iter().map(thousands).collect();
    let folders = runs().count();
    let mut entries = vec![
        (if tasks.len() == 1 { "Task" } else { "Tasks" }, list(&names)),
        ("Protocol", distinct(runs(), |run| run.protocol.clone())),
        ("Frames per agent", list(&per_agent)),
        ("Agents × seeds", format!("{finished} of {requested} finished")),
        ("Wall-clock training time", training_time(seconds)),
        ("Version", distinct(runs(), Run::code)),
        ("Hardware", distinct(runs(), hardware)),
    ];
    if folders > 1 {
        let merged = if folders > tasks.len() { ", merged by task" } else { "" };
        entries.push(("Run directories", format!("{folders}{merged}")));
    }
    let mut text = String::from("<dl class=\"facts\">\n");
    for (name, value) in entries {
        // Long values get two columns.
        let class = if value.chars().count() > 24 { " class=\"broad\"" } else { "" };
        // A name with hyphens is easier to read in one piece.
        let whole = |word: &str| match word.contains('-') {
            true => format!("<span>{}</span>", escape(word)),
            false => escape(word),
        };
        let words: Vec<String> = value.split(' ').map(whole).collect();
        writeln!(text, "<div{class}><dt>{name}</dt><dd>{}</dd></div>", words.join(" ")).ok();
    }
    text.push_str("</dl>\n");
    text
}

/// Remarks on the report as a whole.
pub(super) fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let mut text = String::from("<div class=\"note\">");
    for note in notes {
        write!(text, "<p>{}</p>", escape(note)).ok();
    }
    text.push_str("</div>\n");
    text
}

/// Links to the sections, where there are several.
pub(super) fn contents(tasks: &[Task<'_>], summary: &ReportSummary) -> String {
    let mut links = Vec::new();
    if !summary.claims.is_empty() {
        links.push(("claims".to_owned(), "The paper beside our data".to_owned()));
    }
    if tasks.len() > 1 {
        links.push(("overview".to_owned(), "All tasks at a glance".to_owned()));
    }
    for task in tasks {
        let twice = tasks.iter().filter(|other| other.name == task.name).count() > 1;
        let length = if twice { format!(" ({})", short_count(task.frames as f64)) } else { String::new() };
        links.push((task.slug.clone(), format!("{}{length}", task.name)));
    }
    if summary.overall.is_some() {
        links.push(("overall".to_owned(), "All games together".to_owned()));
    }
    if links.len() < 2 {
        return String::new();
    }
    let mut text = String::from("<nav aria-label=\"Contents\">");
    for (id, name) in links {
        write!(text, "<a href=\"#{}\">{}</a>", escape(&id), escape(&name)).ok();
    }
    text.push_str("</nav>\n");
    text
}

pub(super) fn runs_table(tasks: &[Task<'_>]) -> String {
    let mut text = String::from(
        "<details id=\"runs\"><summary>Runs behind this report</summary>\n<div class=\"scroll\">\
         <table class=\"settings runs\">\n<tr><th>folder</th><th>task</th><th>created</th><th>version</th><th>status</th>\
         <th>training time</th><th>frames</th><th>device</th><th>command</th></tr>\n",
    );
    for run in tasks.iter().flat_map(|task| &task.runs) {
        writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td><code>{}</code></td></tr>",
            escape(&run.path.display().to_string()),
            escape(&run.task),
            escape(&run.created),
            escape(&run.version),
            format!("{:?}", run.status).to_lowercase(),
            training_time(run.seconds),
            short_count(run.frames as f64),
            escape(&run.hardware.device),
            escape(&run.command)
        )
        .ok();
    }
    text.push_str("</table></div></details>\n");
    text
}

pub(super) fn footer(tasks: &[Task<'_>]) -> String {
    let scores = frozen_words::scores_note(tasks).unwrap_or_else(|| {
        "Scores are of training episodes, exploration included; there is no separate evaluation.".to_owned()
    });
    format!(
        "<footer>\n<p>{scores} Frames are emulator frames, counted per agent. Curves: bias-corrected exponential moving average of episode scores \
         that remembers a seed’s last {LONGEST_MEMORY} episodes, or one in {MEMORY_PART} of its episodes if that is less (momentum 1 − 1 ÷ \
         this number), and lags behind a rise by as many, read on a common grid of frames, then averaged over seeds; dashed where a curve does not \
         hold all of its seeds. Hours are those of the whole population that trained together, at each run’s mean \
         speed.</p>\n<p>All intervals and bands are at 95%, over seeds. Those of means and of differences are the wider of the \
         bootstrap’s (20,000 resamples) and Student’s or Welch’s t interval; those of probabilities are binomial ones (Clopper \
         and Pearson’s), which are wide enough for few seeds; bands of curves (1,000 resamples), of IQM and of several games together are the percentile \
         bootstrap’s, stratified by task. The generator is fixed, so the same runs give the same digits. “Clearly” in the result \
         and in the findings means at 95% for all pairs of agents on a task together (Holm’s method); each verdict stands for \
         itself, because its claim was fixed beforehand. Interquartile mean, probability of improvement and \
         performance profiles as defined by Agarwal and others (2021). Curves of seeds that were stopped or have not finished \
         are drawn separately, and these seeds are not part of any mean: a cross marks where a seed was stopped, a ring how far \
         one has come that may go on.</p>\n</footer>\n"
    )
}
