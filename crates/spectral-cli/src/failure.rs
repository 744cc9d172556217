//! Errors as the command reports them: one text, one exit code. All exit codes stand here.

use spectral_report::ReportError;
use spectral_train::error::TrainError;

/// Everything went as asked.
pub const SUCCESS: u8 = 0;
/// Something the user wrote is not right.
pub const USAGE: u8 = 2;
/// A file is missing, damaged or cannot be written.
pub const DATA: u8 = 3;
/// The work is done, but an agent was stopped before its end.
pub const AGENT_STOPPED: u8 = 4;
/// A device failed.
pub const DEVICE: u8 = 5;
/// A task failed.
const TASK: u8 = 6;
/// A job of a cluster will not be tried again.
pub const GAVE_UP: u8 = 7;
/// The user interrupted; the run can be resumed.
pub const INTERRUPTED: u8 = 130;

/// Every exit code with its meaning, the same for all commands. docs/COMMAND.md has the same table; a test compares them.
pub const EXIT_CODES: [(u8, &str); 8] = [
    (SUCCESS, "done"),
    (USAGE, "wrong usage: an option, a name or a path, or a run that another process is training"),
    (DATA, "a file is damaged, missing or cannot be written"),
    (AGENT_STOPPED, "done, but an agent was stopped before its end"),
    (DEVICE, "a device failed"),
    (TASK, "a task failed"),
    (GAVE_UP, "a job of a cluster was given up"),
    (INTERRUPTED, "interrupted; what was trained is saved and can be resumed"),
];

/// The table, for a help text.
pub fn exit_codes() -> String {
    let lines = EXIT_CODES.map(|(code, meaning)| format!("\n  {code:>3}  {meaning}"));
    format!("Exit codes:{}", lines.concat())
}

/// Why the command failed.
#[derive(Debug)]
pub struct Failure {
    /// What to tell the user.
    pub text: String,
    /// The process's exit code.
    pub exit_code: u8,
}

impl Failure {
    /// Something the user wrote is not right.
    pub fn usage(text: impl Into<String>) -> Self {
        Failure { text: text.into(), exit_code: USAGE }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        Failure { text: error.to_string(), exit_code: error.exit_code() }
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        // A path that holds no run is the user's mistake, as it is for every other command, and so are two that hold the same
        // seed; what is wrong inside of runs is not.
        let wrong_paths = matches!(
            error,
            ReportError::NoRuns { .. } | ReportError::NotThere { .. } | ReportError::Duplicate { .. }
        );
        Failure { text: error.to_string(), exit_code: if wrong_paths { USAGE } else { DATA } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_the_table_and_of_the_documents() {
        let errors = [
            (TrainError::Usage(String::new()), USAGE),
            (TrainError::Unregistered(String::new()), USAGE),
            (TrainError::Busy(String::new()), USAGE),
            (TrainError::Machine(String::new()), USAGE),
            (TrainError::Data(String::new()), DATA),
            (TrainError::Device(String::new()), DEVICE),
            (TrainError::Task(String::new()), TASK),
        ];
        for (error, code) in errors {
            assert_eq!(Failure::from(error).exit_code, code);
        }
        let twice = ReportError::Duplicate {
            task: "pong-mini".into(),
            agent: "spectral".into(),
            seed: 1,
            directories: ["a".into(), "b".into()],
        };
        assert_eq!(Failure::from(twice).exit_code, USAGE);
        assert_eq!(Failure::from(ReportError::Empty).exit_code, DATA);
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/COMMAND.md");
        let page = std::fs::read_to_string(page).unwrap();
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let rows: Vec<&str> =
            rows.into_iter().filter(|row| row.as_bytes().get(3).is_some_and(u8::is_ascii_digit)).collect();
        let expected = EXIT_CODES.map(|(code, meaning)| format!("| `{code}` | {meaning} |"));
        assert_eq!(rows, expected);
    }
}
