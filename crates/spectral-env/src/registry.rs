//! The tasks by name, and the options that they take.

use crate::catch::{self, Catch};
use crate::env::Env;
use crate::game::{Game, GameTask};
use crate::investor::{self, Market, Signals};
use crate::nearest::nearest;
use crate::pong::{self, Pong};
use crate::ponglantis::{PONG_POINTS, Ponglantis, Variant};
use crate::twenty48::{self, Twenty48};
use std::fmt;
use std::str::FromStr;

/// How a task is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObservationKind {
    /// What suits the task best; for the built-in tasks a vector.
    #[default]
    Auto,
    /// A vector of features, for an MLP.
    Vector,
    /// Planes of the board's size, for a small convolutional network.
    Planes,
    /// 84 × 84 pixels, four successive ones stacked, for Atari's network.
    Pixels,
}

impl ObservationKind {
    const ALL: [ObservationKind; 4] =
        [ObservationKind::Auto, ObservationKind::Vector, ObservationKind::Planes, ObservationKind::Pixels];

    /// The word for it in options and configurations.
    pub fn name(self) -> &'static str {
        match self {
            ObservationKind::Auto => "auto",
            ObservationKind::Vector => "vector",
            ObservationKind::Planes => "planes",
            ObservationKind::Pixels => "pixels",
        }
    }
}

impl fmt::Display for ObservationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ObservationKind {
    type Err = TaskError;

    fn from_str(word: &str) -> Result<Self, TaskError> {
        let known = ObservationKind::ALL.into_iter().find(|kind| kind.name() == word);
        known.ok_or_else(|| TaskError::BadValue {
            key: "observation".to_owned(),
            value: word.to_owned(),
            expected: "auto, vector, planes or pixels".to_owned(),
        })
    }
}

/// What may be chosen about a task.
///
/// ```
/// use spectral_env::{ObservationKind, TaskOptions};
/// let mut options = TaskOptions::default();
/// options.set("observation", "planes")?;
/// assert_eq!(options.observation, ObservationKind::Planes);
/// assert!(options.set("observatoin", "planes").unwrap_err().to_string().contains("`observation`"));
/// # Ok::<(), spectral_env::TaskError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TaskOptions {
    /// How the task is seen.
    pub observation: ObservationKind,
    /// The factor on every reward of `catch-scale`; other tasks allow 1 only.
    pub reward_scale: f64,
    /// Frames that one step plays with the same action, 1 to [`MOST_FRAME_SKIP`]. Rewards and scores are summed.
    pub frame_skip: u32,
}

/// The largest [`TaskOptions::frame_skip`].
pub const MOST_FRAME_SKIP: u32 = 60;

impl Default for TaskOptions {
    fn default() -> Self {
        TaskOptions { observation: ObservationKind::Auto, reward_scale: 1.0, frame_skip: 1 }
    }
}

impl TaskOptions {
    /// The keys that [`set`](TaskOptions::set) knows.
    pub const KEYS: [&'static str; 3] = ["observation", "reward_scale", "frame_skip"];

    /// Sets one option from text.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), TaskError> {
        match key {
            "observation" => self.observation = value.parse()?,
            "reward_scale" => {
                let parsed = value.parse().ok().filter(|&scale: &f64| valid_scale(scale));
                self.reward_scale = parsed.ok_or_else(|| bad_scale(value.to_owned()))?;
            }
            "frame_skip" => {
                let parsed = value.parse().ok().filter(|&frames: &u32| valid_skip(frames));
                self.frame_skip = parsed.ok_or_else(|| bad_skip(value.to_owned()))?;
            }
            _ => {
                let suggestion = nearest(key, TaskOptions::KEYS).map(str::to_owned);
                return Err(TaskError::UnknownOption { key: key.to_owned(), nearest: suggestion });
            }
        }
        Ok(())
    }
}

fn valid_scale(scale: f64) -> bool {
    scale.is_finite() && scale > 0.0
}

fn bad_scale(value: String) -> TaskError {
    TaskError::BadValue { key: "reward_scale".to_owned(), value, expected: "a number above 0".to_owned() }
}

fn valid_skip(frames: u32) -> bool {
    (1..=MOST_FRAME_SKIP).contains(&frames)
}

fn bad_skip(value: String) -> TaskError {
    let expected = format!("a whole number from 1 to {MOST_FRAME_SKIP}");
    TaskError::BadValue { key: "frame_skip".to_owned(), value, expected }
}

