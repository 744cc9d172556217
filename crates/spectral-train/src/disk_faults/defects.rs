//! Where a disk once did harm, each defect by itself.

use super::*;
use crate::checkpoint::Checkpoints;
use crate::run_dir::RunDir;
use crate::store::disk::faults::{Disk, Fault, Kind};
use crate::store::disk::power::{Data, Names, lay};
use crate::store::testing::ScratchDir;
use std::path::PathBuf;

fn checkpoints(run: &Path) -> Vec<PathBuf> {
    let (dir, _) = RunDir::open(run, &Registry::default()).unwrap();
    Checkpoints::list(&dir).unwrap()
}

/// A run that has two checkpoints and is to have a third.
fn half(dir: &ScratchDir) -> PathBuf {
    let run = dir.join("half");
    let mut trainer = create(&run).unwrap();
    trainer.run().unwrap();
    trainer.set_end(ENDS[1]).unwrap();
    trainer.run().unwrap();
    trainer.set_end(ENDS[2]).unwrap();
    run
}

fn said(opened: Result<Trainer, TrainError>) -> String {
    opened.err().map(|error| error.to_string()).expect("an error")
}

/// Everything but who works there.
fn without_claims(run: &Path) -> Tree {
    let mut tree = tree_of(run);
    tree.retain(|path, _| !path.to_string_lossy().starts_with('.'));
    tree
}

/// D2: the file had its name, the folder could not be synced, and the segments that the file needs were removed as left-overs.
#[test]
fn a_checkpoint_that_has_its_name_keeps_its_segments() {
    let dir = ScratchDir::new();
    let disk = Disk::watch(dir.path(), None);
    whole(&dir.join("run"), &Saved::default()).unwrap();
    let kinds = disk.kinds();
    drop(disk);
    let (mut tried, copy) = (0, dir.join("copy"));
    for (point, kind) in kinds.into_iter().enumerate() {
        let fault = match kind {
            Kind::SyncFolder => Fault::Fail,
            Kind::Rename => Fault::FailDone,
            _ => continue,
        };
        let root = dir.join(&point.to_string());
        std::fs::create_dir(&root).unwrap();
        let run = root.join("run");
        let disk = Disk::watch(&root, Some((point, fault)));
        let outcome = whole(&run, &Saved::default());
        drop(disk);
        if outcome.is_err() && run.join("run.toml").exists() {
            let all = tree_of(&run);
            for checkpoint in checkpoints(&run) {
                lay(&all, &copy);
                let chosen = copy.join("checkpoints").join(checkpoint.file_name().unwrap());
                resume(&copy, Some(&chosen)).unwrap_or_else(|e| panic!("{kind:?} number {point}: {e}"));
                std::fs::remove_dir_all(&copy).unwrap();
                tried += 1;
            }
        }
    }
    assert!(tried > 12, "{tried} checkpoints were tried");
}

/// A checkpoint that was to go and could not be removed had been forgotten, and lost its segments.
#[test]
fn a_checkpoint_that_cannot_be_removed_keeps_its_segments() {
    let dir = ScratchDir::new();
    let start = {
        let _unsynced = Disk::watch(dir.path(), None);
        whole(&dir.join("run"), &Saved::default()).unwrap();
        tree_of(&dir.join("run"))
    };
    // The fourth checkpoint, for which the second goes; it alone needs the first records.
    let further = |run: &Path| {
        let mut trainer = resume(run, None)?;
        trainer.set_end(960)?;
        trainer.run().map(drop)
    };
    let (run, copy) = (dir.join("further"), dir.join("copy"));
    lay(&start, &run);
    let disk = Disk::watch(&run, None);
    further(&run).unwrap();
    let kinds = disk.kinds();
    drop(disk);
    let mut stayed = 0;
    for point in (0..kinds.len()).filter(|&point| kinds[point] == Kind::Remove) {
        std::fs::remove_dir_all(&run).unwrap();
        lay(&start, &run);
        let disk = Disk::watch(&run, Some((point, Fault::Fail)));
        let outcome = further(&run);
        drop(disk);
        if outcome.is_err() && checkpoints(&run).len() == 3 {
            let all = tree_of(&run);
            for checkpoint in checkpoints(&run) {
                lay(&all, &copy);
                let chosen = copy.join("checkpoints").join(checkpoint.file_name().unwrap());
                resume(&copy, Some(&chosen)).unwrap_or_else(|e| panic!("removal number {point}: {e}"));
                std::fs::remove_dir_all(&copy).unwrap();
            }
            // The next one makes room for it.
            further(&run).unwrap();
            assert_eq!(checkpoints(&run).len(), 2);
            stayed += 1;
        }
    }
    assert!(stayed > 0);
}

