//! Tables that were changed, what `state.toml` says of them, and tables that a process may have open which has lost its run.

use super::*;
use crate::checkpoint::Checkpoints;
use crate::run_dir::RunDir;
use crate::store::disk::faults::{Disk, Fault};
use crate::store::disk::power::{Data, Names, lay};
use crate::store::testing::ScratchDir;
use crate::table_sums::from_toml;
use std::path::PathBuf;

const TABLES: [&str; 4] = ["episodes.csv", "metrics.csv", "td_error.csv", "eval.csv"];

/// A run with a checkpoint at each of the first so many ends, which is to go on.
fn run_to(dir: &ScratchDir, checkpoints: usize) -> PathBuf {
    let run = dir.join("run");
    let mut trainer = create(&run).unwrap();
    for (number, end) in ENDS.into_iter().take(checkpoints).enumerate() {
        if number > 0 {
            trainer.set_end(end).unwrap();
        }
        trainer.run().unwrap();
    }
    trainer.set_end(ENDS[checkpoints]).unwrap();
    run
}

fn table(run: &Path, name: &str) -> PathBuf {
    run.join("agents/spectral-s1").join(name)
}

fn state(run: &Path) -> String {
    std::fs::read_to_string(run.join("state.toml")).unwrap()
}

fn checkpoints(run: &Path) -> Vec<PathBuf> {
    Checkpoints::list(&RunDir::open(run, &Registry::default()).unwrap().0).unwrap()
}

/// How many tables `state.toml` speaks of, if there is one. All of them must be as it says.
#[track_caller]
fn told_of(run: &Path, what: &str) -> usize {
    let Ok(text) = std::fs::read_to_string(run.join("state.toml")) else { return 0 };
    let state: toml::Table = text.parse().unwrap();
    let sums = from_toml(state["agents"][0].as_table().unwrap());
    for sum in &sums {
        sum.check(&run.join("agents/spectral-s1")).unwrap_or_else(|e| panic!("{e}: {what}"));
    }
    sums.len()
}

/// Other figures than those that were measured are no part of a run, whoever changed them.
#[test]
fn a_digit_that_was_changed_is_noticed() {
    let dir = ScratchDir::new();
    let _unsynced = Disk::watch(dir.path(), None);
    let run = run_to(&dir, 2);
    let older = checkpoints(&run).remove(0);
    let known = crate::store::Container::open(&older).unwrap().section("tables/spectral-s1").unwrap();
    let known = crate::table_sums::from_bytes(&known).unwrap();
    assert_eq!(told_of(&run, "before anything is changed"), TABLES.len());
    let mut all_spared = 0;
    for name in TABLES {
        let path = table(&run, name);
        let whole = std::fs::read(&path).unwrap();
        let known = known.iter().find(|sum| sum.name == name).unwrap().bytes as usize;
        let digits: Vec<usize> = (0..whole.len()).filter(|&at| whole[at].is_ascii_digit()).collect();
        for at in [digits[0], digits[digits.len() - 1]] {
            let mut changed = whole.clone();
            changed[at] = if whole[at] == b'9' { b'0' } else { whole[at] + 1 };
            std::fs::write(&path, &changed).unwrap();
            let before = tree_of(&run.join("agents"));
            let said = resume(&run, None).err().expect("an error").to_string();
            assert!(said.contains(name) && said.contains("not those that the checkpoint knows"), "{said}");
            // The older checkpoint does not know of the row.
            let spared = at >= known;
            assert_eq!(said.contains(&older.display().to_string()), spared, "{said}");
            assert_eq!(tree_of(&run.join("agents")), before);
            all_spared += usize::from(spared);
        }
        std::fs::write(&path, &whole).unwrap();
    }
    assert!((1..2 * TABLES.len()).contains(&all_spared), "{all_spared}");
    // Rows that came after the checkpoint are cut off, whatever they say.
    let path = table(&run, "episodes.csv");
    std::fs::write(&path, [&std::fs::read(&path).unwrap()[..], b"9,9,9,9\n9,"].concat()).unwrap();
    finish(resume(&run, None).unwrap(), &Saved::default()).unwrap();
    let undisturbed = dir.join("undisturbed");
    whole(&undisturbed, &Saved::default()).unwrap();
    assert_same(&results(&run), &results(&undisturbed), "rows of a killed process");
}

