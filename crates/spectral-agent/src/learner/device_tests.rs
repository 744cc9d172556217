//! The device code against the learner: the same random life, step by step, and every number that the kernels write.
//!
//! The networks are the learner's own: their outputs are handed to the kernels, so that what is compared is replay, codecs,
//! gradients, statistics, diagnostics and counters. With one lane and one thread nothing may differ by a bit.

mod twin;

use super::*;
use crate::codecs::{configure, test_variants};
use crate::gpu::abi::{self, RowHead, Staged};
use crate::gpu::emulator::Emulator;
use crate::gpu::source::{Shape, Source, build};
use spectral_core::bytes::{StateReader, StateWriter};
use std::ffi::c_void;
use twin::Twin;

const BATCH: usize = 8;
const N_STEP: usize = 3;
const ACTIONS: usize = 3;
const CAPACITY: usize = 40;
const HIDDEN: usize = 6;

/// Every codec, at defaults and at its main variants.
fn variants() -> Vec<String> {
    test_variants()
}

fn task(observation: ObservationSpec) -> TaskSpec {
    TaskSpec {
        name: "test".into(),
        observation,
        actions: (0..ACTIONS).map(|a| a.to_string()).collect(),
        frames_per_step: 1,
        max_player_score: 3,
    }
}

fn learner(pairs: &str, observation: ObservationSpec, seed: u64) -> Learner {
    let settings = AgentSettings {
        batch: BATCH,
        n_step: N_STEP,
        replay: CAPACITY,
        network: NetworkKind::Mlp,
        hidden: HIDDEN.to_string(),
        learning_rate: 1e-3,
        ..Default::default()
    };
    // Statistics that move fast, where there are any: a short life would hardly show them.
    let fast = format!("{pairs} statistics_rate=0.05");
    let (settings, codec) =
        configure(&fast, settings.clone()).or_else(|_| configure(pairs, settings)).unwrap();
    let mut learner = Learner::new(settings, codec, &task(observation), seed).unwrap();
    // Outputs of every head, and target outputs that differ from the online ones. One agent keeps its zeros, so that
    // all actions are equally good.
    let mut rng = Stream::new(seed, Purpose::Other, 77);
    for which in [Which::Online, Which::Target].into_iter().filter(|_| !pairs.contains("base=3")) {
        learner.network.parameters_mut(which, 0).fill_with(|| rng.unit_f32() - 0.5);
    }
    learner
}

/// Numbers that may differ by a share of themselves and of the largest among them; `same(0.0)` asks for equality.
fn same(tolerance: f64) -> impl Fn(&str, &[f64], &[f64]) {
    move |what, got, want| {
        assert_eq!(got.len(), want.len(), "{what}");
        let size = want.iter().filter(|w| w.is_finite()).fold(0.0f64, |size, w| size.max(w.abs()));
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            let close = (g - w).abs() <= tolerance * (w.abs() + 0.1 * size);
            assert!(g == w || (g.is_nan() && w.is_nan()) || close, "{what}: element {i} is {g}, not {w}");
        }
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}

/// Everything that a submission passes around.
struct Life {
    emulator: Emulator,
    observation: ObservationSpec,
    pitch: usize,
    source: Source,
    learners: Vec<Learner>,
    twins: Vec<Twin>,
    agents: &'static mut [abi::Agent],
    staged: &'static mut [Staged],
    rows: &'static mut [u64],
    acting: &'static mut [u32],
    input: &'static mut [u32],
    tolerance: f64,
    rng: Stream,
    learned: usize,
    /// What the host has staged, observations as words.
    staging: &'static mut [Staged],
    seen: &'static mut [u32],
    observations: &'static mut [u32],
    /// The last outcomes came alone: none is left to be told.
    settled: bool,
}

fn pointer<T>(buffer: &mut [T]) -> *mut c_void {
    buffer.as_mut_ptr().cast()
}

