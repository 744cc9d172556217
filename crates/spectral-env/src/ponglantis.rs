//! The Ponglantis family: Pong to 10 points against a strong opponent, then shooting with rewards about 1000 times
//! larger and one life; easier variants that divide the shooting rewards; and the phases in reverse.

use crate::env::Step;
use crate::game::{Game, PlaneShape, check_tag, checked};
use crate::picture::Picture;
use crate::pong::{
    self, GAME, HEIGHT, RALLY_FEATURES, Rally, STEP_LIMIT, Serve, WIDTH, Winner, draw_cell, paint_cell,
    score_pixels, score_plane, start_board,
};
use crate::shooting::{SHOOTING, Ships, Shooting};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::rng::Stream;

/// Own points that end the Pong phase.
pub(crate) const PONG_POINTS: u8 = 10;
/// How often the computer's paddle follows the ball: random play rarely gets to 10 points against it.
pub(crate) const PONGLANTIS_FOLLOW: f64 = 0.92;
const TAG: u8 = 2;
/// Cells over which the time since the last hit is drawn, from this row on.
const WAIT_ROW: usize = 4;

/// What distinguishes the members of the family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Variant {
    /// The shooting rewards that the player perceives are divided by this; the plain score is not.
    pub(crate) divisor: f64,
    /// Shooting first, then Pong.
    pub(crate) reverse: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Pong(Rally),
    Shooting(Shooting),
}

/// A game of the family.
pub(crate) struct Ponglantis {
    variant: Variant,
    phase: Phase,
    player_points: u8,
    computer_points: u8,
    shooting_steps: u16,
    steps: u32,
}

impl Ponglantis {
    pub(crate) fn new(variant: Variant) -> Self {
        let phase = Phase::Pong(Rally::new(Serve::nth(0)));
        Ponglantis { variant, phase, player_points: 0, computer_points: 0, shooting_steps: 0, steps: 0 }
    }

    fn start_pong(&mut self, rng: &mut Stream) {
        self.phase = Phase::Pong(Rally::new(Serve::draw(rng)));
    }

    fn start_shooting(&mut self, rng: &mut Stream) {
        self.phase = Phase::Shooting(Shooting::new(Ships::draw(&SHOOTING, rng)));
    }

    fn pong_step(&mut self, mut rally: Rally, action: usize, rng: &mut Stream) -> Step {
        let mut step = Step::default();
        let won = rally.advance(action, rng.chance(PONGLANTIS_FOLLOW));
        if let Some(winner) = won {
            rally = Rally::new(Serve::draw(rng));
            step.score = match winner {
                Winner::Player => 1.0,
                Winner::Computer => -1.0,
            };
            self.player_points += u8::from(winner == Winner::Player);
            self.computer_points += u8::from(winner == Winner::Computer);
        }
        self.phase = Phase::Pong(rally);
        step.reward = step.score;
        if self.player_points >= PONG_POINTS && !self.variant.reverse {
            self.start_shooting(rng);
        } else {
            step.terminated = self.player_points >= PONG_POINTS || self.computer_points >= GAME;
        }
        step
    }

    fn shooting_step(&mut self, mut shooting: Shooting, action: usize, rng: &mut Stream) -> Step {
        let shot = shooting.advance(&SHOOTING, action, Ships::draw(&SHOOTING, rng));
        self.phase = Phase::Shooting(shooting);
        self.shooting_steps += 1;
        let mut step =
            Step { reward: shot.reward / self.variant.divisor, score: shot.reward, ..Step::default() };
        let time_out = self.shooting_steps >= SHOOTING.limit;
        if self.variant.reverse {
            // The switch is no end, so no life is reported either.
            if shot.life_lost || time_out {
                self.start_pong(rng);
            }
        } else {
            step.terminated = shot.life_lost;
            step.life_lost = shot.life_lost;
            step.truncated = time_out && !shot.life_lost;
        }
        step
    }
}

impl Game for Ponglantis {
    const VECTOR: usize = RALLY_FEATURES + PONG_POINTS as usize + 14;
    const PLANES: Option<PlaneShape> = Some(pong::PLANES);

    fn reset(&mut self, rng: &mut Stream) {
        *self = Ponglantis::new(self.variant);
        if self.variant.reverse {
            self.start_shooting(rng);
        } else {
            self.start_pong(rng);
        }
    }

    fn step(&mut self, action: usize, rng: &mut Stream) -> Step {
        self.steps += 1;
        let mut step = match self.phase {
            Phase::Pong(rally) => self.pong_step(rally, action, rng),
            Phase::Shooting(shooting) => self.shooting_step(shooting, action, rng),
        };
        step.player_score = self.player_points;
        step.truncated |= !step.terminated && self.steps >= STEP_LIMIT;
        step
    }

