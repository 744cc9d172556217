//! The plan of a run: everything that decides its result, as plain data.

use crate::config::RunSettings;
use spectral_agent::settings::{AgentSettings, Settings, Values};
use spectral_core::settings::quote;
use std::fmt::Write as _;

/// The longest run that can be planned: far beyond what anybody trains, and far from what a counter holds.
pub const MAX_FRAMES: u64 = 1_000_000_000_000_000;
/// The longest time between checkpoints, in seconds.
pub const MAX_SECONDS: f64 = 1e9;

/// One agent of the population.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentPlan {
    /// Its folder's name: agent and seed.
    pub id: String,
    /// The name under which curves are grouped.
    pub agent: String,
    /// The codec's name in the [`Registry`](crate::registry::Registry).
    pub codec: String,
    /// The seed.
    pub seed: u64,
    /// The settings that every agent has.
    pub settings: AgentSettings,
    /// The settings of its codec.
    pub codec_settings: Values,
}

impl AgentPlan {
    /// An agent with this name, codec, seed and settings.
    pub fn new(agent: &str, codec: &str, seed: u64, settings: AgentSettings, codec_settings: Values) -> Self {
        let (agent, codec) = (agent.to_string(), codec.to_string());
        AgentPlan { id: format!("{agent}-s{seed}"), agent, codec, seed, settings, codec_settings }
    }

    /// Every setting, the codec's first, as lines of TOML.
    pub fn settings_toml(&self) -> String {
        self.codec_settings.to_toml() + &self.settings.values().to_toml()
    }
}

/// Everything that decides a run's result, and a few things that do not (threads, checkpoints) or hardly do (device,
/// precision, groups).
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The task's name in the [`Registry`](crate::registry::Registry).
    pub task: String,
    /// The task's settings.
    pub task_settings: Values,
    /// The settings of the run itself.
    pub run: RunSettings,
    /// The population.
    pub agents: Vec<AgentPlan>,
    /// The fingerprint of a run of version 0.1, which is computed from its file.
    pub(crate) legacy_fingerprint: Option<u32>,
    /// Settings of the task that came after the run was made, so that neither its file nor its fingerprint has them.
    pub(crate) unrecorded: Vec<String>,
}

impl Plan {
    /// The plan of these agents.
    pub fn new(task: &str, task_settings: Values, run: RunSettings, agents: Vec<AgentPlan>) -> Self {
        Plan {
            task: task.into(),
            task_settings,
            run,
            agents,
            legacy_fingerprint: None,
            unrecorded: Vec::new(),
        }
    }

    /// The same plan with other settings of the run.
    ///
    /// ```
    /// use spectral_train::{config::Configuration, registry::Registry};
    /// let mut config = Configuration::default();
    /// config.set("task=2048")?;
    /// let plan = Registry::default().plan(&config)?;
    /// assert_eq!(plan.with(|run| run.frames = 7).run.frames, 7);
    /// # Ok::<(), spectral_train::error::TrainError>(())
    /// ```
    pub fn with(&self, change: impl FnOnce(&mut RunSettings)) -> Self {
        let mut plan = self.clone();
        change(&mut plan.run);
        plan
    }

    /// Whether runs of both plans are of the same task, with the same settings, under the same protocol.
    pub fn same_task(&self, other: &Plan) -> bool {
        (&self.task, &self.task_settings, &self.run.protocol)
            == (&other.task, &other.task_settings, &other.run.protocol)
    }

    /// The first way in which another plan would give other results, length and rows of metrics aside; in words.
    pub fn difference(&self, other: &Plan) -> Option<String> {
        let unlike = |mine: &Values, its: &Values| {
            let first = mine.iter().find(|(key, value)| its.get(key) != Some(value));
            first.map(|(key, value)| format!("{key} is {value}, not {}", its.get(key).unwrap_or("there")))
        };
        let ids = |plan: &Plan| plan.agents.iter().map(|a| a.id.clone()).collect::<Vec<_>>().join(", ");
        if self.task != other.task {
            return Some(format!("its task is {}, not {}", self.task, other.task));
        }
        if self.run.protocol != other.run.protocol {
            return Some(format!("its protocol is {}, not {}", self.run.protocol, other.run.protocol));
        }
        if let Some(difference) = unlike(&self.task_settings, &other.task_settings) {
            return Some(format!("its {difference}"));
        }
        if ids(self) != ids(other) {
            return Some(format!("its agents are {}, not {}", ids(self), ids(other)));
        }
        self.agents.iter().zip(&other.agents).find_map(|(mine, its)| {
            if mine.codec != its.codec {
                return Some(format!("the codec of {} is {}, not {}", mine.id, mine.codec, its.codec));
            }
            let difference = unlike(&mine.codec_settings, &its.codec_settings)
                .or_else(|| unlike(&mine.settings.values(), &its.settings.values()))?;
            Some(format!("{}: {difference}", mine.id))
        })
    }

    /// The task's settings as lines of TOML, without those that came after the run was made.
    pub(crate) fn task_settings_toml(&self) -> String {
        let mut text = self.task_settings.to_toml();
        for key in &self.unrecorded {
            let line = |line: &&str| line.split(" = ").next() != Some(key);
            text = text.lines().filter(line).flat_map(|line| [line, "\n"]).collect();
        }
        text
    }

    /// A number that differs for plans whose results differ; checkpoints carry it.
    pub fn fingerprint(&self) -> u32 {
        if let Some(fingerprint) = self.legacy_fingerprint {
            return fingerprint;
        }
        // A later end, other hardware and a newer version leave a checkpoint valid.
        let mut text = format!("task = {}\n{}", quote(&self.task), self.task_settings_toml());
        let values = self.run.values();
        let decisive = values.iter().filter(|(key, _)| !RunSettings::INCIDENTAL.contains(key));
        for (key, value) in decisive {
            let _ = writeln!(text, "{key} = {value}");
        }
        for agent in &self.agents {
            let (id, codec, mut settings) = (&agent.id, &agent.codec, agent.settings_toml());
            for (key, value) in AgentSettings::LATER {
                settings = settings.replace(&format!("\n{key} = {value}\n"), "\n");
            }
            let _ = writeln!(text, "[{id}]\ncodec = {codec}\n{settings}");
        }
        crc32fast::hash(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Configuration;
    use crate::registry::Registry;

    /// Checkpoints of runs that were made before a setting came are still theirs.
    #[test]
    fn fingerprints_of_older_runs_stay() {
        let fingerprint = |further: &[&str]| {
            let mut config = Configuration::default();
            let run = ["task=exponential-pong-mini", "agents=spectral,popart", "seeds=1", "frames=6000"];
            run.iter().chain(further).for_each(|pair| config.set(pair).unwrap());
            Registry::default().plan(&config).unwrap().fingerprint()
        };
        // From the checkpoint of such a run.
        assert_eq!(fingerprint(&[]), 0x11a6_31cd);
        let others = [fingerprint(&["average=5000"]), fingerprint(&["agent.popart.average=5000"])];
        assert!(!others.contains(&0x11a6_31cd) && others[0] != others[1], "{others:x?}");
    }
}
