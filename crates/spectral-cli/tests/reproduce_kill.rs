//! A figure whose making was killed at random moments ends with the same data as one that was left alone.
#![cfg(unix)]

mod common;

use common::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

const EXPERIMENT: &str = r#"# Two agents on two tasks.
agents = ["spectral", "popart"]
seeds = 2
frames = 30_000
log_frames = 1_000
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

/// Frames of all its agents together.
const ALL: u64 = 8 * 30_000;
/// In how many parts checkpoints cut the training, were they written in no time.
const PARTS: f64 = 32.0;
/// A trial that nobody waits for: what is killed in it has trained nothing.
const ENDLESS_TRIAL: u32 = 60;

/// Where a sitting is killed. These are stages of the work, not times, so that slow and fast machines meet the same.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// While it finds out what there is.
    Start,
    /// While it measures the machine.
    Trial,
    /// Some frames further than the sitting began: between two checkpoints, or while one is written.
    Training,
    /// After the last frame, while it films and draws.
    Drawing,
}
use Stage::*;

const KILLS: [Stage; 10] =
    [Trial, Training, Training, Start, Training, Trial, Training, Training, Drawing, Drawing];

/// Numbers that are the same in every run of the test.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n.max(1)
    }

    fn sleep_below(&mut self, longest: Duration) {
        std::thread::sleep(Duration::from_micros(self.below(longest.as_micros() as u64)));
    }
}

/// How long the stages of an uninterrupted figure take on this machine.
struct Durations {
    start: Duration,
    training: Duration,
    drawing: Duration,
}

/// Makes the figure without a kill.
fn make_whole(place: &Place, out: &Path) -> Durations {
    let begin = Instant::now();
    let mut child = place.start("reproduce tiny.toml --calibrate 0 --out whole");
    await_or_end("the first run directory", &mut child, || out.join("runs").exists());
    let start = begin.elapsed();
    await_or_end("the last frame", &mut child, || frames_done(out) == ALL);
    let trained = begin.elapsed();
    Ran::of(child.wait_with_output().unwrap()).code(0);
    Durations { start, training: trained - start, drawing: begin.elapsed() - trained }
}

/// Waits until something is so or the process has ended.
#[track_caller]
fn await_or_end(what: &str, child: &mut Child, mut so: impl FnMut() -> bool) {
    wait_until(what, || so() || child.try_wait().unwrap().is_some());
}

/// Everything that must not depend on kills: the figure's numbers, and every agent's metrics and weights.
fn data(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = snapshot(out);
    // Hours of training differ from run to run; films and pages follow from what is compared.
    files.retain(|name, _| {
        (name.ends_with(".csv") && !name.contains("hours")) || name.ends_with("model.safetensors")
    });
    files
}

fn frames_done(out: &Path) -> u64 {
    let Ok(tasks) = std::fs::read_dir(out.join("runs")) else { return 0 };
    let runs =
        tasks.flatten().flat_map(|task| std::fs::read_dir(task.path()).into_iter().flatten().flatten());
    runs.map(|run| frames(&run.path())).sum()
}

fn has_trial(out: &Path) -> bool {
    let mut entries = std::fs::read_dir(out).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().starts_with(".trial-"))
}

#[test]
fn killed_at_ten_random_moments_the_figure_is_the_same() {
    let place = Place::new();
    std::fs::write(place.path("tiny.toml"), EXPERIMENT).unwrap();
    let durations = make_whole(&place, &place.path("whole"));
    let whole = data(&place.path("whole"));
    let out = place.path("killed");
    let often = durations.training.as_secs_f64() / PARTS;
    let reproduce = |trial: u32| {
        format!("reproduce tiny.toml --calibrate {trial} --set checkpoint_seconds={often:.6} --out killed")
    };
    let mut numbers = Numbers(5);
    let mut longest_drawing = durations.drawing;
    let (mut early, mut progressed, mut late) = (0, 0, 0);
    let (mut killed, mut sittings) = (0, 0);
    while killed < KILLS.len() {
        let stage = KILLS[killed];
        sittings += 1;
        assert!(sittings <= 30, "{sittings} sittings, and only {killed} of them could be killed");
        let before = frames_done(&out);
        let mut child = place.start(&reproduce(if stage == Trial { ENDLESS_TRIAL } else { 0 }));
        match stage {
            Start => numbers.sleep_below(durations.start),
            Trial => {
                await_or_end("the trial", &mut child, || has_trial(&out));
                numbers.sleep_below(Duration::from_millis(200));
            }
            Training => {
                // What is left is shared among the sittings that shall come further: this one, and more.
                let sharing = KILLS[killed..].iter().filter(|&&s| s == Training).count() + 1;
                let goal = (before + 1 + numbers.below((ALL - before) / sharing as u64)).min(ALL);
                let (mut seen, mut since, mut gap) = (before, Instant::now(), Duration::ZERO);
                await_or_end("frames", &mut child, || {
                    let now = frames_done(&out);
                    if now > seen {
                        (seen, gap, since) = (now, since.elapsed(), Instant::now());
                    }
                    now >= goal
                });
                // Frames are seen when a checkpoint is complete: anywhere from there to the next.
                numbers.sleep_below(gap);
            }
            Drawing => {
                await_or_end("the last frame", &mut child, || frames_done(&out) == ALL);
                numbers.sleep_below(longest_drawing);
            }
        }
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        let ran = Ran::of(child.wait_with_output().unwrap());
        let now = frames_done(&out);
        println!("{stage:?}: frames {before} to {now}{}", if ended.is_some() { ", not killed" } else { "" });
        if ended.is_some() {
            // It was faster than the moment. Films that are there are not made again: drawing is shorter now.
            ran.code(0);
            longest_drawing /= 2;
            continue;
        }
        killed += 1;
        early += u32::from(now == before && before < ALL);
        progressed += u32::from(now > before);
        late += u32::from(now == ALL);
    }
    place.run(&reproduce(0)).code(0);
    assert_same(&data(&out), &whole);
    // All stages were met, at whatever speed.
    assert!(early >= 2, "only {early} sittings were killed before they trained");
    assert!(progressed >= 5, "only {progressed} sittings came further");
    assert!(late >= 1, "no sitting was killed after the last frame");
    // Nothing that killed sittings left is there for ever.
    let files = snapshot(&out);
    let half =
        |name: &&String| name.ends_with(".tmp") || name.contains("spectral-tmp") || name.contains(".trial");
    assert_eq!(files.keys().find(half), None);
}

#[test]
fn ctrl_c_says_how_to_go_on() {
    let place = Place::new();
    let long = format!("checkpoint_seconds = 0.03\n{}", EXPERIMENT.replace("30_000", "100_000_000"));
    std::fs::write(place.path("tiny.toml"), long).unwrap();
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
