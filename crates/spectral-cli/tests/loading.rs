//! Jobs whose runs take long to load: what counts as an attempt, and whether its end was the job's fault.
//!
//! This program is the command, too, with a task that cannot be made while a file is there.
#![cfg(unix)]

mod common;

use common::*;
use spectral_cli::Registry;
use spectral_core::rng::Stream;
use spectral_env::{Env, Observation, Step, TaskEntry, TaskSpec};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The words of a command that this program is to run.
const WORDS: &str = "SPECTRAL_TEST_WORDS";
/// The file that keeps the task from being made.
const GATE: &str = "SPECTRAL_TEST_GATE";

struct SlowStart {
    spec: TaskSpec,
}

impl SlowStart {
    fn new() -> Self {
        let gate = std::env::var_os(GATE).map(PathBuf::from).unwrap_or_default();
        while gate.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        SlowStart { spec: TaskSpec::vector("slow-start", 1, &["a", "b"]) }
    }
}

impl Env for SlowStart {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }
    fn reset(&mut self, _: &mut Stream) {}
    fn step(&mut self, _: usize, _: &mut Stream) -> Step {
        Step { reward: 1.0, ..Step::default() }
    }
    fn observe(&self, out: Observation<'_>) {
        out.vector().fill(1.0);
    }
}

/// No test of its own: the command, where a test below has started it.
#[test]
fn as_the_command() {
    let Ok(words) = std::env::var(WORDS) else { return };
    let registry = Registry::default().with_task(TaskEntry::new("slow-start", "", SlowStart::new)).unwrap();
    let words = ["spectral"].into_iter().chain(words.split_whitespace());
    std::process::exit(i32::from(spectral_cli::run(&registry, words)));
}

fn command(place: &Place, words: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "as_the_command", "--nocapture"]).current_dir(place.path(""));
    command.env(WORDS, words).env(GATE, place.path("gate"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(place: &Place, words: &str) -> Ran {
    Ran::of(command(place, words).output().unwrap())
}

/// A plan of one job that trains for ever, and has come some way.
fn plan(place: &Place) -> PathBuf {
    let small: String = SMALL.iter().map(|pair| format!(" --set {pair}")).collect();
    let set = "--set checkpoint_seconds=0.05 --frames 1000000000 --device cpu";
    run(place, &format!("train --task slow-start{small} {set} --on slurm --no-submit")).code(0);
    let plans = std::fs::read_dir(place.path("cluster/jobs")).unwrap().flatten();
    let plan = { plans }.next().expect("a plan").path();
    let child = start(place, &plan);
    let runs = place.path("cluster/runs/slow-start");
    let run = || std::fs::read_dir(&runs).into_iter().flatten().flatten().next().map(|entry| entry.path());
    wait_until("a checkpoint", || run().is_some_and(|run| frames(&run) > 0));
    signal(&child, "TERM");
    Ran::of(child.wait_with_output().unwrap()).code(130);
    plan
}

fn start(place: &Place, plan: &Path) -> Child {
    command(place, &format!("job run {} 0", plan.display())).spawn().unwrap()
}

/// What the job's status says of something.
fn said(plan: &Path, key: &str) -> String {
    let text = std::fs::read_to_string(plan.join("status/000.toml")).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    value.unwrap_or_default().trim_matches('"').to_string()
}

fn loads(plan: &Path, attempt: u64) {
    wait_until(&format!("attempt {attempt} that loads its run"), || {
        (said(plan, "attempts"), said(plan, "state")) == (attempt.to_string(), "running".into())
    });
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn who_is_killed_while_a_run_is_loaded_has_been_tried() {
    let place = Place::new();
    let plan = plan(&place);
    std::fs::write(place.path("gate"), "").unwrap();
    for attempt in 2..5 {
        let child = start(&place, &plan);
        loads(&plan, attempt);
        kill(child);
    }
    run(&place, &format!("job run {} 0", plan.display())).code(7).says(&["given up", "3 attempts in a row"]);
    assert_eq!((said(&plan, "attempts"), said(&plan, "state")), ("4".into(), "gave up".into()));
}

#[test]
fn who_is_asked_to_stop_while_a_run_is_loaded_and_then_killed_has_not_failed() {
    let place = Place::new();
    let plan = plan(&place);
    std::fs::write(place.path("gate"), "").unwrap();
    for attempt in 2..7 {
        let child = start(&place, &plan);
        loads(&plan, attempt);
        signal(&child, "TERM");
        // It loads still: a node gives it a while, and then ends it.
        wait_until("that it was asked", || said(&plan, "state") == "stopped");
        kill(child);
    }
    // The first of them went on from where an earlier one had come.
    assert_eq!((said(&plan, "fruitless"), said(&plan, "turned_away")), ("0".into(), "4".into()));
    // Let through, it trains, and nothing is counted any more once it has.
    std::fs::remove_file(place.path("gate")).unwrap();
    let child = start(&place, &plan);
    let before: u64 = said(&plan, "frames").parse().unwrap();
    loads(&plan, 7);
    let runs = place.path("cluster/runs/slow-start");
    let of = std::fs::read_dir(&runs).unwrap().flatten().next().unwrap().path();
    wait_until("a checkpoint", || frames(&of) > before);
    signal(&child, "TERM");
    Ran::of(child.wait_with_output().unwrap()).code(130);
    let child = start(&place, &plan);
    loads(&plan, 8);
    assert_eq!(said(&plan, "turned_away"), "0");
    kill(child);
}
