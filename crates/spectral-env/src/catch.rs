//! Catch: a ball falls down a board of 10 × 5 and a paddle must be below it; every reward is multiplied by one
//! constant. The reward scale differs between runs, not within one.

use crate::env::Step;
use crate::game::{Game, PlaneShape, check_tag, checked, fill_rectangle};
use crate::picture::Picture;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::rng::Stream;

/// What the actions are called.
pub(crate) const ACTIONS: [&str; 3] = ["left", "stay", "right"];
const ROWS: usize = 10;
const COLUMNS: usize = 5;
const TAG: u8 = 4;

/// A game of Catch.
pub(crate) struct Catch {
    scale: f64,
    ball_row: u8,
    ball_column: u8,
    paddle: u8,
}

impl Catch {
    pub(crate) fn new(scale: f64) -> Self {
        Catch { scale, ball_row: 0, ball_column: 0, paddle: COLUMNS as u8 / 2 }
    }

    fn cells(&self) -> [usize; 2] {
        let ball = self.ball_row as usize * COLUMNS + self.ball_column as usize;
        [ball, (ROWS - 1) * COLUMNS + self.paddle as usize]
    }
}

impl Game for Catch {
    const VECTOR: usize = ROWS * COLUMNS;
    const PLANES: Option<PlaneShape> = Some((2, ROWS, COLUMNS));

    fn reset(&mut self, rng: &mut Stream) {
        *self = Catch::new(self.scale);
        self.ball_column = rng.below(COLUMNS) as u8;
    }

    fn step(&mut self, action: usize, _rng: &mut Stream) -> Step {
        self.paddle = match action {
            0 => self.paddle.saturating_sub(1),
            2 => (self.paddle + 1).min(COLUMNS as u8 - 1),
            _ => self.paddle,
        };
        self.ball_row = (self.ball_row + 1).min(ROWS as u8 - 1);
        let terminated = self.ball_row as usize == ROWS - 1;
        let caught = self.ball_column == self.paddle;
        let score = if !terminated {
            0.0
        } else if caught {
            1.0
        } else {
            -1.0
        };
        Step { reward: score * self.scale, score, terminated, ..Step::default() }
    }

    fn features(&self, out: &mut [f32]) {
        for cell in self.cells() {
            out[cell] = 1.0;
        }
    }

    fn planes(&self, out: &mut [u8]) {
        for (plane, cell) in self.cells().into_iter().enumerate() {
            out[plane * ROWS * COLUMNS + cell] = 255;
        }
    }

    fn pixels(&self, out: &mut [u8]) {
        for (cell, grey) in self.cells().into_iter().zip([255, 160]) {
            fill_rectangle(out, 2 + cell / COLUMNS * 8, 2 + cell % COLUMNS * 16, 8, 16, grey);
        }
    }

    fn picture(&self, out: &mut Picture) {
        const CELL: usize = 16;
        out.start(COLUMNS * CELL, ROWS * CELL, [16, 20, 36]);
        let [ball, paddle] = self.cells();
        let corner = |cell: usize| (cell % COLUMNS * CELL, cell / COLUMNS * CELL);
        let (left, top) = corner(paddle);
        let caught = ball == paddle;
        let colour = if caught { [110, 220, 120] } else { [80, 160, 240] };
        out.rectangle(left, top + CELL / 2, CELL, CELL / 2, colour);
        let (left, top) = corner(ball);
        // A ball that was caught rests on the paddle.
        let top = if caught { top } else { top + 3 };
        out.rectangle(left + 4, top, 8, 8, [250, 210, 70]);
    }

    fn save(&self, out: &mut StateWriter) {
        out.u8(TAG);
        out.u8(self.ball_row);
        out.u8(self.ball_column);
        out.u8(self.paddle);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        check_tag(from, TAG, "Catch")?;
        *self = Catch {
            scale: self.scale,
            ball_row: checked("the ball's row", from.u8()?, 0..=ROWS as u8 - 1)?,
            ball_column: checked("the ball's column", from.u8()?, 0..=COLUMNS as u8 - 1)?,
            paddle: checked("the paddle's column", from.u8()?, 0..=COLUMNS as u8 - 1)?,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spectral_core::rng::Purpose;

    /// Plays one episode by following the ball or by standing still.
    fn play(scale: f64, seed: u64, follow: bool) -> (f64, f64, u32) {
        let mut rng = Stream::new(seed, Purpose::Other, 0);
        let mut game = Catch::new(scale);
        game.reset(&mut rng);
        for length in 1.. {
            let action = if follow { 1 + usize::from(game.ball_column > game.paddle) } else { 1 };
            let action = if follow && game.ball_column < game.paddle { 0 } else { action };
            let step = game.step(action, &mut rng);
            if step.terminated {
                return (step.reward, step.score, length);
            }
            assert_eq!(step.reward, 0.0);
        }
        unreachable!("the loop above has no other end")
    }

    #[test]
    fn catches_and_misses() {
        let mut seen = [false; 2];
        for seed in 0..40 {
            assert_eq!(play(30.0, seed, true), (30.0, 1.0, 9));
            let (reward, score, _) = play(0.001, seed, false);
            assert_eq!(reward, score * 0.001);
            seen[usize::from(score > 0.0)] = true;
        }
        assert_eq!(seen, [true; 2], "standing still catches some and misses some");
    }
}
