//! Short films of play for the report: one for each task and agent, by its median seed.

use crate::commands::train::interrupt;
use crate::failure::Failure;
use crate::film::Film;
use spectral_env::Picture;
use spectral_report::stats::{final_score, median_place};
use spectral_report::{AgentRun, AgentStatus, Run};
use spectral_train::devices::DeviceChoice;
use spectral_train::eval::Player;
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

/// Makes the films that are not there yet, in `clips/` of each run directory: of each agent's median seed by final score,
/// which the report shows.
pub fn record(runs: &mut [Run], registry: &Registry) -> Result<(), Failure> {
    for (run, agent) in medians(runs) {
        if interrupt().is_cancelled() {
            return Ok(());
        }
        let Run { path, agents, .. } = &mut runs[run];
        film(path, &mut agents[agent], registry)?;
    }
    Ok(())
}

/// The number of a run, and of an agent within it.
type Place = (usize, usize);

/// Where the median seed of each agent on each task is. An agent without a finished seed has one of its others.
fn medians(runs: &[Run]) -> Vec<Place> {
    let mut groups: Vec<((&str, &str), Vec<Place>)> = Vec::new();
    for (r, run) in runs.iter().enumerate() {
        for (a, agent) in run.agents.iter().enumerate() {
            let key = (run.task.as_str(), agent.agent.as_str());
            match groups.iter_mut().find(|(other, _)| *other == key) {
                Some((_, places)) => places.push((r, a)),
                None => groups.push((key, vec![(r, a)])),
            }
        }
    }
    let agent = |(r, a): Place| &runs[r].agents[a];
    let median = |places: Vec<Place>| {
        let finished = |place: &Place| agent(*place).status == AgentStatus::Finished;
        let of_all = !places.iter().any(finished);
        let mut places: Vec<_> = places.into_iter().filter(|place| of_all || finished(place)).collect();
        places.sort_by_key(|place| agent(*place).seed);
        let score = |place: &Place| final_score(&agent(*place).episodes, agent(*place).frames);
        let scores: Vec<Option<f64>> = places.iter().map(score).collect();
        median_place(&scores).map(|at| places[at])
    };
    groups.into_iter().filter_map(|(_, places)| median(places)).collect()
}

/// Films one agent, unless its film is newer than its model or its task has no picture.
fn film(run: &Path, agent: &mut AgentRun, registry: &Registry) -> Result<(), Failure> {
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
    agent.clip = Some(path);
    Ok(())
}
