//! `spectral sweep`, as people use it: plan, train, interrupt, go on, add values, and answers to mistakes.

mod common;

use common::*;
use std::collections::BTreeMap;
use std::path::Path;

/// A sweep that takes a second, and these further arguments.
fn sweep(more: &str) -> String {
    let set: String = SMALL.iter().map(|pair| format!(" --set {pair}")).collect();
    format!("sweep --task pong-mini --calibrate 0 --out out{set} {more}")
}

const TWO_RATES: &str = "--agents spectral,popart --vary learning_rate=1e-3,0.0005 --seeds 2 --frames 3000";

/// Run directories, by task and name; also while the command is at work.
fn run_directories(runs: &Path) -> Vec<String> {
    let list = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let tasks = list(runs).into_iter();
    let paths =
        tasks.flat_map(|task| list(&runs.join(&task)).into_iter().map(move |run| format!("{task}/{run}")));
    let mut found: Vec<String> = paths.filter(|path| runs.join(path).join("run.toml").exists()).collect();
    found.sort();
    found
}

/// The folder of an agent, wherever in the sweep it was trained.
fn folder(place: &Place, agent: &str) -> std::path::PathBuf {
    let runs = place.path("out/runs");
    let found = run_directories(&runs).into_iter().map(|run| runs.join(run).join("agents").join(agent));
    found.into_iter().find(|folder| folder.exists()).unwrap_or_else(|| panic!("no folder of {agent}"))
}

