//! A GPU that is lost in mid-run, and one whose memory is full, for real.
//!
//! A kernel that faults ends CUDA for the whole process: from then on the driver refuses every call, which is what a process
//! sees of a GPU that is gone. So whoever loses the GPU, or trains on it afterwards, is a process of its own: this program
//! once more, with a part to play.

use spectral_nn::cuda::{Arg, CudaError, Device, Kernel, Memory, Shape, Stream, check, has_compiler};
use spectral_train::config::Configuration;
use spectral_train::devices::{self, Chosen, DeviceChoice, Member};
use spectral_train::error::TrainError;
use spectral_train::plan::Plan;
use spectral_train::registry::Registry;
use spectral_train::run_dir::{RunDir, Status};
use spectral_train::store::seal;
use spectral_train::trainer::{AgentProgress, Observer, Resumption, Trainer};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Two ways to lose a device: an instruction that ends everything, and a write to where nothing is.
const FAULTS: &str = r#"
extern "C" __global__ void stop(int *) { asm volatile("trap;"); }
extern "C" __global__ void stray(int *nowhere) { *nowhere = 1; }
"#;
const NOWHERE: u64 = 8;

/// The part that this process plays, its run, and the frames to train.
const PART: &str = "SPECTRAL_LOST_PART";
const RUN: &str = "SPECTRAL_LOST_RUN";
const FRAMES: &str = "SPECTRAL_LOST_FRAMES";
/// Far more than any part needs, the compiler's time included.
const LONGEST: Duration = Duration::from_secs(240);

fn say(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The first GPU, for one test at a time; `None`, said aloud, if there is none.
fn gpu() -> Option<(Device, MutexGuard<'static, ()>)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    match Device::open(0) {
        Ok(device) => Some((device, guard)),
        Err(why) => {
            say(format_args!("NO GPU, not tested: {why}"));
            None
        }
    }
}

/// A folder of one test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("spectral-lost-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Four agents in two groups, with a checkpoint that holds everything.
fn create(path: &Path, plan: Plan) -> Result<Trainer, TrainError> {
    let registry = Registry::default();
    Trainer::create(path, registry.resolve_plan(plan)?, &registry, "test")
}

fn plan(further: &[&str]) -> Plan {
    let mut config = Configuration::default();
    let small = [
        "task=exponential-pong-mini",
        "agents=spectral,popart",
        "seeds=2",
        "replay=2000",
        "learning_starts=200",
        "log_frames=500",
        // Whether a run has frozen games would depend on its end, which differs between these.
        "eval_games=0",
        "checkpoint=full",
        "device=cuda",
    ];
    for pair in small.iter().chain(further) {
        config.set(pair).unwrap();
    }
    Registry::default().plan(&config).unwrap()
}

/// Every file in a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let entry = |path: PathBuf| {
        (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
    };
    entries.filter(|path| path.is_file()).map(entry).collect()
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &copy);
        } else {
            std::fs::copy(&path, &copy).unwrap();
        }
    }
}

