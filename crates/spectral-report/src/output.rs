//! Writes the files of a report. Each is written under a temporary name and renamed, so that no file is ever incomplete.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::analysis::{Clock, Profile, Task};
use crate::canvas::{Canvas, PngCanvas, SvgCanvas};
use crate::claims::Judgement;
use crate::comparison_figure;
use crate::diagnostics_figure;
use crate::error::ReportError;
use crate::figure::{self, Format};
use crate::frozen_words;
use crate::run::AgentStatus;
use crate::stats::{final_score, final_window};
use crate::td_figure::{self, TdFrame};

/// Pixels per figure unit in PNG files: sharp on dense screens and in print.
const PNG_SCALE: f64 = 2.0;

/// Writes `contents` to `folder/name` atomically. This crate depends on no other crate of the project, so it has its own
/// function for this.
pub(crate) fn write_file(folder: &Path, name: &str, contents: &[u8]) -> Result<(), ReportError> {
    let path = folder.join(name);
    let temporary = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let written = fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(contents).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, &path));
    written.map_err(|error| {
        // The temporary file may not exist. The first error is the one that matters.
        fs::remove_file(&temporary).ok();
        ReportError::io(&path, "write", error)
    })
}

/// Writes the figures and the data of one task.
pub(crate) fn write_task(folder: &Path, task: &Task<'_>) -> Result<(), ReportError> {
    let slug = &task.slug;
    let clocks = [(Clock::Frames, "curves"), (Clock::Time, "curves-hours")];
    for (clock, name) in clocks.into_iter().filter(|(clock, _)| !task.grid(*clock).is_empty()) {
        let draw = |canvas: &mut dyn Canvas| {
            figure::learning_curves(canvas, task, Format::File, clock);
        };
        let label = format!("Learning curves on {}", task.name);
        write_figure(folder, &format!("{slug}-{name}"), Format::File.size(), &label, &draw)?;
        write_file(folder, &format!("{slug}-{name}.csv"), curves_csv(task, clock).as_bytes())?;
    }

    let draw_final = |canvas: &mut dyn Canvas| figure::final_figure(canvas, task);
    let label = format!("Final scores on {}", task.name);
    write_figure(folder, &format!("{slug}-final"), figure::final_size(task), &label, &draw_final)?;

    if let Some(profile) = &task.profile {
        let draw = |canvas: &mut dyn Canvas| comparison_figure::figure(canvas, task, profile);
        let label = format!("Performance profile and probability of improvement on {}", task.name);
        write_figure(folder, &format!("{slug}-comparison"), comparison_figure::size(task), &label, &draw)?;
        write_file(folder, &format!("{slug}-profile.csv"), profile_csv(profile).as_bytes())?;
    }
    if let Some(shared) = TdFrame::of(task) {
        let draw_td = |canvas: &mut dyn Canvas| td_figure::figure(canvas, task, &shared);
        let label = format!("TD percentage error by player's score on {}", task.name);
        write_figure(folder, &format!("{slug}-td-error"), td_figure::size(task), &label, &draw_td)?;
        write_file(folder, &format!("{slug}-td-error.csv"), td_csv(task).as_bytes())?;
    }
    if !diagnostics_figure::shown(task).is_empty() {
        let draw = |canvas: &mut dyn Canvas| diagnostics_figure::figure(canvas, task);
        let label = format!("Inside the codecs on {}", task.name);
        write_figure(folder, &format!("{slug}-inside"), diagnostics_figure::size(task), &label, &draw)?;
        write_file(folder, &format!("{slug}-inside.csv"), inside_csv(task).as_bytes())?;
    }
    Ok(())
}

/// Writes one figure as SVG and PNG.
pub(crate) fn write_figure(
    folder: &Path,
    name: &str,
    (width, height): (f64, f64),
    label: &str,
    draw: &dyn Fn(&mut dyn Canvas),
) -> Result<(), ReportError> {
    let mut svg = SvgCanvas::new(width, height, false);
    draw(&mut svg);
    write_file(folder, &format!("{name}.svg"), svg.finish(label, "", &[]).as_bytes())?;
    let mut png = PngCanvas::new(width, height, PNG_SCALE)
        .ok_or_else(|| ReportError::Encoding { problem: format!("{width} by {height} is no size") })?;
    draw(&mut png);
    let bytes = png.finish().map_err(|problem| ReportError::Encoding { problem })?;
    write_file(folder, &format!("{name}.png"), &bytes)
}

