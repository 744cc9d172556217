//! Whole reports from made-up run directories.

mod synthetic;

use std::fs;
use std::path::Path;

use spectral_report::{
    ReportError, ReportOptions, ReportSummary, agent_names, read_runs, text_table, write_report,
};
use synthetic::{End, GIF, demo, member, write_clip, write_run};

fn options(out: &Path) -> ReportOptions {
    ReportOptions {
        title: "Four agents, two tasks".into(),
        out: out.to_owned(),
        baseline: Some("spectral".into()),
        ..Default::default()
    }
}

fn report(root: &Path) -> ReportSummary {
    demo(&root.join("runs"));
    let runs = read_runs(&[root.join("runs")]).unwrap();
    write_report(&runs, &options(&root.join("report"))).unwrap()
}

#[test]
fn every_file_is_written_and_none_is_left_half_done() {
    let root = tempfile::tempdir().unwrap();
    let summary = report(root.path());
    let mut names: Vec<String> = fs::read_dir(root.path().join("report"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut expected: Vec<String> =
        ["final.csv", "improvement.csv", "report.html", "report.md", "seeds.csv", "summary.json"]
            .map(str::to_owned)
            .to_vec();
    for task in ["exponential-pong-mini", "ponglantis-mini"] {
        for figure in ["curves", "curves-hours", "final", "comparison", "inside", "td-error"] {
            // Ponglantis has no player's score here.
            if (task, figure) != ("ponglantis-mini", "td-error") {
                expected.extend(["png", "svg"].map(|kind| format!("{task}-{figure}.{kind}")));
            }
        }
        for data in ["curves", "curves-hours", "profile", "inside", "td-error"] {
            if (task, data) != ("ponglantis-mini", "td-error") {
                expected.push(format!("{task}-{data}.csv"));
            }
        }
    }
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert!(summary.html.ends_with("report.html"));
    if let Ok(keep) = std::env::var("SPECTRAL_REPORT_KEEP") {
        fs::create_dir_all(&keep).unwrap();
        for name in names {
            fs::copy(root.path().join("report").join(&name), Path::new(&keep).join(&name)).unwrap();
        }
        println!("{}", text_table(&summary));
    }
}

fn number_between(text: &str, start: &str, end: &str) -> String {
    let from = text.find(start).unwrap_or_else(|| panic!("{start:?} not found")) + start.len();
    text[from..from + text[from..].find(end).unwrap()].to_owned()
}

#[test]
fn the_page_needs_nothing_from_outside_and_says_what_was_run() {
    let root = tempfile::tempdir().unwrap();
    let summary = report(root.path());
    let page = fs::read_to_string(&summary.html).unwrap();
    for outside in ["http://", "https://", "@import", "url("] {
        assert!(!page.contains(outside), "the page refers to {outside}");
    }
    assert_eq!(page.matches("src=").count(), page.matches("src=\"data:image/gif;base64,R0lGOD").count());
    assert_eq!(page.matches("data-figure=\"clip\"").count(), 2, "one film per agent that has any");
    assert!(page.contains("default-src 'none'"), "the browser is told to fetch nothing");
    for said in [
        "22 of 24",
        "AMD",
        "EPYC",
        "quick",
        "0.1.0",
        "150,000",
        "learning_rate",
        "prefers-color-scheme: dark",
    ] {
        assert!(page.contains(said), "{said} is not in the page");
    }
    assert!(page.contains("The sign of this reward is plain Pong &amp; no more."));
    let pong = number_between(&page, "id=\"exponential-pong-mini\"", "</section>");
    assert!(pong.contains("plain Pong"), "a task's remark stands in its section");
    assert!(
        pong.contains("The errors of clipped are of clipped rewards"),
        "errors of other units are marked"
    );
    assert!(page.contains("<dd>3, merged by task</dd>"));
    assert!(pong.contains("seed 1001 was stopped at 86k frames (values stopped being finite)"));
    let ponglantis = number_between(&page, "id=\"ponglantis-mini\"", "</section>");
    assert!(ponglantis.contains("seed 1002 was interrupted at 104k of 150k frames"));
    // One agent of four that stays near zero does not bend the axis for the others.
    assert!(!ponglantis.contains("symmetric log") && !pong.contains("symmetric log"));
}

#[test]
fn rows_hold_finished_seeds_only_and_words_follow_the_numbers() {
    let root = tempfile::tempdir().unwrap();
    let summary = report(root.path());
    let pong = &summary.tasks[0];
    assert_eq!(pong.task, "exponential-pong-mini");
    let order: Vec<&str> = pong.rows.iter().map(|row| row.agent.as_str()).collect();
    assert_eq!(order, ["clipped", "spectral", "popart", "compressed"], "best mean first");
    let popart = &pong.rows[2];
    assert_eq!((popart.seeds, popart.finished, popart.per_seed.len()), (3, 2, 2));
    let mean = popart.per_seed.iter().sum::<f64>() / 2.0;
    assert!((popart.mean.unwrap() - mean).abs() < 1e-12);
    for row in &pong.rows {
        let (mean, low90, high90) = (row.mean.unwrap(), row.low90.unwrap(), row.high90.unwrap());
        assert!(
            row.low95.unwrap() <= low90 && low90 <= mean && mean <= high90 && high90 <= row.high95.unwrap()
        );
    }
    assert!(pong.comparisons.iter().all(|comparison| comparison.agent == "spectral"), "the baseline leads");
    assert_eq!(pong.comparisons.len(), 3);
    let against = |name: &str| pong.comparisons.iter().find(|comparison| comparison.other == name).unwrap();
    assert!(against("clipped").high90.unwrap() < 0.0 && against("clipped").overlap90 == Some(false));
    assert!(against("compressed").low90.unwrap() > 0.0);
    let words = pong.findings.join(" ");
    assert!(words.contains("clipped has the highest mean score"), "{words}");
    assert!(words.contains("lies clearly below clipped"), "{words}");
    let accurate = pong.findings.iter().find(|finding| finding.starts_with("Player's scores")).unwrap();
    assert!(accurate.contains("popart at") && !accurate.contains("clipped"), "{accurate}");
    assert!(pong.warnings.iter().all(|warning| !warning.contains("seen to learn")), "{:?}", pong.warnings);
    assert!(pong.warnings.iter().any(|warning| warning.contains("Fewer than 5 finished seeds")));
    let table = text_table(&summary);
    assert!(table.contains("2 of 3") && table.contains("95% interval"), "{table}");
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(summary.html.with_file_name("summary.json")).unwrap())
            .unwrap();
    assert_eq!(json["tasks"][0]["rows"][2]["per_seed"].as_array().unwrap().len(), 2);
}

#[test]
fn curves_say_how_many_seeds_they_hold_and_keep_unfinished_ones_apart() {
    let root = tempfile::tempdir().unwrap();
    report(root.path());
    let csv = fs::read_to_string(root.path().join("report/exponential-pong-mini-curves.csv")).unwrap();
    let popart: Vec<Vec<&str>> = csv
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter(|row| row[0] == "popart")
        .collect();
    let finished = popart.iter().filter(|row| row[1] == "finished seeds");
    assert!(finished.clone().count() > 200);
    assert!(finished.clone().all(|row| ["1", "2"].contains(&row[6])), "three seeds never enter the mean");
    assert_eq!(finished.clone().next_back().unwrap()[2], "150000");
    let stopped: Vec<_> = popart.iter().filter(|row| row[1] == "unfinished seed 1001").collect();
    let last: u64 = stopped.last().unwrap()[2].parse().unwrap();
    assert!((85_000..=87_000).contains(&last), "its curve ends where it was stopped, not at {last}");
}

#[test]
fn the_same_runs_give_the_same_bytes() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for root in [&one, &two] {
        report(root.path());
    }
    for name in [
        "exponential-pong-mini-curves.csv",
        "final.csv",
        "exponential-pong-mini-td-error.svg",
        "ponglantis-mini-curves.png",
    ] {
        let read = |root: &tempfile::TempDir| fs::read(root.path().join("report").join(name)).unwrap();
        assert_eq!(read(&one), read(&two), "{name}");
    }
}

