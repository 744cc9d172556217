//! Sweeps: one experiment of every combination of some agents' settings.
//!
//! Each combination is a *variant*: an agent like any other, with a name that says what was varied. So a sweep has run
//! directories, reports and tables as every experiment has, and a later sweep with more values trains only those.

use crate::config::{Configuration, LONGEST_NAME, RunSettings, Selection, Variation, split_key};
use crate::error::TrainError;
use crate::experiment::Experiment;
use crate::registry::Registry;
use spectral_agent::codecs::CodecEntry;
use spectral_agent::settings::{AgentSettings, Setting, SettingError, Settings};
use std::collections::HashMap;

/// The most runs, variants times seeds, of one sweep.
pub const MAX_SWEEP_RUNS: usize = 4096;
/// Whole numbers from here on are shown as powers of ten if that is shorter.
const LARGE: f64 = 1e6;

/// A setting of agents, and the values that it takes in a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vary {
    /// The setting, or `agent.<name>.<setting>` for one agent alone.
    pub key: String,
    /// The values, as the user wrote them.
    pub values: Vec<String>,
}

impl Vary {
    /// Reads `key=value,value,…`. If there is a semicolon, that separates the values, which may then hold commas.
    ///
    /// ```
    /// use spectral_train::experiment::Vary;
    /// assert_eq!(Vary::parse("batch=32,64")?.values, ["32", "64"]);
    /// assert_eq!(Vary::parse("hidden=64,64;128,128")?.values, ["64,64", "128,128"]);
    /// assert_eq!(Vary::parse("hidden=64,64;")?.values, ["64,64"]);
    /// assert!(Vary::parse("batch=").is_err());
    /// # Ok::<(), spectral_train::error::TrainError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, TrainError> {
        let Some((key, list)) = text.split_once('=') else {
            return Err(TrainError::Usage(format!("'{text}' is not of the form key=value,value,…")));
        };
        let separator = if list.contains(';') { ';' } else { ',' };
        let values = list.split(separator).map(str::trim).filter(|value| !value.is_empty());
        let values: Vec<String> = values.map(String::from).collect();
        if values.is_empty() {
            return Err(TrainError::Usage(format!("'{text}' names no value that {} could have", key.trim())));
        }
        Ok(Vary { key: key.trim().into(), values })
    }
}

/// One combination of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The name under which it is trained and reported.
    pub name: String,
    /// The agent that it is a variant of.
    pub agent: String,
    /// Every setting that is varied for this agent, with its value as short as it can be written.
    pub values: Vec<(String, String)>,
}

impl Variant {
    /// The value of a setting, if it is varied for this agent.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.values.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_str())
    }
}

/// An experiment on one task, and what is varied in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The experiment, of one plan.
    pub experiment: Experiment,
    /// Every variant, in the plan's order.
    pub variants: Vec<Variant>,
    /// The settings that are varied for some agent, in the order in which they were given.
    pub keys: Vec<String>,
}

impl Experiment {
    /// The sweep over every combination of these values, for each agent of a configuration.
    ///
    /// ```
    /// use spectral_train::config::Configuration;
    /// use spectral_train::experiment::{Experiment, Vary};
    /// use spectral_train::registry::Registry;
    /// let mut config = Configuration::default();
    /// ["task=pong-mini", "agents=spectral,popart", "seeds=5"].into_iter().try_for_each(|pair| config.set(pair))?;
    /// let vary = [Vary::parse("learning_rate=1e-4,2e-4,4e-4")?, Vary::parse("agent.popart.batch=32,64")?];
    /// let sweep = Experiment::sweep(&config, &vary, &Registry::default())?;
    /// assert_eq!(sweep.variants.len(), 3 + 3 * 2);
    /// assert_eq!(sweep.variants[1].name, "spectral-learning_rate-2e-4");
    /// assert_eq!(sweep.variants[3].name, "popart-learning_rate-1e-4-batch-32");
    /// assert_eq!(sweep.experiment.plans[0].agents.len(), 9 * 5);
    /// # Ok::<(), spectral_train::error::TrainError>(())
    /// ```
    pub fn sweep(config: &Configuration, vary: &[Vary], registry: &Registry) -> Result<Sweep, TrainError> {
        check(config, vary, registry)?;
        let plan = config.plan_variants(registry, &|agent, codec| {
            let variants = variants(agent, codec, vary)?;
            Ok(variants.iter().map(|(variant, settings)| variation(variant, settings)).collect())
        })?;
        let mut all: Vec<Variant> = Vec::new();
        let mut asked = config.clone();
        asked.add("seeds", "1");
        for agent in asked.plan(registry)?.agents {
            let of_agent = variants(&agent.agent, registry.codec(&agent.codec)?, vary)?;
            all.extend(of_agent.into_iter().map(|(variant, _)| variant));
        }
        let mut keys: Vec<String> = Vec::new();
        for key in vary.iter().map(|vary| split_key(&vary.key).1) {
            if !keys.iter().any(|known| known == key) {
                keys.push(key.into());
            }
        }
        let title = format!("{} on {}", keys.join(" and "), plan.task);
        let experiment = Experiment {
            name: "sweep".into(),
            summary: title.clone(),
            title,
            paper: String::new(),
            text: String::new(),
            computed: None,
            plans: vec![plan],
        };
        Ok(Sweep { experiment, variants: all, keys })
    }
}

