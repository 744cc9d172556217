//! A frozen agent that answers for batches of observations.

use crate::errors::raise;
use numpy::ndarray::{ArrayD, IxDyn};
use numpy::{
    IntoPyArray, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spectral_nn::{Input, Samples};
use spectral_train::error::TrainError;
use spectral_train::model_file::Description;
use spectral_train::onnx;
use spectral_train::registry::Registry;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A frozen agent: the network and the codec's statistics as they were at one moment.
#[pyclass(frozen, module = "spectral_rl._native")]
pub struct Policy {
    inner: Mutex<spectral_train::policy::Policy>,
    // What never changes is kept outside of the lock, which may be held while another thread computes.
    about: Description,
    frames: u64,
}

/// Observations as the network takes them.
enum Batch<'py> {
    Bytes(PyReadonlyArrayDyn<'py, u8>),
    Floats(PyReadonlyArrayDyn<'py, f32>),
}

impl Policy {
    /// The Python side of a policy.
    pub fn wrap(policy: spectral_train::policy::Policy) -> Self {
        let (about, frames) = (policy.description().clone(), policy.frames());
        Policy { inner: Mutex::new(policy), about, frames }
    }

    fn lock(&self) -> MutexGuard<'_, spectral_train::policy::Policy> {
        // A panic leaves nothing behind but outputs of an earlier batch, which are overwritten.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shape(&self) -> Vec<usize> {
        match self.about.network().input {
            Input::Planes { channels, height, width } => vec![channels, height, width],
            Input::Vector { len } => vec![len],
        }
    }

    /// What observations must be, for errors.
    fn expected(&self) -> String {
        let kind = match self.about.network().input {
            Input::Planes { .. } => "uint8",
            Input::Vector { .. } => "float",
        };
        let sizes: Vec<String> = self.shape().iter().map(usize::to_string).collect();
        let comma = if sizes.len() == 1 { "," } else { "" };
        format!("{kind} of shape ({0}{comma}) or (batch, {0})", sizes.join(", "))
    }

    /// Checks an array and makes it contiguous. Also says how many rows it has, and whether it is a single observation.
    fn batch<'py>(&self, observations: &Bound<'py, PyAny>) -> PyResult<(Batch<'py>, usize, bool)> {
        let py = observations.py();
        let numpy = py.import("numpy")?;
        let array = numpy.call_method1("asarray", (observations,))?;
        let array = array.cast_into::<PyUntypedArray>().map_err(PyErr::from)?;
        let shape = self.shape();
        let single = array.shape() == shape;
        let wrong = || {
            let (found, kind) = (array.shape().to_vec(), array.dtype().to_string());
            PyValueError::new_err(format!(
                "observations must be {}, not {kind} of shape {found:?}",
                self.expected()
            ))
        };
        if !single && (array.ndim() != shape.len() + 1 || array.shape()[1..] != shape) {
            return Err(wrong());
        }
        let rows = if single { 1 } else { array.shape()[0] };
        let contiguous = |dtype: &str| {
            let keywords = PyDict::new(py);
            keywords.set_item("dtype", dtype)?;
            numpy.call_method("ascontiguousarray", (&array,), Some(&keywords))
        };
        let batch = match (&self.about.network().input, array.dtype().kind()) {
            (Input::Planes { .. }, b'u') if array.dtype().itemsize() == 1 => {
                Batch::Bytes(contiguous("uint8")?.cast::<PyArrayDyn<u8>>()?.readonly())
            }
            (Input::Vector { .. }, b'f' | b'i' | b'u' | b'b') => {
                Batch::Floats(contiguous("float32")?.cast::<PyArrayDyn<f32>>()?.readonly())
            }
            _ => return Err(wrong()),
        };
        Ok((batch, rows, single))
    }

    /// Lets the policy answer while other Python threads run.
    fn compute<'py, T: Send>(
        &self,
        py: Python<'py>,
        batch: &Batch<'py>,
        answer: impl FnOnce(&mut spectral_train::policy::Policy, Samples<'_>) -> Result<T, TrainError> + Send,
    ) -> PyResult<T> {
        let samples = match batch {
            Batch::Bytes(array) => Samples::Bytes(array.as_slice()?),
            Batch::Floats(array) => Samples::Floats(array.as_slice()?),
        };
        py.detach(|| answer(&mut self.lock(), samples)).map_err(raise)
    }
}

/// Numbers as an array of this shape, without the batch's axis for a single observation.
fn shaped<'py, T: numpy::Element>(
    py: Python<'py>,
    values: Vec<T>,
    shape: &[usize],
    single: bool,
) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    let shape = if single { &shape[1..] } else { shape };
    let array = ArrayD::from_shape_vec(IxDyn(shape), values);
    Ok(array.map_err(|e| PyValueError::new_err(e.to_string()))?.into_pyarray(py))
}