#[test]
fn the_same_seed_twice_is_an_error_that_names_both_directories() {
    let root = tempfile::tempdir().unwrap();
    let agents = || vec![member("spectral", 7, (0.0, 10.0, 500.0), 1.0, 20_000)];
    write_run(&root.path().join("a"), "pong-mini", 20_000, false, &agents());
    write_run(&root.path().join("b"), "pong-mini", 20_000, false, &agents());
    let runs = read_runs(&[root.path().to_owned()]).unwrap();
    let error = write_report(&runs, &options(&root.path().join("report"))).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, ReportError::Duplicate { seed: 7, .. }));
    assert!(message.contains(&format!("{}", root.path().join("a").display())), "{message}");
    assert!(message.contains(&format!("{}", root.path().join("b").display())), "{message}");
    assert!(!root.path().join("report").exists(), "nothing is written when the data are refused");
    // The same directory named twice is one run.
    let runs = read_runs(&[root.path().join("a"), root.path().join("a")]).unwrap();
    assert_eq!(runs.len(), 1);
}

#[test]
fn runs_of_another_length_are_not_averaged_with_these() {
    let root = tempfile::tempdir().unwrap();
    write_run(
        &root.path().join("a"),
        "pong-mini",
        20_000,
        false,
        &[member("spectral", 1, (0.0, 5.0, 9e3), 1.0, 20_000)],
    );
    write_run(
        &root.path().join("b"),
        "pong-mini",
        40_000,
        false,
        &[member("spectral", 2, (0.0, 5.0, 9e3), 1.0, 40_000)],
    );
    let runs = read_runs(&[root.path().to_owned()]).unwrap();
    let summary = write_report(&runs, &options(&root.path().join("report"))).unwrap();
    assert_eq!(summary.tasks.iter().map(|task| task.frames).collect::<Vec<_>>(), [20_000, 40_000]);
    assert!(root.path().join("report/pong-mini-quick-40000-curves.svg").exists());
    let warnings = summary.tasks[0].warnings.join(" ");
    assert!(warnings.contains("also run for 40k frames under protocol quick"), "{warnings}");
    let row = &summary.tasks[0].rows[0];
    assert_eq!((row.per_seed.len(), row.low90, row.high95), (1, None, None), "one seed has no interval");
    assert!(row.mean.is_some());
}