/// Refuses what cannot be varied, before anything is expanded.
fn check(config: &Configuration, vary: &[Vary], registry: &Registry) -> Result<(), TrainError> {
    if vary.is_empty() {
        return Err(TrainError::Usage(
            "nothing is varied: give --vary KEY=VALUE,VALUE,… (`spectral agents --settings` lists the settings)".into(),
        ));
    }
    for (number, one) in vary.iter().enumerate() {
        let (agent, key) = split_key(&one.key);
        if vary[..number].iter().any(|other| other.key == one.key) {
            return Err(TrainError::Usage(format!(
                "{} is varied twice: give all its values at once",
                one.key
            )));
        }
        let of_task = registry.is_task_key(key);
        let of_run = RunSettings::KEYS.contains(&key) || Selection::KEYS.contains(&key);
        if agent.is_none() && (of_task || of_run) {
            let whose = if of_task { "the task" } else { "the run" };
            return Err(TrainError::Usage(format!(
                "{key} is a setting of {whose}, which all agents of a sweep share: give it one value ({}), and make a sweep \
                 of its own for each",
                instead(key, &one.values[0])
            )));
        }
        if let Some((value, None)) = config.said(agent, key) {
            return Err(TrainError::Usage(format!(
                "{} is set to {value} and varied too: leave out the one or the other",
                one.key
            )));
        }
    }
    // With one of the values each, what is wrong is wrong for a single run too.
    let mut probe = config.clone();
    vary.iter().for_each(|one| probe.add(&one.key, one.values[0].clone()));
    let probe = probe.plan(registry)?;
    let mut runs: usize = 0;
    for agent in &probe.agents {
        let name = &agent.agent;
        let mut combinations: usize = 1;
        for one in varied(name, registry.codec(&agent.codec)?, vary) {
            let (scope, key) = split_key(&one.key);
            if let (None, Some((value, origin))) = (scope, config.said(Some(name), key)) {
                let place = origin.map_or_else(String::new, |origin| format!(" ({origin})"));
                return Err(TrainError::Usage(format!(
                    "agent.{name}.{key} is set to {value}{place}, which goes over what all agents have: take that out, or \
                     vary agent.{name}.{key}"
                )));
            }
            combinations = combinations.saturating_mul(one.values.len());
        }
        runs = runs.saturating_add(combinations);
    }
    if runs > MAX_SWEEP_RUNS {
        return Err(TrainError::Usage(format!(
            "this sweep has {runs} runs, variants times seeds, and {MAX_SWEEP_RUNS} are the most: vary fewer values at once, or \
             take fewer seeds"
        )));
    }
    Ok(())
}

/// How a setting that cannot be varied is given.
fn instead(key: &str, value: &str) -> String {
    match key {
        "task" | "agents" | "seeds" | "frames" | "device" => format!("--{key} {value}"),
        _ => format!("--set {key}={value}"),
    }
}

/// What is varied for an agent: what only others have is not, and what is varied for it alone goes over what is for all.
fn varied<'a>(agent: &str, codec: &CodecEntry, vary: &'a [Vary]) -> Vec<&'a Vary> {
    let has = |key: &str| AgentSettings::KEYS.contains(&key) || codec.schema().keys().contains(&key);
    let own = |key: &str| vary.iter().any(|other| split_key(&other.key) == (Some(agent), key));
    let applies = |one: &&Vary| match split_key(&one.key) {
        (Some(name), _) => name == agent,
        (None, key) => has(key) && !own(key),
    };
    vary.iter().filter(applies).collect()
}

/// The settings of a variant, by key, as they are written in full.
type InFull = Vec<(String, String)>;

fn variation(variant: &Variant, settings: &InFull) -> Variation {
    Variation::new(&variant.name, settings.iter().map(|(key, value)| (key.as_str(), value.as_str())))
}

