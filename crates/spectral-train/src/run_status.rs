//! What a run is doing, or how it ended, from its files alone: neither its task nor its codecs need be known here, and nothing is
//! written.

use crate::claim;
use crate::error::TrainError;
use crate::recent::RecentScores;
use crate::store::{StoreError, check_seal, is_temporary, is_there, open_plain, read_own_text, read_text};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// How many folders deep runs are looked for.
const DEPTH: usize = 4;
/// Bytes of a table's end in which its newest rows are.
const TAIL: u64 = 64 << 10;

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A process is at work in it, on this machine or another.
    Training,
    /// At its planned end.
    Finished,
    /// Stopped by its user, with a checkpoint.
    Interrupted,
    /// An error ended it, such as a full disk; what came after the last checkpoint is lost.
    Failed,
    /// Its process ended before it could save or say why; what came after the last checkpoint is lost.
    Killed,
    /// Training or killed: nothing tells which.
    Unknown,
}

impl Standing {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Training => "training",
            Standing::Finished => "finished",
            Standing::Interrupted => "interrupted",
            Standing::Failed => "failed",
            Standing::Killed => "killed",
            Standing::Unknown => "unknown",
        }
    }
}

/// Where one agent of a run stands.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentStatus {
    /// The agent's id: its name and seed.
    pub id: String,
    /// The agent's name.
    pub agent: String,
    /// Frames that it has seen; of a run that is not training, those that its last checkpoint has.
    pub frames: u64,
    /// Mean score of its last twenty episodes.
    pub score: Option<f64>,
    /// Frames a second over the whole run.
    pub rate: Option<f64>,
    /// Why it was stopped before its end, if it was.
    pub stopped: Option<String>,
}

/// A checkpoint that can be resumed from.
#[derive(Clone, Debug, PartialEq)]
pub struct LastCheckpoint {
    /// Its file.
    pub path: PathBuf,
    /// Seconds since it was written.
    pub age: f64,
}

/// What a run is doing, or how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RunStatus {
    /// Its folder.
    pub path: PathBuf,
    /// The name of its task.
    pub task: String,
    /// Planned frames per agent.
    pub frames: u64,
    /// Where it stands.
    pub standing: Standing,
    /// The error that ended it, if one did.
    pub error: Option<String>,
    /// Seconds of training up to the last checkpoint.
    pub seconds: f64,
    /// Its newest checkpoint.
    pub checkpoint: Option<LastCheckpoint>,
    /// Its agents, in the plan's order.
    pub agents: Vec<AgentStatus>,
}

impl RunStatus {
    /// Reads a run's folder.
    pub fn read(path: &Path) -> Result<Self, TrainError> {
        let file = path.join("run.toml");
        let run = parsed(&file, read_own_text(&file))?.ok_or_else(|| {
            TrainError::Usage(format!("{} is not a run directory: it has no run.toml", path.display()))
        })?;
        let lacks = |what: &str| TrainError::Data(format!("{} has no {what}", file.display()));
        let task = text(&run, "task").ok_or_else(|| lacks("task"))?;
        let planned = count(&run, "frames").ok_or_else(|| lacks("frames"))?;
        let state = table(&path.join("state.toml"))?.unwrap_or_default();
        let at_work = claim::is_at_work(path);
        let error = claim::last_error(path);
        let standing = standing(text(&state, "status").as_deref(), at_work, error.is_some());
        let error = error.filter(|_| standing == Standing::Failed);
        let seconds = state.get("seconds").and_then(toml::Value::as_float).unwrap_or(0.0);
        if !(seconds.is_finite() && seconds >= 0.0) {
            let file = path.join("state.toml");
            return Err(TrainError::Data(format!(
                "{}: seconds is {seconds}, not a number of seconds",
                file.display()
            )));
        }
        let states = entries(&state);
        let mut agents = Vec::new();
        for entry in entries(&run) {
            let id = text(entry, "id").ok_or_else(|| lacks("id of an agent"))?;
            if !is_one_name(&id) {
                return Err(TrainError::Data(format!("{}: '{id}' is no agent's id", file.display())));
            }
            let own = states.iter().find(|state| text(state, "id").as_deref() == Some(&id));
            let saved = own.and_then(|state| count(state, "frames")).unwrap_or(0);
            let stopped = own.filter(|state| text(state, "status").as_deref() == Some("stopped"));
            let folder = path.join("agents").join(&id);
            if standing == Standing::Finished {
                check_end(&folder.join("episodes.csv"), own)?;
            }
            let episodes = last_rows(&folder.join("episodes.csv"), ["frame", "score"])?;
            let metrics = last_rows(&folder.join("metrics.csv"), ["frame", "updates"])?;
            // Rows that are newer than the last checkpoint count only as long as somebody goes on from them.
            let frames = match standing {
                Standing::Training | Standing::Unknown => {
                    let newest = [&episodes, &metrics].into_iter().filter_map(|rows| rows.last());
                    newest.map(|row| row[0] as u64).fold(saved, u64::max)
                }
                _ => saved,
            };
            let counted = episodes.iter().filter(|row| row[0] <= frames as f64).map(|row| row[1]);
            let score = counted.collect::<RecentScores>().mean();
            agents.push(AgentStatus {
                agent: text(entry, "agent").unwrap_or_else(|| id.clone()),
                id,
                frames,
                score,
                rate: rate(saved, seconds).or_else(|| match standing {
                    // Before the first checkpoint, the plan's age is the run's.
                    Standing::Training => rate(frames, age(&file)?),
                    _ => None,
                }),
                stopped: stopped.map(|state| text(state, "reason").unwrap_or_default()),
            });
        }
        let checkpoint = newest_checkpoint(&path.join("checkpoints"));
        Ok(RunStatus {
            path: path.into(),
            task,
            frames: planned,
            standing,
            error,
            seconds,
            checkpoint,
            agents,
        })
    }

