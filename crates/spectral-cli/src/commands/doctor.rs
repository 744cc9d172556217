//! `spectral doctor`: what this machine offers and what would be used.

use crate::args::TableArgs;
use crate::failure::{Failure, SUCCESS};
use crate::output::print;
use crate::table::Table;
use serde_json::{Map, Value, json};
use spectral_nn::Cpu;
use spectral_train::devices;
use spectral_train::machine::{Hardware, available_memory, human_bytes};

/// One thing that was looked at: for people in words, for programs under a key of its own.
struct Finding {
    what: &'static str,
    words: Vec<String>,
    key: &'static str,
    value: Value,
}

/// Looks around.
pub fn run(args: &TableArgs) -> Result<u8, Failure> {
    let findings = look_around();
    if args.json {
        let object: Map<String, Value> =
            findings.into_iter().map(|finding| (finding.key.to_string(), finding.value)).collect();
        print(&serde_json::to_string_pretty(&object).expect("plain values"))?;
        return Ok(SUCCESS);
    }
    let mut table = Table::new(&["what", "found"]);
    for finding in findings {
        finding.words.iter().for_each(|words| table.row(vec![json!(finding.what), json!(words)]));
    }
    table.print(false)?;
    Ok(SUCCESS)
}

fn look_around() -> Vec<Finding> {
    let hardware = Hardware::here();
    let one = |what, key, words: String, value| Finding { what, words: vec![words], key, value };
    let text = |what, key, words: String| one(what, key, words.clone(), json!(words));
    let memory = available_memory();
    let mut findings = vec![
        text("version", "version", env!("CARGO_PKG_VERSION").into()),
        text("processor", "processor", hardware.cpu),
        one("threads that will be used", "threads", hardware.cores.to_string(), json!(hardware.cores)),
        text("vector instructions", "vector_instructions", format!("{:?}", Cpu::new().instructions())),
        one(
            "memory available",
            "memory_available_bytes",
            memory.map_or("unknown".into(), human_bytes),
            json!(memory),
        ),
    ];
    let gpus: Vec<Value> = (0..)
        .map_while(|number| devices::probe(number).ok())
        .map(|gpu| json!({"number": gpu.number, "name": gpu.name, "free_bytes": gpu.free_bytes}))
        .collect();
    findings.push(Finding { what: "GPU", words: devices::describe(), key: "gpus", value: json!(gpus) });
    let compiler = devices::compiler();
    findings.push(one(
        "CUDA's run-time compiler",
        "cuda_compiler",
        compiler.clone().unwrap_or_else(|| "not found".into()),
        json!(compiler),
    ));
    #[cfg(feature = "atari")]
    findings.push(roms());
    let here = std::env::current_dir().map(|d| d.display().to_string()).unwrap_or_default();
    let probe = std::path::Path::new(".spectral-doctor-probe");
    let writable = std::fs::write(probe, b"").and_then(|()| std::fs::remove_file(probe));
    let words = writable.as_ref().map_or_else(|e| format!("cannot write here: {e}"), |()| "writable".into());
    let value = json!({"path": here, "writable": writable.is_ok()});
    findings.push(one("folder", "folder", format!("{here}: {words}"), value));
    findings
}

#[cfg(feature = "atari")]
fn roms() -> Finding {
    use spectral_atari::roms::{Presence, folders, list};
    let (mut words, mut values) = (Vec::new(), Vec::new());
    for folder in folders() {
        let roms = list(&folder);
        let good = roms.iter().filter(|(_, presence)| *presence == Presence::Good).count();
        words.push(format!("{good} of {} in {}", roms.len(), folder.display()));
        values.push(json!({"path": folder.display().to_string(), "good": good, "of": roms.len()}));
    }
    Finding { what: "ROMs", words, key: "roms", value: json!(values) }
}
