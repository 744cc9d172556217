//! Both formats of `run.toml`: what version 0.1 wrote, and what newer versions record explicitly.

mod synthetic;

use std::fs;
use std::path::{Path, PathBuf};

use spectral_report::{ReportError, ReportOptions, Run, read_runs, write_report};
use synthetic::{member, write_run};

/// A run of three agents as version 0.1 writes it. `seed` lets several runs be merged.
fn format_1(root: &Path, name: &str, task: &str, seed: u64) -> PathBuf {
    let run = root.join(name);
    let agents = ["spectral", "clipped", "signs"]
        .map(|agent| member(agent, seed, (-10.0, 10.0, 20_000.0), 0.5, 60_000));
    write_run(&run, task, 60_000, true, &agents);
    run
}

fn edit(run: &Path, change: impl FnOnce(String) -> String) {
    let path = run.join("run.toml");
    fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
}

/// The same run in format 2, with these lines in `[task_settings]` and `[task_spec]`.
fn format_2(root: &Path, name: &str, task: &str, seed: u64, settings: &str, spec: &str) -> PathBuf {
    let run = format_1(root, name, task, seed);
    edit(&run, |text| {
        let text = text.replace("format = 1\n", "format = 2\nlog_frames = 1000\ndevice = \"auto\"\n");
        format!(
            "{text}\n[task_settings]\n{settings}\n[task_spec]\nname = \"{task}\"\nactions = [\"a\", \"b\"]\n{spec}\n"
        )
    });
    run
}

fn read(run: &Path) -> Result<Run, ReportError> {
    read_runs(&[run.to_owned()]).map(|mut runs| runs.remove(0))
}

fn page(runs: &[Run], out: &Path) -> Result<String, ReportError> {
    let options = ReportOptions { title: "Formats".into(), out: out.to_owned(), ..Default::default() };
    Ok(fs::read_to_string(write_report(runs, &options)?.html).unwrap())
}

#[test]
fn a_task_of_ones_own_has_the_axis_that_its_spec_says() {
    let root = tempfile::tempdir().unwrap();
    let run = format_2(root.path(), "own", "double-or-nothing", 1, "coins = 3", "frames_per_step = 4");
    let run = read(&run).unwrap();
    assert_eq!(run.frames_per_step, 4);
    let page = page(&[run], &root.path().join("report")).unwrap();
    assert!(page.contains("below, agent steps of 4 frames") && page.contains("\"steps\":4"));
}

#[test]
fn the_spec_wins_over_the_name_and_the_frame_skip() {
    let root = tempfile::tempdir().unwrap();
    let run = format_2(root.path(), "a", "atari/pong", 1, "frame_skip = 2", "frames_per_step = 5");
    assert_eq!(read(&run).unwrap().frames_per_step, 5);
    let run = format_2(root.path(), "b", "atari/pong", 1, "", "frames_per_step = 0");
    let error = read(&run).unwrap_err().to_string();
    assert!(error.contains("frames_per_step is 0") && error.contains("run.toml"), "{error}");
}

#[test]
fn files_of_version_0_1_still_read() {
    let root = tempfile::tempdir().unwrap();
    for (task, skip, expected) in [
        ("pong-mini", "", 1),
        ("pong-mini", "frame_skip = 3\n", 3),
        ("ponglantis", "frame_skip = 1\n", 4),
        ("atari/boxing", "", 4),
    ] {
        let run = format_1(root.path(), "old", task, 1);
        edit(&run, |text| text.replace("format = 1\n", &format!("format = 1\n{skip}")));
        let run = read(&run).unwrap();
        assert_eq!(run.frames_per_step, expected, "{task}, {skip:?}");
        let seeing: Vec<bool> = run.agents.iter().map(|agent| agent.sees_true_rewards).collect();
        assert_eq!(seeing, [true, false, true], "only the codec called `clipped` clips");
    }
}

