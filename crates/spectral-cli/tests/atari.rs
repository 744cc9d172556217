//! Atari from the command line: ROMs that are missing are named with the command that gets them, and with ROMs the games train.

mod common;

use common::*;
use std::io::Write;
use std::process::Command;

#[test]
fn missing_roms_are_named_with_the_command_that_mends_it() {
    let place = Place::new();
    let run = |arguments: &str| {
        let mut command = place.command(arguments);
        command.env("SPECTRAL_ROMS", place.path("roms"));
        Ran::of(command.output().expect("the command starts"))
    };
    for task in ["atari/pong", "exponential-pong", "reverse-ponglantis"] {
        let words = [".bin does not exist", "spectral roms install", "MD5"];
        run(&format!("train --task {task} --frames 100")).code(3).says(&words);
    }
    run("train --task atari/pogn").code(2).says(&["did you mean 'atari/pong'"]);
    run("train --task exponential-pogn").code(2).says(&["'exponential-pong"]);
    run("train --task atari/pong --set observation=vector")
        .code(2)
        .says(&["atari/pong has no setting 'observation'"]);
    // Modes and difficulties are checked before ROMs are.
    run("train --task atari/pong --mode 7")
        .code(2)
        .says(&["'mode' cannot be '7'", "one of 0, 1 (atari/pong"]);
    run("train --task atari/pong --difficulty hard").code(2).says(&["'difficulty'", "auto | a whole number"]);
    run("play --task atari/breakout --set difficulty=2").code(2).says(&["one of 0, 1 (atari/breakout"]);
    run("train --task ponglantis --mode 0").code(2).says(&["ponglantis has no setting 'mode'"]);
    run("train --task 2048 --difficulty 1").code(2).says(&["2048 has no setting 'difficulty'"]);
    run("play --run nowhere --mode 1").code(2).says(&["that it was trained in"]);
    let listed: serde_json::Value = serde_json::from_str(&run("roms list --json").code(0).out).unwrap();
    assert!(listed.as_array().unwrap().len() >= 57);
    assert!(listed.as_array().unwrap().iter().all(|game| game["rom"] == "missing"));
    std::fs::write(place.path("notes.txt"), "no ROM").unwrap();
    run("roms install --from notes.txt").code(3).says(&["notes.txt"]);
    assert!(!place.path("runs").exists(), "a run that cannot start leaves nothing");
    // A plan is worth reading without them.
    let plan = run("reproduce fig3 --dry-run").code(0).says(&["spectral roms install"]);
    for words in
        ["5 seeds × 200,000,000 frames", "to train", " runs)", "ROMs for exponential-pong", "memory "]
    {
        assert!(plan.out.contains(words), "{words}: {}", plan.out);
    }
    let plan = run("reproduce fig3 --dry-run --json").code(0).json();
    assert_eq!(plan["frames"].as_u64(), plan["runs"].as_u64().map(|runs| runs * 200_000_000));
    assert!(plan["missing_roms_for"].as_array().is_some_and(|tasks| !tasks.is_empty()), "{plan}");
    assert!(plan["memory_bytes"].is_null() && plan["disk_bytes"].is_null(), "{plan}");
    run("reproduce fig3 --calibrate 0").code(3).says(&["spectral roms install"]);
    assert!(!place.path("reproduce").exists(), "a plan leaves nothing");
}

/// A few hundred frames of real games, with the ROMs of the ale-py package.
#[test]
fn games_train_and_resume() {
    if std::env::var_os("SPECTRAL_ORACLES").is_none_or(|v| v != "1") {
        let _ =
            writeln!(std::io::stderr(), "SKIPPED: training on real games; set SPECTRAL_ORACLES=1 to run it");
        return;
    }
    let python = std::env::var("SPECTRAL_PYTHON").unwrap_or("python3".into());
    let find = "import ale_py, pathlib; print(pathlib.Path(ale_py.__file__).parent / 'roms')";
    let found = Command::new(python).args(["-c", find]).output().expect("Python with ale-py");
    let folder = String::from_utf8(found.stdout).unwrap();
    let place = Place::new();
    let run = |arguments: &str| {
        let mut command = place.command(arguments);
        command.env("SPECTRAL_ROMS", place.path("roms"));
        Ran::of(command.output().expect("the command starts"))
    };
    run(&format!("roms install --from {}", folder.trim())).code(0);
    let small = "--seeds 1 --set batch=4 --set replay=300 --set learning_starts=400 --set update_period=64 \
                 --set log_frames=200";
    for task in ["exponential-pong", "ponglantis", "atari/ms_pacman"] {
        let name = task.replace('/', "-");
        run(&format!("train --task {task} --agents spectral --frames 800 {small} --out {name}")).code(0);
        run(&format!("train --task {task} --agents spectral --frames 400 {small} --out {name}-half")).code(0);
        run(&format!("resume {name}-half --frames 800")).code(0);
        let model = |folder: &str| {
            std::fs::read(place.path(folder).join("agents/spectral-s1/model.safetensors")).unwrap()
        };
        assert!(model(&name) == model(&format!("{name}-half")), "{task}: resumed training differs");
        // The same with checkpoints that hold actions in place of screens, and in another folder.
        let compact = format!("{small} --set checkpoint=compact --set replay=150 --out {name}-compact");
        run(&format!("train --task {task} --agents spectral --frames 500 {compact}")).code(0);
        std::fs::rename(place.path(&format!("{name}-compact")), place.path(&format!("{name}-moved")))
            .unwrap();
        let segments = std::fs::read_dir(place.path(&format!("{name}-moved/checkpoints"))).unwrap().flatten();
        let segments = segments.filter(|entry| entry.path().extension().is_some_and(|end| end == "segment"));
        let bytes: u64 = segments.map(|entry| entry.metadata().unwrap().len()).sum();
        assert!(0 < bytes && bytes < 20_000, "{task}: {bytes} bytes for 125 screens");
        run(&format!("resume {name}-moved --frames 1000")).code(0);
        let straight = format!("{small} --set replay=150 --out {name}-straight");
        run(&format!("train --task {task} --agents spectral --frames 1000 {straight}")).code(0);
        assert!(
            model(&format!("{name}-moved")) == model(&format!("{name}-straight")),
            "{task}: replay differs"
        );
    }
    let text = std::fs::read_to_string(place.path("exponential-pong/run.toml")).unwrap();
    assert!(text.contains("protocol = \"paper\""), "Atari's default protocol is the paper's");
    run(&format!("train --task atari/pong --set protocol=machado --frames 200 {small} --out m")).code(0);
    let chosen = "--mode 1 --difficulty 3";
    run(&format!("train --task atari/pong {chosen} --frames 200 {small} --out chosen")).code(0);
    let text = std::fs::read_to_string(place.path("chosen/run.toml")).unwrap();
    assert!(text.contains("mode = 1\ndifficulty = 3\n"), "{text}");
    let text = std::fs::read_to_string(place.path("m/run.toml")).unwrap();
    assert!(text.contains("mode = 0\ndifficulty = 0\n"), "defaults are recorded as numbers: {text}");
    run("resume chosen --frames 400").code(0);
    // The mode changes what is seen: in Pong's second one the paddles and the ball differ.
    let film = |choice: &str, name: &str| {
        run(&format!("play --task atari/pong {choice} --steps 40 --out {name}.gif")).code(0);
        std::fs::read(place.path(&format!("{name}.gif"))).unwrap()
    };
    assert!(film("", "usual") == film("--mode 0 --difficulty 0", "same"));
    assert!(film("", "usual-again") != film(chosen, "other"));
}
