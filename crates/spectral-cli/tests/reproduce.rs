//! `spectral reproduce`, as people use it: plan, train, share, redraw, extend, and answers to mistakes.

mod common;

use common::*;
use std::path::Path;

/// An experiment that takes a second.
const TINY: &str = r#"# Two agents on two tasks.
title = "Tiny"
paper = "no figure"
agents = ["spectral", "popart"]
seeds = 2
frames = 4_000
log_frames = 500
hidden = 16
batch = 8
replay = 1_500
learning_starts = 200
target_period = 300
epsilon_frames = 2_000

[[task]]
name = "exponential-pong-mini"
note = "Worth knowing for Tiny."

[[task]]
name = "catch-scale"
frames = 2_000
reward_scale = 30

[[claim]]
text = "Spectral ends above Pop-Art."
source = "nowhere"
task = "exponential-pong-mini"
kind = "higher_final"
better = "spectral"
worse = ["popart"]
"#;

fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.path("tiny.toml"), TINY).unwrap();
    place
}

/// The call, without the trial that only long work is worth.
fn call(more: &str) -> String {
    format!("reproduce tiny.toml --calibrate 0 --out out {more}")
}

fn run_directories(runs: &Path) -> Vec<String> {
    let files = snapshot(runs);
    files.keys().filter_map(|name| name.strip_suffix("/run.toml")).map(String::from).collect()
}

#[test]
fn a_figure_is_trained_once_then_only_redrawn() {
    let place = place();
    let first = place.run(&call("")).code(0).says(&["Tiny", "to be trained", "memory", "disk", "8 runs"]);
    assert!(first.out.contains("out/tiny/report.html"), "{}", first.out);
    let html = std::fs::read_to_string(place.path("out/tiny/report.html")).unwrap();
    assert!(html.contains("Spectral ends above Pop-Art."), "the claim is in the report");
    let runs = snapshot(&place.path("out/runs"));
    let films: Vec<&String> = runs.keys().filter(|name| name.ends_with(".gif")).collect();
    assert_eq!(films.len(), 4, "one for each task and agent: {films:?}");
    assert!(films.iter().all(|name| name.contains("/clips/")), "{films:?}");

    std::fs::remove_dir_all(place.path("out/tiny")).unwrap();
    let again = place.run(&call("")).code(0);
    assert!(!again.err.contains("population"), "{}", again.err);
    assert_eq!(again.out, first.out);
    assert_same(&snapshot(&place.path("out/runs")), &runs);
    assert!(place.path("out/tiny/report.html").exists());
}

#[test]
fn figures_share_runs_and_later_calls_add_what_is_missing() {
    let place = place();
    place.run(&call("--seeds 1")).code(0);
    let runs = place.path("out/runs");
    let before = snapshot(&runs);
    assert_eq!(run_directories(&runs).len(), 2);
    // Another experiment that asks for a part of the same: nothing is trained.
    let other = TINY.replace("[\"spectral\", \"popart\"]", "[\"popart\"]").replace("Tiny", "Other");
    std::fs::write(place.path("other.toml"), other).unwrap();
    let ran = place.run("reproduce other.toml --calibrate 0 --out out --seeds 1 --json").code(0);
    assert_same(&snapshot(&runs), &before);
    for task in ran.json()["tasks"].as_array().unwrap() {
        let agents: Vec<_> =
            task["rows"].as_array().unwrap().iter().map(|row| row["agent"].clone()).collect();
        assert_eq!(agents, ["popart"], "only what the figure asks for is drawn");
    }
    let page = |name: &str| std::fs::read_to_string(place.path(&format!("out/{name}/report.html"))).unwrap();
    assert!(page("tiny").contains("Worth knowing for Tiny."));
    assert!(page("other").contains("Worth knowing for Other.") && !page("other").contains("for Tiny."));
    // A second seed is trained beside the first, and drawn with it.
    let ran = place.run(&call("--json")).code(0).says(&["2 of 4 runs are there"]);
    assert_eq!(run_directories(&runs).len(), 4);
    for task in ran.json()["tasks"].as_array().unwrap() {
        assert!(task["rows"].as_array().unwrap().iter().all(|row| row["finished"] == 2), "{task}");
    }
    // Another setting is another run.
    place.run(&call("--seeds 1 --set batch=16")).code(0);
    assert_eq!(run_directories(&runs).len(), 6);
}

