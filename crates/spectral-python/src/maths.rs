//! The formulae of the paper on NumPy arrays of any shape.

use numpy::ndarray::{ArrayD, Axis, IxDyn};
use numpy::{IntoPyArray, PyArrayDyn, PyReadonlyArrayDyn};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spectral_core::decompose::{Encoding, Spectrum};
use spectral_core::squash::Squash;

fn spectrum(base: f64, max_frequency: usize, binary: bool) -> PyResult<Spectrum> {
    let encoding = if binary { Encoding::Binary } else { Encoding::Thermometer };
    Spectrum::new(base, max_frequency, encoding).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// Splits every number into its buckets: the result has one axis more, of `max_frequency + 1` elements.
#[pyfunction]
#[pyo3(signature = (values, *, base=2.0, max_frequency=20, binary=false))]
pub fn decompose<'py>(
    py: Python<'py>,
    values: PyReadonlyArrayDyn<'py, f64>,
    base: f64,
    max_frequency: usize,
    binary: bool,
) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    let spectrum = spectrum(base, max_frequency, binary)?;
    let values = values.as_array();
    let mut shape = values.shape().to_vec();
    shape.push(spectrum.frequencies());
    let mut out = Vec::with_capacity(values.len() * spectrum.frequencies());
    let mut elements = vec![0.0; spectrum.frequencies()];
    for &value in values.iter() {
        spectrum.decompose_f64(value, &mut elements);
        out.extend_from_slice(&elements);
    }
    let array = ArrayD::from_shape_vec(IxDyn(&shape), out).expect("one row per number");
    Ok(array.into_pyarray(py))
}

/// What the buckets along the last axis add up to.
#[pyfunction]
#[pyo3(signature = (elements, *, base=2.0))]
pub fn recompose<'py>(
    py: Python<'py>,
    elements: PyReadonlyArrayDyn<'py, f64>,
    base: f64,
) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    let elements = elements.as_array();
    let Some(last) = elements.ndim().checked_sub(1).filter(|&axis| elements.shape()[axis] > 0) else {
        return Err(PyValueError::new_err("the last axis must hold the elements of a decomposition"));
    };
    let spectrum = spectrum(base, elements.shape()[last] - 1, false)?;
    let sums = elements.map_axis(Axis(last), |row| spectrum.recompose_f64(&row.to_vec()));
    Ok(sums.into_pyarray(py))
}

/// h(x) = sign(x)(√(|x| + 1) − 1) + εx, which DQN+TC learns in.
#[pyfunction]
#[pyo3(signature = (values, *, epsilon=0.01))]
pub fn compress<'py>(
    py: Python<'py>,
    values: PyReadonlyArrayDyn<'py, f64>,
    epsilon: f64,
) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    let squash = squash(epsilon)?;
    Ok(values.as_array().mapv(|x| squash.forward_f64(x)).into_pyarray(py))
}

/// The inverse of `compress`.
#[pyfunction]
#[pyo3(signature = (values, *, epsilon=0.01))]
pub fn decompress<'py>(
    py: Python<'py>,
    values: PyReadonlyArrayDyn<'py, f64>,
    epsilon: f64,
) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    let squash = squash(epsilon)?;
    Ok(values.as_array().mapv(|y| squash.inverse_f64(y)).into_pyarray(py))
}

fn squash(epsilon: f64) -> PyResult<Squash> {
    if !(epsilon >= 0.0 && epsilon.is_finite()) {
        return Err(PyValueError::new_err(format!("epsilon is {epsilon}, and must be 0 or more")));
    }
    Ok(Squash::Sqrt { epsilon })
}