#[test]
fn nothing_finished_is_reported_without_a_mean() {
    let root = tempfile::tempdir().unwrap();
    let mut running = member("spectral", 1, (0.0, 5.0, 9e3), 1.0, 8_000);
    running.end = End::Running;
    let mut fresh = member("popart", 1, (0.0, 5.0, 9e3), 1.0, 0);
    fresh.end = End::Running;
    let run = root.path().join("run");
    write_run(&run, "pong-mini", 20_000, true, &[running, fresh]);
    fs::remove_file(run.join("agents/popart-s1/episodes.csv")).unwrap();
    let runs = read_runs(std::slice::from_ref(&run)).unwrap();
    let summary = write_report(&runs, &options(&root.path().join("report"))).unwrap();
    assert!(summary.tasks[0].rows.iter().all(|row| row.mean.is_none() && row.finished == 0));
    assert!(summary.tasks[0].comparisons.is_empty());
    assert!(summary.tasks[0].findings[0].contains("No seed has finished"));
    let page = fs::read_to_string(&summary.html).unwrap();
    assert!(page.contains("spectral (unfinished)"), "its curve is drawn and marked");
    // Killed before the first checkpoint: no state at all.
    fs::remove_file(run.join("state.toml")).unwrap();
    let runs = read_runs(&[run]).unwrap();
    assert_eq!(runs[0].agents[0].frames, runs[0].agents[0].episodes.last().unwrap().frame);
    write_report(&runs, &options(&root.path().join("report"))).unwrap();
}

#[test]
fn broken_run_directories_are_refused_with_file_line_and_reason() {
    let root = tempfile::tempdir().unwrap();
    let run = root.path().join("run");
    let whole = || {
        write_run(&run, "pong-mini", 20_000, true, &[member("spectral", 1, (0.0, 5.0, 9e3), 1.0, 20_000)]);
    };
    let refused = |file: &str, change: &dyn Fn(String) -> String| {
        whole();
        let path = run.join(file);
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
        let message = read_runs(std::slice::from_ref(&run)).unwrap_err().to_string();
        assert!(message.contains(file.rsplit('/').next().unwrap()), "{message} does not name {file}");
        message
    };
    let message = refused("run.toml", &|text| text.replace("format = 1", "format = 3"));
    assert!(message.contains("format 3 is not known"), "{message}");
    let message = refused("run.toml", &|text| text.replace("frames = 20000", "frames = \"many\""));
    assert!(message.contains("line 3"), "{message}");
    let message = refused("state.toml", &|text| text.replace("status = \"finished\"", "status = \"gone\""));
    assert!(message.contains("gone"), "{message}");
    let message = refused("state.toml", &|text| text.replace("spectral-s1", "nobody-s1"));
    assert!(message.contains("nobody-s1"), "{message}");
    let episodes = "agents/spectral-s1/episodes.csv";
    let message = refused(episodes, &|text| text.replace(",score,", ",points,"));
    assert!(message.contains("no column `score`"), "{message}");
    let message = refused(episodes, &|text| text + "5,1,1,1\n");
    assert!(message.contains("frames must not go back"), "{message}");
    let message = refused(episodes, &|text| text + "99999999,1,1");
    assert!(message.contains("cut short"), "{message}");
    let message = refused("agents/spectral-s1/td_error.csv", &|text| text + "99999999,0.5,1,1\n");
    assert!(message.contains("not a whole number"), "{message}");
    whole();
    fs::remove_file(run.join(episodes)).unwrap();
    let message = read_runs(std::slice::from_ref(&run)).unwrap_err().to_string();
    assert!(message.contains("missing"), "{message}");
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(read_runs(&[empty.path().to_owned()]), Err(ReportError::NoRuns { .. })));
    assert!(matches!(read_runs(&[empty.path().join("nowhere")]), Err(ReportError::NotThere { .. })));
    assert!(matches!(write_report(&[], &options(empty.path())), Err(ReportError::Empty)));
}

