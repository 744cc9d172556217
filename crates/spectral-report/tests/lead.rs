//! What a reader meets first: the result, one figure, the data; and what stands beside the curves.

mod synthetic;

use std::fs;
use std::path::Path;

use spectral_report::{
    Claim, ReferenceScores, ReportOptions, ReportSummary, read_runs, text_table, write_report,
};
use synthetic::{End, member, write_run};

const FRAMES: u64 = 40_000;

/// Seeds of one agent that end near a score.
fn seeds(agent: &'static str, count: u64, end: f64) -> Vec<synthetic::SyntheticAgent> {
    (1..=count).map(|seed| member(agent, seed, (-10.0, end, 9e3), 1.0, FRAMES)).collect()
}

fn write(root: &Path, task: &str, agents: &[(&'static str, f64)]) {
    let members: Vec<_> = agents.iter().flat_map(|(agent, end)| seeds(agent, 4, *end)).collect();
    write_run(&root.join("runs").join(task), task, FRAMES, false, &members);
}

fn report(root: &Path, options: ReportOptions) -> (ReportSummary, String, String) {
    let runs = read_runs(&[root.join("runs")]).unwrap();
    let summary = write_report(&runs, &ReportOptions { out: root.join("report"), ..options }).unwrap();
    let read = |name: &str| fs::read_to_string(root.join("report").join(name)).unwrap();
    (summary, read("report.html"), read("report.md"))
}

fn at(text: &str, part: &str) -> usize {
    text.find(part).unwrap_or_else(|| panic!("{part:?} is not there"))
}

#[test]
fn the_result_comes_first_then_one_figure_then_the_facts() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "pong-mini", &[("spectral", 15.0), ("popart", -9.0), ("clipped", 14.9)]);
    let (summary, page, markdown) = report(root.path(), ReportOptions::default());
    let words = &summary.headline;
    let [first, second, _] = &summary.tasks[0].rows[..] else { panic!("three agents") };
    assert!(
        words.starts_with(&format!("After 40k frames of pong-mini, {} scores highest, 1", first.agent)),
        "{words}"
    );
    let level = format!(", clearly above popart; these seeds do not tell it from {}.", second.agent);
    assert!(words.ends_with(&level), "{words}");
    for text in [&page, &markdown] {
        assert_eq!(text.matches(words.as_str()).count(), 1);
    }
    let order = ["class=\"headline\"", "data-figure=\"curves\"", "class=\"facts\"", "What this shows"];
    assert!(order.windows(2).all(|pair| at(&page, pair[0]) < at(&page, pair[1])));
    assert!(at(&markdown, words) < at(&markdown, "pong-mini-curves.png"));
    assert_eq!(page.matches("data-figure=\"curves\"").count(), 1, "the curves are not repeated");
    // The data, the version and the command stand above the figure, and every link leads to a file that is there.
    let top = &page[..at(&page, "data-figure=\"curves\"")];
    for part in ["seeds.csv", "summary.json", "version 0.1.0", "spectral train --task pong-mini"] {
        assert!(top.contains(part), "{part}");
    }
    let links: Vec<&str> = page.split("href=\"").skip(1).map(|rest| &rest[..at(rest, "\"")]).collect();
    let files = links.iter().filter(|link| !link.starts_with('#') && !link.starts_with("data:"));
    assert!(files.clone().count() > 12);
    for file in files {
        assert!(root.path().join("report").join(file).is_file(), "{file}");
    }
    // One level, one kind of band.
    assert!(!page.contains("standard deviation") && !page.contains("90%"));
    assert_eq!(page.matches("is at 95%").count(), 1);
    assert!(page.contains("role=\"group\" aria-label=\"Single seeds\" hidden>"), "no use without the script");
}

