//! What a sweep found: its variants from best to worst, and what may be said of the best.

use crate::table::{Table, count, number};
use serde_json::{Map, Value, json};
use spectral_report::stats::{cautious_difference, tied};
use spectral_report::{ReportSummary, Row, SweepFigure, SweepLine, SweepPoint, csv_field};
use spectral_train::experiment::{Sweep, Variant};
use spectral_train::plan::Plan;
use std::path::{Path, PathBuf};

/// How sure the statement must be that one variant is better than another; reports use the same.
const LEVEL: f64 = 0.95;
/// So many variants that are level with the best are named.
const NAMED: usize = 3;
/// With more variants than this the report's warnings, which name each of them, are left to the report.
const FEW: usize = 12;

/// One variant and its final scores.
struct Entry<'a> {
    variant: &'a Variant,
    /// Nothing if no run of it was read.
    row: Option<&'a Row>,
}

impl Entry<'_> {
    fn mean(&self) -> Option<f64> {
        self.row.and_then(|row| row.mean)
    }

    fn per_seed(&self) -> &[f64] {
        self.row.map(|row| row.per_seed.as_slice()).unwrap_or_default()
    }
}

/// The best variant of an agent, and how it compares with the agent's others.
struct Best<'a> {
    entry: &'a Entry<'a>,
    /// Those with the same mean.
    tied: Vec<&'a Entry<'a>>,
    /// Those below from which it cannot be told apart.
    level: Vec<&'a Entry<'a>>,
    /// Whether there are others with scores.
    others: bool,
}

/// The table of a sweep and what follows from it.
pub struct Outcome<'a> {
    plan: &'a Plan,
    keys: &'a [String],
    /// Seeds that were asked for.
    seeds: usize,
    /// Best mean first, those without one last.
    entries: Vec<Entry<'a>>,
    /// What the report warns of.
    warnings: Vec<&'a str>,
}

/// What is said of every choice among several.
pub fn caution(variants: usize) -> Option<String> {
    (variants > 1).then(|| {
        format!(
            "The best of {variants} variants, chosen by the seeds it was trained with, looks better than it is: train it \
             again with seeds that had no part in the choice before comparing it with anything."
        )
    })
}

impl<'a> Outcome<'a> {
    /// Reads the report's rows.
    pub fn of(sweep: &'a Sweep, summary: &'a ReportSummary) -> Self {
        let rows = || summary.tasks.iter().flat_map(|task| &task.rows);
        let entry =
            |variant: &'a Variant| Entry { variant, row: rows().find(|row| row.agent == variant.name) };
        let mut entries: Vec<Entry<'a>> = sweep.variants.iter().map(entry).collect();
        let key = |entry: &Entry<'_>| entry.mean().unwrap_or(f64::NEG_INFINITY);
        entries.sort_by(|a, b| key(b).total_cmp(&key(a)));
        let plan = &sweep.experiment.plans[0];
        let warnings = summary.tasks.iter().flat_map(|task| &task.warnings).map(String::as_str).collect();
        let seeds = plan.agents.len() / sweep.variants.len().max(1);
        Outcome { plan, keys: &sweep.keys, seeds, entries, warnings }
    }

    /// The table and the sentences below it.
    pub fn text(&self) -> String {
        let mut columns = vec!["agent"];
        columns.extend(self.keys.iter().map(String::as_str));
        columns.extend(["seeds", "mean", "95% interval"]);
        let mut table = Table::new(&columns);
        for Entry { variant, row } in &self.entries {
            let mut cells = vec![json!(variant.agent)];
            cells.extend(self.keys.iter().map(|key| json!(variant.value(key))));
            let finished = row.map_or(0, |row| row.finished);
            let interval =
                row.and_then(|row| Some(format!("{} to {}", number(row.low95?), number(row.high95?))));
            let mean = row.and_then(|row| row.mean).map(number);
            cells.extend([json!(format!("{finished}/{}", self.seeds)), json!(mean), json!(interval)]);
            table.row(cells);
        }
        let head = format!(
            "{}: final score after {} frames, best first\n",
            self.plan.task,
            count(self.plan.run.frames)
        );
        let warnings = self.warnings.iter().filter(|_| self.entries.len() <= FEW);
        let warnings = warnings.map(|warning| format!("note: {warning}"));
        let sentences = self.sentences().into_iter().chain(warnings).map(|sentence| format!("\n{sentence}"));
        head + &table.text() + "\n" + &sentences.collect::<String>()
    }

