//! A codec's own statistics over time, from `metrics.csv`.

use std::collections::BTreeMap;

use crate::csv::{Source, Table};
use crate::error::ReportError;

/// Columns that a report uses, besides those that begin with one of [`FAMILIES`].
const COLUMNS: [&str; 4] = ["saturated", "epsilon", "mu", "sigma"];
/// Columns that exist once per frequency: the name, an underscore and the frequency's number.
const FAMILIES: [&str; 3] = ["activity", "sigma", "loss_share"];

/// The codec's own statistics of one agent, one value per logging interval; missing values are NaN.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Frames at the end of each logging interval.
    pub frames: Vec<u64>,
    columns: BTreeMap<String, Vec<f64>>,
}

impl Metrics {
    pub(crate) fn read(source: &Source<'_>) -> Result<Self, ReportError> {
        let Some(table) = Table::read(source)?.filter(|table| !table.is_blank()) else {
            return Ok(Self::default());
        };
        let frame = table.column("frame")?;
        let mut metrics = Self::default();
        for row in 0..table.len() {
            let at = table.count(row, frame)?;
            if metrics.frames.last().is_some_and(|last| *last > at) {
                return Err(table.wrong(row, frame, format!("is {at}: frames must not go back")));
            }
            metrics.frames.push(at);
        }
        for (column, name) in table.names().enumerate() {
            if COLUMNS.contains(&name) || frequency(name).is_some() {
                let values = (0..table.len()).map(|row| table.get(row, column).unwrap_or(f64::NAN)).collect();
                metrics.columns.insert(name.to_owned(), values);
            }
        }
        Ok(metrics)
    }

    /// Drops all values after `frames`.
    pub(super) fn cut(&mut self, frames: u64) {
        let kept = self.frames.partition_point(|frame| *frame <= frames);
        self.frames.truncate(kept);
        for column in self.columns.values_mut() {
            column.truncate(kept);
        }
    }

    /// A column of `metrics.csv`, if the codec writes it.
    pub fn column(&self, name: &str) -> Option<&[f64]> {
        self.columns.get(name).map(Vec::as_slice)
    }

    /// The last value of a column that exists.
    pub fn last(&self, name: &str) -> Option<f64> {
        self.column(name)?.iter().rev().copied().find(|value| value.is_finite())
    }

    /// How many frequencies the codec has; 0 if it has none.
    pub fn frequencies(&self) -> usize {
        let numbers = self.columns.keys().filter_map(|name| frequency(name));
        numbers.max().map_or(0, |highest| highest + 1)
    }
}

/// The frequency that a column such as `sigma_12` is about.
fn frequency(name: &str) -> Option<usize> {
    let (family, number) = name.rsplit_once('_')?;
    FAMILIES.contains(&family).then(|| number.parse().ok()).flatten()
}
