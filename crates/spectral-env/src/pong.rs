//! Pong on a board of 14 × 10: the rally that every task of the Pong family shares, and `pong-mini` and
//! `exponential-pong-mini` themselves.
//!
//! Time goes in steps: both paddles move by at most one row, then the ball moves by one cell along its diagonal.
//! All chance is an argument of [`Rally::advance`] and [`Rally::new`], so that dynamic programming enumerates
//! the very transitions that the tasks play.

use crate::env::Step;
use crate::game::{Game, PIXELS, PlaneShape, check_tag, checked, fill_rectangle};
use crate::picture::{Colour, Picture};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::rng::Stream;

/// Columns of the board; the computer's paddle is in the first, the player's in the last.
pub(crate) const WIDTH: usize = 14;
/// Rows of the board.
pub(crate) const HEIGHT: usize = 10;
/// Cells of a paddle.
pub(crate) const PADDLE: usize = 2;
/// Highest row of a paddle's upper cell.
pub(crate) const PADDLE_MAX: u8 = (HEIGHT - PADDLE) as u8;
/// Points that end a game.
pub(crate) const GAME: u8 = 21;
/// Steps after which an episode of Pong is cut off.
pub(crate) const STEP_LIMIT: u32 = 10_000;
/// The column where a serve to the player starts; one to the computer starts a column before it.
const SERVE_COLUMN: u8 = (WIDTH / 2) as u8;

/// What the actions are called.
pub(crate) const ACTIONS: [&str; 3] = ["stay", "up", "down"];
/// Shape of the board's planes: ball, where it goes, paddles, scores.
pub(crate) const PLANES: PlaneShape = (4, HEIGHT, WIDTH);
/// Numbers that [`Rally::features`] writes.
pub(crate) const RALLY_FEATURES: usize = 8;

/// Who won a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Winner {
    Player,
    Computer,
}

/// How a serve starts: a fair draw of each part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Serve {
    pub(crate) row: u8,
    pub(crate) to_player: bool,
    pub(crate) down: bool,
}

impl Serve {
    /// Draws a serve.
    pub(crate) fn draw(rng: &mut Stream) -> Self {
        let n = rng.below(HEIGHT * 4);
        Serve::nth(n)
    }

    /// The `n`-th of the `4 × HEIGHT` equally likely serves.
    pub(crate) fn nth(n: usize) -> Self {
        Serve { row: (n / 4) as u8, to_player: n & 1 == 1, down: n & 2 == 2 }
    }
}

/// Ball and paddles. Rows count from the top; a paddle is known by its upper cell's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rally {
    /// Column, 1 to `WIDTH - 2`: the paddles' columns are entered only to be hit or to lose.
    pub(crate) ball_x: u8,
    pub(crate) ball_y: u8,
    pub(crate) to_player: bool,
    pub(crate) down: bool,
    pub(crate) player: u8,
    pub(crate) computer: u8,
}

impl Rally {
    /// A serve. Every point starts with both paddles in the middle, which makes the points of a game independent
    /// and its exact value computable.
    pub(crate) fn new(serve: Serve) -> Self {
        Rally {
            // The same distance to both paddles.
            ball_x: if serve.to_player { SERVE_COLUMN } else { SERVE_COLUMN - 1 },
            ball_y: serve.row,
            to_player: serve.to_player,
            down: serve.down,
            player: PADDLE_MAX / 2,
            computer: PADDLE_MAX / 2,
        }
    }

