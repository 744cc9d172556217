//! Plans that others wrote, folders that were moved or damaged, disks that are full, and a Slurm that refuses: what jobs do then.
//! Programs of the test's own stand in for Slurm's.
#![cfg(unix)]

mod common;

use common::*;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Two small agents, each a job of its own.
const PLANNED: &str = "--agents spectral,clipped --frames 300 --device cpu --on slurm --agents-per-job 1";

/// A folder with programs that are found before Slurm's.
struct Desk {
    place: Place,
}

impl Desk {
    fn new() -> Self {
        let desk = Desk { place: Place::new() };
        std::fs::create_dir(desk.place.path("bin")).unwrap();
        desk.program("squeue", "exit 0");
        desk
    }

    /// Puts a program there that writes down how it was called, and does this.
    fn program(&self, name: &str, script: &str) {
        let (path, log) = (self.place.path(&format!("bin/{name}")), self.log(name));
        let text = format!("#!/bin/sh\necho \"$@\" >> '{}'\n{script}\n", log.display());
        // A name that is new: a program that another test's child has open for writing cannot be started.
        let new = path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::rename(&new, &path).unwrap();
    }

    fn log(&self, name: &str) -> PathBuf {
        self.place.path(&format!("{name}.log"))
    }

    /// How a program was called.
    fn calls(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.log(name)).unwrap_or_default();
        text.lines().map(String::from).collect()
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = self.place.command(arguments);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.place.path("bin").display()));
        command.env_remove("SLURM_JOB_ID").env_remove("SLURM_RESTART_COUNT");
        command
    }

    fn run(&self, arguments: &str) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Has Slurm's queue say of a plan's only job that it has a node.
    fn queue_says_running(&self, plan: &Path, array: &str) {
        let text = format!("[[submission]]\narray = \"{array}\"\nreport = \"\"\njobs = [0]\n");
        std::fs::write(plan.join("submissions.toml"), text).unwrap();
        self.program("squeue", &format!("echo '{array}|0|RUNNING|None|n1'"));
    }

    /// The first row of a plan's table.
    fn row(&self, plan: &Path) -> serde_json::Value {
        self.run(&format!("jobs {} --json", plan.display())).json()[0].clone()
    }

    /// A plan of two jobs, not submitted.
    fn plan(&self) -> PathBuf {
        self.run(&train(&format!("{PLANNED} --no-submit"))).code(0);
        plan_in(&self.place.path("cluster"))
    }
}

fn plan_in(out: &Path) -> PathBuf {
    let entries = std::fs::read_dir(out.join("jobs")).unwrap().flatten().map(|entry| entry.path());
    entries.max().expect("a plan")
}

fn replace(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "no {from} in {text}");
    std::fs::write(file, text.replacen(from, to, 1)).unwrap();
}

fn run_of(plan: &Path, index: usize) -> PathBuf {
    let text = std::fs::read_to_string(plan.join("plan.toml")).unwrap();
    let mut runs = text.lines().filter_map(|line| line.strip_prefix("run = \""));
    plan.join("../..").join(runs.nth(index).unwrap().trim_end_matches('"'))
}

#[test]
fn a_folder_of_any_name_is_safe_in_scripts_or_refused() {
    let desk = Desk::new();
    for name in ["it's $(touch harm) `touch harm` \"x\" # é 日", "-x"] {
        let mut command = desk.command(&train("--frames 300 --on slurm --device cpu --no-submit"));
        assert_eq!(command.arg(format!("--out={name}")).output().unwrap().status.code(), Some(0), "{name}");
        let mut script = Command::new("sh");
        script.arg(plan_in(&desk.place.path(name)).join("job.sbatch")).env("SLURM_ARRAY_TASK_ID", "0");
        let ran = Ran::of(script.current_dir(desk.place.path("")).output().unwrap()).code(0);
        assert!(ran.err.contains("done after"), "{}", ran.err);
    }
    // A line of its own would be run by the shell, and Slurm could not open the log.
    for name in ["a\ntouch harm\n", "a\rb", "a\tb", "a%jb", "a\\b"] {
        let mut command = desk.command(&train("--frames 300 --on slurm --device cpu --no-submit"));
        Ran::of(command.arg(format!("--out={name}")).output().unwrap())
            .code(2)
            .says(&["cannot be written into a script", "--out"]);
        assert!(!desk.place.path(name).exists());
    }
    let bytes: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"--out=\xff\xfe");
    let mut command = desk.command(&train("--frames 300 --on slurm --device cpu --no-submit"));
    Ran::of(command.arg(bytes).output().unwrap()).code(2).says(&["cannot be written into a script"]);
    assert!(!desk.place.path("harm").exists());
}

