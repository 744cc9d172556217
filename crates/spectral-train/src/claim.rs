//! Who works in a run directory: one process, on whichever machine, with locks of the file system or without.
//!
//! A lock (`flock`) is exact where the kernel keeps it: it goes when its process ends, however that ends. But some file systems
//! have no locks, some keep them to each machine, and a server may hold on to the lock of a machine that has died. So a process
//! that works in a run also holds a *claim*: the file `.claim-NNNNNN` with the highest number.
//!
//! - A claim is taken by making the next number, which fails if the file exists. File servers decide that for all machines (NFS since
//!   version 3), so of several processes one gets it. Then lower numbers are removed.
//! - Its holder rewrites the file every ten seconds ([`BEAT`]). A claim that was not touched for a minute ([`STALE`]) is dead.
//! - The number is a fencing token. A process that was only stopped, or cut off, and finds its file gone or a higher number has lost
//!   the run: it writes nothing more. Trainers look before each checkpoint, each state and each model ([`Fence`]).
//! - At the end the holder marks its file as released and leaves it, so that no number comes twice.

mod heartbeat;
mod identity;
mod record;
#[cfg(test)]
mod tests;

use crate::error::TrainError;
use crate::store::disk::{self, File};
use crate::store::{StoreError, create_exclusively, folder_time, open_or_create_plain, open_plain};
pub use heartbeat::Fence;
use heartbeat::Heart;
use identity::Identity;
use record::{Found, Record, Seen};
use std::fs::TryLockError;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often a holder touches its claim.
pub const BEAT: Duration = Duration::from_secs(10);
/// A claim that was not touched for so long is dead.
pub const STALE: Duration = Duration::from_secs(60);
/// The file that the process at work in a run holds locked. The system lets go of the lock when the process ends,
/// however it ends; the file stays.
const LOCK: &str = ".lock";

/// What the kernel says of the lock beside the claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flock {
    /// This process has it.
    Held,
    /// Another one has it.
    Taken,
    /// The file system has no locks.
    Absent,
}

/// A run that is this process's alone for as long as this is kept.
#[derive(Debug)]
pub struct RunLock {
    heart: Heart,
    notes: Vec<String>,
    may_live: bool,
}

impl RunLock {
    /// Takes the run in a folder, or says who is at work there ([`TrainError::Busy`]). What was there is as it was then.
    pub fn take(folder: &Path) -> Result<Self, TrainError> {
        Self::take_as(folder, Identity::here(), BEAT)
    }

    fn take_as(folder: &Path, me: Identity, beat: Duration) -> Result<Self, TrainError> {
        let path = folder.join(LOCK);
        let file = open_or_create_plain(&path).map_err(|e| StoreError::io(&path, "lock", e))?;
        let (flock, mut notes) = match try_lock(&file) {
            Ok(()) => (Flock::Held, Vec::new()),
            Err(TryLockError::WouldBlock) => (Flock::Taken, Vec::new()),
            Err(TryLockError::Error(e)) => (
                Flock::Absent,
                vec![format!(
                    "this file system has no locks ({e}): claims alone tell that no other process works in {}; after a kill \
                     on another machine it takes a minute until the run can be resumed",
                    folder.display()
                )],
            ),
        };
        let mut record = Record::new(me, flock == Flock::Held, filesystem(&file));
        // Whoever takes a run and does no work on it, because something there is refused, leaves it as it was.
        record.error = last_error(folder).unwrap_or_default();
        let Taken { number, before } = take_claim(folder, flock, &record)?;
        let may_live = before.is_some();
        notes.extend(before.map(|before| format!("taken over from {before}")));
        let heart = Heart::start(folder, number, record, file, beat);
        Ok(RunLock { heart, notes, may_live })
    }

    /// What a user should know of how the run was taken.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether the process that had the run before may still live: it was silent for too long, but nothing proves its end. It
    /// may still have files open.
    pub fn predecessor_may_live(&self) -> bool {
        self.may_live
    }

    /// Fails if the run is no longer this process's ([`TrainError::Busy`]), and says who has it.
    pub fn confirm(&self) -> Result<(), TrainError> {
        self.fence().check()
    }

    /// Whether the run is known to be lost. Unlike [`confirm`](RunLock::confirm), this asks nobody.
    pub fn is_lost(&self) -> bool {
        self.heart.is_lost()
    }

    /// What [`confirm`](RunLock::confirm)s on behalf of those who write files.
    pub fn fence(&self) -> Fence {
        self.heart.fence()
    }

    /// Leaves in the claim, once it is let go of, which error ended the work; `None` takes that back. The claim is rewritten in its
    /// place, which a full disk still allows.
    pub(crate) fn set_error(&self, error: Option<String>) {
        self.heart.set_error(error);
    }

    /// Stops a training that this steers, if the run is lost from now on.
    pub(crate) fn watch(&self, control: Option<&crate::control::Control>) {
        self.heart.watch(control);
    }
}

