//! The holder's side of a claim: it touches the file, looks whether it is still the newest, and lets go of it at the end.

use super::record::{self, Found, Record, Seen};
use crate::control::Control;
use crate::error::TrainError;
use crate::store::disk::File;
use crate::store::{StoreError, open_plain_to_rewrite, write_atomically_if};
use std::io::{Result, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What those share who hold a claim and those who ask whether it holds.
#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    number: u64,
    /// The process that took the run. Not behind a lock, which the thread may have held when a child was forked.
    process: u32,
    /// Locked while the file is read or written, so that nobody reads what is half-written.
    record: Mutex<Record>,
    /// The locked file.
    lock: File,
    /// Who has the run now, once it is lost.
    lost: Mutex<Option<String>>,
    /// What is stopped then.
    control: Mutex<Option<Control>>,
    over: Mutex<bool>,
    changed: Condvar,
}

/// Asks whether a run is still this process's. The default one always says yes, for those who write where nobody else does.
#[derive(Clone, Debug, Default)]
pub struct Fence(Option<Arc<Shared>>);

impl Fence {
    /// Fails if the run is lost. What comes at once after it may be written.
    ///
    /// ```
    /// spectral_train::claim::Fence::default().check()?;
    /// # Ok::<(), spectral_train::error::TrainError>(())
    /// ```
    pub fn check(&self) -> std::result::Result<(), TrainError> {
        match &self.0 {
            Some(shared) => shared.check(),
            None => Ok(()),
        }
    }

    /// The mark of this process's claim, which no other claim has; empty without one.
    pub fn claim(&self) -> String {
        self.0.as_ref().map_or_else(String::new, |shared| guard(&shared.record).token.clone())
    }

    /// [`check`](Fence::check), as those ask who are about to make one call to the system.
    pub(crate) fn allow(&self) -> Result<()> {
        self.check().map_err(std::io::Error::other)
    }

    /// [`write_atomically`](crate::store::write_atomically), unless the run is lost by the time that the new file is whole and only
    /// has to get its name. Writing it may have taken long.
    pub(crate) fn write_atomically(
        &self,
        path: &Path,
        bytes: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> std::result::Result<(), TrainError> {
        write_atomically_if(path, bytes, || self.allow()).map_err(|error| self.explain(error.into()))
    }

    /// Says that the run is lost, if it is: any other error may be what a process sees whose run is another's.
    pub(crate) fn explain(&self, error: TrainError) -> TrainError {
        match self.check() {
            Err(lost @ TrainError::Busy(_)) => lost,
            _ => error,
        }
    }
}

/// A claim that is kept alive by a thread until it is dropped.
#[derive(Debug)]
pub(super) struct Heart {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    /// Keeps a claim that was just taken.
    pub fn start(folder: &Path, number: u64, record: Record, lock: File, beat: Duration) -> Self {
        let shared = Arc::new(Shared {
            folder: folder.into(),
            number,
            process: record.identity.process,
            record: Mutex::new(record),
            lock,
            lost: Mutex::default(),
            control: Mutex::default(),
            over: Mutex::default(),
            changed: Condvar::new(),
        });
        let kept = shared.clone();
        let work = move || {
            while kept.wait(beat) {
                kept.beat();
            }
        };
        // Without the thread a claim grows old; the checks before each write still hold.
        let thread = std::thread::Builder::new().name("claim".into()).spawn(work).ok();
        Heart { shared, thread }
    }

    pub fn fence(&self) -> Fence {
        Fence(Some(self.shared.clone()))
    }

    pub fn is_lost(&self) -> bool {
        guard(&self.shared.lost).is_some()
    }

    /// Keeps the error that ended the holder's work, for its claim when it is let go of; `None` if the work goes on.
    pub fn set_error(&self, error: Option<String>) {
        guard(&self.shared.record).error = error.unwrap_or_default();
    }

    pub fn watch(&self, control: Option<&Control>) {
        *guard(&self.shared.control) = control.cloned();
        if let (Some(control), true) = (control, guard(&self.shared.lost).is_some()) {
            control.halt();
        }
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            return;
        }
        *guard(&self.shared.over) = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if guard(&self.shared.lost).is_none() {
            // If that fails, others wait until the claim is old.
            let _ = self.shared.rewrite(|record| record.released = true);
        }
        let _ = self.shared.lock.unlock();
    }
}

