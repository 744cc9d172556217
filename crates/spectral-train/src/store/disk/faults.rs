//! A disk on which, in unit tests, any one operation can go wrong.
//!
//! Operations on paths below a watched folder are counted ([`Disk::watch`]); the one with a chosen number goes wrong as a
//! [`Fault`] says. All other paths are untouched, so tests may run side by side. Nothing is really synced there: what a power cut
//! would leave is worked out instead ([`power`](super::power)).

use super::power::Model;
use std::fs::{self, Metadata, OpenOptions, TryLockError};
use std::io::{self, Error, Read, Result, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Open,
    Look,
    List,
    Read,
    Create,
    Write,
    Cut,
    Sync,
    SyncFolder,
    Rename,
    Link,
    Remove,
    MakeFolder,
}

impl Kind {
    /// Whether it may change what is on the disk.
    pub fn changes(self) -> bool {
        !matches!(self, Kind::Open | Kind::Look | Kind::List | Kind::Read)
    }

    /// Whether it needs room on the disk.
    fn takes_room(self) -> bool {
        matches!(self, Kind::Create | Kind::Write | Kind::Link | Kind::MakeFolder)
    }
}

/// How an operation goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not done, and fails with `EIO`.
    Fail,
    /// It is done, and fails with `EIO` all the same.
    FailDone,
    /// A write does half of its work and fails; from then on there is no room for anything, until somebody makes some.
    Full,
    /// A read or a write does half of its work, and says so.
    Short,
    /// It is done, a write by half, and nothing after it.
    Kill,
}

impl Fault {
    /// Whether it makes a difference to an operation of this kind.
    pub fn concerns(self, kind: Kind) -> bool {
        match self {
            Fault::Fail => true,
            Fault::FailDone | Fault::Kill => kind.changes(),
            Fault::Full => kind.takes_room(),
            Fault::Short => matches!(kind, Kind::Read | Kind::Write),
        }
    }
}

/// What happens while a process sleeps.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// A watched folder. It is watched until this is dropped.
pub struct Disk(Arc<Watched>);

struct Watched {
    root: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kinds: Vec<Kind>,
    fault: Option<(usize, Fault)>,
    sleep: Option<(usize, Meanwhile)>,
    full: bool,
    dead: bool,
    /// The error that folders give when they are synced.
    unsynced_folders: Option<i32>,
    model: Model,
}

static DISKS: Mutex<Vec<Arc<Watched>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    /// Watches a folder, all of which counts as safe on disk. The operation with the number in `fault`, from 0, goes wrong.
    pub fn watch(root: &Path, fault: Option<(usize, Fault)>) -> Self {
        let state = State { fault, model: Model::of(root), ..State::default() };
        let watched = Arc::new(Watched { root: root.into(), state: Mutex::new(state) });
        lock(&DISKS).push(watched.clone());
        Disk(watched)
    }

    /// From now on folders cannot be synced: it fails with this error of the system.
    pub fn refuse_to_sync_folders(&self, errno: i32) {
        lock(&self.0.state).unsynced_folders = Some(errno);
    }

    /// The process sleeps just before the operation with this number, from 0, and `meanwhile` something else happens here.
    pub fn sleep_before(&self, number: usize, meanwhile: impl FnOnce() + Send + 'static) {
        lock(&self.0.state).sleep = Some((number, Box::new(meanwhile)));
    }

    /// What was done so far.
    pub fn kinds(&self) -> Vec<Kind> {
        lock(&self.0.state).kinds.clone()
    }

    /// What is safe on disk and what is not.
    pub fn model(&self) -> Model {
        lock(&self.0.state).model.clone()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        lock(&DISKS).retain(|watched| !Arc::ptr_eq(watched, &self.0));
    }
}

/// What becomes of one operation.
enum Fate {
    Done,
    Half,
    HalfThenFail(Error),
    DoneThenFail(Error),
    NotDone(Error),
}

impl State {
    /// What happens before the next operation, if the process sleeps there. A claim's heartbeat is no moment of the run's.
    fn falls_asleep(&mut self) -> Option<Meanwhile> {
        let due = self.sleep.as_ref().is_some_and(|(number, _)| self.kinds.len() >= *number);
        let beats = std::thread::current().name() == Some("claim");
        self.sleep.take_if(|_| due && !beats).map(|(_, meanwhile)| meanwhile)
    }

    fn next(&mut self, kind: Kind) -> Fate {
        let (eio, full) = (|| Error::from_raw_os_error(5), || Error::from_raw_os_error(28));
        if self.dead {
            return Fate::NotDone(Error::other("killed"));
        }
        let number = self.kinds.len();
        self.kinds.push(kind);
        if self.full && kind.takes_room() {
            return Fate::NotDone(full());
        }
        if let (Kind::SyncFolder, Some(errno)) = (kind, self.unsynced_folders) {
            return Fate::NotDone(Error::from_raw_os_error(errno));
        }
        match self.fault {
            Some((at, fault)) if at == number && fault.concerns(kind) => match fault {
                Fault::Fail => Fate::NotDone(eio()),
                Fault::FailDone => Fate::DoneThenFail(eio()),
                Fault::Short => Fate::Half,
                Fault::Full => {
                    self.full = true;
                    if kind == Kind::Write { Fate::HalfThenFail(full()) } else { Fate::NotDone(full()) }
                }
                Fault::Kill => {
                    self.dead = true;
                    if kind == Kind::Write { Fate::Half } else { Fate::Done }
                }
            },
            _ => Fate::Done,
        }
    }
}

fn watching(path: &Path) -> Option<Arc<Watched>> {
    lock(&DISKS).iter().find(|watched| path.starts_with(&watched.root)).cloned()
}