/// Why a task could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskError {
    /// No task has this name.
    UnknownTask {
        /// The name that was given.
        name: String,
        /// The valid name nearest to it.
        nearest: Option<String>,
    },
    /// No task has an option of this name.
    UnknownOption {
        /// The key that was given.
        key: String,
        /// The valid key nearest to it.
        nearest: Option<String>,
    },
    /// The option cannot have this value.
    BadValue {
        /// The option.
        key: String,
        /// The value that was given.
        value: String,
        /// What it may be.
        expected: String,
    },
    /// The option exists, but this task does not support what was asked.
    Unsupported {
        /// The task.
        task: String,
        /// The option.
        key: String,
        /// The value that was given.
        value: String,
        /// What the task supports instead.
        supported: String,
    },
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskError::UnknownTask { name, nearest: Some(nearest) } => {
                write!(f, "no task is called `{name}`; did you mean `{nearest}`?")
            }
            TaskError::UnknownTask { name, nearest: None } => {
                write!(f, "no task is called `{name}`; the tasks are ")?;
                list(f, tasks().iter().map(|task| task.name))
            }
            TaskError::UnknownOption { key, nearest: Some(nearest) } => {
                write!(f, "tasks have no option `{key}`; did you mean `{nearest}`?")
            }
            TaskError::UnknownOption { key, nearest: None } => {
                write!(f, "tasks have no option `{key}`; the options are ")?;
                list(f, TaskOptions::KEYS)
            }
            TaskError::BadValue { key, value, expected } => {
                write!(f, "`{value}` is no value for the task option `{key}`; it takes {expected}")
            }
            TaskError::Unsupported { task, key, value, supported } => {
                write!(f, "the task `{task}` does not support {key} = {value}; it supports {supported}")
            }
        }
    }
}

impl std::error::Error for TaskError {}

fn list<'a>(f: &mut fmt::Formatter<'_>, words: impl IntoIterator<Item = &'a str>) -> fmt::Result {
    for (i, word) in words.into_iter().enumerate() {
        write!(f, "{}`{word}`", if i > 0 { ", " } else { "" })?;
    }
    Ok(())
}

/// What the registry says of a task before it is made. Scores are plain scores per episode; the example
/// `task_scores` measures them.
#[derive(Debug)]
pub struct TaskInfo {
    /// The name by which [`make`] knows it.
    pub name: &'static str,
    /// One line on what it is.
    pub summary: &'static str,
    /// Mean plain score of uniformly random play.
    pub random_score: f64,
    /// The best known or possible mean plain score; `None` where nobody knows.
    pub best_score: Option<f64>,
    /// Where the best score comes from.
    pub best_score_is: &'static str,
    /// How the task can be seen, besides [`ObservationKind::Auto`].
    pub observations: &'static [ObservationKind],
    /// The page that describes it, in the project's repository.
    pub page: &'static str,
    /// True if the task takes `reward_scale`.
    pub has_reward_scale: bool,
    make: fn(&TaskInfo, &TaskOptions) -> Box<dyn Env>,
}

const BOARD: &[ObservationKind] =
    &[ObservationKind::Vector, ObservationKind::Planes, ObservationKind::Pixels];

static TASKS: [TaskInfo; 9] = [
    TaskInfo {
        name: "pong-mini",
        summary: "Pong on a 14 × 10 board against a computer paddle, first to 21",
        random_score: -11.28,
        best_score: Some(21.0),
        best_score_is: "exact optimum (dynamic programming)",
        observations: BOARD,
        page: "docs/tasks/pong.md",
        has_reward_scale: false,
        make: |info, options| pong(info, options, false),
    },
    TaskInfo {
        name: "exponential-pong-mini",
        summary: "pong-mini with every reward × 2^(own score): the paper's Exponential Pong in small",
        random_score: -11.28,
        best_score: Some(21.0),
        best_score_is: "exact optimum (dynamic programming)",
        observations: BOARD,
        page: "docs/tasks/pong.md",
        has_reward_scale: false,
        make: |info, options| pong(info, options, true),
    },
    TaskInfo {
        name: "ponglantis-mini",
        summary: "Pong to 10 points against a strong opponent, then shooting for rewards 1000 times larger",
        random_score: -9.8,
        best_score: Some(24_007.0),
        best_score_is: "exact optimum (dynamic programming)",
        observations: BOARD,
        page: "docs/tasks/ponglantis.md",
        has_reward_scale: false,
        make: |info, options| ponglantis(info, options, Variant { divisor: 1.0, reverse: false }),
    },
    TaskInfo {
        name: "ponglantis-mini-easier",
        summary: "ponglantis-mini with the shooting rewards, as the player perceives them, divided by 10",
        random_score: -9.8,
        best_score: Some(24_007.0),
        best_score_is: "exact optimum (dynamic programming)",
        observations: BOARD,
        page: "docs/tasks/ponglantis.md",
        has_reward_scale: false,
        make: |info, options| ponglantis(info, options, Variant { divisor: 10.0, reverse: false }),
    },
    TaskInfo {
        name: "ponglantis-mini-even-easier",
        summary: "ponglantis-mini with the shooting rewards, as the player perceives them, divided by 100",
        random_score: -9.8,
        best_score: Some(24_007.0),
        best_score_is: "exact optimum (dynamic programming)",
        observations: BOARD,
        page: "docs/tasks/ponglantis.md",
        has_reward_scale: false,
        make: |info, options| ponglantis(info, options, Variant { divisor: 100.0, reverse: false }),
    },
    TaskInfo {
        name: "reverse-ponglantis-mini",
        summary: "ponglantis-mini with the phases reversed: shooting first, then Pong",
        random_score: 915.7,
        best_score: Some(24_007.0),
        best_score_is: "exact optimum (dynamic programming)",
        observations: BOARD,
        page: "docs/tasks/ponglantis.md",
        has_reward_scale: false,
        make: |info, options| ponglantis(info, options, Variant { divisor: 1.0, reverse: true }),
    },
    TaskInfo {
        name: "2048",
        summary: "the game 2048: reward is the value of merged tiles",
        random_score: 1095.0,
        best_score: Some(328_946.0),
        best_score_is: "best known to us (Wu et al. 2014, learned values and search)",
        observations: BOARD,
        page: "docs/tasks/2048.md",
        has_reward_scale: false,
        make: |info, options| task(info, &twenty48::ACTIONS, 0, options, Twenty48::default()),
    },
    TaskInfo {
        name: "investor",
        summary: "compounding capital: positions by visible signals, reward is the profit in currency",
        random_score: 0.18,
        best_score: Some(1.507),
        best_score_is: "upper bound (enumeration)",
        observations: &[ObservationKind::Vector],
        page: "docs/tasks/investor.md",
        has_reward_scale: false,
        make: |info, options| task(info, &investor::ACTIONS, 0, options, Market::new(Signals::nth(0))),
    },
    TaskInfo {
        name: "catch-scale",
        summary: "catch a falling ball; every reward × the option reward_scale",
        random_score: -0.6,
        best_score: Some(1.0),
        best_score_is: "exact optimum (always caught)",
        observations: BOARD,
        page: "docs/tasks/catch.md",
        has_reward_scale: true,
        make: |info, options| task(info, &catch::ACTIONS, 0, options, Catch::new(options.reward_scale)),
    },
];

