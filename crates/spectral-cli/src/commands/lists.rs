//! `spectral tasks` and `spectral agents`.

use crate::args::{AgentsArgs, TableArgs};
use crate::failure::{Failure, SUCCESS};
use crate::table::Table;
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
        let mut table = Table::new(&["setting", "of", "default", "values", "meaning"]);
        for (owners, info) in every_setting(registry) {
            table.row(vec![
                json!(info.key),
                json!(owners.join(", ")),
                json!(info.default),
                json!(info.kind),
                json!(info.doc),
            ]);
        }
        table.print(args.table.json)?;
        return Ok(SUCCESS);
    }
    let mut table = Table::new(&["agent", "what it is"]);
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

/// Owners of a setting that are named; the others are counted.
const NAMED: usize = 3;
