//! What every command prints, for people and for programs.

mod common;

use common::*;

#[test]
fn every_table_is_valid_json_on_demand() {
    let place = Place::new();
    place.train("--agents spectral,clipped --frames 2500 --out run").code(0);
    for command in [
        "tasks",
        "agents",
        "agents --settings",
        "doctor",
        "decompose 6.5 -3 0 1e300",
        "status run",
        "eval run --episodes 1",
        "report run",
    ] {
        let people = place.run(command).code(0);
        assert!(people.out.lines().count() > 1, "{command}: {}", people.out);
        let json = place.run(&format!("{command} --json")).code(0).json();
        let filled = json.as_array().or(json["tasks"].as_array()).or(json["gpus"].as_array());
        let filled = filled.is_some_and(|rows| command == "doctor" || !rows.is_empty());
        assert!(filled, "{command}: {json}");
    }
    let tasks = place.run("tasks --json").json();
    let names: Vec<&str> = tasks.as_array().unwrap().iter().map(|t| t["task"].as_str().unwrap()).collect();
    for task in ["exponential-pong-mini", "ponglantis-mini", "2048", "investor", "catch-scale"] {
        assert!(names.contains(&task), "{names:?}");
    }
}

/// A report of a run's beginning lies beside the one of the whole run.
#[test]
fn a_report_at_some_frame_overwrites_no_other() {
    let place = Place::new();
    place.train("--frames 2500 --out run").code(0);
    place.run("report run").code(0);
    let whole = std::fs::read(place.path("run/report/report.html")).unwrap();
    place.run("report run --at-frames 2000").code(0);
    assert!(place.path("run/report-at-2000/report.html").exists());
    assert!(std::fs::read(place.path("run/report/report.html")).unwrap() == whole);
}

#[test]
fn decompose_draws_figure_2() {
    let place = Place::new();
    let ran = place.run("decompose 6.5").code(0);
    assert!(ran.out.contains("0.875"), "{}", ran.out);
    let json = place.run("decompose 6.5 --json --max-frequency 3").json();
    assert_eq!(json[0]["elements"], serde_json::json!([1.0, 1.0, 0.875, 0.0]));
    assert_eq!(json[0]["recovered"], 6.5);
    let ran = place.run("decompose 100 --max-frequency 2").code(0);
    assert!(ran.out.contains("saturated"), "{}", ran.out);
    for bad in ["decompose nan", "decompose inf", "decompose x", "decompose 1 --base 1", "decompose"] {
        place.run(bad).code(2);
    }
    place.run("decompose 1 --max-frequency 99999999999").code(2);
}

#[test]
fn completions_know_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(&format!("completions {shell}")).code(0).out;
        for command in
            ["demo", "train", "resume", "status", "eval", "report", "tasks", "agents", "decompose", "doctor"]
        {
            assert!(script.contains(command), "{shell}: no {command}");
        }
    }
    place.run("completions tcl").code(2);
    place.run("--help").code(0);
    place.run("").code(2);
}

#[test]
fn evaluation_is_deterministic_and_ends() {
    let place = Place::new();
    // 2048 and Catch end for different reasons; an untrained greedy player must not play for ever.
    for task in ["2048", "catch-scale", "exponential-pong-mini"] {
        let ran = place.run(&format!(
            "train --task {task} --frames 300 --set batch=4 --set replay=100 --set hidden=8 --set learning_starts=50 --out {task}"
        ));
        ran.code(0);
        let first = place.run(&format!("eval {task} --episodes 2 --epsilon 0 --json")).code(0);
        assert_eq!(
            first.out,
            place.run(&format!("eval {task} --episodes 2 --epsilon 0 --json")).out,
            "{task}"
        );
        let random = place.run(&format!("eval {task} --episodes 2 --epsilon 1 --json")).code(0);
        assert_eq!(random.json()[0]["episodes"], 2);
    }
    let some = "train --task catch-scale --frames 200 --seeds 2 --set batch=4 --set replay=100 --set hidden=8 --out some";
    place.run(some).code(0);
    std::fs::remove_file(place.path("some/agents/spectral-s1/model.safetensors")).unwrap();
    let one = place
        .run("eval some --episodes 1 --json")
        .code(0)
        .says(&["left out: spectral-s1", "spectral-s2 has played (1 of 1)"]);
    assert_eq!((one.json().as_array().unwrap().len(), one.json()[0]["seed"].as_u64()), (1, Some(2)));
    std::fs::remove_file(place.path("some/agents/spectral-s2/model.safetensors")).unwrap();
    place.run("eval some --episodes 1").code(2).says(&["spectral-s1 has no model yet"]);
    for bad in ["--episodes 0", "--epsilon 2", "--epsilon nan", "--epsilon x"] {
        place.run(&format!("eval 2048 {bad}")).code(2);
    }
}

