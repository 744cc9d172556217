//! Scripts for sbatch: short, readable, and safe to submit again.

use crate::plan::{JobPlan, Resources};
use spectral_train::error::TrainError;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Seconds before a time limit at which a job is told to save.
const NOTICE: u64 = 120;
/// Seconds by which the warning may come earlier than asked.
const EARLY: u64 = 60;

/// What the user wants of Slurm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The partition.
    pub partition: Option<String>,
    /// The time limit of one attempt, as sbatch takes it.
    pub time: Option<String>,
    /// Seconds before that limit at which a job saves and is put back into the queue.
    pub notice: Option<u64>,
    /// Further options of sbatch, as on its command line. They win over those written here.
    pub more: Vec<String>,
}

impl Options {
    /// Refuses what would break the script.
    pub fn check(&self) -> Result<(), TrainError> {
        for option in &self.more {
            if !option.starts_with('-') || option.contains(char::is_control) {
                return Err(TrainError::Usage(format!(
                    "--sbatch '{option}': give one option of sbatch, such as --sbatch=--account=me"
                )));
            }
            if names_a_cluster(option) {
                return Err(TrainError::Usage(format!(
                    "--sbatch={option}: jobs can be found again only in the cluster of the machine where you submit them: type the command \
                     on a machine of the other cluster"
                )));
            }
        }
        let named = [("--partition", &self.partition), ("--time", &self.time)];
        for (name, value) in named.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            if value.is_empty() || value.contains(|c: char| c.is_whitespace() || c.is_control()) {
                return Err(TrainError::Usage(format!("{name} '{value}' is nothing that sbatch takes")));
            }
        }
        let notice = self.notice.unwrap_or(NOTICE);
        match self.time.as_deref().and_then(seconds) {
            Some(limit) if limit <= notice.saturating_add(EARLY) => Err(TrainError::Usage(format!(
                "--time {} leaves a job no time to train: it saves {notice} seconds before the limit (--notice), or up to a minute \
                 earlier, because Slurm looks at limits twice a minute",
                self.time.as_deref().unwrap_or_default()
            ))),
            _ => Ok(()),
        }
    }
}

/// Whether an option sends jobs to another cluster, whose queue nobody would ask: no name of it is kept, and a job would be submitted
/// again while it trains.
fn names_a_cluster(option: &str) -> bool {
    let name = option.split(|c: char| c == '=' || c.is_whitespace()).next().unwrap_or_default();
    // A long name may be cut short as long as it means one option; --cluster-constraint is another.
    let long = name.len() > "--c".len() && "--clusters".starts_with(name);
    long || name.starts_with("-M")
}

/// Seconds of a time limit as sbatch takes it: minutes, minutes:seconds, hours:minutes:seconds, days-hours and so on. `None` without
/// a limit.
fn seconds(time: &str) -> Option<u64> {
    let (days, rest) = match time.split_once('-') {
        Some((days, rest)) => (Some(days.parse::<u64>().ok()?), rest),
        None => (None, time),
    };
    let parts = rest.split(':').map(|part| part.parse().ok()).collect::<Option<Vec<u64>>>()?;
    let (hours, minutes, seconds) = match (days, &parts[..]) {
        (None, &[minutes]) => (0, minutes, 0),
        (None, &[minutes, seconds]) => (0, minutes, seconds),
        (Some(_), &[hours]) => (hours, 0, 0),
        (Some(_), &[hours, minutes]) => (hours, minutes, 0),
        (_, &[hours, minutes, seconds]) => (hours, minutes, seconds),
        _ => return None,
    };
    let hours = days.unwrap_or(0).checked_mul(24)?.checked_add(hours)?;
    let all = hours.checked_mul(60)?.checked_add(minutes)?.checked_mul(60)?.checked_add(seconds)?;
    // 0 is Slurm's word for no limit.
    Some(all).filter(|&all| all > 0)
}

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

/// A word as a shell reads it back.
///
/// ```
/// use spectral_cluster::slurm::quote_word;
/// assert_eq!(quote_word("plain-1.0/x"), "plain-1.0/x");
/// assert_eq!(quote_word("it's"), r"'it'\''s'");
/// ```
pub fn quote_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
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
    text + &line(plan, program, "run", "\"$SLURM_ARRAY_TASK_ID\"")
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
    text + &line(plan, program, "report", "")
}

/// The line that does the work, in place of the shell: signals reach it, and no other.
fn line(plan: &JobPlan, program: &[String], verb: &str, last: &str) -> String {
    let words: Vec<String> = program.iter().map(|word| quote_word(word)).collect();
    let folder = quote_word(&plan.folder().display().to_string());
    format!("\nexec {} job {verb} {folder} {last}", words.join(" ")).trim_end().to_string() + "\n"
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
    fn options_that_are_none_are_refused() {
        let with = |more: &str| Options { more: vec![more.into()], ..Options::default() }.check();
        assert!(with("--account=me").is_ok());
        assert!(
            with("account=me").is_err()
                && with("--a\nrm -rf").is_err()
                && with("--a=\r").is_err()
                && with("").is_err()
        );
        for elsewhere in
            ["--clusters=east", "--cluster=east", "--clusters east", "--clus=east", "-M east", "-Meast"]
        {
            let why = with(elsewhere).unwrap_err().to_string();
            assert!(why.contains("only in the cluster"), "{why}");
        }
        assert!(
            with("--cluster-constraint=gpu").is_ok()
                && with("--constraint=h200").is_ok()
                && with("-C h200").is_ok()
        );
        assert!(Options { time: Some("1:00 ; x".into()), ..Options::default() }.check().is_err());
    }

    #[test]
    fn a_time_limit_leaves_time_to_train() {
        for (text, expected) in [
            ("4", Some(240)),
            ("4:30", Some(270)),
            ("8:00:00", Some(28_800)),
            ("1-2", Some(93_600)),
            ("1-2:30", Some(95_400)),
            ("1-02:30:10", Some(95_410)),
            ("UNLIMITED", None),
            ("0", None),
            ("1:2:3:4", None),
            ("99999999999999999-1", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
        let with =
            |time: &str, notice| Options { time: Some(time.into()), notice, ..Options::default() }.check();
        assert!(with("3", None).unwrap_err().to_string().contains("--notice"));
        assert!(with("4", None).is_ok() && with("UNLIMITED", None).is_ok());
        assert!(with("2", Some(30)).is_ok() && with("8:00:00", Some(28_800)).is_err());
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
