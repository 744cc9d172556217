//! Scripts for sbatch: short, readable, and safe to submit again.

use super::options::{NOTICE, Options};
use crate::environment::Environment;
use crate::plan::{JobPlan, Resources};
use spectral_core::shell::quote_word;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The words that run this program again, from anywhere: `typed` is what the process was started as.
///
/// ```
/// use spectral_cluster::slurm::program;
/// let words = program("spectral".as_ref());
/// assert!(std::path::Path::new(&words[0]).is_absolute());
/// ```
pub fn program(typed: &Path) -> Vec<String> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let this = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("spectral"));
    let is_python =
        |path: &Path| path.file_stem().is_some_and(|name| name.to_string_lossy().starts_with("python"));
    if !is_python(&this) {
        return vec![text(this)];
    }
    // The interpreter under the name by which it was started: behind a link of a virtual environment lies another one, which does
    // not have the package.
    let found = match typed.components().count() {
        1 => std::env::var_os("PATH").and_then(|path| {
            std::env::split_paths(&path).map(|folder| folder.join(typed)).find(|file| file.is_file())
        }),
        _ => std::path::absolute(typed).ok(),
    };
    vec![text(found.filter(|path| is_python(path)).unwrap_or(this)), "-m".into(), "spectral_rl".into()]
}

/// A name as Slurm shows it.
fn job_name(plan: &JobPlan, what: &str) -> String {
    let name: String = plan.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{name}{what}")
}

/// Lines that all scripts share: where they run and what they print.
fn head(plan: &JobPlan, name: &str, log: &str) -> String {
    let folder = plan.folder().display().to_string();
    // What Slurm would replace in a log's path is in no plan's folder.
    format!(
        "#SBATCH --job-name={name}\n#SBATCH --chdir={}\n#SBATCH --output=logs/{log}\n#SBATCH --open-mode=append\n#SBATCH --requeue\n",
        directive(&folder)
    )
}

/// An option as sbatch's command line has it, for a script, in which blanks end a value and a hash begins a comment. One that was
/// quoted for a script already stays as it is, and so does a short option, whose value stands behind a blank.
fn further(option: &str) -> String {
    match option.split_once('=') {
        Some((name, value)) if name.starts_with("--") && !value.contains(['"', '\'', '\\']) => {
            format!("{name}={}", directive(value))
        }
        _ => option.into(),
    }
}

/// Whether a script starts jobs of this plan. One that was made where the plan lay before it was moved does not, and might start
/// those of a copy that lies there still. A script that names no folder is its author's affair.
pub(super) fn leads_here(text: &str, plan: &JobPlan) -> Result<(), String> {
    const CHDIR: &str = "#SBATCH --chdir=";
    let here = plan.folder().display().to_string();
    match text.lines().find_map(|line| line.strip_prefix(CHDIR)) {
        Some(folder) if folder.trim() != directive(&here) => Err(format!(
            "its --chdir is {}, but the plan lies in {here}: if it was moved, put the new path in place of the old one, in the last \
             line too",
            folder.trim()
        )),
        _ => Ok(()),
    }
}

/// A value in a line for sbatch, which knows double quotes.
fn directive(value: &str) -> String {
    match value.contains(|c: char| c.is_whitespace() || "\"'\\#".contains(c)) {
        true => format!("\"{}\"", value.replace('\\', r"\\").replace('"', "\\\"")),
        false => value.into(),
    }
}

fn wishes(options: &Options, text: &mut String) {
    if let Some(partition) = &options.partition {
        let _ = writeln!(text, "#SBATCH --partition={}", directive(partition));
    }
}