/// The number of the next checkpoint came out as 0, or stopped the program.
#[test]
fn a_checkpoint_after_which_no_number_comes_is_refused() {
    let dir = ScratchDir::new();
    let run = half(&dir);
    let newest = checkpoints(&run).remove(1);
    let last = run.join(format!("checkpoints/{}.checkpoint", u64::MAX));
    std::fs::copy(&newest, &last).unwrap();
    let before = without_claims(&run);
    for chosen in [None, Some(newest.as_path())] {
        let text = said(resume(&run, chosen));
        assert!(text.contains(&last.display().to_string()) && text.contains("a lower one"), "{text}");
        assert_eq!(without_claims(&run), before);
    }
    std::fs::rename(&last, run.join("checkpoints/00000007.checkpoint")).unwrap();
    finish(resume(&run, None).unwrap(), &Saved::default()).unwrap();
    assert!(checkpoints(&run).iter().any(|path| path.ends_with("00000008.checkpoint")));
}

/// D7: a disk that does not give the newest checkpoint back may give another.
#[test]
fn where_the_newest_checkpoint_cannot_be_read_another_is_named() {
    let dir = ScratchDir::new();
    let run = half(&dir);
    let before = without_claims(&run);
    let [older, newest] = checkpoints(&run).try_into().unwrap();
    let disk = Disk::watch(&run, None);
    drop(resume(&run, None).unwrap());
    let kinds = disk.kinds();
    drop(disk);
    let mut named = 0;
    let reads = kinds.iter().enumerate().filter(|(_, kind)| **kind == Kind::Read);
    for (point, _) in reads {
        let disk = Disk::watch(&run, Some((point, Fault::Fail)));
        let opened = resume(&run, None);
        drop(disk);
        let Err(error) = opened else { continue };
        let text = error.to_string();
        if text.contains("cannot read it") && text.contains(&newest.display().to_string()) {
            let offer = format!("--checkpoint {}`", older.display());
            assert!(text.contains(&offer) && text.contains("nothing was changed"), "{text}");
            named += 1;
        }
        assert_eq!(without_claims(&run), before, "{text}");
    }
    assert!(named > 5, "{named} failures were of the newest checkpoint");
    assert_eq!(resume(&run, Some(&older)).unwrap().progress()[0].frames, ENDS[0]);
}

/// A table that has lost rows: what is named is what the run can go on from, and no checkpoint that sends back to the first.
#[test]
fn where_rows_are_missing_no_checkpoint_is_named_that_needs_them() {
    let dir = ScratchDir::new();
    let run = half(&dir);
    let [older, newest] = checkpoints(&run).try_into().unwrap();
    let table = run.join("agents/spectral-s1/metrics.csv");
    let whole = std::fs::read_to_string(&table).unwrap();
    let cut = |after: &str| {
        let end = whole.find(after).unwrap() + after.len();
        let end = end + whole[end..].find('\n').unwrap() + 1;
        std::fs::write(&table, &whole[..end]).unwrap();
    };
    cut("\n240,");
    let text = said(resume(&run, None));
    assert!(text.contains("rows are missing") && text.contains(&older.display().to_string()), "{text}");
    cut("\n120,");
    for chosen in [None, Some(older.as_path()), Some(newest.as_path())] {
        let text = said(resume(&run, chosen));
        assert!(text.contains("rows are missing") && text.contains("no other sound checkpoint"), "{text}");
        assert!(!text.contains("--checkpoint"), "{text}");
    }
    cut("\n240,");
    assert_eq!(resume(&run, Some(&older)).unwrap().progress()[0].frames, ENDS[0]);
}

