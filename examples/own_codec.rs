//! A value codec of your own against a built-in one: `cargo run --release -p spectral-rl-train --example own_codec`
//! (a number after `--` changes the frames per agent).
//!
//! The idea tried here: let the network learn asinh(value). It is linear around zero, logarithmic far out and, unlike the
//! built-in squashing functions, smooth in between. Everything else (replay, exploration, targets, optimiser, checkpoints,
//! metrics) is the learner's and the trainer's, and stays as it is.

use spectral_agent::codecs::{Codec, Rows};
use spectral_train::config::Configuration;
use spectral_train::error::TrainError;
use spectral_train::eval::evaluate;
use spectral_train::plan::AgentPlan;
use spectral_train::trainer::Trainer;
use spectral_train::workshop::Workshop;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Beyond this output (a value of about 10¹⁷) the inverse is cut off, so that no prediction overflows.
const LARGEST_OUTPUT: f32 = 40.0;

/// The network's single output per action is asinh of the action-value.
#[derive(Debug)]
struct Asinh;

impl Codec for Asinh {
    fn outputs(&self) -> usize {
        1
    }

    /// The state is saved with checkpoints and frozen with the target network. This codec needs none to work; it keeps the
    /// largest target met, to show how a statistic becomes a column of metrics.csv.
    fn init(&self) -> Vec<f64> {
        vec![0.0]
    }

    fn statistics(&self, state: &[f64]) -> Vec<(String, f64)> {
        vec![("largest_target".into(), state[0])]
    }

    /// Raw rewards add up to an n-step return; `factor` is the discount to the power of the step.
    fn encode_reward(&self, reward: f32, factor: f32, out: &mut [f32]) {
        out[0] += factor * reward;
    }

    /// What the learner compares actions by, in reward units.
    fn decode(&self, outputs: &[f32], _state: &[f64]) -> f32 {
        outputs[0].clamp(-LARGEST_OUTPUT, LARGEST_OUTPUT).sinh()
    }

    /// Bootstrapping happens in reward units; only the sum is squashed. `bootstrap` is 0 after a terminal state.
    fn target(&self, encoded: &[f32], bootstrap: f32, next: &[f32], frozen: &[f64], out: &mut [f32]) {
        out[0] = (encoded[0] + bootstrap * self.decode(next, frozen)).asinh();
    }

    /// Squared error; the hidden layers see the same gradient as the last one.
    fn gradient(&self, rows: &Rows<'_>, state: &mut [f64], gradients: &mut [f32], trunk: &mut [f32]) {
        for (g, (y, t)) in gradients.iter_mut().zip(rows.outputs.iter().zip(rows.targets)) {
            *g = y - t;
            state[0] = state[0].max(f64::from(t.sinh().abs()));
        }
        trunk.fill(1.0);
    }
}

fn main() -> Result<(), TrainError> {
    let workshop = Workshop::default().with_codec("asinh", |_settings| Arc::new(Asinh));
    let mut config = Configuration::default();
    for pair in [
        "task=pong-mini",
        "agents=compressed",
        "seeds=2",
        "epsilon_frames=2000",
        "learning_starts=500",
        "update_period=1",
    ] {
        config.set(pair)?;
    }
    // Frames per agent: a few thousand unless the command line says otherwise.
    config.add("frames", std::env::args().nth(1).unwrap_or_else(|| "6000".into()))?;
    let mut plan = config.plan()?;
    // The same seeds and settings once more, with our codec in place of the built-in one.
    let rivals: Vec<AgentPlan> = plan
        .agents
        .iter()
        .map(|agent| AgentPlan::new("asinh", "asinh", agent.seed, agent.settings.clone()))
        .collect();
    plan.agents.extend(rivals);

    let path = std::env::temp_dir().join(format!("spectral-own-codec-{}", std::process::id()));
    println!("training in {}", path.display());
    let mut trainer = Trainer::create(&path, plan, &workshop, "example own_codec")?;
    let outcome = trainer.run(&(), &AtomicBool::new(false))?;

    println!(
        "{} frames each, {:.1} s in all; scores run from -21 to 21",
        trainer.plan().frames,
        outcome.seconds
    );
    println!("{:<16}{:>18}{:>20}", "agent", "score in training", "score of 20 games");
    for (agent, progress) in trainer.plan().agents.iter().zip(&outcome.agents) {
        let games = evaluate(trainer.dir(), trainer.plan(), agent, &workshop, 20, 0.001)?;
        let mean = games.scores.iter().sum::<f64>() / games.scores.len() as f64;
        println!("{:<16}{:>18.1}{mean:>20.1}", agent.id, progress.score.unwrap_or(f64::NAN));
    }
    println!("two seeds and a short run show that it works, not which is better");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_its_own_target_gets_no_gradient() {
        let (codec, mut state) = (Asinh, Asinh.init());
        for value in [-1e6f32, -3.0, 0.0, 0.5, 2e4] {
            // A terminal transition whose reward is the value that the network predicts.
            let output = [value.asinh()];
            let (mut encoded, mut target) = ([0.0], [0.0]);
            codec.encode_reward(value, 1.0, &mut encoded);
            codec.target(&encoded, 0.0, &[f32::MAX], &state, &mut target);
            let (mut gradient, mut trunk) = ([1.0], [0.0]);
            let rows = Rows { outputs: &output, targets: &target, returns: &encoded, live: &[true] };
            codec.gradient(&rows, &mut state, &mut gradient, &mut trunk);
            assert_eq!((gradient[0], trunk[0]), (0.0, 1.0));
            assert!((codec.decode(&output, &state) - value).abs() <= 1e-5 * value.abs());
        }
        assert!((codec.statistics(&state)[0].1 - 1e6).abs() < 10.0);
    }
}
