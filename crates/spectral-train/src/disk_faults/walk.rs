//! At every point of a run, and of its resumption, the disk fails, fills up, is cut short, or everything ends: afterwards the run
//! goes on to the same bits, and nothing that was saved is lost.

use super::*;
use crate::checkpoint::Checkpoints;
use crate::run_dir::RunDir;
use crate::store::Container;
use crate::store::disk::faults::{Disk, Fault};
use crate::store::disk::power::{Data, Names, lay};
use crate::store::testing::ScratchDir;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

/// What an undisturbed run leaves.
pub(super) fn undisturbed() -> &'static BTreeMap<String, Vec<u8>> {
    static ONCE: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    ONCE.get_or_init(|| {
        let dir = ScratchDir::new();
        let _unsynced = Disk::watch(dir.path(), None);
        whole(&dir.join("run"), &Saved::default()).unwrap();
        let results = results(&dir.join("run"));
        // What a small run could lack without anybody noticing.
        let names: Vec<&str> = results.keys().map(|name| name.rsplit('/').next().unwrap()).collect();
        let all = [
            "episodes.csv",
            "eval.csv",
            "metrics.csv",
            "model-average.safetensors",
            "model-best.safetensors",
            "model.safetensors",
            "td_error.csv",
        ];
        assert_eq!(names, all);
        for table in ["episodes.csv", "eval.csv", "metrics.csv", "td_error.csv"] {
            let text = String::from_utf8_lossy(&results[&format!("spectral-s1/{table}")]).into_owned();
            assert!(text.lines().count() > 2, "{table}: {text}");
        }
        results
    })
}

/// What was found on a walk.
#[derive(Debug, Default)]
struct Tally {
    /// Faults at points.
    points: usize,
    /// How many of them ended the run with an error.
    refused: usize,
    /// What was left and gone on with.
    recovered: usize,
    /// How often a run had to be begun anew, because nothing of it was on the disk.
    begun: usize,
    /// How often it took as long as a claim takes to die of which nothing can be read.
    waited: usize,
}

impl Tally {
    /// Goes on with what is left of a run, as a user does who knows of `resume` alone, and compares what comes out. At least `saved`
    /// frames must be there.
    fn recover(&mut self, run: &Path, saved: u64, what: &str) {
        let open = |tally: &mut Self| match run.join("run.toml").exists() {
            true => resume(run, None),
            false => {
                tally.begun += 1;
                assert_eq!(saved, 0, "the run is gone: {what}");
                create(run)
            }
        };
        let mut opened = open(self);
        if let Err(TrainError::Busy(_)) = opened {
            let_a_while_pass(run);
            self.waited += 1;
            opened = open(self);
        }
        let mut trainer = opened.unwrap_or_else(|e| panic!("{e}; {what}"));
        let frames = trainer.progress()[0].frames;
        assert!(frames >= saved, "{saved} frames were saved, {frames} are there: {what}");
        finish(trainer, &Saved::default()).unwrap_or_else(|e| panic!("{e}; {what}"));
        assert_same(&results(run), undisturbed(), what);
        let (dir, _) = RunDir::open(run, &Registry::default()).unwrap();
        assert_eq!(Checkpoints::list(&dir).unwrap().len(), 2, "{what}");
        assert!(!tree_of(run).keys().any(|path| path.to_string_lossy().contains("spectral-tmp")), "{what}");
        self.recovered += 1;
    }
}

/// What is left of a run by a power cut at the moment of a kill.
const CUTS: [(Names, Data); 5] = [
    (Names::None, Data::Old),
    (Names::All, Data::Zeros),
    (Names::All, Data::Old),
    (Names::Removals, Data::New),
    (Names::Some(1), Data::Some(1)),
];

/// What a walk begins with: a tree, and the frames that are saved in it.
pub(super) struct Start {
    pub tree: Tree,
    pub saved: u64,
}

const NOTHING: Start = Start { tree: Tree::new(), saved: 0 };

