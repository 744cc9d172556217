//! Measures what random play and simple scripted players score on the built-in tasks, and prints the exact values
//! that dynamic programming gives: the figures in `docs/tasks/`.
//!
//! ```text
//! cargo run --release -p spectral-rl-env --example task_scores
//! ```

use spectral_env::analysis::{
    Opponent, Play, SHOOTING, expected_pong_score, investor_growth, point_probability, reach_probability,
    shooting_values,
};
use spectral_env::bench::bench_steps;
use spectral_env::{Env, Observation, ObservationSpec, Purpose, Stream, TaskError, TaskOptions, make, tasks};

/// Chooses an action by the feature vector.
type Player = fn(&[f32], &mut Stream) -> usize;

/// Means over episodes.
struct Figures {
    score: f64,
    error: f64,
    reward: f64,
    length: f64,
}

fn measure(env: &mut dyn Env, player: Option<Player>, episodes: u32) -> Figures {
    let actions = env.spec().actions.len();
    let ObservationSpec::Vector { len } = env.spec().observation else { unreachable!("vectors by default") };
    let mut features = vec![0.0; len];
    let (mut score_sum, mut squares, mut reward_sum, mut steps) = (0.0, 0.0, 0.0, 0u64);
    for episode in 0..episodes {
        let mut rng = Stream::new(1_000_000 + u64::from(episode), Purpose::Evaluation, 0);
        env.reset(&mut rng);
        let mut score = 0.0;
        loop {
            let action = match player {
                None => rng.below(actions),
                Some(player) => {
                    env.observe(Observation::Vector(&mut features));
                    player(&features, &mut rng)
                }
            };
            let step = env.step(action, &mut rng);
            score += step.score;
            reward_sum += step.reward;
            steps += 1;
            if step.terminated || step.truncated {
                break;
            }
        }
        score_sum += score;
        squares += score * score;
    }
    let n = f64::from(episodes);
    let mean = score_sum / n;
    let error = ((squares / n - mean * mean) / n).sqrt();
    Figures { score: mean, error, reward: reward_sum / n, length: steps as f64 / n }
}

/// Keeps the paddle's centre at the ball's row.
fn tracker(features: &[f32], _: &mut Stream) -> usize {
    match features[6] {
        offset if offset < -0.1 => 1,
        offset if offset > 0.1 => 2,
        _ => 0,
    }
}

/// Goes to where the ball will arrive and hits it with one half of the paddle or the other, at random.
fn returner(features: &[f32], rng: &mut Stream) -> usize {
    let cell = |feature: f32, cells: f32| ((feature + 1.0) * 0.5 * (cells - 1.0)).round() as i32;
    let (column, mut row) = (cell(features[0], 14.0), cell(features[1], 10.0));
    let paddle = cell(features[4], 9.0);
    let mut down = features[3] > 0.0;
    if features[2] < 0.0 {
        row = 4;
    } else {
        for _ in column..13 {
            down = if row == 0 {
                true
            } else if row == 9 {
                false
            } else {
                down
            };
            row += if down { 1 } else { -1 };
        }
    }
    let target = (row - (rng.next_u32() & 1) as i32).clamp(0, 8);
    // Far off, or in the last step before the ball arrives, where the half is decided: go; else hold.
    if paddle < target && (column == 12 || target - paddle > 1 || row > paddle + 1) {
        2
    } else if paddle > target && (column == 12 || paddle - target > 1 || row < paddle) {
        1
    } else {
        0
    }
}

/// Returner in the Pong phase; then fires at once at whatever is in range, the far ship first.
fn hasty(features: &[f32], rng: &mut Stream) -> usize {
    match (features[21] > 0.0, features[31] > 0.0, features[30] > 0.0) {
        (false, ..) => returner(features, rng),
        (_, true, _) => 1,
        (_, _, true) => 2,
        _ => 0,
    }
}