/// Copies a run that was to go on for ever, with an end soon after its last checkpoint; returns the frames at that end.
fn copy_with_an_end(run: &Path, copy: &Path) -> u64 {
    copy_folder(run, copy);
    let state: toml::Table = std::fs::read_to_string(run.join("state.toml")).unwrap().parse().unwrap();
    let agents = state["agents"].as_array().unwrap();
    let frames = agents.iter().map(|agent| agent["frames"].as_integer().unwrap() as u64).max().unwrap();
    assert!(frames > 0, "the last checkpoint holds some training");
    let file = copy.join("run.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(FOR_EVER));
    let end = frames + 2000;
    std::fs::write(&file, seal(&text.replace(FOR_EVER, &format!("\nframes = {end}\n")))).unwrap();
    end
}

const FOR_EVER: &str = "\nframes = 1000000000\n";

fn finish(mut trainer: Trainer) {
    let outcome = trainer.run().unwrap();
    assert_eq!(outcome.status, Status::Finished);
    for agent in &outcome.agents {
        assert!(agent.frames >= trainer.plan().run.frames && agent.stopped.is_none(), "{agent:?}");
    }
}

fn resume(run: &Path, device: DeviceChoice) {
    let how = Resumption { device: Some(device), threads: 2, ..Resumption::default() };
    finish(Trainer::resume(run, &Registry::default(), how).unwrap());
}

/// What a finished run has learned and written down.
fn results(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let (dir, file) = RunDir::open(run, &Registry::default()).unwrap();
    let plan = file.plan;
    let mut found = BTreeMap::new();
    for agent in &plan.agents {
        let mut own = files(&dir.agent(&agent.id));
        own.retain(|name, _| name.ends_with(".csv") || name == "model.safetensors");
        assert!(own.contains_key("model.safetensors"), "{} is finished", agent.id);
        found.extend(own.into_iter().map(|(name, bytes)| (format!("{}/{name}", agent.id), bytes)));
    }
    found
}

/// A kernel that ends CUDA for this process, compiled before it is needed.
struct Fault {
    stream: Stream,
    kernel: Kernel,
}

impl Fault {
    fn new(kernel: &str) -> Result<Fault, CudaError> {
        // The same context as the trainer's: there is one per process and device.
        let device = Device::open(0)?;
        let kernel = device.compile("faults", FAULTS, false)?.kernel(kernel)?;
        Ok(Fault { stream: device.stream()?, kernel })
    }

    /// Ends the process if the device survives it: nothing would end the training.
    fn strike(&self) {
        let strike = || {
            // Also makes the context this thread's own.
            self.stream.synchronise()?;
            // SAFETY: the kernel gets the one address that it expects, which is nobody's; that it fails is its purpose.
            unsafe { self.stream.launch(&self.kernel, Shape::new([1, 1, 1], 1), &[Arg::At(NOWHERE)]) }
        };
        match strike().map(|()| self.stream.synchronise()) {
            Ok(Err(error)) => say(format_args!("lost on purpose: {error}")),
            other => {
                say(format_args!("the device survived: {other:?}"));
                std::process::exit(9);
            }
        }
    }
}

/// When the device is lost, always after two checkpoints.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// By another thread, while both groups train.
    InMidStep,
    /// After the last step before a checkpoint.
    BeforeACheckpoint,
}

/// Watches the training, keeps a copy of the newest checkpoint and loses the device in time.
struct Watch {
    folder: PathBuf,
    fault: Fault,
    moment: Moment,
    written: AtomicU64,
    copy: Mutex<BTreeMap<String, Vec<u8>>>,
    struck: AtomicBool,
}

impl Watch {
    fn strike(&self) {
        if !self.struck.swap(true, SeqCst) {
            self.fault.strike();
        }
    }
}

impl Observer for Watch {
    fn tick(&self, _: &[AgentProgress]) {
        // Checkpoints are due before a tick is, so this is the one that ends a sitting.
        if self.moment == Moment::BeforeACheckpoint && self.written.load(SeqCst) >= 2 {
            self.strike();
        }
    }
    fn checkpoint(&self, _: spectral_train::checkpoint::Cost) {
        *self.copy.lock().unwrap() = files(&self.folder);
        self.written.fetch_add(1, SeqCst);
    }
}