fn task<G: Game + 'static>(
    info: &TaskInfo,
    actions: &[&str],
    max_player_score: u8,
    options: &TaskOptions,
    game: G,
) -> Box<dyn Env> {
    Box::new(GameTask::new(info.name, actions, max_player_score, options, game))
}

fn pong(info: &TaskInfo, options: &TaskOptions, exponential: bool) -> Box<dyn Env> {
    task(info, &pong::ACTIONS, pong::GAME, options, Pong::new(exponential))
}

fn ponglantis(info: &TaskInfo, options: &TaskOptions, variant: Variant) -> Box<dyn Env> {
    task(info, &pong::ACTIONS, PONG_POINTS, options, Ponglantis::new(variant))
}

/// All built-in tasks.
///
/// ```
/// assert!(spectral_env::tasks().iter().any(|task| task.name == "pong-mini"));
/// ```
pub fn tasks() -> &'static [TaskInfo] {
    &TASKS
}

/// Makes a built-in task. [`Env::reset`] begins its first episode.
///
/// ```
/// use spectral_env::{TaskOptions, make};
/// let env = make("pong-mini", &TaskOptions::default())?;
/// assert_eq!(env.spec().actions, ["stay", "up", "down"]);
/// let error = make("pong-nimi", &TaskOptions::default()).err().unwrap();
/// assert_eq!(error.to_string(), "no task is called `pong-nimi`; did you mean `pong-mini`?");
/// # Ok::<(), spectral_env::TaskError>(())
/// ```
pub fn make(name: &str, options: &TaskOptions) -> Result<Box<dyn Env>, TaskError> {
    let Some(info) = tasks().iter().find(|task| task.name == name) else {
        let suggestion = nearest(name, tasks().iter().map(|task| task.name)).map(str::to_owned);
        return Err(TaskError::UnknownTask { name: name.to_owned(), nearest: suggestion });
    };
    let unsupported = |key: &str, value: String, supported: String| {
        Err(TaskError::Unsupported { task: name.to_owned(), key: key.to_owned(), value, supported })
    };
    if options.observation != ObservationKind::Auto && !info.observations.contains(&options.observation) {
        let supported: Vec<_> = info.observations.iter().map(|kind| kind.name()).collect();
        return unsupported("observation", options.observation.to_string(), supported.join(", "));
    }
    if !valid_scale(options.reward_scale) {
        return Err(bad_scale(options.reward_scale.to_string()));
    }
    if options.reward_scale != 1.0 && !info.has_reward_scale {
        return unsupported("reward_scale", options.reward_scale.to_string(), "1 only".to_owned());
    }
    if !valid_skip(options.frame_skip) {
        return Err(bad_skip(options.frame_skip.to_string()));
    }
    Ok((info.make)(info, options))
}
