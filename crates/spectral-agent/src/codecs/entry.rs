//! A codec as the registry knows it: what it is called, what can be set, how it is built.

use super::Codec;
use crate::settings::{AgentSettings, Schema, SettingError, Settings, Values};
use std::fmt;
use std::sync::Arc;

type Build = dyn Fn(&Values, &AgentSettings) -> Result<Arc<dyn Codec>, SettingError> + Send + Sync;

/// A named agent: a codec with some of its settings, and perhaps some of the agent's, chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentPreset {
    /// The agent's name.
    pub name: String,
    /// One line on what it is.
    pub summary: String,
    /// The chosen settings, as TOML.
    pub settings: String,
}

/// A codec describes itself: everything that the command, files, tests, documents and the report know about it.
///
/// ```
/// use spectral_agent::codecs::{Clipped, CodecEntry};
/// use std::sync::Arc;
///
/// spectral_core::settings! {
///     /// Settings of a codec of our own.
///     MineSettings {
///         /// Anything.
///         scale: f64 = 1.0,
///     }
/// }
///
/// let mine = CodecEntry::new("mine", "clips as DQN does", |_: &MineSettings, _| Ok(Arc::new(Clipped)))
///     .variants(&["scale=3"]);
/// assert_eq!(mine.schema().keys(), ["scale"]);
/// assert_eq!(mine.presets()[0].name, "mine", "without presets of its own, a codec is an agent as it is");
/// ```
#[derive(Clone)]
pub struct CodecEntry {
    name: String,
    summary: String,
    page: Option<String>,
    schema: Schema,
    presets: Vec<AgentPreset>,
    variants: Vec<String>,
    build: Arc<Build>,
}

impl CodecEntry {
    /// A codec with settings of type `S` (`()` for none), built by a function of them and of the agent's own settings.
    pub fn new<S: Settings>(
        name: &str,
        summary: &str,
        build: impl Fn(&S, &AgentSettings) -> Result<Arc<dyn Codec>, SettingError> + Send + Sync + 'static,
    ) -> Self {
        CodecEntry {
            name: name.into(),
            summary: summary.into(),
            page: None,
            schema: Schema::of::<S>(),
            presets: Vec::new(),
            variants: Vec::new(),
            build: Arc::new(move |values, agent| build(&values.read::<S>()?, agent)),
        }
    }

    /// The page that describes it, in the project's repository.
    pub fn page(mut self, page: &str) -> Self {
        self.page = Some(page.into());
        self
    }

    /// Adds an agent that uses this codec, with settings as TOML text.
    pub fn preset(mut self, name: &str, summary: &str, settings: &str) -> Self {
        let preset = AgentPreset { name: name.into(), summary: summary.into(), settings: settings.into() };
        self.presets.push(preset);
        self
    }

    /// Settings worth a test beside the defaults: each a text like `"weights=uniform base=3"`.
    pub fn variants(mut self, variants: &[&str]) -> Self {
        self.variants.extend(variants.iter().map(|text| text.to_string()));
        self
    }

    /// The codec's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line on what it is.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The page that describes it, if it has one.
    pub fn documentation(&self) -> Option<&str> {
        self.page.as_deref()
    }

    /// What can be set about it.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The agents that use it. A codec without any is an agent of its own name.
    pub fn presets(&self) -> Vec<AgentPreset> {
        if self.presets.is_empty() {
            let (name, summary) = (self.name.clone(), self.summary.clone());
            return vec![AgentPreset { name, summary, settings: String::new() }];
        }
        self.presets.clone()
    }

    /// The codec with these settings, for an agent with those.
    pub fn build(&self, own: &Values, agent: &AgentSettings) -> Result<Arc<dyn Codec>, SettingError> {
        agent.validate()?;
        (self.build)(own, agent)
    }

    /// Settings and codec from a text like `"weights=uniform batch=8"`, whose keys may be the codec's or the agent's. `agent`
    /// holds what the text does not set.
    pub fn configure(
        &self,
        agent: AgentSettings,
        text: &str,
    ) -> Result<(AgentSettings, Arc<dyn Codec>), SettingError> {
        let (mut agent, mut own) = (agent, self.schema.defaults());
        for pair in text.split_whitespace() {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if self.schema.keys().contains(&key) {
                self.schema.set(&mut own, key, value)?;
            } else {
                agent.set(key, value)?;
            }
        }
        let codec = self.build(&own, &agent)?;
        Ok((agent, codec))
    }

    /// Every variant that tests run: the defaults first, each with its name and the text for [`configure`](Self::configure).
    pub fn test_variants(&self) -> Vec<(String, String)> {
        let texts = std::iter::once("").chain(self.variants.iter().map(String::as_str));
        texts.map(|text| (format!("{} {text}", self.name).trim_end().to_string(), text.to_string())).collect()
    }
}

impl fmt::Debug for CodecEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodecEntry").field("name", &self.name).finish_non_exhaustive()
    }
}
