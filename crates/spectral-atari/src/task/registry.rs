//! The Atari tasks by name.

use super::atari::AtariTask;
use super::error::AtariError;
use super::protocol::AtariOptions;
use super::rules::Rules;
use crate::games::{self, Game};
use crate::machine::Rom;
use crate::roms;
use spectral_env::{Env, nearest};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// What is known of an Atari task before it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtariTaskInfo {
    /// The name by which [`make`] knows it.
    pub name: String,
    /// One line on what it is.
    pub summary: String,
    /// The games that it needs the ROMs of.
    pub games: Vec<&'static str>,
    /// The page that describes it, in the project's repository.
    pub page: &'static str,
}

const PAGE: &str = "docs/tasks/atari.md";
const PREFIX: &str = "atari/";

/// A task that is made of games: name, summary, rules, games in order.
type Composed = (&'static str, &'static str, Rules, &'static [&'static str]);

const COMPOSED: [Composed; 5] = [
    (
        "exponential-pong",
        "Pong with every reward × 2^(own points before it)",
        Rules::ExponentialPong,
        &["pong"],
    ),
    (
        "ponglantis",
        "Pong to 10 own points, then Atlantis until a life is lost",
        Rules::Ponglantis { divisor: 1.0, reverse: false },
        &["pong", "atlantis"],
    ),
    (
        "ponglantis-easier",
        "ponglantis with the rewards of Atlantis, as the player perceives them, divided by 10",
        Rules::Ponglantis { divisor: 10.0, reverse: false },
        &["pong", "atlantis"],
    ),
    (
        "ponglantis-even-easier",
        "ponglantis with the rewards of Atlantis, as the player perceives them, divided by 100",
        Rules::Ponglantis { divisor: 100.0, reverse: false },
        &["pong", "atlantis"],
    ),
    (
        "reverse-ponglantis",
        "Atlantis until a life is lost, then Pong",
        Rules::Ponglantis { divisor: 1.0, reverse: true },
        &["atlantis", "pong"],
    ),
];

/// All Atari tasks: the paper's composed ones, then `atari/<game>` for every game. They need ROMs only when made.
///
/// ```
/// let tasks = spectral_atari::task::tasks();
/// assert!(tasks.iter().any(|task| task.name == "exponential-pong"));
/// assert!(tasks.iter().any(|task| task.name == "atari/ms_pacman"));
/// ```
pub fn tasks() -> &'static [AtariTaskInfo] {
    static TASKS: OnceLock<Vec<AtariTaskInfo>> = OnceLock::new();
    TASKS.get_or_init(|| {
        let composed = COMPOSED.iter().map(|&(name, summary, _, games)| AtariTaskInfo {
            name: name.into(),
            summary: summary.into(),
            games: games.to_vec(),
            page: PAGE,
        });
        let plain = games::all().map(|game| AtariTaskInfo {
            name: format!("{PREFIX}{}", game.name),
            summary: format!("{} on the Atari 2600", game.title),
            games: vec![game.name],
            page: PAGE,
        });
        composed.chain(plain).collect()
    })
}

/// Makes an Atari task. [`Env::reset`] begins its first episode.
///
/// ```
/// use spectral_atari::task::{AtariOptions, make};
/// let error = make("atari/pogn", &AtariOptions::default()).err().unwrap();
/// assert_eq!(error.to_string(), "no Atari task is called `atari/pogn`; did you mean `atari/pong`?");
/// ```
pub fn make(name: &str, options: &AtariOptions) -> Result<Box<dyn Env>, AtariError> {
    Ok(Box::new(make_atari(name, options)?))
}

/// [`make`], for those who also want to look at the game itself.
pub fn make_atari(name: &str, options: &AtariOptions) -> Result<AtariTask, AtariError> {
    let plain = name.strip_prefix(PREFIX).and_then(games::find);
    let composed = COMPOSED.iter().find(|task| task.0 == name);
    let (rules, parts) = match (plain, composed) {
        (Some(game), _) => (Rules::Plain, vec![game]),
        (None, Some(&(_, _, rules, names))) => {
            (rules, names.iter().map(|name| games::find(name).expect("composed of known games")).collect())
        }
        (None, None) => {
            let nearest = nearest(name, tasks().iter().map(|task| task.name.as_str())).map(str::to_owned);
            return Err(AtariError::UnknownTask { name: name.into(), nearest });
        }
    };
    let first = parts[0];
    let mode = choice("mode", options.mode, first.playable_modes(), rules)?;
    let difficulty = choice("difficulty", options.difficulty, first.difficulties, rules)?;
    let games =
        parts.iter().map(|&game| Ok((game, rom(game, options)?))).collect::<Result<Vec<_>, AtariError>>()?;
    // Both halves of Ponglantis take Pong's actions.
    let minimal = if rules == Rules::Plain { first } else { games::find("pong").expect("pong is a game") };
    let mut task = AtariTask::new(name, options.protocol, rules, &games, minimal);
    let chosen = task.choose(mode, difficulty);
    debug_assert!(chosen);
    Ok(task)
}

/// What may be chosen about a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    /// The modes that can be played, the default first.
    pub modes: Vec<u16>,
    /// The difficulties that can be played, the default first.
    pub difficulties: Vec<u16>,
}

/// The modes and difficulties of `atari/<game>`; of other tasks `None`.
///
/// ```
/// let pong = spectral_atari::task::choices("atari/pong").unwrap();
/// assert_eq!((pong.modes, pong.difficulties), (vec![0, 1], vec![0, 1, 2, 3]));
/// assert!(spectral_atari::task::choices("ponglantis").is_none());
/// ```
pub fn choices(name: &str) -> Option<Choices> {
    let game = name.strip_prefix(PREFIX).and_then(games::find)?;
    let difficulties = game.difficulties.iter().map(|&number| number.into()).collect();
    Some(Choices { modes: game.playable_modes().to_vec(), difficulties })
}

/// The chosen mode or difficulty, or the first of those that the game has.
fn choice<T: Copy + PartialEq + ToString>(
    key: &str,
    chosen: Option<T>,
    known: &[T],
    rules: Rules,
) -> Result<T, AtariError> {
    let known = if rules == Rules::Plain { known } else { &known[..1] };
    let value = chosen.unwrap_or(known[0]);
    if known.contains(&value) {
        return Ok(value);
    }
    let expected: Vec<_> = known.iter().map(T::to_string).collect();
    Err(AtariError::BadValue { key: key.into(), value: value.to_string(), expected: expected.join(", ") })
}

/// The game's program; tasks that need the same one share it.
fn rom(game: &'static Game, options: &AtariOptions) -> Result<Arc<Rom>, AtariError> {
    static SHARED: Mutex<BTreeMap<&'static str, Weak<Rom>>> = Mutex::new(BTreeMap::new());
    let bytes = match &options.roms {
        Some(folder) => roms::find_in(folder, game)?,
        None => roms::find(game)?,
    };
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(rom) = shared.get(game.md5).and_then(Weak::upgrade) {
        return Ok(rom);
    }
    let rom = Arc::new(Rom::new(&bytes, None)?);
    shared.insert(game.md5, Arc::downgrade(&rom));
    Ok(rom)
}
