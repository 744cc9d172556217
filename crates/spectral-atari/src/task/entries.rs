//! The Atari tasks as the registry of a program knows them.

use super::error::AtariError;
use super::protocol::{AtariOptions, Protocol};
use super::registry::{AtariTaskInfo, choices, make, tasks};
use spectral_core::settings;
use spectral_core::settings::{Setting, SettingError};
use spectral_env::{TaskEntry, TaskError};

/// The mode or the difficulty of an Atari game: a number of its own, or its default.
///
/// ```
/// use spectral_atari::task::GameNumber;
/// use spectral_core::settings::Setting;
/// assert_eq!(GameNumber::parse("2"), Ok(GameNumber::Number(2)));
/// assert_eq!(GameNumber::parse("auto").unwrap().show(), "auto");
/// assert!(GameNumber::parse("hard").is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GameNumber {
    /// The game's default.
    #[default]
    Auto,
    /// The number that the game gives it.
    Number(u16),
}

impl GameNumber {
    fn number(self) -> Option<u16> {
        match self {
            GameNumber::Auto => None,
            GameNumber::Number(number) => Some(number),
        }
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
    fn quoted(&self) -> bool {
        *self == GameNumber::Auto
    }
}

impl Setting for Protocol {
    fn parse(text: &str) -> Result<Self, String> {
        Protocol::ALL.into_iter().find(|protocol| protocol.name() == text).ok_or_else(Self::kind)
    }
    fn show(&self) -> String {
        self.name().into()
    }
    fn kind() -> String {
        Protocol::ALL.map(Protocol::name).join(" | ")
    }
    fn quoted(&self) -> bool {
        true
    }
}

settings! {
    /// What can be set about a single Atari game.
    GameSettings {
        /// The mode of the game, by its number; auto is the game's default.
        mode: GameNumber = GameNumber::Auto,
        /// The difficulty of the game, by its number; auto is the game's default.
        difficulty: GameNumber = GameNumber::Auto,
        /// How a game becomes a task: paper (its own actions, no-op starts, lost lives signalled) or machado (all eighteen
        /// actions, sticky).
        atari_protocol: Protocol = Protocol::Paper,
    }
}

settings! {
    /// What can be set about a task that is composed of games.
    ComposedSettings {
        /// How a game becomes a task: paper (its own actions, no-op starts, lost lives signalled) or machado (all eighteen
        /// actions, sticky).
        atari_protocol: Protocol = Protocol::Paper,
    }
}

/// Every Atari task. They need ROMs only when made.
///
/// ```
/// let entries = spectral_atari::task::entries();
/// let pong = entries.iter().find(|task| task.name() == "atari/pong").unwrap();
/// assert_eq!(pong.games(), ["pong"]);
/// let mut settings = pong.schema().defaults();
/// pong.resolve(&mut settings)?;
/// assert_eq!(settings.get("mode"), Some("0"));
/// # Ok::<(), spectral_env::TaskError>(())
/// ```
pub fn entries() -> Vec<TaskEntry> {
    let entry = |info: &'static AtariTaskInfo| {
        let name = info.name.as_str();
        let entry = match choices(name) {
            Some(_) => TaskEntry::with_settings(name, &info.summary, |settings: &GameSettings| {
                let difficulty =
                    settings.difficulty.number().map(|number| u8::try_from(number).unwrap_or(u8::MAX));
                made(name, settings.atari_protocol, settings.mode.number(), difficulty)
            })
            .resolve_settings(|settings: &mut GameSettings| resolve(name, settings)),
            None => TaskEntry::with_settings(name, &info.summary, |settings: &ComposedSettings| {
                made(name, settings.atari_protocol, None, None)
            }),
        };
        entry.repeating().page(info.page).views(&["pixels"]).protocol("paper").roms(&info.games)
    };
    tasks().iter().map(entry).collect()
}

fn made(
    name: &str,
    protocol: Protocol,
    mode: Option<u16>,
    difficulty: Option<u8>,
) -> Result<Box<dyn spectral_env::Env>, TaskError> {
    let options = AtariOptions { protocol, mode, difficulty, ..AtariOptions::default() };
    make(name, &options).map_err(|error| match error {
        AtariError::Roms(_) | AtariError::Rom(_) => TaskError::Missing(error.to_string()),
        other => TaskError::Refused(other.to_string()),
    })
}

/// Mode and difficulty as they will be played: defaults become the game's own numbers, and what it does not have is an
/// error that says what it has.
fn resolve(task: &str, settings: &mut GameSettings) -> Result<(), TaskError> {
    let Some(known) = choices(task) else { return Ok(()) };
    let both = [
        ("mode", &mut settings.mode, known.modes),
        ("difficulty", &mut settings.difficulty, known.difficulties),
    ];
    for (key, value, known) in both {
        let number = value.number().unwrap_or(known[0]);
        if !known.contains(&number) {
            let numbers: Vec<_> = known.iter().map(u16::to_string).collect();
            let expected = format!("one of {} ({task} has no other)", numbers.join(", "));
            return Err(SettingError::bad(key, value.show(), expected).into());
        }
        *value = GameNumber::Number(number);
    }
    Ok(())
}
