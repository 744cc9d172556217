//! What the user wants of Slurm, beside what the plan asks for.

use crate::environment::Environment;
use spectral_train::error::TrainError;

/// Seconds before a time limit at which a job is told to save.
pub(super) const NOTICE: u64 = 120;
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
    /// What jobs find in their environment.
    pub environment: Environment,
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
        self.check_time()
    }

    /// Refuses a time limit that is none, or one that is over before a job trains.
    fn check_time(&self) -> Result<(), TrainError> {
        // Of several, sbatch takes the last; those of the user come after the script's own.
        let others = self.more.iter().filter_map(|option| Some((option, value_of(option, "--time", "-t")?)));
        let others = others.map(|(option, value)| (format!("--sbatch={option}"), value));
        let own = self.time.iter().map(|time| (format!("--time {time}"), time.as_str()));
        let notice = self.notice.unwrap_or(NOTICE);
        // Who gives another signal has another notice, or none.
        let own_signal = !self.more.iter().any(|option| option.starts_with("--sig"));
        let mut last = None;
        for (shown, value) in own.chain(others) {
            let limit = seconds(value).ok_or_else(|| {
                TrainError::Usage(format!(
                    "{shown}: '{value}' is no time limit that sbatch takes: give minutes, 8:00:00 or 1-12:00:00, for example"
                ))
            })?;
            last = Some((shown, limit));
        }
        match last {
            Some((shown, Some(limit))) if own_signal && limit <= notice.saturating_add(EARLY) => {
                Err(TrainError::Usage(format!(
                    "{shown} leaves a job no time to train: it saves {notice} seconds before the limit (--notice), or up to a minute \
                     earlier, because Slurm looks at limits twice a minute"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Memory of a job in bytes if an option of sbatch says so, which wins over what the plan asks for. Not known if it asks for all
    /// that a node has.
    pub fn memory(&self) -> Option<u64> {
        let last = self.more.iter().filter_map(|option| value_of(option, "--mem", "")).next_back()?;
        let digits = last.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match last[digits.len()..].to_ascii_uppercase().as_str() {
            "K" | "KB" => 10,
            "" | "M" | "MB" => 20,
            "G" | "GB" => 30,
            "T" | "TB" => 40,
            _ => return None,
        };
        let number: u64 = digits.parse().ok().filter(|&number| number > 0)?;
        number.checked_mul(1 << shift)
    }

    /// Options of sbatch that say something else than the plan about what a job gets.
    pub fn about_resources(&self) -> Vec<&str> {
        const NAMES: &[&str] =
            &["--mem", "--cpus-per-", "-c", "--gres", "--gpus", "-G", "--nodes", "-N", "--ntasks", "-n"];
        let about = |option: &&str| {
            let name = option.split(|c: char| c == '=' || c.is_whitespace()).next().unwrap_or_default();
            // Long options by their beginnings, which several share; a short one may be followed by its value.
            NAMES.iter().any(|known| name.starts_with(known))
        };
        self.more.iter().map(String::as_str).filter(about).collect()
    }
}

/// The value of an option of sbatch by its long or short name, without the quotes that a script may want around it.
fn value_of<'a>(option: &'a str, long: &str, short: &str) -> Option<&'a str> {
    let value = match option.strip_prefix(long) {
        Some(rest) => rest.strip_prefix(|c: char| c == '=' || c.is_whitespace())?,
        None if short.is_empty() => return None,
        None => option.strip_prefix(short)?,
    };
    Some(value.trim().trim_matches(['"', '\'']))
}

/// Whether an option sends jobs to another cluster, whose queue nobody would ask: no name of it is kept, and a job would be submitted
/// again while it trains.
fn names_a_cluster(option: &str) -> bool {
    let name = option.split(|c: char| c == '=' || c.is_whitespace()).next().unwrap_or_default();
    // A long name may be cut short as long as it means one option; --cluster-constraint is another.
    let long = name.len() > "--c".len() && "--clusters".starts_with(name);
    long || name.starts_with("-M")
}

/// Seconds of a time limit as sbatch takes it: minutes, minutes:seconds, hours:minutes:seconds, days-hours and so on. `Some(None)`
/// without a limit, `None` if it is no such thing.
fn seconds(time: &str) -> Option<Option<u64>> {
    if ["unlimited", "infinite", "-1"].contains(&time.to_ascii_lowercase().as_str()) {
        return Some(None);
    }
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
    Some(Some(all).filter(|&all| all > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("4", Some(Some(240))),
            ("4:30", Some(Some(270))),
            ("8:00:00", Some(Some(28_800))),
            ("1-2", Some(Some(93_600))),
            ("1-2:30", Some(Some(95_400))),
            ("1-02:30:10", Some(Some(95_410))),
            ("UNLIMITED", Some(None)),
            ("-1", Some(None)),
            ("0", Some(None)),
            ("1:2:3:4", None),
            ("0:banana", None),
            ("99999999999999999-1", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
        let with =
            |time: &str, notice| Options { time: Some(time.into()), notice, ..Options::default() }.check();
        assert!(with("3", None).unwrap_err().to_string().contains("--notice"));
        assert!(with("4", None).is_ok() && with("UNLIMITED", None).is_ok());
        assert!(with("2", Some(30)).is_ok() && with("8:00:00", Some(28_800)).is_err());
        assert!(with("0:banana", None).unwrap_err().to_string().contains("'0:banana' is no time limit"));
    }

    #[test]
    fn a_time_limit_among_the_options_of_sbatch_is_one_too() {
        let with = |time: Option<&str>, more: &[&str]| {
            let more = more.iter().map(|option| option.to_string()).collect();
            Options { time: time.map(String::from), more, ..Options::default() }.check()
        };
        for short in ["--time=00:02:00", "--time 2", "-t 2", "-t2", "--time=\"2:00\""] {
            let why = with(None, &[short]).unwrap_err().to_string();
            assert!(why.contains(&format!("--sbatch={short} leaves")), "{why}");
            // The last one counts.
            assert!(with(Some("8:00:00"), &[short]).is_err());
            assert!(with(None, &[short, "--time=8:00:00"]).is_ok());
            assert!(with(None, &[short, "--signal=B:TERM@10"]).is_ok());
        }
        assert!(with(Some("2"), &["--time=8:00:00"]).is_ok());
        assert!(with(None, &["--time=banana"]).is_err() && with(None, &["--time-min=banana"]).is_ok());
    }

    #[test]
    fn what_jobs_get_by_options_of_sbatch_is_known() {
        let with = |more: &[&str]| Options {
            more: more.iter().map(|option| option.to_string()).collect(),
            ..Options::default()
        };
        for (given, bytes) in [
            ("--mem=500", Some(500 << 20)),
            ("--mem 2G", Some(2 << 30)),
            ("--mem=3000K", Some(3000 << 10)),
            ("--mem=0", None),
            ("--mem=much", None),
            ("--mem-per-cpu=500", None),
            ("--account=me", None),
        ] {
            assert_eq!(with(&[given]).memory(), bytes, "{given}");
        }
        assert_eq!(with(&["--mem=500", "--mem=600"]).memory(), Some(600 << 20));
        let some = with(&[
            "--mem=500",
            "--account=me",
            "-c 4",
            "--gres=gpu:h200:1",
            "--nodelist=n1",
            "--cluster-constraint=x",
        ]);
        assert_eq!(some.about_resources(), ["--mem=500", "-c 4", "--gres=gpu:h200:1"]);
    }
}
