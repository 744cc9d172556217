//! `spectral tasks` and `spectral agents`.

use crate::args::{AgentsArgs, TableArgs};
use crate::failure::{Failure, SUCCESS};
use crate::output::print;
use crate::table::{Table, wrap};
use serde_json::json;
use spectral_agent::settings::{AgentSettings, SettingInfo, Settings};
use spectral_train::config::{RunSettings, Selection};
use spectral_train::registry::Registry;

/// Lists the tasks.
pub fn tasks(args: &TableArgs, registry: &Registry) -> Result<u8, Failure> {
    let mut table = Table::new(&["task", "random_score", "best_score", "observations", "summary"]);
    for task in registry.tasks() {
        let scores = task.reference_scores();
        table.row(vec![
            json!(task.name()),
            json!(scores.map(|scores| scores.random)),
            json!(scores.and_then(|scores| scores.best)),
            json!(task.observations()),
            json!(task.summary()),
        ]);
    }
    table.print(args.json)?;
    Ok(SUCCESS)
}

/// Lists the agents, or every setting.
pub fn agents(args: &AgentsArgs, registry: &Registry) -> Result<u8, Failure> {
    if args.settings {
        let settings = every_setting(registry);
        if !args.table.json {
            print(&settings_text(&settings))?;
            return Ok(SUCCESS);
        }
        let mut table = Table::new(&["setting", "of", "default", "values", "meaning"]);
        for (owners, info) in settings {
            table.row(vec![
                json!(info.key),
                json!(owners.join(", ")),
                json!(info.default),
                json!(info.kind),
                json!(info.doc),
            ]);
        }
        table.print(true)?;
        return Ok(SUCCESS);
    }
    let mut table = Table::new(&["agent", "summary"]);
    for (_, agent) in registry.agents() {
        table.row(vec![json!(agent.name), json!(agent.summary)]);
    }
    table.print(args.table.json)?;
    Ok(SUCCESS)
}

/// Every setting that there is, with what has it: every run, every agent, or the tasks or codecs of these names. Tasks that
/// share a setting share a row.
fn every_setting(registry: &Registry) -> Vec<(Vec<String>, SettingInfo)> {
    let mut rows: Vec<(Vec<String>, SettingInfo)> = Vec::new();
    let mut add = |owner: &str, table: Vec<SettingInfo>| {
        for info in table {
            match rows.iter_mut().find(|(_, known)| *known == info) {
                Some((owners, _)) => owners.push(owner.into()),
                None => rows.push((vec![owner.into()], info)),
            }
        }
    };
    add("run", Selection::table());
    add("run", RunSettings::table());
    add("agent", AgentSettings::table());
    for codec in registry.codecs() {
        add(codec.name(), codec.schema().table());
    }
    for task in registry.tasks() {
        add(task.name(), task.schema().table());
    }
    for (owners, _) in &mut rows {
        let more = owners.len().saturating_sub(NAMED);
        if more > 0 {
            owners.truncate(NAMED);
            owners.push(format!("{more} more"));
        }
    }
    rows
}

/// Columns that every terminal has.
const WIDTH: usize = 80;

/// Every setting for people: by what has it, each with its default, what values there are and what it means.
fn settings_text(settings: &[(Vec<String>, SettingInfo)]) -> String {
    let mut lines = Vec::new();
    let mut heading = String::new();
    for (owners, info) in settings {
        let owner = match owners.join(", ").as_str() {
            "run" => "Settings of a run".to_string(),
            "agent" => "Settings of every agent".to_string(),
            codec_or_task => format!("Settings of {codec_or_task}"),
        };
        if owner != heading {
            lines.extend((!lines.is_empty()).then(String::new));
            lines.extend(wrap(&owner, WIDTH));
            heading = owner;
        }
        let default = if info.default.is_empty() { "none" } else { &info.default };
        lines.push(String::new());
        lines.extend(indented(&format!("{} = {default}   ({})", info.key, info.kind), 2, 6));
        lines.extend(indented(&info.doc, 6, 6));
    }
    lines.join("\n")
}

/// A text in lines that fit, the first so far to the right, the others so far.
fn indented(text: &str, first: usize, others: usize) -> Vec<String> {
    let lines = wrap(text, WIDTH - first.max(others));
    let indent = |number| " ".repeat(if number == 0 { first } else { others });
    lines.into_iter().enumerate().map(|(number, line)| indent(number) + &line).collect()
}

/// Owners of a setting that are named; the others are counted.
const NAMED: usize = 3;