#[test]
fn a_commit_is_shown_where_a_run_records_it() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "pong-mini", &[("spectral", 15.0)]);
    write(root.path(), "pong-old", &[("spectral", 15.0)]);
    let path = root.path().join("runs/pong-mini/run.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("version = \"0.1.0\"", "version = \"0.1.0\"\ncommit = \"abc1234\""))
        .unwrap();
    let (_, page, markdown) = report(root.path(), ReportOptions::default());
    for text in [&page, &markdown] {
        assert!(text.contains("0.1.0 (commit abc1234)"));
    }
}

#[test]
fn several_tasks_have_one_sentence_and_one_figure() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "pong-mini", &[("spectral", 15.0), ("popart", -9.0)]);
    write(root.path(), "2048", &[("spectral", 1.0), ("popart", 12.0)]);
    let (summary, page, _) = report(root.path(), ReportOptions::default());
    let words = &summary.headline;
    assert!(
        words.starts_with("Highest mean score: popart on 2048 (1")
            && words.contains("spectral on pong-mini (1")
    );
    assert!(words.ends_with("), clearly above all others."), "{words}");
    assert!(at(&page, "class=\"headline\"") < at(&page, "data-figure=\"overview\""));
    assert!(at(&page, "data-figure=\"overview\"") < at(&page, "class=\"facts\""));
}

#[test]
fn a_result_without_learning_says_so_first() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "pong-mini", &[("spectral", -10.0), ("popart", -10.5)]);
    let (summary, ..) = report(root.path(), ReportOptions::default());
    assert!(summary.headline.contains("no agent was seen to learn;"), "{}", summary.headline);
}

#[test]
fn many_tasks_are_counted_with_how_many_are_clear() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "one", &[("spectral", 15.0), ("popart", -5.0)]);
    for task in ["two", "three", "four"] {
        write(root.path(), task, &[("spectral", 15.0), ("popart", 14.99)]);
    }
    write(root.path(), "five", &[("spectral", -10.0), ("popart", -10.0), ("clipped", -9.9)]);
    let (summary, ..) = report(root.path(), ReportOptions::default());
    let words = &summary.headline;
    assert!(words.starts_with("Highest mean score, of 5 tasks: "), "{words}");
    let winners = |agent: &str| {
        let rows = summary.tasks.iter().filter(|task| task.task != "five").map(|task| &task.rows[0]);
        rows.filter(|row| row.agent == agent).count()
    };
    assert!(words.contains(&format!("spectral on {} (1 clearly)", winners("spectral"))), "{words}");
    assert!(words.contains("(0 clearly, 1 with no learning seen)"), "{words}");
    assert!(!words.contains("above all others"));
}

#[test]
fn seeds_that_were_stopped_are_in_the_result() {
    let root = tempfile::tempdir().unwrap();
    let run = |task: &str, stopped: &[(&str, usize)]| {
        let mut members: Vec<_> = [("spectral", 15.0), ("popart", 0.0), ("lost", 0.0)]
            .into_iter()
            .flat_map(|(agent, end)| seeds(agent, 5, end))
            .collect();
        for (agent, count) in stopped {
            let stopped = members.iter_mut().filter(|member| member.agent == *agent).take(*count);
            stopped.for_each(|member| (member.end, member.reached) = (End::Stopped, 20_000));
        }
        write_run(&root.path().join("runs").join(task), task, FRAMES, false, &members);
    };
    run("pong-mini", &[("spectral", 2), ("popart", 1), ("lost", 5)]);
    let (summary, ..) = report(root.path(), ReportOptions::default());
    let words = &summary.headline;
    assert!(
        words.contains("; 3 of 5 seeds; 2 were stopped), clearly above popart (4 of 5 seeds; 1 was stopped)"),
        "{words}"
    );
    assert!(words.ends_with("; lost (0 of 5 seeds; 5 were stopped) has no final score."), "{words}");
    let findings = summary.tasks[0].findings.join(" ");
    assert!(
        findings.contains("; 3 of 5 seeds; 2 were stopped)") && findings.contains("; 4 of 5 seeds; 1 was"),
        "{findings}"
    );
    run("2048", &[]);
    let words = report(root.path(), ReportOptions::default()).0.headline;
    assert!(words.contains("pong-mini (1") && words.contains("; 3 of 5 seeds; 2 were stopped)"), "{words}");
    assert!(words.ends_with("; on one task seeds were stopped."), "{words}");
}

