//! Replay against a slow, obvious model.

use super::*;
use crate::codecs::{Clipped, Compressed};
use proptest::prelude::*;
use spectral_core::rng::{Purpose, Stream};

const GAMMA: f32 = 0.9;

/// Raw rewards pass through the compressed codec's encoding unchanged.
fn raw() -> Compressed {
    Compressed::new(&Default::default()).unwrap()
}

struct Model {
    frames: Vec<u8>,
    outcomes: Vec<Outcome>,
}

/// A random history: the model keeps everything, the replay what fits.
fn history(steps: usize, capacity: usize, stack: usize, seed: u64) -> (Replay, Model) {
    let spec = ObservationSpec::Planes { channels: 1, height: 1, width: 2, stack };
    let mut replay = Replay::new(spec, capacity, 3);
    let mut model = Model { frames: vec![], outcomes: vec![] };
    let mut rng = Stream::new(seed, Purpose::Other, 0);
    for t in 0..steps {
        let value = (t % 250 + 1) as u8;
        let Observation::Planes(frame) = replay.observation() else { unreachable!() };
        frame.fill(value);
        let outcome = Outcome {
            action: rng.below(4) as u8,
            reward: rng.below(100) as f32 - 50.0,
            terminal: rng.chance(0.1),
            truncated: rng.chance(0.05),
            player_score: rng.below(22) as u8,
        };
        replay.record(outcome);
        model.frames.push(value);
        model.outcomes.push(outcome);
    }
    (replay, model)
}