    fn features(&self, out: &mut [f32]) {
        let flag = |truth: bool| f32::from(u8::from(truth));
        let (pong, shared) = out.split_at_mut(RALLY_FEATURES + PONG_POINTS as usize);
        shared[0] = f32::from(self.computer_points) / f32::from(GAME);
        shared[1] = flag(self.computer_points >= GAME / 3);
        shared[2] = flag(self.computer_points >= GAME / 3 * 2);
        match &self.phase {
            Phase::Pong(rally) => {
                rally.features(pong);
                if let Some(now) = pong[RALLY_FEATURES..].get_mut(self.player_points as usize) {
                    *now = 1.0;
                }
            }
            Phase::Shooting(Shooting { reload, since_hit, ships }) => {
                let ready = *reload == 0;
                let waited = f32::from(*since_hit) / f32::from(SHOOTING.patience);
                shared[3..].copy_from_slice(&[
                    1.0,
                    flag(ships.near),
                    flag(ships.far),
                    flag(ready),
                    f32::from(*reload) / f32::from(SHOOTING.reload),
                    waited,
                    flag(waited >= 0.25),
                    flag(waited >= 0.5),
                    flag(waited >= 0.75),
                    flag(ready && ships.near),
                    flag(ready && ships.far),
                ]);
            }
        }
    }

    fn planes(&self, out: &mut [u8]) {
        match &self.phase {
            Phase::Pong(rally) => rally.planes(out),
            Phase::Shooting(shooting) => {
                let plane = HEIGHT * WIDTH;
                shooting_picture(shooting, |row, column, part| {
                    let channel = match part {
                        Sprite::Ship => 0,
                        Sprite::Clock => 1,
                        Sprite::Gun => 2,
                    };
                    out[channel * plane + row * WIDTH + column] = 255;
                });
            }
        }
        score_plane(&mut out[3 * HEIGHT * WIDTH..], self.player_points, self.computer_points);
    }

    fn pixels(&self, out: &mut [u8]) {
        match &self.phase {
            Phase::Pong(rally) => rally.pixels(out),
            Phase::Shooting(shooting) => shooting_picture(shooting, |row, column, part| {
                let grey = match part {
                    Sprite::Ship => 255,
                    Sprite::Clock => 90,
                    Sprite::Gun => 200,
                };
                draw_cell(out, row, column, grey);
            }),
        }
        score_pixels(out, self.player_points, self.computer_points);
    }

    fn picture(&self, out: &mut Picture) {
        match &self.phase {
            Phase::Pong(rally) => {
                start_board(out, [24, 30, 48], self.player_points, self.computer_points);
                rally.picture(out);
            }
            Phase::Shooting(shooting) => {
                start_board(out, [20, 44, 84], self.player_points, self.computer_points);
                shooting_picture(shooting, |row, column, part| {
                    let colour = match part {
                        Sprite::Ship if row == 1 => [250, 210, 70],
                        Sprite::Ship => [190, 200, 210],
                        Sprite::Clock if row == HEIGHT - 1 => [150, 90, 200],
                        Sprite::Clock => [170, 60, 60],
                        Sprite::Gun => [110, 220, 120],
                    };
                    paint_cell(out, row, column, colour);
                });
            }
        }
    }

    fn save(&self, out: &mut StateWriter) {
        out.u8(TAG);
        match &self.phase {
            Phase::Pong(rally) => {
                out.bool(false);
                rally.save(out);
            }
            Phase::Shooting(shooting) => {
                out.bool(true);
                shooting.save(out);
            }
        }
        out.u8(self.player_points);
        out.u8(self.computer_points);
        out.u16(self.shooting_steps);
        out.u32(self.steps);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        check_tag(from, TAG, "Ponglantis")?;
        let phase = match from.bool()? {
            false => Phase::Pong(Rally::restore(from)?),
            true => Phase::Shooting(Shooting::restore(&SHOOTING, from)?),
        };
        *self = Ponglantis {
            variant: self.variant,
            phase,
            player_points: checked("the player's score", from.u8()?, 0..=PONG_POINTS)?,
            computer_points: checked("the computer's score", from.u8()?, 0..=GAME)?,
            shooting_steps: checked("the count of shooting steps", from.u16()?, 0..=SHOOTING.limit)?,
            steps: checked("the step count", from.u32()?, 0..=STEP_LIMIT)?,
        };
        Ok(())
    }
}

/// What a cell of the shooting phase's picture shows.
enum Sprite {
    Ship,
    Clock,
    Gun,
}

/// Ships in range, the gun, and two clocks: steps since the last hit (two rows) and steps to reload.
fn shooting_picture(shooting: &Shooting, mut draw: impl FnMut(usize, usize, Sprite)) {
    for column in 0..3 {
        if shooting.ships.far {
            draw(1, 10 + column, Sprite::Ship);
        }
        if shooting.ships.near {
            draw(7, 2 + column, Sprite::Ship);
        }
    }
    for cell in 0..shooting.since_hit as usize {
        draw(WAIT_ROW + cell / WIDTH, cell % WIDTH, Sprite::Clock);
    }
    for cell in 0..shooting.reload as usize {
        draw(HEIGHT - 1, cell, Sprite::Clock);
    }
    draw(HEIGHT - 1, WIDTH / 2, Sprite::Gun);
}

#[cfg(test)]
mod tests {
    use super::*;
    use spectral_core::rng::Purpose;
    use std::collections::HashSet;

    const FORWARD: Variant = Variant { divisor: 1.0, reverse: false };