#[test]
fn more_frames_go_on_from_the_end_and_give_the_same_bits() {
    let (short, whole) = (place(), place());
    short.run(&call("--seeds 1 --frames 1500")).code(0);
    let html = std::fs::read_to_string(short.path("out/tiny/report.html")).unwrap();
    assert!(html.contains("1,500 of 4,000 frames"), "a shorter figure says so");
    let names = run_directories(&short.path("out/runs"));
    // Of a run that is killed as soon as its end was moved, only the plan has changed.
    let plan = short.path("out/runs").join(&names[0]).join("run.toml");
    let text = std::fs::read_to_string(&plan).unwrap();
    let end = if text.contains("catch-scale") { "frames = 2000" } else { "frames = 4000" };
    std::fs::write(&plan, unsealed(&text).replacen("\nframes = 1500\n", &format!("\n{end}\n"), 1)).unwrap();
    short.run(&call("--seeds 1")).code(0).says(&["begun already"]);
    whole.run(&call("--seeds 1")).code(0);
    assert_eq!(run_directories(&short.path("out/runs")), names, "the same runs, taken further");
    for name in names {
        let (a, b) = (short.path("out/runs").join(&name), whole.path("out/runs").join(&name));
        assert_same(&results(&a), &results(&b));
    }
    assert_same(&csv(&short), &csv(&whole));
}

/// The figures' data.
fn csv(place: &Place) -> std::collections::BTreeMap<String, Vec<u8>> {
    let mut files = snapshot(&place.path("out/tiny"));
    // Hours of training differ from run to run.
    files.retain(|name, _| name.ends_with(".csv") && !name.contains("hours"));
    assert!(files.len() >= 3, "{:?}", files.keys());
    files
}

#[test]
fn a_dry_run_says_what_it_would_cost_and_touches_nothing() {
    let place = place();
    let ran = place.run(&call("--dry-run")).code(0);
    let words =
        ["exponential-pong-mini", "2 agents × 2 seeds × 4,000 frames", "2 populations (8 runs)", "unknown"];
    assert!(words.iter().all(|word| ran.out.contains(word)), "{}", ran.out);
    assert!(!place.path("out").exists());
    let plan = place.run("reproduce tiny.toml --calibrate 4 --out out --dry-run --json").code(0).json();
    assert_eq!((plan["runs"].as_u64(), plan["frames"].as_u64()), (Some(8), Some(24_000)));
    assert!(plan["seconds"].as_f64().is_some_and(|s| s > 0.0), "{plan}");
    assert!(plan["memory_bytes"].as_u64().is_some_and(|b| b > 100_000), "{plan}");
    assert!(plan["disk_bytes"].as_u64().is_some_and(|b| b > 100_000), "{plan}");
    assert!(!place.path("out").exists(), "the trial leaves nothing");
    place.run("reproduce tiny.toml --calibrate 2 --out of/figures/out --dry-run").code(0);
    assert!(!place.path("of").exists(), "nor the folders around it");
    // What takes less than its trial is not tried for so long: ten minutes of trial end in seconds.
    let plan = place.run("reproduce tiny.toml --calibrate 600 --out out --dry-run").code(0).out;
    let tried = plan.split("by a trial of ").nth(1).unwrap_or_else(|| panic!("no trial: {plan}"));
    assert!(!tried.contains("min"), "{plan}");
    place.run(&call("--seeds 1")).code(0);
    let done = place.run(&call("--seeds 1 --dry-run")).code(0);
    assert!(done.out.contains("nothing to train"), "{}", done.out);
}

