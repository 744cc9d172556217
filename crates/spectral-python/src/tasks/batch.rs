//! Many copies of one task, and how Gymnasium's calls step them.

use super::buffers::{ObservationBuffers, seen_len, shape};
use super::catalogue::{Recipe, python_error};
use super::player::{Outcome, Player, Stage};
use super::report::Facts;
use super::workers::Workers;
use numpy::{
    IntoPyArray, PyArray1, PyArray3, PyArrayMethods, PyReadonlyArray1, PyReadwriteArrayDyn, ndarray::Array3,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spectral_env::{Observation, ObservationSpec, Picture, TaskSpec};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// When a task whose episode has ended is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Autoreset {
    /// By the next step, whose action is then ignored.
    NextStep,
    /// By the same step; its last observation and facts are passed beside.
    SameStep,
    /// By the caller.
    Disabled,
}

impl Autoreset {
    fn parse(text: &str) -> PyResult<Self> {
        match text {
            "NextStep" => Ok(Autoreset::NextStep),
            "SameStep" => Ok(Autoreset::SameStep),
            "Disabled" => Ok(Autoreset::Disabled),
            other => Err(PyValueError::new_err(format!(
                "autoreset_mode cannot be '{other}': it is NextStep, SameStep or Disabled"
            ))),
        }
    }
}

/// An observation that nobody keeps an array for.
enum Kept {
    Bytes(Vec<u8>),
    Floats(Vec<f32>),
}

/// One copy, and what a step that ended its episode left.
struct Seat {
    player: Player,
    ended: Option<(Outcome, Kept)>,
}

impl Seat {
    fn step(&mut self, autoreset: Autoreset, action: usize, limit: u64) {
        self.ended = None;
        if autoreset == Autoreset::NextStep && self.player.stage() == Stage::Over {
            return self.player.reset();
        }
        self.player.step(action, limit);
        if autoreset == Autoreset::SameStep && self.player.stage() == Stage::Over {
            self.ended = Some((*self.player.last(), self.keep()));
            self.player.reset();
        }
    }

    fn keep(&mut self) -> Kept {
        let spec = self.player.spec().observation;
        match spec {
            ObservationSpec::Planes { .. } => {
                let mut bytes = vec![0; seen_len(&spec)];
                self.player.observe(Observation::Planes(&mut bytes));
                Kept::Bytes(bytes)
            }
            ObservationSpec::Vector { .. } => {
                let mut floats = vec![0.0; seen_len(&spec)];
                self.player.observe(Observation::Vector(&mut floats));
                Kept::Floats(floats)
            }
        }
    }
}

/// A step of every copy: observations, rewards, terminations, truncations, infos.
type Steps<'py> = (
    Bound<'py, PyAny>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyDict>,
);

/// A step of one copy, in the same order.
type SingleStep<'py> = (Bound<'py, PyAny>, f64, bool, bool, Bound<'py, PyDict>);

/// Many copies of one task.
#[pyclass]
pub struct TaskBatch {
    recipe: Recipe,
    spec: TaskSpec,
    seats: Vec<Seat>,
    workers: Workers,
    buffers: ObservationBuffers,
    autoreset: Autoreset,
    limit: u64,
    facts: Facts,
}