/// Every combination for one agent; the values of the last setting change first.
fn variants(agent: &str, codec: &CodecEntry, vary: &[Vary]) -> Result<Vec<(Variant, InFull)>, TrainError> {
    let mut settings: Vec<InFull> = vec![Vec::new()];
    for one in varied(agent, codec, vary) {
        let key = split_key(&one.key).1;
        let values = in_full(codec, one, key)?;
        let further = |before: InFull| {
            let with = |value: &String| [&before[..], &[(key.to_string(), value.clone())]].concat();
            values.iter().map(with).collect::<Vec<_>>()
        };
        settings = settings.into_iter().flat_map(further).collect();
    }
    let mut names: HashMap<String, InFull> = HashMap::new();
    let mut variants = Vec::new();
    for settings in settings {
        let values = settings.iter().map(|(key, value)| (key.clone(), short(value))).collect();
        let name = name(agent, &settings);
        if name.len() > LONGEST_NAME {
            return Err(TrainError::Usage(format!(
                "'{name}' is too long for a folder's name: {LONGEST_NAME} letters are the most; vary fewer settings, or write the \
                 agent into a TOML file with a short name"
            )));
        }
        if let Some(other) = names.insert(name.clone(), settings.clone()) {
            let show = |settings: &InFull| {
                settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
            };
            return Err(TrainError::Usage(format!(
                "'{}' and '{}' would both be called {name}: leave one of them out",
                show(&other),
                show(&settings)
            )));
        }
        variants.push((Variant { name, agent: agent.into(), values }, settings));
    }
    Ok(variants)
}

/// The values of a setting as settings write them, so that 2e-4 and 0.0002 are one value.
fn in_full(codec: &CodecEntry, vary: &Vary, key: &str) -> Result<Vec<String>, TrainError> {
    let schema = codec.schema();
    let mut all: Vec<String> = Vec::new();
    for written in &vary.values {
        let value = if schema.keys().contains(&key) {
            let mut values = schema.defaults();
            schema.set(&mut values, key, written)?;
            values.get(key).map(String::from)
        } else {
            let mut settings = AgentSettings::default();
            settings.set(key, written)?;
            settings.values().get(key).map(String::from)
        };
        let value = value.ok_or_else(|| SettingError::unknown(key, schema.keys().iter().copied()))?;
        if let Some(first) = all.iter().position(|other| *other == value) {
            return Err(TrainError::Usage(format!(
                "--vary {}: {} and {written} are the same value",
                vary.key, vary.values[first]
            )));
        }
        all.push(value);
    }
    Ok(all)
}

/// The name of a variant: letters, digits, '-' and '_', unlike for unlike values of numbers, choices and lists of numbers.
fn name(agent: &str, settings: &InFull) -> String {
    settings.iter().fold(agent.to_string(), |name, (key, value)| format!("{name}-{key}-{}", plain(value)))
}

/// A number as short as it can be written and read back; anything else as it is.
fn short(value: &str) -> String {
    let Some(number) = finite(value) else { return value.into() };
    if value.bytes().all(|byte| byte.is_ascii_digit()) && u64::parse(value) != Ok(number as u64) {
        return value.into();
    }
    let decimal = format!("{number}");
    let scientific = format!("{number:e}");
    let long = number.fract() != 0.0 || number.abs() >= LARGE;
    if long && scientific.len() < decimal.len() { scientific } else { decimal }
}

fn finite(value: &str) -> Option<f64> {
    value.parse().ok().filter(|number: &f64| number.is_finite())
}