/// A checkpoint from before there were checksums is read as it was.
#[test]
fn a_checkpoint_without_checksums_is_gone_on_from() {
    let dir = ScratchDir::new();
    let _unsynced = Disk::watch(dir.path(), None);
    let run = run_to(&dir, 1);
    let path = checkpoints(&run).remove(0);
    let with = crate::store::Container::open(&path).unwrap();
    let mut bytes = Vec::new();
    let mut less = crate::store::ContainerWriter::new(&mut bytes).unwrap();
    let mut left_out = 0;
    for name in with.names().map(String::from).collect::<Vec<_>>() {
        match name.starts_with("tables/") {
            true => left_out += 1,
            false => less.section(&name, &with.section(&name).unwrap()).unwrap(),
        }
    }
    less.finish().unwrap();
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(left_out, 1);
    finish(resume(&run, None).unwrap(), &Saved::default()).unwrap();
    let undisturbed = dir.join("undisturbed");
    whole(&undisturbed, &Saved::default()).unwrap();
    assert_same(&results(&run), &results(&undisturbed), "without checksums");
    assert_eq!(told_of(&run, "at the end"), TABLES.len());
}

/// Does `work` again and again on a fresh copy of `start`, killed at another operation each time, with and without a power cut: what
/// is left never contradicts itself.
fn never_contradicts(start: &Tree, work: impl Fn(&Path)) {
    let dir = ScratchDir::new();
    let root = dir.join("root");
    let lay_anew = |tree: &Tree| {
        let _ = std::fs::remove_dir_all(&root);
        lay(tree, &root);
    };
    lay_anew(start);
    let disk = Disk::watch(&root, None);
    work(&root.join("run"));
    let kinds = disk.kinds();
    drop(disk);
    let mut told = 0;
    for (point, kind) in kinds.iter().enumerate().filter(|(_, kind)| kind.changes()) {
        lay_anew(start);
        let disk = Disk::watch(&root, Some((point, Fault::Kill)));
        work(&root.join("run"));
        let model = disk.model();
        drop(disk);
        // All of them before anything is laid anew: they are worked out from what is there.
        let cuts = [(Names::All, Data::New), (Names::None, Data::Old), (Names::All, Data::Zeros)];
        for (names, data, tree) in cuts.map(|(names, data)| (names, data, model.cut(names, data))) {
            lay_anew(&tree);
            told += told_of(&root.join("run"), &format!("{kind:?} number {point}, {names:?}, {data:?}"));
        }
    }
    assert!(told > 100, "{told}");
}

#[test]
fn the_state_never_contradicts_the_tables() {
    never_contradicts(&Tree::new(), |run| drop(whole(run, &Saved::default())));
}

/// The newest checkpoint knows of rows that are cut off.
#[test]
fn the_state_never_contradicts_tables_that_are_cut_back() {
    let dir = ScratchDir::new();
    let _unsynced = Disk::watch(dir.path(), None);
    run_to(&dir, 2);
    never_contradicts(&tree_of(dir.path()), |run| {
        let older = run.join("checkpoints/00000001.checkpoint");
        let _ = resume(run, Some(&older)).and_then(|trainer| finish(trainer, &Saved::default()));
    });
}

/// Taken for no state, a damaged one would cost the hours so far; and where the checkpoints are gone, too, the run would begin anew
/// over its tables.
#[test]
fn a_damaged_state_is_refused() {
    let dir = ScratchDir::new();
    let _unsynced = Disk::watch(dir.path(), None);
    let run = run_to(&dir, 1);
    let whole = unsealed(&state(&run));
    let seconds = RunDir::open(&run, &Registry::default()).unwrap().0.seconds();
    assert!(seconds > 0.0);
    let cut_at = |word: &str| whole[..whole.find(word).unwrap()].to_string();
    let with_seconds = |number: &str| -> String {
        let line = |line: &str| match line.starts_with("seconds = ") {
            true => format!("seconds = {number}\n"),
            false => format!("{line}\n"),
        };
        whole.lines().map(line).collect()
    };
    let damages = [
        (String::new(), "the status"),
        (cut_at("seconds"), "the seconds"),
        (cut_at("[[agents]]"), "the frames of spectral-s1"),
        (cut_at("frames = "), "the frames of spectral-s1"),
        (whole.replacen("status = \"", "status = ", 1), "damaged"),
        (whole.replacen("seconds = ", "seconds = \"", 1), "damaged"),
        (whole.replacen("seconds", "zeconds", 1), "the seconds"),
        (with_seconds("inf"), "a number of seconds"),
        (with_seconds("nan"), "a number of seconds"),
        (with_seconds("-5.0"), "a number of seconds"),
    ];
    let kept = dir.join("kept");
    for without_checkpoints in [false, true] {
        if without_checkpoints {
            std::fs::rename(run.join("checkpoints"), &kept).unwrap();
        }
        for (text, word) in &damages {
            std::fs::write(run.join("state.toml"), text).unwrap();
            let before = tree_of(&run.join("agents"));
            let said = resume(&run, None).err().expect("an error").to_string();
            assert!(said.contains("state.toml: the file is damaged") && said.contains(word), "{said}");
            assert_eq!(tree_of(&run.join("agents")), before);
        }
        std::fs::write(run.join("state.toml"), b"\xff\xfe").unwrap();
        let said = resume(&run, None).err().expect("an error").to_string();
        assert!(said.contains("state.toml: the file is damaged"), "{said}");
        let _ = std::fs::remove_dir(run.join("checkpoints"));
    }
    std::fs::rename(&kept, run.join("checkpoints")).unwrap();
    std::fs::remove_file(run.join("state.toml")).unwrap();
    let trainer = resume(&run, None).unwrap();
    assert_eq!(trainer.dir().seconds(), 0.0, "as the error says");
}