#[test]
fn a_report_is_not_written_outside_the_folder_of_a_plan() {
    let desk = Desk::new();
    let plan = desk.plan();
    desk.run(&format!("job run {} 0", plan.display())).code(0);
    let outside = desk.place.path("outside").display().to_string();
    let mut name = "name = \"exponential-pong-mini\"".to_string();
    for other in ["../../outside", &outside, "..", ".", "", "a/b", "a/", "a\\nb"] {
        let wrong = format!("name = \"{other}\"");
        replace(&plan.join("plan.toml"), &name, &wrong);
        name = wrong;
        for command in ["job report", "jobs"] {
            desk.run(&format!("{command} {}", plan.display())).code(3).says(&["is not the name of a plan"]);
        }
    }
    assert!(!desk.place.path("outside").exists());
}

#[test]
fn one_run_that_cannot_be_read_hides_no_other() {
    let desk = Desk::new();
    let plan = desk.plan();
    let folder = plan.display().to_string();
    for index in 0..2 {
        desk.run(&format!("job run {folder} {index}")).code(0);
    }
    let file = run_of(&plan, 0).join("run.toml");
    let whole = unsealed(&std::fs::read_to_string(&file).unwrap());
    let rows = || desk.run(&format!("jobs {folder} --json")).json();
    // Cut off, and another run than the one that was planned.
    for (text, why) in [
        (whole.replace("batch = 8", "batch = "), "run.toml"),
        (whole.replace("batch = 8", "batch = 9"), "another run"),
    ] {
        std::fs::write(&file, text).unwrap();
        let rows = desk.run(&format!("jobs {folder} --json")).code(0).json();
        assert_eq!((&rows[0]["state"], &rows[1]["state"]), (&"failed".into(), &"finished".into()), "{rows}");
        assert!(rows[0]["why"].as_str().unwrap().contains(why), "{rows}");
    }
    // A job says of such a run what is wrong with it, and is not tried for ever.
    std::fs::write(&file, whole.replace("batch = 8", "batch = ")).unwrap();
    let codes: Vec<_> = (0..3).map(|_| desk.run(&format!("job run {folder} 0")).code).collect();
    assert_eq!(codes, [Some(3), Some(3), Some(7)]);
    assert_eq!(rows()[0]["state"], "gave up");
    std::fs::write(&file, whole).unwrap();
    assert_eq!(rows()[0]["state"], "finished");
}

/// What a job says of itself is written by programs on other machines, into a folder that is shared.
#[test]
fn the_table_breaks_no_line_and_tells_the_terminal_nothing() {
    let desk = Desk::new();
    let plan = desk.plan();
    desk.run(&format!("job run {} 0", plan.display())).code(0);
    std::fs::remove_dir_all(run_of(&plan, 0)).unwrap();
    let status = plan.join("status/000.toml");
    replace(&status, "state = \"finished\"", "state = \"failed\"");
    replace(&status, "reason = \"\"", "reason = \"one\\ntwo\\u001b[2J\\u0007\"");
    // Ran::of looks for escape codes.
    let ran = desk.run(&format!("jobs {}", plan.display())).code(0);
    assert_eq!(ran.out.lines().count(), 3, "{}", ran.out);
    assert!(ran.out.contains("one two"), "{}", ran.out);
}

#[test]
fn what_slurm_refuses_can_be_given_again_with_other_options() {
    let desk = Desk::new();
    desk.program(
        "sbatch",
        "case \"$(cat \"$3\")\" in *--partition=wrong*) echo invalid partition >&2; exit 1;; esac; echo 17",
    );
    let submit = |options: &str| desk.run(&train(&format!("{PLANNED} {options}")));
    submit("--partition wrong").code(2).says(&["sbatch refused: invalid partition", "nothing is submitted"]);
    submit("--partition right").code(0).says(&["submitted: array 17"]);
    submit("--partition right").code(2).says(&["planned before"]);
    // What may have been submitted keeps its plan.
    desk.program("sbatch", "echo what did you say");
    submit("--partition right --out other").code(5).says(&["which is no job", "squeue --me"]);
    assert!(plan_in(&desk.place.path("other")).join("job.sbatch").is_file());
}