/// Whether a process works in a run's folder, as far as one who only looks on can tell; `None` if nothing tells.
///
/// Writes nothing: the age of a claim is judged by this machine's clock.
pub fn is_at_work(folder: &Path) -> Option<bool> {
    look(folder).map(|holder| holder.is_some())
}

/// A process that works in a run's folder, for those who only look on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process, its machine and its scheduler's job, in words.
    pub who: String,
    /// The mark of its claim, as [`Fence::claim`] has it; empty if it has only a lock.
    pub claim: String,
}

/// Who works in a run's folder, as far as [`is_at_work`] can tell.
pub fn holder(folder: &Path) -> Option<Holder> {
    look(folder).flatten()
}

/// The error that ended the work of the last process in a run's folder, if it could say so before it ended.
pub fn last_error(folder: &Path) -> Option<String> {
    let newest = Seen::in_folder(folder, 0).ok()?.newest?;
    let record = Found::read(folder, newest).ok()??.record?;
    (record.released && !record.error.is_empty()).then_some(record.error)
}

/// Whether anybody is known to work in a folder or not to, and who.
fn look(folder: &Path) -> Option<Option<Holder>> {
    let unknown = || Holder { who: "a process that has not said who it is".into(), claim: String::new() };
    let file = open_plain(&folder.join(LOCK)).ok();
    let flock = match file.as_ref().map(File::try_lock_shared) {
        Some(Ok(())) => Some(Flock::Held),
        Some(Err(TryLockError::WouldBlock)) => Some(Flock::Taken),
        Some(Err(TryLockError::Error(_))) => Some(Flock::Absent),
        None => None,
    };
    let seen = Seen::in_folder(folder, 0).ok()?;
    let found = seen.newest.as_ref().and_then(|number| Found::read(folder, *number).ok().flatten());
    let found = found.filter(|found| found.plain);
    match (flock, &found) {
        // Without a claim, as in runs of version 0.1, the lock says it all.
        (None | Some(Flock::Absent), None) => return None,
        (Some(flock), None) => return Some((flock == Flock::Taken).then(unknown)),
        _ => {}
    }
    let me = Record::new(Identity::here(), true, file.as_ref().map_or(0, filesystem));
    let now = || Ok::<_, TrainError>(SystemTime::now());
    let verdict = judge(found.as_ref(), flock.unwrap_or(Flock::Absent), &me, now).ok()?;
    let record = found.and_then(|found| found.record).filter(|record| !record.released);
    let holder = || record.map_or_else(unknown, |claim| Holder { who: claim.who(&me), claim: claim.token });
    Some(matches!(verdict, Verdict::Busy(_)).then(holder))
}

/// Whether a file of this name in a run's folder tells who works there, and is nothing of the run itself.
pub fn is_part_of(name: &str) -> bool {
    name == LOCK || name.starts_with(record::PREFIX)
}

/// Takes the lock. Whoever only asks holds it for a moment ([`is_at_work`]), so one refusal says little.
fn try_lock(file: &File) -> Result<(), TryLockError> {
    for _ in 0..4 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
            other => return other,
        }
    }
    file.try_lock()
}

/// The file system that a file is on, as this machine has mounted it. Two mounts of one server are two.
fn filesystem(file: &File) -> u64 {
    #[cfg(unix)]
    return file.metadata().map_or(0, |metadata| std::os::unix::fs::MetadataExt::dev(&metadata));
    #[cfg(not(unix))]
    {
        let _ = file;
        0
    }
}

/// Who has a run.
#[derive(Debug)]
enum Verdict {
    /// Nobody.
    Free,
    /// Whoever had it was silent for too long; what is known of it.
    Silent(String),
    /// The one that this text describes.
    Busy(String),
}

