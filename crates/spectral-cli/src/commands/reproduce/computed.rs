//! Figures that are computed, not trained: the paper's numbers beside ours.

use super::cannot_write;
use crate::commands::decompose;
use crate::failure::{DATA, Failure, SUCCESS};
use crate::output::print;
use serde_json::json;
use spectral_core::decompose::{Encoding, Spectrum};
use spectral_core::returns::{scalar_return, spectral_return};
use spectral_train::experiment::Experiment;
use spectral_train::store::write_atomically;
use std::fmt::Write as _;
use std::path::Path;

/// What the paper prints, it prints to three decimals.
const TOLERANCE: f64 = 0.0005 + 1e-9;

/// One number of the paper's and ours.
struct Line {
    what: String,
    ours: f64,
    paper: f64,
}

impl Line {
    fn agrees(&self) -> bool {
        (self.ours - self.paper).abs() <= TOLERANCE
    }
}

/// A computed figure: for the terminal, as a drawing, as numbers.
struct Figure {
    drawing: String,
    svg: String,
    lines: Vec<Line>,
}

/// Computes, compares, prints and writes.
pub fn run(experiment: &Experiment, table: &toml::Table, out: &Path, as_json: bool) -> Result<u8, Failure> {
    let wrong = |what: String| Failure::usage(format!("{}: [computed] {what}", experiment.name));
    let figure = match table.get("kind").and_then(|kind| kind.as_str()) {
        Some("decomposition") => decomposition(table),
        Some("returns") => returns(table),
        _ => Err("needs kind = \"decomposition\" or \"returns\"".into()),
    };
    let figure = figure.map_err(wrong)?;
    let folder = out.join(&experiment.name);
    std::fs::create_dir_all(&folder).map_err(|e| cannot_write(&folder, &e))?;
    let csv = csv(&figure.lines);
    let markdown = markdown(experiment, &figure);
    for (ending, text) in [("svg", &figure.svg), ("csv", &csv), ("md", &markdown)] {
        let path = folder.join(format!("{}.{ending}", experiment.name));
        write_atomically(&path, |file| file.write_all(text.as_bytes()))
            .map_err(|e| cannot_write(&path, &e))?;
    }
    let verdict = verdict(&figure.lines);
    if as_json {
        let line = |l: &Line| json!({"what": l.what, "ours": l.ours, "paper": l.paper, "agrees": l.agrees()});
        let numbers: Vec<_> = figure.lines.iter().map(line).collect();
        let text = json!({
            "figure": experiment.name, "title": experiment.title, "verdict": verdict, "numbers": numbers,
            "folder": folder,
        });
        let text = serde_json::to_string_pretty(&text)
            .map_err(|e| Failure { text: e.to_string(), exit_code: DATA })?;
        print(&text)?;
        return Ok(SUCCESS);
    }
    let mut text = format!("{} ({})\n\n{}\n", experiment.title, experiment.paper, figure.drawing);
    let width = figure.lines.iter().map(|l| l.what.chars().count()).max().unwrap_or(0);
    let _ = writeln!(text, "\n{:width$}  {:>8}  {:>8}", "", "ours", "paper");
    for l in &figure.lines {
        let sign = if l.agrees() { "agrees" } else { "DIFFERS" };
        let _ = writeln!(text, "{:width$}  {:>8.3}  {:>8.3}  {sign}", l.what, l.ours, l.paper);
    }
    print(&format!("{text}\n{verdict}; drawn in {}", folder.display()))?;
    Ok(SUCCESS)
}

fn verdict(lines: &[Line]) -> String {
    let agreeing = lines.iter().filter(|l| l.agrees()).count();
    if agreeing == lines.len() {
        format!("agree: all {agreeing} numbers are the paper's")
    } else {
        format!("differ: {agreeing} of {} numbers are the paper's", lines.len())
    }
}