#[test]
fn too_few_seeds_and_much_exploration_are_in_the_result() {
    let root = tempfile::tempdir().unwrap();
    let run = |task: &str, count: u64, epsilon: &str| {
        let members: Vec<_> = [("spectral", 6.0), ("popart", 5.0)]
            .into_iter()
            .flat_map(|(agent, end)| {
                (1..=count).map(move |seed| member(agent, seed, (10.0, end, 9e3), 1.0, FRAMES))
            })
            .collect();
        let folder = root.path().join("runs").join(task);
        write_run(&folder, task, FRAMES, false, &members);
        for member in &members {
            let path = folder.join(format!("agents/{}-s{}/metrics.csv", member.agent, member.seed));
            fs::write(path, format!("frame,updates,saturated,epsilon\n{FRAMES},9,0,{epsilon}\n")).unwrap();
        }
    };
    let few = "too few seeds to test whether any agent learned";
    run("pong-mini", 2, "0.05");
    let words = report(root.path(), ReportOptions::default()).0.headline;
    assert!(words.ends_with(&format!("; {few}.")), "{words}");
    run("pong-mini", 1, "0.574");
    let words = report(root.path(), ReportOptions::default()).0.headline;
    let explored = "at the end ε was still 0.574, which hides what was learned.";
    assert!(words.ends_with(&format!("; {few}; {explored}")), "{words}");
    run("2048", 2, "0.574");
    let words = report(root.path(), ReportOptions::default()).0.headline;
    assert_eq!(words.matches(&format!("{few}, ε still 0.574)")).count(), 2, "{words}");
    for task in ["three", "four", "five"] {
        run(task, 2, "0.3");
    }
    let words = report(root.path(), ReportOptions::default()).0.headline;
    assert!(words.contains(&format!("; on 5 tasks {few}; on 5 tasks much was still explored")), "{words}");
}

/// With so few episodes that none counts as a first one, the sentence says first that it is too early.
#[test]
fn a_result_that_comes_too_early_is_called_so() {
    let root = tempfile::tempdir().unwrap();
    let run = |task: &str, agents: &[(&'static str, f64)], epsilon: &str| {
        let members: Vec<_> = agents
            .iter()
            .flat_map(|(agent, end)| (1..=3).map(|seed| member(agent, seed, (-10.0, *end, 9e3), 1.0, 9_000)))
            .collect();
        let folder = root.path().join("runs").join(task);
        write_run(&folder, task, 9_000, false, &members);
        for member in &members {
            let path = folder.join(format!("agents/{}-s{}/metrics.csv", member.agent, member.seed));
            fs::write(path, format!("frame,updates,saturated,epsilon\n9000,9,0,{epsilon}\n")).unwrap();
        }
    };
    let few = "too few episodes to test whether any agent learned";
    run("pong-mini", &[("spectral", 15.0), ("popart", -9.0)], "0.868");
    let words = report(root.path(), ReportOptions::default()).0.headline;
    let explored = "and at the end ε was still 0.868, which hides what was learned";
    let head = format!(
        "Too early for a result after 9k frames of pong-mini: {few}, {explored}. Highest so far: spectral, "
    );
    assert!(words.starts_with(&head), "{words}");
    assert!(!words.contains('('), "{words}");
    run("2048", &[("spectral", -9.0), ("popart", 15.0)], "0.868");
    let words = report(root.path(), ReportOptions::default()).0.headline;
    assert!(
        words.starts_with(&format!("Too early for a result: {few}, {explored}. Highest so far: ")),
        "{words}"
    );
    assert!(words.contains("spectral on pong-mini (") && words.contains("popart on 2048 ("), "{words}");
    assert_eq!((words.matches('ε').count(), words.matches("not clearly").count()), (1, 0), "{words}");
}

/// Three agents with three seeds each. The first lies above the second clearly, if these two were chosen beforehand.
#[test]
fn clearly_is_said_with_all_pairs_in_mind() {
    let root = tempfile::tempdir().unwrap();
    let group = |agent: &'static str, centre: f64| {
        (1..=3).map(move |seed| member(agent, seed, (-10.0, centre + seed as f64, 9e3), 0.0, FRAMES))
    };
    let mut members: Vec<_> = group("spectral", 12.6).chain(group("popart", 10.0)).collect();
    write_run(&root.path().join("runs/run"), "pong-mini", FRAMES, false, &members);
    let (summary, ..) = report(root.path(), ReportOptions::default());
    assert!(summary.headline.ends_with(", clearly above popart."), "{}", summary.headline);
    assert!(summary.tasks[0].findings.join(" ").contains("lies clearly above popart"));
    members.extend(group("clipped", 10.0));
    write_run(&root.path().join("runs/run"), "pong-mini", FRAMES, false, &members);
    let (summary, page, _) = report(root.path(), ReportOptions::default());
    let words = &summary.headline;
    assert!(words.ends_with(", but these seeds do not tell it from any of the others."), "{words}");
    let findings = summary.tasks[0].findings.join(" ");
    assert!(
        findings.contains("is not clearly different from") && findings.contains("every pair of agents"),
        "{findings}"
    );
    assert!(page.contains("“Clearly” holds at 95% for all pairs of agents on a task together."));
}