#[test]
fn a_queue_that_is_silent_or_refuses_leaves_the_table() {
    let desk = Desk::new();
    desk.program("sbatch", "echo 17");
    desk.run(&train(PLANNED)).code(0);
    let plan = plan_in(&desk.place.path("cluster"));
    let folder = plan.display().to_string();
    desk.program("squeue", "exit 1");
    let ran =
        desk.run(&format!("jobs {folder}")).code(0).says(&["the queue was not asked", "without a word"]);
    assert!(!ran.err.contains("--retry"), "what the queue has is not known: {}", ran.err);
    desk.run(&format!("jobs {folder} --retry")).code(2).says(&["nothing is submitted"]);
    desk.program(
        "squeue",
        "echo '17|0|PENDING|Priority|'; echo '17|1|COMPLETED|None|n1'; head -c 5000 /dev/urandom",
    );
    let rows = desk.run(&format!("jobs {folder} --json")).json();
    assert_eq!((&rows[0]["state"], &rows[1]["state"]), (&"waiting".into(), &"not begun".into()));
    // Slurm cannot open a log in a folder that is not there.
    std::fs::remove_dir_all(plan.join("logs")).unwrap();
    desk.run(&format!("jobs {folder} --retry")).code(0).says(&["submitted: array 17 (1 job)"]);
    assert!(plan.join("logs").is_dir());
    assert!(
        desk.calls("sbatch").iter().any(|call| call.contains("--array=1 ")),
        "{:?}",
        desk.calls("sbatch")
    );
}

/// Commands that are given at the same moment submit one array, and lose none.
#[test]
fn who_submits_at_the_same_moment_submits_nothing_twice() {
    let desk = Desk::new();
    desk.program("sbatch", "sleep 1; echo $$");
    let at_once = |arguments: &str| {
        let start = |_| desk.command(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let children: Vec<_> = (0..4).map(start).collect();
        let ended = children.into_iter().map(|child| Ran::of(child.wait_with_output().unwrap()));
        let ended: Vec<Ran> = ended.collect();
        assert!(ended.iter().all(|ran| matches!(ran.code, Some(0 | 2))), "{ended:?}");
        ended.iter().filter(|ran| ran.err.contains("submitted: array")).count()
    };
    assert_eq!(at_once(&train(PLANNED)), 1);
    // An array and the report's job.
    assert_eq!(desk.calls("sbatch").len(), 2);
    // Nothing is in the queue any more, until somebody submits again.
    let (calls, plan) = (desk.log("sbatch"), plan_in(&desk.place.path("cluster")));
    let queued = r#"s/^array = "\(.*\)"/\1|0|PENDING|Priority|\n\1|1|PENDING|Priority|/p"#;
    let file = plan.join("submissions.toml");
    desk.program(
        "squeue",
        &format!(
            "[ $(wc -l < '{}') -gt 2 ] && sed -n '{queued}' '{}'; exit 0",
            calls.display(),
            file.display()
        ),
    );
    assert_eq!(at_once(&format!("jobs {} --retry", plan.display())), 1);
    assert_eq!(desk.calls("sbatch").len(), 4, "{:?}", desk.calls("sbatch"));
}

/// A colleague who looks at a plan asks for the jobs of who submitted it.
#[test]
fn the_queue_is_asked_for_the_jobs_of_whoever_submitted() {
    let desk = Desk::new();
    desk.program("sbatch", "echo 17");
    desk.run(&train(PLANNED)).code(0);
    let plan = plan_in(&desk.place.path("cluster"));
    let me = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&plan).unwrap());
    let file = plan.join("submissions.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(&format!("user = {me}\n")), "{text}");
    std::fs::write(&file, text.replace(&format!("user = {me}"), "user = 4242424")).unwrap();
    desk.program(
        "squeue",
        "case \"$*\" in *--user=*4242424*) echo '17|0|RUNNING|None|n1'; echo '17|1|PENDING|Priority|';; esac",
    );
    let retry = || desk.run(&format!("jobs {} --retry", plan.display())).code(0);
    retry().says(&["nothing to submit"]);
    assert!(desk.calls("squeue").last().unwrap().contains(&me.to_string()), "{:?}", desk.calls("squeue"));
    // Plans that an earlier version submitted do not say who it was.
    std::fs::write(&file, text.replace(&format!("user = {me}\n"), "")).unwrap();
    retry().says(&["submitted"]);
}