impl Shared {
    /// Waits for the next beat; false if there is none.
    fn wait(&self, beat: Duration) -> bool {
        let over = guard(&self.over);
        let waited = self.changed.wait_timeout_while(over, beat, |over| !*over);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn beat(&self) {
        if self.check().is_err() {
            // Again, in case that somebody has let the training go on.
            if let (Some(control), true) = (&*guard(&self.control), guard(&self.lost).is_some()) {
                control.halt();
            }
            return;
        }
        // Whatever is wrong may pass before anybody takes the run.
        let _ = self.rewrite(|record| {
            record.beat += 1;
            // A lock that a dead machine had may have gone by now.
            record.flock |= self.lock.try_lock().is_ok();
        });
    }

    /// Writes the own file anew, if it is there still: once it was removed, it must not come back.
    fn rewrite(&self, change: impl FnOnce(&mut Record)) -> Result<()> {
        let mut record = guard(&self.record);
        if !self.is_own(&record)? {
            return Ok(());
        }
        change(&mut record);
        let mut file = open_plain_to_rewrite(&record::path(&self.folder, self.number))?;
        let written = file.write_all(record.text().as_bytes()).and_then(|()| file.sync_all());
        #[cfg(unix)]
        if written.is_err() {
            // A disk that is full. The time is what counts, and it is the server's, as that of a write.
            use rustix::fs::{Timespec, Timestamps, UTIME_NOW};
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            let _ = rustix::fs::futimens(&file, &Timestamps { last_access: now, last_modification: now });
        }
        written
    }

    fn is_own(&self, record: &Record) -> Result<bool> {
        let found = Found::read(&self.folder, self.number)?;
        Ok(found.is_some_and(|found| found.plain && found.is(record)))
    }

    /// Whether this is a child that was forked: it has a copy of everything, but neither the thread nor the run.
    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    fn check(&self) -> std::result::Result<(), TrainError> {
        if self.is_forked() {
            let text = "this process was forked from the one at work in";
            return Err(TrainError::Busy(format!("{text} {}", self.folder.display())));
        }
        if let Some(lost) = &*guard(&self.lost) {
            return Err(TrainError::Busy(lost.clone()));
        }
        let failed = |doing| move |e| StoreError::io(&self.folder, doing, e);
        // Opening a file asks the server; a listing may come from a cache. So the own file is asked for, which whoever takes over
        // removes, and the listing tells the rest.
        let own = self.is_own(&guard(&self.record)).map_err(failed("read the claims in"))?;
        let seen = match own {
            true => Seen::in_folder(&self.folder, 0).map_err(failed("list"))?,
            false => Seen::in_folder(&self.folder, 0).unwrap_or_default(),
        };
        if own && seen.newest.is_none_or(|newest| newest <= self.number) {
            return Ok(());
        }
        let newer = seen.newest.filter(|&newest| newest > self.number);
        Err(TrainError::Busy(self.lose(newer)))
    }

    /// Notes that the run is another's, and stops the training.
    fn lose(&self, newer: Option<u64>) -> String {
        let found = newer.and_then(|number| Found::read(&self.folder, number).ok().flatten());
        let record = guard(&self.record).clone();
        let by = match (newer, found.and_then(|found| found.record)) {
            (None, _) => "its claim was removed".to_string(),
            (Some(_), None) => "another process has taken it over".to_string(),
            (Some(_), Some(other)) => format!("{} has taken it over", other.who(&record)),
        };
        // Nobody took it: its folder was moved or removed, and with it the claim.
        let gone = newer.is_none() && matches!(self.folder.try_exists(), Ok(false));
        let text = if gone {
            format!(
                "{0} is no longer there, and process {1} writes nothing more; if you moved it, resume it where it is now",
                self.folder.display(),
                self.process
            )
        } else {
            format!(
                "process {} has lost the run in {} and writes nothing more there: {by}, as others may once nothing was heard \
             of a process for {} s",
                self.process,
                self.folder.display(),
                super::STALE.as_secs()
            )
        };
        guard(&self.lost).get_or_insert(text.clone());
        if let Some(control) = &*guard(&self.control) {
            control.halt();
        }
        text
    }
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
