//! Tables for people and JSON for programs, from the same rows.

use crate::failure::Failure;
use crate::output::{one_line, print};
use serde_json::{Map, Value};
pub use spectral_core::settings::show_count as count;

/// A table whose columns have names, which are keys of JSON too: small letters, digits and underscores.
#[derive(Debug)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[impl ToString]) -> Self {
        Table { columns: columns.iter().map(ToString::to_string).collect(), rows: Vec::new() }
    }

    /// Adds a row, a value per column.
    pub fn row(&mut self, values: Vec<Value>) {
        debug_assert_eq!(values.len(), self.columns.len());
        self.rows.push(values);
    }

    /// Prints it: JSON if asked for, else aligned columns.
    pub fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            let object = |row: &Vec<Value>| {
                Value::Object(self.columns.iter().cloned().zip(row.iter().cloned()).collect::<Map<_, _>>())
            };
            let rows: Vec<Value> = self.rows.iter().map(object).collect();
            return print(&serde_json::to_string_pretty(&rows).expect("plain values"));
        }
        print(&self.text())
    }

    /// The aligned columns.
    pub fn text(&self) -> String {
        let cells: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(show).collect()).collect();
        let width = |c: usize| {
            let widest = cells.iter().map(|row| row[c].chars().count()).max().unwrap_or(0);
            widest.max(self.columns[c].chars().count())
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let numeric: Vec<bool> =
            (0..widths.len()).map(|c| self.rows.iter().any(|r| r[c].is_number())).collect();
        let line = |row: &[String]| {
            let mut text = String::new();
            for (c, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[c] - cell.chars().count());
                let cell = if numeric[c] { format!("{pad}{cell}") } else { format!("{cell}{pad}") };
                text.push_str(&cell);
                text.push_str("  ");
            }
            text.trim_end().to_string()
        };
        let lines: Vec<String> = std::iter::once(&self.columns).chain(&cells).map(|row| line(row)).collect();
        lines.join("\n")
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "–".into(),
        Value::String(text) => one_line(text),
        Value::Array(items) => items.iter().map(show).collect::<Vec<_>>().join(", "),
        Value::Number(n) if n.is_f64() => number(n.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

/// A number with about four digits that matter.
pub fn number(x: f64) -> String {
    match x.abs() {
        a if a == 0.0 || a >= 1000.0 => format!("{x:.0}"),
        a if a >= 100.0 => format!("{x:.1}"),
        a if a >= 1.0 => format!("{x:.2}"),
        a if a >= 0.001 => format!("{x:.4}"),
        _ => format!("{x:.2e}"),
    }
}

/// One of something, or several: `1 agent`, `12,000 frames`.
pub fn plural(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{} {what}s", count(n as u64)) }
}

/// A text in lines of at most so many characters; a word that is longer has a line of its own.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_and_nothing_of_it_is_lost() {
        let text = "a line that is too long for its place, incomprehensibly";
        let lines = wrap(text, 12);
        assert_eq!(lines, ["a line that", "is too long", "for its", "place,", "incomprehensibly"]);
        assert_eq!(lines.join(" "), text);
        assert!(wrap("", 5).is_empty());
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 1200].map(|n| plural(n, "agent")), ["0 agents", "1 agent", "1,200 agents"]);
    }
}