    /// One step: the player moves as told, the computer's paddle follows the ball if `follows`, the ball flies.
    pub(crate) fn advance(&mut self, action: usize, follows: bool) -> Option<Winner> {
        self.player = match action {
            1 => self.player.saturating_sub(1),
            2 => (self.player + 1).min(PADDLE_MAX),
            _ => self.player,
        };
        let (x, y, down) = self.next_cell();
        if follows {
            if y < self.computer {
                self.computer -= 1;
            } else if y > self.computer + (PADDLE as u8 - 1) {
                self.computer += 1;
            }
        }
        let (reached, paddle) = match x {
            0 => (Winner::Player, self.computer),
            x if x as usize == WIDTH - 1 => (Winner::Computer, self.player),
            _ => {
                (self.ball_x, self.ball_y, self.down) = (x, y, down);
                return None;
            }
        };
        if y < paddle || y > paddle + (PADDLE as u8 - 1) {
            return Some(reached);
        }
        // The paddle's half that is hit decides where the ball goes: this is how a player aims.
        self.ball_y = y;
        self.down = y > paddle;
        self.to_player = !self.to_player;
        None
    }

    /// Where the ball flies next, and whether downwards then.
    pub(crate) fn next_cell(&self) -> (u8, u8, bool) {
        let x = if self.to_player { self.ball_x + 1 } else { self.ball_x - 1 };
        let down = match self.ball_y {
            0 => true,
            y if y as usize == HEIGHT - 1 => false,
            _ => self.down,
        };
        let y = if down { self.ball_y + 1 } else { self.ball_y - 1 };
        (x, y, down)
    }

    /// Positions and directions, each between −1 and 1.
    pub(crate) fn features(&self, out: &mut [f32]) {
        let across = |cell: u8, cells: usize| f32::from(cell) * (2.0 / (cells - 1) as f32) - 1.0;
        let sign = |positive: bool| if positive { 1.0 } else { -1.0 };
        // A paddle's centre lies half a cell below its upper cell's.
        let offset = |paddle: u8| (f32::from(self.ball_y) - f32::from(paddle) - 0.5) / (HEIGHT - 1) as f32;
        let (_, _, down) = self.next_cell();
        out[..RALLY_FEATURES].copy_from_slice(&[
            across(self.ball_x, WIDTH),
            across(self.ball_y, HEIGHT),
            sign(self.to_player),
            sign(down),
            across(self.player, HEIGHT - PADDLE + 1),
            across(self.computer, HEIGHT - PADDLE + 1),
            offset(self.player),
            offset(self.computer),
        ]);
    }

    /// Ball, the cell it flies to, and the paddles, in the first three planes.
    pub(crate) fn planes(&self, out: &mut [u8]) {
        let cell = |plane: usize, y: u8, x: usize| (plane * HEIGHT + y as usize) * WIDTH + x;
        out[cell(0, self.ball_y, self.ball_x.into())] = 255;
        let (x, y, _) = self.next_cell();
        out[cell(1, y, x.into())] = 255;
        for half in 0..PADDLE as u8 {
            out[cell(2, self.player + half, WIDTH - 1)] = 255;
            out[cell(2, self.computer + half, 0)] = 255;
        }
    }

    /// Ball and paddles at 6 × 7 pixels a cell, below the score lines.
    pub(crate) fn pixels(&self, out: &mut [u8]) {
        draw_cell(out, self.ball_y.into(), self.ball_x.into(), 255);
        for half in 0..PADDLE {
            draw_cell(out, self.player as usize + half, WIDTH - 1, 200);
            draw_cell(out, self.computer as usize + half, 0, 128);
        }
    }

    /// Ball and paddles in colour, on a board that was begun with [`start_board`].
    pub(crate) fn picture(&self, out: &mut Picture) {
        for row in 0..HEIGHT {
            let (left, top) = board_cell(row, WIDTH / 2);
            out.rectangle(left - 1, top + 3, 2, CELL - 6, [60, 70, 96]);
        }
        for half in 0..PADDLE {
            paint_cell(out, self.player as usize + half, WIDTH - 1, PLAYER);
            paint_cell(out, self.computer as usize + half, 0, COMPUTER);
        }
        let (left, top) = board_cell(self.ball_y.into(), self.ball_x.into());
        out.rectangle(left + 2, top + 2, CELL - 4, CELL - 4, [250, 250, 250]);
    }

