//! Slurm: the scripts of an array of jobs, what the queue says of them, and a job that hands itself back.

mod ask;
mod options;
mod queue;
mod script;

pub use options::Options;
pub use queue::{Queued, queue};
pub use script::program;
use spectral_core::shell::quote_path;

use crate::plan::JobPlan;
use spectral_core::settings::quote;
use spectral_train::error::TrainError;
use spectral_train::machine::user_id;
use spectral_train::store::{StoreError, read_text, write_atomically};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::process::Command;
use std::time::Duration;

/// What was submitted of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The array's number.
    pub array: String,
    /// The number of the job that writes the report.
    pub report: String,
    /// The jobs in it.
    pub jobs: Vec<usize>,
    /// Who submitted it, by number; `None` if an earlier version did.
    pub user: Option<u32>,
}

/// Writes the scripts of a plan into its folder: `job.sbatch` and `report.sbatch`. The options were [checked](Options::check).
pub fn write_scripts(plan: &JobPlan, program: &[String], options: &Options) -> Result<(), TrainError> {
    for (name, text) in [
        ("job.sbatch", script::job(plan, program, options)),
        ("report.sbatch", script::report(plan, program, options)),
    ] {
        write_atomically(&plan.folder().join(name), |out| out.write_all(text.as_bytes()))?;
    }
    Ok(())
}

/// Submits some jobs of a plan as an array, and a report that is written when they have ended, however they end. What was
/// submitted is kept in `submissions.toml`.
pub fn submit(plan: &JobPlan, jobs: &[usize]) -> Result<Submission, TrainError> {
    let script = |name: &str| plan.folder().join(name);
    for name in ["job.sbatch", "report.sbatch"] {
        let path = script(name);
        let text = read_text(&path).map_err(|e| StoreError::io(&path, "read", e))?;
        script::leads_here(&text, plan)
            .map_err(|what| TrainError::Usage(format!("{}: {what}", path.display())))?;
    }
    // Slurm starts no job whose log it cannot open, and whoever copied the plan may have left an empty folder behind.
    let logs = plan.folder().join("logs");
    std::fs::create_dir_all(&logs).map_err(|e| StoreError::io(&logs, "create", e))?;
    let array = format!("--array={}", ranges(jobs));
    let array = sbatch(Command::new("sbatch").args(["--parsable", &array]).arg(script("job.sbatch")))?;
    // Kept before the report's job, so that an array that runs is known whatever follows.
    let mut submission = Submission { array, report: String::new(), jobs: jobs.to_vec(), user: user_id() };
    record(plan, &submission)?;
    let after = format!("--dependency=afterany:{}", submission.array);
    submission.report = sbatch(Command::new("sbatch").args(["--parsable", &after]).arg(script("report.sbatch")))
        .map_err(|error| TrainError::Usage(format!(
            "array {} is submitted, but not the job that writes its report: {error} (`spectral job report {}` writes it at any time)",
            submission.array,
            quote_path(plan.folder())
        )))?;
    record(plan, &submission)?;
    Ok(submission)
}

/// Runs sbatch and returns the job's number.
fn sbatch(command: &mut Command) -> Result<String, TrainError> {
    // Without a limit: whoever ends it does not know whether the job was submitted.
    let output = ask::output(command, None)?;
    number(&output).ok_or_else(|| {
        TrainError::Device(format!(
            "sbatch answered '{}', which is no job; `squeue --me` says whether it has submitted one",
            output.trim()
        ))
    })
}

/// The number of a job in an answer of sbatch: the last line, before which a cluster's own sbatch may say what it likes. With
/// several clusters it is «number;cluster».
fn number(answer: &str) -> Option<String> {
    let number = answer.lines().map(str::trim).rfind(|line| !line.is_empty())?.split(';').next()?;
    number.chars().all(|c| c.is_ascii_digit()).then(|| number.to_string())
}

/// What was submitted of a plan, oldest first.
pub fn submissions(plan: &JobPlan) -> Result<Vec<Submission>, TrainError> {
    let path = plan.folder().join("submissions.toml");
    let text = match read_text(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io(&path, "read", e).into()),
    };
    let wrong = || TrainError::Data(format!("{} does not say what was submitted", path.display()));
    let table: toml::Table = text.parse().map_err(|_| wrong())?;
    let list = table.get("submission").and_then(toml::Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let read = |entry: &toml::Value| {
        let text = |key: &str| entry.get(key)?.as_str().map(String::from);
        let jobs = entry.get("jobs")?.as_array()?;
        let number = |n: &toml::Value| n.as_integer().and_then(|n| usize::try_from(n).ok());
        Some(Submission {
            array: text("array")?,
            report: text("report")?,
            jobs: jobs.iter().map(number).collect::<Option<_>>()?,
            user: entry
                .get("user")
                .and_then(toml::Value::as_integer)
                .and_then(|user| u32::try_from(user).ok()),
        })
    };
    list.iter().map(read).collect::<Option<_>>().ok_or_else(wrong)
}