/// Whoever fixes what killed a job and tries again gets as many attempts as at first.
#[test]
fn a_job_that_was_killed_is_tried_as_often_as_a_new_one_after_a_retry() {
    let desk = Desk::new();
    desk.program("sbatch", "echo 17");
    let planned = "--frames 1000000000 --set checkpoint_seconds=3600 --device cpu --on slurm --no-submit";
    desk.run(&train(planned)).code(0);
    let plan = plan_in(&desk.place.path("cluster"));
    let status = || std::fs::read_to_string(plan.join("status/000.toml")).unwrap_or_default();
    let killed = |attempt: u64| {
        let mut child = desk.command(&format!("job run {} 0", plan.display())).spawn().unwrap();
        let begun = format!("attempts = {attempt}\n");
        wait_until("an attempt", || status().contains(&begun) || child.try_wait().unwrap().is_some());
        assert!(child.try_wait().unwrap().is_none(), "it was not tried: {}", status());
        child.kill().unwrap();
        child.wait().unwrap();
    };
    (1..=3).for_each(killed);
    desk.run(&format!("jobs {} --retry", plan.display())).code(0).says(&["submitted: array 17"]);
    (4..=6).for_each(killed);
    desk.run(&format!("job run {} 0", plan.display())).code(7).says(&["3 attempts in a row"]);
}

/// A node on which jobs end at once would be given all of them.
#[test]
fn a_node_that_lacks_a_gpu_is_kept_for_a_while() {
    let desk = Desk::new();
    desk.program("scontrol", "echo JobId=5 JobState=RUNNING Reason=None");
    let pixels = "train --task pong-mini --set observation=pixels --set network=nature --set replay=2000";
    desk.run(&format!("{pixels} --device cuda --on slurm --no-submit")).code(0);
    let plan = plan_in(&desk.place.path("cluster"));
    let mut command = desk.command(&format!("job run {} 0", plan.display()));
    command.env("SLURM_JOB_ID", "5").env("CUDA_VISIBLE_DEVICES", "");
    let said = desk.place.path("said");
    let mut child = command.stderr(std::fs::File::create(&said).unwrap()).spawn().unwrap();
    wait_until("the job to keep its node", || {
        std::fs::read_to_string(&said).unwrap().contains("cannot train on this node, which it keeps for 60 s")
    });
    assert!(child.try_wait().unwrap().is_none() && desk.calls("scontrol").is_empty());
    let status = std::fs::read_to_string(plan.join("status/000.toml")).unwrap();
    assert!(status.contains("state = \"failed\"") && status.contains("turned_away = 1\n"), "{status}");
    // It is at work on nothing, and says why.
    desk.queue_says_running(&plan, "5");
    let row = desk.row(&plan);
    assert_eq!((&row["state"], &row["frames_per_second"]), (&"running".into(), &serde_json::Value::Null));
    let why = row["why"].as_str().unwrap();
    assert!(why.contains("the last attempt: ") && why.contains("cuda"), "{row}");
    // Asked to stop, it does not keep the node any longer.
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert!(desk.calls("scontrol").contains(&"requeue 5".to_string()), "{:?}", desk.calls("scontrol"));
}