    pub(crate) fn save(&self, out: &mut StateWriter) {
        out.u8(self.ball_x);
        out.u8(self.ball_y);
        out.bool(self.to_player);
        out.bool(self.down);
        out.u8(self.player);
        out.u8(self.computer);
    }

    pub(crate) fn restore(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        Ok(Rally {
            ball_x: checked("the ball's column", from.u8()?, 1..=WIDTH as u8 - 2)?,
            ball_y: checked("the ball's row", from.u8()?, 0..=HEIGHT as u8 - 1)?,
            to_player: from.bool()?,
            down: from.bool()?,
            player: checked("the player's paddle", from.u8()?, 0..=PADDLE_MAX)?,
            computer: checked("the computer's paddle", from.u8()?, 0..=PADDLE_MAX)?,
        })
    }
}

/// Draws one cell of the board into an 84×84 picture.
pub(crate) fn draw_cell(out: &mut [u8], row: usize, column: usize, value: u8) {
    const TOP: usize = PIXELS - 7 * HEIGHT;
    fill_rectangle(out, TOP + 7 * row, 6 * column, 7, 6, value);
}

/// Pixels of a cell's side in a picture.
const CELL: usize = 12;
/// Rows of a picture above the board.
const HEADER: usize = 16;
const PLAYER: Colour = [110, 220, 120];
const COMPUTER: Colour = [240, 150, 80];

/// Begins a picture of the board, with both scores above it: the computer's on the left, where its paddle is.
pub(crate) fn start_board(out: &mut Picture, board: Colour, player: u8, computer: u8) {
    let (width, height) = (WIDTH * CELL, HEIGHT * CELL);
    out.start(width, HEADER + height, [8, 10, 18]);
    out.rectangle(0, HEADER, width, height, board);
    out.centred_number((0, 0, width / 2, HEADER), computer.into(), COMPUTER);
    out.centred_number((width / 2, 0, width / 2, HEADER), player.into(), PLAYER);
}

/// Left and top of a cell in a picture.
fn board_cell(row: usize, column: usize) -> (usize, usize) {
    (column * CELL, HEADER + row * CELL)
}

/// Fills a cell of the board in a picture.
pub(crate) fn paint_cell(out: &mut Picture, row: usize, column: usize, colour: Colour) {
    let (left, top) = board_cell(row, column);
    out.rectangle(left, top, CELL, CELL, colour);
}

/// Points as a thermometer over the first (player) and last (computer) two rows of a plane.
pub(crate) fn score_plane(out: &mut [u8], player: u8, computer: u8) {
    out[..player as usize].fill(255);
    let start = (HEIGHT - 2) * WIDTH;
    out[start..start + computer as usize].fill(255);
}

/// Points as two lines of segments above the board.
pub(crate) fn score_pixels(out: &mut [u8], player: u8, computer: u8) {
    fill_rectangle(out, 1, 0, 4, 4 * player as usize, 200);
    fill_rectangle(out, 7, 0, 4, 4 * computer as usize, 128);
}

/// A game of Pong to 21 points.
pub(crate) struct Pong {
    /// Reward × 2^(player's score before the point).
    exponential: bool,
    rally: Rally,
    player_points: u8,
    computer_points: u8,
    steps: u32,
}

/// How often the computer's paddle follows the ball.
pub(crate) const PONG_FOLLOW: f64 = 0.75;
const TAG: u8 = 1;

impl Pong {
    pub(crate) fn new(exponential: bool) -> Self {
        let rally = Rally::new(Serve::nth(0));
        Pong { exponential, rally, player_points: 0, computer_points: 0, steps: 0 }
    }
}

impl Game for Pong {
    const VECTOR: usize = RALLY_FEATURES + GAME as usize + 3;
    const PLANES: Option<PlaneShape> = Some(PLANES);

    fn reset(&mut self, rng: &mut Stream) {
        *self = Pong::new(self.exponential);
        self.rally = Rally::new(Serve::draw(rng));
    }

