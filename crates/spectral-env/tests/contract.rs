//! What every task promises, tried on every built-in task in every way it can be seen.

use spectral_core::settings::{Setting, Settings};
use spectral_env::{
    Env, Observation, ObservationKind, ObservationSpec, Purpose, StateReader, StateWriter, Step, Stream,
    TaskError, TaskOptions, make, tasks,
};

/// Every task and way of seeing it.
fn all() -> impl Iterator<Item = (String, TaskOptions)> {
    tasks().iter().flat_map(|task| {
        task.observations
            .iter()
            .map(|&observation| (task.name.to_owned(), TaskOptions { observation, ..TaskOptions::default() }))
    })
}

fn stream(seed: u64, step: u64) -> Stream {
    Stream::new(seed, Purpose::Other, step)
}

/// The observation's bits, read through a buffer that was poisoned in one of two ways.
fn observed(env: &dyn Env, poison: bool) -> Vec<u32> {
    let spec = env.spec().observation;
    match spec {
        ObservationSpec::Vector { len } => {
            let mut out = vec![if poison { f32::NAN } else { -777.25 }; len];
            env.observe(Observation::Vector(&mut out));
            assert!(out.iter().all(|x| x.is_finite() && x.abs() <= 5.0), "{}: {out:?}", env.spec().name);
            out.iter().map(|x| x.to_bits()).collect()
        }
        ObservationSpec::Planes { .. } => {
            let mut out = vec![if poison { 0xA5 } else { 0x5A }; spec.len()];
            env.observe(Observation::Planes(&mut out));
            out.iter().map(|&x| x.into()).collect()
        }
    }
}

/// Plays by random actions from these streams and gives all that was seen.
fn play(env: &mut dyn Env, seed: u64, steps: std::ops::Range<u64>) -> Vec<(Step, Vec<u32>)> {
    let actions = env.spec().actions.len();
    steps
        .map(|n| {
            let mut rng = stream(seed, n);
            let step = env.step(rng.below(actions), &mut rng);
            if step.terminated || step.truncated {
                env.reset(&mut rng);
            }
            (step, observed(env, n % 2 == 0))
        })
        .collect()
}

fn saved(env: &dyn Env) -> Vec<u8> {
    let mut out = StateWriter::default();
    env.save(&mut out);
    out.into_bytes()
}

#[test]
fn observations_are_complete_and_steps_are_sane() {
    for (name, options) in all() {
        let mut env = make(&name, &options).unwrap();
        let spec = env.spec().clone();
        assert_eq!(spec.name, name);
        assert!(!spec.observation.is_empty() && spec.actions.len() >= 2);
        env.reset(&mut stream(1, 0));
        let (mut ends, mut first, mut distinct) = (0, observed(&*env, true), 0);
        for n in 1..6_000 {
            let mut rng = stream(1, n);
            let step = env.step(rng.below(spec.actions.len()), &mut rng);
            assert!(step.reward.is_finite() && step.score.is_finite());
            assert!(step.player_score <= spec.max_player_score);
            assert!(!(step.terminated && step.truncated));
            if step.terminated || step.truncated {
                ends += 1;
                env.reset(&mut rng);
            }
            if n % 16 == 0 {
                let one = observed(&*env, true);
                assert_eq!(one, observed(&*env, false), "{name} {options:?} leaves elements unwritten");
                distinct += u32::from(one != first);
                first = one;
            }
        }
        assert!(ends > 0 && distinct > 50, "{name}: {ends} ends, {distinct} changes");
        assert_eq!(env.spec(), &spec, "the specification is constant");
    }
}

/// What a task says of legal actions: some action is legal wherever an episode goes on, only actions that exist are, and asking
/// changes nothing. A task that does not say has them all.
#[test]
fn some_action_is_legal_wherever_an_episode_goes_on() {
    for (name, options) in all() {
        let mut env = make(&name, &options).unwrap();
        let actions = env.spec().actions.len();
        let masks = env.spec().masks_actions;
        env.reset(&mut stream(5, 0));
        let mut forbidden = 0;
        for n in 1..4_000 {
            let before = saved(&*env);
            let legal = env.legal();
            assert_eq!(saved(&*env), before, "{name}: asking for legal actions changed the task");
            assert!(!legal.is_empty(), "{name}: nothing is legal at step {n}");
            assert!(legal.iter().all(|action| action < actions), "{name}: {legal:?}");
            forbidden += actions - legal.count();
            let mut rng = stream(5, n);
            let step = env.step(legal.nth(rng.below(legal.count())).unwrap(), &mut rng);
            if step.terminated || step.truncated {
                env.reset(&mut rng);
            }
        }
        assert_eq!(forbidden > 0, masks, "{name}: {forbidden} actions were forbidden");
    }
}

