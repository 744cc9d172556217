//! A frozen model that plays for pages, and does what they say: pause, step, faster, another agent, let me play.

use crate::camera::PICTURE_TIME;
use crate::describe::rest_action;
use crate::feed::Feed;
use crate::performance::Performance;
use crate::scene::{Chooser, Scene, message};
use serde_json::{Value, json};
use spectral_train::resolve::ResolvedRun;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Steps per second that may be asked for.
const SPEEDS: std::ops::RangeInclusive<f64> = 1.0..=240.0;
/// How long the end of an episode is shown.
const CURTAIN: Duration = Duration::from_millis(900);
/// How often it looks whether somebody watches.
const IDLE_TIME: Duration = Duration::from_millis(100);

/// What pages can change.
#[derive(Debug)]
pub(crate) struct Controls {
    ids: Vec<String>,
    actions: usize,
    state: Mutex<Wishes>,
    changed: Condvar,
}

#[derive(Clone, Debug)]
struct Wishes {
    agent: usize,
    paused: bool,
    speed: f64,
    epsilon: f64,
    human: bool,
    /// The action that is held down.
    held: Option<usize>,
    /// One that was pressed and has not been played; it may have been let go since.
    pressed: Option<usize>,
    step: bool,
    restart: bool,
}

impl Controls {
    pub(crate) fn new(run: &ResolvedRun, agent: usize, speed: f64, epsilon: f64) -> Self {
        let wishes = Wishes {
            agent,
            paused: false,
            speed,
            epsilon,
            human: false,
            held: None,
            pressed: None,
            step: false,
            restart: false,
        };
        Controls {
            ids: run.plan.agents.iter().map(|agent| agent.id.clone()).collect(),
            actions: run.task.actions.len(),
            state: Mutex::new(wishes),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Wishes> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what a request says, all of it or nothing.
    pub(crate) fn change(&self, body: &[u8]) -> Result<Value, String> {
        let request: Value =
            serde_json::from_slice(body).map_err(|e| format!("the body is not JSON: {e}"))?;
        let wanted = request.as_object().ok_or("the body must be a JSON object")?;
        let mut wishes = self.lock();
        let mut new = wishes.clone();
        for (key, value) in wanted {
            new.set(key, value, &self.ids, self.actions)?;
        }
        if wanted.get("action").is_some_and(|action| !action.is_null()) && !new.human {
            return Err("action needs human: take over first".into());
        }
        *wishes = new;
        self.changed.notify_all();
        Ok(self.describe(&wishes))
    }

    fn describe(&self, wishes: &Wishes) -> Value {
        json!({
            "agent": self.ids[wishes.agent], "paused": wishes.paused, "speed": wishes.speed,
            "epsilon": wishes.epsilon, "human": wishes.human,
        })
    }

    /// Wakes whoever waits, at the end.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
    }
}

impl Wishes {
    /// What a page shows of them.
    fn looks(&self) -> impl PartialEq {
        (self.agent, self.paused, self.human, self.speed.to_bits(), self.epsilon.to_bits())
    }

    fn set(&mut self, key: &str, value: &Value, ids: &[String], actions: usize) -> Result<(), String> {
        let flag = || value.as_bool().ok_or(format!("{key} must be true or false"));
        let within = |range: std::ops::RangeInclusive<f64>| {
            let fits = |number: &f64| range.contains(number);
            let expected = format!("{key} must be a number from {} to {}", range.start(), range.end());
            value.as_f64().filter(fits).ok_or(expected)
        };
        match key {
            "agent" => {
                let place = ids.iter().position(|id| value.as_str() == Some(id));
                self.agent = place.ok_or("agent must be the id of one of the run's agents")?;
                self.restart = true;
            }
            "paused" => self.paused = flag()?,
            "step" => self.step = flag()?,
            "speed" => self.speed = within(SPEEDS)?,
            "epsilon" => self.epsilon = within(0.0..=1.0)?,
            "restart" => self.restart = flag()?,
            "human" => {
                self.human = flag()?;
                (self.held, self.pressed) = (None, None);
            }
            "action" if value.is_null() => self.held = None,
            "action" => {
                let action = value.as_u64().and_then(|action| usize::try_from(action).ok());
                let action = action.filter(|&action| action < actions);
                self.held = Some(action.ok_or(format!("action must be null or below {actions}"))?);
                self.pressed = self.held;
            }
            _ => return Err(format!("there is no control '{}'", key.escape_default())),
        }
        Ok(())
    }
}

/// Plays until the feed ends; while nobody watches, it waits.
pub(crate) fn play(run: &ResolvedRun, mut performance: Performance, controls: &Controls, feed: &Feed) {
    let stage = Stage { rest: rest_action(run), controls, feed };
    let mut shown = Shown { sequence: 0, at: None };
    // When the last step was due, so that a steady pace is kept.
    let mut stepped = Instant::now();
    while !feed.has_ended() {
        if !feed.is_watched(0) {
            feed.hide(0);
            std::thread::sleep(IDLE_TIME);
            continue;
        }
        let wishes = stage.prepare(&mut performance);
        let over = performance.is_over();
        let mut scene = performance.look();
        let waits = wishes.human && stage.rest.is_none() && !over;
        if wishes.human && !over {
            scene.chooser = Chooser::Human;
            // A game of turns has no action before a key is pressed.
            let key = if waits { wishes.pressed } else { wishes.held.or(wishes.pressed) };
            scene.action = key.filter(|&action| performance.allows(action)).or(stage.rest);
        }
        let pace = Duration::from_secs_f64(1.0 / wishes.speed);
        let stays = over || wishes.paused || waits || pace >= PICTURE_TIME;
        shown.publish(&stage, &performance, &scene, &wishes, stays);
        let due = stepped + pace;
        match stage.wait(due, over, &performance, &wishes) {
            Next::Again => continue,
            Next::Step(_) if over => performance.restart(),
            Next::Step(action) => performance.step(action),
        }
        // A little late is made up for; a pause is not.
        stepped = due.max(Instant::now() - PICTURE_TIME);
    }
}

/// What comes after a scene.
enum Next {
    /// Look again: something was changed.
    Again,
    /// A step, with this action if a person chose it.
    Step(Option<usize>),
}

struct Stage<'a> {
    rest: Option<usize>,
    controls: &'a Controls,
    feed: &'a Feed,
}

