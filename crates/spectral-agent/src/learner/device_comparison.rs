//! The device code against the learner: the same random life, step by step, and every number that the kernels write.
//!
//! The networks are the learner's own: their outputs are handed to the kernels, so that what is compared is replay, codecs,
//! gradients, statistics, diagnostics and counters. It lies within the learner, whose phases it runs one by one;
//! [`testing`](crate::testing) is what others see of it.

mod twin;
mod update;

use super::*;
use crate::gpu::abi::{self, Staged};
use crate::gpu::source::{Extras, Shape, Source, build};
use crate::testing::{Comparison, Emulator, Runner, Unavailable, Variant};
use spectral_core::bytes::{StateReader, StateWriter};
use spectral_nn::Samples;
use std::ffi::c_void;
use twin::Twin;

const BATCH: usize = 8;
const N_STEP: usize = 3;
const ACTIONS: usize = 3;
/// Where legal actions are told: more than fit a byte.
const MASKED_ACTIONS: usize = 11;
const CAPACITY: usize = 40;
const HIDDEN: usize = 6;

/// Steps of a life; threads that wait for each other take their time.
const STEPS: usize = 122;
const STEPS_IN_TEAMS: usize = 50;

/// Returns with the text as the error unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}
use ensure;

/// Compares a group of agents over one life; if it is `masked`, the task says which actions are legal.
pub(crate) fn compare(
    agents: &[Variant],
    observation: ObservationSpec,
    masked: bool,
    runner: Runner,
) -> Result<Comparison, Unavailable> {
    let steps = if runner == Runner::Teams { STEPS_IN_TEAMS } else { STEPS };
    let mut life = Life::new(agents, task(observation, masked), runner)?;
    life.live(steps)?;
    let learning = life.learned.iter().filter(|&&updates| updates > 0).count();
    if learning < life.learners.len() {
        return Err(Unavailable::Failed(format!(
            "only {learning} agents of {} learned",
            life.learners.len()
        )));
    }
    Ok(Comparison::Agreed { steps, updates: life.learned.iter().sum() })
}

fn task(observation: ObservationSpec, masked: bool) -> TaskSpec {
    let actions = if masked { MASKED_ACTIONS } else { ACTIONS };
    TaskSpec {
        name: "test".into(),
        observation,
        actions: (0..actions).map(|a| a.to_string()).collect(),
        frames_per_step: 1,
        max_player_score: 3,
        masks_actions: masked,
    }
}

/// A learner whose outputs are of every kind, and whose target outputs differ from the online ones. With `untouched` it keeps
/// the weights that it begins with.
fn learner(
    (_, settings, codec): &Variant,
    task: &TaskSpec,
    seed: u64,
    untouched: bool,
) -> Result<Learner, String> {
    let settings = AgentSettings {
        batch: BATCH,
        n_step: N_STEP,
        replay: CAPACITY,
        network: NetworkKind::Mlp,
        hidden: HIDDEN.to_string(),
        learning_rate: 1e-3,
        ..settings.clone()
    };
    let made = Learner::new(settings, codec.clone(), task, seed);
    let mut learner = made.map_err(|e| e.to_string())?;
    let mut rng = Stream::new(seed, Purpose::Other, 77);
    for which in [Which::Online, Which::Target].into_iter().filter(|_| !untouched) {
        learner.network.parameters_mut(which, 0).fill_with(|| rng.unit_f32() - 0.5);
    }
    Ok(learner)
}

/// Numbers that may differ by a share of themselves and of the largest among them; a share of 0 asks for equality.
fn same(tolerance: f64, what: &str, got: &[f64], want: &[f64]) -> Result<(), String> {
    ensure!(got.len() == want.len(), "{what}: {} numbers, not {}", got.len(), want.len());
    let size = want.iter().filter(|w| w.is_finite()).fold(0.0f64, |size, w| size.max(w.abs()));
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let close = (g - w).abs() <= tolerance * (w.abs() + 0.1 * size);
        let equal = g == w || (g.is_nan() && w.is_nan()) || close;
        ensure!(equal, "{what}: element {i} is {g} on the device, {w} in the learner");
    }
    Ok(())
}

