//! Run directories that somebody made to do harm, or that hold what no run leaves behind.

mod synthetic;

use spectral_report::{ReportOptions, read_runs, write_report};
use std::fs;
use std::path::Path;
use synthetic::{member, write_run};

fn one_run(root: &Path, agents: &[&'static str]) {
    let members: Vec<_> = agents
        .iter()
        .flat_map(|agent| [1, 2].map(|seed| member(agent, seed, (0.0, 5.0, 9e3), 1.0, 30_000)))
        .collect();
    write_run(&root.join("run"), "pong-mini", 30_000, true, &members);
}

/// A pipe that nobody writes into keeps its reader waiting for ever.
#[cfg(unix)]
#[test]
fn pipes_in_place_of_files_are_refused_at_once() {
    use std::sync::mpsc::channel;
    use std::time::Duration;
    for name in
        ["episodes.csv", "metrics.csv", "td_error.csv", "eval.csv", "../../run.toml", "../../state.toml"]
    {
        let root = tempfile::tempdir().unwrap();
        one_run(root.path(), &["spectral"]);
        let pipe = root.path().join("run/agents/spectral-s1").join(name);
        let _ = fs::remove_file(&pipe);
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (done, wait) = channel();
        let run = root.path().join("run");
        std::thread::spawn(move || {
            let columns = spectral_report::read_columns(&pipe, true).err().map(|error| error.to_string());
            done.send((columns, read_runs(&[run]).err().map(|error| error.to_string()))).unwrap();
        });
        let (columns, report) = wait.recv_timeout(Duration::from_secs(120)).expect("it waits for ever");
        let refused = |text: &str| text.contains("it is a named pipe, not a plain file");
        for text in [columns, report] {
            assert!(text.as_deref().is_some_and(refused), "{name}: {text:?}");
        }
    }
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn no_table_of_a_report_has_a_name_that_a_spreadsheet_would_carry_out() {
    let root = tempfile::tempdir().unwrap();
    one_run(root.path(), &["=1+cmd", "@SUM(A1)", "plain"]);
    let out = root.path().join("report");
    let runs = read_runs(&[root.path().join("run")]).unwrap();
    write_report(&runs, &ReportOptions { out: out.clone(), ..Default::default() }).unwrap();
    let tables: Vec<_> =
        walk(&out).into_iter().filter(|path| path.extension().is_some_and(|e| e == "csv")).collect();
    assert!(tables.len() >= 6, "{tables:?}");
    let mut defused = 0;
    for table in tables {
        let text = fs::read_to_string(&table).unwrap();
        for field in text.lines().flat_map(|line| line.split(',')) {
            let field = field.trim_start_matches('"');
            let formula = field.starts_with(['=', '+', '-', '@']) && field.parse::<f64>().is_err();
            assert!(!formula, "{}: {field}", table.display());
            defused += usize::from(field == "'=1+cmd" || field == "'@SUM(A1)");
        }
    }
    assert!(defused >= 12, "{defused}");
    // Numbers and ordinary names are as they were.
    let seeds = fs::read_to_string(out.join("seeds.csv")).unwrap();
    assert!(seeds.contains("pong-mini,quick,30000,plain,1,finished,"), "{seeds}");
}
