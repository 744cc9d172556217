//! What a plan says of an Atari task.

use crate::error::TrainError;
use crate::plan::Plan;
use spectral_agent::settings::{Setting, SettingError};
use spectral_atari::task::{AtariError, AtariOptions, Choices, Protocol, choices};
use spectral_env::{Env, ObservationKind};

/// The mode or the difficulty of an Atari game: a number of its own, or its default.
///
/// ```
/// use spectral_agent::settings::Setting;
/// use spectral_train::atari::GameNumber;
/// assert_eq!(GameNumber::parse("2"), Ok(GameNumber::Number(2)));
/// assert_eq!(GameNumber::parse("auto").unwrap().show(), "auto");
/// assert!(GameNumber::parse("hard").is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GameNumber {
    /// The game's default; in tasks that are not Atari games the only value.
    #[default]
    Auto,
    /// The number that the game gives it.
    Number(u16),
}

impl GameNumber {
    /// The number, if one is chosen.
    pub fn number(self) -> Option<u16> {
        match self {
            GameNumber::Auto => None,
            GameNumber::Number(number) => Some(number),
        }
    }

    /// As TOML has it: a number, or the word in quotes.
    pub(crate) fn to_toml(self) -> String {
        self.number().map_or("\"auto\"".into(), |number| number.to_string())
    }
}

impl Setting for GameNumber {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(GameNumber::Auto),
            number => number.parse().map(GameNumber::Number).map_err(|_| Self::kind()),
        }
    }
    fn show(&self) -> String {
        self.number().map_or("auto".into(), |number| number.to_string())
    }
    fn kind() -> String {
        "auto | a whole number".into()
    }
    fn quoted() -> bool {
        true
    }
}

/// Whether a name is, or looks like, that of an Atari task.
pub(crate) fn is_atari(task: &str) -> bool {
    task.starts_with("atari/") || spectral_atari::task::tasks().iter().any(|known| known.name == task)
}

/// Mode and difficulty as they will be played: defaults become the game's own numbers, and what it does not have is an
/// error that says what it has.
pub(crate) fn resolve(
    task: &str,
    mode: GameNumber,
    difficulty: GameNumber,
) -> Result<[GameNumber; 2], TrainError> {
    let named = [("mode", mode), ("difficulty", difficulty)];
    let Some(Choices { modes, difficulties }) = choices(task) else {
        // A game of an unknown name is an error of its own, when the task is made.
        let chosen =
            named.iter().find(|(_, value)| *value != GameNumber::Auto && !task.starts_with("atari/"));
        return match chosen {
            None => Ok([mode, difficulty]),
            Some((key, value)) => Err(TrainError::Usage(format!(
                "'{key}' is chosen for single Atari games (atari/…): {task} has none, so leave {key} = {} out",
                value.show()
            ))),
        };
    };
    let known = [modes, difficulties];
    let mut resolved = [GameNumber::Auto; 2];
    for ((resolved, (key, value)), known) in resolved.iter_mut().zip(named).zip(known) {
        let number = value.number().unwrap_or(known[0]);
        if !known.contains(&number) {
            let numbers: Vec<_> = known.iter().map(u16::to_string).collect();
            let expected = format!("one of {} ({task} has no other)", numbers.join(", "));
            return Err(SettingError::bad(key, value.show(), expected).into());
        }
        *resolved = GameNumber::Number(number);
    }
    Ok(resolved)
}

/// True if the plan's game is played in its default mode and difficulty, as all were before there was a choice.
pub(crate) fn plays_defaults(plan: &Plan) -> bool {
    resolve(&plan.task, GameNumber::Auto, GameNumber::Auto).ok() == Some([plan.mode, plan.difficulty])
}

/// A fresh instance of the plan's task, which is an Atari task.
pub(crate) fn make(plan: &Plan) -> Result<Box<dyn Env>, TrainError> {
    let seen = plan.options.observation;
    if !matches!(seen, ObservationKind::Auto | ObservationKind::Pixels) || plan.options.reward_scale != 1.0 {
        return Err(TrainError::Usage(format!(
            "{} is seen as pixels and its rewards are not scaled",
            plan.task
        )));
    }
    if plan.options.frame_skip != 1 {
        return Err(TrainError::Usage(format!(
            "{} always plays 4 frames a step: leave frame_skip out",
            plan.task
        )));
    }
    let protocol = if plan.protocol == "machado" { Protocol::Machado } else { Protocol::Paper };
    let [mode, difficulty] = resolve(&plan.task, plan.mode, plan.difficulty)?.map(GameNumber::number);
    let difficulty = difficulty.map(|number| number as u8);
    let options = AtariOptions { protocol, mode, difficulty, ..AtariOptions::default() };
    spectral_atari::task::make(&plan.task, &options).map_err(|error| match error {
        AtariError::Roms(_) | AtariError::Rom(_) => TrainError::Data(error.to_string()),
        other => TrainError::Usage(other.to_string()),
    })
}
