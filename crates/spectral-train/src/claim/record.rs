//! The file of a claim: its name, its text, and how it is found.

use super::identity::{Identity, plain};
use crate::store::{disk, open_plain};
use spectral_core::settings::quote;
use std::io::{ErrorKind, Read, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// What the names of claims begin with.
pub(crate) const PREFIX: &str = ".claim-";
/// Bytes of a claim's text. All texts are of one length, so that rewriting one never leaves a part of another.
const LENGTH: usize = 1024;

/// What the text of a claim says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub identity: Identity,
    /// Tells a claim from all others, whatever their numbers.
    pub token: String,
    /// Whether the holder has the lock, too.
    pub flock: bool,
    /// The file system of the run, as the holder's machine numbers it.
    pub filesystem: u64,
    /// How often it was rewritten.
    pub beat: u64,
    /// The holder has ended.
    pub released: bool,
    /// The error that ended its work, as far as there is room for it; empty if none did. Claims of earlier versions have none.
    pub error: String,
}

impl Record {
    /// That of a new claim.
    pub fn new(identity: Identity, flock: bool, filesystem: u64) -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.as_nanos());
        let token = format!("{}-{}-{now}-{unique}", identity.host, identity.process);
        Record { identity, token, flock, filesystem, beat: 0, released: false, error: String::new() }
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let Record { identity, token, flock, filesystem, beat, released, error } = self;
        let Identity { host, boot, process, began, namespaces, job } = identity;
        let [host, boot, namespaces, job, token] =
            [host, boot, namespaces, job, token].map(|text| quote(text));
        // As text: TOML's numbers have a sign.
        let (filesystem, began) = (quote(&filesystem.to_string()), quote(&began.to_string()));
        let text = format!(
            "released = {released}\nbeat = {beat}\nhost = {host}\njob = {job}\nprocess = {process}\nboot = {boot}\n\
             began = {began}\nnamespaces = {namespaces}\nflock = {flock}\nfilesystem = {filesystem}\ntoken = {token}\n"
        );
        let line = |error: &str| {
            if error.is_empty() { String::new() } else { format!("error = {}\n", quote(error)) }
        };
        // A full disk has room for what it has already, and for nothing more. Errors begin with a path, which may be long, and end
        // with what happened, so the middle goes.
        let all: Vec<char> = error.chars().collect();
        let mut room = all.len().min(LENGTH);
        let cut = |room: usize| -> String {
            if room == all.len() {
                return error.clone();
            }
            let (first, last) = (room / 3, room - room / 3);
            all[..first].iter().chain(&['…']).chain(&all[all.len() - last..]).collect()
        };
        while room > 0 && text.len() + line(&cut(room)).len() > LENGTH {
            room -= 1;
        }
        let text = if room > 0 { text + &line(&cut(room)) } else { text };
        let blanks = LENGTH.saturating_sub(text.len());
        text + &" ".repeat(blanks)
    }

    /// What a text says; `None` if it is no claim's.
    pub fn parse(text: &str) -> Option<Self> {
        let table: toml::Table = text.parse().ok()?;
        let string = |key: &str| Some(plain(table.get(key)?.as_str()?));
        let number = |key: &str| string(key)?.parse::<u64>().ok();
        let yes = |key: &str| table.get(key)?.as_bool();
        let identity = Identity {
            host: string("host")?,
            boot: string("boot")?,
            process: u32::try_from(table.get("process")?.as_integer()?).ok()?,
            began: number("began")?,
            namespaces: string("namespaces")?,
            job: string("job")?,
        };
        Some(Record {
            identity,
            token: table.get("token")?.as_str()?.into(),
            flock: yes("flock")?,
            filesystem: number("filesystem")?,
            beat: u64::try_from(table.get("beat")?.as_integer()?).ok()?,
            released: yes("released")?,
            error: table.get("error").and_then(toml::Value::as_str).unwrap_or_default().into(),
        })
    }

    /// Whether another claim is of the machine of this one, by the start of its kernel: one that was started anew is another. Where
    /// systems do not say, the names decide; those are people's own machines and not a cluster's.
    pub fn same_machine(&self, other: &Record) -> bool {
        let (mine, theirs) = (&self.identity, &other.identity);
        match (mine.boot.is_empty(), theirs.boot.is_empty()) {
            (true, true) => mine.host == theirs.host,
            _ => mine.boot == theirs.boot,
        }
    }

    /// The holder, as people are told of it.
    pub fn who(&self, me: &Record) -> String {
        let Identity { host, process, job, .. } = &self.identity;
        let machine = match me.same_machine(self) {
            true => "this machine".into(),
            false => format!("host {host}"),
        };
        let job = if job.is_empty() { String::new() } else { format!(" ({job})") };
        format!("process {process} on {machine}{job}")
    }
}