    fn stream(step: u64) -> Stream {
        Stream::new(5, Purpose::Other, step)
    }

    /// A game in which the player is about to win a point: the ball is past the computer's paddle.
    fn about_to_score(variant: Variant, player_points: u8) -> Ponglantis {
        let mut game = Ponglantis::new(variant);
        let rally = Rally { ball_x: 1, ball_y: 8, to_player: false, down: false, player: 4, computer: 0 };
        (game.phase, game.player_points) = (Phase::Pong(rally), player_points);
        game
    }

    #[test]
    fn tenth_point_switches_without_an_end() {
        let mut game = about_to_score(FORWARD, PONG_POINTS - 1);
        let step = game.step(0, &mut stream(0));
        assert_eq!((step.reward, step.player_score), (1.0, PONG_POINTS));
        assert!(!step.terminated && !step.truncated && !step.life_lost);
        assert!(matches!(game.phase, Phase::Shooting(_)));
        // Holding fire loses the life after `patience` steps, and that is an end.
        for n in 1..=u64::from(SHOOTING.patience) {
            let step = game.step(0, &mut stream(n));
            assert_eq!(step.terminated, n == u64::from(SHOOTING.patience));
            assert_eq!(step.life_lost, step.terminated);
        }
    }

    /// Everything that decides the future is seen: no two states of the shooting phase look alike.
    #[test]
    fn observations_tell_shooting_states_apart() {
        let mut vectors = HashSet::new();
        let mut planes = HashSet::new();
        let mut pictures = HashSet::new();
        let mut states = 0;
        for reload in 0..=SHOOTING.reload {
            for since_hit in 0..SHOOTING.patience {
                for case in 0..Ships::CASES {
                    let (ships, _) = Ships::nth(&SHOOTING, case);
                    let mut game = Ponglantis::new(FORWARD);
                    game.phase = Phase::Shooting(Shooting { reload, since_hit, ships });
                    let mut features = vec![0.0; Ponglantis::VECTOR];
                    game.features(&mut features);
                    vectors.insert(features.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
                    let mut board = vec![0; 4 * HEIGHT * WIDTH];
                    game.planes(&mut board);
                    planes.insert(board);
                    let mut picture = vec![0; 84 * 84];
                    game.pixels(&mut picture);
                    pictures.insert(picture);
                    states += 1;
                }
            }
        }
        assert_eq!((vectors.len(), planes.len(), pictures.len()), (states, states, states));
    }

    #[test]
    fn computer_wins_at_21() {
        let mut game = Ponglantis::new(FORWARD);
        let rally = Rally { ball_x: 12, ball_y: 8, to_player: true, down: false, player: 0, computer: 4 };
        (game.phase, game.computer_points) = (Phase::Pong(rally), GAME - 1);
        let step = game.step(0, &mut stream(0));
        assert_eq!((step.reward, step.terminated, game.computer_points), (-1.0, true, GAME));
    }

    #[test]
    fn easier_variants_divide_the_reward_and_not_the_score() {
        for divisor in [1.0, 10.0, 100.0] {
            let mut game = Ponglantis::new(Variant { divisor, reverse: false });
            game.phase = Phase::Shooting(Shooting::new(Ships { near: true, far: true }));
            let far = game.step(crate::shooting::FIRE_FAR, &mut stream(0));
            assert_eq!((far.reward, far.score), (2000.0 / divisor, 2000.0));
            game.phase = Phase::Shooting(Shooting::new(Ships { near: true, far: false }));
            let near = game.step(crate::shooting::FIRE_NEAR, &mut stream(1));
            assert_eq!((near.reward, near.score), (100.0 / divisor, 100.0));
        }
    }

    #[test]
    fn reversed_phases() {
        let variant = Variant { divisor: 1.0, reverse: true };
        let mut game = Ponglantis::new(variant);
        game.reset(&mut stream(0));
        assert!(matches!(game.phase, Phase::Shooting(_)));
        for n in 1..=u64::from(SHOOTING.patience) {
            let step = game.step(0, &mut stream(n));
            assert!(!step.terminated && !step.truncated && !step.life_lost, "the switch is no end");
        }
        assert!(matches!(game.phase, Phase::Pong(_)));
        let step = about_to_score(variant, PONG_POINTS - 1).step(0, &mut stream(99));
        assert!(step.terminated && step.reward == 1.0, "ten points end the reversed game");
    }

    #[test]
    fn shooting_is_cut_off_at_its_limit() {
        let mut game = Ponglantis::new(FORWARD);
        for n in 1..=SHOOTING.limit {
            // A near ship always in range: fire whenever the gun is ready.
            let Shooting { reload, since_hit, .. } = match game.phase {
                Phase::Shooting(shooting) => shooting,
                Phase::Pong(_) => Shooting::new(Ships { near: true, far: false }),
            };
            game.phase =
                Phase::Shooting(Shooting { reload, since_hit, ships: Ships { near: true, far: false } });
            let step = game.step(crate::shooting::FIRE_NEAR, &mut stream(n.into()));
            assert_eq!((step.terminated, step.truncated), (false, n == SHOOTING.limit), "step {n}");
        }
    }
}
