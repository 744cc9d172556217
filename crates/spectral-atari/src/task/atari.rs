//! One or two games under a protocol as a task.

use super::ale_game::AleGame;
use super::protocol::{FRAME_LIMIT, FRAME_SKIP, NOOP_FRAMES, Protocol, STICKINESS};
use super::rules::{Next, Rules};
use crate::games::{Action, Game};
use crate::machine::{Format, PowerOn, Rom, grey_palette, rgb_palette};
use crate::preprocess::{Pooler, SIDE, WIDTH};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::rng::Stream;
use spectral_env::{Env, Observation, ObservationSpec, Picture, Step, TaskSpec};
use std::sync::Arc;

/// Marks a state of these tasks.
const TAG: u8 = 0xa7;

/// A game, or two in succession, observed as 84 × 84 grey pixels. [`make`](super::make) makes it.
///
/// A step plays 4 frames. The observation is the pixelwise maximum of the last two, and only those two are drawn. When an
/// episode ends within a step, the observation does not change: nothing is learned from the picture after an end.
pub struct AtariTask {
    spec: TaskSpec,
    protocol: Protocol,
    rules: Rules,
    actions: Vec<Action>,
    games: Vec<AleGame>,
    poolers: Vec<Pooler>,
    /// Index of the game in progress.
    current: usize,
    /// Whether the consoles have been switched on, which the first reset does.
    on: bool,
    /// Frames of this episode.
    frames: u32,
    /// The last action, which a sticky action repeats.
    last: Action,
    seen: Box<[u8; SIDE * SIDE]>,
    /// The first of the two pictures to pool: the number of one of the console's pictures, or a copy.
    earlier: Result<usize, Vec<u8>>,
}

