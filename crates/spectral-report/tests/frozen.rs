//! Frozen games in reports: only where they were played, and as the tables of the runs have them.

mod synthetic;

use std::fs;
use std::path::Path;

use spectral_report::{ReportOptions, ReportSummary, read_runs, text_table, write_report};
use synthetic::{member, write_run};

const HEADER: &str = "frame,model,games,score_mean,score_least,score_most,return_mean,steps_mean,cut\n";

/// Two agents with two seeds each; the first is evaluated, in both of its seeds.
fn runs(root: &Path, evaluated: bool) {
    let learning = (-15.0, 8.0, 50_000.0);
    let members: Vec<_> = ["spectral", "clipped"]
        .into_iter()
        .flat_map(|agent| [1, 2].map(|seed| member(agent, seed, learning, 3.0, 100_000)))
        .collect();
    write_run(root, "pong-mini", 100_000, false, &members);
    if !evaluated {
        return;
    }
    let toml = fs::read_to_string(root.join("run.toml")).unwrap();
    let settings = "eval_every = 25000\neval_games = 5\neval_epsilon = 0.01\n";
    fs::write(root.join("run.toml"), toml.replacen("task = ", &format!("{settings}task = "), 1)).unwrap();
    for (seed, scores) in [(1, [-20.0, 2.0, 30.0, 12.0]), (2, [-10.0, 4.0, 6.0, 16.0])] {
        let mut text = HEADER.to_owned();
        for (k, score) in scores.iter().enumerate() {
            let frame = 25_000 * (k + 1);
            text += &format!("{frame},last,5,{score},-21,21,{score},900,0\n");
            if seed == 2 {
                // The mean of the weights is another model; only the best of all is looked for here.
                text += &format!("{frame},average,5,18,-21,21,18,900,0\n");
            }
        }
        fs::write(root.join(format!("agents/spectral-s{seed}/eval.csv")), text).unwrap();
    }
}

/// Gives the averaged model evaluations in the first seed too: worse than in the second.
fn average_in_both(root: &Path) {
    let table = root.join("agents/spectral-s1/eval.csv");
    let rows = fs::read_to_string(&table).unwrap().replace(
        "100000,last,5,12,-21,21,12,900,0\n",
        "100000,last,5,12,-21,21,12,900,0\n100000,average,5,7,-21,21,7,900,0\n",
    );
    fs::write(&table, rows).unwrap();
}

/// Makes all seeds unfinished.
fn interrupt(root: &Path) {
    let state = fs::read_to_string(root.join("state.toml")).unwrap();
    assert!(state.contains("\"finished\""), "{state}");
    fs::write(root.join("state.toml"), state.replace("\"finished\"", "\"running\"")).unwrap();
}

fn report(root: &Path, at_frames: Option<u64>) -> (ReportSummary, String, String) {
    let runs = read_runs(&[root.join("runs")]).unwrap();
    let out = root.join("report");
    let options = ReportOptions { out: out.clone(), at_frames, ..Default::default() };
    let summary = write_report(&runs, &options).unwrap();
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    (summary, read("report.html"), read("report.md"))
}

