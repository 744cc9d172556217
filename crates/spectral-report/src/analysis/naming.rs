//! One agent that was trained with different settings is several: their seeds may not be averaged, and comparing them is what people
//! want. They get names from the settings that differ, as variants of a sweep do.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::merge::experiments;
use crate::format::list;
use crate::run::{AgentRun, Run};

/// More settings than this make no name; numbers tell the agents apart then, and a note says what they stand for.
const MOST_KEYS: usize = 3;
/// What a value is called in a run that does not record the setting.
const UNKNOWN: &str = "unknown";

/// Runs with the names that their agents have in a report.
pub(crate) struct Named<'a> {
    pub runs: Cow<'a, [Run]>,
    /// What was renamed, for the reader, each with the first run of its experiment.
    pub notes: Vec<(PathBuf, String)>,
}

impl Named<'_> {
    /// What was renamed in the experiment that begins with this run.
    pub(crate) fn notes_of(&self, first: &Run) -> impl Iterator<Item = String> + '_ {
        let path = first.path.clone();
        self.notes.iter().filter(move |(of, _)| *of == path).map(|(_, note)| note.clone())
    }
}

/// The values that tell one version of an agent from the others.
type Values = Vec<String>;

/// Renames agents whose settings differ between runs of one experiment.
pub(crate) fn tell_apart(runs: &[Run]) -> Named<'_> {
    let mut notes = Vec::new();
    // By run and agent, as the runs have them.
    let mut renamed: BTreeMap<(usize, usize), String> = BTreeMap::new();
    for experiment in experiments(runs) {
        let places: Vec<usize> = experiment
            .runs
            .iter()
            .filter_map(|run| runs.iter().position(|other| std::ptr::eq(other, *run)))
            .collect();
        let agents = || {
            places.iter().flat_map(|&place| {
                runs[place].agents.iter().enumerate().map(move |(number, agent)| ((place, number), agent))
            })
        };
        let names: BTreeSet<&str> = agents().map(|(_, agent)| agent.agent.as_str()).collect();
        for name in names {
            let own: Vec<((usize, usize), &AgentRun)> =
                agents().filter(|(_, agent)| agent.agent == name).collect();
            let keys = differing(own.iter().map(|(_, agent)| *agent));
            if keys.is_empty() {
                continue;
            }
            let versions = versions(name, &keys, own.iter().map(|(_, agent)| *agent));
            let mut described = Vec::new();
            for (values, called) in &versions {
                let settings: Vec<String> =
                    keys.iter().zip(values).map(|(key, value)| format!("{key} {value}")).collect();
                described.push(format!("{called} has {}", list(&settings)));
            }
            let note = format!(
                "{name} was trained with different settings, so it is {} agents here: {}.",
                versions.len(),
                described.join("; ")
            );
            notes.push((experiment.runs[0].path.clone(), note));
            for (place, agent) in own {
                let values = values(agent, &keys);
                if let Some((_, called)) = versions.iter().find(|(known, _)| *known == values) {
                    renamed.insert(place, called.clone());
                }
            }
        }
    }
    if renamed.is_empty() {
        return Named { runs: Cow::Borrowed(runs), notes };
    }
    let mut runs = runs.to_vec();
    for ((run, agent), name) in renamed {
        runs[run].agents[agent].agent = name;
    }
    Named { runs: Cow::Owned(runs), notes }
}

/// The settings that two of these agents have with different values. One that some do not record tells nothing: another version of
/// the program wrote them.
fn differing<'a>(agents: impl Iterator<Item = &'a AgentRun> + Clone) -> Vec<String> {
    let keys: BTreeSet<&str> =
        agents.clone().flat_map(|agent| agent.settings.keys()).map(String::as_str).collect();
    let mut differing = Vec::new();
    let codecs: BTreeSet<&str> = agents.clone().map(|agent| agent.codec.as_str()).collect();
    if codecs.len() > 1 {
        differing.push("codec".to_owned());
    }
    for key in keys.into_iter().filter(|key| *key != "seed") {
        let values: BTreeSet<&String> = agents.clone().filter_map(|agent| agent.settings.get(key)).collect();
        if values.len() > 1 {
            differing.push(key.to_owned());
        }
    }
    differing
}

fn values(agent: &AgentRun, keys: &[String]) -> Values {
    let value = |key: &String| match key.as_str() {
        "codec" => agent.codec.clone(),
        key => agent.settings.get(key).map_or_else(|| UNKNOWN.to_owned(), |value| short(value)),
    };
    keys.iter().map(value).collect()
}

/// Each version of an agent with its name, in the order in which runs have them.
fn versions<'a>(
    name: &str,
    keys: &[String],
    agents: impl Iterator<Item = &'a AgentRun>,
) -> Vec<(Values, String)> {
    let mut all: Vec<Values> = Vec::new();
    for agent in agents {
        let values = values(agent, keys);
        if !all.contains(&values) {
            all.push(values);
        }
    }
    let by_settings = |values: &Values| {
        keys.iter()
            .zip(values)
            .fold(name.to_owned(), |name, (key, value)| format!("{name}-{key}-{}", plain(value)))
    };
    let by_number = |number: usize| format!("{name}-version-{}", number + 1);
    let called: Vec<String> = all.iter().map(by_settings).collect();
    let unlike = called.iter().collect::<BTreeSet<_>>().len() == called.len();
    let called = match keys.len() <= MOST_KEYS && unlike {
        true => called,
        false => (0..all.len()).map(by_number).collect(),
    };
    all.into_iter().zip(called).collect()
}

/// A number as short as it can be written; anything else as it is.
fn short(value: &str) -> String {
    let Some(number) = value.parse::<f64>().ok().filter(|number| number.is_finite() && number.fract() != 0.0)
    else {
        return value.to_owned();
    };
    let (decimal, scientific) = (format!("{number}"), format!("{number:e}"));
    if scientific.len() < decimal.len() { scientific } else { decimal }
}

/// A value in characters that a name may have, as in names of a sweep's variants: 0.5 as 0p5, -1 as m1, 64,64 as 64x64.
fn plain(value: &str) -> String {
    let number = |part: &str| part.trim().parse::<f64>().is_ok();
    let value = match value.split(',').all(number) {
        true => {
            let parts = value.split(',').map(|part| match part.trim().strip_prefix('-') {
                Some(positive) => format!("m{positive}"),
                None => part.trim().to_owned(),
            });
            parts.collect::<Vec<_>>().join("x").replace('.', "p")
        }
        false => value.to_owned(),
    };
    value.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_named_as_sweeps_name_them() {
        for (value, shown, named) in [
            ("0.0001", "1e-4", "1e-4"),
            ("0.5", "0.5", "0p5"),
            ("32", "32", "32"),
            ("-1.5", "-1.5", "m1p5"),
            ("64,64", "64,64", "64x64"),
            ("small-cnn", "small-cnn", "small-cnn"),
            ("a b/c", "a b/c", "a_b_c"),
        ] {
            assert_eq!((short(value).as_str(), plain(&short(value)).as_str()), (shown, named), "{value}");
        }
    }
}
