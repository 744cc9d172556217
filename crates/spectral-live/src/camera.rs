//! Pictures of agents as they learn: asks them for short unbroken sequences of steps, and shows each at a pace that eyes can follow.
//!
//! All the work is done on one thread of its own and may take only a hundredth of the machine. What an agent expects of each action
//! is computed with the weights that it acts on where that is cheap; otherwise, and on a device, from a copy of them that is some
//! seconds old, and less often than pictures are shown if that would take too long.

use crate::feed::Feed;
use crate::picture::Indexed;
use crate::scene::{Chooser, Scene, Values, message};
use serde_json::Value;
use spectral_train::glimpse::{Glimpse, GlimpseSlot};
use spectral_train::policy::Policy;
use spectral_train::resolve::ResolvedRun;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The shortest time from one picture to the next of a model that plays.
pub(crate) const PICTURE_TIME: Duration = Duration::from_millis(33);
/// The time from one step to the next: 15 a second, the pace of a real Atari.
const STEP_TIME: Duration = Duration::from_micros(66_667);
/// Steps of a sequence: two seconds.
const STEPS: usize = 30;
/// An agent that takes longer than this for a sequence is asked for shorter ones, so that something moves.
const LONG: Duration = Duration::from_millis(700);
/// The shortest time from one copy of a model to the next.
const MODEL_TIME: Duration = Duration::from_secs(2);
/// While glimpses are awaited.
const GLIMPSE_TIME: Duration = Duration::from_millis(4);
/// How often it looks whether somebody watches.
const IDLE_TIME: Duration = Duration::from_millis(100);
/// The share of all cores that values and models may take, each.
const SHARE: f64 = 0.004;

/// A kind of work that may take only its share of the machine.
#[derive(Debug)]
struct Budget {
    least: Duration,
    due: Instant,
}

impl Budget {
    fn new(least: Duration) -> Self {
        Budget { least, due: Instant::now() }
    }

    fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// The work was begun at `start` and is done.
    fn spent(&mut self, start: Instant) {
        self.due = start + self.least.max(start.elapsed().div_f64(share()));
    }
}

/// The time that each kind of work may take of every second.
fn share() -> f64 {
    SHARE * std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64)
}

/// One agent as the camera knows it.
struct Subject {
    slot: Arc<GlimpseSlot>,
    policy: Option<Policy>,
    /// The sequence that is being shown, and its next step.
    sequence: Vec<Glimpse>,
    next: usize,
    /// The one that is shown after it, once it has come.
    coming: Vec<Glimpse>,
    has_come: bool,
    asked: Option<Instant>,
    /// Steps to ask for.
    steps: usize,
    /// What it takes to compute the values of one state, once that was measured.
    value_time: Option<Duration>,
    shown_at: Instant,
    values: Budget,
    models: Budget,
    number: u64,
}

/// Shows agents until the feed ends.
pub(crate) fn film(run: &ResolvedRun, slots: Vec<Arc<GlimpseSlot>>, feed: &Feed) {
    let subject = |slot| Subject {
        slot,
        policy: None,
        sequence: Vec::new(),
        next: 0,
        coming: Vec::new(),
        has_come: false,
        asked: None,
        steps: STEPS,
        value_time: None,
        shown_at: Instant::now(),
        values: Budget::new(STEP_TIME),
        models: Budget::new(MODEL_TIME),
        number: 0,
    };
    let mut subjects: Vec<Subject> = slots.into_iter().map(subject).collect();
    let mut camera = Camera { picture: Indexed::default(), outputs: Vec::new(), decoded: Vec::new() };
    while !feed.has_ended() {
        let mut pause = IDLE_TIME;
        for (agent, subject) in subjects.iter_mut().enumerate() {
            if feed.is_watched(agent) {
                pause = pause.min(camera.attend(run, agent, subject, feed));
            } else {
                subject.forget();
                feed.hide(agent);
            }
        }
        std::thread::sleep(pause);
    }
}

impl Subject {
    /// Nobody looks: what is known now would be old when somebody does.
    fn forget(&mut self) {
        self.policy = None;
        (self.next, self.has_come, self.asked) = (self.sequence.len(), false, None);
    }

