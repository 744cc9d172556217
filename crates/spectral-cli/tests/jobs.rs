//! Plans for a cluster and their jobs, without a scheduler: what is planned, attempts, and what becomes of them.
#![cfg(unix)]

mod common;

use common::*;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Three agents with two seeds on two tasks.
const TINY: &str = r#"# Three agents on two tasks.
agents = ["spectral", "popart", "clipped"]
seeds = 2
frames = 6_000
log_frames = 500
hidden = 16
batch = 8
replay = 1_500
learning_starts = 200
target_period = 300
epsilon_frames = 2_000
checkpoint_seconds = 1

[[task]]
name = "exponential-pong-mini"

[[task]]
name = "ponglantis-mini"
"#;

/// A folder with the experiment in it.
fn place() -> Place {
    place_with(6_000)
}

fn place_with(frames: u64) -> Place {
    let place = Place::new();
    std::fs::write(place.path("tiny.toml"), TINY.replace("6_000", &frames.to_string())).unwrap();
    place
}

/// Writes a plan without submitting it, and returns its folder.
fn plan(place: &Place, further: &str) -> PathBuf {
    let on = if further.contains("--on") { "" } else { "--on slurm --device cpu" };
    place.run(&format!("reproduce tiny.toml {on} --no-submit {further}")).code(0).says(&["not submitted"]);
    plans(place).pop().expect("a plan")
}

fn plans(place: &Place) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place.path("reproduce/jobs")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn job(place: &Place, plan: &Path, index: usize) -> Ran {
    place.run(&format!("job run {} {index}", plan.display()))
}

fn rows(place: &Place, plan: &Path) -> Vec<serde_json::Value> {
    let ran = place.run(&format!("jobs {} --json", plan.display()));
    ran.json().as_array().unwrap().clone()
}

fn states(place: &Place, plan: &Path) -> Vec<String> {
    rows(place, plan).iter().map(|row| row["state"].as_str().unwrap().to_string()).collect()
}

/// Weights and metrics of every agent below a folder, whichever population trained it.
fn all_results(runs: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    for task in std::fs::read_dir(runs).unwrap().flatten() {
        for run in std::fs::read_dir(task.path()).unwrap().flatten() {
            for (name, bytes) in results(&run.path()) {
                let name = format!("{}/{name}", task.file_name().to_string_lossy());
                assert!(found.insert(name.clone(), bytes).is_none(), "{name} is there twice");
            }
        }
    }
    found
}

