//! The learner on tasks small enough to know the answer.

use super::*;
use crate::codecs::{Clipped, builtin, configure};
use spectral_core::bytes::{StateReader, StateWriter};

fn task(actions: usize) -> TaskSpec {
    TaskSpec {
        name: "test".into(),
        observation: ObservationSpec::Vector { len: 2 },
        actions: (0..actions).map(|a| a.to_string()).collect(),
        frames_per_step: 1,
        max_player_score: 3,
        masks_actions: false,
    }
}

fn settings() -> AgentSettings {
    AgentSettings {
        replay: 500,
        hidden: "32".into(),
        discount: 0.9,
        learning_rate: 1e-2,
        adam_epsilon: 1e-8,
        ..Default::default()
    }
}

/// A learner from a text: a codec's name and settings.
fn learner(text: &str, actions: usize) -> Learner {
    let (settings, codec) = configure(text, settings()).unwrap();
    Learner::new(settings, codec, &task(actions), 5).unwrap()
}

/// Two-step episodes: in the first state action 1 leads on and action 0 ends with reward 1; in the second state action 1 pays
/// `large`, action 0 nothing. Random play fills replay.
fn fill(learner: &mut Learner, steps: u64, large: f32) {
    let mut rng = Stream::new(1, Purpose::Other, 0);
    let mut second = false;
    for _ in 0..steps {
        let Observation::Vector(v) = learner.observation() else { unreachable!() };
        v.copy_from_slice(if second { &[0.0, 1.0] } else { &[1.0, 0.0] });
        let action = rng.below(2);
        let (reward, terminal) = match (second, action) {
            (false, 0) => (1.0, true),
            (false, _) => (0.0, false),
            (true, 1) => (large, true),
            (true, _) => (0.0, true),
        };
        learner.record(Outcome {
            action: action as u8,
            reward,
            terminal,
            player_score: u8::from(second),
            ..Default::default()
        });
        second = !terminal;
    }
}

fn train(learner: &mut Learner, updates: u64) {
    for _ in 0..updates {
        learner.update().unwrap();
        if learner.updates().is_multiple_of(50) {
            learner.refresh_target();
        }
    }
}

/// Values of both actions in both states.
fn values(learner: &mut Learner) -> [f32; 4] {
    let mut out = [0.0; 4];
    for (state, observation) in [[1.0, 0.0], [0.0, 1.0]].into_iter().enumerate() {
        let outputs =
            learner.network.forward(Which::Online, spectral_nn::Samples::Floats(&observation), 1).to_vec();
        for (action, row) in outputs.chunks(learner.codec.outputs()).enumerate() {
            out[2 * state + action] = learner.codec.decode(row, &learner.online_state);
        }
    }
    out
}

/// Every codec that sees unclipped rewards finds the same action-values; so do all options of the learner.
#[test]
fn all_codecs_and_options_learn_the_values() {
    let large = 20.0f32;
    // n = 1 so that the answer is Q*, not the value of the random behaviour.
    let want = [1.0, 0.9 * large, 0.0, large];
    for pairs in [
        "spectral",
        "spectral weights=uniform",
        "spectral base=3 max_frequency=8",
        "spectral encoding=binary",
        "compressed error_correction=false",
        "compressed transform=log error_correction=false",
        "compressed",
        "popart error_correction=false",
        "categorical support_max=100 readout=mean targets=projection",
        "categorical support_max=100",
        "spectral double=true",
        "spectral dueling=true",
        "spectral prioritised=true",
    ] {
        let mut agent = learner(&format!("{pairs} n_step=1"), 2);
        fill(&mut agent, 450, large);
        train(&mut agent, 3000);
        let got = values(&mut agent);
        for (g, w) in got.iter().zip(want) {
            // HL-Gauss has bins of a tenth of the value; everybody else is close.
            let tolerance = if pairs.contains("categorical") { 0.12 * w + 0.3 } else { 0.03 * w + 0.2 };
            assert!((g - w).abs() < tolerance, "{pairs}: {got:?}, not {want:?}");
        }
    }
}

#[test]
fn clipping_hides_the_better_action() {
    let mut agent = learner("clipped n_step=1", 2);
    fill(&mut agent, 450, 20.0);
    train(&mut agent, 3000);
    let got = values(&mut agent);
    assert!((got[0] - 1.0).abs() < 0.1 && (got[1] - 0.9).abs() < 0.1, "{got:?}");
}

