//! The tasks by name, and what Python's keyword arguments set about them.

use pyo3::exceptions::{PyFileNotFoundError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use spectral_core::nearest::nearest;
use spectral_core::settings::Values;
use spectral_env::{Env, TaskEntry, TaskError};
use std::path::PathBuf;

/// Every task: its name and one line on what it is.
#[pyfunction]
pub fn list_tasks() -> Vec<(String, String)> {
    entries().iter().map(|entry| (entry.name().to_owned(), entry.summary().to_owned())).collect()
}

/// Names a folder in which ROMs are looked for when the user's own has none.
#[pyfunction]
pub fn add_rom_folder(folder: PathBuf) {
    #[cfg(feature = "atari")]
    spectral_atari::roms::also_search(folder);
    #[cfg(not(feature = "atari"))]
    drop(folder);
}

fn entries() -> Vec<TaskEntry> {
    #[cfg_attr(not(feature = "atari"), allow(unused_mut))]
    let mut entries = spectral_env::entries();
    #[cfg(feature = "atari")]
    entries.extend(spectral_atari::task::entries());
    entries
}

/// A task with its settings: as many copies of it can be made as one likes.
pub struct Recipe {
    entry: TaskEntry,
    values: Values,
}

impl Recipe {
    /// The task of this name with these settings. `others` are keyword arguments that are no settings of a task, for the
    /// message about a misspelt one.
    pub fn new(name: &str, raw: bool, settings: &Bound<'_, PyDict>, others: &[String]) -> PyResult<Recipe> {
        let entry = if raw { raw_entry(name)? } else { plain_entry(name)? };
        let mut values = entry.schema().defaults();
        for (key, value) in settings {
            let key: String = key.extract()?;
            if value.is_none() {
                continue;
            }
            if !entry.schema().keys().contains(&key.as_str()) {
                return Err(no_such_setting(&entry, raw, &key, others));
            }
            let text = as_text(&value)?;
            entry.schema().set(&mut values, &key, &text).map_err(|e| PyValueError::new_err(e.to_string()))?;
        }
        entry.resolve(&mut values).map_err(python_error)?;
        Ok(Recipe { entry, values })
    }

    /// A fresh copy.
    pub fn make(&self) -> Result<Box<dyn Env>, TaskError> {
        self.entry.make(&self.values)
    }
}

/// A task's error as the exception that Python's users expect.
pub fn python_error(error: TaskError) -> PyErr {
    match error {
        TaskError::Missing(text) => PyFileNotFoundError::new_err(format!(
            "{text}; or `pip install spectral-rl[atari]`, whose package ale-py brings the ROMs"
        )),
        other => PyValueError::new_err(other.to_string()),
    }
}

fn plain_entry(name: &str) -> PyResult<TaskEntry> {
    let mut entries = entries();
    match entries.iter().position(|entry| entry.name() == name) {
        Some(index) => Ok(entries.swap_remove(index)),
        None => {
            let names = || entries.iter().map(TaskEntry::name);
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
            };
            Err(PyValueError::new_err(format!("there is no task '{name}'; {hint}")))
        }
    }
}

fn raw_entry(name: &str) -> PyResult<TaskEntry> {
    plain_entry(name)?;
    #[cfg(feature = "atari")]
    if let Some(entry) = super::raw::entry(name) {
        return Ok(entry);
    }
    Err(PyValueError::new_err(format!(
        "raw=True is for single Atari games such as SpectralAtari/Pong-v0, and '{name}' is none: leave it out"
    )))
}

fn no_such_setting(entry: &TaskEntry, raw: bool, key: &str, others: &[String]) -> PyErr {
    let keys = entry.schema().keys();
    let known = || keys.iter().copied().chain(others.iter().map(String::as_str));
    let hint = match nearest(key, known()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("it has {}", known().collect::<Vec<_>>().join(", ")),
    };
    let with = if raw { " with raw=True" } else { "" };
    PyTypeError::new_err(format!("the task '{}'{with} has no setting '{key}'; {hint}", entry.name()))
}

/// A setting's value as a file would have it.
fn as_text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(truth.is_true().to_string());
    }
    let text = value.str()?.to_string();
    // NumPy's truths are no bool of Python's.
    Ok(if text == "True" || text == "False" { text.to_lowercase() } else { text })
}
