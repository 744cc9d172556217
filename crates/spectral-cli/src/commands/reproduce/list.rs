//! What can be reproduced, and what it takes.

use crate::failure::{Failure, SUCCESS};
use crate::output::note;
use crate::table::Table;
use serde_json::json;
use spectral_train::experiment::{Experiment, Overrides};
use spectral_train::presets::FIGURES;
use spectral_train::registry::Registry;

/// Lists all figures, a line each.
pub fn run(as_json: bool, registry: &Registry) -> Result<u8, Failure> {
    let mut table = Table::new(&["figure", "runs", "frames", "needs", "summary"]);
    for figure in FIGURES {
        let experiment = Experiment::find(figure.name, &Overrides::default(), registry)?;
        let (runs, frames) = (experiment.runs(), experiment.frames());
        let frames = if as_json { json!(frames) } else { json!(in_words(frames)) };
        let trained = experiment.computed.is_none();
        table.row(vec![
            json!(figure.name),
            if trained { json!(runs) } else { json!(null) },
            if trained { frames } else { json!(null) },
            json!(needs(&experiment, registry)),
            json!(experiment.summary),
        ]);
    }
    table.print(as_json)?;
    note!(
        "\n`spectral reproduce FIGURE --dry-run` says what one costs here; `spectral reproduce --help` teaches the rest"
    );
    Ok(SUCCESS)
}

fn needs(experiment: &Experiment, registry: &Registry) -> &'static str {
    match (&experiment.computed, experiment.needs_roms(registry)) {
        (Some(_), _) => "nothing: computed",
        (None, true) => "ROMs, a GPU",
        (None, false) => "two cores",
    }
}

/// Frames of all runs together, to two digits.
fn in_words(frames: u64) -> String {
    match frames as f64 {
        n if n >= 1e9 => format!("{:.1} billion", n / 1e9),
        n => format!("{:.0} million", n / 1e6),
    }
}
