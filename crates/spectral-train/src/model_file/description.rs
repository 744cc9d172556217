//! What a model file says of its model: whose it is, what it sees, how its outputs are read.

use crate::config::plain;
use crate::error::TrainError;
use crate::registry::Registry;
use crate::resolve::ResolvedRun;
use crate::store::{json_counts, json_integers, json_quote, json_strings};
use spectral_agent::codecs::Codec;
use spectral_agent::learner::architecture;
use spectral_agent::replay::network_input;
use spectral_agent::settings::{AgentSettings, Setting as _, Settings as _, Values};
use spectral_env::ObservationSpec;
use spectral_nn::{Architecture, Head, Layer, Tensor};
use std::sync::Arc;

/// The metadata's version.
pub(super) const FORMAT: &str = "spectral-rl 1";
/// Metadata that must agree with the description, because they determine what the numbers mean.
const DECISIVE: &[&str] = &[
    "format",
    "task",
    "observation",
    "actions",
    "codec",
    "network",
    "hidden",
    "strides",
    "dueling",
    "outputs_per_action",
    "output_order",
    "discount",
    "input_scaling",
];
/// Also decisive, but compared setting by setting: a codec may gain settings that older files lack.
pub(super) const CODEC_SETTINGS: &str = "codec_settings";
/// Error messages cut longer values.
const SHOWN: usize = 120;

/// Everything about a model but its numbers.
#[derive(Clone, Debug)]
pub struct Description {
    /// The task's name.
    pub task: String,
    /// The task's settings, as TOML.
    pub task_settings: String,
    /// What the agent sees.
    pub observation: ObservationSpec,
    /// The names of its actions.
    pub actions: Vec<String>,
    /// The agent's name.
    pub agent: String,
    /// Its seed.
    pub seed: u64,
    /// The codec's name in the [`Registry`].
    pub codec_name: String,
    /// The discount per step.
    pub discount: f64,
    codec_settings: Values,
    codec: Arc<dyn Codec>,
    network: Architecture,
    tensors: Vec<Tensor>,
}

impl Description {
    /// That of one agent of a run.
    pub fn of(run: &ResolvedRun, agent: usize) -> Result<Self, TrainError> {
        let (plan, codec) = (&run.plan.agents[agent], run.codecs[agent].clone());
        let network = architecture(&plan.settings, &run.task, codec.as_ref())?;
        Ok(Description {
            task: run.plan.task.clone(),
            task_settings: run.plan.task_settings_toml(),
            observation: run.task.observation,
            actions: run.task.actions.clone(),
            agent: plan.agent.clone(),
            seed: plan.seed,
            codec_name: plan.codec.clone(),
            discount: plan.settings.discount,
            codec_settings: plan.codec_settings.clone(),
            codec,
            tensors: network.tensors().map_err(|e| TrainError::Usage(e.to_string()))?,
            network,
        })
    }