#[pymethods]
impl TaskBatch {
    #[new]
    #[pyo3(signature = (task, settings, *, num_envs=None, raw=false, autoreset_mode="Disabled", copy=true, threads=None,
                        max_episode_steps=None, keywords=Vec::new()))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
    fn new(
        task: &str,
        settings: &Bound<'_, PyDict>,
        num_envs: Option<usize>,
        raw: bool,
        autoreset_mode: &str,
        copy: bool,
        threads: Option<usize>,
        max_episode_steps: Option<u64>,
        keywords: Vec<String>,
    ) -> PyResult<Self> {
        let recipe = Recipe::new(task, raw, settings, &keywords)?;
        let autoreset = Autoreset::parse(autoreset_mode)?;
        let copies = num_envs.unwrap_or(1);
        if copies == 0 {
            return Err(PyValueError::new_err("num_envs is 0, and must be at least 1"));
        }
        if threads == Some(0) {
            return Err(PyValueError::new_err(
                "threads is 0, and must be at least 1; leave it out for all cores",
            ));
        }
        if max_episode_steps == Some(0) {
            return Err(PyValueError::new_err("max_episode_steps is 0, and must be at least 1"));
        }
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.unwrap_or_else(cores).min(copies);
        let make = |_| Ok(Seat { player: Player::new(&recipe).map_err(python_error)?, ended: None });
        let seats: Vec<Seat> = (0..copies).map(make).collect::<PyResult<_>>()?;
        let spec = seats[0].player.spec().clone();
        Ok(TaskBatch {
            buffers: ObservationBuffers::new(&spec.observation, num_envs, !copy),
            facts: Facts::of(&seats[0].player),
            workers: Workers::new(threads).map_err(PyRuntimeError::new_err)?,
            limit: max_episode_steps.unwrap_or(u64::MAX),
            recipe,
            spec,
            seats,
            autoreset,
        })
    }

    /// The shape of one observation.
    #[getter]
    fn observation_shape(&self) -> Vec<usize> {
        shape(&self.spec.observation)
    }

    /// Whether observations are bytes from 0 to 255; otherwise they are 32-bit numbers.
    #[getter]
    fn observes_bytes(&self) -> bool {
        matches!(self.spec.observation, ObservationSpec::Planes { .. })
    }

    /// One name per action.
    #[getter]
    fn actions(&self) -> Vec<String> {
        self.spec.actions.clone()
    }

    /// Frames that one step plays.
    #[getter]
    fn frames_per_step(&self) -> u64 {
        self.spec.frames_per_step
    }

    /// How many threads step it, the caller's included.
    #[getter]
    fn threads(&self) -> usize {
        self.workers.threads()
    }

    /// Begins an episode of every copy that the mask names; without a mask, of all. A copy that is given a seed begins anew.
    #[pyo3(signature = (seeds, mask=None))]
    fn reset<'py>(
        &mut self,
        py: Python<'py>,
        seeds: Vec<Option<u64>>,
        mask: Option<Vec<bool>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        let count = self.seats.len();
        let mask = mask.unwrap_or_else(|| vec![true; count]);
        if seeds.len() != count || mask.len() != count {
            return Err(PyValueError::new_err(format!("there must be one seed per copy, that is {count}")));
        }
        self.reset_seats(py, &seeds, &mask)?;
        let unborn = self.seats.iter().position(|seat| seat.player.stage() == Stage::Unborn);
        if let Some(number) = unborn {
            return Err(reset_needed(
                py,
                format!("sub-environment {number} was never reset: the first reset is of all"),
            ));
        }
        let observations = self.play(py, &|_, _| {})?;
        let steps: Vec<_> =
            self.seats.iter().zip(mask).map(|(seat, m)| m.then(|| *seat.player.last())).collect();
        Ok((observations, self.facts.all(py, &steps)?))
    }

    /// Plays one action in every copy.
    fn step<'py>(&mut self, py: Python<'py>, actions: PyReadonlyArray1<'py, i64>) -> PyResult<Steps<'py>> {
        let actions = actions.as_array();
        if actions.len() != self.seats.len() {
            let (given, count) = (actions.len(), self.seats.len());
            return Err(PyValueError::new_err(format!("{given} actions for {count} sub-environments")));
        }
        let chosen = actions.iter().enumerate().map(|(number, &action)| self.check(py, number, action));
        let chosen = chosen.collect::<PyResult<Vec<usize>>>()?;
        let (autoreset, limit) = (self.autoreset, self.limit);
        let observations = self.play(py, &|number, seat| seat.step(autoreset, chosen[number], limit))?;
        let paid = |seat: &Seat| seat.ended.as_ref().map_or(*seat.player.last(), |(last, _)| *last).step;
        let column =
            |part: fn(Step) -> bool| PyArray1::from_iter(py, self.seats.iter().map(|s| part(paid(s))));
        Ok((
            observations,
            PyArray1::from_iter(py, self.seats.iter().map(|seat| paid(seat).reward)),
            column(|step| step.terminated),
            column(|step| step.truncated),
            self.infos(py)?,
        ))
    }

    /// Begins an episode of a single copy; a seed makes it begin anew.
    #[pyo3(signature = (seed=None))]
    fn reset_one<'py>(
        &mut self,
        py: Python<'py>,
        seed: Option<u64>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        self.reset_seats(py, &[seed], &[true])?;
        let observation = self.play(py, &|_, _| {})?;
        Ok((observation, self.facts.single(py, self.seats[0].player.last())?))
    }

    /// Plays one action in a single copy.
    fn step_one<'py>(&mut self, py: Python<'py>, action: i64) -> PyResult<SingleStep<'py>> {
        let action = self.check(py, 0, action)?;
        let (autoreset, limit) = (self.autoreset, self.limit);
        let observation = self.play(py, &|_, seat| seat.step(autoreset, action, limit))?;
        let last = *self.seats[0].player.last();
        let info = self.facts.single(py, &last)?;
        Ok((observation, last.step.reward, last.step.terminated, last.step.truncated, info))
    }

    /// A picture of one copy for people, or nothing if the task has none.
    #[pyo3(signature = (number=0))]
    fn picture<'py>(&mut self, py: Python<'py>, number: usize) -> PyResult<Option<Bound<'py, PyArray3<u8>>>> {
        let count = self.seats.len();
        let Some(seat) = self.seats.get_mut(number) else {
            return Err(PyValueError::new_err(format!("there are {count} copies")));
        };
        if seat.player.stage() == Stage::Unborn {
            return Err(reset_needed(py, "there is nothing to see before the first reset".into()));
        }
        let mut picture = Picture::default();
        if !py.detach(|| seat.player.picture(&mut picture)) {
            return Ok(None);
        }
        let array = Array3::from_shape_vec((picture.height, picture.width, 3), picture.rgb);
        Ok(Some(array.map_err(|e| PyRuntimeError::new_err(e.to_string()))?.into_pyarray(py)))
    }
}