    /// What may be said of the best variant of each agent, and with which caution.
    fn sentences(&self) -> Vec<String> {
        let mut sentences: Vec<String> = self.best().iter().map(|best| self.sentence(best)).collect();
        let scored = self.entries.iter().filter(|entry| entry.mean().is_some()).count();
        let without = self.entries.iter().filter(|entry| entry.mean().is_none());
        let without: Vec<String> = without.map(|entry| entry.variant.name.clone()).collect();
        if !without.is_empty() {
            sentences.push(format!("Without a finished seed that has a score: {}.", some(&without)));
        }
        sentences.extend(caution(scored));
        sentences
    }

    fn sentence(&self, best: &Best<'_>) -> String {
        let variant = best.entry.variant;
        let mean = best.entry.mean().map(number).unwrap_or_default();
        let seeds = match best.entry.per_seed().len() {
            1 => "1 seed".to_string(),
            n => format!("{n} seeds"),
        };
        let shared = !best.tied.is_empty();
        let head = if shared {
            let first = std::iter::once(best.entry).chain(best.tied.iter().copied());
            let all: Vec<String> = first.map(|entry| words(entry.variant)).collect();
            format!("{}: {} share the highest mean, {mean}", variant.agent, joined(&all))
        } else {
            format!("{}: {} has the highest mean, {mean} with {seeds}", variant.agent, words(variant))
        };
        if !best.others {
            return format!(
                "{}: {} has a mean of {mean} with {seeds}; there is no other to compare.",
                variant.agent,
                words(variant)
            );
        }
        if best.level.is_empty() && shared {
            return format!("{head}. With more seeds one of them may lead.");
        }
        if best.level.is_empty() {
            return format!(
                "{head}, and the {:.0}% interval of its difference from each other one is clear of zero.",
                100.0 * LEVEL
            );
        }
        let level: Vec<String> = best.level.iter().map(|entry| words(entry.variant)).collect();
        let named = some(&level);
        // Where a mean has no interval, no difference to it has one.
        let unknown = |entry: &Entry<'_>| entry.row.is_none_or(|row| row.low95.is_none());
        let unknown = unknown(best.entry) || best.level.iter().any(|entry| unknown(entry));
        let why = match unknown {
            true => "an interval needs three finished seeds on both sides, or two that did not end alike"
                .to_string(),
            false => format!("the {:.0}% interval of the difference holds zero", 100.0 * LEVEL),
        };
        format!(
            "{head}, but these seeds cannot tell {} apart from: {named} ({why}). With more seeds another one may lead.",
            if shared { "them" } else { "it" }
        )
    }