/// A run that departs from an older checkpoint goes on from there, even if it ends before it has written one of its own.
#[test]
fn whoever_goes_back_to_a_checkpoint_need_not_choose_it_again() {
    let dir = ScratchDir::new();
    let run = half(&dir);
    let kept = dir.join("kept.checkpoint");
    let older = checkpoints(&run).remove(0);
    std::fs::copy(&older, &kept).unwrap();
    for chosen in [&older, &kept] {
        let copy = dir.join("copy");
        lay(&tree_of(&run), &copy);
        let own = copy.join("checkpoints").join(chosen.file_name().unwrap());
        drop(resume(&copy, Some(if chosen == &kept { &kept } else { &own })).unwrap());
        let mut trainer = resume(&copy, None).unwrap();
        assert_eq!(trainer.progress()[0].frames, ENDS[0]);
        finish(trainer, &Saved::default()).unwrap();
        assert_eq!(checkpoints(&copy).len(), 2);
        std::fs::remove_dir_all(&copy).unwrap();
    }
    assert!(kept.exists(), "a checkpoint that the user keeps elsewhere is the user's");
}

/// EINVAL and ENOTSUP, as some network and user-space file systems have it.
#[test]
fn a_file_system_that_does_not_sync_folders_is_told_of_once() {
    for errno in [22, 95] {
        let dir = ScratchDir::new();
        let disk = Disk::watch(dir.path(), None);
        disk.refuse_to_sync_folders(errno);
        let run = dir.join("run");
        let told = |trainer: &Trainer| {
            trainer.notes().iter().filter(|note| note.contains("does not sync folders")).count()
        };
        let trainer = create(&run).unwrap();
        assert_eq!(told(&trainer), 1, "{:?}", trainer.notes());
        finish(trainer, &Saved::default()).unwrap();
        assert_eq!(told(&resume(&run, None).unwrap()), 1);
    }
    let dir = ScratchDir::new();
    let trainer = create(&dir.join("run")).unwrap();
    assert!(!trainer.notes().iter().any(|note| note.contains("sync")), "{:?}", trainer.notes());
}

/// The names of a new run's folder and of those that were made for it.
#[test]
fn a_run_that_has_begun_is_there_after_a_power_cut() {
    let dir = ScratchDir::new();
    let disk = Disk::watch(dir.path(), None);
    drop(create(&dir.join("a/b/run")).unwrap());
    let left = disk.model().cut(Names::None, Data::Old);
    assert!(left.contains_key(Path::new("a/b/run/run.toml")), "{:?}", left.keys());
}

/// A folder whose content could not be listed was taken for an empty one, and the run in it would have been begun anew.
#[test]
fn a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one() {
    let dir = ScratchDir::new();
    let run = half(&dir);
    let before = without_claims(&run);
    // The first things that are done: to begin a listing, and to read it.
    for point in 0..2 {
        let disk = Disk::watch(dir.path(), Some((point, Fault::Fail)));
        let text = said(create(&run));
        assert!(text.contains("cannot read it"), "{text}");
        drop(disk);
        assert_eq!(without_claims(&run), before);
    }
}

/// An NFS client gives a removed file that somebody has open another name, under which it stays until it is closed.
#[test]
fn what_an_nfs_client_keeps_of_a_removed_file_does_not_make_a_folder_taken() {
    let dir = ScratchDir::new();
    let run = dir.join("run");
    std::fs::create_dir(&run).unwrap();
    std::fs::write(run.join(".nfs000000000001f2b400000003"), "old").unwrap();
    drop(create(&run).unwrap());
    let text = said(create(&run));
    assert!(text.contains("exists already"), "{text}");
}

/// The longest name makes files that there can be; a longer one is refused before there is anything.
#[test]
fn names_too_long_for_files_are_refused_when_a_run_is_planned() {
    let dir = ScratchDir::new();
    let registry = Registry::default();
    let plan = |letters: usize| {
        let file = dir.join(&format!("{}.toml", "n".repeat(letters)));
        std::fs::write(&file, "codec = \"clipped\"\n").unwrap();
        let mut config = Configuration::default();
        SETTINGS.iter().for_each(|pair| config.set(pair).unwrap());
        config.set(&format!("agents={}", file.display())).unwrap();
        config.set(&format!("seeds={},", i64::MAX)).unwrap();
        config.set(&format!("frames={}", ENDS[0])).unwrap();
        registry.plan(&config)
    };
    let text = plan(121).unwrap_err().to_string();
    assert!(text.contains("is too long for an agent's name"), "{text}");
    let run = registry.resolve_plan(plan(120).unwrap()).unwrap();
    Trainer::create(&dir.join("run"), run, &registry, "test").unwrap().run().unwrap();
    assert_eq!(checkpoints(&dir.join("run")).len(), 1);
}