    /// Fetches the next sequence in time, and puts it in the place of one that was shown.
    fn fetch(&mut self, now: Instant) {
        if let Some(asked) = self.asked {
            if self.slot.take(&mut self.coming) {
                (self.asked, self.has_come) = (None, true);
                let took = now.duration_since(asked);
                self.steps = match took > LONG {
                    true => (self.steps / 2).max(1),
                    false => (self.steps * 2).min(STEPS),
                };
            }
        } else if !self.has_come && 2 * self.next >= self.sequence.len() {
            // Old ones that nobody took are not what comes next.
            let _ = self.slot.take(&mut self.coming);
            let cheap = self.value_time.is_some_and(|time| time.div_duration_f64(STEP_TIME) <= share());
            self.slot.ask(self.steps, cheap);
            self.asked = Some(now);
        }
        if self.has_come && self.next >= self.sequence.len() {
            std::mem::swap(&mut self.sequence, &mut self.coming);
            (self.next, self.has_come) = (0, false);
        }
    }

    /// Fetches a copy of the model, if values have to be computed here.
    fn fetch_model(&mut self, run: &ResolvedRun, agent: usize, now: Instant) {
        if let Some((frames, model)) = self.slot.take_model() {
            // An agent whose values are not finite any more has no policy; its pictures go on.
            self.policy = Policy::from_model(run, agent, frames, &model).ok();
            self.models.spent(now);
        } else if self.models.is_due(now) {
            let comes_along = self.sequence.first().is_some_and(|glimpse| !glimpse.outputs.is_empty());
            if self.policy.is_none() || !comes_along {
                self.slot.ask_model();
            }
        }
    }
}

struct Camera {
    picture: Indexed,
    outputs: Vec<f32>,
    decoded: Vec<f32>,
}

impl Camera {
    /// Does what is due for one agent, and says when to come again.
    fn attend(&mut self, run: &ResolvedRun, agent: usize, subject: &mut Subject, feed: &Feed) -> Duration {
        let now = Instant::now();
        subject.fetch_model(run, agent, now);
        subject.fetch(now);
        if subject.next >= subject.sequence.len() {
            return GLIMPSE_TIME;
        }
        let due = subject.shown_at + STEP_TIME;
        if now < due {
            return (due - now).min(STEP_TIME / 4);
        }
        // A little late is made up for; a long pause is not.
        subject.shown_at = due.max(now - STEP_TIME);
        self.publish(run, agent, subject, feed);
        subject.next += 1;
        STEP_TIME / 4
    }

    fn publish(&mut self, run: &ResolvedRun, agent: usize, subject: &mut Subject, feed: &Feed) {
        let glimpse = &subject.sequence[subject.next];
        let codec = run.codecs[agent].as_ref();
        let (mut weights_frame, mut values) = (None, None);
        let now = Instant::now();
        if !glimpse.outputs.is_empty() {
            weights_frame = Some(glimpse.frame);
            values = Some(Values::new(codec, &glimpse.outputs, glimpse.values.clone()));
        } else if let Some(policy) = subject.policy.as_mut().filter(|_| subject.values.is_due(now)) {
            if policy.look(glimpse.stack.samples(), &mut self.outputs, &mut self.decoded).is_ok() {
                weights_frame = Some(policy.frames());
                values = Some(Values::new(codec, &self.outputs, self.decoded.clone()));
            }
            let took = now.elapsed();
            subject.value_time = Some(subject.value_time.map_or(took, |before| before.min(took)));
            subject.values.spent(now);
        }
        self.picture.set(&glimpse.picture);
        let scene = Scene {
            agent,
            frame: glimpse.frame,
            weights_frame,
            episode: glimpse.episode,
            score: glimpse.score,
            reward: glimpse.reward,
            over: false,
            jump: subject.next == 0,
            action: Some(glimpse.action),
            chooser: if glimpse.explored { Chooser::Chance } else { Chooser::Agent },
            legal: glimpse.legal,
            trouble: None,
            values,
        };
        subject.number += 1;
        // First, so that whoever has seen a picture can have a film of it.
        feed.remember(agent, &self.picture);
        feed.show(agent, message(subject.number, &scene, &self.picture, Value::Null));
    }
}
