//! A run that is killed, interrupted and resumed ends with the same bits as one that was left alone.
#![cfg(unix)]

mod common;

use common::*;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A small generator: moments must be the same in every run of the test.
struct Moments(u64);

impl Moments {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Whether a run looks as if it was killed while it wrote a checkpoint: a half-written file, or a segment that is newer
/// than the newest checkpoint.
fn killed_while_writing(run: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(run.join("checkpoints")) else { return false };
    let half = entries.flatten().any(|e| hidden(&e.path()));
    let written = |path: &Path| path.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let newest = checkpoints(run).last().map_or(SystemTime::UNIX_EPOCH, |p| written(p));
    half || segments(run).iter().any(|p| written(p) > newest)
}

/// Twenty kills at random moments and five while a checkpoint is being written, of a population that has everything that
/// a checkpoint must keep: statistics that move, priorities, a replay that wraps, means of weights.
#[test]
fn killed_at_twenty_random_moments_and_resumed_the_result_is_the_same_to_the_bit() {
    let place = Place::new();
    const FRAMES: u64 = 200_000;
    const KILLS: u32 = 25;
    let arguments = format!(
        "--agents spectral,popart,rich.toml --frames {FRAMES} --set checkpoint_seconds=0.03 --set average=9000"
    );
    place.train(&format!("{arguments} --out whole")).code(0);
    let run = place.path("killed");
    let mut moments = Moments(20);
    let (mut killed, mut progressed, mut while_writing) = (0, 0, 0);
    // In milliseconds; follows the machine's pace, so that the kills are spread over the whole run.
    let mut longest = 120.0f64;
    let mut before = checkpoints(&run);
    while killed < KILLS {
        let mut child = if run.join("run.toml").exists() {
            place.start("resume killed")
        } else {
            // A kill before `run.toml` was whole leaves a folder that counts as empty.
            place.start(&train(&format!("{arguments} --out killed")))
        };
        if killed < 20 {
            std::thread::sleep(Duration::from_millis(moments.below(longest as u64)));
        } else {
            let known = segments(&run);
            wait_until("a checkpoint", || segments(&run) != known || child.try_wait().unwrap().is_some());
        }
        let ended = child.try_wait().unwrap();
        assert!(
            ended.is_none(),
            "{ended:?} after {killed} kills: {:?}",
            Ran::of(child.wait_with_output().unwrap())
        );
        child.kill().unwrap();
        Ran::of(child.wait_with_output().unwrap());
        killed += 1;
        let now = checkpoints(&run);
        let further = now.last() > before.last();
        progressed += u32::from(further);
        let ahead = frames(&run) as f64 / (3.0 * FRAMES as f64) > f64::from(killed) / f64::from(KILLS);
        longest *= if ahead {
            0.7
        } else if further {
            1.0
        } else {
            1.3
        };
        longest = longest.clamp(20.0, 3000.0);
        before = now;
        while_writing += u32::from(killed_while_writing(&run));
    }
    place.run("resume killed").code(0).says(&["resuming", "done"]);
    assert_same(&results(&run), &results(&place.path("whole")));
    println!("{progressed} of {killed} sittings came further, {while_writing} were killed while writing");
    assert!(run.join("agents/popart-s1/model-average.safetensors").exists());
    assert!(progressed >= 8, "only {progressed} sittings came further");
    assert!(while_writing >= 3, "only {while_writing} kills fell into the writing of a checkpoint");
    // Nothing that killed sittings left is there for ever.
    assert_eq!(checkpoints(&run).len(), 2);
    assert_eq!(checkpoints(&place.path("whole")).len(), 2);
    let files = snapshot(&run);
    assert!(!files.keys().any(|name| name.contains("spectral-tmp")), "{:?}", files.keys());
}

/// The pipeline that a GPU has, with learners on the CPU: killed, interrupted, moved to the plain trainer and back.
#[test]
fn killed_in_the_pipeline_and_resumed_anywhere_the_result_is_the_same_to_the_bit() {
    let place = Place::new();
    // With so many frozen games that some are always under way.
    let arguments = "--agents spectral,popart,categorical --frames 40000 --set checkpoint_seconds=0.1 \
                     --set average=9000 --set eval_every=1000 --set eval_games=30";
    place.train(&format!("{arguments} --device cpu --out whole")).code(0);
    let whole = results(&place.path("whole"));
    let evaluations = String::from_utf8_lossy(&whole["spectral-s1/eval.csv"]).into_owned();
    // The last model and the mean of the weights play side by side.
    let models: Vec<&str> = evaluations.lines().skip(1).filter_map(|row| row.split(',').nth(1)).collect();
    assert_eq!(models, ["last", "average"].repeat(40));
    place.train("--agents spectral,popart,categorical --frames 40000 --out off").code(0);
    let added = ["eval.csv", "model-best.safetensors", "model-average.safetensors"];
    let others = |name: &String| !added.iter().any(|file| name.ends_with(file));
    let old = whole.into_iter().filter(|(name, _)| others(name)).collect();
    assert_same(&old, &results(&place.path("off")));
    let run = place.path("killed");
    let mut moments = Moments(4);
    for sitting in 0..8 {
        let mut child = match sitting {
            0 => place.start(&train(&format!("{arguments} --device cpu-lockstep --out killed"))),
            3 => place.start("resume killed --device cpu"),
            _ => place.start("resume killed"),
        };
        let before = checkpoints(&run);
        wait_until("a checkpoint", || {
            checkpoints(&run).last() > before.last() || child.try_wait().unwrap().is_some()
        });
        std::thread::sleep(Duration::from_millis(moments.below(40)));
        if sitting == 5 {
            signal(&child, "INT");
        } else {
            let _ = child.kill();
        }
        Ran::of(child.wait_with_output().unwrap());
    }
    place.run("resume killed").code(0).says(&["done"]);
    assert_same(&results(&run), &results(&place.path("whole")));
    let text = std::fs::read_to_string(run.join("run.toml")).unwrap();
    assert!(text.contains("device = \"cpu-lockstep, then cpu, then cpu-lockstep\""), "{text}");
}

#[test]
fn ctrl_c_saves_says_how_to_resume_and_changes_nothing() {
    let place = Place::new();
    let arguments = "--agents spectral,rich.toml --frames 30000";
    place.train(&format!("{arguments} --out whole")).code(0);
    let child = place.start(&train(&format!("{arguments} --out cut")));
    let run = place.path("cut");
    wait_until("some metrics", || {
        std::fs::metadata(run.join("agents/spectral-s1/metrics.csv")).is_ok_and(|m| m.len() > 2000)
    });
    signal(&child, "INT");
    let ran = Ran::of(child.wait_with_output().unwrap()).code(130);
    ran.says(&["saving a checkpoint", "interrupted", "`spectral resume cut`"]);
    let state = std::fs::read_to_string(run.join("state.toml")).unwrap();
    assert!(state.contains("status = \"interrupted\""), "{state}");
    assert!((1..60_000).contains(&frames(&run)), "{state}");
    // Its agents play as they were in the checkpoint; there is no other model.
    let unfinished = place.run("eval cut --episodes 1 --json").code(0).says(&["not at its planned end"]);
    let rows = unfinished.json();
    let reached: u64 = rows.as_array().unwrap().iter().map(|row| row["frame"].as_u64().unwrap()).sum();
    assert_eq!(reached, frames(&run));
    for (model, why) in [("best", "eval_every"), ("average", "no mean of the weights")] {
        let absent = place.run(&format!("eval cut --model {model}")).code(2);
        absent.says(&[&format!("spectral-s1 has no model '{model}'"), why, "what it has is: last"]);
    }
    place.run("report cut").code(0);
    place.run("resume cut").code(0);
    assert_same(&results(&run), &results(&place.path("whole")));
}

/// Lets no file in a folder of checkpoints be synced as long as there is a file `hold`: saving takes as long as the test wants.
const HELD: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int held(const char *name, int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    if (strstr(path, "/checkpoints/"))
        while (!access("hold", F_OK)) usleep(1000);
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(file);
}
int fsync(int file) { return held("fsync", file); }
int fdatasync(int file) { return held("fdatasync", file); }
"#;

#[test]
fn a_second_ctrl_c_ends_at_once_and_loses_nothing_that_was_saved() {
    let place = Place::new();
    let Some(library) = preloaded(&place, "held", HELD) else { return };
    place.train("--frames 2000 --out cut").code(0);
    let run = place.path("cut");
    let saved = |run: &Path| snapshot(&run.join("checkpoints"));
    let before = saved(&run);
    let metrics = run.join("agents/spectral-s1/metrics.csv");
    let rows = || metrics.metadata().map_or(0, |m| m.len());
    let some = rows();
    let mut command = place.command("resume cut --frames 100000000");
    let mut child = command.env("LD_PRELOAD", &library).spawn().unwrap();
    wait_until("further rows", || rows() > some + 1000);
    std::fs::write(place.path("hold"), "").unwrap();
    signal(&child, "INT");
    let saving = || std::fs::read_dir(run.join("checkpoints")).unwrap().any(|e| hidden(&e.unwrap().path()));
    wait_until("a checkpoint to be written", saving);
    // For a moment a second one counts as the first.
    signal(&child, "INT");
    std::thread::sleep(Duration::from_millis(2100));
    assert!(child.try_wait().unwrap().is_none(), "it is still saving");
    signal(&child, "INT");
    wait_until("the end, although nothing can be saved", || child.try_wait().unwrap().is_some());
    let ran = Ran::of(child.wait_with_output().unwrap()).code(130);
    ran.says(&["saving a checkpoint", "ended without saving"]);
    std::fs::remove_file(place.path("hold")).unwrap();
    // What it was saving has left a trace, which counts for nothing.
    let mut after = saved(&run);
    after.retain(|name, _| !name.starts_with('.'));
    assert_eq!(after, before);
    place.run("report cut").code(0);
    let played = place.run("eval cut --episodes 1 --json").code(0).json();
    assert_eq!(played[0]["frame"], 2000, "{played}");
}

/// `timeout` signals a process and its group, schedulers and wrappers forward what they got: the same wish comes several times.
#[test]
fn signals_that_come_twice_lose_no_checkpoint() {
    let place = Place::new();
    for (n, (first, second)) in
        [("INT", "INT"), ("TERM", "TERM"), ("INT", "TERM"), ("TERM", "INT")].iter().enumerate()
    {
        let child = place.start(&train(&format!("--seeds 2 --frames 100000000 --out run{n}")));
        let run = place.path(&format!("run{n}"));
        let metrics = run.join("agents/spectral-s1/metrics.csv");
        wait_until("some rows", || metrics.metadata().is_ok_and(|m| m.len() > 900));
        for name in [first, second, first] {
            // It may have ended by then.
            signal(&child, name);
            std::thread::sleep(Duration::from_millis(3));
        }
        Ran::of(child.wait_with_output().unwrap()).code(130).says(&["interrupted and saved"]);
        assert_eq!(checkpoints(&run).len(), 1, "{first} and {second}");
    }
}

/// `nohup` is to let a run go on when the terminal goes away; without it, that is a wish to save and stop.
#[cfg(target_os = "linux")]
#[test]
fn who_was_started_by_nohup_goes_on_when_the_terminal_goes_away() {
    let place = Place::new();
    for (name, before) in [("kept", "trap '' HUP; "), ("stopped", "")] {
        let program = format!("{before}exec \"$0\" \"$@\"");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &program, env!("CARGO_BIN_EXE_spectral")]).current_dir(place.path(""));
        command.args(train(&format!("--frames 100000000 --out {name}")).split_whitespace());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        let metrics = place.path(&format!("{name}/agents/spectral-s1/metrics.csv"));
        let rows = || metrics.metadata().map_or(0, |m| m.len());
        wait_until("some rows", || rows() > 900);
        signal(&child, "HUP");
        if name == "kept" {
            let before = rows();
            wait_until("further rows", || rows() > before + 3000);
            signal(&child, "TERM");
        }
        Ran::of(child.wait_with_output().unwrap()).code(130).says(&["interrupted and saved"]);
    }
}

