//! A figure whose making was killed at random moments ends with the same data as one that was left alone.
#![cfg(unix)]

mod common;

use common::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const KILLS: u32 = 10;
const EXPERIMENT: &str = r#"# Two agents on two tasks, with checkpoints all the time.
agents = ["spectral", "popart"]
seeds = 2
frames = 30_000
log_frames = 1_000
checkpoint_seconds = 0.03
hidden = 16
batch = 8
replay = 1_500
learning_starts = 200
target_period = 300
epsilon_frames = 2_000

[[task]]
name = "exponential-pong-mini"

[[task]]
name = "ponglantis-mini"
"#;

/// Moments that are the same in every run of the test.
struct Moments(u64);

impl Moments {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n.max(1)
    }
}

/// Everything that must not depend on kills: the figure's numbers, and every agent's metrics and weights.
fn data(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = snapshot(out);
    // Hours of training differ from run to run; films and pages follow from what is compared.
    files
        .retain(|name, _| (name.ends_with(".csv") && !name.contains("hours")) || name.ends_with("model.bin"));
    files
}

fn frames_done(out: &Path) -> u64 {
    let Ok(tasks) = std::fs::read_dir(out.join("runs")) else { return 0 };
    let runs =
        tasks.flatten().flat_map(|task| std::fs::read_dir(task.path()).into_iter().flatten().flatten());
    runs.map(|run| frames(&run.path())).sum()
}

#[test]
fn killed_at_ten_random_moments_the_figure_is_the_same() {
    let place = Place::new();
    std::fs::write(place.path("tiny.toml"), EXPERIMENT).unwrap();
    place.run("reproduce tiny.toml --calibrate 0 --out whole").code(0);
    let whole = data(&place.path("whole"));
    let out = place.path("killed");
    const ALL: f64 = 8.0 * 30_000.0;
    let mut moments = Moments(5);
    let (mut killed, mut progressed, mut longest) = (0, 0, 300.0f64);
    while killed < KILLS {
        // The first kills may fall into the trial.
        let trial = if killed < 2 { 1 } else { 0 };
        let before = frames_done(&out);
        let mut child = place.start(&format!("reproduce tiny.toml --calibrate {trial} --out killed"));
        std::thread::sleep(Duration::from_millis(
            moments.below(longest as u64) + 1000 * trial * moments.below(2),
        ));
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        let ran = Ran::of(child.wait_with_output().unwrap());
        if ended.is_some() {
            // It was faster than the moment: kill it while it draws, then.
            ran.code(0);
            longest = (longest * 0.5).max(2.0);
            continue;
        }
        killed += 1;
        let now = frames_done(&out);
        progressed += u32::from(now > before);
        let ahead = now as f64 / ALL > f64::from(killed) / f64::from(KILLS);
        longest = (longest
            * if ahead {
                0.6
            } else if now > before {
                1.0
            } else {
                1.4
            })
        .clamp(20.0, 3000.0);
    }
    place.run("reproduce tiny.toml --calibrate 0 --out killed").code(0);
    assert_same(&data(&out), &whole);
    println!("{progressed} of {killed} sittings came further");
    // How many do depends on the machine's speed; that one did shows that the kills fell into training.
    assert!(progressed >= 1, "no sitting came further");
    // Nothing that killed sittings left is there for ever.
    let files = snapshot(&out);
    let half =
        |name: &&String| name.ends_with(".tmp") || name.contains("spectral-tmp") || name.contains(".trial");
    assert_eq!(files.keys().find(half), None);
}

#[test]
fn ctrl_c_says_how_to_go_on() {
    let place = Place::new();
    std::fs::write(place.path("tiny.toml"), EXPERIMENT.replace("30_000", "100_000_000")).unwrap();
    let child = place.start("reproduce tiny.toml --calibrate 0 --out out");
    wait_until("some frames", || frames_done(&place.path("out")) > 0);
    signal(&child, "INT");
    let ran = Ran::of(child.wait_with_output().unwrap()).code(130);
    ran.says(&["`spectral reproduce tiny.toml --calibrate 0 --out out` once more goes on"]);
    // The second call finds what the first has begun.
    let plan = place.run("reproduce tiny.toml --calibrate 0 --out out --dry-run --json").code(0).json();
    assert!(plan["frames"].as_u64().unwrap() < 8 * 100_000_000, "{plan}");
    assert_eq!(plan["populations"], 2);
}
