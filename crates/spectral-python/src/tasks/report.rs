//! What Gymnasium calls info: facts about a step beside its reward.

use super::player::{Outcome, Player};
use numpy::{Element, PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spectral_env::{ActionMask, Step};

/// Which facts a task has.
#[derive(Clone, Copy)]
pub struct Facts {
    /// Whether the task knows the player's score.
    pub player_score: bool,
    /// How many actions there are, if the task says which are legal.
    masked_actions: Option<usize>,
}

impl Facts {
    pub fn of(player: &Player) -> Self {
        let spec = player.spec();
        let masked_actions = spec.masks_actions.then_some(spec.actions.len());
        Facts { player_score: spec.max_player_score > 0, masked_actions }
    }

    /// The facts about one step of one task.
    pub fn single<'py>(self, py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
        let info = PyDict::new(py);
        let Outcome { step, legal } = outcome;
        info.set_item("score", step.score)?;
        info.set_item("life_lost", step.life_lost)?;
        if self.player_score {
            info.set_item("player_score", step.player_score)?;
        }
        if let Some(actions) = self.masked_actions {
            info.set_item(MASK, PyArray1::from_iter(py, mask(legal.as_ref(), actions)))?;
        }
        Ok(info)
    }

    /// The facts about a step of every task for which there is one, as Gymnasium has them: an array for each, and beside it,
    /// after an underscore, for which tasks it holds.
    pub fn all<'py>(self, py: Python<'py>, outcomes: &[Option<Outcome>]) -> PyResult<Bound<'py, PyDict>> {
        let info = PyDict::new(py);
        if outcomes.iter().all(Option::is_none) {
            return Ok(info);
        }
        let column = Columns { info: &info, outcomes };
        column.add("score", |step| step.score)?;
        column.add("life_lost", |step| step.life_lost)?;
        if self.player_score {
            column.add("player_score", |step| i64::from(step.player_score))?;
        }
        if let Some(actions) = self.masked_actions {
            let none = || vec![false; actions];
            let row = |outcome: &Option<Outcome>| {
                outcome.as_ref().map_or_else(none, |outcome| mask(outcome.legal.as_ref(), actions).collect())
            };
            let rows: Vec<Vec<bool>> = outcomes.iter().map(row).collect();
            info.set_item(MASK, PyArray2::from_vec2(py, &rows)?)?;
            info.set_item(format!("_{MASK}"), column.known())?;
        }
        Ok(info)
    }
}

/// The key of the legal actions, as Gymnasium's own tasks have it.
const MASK: &str = "action_mask";

fn mask(legal: Option<&ActionMask>, actions: usize) -> impl Iterator<Item = bool> {
    (0..actions).map(move |action| legal.is_none_or(|legal| legal.allows(action)))
}

struct Columns<'a, 'py> {
    info: &'a Bound<'py, PyDict>,
    outcomes: &'a [Option<Outcome>],
}

impl<'py> Columns<'_, 'py> {
    fn add<T: Element + Default>(&self, key: &str, fact: impl Fn(&Step) -> T) -> PyResult<()> {
        let facts = self.outcomes.iter().map(|o| o.as_ref().map(|o| fact(&o.step)).unwrap_or_default());
        self.info.set_item(key, PyArray1::from_iter(self.info.py(), facts))?;
        self.info.set_item(format!("_{key}"), self.known())
    }

    fn known(&self) -> Bound<'py, PyArray1<bool>> {
        PyArray1::from_iter(self.info.py(), self.outcomes.iter().map(Option::is_some))
    }
}