    /// Frames of all agents together that are still to be played; an agent that was stopped has none.
    pub fn frames_left(&self) -> u64 {
        let going = self.agents.iter().filter(|agent| agent.stopped.is_none());
        going.map(|agent| self.frames.saturating_sub(agent.frames)).sum()
    }

    /// The share of its frames that was played.
    pub fn share(&self) -> f64 {
        let all = self.frames.saturating_mul(self.agents.len() as u64).max(1);
        let played: u64 = self.agents.iter().map(|agent| agent.frames.min(self.frames)).sum();
        played as f64 / all as f64
    }

    /// Frames a second of all agents together, over the whole run.
    pub fn rate(&self) -> Option<f64> {
        let rates: Vec<f64> = self.agents.iter().filter_map(|agent| agent.rate).collect();
        (!rates.is_empty()).then(|| rates.iter().sum())
    }

    /// Seconds that are left at this rate, if it is training.
    pub fn seconds_left(&self) -> Option<f64> {
        let rate = self.rate().filter(|_| self.standing == Standing::Training)?;
        Some(self.frames_left() as f64 / rate)
    }
}

/// The run directories at and below a folder, in order of their names.
pub fn find_runs(path: &Path) -> Result<Vec<PathBuf>, TrainError> {
    fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        if is_there(&folder.join("run.toml")) {
            found.push(folder.into());
        } else if depth > 0 {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let mut folders: Vec<PathBuf> =
                entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()).collect();
            folders.sort();
            folders.iter().for_each(|folder| walk(folder, depth - 1, found));
        }
    }
    let mut found = Vec::new();
    walk(path, DEPTH, &mut found);
    match found.is_empty() {
        false => Ok(found),
        true => Err(TrainError::Usage(format!(
            "{} is not a run directory: neither it nor a folder inside it has a run.toml",
            path.display()
        ))),
    }
}

fn standing(written: Option<&str>, at_work: Option<bool>, failed: bool) -> Standing {
    match (at_work, written) {
        (Some(true), _) => Standing::Training,
        (_, Some("finished")) => Standing::Finished,
        // Whoever came last had an error, on a run that somebody had interrupted before.
        _ if failed => Standing::Failed,
        (_, Some("interrupted")) => Standing::Interrupted,
        (Some(false), _) => Standing::Killed,
        (None, _) => Standing::Unknown,
    }
}

fn rate(frames: u64, seconds: f64) -> Option<f64> {
    (frames > 0 && seconds > 0.0).then(|| frames as f64 / seconds)
}

/// Whether an id names a folder in a folder, and nothing elsewhere.
fn is_one_name(id: &str) -> bool {
    let mut parts = Path::new(id).components();
    matches!(parts.next(), Some(Component::Normal(name)) if name == id) && parts.next().is_none()
}

/// A TOML file; `None` where there is none.
fn table(path: &Path) -> Result<Option<toml::Table>, TrainError> {
    parsed(path, read_text(path))
}

fn parsed(path: &Path, text: std::io::Result<String>) -> Result<Option<toml::Table>, TrainError> {
    let text = match text {
        Ok(text) => text,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(StoreError::io(path, "read", e).into()),
    };
    let changed = |why: String| TrainError::Data(format!("{}: {why}", path.display()));
    check_seal(&text).map_err(changed)?;
    if text.trim().is_empty() {
        return Err(changed("it is empty".into()));
    }
    let wrong = |e: toml::de::Error| {
        TrainError::Data(format!("{} is no valid TOML: {}", path.display(), e.message()))
    };
    text.parse().map(Some).map_err(wrong)
}