#[test]
fn what_there_is_can_be_drawn_without_training() {
    let place = place();
    place.run(&call("--report-only")).code(2).says(&["no run of tiny", "trains them"]);
    place.run(&call("--seeds 1")).code(0);
    let runs = snapshot(&place.path("out/runs"));
    let ran = place.run(&call("--report-only --json")).code(0).json();
    assert_eq!(ran["tasks"][0]["rows"][0]["finished"], 1);
    assert_same(&snapshot(&place.path("out/runs")), &runs);
}

#[test]
fn computed_figures_agree_with_the_paper_at_once() {
    let place = place();
    for (name, numbers) in [("fig2", 5), ("table1", 10)] {
        let ran = place.run(&format!("reproduce {name} --out out --json")).code(0).json();
        assert_eq!(ran["numbers"].as_array().unwrap().len(), numbers);
        assert!(ran["verdict"].as_str().unwrap().starts_with("agree"), "{ran}");
        let files = snapshot(&place.path("out").join(name));
        assert_eq!(
            files.keys().cloned().collect::<Vec<_>>(),
            ["csv", "md", "svg"].map(|e| format!("{name}.{e}"))
        );
        assert!(place.run(&format!("reproduce {name} --out out")).code(0).out.contains("agree: all"));
    }
    place.run("reproduce fig2 --frames 5").code(2).says(&["computed"]);
}

#[test]
fn without_a_name_all_figures_are_listed() {
    let place = place();
    let ran = place.run("reproduce").code(0);
    for figure in ["fig1", "fig2", "fig8", "table1", "quick", "encoding", "mini-fig3"] {
        assert!(ran.out.lines().any(|line| line.starts_with(&format!("{figure} "))), "{figure}: {}", ran.out);
    }
    let rows = place.run("reproduce --json").code(0).json();
    let fig3 = rows.as_array().unwrap().iter().find(|row| row["figure"] == "fig3").unwrap();
    assert_eq!(fig3["frames"].as_u64(), Some(fig3["runs"].as_u64().unwrap() * 200_000_000));
}

#[test]
fn mistakes_are_answered_with_what_would_be_right() {
    let place = place();
    std::fs::write(place.path("claims.toml"), TINY.replace("higher_final", "higher_fnal")).unwrap();
    std::fs::write(place.path("keys.toml"), TINY.replace("hidden =", "hiden =")).unwrap();
    for (arguments, code, words) in [
        ("reproduce fig33", 2, &["fig33", "did you mean 'fig3'"][..]),
        ("reproduce mini-fg3", 2, &["did you mean 'mini-fig3'"]),
        ("reproduce absent.toml", 2, &["cannot read absent.toml"]),
        ("reproduce keys.toml", 2, &["hiden", "hidden"]),
        ("reproduce claims.toml", 3, &["claim 1", "higher_final"]),
        ("reproduce tiny.toml --agents spectrl", 2, &["'spectral'"]),
        ("reproduce tiny.toml --seeds x", 2, &["1000..1009"]),
        ("reproduce tiny.toml --set bach=3", 2, &["'batch'"]),
        ("reproduce tiny.toml --set task=2048", 2, &["which tasks"]),
        ("reproduce tiny.toml --calibrate 1e9", 2, &["calibrate"]),
        ("reproduce tiny.toml --frames 0", 2, &["frames"]),
    ] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, Some(code), "{arguments}: {ran:?}");
        ran.says(words);
    }
    assert!(!place.path("reproduce").exists(), "nothing was made");
    // What lies among the runs and is none is not passed over.
    let foreign = place.path("out/runs/mine");
    std::fs::create_dir_all(&foreign).unwrap();
    std::fs::write(foreign.join("run.toml"), "task = 3").unwrap();
    place.run(&call("")).code(3).says(&["out/runs/mine/run.toml"]);
}