/// What `state.toml` knows of a table must still be there. Rows that came later, of a run at work or one that was killed, are read.
#[test]
fn a_table_that_contradicts_the_state_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let run = root.path().join("run");
    let mut unfinished = member("spectral", 1, (0.0, 5.0, 9e3), 1.0, 20_000);
    unfinished.end = End::Running;
    write_run(&run, "pong-mini", 40_000, true, &[unfinished]);
    let state = fs::read_to_string(run.join("state.toml")).unwrap();
    let names = ["episodes.csv", "td_error.csv"];
    let file = |name: &str| run.join("agents/spectral-s1").join(name);
    let one = |name: &&str| {
        let bytes = fs::read(file(name)).unwrap();
        format!("\"{name}\" = {{ bytes = {}, crc32 = \"{:08x}\" }}", bytes.len(), crc32fast::hash(&bytes))
    };
    let tables = format!("tables = {{ {} }}\n", names.iter().map(one).collect::<Vec<_>>().join(", "));
    fs::write(run.join("state.toml"), state + &tables).unwrap();
    let read = || read_runs(std::slice::from_ref(&run));
    let episodes = read().unwrap()[0].agents[0].episodes.len();
    for name in names {
        let whole = fs::read_to_string(file(name)).unwrap();
        let refused = |why: &str| {
            let said = read().unwrap_err().to_string();
            assert!(said.contains(name) && said.contains(why) && said.contains("state.toml"), "{said}");
        };
        let digit = whole.rfind(|c: char| c.is_ascii_digit()).unwrap();
        let other = if &whole[digit..=digit] == "9" { "8" } else { "9" };
        fs::write(file(name), format!("{}{other}{}", &whole[..digit], &whole[digit + 1..])).unwrap();
        refused("was changed");
        let row = whole.trim_end().rfind('\n').unwrap() + 1;
        fs::write(file(name), &whole[..row]).unwrap();
        refused("rows are missing");
        fs::remove_file(file(name)).unwrap();
        refused("the file is missing");
        fs::write(file(name), &whole).unwrap();
    }
    let whole = fs::read_to_string(file("episodes.csv")).unwrap();
    fs::write(file("episodes.csv"), whole + "39999,1,1,1\n39999,1,").unwrap();
    assert_eq!(read().unwrap()[0].agents[0].episodes.len(), episodes + 1);
    // Nobody appends to what has ended.
    let text = fs::read_to_string(run.join("state.toml")).unwrap();
    for ended in [
        text.replace("running", "finished"),
        text.replacen("status = \"running\"\nreason", "status = \"stopped\"\nreason", 1),
    ] {
        assert_ne!(ended, text);
        fs::write(run.join("state.toml"), ended).unwrap();
        let said = read().unwrap_err().to_string();
        assert!(said.contains("episodes.csv") && said.contains("rows were added"), "{said}");
    }
}

#[test]
fn times_that_cannot_be_and_agents_elsewhere_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let run = root.path().join("run");
    write_run(&run, "pong-mini", 20_000, false, &[member("spectral", 1, (0.0, 5.0, 9e3), 1.0, 20_000)]);
    let [state, plan] = ["state.toml", "run.toml"].map(|name| run.join(name));
    let (whole, described) = (fs::read_to_string(&state).unwrap(), fs::read_to_string(&plan).unwrap());
    let refused = |why: &str| {
        let said = read_runs(std::slice::from_ref(&run)).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    };
    for seconds in ["inf", "nan", "-5.0"] {
        let of_time = |line: &str| match line.starts_with("seconds = ") {
            true => format!("seconds = {seconds}\n"),
            false => format!("{line}\n"),
        };
        fs::write(&state, whole.lines().map(of_time).collect::<String>()).unwrap();
        refused("not a number of seconds");
    }
    fs::write(&state, &whole).unwrap();
    for id in ["../../victim/d", "a/b", "/etc"] {
        fs::write(&plan, described.replace("id = \"spectral-s1\"", &format!("id = \"{id}\""))).unwrap();
        refused("is no agent's id");
    }
    let file = fs::File::create(&plan).unwrap();
    file.set_len(1 << 30).unwrap();
    refused("far longer than it should be");
}

#[test]
fn hostile_names_stay_text() {
    let root = tempfile::tempdir().unwrap();
    let run = root.path().join("run");
    write_run(&run, "pong-mini", 20_000, false, &[member("spectral", 1, (0.0, 5.0, 9e3), 1.0, 20_000)]);
    let text = fs::read_to_string(run.join("run.toml")).unwrap();
    let text = text
        .replace("task = \"pong-mini\"", "task = \"../a</script><b>\"")
        .replace("agent = \"spectral\"", "agent = \"x</script><script>alert(1)\"");
    fs::write(run.join("run.toml"), text).unwrap();
    let out = root.path().join("report");
    let summary = write_report(&read_runs(&[run]).unwrap(), &options(&out)).unwrap();
    let page = fs::read_to_string(&summary.html).unwrap();
    assert!(!page.contains("<script>alert"), "an agent's name became markup");
    assert!(!page.contains("<b>"), "a task's name became markup");
    assert!(
        out.join("a--script--b-curves.svg").exists(),
        "{:?}",
        fs::read_dir(&out).unwrap().collect::<Vec<_>>()
    );
}