#[test]
fn claims_that_were_not_run_are_one_line() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "pong-mini", &[("spectral", 15.0), ("popart", -9.0)]);
    let claim = |task: &str, worse: &str| {
        format!(
            "[[claim]]\ntext = \"Of {task} and {worse}.\"\ntask = \"{task}\"\nkind = \"higher_final\"\n\
             better = \"spectral\"\nworse = [\"{worse}\"]\n"
        )
    };
    let text =
        [claim("pong-mini", "popart"), claim("moon", "popart"), claim("moon", "x"), claim("pong-mini", "x")];
    let claims = Claim::from_toml(&text.concat(), "claims").unwrap();
    let (summary, page, markdown) = report(root.path(), ReportOptions { claims, ..Default::default() });
    assert_eq!(summary.claims.iter().filter(|judged| judged.not_run).count(), 3);
    assert_eq!(page.matches("data-verdict=").count(), 1, "one card");
    assert!(page.contains("4 claims: 1 agree and 3 not run here"));
    let line = "3 claims were not judged: moon was not run and x was not run on pong-mini.";
    for text in [&page, &markdown, &text_table(&summary)] {
        assert_eq!(text.matches(line).count(), 1, "{text}");
    }
    assert!(page.contains("Of moon and x."), "what they say can be unfolded");
    let csv = fs::read_to_string(root.path().join("report/claims.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5, "the file has all of them");
    assert!(
        summary.claims[0].reason.contains("probability of improvement 1.00, 0.40 to 1.00"),
        "{:?}",
        summary.claims[0]
    );
}

#[test]
fn random_and_best_play_are_drawn_where_they_hold() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "pong-mini", &[("spectral", 15.0), ("popart", -9.0)]);
    let path = root.path().join("runs/pong-mini/run.toml");
    let text = fs::read_to_string(&path).unwrap();
    let with = |settings: &str| {
        fs::write(&path, text.replacen("task = ", &format!("{settings}task = "), 1)).unwrap()
    };
    let defaults = [("observation", "auto"), ("frame_skip", "1")];
    let drawn = |best: f64| {
        let scores = ReferenceScores::new("pong-mini", -11.28, Some(best), "exact optimum", defaults);
        let (_, page, markdown) =
            report(root.path(), ReportOptions { references: vec![scores], ..Default::default() });
        let svg = fs::read_to_string(root.path().join("report/pong-mini-curves.svg")).unwrap();
        (page, markdown, svg)
    };
    with("frame_skip = 1\nobservation = \"pixels\"\n");
    let (page, markdown, svg) = drawn(21.0);
    let told = "Dotted lines: random play (−11.3) and best play (21.0, exact optimum).";
    assert!(page.contains(told) && markdown.contains(told) && !page.contains("Beyond the axis"));
    assert!(svg.contains(">random play<") && svg.contains(">best play<"));
    // Too far away to be drawn: said, so that the curves are not squeezed flat.
    let (page, _, svg) = drawn(328_946.0);
    assert!(page.contains("Beyond the axis: best play.") && !svg.contains(">best play<"));
    assert!(svg.contains(">random play<"));
    // Another game, or one that is not known to be the same.
    for settings in ["frame_skip = 4\n", ""] {
        with(settings);
        let (page, _, svg) = drawn(21.0);
        assert!(!page.contains("Dotted lines") && !svg.contains(">best play<"), "{settings}");
    }
}

