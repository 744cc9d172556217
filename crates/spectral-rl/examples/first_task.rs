//! The program of docs/TUTORIAL.md: a task of your own, trained and reported.

use spectral_rl::prelude::*;

struct Stop {
    spec: TaskSpec,
    stake: f64,
}

impl Stop {
    fn new() -> Self {
        // A name, how many numbers an agent sees, and the actions.
        Stop { spec: TaskSpec::vector("stop", 1, &["stop", "go on"]), stake: 1.0 }
    }
}

impl Env for Stop {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }

    /// Begins an episode.
    fn reset(&mut self, _rng: &mut Stream) {
        self.stake = 1.0;
    }

    /// Plays one action. All chance comes from `rng`, so that a seed decides a run.
    fn step(&mut self, action: usize, rng: &mut Stream) -> Step {
        if action == 1 && rng.chance(2.0 / 3.0) && self.stake < 1024.0 {
            self.stake *= 2.0;
            return Step::default();
        }
        let reward = if action == 0 { self.stake } else { 0.0 };
        Step { reward, score: reward, terminated: true, ..Step::default() }
    }

    /// Writes what an agent sees: numbers of order one.
    fn observe(&self, out: Observation<'_>) {
        out.vector()[0] = self.stake.log2() as f32 / 10.0;
    }
}

fn main() -> Result<()> {
    let run = Run::new("stop", Stop::new)
        .agents(["spectral", "popart", "clipped"])
        .seeds(1..=3)
        .set(|s| {
            s.learning_starts = 500;
            s.update_period = 1;
            s.epsilon_frames = 5_000;
        })
        .frames(20_000)
        .option("checkpoint_seconds", 2) // the default is 60
        .dir("runs/stop")
        .train()?;
    for agent in run.agents() {
        println!("{agent}: {:.2}", agent.evaluate(1_000)?.mean());
    }
    run.report("report")
}