/// Trains on the GPU, loses it, and looks at what the user is told and what is left.
fn lose(run: &Path, kernel: &str, moment: Moment) {
    let seconds = if moment == Moment::InMidStep { 0.4 } else { 0.05 };
    let settings = ["frames=1000000000", &format!("checkpoint_seconds={seconds}")];
    let mut trainer = create(run, plan(&settings)).unwrap();
    let watch = Watch {
        folder: trainer.dir().checkpoints(),
        fault: Fault::new(kernel).unwrap(),
        moment,
        written: AtomicU64::new(0),
        copy: Mutex::default(),
        struck: AtomicBool::new(false),
    };
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            if moment == Moment::InMidStep {
                while watch.written.load(SeqCst) < 2 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                std::thread::sleep(Duration::from_millis(150));
                watch.strike();
            }
        });
        trainer.run_watched(&watch).unwrap_err()
    });
    let told = format!("error: {error}\n{}", trainer.how_to_go_on(&error));
    say(format_args!("{kernel}, {moment:?}: the user is told\n{told}"));
    assert!(watch.struck.load(SeqCst), "failed before the device was lost");
    assert!(matches!(error, TrainError::Device(_)), "{error:?}");
    assert_eq!(error.exit_code(), 5);
    let words = [
        "the device failed: CUDA failed to",
        "(CUDA_ERROR_",
        "nvidia-smi",
        "the last checkpoint",
        "is whole",
        &format!("`spectral resume {}`", run.display()),
        "--device cpu",
    ];
    for word in words {
        assert!(told.contains(word), "'{word}' is missing");
    }
    // Nothing was written after it, nothing was removed, nothing is half there.
    let (found, expected) = (files(&watch.folder), watch.copy.lock().unwrap().clone());
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    assert!(found == expected, "a checkpoint changed after the device was lost");
    // Nobody can give back what is lost; that must not be an obstacle.
    drop(trainer);
    drop(watch);
    // CUDA is dead in this process, and the CPU does not need it.
    let here = run.with_file_name("in-the-same-process");
    copy_with_an_end(run, &here);
    resume(&here, DeviceChoice::Cpu);
    // A GPU that cannot be had is refused or has come back; it ends neither in a panic nor without end.
    match Registry::default().resolve_plan(plan(&[])) {
        Ok(run) => say(format_args!("the same process chose {:?} again", run.device)),
        Err(error) => say(format_args!("the same process is told: {error}")),
    }
}

/// Plays a part in a process of its own, which must end well and in time.
#[track_caller]
fn play(part: &str, run: &Path, frames: u64) {
    let log = run.with_extension(format!("{part}.log"));
    let out = std::fs::File::create(&log).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["a_part_in_a_process_of_its_own", "--exact", "--nocapture", "--test-threads=1"])
        .envs([(PART, part.into()), (FRAMES, frames.to_string())])
        .env(RUN, run)
        .stdout(out.try_clone().unwrap())
        .stderr(out)
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if start.elapsed() > LONGEST => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    let seconds = start.elapsed().as_secs_f64();
    assert!(status.is_some(), "{part} hangs; killed after {seconds:.0} s\n{text}");
    assert!(status.is_some_and(|s| s.success()), "{part} ended with {status:?}\n{text}");
    assert!(!text.contains("panicked at"), "{part}\n{text}");
    assert!(text.contains(PLAYED), "{part} did nothing\n{text}");
    say(format_args!("--- {part}, {seconds:.1} s\n{text}"));
}

const PLAYED: &str = "the part was played to its end";

/// Nothing in itself: what [`play`] starts.
#[test]
fn a_part_in_a_process_of_its_own() {
    let Ok(part) = std::env::var(PART) else { return };
    let run = PathBuf::from(std::env::var_os(RUN).unwrap());
    let frames = std::env::var(FRAMES).unwrap();
    match part.as_str() {
        "stop-in-mid-step" => lose(&run, "stop", Moment::InMidStep),
        "stray-in-mid-step" => lose(&run, "stray", Moment::InMidStep),
        "stop-before-a-checkpoint" => lose(&run, "stop", Moment::BeforeACheckpoint),
        "resume" => resume(&run, DeviceChoice::Cuda(0)),
        "train" => {
            let whole = plan(&[&format!("frames={frames}")]);
            finish(create(&run, whole).unwrap());
        }
        other => panic!("there is no part '{other}'"),
    }
    say(PLAYED);
}

#[test]
fn a_gpu_lost_in_mid_run_leaves_a_checkpoint_that_goes_on_anywhere() {
    let Some((device, _guard)) = gpu() else { return };
    say(format_args!("loses {} on purpose, three times", device.info().name));
    drop(device);
    for part in ["stop-in-mid-step", "stray-in-mid-step", "stop-before-a-checkpoint"] {
        let scratch = Scratch::new(part);
        let lost = scratch.0.join("lost");
        play(part, &lost, 0);
        let (on_cpu, on_gpu, whole) =
            (scratch.0.join("on-cpu"), scratch.0.join("on-gpu"), scratch.0.join("whole"));
        copy_with_an_end(&lost, &on_cpu);
        resume(&on_cpu, DeviceChoice::Cpu);
        results(&on_cpu);
        // On a GPU it even ends where a run would have ended that nothing happened to.
        let end = copy_with_an_end(&lost, &on_gpu);
        play("resume", &on_gpu, 0);
        play("train", &whole, end);
        let (found, expected) = (results(&on_gpu), results(&whole));
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (name, bytes) in &expected {
            assert!(found[name] == *bytes, "{part}: {name} differs from that of a run without a loss");
        }
        say(format_args!(
            "{part}: resumed on the CPU; resumed on the GPU to the bits of a whole run, {end} frames"
        ));
    }
}

