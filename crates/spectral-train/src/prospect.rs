//! What a plan's agents will have done by its end, as far as settings tell: how often they are updated, and how much they still
//! explore. Runs that are too short to learn are not wrong, but nobody should find that out from their scores.

use crate::plan::{AgentPlan, Plan};
use spectral_core::schedule::Linear;
use spectral_core::settings::show_count;
use std::collections::BTreeSet;

/// How far exploration may be from its end before a run is called short.
const EXPLORES: f64 = 0.05;
/// Refreshes of the target network below which a run is called short: values are learned backwards, about a refresh at a time.
const FEW_REFRESHES: u64 = 10;

/// What one agent will have done at the end of its run.
///
/// ```
/// use spectral_train::{config::Configuration, prospect::Prospect, registry::Registry};
/// let mut config = Configuration::default();
/// config.set("task=pong-mini")?;
/// config.set("frames=15000")?;
/// let plan = Registry::default().plan(&config)?;
/// let prospect = Prospect::of(&plan.agents[0], plan.run.frames);
/// assert_eq!((prospect.updates, prospect.refreshes), (6_500, 13));
/// assert!((prospect.epsilon - 0.571).abs() < 1e-12);
/// # Ok::<(), spectral_train::error::TrainError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prospect {
    /// Gradient updates.
    pub updates: u64,
    /// Refreshes of the target network while it learns.
    pub refreshes: u64,
    /// Exploration at the end.
    pub epsilon: f64,
}

impl Prospect {
    /// That of an agent of a run of so many frames.
    pub fn of(agent: &AgentPlan, frames: u64) -> Self {
        let s = &agent.settings;
        let learns = frames.saturating_sub(s.learning_starts);
        let exploration = Linear {
            from: s.epsilon_start,
            to: s.epsilon_final,
            start: s.learning_starts,
            duration: s.epsilon_frames,
        };
        Prospect {
            updates: learns / s.update_period.max(1),
            refreshes: learns / s.target_period.max(1),
            epsilon: exploration.at(frames),
        }
    }
}

impl Plan {
    /// What its agents will have done at the end, in a line.
    pub fn prospect(&self) -> String {
        let all: Vec<Prospect> = self.prospects().collect();
        let updates = range(all.iter().map(|p| p.updates)).map_or_else(String::new, |(least, most)| {
            if least == most {
                show_count(least)
            } else {
                format!("{} to {}", show_count(least), show_count(most))
            }
        });
        let least = all.iter().map(|p| p.epsilon).fold(f64::INFINITY, f64::min);
        let most = all.iter().map(|p| p.epsilon).fold(0.0, f64::max);
        let epsilon =
            if least == most { epsilon(least) } else { format!("{} to {}", epsilon(least), epsilon(most)) };
        format!("{updates} updates each; exploration ends at ε = {epsilon}")
    }

    /// Why its agents will hardly learn, and what to do about it; nothing if the settings speak of no such reason.
    pub fn too_short(&self) -> Option<String> {
        let frames = self.run.frames;
        let starts = self.agents.iter().map(|agent| agent.settings.learning_starts).max()?;
        if self.prospects().all(|prospect| prospect.updates == 0) {
            return Some(format!(
                "nothing will be learned: learning starts at frame {}, where the run has ended (give more --frames, or --set \
                 learning_starts=…)",
                show_count(starts)
            ));
        }
        let explores = |agent: &&AgentPlan| {
            Prospect::of(agent, frames).epsilon > agent.settings.epsilon_final + EXPLORES
        };
        let rarely = |agent: &&AgentPlan| Prospect::of(agent, frames).refreshes < FEW_REFRESHES;
        let mut reasons = Vec::new();
        let mut enough = 0;
        let exploring: Vec<&AgentPlan> = self.agents.iter().filter(explores).collect();
        if let Some(worst) = exploring.iter().map(|a| Prospect::of(a, frames).epsilon).reduce(f64::max) {
            let ends = exploring
                .iter()
                .map(|a| a.settings.learning_starts.saturating_add(a.settings.epsilon_frames))
                .max()?;
            enough = ends.saturating_mul(2);
            reasons.push(format!(
                "at its end {} still take{} {:.0}% of the actions at random (exploration falls until frame {})",
                names(&exploring),
                if name_count(&exploring) == 1 { "s" } else { "" },
                100.0 * worst,
                show_count(ends)
            ));
        }
        let rare: Vec<&AgentPlan> = self.agents.iter().filter(rarely).collect();
        if let Some(least) = rare.iter().map(|a| Prospect::of(a, frames).updates).min() {
            let need = |a: &&AgentPlan| {
                a.settings
                    .learning_starts
                    .saturating_add(a.settings.target_period.saturating_mul(2 * FEW_REFRESHES))
            };
            enough = enough.max(rare.iter().map(need).max()?);
            reasons.push(format!("{} will have made {} updates only", names(&rare), show_count(least)));
        }
        if reasons.is_empty() {
            return None;
        }
        Some(format!(
            "a short run: {}; scores will say little of what can be learned (--frames {} or more)",
            reasons.join(", and "),
            show_count(enough).replace(',', "_")
        ))
    }