#[test]
fn a_reader_who_has_gone_and_a_full_output_are_no_panic() {
    let place = Place::new();
    for command in ["tasks", "agents --settings", "decompose 1 2 3", "completions bash", "doctor --json"] {
        let mut child = place.start(command);
        drop(child.stdout.take());
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(0), "{command}: {ran:?}");
        if let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") {
            let output = place.command(command).stdout(full).output().unwrap();
            Ran::of(output).code(3).says(&["cannot write"]);
        }
    }
    // Nor does training stop because nobody reads what it says.
    let mut child = place.start(&train("--frames 2500 --out deaf"));
    drop(child.stderr.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn every_task_and_way_of_seeing_it_trains() {
    let place = Place::new();
    let tasks = place.run("tasks --json").json();
    let mut ways = 0;
    for task in tasks.as_array().unwrap() {
        let name = task["task"].as_str().unwrap();
        for seen in task["observations"].as_array().unwrap().iter().map(|o| o.as_str().unwrap()) {
            let (frames, agent) = match seen {
                // The large network is slow, and the same for all: three tasks will do.
                "pixels" if !["pong-mini", "reverse-ponglantis-mini", "catch-scale"].contains(&name) => {
                    continue;
                }
                "pixels" => (24, "rich"),
                "planes" => (120, "spectral"),
                _ => (400, "rich"),
            };
            let suffix = if agent == "rich" { ".toml" } else { "" };
            let ran = place.run(&format!(
                "train --task {name} --set observation={seen} --agents {agent}{suffix} --frames {frames} \
                 --set batch=4 --set replay=100 --set learning_starts=20 --set hidden=8 --out {name}-{seen}"
            ));
            ran.code(0);
            let metrics = place.path(&format!("{name}-{seen}/agents/{agent}-s1/metrics.csv"));
            let last = std::fs::read_to_string(metrics).unwrap().lines().last().unwrap().to_string();
            let updates: u64 = last.split(',').nth(1).unwrap().parse().unwrap();
            assert!(updates > 0, "{name} by {seen}: {last}");
            ways += 1;
        }
    }
    assert!(ways > 12, "{ways}");
    place.run("train --task investor --set observation=pixels --out x").code(2).says(&["vector"]);
    assert!(!place.path("x").exists());
}

#[test]
fn the_demo_ends_in_a_table_and_a_report() {
    let place = Place::new();
    let ran = place.run("demo --seeds 1 --frames 300 --set hidden=8 --set batch=4 --set replay=200").code(0);
    assert!(ran.out.contains("spectral") && ran.out.contains("report:"), "{}", ran.out);
    assert!(place.path("demo/report/index.html").exists() || ran.out.contains(".html"), "{}", ran.out);
    let before = snapshot(&place.path("demo"));
    place.run("demo --seeds 1").code(2).says(&["demo exists already"]);
    assert_same(&snapshot(&place.path("demo")), &before);
}

/// The same command once more trains what is missing and leaves what is done as it is.
#[test]
fn an_interrupted_demo_goes_on() {
    let place = Place::new();
    let command = "demo --seeds 1 --frames 300 --set hidden=8 --set batch=4 --set replay=200";
    place.run(command).code(0);
    let (first, second) = (place.path("demo/exponential-pong-mini"), place.path("demo/ponglantis-mini"));
    let (done, wanted) = (snapshot(&first), results(&second));
    // As if it had been stopped between its halves.
    std::fs::remove_dir_all(&second).unwrap();
    std::fs::remove_dir_all(place.path("demo/report")).unwrap();
    assert!(place.run(command).code(0).out.contains("report:"));
    assert_same(&snapshot(&first), &done);
    assert_same(&results(&second), &wanted);
    // As if it had been killed within the second half.
    let state = second.join("state.toml");
    let text = std::fs::read_to_string(&state).unwrap();
    std::fs::write(&state, unsealed(&text).replace("status = \"finished\"", "status = \"running\"")).unwrap();
    place.run(command).code(0).says(&["ponglantis-mini: done"]);
    assert_same(&results(&second), &wanted);
}

/// What a terminal of this size shows of a command, with what moves the cursor taken out; `None` where there is no `script`.
#[cfg(target_os = "linux")]
fn on_a_terminal(place: &Place, size: (usize, usize), arguments: &str) -> Option<Vec<String>> {
    let (columns, rows) = size;
    let command = format!("stty rows {rows} cols {columns}; {} {arguments}", env!("CARGO_BIN_EXE_spectral"));
    let output = std::process::Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(place.0.path())
        .env("TERM", "xterm")
        .stdin(std::process::Stdio::null())
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && !said.contains("panicked at"), "{said}");
    assert!(said.contains('\x1b'), "no bars: {said}");
    Some(screen(&said, columns, rows))
}

