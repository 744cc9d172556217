//! Checkpoints with checksums that are right and contents that are not: an error, never a panic.

use super::compact_tests::copy;
use super::tests::{plan, registry, resume, train};
use crate::checkpoint::Checkpoints;
use crate::devices::DeviceChoice;
use crate::error::TrainError;
use crate::recipe::Recipe;
use crate::run_dir::RunDir;
use crate::store::{Container, ContainerWriter, SegmentRef, testing::ScratchDir, write_atomically};
use crate::trainer::{Resumption, Trainer};
use std::path::{Path, PathBuf};

/// Writes a container anew, with checksums that are right, and with some of its sections changed.
fn forge(path: &Path, change: &mut dyn FnMut(&str, &mut Vec<u8>)) {
    let container = Container::open(path).unwrap();
    let names: Vec<String> = container.names().map(String::from).collect();
    let mut sections: Vec<_> = names.iter().map(|name| (name, container.section(name).unwrap())).collect();
    drop(container);
    sections.iter_mut().for_each(|(name, bytes)| change(name, bytes));
    write_atomically(path, |out| {
        let mut container = ContainerWriter::new(out)?;
        sections.iter().try_for_each(|(name, bytes)| container.section(name, bytes))?;
        container.finish()
    })
    .unwrap();
}

fn newest(run: &Path) -> PathBuf {
    let (dir, _) = RunDir::open(run, &registry()).unwrap();
    Checkpoints::list(&dir).unwrap().pop().unwrap()
}

/// Changes what the first segment of the agent holds, and lets its checkpoint mean that.
pub(super) fn forge_segment(run: &Path, id: &str, change: &dyn Fn(&mut Vec<u8>)) {
    forge_section(run, id, &["records", "recipe"], change);
}

fn forge_section(run: &Path, id: &str, sections: &[&str], change: &dyn Fn(&mut Vec<u8>)) {
    let checkpoint = newest(run);
    forge(&checkpoint, &mut |name, bytes| {
        if name != format!("segments/{id}") {
            return;
        }
        let mut manifest = SegmentRef::manifest_from_bytes(bytes).unwrap();
        let path = run.join("checkpoints").join(&manifest[0].file);
        forge(&path, &mut |name, bytes| {
            if sections.contains(&name) {
                change(bytes);
            }
            if name != "range" {
                manifest[0].crc = crc32fast::hash(bytes);
            }
        });
        manifest[0].bytes = path.metadata().unwrap().len();
        *bytes = SegmentRef::manifest_to_bytes(&manifest);
    });
}

fn refusal(run: &Path) -> String {
    let before = std::fs::read(newest(run)).unwrap();
    let how = Resumption { frames: Some(700), threads: 1, ..Resumption::default() };
    let error = match Trainer::resume(run, &registry(), how) {
        Err(TrainError::Data(error)) => error,
        Err(other) => panic!("another kind of error: {other}"),
        Ok(_) => panic!("accepted"),
    };
    assert!(error.contains("nothing was changed"), "{error}");
    assert_eq!(std::fs::read(newest(run)).unwrap(), before);
    error
}

fn trained(dir: &ScratchDir, task: &str, further: &[&str]) -> PathBuf {
    let path = dir.join("run");
    let plan = plan(task, &[&["frames=500", "agents=clipped", "seeds=1..1"], further].concat());
    train(&path, &plan, DeviceChoice::Cpu, 1);
    path
}