#[test]
fn a_format_of_the_future_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let run = format_1(root.path(), "future", "pong-mini", 1);
    edit(&run, |text| text.replace("format = 1\n", "format = 3\n"));
    let error = read(&run).unwrap_err().to_string();
    assert!(error.contains("format 3 is not known") && error.contains("formats 1 to 2"), "{error}");
}

#[test]
fn agents_that_do_not_see_true_rewards_are_marked_whatever_their_codec_is_called() {
    let root = tempfile::tempdir().unwrap();
    let run = format_2(root.path(), "own", "pong-mini", 1, "", "frames_per_step = 1");
    edit(&run, |text| {
        let text = text.replace("codec = \"signs\"\n", "codec = \"signs\"\nsees_true_rewards = false\n");
        text.replace("codec = \"clipped\"\n", "codec = \"clipped\"\nsees_true_rewards = true\n")
    });
    let page = page(&[read(&run).unwrap()], &root.path().join("report")).unwrap();
    assert!(page.contains("The errors of signs are of"), "the own codec is marked");
    let finding = page.split("counted for each seed: ").nth(1).expect("the finding");
    let finding = finding.split("</li>").next().unwrap();
    assert!(finding.contains("spectral at") && finding.contains("clipped at"), "{finding}");
    assert!(!finding.contains("signs"), "{finding}");
}

#[test]
fn runs_of_both_formats_merge_if_their_task_settings_agree() {
    let root = tempfile::tempdir().unwrap();
    let old = format_1(root.path(), "old", "pong-mini", 1);
    edit(&old, |text| {
        text.replace("format = 1\n", "format = 1\nobservation = \"planes\"\nreward_scale = 1.0\n")
    });
    let settings = "observation = \"planes\"\nreward_scale = 1.0";
    let new = format_2(root.path(), "new", "pong-mini", 2, settings, "frames_per_step = 1");
    let runs = [read(&old).unwrap(), read(&new).unwrap()];
    assert_eq!(runs[0].options["observation"], runs[1].options["observation"]);
    page(&runs, &root.path().join("report")).unwrap();
    let other = settings.replace("planes", "vector");
    let other = format_2(root.path(), "other", "pong-mini", 3, &other, "frames_per_step = 1");
    let error = page(&[read(&old).unwrap(), read(&other).unwrap()], &root.path().join("report")).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("observation") && error.contains("planes") && error.contains("vector"), "{error}");
}

#[test]
fn settings_of_a_task_of_ones_own_are_compared_and_shadow_nothing() {
    let root = tempfile::tempdir().unwrap();
    // The run's own `device` affects rounding only; the task's setting of the same name decides the result.
    let make = |name: &str, seed: u64, device: &str| {
        let settings = format!("device = \"{device}\"");
        read(&format_2(root.path(), name, "robot", seed, &settings, "frames_per_step = 1")).unwrap()
    };
    let [first, same, other] = [make("a", 1, "arm"), make("b", 2, "arm"), make("c", 3, "leg")];
    assert_eq!(
        (first.options["device"].as_str(), first.options["task_settings.device"].as_str()),
        ("auto", "arm")
    );
    page(&[first.clone(), same], &root.path().join("report")).unwrap();
    let error = page(&[first, other], &root.path().join("report")).unwrap_err().to_string();
    assert!(error.contains("task_settings.device"), "{error}");
}

#[test]
fn runs_are_found_four_folders_deep_and_no_deeper() {
    let root = tempfile::tempdir().unwrap();
    let deep = root.path().join("1/2/3");
    format_1(&deep, "4", "pong-mini", 1);
    assert_eq!(read_runs(&[root.path().to_owned()]).unwrap().len(), 1);
    format_1(&root.path().join("1/2/other/4"), "5", "pong-mini", 2);
    assert_eq!(read_runs(&[root.path().to_owned()]).unwrap().len(), 1, "the fifth folder is too deep");
}
