//! What the figures' files show: nothing cut without a word, no name over another.

mod synthetic;

use std::fs;
use std::path::Path;

use spectral_report::{ReportOptions, ReportSummary, read_runs, write_report};
use synthetic::{End, SyntheticAgent, member, write_run};

const FRAMES: u64 = 40_000;

fn seeds(agent: &'static str, count: u64, end: f64, noise: f64) -> Vec<SyntheticAgent> {
    (1..=count).map(|seed| member(agent, seed, (-10.0, end, 9e3), noise, FRAMES)).collect()
}

fn report(root: &Path, members: &[SyntheticAgent]) -> ReportSummary {
    write_run(&root.join("runs/run"), "pong-mini", FRAMES, true, members);
    let runs = read_runs(&[root.join("runs")]).unwrap();
    write_report(&runs, &ReportOptions { out: root.join("report"), ..Default::default() }).unwrap()
}

fn read(root: &Path, name: &str) -> String {
    fs::read_to_string(root.join("report").join(name)).unwrap()
}

/// The horizontal ends of the lines in which `part` occurs.
fn spans(svg: &str, part: &str) -> Vec<(f64, f64)> {
    let lines = svg.lines().filter(|line| line.starts_with("<polyline") && line.contains(part));
    let ends = lines.filter_map(|line| {
        let points = line.split('"').nth(1)?;
        let mut x = points.split(' ').filter_map(|point| point.split(',').next()?.parse::<f64>().ok());
        Some((x.next()?, x.next_back()?))
    });
    ends.collect()
}

#[test]
fn the_axis_of_final_scores_holds_the_intervals() {
    let root = tempfile::tempdir().unwrap();
    let members = [seeds("spectral", 3, 15.0, 3.0), seeds("clipped", 3, 14.0, 3.0)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
    let summary = report(root.path(), &members);
    let rows = &summary.tasks[0].rows;
    let scores = rows.iter().flat_map(|row| row.per_seed.iter().copied()).fold(0.0, f64::max);
    assert!(rows.iter().any(|row| row.high95.unwrap() > scores), "the intervals go beyond the scores");
    let svg = read(root.path(), "pong-mini-final.svg");
    let bars = spans(&svg, "stroke-opacity=\"0.28\"");
    let rules = spans(&svg, "stroke=\"#e3e6ea\" stroke-width=\"1\"");
    let (left, right) = *rules.iter().max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0))).unwrap();
    assert_eq!(bars.len(), 2);
    assert!(bars.iter().all(|bar| left < bar.0 && bar.1 < right), "{bars:?} within {left} and {right}");
    assert!(!svg.contains("arrow"));
    assert!(!read(root.path(), "report.html").contains("an arrow where it goes on"));
}