#[test]
fn exploration_and_evaluation_stand_beside_the_curves() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "pong-mini", &[("spectral", 15.0), ("popart", -9.0)]);
    let (summary, page, markdown) = report(root.path(), ReportOptions::default());
    let told = "at the end ε, the share of random actions, was 0.05. There was no separate evaluation.";
    assert!(page.contains(told) && markdown.contains(told));
    assert!(!summary.tasks[0].warnings.iter().any(|warning| warning.contains('ε')));
    let svg = fs::read_to_string(root.path().join("report/pong-mini-curves.svg")).unwrap();
    assert!(svg.contains("bands are 95% intervals; ε 0.05 at the end."));
    for seed in 1..=4 {
        let path = root.path().join(format!("runs/pong-mini/agents/popart-s{seed}/metrics.csv"));
        let text = fs::read_to_string(&path).unwrap();
        let rows: Vec<String> = text
            .lines()
            .enumerate()
            .map(|(row, line)| {
                let mut fields: Vec<&str> = line.split(',').collect();
                if row > 0 {
                    fields[3] = "0.574";
                }
                fields.join(",") + "\n"
            })
            .collect();
        fs::write(&path, rows.concat()).unwrap();
    }
    let (summary, page, _) = report(root.path(), ReportOptions::default());
    assert!(page.contains("ε, the share of random actions, was 0.05 (spectral) and 0.574 (popart)."));
    let warnings = summary.tasks[0].warnings.join(" ");
    assert!(warnings.contains("At the end ε of popart was still 0.574"), "{warnings}");
}

#[test]
fn settings_that_differ_are_shown_and_the_rest_is_folded() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "pong-mini", &[("spectral", 15.0), ("popart", -9.0)]);
    let path = root.path().join("runs/pong-mini/run.toml");
    let text = fs::read_to_string(&path).unwrap();
    // A setting that only one of the codecs has.
    fs::write(&path, text.replace("learning_rate = 0.0005", "learning_rate = 0.0005\nbase = 2.0")).unwrap();
    let (_, page, markdown) = report(root.path(), ReportOptions::default());
    let settings = &page[at(&page, "<h3>Settings</h3>")..];
    let open = &settings[..at(settings, "<details>")];
    let folded = &settings[at(settings, "<details>")..];
    assert!(open.contains("<td>learning_rate</td><td>0.0005</td><td>0.001</td>"), "{open}");
    for folded_key in ["batch", "discount", "base", "codec"] {
        assert!(!open.contains(folded_key), "{folded_key} does not tell two agents apart");
    }
    assert!(at(folded, "<td>base</td><td>2</td><td>–</td>") < at(folded, "the same for all"));
    assert!(at(folded, "the same for all") < at(folded, "<td>batch</td>"));
    assert!(markdown.contains("| learning\\_rate | 0.0005 | 0.001 |"), "{markdown}");
}