/// The script of an array of jobs.
pub(super) fn job(plan: &JobPlan, program: &[String], options: &Options) -> String {
    let Resources { cpus, gpus, memory } = plan.resources;
    let notice = options.notice.unwrap_or(NOTICE);
    let mut text = format!(
        "#!/bin/sh\n# Made by: {}\n# One task of this array is one population; plan.toml says which. It may be submitted again at any time:\n\
         # a population that is finished ends at once, any other goes on from its last checkpoint.\n",
        plan.command.replace(['\n', '\r'], " ")
    );
    text += &head(plan, &job_name(plan, ""), "%a.log");
    let _ = writeln!(text, "#SBATCH --nodes=1\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task={cpus}");
    let _ = writeln!(text, "#SBATCH --mem={}M", memory.div_ceil(1 << 20));
    if gpus > 0 {
        let _ = writeln!(text, "#SBATCH --gres=gpu:{gpus}");
    }
    wishes(options, &mut text);
    if let Some(time) = &options.time {
        let _ = writeln!(text, "#SBATCH --time={}", directive(time));
    }
    // To the process alone, which saves and hands the job back.
    let _ = writeln!(text, "#SBATCH --signal=B:TERM@{notice}");
    for option in &options.more {
        let _ = writeln!(text, "#SBATCH {}", further(option));
    }
    text + &line(plan, program, &options.environment, "run", "\"$SLURM_ARRAY_TASK_ID\"")
}

/// The script of the job that writes the report.
pub(super) fn report(plan: &JobPlan, program: &[String], options: &Options) -> String {
    let mut text =
        String::from("#!/bin/sh\n# Writes the report from what is there; what is missing, it names.\n");
    text += &head(plan, &job_name(plan, "-report"), "report.log");
    text += "#SBATCH --nodes=1\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=1\n#SBATCH --mem=4096M\n";
    wishes(options, &mut text);
    // A GPU is not needed, nor is what the user asked for the other jobs, but for who pays and where.
    let kept = |option: &&String| {
        ["--account", "-A", "--qos", "-q", "--partition", "-p", "--reservation"]
            .iter()
            .any(|name| option.starts_with(name))
    };
    for option in options.more.iter().filter(kept) {
        let _ = writeln!(text, "#SBATCH {}", further(option));
    }
    text + &line(plan, program, &options.environment, "report", "")
}

/// The line that does the work, in place of the shell: signals reach it, and no other.
fn line(plan: &JobPlan, program: &[String], environment: &Environment, verb: &str, last: &str) -> String {
    let set = environment.pairs().map(|(name, value)| format!("export {name}={}\n", quote_word(value)));
    let set: String = set.collect();
    let words: Vec<String> = program.iter().map(|word| quote_word(word)).collect();
    let folder = quote_word(&plan.folder().display().to_string());
    format!("\n{set}exec {} job {verb} {folder} {last}", words.join(" ")).trim_end().to_string() + "\n"
}

/// From a line of `scontrol show job`: the state of a job that Slurm is ending, other than because its time is over.
pub(super) fn ending(text: &str) -> Option<String> {
    let field = |name: &str| text.split_whitespace().find_map(|word| word.strip_prefix(name));
    let (state, reason) = (field("JobState=").unwrap_or("unknown"), field("Reason=").unwrap_or_default());
    // It is SIGNALING for a moment after the warning; one that saved until its time was over would not be requeued by Slurm.
    let goes_on = matches!(state, "RUNNING" | "SIGNALING") || reason == "TimeLimit";
    (!goes_on).then(|| state.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_directives_are_quoted_where_they_must_be() {
        assert_eq!(directive("/a/b"), "/a/b");
        assert_eq!(directive("/a b/\"c\""), "\"/a b/\\\"c\\\"\"");
    }

    #[test]
    fn values_of_options_arrive_whole() {
        for (given, written) in [
            ("--account=me", "--account=me"),
            ("--exclusive", "--exclusive"),
            ("-A me", "-A me"),
            ("--comment=a long word", "--comment=\"a long word\""),
            ("--comment=run #3", "--comment=\"run #3\""),
            ("--comment=\"quoted already\"", "--comment=\"quoted already\""),
        ] {
            assert_eq!(further(given), written);
        }
    }

    #[test]
    fn only_a_job_that_slurm_does_not_end_is_put_back() {
        let line = |state: &str, reason: &str| {
            format!(
                "JobId=7 ArrayJobId=5 ArrayTaskId=1 JobName=x UserId=root(0) JobState={state} Reason={reason} Dependency=(null)"
            )
        };
        assert_eq!(ending(&line("RUNNING", "None")), None);
        assert_eq!(ending(&line("SIGNALING", "None")), None);
        assert_eq!(ending(&line("COMPLETING", "TimeLimit")), None);
        assert_eq!(ending(&line("COMPLETING", "None")).as_deref(), Some("completing"));
        assert_eq!(ending("slurm_load_jobs error").as_deref(), Some("unknown"));
    }
}
