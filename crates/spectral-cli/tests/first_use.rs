//! What somebody meets who uses the command for the first time: plans that warn, mistakes that are answered, output that programs
//! can read and people can see.

mod common;

use common::*;
use serde_json::Value;
use std::collections::BTreeMap;

/// A run of a moment, whose only purpose is to be there.
fn tiny(place: &Place, arguments: &str) -> Ran {
    place.train(&format!("--frames 600 --set log_frames=200 {arguments}"))
}

#[test]
fn a_run_that_is_too_short_to_learn_says_so() {
    let place = Place::new();
    let plan =
        |arguments: &str| place.run(&format!("train --task catch-scale --dry-run {arguments}")).code(0);
    plan("--agents spectral,clipped --seeds 2 --frames 15000").says(&[
        "2 agents × 2 seeds, 15,000 frames each",
        "6,500 updates each; exploration ends at ε = 0.571",
        "still take 57% of the actions at random",
        "--frames 64_000 or more",
    ]);
    plan("--frames 1500").says(&["1 agent, 1,500 frames each", "nothing will be learned"]);
    let long = plan("");
    assert!(!long.err.contains("short run") && !long.err.contains("nothing will be learned"), "{}", long.err);
    // Whether there is a GPU was not asked, so nothing is said of one that may be there, and nothing at all where there can be none.
    assert!(!long.err.contains("faster there"), "{}", long.err);
    let driver = ["/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"];
    if cfg!(target_os = "linux") && !driver.iter().any(|file| std::path::Path::new(file).exists()) {
        assert!(!long.err.contains("GPU"), "{}", long.err);
    }
}

#[test]
fn what_contradicts_itself_or_does_nothing_is_refused() {
    let place = Place::new();
    tiny(&place, "--agents spectral,clipped --out run").code(0);
    let before = snapshot(place.0.path());
    for (arguments, words) in [
        ("train --task 2048 --set task=pong-mini", &["--task 2048 and --set task=pong-mini contradict"][..]),
        ("train --task 2048 --seeds 3 --set seeds=4", &["--seeds 3 and --set seeds=4"]),
        ("train --task 2048 --frames 1k --set frames=2000", &["--frames 1000 and --set frames=2000"]),
        (
            "train --task 2048 --set agent.popart.learning_rate=1",
            &["agent.popart.learning_rate", "no agent of this run"],
        ),
        (
            "play --task 2048 --set learning_rate=2",
            &["learning_rate", "settings of the task only", "2048 has"],
        ),
        ("play --task pong-mini --set observatoin=planes", &["did you mean 'observation'"]),
        ("play --task pong-mini --set task=2048", &["settings of the task only"]),
        ("play --task pong-mini --epsilon 0.5", &["--run"]),
        ("report run --baseline spectrla", &["--baseline spectrla", "did you mean 'spectral'", "clipped"]),
        ("train --task 2048 --gpu-memory 40G", &["--on"]),
        ("train --task 2048 --set network=nature", &["network", "mlp or auto", "2048"]),
        ("train --task 2048 --seeds 5..1", &["as in 1..5"]),
        ("train --task 2048 --seeds 1000000000", &["100000 seeds at most"]),
    ] {
        place.run(arguments).code(2).says(words);
    }
    assert_same(&snapshot(place.0.path()), &before);
    // Saying the same twice is no contradiction.
    place.run("train --task 2048 --frames 1k --set frames=1000 --dry-run").code(0);
}