/// Takes all memory of a device; the driver's refusals on the way say what would help.
fn fill(device: &Device) -> Vec<Memory> {
    let mut taken = Vec::new();
    let mut bytes = device.free_memory().unwrap() as usize;
    while bytes >= 1 << 20 {
        match device.zeros(bytes) {
            Ok(memory) => taken.push(memory),
            Err(CudaError(why)) => {
                let words = ["reserve", "bytes of device memory", "CUDA_ERROR_OUT_OF_MEMORY", "fewer agents"];
                words.iter().for_each(|word| assert!(why.contains(word), "{why}"));
                bytes /= 2;
            }
        }
    }
    taken
}

#[test]
fn a_run_that_a_gpu_has_no_memory_for_is_refused_with_the_numbers() {
    let Some((device, _guard)) = gpu() else { return };
    let scratch = Scratch::new("memory");
    let path = scratch.0.join("run");
    let registry = Registry::default();
    let refused = |plan: Plan, words: &[&str]| {
        let error = create(&path, plan).err().expect("to be refused");
        say(&error);
        assert!(matches!(error, TrainError::Machine(_)), "{error:?}");
        let text = error.to_string();
        words.iter().for_each(|word| assert!(text.contains(word), "'{word}' is missing"));
        assert!(!path.exists(), "refused before anything is made");
    };
    let name = device.info().name.clone();
    // 7 TB of observations an agent, which go to the machine's memory: the device alone has room for the rest.
    let pixels = |replay: &str| plan(&["observation=pixels", "seeds=1", "agents=spectral", replay]);
    refused(pixels("replay=1000000000"), &["needs 7.1 TB of memory and", "available", "smaller replay"]);
    // Not even the rest.
    refused(
        pixels("replay=1000000000000"),
        &["needs 7.0 TB of memory on", &name, "is free", "smaller replay", "--device cpu"],
    );
    // Others have taken everything, before the plan is made and after.
    let small = pixels("replay=2000");
    let before = devices::probe(0).unwrap();
    let taken = fill(&device);
    let left = device.free_memory().unwrap();
    say(format_args!("{left} of {} bytes are left", device.info().memory));
    refused(
        small.clone(),
        &["needs 1.", " GB of memory on", &name, "is free", "fewer agents", "--device cpu"],
    );
    let open = small.with(|run| run.device = DeviceChoice::Auto);
    let open = registry.resolve_plan(open).unwrap();
    assert_eq!(open.device, Chosen::Cpu);
    assert!(open.notes.iter().any(|note| note.contains("of memory on") && note.contains("is free")));
    let agent = &small.agents[0];
    let members = [Member { plan: agent, codec: open.codecs[0].clone(), task: &open.task }];
    let precision = small.run.precision;
    let late = devices::open(&before, precision, &members, &[false]);
    let error = TrainError::from(late.err().expect("no memory is left"));
    say(&error);
    let text = error.to_string();
    for word in ["the device failed", "CUDA_ERROR_OUT_OF_MEMORY", "fewer agents", "smaller replay"] {
        assert!(text.contains(word), "{text}");
    }
    // A full memory is no loss: once there is room, the same process goes on.
    drop(taken);
    devices::open(&before, precision, &members, &[false]).unwrap();
    finish(create(&path, plan(&["frames=1000"])).unwrap());
}

#[test]
fn the_faults_compile() {
    if !has_compiler() {
        assert_ne!(std::env::var("SPECTRAL_ORACLES").as_deref(), Ok("1"), "libnvrtc must be found");
        return say("SKIPPED: the kernels that lose a GPU were not compiled, because libnvrtc was not found");
    }
    for architecture in ["sm_80", "sm_89", "sm_90"] {
        let image = check("faults", FAULTS, architecture).unwrap_or_else(|e| panic!("{architecture}: {e}"));
        assert!(image.starts_with(b"\x7fELF"), "no binary");
    }
}
