//! Provisional.
use pyo3::prelude::*;
use spectral_train::policy::Policy;
use std::sync::Mutex;

/// A frozen agent.
#[pyclass(frozen, name = "Policy")]
pub struct PyPolicy(Mutex<Policy>);

impl From<Policy> for PyPolicy {
    fn from(policy: Policy) -> Self {
        PyPolicy(Mutex::new(policy))
    }
}