    fn step(&mut self, action: usize, rng: &mut Stream) -> Step {
        self.steps += 1;
        let mut score = 0.0;
        let before = self.player_points;
        if let Some(winner) = self.rally.advance(action, rng.chance(PONG_FOLLOW)) {
            match winner {
                Winner::Player => (self.player_points, score) = (self.player_points + 1, 1.0),
                Winner::Computer => (self.computer_points, score) = (self.computer_points + 1, -1.0),
            }
            self.rally = Rally::new(Serve::draw(rng));
        }
        let factor = if self.exponential { f64::from(1u32 << before) } else { 1.0 };
        let terminated = self.player_points >= GAME || self.computer_points >= GAME;
        Step {
            reward: score * factor,
            score,
            player_score: self.player_points,
            terminated,
            truncated: !terminated && self.steps >= STEP_LIMIT,
            life_lost: false,
        }
    }

    fn features(&self, out: &mut [f32]) {
        self.rally.features(out);
        let (scores, rest) = out[RALLY_FEATURES..].split_at_mut(GAME as usize);
        if let Some(now) = scores.get_mut(self.player_points as usize) {
            *now = 1.0;
        }
        rest[0] = f32::from(self.computer_points) / f32::from(GAME);
        rest[1] = f32::from(u8::from(self.computer_points >= GAME / 3));
        rest[2] = f32::from(u8::from(self.computer_points >= GAME / 3 * 2));
    }

    fn planes(&self, out: &mut [u8]) {
        self.rally.planes(out);
        score_plane(&mut out[3 * HEIGHT * WIDTH..], self.player_points, self.computer_points);
    }

    fn pixels(&self, out: &mut [u8]) {
        self.rally.pixels(out);
        score_pixels(out, self.player_points, self.computer_points);
    }

    fn picture(&self, out: &mut Picture) {
        start_board(out, [24, 30, 48], self.player_points, self.computer_points);
        self.rally.picture(out);
    }

