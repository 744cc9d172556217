//! Gymnasium tasks as tasks of the registry.
//!
//! One [`Source`] stands for one task of the user's. It makes instances, hands unused ones out again, and keeps the exception
//! that a task raised, so that `learn` can raise it once the run has ended.

mod member;
mod observation;
mod separate;
mod vector;

use member::{Group, Member};
pub use observation::Layout;
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use separate::SeparateStepper;
use spectral_core::settings;
use spectral_env::{ActionMask, Env, Step, TaskEntry, TaskError, TaskGroup, TaskSpec};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vector::{Autoreset, VectorStepper};

settings! {
    /// Settings of a Gymnasium task.
    GymSettings {
        /// The keyword arguments that the environment is made with.
        env_kwargs: String = String::new(),
    }
}

/// A Gymnasium task, as `spectral_rl` hands it over.
#[pyclass(frozen)]
pub struct GymTask(pub Arc<Source>);

/// Where instances of a task come from, and what is known of it.
pub struct Source {
    pub name: String,
    pub spec: TaskSpec,
    pub layout: Layout,
    /// The number of the first action.
    action_start: i64,
    /// Makes an instance; without it, there are only the idle ones.
    make: Option<Py<PyAny>>,
    idle: Mutex<Vec<Py<PyAny>>>,
    vector: Option<(Py<PyAny>, Autoreset)>,
    /// Whether seed and actions decide what happens.
    pub reproducible: bool,
    error: Mutex<Option<PyErr>>,
}

#[pymethods]
impl GymTask {
    #[new]
    #[pyo3(signature = (*, name, observation, shape, start, stack, actions, action_start, masks_actions, reproducible,
        make=None, instances=Vec::new(), vector=None, autoreset="disabled"))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        name: String,
        observation: &str,
        shape: Vec<usize>,
        start: i64,
        stack: usize,
        actions: Vec<String>,
        action_start: i64,
        masks_actions: bool,
        reproducible: bool,
        make: Option<Py<PyAny>>,
        instances: Vec<Py<PyAny>>,
        vector: Option<Py<PyAny>>,
        autoreset: &str,
    ) -> PyResult<Self> {
        let layout = Layout::new(observation, shape, start, stack)?;
        let actions: Vec<&str> = actions.iter().map(String::as_str).collect();
        let mut spec = TaskSpec::new(&name, layout.spec(), &actions);
        spec.masks_actions = masks_actions;
        let vector = vector.map(|env| Ok::<_, PyErr>((env, Autoreset::parse(autoreset)?))).transpose()?;
        Ok(GymTask(Arc::new(Source {
            name,
            spec,
            layout,
            action_start,
            make,
            idle: Mutex::new(instances),
            reproducible: reproducible && vector.is_none(),
            vector,
            error: Mutex::new(None),
        })))
    }

    /// The name under which the task is registered.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether seed and actions decide what happens, so that an episode can be gone on with after a kill.
    #[getter]
    fn reproducible(&self) -> bool {
        self.0.reproducible
    }

    /// Takes an idle instance, or makes one, for use outside training.
    fn take(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.0.instance(py)
    }
}

impl Source {
    /// The task's entry in a registry.
    pub fn entry(self: &Arc<Self>) -> TaskEntry {
        let (one, many) = (self.clone(), self.clone());
        let entry =
            TaskEntry::with_settings(&self.name, "a Gymnasium task", move |_: &GymSettings| one.member())
                .stepped_together(move |_: &GymSettings, count| many.group(count));
        // Without a function that makes more, every environment trains.
        match self.make {
            Some(_) if self.vector.is_none() => entry,
            _ => entry.without_spares(),
        }
    }

    /// The exception that the task raised, if it did.
    pub fn take_error(&self) -> Option<PyErr> {
        lock(&self.error).take()
    }

    /// Keeps an exception for later and returns what it says.
    fn keep(&self, py: Python<'_>, error: PyErr) -> String {
        let text = error.to_string();
        lock(&self.error).get_or_insert(error.clone_ref(py));
        text
    }

    fn instance(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if let Some(env) = lock(&self.idle).pop() {
            return Ok(env);
        }
        match &self.make {
            Some(make) => make.call0(py),
            None => Err(PyValueError::new_err(format!(
                "{} is a single environment, and every agent needs one of its own: pass a function that makes one, such as \
                 `lambda: gymnasium.make(...)`, or a vector environment",
                self.name
            ))),
        }
    }

    /// An instance that steps by itself. Of a vector environment it can only be asked what it is.
    fn member(self: &Arc<Self>) -> Result<Box<dyn Env>, TaskError> {
        let env = match self.vector {
            Some(_) => None,
            None => Some(self.attached(|py| self.instance(py))?),
        };
        Ok(Box::new(Member::new(Group::new(self.clone(), vec![env]), 0)))
    }

