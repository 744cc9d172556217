//! Files of a report: written under a temporary name and renamed, so that none is ever half there.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::analysis::Task;
use crate::canvas::{PngCanvas, SvgCanvas};
use crate::error::ReportError;
use crate::figure::{self, Format};
use crate::run::AgentStatus;
use crate::stats::{final_score, final_window};
use crate::td_figure::{self, TdFrame};

/// Pixels per figure unit in PNG files: sharp on dense screens and in print.
const PNG_SCALE: f64 = 2.0;

/// Writes `contents` to `folder/name`, whole or not at all.
pub(crate) fn write_file(folder: &Path, name: &str, contents: &[u8]) -> Result<(), ReportError> {
    let path = folder.join(name);
    let temporary = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let written = fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(contents).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, &path));
    written.map_err(|error| {
        // The temporary file may not exist; the first error is the one that matters.
        fs::remove_file(&temporary).ok();
        ReportError::io(&path, "write", error)
    })
}

/// Writes the figures and curve data of one task.
pub(crate) fn write_task(folder: &Path, task: &Task<'_>) -> Result<(), ReportError> {
    let slug = &task.slug;
    let draw_curves = |canvas: &mut dyn crate::canvas::Canvas| {
        figure::learning_curves(canvas, task, Format::Alone);
    };
    let label = format!("Learning curves on {}", task.name);
    write_figure(folder, &format!("{slug}-curves"), Format::Alone.size(), &label, &draw_curves)?;
    write_file(folder, &format!("{slug}-curves.csv"), curves_csv(task).as_bytes())?;

    let draw_final = |canvas: &mut dyn crate::canvas::Canvas| figure::final_figure(canvas, task);
    let label = format!("Final scores on {}", task.name);
    write_figure(folder, &format!("{slug}-final"), figure::final_size(task), &label, &draw_final)?;

    if let Some(shared) = TdFrame::of(task) {
        let draw_td = |canvas: &mut dyn crate::canvas::Canvas| td_figure::figure(canvas, task, &shared);
        let label = format!("TD percentage error by player's score on {}", task.name);
        write_figure(folder, &format!("{slug}-td-error"), td_figure::size(task), &label, &draw_td)?;
    }
    Ok(())
}

fn write_figure(
    folder: &Path,
    name: &str,
    (width, height): (f64, f64),
    label: &str,
    draw: &dyn Fn(&mut dyn crate::canvas::Canvas),
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

fn curves_csv(task: &Task<'_>) -> String {
    let mut text = String::from("agent,curve,frame,score,low,high,seeds\n");
    for agent in &task.agents {
        let name = field(&agent.name);
        let curve = if agent.provisional { "unfinished seeds" } else { "finished seeds" };
        for p in &agent.curve {
            let (low, high) =
                if p.seeds > 1 { (p.low.to_string(), p.high.to_string()) } else { Default::default() };
            writeln!(text, "{name},{curve},{},{},{low},{high},{}", p.frame, p.mean, p.seeds).ok();
        }
        for seed in &agent.apart {
            for (frame, value) in &seed.points {
                writeln!(text, "{name},unfinished seed {},{frame},{value},,,1", seed.run.seed).ok();
            }
        }
    }
    text
}

/// The final table: one line per task and agent.
pub(crate) fn final_csv(tasks: &[Task<'_>]) -> String {
    let mut text = String::from("task,protocol,frames,agent,seeds,finished,mean,low90,high90,low95,high95\n");
    let maybe = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
    for task in tasks {
        for row in &task.rows {
            writeln!(
                text,
                "{},{},{},{},{},{},{},{},{},{},{}",
                field(&task.name),
                field(&task.protocol),
                task.frames,
                field(&row.agent),
                row.seeds,
                row.finished,
                maybe(row.mean),
                maybe(row.low90),
                maybe(row.high90),
                maybe(row.low95),
                maybe(row.high95)
            )
            .ok();
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
                    field(&task.name),
                    field(&task.protocol),
                    task.frames,
                    field(&agent.name),
                    run.seed,
                    run.frames,
                    run.episodes.len(),
                    final_window(run.episodes.len()),
                    final_score(&run.episodes).map_or_else(String::new, |score| score.to_string())
                )
                .ok();
            }
        }
    }
    text
}

/// Quotes a text field where commas, quotes or line breaks would break the row.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
