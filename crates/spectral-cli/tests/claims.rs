//! Several processes and one run directory, with the real command: where there are no locks, when a machine died, when a process
//! was only stopped.
#![cfg(unix)]

mod common;

use common::*;
use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, SystemTime};

/// A library that takes the place of the system's locks.
struct NoLocks(PathBuf);

impl NoLocks {
    /// Every lock is given to everybody, as on file systems that only pretend.
    fn for_everybody(place: &Place) -> Option<Self> {
        let code = "int flock(int file, int wish) { (void)file; (void)wish; return 0; }\n";
        preloaded(place, "no_real_locks", code).map(NoLocks)
    }

    /// Every lock fails, as on a file system that has none.
    fn in_place(place: &Place) -> Option<Self> {
        let code = "#include <errno.h>\nint flock(int file, int wish) { (void)file; (void)wish; errno = ENOLCK; return -1; }\n";
        preloaded(place, "no_locks", code).map(NoLocks)
    }

    fn command(&self, place: &Place, arguments: &str) -> Command {
        let mut command = place.command(arguments);
        command.env("LD_PRELOAD", &self.0);
        command
    }

    fn start(&self, place: &Place, arguments: &str) -> Child {
        self.command(place, arguments).spawn().unwrap()
    }

    fn run(&self, place: &Place, arguments: &str) -> Ran {
        Ran::of(self.command(place, arguments).output().unwrap())
    }
}

/// The claim of a run with the highest number.
fn claim(run: &Path) -> PathBuf {
    let entries = std::fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path());
    let claims = entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(".claim-"));
    claims.max().unwrap_or_else(|| panic!("no claim in {}", run.display()))
}

/// Makes the newest claim look as if nothing was heard of its holder for so many seconds.
fn age(run: &Path, seconds: u64) {
    let times = FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(seconds));
    File::options().write(true).open(claim(run)).unwrap().set_times(times).unwrap();
}

fn ended(child: Child) -> Ran {
    Ran::of(child.wait_with_output().unwrap())
}

/// Every file but those that tell who works there.
fn everything(run: &Path) -> impl PartialEq + std::fmt::Debug {
    snapshot(run).into_iter().map(|(name, bytes)| (name, bytes.len(), crc(&bytes))).collect::<Vec<_>>()
}