impl Life {
    fn new(
        observation: ObservationSpec,
        variants: &[impl AsRef<str>],
        compile: impl FnOnce(&str) -> Option<Emulator>,
        tolerance: f64,
    ) -> Option<Life> {
        let learners: Vec<Learner> = variants
            .iter()
            .zip(3..)
            .map(|(pairs, seed)| learner(pairs.as_ref(), observation, seed))
            .collect();
        let pitch = 5 + ACTIONS * learners.iter().map(|l| l.codec.outputs()).max()?;
        let head_at = learners[0].network.last_layer_at();
        let shape = Shape {
            batch: BATCH,
            n_step: N_STEP,
            actions: ACTIONS,
            observation,
            head_at,
            head_in: HIDDEN,
            pitch,
        };
        let source = build(&shape, &learners.iter().map(|l| l.codec.as_ref()).collect::<Vec<_>>()).unwrap();
        let emulator = compile(&source.text)?;
        let mut twins: Vec<Twin> = learners
            .iter()
            .zip(&source.constants)
            .map(|(learner, constants)| Twin::new(&emulator, learner, constants))
            .collect();
        let agents = twins.iter_mut().zip(&learners).zip(&source.kinds);
        let agents = agents.map(|((twin, learner), &kind)| twin.agent(learner, kind)).collect();
        let agents = emulator.buffer(agents);
        let population = learners.len();
        // Words: enough for bytes, exactly as many as there are floats.
        let stacked = observation.len() * observation.stack();
        Some(Life {
            observation,
            pitch,
            twins,
            agents,
            staged: emulator.buffer(vec![Staged::default(); population]),
            rows: emulator.buffer(vec![0; population * BATCH * abi::row_bytes(N_STEP) / 8]),
            acting: emulator.buffer(vec![0; population * stacked]),
            input: emulator.buffer(vec![0; 2 * population * BATCH * stacked]),
            tolerance,
            rng: Stream::new(9, Purpose::Other, 5),
            learned: 0,
            staging: emulator.buffer(vec![Staged::default(); population]),
            seen: emulator.buffer(vec![0; population * observation.len()]),
            observations: emulator.buffer(vec![0; population * observation.len()]),
            settled: false,
            emulator,
            source,
            learners,
        })
    }

    fn row(&self, agent: usize, row: usize) -> RowHead {
        let words = abi::row_bytes(N_STEP) / 8;
        let bytes: Vec<u8> = self.rows[(agent * BATCH + row) * words..][..size_of::<RowHead>() / 8]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        RowHead::from_bytes(&bytes).unwrap()
    }

    /// Compares one stacked sample of the device, channel-last, with the learner's planes.
    fn check_stack(&self, what: &str, buffer: &[u32], sample: usize, want: &Stacks, want_row: usize) {
        let stacked = self.observation.len() * self.observation.stack();
        match (want, self.observation) {
            (Stacks::Floats(want), _) => {
                let got = buffer[sample * stacked..][..stacked].iter().map(|&bits| f32::from_bits(bits));
                assert!(got.eq(want[want_row * stacked..][..stacked].iter().copied()), "{what}");
            }
            (Stacks::Bytes(want), ObservationSpec::Planes { channels, height, width, stack }) => {
                let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let (planes, area) = (stack * channels, height * width);
                for (i, &got) in bytes[sample * stacked..][..stacked].iter().enumerate() {
                    let (pixel, plane) = (i / planes, i % planes);
                    assert_eq!(got, want[want_row * stacked + plane * area + pixel], "{what}: byte {i}");
                }
            }
            _ => unreachable!(),
        }
    }

