//! The learner on tasks that say which actions are legal.

use super::*;
use crate::codecs::{Clipped, configure, test_variants};
use proptest::prelude::*;

const ACTIONS: usize = 11;

fn task() -> TaskSpec {
    TaskSpec::vector("masked", 2, &["a"; ACTIONS]).masking()
}

fn mask(actions: &[usize]) -> ActionMask {
    let mut mask = ActionMask::none();
    actions.iter().for_each(|&action| mask.allow(action));
    mask
}

/// A learner that thinks the same of every state: these values, by the online and by the target network.
fn fixed(settings: AgentSettings, online: [f32; 3], target: [f32; 3]) -> Learner {
    let task = TaskSpec::vector("masked", 2, &["a", "b", "c"]).masking();
    let mut learner = Learner::new(settings, Arc::new(Clipped), &task, 1).unwrap();
    for (which, values) in [(Which::Online, online), (Which::Target, target)] {
        let parameters = learner.network.parameters_mut(which, 0);
        parameters.fill(0.0);
        let biases = parameters.len() - values.len();
        parameters[biases..].copy_from_slice(&values);
    }
    learner
}

fn observe(learner: &mut Learner, legal: &ActionMask) {
    learner.observation().vector().fill(0.5);
    learner.allow(legal);
}

/// The largest value is always that of an illegal action.
#[test]
fn targets_and_actions_leave_illegal_actions_out() {
    let settings = |double| AgentSettings {
        double,
        n_step: 1,
        batch: 32,
        replay: 50,
        discount: 0.5,
        hidden: "4".into(),
        ..Default::default()
    };
    let (online, target) = ([1.0, 9.0, 2.0], [8.0, 1.0, 3.0]);
    // Legal in the next state; the greedy action there; the target network's value of what is chosen, plain and double.
    for (legal, act, plain, double) in [
        (&[0, 1, 2][..], 1, 8.0, 1.0),
        (&[1, 2], 1, 3.0, 1.0),
        (&[0, 2], 2, 8.0, 3.0),
        (&[2], 2, 3.0, 3.0),
        (&[0], 0, 8.0, 8.0),
    ] {
        for (value, double) in [(plain, false), (double, true)] {
            let mut learner = fixed(settings(double), online, target);
            // Transitions 0 and 1 can be drawn; they end in the states whose masks come second and third.
            for state in [mask(&[0, 1, 2]), mask(legal), mask(&[1])] {
                observe(&mut learner, &state);
                if state == mask(legal) {
                    assert_eq!(learner.act(), act, "{legal:?}");
                }
                learner.record(Outcome { reward: 1.0, ..Default::default() });
            }
            learner.draw();
            learner.make_targets();
            for (row, &index) in learner.buffers.indices.iter().enumerate() {
                // The target network says 1 of action 1, the only one in the last state.
                let next = if index == 0 { value } else { 1.0 };
                assert_eq!(learner.buffers.targets[row], 1.0 + 0.5 * next, "{legal:?}, double {double}");
            }
        }
    }
}

#[test]
fn of_equal_values_and_of_none_that_is_a_number_the_first_legal_one() {
    for values in [[1.0; 3], [f32::NAN; 3], [f32::NEG_INFINITY; 3], [7.0, 1.0, 1.0]] {
        let mut learner =
            fixed(AgentSettings { replay: 50, hidden: "4".into(), ..Default::default() }, values, values);
        observe(&mut learner, &mask(&[1, 2]));
        assert_eq!(learner.act(), 1, "{values:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Random lives with every codec: what is chosen is legal, and targets are those of a slow, obvious model.
    #[test]
    fn choices_are_legal_and_targets_the_obvious_ones(seed in 0u64..10_000, double: bool, prioritised: bool) {
        for variant in test_variants() {
            let base = AgentSettings {
                replay: 60, batch: 16, n_step: 3, hidden: "8".into(), double, prioritised, ..Default::default()
            };
            let (settings, codec) = configure(&variant, base).unwrap();
            let mut learner = Learner::new(settings, codec.clone(), &task(), seed).unwrap();
            let mut rng = Stream::new(seed, Purpose::Other, 0);
            for which in [Which::Online, Which::Target] {
                learner.network.parameters_mut(which, 0).fill_with(|| rng.unit_f32() - 0.5);
            }
            let mut masks = vec![];
            for _ in 0..90 {
                learner.observation().vector().fill_with(|| rng.unit_f32());
                let mut legal = ActionMask::none();
                (0..ACTIONS).filter(|_| rng.chance(0.4)).for_each(|action| legal.allow(action));
                legal.allow(rng.below(ACTIONS));
                learner.allow(&legal);
                let action = learner.act();
                prop_assert!(legal.allows(action), "{variant}: {action} of {legal:?}");
                masks.push(legal);
                let action = legal.nth(rng.below(legal.count())).unwrap() as u8;
                let terminal = rng.chance(0.1);
                learner.record(Outcome { action, reward: rng.normal() as f32, terminal, ..Default::default() });
            }
            learner.draw();
            let online_state = learner.online_state.clone();
            learner.make_targets();
            let double = learner.settings.double;
            let (k, e) = (codec.outputs(), codec.encoded());
            let next = learner.buffers.next_states.samples();
            let by = if double { Which::Online } else { Which::Target };
            let judged = learner.network.forward(by, next, 16).to_vec();
            let valued = learner.network.forward(Which::Target, next, 16).to_vec();
            let state = if double { &online_state } else { &learner.frozen_state };
            for row in 0..16 {
                let legal = masks[learner.buffers.next[row] as usize];
                let judged = &judged[row * ACTIONS * k..][..ACTIONS * k];
                let mut preferences = [0.0; ACTIONS];
                codec.preferences(judged, state, Some(&legal), &mut preferences);
                let worth = |action: usize| (preferences[action], codec.decode(&judged[action * k..][..k], state));
                let best = legal.iter().fold(None, |best: Option<usize>, action| match best {
                    Some(best) if worth(best) >= worth(action) => Some(best),
                    _ => Some(action),
                }).unwrap();
                let mut want = vec![0.0; k];
                codec.target(
                    &learner.buffers.returns[row * e..][..e],
                    learner.buffers.bootstrap[row],
                    &valued[(row * ACTIONS + best) * k..][..k],
                    &learner.frozen_state,
                    &mut want,
                );
                prop_assert_eq!(&learner.buffers.targets[row * k..][..k], &want[..], "{} row {}", variant, row);
            }
        }
    }
}

/// A mask that allows everything changes no bit, of the agent or of its checkpoint's state.
#[test]
fn a_mask_that_allows_everything_changes_nothing() {
    let life = |masks: bool| {
        let task = TaskSpec { masks_actions: masks, ..task() };
        let settings = AgentSettings { replay: 60, batch: 8, hidden: "8".into(), ..Default::default() };
        let mut learner = Learner::new(settings, Arc::new(Clipped), &task, 3).unwrap();
        let mut rng = Stream::new(5, Purpose::Other, 0);
        let mut actions = vec![];
        for step in 0..120 {
            learner.observation().vector().fill_with(|| rng.unit_f32());
            learner.allow(&ActionMask::all(ACTIONS));
            actions.push(learner.act());
            if learner.can_update() {
                learner.update().unwrap();
            }
            learner.record(Outcome {
                action: rng.below(ACTIONS) as u8,
                reward: rng.normal() as f32,
                terminal: step % 17 == 3,
                ..Default::default()
            });
        }
        let mut state = spectral_core::bytes::StateWriter::default();
        learner.save(&mut state);
        (actions, state.into_bytes())
    };
    assert_eq!(life(true), life(false));
}
