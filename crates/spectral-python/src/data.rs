//! Run directories as plain Python data.

use numpy::IntoPyArray;
use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use spectral_report::{AgentStatus, ReportError, ReportOptions, RunStatus};
use std::path::{Path, PathBuf};

/// Columns that hold counts, in whichever file. All others are numbers.
const COUNTS: [&str; 10] = [
    "frame",
    "updates",
    "episodes",
    "length",
    "saturated",
    "player_score",
    "samples",
    "model",
    "games",
    "cut",
];

fn raise_report(error: ReportError) -> PyErr {
    let text = error.to_string();
    match error {
        ReportError::NoRuns { .. } | ReportError::NotThere { .. } => PyFileNotFoundError::new_err(text),
        ReportError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            PyFileNotFoundError::new_err(text)
        }
        ReportError::Io { .. } => PyOSError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Reads one run directory, as a report does.
fn open(path: &Path) -> PyResult<spectral_report::Run> {
    let file = path.join("run.toml");
    if file.symlink_metadata().is_err() {
        return Err(PyFileNotFoundError::new_err(format!(
            "{} is not a run directory: it has no run.toml",
            path.display()
        )));
    }
    let mut runs = spectral_report::read_runs(&[path.to_path_buf()]).map_err(raise_report)?;
    let run = runs.pop().ok_or_else(|| PyFileNotFoundError::new_err(format!("{}", path.display())))?;
    // An id is a folder's name. One that leads elsewhere was not written by us.
    let plain = |id: &str| !id.is_empty() && id.chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
    match run.agents.iter().find(|agent| !plain(&agent.id)) {
        None => Ok(run),
        Some(agent) => Err(PyValueError::new_err(format!(
            "{}: '{}' cannot be an agent's id, because it is not the name of a folder",
            file.display(),
            agent.id
        ))),
    }
}

/// What a run directory says of the run and of its agents, as a dict; tables are left out.
#[pyfunction]
pub fn read_run<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
    let run = py.detach(|| open(&path))?;
    let text = std::fs::read_to_string(path.join("run.toml"))?;
    let table: toml::Table =
        text.parse().map_err(|e: toml::de::Error| PyValueError::new_err(e.to_string()))?;
    let dict = PyDict::new(py);
    dict.set_item("task", &run.task)?;
    dict.set_item("frames", run.frames)?;
    dict.set_item("seconds", run.seconds)?;
    dict.set_item(
        "status",
        match run.status {
            RunStatus::Running => "running",
            RunStatus::Interrupted => "interrupted",
            RunStatus::Finished => "finished",
        },
    )?;
    dict.set_item("settings", to_dict(py, &table)?)?;
    let entries = table.get("agents").and_then(toml::Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let agents = PyList::empty(py);
    for (agent, entry) in run.agents.iter().zip(entries) {
        let one = PyDict::new(py);
        one.set_item("id", &agent.id)?;
        one.set_item("name", &agent.agent)?;
        one.set_item("codec", &agent.codec)?;
        one.set_item("seed", agent.seed)?;
        one.set_item("frames", agent.frames)?;
        one.set_item("running", agent.status == AgentStatus::Running)?;
        let stopped = (agent.status == AgentStatus::Stopped).then_some(agent.reason.as_str());
        one.set_item("stopped", stopped)?;
        match entry.get("settings").and_then(toml::Value::as_table) {
            Some(settings) => one.set_item("settings", to_dict(py, settings)?)?,
            None => one.set_item("settings", PyDict::new(py))?,
        }
        agents.append(one)?;
    }
    dict.set_item("agents", agents)?;
    Ok(dict)
}

/// A CSV file of a run as a dict of columns; empty if there is no such file. If its writer may be at work, a last line
/// without a line break is left out; otherwise it is an error.
#[pyfunction]
pub fn read_table<'py>(py: Python<'py>, path: PathBuf, running: bool) -> PyResult<Bound<'py, PyDict>> {
    let columns = py.detach(|| spectral_report::read_columns(&path, running)).map_err(raise_report)?;
    let dict = PyDict::new(py);
    for (name, values) in columns {
        // Up to 2⁵³ every whole number is exact.
        let whole = |x: &f64| x.fract() == 0.0 && x.abs() <= 9.0e15;
        if COUNTS.contains(&name.as_str()) && values.iter().all(whole) {
            let counts: Vec<i64> = values.iter().map(|&x| x as i64).collect();
            dict.set_item(name, counts.into_pyarray(py))?;
        } else {
            dict.set_item(name, values.into_pyarray(py))?;
        }
    }
    Ok(dict)
}

/// Writes the report that `spectral report` writes, and returns the path of its page.
#[pyfunction]
#[pyo3(signature = (paths, out, *, title="Training report".to_string(), baseline="spectral".to_string(), at_frames=None))]
pub fn write_report(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    out: PathBuf,
    title: String,
    baseline: String,
    at_frames: Option<u64>,
) -> PyResult<PathBuf> {
    let write = || {
        let runs = spectral_report::read_runs(&paths)?;
        let references = spectral_cli::references(&spectral_cli::Registry::default());
        let baseline = Some(baseline);
        let options =
            ReportOptions { title, out, baseline, at_frames, references, ..ReportOptions::default() };
        Ok(spectral_report::write_report(&runs, &options)?.html)
    };
    py.detach(write).map_err(raise_report)
}

fn to_dict<'py>(py: Python<'py>, table: &toml::Table) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in table {
        dict.set_item(key, to_python(py, value)?)?;
    }
    Ok(dict)
}

/// Nesting is bounded: the parser refuses a text that nests deeper than its own limit.
fn to_python<'py>(py: Python<'py>, value: &toml::Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        toml::Value::String(text) => text.into_pyobject(py)?.into_any(),
        toml::Value::Integer(number) => number.into_pyobject(py)?.into_any(),
        toml::Value::Float(number) => number.into_pyobject(py)?.into_any(),
        toml::Value::Boolean(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        toml::Value::Datetime(moment) => moment.to_string().into_pyobject(py)?.into_any(),
        toml::Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item)?)?;
            }
            list.into_any()
        }
        toml::Value::Table(table) => to_dict(py, table)?.into_any(),
    })
}
