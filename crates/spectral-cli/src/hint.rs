//! What to write in place of an argument that the command does not have: settings are not flags, tasks have one, and agents are
//! separated by commas.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use spectral_agent::settings::{AgentSettings, Settings};
use spectral_env::nearest;
use spectral_train::config::RunSettings;
use spectral_train::registry::Registry;

/// Flags of other programs for the task.
const TASK_FLAGS: [&str; 4] = ["env", "env-id", "game", "environment"];

/// The hint for a refused argument, if it has one.
pub fn hint(error: &clap::Error, registry: &Registry) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument || error.get(ContextKind::SuggestedArg).is_some() {
        return None;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    for_argument(argument, registry)
}

fn for_argument(argument: &str, registry: &Registry) -> Option<String> {
    let Some(flag) = argument.strip_prefix("--") else {
        if registry.task(argument).is_ok() {
            return Some(format!("a task is named with a flag: `--task {argument}`"));
        }
        let is_agent = registry.agent(argument).is_some();
        let named =
            if argument == "spectral" { argument.to_string() } else { format!("spectral,{argument}") };
        return is_agent
            .then(|| format!("one flag names all agents, separated by commas: `--agents {named}`"));
    };
    let flag = flag.split('=').next().unwrap_or_default();
    if TASK_FLAGS.contains(&flag) {
        return Some("the task is named with `--task NAME` (`spectral tasks` lists them)".into());
    }
    let mut keys: Vec<String> = Vec::new();
    keys.extend(AgentSettings::table().into_iter().map(|info| info.key.to_string()));
    keys.extend(RunSettings::table().into_iter().map(|info| info.key.to_string()));
    for codec in registry.codecs() {
        keys.extend(codec.schema().keys().iter().map(|key| key.to_string()));
    }
    let key = nearest(flag, keys.iter().map(String::as_str))?;
    Some(format!("settings are not flags: `--set {key}=…` (`spectral agents --settings` lists them)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_argument_is_answered_with_what_is() {
        let registry = Registry::default();
        for (argument, words) in [
            ("--lr", "`--set learning_rate=…`"),
            ("--gamma=0.9", "`--set discount=…`"),
            ("--batch-size", "`--set batch=…`"),
            ("--env", "`--task NAME`"),
            ("pong-mini", "`--task pong-mini`"),
            ("clipped", "`--agents spectral,clipped`"),
        ] {
            let said = for_argument(argument, &registry).unwrap_or_default();
            assert!(said.contains(words), "{argument}: {said}");
        }
        assert_eq!(for_argument("--xylophone", &registry), None);
        assert_eq!(for_argument("xylophone", &registry), None);
        let agent = for_argument("steady", &registry).unwrap();
        assert!(agent.ends_with("`--agents spectral,steady`"), "{agent}");
        let agent = for_argument("spectral", &registry).unwrap();
        assert!(agent.ends_with("`--agents spectral`"), "{agent}");
    }
}