/// Returner in the Pong phase; then waits for the far ship, and takes the near one only when time runs out.
fn patient(features: &[f32], rng: &mut Stream) -> usize {
    match (features[21] > 0.0, features[31] > 0.0, features[30] > 0.0) {
        (false, ..) => returner(features, rng),
        (_, true, _) => 1,
        (_, _, true) if features[26] > 0.84 => 2,
        _ => 0,
    }
}

/// Pushes left or down 96 times in 100, else right or up, without looking.
fn corner(_: &[f32], rng: &mut Stream) -> usize {
    match rng.below(100) {
        0..=47 => 3,
        48..=95 => 2,
        96..=98 => 1,
        _ => 0,
    }
}

/// The position with the largest expected logarithm of the capital.
fn grower(features: &[f32], _: &mut Stream) -> usize {
    match (features[0] > 0.0, features[1] > 0.0) {
        (true, _) => 2,
        (false, true) => 4,
        (false, false) => 1,
    }
}

/// The position with the largest expected capital.
fn gambler(features: &[f32], _: &mut Stream) -> usize {
    if features[1] > 0.0 && features[0] < 0.0 { 4 } else { 2 }
}

fn players(task: &str) -> &'static [(&'static str, Player)] {
    match task {
        "pong-mini" | "exponential-pong-mini" => &[("tracker", tracker), ("returner", returner)],
        "2048" => &[("corner", corner)],
        "investor" => &[("grower", grower), ("gambler", gambler)],
        "catch-scale" => &[],
        _ => &[("hasty", hasty), ("patient", patient)],
    }
}

fn main() -> Result<(), TaskError> {
    println!(
        "{:<28} {:<9} {:>10} {:>8} {:>14} {:>8}",
        "task", "player", "score", "± s.e.", "reward", "steps"
    );
    for task in tasks() {
        let random: &[(&str, Option<Player>, u32)] = &[("random", None, 20_000)];
        let scripted = players(task.name).iter().map(|&(name, player)| (name, Some(player), 2_000));
        for (name, player, episodes) in random.iter().copied().chain(scripted) {
            let mut env = make(task.name, &TaskOptions::default())?;
            let Figures { score, error, reward, length } = measure(&mut *env, player, episodes);
            println!("{:<28} {name:<9} {score:>10.3} {error:>8.3} {reward:>14.2} {length:>8.1}", task.name);
        }
    }

    println!("\nexact values");
    for (name, opponent) in [("pong-mini", Opponent::Pong), ("ponglantis-mini", Opponent::Ponglantis)] {
        for play in [Play::Random, Play::Best] {
            let win = point_probability(opponent, play);
            let (score, reach) = (expected_pong_score(win), reach_probability(win, 10, 21));
            println!(
                "{name}, {play:?}: wins a point {win:.4}, game to 21 {score:.2}, 10 before 21 {reach:.4}"
            );
        }
    }
    for discount in [0.99f64.cbrt(), 0.99, 1.0] {
        let values = shooting_values(&SHOOTING, discount);
        let share = |value: f64| 100.0 * value / values.optimum;
        println!(
            "shooting, discount {discount:.4}: optimum {:.0}, best under that discount {:.0}, random {:.0}, \
             clipped {:.0} ({:.1}%) to {:.0} ({:.1}%)",
            values.optimum,
            values.discounted,
            values.random,
            values.clipped_harshest,
            share(values.clipped_harshest),
            values.clipped_kindest,
            share(values.clipped_kindest),
        );
    }
    println!("{:#?}", investor_growth());

    println!("\nsteps per second of one core");
    for task in tasks() {
        print!("{:<28}", task.name);
        for &observation in task.observations {
            let options = TaskOptions { observation, ..TaskOptions::default() };
            let rate = bench_steps(task.name, &options, 0.3)?;
            print!(" {observation} {:.2} M", rate / 1e6);
        }
        println!();
    }
    Ok(())
}