#[test]
fn equal_streams_give_equal_results_and_others_do_not() {
    for (name, options) in all() {
        let episode = |seed| {
            let mut env = make(&name, &options).unwrap();
            env.reset(&mut stream(seed, 0));
            play(&mut *env, seed, 1..400)
        };
        assert_eq!(episode(3), episode(3), "{name}");
        assert_ne!(episode(3), episode(4), "{name}");
    }
}

#[test]
fn a_restored_task_goes_on_bit_for_bit() {
    for (name, options) in all() {
        for seed in 0..6 {
            let mut env = make(&name, &options).unwrap();
            env.reset(&mut stream(seed, 0));
            play(&mut *env, seed, 1..100 + 37 * seed);
            let bytes = saved(&*env);
            let mut twin = make(&name, &options).unwrap();
            twin.reset(&mut stream(99, 99));
            let mut reader = StateReader::new(&bytes);
            twin.restore(&mut reader).unwrap();
            reader.finish().unwrap();
            assert_eq!(observed(&*env, true), observed(&*twin, true), "{name}");
            assert_eq!(saved(&*twin), bytes);
            assert_eq!(play(&mut *env, seed, 2000..2300), play(&mut *twin, seed, 2000..2300), "{name}");
        }
    }
}

#[test]
fn truncated_foreign_and_damaged_states() {
    for (name, options) in all() {
        let mut env = make(&name, &options).unwrap();
        env.reset(&mut stream(2, 0));
        play(&mut *env, 2, 1..60);
        let bytes = saved(&*env);
        for cut in 0..bytes.len() {
            assert!(env.restore(&mut StateReader::new(&bytes[..cut])).is_err(), "{name} cut at {cut}");
        }
        for seed in 0..400 {
            let mut damaged = bytes.clone();
            let mut rng = stream(seed, 0);
            let at = rng.below(damaged.len());
            damaged[at] = rng.next_u32() as u8;
            // Whatever is accepted must be playable: no panic, and a finite observation.
            if env.restore(&mut StateReader::new(&damaged)).is_ok() {
                observed(&*env, true);
                play(&mut *env, seed, 1..80);
            }
        }
        env.restore(&mut StateReader::new(&bytes)).unwrap();
        let foreign = if name == "2048" { "investor" } else { "2048" };
        let mut other = make(foreign, &TaskOptions::default()).unwrap();
        other.reset(&mut stream(0, 0));
        assert!(env.restore(&mut StateReader::new(&saved(&*other))).is_err(), "{name} took a {foreign}");
        env.reset(&mut stream(3, 0));
        play(&mut *env, 3, 1..20);
    }
}

#[test]
fn episodes_end_whatever_is_played() {
    for task in tasks() {
        let actions = make(task.name, &TaskOptions::default()).unwrap().spec().actions.len();
        for action in 0..actions {
            let mut env = make(task.name, &TaskOptions::default()).unwrap();
            env.reset(&mut stream(7, 0));
            let end = (1..=100_000).find(|&n| {
                let step = env.step(action, &mut stream(7, n));
                step.terminated || step.truncated
            });
            assert!(end.is_some(), "{} never ends by action {action}", task.name);
        }
    }
}

#[test]
#[should_panic(expected = "action 3 given to pong-mini, which has 3")]
fn an_action_out_of_range_is_a_programming_error() {
    let mut env = make("pong-mini", &TaskOptions::default()).unwrap();
    env.reset(&mut stream(0, 0));
    env.step(3, &mut stream(0, 1));
}

#[test]
fn unsupported_options_say_what_is_supported() {
    let with = |key: &str, value: &str| -> Result<TaskOptions, TaskError> {
        let mut options = TaskOptions::default();
        options.set(key, value)?;
        make("catch-scale", &TaskOptions { observation: ObservationKind::Auto, ..options.clone() })?;
        Ok(options)
    };
    let message = |name: &str, options: &TaskOptions| make(name, options).err().unwrap().to_string();
    assert_eq!(
        message("investor", &with("observation", "pixels").unwrap()),
        "the task `investor` does not support observation = pixels; it supports vector"
    );
    assert_eq!(
        message("2048", &with("reward_scale", "30").unwrap()),
        "the task `2048` does not support reward_scale = 30; it supports 1 only"
    );
    assert!(message("ponglantis", &TaskOptions::default()).contains("did you mean `ponglantis-mini`?"));
    assert!(message("zzzzzzzzzzz", &TaskOptions::default()).contains("`catch-scale`"));
    for bad in ["0", "-1", "inf", "NaN", "much"] {
        assert!(matches!(with("reward_scale", bad), Err(TaskError::Setting(_))), "{bad}");
    }
    let by_hand = TaskOptions { reward_scale: f64::NAN, ..TaskOptions::default() };
    assert!(matches!(make("catch-scale", &by_hand), Err(TaskError::Setting(_))));
    for bad in ["0", "61", "-4", "four"] {
        assert!(matches!(with("frame_skip", bad), Err(TaskError::Setting(_))), "{bad}");
    }
    let by_hand = TaskOptions { frame_skip: 0, ..TaskOptions::default() };
    assert!(matches!(make("catch-scale", &by_hand), Err(TaskError::Setting(_))));
    assert!(matches!(with("observation", "picture"), Err(TaskError::Setting(_))));
    assert_eq!(ObservationKind::parse("pixels"), Ok(ObservationKind::Pixels));
    let mut catch = make("catch-scale", &with("reward_scale", "30").unwrap()).unwrap();
    catch.reset(&mut stream(0, 0));
    let last = (1..20).map(|n| catch.step(1, &mut stream(0, n))).find(|step| step.terminated).unwrap();
    assert_eq!((last.reward.abs(), last.score.abs()), (30.0, 1.0));
}

