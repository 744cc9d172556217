//! Plans on a real Slurm: its daemons, two nodes, and what happens to jobs there. `tests/cluster/slurm.sh` starts them.
#![cfg(target_os = "linux")]

mod common;

use common::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A figure of two tasks that takes a core some seconds a population.
const FIGURE: &str = r#"# Two agents on two tasks.
agents = ["spectral", "popart"]
seeds = 2
frames = FRAMES
log_frames = 1_000
hidden = 16
batch = 8
replay = 1_500
learning_starts = 200
target_period = 300
epsilon_frames = 2_000
checkpoint_seconds = 1

[[task]]
name = "exponential-pong-mini"

[[task]]
name = "ponglantis-mini"
"#;

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cluster").canonicalize().expect("the scripts")
}

/// Nodes that get no processor for ten seconds are taken for dead.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A cluster of two nodes, and a folder to work in, whose name has what sbatch and the shell must be told to take as it is.
struct Cluster {
    place: Place,
    work: PathBuf,
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Cluster {
    /// With a figure whose jobs of so many agents take a core about so many seconds. `None`, said aloud, where there is no Slurm.
    fn start(seconds: f64, agents: u64) -> Option<Self> {
        let look = "PATH=$PATH:/usr/sbin; command -v slurmctld && command -v munged";
        let found = Command::new("sh").args(["-c", look]).stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            skipped("Slurm's daemons are not installed (Debian: slurm-wlm, munge)");
            return None;
        }
        let place = Place::new();
        // The path of a socket is short.
        let folder = tempfile::Builder::new().prefix("sl").tempdir_in("/tmp").unwrap();
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let frames = frames_in(seconds, agents);
        let work = place.path("it's a \"figure\" #1");
        std::fs::create_dir(&work).unwrap();
        std::fs::write(work.join("tiny.toml"), FIGURE.replace("FRAMES", &frames.to_string())).unwrap();
        let cluster = Cluster { place, work, folder, _alone: alone };
        // A job must have saved and said so within the time of grace, whatever else the machine does.
        cluster.script(&["start", "--requeue-wait", "5", "--time-grace", "60"]);
        Some(cluster)
    }

