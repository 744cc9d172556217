//! A task of your own, trained, resumed, measured and reported: `cargo run --release -p spectral-rl --example own_task`.
//!
//! *Double or nothing.* A stake of 1 lies on the table for eight turns. Each turn shows a coin with its odds. `play` doubles
//! the stake or loses it, `pass` waits for another coin, `bank` takes the stake home. What is still on the table after the
//! last turn is lost. The reward is what is banked: 1 to 128, so it grows with every good decision, and an agent that clips
//! rewards sees no reason to play at all.

use spectral_rl::prelude::*;

const TURNS: u8 = 8;
const ODDS: [f64; 3] = [0.2, 0.7, 0.95];
const BANK: usize = 0;
const PLAY: usize = 1;

/// The state of the game. A task holds no random numbers: the trainer hands it a stream at every step.
struct DoubleOrNothing {
    spec: TaskSpec,
    turns_left: u8,
    /// The stake is two to this power.
    doublings: u8,
    /// Which of [`ODDS`] the coin on show has.
    coin: u8,
}

impl DoubleOrNothing {
    fn new() -> Self {
        // Turns left and doublings as one-hot numbers (0 to 8 and 0 to 7), then the coin.
        let len = 2 * usize::from(TURNS) + 1 + ODDS.len();
        // TD errors are logged by the player's score (td_error.csv): here, by the size of the stake.
        let spec = TaskSpec {
            max_player_score: TURNS,
            ..TaskSpec::vector("double-or-nothing", len, &["bank", "play", "pass"])
        };
        DoubleOrNothing { spec, turns_left: TURNS, doublings: 0, coin: 0 }
    }

    fn stake(&self) -> f64 {
        f64::from(self.doublings).exp2()
    }
}

impl Env for DoubleOrNothing {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.turns_left = TURNS;
        self.doublings = 0;
        self.coin = rng.below(ODDS.len()) as u8;
    }

    fn step(&mut self, action: usize, rng: &mut Stream) -> Step {
        let lost = action == PLAY && !rng.chance(ODDS[usize::from(self.coin)]);
        let banked = if action == BANK { self.stake() } else { 0.0 };
        self.turns_left -= 1;
        self.doublings += u8::from(action == PLAY && !lost);
        self.coin = rng.below(ODDS.len()) as u8;
        Step {
            reward: banked,
            score: banked,
            player_score: self.doublings,
            // The turns are part of the observation, so running out of them is an end and not a time-out.
            terminated: lost || action == BANK || self.turns_left == 0,
            ..Step::default()
        }
    }

    fn observe(&self, out: Observation<'_>) {
        let out = out.vector();
        out.fill(0.0);
        out[usize::from(self.turns_left)] = 1.0;
        // Eight doublings end the episode, so a state that is acted in has at most seven.
        let turns = usize::from(TURNS);
        out[turns + 1 + usize::from(self.doublings).min(turns - 1)] = 1.0;
        out[2 * turns + 1 + usize::from(self.coin)] = 1.0;
    }

    /// Optional, as `restore` is: with both, a run that was killed goes on bit for bit.
    fn save(&self, out: &mut StateWriter) {
        out.u8(self.turns_left);
        out.u8(self.doublings);
        out.u8(self.coin);
    }

    /// A checkpoint is input like any other: what the rules cannot reach is refused, not believed.
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let (turns_left, doublings, coin) = (from.u8()?, from.u8()?, from.u8()?);
        if turns_left > TURNS || doublings > TURNS - turns_left || usize::from(coin) >= ODDS.len() {
            return Err(StateError(format!("no game is in state {turns_left}/{doublings}/{coin}")));
        }
        (self.turns_left, self.doublings, self.coin) = (turns_left, doublings, coin);
        Ok(())
    }
}

/// Mean score of the best possible play and of random play. Both are proportional to the stake, so the turns left are all
/// that a table would need.
fn best_and_random() -> (f64, f64) {
    let (mut best, mut random) = (0.0, 0.0);
    for _ in 0..TURNS {
        let mean =
            |value: &dyn Fn(f64) -> f64| ODDS.iter().map(|&p| value(p)).sum::<f64>() / ODDS.len() as f64;
        (best, random) = (
            mean(&|p| f64::max(1.0, f64::max(2.0 * p * best, best))),
            mean(&|p| (1.0 + 2.0 * p * random + random) / 3.0),
        );
    }
    (best, random)
}

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("spectral-own-task-{}", std::process::id()));
    let train = |frames| {
        Run::new("double-or-nothing", DoubleOrNothing::new)
            .agents(["spectral", "clipped"])
            .seeds(1..=2)
            .set(|s| (s.learning_starts, s.update_period) = (200, 1))
            .set(|s| (s.target_period, s.epsilon_frames) = (200, 3_000))
            .frames(frames)
            .dir(folder.join("run"))
            .train()
    };
    train(3_000)?;
    let run = train(6_000)?; // The same folder and more frames: it goes on from its checkpoint.
    for agent in run.agents() {
        println!("{agent:<14}{:>6.2}   mean of 2000 episodes", agent.evaluate(2_000)?.mean());
    }
    println!("best and random play: {:.2?}; report in {}", best_and_random(), folder.display());
    run.report(folder.join("report"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_task_goes_on_bit_for_bit() {
        let stream = |step| Stream::new(3, Purpose::Environment, step);
        let mut task = DoubleOrNothing::new();
        task.reset(&mut stream(0));
        for step in 1..2000 {
            let mut state = StateWriter::default();
            task.save(&mut state);
            let state = state.into_bytes();
            let mut copy = DoubleOrNothing::new();
            copy.restore(&mut StateReader::new(&state)).unwrap();
            let action = stream(step).below(3);
            let result = task.step(action, &mut stream(step));
            assert_eq!(result, copy.step(action, &mut stream(step)));
            assert_eq!(
                (task.turns_left, task.doublings, task.coin),
                (copy.turns_left, copy.doublings, copy.coin)
            );
            if result.terminated {
                task.reset(&mut stream(step));
            }
        }
        assert!(
            task.restore(&mut StateReader::new(&[8, 1, 0])).is_err(),
            "no doubling before the first turn"
        );
    }

    #[test]
    fn random_play_is_worth_what_the_formula_says() {
        let mut rng = Stream::new(1, Purpose::Other, 0);
        let mut task = DoubleOrNothing::new();
        let (mut sum, episodes) = (0.0, 200_000);
        for _ in 0..episodes {
            task.reset(&mut rng);
            loop {
                let action = rng.below(3);
                let step = task.step(action, &mut rng);
                sum += step.score;
                if step.terminated {
                    break;
                }
            }
        }
        let (best, random) = best_and_random();
        assert!((sum / f64::from(episodes) - random).abs() < 0.02 && best > 5.0 * random);
    }
}