/// A network's outputs as the last layer leaves them: those of dueling streams are not joined yet.
fn device_outputs(network: &mut Network<Cpu>, which: Which, samples: Samples<'_>, batch: usize) -> Vec<f32> {
    let joined = network.forward(which, samples, batch).to_vec();
    network.streams(batch).map_or(joined, <[f32]>::to_vec)
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}

fn pointer<T>(buffer: &mut [T]) -> *mut c_void {
    buffer.as_mut_ptr().cast()
}

/// Everything that a submission passes around.
struct Life {
    emulator: Emulator,
    task: TaskSpec,
    observation: ObservationSpec,
    pitch: usize,
    source: Source,
    extras: Extras,
    names: Vec<String>,
    learners: Vec<Learner>,
    twins: Vec<Twin>,
    agents: &'static mut [abi::Agent],
    staged: &'static mut [Staged],
    rows: &'static mut [u64],
    acting: &'static mut [u32],
    input: &'static mut [u32],
    tolerance: f64,
    rng: Stream,
    /// Updates compared, by agent.
    learned: Vec<usize>,
    /// What the host has staged, observations as words.
    staging: &'static mut [Staged],
    seen: &'static mut [u32],
    observations: &'static mut [u32],
    /// The last outcomes came alone: none is left to be told.
    settled: bool,
}

impl Life {
    fn new(variants: &[Variant], task: TaskSpec, runner: Runner) -> Result<Life, Unavailable> {
        let (observation, actions) = (task.observation, task.actions.len());
        let mut variants = variants.to_vec();
        if let [alone] = variants.as_slice() {
            variants.push(alone.clone());
        }
        // One agent whose last layer starts at zero keeps its zeros, so that all actions are equally good; not the only one.
        let zeros = |&p: &usize| variants[p].2.zero_init();
        let untouched = (0..variants.len()).filter(zeros).skip(1).last();
        let learners = variants.iter().enumerate();
        let learners = learners
            .map(|(p, variant)| learner(variant, &task, 3 + p as u64, untouched == Some(p)))
            .collect::<Result<Vec<Learner>, String>>()?;
        let widest = learners.iter().map(|l| l.codec.outputs()).max();
        let extras = Extras::of(learners.iter().map(|l| (&l.settings, l.codec.as_ref())));
        let streams = usize::from(extras.dueling);
        let pitch =
            5 + (actions + streams) * widest.ok_or_else(|| "a group needs at least one agent".to_string())?;
        let shape = Shape {
            batch: BATCH,
            n_step: N_STEP,
            actions,
            observation,
            head_at: learners[0].network.last_layer_at(),
            head_in: HIDDEN * (1 + streams),
            pitch,
            mask_bytes: task.mask_bytes(),
            extras,
        };
        let codecs: Vec<&dyn Codec> = learners.iter().map(|l| l.codec.as_ref()).collect();
        let source = build(&shape, &codecs).map_err(|e| e.to_string())?;
        let emulator = runner.start(&source.text)?;
        let mut twins: Vec<Twin> = learners
            .iter()
            .zip(&source.constants)
            .map(|(learner, constants)| Twin::new(&emulator, learner, constants, task.mask_bytes()))
            .collect();
        let agents = twins.iter_mut().zip(&learners).zip(&source.kinds);
        let agents = agents.map(|((twin, learner), &kind)| twin.agent(learner, kind)).collect();
        let agents = emulator.buffer(agents);
        let population = learners.len();
        // Words: enough for bytes, exactly as many as there are floats.
        let stacked = observation.len() * observation.stack();
        Ok(Life {
            task,
            observation,
            pitch,
            twins,
            agents,
            staged: emulator.buffer(vec![Staged::default(); population]),
            rows: emulator.buffer(vec![0; population * BATCH * abi::row_bytes(N_STEP) / 8]),
            acting: emulator.buffer(vec![0; population * stacked]),
            input: emulator.buffer(vec![0; 2 * population * BATCH * stacked]),
            tolerance: runner.tolerance(),
            rng: Stream::new(9, Purpose::Other, 5),
            learned: vec![0; population],
            staging: emulator.buffer(vec![Staged::default(); population]),
            seen: emulator.buffer(vec![0; population * observation.len()]),
            observations: emulator.buffer(vec![0; population * observation.len()]),
            settled: false,
            emulator,
            extras: shape.extras,
            source,
            names: variants.into_iter().map(|(name, ..)| name).collect(),
            learners,
        })
    }

