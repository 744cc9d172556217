//! The tasks by name, and the options that they take.

use crate::catch::{self, Catch};
use crate::entry::TaskEntry;
use crate::env::Env;
use crate::game::{Game, GameTask};
use crate::investor::{self, Market, Signals};
use crate::pong::{self, Pong};
use crate::ponglantis::{PONG_POINTS, Ponglantis, Variant};
use crate::twenty48::{self, Twenty48, Twenty48Options};
use spectral_core::nearest::nearest;
use spectral_core::settings::{Setting, SettingError};
use spectral_core::{choices, settings};
use std::fmt;

choices! {
    /// How a task is seen.
    ObservationKind {
        /// What suits the task best; for the built-in tasks a vector.
        Auto = "auto",
        /// A vector of features, for an MLP.
        Vector = "vector",
        /// Planes of the board's size, for a small convolutional network.
        Planes = "planes",
        /// 84 × 84 pixels, four successive ones stacked, for Atari's network.
        Pixels = "pixels",
    }
}

settings! {
    /// What can be set about a built-in task.
    ///
    /// ```
    /// use spectral_core::settings::Settings;
    /// use spectral_env::{ObservationKind, TaskOptions};
    /// let mut options = TaskOptions::default();
    /// options.set("observation", "planes")?;
    /// assert_eq!(options.observation, ObservationKind::Planes);
    /// assert!(options.set("observatoin", "planes").unwrap_err().to_string().contains("'observation'"));
    /// # Ok::<(), spectral_core::settings::SettingError>(())
    /// ```
    TaskOptions {
        /// How the task is seen.
        observation: ObservationKind = ObservationKind::Auto,
        /// The factor on every reward of `catch-scale`; other tasks allow 1 only.
        reward_scale: f64 = 1.0,
        /// Frames that one step plays with the same action, 1 to 60. Rewards and scores are summed.
        frame_skip: u32 = 1,
    }
}

/// The largest [`TaskOptions::frame_skip`].
pub const MAX_FRAME_SKIP: u32 = 60;

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
    /// A setting is not valid.
    Setting(SettingError),
    /// The setting exists, but this task does not support what was asked.
    Unsupported {
        /// The task.
        task: String,
        /// The setting.
        key: String,
        /// The value that was given.
        value: String,
        /// What the task supports instead.
        supported: String,
    },
    /// The task cannot be made as it was asked for; the text says why and what to do.
    Refused(String),
    /// Something that the task needs is missing or damaged, such as a ROM; the text says what to do.
    Missing(String),
    /// The task failed while it was played; the text says how.
    Failed(String),
}

impl From<SettingError> for TaskError {
    fn from(error: SettingError) -> Self {
        TaskError::Setting(error)
    }
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
            TaskError::Setting(error) => write!(f, "{error}"),
            TaskError::Unsupported { task, key, value, supported } => {
                write!(f, "the task `{task}` does not support {key} = {value}; it supports {supported}")
            }
            TaskError::Refused(text) | TaskError::Missing(text) | TaskError::Failed(text) => {
                f.write_str(text)
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

static TASKS: &[TaskInfo] = &[
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
        make: |info, options| twenty48(info, options, true),
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

fn twenty48(info: &TaskInfo, options: &TaskOptions, legal_actions: bool) -> Box<dyn Env> {
    task(info, &twenty48::ACTIONS, 0, options, Twenty48::new(legal_actions))
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
    TASKS
}

/// The built-in tasks as the registry of a program knows them.
///
/// ```
/// let pong = &spectral_env::entries()[0];
/// assert_eq!((pong.name(), pong.schema().keys().len()), ("pong-mini", 3));
/// ```
pub fn entries() -> Vec<TaskEntry> {
    let entry = |info: &'static TaskInfo| {
        let views = info.observations.iter().map(|kind| format!("observation={}", kind.show()));
        let views: Vec<String> = views.collect();
        plain_entry(info)
            .repeating()
            .page(info.page)
            .scores(info.random_score, info.best_score, info.best_score_is)
            .views(&info.observations.iter().map(Setting::show).collect::<Vec<_>>())
            .variants(&views.iter().map(String::as_str).collect::<Vec<_>>())
    };
    TASKS.iter().map(entry).collect()
}

/// A task with its settings, described no further.
fn plain_entry(info: &'static TaskInfo) -> TaskEntry {
    if info.name != "2048" {
        return TaskEntry::with_settings(info.name, info.summary, move |o: &TaskOptions| make(info.name, o));
    }
    TaskEntry::with_settings(info.name, info.summary, move |options: &Twenty48Options| {
        let shared = options.shared();
        check(info, &shared)?;
        Ok(twenty48(info, &shared, options.legal_actions))
    })
    .before("legal_actions", "false")
    .variants(&["legal_actions=false"])
}

/// Makes a built-in task. [`Env::reset`] begins its first episode. Settings that this task alone has are at their defaults;
/// its entry among the [`entries`] has them all.
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
    check(info, options)?;
    Ok((info.make)(info, options))
}

/// Refuses options that the task does not support.
fn check(info: &TaskInfo, options: &TaskOptions) -> Result<(), TaskError> {
    let unsupported = |key: &str, value: String, supported: String| {
        Err(TaskError::Unsupported { task: info.name.to_owned(), key: key.to_owned(), value, supported })
    };
    if options.observation != ObservationKind::Auto && !info.observations.contains(&options.observation) {
        let supported: Vec<_> = info.observations.iter().map(Setting::show).collect();
        return unsupported("observation", options.observation.show(), supported.join(", "));
    }
    let scale = options.reward_scale;
    if !(scale.is_finite() && scale > 0.0) {
        return Err(SettingError::bad("reward_scale", scale.to_string(), "a number above 0").into());
    }
    if options.reward_scale != 1.0 && !info.has_reward_scale {
        return unsupported("reward_scale", options.reward_scale.to_string(), "1 only".to_owned());
    }
    if !(1..=MAX_FRAME_SKIP).contains(&options.frame_skip) {
        let expected = format!("a whole number from 1 to {MAX_FRAME_SKIP}");
        return Err(SettingError::bad("frame_skip", options.frame_skip.to_string(), expected).into());
    }
    Ok(())
}
