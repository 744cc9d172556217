//! Settings of the agents side by side: those in which they differ, and the others.

use std::collections::BTreeSet;

use crate::analysis::{Agent, Task};
use crate::run::AgentRun;

/// A setting with its value for each agent; `None` where an agent has no such setting.
pub(crate) struct Row<'a> {
    pub key: &'a str,
    pub values: Vec<Option<&'a str>>,
}

/// The settings of a task's agents.
pub(crate) struct Settings<'a> {
    /// The agents, in the order of the values.
    pub agents: Vec<&'a str>,
    /// Those of which two agents have unlike values.
    pub differing: Vec<Row<'a>>,
    /// Those that only some agents have, all with the same value.
    pub own: Vec<Row<'a>>,
    /// Those that all agents share.
    pub common: Vec<Row<'a>>,
}

impl<'a> Settings<'a> {
    pub(crate) fn of(task: &'a Task<'_>) -> Self {
        let sources: Vec<(&'a Agent<'_>, &'a AgentRun)> =
            task.agents.iter().filter_map(|agent| Some((agent, agent.runs().next()?))).collect();
        let mut settings = Settings {
            agents: sources.iter().map(|(agent, _)| agent.name.as_str()).collect(),
            differing: Vec::new(),
            own: Vec::new(),
            common: Vec::new(),
        };
        let codecs =
            sources.iter().map(|(_, run)| Some(run.codec.as_str()).filter(|codec| !codec.is_empty()));
        // An agent that is called like its codec says so already.
        if sources.iter().any(|(agent, run)| agent.name != run.codec) {
            settings.sort("codec", codecs.collect());
        }
        // Seeds have a row of their own: a single one would stand for all.
        let keys: BTreeSet<&'a str> = sources
            .iter()
            .flat_map(|(_, run)| run.settings.keys())
            .map(String::as_str)
            .filter(|key| *key != "seed")
            .collect();
        for key in keys {
            settings.sort(
                key,
                sources.iter().map(|(_, run)| run.settings.get(key).map(String::as_str)).collect(),
            );
        }
        settings
    }

    fn sort(&mut self, key: &'a str, values: Vec<Option<&'a str>>) {
        let present: BTreeSet<&str> = values.iter().flatten().copied().collect();
        let group = match present.len() {
            0 => return,
            1 if values.iter().all(Option::is_some) => &mut self.common,
            1 => &mut self.own,
            _ => &mut self.differing,
        };
        group.push(Row { key, values });
    }
}