/// A step of four frames is four steps with the same action from one stream, cut short where the episode ends.
#[test]
fn frame_skip_repeats_the_action_and_adds_up_what_it_brought() {
    for (name, options) in all() {
        let mut slow = make(&name, &options).unwrap();
        let mut quick = make(&name, &TaskOptions { frame_skip: 4, ..options }).unwrap();
        assert_eq!((slow.spec().frames_per_step, quick.spec().frames_per_step), (1, 4));
        assert_eq!(slow.spec().observation, quick.spec().observation);
        let actions = slow.spec().actions.len();
        slow.reset(&mut stream(3, 0));
        quick.reset(&mut stream(3, 0));
        let mut ends_within = 0;
        for n in 1..3000 {
            let (mut a, mut b) = (stream(3, n), stream(3, n));
            let action = a.below(actions);
            b.below(actions);
            let mut sum = slow.step(action, &mut a);
            for _ in 1..4 {
                if sum.terminated || sum.truncated {
                    ends_within += 1;
                    break;
                }
                let next = slow.step(action, &mut a);
                let (reward, score) = (sum.reward + next.reward, sum.score + next.score);
                sum = Step { reward, score, life_lost: sum.life_lost || next.life_lost, ..next };
            }
            assert_eq!(quick.step(action, &mut b), sum, "{name} at step {n}");
            assert_eq!(saved(quick.as_ref()), saved(slow.as_ref()), "{name} at step {n}");
            assert_eq!(observed(quick.as_ref(), true), observed(slow.as_ref(), false));
            if sum.terminated || sum.truncated {
                slow.reset(&mut a);
                quick.reset(&mut b);
            }
        }
        assert!(ends_within > 0 || name == "2048", "no episode of {name} ended within a step");
    }
}

/// Mean plain score of random play and its standard error.
fn random_score(name: &str, episodes: u32) -> (f64, f64) {
    let mut env = make(name, &TaskOptions::default()).unwrap();
    let actions = env.spec().actions.len();
    let (mut sum, mut squares) = (0.0, 0.0);
    for episode in 0..episodes {
        let mut rng = Stream::new(episode.into(), Purpose::Evaluation, 0);
        env.reset(&mut rng);
        let mut score = 0.0;
        loop {
            let step = env.step(rng.below(actions), &mut rng);
            score += step.score;
            if step.terminated || step.truncated {
                break;
            }
        }
        sum += score;
        squares += score * score;
    }
    let mean = sum / f64::from(episodes);
    (mean, ((squares / f64::from(episodes) - mean * mean) / f64::from(episodes)).sqrt())
}

#[test]
fn random_scores_in_the_registry_are_the_measured_ones() {
    for task in tasks() {
        let (mean, error) = random_score(task.name, 4_000);
        let off = (mean - task.random_score).abs();
        println!("{}: {mean} ± {error}, registered {}", task.name, task.random_score);
        assert!(
            off < 4.0 * error + 0.006,
            "{}: {mean} ± {error}, registered {}",
            task.name,
            task.random_score
        );
        assert!(task.best_score.is_none_or(|best| best > task.random_score));
    }
}

/// The Pong phase of Ponglantis must need skill.
#[test]
fn random_play_rarely_reaches_the_shooting_phase() {
    use spectral_env::analysis::{Opponent, Play, point_probability, reach_probability};
    let exact = reach_probability(point_probability(Opponent::Ponglantis, Play::Random), 10, 21);
    let mut env = make("ponglantis-mini", &TaskOptions::default()).unwrap();
    let (episodes, mut reached) = (6_000, 0.0);
    for episode in 0..episodes {
        let mut rng = Stream::new(episode, Purpose::Evaluation, 1);
        env.reset(&mut rng);
        loop {
            let step = env.step(rng.below(3), &mut rng);
            if step.player_score == 10 {
                reached += 1.0;
                break;
            }
            if step.terminated || step.truncated {
                break;
            }
        }
    }
    let share = reached / episodes as f64;
    let error = (exact * (1.0 - exact) / episodes as f64).sqrt();
    assert!(exact < 0.05 && (share - exact).abs() < 4.0 * error, "{share} measured, {exact} exact");
}