/// Figure 2: how far a number fills the buckets.
fn decomposition(table: &toml::Table) -> Result<Figure, String> {
    let (spectrum, base) = spectrum(table)?;
    let number = number(table, "number")?;
    let paper = numbers(table, "elements", spectrum.frequencies())?;
    let mut parts = vec![0.0; spectrum.frequencies()];
    spectrum.decompose_f64(number, &mut parts);
    let recovered = spectrum.recompose_f64(&parts);
    let mut lines: Vec<Line> = Vec::new();
    for (i, (&ours, &paper)) in parts.iter().zip(&paper).enumerate() {
        lines.push(Line { what: format!("element {i}"), ours, paper });
    }
    lines.push(Line { what: "recovered".into(), ours: recovered, paper: number });
    Ok(Figure {
        drawing: decompose::draw(number, base, &spectrum, &parts, recovered),
        svg: buckets(number, base, spectrum.weights_f64(), &parts),
        lines,
    })
}

/// Table 1: the return of a few rewards, frequency by frequency.
fn returns(table: &toml::Table) -> Result<Figure, String> {
    let (spectrum, base) = spectrum(table)?;
    let discount = number(table, "discount")?;
    let rewards: Vec<f64> = list(table, "rewards")?;
    let n = spectrum.frequencies();
    let (paper, paper_weighted) = (numbers(table, "spectral_returns", n)?, numbers(table, "weighted", n)?);
    let ours = spectral_return(&spectrum, &rewards, discount);
    let mut drawing = format!("{:>4} {:>7} {:>7}", "t", "γᵗ", "reward");
    for i in 0..n {
        let _ = write!(drawing, " {:>8}", format!("r{i}"));
    }
    for (t, &reward) in rewards.iter().enumerate() {
        let mut parts = vec![0.0; n];
        spectrum.decompose_f64(reward, &mut parts);
        let mut row = format!("{t:>4} {:>7.3} {reward:>7}", discount.powi(t as i32));
        for part in parts {
            let _ = write!(row, " {part:>8}");
        }
        let _ = write!(drawing, "\n{row}");
    }
    let mut lines = Vec::new();
    let weights = spectrum.weights_f64();
    for i in 0..n {
        lines.push(Line { what: format!("spectral return {i}"), ours: ours[i], paper: paper[i] });
    }
    for i in 0..n {
        let what = format!("spectral return {i} × {}", weights[i]);
        lines.push(Line { what, ours: ours[i] * weights[i], paper: paper_weighted[i] });
    }
    let total = number(table, "total")?;
    lines.push(Line { what: "their sum".into(), ours: spectrum.recompose_f64(&ours), paper: total });
    lines.push(Line {
        what: "the return itself".into(),
        ours: scalar_return(&rewards, discount),
        paper: total,
    });
    let mut rows = vec![format!("Rewards to base {base}, discount {discount}"), String::new()];
    rows.extend(drawing.lines().map(String::from));
    rows.extend([String::new(), format!("{:<22} {:>8} {:>8}", "", "ours", "paper")]);
    rows.extend(lines.iter().map(|l| format!("{:<22} {:>8.3} {:>8.3}", l.what, l.ours, l.paper)));
    Ok(Figure { drawing, svg: text_svg(&rows), lines })
}

fn spectrum(table: &toml::Table) -> Result<(Spectrum, f64), String> {
    let base = number(table, "base")?;
    let frequency = table.get("max_frequency").and_then(|v| v.as_integer());
    let frequency = frequency.and_then(|n| usize::try_from(n).ok()).ok_or("needs max_frequency")?;
    Ok((Spectrum::new(base, frequency, Encoding::Thermometer).map_err(|e| e.to_string())?, base))
}

fn number(table: &toml::Table, key: &str) -> Result<f64, String> {
    table.get(key).and_then(as_number).ok_or(format!("needs a number '{key}'"))
}

