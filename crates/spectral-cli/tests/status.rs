//! `spectral status`: what runs are doing, or how they ended, for people and for programs.

mod common;

use common::*;

#[test]
fn a_run_is_followed_from_its_start_to_its_end() {
    let place = Place::new();
    let status = || place.run("status run --json").code(0).json()[0].clone();
    let long = format!("--agents spectral,popart --frames {} --out run", frames_in(20.0, 2));
    let child = place.start(&train(&long));
    wait_until("rows", || {
        place.path("run/run.toml").exists() && status()["agents"][0]["frames"].as_u64() > Some(0)
    });
    let now = status();
    assert_eq!((&now["state"], &now["task"]), (&"training".into(), &"exponential-pong-mini".into()));
    assert!(
        now["frames_per_second"].as_f64() > Some(0.0) && now["seconds_left"].as_f64() > Some(0.0),
        "{now}"
    );
    let people = place.run("status run").code(0).says(&["spectral watch run"]);
    assert!(people.out.contains("training") && people.out.contains("left"), "{}", people.out);
    assert!(people.out.lines().all(|line| line.chars().count() <= 80), "{}", people.out);

    signal(&child, "INT");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    let now = status();
    assert_eq!(now["state"], "interrupted");
    assert!(now["checkpoint"]["path"].as_str().unwrap().ends_with(".checkpoint"), "{now}");
    assert_eq!(now["seconds_left"], serde_json::Value::Null);
    let sum: u64 =
        now["agents"].as_array().unwrap().iter().map(|agent| agent["frames"].as_u64().unwrap()).sum();
    assert_eq!(sum, frames(&place.path("run")), "what the checkpoint holds");
    place.run("status run").code(0).says(&["spectral resume run"]);

    let mut child = place.start("resume run");
    // What was interrupted stays so until training has begun again.
    let written = || std::fs::read_to_string(place.path("run/state.toml")).unwrap_or_default();
    wait_until("training", || written().contains("status = \"running\"\nseconds"));
    assert_eq!(status()["state"], "training");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(status()["state"], "killed");
    place.run("status run").code(0).says(&["ended before it could save", "spectral resume run"]);
}

/// A limit of the system on the size of files is an error like a full disk, not the end of the process.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_reaches_a_limit_on_files_says_so() {
    let place = Place::new();
    let train =
        place.command(&train("--agents spectral --frames 60000 --set checkpoint_seconds=0.3 --out run"));
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -f 40 && exec \"$0\" \"$@\""])
        .arg(train.get_program())
        .args(train.get_args());
    limited.current_dir(place.path("."));
    let ran = Ran::of(limited.output().unwrap()).code(3);
    let now = place.run("status run --json").code(0).json()[0].clone();
    assert_eq!(now["state"], "failed", "{now} {ran:?}");

    // A command that is refused leaves that as it is.
    place.run("resume run --checkpoint nowhere").code(3);
    assert_eq!(place.run("status run --json").code(0).json()[0], now);
}

#[test]
fn a_run_that_cannot_be_read_hides_no_others() {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        place.train(&format!("--frames 600 --out runs/{name}")).code(0);
    }
    let edit = |file: &str, from: &str, to: &str| {
        let text = std::fs::read_to_string(place.path(file)).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(place.path(file), text.replacen(from, to, 1)).unwrap();
    };
    edit("runs/b/run.toml", "frames = 600", "frames = 900");
    let ran =
        place.run("status runs").code(3).says(&["runs/b/run.toml", "it was changed after it was written"]);
    assert!(
        ran.out.contains("runs/a") && ran.out.contains("runs/c") && !ran.out.contains("runs/b"),
        "{ran:?}"
    );
    let ran = place.run("status runs --json").code(3);
    assert_eq!(ran.json().as_array().unwrap().len(), 2);
    edit("runs/a/state.toml", "\"finished\"", "\"Finished\"");
    std::fs::write(place.path("runs/c/state.toml"), "").unwrap();
    place.run("status runs").code(3).says(&["a/state.toml", "b/run.toml", "c/state.toml: it is empty"]);
}