    fn prospects(&self) -> impl Iterator<Item = Prospect> + '_ {
        self.agents.iter().map(|agent| Prospect::of(agent, self.run.frames))
    }
}

fn range(values: impl Iterator<Item = u64> + Clone) -> Option<(u64, u64)> {
    Some((values.clone().min()?, values.max()?))
}

fn name_count(agents: &[&AgentPlan]) -> usize {
    agents.iter().map(|agent| agent.agent.as_str()).collect::<BTreeSet<_>>().len()
}

/// Agents by name; many are counted.
fn names(agents: &[&AgentPlan]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for agent in agents {
        if !names.contains(&agent.agent.as_str()) {
            names.push(&agent.agent);
        }
    }
    match names.as_slice() {
        [] => String::new(),
        [one] => one.to_string(),
        [first, second] => format!("{first} and {second}"),
        many => format!("{} agents", many.len()),
    }
}

/// A share as people write it: 0.01, 0.571, 1.
fn epsilon(value: f64) -> String {
    format!("{}", (value * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use crate::config::Configuration;
    use crate::plan::Plan;
    use crate::registry::Registry;

    fn plan(pairs: &[&str]) -> Plan {
        let mut config = Configuration::default();
        pairs.iter().for_each(|pair| config.set(pair).unwrap());
        Registry::default().plan(&config).unwrap()
    }

    #[test]
    fn runs_too_short_to_learn_say_why() {
        let said = |pairs: &[&str]| plan(pairs).too_short().unwrap_or_default();
        let none = said(&["task=catch-scale", "frames=1500"]);
        assert!(none.contains("nothing will be learned: learning starts at frame 2,000"), "{none}");
        let short = said(&["task=catch-scale", "agents=spectral,clipped", "seeds=2", "frames=15000"]);
        for part in
            ["57%", "spectral and clipped still take ", "until frame 32,000", "--frames 64_000 or more"]
        {
            assert!(short.contains(part), "{part}: {short}");
        }
        assert!(!short.contains("updates only"), "{short}");
        let rare = said(&["task=catch-scale", "frames=4000", "epsilon_frames=0"]);
        assert!(rare.contains("spectral will have made 1,000 updates only") && !rare.contains('%'), "{rare}");
        // One that is set otherwise is named alone.
        let one = ["task=catch-scale", "agents=spectral,clipped", "agent.clipped.epsilon_frames=1000000"];
        assert!(said(&one).contains("its end clipped still takes 8"), "{}", said(&one));
        #[cfg(feature = "atari")]
        assert!(said(&["task=atari/pong", "frames=200000"]).contains("nothing will be learned"));
    }

    #[test]
    fn what_runs_are_by_default_is_long_enough() {
        let atari: &[&str] = if cfg!(feature = "atari") { &["atari/pong", "exponential-pong"] } else { &[] };
        for task in ["pong-mini", "2048", "catch-scale", "investor"].iter().chain(atari) {
            let plan = plan(&[&format!("task={task}")]);
            assert_eq!(plan.too_short(), None, "{task}");
        }
        assert_eq!(plan(&["task=pong-mini"]).prospect(), "99,000 updates each; exploration ends at ε = 0.01");
        let two = plan(&["task=pong-mini", "agents=spectral,clipped", "agent.clipped.update_period=4"]);
        assert!(two.prospect().starts_with("49,500 to 99,000 updates each"), "{}", two.prospect());
    }
}