/// Judges the newest claim. `now` is asked only where the time decides.
fn judge(
    found: Option<&Found>,
    flock: Flock,
    me: &Record,
    now: impl FnOnce() -> Result<SystemTime, TrainError>,
) -> Result<Verdict, TrainError> {
    let alone = match flock {
        Flock::Taken => Verdict::Busy("wait until it ends, or stop it with Ctrl-C".into()),
        Flock::Held | Flock::Absent => Verdict::Free,
    };
    // No process makes a claim that is a link or a pipe.
    let Some(found) = found.filter(|found| found.plain) else { return Ok(alone) };
    let here = found.record.as_ref().is_some_and(|claim| me.same_machine(claim));
    if let Some(claim) = &found.record {
        if claim.released {
            // A holder that ended without ever having the lock left it to whoever had it: a dead machine. A process that lives and has
            // it would have made a newer claim, or is about to, and of those that make the next one does.
            return Ok(if claim.flock { alone } else { Verdict::Free });
        }
        // The lock that is taken may be another's than the claim's holder's: a dead machine's, if the holder took the run in
        // spite of it. Only a holder that has the lock, on this machine, is proved alive by it.
        if flock == Flock::Taken && here && claim.flock {
            let who = claim.who(me);
            return Ok(Verdict::Busy(format!("{who}; wait until it ends, or stop it with Ctrl-C")));
        }
        // The kernel would not have given us the lock that the holder had until its end. Containers share the kernel, hence its
        // locks. Another mount of the same server may have locks of its own.
        let unlocked = flock == Flock::Held && claim.flock && claim.filesystem == me.filesystem;
        // A number of a process says something only where numbers are given by the same kernel.
        let gone = !me.identity.boot.is_empty() && claim.identity.is_gone(&me.identity);
        // A lock that was given to us while its holder lives locks nothing: some file systems say yes to everybody.
        let lives = !me.identity.boot.is_empty() && claim.identity.lives(&me.identity);
        if here && (unlocked && !lives || gone) {
            return Ok(Verdict::Free);
        }
        // A machine of the same name that was started since has no such process either. But names such as `localhost` are those of
        // many machines, and while one starts, most of the minute passes anyway.
    } else if flock == Flock::Taken {
        return Ok(alone);
    }
    // A living holder touches its claim at the server's time, whatever that is; a claim from the future is as dead as one from the
    // past.
    let now = now()?;
    let age = now.duration_since(found.touched).unwrap_or_else(|ahead| ahead.duration());
    let who = found.record.as_ref().map_or_else(|| "a process that cannot be read of".into(), |r| r.who(me));
    let heard = format!("{who}, last heard of {} ago", seconds(age));
    Ok(match STALE.checked_sub(age) {
        None | Some(Duration::ZERO) => Verdict::Silent(heard),
        Some(left) => Verdict::Busy(format!(
            "{heard}; wait until it ends, or stop it; if it stays silent, its run can be taken over in {}",
            seconds(left)
        )),
    })
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64().ceil())
}

/// A claim that was taken.
struct Taken {
    number: u64,
    /// Who was silent for too long.
    before: Option<String>,
}

/// How often to begin again when others come first. Each time another process has got further, so it ends long before.
const ATTEMPTS: usize = 100;

fn take_claim(folder: &Path, flock: Flock, record: &Record) -> Result<Taken, TrainError> {
    let failed = |doing| move |e| StoreError::io(folder, doing, e);
    // A number that is known to be in use although a listing from a client's cache does not have it yet.
    let mut known = 0;
    for _ in 0..ATTEMPTS {
        let seen = Seen::in_folder(folder, known).map_err(failed("list"))?;
        let newest = seen.newest;
        // One that is listed and gone was outdone by the next number, of which making that one will tell.
        let read = |number| Found::read(folder, number).map_err(failed("read the claims in"));
        let found = newest.map(read).transpose()?.flatten();
        let now = || Ok(folder_time(folder).map_err(failed("write to"))?);
        let before = match judge(found.as_ref(), flock, record, now)? {
            Verdict::Busy(who) => {
                return Err(TrainError::Busy(format!(
                    "another process is at work in {}: {who}",
                    folder.display()
                )));
            }
            Verdict::Silent(who) => Some(who),
            Verdict::Free => None,
        };
        let number = match newest.unwrap_or(0).checked_add(1) {
            Some(number) if seen.impossible.is_none() => number,
            _ => return Err(no_room(folder, &seen)),
        };
        let path = record::path(folder, number);
        match create_exclusively(&path, record.text().as_bytes()) {
            Ok(()) => {}
            // A server that was asked twice may say so of our own.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                if !Found::read(folder, number).is_ok_and(|found| found.is_some_and(|f| f.is(record))) {
                    known = number;
                    continue;
                }
            }
            // Whoever was first has swept the temporary file.
            Err(e) if e.kind() == ErrorKind::NotFound && folder.exists() => continue,
            Err(e) => return Err(StoreError::io(&path, "create", e).into()),
        }
        // The first listing may have been an old one. This one is not: the folder has changed by our own hand.
        let seen = Seen::in_folder(folder, 0).map_err(failed("list"))?;
        if seen.newest.is_some_and(|newest| newest > number) {
            let _ = disk::remove_file(&path);
            continue;
        }
        // The old holder finds its file gone, even where listings are old.
        seen.remove_below(folder, number);
        return Ok(Taken { number, before });
    }
    Err(TrainError::Busy(format!("other processes contend for {}: try again", folder.display())))
}

fn no_room(folder: &Path, seen: &Seen) -> TrainError {
    let newest = seen.newest.map(|number| record::path(folder, number));
    let path: PathBuf = seen.impossible.as_ref().map(|name| folder.join(name)).or(newest).unwrap_or_default();
    TrainError::Data(format!(
        "{} has a number after which there is none; no process has made it: remove it",
        path.display()
    ))
}