    /// Runs `slurm.sh` with the cluster's folder after its first word.
    fn script(&self, words: &[&str]) {
        let (first, rest) = words.split_first().unwrap();
        let mut command = Command::new("bash");
        command.arg(scripts().join("slurm.sh")).arg(first).arg(self.folder.path()).args(rest);
        let ran = command.output().expect("bash");
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    /// A program of Slurm's.
    fn client(&self, words: &str) -> String {
        let mut words = words.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        command.args(words).env("SLURM_CONF", self.folder.path().join("slurm.conf"));
        String::from_utf8(command.output().expect("a client of Slurm").stdout).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    /// A plan as it is named from the folder.
    fn name(&self, plan: &Path) -> String {
        plan.strip_prefix(&self.work).unwrap().display().to_string()
    }

    fn spectral(&self, arguments: &str) -> Ran {
        let mut command = self.place.command(arguments);
        command.current_dir(&self.work).env("SLURM_CONF", self.folder.path().join("slurm.conf"));
        Ran::of(command.output().expect("the command starts"))
    }

    /// Submits the figure, and returns the plan's folder and the array's number.
    fn submit(&self, further: &str) -> (PathBuf, String) {
        let ran = self.spectral(&format!(
            "reproduce tiny.toml --on slurm --device cpu --cpus-per-job 1 --sbatch=--mem=200 {further}"
        ));
        let ran = ran.code(0).says(&["submitted: array"]);
        let plan = std::fs::read_dir(self.path("reproduce/jobs")).unwrap().next().unwrap().unwrap().path();
        let array = ran.err.split("submitted: array ").nth(1).unwrap().split(' ').next().unwrap();
        (plan, array.to_string())
    }

    fn rows(&self, plan: &Path) -> Vec<serde_json::Value> {
        let ran = self.spectral(&format!("jobs {} --json", self.name(plan)));
        assert!(!ran.err.contains("was not asked"), "{}", ran.err);
        ran.json().as_array().unwrap().clone()
    }

    /// Waits until a job is at work for so many times, and has got further than before.
    fn wait_for_work(&self, plan: &Path, job: usize, attempt: u64) {
        let mut before = None;
        self.wait(plan, &format!("attempt {attempt} at job {job}"), 120, || {
            let row = self.rows(plan).remove(job);
            if row["state"] != "running" || row["attempts"].as_u64() < Some(attempt) {
                return false;
            }
            let done = row["done"].as_f64().unwrap();
            done > *before.get_or_insert(done)
        });
    }

    /// Waits until every job is finished, and so is the report's.
    fn wait_for_the_end(&self, plan: &Path, seconds: u64) {
        self.wait(plan, "the end of all jobs", seconds, || {
            self.rows(plan).iter().all(|row| row["state"] == "finished")
        });
        self.wait(plan, "the report", 120, || self.path("reproduce/tiny/report.html").exists());
    }

    fn wait(&self, plan: &Path, what: &str, seconds: u64, mut so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !so() {
            if begun.elapsed() > Duration::from_secs(seconds) {
                let queue = self.client("squeue --array");
                let rows = self.rows(plan);
                let logs: Vec<String> = std::fs::read_dir(plan.join("logs"))
                    .unwrap()
                    .map(|log| std::fs::read_to_string(log.unwrap().path()).unwrap_or_default())
                    .collect();
                panic!("waited {seconds} s for {what}:\n{queue}\n{rows:#?}\n{}", logs.join("\n---\n"));
            }
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    fn log(&self, plan: &Path, job: usize) -> String {
        std::fs::read_to_string(plan.join(format!("logs/{job}.log"))).unwrap_or_default()
    }

    /// What came of it must be what one machine makes.
    fn assert_same_as_here(&self) {
        self.spectral("reproduce tiny.toml --calibrate 0 --device cpu --out whole").code(0);
        assert_same(&all_results(&self.path("reproduce/runs")), &all_results(&self.path("whole/runs")));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ =
            Command::new("bash").arg(scripts().join("slurm.sh")).arg("stop").arg(self.folder.path()).output();
    }
}

/// Weights and metrics of every agent below a folder, whichever population trained it.
fn all_results(runs: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for task in std::fs::read_dir(runs).unwrap().flatten() {
        for run in std::fs::read_dir(task.path()).unwrap().flatten() {
            for (name, bytes) in results(&run.path()) {
                found.insert(format!("{}/{name}", task.file_name().to_string_lossy()), bytes);
            }
        }
    }
    found
}

#[test]
fn a_figure_over_two_nodes_is_the_same_to_the_bit() {
    let Some(cluster) = Cluster::start(4.0, 2) else { return };
    let (plan, array) = cluster.submit("--agents-per-job 2");
    assert_eq!(cluster.rows(&plan).len(), 4);
    // Two nodes, a job each; the report waits for all.
    let mut nodes = std::collections::BTreeSet::new();
    cluster.wait(&plan, "both nodes at work", 60, || {
        for line in cluster.client("squeue --noheader --array --format=%F|%N").lines() {
            if let Some((_, node)) =
                line.split_once('|').filter(|(job, node)| *job == array && !node.is_empty())
            {
                nodes.insert(node.to_string());
            }
        }
        nodes.len() == 2
    });
    cluster.wait_for_the_end(&plan, 300);
    cluster.assert_same_as_here();
    cluster.spectral(&format!("jobs {}", cluster.name(&plan))).code(0).says(&["4 finished"]);
    cluster.spectral(&format!("jobs {} --retry", cluster.name(&plan))).code(0).says(&["nothing to submit"]);
}

/// A requeue by an administrator, a preemption, a node that dies, a warning as before a time limit, one after the other.
#[test]
fn whatever_ends_a_job_it_goes_on_to_the_same_bits() {
    let Some(cluster) = Cluster::start(40.0, 4) else { return };
    let (plan, array) = cluster.submit("");
    // Requeued by somebody: Slurm puts it back itself. Meanwhile the other gets a warning as before the time limit: it puts itself
    // back.
    cluster.wait_for_work(&plan, 0, 1);
    cluster.client(&format!("scontrol requeue {array}_0"));
    cluster.wait_for_work(&plan, 1, 1);
    cluster.client(&format!("scancel --signal=TERM --batch {array}_1"));
    cluster.wait(&plan, "the end of two attempts", 60, || {
        cluster.log(&plan, 0).contains("Slurm ends this job itself")
            && cluster.log(&plan, 1).contains("queued again")
    });
    // Preempted on whichever node is free to be taken.
    cluster.wait_for_work(&plan, 0, 2);
    cluster.wait_for_work(&plan, 1, 2);
    let ended = |job| cluster.log(&plan, job).matches("Slurm ends this job itself").count();
    let before = [ended(0), ended(1)];
    cluster.client("sbatch --partition=urgent --output=/dev/null --wrap true");
    cluster.wait(&plan, "a preemption", 60, || [ended(0), ended(1)] != before);
    // The node of the other loses power, and comes back.
    let other = usize::from(ended(0) > before[0]);
    cluster.wait_for_work(&plan, other, 2);
    let node = cluster.rows(&plan)[other]["where"].as_str().unwrap().split(' ').next().unwrap().to_string();
    cluster.script(&["kill-node", &node]);
    std::thread::sleep(Duration::from_secs(3));
    cluster.script(&["start-node", &node]);
    cluster.wait_for_the_end(&plan, 500);
    for job in 0..2 {
        assert!(cluster.log(&plan, job).contains("attempt 3"), "{}", cluster.log(&plan, job));
    }
    cluster.assert_same_as_here();
}

#[test]
fn what_is_cancelled_stays_so_until_it_is_tried_again() {
    let Some(cluster) = Cluster::start(15.0, 4) else { return };
    let (plan, array) = cluster.submit("--tasks ponglantis-mini");
    cluster.wait_for_work(&plan, 0, 1);
    cluster.client(&format!("scancel {array}_0"));
    cluster.wait(&plan, "a job that is stopped", 60, || cluster.rows(&plan)[0]["state"] == "stopped");
    std::thread::sleep(Duration::from_secs(8));
    assert_eq!(cluster.rows(&plan)[0]["state"], "stopped", "it came back");
    assert!(!cluster.log(&plan, 0).contains("queued again"));
    cluster.spectral(&format!("jobs {} --retry", cluster.name(&plan))).code(0).says(&["submitted: array"]);
    cluster.wait_for_the_end(&plan, 200);
    cluster
        .spectral("reproduce tiny.toml --calibrate 0 --device cpu --out whole --tasks ponglantis-mini")
        .code(0);
    assert_same(&all_results(&cluster.path("reproduce/runs")), &all_results(&cluster.path("whole/runs")));
}

/// A job that fails puts itself back; after three attempts without progress it is given up, and says why.
#[test]
fn a_job_that_fails_for_ever_is_given_up() {
    let Some(cluster) = Cluster::start(30.0, 4) else { return };
    let (plan, array) = cluster.submit("--tasks ponglantis-mini");
    cluster.wait_for_work(&plan, 0, 1);
    let run = std::fs::read_dir(cluster.path("reproduce/runs/ponglantis-mini")).unwrap();
    let run = { run }.next().unwrap().unwrap().path();
    cluster.client(&format!("scancel --signal=TERM --batch {array}_0"));
    cluster
        .wait(&plan, "a job that hands itself back", 60, || cluster.log(&plan, 0).contains("queued again"));
    // It must not begin before all is damaged.
    cluster.wait(&plan, "a job that is held", 60, || {
        cluster.client(&format!("scontrol hold {array}_0"));
        cluster.client(&format!("squeue --noheader --array --jobs={array}_0 --format=%T|%r")).trim()
            == "PENDING|JobHeldAdmin"
    });
    for path in checkpoints(&run) {
        std::fs::write(path, b"no checkpoint").unwrap();
    }
    cluster.client(&format!("scontrol release {array}_0"));
    cluster.wait(&plan, "a job that is given up", 120, || cluster.rows(&plan)[0]["state"] == "gave up");
    let why = cluster.rows(&plan)[0]["why"].as_str().unwrap().to_string();
    assert!(why.contains("3 attempts") && why.contains("checkpoint"), "{why}");
    let log = cluster.log(&plan, 0);
    assert_eq!(log.lines().filter(|line| line.starts_with("error: ")).count(), 3, "{log}");
}

/// Six random moments of the script that does the same for hours: whatever it finds at work is preempted, requeued, told to stop, or
/// loses its node.
#[test]
fn at_random_moments_a_figure_is_disturbed_and_comes_out_the_same() {
    let Some(cluster) = Cluster::start(20.0, 2) else { return };
    let (plan, array) = cluster.submit("--agents-per-job 2");
    let ran = Command::new("python3")
        .arg(scripts().join("torture.py"))
        .arg(cluster.folder.path())
        .args([
            &array,
            "--moments",
            "6",
            "--seed",
            "16",
            "--minutes",
            "9",
            "--only",
            "preempt,requeue,node,term,twice",
        ])
        .output()
        .expect("python3");
    let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}\n{complained}");
    cluster.wait_for_the_end(&plan, 60);
    cluster.assert_same_as_here();
}
