//! Plans on a real Ray cluster of two nodes, one of which dies. `tests/cluster/ray_nodes.py` starts them.
#![cfg(target_os = "linux")]

mod common;

use common::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A figure of one task in two populations, each of which takes a core half a minute.
const FIGURE: &str = r#"# Two agents on a task.
agents = ["spectral", "popart"]
seeds = 2
frames = FRAMES
log_frames = 10_000
hidden = 16
batch = 8
replay = 1_500
learning_starts = 200
target_period = 300
epsilon_frames = 2_000
checkpoint_seconds = 1

[[task]]
name = "ponglantis-mini"
"#;

/// Two nodes, with a Python that has Ray.
struct Nodes {
    python: String,
    folder: tempfile::TempDir,
}

impl Nodes {
    /// `None`, said aloud, where there is no Ray.
    fn start() -> Option<Self> {
        let python = std::env::var("SPECTRAL_PYTHON").unwrap_or("python3".into());
        let found = Command::new(&python).args(["-c", "import ray"]).output();
        if !found.is_ok_and(|ran| ran.status.success()) {
            skipped("Python's package ray is not installed (SPECTRAL_PYTHON names a Python that has it)");
            return None;
        }
        // The path of a socket is short.
        let folder = tempfile::Builder::new().prefix("ry").tempdir_in("/tmp").unwrap();
        let nodes = Nodes { python, folder };
        nodes.script(&["start"]);
        Some(nodes)
    }

    fn call(&self, words: &[&str]) -> Command {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cluster/ray_nodes.py").canonicalize();
        let (first, rest) = words.split_first().unwrap();
        let mut command = Command::new(&self.python);
        command.arg(script.expect("the script")).arg(first).arg(self.folder.path()).args(rest);
        command
    }

    fn script(&self, words: &[&str]) -> Output {
        let ran = self.call(words).output().expect("Python");
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
        ran
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        let _ = self.call(&["stop"]).output();
    }
}

fn all_results(runs: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for run in std::fs::read_dir(runs.join("ponglantis-mini")).unwrap().flatten() {
        found.extend(results(&run.path()));
    }
    found
}

#[test]
fn a_node_dies_and_the_figure_is_the_same_to_the_bit() {
    let Some(nodes) = Nodes::start() else { return };
    let place = Place::new();
    let figure = FIGURE.replace("FRAMES", &frames_in(30.0, 2).to_string());
    std::fs::write(place.path("tiny.toml"), figure).unwrap();
    let planned = "reproduce tiny.toml --on ray --device cpu --cpus-per-job 1 --agents-per-job 2 --no-submit";
    place.run(planned).code(0).says(&["ray_driver.py"]);
    let plan: PathBuf =
        std::fs::read_dir(place.path("reproduce/jobs")).unwrap().next().unwrap().unwrap().path();
    let driver = plan.join("ray_driver.py").display().to_string();
    // As the command starts it, but where the nodes can be reached.
    let mut driver = nodes.call(&["exec", &nodes.python, &driver]);
    let mut driver =
        driver.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let rows = || place.run(&format!("jobs {} --json", plan.display())).json();
    let wait = |what: &str, seconds: u64, so: &mut dyn FnMut() -> bool| {
        let begun = Instant::now();
        while !so() {
            assert!(
                begun.elapsed() < Duration::from_secs(seconds),
                "waited {seconds} s for {what}: {}",
                rows()
            );
            std::thread::sleep(Duration::from_millis(300));
        }
    };
    wait("work on both nodes", 120, &mut || {
        rows()
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["state"] == "running" && row["done"].as_f64() > Some(0.0))
    });
    nodes.script(&["kill", "n2"]);
    wait("the end of all jobs", 400, &mut || driver.try_wait().unwrap().is_some());
    // Ray's own words are coloured.
    let ran = driver.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("tried again"), "nothing was lost with the node: {said}");
    assert!(rows().as_array().unwrap().iter().all(|row| row["state"] == "finished"), "{}", rows());
    assert!(place.path("reproduce/tiny/report.html").is_file());
    place.run("reproduce tiny.toml --calibrate 0 --device cpu --out whole").code(0);
    assert_same(&all_results(&place.path("reproduce/runs")), &all_results(&place.path("whole/runs")));
}

/// As much of Ray as the driver uses: tasks are done when they are asked for.
const STAND_IN: &str = r#"
import os

class exceptions:
    class RayError(Exception):
        pass

class Done:
    def __init__(self, function, words):
        try:
            self.outcome, self.error = function(*words), None
        except Exception as error:
            self.outcome, self.error = None, exceptions.RayError(error)