fn crc(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn without_locks_of_those_that_begin_at_once_one_does() {
    let place = Place::new();
    let Some(no_locks) = NoLocks::in_place(&place) else { return };
    for attempt in 0..25 {
        let begin = |seed: usize| {
            let out = format!("--seeds {0}..{0} --frames 300 --out run{attempt}", 10 + seed);
            no_locks.start(&place, &train(&out))
        };
        let children: Vec<_> = (0..4).map(begin).collect();
        let ended: Vec<Ran> = children.into_iter().map(ended).collect();
        let winners: Vec<usize> = (0..4).filter(|&n| ended[n].code == Some(0)).collect();
        let [winner] = winners[..] else { panic!("{ended:#?}") };
        assert!(ended[winner].err.contains("this file system has no locks"), "{}", ended[winner].err);
        let run = place.path(&format!("run{attempt}"));
        let text = std::fs::read_to_string(run.join("run.toml")).unwrap();
        assert!(text.contains(&format!("seed = {}", 10 + winner)), "run.toml is not the winner's: {text}");
        assert_eq!(std::fs::read_dir(run.join("agents")).unwrap().count(), 1);
        assert!(ended.iter().enumerate().all(|(n, ran)| n == winner || ran.code == Some(2)), "{ended:#?}");
    }
}

#[test]
fn without_locks_a_run_belongs_to_one_process_and_a_killed_one_is_resumed_at_once() {
    let place = Place::new();
    let Some(no_locks) = NoLocks::in_place(&place) else { return };
    let arguments = "--frames 20000 --set checkpoint_seconds=0.05";
    place.train(&format!("{arguments} --out whole")).code(0);
    let run = place.path("cut");
    // One that stands still neither ends nor lets go of its claim meanwhile.
    let mut child = sleeper(&run, 1, || no_locks.start(&place, &train(&format!("{arguments} --out cut"))));
    no_locks.run(&place, "resume cut").code(2).says(&[
        "another process is at work in cut",
        "on this machine, last heard of",
        "taken over in",
    ]);
    child.kill().unwrap();
    child.wait().unwrap();
    let resumed = no_locks.run(&place, "resume cut").code(0);
    assert!(
        !resumed.err.contains("taken over from"),
        "the kernel knows that the process is gone; its claim need not grow old: {}",
        resumed.err
    );
    assert_same(&results(&run), &results(&place.path("whole")));
}

/// A process that sleeps in the middle of a run, once there was a checkpoint of that number. One that came to the run's end because
/// this process was held up is begun anew.
fn sleeper(run: &Path, checkpoint: usize, start: impl Fn() -> Child) -> Child {
    let enough = Some(format!("{checkpoint:08}.checkpoint").into());
    let newest = || checkpoints(run).last().map(|path| path.file_name().unwrap().to_owned());
    let finished = || {
        std::fs::read_to_string(run.join("state.toml"))
            .is_ok_and(|text| text.starts_with("status = \"finished\""))
    };
    for _ in 0..20 {
        let mut child = start();
        wait_until("checkpoints", || newest() >= enough || child.try_wait().unwrap().is_some());
        if stop(&mut child) && !finished() {
            return child;
        }
        // Of one that has ended already there is nothing to kill.
        let _ = child.kill();
        let ran = ended(child);
        assert!(ran.code.is_none_or(|code| code == 0), "{ran:#?}");
        std::fs::remove_dir_all(run).unwrap();
    }
    panic!("each of 20 runs ended before it could be stopped");
}

const LONG: &str = "--agents spectral,popart --frames 120000 --set checkpoint_seconds=0.02 --set average=9000 --set eval_every=5000";

/// What a process that only slept would do to a run that is another's: nothing. Whether it wakes when the other has ended, or
/// while it works.
#[test]
fn a_process_that_was_stopped_and_overtaken_writes_nothing_more() {
    let place = Place::new();
    let Some(no_locks) = NoLocks::in_place(&place) else { return };
    place.train(&format!("{LONG} --out whole")).code(0);
    let whole = results(&place.path("whole"));
    for round in 0..6 {
        let name = format!("run{round}");
        let run = place.path(&name);
        let start = || no_locks.start(&place, &train(&format!("{LONG} --out {name}")));
        let sleeper = sleeper(&run, 1 + 2 * round, start);
        no_locks.run(&place, &format!("resume {name}")).code(2).says(&["another process is at work"]);
        let old = claim(&run);
        age(&run, 61);
        let other = no_locks.start(&place, &format!("resume {name}"));
        if round % 2 == 0 {
            ended(other).code(0).says(&["taken over from process", "done"]);
            let before = everything(&run);
            signal(&sleeper, "CONT");
            let ran = ended(sleeper).code(2).says(&[
                "has lost the run",
                "writes nothing more there",
                "on this machine",
            ]);
            assert!(!ran.err.contains("goes on from there"), "{}", ran.err);
            assert_eq!(everything(&run), before);
        } else {
            wait_until("the other", || claim(&run) != old);
            signal(&sleeper, "CONT");
            ended(sleeper).code(2).says(&["has lost the run"]);
            ended(other).code(0).says(&["taken over from process", "done"]);
        }
        assert_same(&results(&run), &whole);
        assert_eq!(checkpoints(&run).len(), 2);
    }
}

/// A machine died, and the file server keeps its lock.
#[test]
fn a_dead_machine_is_waited_for_and_then_its_lock_holds_nobody_up() {
    let place = Place::new();
    place.train(&format!("{LONG} --out whole")).code(0);
    let run = place.path("cut");
    let start = || {
        let mut command = place.command(&train(&format!("{LONG} --out cut")));
        for (key, value) in [
            ("SLURM_JOB_ID", "9"),
            ("SLURM_ARRAY_JOB_ID", "7"),
            ("SLURM_ARRAY_TASK_ID", "2"),
            ("SLURMD_NODENAME", "n1"),
        ] {
            command.env(key, value);
        }
        command.spawn().unwrap()
    };
    let sleeper = sleeper(&run, 3, start);
    let job = "(Slurm job 7_2 on node n1)";
    place.run("resume cut").code(2).says(&["another process is at work in cut", "on this machine", job]);
    // The same, as if another machine had written it: of it only the claim and the lock are left.
    let text = std::fs::read_to_string(claim(&run)).unwrap();
    let line = |key: &str| text.lines().find(|line| line.starts_with(key)).unwrap().to_string();
    let (host, boot) = (line("host = "), line("boot = "));
    let other = text.replace(&host, "host = \"n1\"").replace(&boot, "boot = \"before\"");
    std::fs::write(claim(&run), other).unwrap();
    let before = everything(&run);
    place.run("resume cut").code(2).says(&["on host n1", job, "last heard of", "taken over in"]);
    assert_eq!(everything(&run), before, "whoever is refused changes nothing");
    age(&run, 59 - 20);
    place.run("resume cut").code(2);
    age(&run, 61);
    place.run("resume cut").code(0).says(&["taken over from process", "on host n1", job, "done"]);
    assert_same(&results(&run), &results(&place.path("whole")));
    signal(&sleeper, "CONT");
    ended(sleeper).code(2).says(&["has lost the run"]);
    assert_same(&results(&run), &results(&place.path("whole")));
    // And what is left is a run as any other.
    place.run("resume cut --frames 121000").code(0);
}

/// A holder that lives is believed more than a lock that is given to everybody.
#[test]
fn a_lock_that_everybody_gets_takes_no_run_from_a_process_that_lives() {
    let place = Place::new();
    let Some(locks) = NoLocks::for_everybody(&place) else { return };
    let mut first = locks.start(&place, &train("--frames 100000000 --out run"));
    let rows = place.path("run/agents/spectral-s1/metrics.csv");
    wait_until("some rows", || rows.metadata().is_ok_and(|file| file.len() > 500));
    locks.run(&place, "resume run").code(2).says(&["another process is at work", "on this machine"]);
    assert!(first.try_wait().unwrap().is_none(), "it lost its run");
    signal(&first, "KILL");
    first.wait().unwrap();
    // Nothing is waited for once it is gone.
    let seconds = std::time::Instant::now();
    let mut second = locks.start(&place, "resume run");
    let before = rows.metadata().unwrap().len();
    wait_until("further rows", || rows.metadata().unwrap().len() != before);
    assert!(seconds.elapsed() < Duration::from_secs(50), "{:?}", seconds.elapsed());
    signal(&second, "KILL");
    second.wait().unwrap();
}
