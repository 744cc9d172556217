//! TOML texts as settings.

use super::Pair;
use crate::error::TrainError;
use spectral_agent::settings::Setting;
use std::path::Path;

pub(crate) fn read_text(path: &Path) -> Result<String, TrainError> {
    crate::store::read_text(path)
        .map_err(|e| TrainError::Usage(format!("cannot read {}: {e}", path.display())))
}

/// A TOML value as the text that a setting reads; lists become comma-separated text, tables nothing.
pub(crate) fn plain(value: &toml::Value) -> Option<String> {
    Some(match value {
        toml::Value::String(s) => s.clone(),
        toml::Value::Integer(i) => i.to_string(),
        toml::Value::Float(x) => x.show(),
        toml::Value::Boolean(b) => b.to_string(),
        toml::Value::Array(items) => items.iter().map(plain).collect::<Option<Vec<_>>>()?.join(","),
        toml::Value::Datetime(_) | toml::Value::Table(_) => return None,
    })
}

/// A TOML text; `origin` names it in errors.
pub(crate) fn parse(text: &str, origin: &str) -> Result<toml::Table, TrainError> {
    text.parse().map_err(|e: toml::de::Error| {
        // The error repeats the line that it is about, which may be all of a long file.
        let long = e.span().is_some_and(|span| {
            let at = span.start.min(text.len());
            let before = text.as_bytes()[..at].iter().rev().take_while(|byte| **byte != b'\n').count();
            let after = text.as_bytes()[at..].iter().take_while(|byte| **byte != b'\n').count();
            before + after > LONGEST_EXCERPT
        });
        let said = if long { e.message().to_string() } else { e.to_string() };
        let said = match said.char_indices().nth(3 * LONGEST_EXCERPT) {
            Some((end, _)) => format!("{}…", &said[..end]),
            None => said,
        };
        TrainError::Usage(format!("{origin} is no valid TOML: {said}"))
    })
}

/// Bytes of the longest line that an error about a TOML text repeats.
const LONGEST_EXCERPT: usize = 200;

/// A TOML table as dotted keys and plain values; lists become comma-separated text.
pub(super) fn flatten(table: &toml::Table, origin: &str) -> Result<Vec<Pair>, TrainError> {
    fn walk(prefix: &str, table: &toml::Table, origin: &str, out: &mut Vec<Pair>) -> Result<(), String> {
        for (key, value) in table {
            let key = format!("{prefix}{key}");
            if let toml::Value::Table(inner) = value {
                walk(&format!("{key}."), inner, origin, out)?;
                continue;
            }
            let value = plain(value).ok_or(format!("'{key}' is no plain value"))?;
            out.push(Pair { key, value, origin: Some(origin.into()) });
        }
        Ok(())
    }
    let mut out = Vec::new();
    walk("", table, origin, &mut out).map_err(|e| TrainError::Usage(format!("{origin}: {e}")))?;
    Ok(out)
}