def init(address, **_):
    if address == "nowhere":
        raise ConnectionError("a long story")

def nodes():
    return [{"Alive": True, "Resources": {"CPU": 1.0, "memory": 1e12}}, {"Alive": False, "Resources": {"CPU": 64.0, "memory": 1e12}}]

def remote(**_):
    def task(function):
        function.remote = lambda *words: Done(function, words)
        return function
    return task

def wait(tasks, num_returns, timeout):
    return tasks[:1], tasks[1:]

def get(task):
    if task.error:
        raise task.error
    return task.outcome

class get_runtime_context:
    def get_node_id(self):
        return "0123456789"
"#;

/// Runs a driver with a clock that only sleeping moves, and says how long it slept each time.
const CLOCK: &str = r#"
import runpy, sys, time

now = 0.0
time.monotonic = lambda: now

def sleep(seconds):
    global now
    now += seconds
    print(f"slept {seconds:.0f}", flush=True)

time.sleep = sleep
runpy.run_path(sys.argv[1], run_name="__main__")
"#;

/// A plan's driver with the stand-in for Ray.
fn drive(place: &Place, plan: &Path, address: &str) -> Output {
    std::fs::write(place.path("ray.py"), STAND_IN).unwrap();
    let python = std::env::var("SPECTRAL_PYTHON").unwrap_or("python3".into());
    let mut command = Command::new(python);
    command.args(["-c", CLOCK]).arg(plan.join("ray_driver.py"));
    command.env("PYTHONPATH", place.path("")).env("RAY_ADDRESS", address);
    command.output().expect("Python")
}

/// On a node without the plan's folder a task ends at once, and that node is free again at once.
#[test]
fn the_driver_pauses_before_it_tries_again_and_says_what_is_missing_at_the_end() {
    let place = Place::new();
    std::fs::write(place.path("tiny.toml"), FIGURE.replace("FRAMES", "1000")).unwrap();
    place.run("reproduce tiny.toml --on ray --device cpu --agents-per-job 2 --no-submit").code(0);
    let plan = std::fs::read_dir(place.path("reproduce/jobs")).unwrap().next().unwrap().unwrap().path();
    // No log can be opened where a folder lies; nor can a report be written.
    std::fs::create_dir_all(plan.join("logs/0.log")).unwrap();
    std::fs::write(place.path("reproduce/tiny"), "in the way").unwrap();
    let ran = drive(&place, &plan, "somewhere");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let complained = String::from_utf8_lossy(&ran.stderr).into_owned();
    let slept: Vec<u64> =
        said.lines().filter_map(|line| line.strip_prefix("slept ")).map(|n| n.parse().unwrap()).collect();
    assert_eq!(slept[..7], [2, 4, 8, 16, 32, 60, 60], "{said}{complained}");
    assert_eq!(slept.len(), 99, "each attempt but the last is followed by a pause: {said}");
    // The other job was not kept waiting.
    let line = |what: &str| said.lines().position(|line| line.starts_with(what)).unwrap_or(usize::MAX);
    assert!(line("job 1: done (1 of 2)") < line("slept"), "{said}");
    assert_eq!(ran.status.code(), Some(1));
    assert!(!complained.contains("Traceback"), "{complained}");
    assert!(complained.contains("not finished: 0; the report was not written (exit code"), "{complained}");
}

#[test]
fn the_driver_says_what_its_jobs_wait_for() {
    let place = Place::new();
    std::fs::write(place.path("tiny.toml"), FIGURE.replace("FRAMES", "1000")).unwrap();
    let planned = "reproduce tiny.toml --on ray --device cpu --cpus-per-job 5 --agents-per-job 2 --no-submit";
    place.run(planned).code(0);
    let plan = std::fs::read_dir(place.path("reproduce/jobs")).unwrap().next().unwrap().unwrap().path();
    // What nobody has begun is Ray's to do, not something to be tried again.
    let table = place.run(&format!("jobs {}", plan.display())).code(0);
    let table = table.says(&["2 not begun", "ray_driver.py", "start it again"]);
    assert!(!table.err.contains("--retry"), "{}", table.err);
    let ran = drive(&place, &plan, "nowhere");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("no Ray cluster at 'nowhere'") && said.contains("ray start --head"), "{said}");
    assert!(!said.contains("Traceback"), "{said}");
    // Its one living node is too small.
    let ran = drive(&place, &plan, "somewhere");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("no node of this cluster has 5 cores"), "{said}");
    place.run(&format!("jobs {}", plan.display())).code(0).says(&["2 finished"]);
    place.run(planned).code(0).says(&["everything is there"]);
}