proptest! {
    /// A memory that was lost and fills anew is as good as one that was never full: same numbers, nothing from before.
    #[test]
    fn what_was_forgotten_is_never_seen(before in 1usize..80, after in 0usize..80, stack in 1usize..5, seed in 0u64..1000) {
        let (mut replay, _) = history(before, 40, stack, seed);
        replay.forget_before(before as u64);
        prop_assert_eq!((replay.oldest(), replay.newest()), (before as u64, before as u64));
        prop_assert!(replay.valid().is_empty());
        let mut fresh = Replay::new(replay.spec(), 40, 3);
        let mut rng = Stream::new(seed, Purpose::Other, 1);
        let (mut a, mut b) = (Observations::stacked(replay.spec(), 1), Observations::stacked(replay.spec(), 1));
        for t in 0..after {
            let outcome = Outcome { reward: t as f32, terminal: rng.chance(0.1), ..Default::default() };
            for replay in [&mut replay, &mut fresh] {
                let Observation::Planes(frame) = replay.observation() else { unreachable!() };
                frame.fill(t as u8 + 1);
            }
            replay.current(&mut a);
            fresh.current(&mut b);
            prop_assert_eq!(format!("{a:?}"), format!("{b:?}"), "step {}", t);
            replay.record(outcome);
            fresh.record(outcome);
        }
        let shift = before as u64;
        let valid = fresh.valid();
        prop_assert_eq!(replay.valid(), valid.start + shift..valid.end + shift);
        for index in valid {
            let (mut x, mut y) = ([0.0], [0.0]);
            let old = replay.sample(index + shift, GAMMA, &raw(), &mut x);
            let new = fresh.sample(index, GAMMA, &raw(), &mut y);
            prop_assert_eq!(Sampled { next: old.next - shift, ..old }, new);
            prop_assert_eq!(x, y);
            replay.stack(index + shift, 0, &mut a);
            fresh.stack(index, 0, &mut b);
            prop_assert_eq!(format!("{a:?}"), format!("{b:?}"));
        }
        // Told again, as a resumed run is, it keeps what it has.
        replay.forget_before(shift);
        prop_assert_eq!(replay.newest() - replay.oldest(), (after as u64).min(40));
    }

    #[test]
    fn samples_are_what_happened(steps in 10usize..120, capacity in 12usize..60, stack in 1usize..5, seed in 0u64..1000) {
        let (mut replay, model) = history(steps, capacity, stack, seed);
        // The current observation, which agents learn beside, hides nothing that is sampled.
        let Observation::Planes(frame) = replay.observation() else { unreachable!() };
        frame.fill(255);
        let ends = |i: usize| model.outcomes[i].terminal || model.outcomes[i].truncated;
        let spec = ObservationSpec::Planes { channels: 1, height: 1, width: 2, stack };
        let mut stacks = Observations::stacked(spec, 2);
        for index in replay.valid() {
            let i = index as usize;
            let mut encoded = [0.0];
            let sampled = replay.sample(index, GAMMA, &raw(), &mut encoded);
            let (mut sum, mut factor, mut open, mut live) = (0.0f32, 1.0f32, true, true);
            for outcome in &model.outcomes[i..i + 3] {
                sum += factor * outcome.reward;
                factor *= GAMMA;
                live &= !outcome.truncated;
                if outcome.terminal || outcome.truncated {
                    open = false;
                    break;
                }
            }
            prop_assert_eq!(encoded[0], sum);
            prop_assert_eq!(sampled.live, live);
            prop_assert_eq!(sampled.bootstrap, if open { factor } else { 0.0 });
            prop_assert_eq!(sampled.action, usize::from(model.outcomes[i].action));
            prop_assert_eq!(sampled.player_score, model.outcomes[i].player_score);
            if open {
                prop_assert_eq!(sampled.next, index + 3);
            }
            replay.stack(index, 1, &mut stacks);
            let Observations::Bytes(bytes) = &stacks else { unreachable!() };
            let mut want = vec![];
            let mut cut = false;
            for back in 0..stack {
                cut |= back > i || (back > 0 && ends(i - back));
                want.insert(0, if cut { 0 } else { model.frames[i - back] });
            }
            let got: Vec<u8> = bytes[2 * stack..].chunks(2).map(|c| c[0]).collect();
            prop_assert_eq!(got, want);
        }
        prop_assert!(replay.valid().end <= replay.newest() - 3);
        let current = steps + 1;
        prop_assert_eq!(replay.valid().start as usize, current.saturating_sub(capacity) + stack - 1);
    }

    #[test]
    fn ranges_survive_bytes(steps in 10usize..120, capacity in 12usize..60, seed in 0u64..1000) {
        let (replay, _) = history(steps, capacity, 2, seed);
        let mut state = StateWriter::default();
        replay.save(&mut state);
        let state = state.into_bytes();
        let mut copy = Replay::new(replay.spec, capacity, 3);
        copy.restore(&mut StateReader::new(&state)).unwrap();
        let middle = (replay.oldest() + replay.newest()) / 2;
        for (first, end) in [(replay.oldest(), middle), (middle, replay.newest())] {
            let mut bytes = vec![];
            replay.write_range(first, end - first, &mut bytes);
            copy.read_range(first, end - first, &bytes).unwrap();
            prop_assert!(end == first || copy.read_range(first, end - first, &bytes[1..]).is_err());
        }
        for index in replay.valid() {
            let (mut a, mut b) = ([0.0], [0.0]);
            let left = replay.sample(index, GAMMA, &Clipped, &mut a);
            prop_assert_eq!(left, copy.sample(index, GAMMA, &Clipped, &mut b));
            prop_assert_eq!(a, b);
        }
    }
}

#[test]
fn an_atari_transition_takes_little_more_than_its_screen() {
    let spec = ObservationSpec::Planes { channels: 1, height: 84, width: 84, stack: 4 };
    let task = TaskSpec::new("atari", spec, &["a"; 18]);
    assert_eq!(Replay::bytes_per_record(&task), 7063);
    assert_eq!(Replay::bytes_per_record(&task.masking()), 7066, "a bit per action");
}

