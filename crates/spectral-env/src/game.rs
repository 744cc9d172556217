//! What the built-in tasks share: a game with its rules and pictures, and the task that wraps one as an
//! [`Env`](crate::Env).

use crate::action_mask::ActionMask;
use crate::env::{Env, Observation, ObservationSpec, Step, TaskSpec};
use crate::picture::Picture;
use crate::registry::{ObservationKind, TaskOptions};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::rng::Stream;

/// Rows and columns of a pixel observation, as for Atari.
pub(crate) const PIXELS: usize = 84;

/// The shape of a game's planes: channels, rows, columns.
pub(crate) type PlaneShape = (usize, usize, usize);

/// The rules of one built-in game and how it is seen. Buffers are zeroed before a game draws into them.
pub(crate) trait Game: Send {
    /// Length of the feature vector.
    const VECTOR: usize;
    /// Shape of the planes; `None` if the game is seen as a vector only.
    const PLANES: Option<PlaneShape>;

    fn reset(&mut self, rng: &mut Stream);
    fn step(&mut self, action: usize, rng: &mut Stream) -> Step;
    /// Whether [`legal_actions`](Game::legal_actions) says which actions are legal.
    fn masks_actions(&self) -> bool {
        false
    }
    fn legal_actions(&self, _legal: &mut ActionMask) {}
    fn features(&self, out: &mut [f32]);
    fn planes(&self, _out: &mut [u8]) {}
    fn pixels(&self, _out: &mut [u8]) {}
    /// Draws the state in colour, for people.
    fn picture(&self, out: &mut Picture);
    /// See [`Env::highlight`].
    fn highlight(&self) -> Option<(&'static str, f64)> {
        None
    }
    fn save(&self, out: &mut StateWriter);
    /// Reads what `save` wrote and refuses whatever the rules cannot reach and later code could stumble over.
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError>;
}

/// A game seen in one way.
pub(crate) struct GameTask<G> {
    spec: TaskSpec,
    kind: ObservationKind,
    game: G,
}

impl<G: Game> GameTask<G> {
    /// The observation is one that the registry lists for this game.
    pub(crate) fn new(
        name: &str,
        actions: &[&str],
        max_player_score: u8,
        options: &TaskOptions,
        game: G,
    ) -> Self {
        let kind = options.observation;
        let observation = match (kind, G::PLANES) {
            (ObservationKind::Planes, Some((channels, height, width))) => {
                ObservationSpec::Planes { channels, height, width, stack: 1 }
            }
            (ObservationKind::Pixels, Some(_)) => {
                ObservationSpec::Planes { channels: 1, height: PIXELS, width: PIXELS, stack: 4 }
            }
            _ => ObservationSpec::Vector { len: G::VECTOR },
        };
        let spec = TaskSpec {
            name: name.to_owned(),
            observation,
            actions: actions.iter().map(|&a| a.to_owned()).collect(),
            frames_per_step: options.frame_skip.into(),
            max_player_score,
            masks_actions: game.masks_actions(),
        };
        GameTask { spec, kind, game }
    }
}

impl<G: Game> Env for GameTask<G> {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.game.reset(rng);
    }

    fn step(&mut self, action: usize, rng: &mut Stream) -> Step {
        let known = self.spec.actions.len();
        assert!(action < known, "action {action} given to {}, which has {known}", self.spec.name);
        let mut step = self.game.step(action, rng);
        for _ in 1..self.spec.frames_per_step {
            if step.terminated || step.truncated {
                break;
            }
            let frame = self.game.step(action, rng);
            step = Step {
                reward: step.reward + frame.reward,
                score: step.score + frame.score,
                life_lost: step.life_lost || frame.life_lost,
                ..frame
            };
        }
        step
    }

    fn observe(&self, out: Observation<'_>) {
        let expected = self.spec.observation.len();
        match (out, self.spec.observation) {
            (Observation::Vector(out), ObservationSpec::Vector { .. }) => {
                assert_eq!(out.len(), expected, "buffer for an observation of {}", self.spec.name);
                out.fill(0.0);
                self.game.features(out);
            }
            (Observation::Planes(out), ObservationSpec::Planes { .. }) => {
                assert_eq!(out.len(), expected, "buffer for an observation of {}", self.spec.name);
                out.fill(0);
                if self.kind == ObservationKind::Pixels {
                    self.game.pixels(out);
                } else {
                    self.game.planes(out);
                }
            }
            (Observation::Vector(_), _) => panic!("{} is seen as planes, not as a vector", self.spec.name),
            (Observation::Planes(_), _) => panic!("{} is seen as a vector, not as planes", self.spec.name),
        }
    }

    fn legal_actions(&self, legal: &mut ActionMask) {
        self.game.legal_actions(legal);
    }

    fn picture(&self, out: &mut Picture) -> bool {
        self.game.picture(out);
        true
    }

    fn highlight(&self) -> Option<(&'static str, f64)> {
        self.game.highlight()
    }

    fn save(&self, out: &mut StateWriter) {
        self.game.save(out);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.game.restore(from)
    }
}

/// `value`, if it lies in the range; an error that names it if not.
pub(crate) fn checked<T: PartialOrd + std::fmt::Display + Copy>(
    what: &str,
    value: T,
    range: std::ops::RangeInclusive<T>,
) -> Result<T, StateError> {
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(StateError(format!("{what} is {value}, expected {} to {}", range.start(), range.end())))
    }
}

/// Reads the byte that marks whose state follows.
pub(crate) fn check_tag(from: &mut StateReader<'_>, tag: u8, what: &str) -> Result<(), StateError> {
    match from.u8()? {
        found if found == tag => Ok(()),
        found => Err(StateError(format!("not a state of {what} (mark {found}, expected {tag})"))),
    }
}

/// Fills a rectangle of an 84×84 picture; what would lie outside is left out.
pub(crate) fn fill_rectangle(
    out: &mut [u8],
    top: usize,
    left: usize,
    height: usize,
    width: usize,
    value: u8,
) {
    let right = (left + width).min(PIXELS);
    for row in top..(top + height).min(PIXELS) {
        if left < right {
            out[row * PIXELS + left..row * PIXELS + right].fill(value);
        }
    }
}