#[test]
fn where_nobody_learns_the_reader_is_told() {
    let root = tempfile::tempdir().unwrap();
    let warnings = |to: f64, seeds: u64| {
        let population: Vec<_> = (1..=seeds)
            .flat_map(|seed| [("popart", 5.0), ("spectral", to)].map(|(agent, to)| (agent, seed, to)))
            .map(|(agent, seed, to)| member(agent, seed, (10.0, to, 4e3), 1.0, 100_000))
            .collect();
        let run = root.path().join(format!("{to}-{seeds}"));
        write_run(&run, "pong-mini", 100_000, false, &population);
        let runs = read_runs(&[run]).unwrap();
        write_report(&runs, &options(&root.path().join("report"))).unwrap().tasks[0].warnings.join(" ")
    };
    let fallen = warnings(6.0, 5);
    assert!(fallen.contains("No agent was seen to learn") && fallen.contains("spectral from "), "{fallen}");
    assert!(!warnings(15.0, 5).contains("seen to learn"), "one agent that learns is enough");
    assert!(warnings(6.0, 3).contains("No agent was seen to learn"));
    // Two seeds hardly ever show that an agent has learned: that is about them.
    let few = warnings(6.0, 2);
    assert!(
        few.contains("Too few seeds to test whether any agent learned: with fewer than 3 finished seeds"),
        "{few}"
    );
    assert!(few.contains("spectral from ") && !few.contains("No agent was seen"), "{few}");
    for count in [3, 5] {
        assert!(!warnings(6.0, count).contains("fewer than 3 finished seeds"));
    }
}