/// Its scripts lead to where it was, where a copy may lie still.
#[test]
fn a_plan_that_was_moved_submits_no_jobs_of_the_old_folder() {
    let desk = Desk::new();
    desk.program("sbatch", "echo 17");
    let old = desk.plan();
    std::fs::rename(desk.place.path("cluster"), desk.place.path("moved")).unwrap();
    let plan = plan_in(&desk.place.path("moved"));
    let retry = || desk.run(&format!("jobs {} --retry", plan.display()));
    retry().code(2).says(&["job.sbatch: its --chdir is", "moved"]);
    assert!(desk.calls("sbatch").is_empty());
    for script in ["job.sbatch", "report.sbatch"] {
        let path = plan.join(script);
        let here = plan.canonicalize().unwrap().display().to_string();
        let there = here.replace("/moved/", "/cluster/");
        assert!(old.ends_with(plan.file_name().unwrap()));
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap().replace(&there, &here)).unwrap();
    }
    retry().code(0).says(&["submitted"]);
    // A job needs nothing of where the plan was.
    desk.run(&format!("job run {} 0", plan.display())).code(0);
}

/// Nothing that an attempt could say of itself can be written: the job is queued again nevertheless, but not for ever.
#[test]
fn a_job_that_can_write_no_status_is_queued_again_a_few_times() {
    let desk = Desk::new();
    let plan = desk.plan();
    desk.program("scontrol", "echo JobId=5 JobState=RUNNING Reason=None");
    let status = plan.join("status");
    std::fs::remove_dir(&status).unwrap();
    std::fs::write(&status, "in the way").unwrap();
    let attempt = |restarts: &str| {
        let mut command = desk.command(&format!("job run {} 0", plan.display()));
        command.env("SLURM_JOB_ID", "5").env("SLURM_RESTART_COUNT", restarts);
        Ran::of(command.output().unwrap())
    };
    let requeued = || desk.calls("scontrol").iter().filter(|call| *call == "requeue 5").count();
    attempt("0").code(3).says(&["error: ", "status", "queued again"]);
    assert_eq!(requeued(), 1);
    attempt("3").code(3).says(&["not queued again"]);
    assert_eq!(requeued(), 1);
    // An empty folder that a copy has left behind is in nobody's way.
    std::fs::remove_file(&status).unwrap();
    attempt("3").code(0);
    assert_eq!(std::fs::read_dir(&status).unwrap().count(), 1);
}

/// Runs are shared: somebody may have taken one further than a plan has it, or be about to.
#[test]
fn a_job_ends_where_its_own_plan_does() {
    let desk = Desk::new();
    let plan = |frames: u64| {
        let arguments = format!("--frames {frames} --device cpu --on slurm --no-submit");
        desk.run(&train(&arguments)).code(0);
        let entries = std::fs::read_dir(desk.place.path("cluster/jobs")).unwrap().flatten();
        let says = format!("frames = {frames}\n");
        let mut plans = entries.map(|entry| entry.path());
        plans.find(|plan| std::fs::read_to_string(plan.join("plan.toml")).unwrap().contains(&says)).unwrap()
    };
    let (short, run) = (plan(300), |plan: &Path| run_of(plan, 0));
    let job = |plan: &Path| desk.run(&format!("job run {} 0", plan.display()));
    job(&short).code(0);
    // As it is when somebody has begun to take it to 900, and was killed.
    let middle = plan(600);
    let file = run(&middle).join("run.toml");
    let text = unsealed(&std::fs::read_to_string(&file).unwrap());
    assert!(text.contains("\nframes = 300\n"), "{text}");
    std::fs::write(&file, text.replace("\nframes = 300\n", "\nframes = 900\n")).unwrap();
    assert_eq!(desk.row(&short)["state"], "finished");
    let row = desk.row(&middle);
    assert_eq!((&row["state"], &row["done"]), (&"not begun".into(), &0.5.into()), "{row}");
    job(&middle).code(0);
    assert_eq!(frames(&run(&middle)), 600);
    assert!(std::fs::read_to_string(&file).unwrap().contains("\nframes = 600\n"));
    // Past both plans, it is finished for both.
    desk.run(&format!("resume {} --frames 900", run(&middle).display())).code(0);
    for plan in [&short, &middle] {
        let row = desk.row(plan);
        assert_eq!((&row["state"], &row["done"]), (&"finished".into(), &1.0.into()), "{row}");
        assert!(row["why"].as_str().unwrap().contains("another end by now: 900 frames"), "{row}");
        job(plan).code(0).says(&["is finished"]);
    }
    assert_eq!(frames(&run(&middle)), 900);
}

