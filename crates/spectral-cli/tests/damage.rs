//! Damaged, foreign and missing files, and a disk that is full: the file is named, nothing is overwritten, and there is a
//! way on from what is whole.

mod common;

use common::*;
use std::path::{Path, PathBuf};

/// A run that was stopped in the middle with two checkpoints, and what it would have become.
struct Halted {
    place: Place,
    run: PathBuf,
    whole: std::collections::BTreeMap<String, Vec<u8>>,
}

impl Halted {
    fn new() -> Self {
        let place = Place::new();
        let arguments = "--agents spectral,rich.toml --frames 50000 --set checkpoint_seconds=0.02";
        place.train(&format!("{arguments} --out whole")).code(0);
        let mut child = place.start(&train(&format!("{arguments} --out run")));
        let run = place.path("run");
        let mut wait = |what: &str, so: &dyn Fn() -> bool| {
            wait_until(what, || so() || child.try_wait().unwrap().is_some());
            assert!(child.try_wait().unwrap().is_none(), "it ended before this was seen: {what}");
        };
        // On a machine with other work to do, an agent may not have begun when the first ones are written.
        let state = || std::fs::read_to_string(run.join("state.toml")).unwrap_or_default();
        wait("both agents at work", &|| !state().is_empty() && !state().contains("frames = 0\n"));
        let seen = checkpoints(&run).pop();
        wait("two checkpoints since", &|| {
            let all = checkpoints(&run);
            all.len() >= 2 && all.first() > seen.as_ref()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let whole = results(&place.path("whole"));
        Halted { place, run, whole }
    }

    /// A fresh copy of the run under another name, without what the kill left half-written.
    fn copy(&self, name: &str) -> PathBuf {
        let to = self.place.path(name);
        let whole = |(file, _): &(String, _)| !hidden(Path::new(file));
        for (file, bytes) in snapshot(&self.run).into_iter().filter(whole) {
            let path = to.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        to
    }
}

fn flip_a_bit(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 8;
    std::fs::write(path, bytes).unwrap();
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn a_damaged_checkpoint_is_named_the_previous_one_is_offered_and_ends_the_same() {
    let halted = Halted::new();
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 4] = [
        ("corrupt", flip_a_bit),
        ("truncated", |p| {
            let bytes = std::fs::read(p).unwrap();
            std::fs::write(p, &bytes[..bytes.len() - 100]).unwrap();
        }),
        ("empty", |p| std::fs::write(p, b"").unwrap()),
        ("foreign", |p| std::fs::write(p, "\x7fELF and whatever follows in another kind of file").unwrap()),
    ];
    for (kind, damage) in damages {
        let run = halted.copy(kind);
        let all = checkpoints(&run);
        let [.., previous, newest] = all.as_slice() else { panic!("{all:?}") };
        damage(newest);
        let before = snapshot(&run);
        let ran = halted.place.run(&format!("resume {kind}")).code(3);
        let offer = format!("--checkpoint {kind}/checkpoints/{}", name(previous));
        ran.says(&[name(newest), &offer, "nothing was changed"]);
        assert_same(&snapshot(&run), &before);
        halted.place.run(&format!("resume {kind} {offer}")).code(0);
        assert_same(&results(&run), &halted.whole);
        assert_eq!(checkpoints(&run).len(), 2, "the damaged one has made room");
    }
}

#[test]
fn when_no_checkpoint_is_whole_the_command_says_so() {
    let halted = Halted::new();
    let run = halted.copy("hopeless");
    checkpoints(&run).iter().for_each(|p| flip_a_bit(p));
    let before = snapshot(&run);
    halted.place.run("resume hopeless").code(3).says(&["no other sound checkpoint"]);
    assert_same(&snapshot(&run), &before);
    // Checkpoints that are gone must not mean a new start over what was measured.
    std::fs::remove_dir_all(run.join("checkpoints")).unwrap();
    let before = snapshot(&run);
    halted.place.run("resume hopeless").code(3).says(&["no checkpoint", "nothing was changed"]);
    assert_same(&snapshot(&run), &before);
    let ran = halted.place.run("resume hopeless --checkpoint absent").code(3);
    ran.says(&["absent"]);
}

#[test]
fn a_damaged_segment_costs_nothing_else() {
    let halted = Halted::new();
    let run = halted.copy("segment");
    // The last agent's newest: agents before it have been read by then, and must not have been cut back.
    let segment = segments(&run).into_iter().rfind(|p| name(p).starts_with("spectral")).unwrap();
    let whole = std::fs::read(&segment).unwrap();
    flip_a_bit(&segment);
    let before = snapshot(&run);
    let ran = halted.place.run("resume segment").code(3).says(&[name(&segment)]);
    assert_same(&snapshot(&run), &before);
    // Either another checkpoint can do without it and ends the same, or none is offered.
    if let Some((_, offer)) = ran.err.split_once("--checkpoint ") {
        let offer = offer.split('`').next().unwrap();
        halted.place.run(&format!("resume segment --checkpoint {offer}")).code(0);
    } else {
        assert!(ran.err.contains("no other sound checkpoint"), "{}", ran.err);
        std::fs::write(&segment, whole).unwrap();
        halted.place.run("resume segment").code(0);
    }
    assert_same(&results(&run), &halted.whole);

    let run = halted.copy("missing");
    let segment = segments(&run).pop().unwrap();
    std::fs::remove_file(&segment).unwrap();
    halted.place.run("resume missing").code(3).says(&[name(&segment)]);
}

#[test]
fn a_failed_attempt_with_an_older_checkpoint_leaves_the_newest_usable() {
    let halted = Halted::new();
    let run = halted.copy("run2");
    let oldest = checkpoints(&run).remove(0);
    let kept = halted.place.path("kept.checkpoint");
    std::fs::copy(&oldest, &kept).unwrap();
    // Sound, of this run, but segments are not there that the last agent needs: the first has been read by then. A kill may have left
    // some that no checkpoint needs; so all of that agent's.
    let needed: Vec<PathBuf> = segments(&run).into_iter().filter(|p| name(p).starts_with("rich")).collect();
    let aside = |segment: &PathBuf| segment.with_extension("aside");
    needed.iter().for_each(|segment| std::fs::rename(segment, aside(segment)).unwrap());
    let before = snapshot(&run);
    let ran = halted.place.run("resume run2 --checkpoint kept.checkpoint").code(3);
    assert!(needed.iter().any(|segment| ran.err.contains(name(segment))), "{}", ran.err);
    assert_same(&snapshot(&run), &before);
    needed.iter().for_each(|segment| std::fs::rename(aside(segment), segment).unwrap());
    halted.place.run("resume run2").code(0);
    assert_same(&results(&run), &halted.whole);
    let run = halted.copy("run3");
    halted.place.run("resume run3 --checkpoint kept.checkpoint").code(0);
    assert_same(&results(&run), &halted.whole);
    assert!(kept.exists(), "a checkpoint that the user keeps elsewhere is the user's");
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let halted = Halted::new();
    halted.place.train("--agents popart --frames 500 --out other").code(0);
    let foreign = checkpoints(&halted.place.path("other")).pop().unwrap();
    // A copy: what the kill left half-written may be swept away.
    let run = halted.copy("target");
    let before = snapshot(&run);
    let ran =
        halted.place.run(&format!("resume target --checkpoint other/checkpoints/{}", name(&foreign))).code(3);
    ran.says(&[name(&foreign), "other settings"]);
    assert_same(&snapshot(&run), &before);
    // Nor may run.toml be changed under a checkpoint.
    let run = halted.copy("edited");
    let plan = std::fs::read_to_string(run.join("run.toml")).unwrap();
    std::fs::write(run.join("run.toml"), plan.replacen("batch = 8", "batch = 9", 1)).unwrap();
    halted.place.run("resume edited").code(3).says(&["run.toml", "changed after it was written"]);
    std::fs::write(run.join("run.toml"), unsealed(&plan).replacen("batch = 8", "batch = 9", 1)).unwrap();
    halted.place.run("resume edited").code(3).says(&["other settings"]);
}

#[test]
fn a_damaged_description_or_table_or_model_is_named() {
    let halted = Halted::new();
    let run = halted.copy("plan");
    let file = run.join("run.toml");
    let plan = std::fs::read_to_string(&file).unwrap();
    let end = plan.replacen("frames = 50000", "frames = 50001", 1);
    for (broken, word) in [
        (end, "changed after it was written"),
        (plan[..plan.rfind("learning_rate =").unwrap() + 15].to_string(), "learning_rate"),
        (String::new(), ""),
        ("\u{0}".into(), ""),
        (plan.replacen("format = 2", "format = 99", 1), "another version"),
        (plan.replacen("seed = 1", "seed = -1", 1), "seed"),
        (plan.replacen("checkpoint_seconds = 0.02", "checkpoint_seconds = -1.0", 1), "seconds"),
        (plan.replacen("checkpoint_seconds = 0.02", "checkpoint_seconds = inf", 1), "seconds"),
        (plan.replacen("frames = 50000", "frames = 0", 1), "frames"),
        (plan.replacen("batch = 8", "batch = \"x\"", 1), "batch"),
        (plan.replacen("hidden = \"16\"", "hidden = \"x\"", 1), "hidden"),
        (plan.replacen("id = \"spectral-s1\"", "id = \"../../escape\"", 1), "id"),
    ] {
        std::fs::write(&file, &broken).unwrap();
        let before = snapshot(&run);
        for command in ["resume plan", "eval plan"] {
            let ran = halted.place.run(command);
            assert!(ran.code == Some(3) || ran.code == Some(2), "{command} with {word}: {ran:?}");
            assert!(ran.err.contains("run.toml") || ran.err.contains(word), "{command}: {}", ran.err);
        }
        assert_same(&snapshot(&run), &before);
    }
    std::fs::write(&file, [0xff, 0xfe]).unwrap();
    halted.place.run("resume plan").code(3).says(&["run.toml"]);

    let run = halted.copy("table");
    std::fs::write(run.join("agents/rich-s1/metrics.csv"), "frame\n").unwrap();
    let before = snapshot(&run);
    halted.place.run("resume table").code(3).says(&["agents/rich-s1/metrics.csv"]);
    assert_same(&snapshot(&run), &before);

    flip_a_bit(&halted.place.path("whole/agents/rich-s1/model.safetensors"));
    halted.place.run("eval whole").code(3).says(&["model.safetensors"]);
}

/// A file that the disk has no room for stops the run cleanly.
#[test]
#[cfg(target_os = "linux")]
fn a_table_that_cannot_grow_stops_the_run_cleanly() {
    if !can_mount() {
        return skipped("this system lets us mount nothing, so no table was kept from growing");
    }
    let halted = Halted::new();
    let run = halted.place.path("full");
    std::fs::create_dir_all(run.join("agents/rich-s1")).unwrap();
    std::fs::copy(halted.run.join("run.toml"), run.join("run.toml")).unwrap();
    // One page, which the table of episodes takes.
    let script = "mount -t tmpfs -o size=4k none full/agents/rich-s1 || exit 9
         $SPECTRAL resume full 2> err; echo $? > code";
    in_own_mounts(&halted.place, script);
    let read = |name: &str| std::fs::read_to_string(halted.place.path(name)).unwrap();
    assert_eq!(read("code").trim(), "3", "{}", read("err"));
    for word in ["rich-s1/metrics.csv", "disk is full", "`spectral resume full` goes on"] {
        assert!(read("err").contains(word), "no '{word}' in: {}", read("err"));
    }
    // What was mounted is gone: the agent's folder is empty again.
    halted.place.run("resume full").code(0);
    assert_same(&results(&run), &halted.whole);
}

/// Whoever gave us a run directory may have put links into it. What they lead to is neither cut, nor written, nor removed.
#[test]
#[cfg(unix)]
fn links_in_a_run_directory_are_not_followed() {
    use std::os::unix::fs::symlink;
    let halted = Halted::new();
    let precious = halted.place.path("precious");
    std::fs::create_dir(&precious).unwrap();
    for name in ["metrics.csv", "eval.csv", "a.segment", ".x.spectral-tmp-1"] {
        std::fs::write(precious.join(name), "frame\n1\n2\n").unwrap();
    }
    let before = snapshot(&precious);
    // A run without a checkpoint, which begins its tables anew, and one with checkpoints, which cuts them.
    let begun = |name: &str| {
        let run = halted.copy(name);
        std::fs::remove_dir_all(run.join("checkpoints")).unwrap();
        std::fs::remove_dir_all(run.join("agents")).unwrap();
        std::fs::remove_file(run.join("state.toml")).unwrap();
        std::fs::create_dir_all(run.join("agents/rich-s1")).unwrap();
        run
    };
    let refused = |name: &str, word: &str| {
        halted.place.run(&format!("resume {name}")).code(3).says(&[word, "it is a link"]);
        assert_same(&snapshot(&precious), &before);
    };
    for table in ["metrics.csv", "eval.csv"] {
        let run = begun("begun");
        symlink(precious.join(table), run.join("agents/rich-s1").join(table)).unwrap();
        refused("begun", table);
        std::fs::remove_dir_all(run).unwrap();
    }
    for folder in ["checkpoints", "agents", "agents/rich-s1"] {
        for (name, run) in [("begun", begun("begun")), ("cut", halted.copy("cut"))] {
            let _ = std::fs::remove_dir_all(run.join(folder));
            symlink(&precious, run.join(folder)).unwrap();
            refused(name, folder);
            std::fs::remove_dir_all(run).unwrap();
        }
    }
    // A table of the right bytes that lies elsewhere.
    let run = halted.copy("cut");
    let table = run.join("agents/rich-s1/metrics.csv");
    std::fs::rename(&table, halted.place.path("moved.csv")).unwrap();
    symlink(halted.place.path("moved.csv"), &table).unwrap();
    let moved = std::fs::read(&table).unwrap();
    let tree = snapshot(&run);
    refused("cut", "metrics.csv");
    assert_eq!(std::fs::read(&table).unwrap(), moved);
    // Nor was anything else cut by then.
    assert_same(&snapshot(&run), &tree);
}

/// Whether this system lets us mount something: in a namespace of our own, so that nothing can be left behind.
#[cfg(target_os = "linux")]
fn can_mount() -> bool {
    std::process::Command::new("unshare")
        .args(["-rm", "sh", "-c", "mount -t tmpfs -o size=1m none /mnt"])
        .output()
        .is_ok_and(|o| o.status.success())
}

/// Does what a script says, in which `$SPECTRAL` is the command; what it mounts is seen by nobody else.
#[cfg(target_os = "linux")]
#[track_caller]
fn in_own_mounts(place: &Place, script: &str) {
    let output = std::process::Command::new("unshare")
        .args(["-rm", "sh", "-c", script])
        .env("SPECTRAL", env!("CARGO_BIN_EXE_spectral"))
        .current_dir(place.0.path())
        .output()
        .unwrap();
    let said = std::fs::read_to_string(place.path("err")).unwrap_or_default();
    assert!(output.status.success(), "{output:?} {said}");
}

/// A file system of two megabytes: the run fills it, stops with its last checkpoint intact, and goes on once there is room.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_leaves_the_last_checkpoint_intact() {
    let place = Place::new();
    if !can_mount() {
        return skipped("this system lets us mount nothing, so no disk was filled");
    }
    let arguments = "--agents spectral,rich.toml --frames 40000 --set checkpoint_seconds=0.02 --set replay=20000 --set checkpoint=full";
    place.train(&format!("{arguments} --out whole")).code(0);
    std::fs::create_dir(place.path("small")).unwrap();
    let script = format!(
        "set -u; mount -t tmpfs -o size=1400k none small || exit 9
         $SPECTRAL {} > out 2> err; echo $? > code
         ls -A small/run/checkpoints > left
         $SPECTRAL resume small/run 2> err2; echo $? > code2
         mount -o remount,size=64m small || exit 9
         $SPECTRAL resume small/run 2> err3; echo $? > code3
         cp -r small/run finished",
        train(&format!("{arguments} --out small/run"))
    );
    in_own_mounts(&place, &script);
    let read = |name: &str| std::fs::read_to_string(place.path(name)).unwrap_or_default();
    for (code, err) in [("code", "err"), ("code2", "err2")] {
        assert_eq!(read(code).trim(), "3", "{}", read(err));
        assert!(
            read(err).contains("disk is full") && read(err).contains("spectral resume small/run"),
            "{}",
            read(err)
        );
        assert!(!read(err).contains("panicked at"), "{}", read(err));
    }
    assert!(read("left").contains(".checkpoint"), "{}", read("left"));
    assert!(!read("left").contains("spectral-tmp"), "{}", read("left"));
    assert_eq!(read("code3").trim(), "0", "{}", read("err3"));
    assert_same(&results(&place.path("finished")), &results(&place.path("whole")));
}