/// A process that was silent for too long, and may live, has the tables open: whoever takes its run over puts copies in their places,
/// all of them, or has not got the run.
#[cfg(unix)]
#[test]
fn a_run_is_not_taken_over_while_a_table_may_be_in_use() {
    use std::os::unix::fs::MetadataExt;
    let dir = ScratchDir::new();
    let from = run_to(&dir, 1);
    let inode = |run: &Path, name: &str| std::fs::metadata(table(run, name)).unwrap().ino();
    let files: Vec<String> = std::fs::read_dir(table(&from, ""))
        .unwrap()
        .flatten()
        .map(|e| e.file_name())
        .map(|n| n.into_string().unwrap())
        .collect();
    let growing: Vec<&String> =
        files.iter().filter(|n| n.ends_with(".csv") || n.starts_with("events.")).collect();
    assert_eq!(growing.len(), TABLES.len() + 1);
    // As if a process of another machine had it, and had not been heard of for a while.
    let silent = |run: &Path| {
        let _ = std::fs::remove_dir_all(run);
        lay(&tree_of(&from), run);
        let claim = std::fs::read_dir(run).unwrap().flatten().map(|e| e.path());
        let claim = claim.into_iter().find(|path| path.to_string_lossy().contains(".claim-")).unwrap();
        let text = std::fs::read_to_string(&claim).unwrap();
        let of = |key: &str| text.lines().find(|line| line.starts_with(key)).unwrap().to_string();
        let text =
            text.replace(&of("released"), "released = false").replace(&of("boot"), "boot = \"another\"");
        std::fs::write(&claim, text.replace(&of("host"), "host = \"n2\"")).unwrap();
        let_a_while_pass(run);
    };
    let run = dir.join("taken");
    silent(&run);
    let (opened, _) = RunDir::open(&run, &Registry::default()).unwrap();
    let disk = Disk::watch(&run, None);
    assert!(opened.lock().unwrap().predecessor_may_live());
    let kinds = disk.kinds();
    drop(disk);
    let mut refused = 0;
    for (point, kind) in kinds.into_iter().enumerate() {
        silent(&run);
        let before: Vec<u64> = growing.iter().map(|name| inode(&run, name)).collect();
        let old: Vec<File> = growing.iter().map(|name| File::open(table(&run, name)).unwrap()).collect();
        let disk = Disk::watch(&run, Some((point, Fault::Fail)));
        let taken = opened.lock();
        drop(disk);
        match taken {
            Ok(_) => {
                for (name, before) in growing.iter().zip(before) {
                    assert_ne!(inode(&run, name), before, "{name} is still in use: {kind:?} number {point}");
                }
            }
            Err(_) => refused += usize::from(kind == crate::store::disk::faults::Kind::List),
        }
        drop(old);
    }
    assert!(refused >= 4, "{refused} listings that failed ended it");
}

/// "Not there yet" would send its user to `resume`, which refuses damaged checkpoints.
#[test]
fn a_model_whose_checkpoints_are_all_damaged_is_not_called_one_that_is_still_to_come() {
    let dir = ScratchDir::new();
    let _unsynced = Disk::watch(dir.path(), None);
    let run = run_to(&dir, 1);
    let registry = Registry::default();
    let (opened, file) = RunDir::open(&run, &registry).unwrap();
    let resolved = registry.resolve_plan(file.plan).unwrap();
    let need =
        || crate::kept_model::KeptModel::need(&opened, &resolved, 0, crate::kept_model::ModelChoice::Last);
    let state = state(&run).replace("\"finished\"", "\"running\"");
    std::fs::write(run.join("state.toml"), unsealed(&state)).unwrap();
    need().unwrap();
    let model = opened.model(&resolved.plan.agents[0].id);
    let _ = std::fs::remove_file(model);
    for path in checkpoints(&run) {
        std::fs::write(path, b"").unwrap();
    }
    let error = need().unwrap_err();
    assert!(
        error.exit_code() == 3 && error.to_string().contains("the checkpoints cannot be read"),
        "{error}"
    );
    std::fs::remove_dir_all(run.join("checkpoints")).unwrap();
    let error = need().unwrap_err();
    assert!(error.exit_code() == 2 && error.to_string().contains("no model yet"), "{error}");
}

/// A state without its checksum, as somebody has it who changes it on purpose.
fn unsealed(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("# checksum")).map(|line| format!("{line}\n")).collect()
}