fn text(table: &toml::Table, key: &str) -> Option<String> {
    table.get(key)?.as_str().map(String::from)
}

fn count(table: &toml::Table, key: &str) -> Option<u64> {
    table.get(key)?.as_integer().and_then(|number| u64::try_from(number).ok())
}

fn entries(table: &toml::Table) -> Vec<&toml::Table> {
    let agents = table.get("agents").and_then(toml::Value::as_array);
    agents.into_iter().flatten().filter_map(toml::Value::as_table).collect()
}

/// Two columns of the newest rows of a table, as numbers; rows that lack one are left out, and so is a row that is being written.
pub(crate) fn last_rows(path: &Path, columns: [&str; 2]) -> Result<Vec<[f64; 2]>, StoreError> {
    let failed = |e| StoreError::io(path, "read", e);
    let mut file = match open_plain(path) {
        Ok(file) => file,
        // Not begun, or a run that was copied in part.
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut read = |from: u64| {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        (&mut file).take(TAIL).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let length = std::fs::metadata(path).map_err(failed)?.len();
    let head = read(0).map_err(failed)?;
    let from = length.saturating_sub(TAIL);
    let tail = if from == 0 { head.clone() } else { read(from).map_err(failed)? };
    let header: Vec<&str> = head.lines().next().unwrap_or_default().split(',').collect();
    let places = columns.map(|column| header.iter().position(|name| *name == column));
    let [Some(first), Some(second)] = places else { return Ok(Vec::new()) };
    let whole = tail.rsplit_once('\n').map_or("", |(whole, _)| whole);
    // The first line is the header, or the end of some row.
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |place: usize| cells.get(place)?.parse::<f64>().ok();
        Some([number(first)?, number(second)?])
    };
    Ok(whole.lines().skip(1).filter_map(row).collect())
}

/// Refuses a table that has grown since its run ended, by what `state.toml` says of the agent: its newest rows are not the run's.
fn check_end(path: &Path, agent: Option<&&toml::Table>) -> Result<(), TrainError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let of_table = |agent: &&toml::Table| agent.get("tables")?.get(name)?.get("bytes")?.as_integer();
    let recorded = agent.and_then(of_table).and_then(|bytes| u64::try_from(bytes).ok());
    let found = path.metadata().map_or(0, |metadata| metadata.len());
    match recorded.filter(|recorded| found > *recorded) {
        None => Ok(()),
        Some(recorded) => Err(TrainError::Data(format!(
            "{}: {found} bytes long, though it ended at {recorded} by state.toml: rows were added; restore the file from a copy",
            path.display()
        ))),
    }
}

fn newest_checkpoint(folder: &Path) -> Option<LastCheckpoint> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let whole = |name: &str| name.ends_with(".checkpoint") && !is_temporary(name) && !name.starts_with('.');
    let files = entries.filter(|entry| whole(&entry.file_name().to_string_lossy())).map(|entry| entry.path());
    let path = files.max()?;
    let age = age(&path)?;
    Some(LastCheckpoint { path, age })
}