#[test]
fn an_interval_that_would_squeeze_the_scores_ends_in_an_arrow() {
    let root = tempfile::tempdir().unwrap();
    report(
        root.path(),
        &[seeds("spectral", 2, 15.0, 3.0), seeds("clipped", 2, 15.0, 3.0)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>(),
    );
    let svg = read(root.path(), "pong-mini-final.svg");
    assert!(svg.contains("arrow: it goes on") && svg.contains("fill-opacity=\"0.7\""), "{svg}");
    assert!(read(root.path(), "report.html").contains("an arrow where it goes on beyond the axis"));
}

#[test]
fn names_of_curves_that_end_early_are_not_written_over_each_other() {
    let root = tempfile::tempdir().unwrap();
    // Names of equal length have the same noise: both curves end at one point.
    let mut members = [seeds("steady", 1, 15.0, 1.0), seeds("popart", 1, 15.0, 1.0)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
    members.iter_mut().for_each(|member| (member.end, member.reached) = (End::Running, 20_000));
    members.extend(seeds("clipped", 2, 15.0, 1.0));
    report(root.path(), &members);
    let svg = read(root.path(), "pong-mini-curves.svg");
    let height = |name: &str| {
        let line = svg.lines().find(|line| line.contains(&format!(">{name} (unfinished)<"))).unwrap();
        line.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse::<f64>().unwrap()
    };
    let apart = (height("steady") - height("popart")).abs();
    assert!(apart >= 12.0, "{apart} apart");
}

#[test]
fn captions_say_over_how_many_episodes_curves_are_smoothed() {
    let root = tempfile::tempdir().unwrap();
    report(
        root.path(),
        &[seeds("spectral", 3, 15.0, 1.0), seeds("clipped", 3, 15.0, 1.0)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>(),
    );
    let (svg, page) = (read(root.path(), "pong-mini-curves.svg"), read(root.path(), "report.html"));
    // 40,000 frames are about 73 episodes of 300 to 800 frames, and one in 20 of them is 4.
    for words in ["Training score smoothed over about ", "4 episodes, mean over finished seeds;"] {
        assert!(svg.contains(words) && page.contains(words), "{words}");
    }
    let per_seed = &report(root.path(), &seeds("spectral", 1, 15.0, 1.0)).tasks[0].rows[0].per_seed;
    let csv = read(root.path(), "pong-mini-curves.csv");
    let end: f64 = csv.lines().last().unwrap().split(',').nth(3).unwrap().parse().unwrap();
    assert!((end - per_seed[0]).abs() < 1.0, "the curve ends at {end}, the table says {per_seed:?}");
}

#[test]
fn seeds_without_an_episode_are_counted_in_good_grammar() {
    for (count, words) in
        [(1, "1 seed finished without completing an episode and has no"), (3, "3 seeds finished")]
    {
        let root = tempfile::tempdir().unwrap();
        let members = seeds("spectral", count, 15.0, 1.0);
        report(root.path(), &members);
        for seed in 1..=count {
            let table = root.path().join(format!("runs/run/agents/spectral-s{seed}/episodes.csv"));
            fs::write(table, "frame,return,score,length\n").unwrap();
        }
        let runs = read_runs(&[root.path().join("runs")]).unwrap();
        let options = ReportOptions { out: root.path().join("report"), ..Default::default() };
        let notes = write_report(&runs, &options).unwrap().tasks[0].warnings.join(" ");
        assert!(notes.contains(words), "{notes}");
        assert_eq!(notes.contains("and have no score to count"), count > 1, "{notes}");
    }
}

#[test]
fn panels_of_the_td_error_say_how_many_seeds_and_what_the_dots_are() {
    let root = tempfile::tempdir().unwrap();
    let members = [seeds("spectral", 3, 15.0, 1.0), seeds("clipped", 1, 15.0, 1.0)];
    report(root.path(), &members.into_iter().flatten().collect::<Vec<_>>());
    let (svg, page) = (read(root.path(), "pong-mini-td-error.svg"), read(root.path(), "report.html"));
    assert!(svg.contains("dotted: 5%, the cusp of playing well."), "{svg}");
    for title in ["spectral (3 seeds)", "clipped (1 seed, of altered rewards)"] {
        assert!(svg.contains(&format!(">{title}</text>")), "{title}");
        assert!(page.contains(&format!("<h4>{title}</h4>")), "{title}");
    }
}

#[test]
fn the_share_of_seeds_has_a_legend_and_equal_curves_are_both_seen() {
    let root = tempfile::tempdir().unwrap();
    let members =
        [seeds("steady", 3, 15.0, 1.0), seeds("popart", 3, 15.0, 1.0), seeds("clipped", 3, 9.0, 1.0)];
    report(root.path(), &members.into_iter().flatten().collect::<Vec<_>>());
    let (svg, page) = (read(root.path(), "pong-mini-comparison.svg"), read(root.path(), "report.html"));
    for name in ["steady", "popart", "clipped"] {
        assert!(svg.contains(&format!(">{name}</text>")), "{name}");
        assert!(page.contains(&format!("\">{name}</b>")), "{name}");
    }
    let lines =
        |width: &str| svg.lines().filter(|line| line.contains(&format!("stroke-width=\"{width}\""))).count();
    assert_eq!((lines("5"), lines("2")), (1, 2), "two of the curves are the same: {svg}");
}
