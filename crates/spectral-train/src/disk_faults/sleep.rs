//! A process sleeps at any point of a run, another takes the run over, and then the first wakes: whatever it still does, the run goes
//! on to the same bits.

use super::walk::{Start, killed, undisturbed};
use super::*;
use crate::checkpoint::Checkpoints;
use crate::run_dir::RunDir;
use crate::store::disk::faults::{Disk, Kind};
use crate::store::disk::power::lay;
use crate::store::testing::ScratchDir;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// How far the process that takes a run over gets while the other sleeps.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Successor {
    /// To the next checkpoint, and ends in order.
    OneCheckpoint,
    /// To the end of the run.
    End,
}

/// Makes the newest claim that of a process on another machine of which nothing was heard for a while. Its lock stays.
fn as_if_elsewhere_and_silent(run: &Path) {
    let claims = std::fs::read_dir(run).unwrap().flatten().map(|entry| entry.path());
    let claim =
        claims.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(".claim-")).max();
    if let Some(claim) = claim {
        let text = std::fs::read_to_string(&claim).unwrap();
        let boot = text.lines().find(|line| line.starts_with("boot = ")).unwrap_or("none");
        std::fs::write(&claim, text.replace(boot, "boot = \"before\"")).unwrap();
        let_a_while_pass(run);
    }
}

/// Takes over the run that a process has that sleeps, and returns the frames that it saved.
fn succeed(run: &Path, how: Successor) -> Result<u64, TrainError> {
    as_if_elsewhere_and_silent(run);
    let trainer = resume(run, None)?;
    match how {
        Successor::End => finish(trainer, &Saved::default()).map(|()| ENDS[2]),
        Successor::OneCheckpoint => {
            let mut trainer = trainer;
            let next = ENDS.into_iter().find(|&end| end > trainer.progress()[0].frames).unwrap_or(ENDS[2]);
            trainer.set_end(next)?;
            trainer.run()?;
            Ok(next)
        }
    }
}

/// Where on a walk a run was taken over, and where whoever slept noticed.
#[derive(Debug, Default)]
struct Tally {
    overtaken: usize,
    noticed: usize,
}

/// Lets `work` on a run sleep before each of its operations; `saved` frames are there when it begins.
fn walk(
    start: &Start,
    how: Successor,
    at: impl Fn(Kind) -> bool,
    work: impl Fn(&Path) -> Result<(), TrainError>,
) {
    let dir = ScratchDir::new();
    let root = dir.join("root");
    let (run, mut tally) = (root.join("run"), Tally::default());
    let lay_anew = || {
        let _ = std::fs::remove_dir_all(&root);
        lay(&start.tree, &root);
    };
    lay_anew();
    let disk = Disk::watch(&root, None);
    work(&run).unwrap();
    let kinds = disk.kinds();
    drop(disk);
    for (point, kind) in kinds.into_iter().enumerate().filter(|(_, kind)| at(*kind)) {
        lay_anew();
        let disk = Disk::watch(&root, None);
        let theirs = Arc::new(Mutex::new(None));
        let (theirs_there, run_there) = (theirs.clone(), run.clone());
        disk.sleep_before(point, move || {
            let done = succeed(&run_there, how);
            *theirs_there.lock().unwrap() = Some((done, tree_of(&run_there)));
        });
        let outcome = work(&run);
        let what = format!("{kind:?} number {point}, {how:?}: {outcome:?}");
        let theirs = theirs.lock().unwrap().take();
        let (done, left) = theirs.unwrap_or_else(|| panic!("no sleep: {what}"));
        let saved = match done {
            Ok(saved) => saved,
            // While a claim is written, or before one is there, nobody takes a run over.
            Err(TrainError::Busy(_)) => start.saved,
            Err(error) => panic!("{error}; {what}"),
        };
        tally.overtaken += usize::from(saved > start.saved);
        if let Err(error) = outcome {
            assert!(matches!(error, TrainError::Busy(_)), "{what}");
            tally.noticed += 1;
            // The one call after the look.
            if !matches!(kind, Kind::Rename | Kind::Remove) {
                assert_untouched(&run, &left, &what);
            }
        }
        recover(&run, saved, &what);
    }
    println!("{how:?}: {tally:?}");
    assert!(tally.noticed > 15, "{tally:?}");
}

/// Of what another process left, all is as it left it. Only segments that no checkpoint knows may have come.
fn assert_untouched(run: &Path, left: &Tree, what: &str) {
    let counts = |path: &Path| !path.file_name().unwrap().to_string_lossy().starts_with('.');
    let now = tree_of(run);
    for (path, content) in left.iter().filter(|(path, _)| counts(path)) {
        assert!(now.get(path) == Some(content), "{} is not as it was: {what}", path.display());
    }
    let new = |path: &&PathBuf| counts(path) && !left.contains_key(*path);
    for path in now.keys().filter(new) {
        assert!(path.extension().is_some_and(|kind| kind == "segment"), "{} is new: {what}", path.display());
    }
}

/// Goes on with a run. At least `saved` frames must be there.
fn recover(run: &Path, saved: u64, what: &str) {
    let mut trainer = resume(run, None).unwrap_or_else(|e| panic!("{e}; {what}"));
    let reached = trainer.progress()[0].frames;
    assert!(reached >= saved, "{saved} frames were saved, {reached} are there: {what}");
    // The one call may have been to write an earlier end into `run.toml`.
    if trainer.plan().run.frames < reached {
        trainer.set_end(reached).unwrap();
    }
    finish(trainer, &Saved::default()).unwrap_or_else(|e| panic!("{e}; {what}"));
    assert_same(&results(run), undisturbed(), what);
    let (dir, _) = RunDir::open(run, &Registry::default()).unwrap();
    assert_eq!(Checkpoints::list(&dir).unwrap().len(), 2, "{what}");
}

fn go_on(run: &Path) -> Result<(), TrainError> {
    finish(resume(run, None)?, &Saved::default())
}

#[test]
fn whoever_sleeps_while_another_ends_the_run_spoils_nothing() {
    walk(killed(), Successor::End, |_| true, go_on);
}

#[test]
fn whoever_sleeps_while_another_goes_on_for_a_while_spoils_nothing() {
    walk(killed(), Successor::OneCheckpoint, |_| true, go_on);
}

/// The segments that a successor made were taken for left-overs by whoever had slept before it listed the folder.
#[test]
fn whoever_sleeps_before_it_lists_a_folder_removes_no_segment_of_another() {
    let dir = ScratchDir::new();
    let root = dir.join("root");
    std::fs::create_dir(&root).unwrap();
    create(&root.join("run")).unwrap().run().unwrap();
    let begun = Start { tree: tree_of(&root), saved: ENDS[0] };
    // The sleeper writes the second checkpoint, the other one the third.
    let lists = |kind| kind == Kind::List;
    walk(&begun, Successor::End, lists, |run| {
        let mut trainer = resume(run, None)?;
        // Before it has taken the run, the other one may have ended it.
        if trainer.progress()[0].frames > ENDS[1] {
            return Ok(());
        }
        trainer.set_end(ENDS[1])?;
        trainer.run().map(drop)
    });
}