    /// The best variant of each agent that has scores, in the order of the table.
    fn best(&self) -> Vec<Best<'_>> {
        let mut best: Vec<Best<'_>> = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.mean().is_some()) {
            let Some(of_agent) = best.iter_mut().find(|best| best.entry.variant.agent == entry.variant.agent)
            else {
                best.push(Best { entry, tied: Vec::new(), level: Vec::new(), others: false });
                continue;
            };
            of_agent.others = true;
            if of_agent.entry.mean().zip(entry.mean()).is_some_and(|(best, mean)| tied(best, mean)) {
                of_agent.tied.push(entry);
                continue;
            }
            let difference = cautious_difference(of_agent.entry.per_seed(), entry.per_seed(), LEVEL);
            if difference.is_none_or(|interval| interval.low <= 0.0) {
                of_agent.level.push(entry);
            }
        }
        best
    }

    /// The table for programs.
    pub fn json(&self, report: &Path, figures: &[PathBuf]) -> String {
        let entry = |Entry { variant, row }: &Entry<'_>| {
            let values = variant.values.iter().map(|(key, value)| (key.clone(), typed(value)));
            json!({
                "variant": variant.name, "agent": variant.agent, "values": values.collect::<Map<_, _>>(),
                "seeds": self.seeds, "finished": row.map_or(0, |row| row.finished),
                "mean": row.and_then(|row| row.mean), "low95": row.and_then(|row| row.low95),
                "high95": row.and_then(|row| row.high95), "per_seed": row.map(|row| &row.per_seed),
            })
        };
        let best = |best: &Best<'_>| {
            let level = best.tied.iter().chain(&best.level);
            let level: Vec<&str> = level.map(|entry| entry.variant.name.as_str()).collect();
            let clear = best.others && level.is_empty();
            json!({
                "agent": best.entry.variant.agent, "variant": best.entry.variant.name, "mean": best.entry.mean(),
                "clear": clear, "level_with": level,
            })
        };
        let table = json!({
            "task": self.plan.task, "protocol": self.plan.run.protocol, "frames": self.plan.run.frames,
            "varied": self.keys, "variants": self.entries.iter().map(entry).collect::<Vec<_>>(),
            "best": self.best().iter().map(best).collect::<Vec<_>>(), "notes": self.sentences(), "warnings": self.warnings,
            "report": report, "figures": figures,
        });
        serde_json::to_string_pretty(&table).expect("plain values")
    }

    /// The table as CSV.
    pub fn csv(&self) -> String {
        let maybe = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let mut text = format!("variant,agent,{},seeds,finished,mean,low95,high95\n", self.keys.join(","));
        for Entry { variant, row } in &self.entries {
            let mut cells = vec![csv_field(&variant.name), csv_field(&variant.agent)];
            cells.extend(self.keys.iter().map(|key| csv_field(variant.value(key).unwrap_or_default())));
            cells.extend([self.seeds.to_string(), row.map_or(0, |row| row.finished).to_string()]);
            let numbers =
                [row.and_then(|row| row.mean), row.and_then(|row| row.low95), row.and_then(|row| row.high95)];
            cells.extend(numbers.map(maybe));
            text.push_str(&cells.join(","));
            text.push('\n');
        }
        text
    }

    /// A figure for each setting whose values are numbers, if there is something to see, by the setting's name.
    pub fn figures(&self) -> Vec<(&str, SweepFigure)> {
        let figures = self.keys.iter().filter_map(|key| Some((key.as_str(), self.figure(key)?)));
        figures.filter(|(_, figure)| figure.is_worth_drawing()).collect()
    }

    fn figure(&self, key: &str) -> Option<SweepFigure> {
        let mut lines: Vec<SweepLine> = Vec::new();
        let varied = self.entries.iter().filter_map(|entry| Some((entry, entry.variant.value(key)?)));
        for (entry, value) in varied {
            let value: f64 = value.parse().ok()?;
            let point = SweepPoint { value, per_seed: entry.per_seed().to_vec() };
            let others = entry.variant.values.iter().filter(|(other, _)| other != key);
            let others: String = others.map(|(key, value)| format!(", {key} {value}")).collect();
            let name = entry.variant.agent.clone() + &others;
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(SweepLine { name, points: vec![point] }),
            }
        }
        for line in &mut lines {
            line.points.sort_by(|a, b| a.value.total_cmp(&b.value));
        }
        lines.sort_by(|a, b| a.name.cmp(&b.name));
        Some(SweepFigure { title: self.plan.task.clone(), setting: key.into(), lines })
    }
}

/// The first few of a list, and how many more there are.
fn some(items: &[String]) -> String {
    let mut named = items.iter().take(NAMED).cloned().collect::<Vec<_>>();
    if items.len() > NAMED {
        named.push(format!("{} more", items.len() - NAMED));
    }
    joined(&named)
}

/// A list of items that may hold commas.
fn joined(items: &[String]) -> String {
    match items {
        [init @ .., last] if !init.is_empty() => format!("{}; and {last}", init.join("; ")),
        _ => items.concat(),
    }
}

/// What makes a variant one, for people.
fn words(variant: &Variant) -> String {
    if variant.values.is_empty() {
        return variant.name.clone();
    }
    variant.values.iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
}

/// A value as JSON has it: numbers and truth as such.
fn typed(value: &str) -> Value {
    let read = serde_json::from_str::<Value>(value).ok();
    read.filter(|value| value.is_number() || value.is_boolean()).unwrap_or_else(|| json!(value))
}
