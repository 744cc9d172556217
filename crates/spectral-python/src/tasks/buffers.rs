//! The arrays that observations are written to.
//!
//! An array belongs to the caller for as long as anything in Python refers to it. One that nobody refers to any more is
//! written again: the system is then not asked for fresh memory at every step, which costs more than writing to it.

use numpy::{Element, PyArrayDyn, PyArrayMethods, PyReadwriteArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use spectral_env::ObservationSpec;

/// Arrays that are kept for another use. A caller that holds on to more than these gets fresh ones.
const KEPT: usize = 4;

/// Arrays of one shape.
pub struct Buffers<T> {
    shape: Vec<usize>,
    arrays: Vec<Py<PyArrayDyn<T>>>,
    /// Whether to write to the same array always, whoever refers to it.
    same: bool,
}

impl<T: Element> Buffers<T> {
    /// For arrays of this shape.
    pub fn new(shape: Vec<usize>, same: bool) -> Self {
        Buffers { shape, arrays: Vec::new(), same }
    }

    /// An array to write to.
    pub fn take<'py>(&mut self, py: Python<'py>) -> PyReadwriteArrayDyn<'py, T> {
        for array in &self.arrays {
            // SAFETY: it is a live object, and this thread holds the interpreter.
            if !self.same && unsafe { pyo3::ffi::Py_REFCNT(array.as_ptr()) } > 1 {
                continue;
            }
            let array = array.bind(py);
            // Whoever had it may have reshaped it, or forbidden to write to it.
            if array.shape() == self.shape
                && array.is_c_contiguous()
                && let Ok(writable) = array.try_readwrite()
            {
                return writable;
            }
        }
        let array = PyArrayDyn::<T>::zeros(py, self.shape.clone(), false);
        if self.same {
            self.arrays.clear();
        } else if self.arrays.len() == KEPT {
            self.arrays.remove(0);
        }
        self.arrays.push(array.clone().unbind());
        array.readwrite()
    }
}

/// The arrays of a task: bytes for planes, numbers for vectors.
pub enum ObservationBuffers {
    Bytes(Buffers<u8>),
    Floats(Buffers<f32>),
}

impl ObservationBuffers {
    /// For `copies` observations at once, or for one alone.
    pub fn new(spec: &ObservationSpec, copies: Option<usize>, same: bool) -> Self {
        let shape = copies.into_iter().chain(shape(spec)).collect();
        match spec {
            ObservationSpec::Planes { .. } => ObservationBuffers::Bytes(Buffers::new(shape, same)),
            ObservationSpec::Vector { .. } => ObservationBuffers::Floats(Buffers::new(shape, same)),
        }
    }
}

/// The shape of what a network sees.
pub fn shape(spec: &ObservationSpec) -> Vec<usize> {
    match *spec {
        ObservationSpec::Planes { channels, height, width, stack } => vec![channels * stack, height, width],
        ObservationSpec::Vector { len } => vec![len],
    }
}

/// Elements of what a network sees.
pub fn seen_len(spec: &ObservationSpec) -> usize {
    spec.len() * spec.stack()
}