proptest! {
    /// Legal actions stay with their observation, round the ring and through bytes.
    #[test]
    fn legal_actions_survive_the_ring_and_bytes(actions in 1usize..40, steps in 5usize..90, seed in 0u64..1000) {
        let names = vec!["a"; actions];
        let task = TaskSpec::vector("masked", 1, &names).masking();
        let mut replay = Replay::of_task(&task, 40, 2);
        prop_assert_eq!(replay.record_bytes(), 4 + 7 + actions.div_ceil(8));
        let mut rng = Stream::new(seed, Purpose::Other, 0);
        let mut told = vec![];
        for _ in 0..steps {
            replay.observation().vector()[0] = 1.0;
            let mut legal = ActionMask::none();
            (0..actions).filter(|_| rng.chance(0.5)).for_each(|action| legal.allow(action));
            replay.allow(&legal);
            prop_assert_eq!(replay.legal(replay.newest()), Some(legal));
            replay.record(Outcome::default());
            told.push(legal);
        }
        let (first, count) = (replay.oldest(), replay.newest() - replay.oldest());
        let mut bytes = vec![];
        replay.write_range(first, count, &mut bytes);
        let mut counters = StateWriter::default();
        replay.save(&mut counters);
        let mut copy = Replay::of_task(&task, 40, 2);
        copy.restore(&mut StateReader::new(&counters.into_bytes())).unwrap();
        copy.read_range(first, count, &bytes).unwrap();
        for index in first..replay.newest() {
            prop_assert_eq!(replay.legal(index), Some(told[index as usize]));
            prop_assert_eq!(copy.legal(index), Some(told[index as usize]));
        }
        // What a task without masks wrote is refused, and so is the reverse.
        let mut plain = Replay::new(task.observation, 40, 2);
        prop_assert!(plain.read_range(first, count, &bytes).is_err());
        prop_assert_eq!(plain.legal(0), None);
    }
}

#[test]
#[should_panic(expected = "Learner::allow")]
fn legal_actions_that_nobody_told_are_missed() {
    let task = TaskSpec::vector("masked", 1, &["a", "b"]).masking();
    let mut replay = Replay::of_task(&task, 10, 1);
    replay.observation().vector()[0] = 1.0;
    replay.legal(0);
}

#[test]
fn the_current_stack_follows_the_episode() {
    let spec = ObservationSpec::Planes { channels: 1, height: 1, width: 1, stack: 3 };
    let mut replay = Replay::new(spec, 20, 1);
    let mut stacks = Observations::stacked(spec, 1);
    let mut seen = vec![];
    for t in 1..=5u8 {
        let Observation::Planes(frame) = replay.observation() else { unreachable!() };
        frame[0] = t;
        replay.current(&mut stacks);
        let Observations::Bytes(bytes) = &stacks else { unreachable!() };
        seen.push(bytes.clone());
        replay.record(Outcome { terminal: t == 3, ..Default::default() });
    }
    assert_eq!(seen, [vec![0, 0, 1], vec![0, 1, 2], vec![1, 2, 3], vec![0, 0, 4], vec![0, 4, 5]]);
}

/// A run that is resumed without its task's state: no return and no stack reaches across.
#[test]
fn an_episode_that_was_cut_off_afterwards_is_a_time_out() {
    let spec = ObservationSpec::Planes { channels: 1, height: 1, width: 1, stack: 2 };
    let mut replay = Replay::new(spec, 40, 3);
    let step = |replay: &mut Replay, t: u8| {
        replay.observation().planes()[0] = t;
        replay.record(Outcome { reward: 1.0, ..Default::default() });
    };
    (1..=10).for_each(|t| step(&mut replay, t));
    let mut record = Vec::new();
    replay.write_range(9, 1, &mut record);
    Replay::mark_truncated(&mut record);
    replay.read_range(9, 1, &record).unwrap();
    replay.begin_episode();
    (11..=20).for_each(|t| step(&mut replay, t));
    let sample = |index| {
        let mut encoded = [0.0];
        replay.sample(index, GAMMA, &raw(), &mut encoded).live
    };
    assert_eq!((6..12).map(sample).collect::<Vec<_>>(), [true, false, false, false, true, true]);
    let mut stack = Observations::stacked(spec, 1);
    replay.stack(10, 0, &mut stack);
    assert!(matches!(&stack, Observations::Bytes(bytes) if *bytes == [0, 11]), "{stack:?}");
}
