//! The real command, run as a user runs it, and what tests want to know about the folders it leaves.

// Every test file takes what it needs.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Settings that make a run small: a little network, a replay that wraps many times.
pub const SMALL: &[&str] = &[
    "hidden=16",
    "batch=8",
    "replay=1500",
    "learning_starts=200",
    "target_period=300",
    "epsilon_frames=2000",
    "log_frames=500",
];

/// An agent file with every option that the presets leave off.
pub const RICH: &str =
    "# Every option at once.\ncodec = \"compressed\"\nprioritised = true\ndouble = true\ndueling = true\n";

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the command speaks UTF-8");
        let ran = Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) };
        assert!(!ran.err.contains("panicked at"), "a panic reached the user: {}", ran.err);
        for (what, said) in [("output", &ran.out), ("errors", &ran.err)] {
            assert!(!said.contains('\x1b'), "escape codes in {what} that go to no terminal: {said:?}");
            assert!(!said.contains('\r'), "a bar in {what} that go to no terminal: {said:?}");
        }
        ran
    }

    /// Fails unless the command ended with this code.
    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, Some(expected), "{self:#?}");
        self
    }

    /// Fails unless standard error has all of these.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.err.contains(word), "no '{word}' in: {}", self.err);
        }
        self
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.out))
    }
}

/// A folder of one test with the command at work inside it.
pub struct Place(pub TempDir);

impl Place {
    pub fn new() -> Self {
        let place = Place(TempDir::new().expect("a temporary folder"));
        std::fs::write(place.path("rich.toml"), RICH).unwrap();
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The command, with arguments separated by blanks.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spectral"));
        command.args(arguments.split_whitespace()).current_dir(self.0.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the command to its end.
    pub fn run(&self, arguments: &str) -> Ran {
        Ran::of(self.command(arguments).output().expect("the command starts"))
    }

    /// Starts the command and returns at once.
    pub fn start(&self, arguments: &str) -> Child {
        self.command(arguments).spawn().expect("the command starts")
    }

    /// `train` with small settings and these further arguments.
    pub fn train(&self, arguments: &str) -> Ran {
        self.run(&train(arguments))
    }
}

/// The arguments of a small training run.
pub fn train(arguments: &str) -> String {
    let set: String = SMALL.iter().map(|pair| format!(" --set {pair}")).collect();
    format!("train --task exponential-pong-mini{set} {arguments}")
}

/// The text of a run's description or state without the checksum in its first line, as somebody has it who changes it on purpose.
pub fn unsealed(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("# checksum")).map(|line| format!("{line}\n")).collect()
}

/// Frames that each of so many small agents plays while one core works for about so many seconds: what is to be met at work must
/// be at work for long enough, however fast the machine is.
pub fn frames_in(seconds: f64, agents: u64) -> u64 {
    const FRAMES: u64 = 50_000;
    static RATE: OnceLock<f64> = OnceLock::new();
    // Other tests wait meanwhile. Whatever else the machine does makes a measurement slower: the best one is the nearest to what a
    // core can do when it is left alone.
    let rate = RATE.get_or_init(|| {
        let place = Place::new();
        let measure = |number: u64| {
            let start = Instant::now();
            place
                .train(&format!(
                    "--agents spectral,popart --frames {FRAMES} --set threads=1 --out rate-{number}"
                ))
                .code(0);
            2.0 * FRAMES as f64 / start.elapsed().as_secs_f64()
        };
        (0..3).map(measure).fold(0.0, f64::max)
    });
    let frames = (seconds * rate / agents as f64 / 1000.0).ceil() as u64 * 1000;
    println!(
        "{rate:.0} frames a second: {frames} frames for each of {agents} agents are {seconds} s of a core"
    );
    frames
}

/// Every file under a folder, by its path inside it. Links count as what they point to.
pub fn snapshot(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(root: &Path, folder: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, files);
            } else if !spectral_train::claim::is_part_of(&path.file_name().unwrap().to_string_lossy()) {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                files.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    let mut files = BTreeMap::new();
    walk(folder, folder, &mut files);
    files
}

/// What must never depend on how a run was interrupted or who else took part: weights and metrics of every agent.
pub fn results(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = snapshot(&run.join("agents"));
    files.retain(|name, _| name.ends_with(".csv") || name.ends_with(".safetensors"));
    files
}

/// Fails, naming the file, unless two sets of files are the same to the bit.
#[track_caller]
pub fn assert_same(found: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, bytes) in expected {
        let other = &found[name];
        let at = bytes.iter().zip(other).position(|(a, b)| a != b);
        assert!(bytes == other, "{name} differs at byte {at:?} ({} and {} bytes)", other.len(), bytes.len());
    }
}

