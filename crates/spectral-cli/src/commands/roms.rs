//! `spectral roms`: the cartridges of the Atari tasks.

use crate::args::RomsAction;
use crate::failure::{DATA, Failure, SUCCESS};
use crate::output::note;
use crate::table::Table;
use serde_json::json;
use spectral_atari::roms::{self, Presence, RomsError, Source};

/// Installs or lists ROMs.
pub fn run(action: &RomsAction) -> Result<u8, Failure> {
    let folder = roms::directory().map_err(failed)?;
    match action {
        RomsAction::Install { from, table } => {
            let source = from.clone().map_or(Source::Pip, Source::Path);
            let installed = roms::install(&source, &folder).map_err(failed)?;
            let mut rows = Table::new(&["roms", "games"]);
            let groups = [
                ("installed", installed.written),
                ("already there", installed.kept),
                ("not found", installed.absent),
            ];
            for (name, games) in groups {
                rows.row(vec![json!(name), if table.json { json!(games) } else { json!(games.len()) }]);
            }
            rows.print(table.json)?;
            note!("ROMs are in {}", folder.display());
        }
        RomsAction::List(table) => {
            let mut rows = Table::new(&["game", "rom", "md5"]);
            let lists: Vec<_> =
                roms::folders().into_iter().map(|folder| (roms::list(&folder), folder)).collect();
            let mut used = vec![false; lists.len()];
            for (number, (game, own)) in lists[0].0.iter().enumerate() {
                // A task takes the first good one, but complains about a wrong one in the user's own folder.
                let good = lists.iter().position(|(roms, _)| roms[number].1 == Presence::Good);
                let place = if *own == Presence::Missing { good.unwrap_or(0) } else { 0 };
                used[place] = true;
                let state = match &lists[place].0[number].1 {
                    Presence::Good => "good".to_string(),
                    Presence::Missing => "missing".to_string(),
                    Presence::Wrong { found } => format!("wrong: its md5 is {found}"),
                    Presence::Unreadable { reason } => format!("cannot be read: {reason}"),
                };
                rows.row(vec![json!(game.name), json!(state), json!(game.md5)]);
            }
            rows.print(table.json)?;
            for ((_, folder), _) in lists.iter().zip(used).skip(1).filter(|(_, used)| *used) {
                note!("ROMs were also found in {}", folder.display());
            }
            note!("ROMs are in {}; `spectral roms install` gets those that are missing", folder.display());
        }
    }
    Ok(SUCCESS)
}

fn failed(error: RomsError) -> Failure {
    Failure { text: error.to_string(), exit_code: DATA }
}