fn curves_csv(task: &Task<'_>, clock: Clock) -> String {
    let at = |value: u64| match clock {
        Clock::Frames => value.to_string(),
        Clock::Time => (value as f64 / 3_600_000.0).to_string(),
    };
    let axis = if clock == Clock::Frames { "frame" } else { "hours" };
    let mut text = format!("agent,curve,{axis},score,low95,high95,seeds\n");
    for agent in &task.agents {
        let name = csv_field(&agent.name);
        let curve = if agent.provisional { "unfinished seeds" } else { "finished seeds" };
        for p in &agent.curves(clock).mean {
            let (low, high) =
                if p.seeds > 1 { (p.low.to_string(), p.high.to_string()) } else { Default::default() };
            writeln!(text, "{name},{curve},{},{},{low},{high},{}", at(p.frame), p.mean, p.seeds).ok();
        }
        for seed in &agent.curves(clock).apart {
            for (frame, value) in &seed.points {
                writeln!(text, "{name},unfinished seed {},{},{value},,,1", seed.run.seed, at(*frame)).ok();
            }
        }
        for (frame, value) in agent.frozen.curve(clock) {
            writeln!(text, "{name},frozen games,{},{value},,,{}", at(*frame), agent.full()).ok();
        }
    }
    text
}

fn profile_csv(profile: &Profile) -> String {
    let mut text = String::from("agent,score,share_above,low95,high95\n");
    for line in &profile.lines {
        for (k, threshold) in profile.thresholds.iter().enumerate() {
            let band = line.band.get(k).map_or_else(|| ",".to_owned(), |b| format!("{},{}", b.low, b.high));
            writeln!(text, "{},{threshold},{},{band}", csv_field(&line.agent), line.share[k]).ok();
        }
    }
    text
}

fn td_csv(task: &Task<'_>) -> String {
    let mut text = String::from("agent,player_score,frame,td_percent\n");
    for agent in &task.agents {
        for line in &agent.td_lines {
            for (frame, value) in task.grid.iter().zip(&line.values) {
                if let Some(value) = value {
                    let name = csv_field(&agent.name);
                    writeln!(text, "{name},{},{frame},{}", line.player_score, short(*value)).ok();
                }
            }
        }
    }
    text
}

fn inside_csv(task: &Task<'_>) -> String {
    let mut text = String::from("agent,quantity,line,frame,value\n");
    for agent in &task.agents {
        for panel in &agent.panels {
            for series in &panel.series {
                for (frame, value) in panel.grid.iter().zip(&series.values) {
                    if let Some(value) = value {
                        let name = csv_field(&agent.name);
                        let line = csv_field(&series.name);
                        writeln!(text, "{name},{},{line},{frame},{}", panel.key, short(*value)).ok();
                    }
                }
            }
        }
    }
    text
}

/// The verdicts, one line per claim.
pub(crate) fn claims_csv(claims: &[Judgement]) -> String {
    let mut text = String::from("verdict,task,source,claim,ours,reason\n");
    for judged in claims {
        let claim = &judged.claim;
        writeln!(
            text,
            "{},{},{},{},{},{}",
            judged.verdict.word(),
            csv_field(&claim.task),
            csv_field(&claim.source),
            csv_field(&claim.text),
            csv_field(&judged.ours),
            csv_field(&judged.reason)
        )
        .ok();
    }
    text
}