/// One agent with two learning rates is what people compare first.
#[test]
fn two_settings_of_one_agent_are_compared() {
    let place = Place::new();
    tiny(&place, "--set learning_rate=1e-4 --out slow").code(0);
    tiny(&place, "--set learning_rate=4e-4 --out fast").code(0);
    let ran = place.run("report slow fast --json --out both").code(0).json();
    let rows = ran["tasks"][0]["rows"].as_array().unwrap();
    let mut names: Vec<&str> = rows.iter().map(|row| row["agent"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["spectral-learning_rate-1e-4", "spectral-learning_rate-4e-4"]);
    place.run("report slow fast --out both --baseline spectral-learning_rate-4e-4").code(0);
    place
        .run("report slow fast --out both --baseline spectral")
        .code(2)
        .says(&["spectral-learning_rate-1e-4"]);
}

/// The same mistake has the same exit code, whichever command it is made with.
#[test]
fn a_path_that_holds_no_run_is_wrong_usage_everywhere() {
    let place = Place::new();
    std::fs::create_dir(place.path("empty")).unwrap();
    std::fs::write(place.path("file"), "").unwrap();
    for folder in ["absent", "empty", "file"] {
        for command in ["resume", "eval", "report", "status", "watch --terminal", "play --run"] {
            place.run(&format!("{command} {folder}")).code(2).says(&[folder]);
        }
    }
    // What is wrong inside of a run is not the user's writing.
    tiny(&place, "--out run").code(0);
    std::fs::write(place.path("run/run.toml"), "task = [").unwrap();
    for command in ["resume", "eval", "report", "status", "watch --terminal", "play --run"] {
        place.run(&format!("{command} run")).code(3).says(&["run.toml"]);
    }
}

/// Keys of JSON are words that a program can use.
#[test]
fn keys_are_words() {
    fn check(value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(check),
            Value::Object(entries) => {
                for (key, value) in entries {
                    let plain = key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
                    assert!(plain && !key.is_empty(), "the key '{key}'");
                    check(value);
                }
            }
            _ => {}
        }
    }
    let place = Place::new();
    tiny(&place, "--out run").code(0);
    for command in [
        "tasks",
        "agents",
        "agents --settings",
        "doctor",
        "reproduce",
        "eval run --episodes 1",
        "status run",
        "report run",
    ] {
        check(&place.run(&format!("{command} --json")).code(0).json());
    }
    let doctor = place.run("doctor --json").json();
    assert!(doctor["threads"].as_u64().is_some_and(|threads| threads > 0), "{doctor}");
    assert!(doctor["gpus"].is_array() && doctor["folder"]["writable"] == true, "{doctor}");
}

#[test]
fn settings_can_be_read_at_eighty_columns() {
    let place = Place::new();
    let text = place.run("agents --settings").code(0).out;
    let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:#?}");
    let all = place.run("agents --settings --json").json();
    for row in all.as_array().unwrap() {
        let key = row["setting"].as_str().unwrap();
        assert!(text.contains(&format!("\n  {key} = ")), "{key} is not in the list");
    }
}

/// The events that a program was told, by their kind.
fn events(out: &str) -> BTreeMap<String, Vec<Value>> {
    let mut by_kind: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in out.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        by_kind.entry(event["event"].as_str().expect("a kind").into()).or_default().push(event);
    }
    by_kind
}

#[test]
fn a_program_is_told_all_that_happens() {
    let place = Place::new();
    let ran = place.train("--agents spectral,popart --frames 4000 --json --out run").code(0);
    let told = events(&ran.out);
    assert_eq!(told["begin"].len(), 1);
    let first: Value = serde_json::from_str(ran.out.lines().next().unwrap()).unwrap();
    assert_eq!((&first["event"], &first["agents"][1]["id"]), (&"begin".into(), &"popart-s1".into()));
    let last: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["status"]), (&"end".into(), &"finished".into()));
    assert_eq!(last["agents"][0]["frames"], 4000);
    assert!(!told["checkpoint"].is_empty());
    // Nothing is told twice, and nothing is left out.
    for agent in ["spectral-s1", "popart-s1"] {
        for (kind, table) in [("episode", "episodes.csv"), ("metrics", "metrics.csv")] {
            let rows = std::fs::read_to_string(place.path(&format!("run/agents/{agent}/{table}"))).unwrap();
            let of_agent = told[kind].iter().filter(|event| event["agent"] == agent).count();
            assert_eq!(of_agent, rows.lines().count() - 1, "{agent}: {kind}");
        }
    }
    let frames: Vec<u64> =
        told["metrics"].iter().filter_map(|event| event["values"]["frame"].as_u64()).collect();
    assert!(frames.contains(&500) && frames.contains(&4000), "{frames:?}");

    let further = place.run("resume run --frames 5000 --json").code(0);
    let told = events(&further.out);
    assert_eq!(told["end"][0]["agents"][0]["frames"], 5000);

    // A reader that goes away stops nothing.
    let mut child = place.start(&train("--frames 4000 --json --out alone"));
    drop(child.stdout.take());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
    place.train("--frames 4000 --json --on slurm --out cluster").code(2).says(&["--json"]);
}