/// A value in characters that a name may have: 0.5 as 0p5, −1 as m1, 64,64 as 64x64. What else a text may hold is written as
/// its code between underscores.
fn plain(value: &str) -> String {
    let number = |text: &str| {
        let shown = short(text).replace('.', "p");
        shown.strip_prefix('-').map_or_else(|| shown.clone(), |positive| format!("m{positive}"))
    };
    if value.split(',').all(|part| finite(part.trim()).is_some()) {
        return value.split(',').map(|part| number(part.trim())).collect::<Vec<_>>().join("x");
    }
    let escape = |c: char| match c {
        c if c.is_ascii_alphanumeric() || c == '-' => c.to_string(),
        c => format!("_{:x}_", c as u32),
    };
    value.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::is_plain;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn config(pairs: &[&str]) -> Configuration {
        let mut config = Configuration::default();
        config.set("task=pong-mini").unwrap();
        pairs.iter().for_each(|pair| config.set(pair).unwrap());
        config
    }

    fn sweep(pairs: &[&str], vary: &[&str]) -> Result<Sweep, TrainError> {
        let vary: Vec<Vary> = vary.iter().map(|text| Vary::parse(text)).collect::<Result<_, _>>()?;
        Experiment::sweep(&config(pairs), &vary, &Registry::default())
    }

    fn names(sweep: &Sweep) -> Vec<&str> {
        sweep.variants.iter().map(|variant| variant.name.as_str()).collect()
    }

    #[test]
    fn a_codecs_own_setting_varies_those_that_have_it() {
        let swept = sweep(&["agents=spectral,popart", "seeds=2"], &["base=2,2.5", "batch=16,32"]).unwrap();
        assert_eq!(
            names(&swept),
            [
                "spectral-base-2-batch-16",
                "spectral-base-2-batch-32",
                "spectral-base-2p5-batch-16",
                "spectral-base-2p5-batch-32",
                "popart-batch-16",
                "popart-batch-32"
            ]
        );
        let plan = &swept.experiment.plans[0];
        assert_eq!(plan.agents.len(), 12);
        let third = &plan.agents[4];
        assert_eq!((third.id.as_str(), third.settings.batch), ("spectral-base-2p5-batch-16-s1", 16));
        assert_eq!(third.codec_settings.get("base"), Some("2.5"));
        assert_eq!(swept.variants[2].value("base"), Some("2.5"));
        assert_eq!(swept.variants[4].value("base"), None);
        assert_eq!(swept.keys, ["base", "batch"]);
        assert_eq!(swept.experiment.title, "base and batch on pong-mini");
    }

    #[test]
    fn what_is_varied_for_one_agent_goes_over_what_is_varied_for_all() {
        let vary = ["learning_rate=1e-4,2e-4", "agent.popart.learning_rate=0.5"];
        let swept = sweep(&["agents=spectral,popart"], &vary).unwrap();
        let three =
            ["spectral-learning_rate-1e-4", "spectral-learning_rate-2e-4", "popart-learning_rate-0p5"];
        assert_eq!((names(&swept), swept.keys.len()), (three.to_vec(), 1));
        let only = sweep(&["agents=spectral,popart"], &["agent.popart.learning_rate=1e-4,2e-4"]).unwrap();
        assert_eq!(names(&only)[0], "spectral", "an agent of which nothing is varied keeps its name");
        assert_eq!(only.variants.len(), 3);
    }

    #[test]
    fn a_variant_is_the_agent_with_that_setting_and_nothing_else() {
        let registry = Registry::default();
        let swept = sweep(&["agents=popart", "batch=8"], &["learning_rate=3e-4", "hidden=64,32;16"]).unwrap();
        let trained =
            registry.plan(&config(&["agents=popart", "batch=8", "learning_rate=3e-4", "hidden=16"]));
        let (variant, trained) = (&swept.experiment.plans[0].agents[1], &trained.unwrap().agents[0]);
        assert_eq!(variant.agent, "popart-learning_rate-3e-4-hidden-16");
        assert_eq!(variant.settings, trained.settings);
        assert_eq!(variant.codec_settings, trained.codec_settings);
        assert_eq!(names(&swept)[0], "popart-learning_rate-3e-4-hidden-64x32");
    }

    #[test]
    fn mistakes_say_what_to_do() {
        for (pairs, vary, want) in [
            (vec![], vec![], "--vary"),
            (vec![], vec!["batch"], "key=value"),
            (vec![], vec!["bach=1,2"], "'batch'"),
            (vec![], vec!["agent.spectral.bach=1,2"], "'batch'"),
            (vec![], vec!["agent.popart.batch=1,2"], "no agent of this run"),
            (vec![], vec!["agent.spectrl.batch=1,2"], "'spectral'"),
            (vec!["agents=popart"], vec!["base=2,3"], "no agent of this run has the setting 'base'"),
            (vec![], vec!["frame_skip=2,4"], "setting of the task"),
            (vec![], vec!["frames=100,200"], "--frames 100"),
            (vec![], vec!["log_frames=100,200"], "--set log_frames=100"),
            (vec![], vec!["batch=8", "batch=16"], "twice"),
            (vec![], vec!["batch=8,much"], "'batch' cannot be 'much'"),
            (vec![], vec!["learning_rate=1e-4,-1"], "learning_rate"),
            (vec![], vec!["learning_rate=1e-4,0.0001"], "1e-4 and 0.0001 are the same"),
            (vec![], vec!["hidden=64;64,"], "hidden"),
            (vec!["batch=8"], vec!["batch=8,16"], "varied too"),
            (vec!["agent.spectral.batch=8"], vec!["batch=8,16"], "vary agent.spectral.batch"),
            (vec!["seeds=1000"], vec!["batch=8,16,32,64,65"], "5000 runs"),
            (vec!["codec=popart"], vec!["batch=8"], "name another agent"),
        ] {
            let said = sweep(&pairs, &vary).map(|swept| swept.variants).unwrap_err().to_string();
            assert!(said.contains(want), "{pairs:?} {vary:?}: {said}");
        }
    }

    #[test]
    fn flags_go_over_files_and_collisions_are_told() {
        let mut from_file = config(&[]);
        from_file.toml("batch = 8", "x.toml").unwrap();
        let vary = [Vary::parse("batch=16,32").unwrap()];
        assert_eq!(Experiment::sweep(&from_file, &vary, &Registry::default()).unwrap().variants.len(), 2);
        let said = sweep(&[], &["hidden=64,64;64, 64"]).unwrap_err().to_string();
        assert!(said.contains("spectral-hidden-64x64"), "{said}");
    }

    #[test]
    fn values_are_short_and_plain() {
        for (value, shown, named) in [
            ("0.0002", "2e-4", "2e-4"),
            ("0.5", "0.5", "0p5"),
            ("1.0", "1", "1"),
            ("-0.25", "-0.25", "m0p25"),
            ("0.00025", "2.5e-4", "2p5e-4"),
            ("200000", "200000", "200000"),
            ("1000000", "1e6", "1e6"),
            ("9007199254740993", "9007199254740993", "9007199254740993"),
            ("64,64", "64,64", "64x64"),
            ("true", "true", "true"),
            ("a b_c", "a b_c", "a_20_b_5f_c"),
        ] {
            assert_eq!((short(value).as_str(), plain(value).as_str()), (shown, named), "{value}");
        }
    }

    /// A learning rate and a batch size, and a codec's number.
    fn settings() -> impl Strategy<Value = (f64, u32, f64)> {
        (1e-9..1.0f64, 1..60_000u32, -100.0..100.0f64)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn unlike_settings_have_unlike_names(a in settings(), b in settings(), list in prop::collection::vec(1..300u32, 1..4)) {
            let list: Vec<String> = list.iter().map(u32::to_string).collect();
            let full = |(rate, batch, other): (f64, u32, f64), hidden: &str| -> InFull {
                let pairs = [("learning_rate", rate.show()), ("batch", batch.to_string()), ("other", other.show())];
                let pairs = pairs.into_iter().chain([("hidden", hidden.to_string())]);
                pairs.map(|(key, value)| (key.into(), value)).collect()
            };
            let (x, y) = (full(a, "7,7"), full(b, &list.join(",")));
            prop_assert!(is_plain(&name("spectral", &x)));
            prop_assert_eq!(x == y, name("spectral", &x) == name("spectral", &y));
            for (key, value) in &x[..3] {
                prop_assert_eq!(finite(&short(value)), finite(value), "{}", key);
            }
        }

        #[test]
        fn as_many_variants_as_combinations(
            rates in prop::collection::hash_set(1..50u32, 1..4), batches in prop::collection::hash_set(1..50u32, 1..4), seeds in 1..4usize,
        ) {
            let list = |set: &HashSet<u32>, unit: &str| set.iter().map(|n| format!("{n}{unit}")).collect::<Vec<_>>().join(",");
            let vary = [format!("learning_rate={}", list(&rates, "e-5")), format!("batch={}", list(&batches, ""))];
            let seeds_given = format!("seeds={seeds}");
            let swept = sweep(&["agents=spectral,clipped", &seeds_given], &[&vary[0], &vary[1]]).unwrap();
            prop_assert_eq!(swept.variants.len(), 2 * rates.len() * batches.len());
            let agents = &swept.experiment.plans[0].agents;
            prop_assert_eq!(agents.len(), swept.variants.len() * seeds);
            let ids: HashSet<&str> = agents.iter().map(|agent| agent.id.as_str()).collect();
            prop_assert_eq!(ids.len(), agents.len());
            for (number, agent) in agents.iter().enumerate() {
                let variant = &swept.variants[number / seeds];
                prop_assert_eq!(&variant.name, &agent.agent);
                let rate: f64 = variant.value("learning_rate").unwrap().parse().unwrap();
                prop_assert_eq!(rate, agent.settings.learning_rate);
                prop_assert_eq!(variant.value("batch").unwrap(), agent.settings.batch.to_string());
            }
        }
    }
}
