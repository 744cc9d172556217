//! What the reader of a report should know about the runs behind an experiment's claims.

use crate::table::count;
use spectral_agent::settings::{Settings, Values};
use spectral_report::Run;
use spectral_train::experiment::{Experiment, RunIndex};
use spectral_train::plan::{AgentPlan, Plan};
use spectral_train::registry::Registry;
use spectral_train::run_dir::RunDir;
use std::collections::{BTreeMap, BTreeSet};

/// What the experiment is in the paper.
pub fn on_paper(experiment: &Experiment) -> Option<String> {
    (!experiment.paper.is_empty()).then(|| format!("In the paper: {}.", experiment.paper))
}

/// Whether a run of so many frames is shorter or longer than the experiment's.
pub fn on_length(frames: u64, whole: &Plan) -> Option<String> {
    let way = match frames.cmp(&whole.run.frames) {
        std::cmp::Ordering::Less => "Shorter",
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Greater => "Longer",
    };
    Some(format!(
        "{way} than the figure asks for: {} of {} frames per agent on {}.",
        count(frames),
        count(whole.run.frames),
        whole.task
    ))
}

/// Runs that the experiment asks for and of which nothing is there, in a sentence.
pub fn on_missing(experiment: &Experiment, index: &RunIndex) -> Option<String> {
    let mut parts = Vec::new();
    for plan in &experiment.plans {
        let absent = plan.agents.iter().filter(|agent| index.run_of(plan, agent).is_none());
        let ids: Vec<&str> = absent.map(|agent| agent.id.as_str()).collect();
        if !ids.is_empty() {
            let (missing, all) = (ids.len(), plan.agents.len());
            parts.push(format!("{} ({missing} of {all}) on {}", ids.join(", "), plan.task));
        }
    }
    (!parts.is_empty()).then(|| format!("Not there yet: {}.", parts.join("; ")))
}

/// Where runs that somebody chose are not what the experiment asks for: in length, in the task's options or in settings.
/// `at_frames` is the frame at which all of them are read, if there is one.
pub fn on_chosen(
    runs: &[Run],
    experiment: &Experiment,
    at_frames: Option<u64>,
    registry: &Registry,
) -> Vec<String> {
    let mut lengths = BTreeSet::new();
    let mut unlike: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut unreadable = Vec::new();
    for run in runs {
        let plans: Vec<&Plan> = experiment.plans.iter().filter(|plan| plan.task == run.task).collect();
        let Some(&first) = plans.first() else { continue };
        let opened = RunDir::open(&run.path, registry).map(|(_, file)| file.plan);
        // An experiment may have a task twice, with other options.
        let alike =
            |plan: &Plan| plans.iter().copied().find(|whole| whole.task_settings == plan.task_settings);
        let whole = opened.as_ref().ok().and_then(alike).unwrap_or(first);
        lengths.extend(on_length(at_frames.unwrap_or(run.frames), whole));
        match opened {
            Ok(plan) => differences(&plan, whole, &mut unlike),
            Err(why) => unreadable.push(format!(
                "Whether {} was trained as {} asks for is not known: {why}.",
                run.path.display(),
                experiment.name
            )),
        }
    }
    let mut notes: Vec<String> = lengths.into_iter().collect();
    for (who, keys) in unlike {
        let keys: Vec<String> = keys.into_iter().collect();
        notes.push(format!("Not as {} asks for: {who} has another {}.", experiment.name, keys.join(", ")));
    }
    notes.extend(unreadable);
    notes
}

/// The keys in which a run and its agents differ from those of the experiment, by whom they belong to. Agents that the
/// experiment does not have are beside the point.
fn differences(plan: &Plan, whole: &Plan, found: &mut BTreeMap<String, BTreeSet<String>>) {
    let mut add = |who: String, keys: Vec<String>| {
        if !keys.is_empty() {
            found.entry(who).or_default().extend(keys);
        }
    };
    let mut keys = unlike(&plan.task_settings, &whole.task_settings);
    if plan.run.protocol != whole.run.protocol {
        keys.push("protocol".into());
    }
    add(plan.task.clone(), keys);
    for agent in &plan.agents {
        if let Some(model) = whole.agents.iter().find(|other| other.agent == agent.agent) {
            add(format!("{} on {}", agent.agent, plan.task), unlike_settings(agent, model));
        }
    }
}

fn unlike_settings(agent: &AgentPlan, model: &AgentPlan) -> Vec<String> {
    let mut keys = unlike(&agent.settings.values(), &model.settings.values());
    if agent.codec == model.codec {
        keys.splice(0..0, unlike(&agent.codec_settings, &model.codec_settings));
    } else {
        keys.insert(0, "codec".into());
    }
    keys
}

/// The keys whose values differ.
fn unlike(mine: &Values, its: &Values) -> Vec<String> {
    let differs = |(key, value): &(&str, &str)| its.get(key) != Some(value);
    mine.iter().filter(differs).map(|(key, _)| key.to_string()).collect()
}
