//! Checkpoints whose checksums are right and whose contents are not: a forger, or a disk that fails before sums are made.

use crate::fixture::{self, Fixture};
use spectral_train::checkpoint::{Checkpoints, Saving};
use spectral_train::cpu_population::CpuPopulation;
use spectral_train::population::{Population as _, TrainSlice};
use spectral_train::store::SegmentRef;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The first byte chooses a run, the second one of its containers, the third a part of it; the rest are changes to that part.
pub(super) fn run(bytes: &[u8]) {
    let _ = outcome(bytes);
}

/// What became of the changed checkpoint: whether training went on from it, or why it was refused.
fn outcome(bytes: &[u8]) -> Result<(), String> {
    let [run, container, part, changes @ ..] = bytes else { return Err("too short".into()) };
    fixture::with_all(|runs| {
        let fixture = &runs[usize::from(*run) % runs.len()];
        let (path, parts) = &fixture.containers[usize::from(*container) % fixture.containers.len()];
        let mut parts = parts.clone();
        let at = usize::from(*part) % parts.len();
        change(&mut parts[at].1, changes);
        let bytes = fixture::container(&parts);
        std::fs::write(path, &bytes).expect("a scratch file");
        refer(fixture, path, &parts, bytes.len() as u64);
        let outcome = resume(fixture);
        fixture.mend(true);
        fixture.mend(false);
        outcome
    })
}

/// Small programs of changes: what to do, where, with what. Most bytes are a change of some kind.
fn change(part: &mut Vec<u8>, mut changes: &[u8]) {
    while let [what, low, high, value, rest @ ..] = changes {
        changes = rest;
        let at = usize::from(u16::from_le_bytes([*low, *high])) % (part.len() + 1);
        let wide = |value: u8| match value % 6 {
            0 => 0,
            1 => u64::MAX,
            2 => u64::from(u32::MAX),
            3 => i64::MAX as u64,
            4 => u64::from(value),
            _ => f64::NAN.to_bits(),
        };
        let put = |part: &mut Vec<u8>, bytes: &[u8]| {
            part.iter_mut().skip(at).zip(bytes).for_each(|(byte, new)| *byte = *new);
        };
        match what % 8 {
            0 | 1 => put(part, &[*value]),
            2 => part.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= value),
            3 => put(part, &wide(*value).to_le_bytes()),
            4 => put(part, &(wide(*value) as u32).to_le_bytes()),
            5 => part.truncate(at),
            6 => drop(part.splice(at..at, std::iter::repeat_n(*value, usize::from(*value)))),
            _ => drop(part.drain(at..part.len().min(at + usize::from(*value)))),
        }
    }
}

/// Lets checkpoints refer to a segment as it is now.
fn refer(fixture: &Fixture, path: &Path, changed: &[(String, Vec<u8>)], bytes: u64) {
    let Some(content) = changed.iter().find(|(name, _)| name == "records" || name == "recipe") else {
        return;
    };
    for (checkpoint, parts) in &fixture.containers {
        let mut parts = parts.clone();
        for (_, part) in parts.iter_mut().filter(|(name, _)| name.starts_with("segments/")) {
            let mut manifest = SegmentRef::manifest_from_bytes(part).expect("a manifest that nobody changed");
            for segment in manifest.iter_mut().filter(|segment| path.ends_with(&segment.file)) {
                (segment.crc, segment.bytes) = (crc32fast::hash(&content.1), bytes);
            }
            *part = SegmentRef::manifest_to_bytes(&manifest);
        }
        if checkpoint != path {
            std::fs::write(checkpoint, fixture::container(&parts)).expect("a scratch file");
        }
    }
}

/// What `spectral resume` does, a few steps of training included: what was accepted must be fit for use.
fn resume(fixture: &Fixture) -> Result<(), String> {
    let Fixture { run, dir, .. } = fixture;
    let mut population = CpuPopulation::new(run).expect("a population");
    let loaded =
        Checkpoints::load(dir, run, &mut population, None, Saving::Full, false).map_err(|e| e.to_string())?;
    loaded.ok_or("there is no checkpoint")?;
    let interrupt = AtomicBool::new(false);
    let slice = TrainSlice {
        frames: fixture::FRAMES + 40,
        due: Instant::now() + Duration::from_secs(3600),
        interrupt: &interrupt,
        observer: &(),
    };
    // A file that cannot grow is an error, and errors are fine.
    let _ = population.train(slice);
    let _ = population.save(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;

    /// An attack on what is refused at the door reaches nothing behind it.
    #[test]
    fn changes_reach_what_they_are_named_for() {
        let corpus = corpus::make().remove("checkpoint").expect("a corpus");
        let of = |name: &str| {
            let (_, bytes) = corpus.iter().find(|(known, _)| *known == name).expect("an input");
            outcome(bytes)
        };
        assert_eq!(of("nothing"), Ok(()));
        for run in 0..fixture::with_all(|runs| runs.len()) {
            assert_eq!(outcome(&[run as u8, 0, 0]), Ok(()), "run {run}");
        }
        let recipe = of("recipe").expect_err("other actions make other records");
        assert!(recipe.contains("came out differently"), "{recipe}");
        let range = of("range").expect_err("another number of records");
        assert!(range.contains("found, the checkpoint means"), "{range}");
        for name in
            ["steps", "statistics", "priorities", "masks", "recipe-step", "recipe-task", "light", "mean"]
        {
            let text = of(name).err().unwrap_or_default();
            let sums = ["found, the checkpoint means", "damaged", "other settings", "bytes long"];
            assert!(!sums.iter().any(|sum| text.contains(sum)), "{name} is refused for its sums: {text}");
        }
    }
}