#[test]
fn trunk_gradients_are_weighted_and_last_layer_gradients_are_not() {
    let run = |pairs: &str| {
        let mut agent = learner(pairs, 2);
        fill(&mut agent, 450, 20.0);
        agent.draw();
        agent.make_targets();
        agent.make_gradients();
        agent
    };
    let agent = run("spectral");
    let (b, k) = (&agent.buffers, agent.codec.outputs());
    let mut seen = 0;
    for (i, (&last, &trunk)) in b.last.iter().zip(&b.trunk).enumerate() {
        assert_eq!(trunk, last * b.trunk_weights[i % k], "output {i}");
        seen += usize::from(last != 0.0);
    }
    assert!(seen > 0 && b.trunk_weights.iter().any(|&w| w > 1.5));
    let agent = run("spectral undo_last_layer=false");
    assert_eq!(agent.buffers.last, agent.buffers.trunk);
    // The gradient is the error over the batch, on the taken action alone.
    let agent = run("spectral weights=uniform");
    let b = &agent.buffers;
    for row in 0..32 {
        for action in 0..2 {
            for i in 0..k {
                let error = b.taken[row * k + i] - b.targets[row * k + i];
                let want = if action == b.actions[row] { error / 32.0 } else { 0.0 };
                assert!((b.last[(row * 2 + action) * k + i] - want).abs() < 1e-7);
            }
        }
    }
}

#[test]
fn heads_stay_at_zero_until_their_frequency_fires() {
    let mut agent = learner("spectral", 2);
    fill(&mut agent, 300, 1.0);
    train(&mut agent, 200);
    let outputs = agent.network.forward(Which::Online, spectral_nn::Samples::Floats(&[0.0, 1.0]), 1).to_vec();
    let k = agent.codec.outputs();
    for row in outputs.chunks(k) {
        assert!(row[0] != 0.0 && row[1..].iter().all(|&y| y == 0.0), "{row:?}");
    }
}

#[test]
fn the_greedy_action_is_that_of_the_summed_values() {
    let (_, codec) = configure("spectral max_frequency=2", settings()).unwrap();
    // Action 0 is best in heads 0 and 1, action 1 in the sum.
    let outputs = [0.9, 0.9, 0.0, 0.0, 0.0, 0.7];
    assert_eq!(greedy(codec.as_ref(), &outputs, &[], None), (1, 2.8));
    assert_eq!(greedy(&Clipped, &[1.0, 1.0, 0.5], &[], None).0, 0, "of equals the first");
}

#[test]
fn nothing_is_learned_near_a_time_out() {
    let mut agent = learner("spectral n_step=3", 2);
    for t in 0..300u64 {
        let Observation::Vector(v) = agent.observation() else { unreachable!() };
        v.copy_from_slice(&[1.0, 0.0]);
        agent.record(Outcome { reward: 5.0, truncated: t % 2 == 1, ..Default::default() });
    }
    let before = agent.network.parameters(Which::Online, 0).to_vec();
    train(&mut agent, 20);
    assert_eq!(before, agent.network.parameters(Which::Online, 0));
}

#[test]
fn popart_keeps_predictions_while_its_statistics_move() {
    let mut agent = learner("popart learning_rate=1e-12", 2);
    fill(&mut agent, 450, 1000.0);
    let before = values(&mut agent);
    train(&mut agent, 49);
    let after = values(&mut agent);
    assert!(agent.online_state[4] > 50.0, "σ moved: {:?}", agent.online_state);
    for (b, a) in before.iter().zip(after) {
        assert!((b - a).abs() < 0.02, "{before:?} {after:?}");
    }
}

#[test]
fn the_error_correction_is_the_authors() {
    let mut agent = learner("compressed", 2);
    fill(&mut agent, 450, 1e4);
    agent.draw();
    agent.make_targets();
    agent.make_gradients();
    let b = &agent.buffers;
    let errors: Vec<f64> = (0..32).map(|r| f64::from(b.taken[r] - b.targets[r]) / 32.0).collect();
    // After one minibatch the bias-corrected running mean is that minibatch's.
    let magnitude = errors.iter().map(|e| e.abs()).sum::<f64>() / 32.0;
    for (row, error) in errors.iter().enumerate() {
        let got = f64::from(b.last[row * 2 + b.actions[row]]);
        let want = error / (magnitude / 0.01).max(1e-4);
        assert!((got - want).abs() < 1e-6 * (1.0 + want.abs()), "{got} {want}");
    }
}