impl TaskBatch {
    /// The action, if it can be played now.
    fn check(&self, py: Python<'_>, number: usize, action: i64) -> PyResult<usize> {
        let stage = self.seats[number].player.stage();
        if stage == Stage::Unborn {
            return Err(reset_needed(py, "call reset() before step()".into()));
        }
        if stage == Stage::Over && self.autoreset == Autoreset::Disabled {
            let what = match self.seats.len() {
                1 => "the episode is over: call reset() before the next step()".to_owned(),
                _ => format!(
                    "the episode of sub-environment {number} is over: call reset(options={{\"reset_mask\": ...}}) with \
                     the mask of those that ended before the next step(), or choose another autoreset_mode"
                ),
            };
            return Err(reset_needed(py, what));
        }
        let known = self.spec.actions.len();
        usize::try_from(action).ok().filter(|&action| action < known).ok_or_else(|| {
            PyValueError::new_err(format!(
                "action {action} of sub-environment {number}: {} has the actions 0 to {}",
                self.spec.name,
                known - 1
            ))
        })
    }

    /// Makes the copies anew that are given a seed, and begins an episode of those that the mask names.
    fn reset_seats(&mut self, py: Python<'_>, seeds: &[Option<u64>], mask: &[bool]) -> PyResult<()> {
        let TaskBatch { seats, workers, recipe, .. } = self;
        let failure = Mutex::new(None);
        let seats: Vec<_> = seats.iter_mut().map(Mutex::new).collect();
        let work = |number: usize| {
            if !mask[number] {
                return;
            }
            let mut seat = seats[number].lock().unwrap_or_else(PoisonError::into_inner);
            seat.ended = None;
            let seeded = match seeds[number] {
                Some(seed) => seat.player.seed(seed, recipe),
                None => Ok(()),
            };
            match seeded {
                Ok(()) => seat.player.reset(),
                Err(error) => *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error),
            }
        };
        py.detach(|| workers.run(seats.len(), &work)).map_err(|said| self.broken(&said))?;
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(python_error(error)),
            None => Ok(()),
        }
    }

    /// Does something to every copy and writes its observation, without the interpreter.
    fn play<'py>(
        &mut self,
        py: Python<'py>,
        act: &(dyn Fn(usize, &mut Seat) + Sync),
    ) -> PyResult<Bound<'py, PyAny>> {
        let len = seen_len(&self.spec.observation);
        let TaskBatch { seats, workers, buffers, .. } = self;
        let (array, done) = match buffers {
            ObservationBuffers::Bytes(buffers) => {
                let mut out = buffers.take(py);
                let done = write_all(py, workers, seats, len, &mut out, &|number, seat, row| {
                    act(number, seat);
                    seat.player.observe(Observation::Planes(row));
                });
                (out.as_any().clone(), done)
            }
            ObservationBuffers::Floats(buffers) => {
                let mut out = buffers.take(py);
                let done = write_all(py, workers, seats, len, &mut out, &|number, seat, row| {
                    act(number, seat);
                    seat.player.observe(Observation::Vector(row));
                });
                (out.as_any().clone(), done)
            }
        };
        done.map_err(|said| self.broken(&said))?;
        Ok(array)
    }

    /// Facts of the last step; of episodes that ended in it, what Gymnasium wants beside.
    fn infos<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let steps: Vec<_> = self.seats.iter().map(|seat| Some(*seat.player.last())).collect();
        let info = self.facts.all(py, &steps)?;
        if self.seats.iter().any(|seat| seat.ended.is_some()) {
            let ended: Vec<_> =
                self.seats.iter().map(|seat| seat.ended.as_ref().map(|(step, _)| *step)).collect();
            let mask = || PyArray1::from_iter(py, ended.iter().map(Option::is_some));
            let last = self.seats.iter().map(|seat| self.final_observation(py, seat));
            info.set_item("final_obs", PyArray1::from_vec(py, last.collect::<PyResult<Vec<_>>>()?))?;
            info.set_item("_final_obs", mask())?;
            info.set_item("final_info", self.facts.all(py, &ended)?)?;
            info.set_item("_final_info", mask())?;
        }
        Ok(info)
    }

    fn final_observation(&self, py: Python<'_>, seat: &Seat) -> PyResult<Py<PyAny>> {
        let shape = shape(&self.spec.observation);
        Ok(match &seat.ended {
            None => py.None(),
            Some((_, Kept::Bytes(bytes))) => {
                PyArray1::from_slice(py, bytes).reshape(shape)?.into_any().unbind()
            }
            Some((_, Kept::Floats(all))) => PyArray1::from_slice(py, all).reshape(shape)?.into_any().unbind(),
        })
    }

    fn broken(&self, said: &str) -> PyErr {
        PyRuntimeError::new_err(format!(
            "the task {} failed ({said}); this is a fault of Spectral's: please report it, and make the environment anew",
            self.spec.name
        ))
    }
}