/// The checkpoints of a run, oldest first.
pub fn checkpoints(run: &Path) -> Vec<PathBuf> {
    files_in(&run.join("checkpoints"), ".checkpoint")
}

/// The replay segments of a run, in order of their names.
pub fn segments(run: &Path) -> Vec<PathBuf> {
    files_in(&run.join("checkpoints"), ".segment")
}

fn files_in(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().map(|e| e.path());
    let mut paths: Vec<PathBuf> =
        names.filter(|p| p.to_string_lossy().ends_with(suffix) && !hidden(p)).collect();
    paths.sort();
    paths
}

/// Whether a file is one that a killed process left half-written.
pub fn hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// `state.toml`, and the sum of its agents' frames.
pub fn frames(run: &Path) -> u64 {
    let text = std::fs::read_to_string(run.join("state.toml")).unwrap_or_default();
    let counts = text.lines().filter_map(|line| line.strip_prefix("frames = "));
    counts.map(|n| n.parse::<u64>().expect("a count")).sum()
}

/// Waits until something is so.
#[track_caller]
pub fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited a minute for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a signal by its name.
#[cfg(unix)]
#[track_caller]
pub fn signal(child: &Child, name: &str) {
    use rustix::process::{Pid, Signal, kill_process};
    let known = [
        ("INT", Signal::INT),
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("KILL", Signal::KILL),
        ("STOP", Signal::STOP),
        ("CONT", Signal::CONT),
    ];
    let (_, signal) = known.into_iter().find(|(known, _)| *known == name).expect("a signal's name");
    kill_process(Pid::from_child(child), signal).expect("a child that nobody has waited for");
}

/// Sends a signal by its name.
#[cfg(not(unix))]
pub fn signal(child: &Child, name: &str) {
    let done = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", child.id())).status();
    assert!(done.expect("a shell").success());
}

/// Stops a process and waits until all of it stands still; false if it has ended before.
#[cfg(unix)]
pub fn stop(child: &mut Child) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    signal(child, "STOP");
    let (of, what) = (WaitId::Pid(Pid::from_child(child)), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
    let mut ended = false;
    wait_until("a process to stand still", || {
        ended = child.try_wait().unwrap().is_some();
        ended || waitid(of.clone(), what).unwrap().is_some()
    });
    !ended
}

/// A library that takes the place of functions of the system, for `LD_PRELOAD`. `None`, which is said, where no C compiler is there
/// to make it.
pub fn preloaded(place: &Place, name: &str, code: &str) -> Option<PathBuf> {
    let (source, library) = (place.path(&format!("{name}.c")), place.path(&format!("{name}.so")));
    std::fs::write(&source, code).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    if cfg!(target_os = "linux") && compiler.status().is_ok_and(|status| status.success()) {
        return Some(library);
    }
    skipped(&format!("no C compiler makes the library {name}"));
    None
}

/// Says that a test was skipped so that it is heard: libtest swallows what eprintln! says in tests that pass.
pub fn skipped(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// Whether the comparisons with other software must run.
pub fn oracles() -> bool {
    std::env::var("SPECTRAL_ORACLES").is_ok_and(|value| value == "1")
}
