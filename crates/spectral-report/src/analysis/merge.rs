//! Decides which runs belong together and whether they may be averaged. Seeds are independent, so separate runs of one
//! experiment can be merged, but only if nothing except the seeds differs.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Difference, ReportError};
use crate::format::list;
use crate::run::{AgentRun, Run};

/// Options that affect results only by rounding. Runs that differ in them are merged, with a note.
const ROUNDING: [&str; 3] = ["device", "precision", "groups"];

/// Runs of one task, protocol and length.
pub(crate) struct Experiment<'a> {
    pub slug: String,
    pub runs: Vec<&'a Run>,
}

/// Groups runs by experiment. Another length or protocol makes another experiment, which must not be averaged with this one.
pub(crate) fn experiments(runs: &[Run]) -> Vec<Experiment<'_>> {
    let mut slugs = BTreeSet::new();
    let mut experiments: Vec<Experiment<'_>> = Vec::new();
    for run in runs {
        let same = |experiment: &&mut Experiment<'_>| {
            let first = experiment.runs[0];
            (&first.task, &first.protocol, first.frames) == (&run.task, &run.protocol, run.frames)
        };
        match experiments.iter_mut().find(same) {
            Some(experiment) => experiment.runs.push(run),
            None => experiments.push(Experiment { slug: unique_slug(run, &mut slugs), runs: vec![run] }),
        }
    }
    experiments
}

fn unique_slug(run: &Run, taken: &mut BTreeSet<String>) -> String {
    let base = file_name(&run.task);
    let candidates = [base.clone(), file_name(&format!("{base}-{}-{}", run.protocol, run.frames))];
    let counted = (2..).map(|k| format!("{}-{k}", candidates[1]));
    let slug = candidates.iter().cloned().chain(counted).find(|name| !taken.contains(name));
    // The iterator is infinite, so a free name is always found.
    let slug = slug.unwrap_or(base);
    taken.insert(slug.clone());
    slug
}

/// Task names are free text: keep what is safe in a file name everywhere.
fn file_name(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = text.chars().map(safe).collect();
    let name = name.trim_matches(|c| c == '.' || c == '-').to_owned();
    if name.is_empty() { "task".to_owned() } else { name }
}

/// Rejects runs that must not be averaged. Returns notes for the reader about those that may.
pub(crate) fn check(runs: &[&Run]) -> Result<Vec<String>, ReportError> {
    let mut notes = Vec::new();
    let mut seen: BTreeMap<(&str, u64), &Run> = BTreeMap::new();
    let mut firsts: BTreeMap<&str, (&Run, &AgentRun)> = BTreeMap::new();
    let mut absent: BTreeSet<String> = BTreeSet::new();
    for &run in runs {
        let differs = |key: &str, values| unlike(run, "", key, values, runs[0]);
        compare(&exact(&runs[0].options), &exact(&run.options), &mut absent, &differs)?;
        if run.frames_per_step != runs[0].frames_per_step {
            let values = [runs[0], run].map(|run| run.frames_per_step.to_string());
            return Err(differs("frames_per_step", values));
        }
        for agent in &run.agents {
            if let Some(first) = seen.insert((&agent.agent, agent.seed), run) {
                return Err(ReportError::Duplicate {
                    task: run.task.clone(),
                    agent: agent.agent.clone(),
                    seed: agent.seed,
                    directories: [first.path.clone(), run.path.clone()],
                });
            }
            let (first_run, first) = *firsts.entry(&agent.agent).or_insert((run, agent));
            let differs = |key: &str, values| unlike(run, &agent.agent, key, values, first_run);
            if agent.codec != first.codec {
                return Err(differs("codec", [first.codec.clone(), agent.codec.clone()]));
            }
            compare(&first.settings, &agent.settings, &mut absent, &differs)?;
        }
    }
    if !absent.is_empty() {
        let keys: Vec<String> = absent.into_iter().collect();
        notes.push(format!(
            "Some of the merged runs record a setting that others do not know: {}. Versions that write different \
             settings may train differently.",
            list(&keys)
        ));
    }
    let device = |run: &&Run| run.hardware.device.clone();
    notes.extend(differing("were trained on different devices", runs.iter().map(device)));
    for key in ROUNDING {
        let value = |run: &&Run| run.options.get(key).cloned().unwrap_or_default();
        notes.extend(differing(&format!("ran with different settings of `{key}`"), runs.iter().map(value)));
    }
    Ok(notes)
}

/// The options without those that affect results only by rounding.
fn exact(options: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut options = options.clone();
    options.retain(|key, _| !ROUNDING.contains(&key.as_str()));
    options
}

fn differing(what: &str, values: impl Iterator<Item = String>) -> Option<String> {
    let values: BTreeSet<String> = values.filter(|value| !value.is_empty()).collect();
    let values: Vec<String> = values.into_iter().collect();
    (values.len() > 1)
        .then(|| format!("The merged runs {what}: {}. Results differ by rounding.", list(&values)))
}

fn unlike(run: &Run, agent: &str, key: &str, values: [String; 2], first: &Run) -> ReportError {
    ReportError::UnlikeRuns(Box::new(Difference {
        task: run.task.clone(),
        agent: agent.to_owned(),
        key: key.to_owned(),
        values,
        directories: [first.path.clone(), run.path.clone()],
    }))
}

/// Returns an error for the first key whose values differ. A key that one side lacks is added to `absent`: another version
/// wrote it.
fn compare(
    first: &BTreeMap<String, String>,
    other: &BTreeMap<String, String>,
    absent: &mut BTreeSet<String>,
    differs: &dyn Fn(&str, [String; 2]) -> ReportError,
) -> Result<(), ReportError> {
    for key in first.keys().chain(other.keys()).filter(|key| *key != "seed") {
        match (first.get(key), other.get(key)) {
            (Some(a), Some(b)) if a != b => return Err(differs(key, [a.clone(), b.clone()])),
            (Some(_), Some(_)) => {}
            _ => {
                absent.insert(key.clone());
            }
        }
    }
    Ok(())
}