#[test]
fn a_saved_learner_goes_on_bit_for_bit() {
    for pairs in ["spectral", "popart prioritised=true", "categorical dueling=true double=true"] {
        let mut agent = learner(pairs, 2);
        fill(&mut agent, 700, 50.0);
        train(&mut agent, 73);
        let mut bytes = StateWriter::default();
        agent.save(&mut bytes);
        let bytes = bytes.into_bytes();
        let mut copy = learner(pairs, 2);
        let mut from = StateReader::new(&bytes);
        copy.restore(&mut from).unwrap();
        from.finish().unwrap();
        let (first, count) = (agent.replay.oldest(), agent.replay.newest() - agent.replay.oldest());
        let mut records = vec![];
        agent.replay.write_range(first, count, &mut records);
        copy.replay_mut().read_range(first, count, &records).unwrap();
        for one in [&mut agent, &mut copy] {
            train(one, 60);
            fill(one, 30, 50.0);
            train(one, 60);
        }
        let bits = |l: &Learner| {
            l.network.parameters(Which::Online, 0).iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(bits(&agent), bits(&copy), "{pairs}");
        assert_eq!(agent.drain_metrics(), copy.drain_metrics());
        assert!(agent.td_by_score().eq(copy.td_by_score()));
        for cut in [0, 9, bytes.len() / 2, bytes.len() - 1] {
            assert!(learner(pairs, 2).restore(&mut StateReader::new(&bytes[..cut])).is_err());
        }
    }
}

#[test]
fn values_that_are_not_finite_are_reported() {
    let mut agent = learner("compressed learning_rate=1e30 error_correction=false", 2);
    fill(&mut agent, 450, 1e30);
    let error = (0..100).find_map(|_| agent.update().err()).expect("such a step size diverges");
    assert!(error.to_string().contains("learning_rate"));
}

#[test]
fn metrics_have_a_value_per_column() {
    for codec in builtin() {
        let kind = codec.name();
        let mut agent = learner(kind, 2);
        fill(&mut agent, 400, 3.0);
        assert!(agent.drain_metrics().iter().all(Option::is_none));
        train(&mut agent, 5);
        let columns = agent.metric_columns();
        let values = agent.drain_metrics();
        assert_eq!(columns.len(), values.len());
        assert!(values.iter().all(|v| v.is_some_and(f64::is_finite)), "{kind:?} {columns:?} {values:?}");
    }
}

/// With double Q-learning the online network chooses; without, the target network does. Both differ here.
#[test]
fn double_q_learning_chooses_with_the_online_network() {
    for double in [false, true] {
        let mut agent = learner(&format!("compressed n_step=1 double={double}"), 2);
        fill(&mut agent, 450, 20.0);
        agent.refresh_target();
        for _ in 0..300 {
            agent.update().unwrap(); // The target stays behind.
        }
        agent.draw();
        agent.make_targets();
        let k = agent.codec.outputs();
        let mut chosen_by = |which| -> Vec<usize> {
            let outputs = agent.network.forward(which, agent.buffers.next_states.samples(), 32);
            outputs
                .chunks(2 * k)
                .map(|row| greedy(agent.codec.as_ref(), row, &agent.online_state, None).0)
                .collect()
        };
        let (online, target) = (chosen_by(Which::Online), chosen_by(Which::Target));
        assert_ne!(online, target, "the test needs a case in which it matters");
        assert_eq!(agent.buffers.greedy, if double { online } else { target });
    }
}

#[test]
fn importance_weights_undo_the_priorities() {
    let mut agent = learner("spectral prioritised=true priority_exponent=1 importance_exponent=1", 2);
    fill(&mut agent, 450, 20.0);
    let tree = &mut agent.priorities.as_mut().unwrap().tree;
    for slot in 0..450 {
        tree.set(slot, if slot % 10 == 0 { 8.0 } else { 1.0 });
    }
    let mut drawn = [0.0f64; 2];
    for update in 0..300 {
        agent.updates = update;
        agent.draw();
        for (index, weight) in agent.buffers.indices.iter().zip(&agent.buffers.importance) {
            let heavy = index % 10 == 0;
            drawn[usize::from(heavy)] += 1.0;
            assert_eq!(*weight, if heavy { 0.125 } else { 1.0 });
        }
    }
    // 45 heavy slots of 8 against 405 light ones of 1: heavy ones are 47% of the draws.
    let share = drawn[1] / (drawn[0] + drawn[1]);
    assert!((share - 360.0 / 765.0).abs() < 0.02, "{share}");
}