/// What a terminal of this size has shown in the end, line by line, what has scrolled away included.
#[cfg(target_os = "linux")]
fn screen(said: &str, columns: usize, height: usize) -> Vec<String> {
    let mut lines = vec![vec![' '; columns]];
    let (mut row, mut column) = (0_usize, 0_usize);
    let mut rest = said.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' if rest.next_if_eq(&'[').is_some() => {
                let mut number = String::new();
                let letter = loop {
                    match rest.next() {
                        Some(letter) if letter.is_ascii_alphabetic() => break letter,
                        Some(digit) => number.push(digit),
                        None => break 'm',
                    }
                };
                let times = number.parse().unwrap_or(1);
                let top = lines.len().saturating_sub(height);
                match letter {
                    'A' => row = row.saturating_sub(times).max(top),
                    'B' => row = (row + times).min(lines.len() - 1),
                    'G' => column = times - 1,
                    'K' if number == "2" => lines[row].fill(' '),
                    'K' => lines[row][column.min(columns)..].fill(' '),
                    'J' => {
                        lines[row][column.min(columns)..].fill(' ');
                        lines[row + 1..].iter_mut().for_each(|line| line.fill(' '));
                    }
                    // Colours, and whether the cursor is seen.
                    _ => {}
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            c => {
                if column == columns {
                    (row, column) = (row + 1, 0);
                }
                if row == lines.len() {
                    lines.push(vec![' '; columns]);
                }
                lines[row][column] = c;
                column += 1;
            }
        }
        if row == lines.len() {
            lines.push(vec![' '; columns]);
        }
    }
    lines.into_iter().map(|line| line.into_iter().collect::<String>().trim_end().to_string()).collect()
}

/// On a terminal, training shows a line per agent, or per name where there is less room, and one of all; none is wider than the
/// terminal.
#[test]
#[cfg(target_os = "linux")]
fn a_terminal_gets_lines_that_fit() {
    let place = Place::new();
    let twelve = "--agents spectral,popart,clipped,compressed --seeds 3 --frames 1200";
    for ((columns, rows), alone) in [((80, 24), true), ((200, 50), true), ((80, 9), false), ((46, 12), false)]
    {
        let out = format!("{twelve} --out of-{columns}-by-{rows}");
        let Some(lines) = on_a_terminal(&place, (columns, rows), &train(&out)) else {
            return skipped("no `script` command, so the bars were not looked at");
        };
        // Every bar has a line of its own, and no part of one is left anywhere.
        // The note that the run is short is the last line of its plan that is there on every machine.
        let notes = lines.iter().position(|line| line.starts_with("note:")).expect("the plan's last line");
        let bars: Vec<&String> = lines[notes..].iter().filter(|line| line.starts_with("  ")).collect();
        assert_eq!(bars.len(), if alone { 13 } else { 5 }, "{columns} × {rows}: {lines:#?}");
        assert!(bars.iter().all(|line| line.chars().count() < columns), "{columns} × {rows}: {bars:#?}");
        let of = |name: &str| bars.iter().any(|line| line.trim_start().starts_with(name));
        assert_eq!(of("compressed-s3"), alone, "{columns} × {rows}: {bars:#?}");
        assert!(alone || of("compressed "), "{columns} × {rows}: {bars:#?}");
        // The line of all, at the end.
        assert!(bars.iter().any(|line| line.contains("100%")), "{columns} × {rows}: {bars:#?}");
    }
}