    /// A random outcome of the step before: rewards of all sizes, the large ones later, ends and time-outs.
    fn outcome(&mut self, step: usize) -> Outcome {
        let rng = &mut self.rng;
        let sign = if rng.chance(0.4) { -1.0 } else { 1.0 };
        let reward =
            sign * [0.0, 0.0, 0.3, 1.0, 6.5, 63.0, 700.25, 3e4, 5e6][rng.below((3 + step / 12).min(9))];
        Outcome {
            action: rng.below(ACTIONS) as u8,
            reward,
            terminal: rng.chance(0.1),
            truncated: rng.chance(0.15),
            player_score: [0, 1, 2, 3, 200][rng.below(5)],
        }
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
                flags: u64::from(outcome.terminal) * abi::TERMINAL
                    + u64::from(outcome.truncated) * abi::TRUNCATED,
                player_score: outcome.player_score.into(),
                reward: outcome.reward.into(),
                turn: 1 + step as u64,
            };
            if active && !first {
                self.learners[p].record(outcome);
            }
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
    fn fetch(&mut self, whole: bool) {
        self.settled = !whole;
        let grid = [self.learners.len(), 1, 1];
        let (agents, from, seen) = (pointer(self.agents), pointer(self.staging), pointer(self.seen));
        let (to, observations) = (pointer(self.staged), pointer(self.observations));
        match whole {
            true => self.emulator.launch(
                "enter",
                grid,
                [agents, from, seen, to, observations, pointer(self.acting)],
            ),
            false => self.emulator.launch("record", grid, [agents, from, seen, to, observations]),
        }
        assert!(self.staging == self.staged, "the device has what was staged");
        for (twin, learner) in self.twins.iter().zip(&self.learners) {
            assert_eq!(twin.counters().newest, learner.transitions());
        }
    }

