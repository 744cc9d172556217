//! Attacks a target with changed inputs, and keeps the one that it does not survive.

use crate::guard::{self, LIMIT, Watch};
use crate::mutate::{Random, mutate};
use crate::{Target, corpus, scratch};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

/// When an attack ends.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Executions at most.
    pub executions: u64,
    /// Time at most; `None` is no limit.
    pub time: Option<Duration>,
}

/// An attack that was survived.
#[derive(Clone, Copy, Debug)]
pub struct Survived {
    /// How often the target was called.
    pub executions: u64,
    /// How long that took.
    pub time: Duration,
    /// The largest allocation in bytes; 0 if the program does not note them.
    pub largest: usize,
}

/// What a target did not survive.
#[derive(Debug)]
pub struct Found {
    /// What happened.
    pub what: String,
    /// The file with the input.
    pub input: PathBuf,
}

/// Runs the target on its whole corpus, and then on changed members of it. What it does not survive is kept in `keep`.
pub fn attack(
    target: &'static Target,
    from: &Path,
    seed: u64,
    limits: Limits,
    keep: &Path,
) -> io::Result<Result<Survived, Found>> {
    let corpus = corpus::read(from, target)?;
    assert!(!corpus.is_empty(), "{} has no corpus in {}", target.name, from.display());
    let kept = keep.to_owned();
    let watch = Watch::new(move |input| {
        let path = store(&kept, target, input);
        eprintln!("{} hangs: {}", target.name, path.display());
        scratch::sweep();
    });
    // What is made once, such as runs to attack, is none of an execution's memory.
    (target.run)(&corpus[0]);
    guard::take_largest();
    let (mut random, begun) = (Random::new(seed), Instant::now());
    let (mut executions, mut largest) = (0, 0);
    let mut whole = corpus.iter().cloned();
    while executions < limits.executions && limits.time.is_none_or(|time| begun.elapsed() < time) {
        let input = whole.next().unwrap_or_else(|| mutate(&mut random, &corpus, target.words));
        watch.begin(&input);
        let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
        executions += 1;
        let asked = guard::take_largest();
        largest = largest.max(asked);
        let what = match outcome {
            Ok(()) if asked <= LIMIT => continue,
            Ok(()) => format!("it asked for {asked} bytes at once"),
            Err(_) => "it panicked".to_owned(),
        };
        let what = format!("{} with seed {seed}, execution {executions}: {what}", target.name);
        return Ok(Err(Found { what, input: store(keep, target, &input) }));
    }
    Ok(Ok(Survived { executions, time: begun.elapsed(), largest }))
}

/// Runs the target on one file.
pub fn repeat(target: &Target, input: &Path) -> io::Result<()> {
    let bytes = fs::read(input)?;
    (target.run)(&bytes);
    Ok(())
}

fn store(folder: &Path, target: &Target, input: &[u8]) -> PathBuf {
    let sum = input
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let path = folder.join(format!("{}-{sum:016x}", target.name));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, input));
    written.expect("a folder for inputs that were not survived");
    path
}
