//! One update on both sides, and what it leaves.

use super::*;
use crate::gpu::abi::RowHead;
use spectral_nn::abi::from_bytes;

/// The gradients of dueling streams of which these are the gradients of the joined outputs `[action][k]`.
fn spread(joined: &[f32], k: usize) -> Vec<f32> {
    let actions = joined.len() / k;
    let value: Vec<f32> = (0..k).map(|i| joined[i..].iter().step_by(k).sum()).collect();
    let advantages = joined.iter().enumerate().map(|(at, g)| g - value[at % k] / actions as f32);
    value.iter().copied().chain(advantages).collect()
}

impl Life {
    fn row(&self, agent: usize, row: usize) -> RowHead {
        let words = abi::row_bytes(N_STEP) / 8;
        let bytes: Vec<u8> = self.rows[(agent * BATCH + row) * words..][..size_of::<RowHead>() / 8]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        from_bytes(&bytes).expect("as many bytes as there are")
    }

    /// Outputs of the agents that learn, as the device's networks would leave them, for the states or for the next ones; garbage
    /// elsewhere.
    fn outputs(&mut self, which: Which, next: bool) -> &'static mut [f32] {
        let all = self.emulator.buffer(vec![f32::NAN; self.learners.len() * BATCH * self.pitch]);
        for (p, learner) in
            self.learners.iter_mut().enumerate().filter(|(p, _)| self.twins[*p].counters().learns == 1)
        {
            let stacks = if next { &learner.buffers.next_states } else { &learner.buffers.states };
            let width = learner.network.architecture().head_outputs();
            let outputs = device_outputs(&mut learner.network, which, stacks.samples(), BATCH);
            for (row, values) in outputs.chunks_exact(width).enumerate() {
                all[(p * BATCH + row) * self.pitch..][..width].copy_from_slice(values);
            }
        }
        all
    }

    pub(super) fn gather(&mut self) -> Result<(), String> {
        self.gather_with(std::ptr::null_mut())
    }

    fn gather_with(&mut self, planes: *mut c_void) -> Result<(), String> {
        if self.extras.prioritised {
            let arguments = [pointer(self.agents), pointer(self.staged)];
            self.emulator.launch("draw", [self.learners.len(), 1, 1], arguments)?;
        }
        let (agents, rows, staged) = (pointer(self.agents), pointer(self.rows), pointer(self.staged));
        let arguments = [agents, rows, staged, pointer(self.input), planes];
        self.emulator.launch("gather", [BATCH, 2, self.learners.len()], arguments)
    }

    /// Draws the same once more, by naming planes; every other agent's observations count as far away.
    fn check_planes(&mut self, learning: &[usize]) -> Result<(), String> {
        let ObservationSpec::Planes { channels, height, width, stack } = self.observation else {
            return Ok(());
        };
        let (planes, area, population) = (channels * stack, height * width, self.learners.len());
        let table = self.emulator.buffer(vec![1u64; 2 * population * BATCH * planes]);
        (0..population).for_each(|p| self.agents[p].host_resident = p as u32 % 2);
        self.gather_with(pointer(table))?;
        let near = self.input.as_ptr_range();
        let near = near.start as u64..near.end as u64;
        for &p in learning {
            let (b, name) = (&self.learners[p].buffers, &self.names[p]);
            for (set, stacks) in [&b.states, &b.next_states].into_iter().enumerate() {
                let Observations::Bytes(want) = stacks else { unreachable!("planes are of bytes") };
                let first = (set * population + p) * BATCH * planes;
                for (i, plane) in want.chunks_exact(area).enumerate() {
                    let at = table[first + i];
                    if at == 0 {
                        ensure!(plane.iter().all(|&byte| byte == 0), "{name}: plane {i} is not there");
                        continue;
                    }
                    let brought = near.contains(&at);
                    ensure!(
                        brought == (p % 2 == 1),
                        "{name}: what is host_resident, and only that, is brought near"
                    );
                    // SAFETY: a plane of this agent's ring or of the minibatch.
                    let got = unsafe { std::slice::from_raw_parts(at as *const u8, area) };
                    ensure!(got == plane, "{name}: plane {i} is not the learner's");
                }
            }
        }
        let named = table[..BATCH * planes].iter().any(|&at| at != 1);
        ensure!(named || !learning.contains(&0), "no plane was named");
        Ok(())
    }

    /// One update on both sides. `poisoned` is an agent whose online outputs turn into something that is not finite.
    pub(super) fn update(&mut self, poisoned: Option<usize>) -> Result<(), String> {
        let population = self.learners.len();
        self.gather()?;
        for p in 0..population {
            let learns = self.staged[p].active == 1 && self.learners[p].can_update();
            let got = self.twins[p].counters().learns;
            ensure!(got == u32::from(learns), "{}: the device's `learns` is {got}", self.names[p]);
            if learns {
                self.learners[p].draw();
                self.check_rows(p)?;
            }
        }
        let learning: Vec<usize> =
            (0..population).filter(|&p| self.twins[p].counters().learns == 1).collect();
        self.check_planes(&learning)?;
        let (targets, returns) = self.targets(&learning)?;
        let online = self.outputs(Which::Online, false);
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
        self.emulator.launch("gradients", [population, 1, 1], arguments)?;
        if self.extras.prioritised {
            self.emulator.launch("reprioritise", [population, 1, 1], [pointer(self.agents)])?;
        }
        for p in 0..population {
            let own = p * BATCH * self.pitch..(p + 1) * BATCH * self.pitch;
            let (last, trunk) = (&last[own.clone()], &trunk[own]);
            let updates = self.learners[p].updates;
            let counters = *self.twins[p].counters();
            let name = &self.names[p];
            if poisoned == Some(p) {
                let got = (counters.not_finite, counters.learns, counters.updates);
                let want = (updates + 1, 0, updates);
                ensure!(got == want, "{name}: (not finite, learns, updates) are {got:?}, not {want:?}");
            } else if learning.contains(&p) {
                self.check_gradients(p, last, trunk)?;
                self.learned[p] += 1;
                continue;
            }
            let none = last.iter().chain(trunk).all(|&g| g == 0.0);
            ensure!(none, "{name}: gradients of an agent that does not learn");
            ensure!(counters.updates == updates, "{name}: an agent that does not learn was updated");
        }
        Ok(())
    }

    /// Targets and encoded returns on both sides, as the device left them; and what codecs do before the online forward pass.
    fn targets(&mut self, learning: &[usize]) -> Result<(&'static mut [f32], &'static mut [f32]), String> {
        let population = self.learners.len();
        let next = self.outputs(Which::Target, true);
        let (k, e) = (self.source.max_outputs, self.source.max_encoded);
        let targets = self.emulator.buffer(vec![7.0f32; population * BATCH * k]);
        let returns = self.emulator.buffer(vec![7.0f32; population * BATCH * e]);
        let (agents, rows) = (pointer(self.agents), pointer(self.rows));
        let [next, to, encoded] = [pointer(next), pointer(targets), pointer(returns)];
        let grid = [population, 1, 1];
        match self.extras.double {
            true => {
                let choosing = self.outputs(Which::Online, true);
                let arguments = [agents, rows, next, to, encoded, pointer(choosing)];
                self.emulator.launch("targets", grid, arguments)?;
            }
            false => self.emulator.launch("targets", grid, [agents, rows, next, to, encoded])?,
        }
        for &p in learning {
            let learner = &mut self.learners[p];
            learner.make_targets();
            learner.change_outputs();
            let (learner, twin) = (&self.learners[p], &self.twins[p]);
            let (own_k, own_e) = (learner.codec.outputs(), learner.codec.encoded());
            for row in 0..BATCH {
                let (got, want) =
                    (&targets[(p * BATCH + row) * k..], &learner.buffers.targets[row * own_k..]);
                self.same(p, "targets", &wide(&got[..own_k]), &wide(&want[..own_k]))?;
                let (got, want) =
                    (&returns[(p * BATCH + row) * e..], &learner.buffers.returns[row * own_e..]);
                self.same(p, "returns", &wide(&got[..own_e]), &wide(&want[..own_e]))?;
            }
            self.same(p, "the state before the forward pass", twin.online_state, &learner.online_state)?;
            let online = twin::parameters(learner, Which::Online);
            self.same(p, "the last layer", &wide(twin.online), &wide(&online))?;
        }
        Ok((targets, returns))
    }

    fn check_rows(&self, p: usize) -> Result<(), String> {
        let (b, name) = (&self.learners[p].buffers, &self.names[p]);
        for row in 0..BATCH {
            let got = self.row(p, row);
            let got_row = (got.index, got.action, got.mask == 1, got.player_score, got.bootstrap);
            let want_row = (
                b.indices[row],
                b.actions[row] as u32,
                b.live[row],
                u16::from(b.scores[row]),
                b.bootstrap[row],
            );
            ensure!(got_row == want_row, "{name}: row {row} is {got_row:?}, not {want_row:?}");
            let population = self.learners.len();
            self.check_stack("a state", self.input, p * BATCH + row, (&b.states, row))?;
            let sample = (population + p) * BATCH + row;
            self.check_stack("a next state", self.input, sample, (&b.next_states, row))?;
        }
        if self.learners[p].priorities.is_some() {
            self.same(p, "importance weights", &wide(self.twins[p].importance), &wide(&b.importance))?;
        }
        Ok(())
    }

    fn check_gradients(&mut self, p: usize, last: &[f32], trunk: &[f32]) -> Result<(), String> {
        let magnitude = self.learners[p].make_gradients();
        ensure!(magnitude.is_finite(), "{}: the learner's values are not finite", self.names[p]);
        let (learner, twin) = (&self.learners[p], &self.twins[p]);
        let (actions, k) = (self.task.actions.len(), learner.codec.outputs());
        for row in 0..BATCH {
            for (got, want) in [(last, &learner.buffers.last), (trunk, &learner.buffers.trunk)] {
                let got = &got[row * self.pitch..][..self.pitch];
                let want = &want[row * actions * k..][..actions * k];
                let want = if self.extras.dueling { spread(want, k) } else { want.to_vec() };
                let width = want.len();
                self.same(p, "gradients", &wide(&got[..width]), &wide(&want))?;
                let rest = got[width..].iter().all(|&g| g == 0.0);
                ensure!(rest, "{}: gradients behind the last output", self.names[p]);
            }
        }
        self.same(p, "the codec's state", twin.online_state, &learner.online_state)?;
        let counters = *twin.counters();
        self.same(p, "the error's magnitude", &[counters.error_magnitude], &[learner.error_magnitude])?;
        if let Some(priorities) = &learner.priorities {
            self.same(p, "priorities", twin.priorities, priorities.tree.nodes())?;
            self.same(p, "the largest priority", &[counters.largest], &[priorities.largest])?;
        }
        self.same(p, "diagnostics", twin.sums, &learner.diagnostics.to_sums())?;
        self.learners[p].descend();
        let learner = &self.learners[p];
        let (got, want) = (counters.updates, learner.updates);
        ensure!(got == want, "{}: {got} updates on the device, {want} in the learner", self.names[p]);
        let t = learner.updates as f64;
        let correction = |beta: f64| 1.0 - f64::from(beta as f32).powf(t);
        let rate = f64::from(learner.settings.learning_rate as f32) / correction(learner.settings.adam_beta1);
        let root = 1.0 / correction(learner.settings.adam_beta2).sqrt();
        self.same(p, "Adam", &[counters.step_size, counters.root_correction], &[rate, root])?;
        let online = twin::parameters(&self.learners[p], Which::Online);
        self.twins[p].online.copy_from_slice(&online);
        if let Some(priorities) = &self.learners[p].priorities {
            // What differs by a rounding must not add up to another draw.
            self.twins[p].priorities.copy_from_slice(priorities.tree.nodes());
            self.twins[p].counters[0].largest = priorities.largest;
        }
        Ok(())
    }
}