#[test]
fn frozen_games_are_drawn_told_and_tabulated() {
    let root = tempfile::tempdir().unwrap();
    runs(&root.path().join("runs"), true);
    let (summary, page, markdown) = report(root.path(), None);
    let row = |summary: &ReportSummary, agent: &str| {
        summary.tasks[0].rows.iter().find(|row| row.agent == agent).unwrap().clone()
    };
    let spectral = row(&summary, "spectral");
    assert_eq!(
        (spectral.frozen, spectral.frozen_best),
        (Some(14.0), Some(24.0)),
        "(12 + 16) / 2, (30 + 18) / 2"
    );
    assert_eq!(row(&summary, "clipped").frozen, None);
    let told = "5 whole games at ε 0.01 with a copy of the model that does not learn";
    for text in [&page, &markdown] {
        assert!(text.contains(told) && text.contains("which chance flatters"));
    }
    assert!(page.contains("<th>frozen</th><th>best</th>") && markdown.contains("| frozen | best |"));
    assert!(page.contains("data-name=\"frozen\">14.0</td>"));
    for text in [&page, &markdown, &text_table(&summary)] {
        assert!(!text.contains("averaged:"), "not all seeds of an agent have evaluations of it");
    }
    for text in [&page, &markdown] {
        assert!(text.contains("best evaluation, of either model, which chance flatters"));
        assert!(!text.contains("no separate evaluation"));
        assert!(text.contains(
            "except the dashes with dots and the columns frozen and best: those are of frozen games"
        ));
    }
    let file = |name: &str| fs::read_to_string(root.path().join("report").join(name)).unwrap();
    assert!(file("pong-mini-curves.svg").contains(told));
    let curve: Vec<String> =
        file("pong-mini-curves.csv").lines().filter(|l| l.contains("frozen")).map(String::from).collect();
    assert_eq!(curve[0], "spectral,frozen games,25000,-15,,,2");
    assert_eq!(curve.len(), 4);
    let header = file("final.csv").lines().next().unwrap().to_owned();
    assert!(header.ends_with(",human_normalised,frozen,frozen_best"), "{header}");
    let fields = header.split(',').count();
    assert!(file("final.csv").lines().all(|line| line.split(',').count() == fields));
    let columns: Vec<String> =
        text_table(&summary).lines().nth(1).unwrap().split_whitespace().map(String::from).collect();
    assert_eq!(columns[columns.len() - 2..], ["frozen", "best"]);
    if let Ok(keep) = std::env::var("SPECTRAL_REPORT_KEEP") {
        fs::create_dir_all(&keep).unwrap();
        for entry in fs::read_dir(root.path().join("report")).unwrap().flatten() {
            fs::copy(entry.path(), Path::new(&keep).join(entry.file_name())).unwrap();
        }
    }
    // Read up to an earlier frame, with what was known there.
    let (cut, ..) = report(root.path(), Some(60_000));
    assert_eq!(row(&cut, "spectral").frozen, Some(3.0));
}

#[test]
fn the_averaged_model_has_a_column_of_its_own() {
    let root = tempfile::tempdir().unwrap();
    runs(&root.path().join("runs"), true);
    average_in_both(&root.path().join("runs"));
    let (summary, page, markdown) = report(root.path(), None);
    let row = |agent: &str| summary.tasks[0].rows.iter().find(|row| row.agent == agent).unwrap();
    assert_eq!(row("spectral").averaged, Some(12.5), "(7 + 18) / 2");
    assert_eq!((row("spectral").frozen, row("spectral").frozen_best), (Some(14.0), Some(24.0)));
    assert_eq!(row("clipped").averaged, None);
    assert!(page.contains("<th>frozen</th><th>averaged</th><th>best</th>"));
    assert!(page.contains("data-name=\"averaged\">12.5</td>"));
    assert!(markdown.contains("| frozen | averaged | best |") && markdown.contains("| 14.0 | 12.5 | 24.0 |"));
    let table = markdown.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count());
    assert!(
        table.collect::<std::collections::BTreeSet<_>>().len() == 1,
        "every row has every column:\n{markdown}"
    );
    let shown = text_table(&summary);
    let columns: Vec<&str> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(columns[columns.len() - 3..], ["frozen", "averaged", "best"]);
    for text in [&page, &markdown, &shown] {
        assert!(
            text.contains("averaged: the last evaluation of the model with the running mean of the weights;")
        );
        assert!(text.contains("best: each seed’s best evaluation, of either model, which chance flatters"));
    }
    let file = |name: &str| fs::read_to_string(root.path().join("report").join(name)).unwrap();
    let table = file("final.csv");
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0][lines[0].len() - 3..], ["frozen", "averaged", "frozen_best"]);
    let spectral = lines.iter().find(|line| line[3] == "spectral").unwrap();
    assert_eq!(spectral[spectral.len() - 3..], ["14", "12.5", "24"]);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    let json: serde_json::Value = serde_json::from_str(&file("summary.json")).unwrap();
    let rows = json["tasks"][0]["rows"].as_array().unwrap();
    let of = |agent: &str| rows.iter().find(|row| row["agent"] == agent).unwrap();
    assert_eq!(of("spectral")["averaged"], 12.5);
    assert!(of("clipped").get("averaged").is_none());
    // The curve is of the model that was trained alone, and says so.
    assert!(file("pong-mini-curves.svg").contains("mean over seeds, without the averaged model."));
    assert!(page.contains("mean over seeds, without the averaged model."));
    assert!(file("pong-mini-curves.csv").contains("spectral,frozen games,100000,14,,,2"));
}

