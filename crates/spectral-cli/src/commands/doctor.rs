//! `spectral doctor`: what this machine offers and what would be used.

use crate::args::TableArgs;
use crate::failure::{Failure, SUCCESS};
use crate::table::Table;
use serde_json::json;
use spectral_nn::Cpu;
use spectral_train::devices;
use spectral_train::machine::{Hardware, available_memory, human_bytes};

/// Looks around.
pub fn run(args: &TableArgs) -> Result<u8, Failure> {
    let hardware = Hardware::here();
    let mut table = Table::new(&["what", "found"]);
    table.row(vec![json!("version"), json!(env!("CARGO_PKG_VERSION"))]);
    table.row(vec![json!("processor"), json!(hardware.cpu)]);
    table.row(vec![json!("threads that will be used"), json!(hardware.cores.to_string())]);
    table.row(vec![json!("vector instructions"), json!(format!("{:?}", Cpu::new().instructions()))]);
    let memory = available_memory().map_or("unknown".into(), human_bytes);
    table.row(vec![json!("memory available"), json!(memory)]);
    for device in devices::describe() {
        table.row(vec![json!("GPU"), json!(device)]);
    }
    let compiler = devices::compiler().unwrap_or_else(|| "not found".into());
    table.row(vec![json!("CUDA's run-time compiler"), json!(compiler)]);
    #[cfg(feature = "atari")]
    for folder in spectral_atari::roms::folders() {
        let roms = spectral_atari::roms::list(&folder);
        let good =
            roms.iter().filter(|(_, presence)| *presence == spectral_atari::roms::Presence::Good).count();
        let found = format!("{good} of {} in {}", roms.len(), folder.display());
        table.row(vec![json!("ROMs"), json!(found)]);
    }
    let here = std::env::current_dir().map(|d| d.display().to_string()).unwrap_or_default();
    let probe = std::path::Path::new(".spectral-doctor-probe");
    let writable = std::fs::write(probe, b"").and_then(|()| std::fs::remove_file(probe));
    let writable = writable.map_or_else(|e| format!("cannot write here: {e}"), |()| "writable".into());
    table.row(vec![json!("folder"), json!(format!("{here}: {writable}"))]);
    table.print(args.json)?;
    Ok(SUCCESS)
}
