//! An Atari game without preprocessing: the whole screen in colour, frame by frame, as ale-py shows it.

use spectral_atari::games::Action;
use spectral_atari::machine::{Format, rgb_palette};
use spectral_atari::preprocess::WIDTH;
use spectral_atari::task::{AleGame, AtariOptions, FRAME_LIMIT, GameNumber, choices, make_atari};
use spectral_core::rng::Stream;
use spectral_core::settings;
use spectral_core::settings::SettingError;
use spectral_env::{Env, Observation, ObservationSpec, Picture, Step, TaskEntry, TaskError, TaskSpec};

settings! {
    /// What can be set about an Atari game without preprocessing.
    RawSettings {
        /// The mode of the game, by its number; auto is the game's default.
        mode: GameNumber = GameNumber::Auto,
        /// The difficulty of the game, by its number; auto is the game's default.
        difficulty: GameNumber = GameNumber::Auto,
        /// Frames that one step plays with the same action, 1 to 60. Rewards are summed, and the last frame is shown.
        frame_skip: u32 = 1,
        /// The probability with which a frame repeats the action before it.
        repeat_action_probability: f64 = 0.0,
        /// All eighteen actions, not only those that the game uses.
        full_action_space: bool = false,
    }
}

/// The largest frame skip.
const MAX_FRAME_SKIP: u32 = 60;
/// Bytes of a pixel.
const RGB: usize = 3;

/// The raw variant of a task `atari/<game>`; of other tasks `None`.
pub fn entry(name: &str) -> Option<TaskEntry> {
    choices(name)?;
    let task = name.to_owned();
    let make = move |settings: &RawSettings| -> Result<Box<dyn Env>, TaskError> {
        Ok(Box::new(RawGame::new(&task, settings)?))
    };
    Some(TaskEntry::with_settings(name, "the game's screen in colour, frame by frame", make))
}

struct RawGame {
    spec: TaskSpec,
    game: AleGame,
    actions: Vec<Action>,
    colours: Box<Colours>,
    frame_skip: u32,
    stickiness: f64,
    frames: u32,
    last: Action,
}

impl RawGame {
    fn new(name: &str, settings: &RawSettings) -> Result<Self, TaskError> {
        if !(1..=MAX_FRAME_SKIP).contains(&settings.frame_skip) {
            let expected = format!("a whole number from 1 to {MAX_FRAME_SKIP}");
            return Err(SettingError::bad("frame_skip", settings.frame_skip.to_string(), expected).into());
        }
        let stickiness = settings.repeat_action_probability;
        if !(0.0..1.0).contains(&stickiness) {
            let key = "repeat_action_probability";
            return Err(SettingError::bad(key, stickiness.to_string(), "0 or more, and below 1").into());
        }
        // The task finds the ROM, shares it with others that play the game, and checks mode and difficulty.
        let task = make_atari(name, &options(settings)).map_err(|error| match error {
            spectral_atari::task::AtariError::Roms(_) | spectral_atari::task::AtariError::Rom(_) => {
                TaskError::Missing(error.to_string())
            }
            other => TaskError::Refused(other.to_string()),
        })?;
        let (mode, difficulty) = task.current_game().chosen();
        let definition = task.current_game().definition();
        let mut game = AleGame::as_ale(definition, task.current_game().console().rom().clone());
        // ale-py begins a game once in its default mode when it loads it, before a mode is chosen.
        game.reset();
        game.choose(mode, difficulty);
        let actions: Vec<Action> = match settings.full_action_space {
            true => Action::ALL.to_vec(),
            false => definition.minimal.iter().collect(),
        };
        let spec = TaskSpec {
            name: name.to_owned(),
            // A row of coloured pixels counts as a plane here: this is the order of bytes of ale-py's screen.
            observation: ObservationSpec::Planes {
                channels: game.console().height(),
                height: WIDTH,
                width: RGB,
                stack: 1,
            },
            actions: actions.iter().map(|action| action.name().to_owned()).collect(),
            frames_per_step: settings.frame_skip.into(),
            max_player_score: 0,
            masks_actions: false,
        };
        let frame_skip = settings.frame_skip;
        let colours = Box::new(colours(game.console().format()));
        Ok(RawGame { spec, game, actions, colours, frame_skip, stickiness, frames: 0, last: Action::Noop })
    }

    fn paint(&self, out: &mut [u8]) {
        paint(self.game.console().screen(), &self.colours, out);
    }
}

fn options(settings: &RawSettings) -> AtariOptions {
    let number = |number: GameNumber| match number {
        GameNumber::Auto => None,
        GameNumber::Number(number) => Some(number),
    };
    AtariOptions {
        mode: number(settings.mode),
        difficulty: number(settings.difficulty).map(|number| u8::try_from(number).unwrap_or(u8::MAX)),
        ..AtariOptions::default()
    }
}

/// Red, green and blue of each palette index, red in the lowest byte.
type Colours = [u32; 256];

fn colours(format: Format) -> Colours {
    rgb_palette(format).map(|[red, green, blue]| u32::from_le_bytes([red, green, blue, 0]))
}

/// Colours a picture of palette indices. Most lines repeat the one above, and copying a line is much cheaper than looking
/// its colours up.
fn paint(picture: &[u8], colours: &Colours, out: &mut [u8]) {
    let mut above: Option<&[u8]> = None;
    let mut painted: &[u8] = &[];
    for (line, row) in picture.chunks_exact(WIDTH).zip(out.chunks_exact_mut(WIDTH * RGB)) {
        if above == Some(line) {
            row.copy_from_slice(painted);
        } else {
            paint_line(line, colours, row);
        }
        (above, painted) = (Some(line), row);
    }
}

/// Four pixels are twelve bytes, which take two stores.
fn paint_line(line: &[u8], colours: &Colours, row: &mut [u8]) {
    for (pixels, out) in line.chunks_exact(4).zip(row.chunks_exact_mut(4 * RGB)) {
        let colour = |pixel: usize| u64::from(colours[usize::from(pixels[pixel])]);
        let (a, b, c, d) = (colour(0), colour(1), colour(2), colour(3));
        out[..8].copy_from_slice(&(a | b << 24 | c << 48).to_le_bytes());
        out[8..].copy_from_slice(&((c >> 16 | d << 8) as u32).to_le_bytes());
    }
}

impl Env for RawGame {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }

    fn reset(&mut self, _rng: &mut Stream) {
        (self.frames, self.last) = (0, Action::Noop);
        self.game.reset();
    }

    fn step(&mut self, action: usize, rng: &mut Stream) -> Step {
        let mut step = Step::default();
        let count = self.frame_skip.min(FRAME_LIMIT.saturating_sub(self.frames)).max(1);
        for _ in 0..count {
            if self.stickiness == 0.0 || !rng.chance(self.stickiness) {
                self.last = self.actions[action];
            }
            // Every frame is drawn: it may be the one that ends the game, which is then what is seen.
            let result = self.game.act(self.last, true);
            self.frames += 1;
            step.reward += f64::from(result.reward);
            step.life_lost |= result.life_lost;
            if result.over {
                step.terminated = true;
                break;
            }
        }
        step.score = step.reward;
        step.life_lost &= !step.terminated;
        step.truncated = !step.terminated && self.frames >= FRAME_LIMIT;
        step
    }

    fn observe(&self, out: Observation<'_>) {
        self.paint(out.planes());
    }

    fn picture(&self, out: &mut Picture) -> bool {
        out.start(WIDTH, self.game.console().height(), [0; 3]);
        self.paint(&mut out.rgb);
        true
    }
}
