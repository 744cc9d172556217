//! What Slurm's queue says of a plan's jobs.

use super::{ask, submissions};
use crate::plan::JobPlan;
use spectral_train::error::TrainError;
use spectral_train::machine::user_id;
use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

/// How long the queue has to answer whoever looks at a table.
const PATIENCE: Duration = Duration::from_secs(60);

/// A job in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// As `squeue` shows it: PENDING, RUNNING, COMPLETING …
    pub state: String,
    /// Why it waits, or on which nodes it runs.
    pub detail: String,
    /// Its number, as Slurm has it: «array_task».
    pub id: String,
}

/// What the queue has of a plan's jobs, by index. Empty if nothing of it was submitted to Slurm.
pub fn queue(plan: &JobPlan) -> Result<HashMap<usize, Queued>, TrainError> {
    let submitted = submissions(plan)?;
    if submitted.is_empty() {
        return Ok(HashMap::new());
    }
    // All jobs of those who submitted something: to ask for some that Slurm has forgotten is an error.
    let mut users: Vec<u32> =
        submitted.iter().filter_map(|submission| submission.user).chain(user_id()).collect();
    users.sort_unstable();
    users.dedup();
    let users: Vec<String> = users.iter().map(u32::to_string).collect();
    let whose = if users.is_empty() { "--me".to_string() } else { format!("--user={}", users.join(",")) };
    let arrays: Vec<String> = submitted.into_iter().map(|submission| submission.array).collect();
    let mut squeue = Command::new("squeue");
    squeue.args(["--noheader", "--array", &whose, "--states=all", "--format=%F|%K|%T|%r|%N"]);
    let text = ask::output(&mut squeue, Some(PATIENCE))?;
    Ok(read(&text, &arrays))
}

/// States of jobs that are over.
const OVER: &[&str] = &[
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "REVOKED",
];

fn read(text: &str, arrays: &[String]) -> HashMap<usize, Queued> {
    let mut found = HashMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let [array, index, state, reason, nodes] = fields[..] else { continue };
        let Ok(number) = index.parse::<usize>() else { continue };
        if !arrays.iter().any(|own| own == array) || OVER.contains(&state) {
            continue;
        }
        let detail = match (state, reason) {
            // Slurm's word for a job that its scheduler has not come to.
            ("PENDING", "None") => "Slurm has not looked at it yet",
            ("PENDING", reason) => reason,
            _ => nodes,
        };
        let (state, detail, id) = (state.to_string(), detail.to_string(), format!("{array}_{index}"));
        found.insert(number, Queued { state, detail, id });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_jobs_that_are_not_over_are_found() {
        let text = "12|0|RUNNING|None|n1\n12|1|PENDING|BeginTime|\n12|2|COMPLETED|None|n2\n13|3|RUNNING|None|n1\n12|N/A|x|y|z\n";
        let found = read(text, &["12".into()]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[&0].detail, "n1");
        let new = read("12|4|PENDING|None|\n", &["12".into()]);
        assert_eq!(new[&4].detail, "Slurm has not looked at it yet");
        assert_eq!((found[&1].detail.as_str(), found[&1].id.as_str()), ("BeginTime", "12_1"));
    }
}
