//! A process sleeps at any point of a run, another takes the run over, and then the first wakes: whatever it still does, the run goes
//! on to the same bits.

use super::walk::{killed, undisturbed};
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

/// What was found on a walk.
#[derive(Debug, Default)]
struct Tally {
    /// Where the run was taken over.
    overtaken: usize,
    /// Where the sleeper noticed.
    noticed: usize,
    /// Where the newest checkpoint was spoilt and another was named.
    spoilt: usize,
}

/// Lets `work` on a run sleep before each of its operations; `saved` frames are there when it begins.
fn walk(tree: &Tree, saved: u64, how: Successor, work: impl Fn(&Path) -> Result<(), TrainError>) {
    let dir = ScratchDir::new();
    let root = dir.join("root");
    let (run, mut tally) = (root.join("run"), Tally::default());
    let lay_anew = |tree: &Tree| {
        let _ = std::fs::remove_dir_all(&root);
        lay(tree, &root);
    };
    lay_anew(tree);
    let disk = Disk::watch(&root, None);
    work(&run).unwrap();
    let kinds = disk.kinds();
    drop(disk);
    for (point, kind) in kinds.into_iter().enumerate() {
        lay_anew(tree);
        let disk = Disk::watch(&root, None);
        let done = Arc::new(Mutex::new(None));
        let (other, theirs) = (run.clone(), done.clone());
        disk.sleep_before(point, move || *theirs.lock().unwrap() = Some(succeed(&other, how)));
        let outcome = work(&run).map_err(|e| (matches!(e, TrainError::Busy(_)), e.to_string()));
        let what = format!("{kind:?} number {point}, {how:?}: {outcome:?}");
        let done = done.lock().unwrap().take().unwrap_or_else(|| panic!("no sleep: {what}"));
        let frames = match done {
            Ok(frames) => {
                tally.overtaken += 1;
                frames
            }
            // While a claim is written, or before one is there, nobody takes a run over.
            Err(TrainError::Busy(_)) => saved,
            Err(error) => panic!("{error}; {what}"),
        };
        tally.noticed += usize::from(matches!(outcome, Err((true, _))));
        recover(&run, kind, frames, &what, &mut tally);
    }
    println!("{how:?}: {tally:?}");
    assert!(tally.noticed > 50, "{tally:?}");
}

/// Goes on with a run as a user does, who follows what an error says.
fn recover(run: &Path, kind: Kind, saved: u64, what: &str, tally: &mut Tally) {
    let mut trainer = match resume(run, None) {
        // The one call after the look: a whole file got its name in place of another.
        Err(TrainError::Data(text)) if kind == Kind::Rename => {
            tally.spoilt += 1;
            let (_, named) = text.split_once("--checkpoint ").unwrap_or_else(|| panic!("{text}; {what}"));
            let named = PathBuf::from(named.split_once('`').unwrap().0);
            resume(run, Some(&named)).unwrap_or_else(|e| panic!("{e}; {what}"))
        }
        opened => {
            let mut trainer = opened.unwrap_or_else(|e| panic!("{e}; {what}"));
            let frames = trainer.progress()[0].frames;
            assert!(frames >= saved, "{saved} frames were saved, {frames} are there: {what}");
            trainer
        }
    };
    // The state, the one file, may say that the run ended before.
    let reached = trainer.progress()[0].frames;
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
    walk(&killed().tree, killed().saved, Successor::End, go_on);
}

#[test]
fn whoever_sleeps_while_another_goes_on_for_a_while_spoils_nothing() {
    walk(&killed().tree, killed().saved, Successor::OneCheckpoint, go_on);
}
