//! Tells Python how training goes: callbacks, progress, interrupts.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use spectral_train::checkpoint::Cost;
use spectral_train::control::Control;
use spectral_train::events::{Event, Events};
use spectral_train::trainer::{AgentProgress, Observer, StepTaken};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Who is told, and of what.
pub struct Told {
    /// An object with `step`, `episode`, `log` and `checkpoint`, each of which returns False to end the run.
    pub callback: Option<Py<PyAny>>,
    /// Whether it is told of steps.
    pub steps: bool,
    /// Whether it is told of everything at once, and not about ten times a second.
    pub prompt: bool,
    /// Called with the frames of all agents, about ten times a second.
    pub progress: Option<Py<PyAny>>,
}

/// Calls the methods of a callback object. The first exception cancels the run and is raised when it has ended.
pub struct PyObserver {
    told: Told,
    events: Arc<Events>,
    control: Control,
    error: Mutex<Option<PyErr>>,
    /// A callback returned False.
    content: AtomicBool,
}

impl PyObserver {
    pub fn new(told: Told, events: Arc<Events>, control: Control) -> Self {
        PyObserver { told, events, control, error: Mutex::new(None), content: AtomicBool::new(false) }
    }

    /// The exception that a callback raised.
    pub fn take_error(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(|e| e.into_inner()).take()
    }

    /// Whether a callback has ended the run.
    pub fn is_content(&self) -> bool {
        self.content.load(Ordering::Relaxed)
    }

    /// Runs something in Python; an exception, or False, ends the run.
    fn attached(&self, work: impl FnOnce(Python<'_>) -> PyResult<bool>) {
        // Once the run is to end, nobody is told anything more.
        if self.control.is_cancelled() {
            return;
        }
        match Python::attach(work) {
            Ok(true) => return,
            Ok(false) => self.content.store(true, Ordering::Relaxed),
            Err(error) => {
                self.error.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
            }
        }
        self.control.cancel();
    }

    /// Tells of what happened since the last call.
    fn tell_events(&self, py: Python<'_>) -> PyResult<bool> {
        let Some(callback) = self.told.callback.as_ref().map(|callback| callback.bind(py)) else {
            return Ok(true);
        };
        for event in self.events.take() {
            let said = match event {
                Event::Episode { agent, episode } => {
                    let row = (agent, episode.frame, episode.sum, episode.score, episode.length);
                    callback.call_method1("episode", row)?
                }
                Event::Metrics { agent, values } => {
                    let row = PyDict::new(py);
                    values.into_iter().try_for_each(|(name, value)| row.set_item(name, value))?;
                    callback.call_method1("log", (agent, row))?
                }
            };
            if !goes_on(&said)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// False is the only answer that ends a run; most callbacks return nothing.
fn goes_on(said: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(said.is_none() || said.is_truthy()?)
}

impl Observer for PyObserver {
    fn tick(&self, progress: &[AgentProgress]) {
        self.attached(|py| {
            py.check_signals()?;
            if let Some(tell) = &self.told.progress {
                let rows: Vec<(u64, Option<f64>)> = progress.iter().map(|a| (a.frames, a.score)).collect();
                tell.call1(py, (rows,))?;
            }
            self.tell_events(py)
        });
    }

    fn wants_steps(&self) -> bool {
        self.told.prompt
    }

    fn steps(&self, taken: &[StepTaken]) {
        if !self.told.steps && self.events.is_empty() {
            return;
        }
        self.attached(|py| {
            let Some(callback) = &self.told.callback else { return Ok(true) };
            let taken = if self.told.steps { taken } else { &[] };
            for &StepTaken { agent, frame, action, step } in taken {
                let row = (agent, frame, action, step.reward, step.terminated, step.truncated);
                if !goes_on(&callback.bind(py).call_method1("step", row)?)? {
                    return Ok(false);
                }
            }
            self.tell_events(py)
        });
    }

    fn checkpoint(&self, cost: Cost) {
        self.attached(|py| {
            let told = self.tell_events(py)?;
            let Some(callback) = self.told.callback.as_ref().filter(|_| told) else { return Ok(told) };
            goes_on(&callback.bind(py).call_method1("checkpoint", (cost.seconds, cost.bytes))?)
        });
    }
}
