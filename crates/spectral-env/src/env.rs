//! What every task offers, whoever wrote it.

use crate::action_mask::ActionMask;
use crate::picture::Picture;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::rng::Stream;

/// The shape of one observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservationSpec {
    /// Bytes, channel by channel and row by row; networks see value / 255. The learner sees the last `stack`
    /// observations of the episode together, and zeros where the episode had not begun.
    Planes {
        /// Planes in one observation.
        channels: usize,
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// How many successive observations the network sees at once (4 for Atari, 1 for boards).
        stack: usize,
    },
    /// Numbers of order one.
    Vector {
        /// How many.
        len: usize,
    },
}

impl ObservationSpec {
    /// Elements of one observation, before stacking.
    pub fn len(&self) -> usize {
        match *self {
            ObservationSpec::Planes { channels, height, width, .. } => channels * height * width,
            ObservationSpec::Vector { len } => len,
        }
    }

    /// True if an observation has no elements (such a task cannot be learned).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many successive observations the network sees at once.
    pub fn stack(&self) -> usize {
        match *self {
            ObservationSpec::Planes { stack, .. } => stack,
            ObservationSpec::Vector { .. } => 1,
        }
    }
}

/// Where a task writes its observation: a buffer of the kind and length that its [`ObservationSpec`] says.
#[derive(Debug)]
pub enum Observation<'a> {
    /// For [`ObservationSpec::Planes`].
    Planes(&'a mut [u8]),
    /// For [`ObservationSpec::Vector`].
    Vector(&'a mut [f32]),
}

impl<'a> Observation<'a> {
    /// The same buffer, lent for a shorter time.
    pub fn reborrow(&mut self) -> Observation<'_> {
        match self {
            Observation::Planes(out) => Observation::Planes(out),
            Observation::Vector(out) => Observation::Vector(out),
        }
    }

    /// The numbers to write, for a task that is seen as a vector.
    ///
    /// # Panics
    /// If the task says that it is seen as planes.
    pub fn vector(self) -> &'a mut [f32] {
        match self {
            Observation::Vector(out) => out,
            Observation::Planes(_) => panic!("the task's specification says planes, not a vector"),
        }
    }

    /// The bytes to write, for a task that is seen as planes.
    ///
    /// # Panics
    /// If the task says that it is seen as a vector.
    pub fn planes(self) -> &'a mut [u8] {
        match self {
            Observation::Planes(out) => out,
            Observation::Vector(_) => panic!("the task's specification says a vector, not planes"),
        }
    }
}

/// What a task says of itself, the same for its whole life.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSpec {
    /// The name under which reports and run directories know it.
    pub name: String,
    /// The shape of an observation.
    pub observation: ObservationSpec,
    /// One name per action.
    pub actions: Vec<String>,
    /// Frames that one step plays: 4 for Atari, 1 for the built-in tasks unless the option `frame_skip` says otherwise.
    pub frames_per_step: u64,
    /// An upper bound of [`Step::player_score`]; 0 if the task has no such notion.
    pub max_player_score: u8,
    /// Whether [`Env::legal_actions`] says which actions are legal. If not, it is never asked, and all are.
    pub masks_actions: bool,
}

impl TaskSpec {
    /// A task that shows `len` numbers, plays one frame a step and has these actions.
    ///
    /// ```
    /// use spectral_env::TaskSpec;
    /// assert_eq!(TaskSpec::vector("mine", 4, &["left", "right"]).actions.len(), 2);
    /// ```
    pub fn vector(name: &str, len: usize, actions: &[&str]) -> Self {
        Self::new(name, ObservationSpec::Vector { len }, actions)
    }

    /// A task with these observations and actions that plays one frame a step.
    pub fn new(name: &str, observation: ObservationSpec, actions: &[&str]) -> Self {
        TaskSpec {
            name: name.into(),
            observation,
            actions: actions.iter().map(|action| action.to_string()).collect(),
            frames_per_step: 1,
            max_player_score: 0,
            masks_actions: false,
        }
    }

    /// The same task, which says in [`Env::legal_actions`] which actions are legal.
    ///
    /// ```
    /// use spectral_env::TaskSpec;
    /// let spec = TaskSpec::vector("mine", 4, &["left", "right"]).masking();
    /// assert_eq!((spec.masks_actions, spec.mask_bytes()), (true, 1));
    /// ```
    pub fn masking(self) -> Self {
        TaskSpec { masks_actions: true, ..self }
    }

    /// Bytes that the legal actions of one state take in replay: a bit per action, and none if all are always legal.
    pub fn mask_bytes(&self) -> usize {
        if self.masks_actions { self.actions.len().div_ceil(8) } else { 0 }
    }
}

/// What one step brought.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// The raw reward, as the task defines it: never clipped, never scaled.
    pub reward: f64,
    /// The plain score that this step added, for curves that people read. Most tasks: the reward. Exponential
    /// Pong: ±1. Easier Ponglantis: the reward before its division.
    pub score: f64,
    /// The player's score in the state reached (Exponential Pong's n), by which TD errors are grouped; 0 where the
    /// task has no such notion. It is 0 after a reset.
    pub player_score: u8,
    /// The episode ended and no value follows.
    pub terminated: bool,
    /// The episode was cut off by a limit; value would have followed.
    pub truncated: bool,
    /// A life was lost: an end for the learner where the protocol says so, not for the episode.
    pub life_lost: bool,
}