#[test]
fn a_sweep_is_trained_once_and_its_table_says_what_was_varied() {
    let place = Place::new();
    let ran = place.run(&sweep(TWO_RATES)).code(0).says(&["4 agents × 2 seeds", "8 runs"]);
    for word in [
        "learning_rate",
        "5e-4",
        "1e-3",
        "2/2",
        "95% interval",
        "had no part in the choice",
        "out/report/report.html",
    ] {
        assert!(ran.out.contains(word), "no '{word}' in {}", ran.out);
    }
    assert!(ran.out.contains("sweep-learning_rate.svg"), "{}", ran.out);
    for file in
        ["report.html", "sweep.csv", "sweep-learning_rate.svg", "sweep-learning_rate.png", "seeds.csv"]
    {
        assert!(place.path("out/report").join(file).exists(), "{file}");
    }
    let page = std::fs::read_to_string(place.path("out/report/report.html")).unwrap();
    assert!(
        page.contains("Sweep of learning_rate on pong-mini") && page.contains("had no part in the choice")
    );

    let before = snapshot(&place.path("out/runs"));
    let again = place.run(&sweep(&format!("{TWO_RATES} --json"))).code(0);
    assert_same(&snapshot(&place.path("out/runs")), &before);
    let found = again.json();
    assert_eq!(
        (found["varied"][0].as_str(), found["task"].as_str()),
        (Some("learning_rate"), Some("pong-mini"))
    );
    let variants = found["variants"].as_array().unwrap();
    let mut names: Vec<&str> = variants.iter().map(|v| v["variant"].as_str().unwrap()).collect();
    let means: Vec<f64> = variants.iter().map(|v| v["mean"].as_f64().unwrap()).collect();
    assert!(means.windows(2).all(|pair| pair[0] >= pair[1]), "best first: {means:?}");
    names.sort_unstable();
    let expected = ["popart", "spectral"]
        .map(|agent| ["1e-3", "5e-4"].map(|rate| format!("{agent}-learning_rate-{rate}")))
        .concat();
    assert_eq!(names, expected);
    for variant in variants {
        assert_eq!(
            (variant["seeds"].as_u64(), variant["finished"].as_u64()),
            (Some(2), Some(2)),
            "{variant}"
        );
        let rate = variant["values"]["learning_rate"].as_f64().unwrap();
        assert!(rate == 1e-3 || rate == 5e-4, "{variant}");
        let seeds: Vec<f64> =
            variant["per_seed"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        let mean = seeds.iter().sum::<f64>() / seeds.len() as f64;
        assert!((mean - variant["mean"].as_f64().unwrap()).abs() < 1e-9 && seeds.len() == 2, "{variant}");
    }
    assert_eq!(found["best"].as_array().unwrap().len(), 2, "one of each agent");
    let csv = std::fs::read_to_string(place.path("out/report/sweep.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5, "{csv}");
    assert!(csv.starts_with("variant,agent,learning_rate,seeds,finished,mean,low95,high95\n"), "{csv}");
}

#[test]
fn more_values_and_seeds_train_only_what_is_missing() {
    let place = Place::new();
    let with =
        |values: &str, seeds: u32| sweep(&format!("--vary n_step={values} --seeds {seeds} --frames 2000"));
    place.run(&with("1,3", 1)).code(0);
    let before = snapshot(&place.path("out/runs"));
    place.run(&with("3,1,2", 2)).code(0).says(&["2 of 6 runs are there", "4 runs"]);
    let after = snapshot(&place.path("out/runs"));
    for (name, bytes) in &before {
        assert!(after.get(name) == Some(bytes), "{name} was touched");
    }
    assert!(folder(&place, "spectral-n_step-2-s2").exists());
    // A part of it is there already.
    place.run(&with("2", 1)).code(0);
    assert_same(&snapshot(&place.path("out/runs")), &after);
}

#[test]
fn a_variant_has_the_bits_of_the_agent_with_that_setting() {
    let place = Place::new();
    place
        .run(
            &sweep("--vary learning_rate=1e-3,5e-4 --vary hidden=8,8;12 --seeds 2 --frames 3000")
                .replace("--set hidden=16", ""),
        )
        .code(0);
    let set: String = SMALL.iter().map(|pair| format!(" --set {pair}")).collect();
    let alone = "--set learning_rate=0.0005 --set hidden=8,8 --seeds 2..2 --frames 3000 --out alone";
    place.run(&format!("train --task pong-mini{set} {alone}")).code(0);
    let trained = snapshot(&place.path("alone/agents/spectral-s2"));
    let variant = snapshot(&folder(&place, "spectral-learning_rate-5e-4-hidden-8x8-s2"));
    for name in ["metrics.csv", "episodes.csv"] {
        assert!(trained.contains_key(name) && trained.get(name) == variant.get(name), "{name}");
    }
    // The header of a model has the agent's name.
    let weights = |files: &BTreeMap<String, Vec<u8>>| {
        let bytes = &files["model.safetensors"];
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    assert!(weights(&trained).len() > 1000 && weights(&trained) == weights(&variant));
}

#[cfg(unix)]
#[test]
fn interrupted_and_killed_it_goes_on_to_the_same_bits() {
    let (cut, whole) = (Place::new(), Place::new());
    let call = sweep(
        "--agents spectral,popart --vary batch=8,4 --seeds 2 --frames 20000 --set checkpoint_seconds=0.05",
    )
    .replace("--set batch=8 ", "");
    for name in ["INT", "KILL", "TERM"] {
        let mut child = cut.start(&call);
        let before: u64 = frames_of(&cut);
        wait_until("some frames", || frames_of(&cut) > before + 3000 || child.try_wait().unwrap().is_some());
        if child.try_wait().unwrap().is_none() {
            signal(&child, name);
        }
        let ended = child.wait_with_output().unwrap();
        if name != "KILL" && frames_of(&cut) < 8 * 20_000 {
            assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
            assert!(String::from_utf8_lossy(&ended.stderr).contains("whole sweep"));
        }
    }
    cut.run(&format!("{call} --report-only --json")).code(0);
    cut.run(&call).code(0);
    whole.run(&call).code(0);
    let runs = |place: &Place| place.path("out/runs");
    assert_eq!(run_directories(&runs(&cut)), run_directories(&runs(&whole)));
    for run in run_directories(&runs(&whole)) {
        assert_same(&results(&runs(&cut).join(&run)), &results(&runs(&whole).join(&run)));
    }
    let table = |place: &Place| std::fs::read(place.path("out/report/sweep.csv")).unwrap();
    assert_eq!(table(&cut), table(&whole));
}

#[cfg(unix)]
fn frames_of(place: &Place) -> u64 {
    let runs = place.path("out/runs");
    run_directories(&runs).iter().map(|run| frames(&runs.join(run))).sum()
}

#[test]
fn a_dry_run_names_the_variants_and_touches_nothing() {
    let place = Place::new();
    let ran = place.run(&sweep(&format!("{TWO_RATES} --dry-run"))).code(0);
    for word in ["learning_rate on pong-mini", "1 population (8 runs)", "popart-learning_rate-5e-4"] {
        assert!(ran.out.contains(word), "no '{word}' in {}", ran.out);
    }
    assert!(!place.path("out").exists());
    place.run(&sweep(&format!("{TWO_RATES} --dry-run --json"))).code(0).json();
}

#[test]
fn mistakes_are_told_before_anything_starts() {
    let place = Place::new();
    for (more, want) in [
        ("--vary bach=1,2", "'batch'"),
        ("--vary n_step=1,many", "'many'"),
        ("--vary n_step=1,0", "n_step"),
        ("--vary frames=100,200", "--frames 100"),
        ("--vary reward_scale=1,2", "setting of the task"),
        ("--vary batch=8,16", "varied too"),
        ("--agents popart --vary base=2,3", "no agent of this run has the setting 'base'"),
        ("--vary n_step=1,1", "the same value"),
        ("--vary n_step=1,2 --seeds 4000", "8000 runs"),
        ("--vary n_step=1,2 --calibrate 1e9", "--calibrate"),
        ("--vary n_step=1,2 --report-only", "no run of this sweep"),
    ] {
        let more = if more.contains("--calibrate") {
            sweep(more).replacen("--calibrate 0", "", 1)
        } else {
            sweep(more)
        };
        place.run(&more).code(2).says(&[want]);
    }
    place.run("sweep --task pong-mini").code(2).says(&["--vary"]);
    assert!(!place.path("out").exists());
}