/// Several processes that begin a run in one folder at once: one of them does, and the folder says what that one does.
#[test]
fn of_those_that_begin_a_run_at_once_one_does() {
    let place = Place::new();
    for attempt in 0..6 {
        let begin = |seed: usize| {
            let out = format!("--seeds {0}..{0} --frames 300 --out run{attempt}", 10 + seed);
            place.start(&train(&out))
        };
        let children: Vec<_> = (0..4).map(begin).collect();
        let ended: Vec<Ran> = children.into_iter().map(|c| Ran::of(c.wait_with_output().unwrap())).collect();
        let winners: Vec<usize> = (0..4).filter(|&n| ended[n].code == Some(0)).collect();
        let [winner] = winners[..] else { panic!("{ended:#?}") };
        let run = place.path(&format!("run{attempt}"));
        let text = std::fs::read_to_string(run.join("run.toml")).unwrap();
        assert!(text.contains(&format!("seed = {}", 10 + winner)), "run.toml is not the winner's: {text}");
        let agents: Vec<_> = std::fs::read_dir(run.join("agents")).unwrap().collect();
        assert_eq!(agents.len(), 1);
        assert!(ended.iter().enumerate().all(|(n, ran)| n == winner || ran.code == Some(2)), "{ended:#?}");
    }
}

#[test]
fn a_run_belongs_to_one_process_at_a_time() {
    let place = Place::new();
    let mut child = place.start(&train("--frames 100000000 --out busy"));
    wait_until("the run", || place.path("busy/state.toml").exists());
    let agents = place.path("busy/agents");
    place.run("resume busy").code(2).says(&["another process is at work in busy"]);
    child.kill().unwrap();
    child.wait().unwrap();
    // Nothing was saved yet: it begins again, and a polite kill is as good as Ctrl-C.
    std::fs::remove_dir_all(&agents).unwrap();
    let child = place.start("resume busy");
    wait_until("a sitting", || {
        agents.join("spectral-s1/metrics.csv").metadata().is_ok_and(|m| m.len() > 900)
    });
    signal(&child, "TERM");
    Ran::of(child.wait_with_output().unwrap()).code(130);
}