    /// What a file's metadata say; the error says what they lack or what is wrong with them.
    pub(super) fn read(metadata: &[(String, String)], registry: &Registry) -> Result<Self, String> {
        let find = |key: &str| {
            let found = metadata.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_str());
            found.ok_or_else(|| format!("its metadata lacks '{key}'"))
        };
        let wrong =
            |key: &str, why: String| format!("its {key} is '{}': {why}", shorten(find(key).unwrap_or("")));
        if find("format")? != FORMAT {
            return Err(wrong("format", format!("this version reads '{FORMAT}'")));
        }
        let codec_name = find("codec")?;
        let entry = registry.codec(codec_name).map_err(|e| e.to_string())?;
        let mut codec_settings = entry.schema().defaults();
        let table: toml::Table =
            find(CODEC_SETTINGS)?.parse().map_err(|_| format!("its {CODEC_SETTINGS} are not TOML"))?;
        for (key, value) in &table {
            let value =
                plain(value).ok_or_else(|| wrong(CODEC_SETTINGS, format!("{key} is no plain value")))?;
            entry
                .schema()
                .set(&mut codec_settings, key, &value)
                .map_err(|e| wrong(CODEC_SETTINGS, e.to_string()))?;
        }
        let mut settings = AgentSettings::default();
        settings.set("discount", find("discount")?).map_err(|e| e.to_string())?;
        let codec = entry.build(&codec_settings, &settings).map_err(|e| e.to_string())?;
        let observation = read_observation(find("observation")?).map_err(|why| wrong("observation", why))?;
        let actions = json_strings(find("actions")?).map_err(|why| wrong("actions", why))?;
        if !(1..=256).contains(&actions.len()) {
            return Err(format!("it has {} actions, not 1 to 256", actions.len()));
        }
        let head = Head {
            actions: actions.len(),
            per_action: codec.outputs(),
            dueling: bool::parse(find("dueling")?)
                .map_err(|why| wrong("dueling", format!("expected {why}")))?,
            zero_init: codec.zero_init(),
        };
        let input = network_input(observation);
        let network = match find("network")? {
            "nature" => Architecture::nature(input, head),
            "small-cnn" => Architecture::small_cnn(input, head),
            "mlp" => {
                let widths = json_integers(find("hidden")?).map_err(|why| wrong("hidden", why))?;
                Architecture::mlp(input, &widths, head)
            }
            _ => return Err(wrong("network", "this version has mlp, small-cnn and nature".into())),
        };
        Ok(Description {
            task: find("task")?.into(),
            task_settings: find("task_settings")?.into(),
            observation,
            actions,
            agent: find("agent")?.into(),
            seed: find("seed")?.parse().map_err(|_| wrong("seed", "it must be a whole number".into()))?,
            codec_name: codec_name.into(),
            discount: settings.discount,
            codec_settings,
            codec,
            tensors: network.tensors().map_err(|e| wrong("network", e.to_string()))?,
            network,
        })
    }

    /// How outputs become action-values.
    pub fn codec(&self) -> &dyn Codec {
        self.codec.as_ref()
    }

    /// The codec's settings.
    pub fn codec_settings(&self) -> &Values {
        &self.codec_settings
    }

    /// The network.
    pub fn network(&self) -> &Architecture {
        &self.network
    }

    /// The network's parameters as tensors.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    pub(crate) fn metadata(&self) -> Vec<(&'static str, String)> {
        let network = &self.network;
        vec![
            ("format", FORMAT.into()),
            ("task", self.task.clone()),
            ("task_settings", self.task_settings.clone()),
            ("observation", show_observation(self.observation)),
            ("input_scaling", input_scaling(self.observation).into()),
            ("actions", list(self.actions.iter().map(|action| json_quote(action)))),
            ("agent", self.agent.clone()),
            ("seed", self.seed.to_string()),
            ("codec", self.codec_name.clone()),
            (CODEC_SETTINGS, self.codec_settings.to_toml()),
            ("outputs_per_action", self.codec.outputs().to_string()),
            ("output_order", "[action][output]".into()),
            ("discount", self.discount.show()),
            ("network", kind(network).into()),
            ("hidden", list(network.layers.iter().map(|layer| width(layer).to_string()))),
            ("strides", list(network.layers.iter().filter_map(stride).map(|stride| stride.to_string()))),
            ("dueling", network.head.dueling.to_string()),
        ]
    }

    /// Whose model a file is by its metadata, if that is another's than this one. Settings that only one of the two knows are those
    /// that the task got later.
    pub(super) fn whose_else<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
        let own = [self.agent.clone(), self.seed.to_string()];
        let [agent, seed] = ["agent", "seed"].map(&value);
        let found = [agent.unwrap_or(&own[0]), seed.unwrap_or(&own[1])].map(shorten);
        if found != own {
            let [name, id] = [found, own].map(|[agent, seed]| format!("{agent}-s{seed}"));
            return Some(format!("this is the model of {name}, not of {id}"));
        }
        let [own, found] = [self.task_settings.as_str(), value("task_settings")?]
            .map(|text| text.parse::<toml::Table>().unwrap_or_default());
        let (key, found, own) = found.iter().find_map(|(key, found)| {
            let own = own.get(key).filter(|own| *own != found)?;
            Some((key, plain(found)?, plain(own)?))
        })?;
        let [key, found, own] = [key.as_str(), &found, &own].map(shorten);
        Some(format!("it was trained with the task's {key} at {found}, and this run has {own}"))
    }

    /// What a file's metadata say differently.
    pub(super) fn compare_metadata(&self, found: &[(String, String)]) -> Vec<String> {
        let value = |key: &str| found.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_str());
        let mut differences = Vec::new();
        for (key, expected) in self.metadata().iter().filter(|(key, _)| DECISIVE.contains(key)) {
            match value(key) {
                Some(found) if found == expected => {}
                Some(found) => {
                    differences.push(format!(
                        "its {key} is '{}', not '{}'",
                        shorten(found),
                        shorten(expected)
                    ));
                }
                None => differences.push(format!("its metadata lacks '{key}'")),
            }
        }
        match value(CODEC_SETTINGS).map(str::parse::<toml::Table>) {
            None => differences.push(format!("its metadata lacks '{CODEC_SETTINGS}'")),
            Some(Err(_)) => differences.push(format!("its {CODEC_SETTINGS} are not TOML")),
            // Settings of another codec are no news beside its name, and would hide what else differs.
            Some(Ok(_)) if value("codec") != Some(self.codec_name.as_str()) => {}
            Some(Ok(found)) => {
                let own: toml::Table = self.codec_settings.to_toml().parse().unwrap_or_default();
                for (key, value) in found {
                    if own.get(&key) != Some(&value) {
                        let show =
                            |value: Option<&toml::Value>| value.and_then(plain).unwrap_or("unknown".into());
                        let (found, expected) = (show(Some(&value)), show(own.get(&key)));
                        let (key, found) = (shorten(&key), shorten(&found));
                        differences.push(format!("its codec's {key} is {found}, not {expected}"));
                    }
                }
            }
        }
        differences
    }
}

pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.into(),
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn show_observation(observation: ObservationSpec) -> String {
    match observation {
        ObservationSpec::Planes { channels, height, width, stack } => format!(
            "{{\"channels\": {channels}, \"height\": {height}, \"width\": {width}, \"stack\": {stack}}}"
        ),
        ObservationSpec::Vector { len } => format!("{{\"length\": {len}}}"),
    }
}

fn read_observation(text: &str) -> Result<ObservationSpec, String> {
    let sizes = json_counts(text)?;
    let size = |name: &str| {
        let found = sizes.iter().find(|(key, _)| key == name).map(|(_, size)| *size);
        found
            .filter(|size| (1..1 << 20).contains(size))
            .ok_or_else(|| format!("'{name}' is missing or no size"))
    };
    if sizes.iter().any(|(key, _)| key == "length") {
        return Ok(ObservationSpec::Vector { len: size("length")? });
    }
    Ok(ObservationSpec::Planes {
        channels: size("channels")?,
        height: size("height")?,
        width: size("width")?,
        stack: size("stack")?,
    })
}

fn input_scaling(observation: ObservationSpec) -> &'static str {
    match observation {
        ObservationSpec::Planes { .. } => "bytes/255",
        ObservationSpec::Vector { .. } => "none",
    }
}

/// The network's name among the settings.
fn kind(network: &Architecture) -> &'static str {
    let (input, head) = (network.input.clone(), network.head.clone());
    if *network == Architecture::nature(input.clone(), head.clone()) {
        "nature"
    } else if *network == Architecture::small_cnn(input, head) {
        "small-cnn"
    } else {
        "mlp"
    }
}

fn width(layer: &Layer) -> usize {
    match *layer {
        Layer::Conv { filters, .. } => filters,
        Layer::Linear { units } => units,
    }
}

fn stride(layer: &Layer) -> Option<usize> {
    match *layer {
        Layer::Conv { stride, .. } => Some(stride),
        Layer::Linear { .. } => None,
    }
}
