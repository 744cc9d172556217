//! A codec's own statistics over time, averaged over seeds: what each frequency of the spectral agent does, and
//! Pop-Art's mean and scale.

use super::curves::reach;
use crate::run::AgentRun;
use crate::stats;

/// Only every n-th point of the curves' grid is used: there are many of these lines, and they change slowly.
const STRIDE: usize = 3;
/// Activity below this share counts as none: one sample in ten million.
const SILENT: f64 = 1e-7;

/// How a panel's vertical axis is scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Logarithmic, shares shown as percentages.
    LogPercent,
    /// Logarithmic.
    Log,
    /// Shares that add up to one, drawn on top of one another.
    Stacked,
    /// Symmetric logarithmic, for values of either sign.
    Symlog,
}

/// One quantity of one agent.
pub(crate) struct Panel {
    /// Short name, for files and tests.
    pub key: &'static str,
    pub title: &'static str,
    /// What it shows, in a sentence.
    pub meaning: &'static str,
    pub scale: Scale,
    /// Frames of the values.
    pub grid: Vec<u64>,
    pub series: Vec<Series>,
    /// Whether series are frequencies, which are coloured by their place in the spectrum.
    pub spectrum: bool,
}

/// One line of a panel.
pub(crate) struct Series {
    pub name: String,
    /// The frequency, or the line's index.
    pub index: usize,
    pub values: Vec<Option<f64>>,
}

/// The panels that the seeds' metrics allow.
pub(super) fn panels(seeds: &[&AgentRun], grid: &[u64]) -> Vec<Panel> {
    // The last point of the grid is always among those kept.
    let coarse: Vec<u64> = grid.iter().rev().step_by(STRIDE).rev().copied().collect();
    let mut panels = Vec::new();
    let frequencies = seeds.iter().map(|run| run.metrics.frequencies()).max().unwrap_or(0);
    if frequencies > 0 {
        let active: Vec<usize> = (0..frequencies)
            .filter(|k| {
                let activity = mean_over_seeds(seeds, &format!("activity_{k}"), grid);
                activity.iter().flatten().any(|share| *share > SILENT)
            })
            .collect();
        let kinds = [
            (
                "activity",
                "activity",
                Scale::LogPercent,
                "The share of sampled n-step returns that are not zero at a frequency.",
            ),
            ("sigma", "σ of the targets", Scale::Log, "The running spread of each frequency’s targets."),
            (
                "loss_share",
                "share of the weighted loss",
                Scale::Stacked,
                "How much of the weighted loss comes from each frequency.",
            ),
        ];
        for (key, title, scale, meaning) in kinds {
            let mut series = Vec::new();
            for &k in &active {
                let mut values = mean_over_seeds(seeds, &format!("{key}_{k}"), &coarse);
                if scale == Scale::LogPercent {
                    for value in &mut values {
                        *value = value.filter(|share| *share > SILENT);
                    }
                }
                if values.iter().any(Option::is_some) {
                    series.push(Series { name: format!("frequency {k}"), index: k, values });
                }
            }
            push(
                &mut panels,
                Panel { key, title, meaning, scale, grid: coarse.clone(), series, spectrum: true },
            );
        }
    }
    let mut series = Vec::new();
    for (index, (key, name)) in [("mu", "μ"), ("sigma", "σ")].into_iter().enumerate() {
        let values = mean_over_seeds(seeds, key, &coarse);
        if values.iter().any(Option::is_some) {
            series.push(Series { name: name.to_owned(), index, values });
        }
    }
    let title = "μ and σ of the targets";
    let meaning =
        "The running mean μ and the running spread σ of the targets, by which this codec normalises them.";
    push(
        &mut panels,
        Panel { key: "popart", title, meaning, scale: Scale::Symlog, grid: coarse, series, spectrum: false },
    );
    panels
}

fn push(panels: &mut Vec<Panel>, panel: Panel) {
    if !panel.series.is_empty() {
        panels.push(panel);
    }
}

/// The mean over the seeds that have a finite value, at each frame of the grid.
fn mean_over_seeds(seeds: &[&AgentRun], column: &str, grid: &[u64]) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0usize); grid.len()];
    for run in seeds {
        let Some(values) = run.metrics.column(column) else { continue };
        let finite = run.metrics.frames.iter().zip(values).filter(|(_, value)| value.is_finite());
        let (frames, values): (Vec<u64>, Vec<f64>) = finite.map(|(frame, value)| (*frame, *value)).unzip();
        let read = stats::interpolate(&frames, &values, grid, reach(run, grid));
        for (sum, value) in sums.iter_mut().zip(read) {
            if let Some(value) = value {
                *sum = (sum.0 + value, sum.1 + 1);
            }
        }
    }
    sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / count as f64)).collect()
}