/// Keeps a submission, in place of an earlier word on the same array.
fn record(plan: &JobPlan, submission: &Submission) -> Result<(), TrainError> {
    let mut all = submissions(plan)?;
    all.retain(|other| other.array != submission.array);
    all.push(submission.clone());
    let mut text = String::new();
    for Submission { array, report, jobs, user } in &all {
        let jobs: Vec<String> = jobs.iter().map(usize::to_string).collect();
        let _ = write!(
            text,
            "[[submission]]\narray = {}\nreport = {}\njobs = [{}]\n{}\n",
            quote(array),
            quote(report),
            jobs.join(", "),
            user.map_or_else(String::new, |user| format!("user = {user}\n"))
        );
    }
    Ok(write_atomically(&plan.folder().join("submissions.toml"), |out| out.write_all(text.as_bytes()))?)
}

/// Numbers as sbatch takes them.
///
/// ```
/// use spectral_cluster::slurm::ranges;
/// assert_eq!(ranges(&[0, 1, 2, 3, 7, 9, 10]), "0-3,7,9-10");
/// ```
pub fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |&(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

/// What became of a request to be run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandBack {
    /// This process is no job of Slurm's.
    NoJob,
    /// Slurm ends the job itself: it was cancelled, or is requeued already.
    Ending(String),
    /// The job was put back into the queue.
    Requeued,
    /// Slurm refused.
    Refused(String),
}

/// How long Slurm has to answer a question. Its own programs give up after a minute or two; one on a dead file system never does.
const PATIENCE: Duration = Duration::from_secs(150);

/// Puts the job that this process is back into Slurm's queue, unless Slurm ends it already for a reason of its own: a job that a user
/// cancelled stays cancelled, and one that is preempted is requeued by Slurm itself. Called when everything is saved, because Slurm
/// then ends the process.
pub fn hand_back() -> HandBack {
    let Some(id) = own_id(|name| std::env::var(name).ok()) else { return HandBack::NoJob };
    let scontrol = |arguments: &[&str]| ask::output(Command::new("scontrol").args(arguments), Some(PATIENCE));
    let mut asked = Err(TrainError::Device("Slurm did not answer".into()));
    // A signal to all processes of the job may end the program that asks.
    for _ in 0..3 {
        asked = scontrol(&["show", "job", "--oneliner", &id]);
        if asked.is_ok() {
            break;
        }
    }
    let text = match asked {
        Ok(text) => text,
        Err(error) => return HandBack::Refused(error.to_string()),
    };
    if let Some(reason) = script::ending(&text) {
        return HandBack::Ending(reason);
    }
    match scontrol(&["requeue", &id]) {
        Ok(_) => HandBack::Requeued,
        Err(error) => HandBack::Refused(error.to_string()),
    }
}

/// How often Slurm has started this process's job anew, as it says itself; 0 outside of Slurm.
pub fn restarts() -> u64 {
    std::env::var("SLURM_RESTART_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// What Slurm calls this process's job. A task of an array is named by the array's number and its own: the last task shares its job's
/// number with the whole array, all of which would be meant.
fn own_id(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let filled = |name: &str| variable(name).filter(|value| !value.is_empty());
    match (filled("SLURM_ARRAY_JOB_ID"), filled("SLURM_ARRAY_TASK_ID")) {
        (Some(array), Some(task)) => Some(format!("{array}_{task}")),
        _ => filled("SLURM_JOB_ID"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_in_the_last_line_that_says_anything() {
        for (answer, want) in [
            ("17\n", Some("17")),
            ("17;east\n", Some("17")),
            ("Checking your budget ...\nfine\n 18 \n\n", Some("18")),
            ("", None),
            ("\n", None),
            ("Submitted batch job 17", None),
            ("17x", None),
        ] {
            assert_eq!(number(answer).as_deref(), want, "{answer:?}");
        }
    }

    #[test]
    fn tasks_of_arrays_are_named_as_such() {
        let with = |pairs: &'static [(&str, &str)]| {
            own_id(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
        };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("SLURM_JOB_ID", "7")]).as_deref(), Some("7"));
        let task = &[("SLURM_JOB_ID", "7"), ("SLURM_ARRAY_JOB_ID", "5"), ("SLURM_ARRAY_TASK_ID", "2")];
        assert_eq!(with(task).as_deref(), Some("5_2"));
    }
}