    fn group(self: &Arc<Self>, count: usize) -> Result<TaskGroup, TaskError> {
        let Some((env, autoreset)) = &self.vector else {
            let envs = self.attached(|py| (0..count).map(|_| self.instance(py).map(Some)).collect())?;
            let group = Group::new(self.clone(), envs);
            return Ok(TaskGroup { tasks: members(&group), stepper: Box::new(SeparateStepper(group)) });
        };
        let group = Group::new(self.clone(), (0..count).map(|_| None).collect());
        let env = Python::attach(|py| env.clone_ref(py));
        let stepper = self.attached(|py| VectorStepper::new(py, group.clone(), env, *autoreset))?;
        Ok(TaskGroup { tasks: members(&group), stepper: Box::new(stepper) })
    }

    /// Runs something in Python. An exception is kept, and ends the run.
    fn attached<T>(&self, work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, TaskError> {
        Python::attach(|py| work(py).map_err(|error| TaskError::Failed(self.keep(py, error))))
    }

    /// The arguments of `step` for one action.
    fn action(&self, action: usize) -> i64 {
        self.action_start + action as i64
    }

    /// Reads the legal actions, if the task says which are legal.
    fn read_legal(&self, info: &Bound<'_, PyAny>, legal: &mut ActionMask) -> PyResult<()> {
        if !self.spec.masks_actions {
            let info = info.cast::<PyDict>();
            if info.is_ok_and(|info| info.contains(pyo3::intern!(info.py(), "action_mask")).unwrap_or(false))
            {
                return Err(PyValueError::new_err(
                    "info has an \"action_mask\", though that of the first reset had none: a task that says which actions are \
                     legal has to say so after every reset and step",
                ));
            }
            return Ok(());
        }
        let Ok(mask) = info.get_item(pyo3::intern!(info.py(), "action_mask")) else {
            return Err(PyKeyError::new_err(
                "info has no \"action_mask\", though the first one had: a task that says which actions are legal has to say \
                 so after every reset and step",
            ));
        };
        read_mask(&mask, self.spec.actions.len(), legal)
    }
}

/// Reads a row of Booleans or of zeros and ones.
fn read_mask(mask: &Bound<'_, PyAny>, actions: usize, legal: &mut ActionMask) -> PyResult<()> {
    let wrong =
        || PyValueError::new_err(format!("an action_mask must hold {actions} Booleans, zeros or ones"));
    if mask.len().map_err(|_| wrong())? != actions {
        return Err(wrong());
    }
    legal.clear();
    for (action, allowed) in mask.try_iter()?.enumerate() {
        if allowed?.is_truthy().map_err(|_| wrong())? {
            legal.allow(action);
        }
    }
    Ok(())
}

/// What `step` of a single environment returned: observation, info, and the rest as a step.
fn read_step<'py>(result: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>, Step)> {
    let tuple = result.cast::<PyTuple>().ok().filter(|tuple| tuple.len() == 5).ok_or_else(|| {
        PyTypeError::new_err(
            "step must return (observation, reward, terminated, truncated, info), as Gymnasium has it; for tasks of the old \
             Gym see gymnasium.make(..., apply_api_compatibility=True) or the package shimmy",
        )
    })?;
    let reward = tuple.get_borrowed_item(1)?;
    let reward: f64 = reward.extract().map_err(|_| {
        PyTypeError::new_err(format!("step returned the reward {reward:?}, which is not a number"))
    })?;
    let terminated = tuple.get_borrowed_item(2)?.is_truthy()?;
    let truncated = tuple.get_borrowed_item(3)?.is_truthy()?;
    let step = Step { reward, score: reward, terminated, truncated, ..Step::default() };
    Ok((tuple.get_item(0)?, tuple.get_item(4)?, step))
}

/// What `reset` returned: observation and info.
fn read_reset<'py>(result: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let tuple =
        result.cast::<PyTuple>().ok().filter(|tuple| tuple.len() == 2).ok_or_else(|| {
            PyTypeError::new_err("reset must return (observation, info), as Gymnasium has it")
        })?;
    Ok((tuple.get_item(0)?, tuple.get_item(1)?))
}

/// Calls `reset(seed=…)`.
fn call_reset<'py>(env: &Bound<'py, PyAny>, seed: u32) -> PyResult<Bound<'py, PyAny>> {
    let keywords = PyDict::new(env.py());
    keywords.set_item(pyo3::intern!(env.py(), "seed"), seed)?;
    env.call_method(pyo3::intern!(env.py(), "reset"), (), Some(&keywords))
}

fn members(group: &Arc<Group>) -> Vec<Box<dyn Env>> {
    (0..group.slots.len()).map(|index| Box::new(Member::new(group.clone(), index)) as Box<dyn Env>).collect()
}

/// Locks even if a holder of the lock panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