    /// Compares numbers of agent p.
    fn same(&self, p: usize, what: &str, got: &[f64], want: &[f64]) -> Result<(), String> {
        same(self.tolerance, &format!("{}: {what}", self.names[p]), got, want)
    }

    /// Compares one stacked sample of the device, channel-last, with the learner's planes.
    fn check_stack(
        &self,
        what: &str,
        buffer: &[u32],
        sample: usize,
        (want, want_row): (&Observations, usize),
    ) -> Result<(), String> {
        let stacked = self.observation.len() * self.observation.stack();
        match (want, self.observation) {
            (Observations::Floats(want), _) => {
                let got = buffer[sample * stacked..][..stacked].iter().map(|&bits| f32::from_bits(bits));
                let equal = got.eq(want[want_row * stacked..][..stacked].iter().copied());
                ensure!(equal, "{what}: other numbers than in the learner");
            }
            (Observations::Bytes(want), ObservationSpec::Planes { channels, height, width, stack }) => {
                let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let (planes, area) = (stack * channels, height * width);
                for (i, &got) in bytes[sample * stacked..][..stacked].iter().enumerate() {
                    let (pixel, plane) = (i / planes, i % planes);
                    let want = want[want_row * stacked + plane * area + pixel];
                    ensure!(got == want, "{what}: byte {i} is {got} on the device, {want} in the learner");
                }
            }
            _ => unreachable!("stacks of bytes are planes"),
        }
        Ok(())
    }

    /// A random outcome of the step before: rewards of all sizes, the large ones later, ends and time-outs.
    fn outcome(&mut self, step: usize) -> Outcome {
        let rng = &mut self.rng;
        let sign = if rng.chance(0.4) { -1.0 } else { 1.0 };
        let reward =
            sign * [0.0, 0.0, 0.3, 1.0, 6.5, 63.0, 700.25, 3e4, 5e6][rng.below((3 + step / 12).min(9))];
        Outcome {
            action: rng.below(self.task.actions.len()) as u8,
            reward,
            terminal: rng.chance(0.1),
            truncated: rng.chance(0.15),
            player_score: [0, 1, 2, 3, 200][rng.below(5)],
        }
    }

    /// Stages which actions are legal in what an agent sees, if the task says so: few or many, never none.
    fn stage_legal(&mut self, p: usize) {
        if !self.task.masks_actions {
            return;
        }
        let (actions, rng) = (self.task.actions.len(), &mut self.rng);
        let mut legal = ActionMask::none();
        let share = rng.unit_f64();
        (0..actions).filter(|_| rng.chance(share)).for_each(|action| legal.allow(action));
        legal.allow(rng.below(actions));
        let seen = &mut self.twins[p].legal_seen;
        let bytes = seen.len();
        seen.copy_from_slice(&legal.to_bytes()[..bytes]);
    }

