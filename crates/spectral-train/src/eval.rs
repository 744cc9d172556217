//! Playing with a trained model, without learning.

use crate::error::TrainError;
use crate::plan::{AgentPlan, Plan};
use crate::run_dir::RunDir;
use crate::store::{Container, StoreError};
use crate::workshop::Workshop;
use spectral_agent::learner::Learner;
use spectral_agent::replay::Outcome;
use spectral_core::bytes::StateReader;
use spectral_core::rng::{Purpose, Stream};

/// What an agent achieved over some episodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The agent's id.
    pub id: String,
    /// Plain score of each episode.
    pub scores: Vec<f64>,
    /// Raw return of each episode.
    pub returns: Vec<f64>,
}

/// Plays `episodes` episodes with the final model of one agent, acting at random with probability `epsilon`.
pub fn evaluate(
    dir: &RunDir,
    plan: &Plan,
    agent: &AgentPlan,
    workshop: &Workshop,
    episodes: u64,
    epsilon: f64,
) -> Result<Evaluation, TrainError> {
    let path = dir.agent(&agent.id).join("model.bin");
    let model = Container::open(&path).and_then(|c| c.section("model")).map_err(|e| match e {
        StoreError::NotFound { .. } => TrainError::Usage(format!(
            "{} has no model yet: finish the run with `spectral resume {}`",
            agent.id,
            dir.path().display()
        )),
        other => other.into(),
    })?;
    let mut env = workshop.task(plan)?;
    // The replay only has to hold the stack that is acted on.
    let mut settings = agent.settings.clone();
    settings.replay = settings.batch + settings.n_step + 8 + env.spec().observation.stack();
    settings.prioritised = false;
    let mut learner = Learner::new(settings, workshop.codec(agent)?, env.spec(), agent.seed)?;
    let mut from = StateReader::new(&model);
    learner.restore_model(&mut from).map_err(|e| StoreError::state(&path, &e))?;
    let mut result = Evaluation { id: agent.id.clone(), scores: vec![], returns: vec![] };
    // Resets and steps share one count, so that no two of them draw from the same stream.
    let mut draws = 0;
    let mut stream = || {
        draws += 1;
        Stream::new(agent.seed, Purpose::Evaluation, draws)
    };
    for _ in 0..episodes {
        env.reset(&mut stream());
        let (mut score, mut sum) = (0.0, 0.0);
        loop {
            let mut rng = stream();
            env.observe(learner.observation());
            let action =
                if rng.chance(epsilon) { rng.below(env.spec().actions.len()) } else { learner.act() };
            let step = env.step(action, &mut rng);
            score += step.score;
            sum += step.reward;
            let over = step.terminated || step.truncated;
            // A stack begins where it began in training: at an episode's start and, if the protocol says so, a life's.
            let life_over = step.life_lost && agent.settings.life_loss_terminal;
            learner.record(Outcome { terminal: over || life_over, ..Outcome::default() });
            if over {
                break;
            }
        }
        result.scores.push(score);
        result.returns.push(sum);
    }
    Ok(result)
}