/// Probabilities of improvement, one line per pair.
pub(crate) fn improvement_csv(tasks: &[Task<'_>]) -> String {
    let mut text = String::from("task,protocol,frames,agent,other,probability,low95,high95\n");
    for task in tasks {
        for entry in &task.improvements {
            writeln!(
                text,
                "{},{},{},{},{},{},{},{}",
                csv_field(&task.name),
                csv_field(&task.protocol),
                task.frames,
                csv_field(&entry.agent),
                csv_field(&entry.other),
                entry.probability,
                maybe(entry.low95),
                maybe(entry.high95)
            )
            .ok();
        }
    }
    text
}

/// Six significant digits, for the long tables of curves, which are meant for drawing and not for computing.
fn short(value: f64) -> String {
    format!("{value:.5e}").parse::<f64>().unwrap_or(value).to_string()
}

fn maybe(value: Option<f64>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

/// The final table: one line per task and agent.
pub(crate) fn final_csv(tasks: &[Task<'_>]) -> String {
    let mut text = String::from(
        "task,protocol,frames,agent,seeds,finished,mean,low90,high90,low95,high95,iqm,iqm_low95,iqm_high95,human_normalised",
    );
    let frozen = frozen_words::columns(tasks.iter().flat_map(|task| &task.rows));
    for column in &frozen {
        write!(text, ",{}", column.field).ok();
    }
    text.push('\n');
    for task in tasks {
        for row in &task.rows {
            write!(
                text,
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                csv_field(&task.name),
                csv_field(&task.protocol),
                task.frames,
                csv_field(&row.agent),
                row.seeds,
                row.finished,
                maybe(row.mean),
                maybe(row.low90),
                maybe(row.high90),
                maybe(row.low95),
                maybe(row.high95),
                maybe(row.iqm),
                maybe(row.iqm_low95),
                maybe(row.iqm_high95),
                maybe(row.human_normalised)
            )
            .ok();
            for column in &frozen {
                write!(text, ",{}", maybe((column.value)(row))).ok();
            }
            text.push('\n');
        }
    }
    text
}

/// Final scores seed by seed, unfinished seeds included and marked.
pub(crate) fn seeds_csv(tasks: &[Task<'_>]) -> String {
    let mut text = String::from(
        "task,protocol,planned_frames,agent,seed,status,frames,episodes,episodes_counted,final_score\n",
    );
    for task in tasks {
        for agent in &task.agents {
            for run in agent.finished.iter().chain(&agent.unfinished) {
                let status = match run.status {
                    AgentStatus::Finished => "finished",
                    AgentStatus::Running => "unfinished",
                    AgentStatus::Stopped => "stopped",
                };
                writeln!(
                    text,
                    "{},{},{},{},{},{status},{},{},{},{}",
                    csv_field(&task.name),
                    csv_field(&task.protocol),
                    task.frames,
                    csv_field(&agent.name),
                    run.seed,
                    run.frames,
                    run.episodes.len(),
                    final_window(&run.episodes, run.frames),
                    final_score(&run.episodes, run.frames)
                        .map_or_else(String::new, |score| score.to_string())
                )
                .ok();
            }
        }
    }
    text
}

/// A text as a field of a CSV file: quoted if commas, quotes or line breaks would break the row, and behind an apostrophe if a
/// spreadsheet would take it for a formula. Names come from run directories, which may be anybody's; numbers stay numbers.
///
/// ```
/// use spectral_report::csv_field;
/// assert_eq!(csv_field("spectral (hidden = 64)"), "spectral (hidden = 64)");
/// assert_eq!(csv_field("a, b"), "\"a, b\"");
/// assert_eq!(csv_field("=1+2"), "'=1+2");
/// assert_eq!(csv_field("-1.5e3"), "-1.5e3");
/// ```
pub fn csv_field(text: &str) -> String {
    // Some spreadsheets pass over blanks, and take the wide forms of East Asian keyboards for the signs themselves.
    let first = text.trim_start().chars().next();
    let formula = first.is_some_and(|sign| "=+-@\u{ff1d}\u{ff0b}\u{ff0d}\u{ff20}".contains(sign))
        && text.parse::<f64>().is_err()
        // What begins with a tab would be pasted into the next cell.
        || text.starts_with(['\t', '\r', '\n']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::csv_field;

    #[test]
    fn texts_like_formulae_are_defused_and_no_others() {
        for (text, field) in [
            ("=HYPERLINK(\"http://a\", \"b\")", "\"'=HYPERLINK(\"\"http://a\"\", \"\"b\"\")\""),
            ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
            ("-2+3", "'-2+3"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("  =1", "'  =1"),
            ("\t=1", "'\t=1"),
            ("\rx", "\"'\rx\""),
            ("\u{ff1d}1", "'\u{ff1d}1"),
        ] {
            assert_eq!(csv_field(text), field);
        }
        let ordinary =
            ["", "spectral", "a-b", "x = 1", "'quoted'", "-1", "-1.5e-3", "+2", "-inf", "2048", "µ=0"];
        for text in ordinary {
            assert_eq!(csv_field(text), text);
        }
        assert_eq!(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