/// Calls `act` for every seat with the row of the array that is its own.
fn write_all<T: numpy::Element + Send>(
    py: Python<'_>,
    workers: &mut Workers,
    seats: &mut [Seat],
    len: usize,
    out: &mut PyReadwriteArrayDyn<'_, T>,
    act: &(dyn Fn(usize, &mut Seat, &mut [T]) + Sync),
) -> Result<(), String> {
    let out = out.as_slice_mut().map_err(|error| error.to_string())?;
    // No two threads want the same one: the locks only show that to the compiler.
    let rows: Vec<_> = seats.iter_mut().zip(out.chunks_exact_mut(len)).map(Mutex::new).collect();
    py.detach(|| {
        workers.run(rows.len(), &|number| {
            let mut row = rows[number].lock().unwrap_or_else(PoisonError::into_inner);
            let (seat, out) = &mut *row;
            act(number, seat, out);
        })
    })
}

/// Gymnasium's error for a step without a reset.
fn reset_needed(py: Python<'_>, what: String) -> PyErr {
    let error = py.import("gymnasium.error").and_then(|module| module.getattr("ResetNeeded"));
    match error.and_then(|class| class.call1((what.as_str(),))) {
        Ok(error) => PyErr::from_value(error),
        Err(_) => PyRuntimeError::new_err(what),
    }
}