#[test]
fn jobs_in_any_order_are_the_same_to_the_bit_as_a_figure_made_here() {
    let place = place();
    place.run("reproduce tiny.toml --calibrate 0 --out whole").code(0);
    let plan = plan(&place, "--agents-per-job 4");
    // Six runs a task in jobs of equal size.
    let planned = rows(&place, &plan);
    let sizes: Vec<usize> = planned.iter().map(|row| row["agents"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [3, 3, 3, 3]);
    assert!(states(&place, &plan).iter().all(|state| state == "not begun"));
    for index in [2, 0, 3, 1] {
        job(&place, &plan, index).code(0);
    }
    job(&place, &plan, 2).code(0).says(&["is finished"]);
    assert!(states(&place, &plan).iter().all(|state| state == "finished"));
    assert_same(&all_results(&place.path("reproduce/runs")), &all_results(&place.path("whole/runs")));
    place.run(&format!("job report {}", plan.display())).code(0);
    assert!(place.path("reproduce/tiny/report.html").is_file());
    // All of it is there now, for either way of making it.
    place.run("reproduce tiny.toml --on slurm --device cpu --dry-run").code(0);
    place.run("reproduce tiny.toml --on slurm --device cpu").code(0).says(&["everything is there"]);
    let here = place.run("reproduce tiny.toml --dry-run --json --calibrate 0").code(0);
    assert_eq!(here.json()["populations"], 0);
}

#[test]
fn a_plan_that_was_begun_is_kept_as_it_was() {
    let place = place();
    let asked = "reproduce tiny.toml --on slurm --device cpu --no-submit";
    place
        .run(&format!("{asked} --agents-per-job 6"))
        .code(0)
        .says(&["submit report.sbatch too", "does not see in the queue what is submitted by hand"]);
    let plan = plan(&place, "--agents-per-job 6 --time 2:00:00 --partition gpu --sbatch=--account=me");
    let script = std::fs::read_to_string(plan.join("job.sbatch")).unwrap();
    for line in [
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        "#SBATCH --signal=B:TERM@120",
        "#SBATCH --time=2:00:00",
        "#SBATCH --partition=gpu",
        "#SBATCH --account=me",
    ] {
        assert!(script.lines().any(|own| own == line), "no {line} in {script}");
    }
    let last = script.lines().last().unwrap();
    assert!(last.starts_with("exec /") && last.ends_with("\"$SLURM_ARRAY_TASK_ID\""), "{last}");
    assert!(!script.contains("gres"), "{script}");
    // Submitted, it is not written again.
    let submitted = plan.join("submissions.toml");
    std::fs::write(&submitted, "[[submission]]\narray = \"1\"\nreport = \"2\"\njobs = [0, 1]\n").unwrap();
    let again = "reproduce tiny.toml --on slurm --device cpu --no-submit --agents-per-job 6";
    place.run(again).code(2).says(&["planned before", "--retry"]);
    std::fs::remove_file(&submitted).unwrap();
    // What the user changes afterwards changes no job.
    std::fs::write(place.path("tiny.toml"), TINY.replace("hidden = 16", "hidden = 32")).unwrap();
    job(&place, &plan, 0).code(0);
    let run = rows(&place, &plan)[0].clone();
    assert_eq!((&run["state"], &run["done"]), (&"finished".into(), &1.0.into()));
    // The report names what is missing.
    place.run(&format!("job report {}", plan.display())).code(0);
    let page = std::fs::read_to_string(place.path("reproduce/tiny/report.html")).unwrap();
    assert!(
        page.contains("Not there yet") && page.contains("ponglantis-mini"),
        "nothing is said to be missing"
    );
    assert!(!plans(&place).iter().any(|path| path.file_name().unwrap().to_string_lossy().starts_with('.')));
}

/// A partition that does not exist is what happens first on a new cluster: with the right one, the same command goes on.
#[test]
fn a_plan_that_was_not_submitted_is_written_anew() {
    let place = place();
    let command = "reproduce tiny.toml --on slurm --device cpu --agents-per-job 6";
    let mut refused = place.command(&format!("{command} --partition gup"));
    // There is no sbatch.
    refused.env("PATH", place.path("nowhere"));
    let refused = Ran::of(refused.output().expect("the command starts")).code(2);
    refused.says(&["sbatch", "nothing is submitted", "other options"]);
    let first = plans(&place);
    let script = || std::fs::read_to_string(first[0].join("job.sbatch")).unwrap();
    assert!(script().contains("partition=gup"));
    place.run(&format!("{command} --partition gpu --cpus-per-job 3 --no-submit")).code(0);
    assert_eq!(plans(&place), first, "one plan, and nothing beside it");
    assert!(script().contains("partition=gpu\n") && script().contains("cpus-per-task=3"), "{}", script());
    let kept = std::fs::read_to_string(first[0].join("plan.toml")).unwrap();
    assert!(kept.contains("cpus = 3"), "{kept}");
    job(&place, &first[0], 0).code(0);
}

/// Two plans of the same agents would train them twice, or keep a node waiting for another one.
#[test]
fn what_a_plan_trains_is_not_planned_again() {
    let place = place();
    let first = plan(&place, "--agents-per-job 6");
    let command = "reproduce tiny.toml --on slurm --device cpu --no-submit";
    let refused = |further: &str| {
        let ran = place.run(&format!("{command} {further}")).code(2);
        ran.says(&[
            "spectral-s1 on exponential-pong-mini",
            "is not finished",
            "--retry",
            "remove that folder",
        ]);
    };
    // More seeds, while nothing of the first is there; other sizes of jobs; one task of two.
    refused("--seeds 3");
    refused("--agents-per-job 3");
    refused("--tasks exponential-pong-mini");
    assert_eq!(plans(&place).len(), 1);
    // Other seeds and other settings are other runs.
    for other in ["--seeds 3..4", "--set learning_rate=1e-3", "--out other"] {
        place.run(&format!("{command} {other}")).code(0);
    }
    // Half of it is finished: what is left is the first plan's still.
    job(&place, &first, 0).code(0);
    place.run(command).code(2).says(&["spectral-s1 on ponglantis-mini", "is not finished"]);
    // More seeds of what is finished may be planned.
    place.run(&format!("{command} --seeds 5,1 --tasks exponential-pong-mini")).code(0).says(&["3 of 6 runs"]);
    // Whoever gave the first one up removes it.
    std::fs::remove_dir_all(&first).unwrap();
    let before = plans(&place);
    place.run(command).code(0);
    let second = plans(&place).into_iter().find(|plan| !before.contains(plan)).expect("a new plan");
    // The same runs, taken further, would hold a node until this plan has trained them.
    let further = format!("{command} --frames 7000");
    let name = second.file_name().unwrap().to_string_lossy().into_owned();
    place.run(&further).code(2).says(&["spectral-s1 on ponglantis-mini", "is not finished", &name]);
    job(&place, &second, 0).code(0);
    place.run(&further).code(0);
}

#[test]
fn killed_and_interrupted_jobs_go_on_to_the_same_bits() {
    let place = place_with(frames_in(24.0, 6));
    place.run("reproduce tiny.toml --calibrate 0 --out whole --tasks ponglantis-mini").code(0);
    let plan = plan(&place, "--tasks ponglantis-mini");
    let run = place.path("reproduce/runs/ponglantis-mini");
    let run = || std::fs::read_dir(&run).into_iter().flatten().flatten().next().map(|entry| entry.path());
    let mut disturbed = 0;
    for sitting in 0..6 {
        let before = run().map_or(0, |run| frames(&run));
        let mut child = place.start(&format!("job run {} 0", plan.display()));
        wait_until("progress", || {
            run().is_some_and(|run| frames(&run) > before) || child.try_wait().unwrap().is_some()
        });
        if child.try_wait().unwrap().is_some() {
            break;
        }
        // The progress may have been the end.
        let state = states(&place, &plan);
        if state == ["finished"] {
            child.wait().unwrap();
            break;
        }
        assert_eq!(state, ["running"]);
        match sitting % 2 {
            0 => child.kill().unwrap(),
            // Schedulers say it twice.
            _ => (0..2).for_each(|_| signal(&child, "TERM")),
        }
        let ran = Ran::of(child.wait_with_output().unwrap());
        let state = states(&place, &plan);
        if state == ["finished"] {
            break;
        }
        let expected = if sitting % 2 == 0 { "failed" } else { "stopped" };
        assert_eq!(state, [expected], "{ran:#?}");
        disturbed += 1;
    }
    assert!(disturbed >= 2, "it was done before it could be disturbed");
    job(&place, &plan, 0).code(0);
    assert_same(&all_results(&place.path("reproduce/runs")), &all_results(&place.path("whole/runs")));
}

#[test]
fn a_job_that_is_started_twice_is_done_once() {
    let place = place();
    let plan = plan(&place, "--tasks exponential-pong-mini");
    let start = || place.start(&format!("job run {} 0", plan.display()));
    let children: Vec<_> = (0..3).map(|_| start()).collect();
    let ran: Vec<Ran> =
        children.into_iter().map(|c| Ran::of(c.wait_with_output().unwrap()).code(0)).collect();
    let trained = ran.iter().filter(|ran| ran.err.contains("attempt 1")).count();
    assert_eq!(trained, 1, "{ran:#?}");
    assert_eq!(
        ran.iter().filter(|ran| ran.err.contains("waits: ") || ran.err.contains("is finished")).count(),
        2
    );
    let logs = std::fs::read_dir(plan.join("status")).unwrap().count();
    assert_eq!(logs, 1);
}

#[test]
fn a_job_that_does_not_get_further_is_given_up_until_somebody_tries_again() {
    let place = place_with(frames_in(20.0, 6));
    let plan = plan(&place, "--tasks exponential-pong-mini --set checkpoint_seconds=0.05");
    let mut child = place.start(&format!("job run {} 0", plan.display()));
    let runs = place.path("reproduce/runs/exponential-pong-mini");
    let run = || std::fs::read_dir(&runs).into_iter().flatten().flatten().next().map(|entry| entry.path());
    wait_until("a checkpoint", || run().is_some_and(|run| frames(&run) > 0));
    child.kill().unwrap();
    child.wait().unwrap();
    // A checkpoint that cannot be read: a failure that no attempt mends, but that might be the disk's.
    let run = run().unwrap();
    let damaged: Vec<PathBuf> = checkpoints(&run);
    let whole: Vec<Vec<u8>> = damaged.iter().map(|path| std::fs::read(path).unwrap()).collect();
    damaged.iter().for_each(|path| std::fs::write(path, b"no checkpoint").unwrap());
    let codes: Vec<_> = (0..4).map(|_| job(&place, &plan, 0).code).collect();
    assert_eq!(codes, [Some(3), Some(3), Some(7), Some(7)]);
    let row = rows(&place, &plan).remove(0);
    assert_eq!(row["state"], "gave up");
    assert!(row["why"].as_str().unwrap().contains("3 attempts"), "{row}");
    place.run(&format!("jobs {}", plan.display())).code(7).says(&["--retry"]);
    for (path, bytes) in damaged.iter().zip(&whole) {
        std::fs::write(path, bytes).unwrap();
    }
    job(&place, &plan, 0).code(7);
    // Nothing was submitted to Slurm, so there is none to ask; the count is forgotten before it is tried.
    place.run(&format!("jobs {} --retry", plan.display()));
    job(&place, &plan, 0).code(0);
}

#[test]
fn plans_that_are_none_are_refused() {
    let place = place();
    let plan = plan(&place, "--tasks exponential-pong-mini");
    let file = plan.join("plan.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    let folder = plan.display().to_string();
    place.run("jobs nowhere").code(2).says(&["is not a job plan", "--on slurm"]);
    for near in ["reproduce", "reproduce/jobs"] {
        let name = plan.file_name().unwrap().to_string_lossy().into_owned();
        place.run(&format!("jobs {near}")).code(2).says(&["the newest plan there is", &name]);
    }
    job(&place, &plan, 7).code(2).says(&["has no job 7", "0 to 0"]);
    let line = good.lines().find(|line| line.starts_with("run = ")).unwrap().to_string();
    for (from, to, code, word) in [
        (line.as_str(), "run = \"../../escaped\"", 3, "is not the path of a run"),
        (line.as_str(), "run = \"/tmp/escaped\"", 3, "is not the path of a run"),
        ("format = 1", "format = 99", 3, "another version"),
        ("index = 0", "index = 5", 3, "numbered"),
        ("[[job]]", "[[nothing]]", 3, "jobs"),
        ("kind = \"reproduce\"", "kind = \"x\"", 3, "no kind of plan"),
        ("format = 1", "format = ", 3, "is not a job plan"),
    ] {
        std::fs::write(&file, good.replacen(from, to, 1)).unwrap();
        place.run(&format!("job run {folder} 0")).code(code).says(&[word]);
        place.run(&format!("jobs {folder}")).code(code).says(&[word]);
    }
    std::fs::write(&file, &good).unwrap();
    // Somebody changed what is to be trained.
    let settings = plan.join("jobs/000.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text.replace("batch = 8", "batch = 9")).unwrap();
    job(&place, &plan, 0).code(3).says(&["is not what was planned"]);
    std::fs::write(&settings, text).unwrap();
    // Another run lies where the job's belongs.
    let run = good.lines().find_map(|line| line.strip_prefix("run = \"")).unwrap().trim_end_matches('"');
    place.train(&format!("--frames 300 --out reproduce/{run}")).code(0);
    job(&place, &plan, 0).code(7).says(&["holds another run"]);
    for wrong in [
        "--agents-per-job 0",
        "--gpu-memory 80",
        "--time=",
        "--time 3",
        "--time 0:banana",
        "--sbatch=--time=00:02:00",
        "--sbatch=account",
        "--sbatch=--clusters=east",
        "--on pbs",
        "--agents-per-job 2 --live",
    ] {
        let on = if wrong.starts_with("--on") { "" } else { "--on slurm" };
        place.run(&format!("reproduce tiny.toml {on} --device cpu --no-submit --out other {wrong}")).code(2);
    }
    place.run("reproduce tiny.toml --agents-per-job 3").code(2).says(&["--on"]);
    assert!(!place.path("other").exists());
}

/// From a machine without a GPU, for one that has 139 GiB.
#[test]
fn plans_are_for_the_device_that_is_asked_for() {
    let place = Place::new();
    std::fs::write(
        place.path("pixels.toml"),
        TINY.replace("hidden = 16", "observation = \"pixels\"\nnetwork = \"nature\"")
            .replace("replay = 1_500", "replay = 1_000_000"),
    )
    .unwrap();
    let outline = |further: &str| {
        let ran = place.run(&format!("reproduce pixels.toml --on slurm --dry-run --json {further}")).code(0);
        ran.json()
    };
    let whole = outline("--device cuda --gpu-memory 139G");
    assert_eq!(whole["jobs"].as_array().unwrap().len(), 2);
    assert_eq!(whole["each"]["gpus"], 1);
    let bytes = |plan: &serde_json::Value, key: &str| plan["jobs"][0][key].as_u64().unwrap();
    // Six times a million screens of 84 × 84.
    assert!(bytes(&whole, "device_memory_bytes") > 6_000_000 * 7056);
    assert!(bytes(&whole, "memory_bytes") < 2 << 30);
    // What a small card cannot hold is planned for main memory.
    let small = outline("--device cuda --gpu-memory 16G");
    assert!(bytes(&small, "device_memory_bytes") < 16 << 30);
    assert!(bytes(&small, "memory_bytes") > 4_000_000 * 7056);
    // Nobody asked for a GPU.
    let cpu = outline("--device cpu");
    assert_eq!((&cpu["each"]["gpus"], bytes(&cpu, "device_memory_bytes")), (&0.into(), 0));
    // Large networks get one without being told.
    assert_eq!(outline("")["each"]["gpus"], 1);
    assert!(!place.path("reproduce").exists());
}

/// A node without the GPU that a job was planned for does not train it on the CPU instead, and gives it up only when many attempts came
/// to such nodes.
#[test]
fn a_job_for_a_gpu_is_not_trained_without_one() {
    let place = Place::new();
    let pixels = "train --task pong-mini --set observation=pixels --set network=nature --set replay=2000 --on slurm --no-submit";
    for device in ["auto", "cuda"] {
        place.run(&format!("{pixels} --device {device} --out {device}")).code(0);
        let plan = plan_in(&place, device);
        let settings = std::fs::read_to_string(plan.join("jobs/000.toml")).unwrap();
        assert!(settings.contains("\ndevice = \"cuda:0\"\n"), "{settings}");
        let attempt = || {
            let mut command = place.command(&format!("job run {} 0", plan.display()));
            Ran::of(command.env("CUDA_VISIBLE_DEVICES", "").output().expect("the command starts"))
        };
        for _ in 1..20 {
            attempt().code(5).says(&["error: cuda:0 cannot be used"]);
            assert_eq!(states(&place, &plan), ["failed"]);
        }
        attempt().code(7).says(&["given up: 20 attempts in a row", "cuda:0 cannot be used"]);
        assert_eq!(states(&place, &plan), ["gave up"]);
        assert!(!place.path(device).join("runs").exists());
    }
    // What the CPU trains is settled, too.
    place.train("--frames 300 --on slurm --no-submit --out small").code(0);
    let settings = std::fs::read_to_string(plan_in(&place, "small").join("jobs/000.toml")).unwrap();
    assert!(settings.contains("\ndevice = \"cpu\"\n"), "{settings}");
}

/// The status of a job is written by whoever holds its run, and by nobody else.
#[test]
fn what_is_wrong_with_a_job_that_another_process_has_is_not_said_in_its_status() {
    let place = Place::new();
    place.train("--frames 1000000000 --device cpu --on slurm --no-submit").code(0);
    let plan = plan_in(&place, "cluster");
    let status = plan.join("status/000.toml");
    let first = place.start(&format!("job run {} 0", plan.display()));
    wait_until("the first attempt", || status.exists());
    let settings = plan.join("jobs/000.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text.replace("batch = 8", "batch = 9")).unwrap();
    let mut command = place.command(&format!("job run {} 0", plan.display()));
    let second = command.stderr(std::fs::File::create(place.path("said")).unwrap()).spawn().unwrap();
    wait_until("the second to say what is wrong", || {
        std::fs::read_to_string(place.path("said")).unwrap().contains("is not what was planned")
    });
    let said = std::fs::read_to_string(place.path("said")).unwrap();
    assert!(said.contains("job 0 waits: "), "{said}");
    assert_eq!(states(&place, &plan), ["running"]);
    // It waits until the first has ended.
    signal(&first, "TERM");
    Ran::of(first.wait_with_output().unwrap()).code(130);
    assert_eq!(second.wait_with_output().unwrap().status.code(), Some(3));
    let text = std::fs::read_to_string(&status).unwrap();
    assert!(text.contains("state = \"failed\"") && text.contains("attempts = 2"), "{text}");
}

/// The paper's figure 5 on cards with 139 GiB: six jobs of twenty.
#[test]
fn figure_5_is_six_jobs_of_twenty() {
    if !oracles() {
        return skipped("a plan of real games; set SPECTRAL_ORACLES=1 to run it");
    }
    let place = Place::new();
    let python = std::env::var("SPECTRAL_PYTHON").unwrap_or("python3".into());
    let find = "import ale_py, pathlib; print(pathlib.Path(ale_py.__file__).parent / 'roms')";
    let found = std::process::Command::new(python).args(["-c", find]).output().expect("Python with ale-py");
    let folder = String::from_utf8(found.stdout).unwrap();
    let run = |arguments: &str| {
        let mut command = place.command(arguments);
        command.env("SPECTRAL_ROMS", place.path("roms"));
        Ran::of(command.output().expect("the command starts"))
    };
    run(&format!("roms install --from {}", folder.trim())).code(0);
    let asked = "reproduce fig5 --on slurm --device cuda --agents-per-job 20 --gpu-memory 139G --dry-run";
    // 139 GiB, in the unit of what stands beside it.
    let shown = run(asked).code(0).out;
    assert!(shown.contains(" of 149.3 GB on the GPU"), "{shown}");
    let plan = run(&format!("{asked} --json")).code(0).json();
    let jobs = plan["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 6);
    for job in jobs {
        assert_eq!(job["agents"], 20);
        let device = job["device_memory_bytes"].as_u64().unwrap();
        let host = job["memory_bytes"].as_u64().unwrap();
        assert!((120 << 30..=139 << 30).contains(&device), "{job}");
        // Twenty million screens, on the card or beside it.
        assert!(device + host > 20_000_000 * 7056, "{job}");
        assert!(host < 32 << 30, "{job}");
    }
}

/// `timeout` and schedulers signal again and again while they wait; only a second Ctrl-C is a wish to lose something.
#[test]
fn signals_that_come_again_later_lose_no_checkpoint() {
    let place = Place::new();
    let slow = "train --task pong-mini --set observation=pixels --set batch=32 --set replay=400 --set learning_starts=50 \
                --set update_period=1 --set log_frames=10 --frames 100000 --out slow";
    let mut child = place.start(slow);
    let metrics = place.path("slow/agents/spectral-s1/metrics.csv");
    wait_until("some updates", || {
        std::fs::read_to_string(&metrics).is_ok_and(|text| text.lines().any(|line| line.starts_with("60,")))
    });
    // Stopped for longer than the time in which signals are taken for one wish: what comes meanwhile is all there when it goes on.
    for (name, wait) in [("TERM", 50), ("STOP", 2200), ("TERM", 0), ("HUP", 0), ("CONT", 0), ("TERM", 0)] {
        if name == "CONT" {
            assert!(child.try_wait().unwrap().is_none(), "it had saved before it could be stopped");
        }
        let sent =
            std::process::Command::new("sh").arg("-c").arg(format!("kill -{name} {}", child.id())).output();
        assert!(sent.is_ok());
        std::thread::sleep(Duration::from_millis(wait));
    }
    Ran::of(child.wait_with_output().unwrap()).code(130).says(&["interrupted and saved"]);
    assert_eq!(checkpoints(&place.path("slow")).len(), 1);
}

/// The only plan in a folder of runs and reports.
fn plan_in(place: &Place, out: &str) -> PathBuf {
    let mut plans = std::fs::read_dir(place.path(out).join("jobs")).expect("a plan").flatten();
    let plan = plans.next().expect("a plan").path();
    assert!(plans.next().is_none());
    plan
}

#[test]
fn a_sweep_in_jobs_has_the_table_of_a_sweep_made_here() {
    let place = Place::new();
    let small: String = SMALL.iter().map(|pair| format!(" --set {pair}")).collect();
    let sweep = format!(
        "sweep --task pong-mini --vary learning_rate=1e-4,1e-3 --vary n_step=1,3 --seeds 2 --frames 2000 --device cpu{small}"
    )
    .replace(" --set batch=8", "");
    let here = place.run(&format!("{sweep} --calibrate 0 --json --out here")).code(0).json();
    place.run(&format!("{sweep} --on slurm --no-submit --agents-per-job 3 --out there")).code(0);
    let plan = plan_in(&place, "there");
    let none = place.run(&format!("job report {}", plan.display())).code(2);
    let none = none.says(&["holds no run of", "its jobs have begun none yet"]);
    assert!(!none.err.contains("--report-only"), "{}", none.err);
    let count = rows(&place, &plan).len();
    assert_eq!(count, 3, "eight runs in jobs of three at most");
    (0..count).for_each(|index| drop(job(&place, &plan, index).code(0)));
    let there = place.run(&format!("job report {} --json", plan.display())).code(0).json();
    assert_eq!(there["variants"], here["variants"]);
    assert!(there["variants"].as_array().is_some_and(|variants| variants.len() == 4), "{there}");
}

#[test]
fn a_run_in_jobs_is_the_same_as_one_made_here() {
    let place = Place::new();
    place.train("--agents spectral,clipped --seeds 2 --frames 3000 --device cpu --out whole").code(0);
    let arguments =
        "--agents spectral,clipped --seeds 2 --frames 3000 --device cpu --on slurm --agents-per-job 2";
    place.train(&format!("{arguments} --dry-run")).code(0);
    assert!(!place.path("cluster").exists());
    place.train(&format!("{arguments} --no-submit")).code(0);
    let plan = plan_in(&place, "cluster");
    (0..2).for_each(|index| drop(job(&place, &plan, index).code(0)));
    let runs = place.path("cluster/runs/exponential-pong-mini");
    let mut found = std::collections::BTreeMap::new();
    std::fs::read_dir(runs).unwrap().flatten().for_each(|run| found.extend(results(&run.path())));
    assert_same(&found, &results(&place.path("whole")));
    place.run(&format!("job report {}", plan.display())).code(0);
    assert!(place.path("cluster/exponential-pong-mini/report.html").is_file());
}

#[test]
fn what_an_option_of_sbatch_asks_for_is_shown() {
    let place = place();
    let asked = "reproduce tiny.toml --on slurm --device cpu --dry-run --agents-per-job 6";
    let plain = place.run(asked).code(0).out;
    assert!(plain.contains("  each gets  6 cores, ") && !plain.contains("planned"), "{plain}");
    let with = |options: &str| place.run(&format!("{asked} {options}")).code(0);
    let shown = with("--sbatch=--mem=500 --sbatch=--account=me").out;
    assert!(
        shown.contains("  each gets  that, but for --mem=500 (524.3 MB of memory), which --sbatch asks for"),
        "{shown}"
    );
    assert_eq!(with("--sbatch=--mem=500 --json").json()["each"]["memory_bytes"], 500 << 20);
}

/// A job begins in another folder than the one where it was planned, and perhaps in the environment of another shell.
#[test]
fn scripts_tell_jobs_where_the_roms_are() {
    let place = place();
    let asked = "reproduce tiny.toml --on slurm --device cpu --no-submit";
    Ran::of(place.command(asked).env("SPECTRAL_ROMS", "my roms").output().unwrap()).code(0);
    let plan = plans(&place).pop().expect("a plan");
    let there = place.path("").canonicalize().unwrap().join("my roms");
    for name in ["job.sbatch", "report.sbatch"] {
        let script = std::fs::read_to_string(plan.join(name)).unwrap();
        let export = format!("\nexport SPECTRAL_ROMS='{}'\nexec ", there.display());
        assert!(script.contains(&export), "{script}");
    }
    // Without it, nothing is said of it.
    Ran::of(place.command(asked).env_remove("SPECTRAL_ROMS").output().unwrap()).code(0);
    let script = std::fs::read_to_string(plans(&place).pop().unwrap().join("job.sbatch")).unwrap();
    assert!(!script.contains("SPECTRAL_ROMS"), "{script}");
}