impl AtariTask {
    pub(super) fn new(
        name: &str,
        protocol: Protocol,
        rules: Rules,
        games: &[(&'static Game, Arc<Rom>)],
        minimal: &'static Game,
    ) -> Self {
        let actions: Vec<Action> = match protocol {
            Protocol::Paper => minimal.minimal.iter().collect(),
            Protocol::Machado => Action::ALL.to_vec(),
        };
        let spec = TaskSpec {
            name: name.to_owned(),
            observation: ObservationSpec::Planes { channels: 1, height: SIDE, width: SIDE, stack: 4 },
            actions: actions.iter().map(|action| action.name().to_owned()).collect(),
            frames_per_step: FRAME_SKIP.into(),
            max_player_score: rules.max_player_score(),
            masks_actions: false,
        };
        let games: Vec<_> =
            games.iter().map(|(game, rom)| AleGame::new(game, rom.clone(), PowerOn::seeded(0))).collect();
        let poolers = games.iter().map(pooler).collect();
        AtariTask {
            spec,
            protocol,
            rules,
            actions,
            games,
            poolers,
            current: 0,
            on: false,
            frames: 0,
            last: Action::Noop,
            seen: Box::new([0; SIDE * SIDE]),
            earlier: Ok(0),
        }
    }

    /// Chooses mode and difficulty of the game. Returns false if it does not have them.
    pub(super) fn choose(&mut self, mode: u16, difficulty: u8) -> bool {
        self.games[0].choose(mode, difficulty)
    }

    /// Brings its consoles to the state of the Arcade Learning Environment's after loading their games, for comparisons.
    /// Otherwise the first reset switches them on with random memory.
    pub fn load_as_ale(&mut self) {
        for game in &mut self.games {
            let mut loaded = AleGame::as_ale(game.definition(), game.console().rom().clone());
            // The environment begins a game once in its default mode before a mode is chosen.
            loaded.reset();
            let (mode, difficulty) = game.chosen();
            loaded.choose(mode, difficulty);
            *game = loaded;
        }
        self.on = true;
    }

    /// The protocol under which it is played.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The game in progress, for example to show it in colour.
    pub fn current_game(&self) -> &AleGame {
        &self.games[self.current]
    }

    /// Begins the current game and observes its first picture.
    fn begin_game(&mut self) {
        self.games[self.current].reset();
        let picture = self.games[self.current].console().screen();
        self.poolers[self.current].single(picture, &mut self.seen[..]);
    }

    /// Makes the observation from the picture just drawn and the one kept before it.
    fn pool(&mut self) {
        let console = self.games[self.current].console();
        let earlier = match &self.earlier {
            Ok(number) => console.screen_of(*number),
            Err(copy) => copy,
        };
        self.poolers[self.current].pool(earlier, console.screen(), &mut self.seen[..]);
    }

    /// Keeps the picture just drawn as the first of two.
    fn keep(&mut self) {
        let console = self.games[self.current].console();
        self.earlier = match console.goes_on_drawing() {
            false => Ok(console.screen_number()),
            true => Err(console.screen().to_vec()),
        };
    }

    fn no_ops(&mut self, rng: &mut Stream) {
        let count = rng.below(NOOP_FRAMES);
        for frame in 0..count {
            let pooled = frame + 2 >= count;
            // With a single frame, the game's first picture is the earlier one.
            if frame + 1 == count {
                self.keep();
            }
            let result = self.games[self.current].act(Action::Noop, pooled);
            self.frames += 1;
            if frame + 1 == count {
                self.pool();
            }
            if result.over {
                self.frames = 0;
                self.begin_game();
                return;
            }
        }
    }
}

fn pooler(game: &AleGame) -> Pooler {
    let format = if game.definition().pal { Format::Pal } else { Format::Ntsc };
    Pooler::new(game.console().height(), *grey_palette(format))
}

impl Env for AtariTask {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }

    fn reset(&mut self, rng: &mut Stream) {
        if !self.on {
            for game in &mut self.games {
                game.power_on(PowerOn::seeded(rng.next_u64()));
            }
            self.on = true;
        }
        (self.current, self.frames, self.last) = (0, 0, Action::Noop);
        self.begin_game();
        if self.protocol == Protocol::Paper {
            self.no_ops(rng);
        }
    }

    fn step(&mut self, action: usize, rng: &mut Stream) -> Step {
        let known = self.actions.len();
        assert!(action < known, "action {action} given to {}, which has {known}", self.spec.name);
        let mut step = Step::default();
        let count = FRAME_SKIP.min(FRAME_LIMIT.saturating_sub(self.frames)).max(1);
        if count == 1 {
            // The frame limit leaves one frame. The picture before it is the last one of the step before.
            self.keep();
        }
        for frame in 0..count {
            if self.protocol == Protocol::Paper || !rng.chance(STICKINESS) {
                self.last = self.actions[action];
            }
            let before = self.rules.player_score(&self.games, self.current);
            let result = self.games[self.current].act(self.last, frame + 2 >= count);
            self.frames += 1;
            match self.rules.apply(&self.games[self.current], self.current, before, result, &mut step) {
                Next::Go => {}
                Next::End => {
                    step.terminated = true;
                    break;
                }
                Next::Switch => {
                    self.current = 1;
                    self.last = Action::Noop;
                    self.begin_game();
                    break;
                }
            }
            if frame + 2 == count {
                self.keep();
            } else if frame + 1 == count {
                self.pool();
            }
        }
        step.truncated = !step.terminated && self.frames >= FRAME_LIMIT;
        step.life_lost &= !step.terminated && self.protocol == Protocol::Paper;
        step.player_score = self.rules.player_score(&self.games, self.current);
        step
    }

    fn observe(&self, out: Observation<'_>) {
        match out {
            Observation::Planes(out) => out.copy_from_slice(&self.seen[..]),
            Observation::Vector(_) => panic!("{} is seen as planes, not as a vector", self.spec.name),
        }
    }

    /// The last picture that the console drew: that of the step's last frame, or, if an episode ended within a step, the last
    /// drawn one before the end. Pixels are doubled horizontally, which gives about the shape that they have on a television.
    fn picture(&self, out: &mut Picture) -> bool {
        let console = self.current_game().console();
        let colours = rgb_palette(console.format());
        (out.width, out.height) = (2 * WIDTH, console.height());
        out.rgb.clear();
        out.rgb.extend(console.screen().iter().flat_map(|&index| {
            let [red, green, blue] = colours[usize::from(index)];
            [red, green, blue, red, green, blue]
        }));
        true
    }

    fn save(&self, out: &mut StateWriter) {
        out.u8(TAG);
        out.bool(self.on);
        out.u8(self.current as u8);
        out.u32(self.frames);
        out.u8(self.last as u8);
        out.blob(&self.seen[..]);
        for game in &self.games {
            game.save(out);
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let bad = |what: String| Err(StateError(format!("{what} in a state of {}", self.spec.name)));
        match from.u8()? {
            TAG => {}
            other => return bad(format!("mark {other}")),
        }
        self.on = from.bool()?;
        self.current = match usize::from(from.u8()?) {
            current if current < self.games.len() => current,
            current => return bad(format!("game {current}")),
        };
        self.frames = match from.u32()? {
            frames if frames <= FRAME_LIMIT => frames,
            frames => return bad(format!("{frames} frames")),
        };
        let last = from.u8()?;
        self.last = match Action::from_number(last) {
            Some(action) => action,
            None => return bad(format!("action {last}")),
        };
        let seen = from.blob()?;
        if seen.len() != self.seen.len() {
            return bad(format!("an observation of {} bytes", seen.len()));
        }
        self.seen.copy_from_slice(seen);
        for game in &mut self.games {
            game.restore(from)?;
        }
        Ok(())
    }
}
