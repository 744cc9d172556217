//! Pictures of agents as they learn: asks them for glimpses, works out what they expect of each action, and publishes both.
//!
//! All the work is done on one thread of its own, at most 30 times a second, and it may take only a hundredth of the machine: with
//! a large network and few cores, values are computed less often than pictures are shown.

use crate::feed::Feed;
use crate::picture::Indexed;
use crate::scene::{Chooser, Scene, Values, message};
use serde_json::Value;
use spectral_train::glimpse::{Glimpse, GlimpseSlot};
use spectral_train::policy::Policy;
use spectral_train::resolve::ResolvedRun;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The shortest time from one picture to the next.
pub(crate) const PICTURE_TIME: Duration = Duration::from_millis(33);
/// The shortest time from one copy of a model to the next.
const MODEL_TIME: Duration = Duration::from_secs(2);
/// While a glimpse is awaited.
const GLIMPSE_TIME: Duration = Duration::from_millis(4);
/// How often it looks whether somebody watches.
const IDLE_TIME: Duration = Duration::from_millis(100);
/// The share of all cores that pictures, values and models may take, each.
const SHARE: f64 = 0.004;

/// A kind of work that may take only its share of the machine.
#[derive(Debug)]
struct Budget {
    least: Duration,
    cores: f64,
    due: Instant,
}

impl Budget {
    fn new(least: Duration) -> Self {
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        Budget { least, cores, due: Instant::now() }
    }

    fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// The work was begun at `start` and is done.
    fn spent(&mut self, start: Instant) {
        let rest = start.elapsed().div_f64(SHARE * self.cores);
        self.due = start + self.least.max(rest);
    }
}

/// One agent as the camera knows it.
struct Subject {
    slot: Arc<GlimpseSlot>,
    policy: Option<Policy>,
    pictures: Budget,
    values: Budget,
    models: Budget,
    sequence: u64,
}

/// Shows agents until the feed ends.
pub(crate) fn film(run: &ResolvedRun, slots: Vec<Arc<GlimpseSlot>>, feed: &Feed) {
    let subject = |slot| Subject {
        slot,
        policy: None,
        pictures: Budget::new(PICTURE_TIME),
        values: Budget::new(PICTURE_TIME),
        models: Budget::new(MODEL_TIME),
        sequence: 0,
    };
    let mut subjects: Vec<Subject> = slots.into_iter().map(subject).collect();
    let mut camera = Camera {
        glimpse: Glimpse::new(run.task.observation),
        picture: Indexed::default(),
        outputs: Vec::new(),
        decoded: Vec::new(),
    };
    while !feed.has_ended() {
        let mut pause = IDLE_TIME;
        for (agent, subject) in subjects.iter_mut().enumerate() {
            if feed.is_watched(agent) {
                pause = pause.min(camera.attend(run, agent, subject, feed));
            } else {
                // Nobody looks: its weights would be old when somebody does.
                subject.policy = None;
            }
        }
        std::thread::sleep(pause);
    }
}

struct Camera {
    glimpse: Glimpse,
    picture: Indexed,
    outputs: Vec<f32>,
    decoded: Vec<f32>,
}

impl Camera {
    /// Does what is due for one agent, and says when to come again.
    fn attend(&mut self, run: &ResolvedRun, agent: usize, subject: &mut Subject, feed: &Feed) -> Duration {
        let now = Instant::now();
        if let Some((frames, model)) = subject.slot.take_model() {
            // An agent whose values are not finite any more has no policy; its pictures go on.
            subject.policy = Policy::from_model(run, agent, frames, &model).ok();
            subject.models.spent(now);
        } else if subject.models.is_due(now) {
            subject.slot.ask_model();
        }
        if !subject.pictures.is_due(now) {
            return subject.pictures.due.duration_since(now);
        }
        subject.slot.ask();
        if !subject.slot.take(&mut self.glimpse) {
            return GLIMPSE_TIME;
        }
        self.publish(run, agent, subject, feed);
        subject.pictures.spent(now);
        PICTURE_TIME
    }

    fn publish(&mut self, run: &ResolvedRun, agent: usize, subject: &mut Subject, feed: &Feed) {
        let Camera { glimpse, picture, outputs, decoded } = self;
        let now = Instant::now();
        let policy = subject.policy.as_mut().filter(|_| subject.values.is_due(now));
        let mut weights_frame = None;
        let values = policy.and_then(|policy| {
            policy.look(glimpse.stack.samples(), outputs, decoded).ok()?;
            weights_frame = Some(policy.frames());
            Some(Values::new(run.codecs[agent].as_ref(), outputs, decoded.clone()))
        });
        if values.is_some() {
            subject.values.spent(now);
        }
        picture.set(&glimpse.picture);
        let scene = Scene {
            agent,
            frame: glimpse.frame,
            weights_frame,
            episode: glimpse.episode,
            score: glimpse.score,
            reward: glimpse.reward,
            over: false,
            action: Some(glimpse.action),
            chooser: if glimpse.explored { Chooser::Chance } else { Chooser::Agent },
            legal: glimpse.legal,
            values,
        };
        subject.sequence += 1;
        feed.show(agent, message(subject.sequence, &scene, picture, Value::Null));
        feed.remember(agent, picture);
    }
}
