//! The whole way from a game to what an agent sees, against ale-py and OpenCV driven by a plain program: no-ops, frame
//! skip, the brighter of two frames, grey, 84 × 84, stacks of four that begin with each life, rewards, lives lost, ends
//! and time-outs are equal at every step.

use spectral_agent::replay::{Observations, Outcome, Replay};
use spectral_atari::task::{AtariOptions, AtariTask, Protocol, make_atari};
use spectral_env::{Env, Observation, Purpose, Step, Stream};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// What is compared: task, protocol, mode and difficulty, steps, and whether the agent stands still.
struct Case {
    task: &'static str,
    protocol: Protocol,
    chosen: Option<(u16, u8)>,
    steps: usize,
    still: bool,
}

const fn case(task: &'static str, protocol: Protocol, steps: usize) -> Case {
    Case { task, protocol, chosen: None, steps, still: false }
}

const CASES: &[Case] = &[
    // Nobody dies who stands still here, so the time-out is reached, and the episode after it.
    Case { still: true, ..case("atari/montezuma_revenge", Protocol::Paper, 28_000) },
    case("atari/pong", Protocol::Paper, 1_500),
    case("atari/breakout", Protocol::Paper, 1_500),
    case("atari/ms_pacman", Protocol::Paper, 1_500),
    case("atari/video_pinball", Protocol::Paper, 1_000),
    case("atari/chopper_command", Protocol::Paper, 1_800),
    case("atari/qbert", Protocol::Paper, 1_500),
    case("atari/atlantis", Protocol::Paper, 1_000),
    // European television; and pictures of other heights.
    case("atari/air_raid", Protocol::Paper, 1_000),
    case("atari/carnival", Protocol::Paper, 500),
    case("atari/journey_escape", Protocol::Paper, 500),
    case("atari/seaquest", Protocol::Machado, 1_000),
    case("atari/asterix", Protocol::Machado, 1_000),
    case("exponential-pong", Protocol::Paper, 1_500),
    case("reverse-ponglantis", Protocol::Paper, 1_500),
    Case { chosen: Some((1, 3)), ..case("atari/pong", Protocol::Paper, 500) },
    Case { chosen: Some((9, 1)), ..case("atari/space_invaders", Protocol::Machado, 500) },
];

const SEED: u64 = 11;

fn chance(step: usize) -> Stream {
    Stream::new(SEED, Purpose::Environment, step as u64)
}

/// What the stream of a step says: the action, the no-ops if an episode begins, the frames that repeat an action.
fn script(case: &Case, actions: usize) -> Vec<u8> {
    (0..case.steps)
        .flat_map(|step| {
            // Held for a few steps, so that something happens in the game.
            let held = (step / 3) as u64;
            let action = Stream::new(SEED, Purpose::Exploration, held).below(actions);
            let action = if case.still { 0 } else { action as u8 };
            let no_ops = chance(step).below(30) as u8;
            let mut sticky = chance(step);
            let sticky = (0..4).fold(0, |bits, frame| bits | u8::from(sticky.chance(0.25)) << frame);
            [action, no_ops, sticky]
        })
        .collect()
}

/// Plays the script as `AgentRun` of the training crate plays: ends, episodes and times-out that were met.
fn compare(
    case: &Case,
    task: &mut AtariTask,
    mut oracle: impl Read,
    script: &[u8],
) -> Result<[u32; 3], String> {
    let spec = task.spec().observation;
    let mut replay = Replay::new(spec, 16, 3);
    let mut stacks = Observations::stacked(spec, 1);
    let mut seen = vec![0; spec.len()];
    let (mut fresh, mut met) = (true, [0; 3]);
    for (at, bytes) in script.chunks(3).enumerate() {
        let mut chance = chance(at);
        if fresh {
            task.reset(&mut chance);
        }
        task.observe(Observation::Planes(&mut seen));
        task.observe(replay.observation());
        replay.current(&mut stacks);
        let Observations::Bytes(stack) = &stacks else { unreachable!("pixels are bytes") };
        let step: Step = task.step(bytes[0].into(), &mut chance);
        let mut record = [0; 25];
        oracle.read_exact(&mut record).map_err(|error| format!("the oracle ended at step {at}: {error}"))?;
        let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
        let double = |at: usize| f64::from_le_bytes(record[at..at + 8].try_into().unwrap());
        if word(0) != crc32fast::hash(&seen) {
            return Err(format!("observation of step {at}"));
        }
        if word(4) != crc32fast::hash(stack) {
            return Err(format!("stack of step {at}"));
        }
        let found = (step.reward, step.score, [step.terminated, step.truncated, step.life_lost]);
        let expected = (double(8), double(16), [0, 1, 2].map(|bit| record[24] >> bit & 1 != 0));
        if found != expected {
            return Err(format!("step {at}: {expected:?}, ours {found:?}"));
        }
        let terminal = step.terminated || (step.life_lost && !step.truncated);
        replay.record(Outcome { terminal, truncated: step.truncated, ..Outcome::default() });
        fresh = step.terminated || step.truncated;
        for (count, happened) in met.iter_mut().zip(found.2) {
            *count += u32::from(happened);
        }
    }
    if case.still && met[1] == 0 {
        return Err("no time-out was reached".into());
    }
    Ok(met)
}

fn run(case: &Case, python: &str, roms: &Path) -> Result<[u32; 3], String> {
    let options = AtariOptions {
        protocol: case.protocol,
        roms: Some(roms.to_owned()),
        mode: case.chosen.map(|chosen| chosen.0),
        difficulty: case.chosen.map(|chosen| chosen.1),
    };
    let mut task = make_atari(case.task, &options).map_err(|error| error.to_string())?;
    task.load_as_ale();
    let script = script(case, task.spec().actions.len());
    let words = case.chosen.map_or([String::new(), String::new()], |(m, d)| [m.to_string(), d.to_string()]);
    let mut child = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/task_oracle.py"))
        .args([case.task, case.protocol.name(), &words[0], &words[1], &case.steps.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{python}: {error}"))?;
    let mut stdin = child.stdin.take().unwrap();
    let sent = script.clone();
    // Fails if the oracle stops early, which the comparison then says.
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    let result = compare(case, &mut task, BufReader::new(child.stdout.take().unwrap()), &script);
    let _ = child.kill();
    let _ = child.wait();
    let _ = writer.join();
    result
}

#[test]
fn tasks_are_seen_and_paid_as_with_ale_py_and_opencv() {
    if std::env::var("SPECTRAL_ORACLES").map_or(true, |value| value != "1") {
        let why =
            "SKIPPED: comparison of whole tasks with ale-py and OpenCV; set SPECTRAL_ORACLES=1 to run it";
        let _ = writeln!(std::io::stderr(), "{why}");
        return;
    }
    let python = std::env::var("SPECTRAL_PYTHON").unwrap_or_else(|_| "python3".into());
    let find = "import ale_py.roms, os; print(os.path.dirname(ale_py.roms.__file__))";
    let output = Command::new(&python).args(["-c", find]).output().expect("Python with ale-py");
    let roms = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let queue = Mutex::new(CASES.iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(case) = queue.lock().unwrap().next() else { break };
                    let name = format!("{} {} {:?}", case.task, case.protocol, case.chosen);
                    match run(case, &python, &roms) {
                        Ok([ends, timeouts, lives]) => println!(
                            "{name}: {} steps, {ends} ends, {timeouts} time-outs, {lives} lives, all equal",
                            case.steps
                        ),
                        Err(what) => failures.lock().unwrap().push(format!("{name}: {what}")),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