#[test]
fn where_no_seed_has_finished_its_dashes_are_told_from_those_of_frozen_games() {
    for evaluated in [true, false] {
        let root = tempfile::tempdir().unwrap();
        runs(&root.path().join("runs"), evaluated);
        interrupt(&root.path().join("runs"));
        let (_, page, markdown) = report(root.path(), None);
        let figure = fs::read_to_string(root.path().join("report/pong-mini-curves.svg")).unwrap();
        let dashed = if evaluated { "(dashed, without dots)" } else { "(dashed)" };
        for text in [&page, &figure] {
            assert!(text.contains(&format!("mean over unfinished seeds {dashed}")), "{evaluated}");
            assert!(!text.contains("mean over finished seeds"), "{evaluated}");
        }
        let dashed = if evaluated { "dashed without dots, is" } else { "dashed, is" };
        for text in [&page, &markdown] {
            let said =
                format!("None of its seeds has finished: its curve of training scores, {dashed} provisional");
            assert!(text.contains(&said), "{evaluated}");
            // There are no columns of frozen games to speak of.
            assert_eq!(text.contains("except the dashes with dots: those are of frozen games"), evaluated);
        }
        assert_eq!(page.contains("there is no separate evaluation"), !evaluated);
    }
}

#[test]
fn an_agent_without_finished_seeds_beside_one_that_has_some_is_told_apart() {
    let root = tempfile::tempdir().unwrap();
    runs(&root.path().join("runs"), true);
    let path = root.path().join("runs/state.toml");
    let state = fs::read_to_string(&path).unwrap();
    let (head, clipped) = state.split_once("id = \"clipped-s1\"").unwrap();
    let clipped = clipped.replace("\"finished\"", "\"running\"");
    fs::write(&path, format!("{head}id = \"clipped-s1\"{clipped}")).unwrap();
    let (summary, page, _) = report(root.path(), None);
    let finished: Vec<usize> = summary.tasks[0].rows.iter().map(|row| row.finished).collect();
    assert_eq!(finished, [2, 0]);
    let figure = fs::read_to_string(root.path().join("report/pong-mini-curves.svg")).unwrap();
    for text in [&page, &figure] {
        assert!(text.contains("mean over finished seeds (dashed without dots: unfinished ones);"));
    }
}

#[test]
fn reports_of_runs_without_frozen_games_say_nothing_of_them() {
    let root = tempfile::tempdir().unwrap();
    runs(&root.path().join("runs"), false);
    let (_, page, markdown) = report(root.path(), None);
    let json = fs::read_to_string(root.path().join("report/summary.json")).unwrap();
    for text in [&page, &markdown, &json] {
        assert!(!text.to_lowercase().contains("frozen") && !text.contains("eval_"));
        assert!(
            !text.contains("\"averaged\"") && !text.contains("either model") && !text.contains("dots and")
        );
    }
    assert!(page.contains(
        "Scores are of training episodes, exploration included; there is no separate evaluation. Frames"
    ));
    assert!(page.contains("episodes, mean over finished seeds; bands are"));
    assert!(
        markdown.contains("Scores are of training episodes, exploration included. Intervals and bands are")
    );
}

#[test]
fn runs_with_and_without_frozen_games_are_merged_without_a_word() {
    let root = tempfile::tempdir().unwrap();
    runs(&root.path().join("runs/on"), true);
    write_run(
        &root.path().join("runs/off"),
        "pong-mini",
        100_000,
        false,
        &[member("spectral", 3, (-15.0, 8.0, 50_000.0), 3.0, 100_000)],
    );
    let (summary, page, _) = report(root.path(), None);
    assert_eq!(summary.tasks.len(), 1);
    assert!(!page.contains("others do not know"));
    // A mean over seeds of which some did not play would be one of others.
    assert_eq!(summary.tasks[0].rows.iter().find(|row| row.agent == "spectral").unwrap().frozen, None);
}

#[test]
fn a_damaged_table_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("runs");
    runs(&folder, true);
    let table = folder.join("agents/spectral-s1/eval.csv");
    for (row, said) in [
        ("10,worst,5,1,1,1,1,1,0\n", "`model` is `worst`"),
        ("20,last,5,1,1,1,1,1,0\n10,last,5,1,1,1,1,1,0\n", "must not go back"),
    ] {
        fs::write(&table, format!("{HEADER}{row}")).unwrap();
        let error = read_runs(std::slice::from_ref(&folder)).unwrap_err().to_string();
        assert!(error.contains("eval.csv") && error.contains(said), "{error}");
    }
}