/// A log without a terminal shows how it went.
#[test]
fn a_log_ends_with_scores() {
    let place = Place::new();
    let ran = place.train("--agents spectral,popart --frames 4000 --out run").code(0);
    let line =
        ran.err.lines().find(|line| line.starts_with("exponential-pong-mini: 100%")).expect("a last line");
    assert!(line.contains("; scores spectral ") && line.contains(", popart "), "{line}");
}

/// The end of `train --json`, the log and `status` tell one score: the mean of the last twenty episodes, of a resumed run too.
#[test]
fn a_finished_run_has_one_score_everywhere() {
    let place = Place::new();
    // Of so many episodes that the older ones do not count.
    let small =
        "--set hidden=8 --set batch=4 --set replay=100 --set update_period=64 --set checkpoint_seconds=1000";
    place.run(&format!("train --task catch-scale --frames 2000 {small} --out run")).code(0);
    for command in ["resume run --frames 6000 --json", "resume run --frames 6050 --json"] {
        let ran = place.run(command).code(0);
        let end: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
        let table = std::fs::read_to_string(place.path("run/agents/spectral-s1/episodes.csv")).unwrap();
        let scores: Vec<f64> =
            table.lines().skip(1).map(|row| row.split(',').nth(2).unwrap().parse().unwrap()).collect();
        assert!(scores.len() > 40, "{} episodes", scores.len());
        let mean = scores[scores.len() - 20..].iter().sum::<f64>() / 20.0;
        assert_eq!(end["agents"][0]["score"].as_f64(), Some(mean), "{command}");
        let status = place.run("status run --json").code(0).json();
        assert_eq!(status[0]["agents"][0]["score"].as_f64(), Some(mean), "{command}");
    }
}

#[test]
fn a_run_at_its_end_is_not_resumed_in_words() {
    let place = Place::new();
    tiny(&place, "--out run").code(0);
    let before = results(&place.path("run"));
    let ran = place.run("resume run").code(0);
    let ran = ran.says(&["at its planned end of 600 frames already", "spectral resume run --frames N"]);
    assert!(!ran.err.contains("resuming") && !ran.err.contains("done after"), "{}", ran.err);
    assert!(!ran.err.contains("trains on"), "nothing trains: {}", ran.err);
    assert_same(&results(&place.path("run")), &before);
}

#[cfg(unix)]
#[test]
fn a_folder_whose_name_is_no_text_is_trained_and_reported() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let name = std::ffi::OsStr::from_bytes(b"run-\xff");
    let run = |arguments: &str| {
        let mut command = place.command(arguments);
        command.arg(name);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        output
    };
    run(&train("--frames 600 --out"));
    run("report");
    assert!(place.0.path().join(name).join("report/report.html").is_file());
    let summary = std::fs::read_to_string(place.0.path().join(name).join("report/summary.json")).unwrap();
    assert!(
        serde_json::from_str::<Value>(&summary).unwrap()["html"].as_str().unwrap().contains("report.html")
    );
    run("status");
    run("eval --episodes 1");
}

/// A demo that was killed at its first moment left a folder with a lock and half a file: the same command begins again.
#[test]
fn a_demo_that_was_killed_at_once_begins_again() {
    let place = Place::new();
    let half = place.path("demo/exponential-pong-mini");
    let demo = "demo --frames 600 --seeds 1 --set hidden=8 --set batch=4 --set log_frames=200";
    std::fs::create_dir_all(&half).unwrap();
    std::fs::write(half.join(".lock"), "").unwrap();
    std::fs::write(half.join(".run.toml.spectral-tmp-1-0-0"), "task = ").unwrap();
    place.run(demo).code(0);
    assert!(half.join("run.toml").exists() && place.path("demo/report/report.html").exists());
    // What is somebody else's is not.
    std::fs::create_dir_all(place.path("mine/exponential-pong-mini")).unwrap();
    std::fs::write(place.path("mine/exponential-pong-mini/notes.txt"), "years of work").unwrap();
    place.run(&format!("{demo} --out mine")).code(2).says(&["mine exists already"]);
    std::fs::write(place.path("file"), "no folder").unwrap();
    place.run(&format!("{demo} --out file")).code(2).says(&["file exists already"]);
}