/// What an attempt said of itself long ago is not true of whoever works on its run now.
#[test]
fn the_table_tells_the_jobs_own_work_from_that_of_others() {
    let desk = Desk::new();
    desk.program("scontrol", "echo JobId=5 JobState=COMPLETING Reason=None");
    desk.run(&train("--frames 1000000000 --set checkpoint_seconds=0.05 --device cpu --on slurm --no-submit"))
        .code(0);
    let plan = plan_in(&desk.place.path("cluster"));
    let mut command = desk.command(&format!("job run {} 0", plan.display()));
    let job = command.env("SLURM_JOB_ID", "5").spawn().unwrap();
    let run = run_of(&plan, 0);
    wait_until("a checkpoint", || run.join("run.toml").exists() && frames(&run) > 0);
    let row = desk.row(&plan);
    assert_eq!((&row["state"], &row["why"]), (&"running".into(), &"".into()), "{row}");
    assert!(row["where"].as_str().unwrap().ends_with("slurm 5"), "{row}");
    // As `scancel` does it.
    signal(&job, "TERM");
    Ran::of(job.wait_with_output().unwrap()).code(130).says(&["Slurm ends this job itself"]);
    let row = desk.row(&plan);
    assert_eq!(row["state"], "stopped");
    let why = row["why"].as_str().unwrap();
    assert!(why.contains("asked to stop, and saved") && why.contains("was cancelled"), "{row}");
    // Somebody goes on with it by hand.
    let other = desk.command(&format!("resume {}", run.display())).spawn().unwrap();
    let who = format!("process {} on this machine", other.id());
    // Between its lock and its claim, it is at work without a name.
    wait_until("the other process", || desk.row(&plan)["why"].as_str().unwrap().contains(&who));
    let row = desk.row(&plan);
    assert_eq!(row["state"], "running");
    assert_eq!(row["why"], format!("another process works on it: {who}"));
    assert_eq!((&row["where"], &row["frames_per_second"]), (&"".into(), &serde_json::Value::Null), "{row}");
    // The job is started anew, and has a node on which it waits.
    desk.queue_says_running(&plan, "17");
    let row = desk.row(&plan);
    assert_eq!((&row["state"], &row["where"]), (&"waiting".into(), &"n1 slurm 17_0".into()), "{row}");
    assert_eq!(row["why"], format!("waits for {who}, which works on its run"));
    signal(&other, "TERM");
    Ran::of(other.wait_with_output().unwrap()).code(130);
}

#[test]
fn settings_that_a_run_keeps_are_told() {
    let desk = Desk::new();
    let planned = |further: &str| {
        desk.run(&train(&format!("--device cpu --on slurm --set checkpoint_seconds=10 {further}"))).code(0)
    };
    desk.run(&train("--device cpu --on slurm --no-submit --frames 300")).code(0);
    let plan = plan_in(&desk.place.path("cluster"));
    desk.run(&format!("job run {} 0", plan.display())).code(0);
    let kept = "runs that go on keep their own checkpoint_seconds = 60";
    let further = planned("--frames 600 --dry-run").out;
    assert!(further.contains(kept) && further.matches("keep their own").count() == 1, "{further}");
    planned("--frames 600 --no-submit").says(&[kept]);
    let new = planned("--frames 600 --seeds 7..8 --dry-run").out;
    assert!(!new.contains("keep their own"), "{new}");
}

#[test]
fn a_run_is_no_folder_for_plans() {
    let desk = Desk::new();
    desk.run(&train("--frames 300 --device cpu --out run")).code(0);
    let before = snapshot(&desk.place.path("run"));
    for what in ["--no-submit", "--dry-run"] {
        let command = train(&format!("--frames 300 --device cpu --on slurm --out run {what}"));
        desk.run(&command).code(2).says(&["run is a run", "choose another"]);
    }
    assert_same(&snapshot(&desk.place.path("run")), &before);
}

#[test]
fn a_table_where_slurm_is_missing_says_where_to_ask() {
    let desk = Desk::new();
    let plan = desk.plan();
    desk.queue_says_running(&plan, "17");
    let mut command = desk.command(&format!("jobs {}", plan.display()));
    let ran = Ran::of(command.env("PATH", desk.place.path("nowhere")).output().unwrap()).code(0);
    ran.says(&["the queue was not asked: 'squeue' was not found", "on machines of the Slurm cluster"]);
}
