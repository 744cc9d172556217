//! Observations in memory of one's own.

use spectral_env::{Observation, ObservationSpec};
use spectral_nn::{Input, Samples};
use std::ops::Range;

/// What a network sees of these observations: all of a stack at once.
pub fn network_input(observation: ObservationSpec) -> Input {
    match observation {
        ObservationSpec::Planes { channels, height, width, stack } => {
            Input::Planes { channels: channels * stack, height, width }
        }
        ObservationSpec::Vector { len } => Input::Vector { len },
    }
}

/// Observations one after the other: bytes for planes, floats for vectors.
#[derive(Clone, Debug)]
pub enum Observations {
    /// For planes.
    Bytes(Vec<u8>),
    /// For vectors.
    Floats(Vec<f32>),
}

impl Observations {
    /// Room for `count` single observations.
    pub fn new(spec: ObservationSpec, count: usize) -> Self {
        Self::zeros(spec, count * spec.len())
    }

    /// Room for `batch` stacked observations: `[batch][stack × observation]`.
    pub fn stacked(spec: ObservationSpec, batch: usize) -> Self {
        Self::zeros(spec, batch * spec.len() * spec.stack())
    }

    fn zeros(spec: ObservationSpec, len: usize) -> Self {
        match spec {
            ObservationSpec::Planes { .. } => Observations::Bytes(vec![0; len]),
            ObservationSpec::Vector { .. } => Observations::Floats(vec![0.0; len]),
        }
    }

    /// As networks and devices take them.
    pub fn samples(&self) -> Samples<'_> {
        match self {
            Observations::Bytes(v) => Samples::Bytes(v),
            Observations::Floats(v) => Samples::Floats(v),
        }
    }

    /// All of them, to be written by an environment.
    pub fn all(&mut self) -> Observation<'_> {
        match self {
            Observations::Bytes(v) => Observation::Planes(v),
            Observations::Floats(v) => Observation::Vector(v),
        }
    }

    /// Some of the elements, likewise.
    pub fn write(&mut self, elements: Range<usize>) -> Observation<'_> {
        match self {
            Observations::Bytes(v) => Observation::Planes(&mut v[elements]),
            Observations::Floats(v) => Observation::Vector(&mut v[elements]),
        }
    }
}