#[test]
fn forged_records_are_refused_and_never_a_panic() {
    type Change = (&'static str, &'static str, fn(&mut Vec<u8>, usize));
    let changes: [Change; 5] = [
        ("catch-scale", "has action 200, but catch-scale has 3", |bytes, _| bytes[7] = 200),
        ("catch-scale", "unknown flags (64)", |bytes, n| bytes[n] = 64),
        ("catch-scale", "a reward that is no number", |bytes, n| {
            bytes[3 * n..3 * n + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        }),
        ("2048", "which was not legal", |bytes, n| bytes[7 * n] = 0),
        ("2048", "which was not legal", |bytes, n| bytes[7 * n] |= 0x80),
    ];
    for (task, reason, change) in changes {
        let dir = ScratchDir::new();
        let run = trained(&dir, task, &["checkpoint=full"]);
        forge_segment(&run, "clipped-s1", &|bytes| change(bytes, 500));
        let error = refusal(&run);
        assert!(error.contains(reason) && error.contains(".segment"), "{reason}: {error}");
    }
}

/// Everything in a recipe, in the middle of an episode. What can be told from the file is refused at once; the rest shows in the
/// checksums when it is played.
#[test]
fn forged_recipes_are_refused_and_take_no_memory() {
    let dir = ScratchDir::new();
    let run = trained(&dir, "pong-mini", &["checkpoint=compact", "frames=490", "replay=150"]);
    resume(&run, DeviceChoice::Cpu, Some(500));
    resume(&run, DeviceChoice::Cpu, Some(650));
    type Change = (&'static str, fn(&mut Recipe));
    let (other, differs) = ("a recipe for other records", "came out differently");
    let changes: [Change; 13] = [
        ("no action 200", |recipe| recipe.actions[3] = 200),
        (differs, |recipe| recipe.actions[3] = (recipe.actions[3] + 1) % 3),
        (other, |recipe| recipe.actions.truncate(149)),
        (other, |recipe| recipe.actions.push(0)),
        ("pieces of 1000000000000 records", |recipe| recipe.per_piece = 1_000_000_000_000),
        (differs, |recipe| recipe.sums[0] ^= 1),
        (other, |recipe| recipe.anchor.step -= 1),
        (other, |recipe| recipe.anchor.step += 1 << 40),
        (differs, |recipe| recipe.anchor.fresh = true),
        (differs, |recipe| recipe.anchor.player_score += 1),
        (differs, |recipe| recipe.starting = true),
        ("more bytes expected", |recipe| recipe.anchor.task.truncate(3)),
        (differs, |recipe| {
            // Each byte by itself may be one of which nothing depends in the next 150 steps; together they are another game.
            let task: Vec<u8> = recipe.anchor.task.iter().map(|byte| byte & 1).collect();
            recipe.anchor.task = task;
        }),
    ];
    for (number, (reason, change)) in changes.into_iter().enumerate() {
        let forged = dir.join(&format!("forged-{number}"));
        copy(&run, &forged);
        forge_section(&forged, "clipped-s1", &["recipe"], &|bytes| {
            let mut recipe = Recipe::from_bytes(bytes).unwrap();
            assert_eq!((recipe.anchor.step, recipe.actions.len()), (500, 150));
            assert!(!recipe.anchor.fresh && !recipe.starting, "in the middle of an episode");
            change(&mut recipe);
            *bytes = recipe.to_bytes();
        });
        let error = refusal(&forged);
        assert!(error.contains(reason) && error.contains(".segment"), "{number}, {reason}: {error}");
    }
}

/// A recipe is played from its first record on: nobody is to wait for records that no replay had, or that this one does not keep.
#[test]
fn recipes_of_records_that_a_replay_cannot_need_are_refused_before_they_are_played() {
    let dir = ScratchDir::new();
    let set = |replay: &str| [replay, "checkpoint=compact", "learning_starts=10000"].map(String::from);
    let make = |name: &str, replay: &str, ends: &[u64]| {
        let first = format!("frames={}", ends[0]);
        let set = set(replay);
        let set: Vec<&str> = set.iter().map(String::as_str).chain(["agents=clipped", "seeds=1..1"]).collect();
        let path = dir.join(name);
        train(&path, &plan("pong-mini", &[&set[..], &[&first]].concat()), DeviceChoice::Cpu, 1);
        ends[1..].iter().for_each(|&end| drop(resume(&path, DeviceChoice::Cpu, Some(end))));
        path
    };
    let manifest = |checkpoint: &Path| {
        let section = Container::open(checkpoint).unwrap().section("segments/clipped-s1").unwrap();
        SegmentRef::manifest_from_bytes(&section).unwrap()
    };
    let mean = |run: &Path, segments: &[SegmentRef]| {
        forge(&newest(run), &mut |name, bytes| {
            if name == "segments/clipped-s1" {
                *bytes = SegmentRef::manifest_to_bytes(segments);
            }
        });
    };
    // The same games, with a larger replay: its recipe is true in the other run, too, only too long.
    let (small, large) = (make("small", "replay=300", &[500]), make("large", "replay=600", &[500]));
    let long = manifest(&newest(&large));
    let file = |run: &Path| run.join("checkpoints").join(&long[0].file);
    std::fs::copy(file(&large), file(&small)).unwrap();
    mean(&small, &long);
    let error = refusal(&small);
    assert!(error.contains("500 records for a replay that has room for 300"), "{error}");
    // A segment that an older checkpoint keeps.
    let run = make("old", "replay=300", &[150, 300, 500]);
    let older = newest(&run).with_file_name("00000002.checkpoint");
    let (old, new) = (manifest(&older), manifest(&newest(&run)));
    assert_eq!((old[0].end(), new[0].first), (150, 150));
    mean(&run, &[&old[..1], &new].concat());
    let error = refusal(&run);
    assert!(error.contains("it ends at record 150, the replay needs 200..500"), "{error}");
}

/// A small file may decompress to gigabytes. What a checkpoint means is known before.
#[test]
fn segments_that_decompress_to_more_than_was_saved_are_refused_before_they_do() {
    let grown: [(&str, &str, usize); 3] = [
        ("full", "records", 1 << 20),
        ("compact", "recipe", (64 << 20) + 500 * 5 + 65),
        ("full", "range", 1 << 20),
    ];
    for (kind, section, length) in grown {
        let dir = ScratchDir::new();
        let run = trained(&dir, "pong-mini", &[&format!("checkpoint={kind}")]);
        forge_section(&run, "clipped-s1", &[section], &|bytes| bytes.resize(length, 0));
        let error = refusal(&run);
        let expected = format!("'{section}' is of {length} bytes");
        assert!(error.contains(&expected) && error.contains("at most were expected"), "{kind}: {error}");
    }
}

/// Counters beyond any run would overflow later.
#[test]
fn forged_counters_are_refused() {
    let dir = ScratchDir::new();
    let run = trained(&dir, "catch-scale", &["checkpoint=light"]);
    let checkpoint = newest(&run);
    let whole = std::fs::read(&checkpoint).unwrap();
    for place in 0..4 {
        forge(&checkpoint, &mut |name, bytes| {
            if name == "agent/clipped-s1" {
                bytes[8 + 8 * place..][..8].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
            }
        });
        assert!(refusal(&run).contains("counters"), "counter {place}");
        std::fs::write(&checkpoint, &whole).unwrap();
    }
}

/// Every place of a small agent's state, with all kinds of nonsense: an error or a run that goes on, never a panic.
#[test]
fn a_forged_state_is_never_a_panic() {
    let dir = ScratchDir::new();
    let run = trained(&dir, "2048", &["prioritised=true", "hidden=1", "replay=300", "frames=320"]);
    let checkpoint = newest(&run);
    let length = Container::open(&checkpoint).unwrap().section("agent/clipped-s1").unwrap().len();
    let mut random = 1u64;
    for _ in 0..60 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Half of the attempts are at the few places in front, which most depends on.
        let span = if random >> 63 == 0 { 120 } else { length - 8 };
        let at = (random >> 20) as usize % span;
        let value = match (random >> 8) % 6 {
            0 => u64::MAX,
            1 => u64::MAX / 2,
            2 => 1 << 40,
            3 => 0,
            4 => f64::NAN.to_bits(),
            _ => random,
        };
        let forged = dir.join("forged");
        copy(&run, &forged);
        forge(&newest(&forged), &mut |name, bytes| {
            if name == "agent/clipped-s1" {
                bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
        });
        let how = Resumption { frames: Some(340), threads: 1, ..Resumption::default() };
        if let Ok(mut trainer) = Trainer::resume(&forged, &registry(), how) {
            // What was accepted trains, or ends with a reason.
            drop(trainer.run());
        }
        std::fs::remove_dir_all(&forged).unwrap();
    }
}