/// The file of the claim with this number.
pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(name(number))
}

fn name(number: u64) -> String {
    format!("{PREFIX}{number:06}")
}

/// The claims that a folder has by their names.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The highest number.
    pub newest: Option<u64>,
    /// A name with more digits than there are numbers.
    pub impossible: Option<String>,
    all: Vec<u64>,
}

impl Seen {
    /// Those of a folder; `known` is one that is certainly there, or 0.
    pub fn in_folder(folder: &Path, known: u64) -> Result<Self> {
        let mut seen = Seen { newest: (known > 0).then_some(known), ..Seen::default() };
        for entry in disk::read_dir(folder)? {
            let found = entry?.file_name();
            let Some(digits) = found.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
                continue;
            };
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            match digits.parse::<u64>() {
                Ok(number) if path(folder, number).file_name() == Some(&*found) => {
                    seen.newest = seen.newest.max(Some(number));
                    seen.all.push(number);
                }
                // Of another length than ours: none of ours.
                Ok(_) => {}
                Err(_) => seen.impossible = Some(format!("{PREFIX}{digits}")),
            }
        }
        Ok(seen)
    }

    /// Removes claims that were left behind.
    pub fn remove_below(&self, folder: &Path, number: u64) {
        for &old in self.all.iter().filter(|&&old| old < number) {
            // One that cannot be removed is outdone all the same.
            let _ = disk::remove_file(path(folder, old));
        }
    }
}

/// A claim's file as it was found.
#[derive(Debug)]
pub(super) struct Found {
    /// What it says; `None` if that makes no sense.
    pub record: Option<Record>,
    /// When it was last written, by the clock of the file server.
    pub touched: SystemTime,
    /// Whether it is a plain file.
    pub plain: bool,
}

impl Found {
    /// Reads a claim; `None` if it is gone.
    pub fn read(folder: &Path, number: u64) -> Result<Option<Self>> {
        let path = path(folder, number);
        let gone = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::StaleNetworkFileHandle);
        let read = || {
            let metadata = disk::symlink_metadata(&path)?;
            if !metadata.is_file() {
                return Ok(Found { record: None, touched: metadata.modified()?, plain: false });
            }
            let file = open_plain(&path)?;
            let mut bytes = Vec::new();
            (&file).take(2 * LENGTH as u64).read_to_end(&mut bytes)?;
            let record = std::str::from_utf8(&bytes).ok().and_then(Record::parse);
            // Of the open file: what a client knew of it before may be old.
            Ok(Found { record, touched: file.metadata()?.modified()?, plain: true })
        };
        match read() {
            Err(e) if gone(std::io::Error::kind(&e)) => Ok(None),
            // A file of another user that must not be read is a claim all the same.
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                let touched = disk::symlink_metadata(&path)?.modified()?;
                Ok(Some(Found { record: None, touched, plain: true }))
            }
            found => found.map(Some),
        }
    }

    /// Whether this is the claim with that text, however often it was rewritten.
    pub fn is(&self, record: &Record) -> bool {
        self.record.as_ref().is_some_and(|found| found.token == record.token)
    }
}