impl Stage<'_> {
    /// Does what was wished for since the last scene.
    fn prepare(&self, performance: &mut Performance) -> Wishes {
        let mut wishes = self.controls.lock();
        let now = wishes.clone();
        wishes.restart = false;
        drop(wishes);
        performance.set_epsilon(now.epsilon);
        if performance.agent() != now.agent {
            // An agent whose model cannot be read is played by chance; the page shows no values then.
            let _ = performance.set_agent(now.agent);
            self.feed.forget();
        } else if now.restart {
            performance.restart();
        }
        now
    }

    /// Waits for the time of the next step, or for somebody who wants something else than what is shown.
    fn wait(&self, due: Instant, over: bool, performance: &Performance, shown: &Wishes) -> Next {
        let until = if over { Instant::now() + CURTAIN } else { due };
        let mut wishes = self.controls.lock();
        loop {
            if self.feed.has_ended() || !self.feed.is_watched(0) {
                return Next::Again;
            }
            if wishes.restart || wishes.looks() != shown.looks() {
                return Next::Again;
            }
            let legal = |action: &usize| performance.allows(*action);
            let now = Instant::now();
            if wishes.step {
                wishes.step = false;
                if wishes.paused {
                    return Next::Step(self.human_action(&mut wishes, performance));
                }
            }
            let waits = wishes.human && self.rest.is_none() && !over;
            if waits && !wishes.paused && wishes.pressed.filter(legal).is_some() {
                return Next::Step(wishes.pressed.take());
            }
            if !wishes.paused && !waits && now >= until {
                return Next::Step(self.human_action(&mut wishes, performance));
            }
            let rest = if wishes.paused || waits { IDLE_TIME } else { until.duration_since(now) };
            let changed = &self.controls.changed;
            let waited = changed.wait_timeout(wishes, rest.min(IDLE_TIME));
            wishes = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What a person plays now; `None` leaves it to the agent.
    fn human_action(&self, wishes: &mut Wishes, performance: &Performance) -> Option<usize> {
        if !wishes.human {
            return None;
        }
        let pressed = wishes.pressed.take();
        wishes.held.or(pressed).filter(|&action| performance.allows(action)).or(self.rest)
    }
}

/// What was published last.
struct Shown {
    sequence: u64,
    at: Option<Instant>,
}

impl Shown {
    /// Publishes a scene, unless another one was published just now and this one will not stay.
    fn publish(
        &mut self,
        stage: &Stage<'_>,
        performance: &Performance,
        scene: &Scene,
        wishes: &Wishes,
        stays: bool,
    ) {
        let now = Instant::now();
        if !stays && self.at.is_some_and(|at| now.duration_since(at) < PICTURE_TIME) {
            return;
        }
        self.at = Some(now);
        self.sequence += 1;
        let controls = stage.controls.describe(wishes);
        let bytes: Arc<[u8]> = message(self.sequence, scene, &performance.picture, controls);
        // First, so that whoever has seen a picture can have a film of it.
        stage.feed.remember(0, &performance.picture);
        stage.feed.show(0, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spectral_train::{config::Configuration, registry::Registry};

    fn controls() -> Controls {
        let mut config = Configuration::default();
        for pair in ["task=pong-mini", "agents=spectral,clipped", "device=cpu"] {
            config.set(pair).unwrap();
        }
        Controls::new(&Registry::default().resolve(&config).unwrap(), 0, 15.0, 0.0)
    }

    #[test]
    fn wishes_are_checked_and_granted_together() {
        let controls = controls();
        let answer = controls.change(br#"{"paused": true, "speed": 30, "epsilon": 0.5}"#).unwrap();
        assert_eq!((&answer["paused"], &answer["speed"]), (&json!(true), &json!(30.0)));
        for bad in [
            r#"{"speed": 0}"#,
            r#"{"speed": 1e999}"#,
            r#"{"epsilon": -0.1}"#,
            r#"{"agent": "nobody"}"#,
            r#"{"action": 3}"#,
            r#"{"action": -1}"#,
            r#"{"action": 1}"#,
            r#"{"paused": 1}"#,
            r#"{"paused": false, "jump": true}"#,
            "[]",
            "{",
            "",
        ] {
            assert!(controls.change(bad.as_bytes()).is_err(), "{bad}");
        }
        let wishes = controls.lock().clone();
        assert!(wishes.paused, "a request that is wrong in part changes nothing");
    }

    #[test]
    fn a_key_that_was_let_go_is_still_played_once() {
        let controls = controls();
        controls.change(br#"{"human": true}"#).unwrap();
        controls.change(br#"{"action": 2}"#).unwrap();
        controls.change(br#"{"action": null}"#).unwrap();
        let wishes = controls.lock().clone();
        assert_eq!((wishes.held, wishes.pressed), (None, Some(2)));
        controls.change(br#"{"human": false}"#).unwrap();
        assert_eq!(controls.lock().pressed, None);
    }
}
