//! Short films of play for the report: one for each task and agent, by its first seed.

use crate::commands::train::interrupt;
use crate::failure::Failure;
use crate::film::Film;
use spectral_env::Picture;
use spectral_train::devices::DeviceChoice;
use spectral_train::eval::Player;
use spectral_train::experiment::{Experiment, RunIndex};
use spectral_train::plan::AgentPlan;
use spectral_train::registry::Registry;
use spectral_train::run_dir::RunDir;
use spectral_train::store::sweep_temporaries;
use std::ops::ControlFlow;
use std::path::Path;

/// Pictures of a film: a picture is a step.
const STEPS: u64 = 400;
/// Pictures a second: twice the speed of a real Atari.
const FPS: u32 = 30;
/// As `spectral play` has them by default.
const EPSILON: f64 = 0.001;
const SEED: u64 = 1;

/// Makes the films that are not there yet, in `clips/` of each run directory.
pub fn record(experiment: &Experiment, index: &RunIndex, registry: &Registry) -> Result<(), Failure> {
    for plan in &experiment.plans {
        let mut filmed: Vec<&str> = Vec::new();
        for agent in &plan.agents {
            if filmed.contains(&agent.agent.as_str()) {
                continue;
            }
            filmed.push(&agent.agent);
            let Some(run) = index.run_of(plan, agent) else { continue };
            if interrupt().is_cancelled() {
                return Ok(());
            }
            film(run, agent, registry)?;
        }
    }
    Ok(())
}

/// Films one agent, unless its film is newer than its model or its task has no picture.
fn film(run: &Path, agent: &AgentPlan, registry: &Registry) -> Result<(), Failure> {
    let (dir, file) = RunDir::open(run, registry)?;
    let folder = run.join("clips");
    let path = folder.join(format!("{}.gif", agent.id));
    let model = dir.model(&agent.id);
    let written = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
    let Some(trained) = written(&model) else { return Ok(()) };
    if written(&path).is_some_and(|filmed| filmed >= trained) {
        return Ok(());
    }
    let resolved = registry.resolve_plan(file.plan.with(|run| run.device = DeviceChoice::Cpu))?;
    let Some(number) = resolved.plan.agents.iter().position(|other| other.id == agent.id) else {
        return Ok(());
    };
    let mut env = resolved.make_task()?;
    let mut picture = Picture::default();
    if !env.picture(&mut picture) {
        return Ok(());
    }
    if folder.exists() {
        sweep_temporaries(&folder).map_err(spectral_train::error::TrainError::from)?;
    }
    let mut player = Player::trained(&dir, &resolved, number, EPSILON, SEED)?;
    // The film of a model that was trained further since.
    let _ = std::fs::remove_file(&path);
    let mut film = Film::begin(&path, FPS)?;
    let mut left = STEPS;
    while left > 0 {
        player.play(env.as_mut(), |env, _| {
            env.picture(&mut picture);
            film.add(&picture)?;
            left -= 1;
            let enough = left == 0;
            Ok::<_, Failure>(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    film.finish()?;
    Ok(())
}