/// An agent of which nothing is known has not learned for the others.
#[test]
fn an_agent_that_cannot_be_judged_hides_no_warning() {
    let root = tempfile::tempdir().unwrap();
    let warnings = |name: &str, groups: &[(&'static str, u64)], frames: u64| {
        let seeds = groups.iter().flat_map(|(agent, count)| (1..=*count).map(move |seed| (*agent, seed)));
        let population: Vec<_> =
            seeds.map(|(agent, seed)| member(agent, seed, (10.0, 6.0, 4e3), 1.0, frames)).collect();
        let run = root.path().join(name);
        write_run(&run, "pong-mini", frames, false, &population);
        let runs = read_runs(&[run]).unwrap();
        write_report(&runs, &options(&root.path().join("report"))).unwrap().tasks[0].warnings.join(" ")
    };
    let mixed = warnings("mixed", &[("popart", 5), ("spectral", 1)], 100_000);
    assert!(
        mixed.contains("No agent was seen to learn") && mixed.contains("Of spectral this says little"),
        "{mixed}"
    );
    let lone = warnings("lone", &[("spectral", 1)], 100_000);
    assert!(lone.contains("Too few seeds to test whether any agent learned"), "{lone}");
    let short = warnings("short", &[("spectral", 4)], 9_000);
    assert!(short.contains("Too few episodes to test whether any agent learned"), "{short}");
}

/// One mean has one interval, the cautious one, wherever it stands.
#[test]
fn a_mean_has_the_same_interval_everywhere() {
    let root = tempfile::tempdir().unwrap();
    let seeds = [4.0, 7.0, 9.0].into_iter().enumerate();
    let population: Vec<_> =
        seeds.map(|(seed, to)| member("spectral", seed as u64, (-10.0, to, 4e3), 0.1, 100_000)).collect();
    write_run(&root.path().join("run"), "pong-mini", 100_000, false, &population);
    let claim = "[[claim]]\ntext = \"It passes zero.\"\ntask = \"pong-mini\"\nkind = \"final_above\"\n\
                 agents = [\"spectral\"]\nvalue = 0\n";
    let claims = spectral_report::Claim::from_toml(claim, "claims").unwrap();
    let runs = read_runs(&[root.path().join("run")]).unwrap();
    let options = ReportOptions { claims, ..options(&root.path().join("report")) };
    let summary = write_report(&runs, &options).unwrap();
    let row = &summary.tasks[0].rows[0];
    for (level, low, high) in [(0.95, row.low95, row.high95), (0.90, row.low90, row.high90)] {
        let cautious = spectral_report::stats::cautious_mean(&row.per_seed, level).unwrap();
        assert_eq!((low, high), (Some(cautious.low), Some(cautious.high)));
    }
    // Student's interval of these three is 0.4 to 12.9, the bootstrap's 4 to 9.
    let judged = &summary.claims[0];
    let range = judged.reason.split("95% interval ").nth(1).unwrap().split(')').next().unwrap();
    assert!(range.starts_with("0.") && range.contains(" to 1"), "{range}");
    let page = fs::read_to_string(&summary.html).unwrap();
    let table = text_table(&summary);
    for text in [&summary.headline, &summary.tasks[0].findings[0], &judged.ours, &table] {
        assert!(text.contains(range), "{range} is not in {text}");
    }
    assert!(page.contains(&format!("data-name=\"interval\">{range}<")));
}

/// One run of one agent with one seed.
fn one(root: &Path, name: &str, seed: u64) -> std::path::PathBuf {
    let run = root.join(name);
    write_run(&run, "pong-mini", 20_000, false, &[member("spectral", seed, (0.0, 5.0, 9e3), 1.0, 20_000)]);
    run
}

fn change(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from} is not in {}", path.display());
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn runs_are_merged_only_if_nothing_but_the_seed_differs() {
    let root = tempfile::tempdir().unwrap();
    let (a, b) = (one(root.path(), "a", 1), one(root.path(), "b", 2));
    let report = || {
        let runs = read_runs(&[a.clone(), b.clone()]).unwrap();
        write_report(&runs, &options(&root.path().join("report")))
    };
    change(&b.join("run.toml"), "note = \"", "note = \"In small. ");
    let merged = report().unwrap();
    assert_eq!(merged.tasks[0].rows[0].per_seed.len(), 2, "separate runs add up");
    for page in [merged.html.clone(), merged.html.with_file_name("report.md")] {
        let words = fs::read_to_string(&page).unwrap();
        assert_eq!(
            words.matches("plain Pong").count(),
            1,
            "said once, though in both notes: {}",
            page.display()
        );
    }

    // Options of the run as a whole count as well.
    for (run, scale) in [(&a, "1.0"), (&b, "0.1")] {
        change(&run.join("run.toml"), "format = 1\n", &format!("format = 1\nreward_scale = {scale}\n"));
    }
    let message = report().unwrap_err().to_string();
    assert!(message.contains("`reward_scale` is 1 in") && message.contains("0.1 in"), "{message}");
    change(&b.join("run.toml"), "reward_scale = 0.1", "reward_scale = 1.0");

    // What one version records and another does not is said, not refused.
    change(&b.join("run.toml"), "batch = 32", "batch = 32\nnovelty = true");
    change(&b.join("run.toml"), "device = \"cpu\"", "device = \"a GPU\"");
    for (run, precision) in [(&a, "f32"), (&b, "tf32")] {
        change(&run.join("run.toml"), "format = 1\n", &format!("format = 1\nprecision = \"{precision}\"\n"));
    }
    let warnings = report().unwrap().tasks[0].warnings.join(" ");
    assert!(warnings.contains("others do not know: novelty"), "{warnings}");
    assert!(warnings.contains("different devices: a GPU and cpu"), "{warnings}");
    assert!(warnings.contains("different settings of `precision`: f32 and tf32"), "{warnings}");
}

#[test]
fn one_agent_with_two_settings_is_two_agents_named_by_what_differs() {
    let root = tempfile::tempdir().unwrap();
    // The same seed in both: the usual way to compare two settings.
    let (a, b) = (one(root.path(), "a", 1), one(root.path(), "b", 1));
    let out = options(&root.path().join("report"));
    let read = || read_runs(&[a.clone(), b.clone()]).unwrap();
    let names = || agent_names(&read(), &out);
    let change_b = |from: &str, to: &str| change(&b.join("run.toml"), from, to);
    change_b("batch = 32", "batch = 64");
    assert_eq!(names(), ["spectral-batch-32", "spectral-batch-64"]);
    let summary = write_report(&read(), &out).unwrap();
    let rows: Vec<&str> = summary.tasks[0].rows.iter().map(|row| row.agent.as_str()).collect();
    assert!(rows.contains(&"spectral-batch-32") && rows.contains(&"spectral-batch-64"), "{rows:?}");
    assert_eq!(summary.tasks[0].comparisons.len(), 1);
    let note = "spectral was trained with different settings, so it is 2 agents here: spectral-batch-32 has batch 32; \
                spectral-batch-64 has batch 64.";
    assert!(
        summary.tasks[0].warnings.iter().any(|warning| warning == note),
        "{:?}",
        summary.tasks[0].warnings
    );
    assert!(text_table(&summary).contains(note), "people who read no page are told, too");

    // A third run with the settings of the first adds a seed to it.
    let c = one(root.path(), "c", 2);
    let runs = read_runs(&[a.clone(), b.clone(), c]).unwrap();
    let summary = write_report(&runs, &out).unwrap();
    let first = summary.tasks[0].rows.iter().find(|row| row.agent == "spectral-batch-32").unwrap();
    assert_eq!(first.seeds, 2);

    // Of many differences a name would be endless, and one of them alone would mislead.
    change_b("batch = 64", "batch = 64\nx1 = 1\nx2 = 1\nx3 = 1\nx4 = 1");
    change(&a.join("run.toml"), "batch = 32", "batch = 32\nx1 = 2\nx2 = 2\nx3 = 2\nx4 = 2");
    assert_eq!(names(), ["spectral-version-1", "spectral-version-2"]);
    let warnings = write_report(&read(), &out).unwrap().tasks[0].warnings.join(" ");
    assert!(warnings.contains("spectral-version-2 has batch 64, x1 1, x2 1, x3 1 and x4 1"), "{warnings}");

    // Another codec under the same name is another agent as well.
    let (d, e) = (one(root.path(), "d", 1), one(root.path(), "e", 1));
    change(&e.join("run.toml"), "codec = \"spectral\"", "codec = \"popart\"");
    let runs = read_runs(&[d, e]).unwrap();
    assert_eq!(agent_names(&runs, &out), ["spectral-codec-spectral", "spectral-codec-popart"]);
}

/// Learning rates may differ from task to task: that is the same agent, and it keeps its name and its colour.
#[test]
fn settings_that_differ_between_tasks_only_rename_nobody() {
    let root = tempfile::tempdir().unwrap();
    let a = one(root.path(), "a", 1);
    let b = root.path().join("b");
    write_run(&b, "2048", 20_000, false, &[member("spectral", 1, (0.0, 5.0, 9e3), 1.0, 20_000)]);
    change(&b.join("run.toml"), "batch = 32", "batch = 64");
    let runs = read_runs(&[a, b]).unwrap();
    assert_eq!(agent_names(&runs, &options(root.path())), ["spectral"]);
}

#[test]
fn the_same_seed_twice_says_what_to_do() {
    let root = tempfile::tempdir().unwrap();
    let runs = read_runs(&[one(root.path(), "a", 1), one(root.path(), "b", 1)]).unwrap();
    let message = write_report(&runs, &options(&root.path().join("report"))).unwrap_err().to_string();
    assert!(message.contains("leave one of them out") && message.contains("--seeds"), "{message}");
}

#[test]
fn atari_games_have_agent_steps_human_scores_and_a_table_of_all_games() {
    let root = tempfile::tempdir().unwrap();
    let games = [("atari/boxing", 0.1, 12.1), ("atari/pong", -20.7, 14.6), ("atari/bowling", 23.1, 160.7)];
    for (task, from, to) in games {
        let members: Vec<_> = [1, 2, 3]
            .into_iter()
            .flat_map(|seed| {
                [
                    member("spectral", seed, (from, to, 2_000.0), 0.001, 40_000),
                    member("clipped", seed, (from, (from + to) / 2.0, 2_000.0), 0.001, 40_000),
                ]
            })
            .collect();
        write_run(&root.path().join("runs").join(task.replace('/', "-")), task, 40_000, false, &members);
    }
    // The option is about built-in tasks.
    change(&root.path().join("runs/atari-pong/run.toml"), "format = 1\n", "format = 1\nframe_skip = 1\n");
    let runs = read_runs(&[root.path().join("runs")]).unwrap();
    assert!(runs.iter().all(|run| run.frames_per_step == 4));
    let summary = write_report(&runs, &options(&root.path().join("report"))).unwrap();
    let row = &summary.tasks[0].rows[0];
    assert!((row.human_normalised.unwrap() - 1.0).abs() < 0.01, "{row:?}");
    assert_eq!((summary.tasks[0].task.as_str(), row.random_baseline), ("atari/bowling", Some(23.1)));
    let overall = summary.overall.as_ref().unwrap();
    assert_eq!(overall.rows[0].agent, "spectral");
    assert!(
        (overall.rows[0].iqm.value - 1.0).abs() < 0.01 && (overall.rows[1].median.value - 0.5).abs() < 0.01
    );
    assert!(overall.rows[1].optimality_gap.low95.is_some());
    let page = fs::read_to_string(&summary.html).unwrap();
    assert!(page.contains("below, agent steps of 4 frames") && page.contains("\"steps\":4"));
    assert!(page.contains("All games together") && page.contains("<th>human</th>"));
    assert_eq!(page.matches("data-figure=\"overview\"").count(), 3, "three tasks get a figure of them all");
    assert!(summary.html.with_file_name("overview.png").exists());
    let markdown = fs::read_to_string(summary.html.with_file_name("report.md")).unwrap();
    assert!(
        markdown.contains("## All games together") && markdown.contains("](atari-pong-curves.png)"),
        "{markdown}"
    );
}

#[test]
fn a_film_is_embedded_if_it_is_one_and_small_enough() {
    let root = tempfile::tempdir().unwrap();
    let run = one(root.path(), "a", 1);
    let page = || {
        let runs = read_runs(std::slice::from_ref(&run)).unwrap();
        let summary = write_report(&runs, &options(&root.path().join("report")));
        summary.map(|summary| fs::read_to_string(summary.html).unwrap()).map_err(|error| error.to_string())
    };
    assert!(!page().unwrap().contains("At play"));
    write_clip(&run, "spectral-s1", GIF);
    assert!(page().unwrap().contains("<img alt=\"spectral at play, seed 1\""));
    assert!(page().unwrap().contains("with its median seed by final score.</p>"));
    write_clip(&run, "spectral-s1", b"not a film");
    assert!(page().unwrap_err().contains("is no GIF"));
    let mut long = GIF.to_vec();
    long.resize(4 << 20, 0);
    write_clip(&run, "spectral-s1", &long);
    let page = page().unwrap();
    assert!(page.contains("too large to embed; record fewer steps") && !page.contains("<img"));
}

#[test]
fn a_film_says_how_its_seed_compares_with_the_agent() {
    let root = tempfile::tempdir().unwrap();
    let seeds = [(1, 2.0), (2, 6.0), (3, 10.0)];
    let population = seeds.map(|(seed, end)| member("spectral", seed, (end, end, 1.0), 0.001, 20_000));
    let run = root.path().join("run");
    write_run(&run, "pong-mini", 20_000, false, &population);
    write_run(&root.path().join("other"), "2048", 20_000, false, &population);
    let page = || {
        let runs = read_runs(&[run.clone(), root.path().join("other")]).unwrap();
        fs::read_to_string(write_report(&runs, &options(&root.path().join("report"))).unwrap().html).unwrap()
    };
    write_clip(&run, "spectral-s1", GIF);
    let alone = page();
    assert!(
        alone.contains("That seed was not filmed of spectral: the film is of the filmed seed nearest to it")
    );
    assert!(alone.contains("</b> seed 1; final score 2.00 (the median: 6.00)"));
    assert!(alone.contains("<dt>Run directories</dt><dd>2</dd>"), "two tasks, and nothing to merge");
    write_clip(&run, "spectral-s2", GIF);
    let two = page();
    assert!(two.contains("</b> seed 2; final") && !two.contains("That seed was not filmed"));
}

#[test]
fn the_codecs_own_statistics_are_drawn_and_written() {
    let root = tempfile::tempdir().unwrap();
    let summary = report(root.path());
    let page = fs::read_to_string(&summary.html).unwrap();
    for figure in ["inside-activity", "inside-sigma", "inside-loss_share", "inside-popart"] {
        assert_eq!(page.matches(&format!("data-figure=\"{figure}\"")).count(), 2, "{figure}, once per task");
    }
    let csv = fs::read_to_string(root.path().join("report/exponential-pong-mini-inside.csv")).unwrap();
    assert!(!csv.contains("frequency 4"), "a frequency that never was active is left out");
    let last = csv.lines().rfind(|line| line.starts_with("spectral,loss_share,frequency 3")).unwrap();
    assert_eq!(last, "spectral,loss_share,frequency 3,150000,0.25");
    assert!(csv.lines().any(|line| line.starts_with("popart,popart,μ,150000,897")), "{csv}");
}

#[test]
fn curves_against_time_hold_the_same_scores() {
    let root = tempfile::tempdir().unwrap();
    report(root.path());
    let last = |name: &str| {
        let csv = fs::read_to_string(root.path().join("report").join(name)).unwrap();
        let row = csv.lines().rfind(|line| line.starts_with("clipped,finished")).unwrap().to_owned();
        let fields: Vec<f64> = row.split(',').skip(2).map(|field| field.parse().unwrap()).collect();
        fields
    };
    let (frames, hours) =
        (last("exponential-pong-mini-curves.csv"), last("exponential-pong-mini-curves-hours.csv"));
    assert_eq!(frames[0], 150_000.0);
    assert!((hours[0] - 93.1 / 3600.0).abs() < 1e-6, "the run took 93.1 seconds: {}", hours[0]);
    assert_eq!(frames[1], hours[1], "the last point is the same");
}

#[test]
fn runs_of_unlike_lengths_can_be_read_up_to_a_common_frame() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, frames: u64, members: &[synthetic::SyntheticAgent]| {
        write_run(&root.path().join("runs").join(name), "pong-mini", frames, true, members);
    };
    let at = |seed: u64, reached: u64, end: End| {
        let mut member = member("spectral", seed, (0.0, 5.0, 9e3), 1.0, reached);
        member.end = end;
        member
    };
    write("a", 40_000, &[at(1, 40_000, End::Finished)]);
    write("b", 90_000, &[at(2, 70_000, End::Running), at(3, 20_000, End::Running)]);
    write("c", 90_000, &[at(4, 60_000, End::Stopped)]);
    write("d", 25_000, &[at(5, 25_000, End::Finished)]);
    let runs = read_runs(&[root.path().join("runs")]).unwrap();
    let options = ReportOptions { at_frames: Some(40_000), ..options(&root.path().join("report")) };
    let summary = write_report(&runs, &options).unwrap();
    assert_eq!(summary.tasks.len(), 1, "all lengths are one experiment now");
    let row = &summary.tasks[0].rows[0];
    assert_eq!((row.seeds, row.finished), (5, 3), "three of the five seeds got as far as that");
    let csv = fs::read_to_string(root.path().join("report/pong-mini-curves.csv")).unwrap();
    let last = csv.lines().filter_map(|line| line.split(',').nth(2)?.parse::<u64>().ok()).max();
    assert_eq!(last, Some(40_000));
    let page = fs::read_to_string(&summary.html).unwrap();
    assert!(
        page.contains("read up to 40k frames only")
            && page.contains("seed 4 on pong-mini was stopped later, at 60k")
    );
    let seeds = fs::read_to_string(root.path().join("report/seeds.csv")).unwrap();
    assert!(seeds.contains("spectral,5,unfinished,25000"), "{seeds}");
    // It was not interrupted: it was planned shorter.
    let words = summary.tasks[0].warnings.join(" ");
    assert!(words.contains("seed 5 ended as planned at 25k frames, short of the 40k"), "{words}");
    assert!(!words.contains("seed 5 was interrupted"), "{words}");
}
