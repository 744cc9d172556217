//! Slurm: the scripts of an array of jobs, what the queue says of them, and a job that hands itself back.

mod queue;
mod script;

pub use queue::{Queued, queue};
pub use script::{Options, program, quote_word};

use crate::plan::JobPlan;
use spectral_core::settings::quote;
use spectral_train::error::TrainError;
use spectral_train::store::{StoreError, read_text, write_atomically};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::process::Command;

/// What was submitted of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The array's number.
    pub array: String,
    /// The number of the job that writes the report.
    pub report: String,
    /// The jobs in it.
    pub jobs: Vec<usize>,
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
    let script = |name: &str| plan.folder().join(name).into_os_string();
    let array = format!("--array={}", ranges(jobs));
    let array = sbatch(Command::new("sbatch").args(["--parsable", &array]).arg(script("job.sbatch")))?;
    // Kept before the report's job, so that an array that runs is known whatever follows.
    let mut submission = Submission { array, report: String::new(), jobs: jobs.to_vec() };
    record(plan, &submission)?;
    let after = format!("--dependency=afterany:{}", submission.array);
    submission.report = sbatch(Command::new("sbatch").args(["--parsable", &after]).arg(script("report.sbatch")))
        .map_err(|error| TrainError::Usage(format!(
            "array {} is submitted, but not the job that writes its report: {error} (`spectral job report {}` writes it at any time)",
            submission.array,
            plan.folder().display()
        )))?;
    record(plan, &submission)?;
    Ok(submission)
}

/// Runs sbatch and returns the job's number.
fn sbatch(command: &mut Command) -> Result<String, TrainError> {
    let output = output(command)?;
    // With several clusters it is «number;cluster».
    let number = output.trim().split(';').next().unwrap_or_default().to_string();
    match number.chars().all(|c| c.is_ascii_digit()) && !number.is_empty() {
        true => Ok(number),
        false => Err(TrainError::Device(format!("sbatch answered '{}', which is no job", output.trim()))),
    }
}

/// What a program of Slurm prints.
fn output(command: &mut Command) -> Result<String, TrainError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| match e.kind() {
        ErrorKind::NotFound => TrainError::Usage(format!(
            "'{name}' was not found: submit on a machine of a Slurm cluster, or write the plan only (--no-submit)"
        )),
        _ => TrainError::Usage(format!("cannot run {name}: {e}")),
    })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(TrainError::Usage(format!(
            "{name} refused: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
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
    for Submission { array, report, jobs } in &all {
        let jobs: Vec<String> = jobs.iter().map(usize::to_string).collect();
        let _ = write!(
            text,
            "[[submission]]\narray = {}\nreport = {}\njobs = [{}]\n\n",
            quote(array),
            quote(report),
            jobs.join(", ")
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

/// Puts the job that this process is back into Slurm's queue, unless Slurm ends it already for a reason of its own: a job that a user
/// cancelled stays cancelled, and one that is preempted is requeued by Slurm itself. Called when everything is saved, because Slurm
/// then ends the process.
pub fn hand_back() -> HandBack {
    let Some(id) = own_id(|name| std::env::var(name).ok()) else { return HandBack::NoJob };
    let mut asked = Err(TrainError::Device("Slurm did not answer".into()));
    // A signal to all processes of the job may end the program that asks.
    for _ in 0..3 {
        asked = output(Command::new("scontrol").args(["show", "job", "--oneliner", &id]));
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
    match output(Command::new("scontrol").args(["requeue", &id])) {
        Ok(_) => HandBack::Requeued,
        Err(error) => HandBack::Refused(error.to_string()),
    }
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