    /// Stages an outcome and an observation for everybody, and tells the learners the outcomes.
    fn stage(&mut self, step: usize) {
        for p in 0..self.learners.len() {
            let outcome = self.outcome(step);
            // Each agent sits out a step now and then.
            let active = (step + p) % 11 != 4;
            let first = self.learners[p].transitions() == 0 && step < 2 || self.settled;
            self.staging[p] = Staged {
                active: active.into(),
                has_outcome: (!first).into(),
                action: outcome.action.into(),
                flags: outcome.flags().into(),
                player_score: outcome.player_score.into(),
                reward: outcome.reward,
                sequence: 1 + step as u64,
            };
            if active && !first {
                self.learners[p].record(outcome);
            }
            self.stage_legal(p);
        }
        let vector = matches!(self.observation, ObservationSpec::Vector { .. });
        for word in self.seen.iter_mut() {
            *word = match vector {
                true => self.rng.unit_f32().to_bits(),
                false => u32::from_ne_bytes(std::array::from_fn(|_| self.rng.below(256) as u8)),
            };
        }
    }

    /// Has the device fetch what was staged: all of it, or the outcomes alone.
    fn fetch(&mut self, whole: bool) -> Result<(), String> {
        self.settled = !whole;
        let grid = [self.learners.len(), 1, 1];
        let (agents, from, seen) = (pointer(self.agents), pointer(self.staging), pointer(self.seen));
        let (to, observations) = (pointer(self.staged), pointer(self.observations));
        match whole {
            true => self.emulator.launch(
                "enter",
                grid,
                [agents, from, seen, to, observations, pointer(self.acting)],
            )?,
            false => self.emulator.launch("record", grid, [agents, from, seen, to, observations])?,
        }
        ensure!(self.staging == self.staged, "the device does not have what was staged");
        for ((twin, learner), name) in self.twins.iter().zip(&self.learners).zip(&self.names) {
            let (got, want) = (twin.counters().newest, learner.transitions());
            ensure!(got == want, "{name}: {got} records on the device, {want} in the learner");
        }
        Ok(())
    }

    fn act(&mut self) -> Result<(), String> {
        let (population, len) = (self.learners.len(), self.observation.len());
        let bytes: Vec<u8> = self.seen.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let floats: Vec<f32> = self.seen.iter().map(|&bits| f32::from_bits(bits)).collect();
        let outputs = self.emulator.buffer(vec![0.0f32; population * self.pitch]);
        let mut wanted = vec![None; population];
        for p in (0..population).filter(|&p| self.staged[p].active == 1) {
            let learner = &mut self.learners[p];
            match learner.observation() {
                Observation::Planes(to) => to.copy_from_slice(&bytes[p * len..][..len]),
                Observation::Vector(to) => to.copy_from_slice(&floats[p * len..][..len]),
            }
            learner.allow(&ActionMask::from_bytes(self.twins[p].legal_seen));
            wanted[p] = Some(learner.act());
            let current = learner.buffers.current.samples();
            let row = device_outputs(&mut learner.network, Which::Online, current, 1);
            outputs[p * self.pitch..][..row.len()].copy_from_slice(&row);
            let current = &self.learners[p].buffers.current;
            self.check_stack("the stack for acting", self.acting, p, (current, 0))?;
        }
        let decisions = self.emulator.buffer(vec![abi::Decision::default(); population]);
        let arguments = [pointer(self.agents), pointer(outputs), pointer(self.staged), pointer(decisions)];
        self.emulator.launch("choose", [population, 1, 1], arguments)?;
        for (p, (decision, wanted)) in decisions.iter().zip(wanted).enumerate() {
            let (name, sequence) = (&self.names[p], self.staged[p].sequence);
            ensure!(
                decision.sequence == sequence,
                "{name}: decision {} answers {sequence}",
                decision.sequence
            );
            let Some(action) = wanted else { continue };
            let (got, want) = ((decision.action, decision.not_finite), (action as u64, 0));
            let as_good =
                got.1 == 0 && self.is_as_good(p, &outputs[p * self.pitch..], got.0 as usize, action);
            ensure!(
                got == want || as_good,
                "{name}: the decision (action, not finite) is {got:?}, not {want:?}"
            );
        }
        Ok(())
    }

