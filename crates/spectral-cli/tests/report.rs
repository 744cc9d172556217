//! `spectral report` with an experiment's claims, and at a frame that the user names.

mod common;

use common::*;
use serde_json::Value;

/// Three claims that are decided whatever is learned, because no score is as low as a million below zero.
const CLAIMS: &str = r#"# What is said of Spectral DQN.
title = "Three claims"
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

[[claim]]
text = "It is not as bad as that."
task = "exponential-pong-mini"
kind = "final_above"
agents = ["spectral", "popart"]
value = -1e6

[[claim]]
text = "It is as bad as that."
task = "exponential-pong-mini"
kind = "final_below"
agents = ["spectral"]
value = -1e6

[[claim]]
text = "It is good at something else."
task = "pong-mini"
kind = "final_above"
agents = ["spectral"]
value = 0
"#;

fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.path("claims.toml"), CLAIMS).unwrap();
    place
}

fn verdicts(report: &Value) -> Vec<&str> {
    let claims = report["claims"].as_array().expect("claims");
    claims.iter().map(|claim| claim["verdict"].as_str().expect("a verdict")).collect()
}

/// The report of this folder, in Markdown.
fn page(place: &Place, folder: &str) -> String {
    std::fs::read_to_string(place.path(folder).join("report.md")).unwrap()
}

#[test]
fn claims_are_judged_on_given_runs_as_reproduce_judges_them() {
    let place = place();
    let made = place.run("reproduce claims.toml --calibrate 0 --out out --json").code(0).json();
    let ran = place.run("report out/runs --experiment claims.toml --out mine --json").code(0);
    let report = ran.json();
    assert_eq!(verdicts(&report), ["agree", "differ", "undecided"]);
    assert_eq!(report["claims"], made["claims"]);
    assert!(!ran.err.contains("asks for"), "these are exactly its runs: {}", ran.err);
    let markdown = page(&place, "mine");
    for words in ["# Three claims", "In the paper: no figure.", "It is as bad as that."] {
        assert!(markdown.contains(words), "no '{words}' in: {markdown}");
    }
    assert!(place.path("mine/claims.csv").exists());
    // A title of the user's own wins; without an experiment nothing is judged.
    place.run("report out/runs --experiment claims.toml --title Mine --out own").code(0);
    assert!(page(&place, "own").contains("# Mine"));
    let plain = place.run("report out/runs --out plain --json").code(0).json();
    assert!(verdicts(&plain).is_empty());
    assert!(page(&place, "plain").contains("# Training report"));
}

#[test]
fn runs_that_are_not_the_experiments_are_judged_with_a_caution() {
    let place = place();
    let agents = "--agents spectral,popart,clipped --seeds 2 --set agent.popart.learning_rate=0.003";
    place.train(&format!("{agents} --frames 6000 --set frame_skip=2 --out other")).code(0);
    let ran = place.run("report other --experiment claims.toml --json").code(0).says(&[
        "Longer than the figure asks for: 6,000 of 4,000 frames per agent on exponential-pong-mini.",
        "Not as claims asks for: exponential-pong-mini has another frame_skip.",
        "Not as claims asks for: popart on exponential-pong-mini has another learning_rate.",
    ]);
    assert!(!ran.err.contains("spectral on") && !ran.err.contains("clipped"), "{}", ran.err);
    let report = ran.json();
    assert_eq!(verdicts(&report), ["agree", "differ", "undecided"]);
    assert!(page(&place, "other/report").contains("popart on exponential-pong-mini has another learning"));
}

#[test]
fn runs_of_unlike_lengths_meet_at_a_frame() {
    let place = place();
    place.train("--agents spectral,popart --seeds 1..1 --frames 4000 --out short").code(0);
    place.train("--agents spectral,popart --seeds 2..2 --frames 6000 --out long").code(0);
    // Apart, no length has two seeds.
    let apart = place.run("report short long --experiment claims.toml --json").code(0).json();
    assert_eq!(apart["tasks"].as_array().unwrap().len(), 2);
    assert_eq!(verdicts(&apart), ["undecided", "undecided", "undecided"]);
    let ran = place.run("report short long --experiment claims.toml --at-frames 4000 --json").code(0);
    assert!(!ran.err.contains("asks for"), "read so far, they are as long as they should be: {}", ran.err);
    let report = ran.json();
    assert_eq!(report["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(report["tasks"][0]["frames"], 4000);
    assert_eq!(verdicts(&report), ["agree", "differ", "undecided"]);
    let early = place.run("report short long --experiment claims.toml --at-frames 3000 --json").code(0);
    let early = early.says(&["Shorter than the figure asks for: 3,000 of 4,000"]).json();
    assert_eq!(early["tasks"][0]["rows"][0]["finished"], 2);
    assert!(page(&place, "short/report-at-3000").contains("read up to 3k frames only"));
}

#[test]
fn mistakes_are_answered_with_what_would_be_right() {
    let place = place();
    place.train("--frames 1000 --out run").code(0);
    let (head, _) = CLAIMS.split_once("[[claim]]").unwrap();
    std::fs::write(place.path("silent.toml"), head).unwrap();
    std::fs::write(place.path("kinds.toml"), CLAIMS.replace("final_above", "final_abve")).unwrap();
    for (arguments, code, words) in [
        ("--experiment fig33", 2, &["did you mean 'fig3'"][..]),
        ("--experiment absent.toml", 2, &["cannot read absent.toml"]),
        ("--experiment fig2", 2, &["computed", "spectral reproduce fig2"]),
        ("--experiment silent.toml", 2, &["no claims", "[[claim]]"]),
        ("--experiment kinds.toml", 3, &["claim 1", "final_above"]),
        ("--experiment mini-fig8", 2, &["mini-fig8 is about", "exponential-pong-mini", "nothing to judge"]),
        ("--at-frames 0", 2, &["--at-frames"]),
        ("--at-frames many", 2, &["--at-frames"]),
    ] {
        let ran = place.run(&format!("report run {arguments}"));
        assert_eq!(ran.code, Some(code), "{arguments}: {ran:?}");
        ran.says(words);
    }
    assert!(!place.path("run/report").exists(), "nothing was made");
}