/// Does `work` again and again on a fresh copy of `start`; each time another one of its operations goes wrong, and then somebody goes
/// on with what is left.
fn walk(name: &str, faults: &[Fault], start: &Start, work: impl Fn(&Path, &Saved) -> Result<(), TrainError>) {
    let start_time = Instant::now();
    let dir = ScratchDir::new();
    let root = dir.join("root");
    let (run, mut tally) = (root.join("run"), Tally::default());
    let lay_anew = |tree: &Tree| {
        let _ = std::fs::remove_dir_all(&root);
        lay(tree, &root);
    };
    lay_anew(&start.tree);
    let disk = Disk::watch(&root, None);
    work(&run, &Saved::default()).unwrap();
    let kinds = disk.kinds();
    drop(disk);
    for (point, &kind) in kinds.iter().enumerate() {
        for &fault in faults.iter().filter(|fault| fault.concerns(kind)) {
            lay_anew(&start.tree);
            let saved = Saved::with(start.saved);
            let disk = Disk::watch(&root, Some((point, fault)));
            let outcome = work(&run, &saved);
            let outcome = outcome.map_err(|e| e.to_string());
            let what = format!("{name}, {kind:?} number {point}, {fault:?}: {outcome:?}");
            assert!(outcome.is_ok() || fault != Fault::Short, "{what}");
            tally.points += 1;
            tally.refused += usize::from(outcome.is_err());
            let cuts = match fault {
                Fault::Kill => &CUTS[..],
                // Nothing was lost that a kill would not lose, too.
                _ if fault == Fault::Short || !kind.changes() => &[],
                // The system goes down later, on a disk that has failed already.
                _ => &CUTS[..1],
            };
            let model = disk.model();
            drop(disk);
            let mut left = vec![(model.cut(Names::All, Data::New), String::new())];
            for &(names, data) in cuts {
                let tree = model.cut(names, data);
                // Where everything is safe, there is nothing to lose.
                if left.iter().all(|(other, _)| *other != tree) {
                    left.push((tree, format!(", then a power cut with {names:?} and {data:?}")));
                }
            }
            for (number, (tree, cut)) in left.iter().enumerate() {
                if number > 0 {
                    lay_anew(tree);
                    // The machine has to start first.
                    if run.exists() {
                        let_a_while_pass(&run);
                    }
                }
                let _unsynced = Disk::watch(&root, None);
                tally.recover(&run, saved.frames(), &format!("{what}{cut}"));
            }
        }
    }
    let Tally { points, refused, recovered, begun, waited } = tally;
    println!(
        "{name}: {} operations, {points} faults, of which {refused} ended the run; gone on from {recovered} states, {begun} of \
         them at the start, {waited} after a minute; {:.1?}",
        kinds.len(),
        start_time.elapsed()
    );
}

/// A run that was killed between its second checkpoint and its third, when its tables had grown.
pub(super) fn killed() -> &'static Start {
    static ONCE: OnceLock<Start> = OnceLock::new();
    ONCE.get_or_init(|| {
        let dir = ScratchDir::new();
        for point in 0.. {
            let root = dir.join(&point.to_string());
            std::fs::create_dir(&root).unwrap();
            let saved = Saved::default();
            let disk = Disk::watch(&root, Some((point, Fault::Kill)));
            // Not every operation is one after which a kill makes a difference.
            let _ = whole(&root.join("run"), &saved);
            drop(disk);
            let table = root.join("run/agents/spectral-s1/metrics.csv");
            if saved.frames() == ENDS[1] && std::fs::read_to_string(table).unwrap().contains("\n600,") {
                return Start { tree: tree_of(&root), saved: ENDS[1] };
            }
        }
        unreachable!()
    })
}

#[test]
fn a_disk_that_fails_once_costs_no_bit() {
    walk("a run on a disk that fails", &[Fault::Fail, Fault::FailDone], &NOTHING, whole);
}

#[test]
fn a_disk_that_is_full_or_does_things_by_halves_costs_no_bit() {
    walk("a run on a disk that is full or slow", &[Fault::Full, Fault::Short], &NOTHING, whole);
}

#[test]
fn a_kill_or_a_power_cut_costs_no_bit() {
    walk("a run that is killed", &[Fault::Kill], &NOTHING, whole);
}

const ALL: [Fault; 5] = [Fault::Fail, Fault::FailDone, Fault::Full, Fault::Short, Fault::Kill];

#[test]
fn a_resumption_that_is_disturbed_costs_no_bit() {
    walk("a resumption", &ALL, killed(), |run, saved| finish(resume(run, None)?, saved));
}

/// An older checkpoint was chosen: whatever happens, the run goes on from that one or from the newest, and nobody has to choose again.
#[test]
fn a_resumption_from_an_older_checkpoint_that_is_disturbed_costs_no_bit() {
    let start = Start { tree: killed().tree.clone(), saved: ENDS[0] };
    walk("a resumption from an older checkpoint", &ALL, &start, |run, saved| {
        let older = run.join("checkpoints/00000001.checkpoint");
        finish(resume(run, Some(&older))?, saved)
    });
}

/// Replay that is played again, with recipes in place of records. A resumption reads the newest two.
#[test]
fn a_compact_run_that_is_disturbed_costs_no_bit() {
    let compact = |run: &Path| create_with(run, "checkpoint=compact");
    let dir = ScratchDir::new();
    let disk = Disk::watch(dir.path(), None);
    let mut trainer = compact(&dir.join("run")).unwrap();
    trainer.run().unwrap();
    trainer.set_end(ENDS[1]).unwrap();
    trainer.run().unwrap();
    trainer.set_end(ENDS[2]).unwrap();
    drop((trainer, disk));
    let segments = tree_of(&dir.join("run/checkpoints")).into_keys();
    let segments: Vec<_> = segments.filter(|path| path.extension().is_some_and(|e| e == "segment")).collect();
    let is_recipe = |path: &PathBuf| {
        let container = Container::open(&dir.join("run/checkpoints").join(path)).unwrap();
        container.names().any(|name| name == "recipe")
    };
    assert!(segments.len() == 2 && segments.iter().all(is_recipe), "{segments:?}");
    let start = Start { tree: tree_of(dir.path()), saved: ENDS[1] };
    walk("a compact run", &[Fault::FailDone, Fault::Kill], &NOTHING, |run, saved| {
        finish(compact(run)?, saved)
    });
    walk("a resumption of a compact run", &ALL, &start, |run, saved| finish(resume(run, None)?, saved));
}