    /// Whether an action is legal and, but for rounding, as good as the best one. Where sums are formed in another order,
    /// equally good actions may change places.
    fn is_as_good(&self, p: usize, outputs: &[f32], action: usize, best: usize) -> bool {
        let learner = &self.learners[p];
        let (codec, actions) = (learner.codec(), self.task.actions.len());
        let legal =
            !self.task.masks_actions || ActionMask::from_bytes(self.twins[p].legal_seen).allows(action);
        let decode = |outputs: &[f32]| codec.decode(outputs, &learner.online_state);
        let values: Vec<f32> = outputs.chunks_exact(codec.outputs()).take(actions).map(decode).collect();
        let scale = f64::from(values.iter().fold(0.0f32, |scale, value| scale.max(value.abs())));
        // Without rounding, and where nothing was learned yet, of equal values the first is the best.
        let rounds = self.tolerance * scale > 0.0;
        let apart = |action: usize| f64::from(values[best] - values[action]).abs();
        legal && rounds && action < actions && apart(action) <= self.tolerance * scale
    }

    fn refresh(&mut self) -> Result<(), String> {
        let grid = [2, self.learners.len(), 1];
        self.emulator.launch("refresh", grid, [pointer(self.agents), pointer(self.staged)])?;
        for p in 0..self.learners.len() {
            if self.staged[p].active == 1 {
                self.learners[p].refresh_target();
            }
            let (learner, twin) = (&self.learners[p], &self.twins[p]);
            let equal = twin.target == twin::parameters(learner, Which::Target);
            ensure!(equal, "{}: the target network is not the learner's", self.names[p]);
            self.same(p, "the frozen state", twin.frozen, &learner.frozen_state)?;
        }
        Ok(())
    }

    /// Compares what replay holds in the end.
    fn check_records(&mut self) -> Result<(), String> {
        for ((learner, twin), name) in self.learners.iter().zip(&self.twins).zip(&self.names) {
            let failed = |e: spectral_core::bytes::StateError| format!("{name}: {e}");
            let mut copy = Replay::of_task(&self.task, CAPACITY, N_STEP);
            let mut counters = StateWriter::default();
            learner.replay.save(&mut counters);
            copy.restore(&mut StateReader::new(&counters.into_bytes())).map_err(failed)?;
            let mut records = [&*twin.actions, &*twin.flags, &*twin.scores].concat();
            records.extend(twin.rewards.iter().flat_map(|r| r.to_le_bytes()));
            records.extend(&*twin.legal);
            records.extend(&*twin.bytes);
            records.extend(twin.floats.iter().flat_map(|x| x.to_le_bytes()));
            copy.read_range(0, CAPACITY as u64, &records).map_err(failed)?;
            let (first, count) = (learner.replay.oldest(), learner.replay.newest() - learner.replay.oldest());
            let (mut got, mut want) = (vec![], vec![]);
            copy.write_range(first, count, &mut got);
            learner.replay.write_range(first, count, &mut want);
            ensure!(got == want, "{name}: replay on the device is not the learner's");
        }
        Ok(())
    }

    fn live(&mut self, steps: usize) -> Result<(), String> {
        for step in 0..steps {
            self.stage(step);
            // Now and then no observation follows at once, as before a checkpoint.
            let whole = step % 6 != 1;
            self.fetch(whole)?;
            if whole {
                self.act()?;
            }
            if step % 4 == 3 {
                self.update(None)?;
            }
            if step % 24 == 15 {
                self.refresh()?;
            }
            if step == CAPACITY + 20 {
                for (learner, twin) in self.learners.iter_mut().zip(&mut self.twins) {
                    let floor = learner.transitions() - 12;
                    learner.forget_before(floor);
                    twin.counters[0].floor = floor;
                }
            }
        }
        self.check_records()?;
        self.update(Some(1))?;
        // Nothing moves an agent whose values are not finite, and the others go on.
        let before = *self.twins[1].counters();
        self.gather()?;
        ensure!(*self.twins[1].counters() == before, "an agent whose values are not finite moved");
        ensure!(
            self.twins[0].counters().learns == 1,
            "an agent stopped beside one whose values are not finite"
        );
        Ok(())
    }
}