    fn save(&self, out: &mut StateWriter) {
        out.u8(TAG);
        self.rally.save(out);
        out.u8(self.player_points);
        out.u8(self.computer_points);
        out.u32(self.steps);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        check_tag(from, TAG, "Pong")?;
        let rally = Rally::restore(from)?;
        let player_points = checked("the player's score", from.u8()?, 0..=GAME)?;
        let computer_points = checked("the computer's score", from.u8()?, 0..=GAME)?;
        let steps = checked("the step count", from.u32()?, 0..=STEP_LIMIT)?;
        *self = Pong { exponential: self.exponential, rally, player_points, computer_points, steps };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    prop_compose! {
        fn any_rally()(
            ball_x in 1..WIDTH as u8 - 1,
            ball_y in 0..HEIGHT as u8,
            to_player: bool,
            down: bool,
            player in 0..=PADDLE_MAX,
            computer in 0..=PADDLE_MAX,
        ) -> Rally {
            Rally { ball_x, ball_y, to_player, down, player, computer }
        }
    }

    /// The player sees the board as the computer does in a mirror.
    fn mirrored(rally: Rally) -> Rally {
        Rally {
            ball_x: WIDTH as u8 - 1 - rally.ball_x,
            to_player: !rally.to_player,
            player: rally.computer,
            computer: rally.player,
            ..rally
        }
    }

    proptest! {
        #[test]
        fn the_ball_flies_diagonally_and_bounces(before in any_rally(), action in 0usize..3, follows: bool) {
            let mut after = before;
            let winner = after.advance(action, follows);
            prop_assert!(after.player <= PADDLE_MAX && after.player.abs_diff(before.player) <= 1);
            prop_assert!(after.computer <= PADDLE_MAX && after.computer.abs_diff(before.computer) <= 1);
            prop_assert!(follows || after.computer == before.computer);
            if let Some(winner) = winner {
                let edge = if winner == Winner::Player { 1 } else { WIDTH as u8 - 2 };
                prop_assert_eq!(before.ball_x, edge);
                prop_assert_eq!(before.to_player, winner == Winner::Computer);
                return Ok(());
            }
            prop_assert!((1..WIDTH as u8 - 1).contains(&after.ball_x) && (after.ball_y as usize) < HEIGHT);
            prop_assert_eq!(after.ball_y.abs_diff(before.ball_y), 1);
            if after.to_player == before.to_player {
                let forward = i16::from(after.ball_x) - i16::from(before.ball_x);
                prop_assert_eq!(forward, if before.to_player { 1 } else { -1 });
                prop_assert_eq!(after.down, after.ball_y > before.ball_y);
                let at_wall = before.ball_y == 0 || before.ball_y as usize == HEIGHT - 1;
                prop_assert!(at_wall || after.down == before.down, "only walls turn a free ball");
            } else {
                let paddle = if before.to_player { after.player } else { after.computer };
                prop_assert_eq!(after.ball_x, before.ball_x);
                prop_assert_eq!(after.ball_y - paddle, u8::from(after.down), "the half that is hit aims");
            }
        }

        #[test]
        fn both_sides_have_the_same_rules(before in any_rally()) {
            // Neither paddle moves: a mirrored rally must stay the mirror of the other.
            let (mut one, mut other) = (before, mirrored(before));
            for _ in 0..60 {
                let points = (one.advance(0, false), other.advance(0, false));
                match points {
                    (None, None) => prop_assert_eq!(one, mirrored(other)),
                    (Some(Winner::Player), Some(Winner::Computer)) => break,
                    (Some(Winner::Computer), Some(Winner::Player)) => break,
                    _ => prop_assert!(false, "{:?}", points),
                }
            }
        }
    }

    /// Everything that decides the future is seen: states that look alike are alike.
    #[test]
    fn observations_tell_states_apart() {
        let mut by_features = HashMap::new();
        let mut by_planes = HashMap::new();
        for n in 0..12 * HEIGHT * 4 * 81 {
            let rally = Rally {
                ball_x: 1 + (n % 12) as u8,
                ball_y: (n / 12 % HEIGHT) as u8,
                to_player: n / 120 % 2 == 1,
                down: n / 240 % 2 == 1,
                player: (n / 480 % 9) as u8,
                computer: (n / 4320) as u8,
            };
            // At a wall both directions mean the same.
            let meaning = Rally { down: rally.next_cell().2, ..rally };
            let mut features = [0.0; RALLY_FEATURES];
            rally.features(&mut features);
            assert_eq!(*by_features.entry(features.map(f32::to_bits)).or_insert(meaning), meaning);
            let mut planes = vec![0; 3 * HEIGHT * WIDTH];
            rally.planes(&mut planes);
            let lit: Vec<_> = (0..planes.len()).filter(|&i| planes[i] > 0).map(|i| i as u16).collect();
            assert_eq!(*by_planes.entry(lit).or_insert(meaning), meaning);
        }
    }

    #[test]
    fn exponential_rewards_double_with_each_own_point() {
        let mut rng = Stream::new(1, spectral_core::rng::Purpose::Other, 0);
        let winning = Rally { ball_x: 1, ball_y: 8, to_player: false, down: false, player: 4, computer: 0 };
        let losing = Rally { ball_x: 12, ball_y: 8, to_player: true, down: false, player: 0, computer: 4 };
        let mut game = Pong::new(true);
        for n in 0..GAME {
            game.rally = losing;
            let factor = f64::from(2u32.pow(n.into()));
            let lost = game.step(0, &mut rng);
            assert_eq!((lost.reward, lost.score, lost.player_score), (-factor, -1.0, n));
            game.computer_points = 0;
            game.rally = winning;
            let won = game.step(0, &mut rng);
            assert_eq!((won.reward, won.score, won.player_score), (factor, 1.0, n + 1));
            assert_eq!(won.terminated, n + 1 == GAME);
        }
        let mut plain = Pong::new(false);
        (plain.rally, plain.player_points) = (winning, 7);
        assert_eq!(plain.step(0, &mut rng).reward, 1.0);
    }
}
