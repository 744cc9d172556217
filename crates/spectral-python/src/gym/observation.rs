//! Observations of Gymnasium tasks as agents see them: planes of bytes, channel by channel, or vectors of numbers.

use numpy::{PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use spectral_env::{Observation, ObservationSpec};

/// How a space's observations are read.
#[derive(Clone, Debug)]
pub enum Layout {
    /// An image of bytes, of this shape.
    Image { shape: Vec<usize>, channels_last: bool, stack: usize },
    /// Numbers of this shape, flattened; bytes are divided by 255.
    Numbers { shape: Vec<usize>, bytes: bool },
    /// A whole number from `start`, one of `count`, as a vector with a single 1.
    OneHot { start: i64, count: usize },
}

/// The last observation of one instance.
#[derive(Clone, Debug)]
pub enum Buffer {
    Bytes(Vec<u8>),
    Numbers(Vec<f32>),
}

impl Layout {
    /// From the dictionary that `spectral_rl._spaces` makes of a space.
    pub fn new(kind: &str, shape: Vec<usize>, start: i64, stack: usize) -> PyResult<Self> {
        Ok(match kind {
            "image" => Layout::Image { shape, channels_last: false, stack },
            "image-channels-last" => Layout::Image { shape, channels_last: true, stack },
            "numbers" => Layout::Numbers { shape, bytes: false },
            "bytes" => Layout::Numbers { shape, bytes: true },
            "one-hot" => Layout::OneHot { start, count: shape[0] },
            other => return Err(PyValueError::new_err(format!("no layout is called {other}"))),
        })
    }

    /// The shape as tasks describe it.
    pub fn spec(&self) -> ObservationSpec {
        match self {
            Layout::Image { shape, channels_last, stack } => {
                let (channels, height, width) = match (shape.as_slice(), channels_last) {
                    (&[height, width], _) => (1, height, width),
                    (&[height, width, channels], true) => (channels, height, width),
                    (&[channels, height, width], false) => (channels, height, width),
                    _ => unreachable!("images have two or three axes"),
                };
                ObservationSpec::Planes { channels, height, width, stack: *stack }
            }
            Layout::Numbers { shape, .. } => ObservationSpec::Vector { len: shape.iter().product() },
            Layout::OneHot { count, .. } => ObservationSpec::Vector { len: *count },
        }
    }

    /// Room for one observation.
    pub fn buffer(&self) -> Buffer {
        match self {
            Layout::Image { shape, .. } => Buffer::Bytes(vec![0; shape.iter().product()]),
            _ => Buffer::Numbers(vec![0.0; self.spec().len()]),
        }
    }

    /// Reads an observation that a task returned.
    pub fn read(&self, observation: &Bound<'_, PyAny>, out: &mut Buffer) -> PyResult<()> {
        match (self, out) {
            (Layout::Image { shape, channels_last, .. }, Buffer::Bytes(out)) => {
                let Ok(array) = observation.cast::<PyArrayDyn<u8>>() else {
                    return Err(PyTypeError::new_err(format!(
                        "the task's observation is {}, and its space promises an array of uint8",
                        describe(observation)
                    )));
                };
                check_shape(array.shape(), shape)?;
                let array = array.readonly();
                if let (false, Ok(bytes)) = (*channels_last, array.as_slice()) {
                    out.copy_from_slice(bytes);
                } else if let (true, [_, _, channels], Ok(bytes)) =
                    (*channels_last, shape.as_slice(), array.as_slice())
                {
                    let pixels = out.len() / channels;
                    for (plane, out) in out.chunks_exact_mut(pixels).enumerate() {
                        let channel = bytes[plane..].iter().step_by(*channels);
                        out.iter_mut().zip(channel).for_each(|(out, &byte)| *out = byte);
                    }
                } else {
                    let view = array.as_array();
                    let view = match (*channels_last, shape.len()) {
                        (true, 3) => view.permuted_axes(vec![2, 0, 1]),
                        _ => view,
                    };
                    out.iter_mut().zip(view.iter()).for_each(|(out, &byte)| *out = byte);
                }
                Ok(())
            }
            (Layout::Numbers { shape, bytes }, Buffer::Numbers(out)) => {
                if let Ok(array) = observation.cast::<PyArrayDyn<f32>>() {
                    copy(array, shape, out, |x| x)?;
                } else if let Ok(array) = observation.cast::<PyArrayDyn<f64>>() {
                    copy(array, shape, out, |x| x as f32)?;
                } else {
                    let array = as_numbers(observation)?;
                    let scale = if *bytes { 1.0 / 255.0 } else { 1.0 };
                    copy(&array, shape, out, |x| x * scale)?;
                }
                match out.iter().position(|x| !x.is_finite()) {
                    None => Ok(()),
                    Some(at) => Err(PyValueError::new_err(format!(
                        "the task's observation has {} at index {at}: observations must be finite numbers",
                        out[at]
                    ))),
                }
            }
            (Layout::OneHot { start, count }, Buffer::Numbers(out)) => {
                let number: i64 = observation.extract().map_err(|_| {
                    PyTypeError::new_err(format!(
                        "the task's observation is {}, and its space promises a whole number",
                        describe(observation)
                    ))
                })?;
                let index = usize::try_from(number - start).ok().filter(|index| index < count);
                let Some(index) = index else {
                    return Err(PyValueError::new_err(format!(
                        "the task's observation is {number}, and its space promises {start} to {}",
                        start + *count as i64 - 1
                    )));
                };
                out.fill(0.0);
                out[index] = 1.0;
                Ok(())
            }
            _ => unreachable!("buffers are made by layouts"),
        }
    }
}

impl Buffer {
    /// Writes the observation where the learner wants it.
    pub fn write(&self, out: Observation<'_>) {
        match self {
            Buffer::Bytes(bytes) => out.planes().copy_from_slice(bytes),
            Buffer::Numbers(numbers) => out.vector().copy_from_slice(numbers),
        }
    }

    /// A fingerprint (64-bit FNV-1a), to tell whether a state was reached again.
    pub fn fingerprint(&self) -> u64 {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let start = 0xcbf2_9ce4_8422_2325;
        match self {
            Buffer::Bytes(bytes) => bytes.iter().fold(start, |hash, &byte| step(hash, byte)),
            Buffer::Numbers(numbers) => numbers.iter().flat_map(|x| x.to_le_bytes()).fold(start, step),
        }
    }
}

fn copy<T: numpy::Element + Copy>(
    array: &Bound<'_, PyArrayDyn<T>>,
    shape: &[usize],
    out: &mut [f32],
    convert: impl Fn(T) -> f32,
) -> PyResult<()> {
    check_shape(array.shape(), shape)?;
    let array = array.readonly();
    match array.as_slice() {
        Ok(values) => out.iter_mut().zip(values).for_each(|(out, &x)| *out = convert(x)),
        Err(_) => out.iter_mut().zip(array.as_array().iter()).for_each(|(out, &x)| *out = convert(x)),
    }
    Ok(())
}

/// Whatever it is, as an array of single precision: lists, whole numbers, Booleans, half precision.
fn as_numbers<'py>(observation: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
    let py = observation.py();
    let numpy = py.import(pyo3::intern!(py, "numpy"))?;
    let array = numpy.call_method1(pyo3::intern!(py, "asarray"), (observation, "float32"));
    let array = array.map_err(|_| {
        PyTypeError::new_err(format!(
            "the task's observation is {}, not an array of numbers",
            describe(observation)
        ))
    })?;
    Ok(array.cast_into::<PyArrayDyn<f32>>()?)
}

fn check_shape(shape: &[usize], expected: &[usize]) -> PyResult<()> {
    match shape == expected {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!(
            "the task's observation has the shape {shape:?}, and its space promises {expected:?}"
        ))),
    }
}

fn describe(object: &Bound<'_, PyAny>) -> String {
    let kind = object.get_type().name().map_or_else(|_| "an object".into(), |name| name.to_string());
    match object.getattr("dtype") {
        Ok(dtype) => format!("a {kind} of {dtype}"),
        Err(_) => format!("a {kind}"),
    }
}