/// Seconds since a file was written.
fn age(path: &Path) -> Option<f64> {
    let written = path.metadata().ok()?.modified().ok()?;
    Some(SystemTime::now().duration_since(written).map_or(0.0, |age| age.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    const RUN: &str = "task = \"somebody-elses\"\nframes = 1000\n[[agents]]\nid = \"a-s1\"\nagent = \"a\"\n\
                       [[agents]]\nid = \"b-s1\"\nagent = \"b\"\n";

    /// A run of a task that this program does not have, at its second checkpoint.
    fn run(folder: &Path) -> PathBuf {
        let path = folder.join("run");
        put(&path, "run.toml", RUN);
        put(
            &path,
            "state.toml",
            "status = \"running\"\nseconds = 10.0\n[[agents]]\nid = \"a-s1\"\nframes = 500\nstatus = \"running\"\nreason = \"\"\n\
             [[agents]]\nid = \"b-s1\"\nframes = 300\nstatus = \"stopped\"\nreason = \"values stopped being finite\"\n",
        );
        let episodes: String = (1..=60).map(|i| format!("{},0,{i},10\n", i * 10)).collect();
        put(&path, "agents/a-s1/episodes.csv", &format!("frame,return,score,length\n{episodes}61"));
        put(&path, "checkpoints/000000000001.checkpoint", "");
        put(&path, "checkpoints/000000000002.checkpoint", "");
        put(&path, "checkpoints/.000000000003.checkpoint.1.tmp", "");
        path
    }

    #[test]
    fn a_run_is_told_from_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = run(folder.path());
        let status = RunStatus::read(&path).unwrap();
        // Nobody has a lock or a claim here.
        assert!(matches!(status.standing, Standing::Killed | Standing::Unknown), "{status:?}");
        let as_killed = status.standing == Standing::Killed;
        assert_eq!((status.task.as_str(), status.frames, status.agents.len()), ("somebody-elses", 1000, 2));
        assert_eq!(status.agents[0].frames, if as_killed { 500 } else { 600 });
        // The mean of the last twenty that count: 31 to 50, or 41 to 60; never of the row that is half written.
        assert_eq!(status.agents[0].score, Some(if as_killed { 40.5 } else { 50.5 }));
        assert_eq!(status.agents[0].rate, Some(50.0));
        assert_eq!(status.agents[1].score, None);
        assert_eq!(status.agents[1].stopped.as_deref(), Some("values stopped being finite"));
        assert_eq!(status.seconds_left(), None, "it does not train");
        assert!(status.checkpoint.unwrap().path.ends_with("000000000002.checkpoint"));
        assert_eq!(find_runs(folder.path()).unwrap(), [path]);
    }

    #[test]
    fn who_is_at_work_counts_for_more_than_what_was_written() {
        for (at_work, written, expected) in [
            (Some(true), Some("finished"), Standing::Training),
            (Some(false), Some("finished"), Standing::Finished),
            (None, Some("interrupted"), Standing::Interrupted),
            (Some(false), Some("running"), Standing::Killed),
            (Some(false), None, Standing::Killed),
            (None, Some("running"), Standing::Unknown),
        ] {
            assert_eq!(standing(written, at_work, false), expected);
        }
        for (at_work, written, expected) in [
            (Some(true), Some("running"), Standing::Training),
            (Some(false), Some("finished"), Standing::Finished),
            (Some(false), Some("interrupted"), Standing::Failed),
            (Some(false), Some("running"), Standing::Failed),
            (None, None, Standing::Failed),
        ] {
            assert_eq!(standing(written, at_work, true), expected);
        }
    }

    #[test]
    fn what_is_left_and_when_follow_from_all_agents() {
        let folder = tempfile::tempdir().unwrap();
        let mut status = RunStatus::read(&run(folder.path())).unwrap();
        status.standing = Standing::Training;
        status.agents[0].frames = 600;
        assert_eq!(status.frames_left(), 400, "an agent that was stopped has none left");
        assert_eq!(status.rate(), Some(80.0));
        assert_eq!(status.seconds_left(), Some(5.0));
        assert_eq!(status.share(), 0.45);
    }

    #[test]
    fn rows_after_the_end_of_a_finished_run_and_impossible_times_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = run(folder.path());
        let bytes = path.join("agents/a-s1/episodes.csv").metadata().unwrap().len();
        let state = |status: &str, seconds: &str, bytes: u64| {
            let text = format!(
                "status = \"{status}\"\nseconds = {seconds}\n[[agents]]\nid = \"a-s1\"\nframes = 600\nstatus = \"finished\"\n\
                 tables = {{ \"episodes.csv\" = {{ bytes = {bytes}, crc32 = \"0\" }} }}\n"
            );
            put(&path, "state.toml", &text);
            RunStatus::read(&path)
        };
        assert_eq!(state("finished", "10.0", bytes).unwrap().agents[0].score, Some(50.5));
        let error = state("finished", "10.0", bytes - 9).unwrap_err();
        assert!(error.exit_code() == 3 && error.to_string().contains("rows were added"), "{error}");
        state("interrupted", "10.0", bytes - 9).unwrap();
        for seconds in ["inf", "nan", "-5.0"] {
            let error = state("finished", seconds, bytes).unwrap_err();
            assert!(error.exit_code() == 3 && error.to_string().contains("seconds is"), "{error}");
        }
    }

    #[test]
    fn what_is_no_run_or_damaged_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let said = |path: &Path| RunStatus::read(path).unwrap_err();
        assert!(matches!(said(&folder.path().join("absent")), TrainError::Usage(_)));
        assert!(matches!(find_runs(&folder.path().join("absent")), Err(TrainError::Usage(_))));
        assert!(matches!(find_runs(folder.path()), Err(TrainError::Usage(_))));
        let path = run(folder.path());
        for id in ["../escape", "a/b", "..", "/etc", ""] {
            put(&path, "run.toml", &RUN.replace("a-s1", id));
            let error = said(&path);
            assert!(
                matches!(&error, TrainError::Data(text) if text.contains("no agent's id")),
                "{id}: {error}"
            );
        }
        put(&path, "run.toml", "task = 3");
        assert!(said(&path).to_string().contains("run.toml has no task"));
        put(&path, "run.toml", "task = [");
        assert!(said(&path).to_string().contains("no valid TOML"));
    }
}