    fn act(&mut self) {
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
            wanted[p] = Some(learner.act());
            let current = learner.buffers.current.samples();
            let row = learner.network.forward(Which::Online, current, 1);
            outputs[p * self.pitch..][..row.len()].copy_from_slice(row);
            self.check_stack("the stack for acting", self.acting, p, &self.learners[p].buffers.current, 0);
        }
        let decisions = self.emulator.buffer(vec![abi::Decision::default(); population]);
        let arguments = [pointer(self.agents), pointer(outputs), pointer(self.staged), pointer(decisions)];
        self.emulator.launch("choose", [population, 1, 1], arguments);
        for ((decision, wanted), staged) in decisions.iter().zip(wanted).zip(&*self.staged) {
            assert_eq!(decision.turn, staged.turn);
            assert!(wanted.is_none_or(|action| decision.action == action as u64 && decision.not_finite == 0));
        }
    }

    /// Outputs of the agents that learn, as the device's networks would leave them; garbage elsewhere.
    fn outputs(&mut self, which: Which) -> &'static mut [f32] {
        let all = self.emulator.buffer(vec![f32::NAN; self.learners.len() * BATCH * self.pitch]);
        for (p, learner) in
            self.learners.iter_mut().enumerate().filter(|(p, _)| self.twins[*p].counters().learns == 1)
        {
            let stacks = match which {
                Which::Online => &learner.buffers.states,
                Which::Target => &learner.buffers.next_states,
            };
            let width = ACTIONS * learner.codec.outputs();
            let outputs = learner.network.forward(which, stacks.samples(), BATCH);
            for (row, values) in outputs.chunks_exact(width).enumerate() {
                all[(p * BATCH + row) * self.pitch..][..width].copy_from_slice(values);
            }
        }
        all
    }

    /// One update on both sides. `poisoned` is an agent whose online outputs turn into something that is not finite.
    fn gather(&mut self) {
        self.gather_with(std::ptr::null_mut());
    }

    fn gather_with(&mut self, planes: *mut c_void) {
        let (agents, rows, staged) = (pointer(self.agents), pointer(self.rows), pointer(self.staged));
        let arguments = [agents, rows, staged, pointer(self.input), planes];
        self.emulator.launch("gather", [BATCH, 2, self.learners.len()], arguments);
    }

    /// Draws the same once more, by naming planes; every other agent's observations count as far away.
    fn check_planes(&mut self, learning: &[usize]) {
        let ObservationSpec::Planes { channels, height, width, stack } = self.observation else { return };
        let (planes, area, population) = (channels * stack, height * width, self.learners.len());
        let table = self.emulator.buffer(vec![1u64; 2 * population * BATCH * planes]);
        (0..population).for_each(|p| self.agents[p].far = p as u64 % 2);
        self.gather_with(pointer(table));
        let near = self.input.as_ptr_range();
        let near = near.start as u64..near.end as u64;
        for &p in learning {
            let b = &self.learners[p].buffers;
            for (set, stacks) in [&b.states, &b.next_states].into_iter().enumerate() {
                let Stacks::Bytes(want) = stacks else { unreachable!("planes are of bytes") };
                let first = (set * population + p) * BATCH * planes;
                for (i, plane) in want.chunks_exact(area).enumerate() {
                    let at = table[first + i];
                    if at == 0 {
                        assert!(plane.iter().all(|&byte| byte == 0), "a plane that is not there");
                        continue;
                    }
                    assert_eq!(near.contains(&at), p % 2 == 1, "what is far is brought near");
                    // SAFETY: a plane of this agent's ring or of the minibatch.
                    let got = unsafe { std::slice::from_raw_parts(at as *const u8, area) };
                    assert_eq!(got, plane, "plane {i} of agent {p}");
                }
            }
        }
        assert!(table[..BATCH * planes].iter().any(|&at| at != 1) || !learning.contains(&0));
    }

    fn update(&mut self, poisoned: Option<usize>) {
        let population = self.learners.len();
        let same = same(self.tolerance);
        self.gather();
        for p in 0..population {
            let learns = self.staged[p].active == 1 && self.learners[p].can_update();
            assert_eq!(self.twins[p].counters().learns, u64::from(learns));
            if learns {
                self.learners[p].draw();
                self.check_rows(p);
            }
        }
        let learning: Vec<usize> =
            (0..population).filter(|&p| self.twins[p].counters().learns == 1).collect();
        self.check_planes(&learning);
        let next = self.outputs(Which::Target);
        let (k, e) = (self.source.most_outputs, self.source.most_encoded);
        let targets = self.emulator.buffer(vec![7.0f32; population * BATCH * k]);
        let returns = self.emulator.buffer(vec![7.0f32; population * BATCH * e]);
        let arguments =
            [pointer(self.agents), pointer(self.rows), pointer(next), pointer(targets), pointer(returns)];
        self.emulator.launch("targets", [population, 1, 1], arguments);
        for &p in &learning {
            let (learner, twin) = (&mut self.learners[p], &self.twins[p]);
            learner.make_targets();
            learner.change_outputs();
            let (own_k, own_e) = (learner.codec.outputs(), learner.codec.encoded());
            for row in 0..BATCH {
                let got = &targets[(p * BATCH + row) * k..][..own_k];
                same("targets", &wide(got), &wide(&learner.buffers.targets[row * own_k..][..own_k]));
                let got = &returns[(p * BATCH + row) * e..][..own_e];
                same("returns", &wide(got), &wide(&learner.buffers.returns[row * own_e..][..own_e]));
            }
            same("the state before the forward pass", twin.live, &learner.live_state);
            same("the last layer", &wide(twin.online), &wide(learner.network.parameters(Which::Online, 0)));
        }
        let online = self.outputs(Which::Online);
        if let Some(p) = poisoned {
            online[p * BATCH * self.pitch..][..self.pitch].fill(f32::INFINITY);
        }
        let last = self.emulator.buffer(vec![7.0f32; online.len()]);
        let trunk = self.emulator.buffer(vec![7.0f32; online.len()]);
        let arguments = [
            pointer(self.agents),
            pointer(self.rows),
            pointer(online),
            pointer(targets),
            pointer(returns),
            pointer(last),
            pointer(trunk),
        ];
        self.emulator.launch("gradients", [population, 1, 1], arguments);
        for p in 0..population {
            let own = p * BATCH * self.pitch..(p + 1) * BATCH * self.pitch;
            let (last, trunk) = (&last[own.clone()], &trunk[own]);
            let updates = self.learners[p].updates;
            let counters = *self.twins[p].counters();
            if poisoned == Some(p) {
                assert_eq!(
                    (counters.not_finite, counters.learns, counters.updates),
                    (updates + 1, 0, updates)
                );
            } else if learning.contains(&p) {
                self.check_gradients(p, last, trunk);
                continue;
            }
            assert!(last.iter().chain(trunk).all(|&g| g == 0.0), "an agent that does not learn");
            assert_eq!(counters.updates, updates);
        }
        self.learned += learning.len();
    }

    fn check_rows(&self, p: usize) {
        let learner = &self.learners[p];
        let b = &learner.buffers;
        for row in 0..BATCH {
            let got = self.row(p, row);
            assert_eq!((got.index, got.action), (b.indices[row], b.actions[row] as u64));
            assert_eq!((got.live == 1, got.player_score), (b.live[row], b.scores[row].into()));
            assert_eq!(got.bootstrap, f64::from(b.bootstrap[row]));
            let population = self.learners.len();
            self.check_stack("a state", self.input, p * BATCH + row, &b.states, row);
            let sample = (population + p) * BATCH + row;
            self.check_stack("a next state", self.input, sample, &b.next_states, row);
        }
    }

    fn check_gradients(&mut self, p: usize, last: &[f32], trunk: &[f32]) {
        let same = same(self.tolerance);
        let (learner, twin) = (&mut self.learners[p], &mut self.twins[p]);
        assert!(learner.make_gradients().is_finite());
        let width = ACTIONS * learner.codec.outputs();
        for row in 0..BATCH {
            for (got, want) in [(last, &learner.buffers.last), (trunk, &learner.buffers.trunk)] {
                let got = &got[row * self.pitch..][..self.pitch];
                same("gradients", &wide(&got[..width]), &wide(&want[row * width..][..width]));
                assert!(got[width..].iter().all(|&g| g == 0.0));
            }
        }
        same("the codec's state", twin.live, &learner.live_state);
        same("the error's magnitude", &[twin.counters().error_magnitude], &[learner.error_magnitude]);
        let mut bytes = StateWriter::default();
        learner.diagnostics.save(&mut bytes);
        let bytes = bytes.into_bytes();
        let mut reader = StateReader::new(&bytes);
        let sums: Vec<f64> = (0..3).flat_map(|_| reader.f64s().unwrap()).collect();
        same("diagnostics", twin.sums, &sums);
        learner.descend();
        assert_eq!(twin.counters().updates, learner.updates);
        let t = learner.updates as f64;
        let correction = |beta: f64| 1.0 - f64::from(beta as f32).powf(t);
        let rate = f64::from(learner.settings.learning_rate as f32) / correction(learner.settings.adam_beta1);
        let root = 1.0 / correction(learner.settings.adam_beta2).sqrt();
        same("Adam", &[twin.counters().step_size, twin.counters().root_correction], &[rate, root]);
        twin.online.copy_from_slice(learner.network.parameters(Which::Online, 0));
    }

    fn refresh(&mut self) {
        let grid = [2, self.learners.len(), 1];
        self.emulator.launch("refresh", grid, [pointer(self.agents), pointer(self.staged)]);
        let same = same(self.tolerance);
        for (p, (learner, twin)) in self.learners.iter_mut().zip(&self.twins).enumerate() {
            if self.staged[p].active == 1 {
                learner.refresh_target();
            }
            assert_eq!(twin.target, learner.network.parameters(Which::Target, 0));
            same("the frozen state", twin.frozen, &learner.frozen_state);
        }
    }

    /// Compares what replay holds in the end.
    fn check_records(&mut self) {
        for (learner, twin) in self.learners.iter().zip(&self.twins) {
            let mut copy = Replay::new(self.observation, CAPACITY, N_STEP);
            let mut counters = StateWriter::default();
            learner.replay.save(&mut counters);
            copy.restore(&mut StateReader::new(&counters.into_bytes())).unwrap();
            let mut records = [&*twin.actions, &*twin.flags, &*twin.scores].concat();
            records.extend(twin.rewards.iter().flat_map(|r| r.to_le_bytes()));
            records.extend(&*twin.bytes);
            records.extend(twin.floats.iter().flat_map(|x| x.to_le_bytes()));
            copy.read_range(0, CAPACITY as u64, &records).unwrap();
            let (first, count) = (learner.replay.oldest(), learner.replay.newest() - learner.replay.oldest());
            let (mut got, mut want) = (vec![], vec![]);
            copy.write_range(first, count, &mut got);
            learner.replay.write_range(first, count, &mut want);
            assert_eq!(got, want);
        }
    }

    fn live(&mut self, steps: usize) {
        for step in 0..steps {
            self.stage(step);
            // Now and then no observation follows at once, as before a checkpoint.
            let whole = step % 6 != 1;
            self.fetch(whole);
            if whole {
                self.act();
            }
            if step % 4 == 3 {
                self.update(None);
            }
            if step % 24 == 15 {
                self.refresh();
            }
            if step == CAPACITY + 20 {
                for (learner, twin) in self.learners.iter_mut().zip(&mut self.twins) {
                    let floor = learner.transitions() - 12;
                    learner.forget_before(floor);
                    twin.counters[0].floor = floor;
                }
            }
        }
        self.check_records();
        self.update(Some(1));
        // Nothing moves an agent whose values are not finite, and the others go on.
        let before = *self.twins[1].counters();
        self.gather();
        assert_eq!(*self.twins[1].counters(), before);
        assert_eq!(self.twins[0].counters().learns, 1);
    }
}