/// Does `work` unless something goes wrong. `work` is told whether to do all of it or half, and notes in the model what it did.
fn act<T>(kind: Kind, path: &Path, work: impl FnOnce(bool, &mut Model) -> Result<T>) -> Result<T> {
    let Some(watched) = watching(path) else { return work(false, &mut Model::default()) };
    let meanwhile = lock(&watched.state).falls_asleep();
    if let Some(meanwhile) = meanwhile {
        meanwhile();
    }
    let mut state = lock(&watched.state);
    match state.next(kind) {
        Fate::NotDone(error) => Err(error),
        Fate::Done => work(false, &mut state.model),
        Fate::Half => work(true, &mut state.model),
        Fate::HalfThenFail(error) => work(true, &mut state.model).and(Err(error)),
        Fate::DoneThenFail(error) => work(false, &mut state.model).and(Err(error)),
    }
}

/// See [`std::fs::rename`].
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    act(Kind::Rename, to, |_, model| {
        model.forgets(to);
        fs::rename(from, to)?;
        model.moved(from, to);
        Ok(())
    })
}

/// See [`std::fs::hard_link`].
pub fn hard_link(from: &Path, to: &Path) -> Result<()> {
    act(Kind::Link, to, |_, model| {
        fs::hard_link(from, to)?;
        model.linked(from, to);
        Ok(())
    })
}

/// See [`std::fs::remove_file`].
pub fn remove_file(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    act(Kind::Remove, path, |_, model| {
        model.forgets(path);
        fs::remove_file(path)?;
        model.removed(path);
        Ok(())
    })
}

/// See [`std::fs::create_dir`].
pub fn create_dir(path: &Path) -> Result<()> {
    act(Kind::MakeFolder, path, |_, model| {
        fs::create_dir(path)?;
        model.made_folder(path);
        Ok(())
    })
}

/// See [`std::fs::metadata`].
pub fn metadata(path: impl AsRef<Path>) -> Result<Metadata> {
    act(Kind::Look, path.as_ref(), |_, _| fs::metadata(path.as_ref()))
}

/// See [`std::fs::symlink_metadata`].
pub fn symlink_metadata(path: impl AsRef<Path>) -> Result<Metadata> {
    act(Kind::Look, path.as_ref(), |_, _| fs::symlink_metadata(path.as_ref()))
}

/// See [`std::fs::read_dir`]. The listing is an operation of its own: it may begin, and then fail.
pub fn read_dir(path: impl AsRef<Path>) -> Result<Box<dyn Iterator<Item = Result<fs::DirEntry>>>> {
    let path = path.as_ref();
    let entries = act(Kind::List, path, |_, _| fs::read_dir(path))?;
    let broken = act(Kind::List, path, |_, _| Ok(())).err();
    Ok(Box::new(broken.map(Err).into_iter().chain(entries)))
}

/// See [`OpenOptions::open`].
pub fn open_with(options: &OpenOptions, path: &Path) -> Result<File> {
    let kind = if fs::symlink_metadata(path).is_ok() { Kind::Open } else { Kind::Create };
    act(kind, path, |_, model| {
        let inner = options.open(path)?;
        if kind == Kind::Create {
            model.created(path);
        }
        Ok(File { inner, path: path.into() })
    })
}

/// See [`std::fs::File`].
#[derive(Debug)]
pub struct File {
    inner: fs::File,
    path: PathBuf,
}

impl File {
    pub fn open(path: impl AsRef<Path>) -> Result<File> {
        open_with(OpenOptions::new().read(true), path.as_ref())
    }

    pub fn create(path: impl AsRef<Path>) -> Result<File> {
        open_with(OpenOptions::new().write(true).create(true).truncate(true), path.as_ref())
    }

    pub fn create_new(path: impl AsRef<Path>) -> Result<File> {
        open_with(OpenOptions::new().read(true).write(true).create_new(true), path.as_ref())
    }

    pub fn metadata(&self) -> Result<Metadata> {
        act(Kind::Look, &self.path, |_, _| self.inner.metadata())
    }

    pub fn set_len(&self, length: u64) -> Result<()> {
        act(Kind::Cut, &self.path, |_, _| self.inner.set_len(length))
    }

    pub fn sync_all(&self) -> Result<()> {
        if watching(&self.path).is_none() {
            return self.inner.sync_all();
        }
        if self.inner.metadata()?.is_dir() {
            return act(Kind::SyncFolder, &self.path, |_, model| {
                model.synced_folder(&self.path);
                Ok(())
            });
        }
        act(Kind::Sync, &self.path, |_, model| {
            model.synced(&self.path);
            Ok(())
        })
    }

    pub fn sync_data(&self) -> Result<()> {
        self.sync_all()
    }

    pub fn try_lock(&self) -> std::result::Result<(), TryLockError> {
        self.inner.try_lock()
    }

    pub fn try_lock_shared(&self) -> std::result::Result<(), TryLockError> {
        self.inner.try_lock_shared()
    }

    pub fn unlock(&self) -> Result<()> {
        self.inner.unlock()
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for File {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

/// Half of a buffer, and at least a byte: none would be the end of the file.
fn part(half: bool, length: usize) -> usize {
    if half { length.div_ceil(2) } else { length }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        act(Kind::Read, &self.path, |half, _| {
            let length = part(half, buffer.len());
            (&self.inner).read(&mut buffer[..length])
        })
    }
}

impl Write for &File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        act(Kind::Write, &self.path, |half, _| (&self.inner).write(&buffer[..part(half, buffer.len())]))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&self.inner).seek(to)
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}
