//! Results to standard output, as tables for people or as JSON for programs; everything else to standard error.

use crate::failure::{DATA, Failure};
use serde_json::Value;
use std::io::{ErrorKind, Write};

/// Prints a result and a line break. A reader that has closed its end is not a failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure { text: format!("cannot write the result: {e}"), exit_code: DATA })
        }
        _ => Ok(()),
    }
}

/// Prints a line to standard error. Unlike `eprintln!`, it does not panic if nobody reads it.
macro_rules! note {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}
pub(crate) use note;

/// A table whose columns have names.
#[derive(Debug)]
pub struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<Value>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[&'static str]) -> Self {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, a value per column.
    pub fn row(&mut self, values: Vec<Value>) {
        debug_assert_eq!(values.len(), self.columns.len());
        self.rows.push(values);
    }

    /// The rows as a JSON array of objects.
    pub fn json(&self) -> Value {
        let names = || self.columns.iter().map(|name| name.to_string());
        self.rows.iter().map(|row| Value::Object(names().zip(row.iter().cloned()).collect())).collect()
    }

    /// Aligned columns: numbers to the right, text to the left.
    pub fn text(&self) -> String {
        let header = self.columns.iter().map(|name| name.to_string()).collect();
        let mut lines: Vec<Vec<String>> = vec![header];
        lines.extend(self.rows.iter().map(|row| row.iter().map(show).collect()));
        for column in 0..self.columns.len() {
            let width = lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
            let numeric = self.rows.iter().any(|row| row[column].is_number());
            for line in &mut lines {
                let cell = &line[column];
                line[column] = if numeric { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            }
        }
        lines.iter().map(|line| line.join("  ").trim_end().to_string()).collect::<Vec<_>>().join("\n")
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "–".into(),
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => number(n.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

/// A number with about four significant digits.
pub fn number(x: f64) -> String {
    match x.abs() {
        a if a == 0.0 || a >= 1000.0 => format!("{x:.0}"),
        a if a >= 100.0 => format!("{x:.1}"),
        a if a >= 1.0 => format!("{x:.2}"),
        a if a >= 0.001 => format!("{x:.4}"),
        _ => format!("{x:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_are_aligned_and_json_has_their_names() {
        let mut table = Table::new(&["what", "ms"]);
        table.row(vec![json!("update"), json!(0.56271)]);
        table.row(vec![json!("two updates"), json!(null)]);
        assert_eq!(table.text(), "what             ms\nupdate       0.5627\ntwo updates       –");
        assert_eq!(table.json()[0], json!({ "what": "update", "ms": 0.56271 }));
    }
}