#[pymethods]
impl Policy {
    /// Loads a policy from a model file, from an agent's folder, or from a run directory that has one model.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let load = || spectral_train::policy::Policy::load(&path, &Registry::default());
        py.detach(load).map(Policy::wrap).map_err(raise)
    }

    /// The action-values in true reward units: one row per observation, one column per action.
    fn q_values<'py>(
        &self,
        py: Python<'py>,
        observations: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let (batch, rows, single) = self.batch(observations)?;
        let values = self.compute(py, &batch, |policy, samples| policy.q_values(samples))?;
        shaped(py, values, &[rows, self.about.actions.len()], single)
    }

    /// The network's outputs, before they are decoded: rows × actions × outputs of an action.
    fn outputs<'py>(
        &self,
        py: Python<'py>,
        observations: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let (batch, rows, single) = self.batch(observations)?;
        let values = self.compute(py, &batch, |policy, samples| policy.outputs(samples))?;
        shaped(py, values, &[rows, self.about.actions.len(), self.about.codec().outputs()], single)
    }

    /// The best action of each row, of those that the mask allows; of equal ones the first.
    #[pyo3(signature = (observations, mask=None))]
    fn act<'py>(
        &self,
        py: Python<'py>,
        observations: &Bound<'py, PyAny>,
        mask: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (batch, rows, single) = self.batch(observations)?;
        let mask = mask.map(|mask| self.mask(mask, rows, single)).transpose()?;
        let allowed = mask.as_ref().map(|mask| mask.as_slice()).transpose()?;
        let actions = self.compute(py, &batch, |policy, samples| policy.act(samples, allowed))?;
        if single {
            return Ok(actions[0].into_pyobject(py)?.into_any());
        }
        let actions: Vec<i64> = actions.into_iter().map(|action| action as i64).collect();
        Ok(shaped(py, actions, &[rows], false)?.into_any())
    }

    /// Writes the policy as a model file, atomically: `load` reads it, and so does the `spectral` command within a run.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.lock().save(&path)).map_err(raise)
    }

    /// Writes the network and its decoding as an ONNX file, atomically.
    fn export_onnx(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| onnx::export(&self.lock(), &path)).map_err(raise)
    }

    /// The agent's name.
    #[getter]
    fn agent(&self) -> String {
        self.about.agent.clone()
    }

    /// The codec's name.
    #[getter]
    fn codec(&self) -> String {
        self.about.codec_name.clone()
    }

    /// The task's name.
    #[getter]
    fn task(&self) -> String {
        self.about.task.clone()
    }

    /// The seed that it was trained with.
    #[getter]
    fn seed(&self) -> u64 {
        self.about.seed
    }

    /// Frames that it was trained for.
    #[getter]
    fn frames(&self) -> u64 {
        self.frames
    }

    /// The shape of one observation as the network sees it, stacked: (channels, rows, columns) or (length,).
    #[getter]
    fn observation_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
        pyo3::types::PyTuple::new(py, self.shape())
    }

    /// `"planes"` (uint8) or `"vector"` (float32).
    #[getter]
    fn observation_kind(&self) -> &'static str {
        match self.about.network().input {
            Input::Planes { .. } => "planes",
            Input::Vector { .. } => "vector",
        }
    }

    /// How many successive observations of the task are stacked along the first axis.
    #[getter]
    fn stack(&self) -> usize {
        self.about.observation.stack()
    }

    /// The names of the actions.
    #[getter]
    fn actions(&self) -> Vec<String> {
        self.about.actions.clone()
    }

    /// How many frequencies the codec has; `None` if its outputs are not frequencies.
    #[getter]
    fn frequencies(&self) -> Option<usize> {
        self.about.codec().frequency_weights().map(<[f64]>::len)
    }

    /// What each frequency counts in an action-value: the powers of the base; `None` if there are no frequencies.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> Option<Bound<'py, numpy::PyArray1<f64>>> {
        let weights = self.about.codec().frequency_weights().map(<[f64]>::to_vec);
        weights.map(|weights| weights.into_pyarray(py))
    }

    fn __repr__(&self) -> String {
        let Description { agent, seed, task, .. } = &self.about;
        format!("<Policy of {agent} (seed {seed}) on {task}, {} frames>", self.frames)
    }
}

impl Policy {
    fn mask<'py>(
        &self,
        mask: &Bound<'py, PyAny>,
        rows: usize,
        single: bool,
    ) -> PyResult<PyReadonlyArrayDyn<'py, bool>> {
        let numpy = mask.py().import("numpy")?;
        let array = numpy.call_method1("ascontiguousarray", (mask,))?.cast_into::<PyUntypedArray>()?;
        let (whole, row) = ([rows, self.about.actions.len()], [self.about.actions.len()]);
        let expected = if single { &row[..] } else { &whole[..] };
        match array.dtype().kind() == b'b' && array.shape() == expected {
            true => Ok(array.cast::<PyArrayDyn<bool>>()?.readonly()),
            false => Err(PyValueError::new_err(format!(
                "the mask must be bool of shape {expected:?}, not {} of shape {:?}",
                array.dtype(),
                array.shape()
            ))),
        }
    }
}
