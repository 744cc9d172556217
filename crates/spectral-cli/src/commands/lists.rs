//! `spectral tasks` and `spectral agents`.

use crate::args::{AgentsArgs, TableArgs};
use crate::failure::{Failure, SUCCESS};
use crate::table::Table;
use serde_json::json;
use spectral_agent::settings::{AgentSettings, SettingInfo};
use spectral_train::config::RunSettings;
use spectral_train::presets::AGENTS;

/// Lists the tasks.
pub fn tasks(args: &TableArgs) -> Result<u8, Failure> {
    let mut table = Table::new(&["task", "random_score", "best_score", "observations", "summary"]);
    for task in spectral_env::tasks() {
        table.row(vec![
            json!(task.name),
            json!(task.random_score),
            json!(task.best_score),
            json!(task.observations.iter().map(|o| o.name()).collect::<Vec<_>>()),
            json!(task.summary),
        ]);
    }
    for task in spectral_atari::task::tasks() {
        let none = || json!(null);
        table.row(vec![json!(task.name), none(), none(), json!(["pixels"]), json!(task.summary)]);
    }
    table.print(args.json)?;
    Ok(SUCCESS)
}

/// Lists the agents, or every setting.
pub fn agents(args: &AgentsArgs) -> Result<u8, Failure> {
    if args.settings {
        let mut table = Table::new(&["setting", "default", "values", "meaning"]);
        let mut add = |info: SettingInfo| {
            table.row(vec![json!(info.key), json!(info.default), json!(info.kind), json!(info.doc)]);
        };
        RunSettings::table().into_iter().for_each(&mut add);
        AgentSettings::table().into_iter().for_each(&mut add);
        table.print(args.table.json)?;
        return Ok(SUCCESS);
    }
    let mut table = Table::new(&["agent", "what it is"]);
    for agent in AGENTS {
        table.row(vec![json!(agent.name), json!(agent.summary())]);
    }
    table.print(args.table.json)?;
    Ok(SUCCESS)
}
