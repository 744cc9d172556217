//! A population on a CPU that takes its steps together: one call steps the tasks of all agents, and agents learn meanwhile.
//!
//! Tasks written in Python are trained this way. They run on the thread that trains, one call for all of them, while the
//! learners use the other cores. Each agent's steps are those of an agent alone: the same order, the same streams.

use crate::agent_run::AgentRun;
use crate::error::TrainError;
use crate::population::{AgentProgress, StepTaken, TICK, TrainSlice};
use rayon::ThreadPool;
use rayon::prelude::*;
use spectral_agent::learner::NotFinite;
use spectral_env::{StepTogether, Stream};
use std::time::Instant;

/// With fewer parameters than this, choosing an action is too short a task for another thread.
const PARALLEL_PARAMETERS: usize = 50_000;

/// How the current step of one agent stands.
struct Turn {
    /// Whether the agent takes part in it.
    plays: bool,
    action: usize,
    learned: Result<(), NotFinite>,
}

impl Turn {
    fn choose(&mut self, run: &mut AgentRun) {
        if self.plays {
            self.action = run.choose_action();
        }
    }
}

/// Trains until the checkpoint is due, all agents are done, or the user interrupts.
pub(crate) fn train(
    agents: &mut [AgentRun],
    mut stepper: Option<&mut (dyn StepTogether + 'static)>,
    pool: &ThreadPool,
    slice: TrainSlice<'_>,
) -> Result<(), TrainError> {
    let large = agents.iter().any(|agent| agent.learner.parameters() >= PARALLEL_PARAMETERS);
    let mut resets: Vec<(usize, Stream)> = Vec::with_capacity(agents.len());
    let mut actions: Vec<(usize, usize)> = Vec::with_capacity(agents.len());
    let mut taken: Vec<StepTaken> = Vec::with_capacity(agents.len());
    let turn = |_: &AgentRun| Turn { plays: false, action: 0, learned: Ok(()) };
    let mut turns: Vec<Turn> = agents.iter().map(turn).collect();
    let wants_steps = slice.observer.wants_steps();
    let mut told = Instant::now();
    let mut progress = Vec::new();
    while agents.iter().any(|agent| agent.actor.has_work(slice.frames)) && !slice.interrupted() {
        if !play_frozen(agents, slice, &mut told, &mut progress)? {
            break;
        }
        if let Some(stepper) = stepper.as_deref_mut() {
            let fresh = |(agent, run): (usize, &AgentRun)| {
                let needed = run.actor.is_active(slice.frames) && run.actor.needs_reset();
                (needed && stepper.is_ready(agent)).then(|| (agent, run.actor.reset_stream()))
            };
            resets.clear();
            resets.extend(agents.iter().enumerate().filter_map(fresh));
            if !resets.is_empty() {
                stepper.reset(&mut resets)?;
            }
        }
        let ready = |agent: usize| stepper.as_deref().is_none_or(|stepper| stepper.is_ready(agent));
        for (agent, (turn, run)) in turns.iter_mut().zip(agents.iter()).enumerate() {
            turn.plays = run.actor.is_active(slice.frames) && ready(agent);
        }
        match large {
            true => pool.install(|| {
                turns.par_iter_mut().zip(agents.par_iter_mut()).for_each(|(turn, run)| turn.choose(run));
            }),
            false => turns.iter_mut().zip(agents.iter_mut()).for_each(|(turn, run)| turn.choose(run)),
        }
        actions.clear();
        // An agent without a legal action is stopped below, when it is to play.
        let can_play = |run: &AgentRun| run.actor.legal().is_none_or(|legal| !legal.is_empty());
        let playing = turns.iter().zip(agents.iter()).enumerate();
        let playing = playing.filter(|(_, (turn, run))| turn.plays && can_play(run));
        actions.extend(playing.map(|(agent, (turn, _))| (agent, turn.action)));
        let stepped = pool.in_place_scope(|scope| {
            for (turn, run) in turns.iter_mut().zip(agents.iter_mut()) {
                if turn.plays && run.learning_due() {
                    scope.spawn(|_| turn.learned = run.learn());
                }
            }
            stepper.as_deref_mut().map_or(Ok(()), |stepper| stepper.step(&actions))
        });
        stepped?;
        taken.clear();
        for (agent, (turn, run)) in turns.iter_mut().zip(agents.iter_mut()).enumerate() {
            if !turn.plays {
                continue;
            }
            let action = turn.action;
            run.play(action, std::mem::replace(&mut turn.learned, Ok(())))?;
            run.evaluate_if_due(slice.frames);
            if wants_steps {
                taken.push(StepTaken {
                    agent,
                    frame: run.actor.frames(),
                    action,
                    step: *run.actor.last_step(),
                });
            }
        }
        if wants_steps {
            slice.observer.steps(&taken);
        }
        let now = Instant::now();
        if now.duration_since(told) >= TICK {
            told = now;
            agents.iter().for_each(AgentRun::give_model);
            progress.clear();
            progress.extend(agents.iter().map(|agent| AgentProgress::of(&agent.actor)));
            slice.observer.tick(&progress);
            if now >= slice.due {
                break;
            }
        }
    }
    progress.clear();
    progress.extend(agents.iter().map(|agent| AgentProgress::of(&agent.actor)));
    slice.observer.tick(&progress);
    Ok(())
}

/// Plays the frozen games that are due, one agent's after the other's. Returns false if the slice ended before they were over.
fn play_frozen(
    agents: &mut [AgentRun],
    slice: TrainSlice<'_>,
    told: &mut Instant,
    progress: &mut Vec<AgentProgress>,
) -> Result<bool, TrainError> {
    if agents.iter().all(|agent| agent.actor.evaluations_waiting() == 0) {
        return Ok(true);
    }
    progress.clear();
    progress.extend(agents.iter().map(|agent| AgentProgress::of(&agent.actor)));
    for agent in agents {
        let mut pause = || {
            let now = Instant::now();
            if now.duration_since(*told) >= TICK {
                *told = now;
                slice.observer.tick(progress);
            }
            slice.interrupted() || now >= slice.due
        };
        if !agent.play_frozen(&mut pause)? {
            return Ok(false);
        }
    }
    Ok(true)
}
