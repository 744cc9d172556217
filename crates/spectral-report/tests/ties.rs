//! Agents with equal means share the first place: none of them is announced as the winner.

mod synthetic;

use std::path::Path;

use spectral_report::{ReportOptions, ReportSummary, read_runs, write_report};
use synthetic::{End, member, write_run};

const FRAMES: u64 = 40_000;

/// Agents whose names are equally long get the same noise, so the same scores.
fn write(root: &Path, task: &str, agents: &[(&'static str, f64)]) {
    let members = agents.iter().flat_map(|(agent, end)| {
        (1..=4).map(move |seed| member(agent, seed, (-10.0, *end, 9e3), 1.0, FRAMES))
    });
    write_run(&root.join("runs").join(task), task, FRAMES, false, &members.collect::<Vec<_>>());
}

fn report(root: &Path) -> ReportSummary {
    let runs = read_runs(&[root.join("runs")]).unwrap();
    write_report(&runs, &ReportOptions { out: root.join("report"), ..Default::default() }).unwrap()
}

#[test]
fn agents_with_equal_means_share_the_first_place() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "pong-mini", &[("steady", 15.0), ("popart", 15.0)]);
    let both = report(root.path());
    let words = &both.headline;
    assert!(words.starts_with("After 40k frames of pong-mini, "), "{words}");
    assert!(words.contains("steady") && words.contains("popart") && words.contains(" and "), "{words}");
    assert!(words.contains(" share the highest mean score, 1") && !words.contains("tell"), "{words}");
    let finding = &both.tasks[0].findings[0];
    assert!(finding.contains(" share the highest mean score, 1"), "{finding}");

    write(root.path(), "pong-mini", &[("steady", 15.0), ("popart", 15.0), ("clipped", -9.0)]);
    let words = report(root.path()).headline;
    assert!(words.contains(" share the highest mean score, 1"), "{words}");
    assert!(words.ends_with(", clearly above clipped."), "{words}");

    write(root.path(), "pong-mini", &[("steady", 15.0), ("popart", 15.0), ("clipped", 14.99)]);
    let summary = report(root.path());
    if summary.tasks[0].rows[0].agent != "clipped" {
        let words = summary.headline;
        assert!(words.ends_with("but these seeds do not tell them from clipped."), "{words}");
    }
}

#[test]
fn a_tie_without_learning_has_no_first_either() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "pong-mini", &[("steady", -10.0), ("popart", -10.0)]);
    let words = report(root.path()).headline;
    assert!(
        words.contains("no agent was seen to learn; ") && words.contains(" share the highest"),
        "{words}"
    );
}

#[test]
fn a_tie_on_one_of_several_tasks_is_said() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "pong-mini", &[("steady", 15.0), ("popart", 15.0)]);
    write(root.path(), "2048", &[("steady", 15.0), ("popart", -9.0)]);
    let words = report(root.path()).headline;
    let together = ["steady and popart together on pong-mini", "popart and steady together on pong-mini"];
    assert!(together.iter().any(|part| words.contains(part)), "{words}");
    assert!(words.contains("steady on 2048 (1") && !words.contains("above all others"), "{words}");
}

#[test]
fn seeds_that_were_stopped_are_named_in_a_tie() {
    let root = tempfile::tempdir().unwrap();
    let mut members: Vec<_> = ["steady", "popart"]
        .into_iter()
        .flat_map(|agent| (1..=4).map(move |seed| member(agent, seed, (-10.0, 15.0, 9e3), 1.0, FRAMES)))
        .collect();
    let mut lost = member("steady", 5, (-10.0, 15.0, 9e3), 1.0, FRAMES);
    (lost.end, lost.reached) = (End::Stopped, 20_000);
    members.push(lost);
    write_run(&root.path().join("runs/run"), "pong-mini", FRAMES, false, &members);
    let words = report(root.path()).headline;
    assert!(words.contains("steady (4 of 5 seeds; 1 was stopped)") && words.contains(" share "), "{words}");
}
