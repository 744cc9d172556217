//! Runs of version 0.1: how their `run.toml` differs, and the fingerprint that their checkpoints carry.
//!
//! In format 1 the options of all tasks stood at the top level, every agent had the settings of every codec, and nothing was
//! said of the task's shape. The fingerprint was computed from the file's own text, so it still can be.

use crate::error::TrainError;
use crate::presets::{self, PROTOCOLS};
use spectral_agent::settings::Values;
use spectral_env::TaskEntry;

/// The format of `run.toml` in version 0.1.
pub(crate) const FORMAT: u64 = 1;

/// Settings that every agent had, whatever its codec.
const CODEC_KEYS: &[&str] = &[
    "codec",
    "base",
    "max_frequency",
    "encoding",
    "weights",
    "undo_last_layer",
    "statistics_rate",
    "transform",
    "transform_epsilon",
    "error_correction",
    "support",
    "support_max",
    "atoms",
    "targets",
    "readout",
    "gauss_bins",
];

/// Whether a setting in the file of an agent may be that of a codec which the agent does not have.
pub(crate) fn belongs_to_another_codec(key: &str) -> bool {
    CODEC_KEYS.contains(&key)
}

/// The task's settings, which lay beside the run's. What the task does not have was never used.
pub(crate) fn task_settings(
    table: &toml::Table,
    task: &TaskEntry,
    protocol: &str,
) -> Result<Values, TrainError> {
    let mut values = task.unrecorded();
    let protocol = presets::find(PROTOCOLS, protocol).map_or("", |preset| preset.text);
    let protocol: toml::Table = protocol.parse().unwrap_or_default();
    for (key, value) in protocol.iter().chain(table) {
        if task.schema().keys().contains(&key.as_str()) {
            let value = crate::config::plain(value).unwrap_or_default();
            task.schema().set(&mut values, key, &value)?;
        }
    }
    task.resolve(&mut values)?;
    Ok(values)
}

/// The fingerprint that version 0.1 gave to the run in this file.
///
/// It was the checksum of the file as it would be with everything neutral that may change between two starts of a run, and
/// without the lines that say what was so before there was a choice.
pub(crate) fn fingerprint(text: &str, task: &TaskEntry) -> u32 {
    let mut defaults = task.schema().defaults();
    let resolved = task.resolve(&mut defaults).is_ok();
    // A game in its default mode and difficulty counts as before there was a choice of them.
    let usual = |key: &str, value: &str| resolved && defaults.get(key).is_none_or(|number| number == value);
    let field = |key: &str| {
        let prefix = format!("{key} = ");
        text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or("\"auto\"")
    };
    let plays_defaults = usual("mode", field("mode")) && usual("difficulty", field("difficulty"));
    let mut lines = Vec::new();
    let mut section = "";
    for line in text.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let key = line.split(" = ").next().unwrap_or_default();
        let line = match (section, key) {
            ("", "frames") => "frames = 0",
            ("", "checkpoint_seconds") => "checkpoint_seconds = 0.0",
            ("", "created") => "created = \"\"",
            ("", "note") => "note = \"\"",
            ("", "command") => "command = \"\"",
            ("", "version" | "checkpoint" | "device" | "precision" | "groups") => continue,
            ("", "mode" | "difficulty") if plays_defaults => continue,
            ("", _) if ["frame_skip = 1", "mode = \"auto\"", "difficulty = \"auto\""].contains(&line) => {
                continue;
            }
            ("[hardware]", "cpu") => "cpu = \"\"",
            ("[hardware]", "cores") => "cores = 0",
            ("[hardware]", "device") => "device = \"cpu\"",
            _ => line,
        };
        lines.push(line);
    }
    crc32fast::hash(lines.join("\n").as_bytes())
}