/// A task. Deterministic but for the stream it is handed: equal states, actions and streams give equal results.
pub trait Env: Send {
    /// What the task says of itself.
    fn spec(&self) -> &TaskSpec;

    /// Begins an episode.
    fn reset(&mut self, rng: &mut Stream);

    /// Plays one action, an index into [`TaskSpec::actions`]. After `terminated` or `truncated` the caller resets
    /// before the next step.
    fn step(&mut self, action: usize, rng: &mut Stream) -> Step;

    /// Writes the current observation into the caller's buffer; every element is written.
    fn observe(&self, out: Observation<'_>);

    /// Says which actions are legal in the current state, if [`TaskSpec::masks_actions`] promises that. `legal` comes with
    /// every action allowed. An agent plays only what is left, when it explores too, and its targets are maxima over that.
    ///
    /// It is asked after a reset or a step, and never where the episode has ended. In every other state some action has to
    /// be legal: an agent that finds none is stopped.
    ///
    /// ```
    /// use spectral_env::{ActionMask, Env, Observation, Step, Stream, TaskSpec};
    /// /// A walk between two walls; nobody walks into a wall.
    /// struct Corridor {
    ///     spec: TaskSpec,
    ///     at: usize,
    /// }
    ///
    /// impl Env for Corridor {
    ///     fn spec(&self) -> &TaskSpec {
    ///         &self.spec
    ///     }
    ///     fn reset(&mut self, _: &mut Stream) {
    ///         self.at = 0;
    ///     }
    ///     fn step(&mut self, action: usize, _: &mut Stream) -> Step {
    ///         self.at = if action == 0 { self.at - 1 } else { self.at + 1 };
    ///         Step { reward: 1.0, score: 1.0, terminated: self.at == 5, ..Step::default() }
    ///     }
    ///     fn observe(&self, out: Observation<'_>) {
    ///         out.vector()[0] = self.at as f32;
    ///     }
    ///     fn legal_actions(&self, legal: &mut ActionMask) {
    ///         if self.at == 0 {
    ///             legal.forbid(0);
    ///         }
    ///     }
    /// }
    ///
    /// let spec = TaskSpec::vector("corridor", 1, &["left", "right"]).masking();
    /// let env = Corridor { spec, at: 0 };
    /// assert_eq!(env.legal().iter().collect::<Vec<_>>(), [1]);
    /// ```
    fn legal_actions(&self, _legal: &mut ActionMask) {}

    /// The legal actions of the current state: what [`legal_actions`](Env::legal_actions) leaves of the task's actions, or all of
    /// them if the task does not say. For callers; tasks need not write it.
    fn legal(&self) -> ActionMask {
        let spec = self.spec();
        let all = ActionMask::all(spec.actions.len());
        let mut legal = all;
        if spec.masks_actions {
            self.legal_actions(&mut legal);
            // Whatever a task allows beyond its own actions does not exist.
            legal.retain(&all);
        }
        legal
    }

    /// Draws the current state for people to look at, into a picture that is used again and again; false if the task
    /// has no picture. What is drawn need not be what an agent observes, and drawing changes nothing.
    ///
    /// ```
    /// use spectral_env::{Picture, Purpose, Stream, TaskOptions, make};
    /// let mut env = make("catch-scale", &TaskOptions::default())?;
    /// env.reset(&mut Stream::new(1, Purpose::Environment, 0));
    /// let mut picture = Picture::default();
    /// assert!(env.picture(&mut picture));
    /// assert_eq!(picture.rgb.len(), picture.width * picture.height * 3);
    /// # Ok::<(), spectral_env::TaskError>(())
    /// ```
    fn picture(&self, _out: &mut Picture) -> bool {
        false
    }

    /// What people ask for beside the score, with its name: of a game of 2048, the best tile. `spectral eval` looks at an episode's
    /// end and shows it in columns of that name.
    ///
    /// ```
    /// use spectral_env::{Env, Purpose, Stream};
    /// let mut game = spectral_env::make("2048", &Default::default())?;
    /// game.reset(&mut Stream::new(1, Purpose::Environment, 0));
    /// let (name, tile) = game.highlight().expect("2048 has one");
    /// assert!(name == "best_tile" && (tile == 2.0 || tile == 4.0));
    /// # Ok::<(), spectral_env::TaskError>(())
    /// ```
    fn highlight(&self) -> Option<(&'static str, f64)> {
        None
    }

    /// Why the task cannot go on, if it cannot: asked after every [`reset`](Env::reset) and [`step`](Env::step). What the step
    /// returned is then ignored, and the run ends with this reason; its last checkpoint stays as it is.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Writes the whole state, so that [`restore`](Env::restore) on a fresh instance continues bit for bit.
    ///
    /// A task that writes nothing, as by default, is resumed at an episode's start: the episode that was under way when the
    /// checkpoint was written counts as cut off. Everything else works, but a resumed run is then not the same to the bit.
    fn save(&self, _out: &mut StateWriter) {}

    /// Whether what [`save`](Env::save) writes suffices to go on in the middle of an episode. By default a task that writes
    /// anything says yes.
    fn saves_state(&self) -> bool {
        let mut out = StateWriter::default();
        self.save(&mut out);
        !out.into_bytes().is_empty()
    }

    /// Restores what [`save`](Env::save) wrote. After an error the state is unspecified but usable after a reset.
    fn restore(&mut self, _from: &mut StateReader<'_>) -> Result<(), StateError> {
        Ok(())
    }
}