fn numbers(table: &toml::Table, key: &str, count: usize) -> Result<Vec<f64>, String> {
    let list = list(table, key)?;
    if list.len() == count { Ok(list) } else { Err(format!("'{key}' must hold {count} numbers")) }
}

fn list(table: &toml::Table, key: &str) -> Result<Vec<f64>, String> {
    let list = table.get(key).and_then(|v| v.as_array());
    let list = list.and_then(|items| items.iter().map(as_number).collect::<Option<Vec<f64>>>());
    list.ok_or(format!("needs a list of numbers '{key}'"))
}

fn as_number(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|i| i as f64)).filter(|x| x.is_finite())
}

fn csv(lines: &[Line]) -> String {
    let mut text = String::from("what,ours,paper,agrees\n");
    for l in lines {
        let _ = writeln!(text, "{},{},{},{}", l.what, l.ours, l.paper, l.agrees());
    }
    text
}

fn markdown(experiment: &Experiment, figure: &Figure) -> String {
    let mut text = format!("# {} ({})\n\n", experiment.title, experiment.paper);
    let _ = writeln!(text, "```\n{}\n```\n\n| what | ours | paper | |\n|---|---|---|---|", figure.drawing);
    for l in &figure.lines {
        let sign = if l.agrees() { "agrees" } else { "**differs**" };
        let _ = writeln!(text, "| {} | {:.3} | {:.3} | {sign} |", l.what, l.ours, l.paper);
    }
    let _ = writeln!(text, "\n{}.", verdict(&figure.lines));
    text
}

/// Buckets side by side, as wide as they are, filled as far as they are.
fn buckets(number: f64, base: f64, widths: &[f64], parts: &[f64]) -> String {
    const PLOT: f64 = 640.0;
    let scale = PLOT / widths.iter().sum::<f64>();
    let mut body = String::new();
    let mut left = 0.0;
    for (i, (&width, &part)) in widths.iter().zip(parts).enumerate() {
        let (x, w) = (20.0 + left * scale, width * scale);
        let _ = write!(
            body,
            "<rect x=\"{x:.1}\" y=\"60\" width=\"{:.1}\" height=\"70\" fill=\"#4477aa\"/>\
             <rect x=\"{x:.1}\" y=\"60\" width=\"{w:.1}\" height=\"70\" fill=\"none\" stroke=\"#222\"/>\
             <text x=\"{:.1}\" y=\"52\" text-anchor=\"middle\">r{i} = {part}</text>\
             <text x=\"{x:.1}\" y=\"148\" text-anchor=\"middle\">{left}</text>",
            w * part.abs(),
            x + w / 2.0,
        );
        left += width;
    }
    let at = 20.0 + number.abs().min(left) * scale;
    let _ = write!(
        body,
        "<text x=\"{:.1}\" y=\"148\" text-anchor=\"middle\">{left}</text>\
         <line x1=\"{at:.1}\" y1=\"56\" x2=\"{at:.1}\" y2=\"162\" stroke=\"#aa3377\" stroke-width=\"2\"/>\
         <text x=\"{at:.1}\" y=\"176\" text-anchor=\"middle\" fill=\"#aa3377\">{number}</text>",
        20.0 + PLOT
    );
    svg(680.0, 190.0, &format!("The spectral decomposition of {number} to base {base}"), &body)
}

fn text_svg(rows: &[String]) -> String {
    let mut body = String::new();
    for (i, row) in rows.iter().enumerate() {
        let y = 52 + 18 * i;
        let _ = write!(
            body,
            "<text x=\"20\" y=\"{y}\" font-family=\"monospace\" xml:space=\"preserve\">{row}</text>"
        );
    }
    let height = 70.0 + 18.0 * rows.len() as f64;
    svg(680.0, height, "A return as a weighted sum of spectral returns", &body)
}

fn svg(width: f64, height: f64, title: &str, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\" role=\"img\" aria-label=\"{title}\">\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\
         <text x=\"20\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{title}</text>{body}</svg>\n"
    )
}