/// One thread, so that every sum has the learner's order.
fn serial(text: &str) -> Option<Emulator> {
    Emulator::new(text, 1, 1)
}

/// Screens of four planes: the path that moves four pixels at a time.
#[test]
fn screens_agree_to_the_bit() {
    let screen = ObservationSpec::Planes { channels: 1, height: 6, width: 6, stack: 4 };
    let Some(mut life) = Life::new(screen, &variants(), serial, 0.0) else { return };
    life.live(122);
    assert!(life.learned > 200, "{} updates were compared", life.learned);
}

/// Boards of other depths: the general path.
#[test]
fn boards_agree_to_the_bit() {
    let board = ObservationSpec::Planes { channels: 3, height: 3, width: 5, stack: 2 };
    let Some(mut life) = Life::new(board, &["spectral", "popart"], serial, 0.0) else { return };
    life.live(122);
}

#[test]
fn vectors_agree_to_the_bit() {
    let vector = ObservationSpec::Vector { len: 5 };
    let Some(mut life) = Life::new(vector, &["compressed", "categorical"], serial, 0.0) else {
        return;
    };
    life.live(122);
}

/// Sixteen threads in teams of four, with real barriers: sums have another order, and nothing else may change.
#[test]
fn teams_of_threads_agree_but_for_rounding() {
    let screen = ObservationSpec::Planes { channels: 1, height: 6, width: 6, stack: 4 };
    let teams = |text: &str| Emulator::new(text, 4, 16);
    let Some(mut life) = Life::new(screen, &variants(), teams, 2e-5) else { return };
    life.live(50);
}

/// Sums and functions such as exp have other last bits there.
#[test]
fn a_gpu_agrees_but_for_rounding() {
    let screen = ObservationSpec::Planes { channels: 1, height: 6, width: 6, stack: 4 };
    let Some(mut life) = Life::new(screen, &variants(), Emulator::on_gpu, 1e-4) else { return };
    life.live(122);
}
