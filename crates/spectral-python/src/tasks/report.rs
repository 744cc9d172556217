//! What Gymnasium calls info: facts about a step beside its reward.

use super::player::Player;
use numpy::{Element, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spectral_env::Step;

/// Which facts a task has.
#[derive(Clone, Copy)]
pub struct Facts {
    /// Whether the task knows the player's score.
    pub player_score: bool,
}

impl Facts {
    pub fn of(player: &Player) -> Self {
        Facts { player_score: player.spec().max_player_score > 0 }
    }

    /// The facts about one step of one task.
    pub fn single<'py>(self, py: Python<'py>, step: &Step) -> PyResult<Bound<'py, PyDict>> {
        let info = PyDict::new(py);
        info.set_item("score", step.score)?;
        info.set_item("life_lost", step.life_lost)?;
        if self.player_score {
            info.set_item("player_score", step.player_score)?;
        }
        // The mask of legal actions belongs here, as `action_mask`, once tasks know it.
        Ok(info)
    }

    /// The facts about a step of every task for which there is one, as Gymnasium has them: an array for each, and beside it,
    /// after an underscore, for which tasks it holds.
    pub fn all<'py>(self, py: Python<'py>, steps: &[Option<Step>]) -> PyResult<Bound<'py, PyDict>> {
        let info = PyDict::new(py);
        if steps.iter().all(Option::is_none) {
            return Ok(info);
        }
        let column = Columns { info: &info, steps };
        column.add("score", |step| step.score)?;
        column.add("life_lost", |step| step.life_lost)?;
        if self.player_score {
            column.add("player_score", |step| i64::from(step.player_score))?;
        }
        // And here, as an array with a row for each task.
        Ok(info)
    }
}

struct Columns<'a, 'py> {
    info: &'a Bound<'py, PyDict>,
    steps: &'a [Option<Step>],
}

impl Columns<'_, '_> {
    fn add<T: Element + Default>(&self, key: &str, fact: impl Fn(&Step) -> T) -> PyResult<()> {
        let facts = self.steps.iter().map(|step| step.as_ref().map(&fact).unwrap_or_default());
        self.info.set_item(key, PyArray1::from_iter(self.info.py(), facts))?;
        let known = self.steps.iter().map(Option::is_some);
        self.info.set_item(format!("_{key}"), PyArray1::from_iter(self.info.py(), known))
    }
}
