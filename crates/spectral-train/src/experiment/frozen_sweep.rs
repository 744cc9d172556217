//! A sweep as text, for a plan whose report is written by another process than the one that made it.

use super::{Experiment, Sweep, Variant};
use crate::error::TrainError;
use spectral_core::settings::quote;
use std::fmt::Write as _;

impl Sweep {
    /// What is varied and the variants; the experiment's plan is kept elsewhere.
    ///
    /// ```
    /// use spectral_train::config::Configuration;
    /// use spectral_train::experiment::{Experiment, Sweep, Vary};
    /// use spectral_train::registry::Registry;
    /// let mut config = Configuration::default();
    /// config.set("task=pong-mini")?;
    /// let sweep = Experiment::sweep(&config, &[Vary::parse("batch=32,64")?], &Registry::default())?;
    /// let kept = Experiment { text: sweep.to_toml(), ..sweep.experiment.clone() };
    /// assert_eq!(Sweep::from_toml(kept.clone())?, Sweep { experiment: kept, ..sweep });
    /// # Ok::<(), spectral_train::error::TrainError>(())
    /// ```
    pub fn to_toml(&self) -> String {
        let list = |words: &mut dyn Iterator<Item = &String>| {
            words.map(|word| quote(word)).collect::<Vec<_>>().join(", ")
        };
        let mut text = format!("keys = [{}]\n", list(&mut self.keys.iter()));
        for Variant { name, agent, values } in &self.variants {
            let keys = list(&mut values.iter().map(|(key, _)| key));
            let values = list(&mut values.iter().map(|(_, value)| value));
            let _ = write!(
                text,
                "\n[[variant]]\nname = {}\nagent = {}\nkeys = [{keys}]\nvalues = [{values}]\n",
                quote(name),
                quote(agent)
            );
        }
        text
    }

    /// The sweep that this experiment's text describes.
    pub fn from_toml(experiment: Experiment) -> Result<Self, TrainError> {
        let wrong = || TrainError::Data("the plan does not say what its sweep varies: make it anew".into());
        let table: toml::Table = experiment.text.parse().map_err(|_| wrong())?;
        let list = |table: &toml::Table, key: &str| -> Option<Vec<String>> {
            table.get(key)?.as_array()?.iter().map(|word| word.as_str().map(String::from)).collect()
        };
        let variant = |entry: &toml::Value| {
            let entry = entry.as_table()?;
            let text = |key: &str| entry.get(key)?.as_str().map(String::from);
            let (keys, values) = (list(entry, "keys")?, list(entry, "values")?);
            let values = (keys.len() == values.len()).then(|| keys.into_iter().zip(values).collect())?;
            Some(Variant { name: text("name")?, agent: text("agent")?, values })
        };
        let entries = table.get("variant").and_then(toml::Value::as_array).ok_or_else(wrong)?;
        let variants = entries.iter().map(variant).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
        let keys = list(&table, "keys").ok_or_else(wrong)?;
        if experiment.plans.is_empty() || variants.is_empty() {
            return Err(wrong());
        }
        Ok(Sweep { experiment, variants, keys })
    }
}