/// A disk that takes no more bytes than it has while there is a file `full`.
#[cfg(target_os = "linux")]
const FULL: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t write(int fd, const void *bytes, size_t count) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = (ssize_t (*)(int, const void *, size_t)) dlsym(RTLD_NEXT, "write");
    struct stat file;
    if (access("full", F_OK) == 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode)
        && lseek(fd, 0, SEEK_CUR) + (off_t) count > file.st_size) {
        errno = ENOSPC;
        return -1;
    }
    return real(fd, bytes, count);
}
"#;

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_a_full_disk_has_ended_says_so() {
    let place = Place::new();
    let Some(library) = preloaded(&place, "full_disk", FULL) else { return };
    let status = || place.run("status run --json").code(0).json()[0].clone();
    let start = |arguments: &str| place.command(arguments).env("LD_PRELOAD", &library).spawn().unwrap();
    let child = start(&train("--agents spectral --frames 50000000 --set checkpoint_seconds=1 --out run"));
    wait_until("a checkpoint", || !checkpoints(&place.path("run")).is_empty());
    assert_eq!(status()["state"], "training");
    std::fs::write(place.path("full"), "").unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap()).code(3).says(&["the disk is full"]);
    let now = status();
    assert_eq!(now["state"], "failed", "{now} {ran:?}");
    assert!(now["error"].as_str().unwrap().contains("the disk is full"), "{now}");
    let people =
        place.run("status run").code(0).says(&["`spectral resume run` goes on from the last checkpoint"]);
    assert!(
        people.out.contains("an error ended it: ") && people.out.contains("the disk is full"),
        "{people:?}"
    );

    // It is full still.
    assert_eq!(start("resume run").wait_with_output().unwrap().status.code(), Some(3));
    std::fs::remove_file(place.path("full")).unwrap();
    let newest = || checkpoints(&place.path("run")).pop();
    let before = newest();
    let child = start("resume run");
    wait_until("a further checkpoint", || newest() > before);
    assert_eq!(status()["state"], "training");
    assert!(status()["error"].is_null());
    signal(&child, "INT");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    let now = status();
    assert!(now["state"] == "interrupted" && now["error"].is_null(), "{now}");
}

/// Nothing says both that there is no checkpoint and that the run goes on from one.
#[test]
fn a_run_without_a_checkpoint_goes_on_from_its_start() {
    let place = Place::new();
    place.train("--frames 600 --out run").code(0);
    std::fs::remove_dir_all(place.path("run/checkpoints")).unwrap();
    std::fs::remove_file(place.path("run/state.toml")).unwrap();
    let ran = place.run("status run").code(0).says(&["spectral resume run", "goes on from the start"]);
    assert!(ran.out.contains("killed") && ran.out.contains("no checkpoint was written"), "{}", ran.out);
}

#[test]
fn several_runs_have_a_line_each_and_ends_have_reasons() {
    let place = Place::new();
    place.train("--agents spectral,clipped --seeds 2 --frames 2500 --out runs/calm").code(0);
    place.train("--agents popart --frames 2500 --out runs/wild --set learning_rate=1e30").code(4);
    let before = snapshot(place.0.path());
    let both = place.run("status runs").code(0).out;
    assert_eq!(both.lines().count(), 3, "{both}");
    assert!(both.contains("runs/calm") && both.contains("finished, 1 stopped"), "{both}");
    assert!(both.contains("spectral ") && both.contains("clipped "), "scores by name: {both}");
    let wild = place.run("status runs/wild").code(0);
    assert!(
        wild.out.contains("popart-s1 was stopped at frame") && wild.out.contains("stopped being finite"),
        "{}",
        wild.out
    );
    let calm = place.run("status runs/calm runs/calm").code(0).says(&["spectral report runs/calm"]);
    assert!(calm.out.contains("100% of 2,500 frames each, finished"), "{}", calm.out);
    let all = place.run("status runs --json").code(0).json();
    assert_eq!(all.as_array().unwrap().len(), 2);
    assert_eq!(all[0]["agents"].as_array().unwrap().len(), 4);
    assert!(all[0]["agents"][0]["score"].is_number(), "{all}");
    // It only looks on.
    assert_same(&snapshot(place.0.path()), &before);
    // A task that this program does not have is no obstacle.
    let file = place.path("runs/calm/run.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace("\"exponential-pong-mini\"", "\"of-my-own\"");
    std::fs::write(&file, unsealed(&text)).unwrap();
    assert!(place.run("status runs/calm").code(0).out.contains("of-my-own"));
}
