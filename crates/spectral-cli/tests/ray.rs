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
    print(f"slept {seconds}", flush=True)

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
    // In pieces, because it may be asked to stop meanwhile.
    let mut slept = vec![0.0];
    for line in said.lines() {
        match line.strip_prefix("slept ") {
            Some(piece) => *slept.last_mut().unwrap() += piece.parse::<f64>().unwrap(),
            None if slept.last() > Some(&0.0) => slept.push(0.0),
            None => {}
        }
    }
    slept.pop_if(|last| *last == 0.0);
    assert_eq!(slept[..7], [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0], "{said}{complained}");
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

/// As much of Ray as a driver uses that is stopped: tasks are processes, which are asked to stop as Ray asks a worker.
const PROCESSES: &str = r#"
import os, select, signal

class exceptions:
    class RayError(Exception):
        pass

class Task:
    def __init__(self, function, words):
        self.answer, answer = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.write(answer, str(function(*words)).encode())
            os._exit(0)
        os.close(answer)

def init(address, **_):
    pass

def shutdown():
    pass

def nodes():
    return [{"Alive": True, "Resources": {"CPU": 64.0, "memory": 1e12}}]

def remote(**_):
    def task(function):
        function.remote = lambda *words: Task(function, words)
        return function
    return task

def wait(tasks, num_returns, timeout):
    ready = select.select([task.answer for task in tasks], [], [], timeout)[0]
    done = [task for task in tasks if task.answer in ready][:num_returns]
    return done, [task for task in tasks if task not in done]

def get(task):
    code = os.read(task.answer, 100)
    if not code:
        raise exceptions.RayError("dead")
    return int(code)

def cancel(task, force):
    os.kill(task.process, signal.SIGINT)

class get_runtime_context:
    def get_node_id(self):
        return "0123456789"
"#;

/// Two jobs that last until they are asked to stop.
const ENDLESS: &str = "reproduce tiny.toml --on ray --device cpu --cpus-per-job 1 --agents-per-job 2";

fn the_plan(place: &Place) -> PathBuf {
    std::fs::read_dir(place.path("reproduce/jobs")).unwrap().next().unwrap().unwrap().path()
}

/// Waits until this attempt at each job has trained, sends the driver or whoever started it a signal, and checks that the jobs
/// saved. Returns frames of the jobs together.
fn stop_and_check(
    place: &Place,
    driver: std::process::Child,
    attempt: u64,
    signal: rustix::process::Signal,
) -> u64 {
    let rows = || -> Vec<serde_json::Value> {
        let plans = std::fs::read_dir(place.path("reproduce/jobs")).into_iter().flatten().flatten();
        let Some(plan) = plans.map(|plan| plan.path()).find(|plan| plan.join("plan.toml").is_file()) else {
            return Vec::new();
        };
        place.run(&format!("jobs {} --json", plan.display())).json().as_array().unwrap().clone()
    };
    let at_work = |row: &serde_json::Value| {
        row["state"] == "running"
            && row["attempts"] == attempt
            && row["frames_per_second"].as_f64() > Some(0.0)
    };
    let begun = Instant::now();
    while {
        let rows = rows();
        rows.len() != 2 || !rows.iter().all(at_work)
    } {
        assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", rows());
        std::thread::sleep(Duration::from_millis(300));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&driver), signal).unwrap();
    let ran = driver.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(130), "{said}");
    assert!(!said.contains("Traceback") && said.contains("goes on from the last checkpoints"), "{said}");
    let rows = rows();
    assert!(rows.iter().all(|row| row["state"] == "stopped"), "a job did not save: {rows:?}; {said}");
    for index in 0..2 {
        let log = std::fs::read_to_string(the_plan(place).join(format!("logs/{index}.log"))).unwrap();
        assert_eq!(log.matches("saving a checkpoint").count() as u64, attempt, "{log}");
    }
    let runs = std::fs::read_dir(place.path("reproduce/runs/ponglantis-mini")).unwrap().flatten();
    runs.map(|run| frames(&run.path())).sum()
}

#[test]
fn a_driver_that_is_stopped_has_its_jobs_save() {
    let place = Place::new();
    std::fs::write(place.path("tiny.toml"), FIGURE.replace("FRAMES", "1000000000")).unwrap();
    std::fs::write(place.path("ray.py"), PROCESSES).unwrap();
    // By the command that started the driver, which passes the wish on.
    let command = place.command(ENDLESS).env("PYTHONPATH", place.path("")).spawn().unwrap();
    let first = stop_and_check(&place, command, 1, rustix::process::Signal::TERM);
    let python = std::env::var("SPECTRAL_PYTHON").unwrap_or("python3".into());
    for (attempt, signal) in [(2, rustix::process::Signal::INT), (3, rustix::process::Signal::TERM)] {
        let mut driver = Command::new(&python);
        driver.arg(the_plan(&place).join("ray_driver.py")).env("PYTHONPATH", place.path(""));
        driver.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let frames = stop_and_check(&place, driver.spawn().unwrap(), attempt, signal);
        assert!(frames > first, "{frames} frames after {first}");
    }
}

#[test]
fn a_driver_that_is_stopped_on_ray_itself_has_its_jobs_save() {
    let Some(nodes) = Nodes::start() else { return };
    let place = Place::new();
    std::fs::write(place.path("tiny.toml"), FIGURE.replace("FRAMES", "1000000000")).unwrap();
    place.run(&format!("{ENDLESS} --no-submit")).code(0);
    let driver = the_plan(&place).join("ray_driver.py").display().to_string();
    let mut first = 0;
    for (attempt, signal) in [(1, rustix::process::Signal::INT), (2, rustix::process::Signal::TERM)] {
        let mut command = nodes.call(&["exec", &nodes.python, &driver]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let frames = stop_and_check(&place, command.spawn().unwrap(), attempt, signal);
        assert!(frames > first, "{frames} frames after {first}");
        first = frames;
    }
}

#[test]
fn options_of_slurm_are_refused_for_ray() {
    let place = Place::new();
    std::fs::write(place.path("tiny.toml"), FIGURE.replace("FRAMES", "1000")).unwrap();
    for (option, name) in [
        ("--time 1:00:00", "--time"),
        ("--notice 60", "--notice"),
        ("--partition gpu", "--partition"),
        ("--sbatch=--account=me", "--sbatch"),
    ] {
        let ran = place.run(&format!("reproduce tiny.toml --on ray --device cpu --dry-run {option}"));
        ran.code(2).says(&[&format!("{name} is for Slurm")]);
    }
}

#[test]
fn the_driver_tells_jobs_where_the_roms_are() {
    let place = Place::new();
    std::fs::write(place.path("tiny.toml"), FIGURE.replace("FRAMES", "1000")).unwrap();
    let planned = format!("{ENDLESS} --no-submit");
    let ran = place.command(&planned).env("SPECTRAL_ROMS", "my \"roms\"").output().unwrap();
    Ran::of(ran).code(0);
    let driver = std::fs::read_to_string(the_plan(&place).join("ray_driver.py")).unwrap();
    let folder = place.path("my \"roms\"").canonicalize().unwrap_or(place.path("my \"roms\""));
    let written = folder.display().to_string().replace('"', "\\\"");
    assert!(driver.contains(&format!("ENVIRONMENT = {{\"SPECTRAL_ROMS\": \"{written}\"}}")), "{driver}");
}
