//! Claims among threads of one process, and claims that were written by nobody: of other machines, dead ones, damaged ones.

use super::record::path;
use super::*;
use crate::control::Control;
use std::fs::{File, FileTimes};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tempfile::{TempDir, tempdir};

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

/// A claim's record in a folder.
fn read(folder: &Path, number: u64) -> Record {
    Found::read(folder, number).unwrap().unwrap().record.unwrap()
}

/// Makes a file look as if it was written so many seconds ago.
fn age(path: &Path, seconds: u64) {
    let times = FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(seconds));
    File::options().write(true).open(path).unwrap().set_times(times).unwrap();
}

/// A process on another machine.
fn elsewhere() -> Identity {
    Identity {
        host: "n2".into(),
        boot: "another-start".into(),
        job: "Slurm job 7_2 on node n2".into(),
        ..Identity::here()
    }
}

/// A folder with a claim of another machine that was last touched so many seconds ago.
fn claimed_elsewhere(seconds: u64) -> TempDir {
    let folder = tempdir().unwrap();
    let claim = path(folder.path(), 4);
    std::fs::write(&claim, Record::new(elsewhere(), true, 1).text()).unwrap();
    age(&claim, seconds);
    folder
}

#[track_caller]
fn busy(taken: Result<RunLock, TrainError>) -> String {
    match taken {
        Err(error @ TrainError::Busy(_)) => {
            assert_eq!(error.exit_code(), 2);
            error.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_at_a_time_and_numbers_grow() {
    let folder = tempdir().unwrap();
    for number in 1..5 {
        let hour = Duration::from_secs(3600);
        let lock = RunLock::take_as(folder.path(), Identity::here(), hour).unwrap();
        assert_eq!(names(folder.path()), [format!(".claim-{number:06}"), ".lock".into()]);
        assert!(lock.notes().is_empty() && !lock.predecessor_may_live() && !lock.is_lost());
        lock.confirm().unwrap();
        assert_eq!(is_at_work(folder.path()), Some(true));
        let claim = read(folder.path(), number);
        assert!(claim.flock && !claim.released && claim.identity == Identity::here(), "{claim:?}");
        let text = busy(RunLock::take(folder.path()));
        assert!(text.contains("another process is at work in") && text.contains("on this machine"), "{text}");
        // The end waits for no beat.
        let start = Instant::now();
        drop(lock);
        assert!(start.elapsed() < hour / 60);
        assert!(read(folder.path(), number).released);
        assert_eq!(is_at_work(folder.path()), Some(false));
    }
}

#[test]
fn the_text_of_a_claim_reads_back_and_keeps_its_length() {
    let strange = Identity { host: "a\"\n".repeat(1000), job: "é".repeat(99), ..Identity::here() };
    for identity in
        [Identity::here(), elsewhere(), Identity { host: super::identity::plain(&strange.host), ..strange }]
    {
        let mut record = Record::new(identity, true, u64::MAX);
        let before = record.text();
        (record.beat, record.released) = (1 << 40, true);
        let text = record.text();
        assert_eq!(text.len(), before.len());
        let read = Record::parse(&text).unwrap();
        assert_eq!((read.beat, read.released, &read.token), (1 << 40, true, &record.token));
    }
    // The error that ends a run has the room that is left, whatever it is written in.
    let mut record = Record::new(Identity::here(), true, u64::MAX);
    for length in [0, 1, 30, 300, 3000] {
        for letter in ["a", "\"", "ß", "\u{1b}"] {
            record.error = letter.repeat(length);
            let text = record.text();
            assert_eq!(text.len(), Record::default().text().len(), "all texts are of one length");
            let read = Record::parse(&text).unwrap();
            assert_eq!(read.error.is_empty(), length == 0, "{read:?}");
            assert!(length > 30 || read.error == record.error, "{read:?}");
        }
    }
    record.error = format!("{}/state.toml: cannot write it: the disk is full", "folder/".repeat(500));
    let read = Record::parse(&record.text()).unwrap();
    assert!(
        read.error.starts_with("folder/folder/") && read.error.ends_with("the disk is full"),
        "the path goes, and what happened stays: {read:?}"
    );
    for damaged in ["", "released = true", "released = 1", "\u{0}", "[[["] {
        assert!(Record::parse(damaged).is_none(), "{damaged:?}");
    }
}

#[test]
fn a_claim_of_another_machine_is_busy_and_free_once_it_is_old() {
    let folder = claimed_elsewhere(20);
    let text = busy(RunLock::take(folder.path()));
    for part in ["process", "on host n2 (Slurm job 7_2 on node n2), last heard of ", "taken over in"] {
        assert!(text.contains(part), "no '{part}' in: {text}");
    }
    let age = text.split("last heard of ").nth(1).unwrap().split(" s ago").next().unwrap();
    assert!((20..60).contains(&age.parse().unwrap()), "{text}");
    assert_eq!(is_at_work(folder.path()), Some(true));
    assert_eq!(names(folder.path()), [".claim-000004", ".lock"], "nothing was left behind");
    for seconds in [61, 100_000] {
        let folder = claimed_elsewhere(seconds);
        assert_ne!(is_at_work(folder.path()), Some(true));
        let lock = RunLock::take(folder.path()).unwrap();
        assert!(lock.predecessor_may_live() && lock.notes()[0].contains("taken over from process"));
        assert_eq!(names(folder.path()), [".claim-000005", ".lock"]);
    }
    // A clock that was wrong when the claim was written last.
    let folder = claimed_elsewhere(0);
    let times = FileTimes::new().set_modified(SystemTime::now() + Duration::from_secs(3600));
    File::options().write(true).open(path(folder.path(), 4)).unwrap().set_times(times).unwrap();
    RunLock::take(folder.path()).unwrap();
}

/// A file server may keep the lock of a machine that has died.
#[test]
fn the_lock_of_a_dead_machine_holds_nobody_up() {
    let folder = claimed_elsewhere(20);
    let server = File::create(folder.path().join(LOCK)).unwrap();
    server.lock().unwrap();
    assert!(busy(RunLock::take(folder.path())).contains("host n2"));
    age(&path(folder.path(), 4), 61);
    let lock = RunLock::take_as(folder.path(), Identity::here(), Duration::from_millis(10)).unwrap();
    assert!(lock.predecessor_may_live() && !read(folder.path(), 5).flock);
    // Whoever comes next judges by the new claim: the lock is not its holder's.
    assert!(busy(RunLock::take(folder.path())).contains("on this machine"));
    assert_eq!(is_at_work(folder.path()), Some(true));
    // A holder that ends in order without ever having had the lock leaves the run to anybody.
    drop(lock);
    let left = read(folder.path(), 5);
    assert!(left.released && !left.flock);
    assert_eq!(is_at_work(folder.path()), Some(false));
    let lock = RunLock::take_as(folder.path(), Identity::here(), Duration::from_millis(10)).unwrap();
    assert!(!lock.predecessor_may_live() && !read(folder.path(), 6).flock);
    server.unlock().unwrap();
    let start = Instant::now();
    while !read(folder.path(), 6).flock {
        assert!(start.elapsed() < Duration::from_secs(20), "the lock is free and was not taken");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(lock);
    // Without a claim that tells of another machine, a lock is a process's that lives.
    server.lock().unwrap();
    assert!(read(folder.path(), 6).released);
    assert!(busy(RunLock::take(folder.path())).contains("wait until it ends"));
    assert_eq!(is_at_work(folder.path()), Some(true));
}

#[test]
fn whoever_was_killed_on_this_machine_is_dead_at_once() {
    let folder = tempdir().unwrap();
    let lock = open_or_create_plain(&folder.path().join(LOCK)).unwrap();
    // It lives, but not in this folder: the kernel gives us its lock.
    let claim = Record::new(Identity::here(), true, filesystem(&lock));
    std::fs::write(path(folder.path(), 1), claim.text()).unwrap();
    if cfg!(target_os = "linux") {
        assert_eq!(is_at_work(folder.path()), Some(false));
        assert!(!RunLock::take(folder.path()).unwrap().predecessor_may_live());
    }
    // Locks that another mount has, or that the holder had not, prove nothing; the process's end does.
    for (flock, device) in [(true, claim.filesystem + 1), (false, claim.filesystem)] {
        let own = Record { flock, filesystem: device, ..claim.clone() };
        for (identity, free) in [
            (Identity::here(), false),
            (Identity { began: 1, ..Identity::here() }, cfg!(target_os = "linux")),
            (Identity { began: 1, namespaces: "pid:[7] time:[7]".into(), ..Identity::here() }, false),
            (Identity { began: 1, boot: "another".into(), ..Identity::here() }, false),
        ] {
            let folder = tempdir().unwrap();
            let record = Record { identity, ..own.clone() };
            std::fs::write(path(folder.path(), 1), record.text()).unwrap();
            assert_eq!(RunLock::take(folder.path()).is_ok(), free, "{record:?}");
        }
    }
}

/// Where there are no locks, threads that contend are as good as machines.
#[test]
fn of_many_that_claim_at_once_one_does() {
    let folder = tempdir().unwrap();
    let (inside, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let me = Identity::here();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..60 {
                    let record = Record::new(me.clone(), false, 1);
                    match take_claim(folder.path(), Flock::Absent, &record) {
                        Ok(claim) => {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            assert!(claim.before.is_none());
                            taken.fetch_add(1, Ordering::SeqCst);
                            std::thread::yield_now();
                            assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                            let released = Record { released: true, ..record };
                            let mut file =
                                File::options().write(true).open(path(folder.path(), claim.number)).unwrap();
                            std::io::Write::write_all(&mut file, released.text().as_bytes()).unwrap();
                        }
                        Err(TrainError::Busy(_)) => std::thread::yield_now(),
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    let taken = taken.load(Ordering::SeqCst);
    assert!(taken >= 8, "{taken}");
    assert_eq!(
        names(folder.path()),
        [format!(".claim-{taken:06}")],
        "one number each, and nothing left behind"
    );
}

/// A command that is refused before it does any work changes nothing.
#[test]
fn the_error_that_ended_a_run_stays_until_work_goes_on() {
    let folder = tempdir().unwrap();
    let take = || RunLock::take_as(folder.path(), Identity::here(), Duration::from_secs(3600)).unwrap();
    take().set_error(Some("the disk is full".into()));
    assert_eq!(last_error(folder.path()).as_deref(), Some("the disk is full"));
    drop(take());
    assert_eq!(last_error(folder.path()).as_deref(), Some("the disk is full"));
    let lock = take();
    assert_eq!(last_error(folder.path()), None, "somebody is at work");
    lock.set_error(None);
    drop(lock);
    assert_eq!(last_error(folder.path()), None);
}

#[test]
fn whoever_is_outdone_stops_and_writes_nothing_more() {
    for removed in [false, true] {
        let folder = tempdir().unwrap();
        let control = Control::default();
        let lock = RunLock::take_as(folder.path(), Identity::here(), Duration::from_millis(10)).unwrap();
        lock.watch(Some(&control));
        let own = path(folder.path(), 1);
        // It is kept alive.
        age(&own, 50);
        let start = Instant::now();
        while own.metadata().unwrap().modified().unwrap().elapsed().unwrap_or_default().as_secs() > 40 {
            assert!(start.elapsed() < Duration::from_secs(20), "no beat");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!control.stop_flag().load(Ordering::Relaxed));
        let other = path(folder.path(), 2);
        std::fs::write(&other, Record::new(elsewhere(), true, 1).text()).unwrap();
        if removed {
            std::fs::remove_file(&own).unwrap();
        }
        while !control.stop_flag().load(Ordering::Relaxed) {
            assert!(start.elapsed() < Duration::from_secs(20), "nothing was noticed");
            std::thread::sleep(Duration::from_millis(5));
        }
        // That is not the user's wish, and another training by the same hand goes on.
        assert!(!control.is_cancelled());
        control.forget_halt();
        assert!(lock.is_lost());
        let text = lock.confirm().unwrap_err().to_string();
        assert!(text.contains("has lost the run") && text.contains("on host n2 (Slurm job 7_2"), "{text}");
        let kept = std::fs::read(&other).unwrap();
        drop(lock);
        assert_eq!(std::fs::read(&other).unwrap(), kept);
        assert_eq!(own.exists(), !removed, "a claim that was removed does not come back");
    }
}

#[test]
fn a_folder_that_was_moved_is_not_said_to_be_anothers() {
    let folder = tempdir().unwrap();
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    std::fs::create_dir(&before).unwrap();
    let lock = RunLock::take(&before).unwrap();
    std::fs::rename(&before, &after).unwrap();
    let text = lock.confirm().unwrap_err().to_string();
    let said = ["before is no longer there", "resume it where it is now"];
    assert!(said.iter().all(|words| text.contains(words)) && !text.contains("lost"), "{text}");
}

#[test]
fn a_claim_that_vanished_is_lost_before_any_beat() {
    let folder = tempdir().unwrap();
    let lock = RunLock::take(folder.path()).unwrap();
    let fence = lock.fence();
    std::fs::remove_file(path(folder.path(), 1)).unwrap();
    assert!(fence.check().unwrap_err().to_string().contains("its claim was removed"));
    drop(lock);
    assert_eq!(names(folder.path()), [".lock"]);
    // One of the same number is not the same.
    let lock = RunLock::take(folder.path()).unwrap();
    std::fs::write(path(folder.path(), 1), Record::new(Identity::here(), true, 1).text()).unwrap();
    assert!(matches!(lock.confirm(), Err(TrainError::Busy(_))));
}

#[cfg(unix)]
#[test]
fn files_that_are_no_claims_do_no_harm() {
    use super::record::PREFIX;

    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("precious"), "kept").unwrap();
    // What no process makes is no claim, but its number counts.
    std::os::unix::fs::symlink(at("precious"), path(folder.path(), 1)).unwrap();
    assert_eq!(is_at_work(folder.path()), None, "no lock, and no claim that means anything");
    drop(RunLock::take(folder.path()).unwrap());
    assert!(std::process::Command::new("mkfifo").arg(path(folder.path(), 3)).status().unwrap().success());
    drop(RunLock::take(folder.path()).unwrap());
    std::os::unix::fs::symlink("/dev/zero", path(folder.path(), 5)).unwrap();
    drop(RunLock::take(folder.path()).unwrap());
    std::fs::create_dir(path(folder.path(), 7)).unwrap();
    for name in [".claim-", ".claim-x", ".claim-12", ".claim--00001", ".claim-0000009"] {
        std::fs::write(at(name), "junk").unwrap();
    }
    drop(RunLock::take(folder.path()).unwrap());
    assert!(read(folder.path(), 8).released);
    assert_eq!(std::fs::read_to_string(at("precious")).unwrap(), "kept");
    // Garbage under a claim's name may be a claim that another version wrote: it counts until it is old.
    for garbage in [&b""[..], b"\xff\xfe\0", &[b'['; 100_000]] {
        std::fs::write(path(folder.path(), 9), garbage).unwrap();
        let text = busy(RunLock::take(folder.path()));
        assert!(text.contains("cannot be read"), "{text}");
    }
    age(&path(folder.path(), 9), 61);
    drop(RunLock::take(folder.path()).unwrap());
    // After the last number there is none.
    std::fs::write(path(folder.path(), u64::MAX - 1), "").unwrap();
    age(&path(folder.path(), u64::MAX - 1), 61);
    drop(RunLock::take(folder.path()).unwrap());
    for name in [format!("{PREFIX}{}", u64::MAX), format!("{PREFIX}{}", "9".repeat(100))] {
        let text = RunLock::take(folder.path()).unwrap_err().to_string();
        assert!(text.contains("remove it"), "{text}");
        std::fs::remove_file(path(folder.path(), u64::MAX)).unwrap();
        std::fs::write(at(&name), "").unwrap();
        age(&at(&name), 61);
    }
    let text = RunLock::take(folder.path()).unwrap_err().to_string();
    assert!(text.contains(&"9".repeat(100)), "{text}");
}
