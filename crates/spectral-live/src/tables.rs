//! A run's metric files, read as they grow: curves, TD errors by score, and what each frequency does.

use spectral_train::store::open_plain;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Rows that are kept; with more, every second one is dropped, and of those to come too.
const MOST_ROWS: usize = 2048;
/// Bytes that one look at a file reads at most. The rest comes with the next look.
const MOST_BYTES: u64 = 4 << 20;
/// A line that is longer than this is not one of ours.
const LONGEST_LINE: usize = 1 << 20;

/// Rows in order, thinned as they become many.
#[derive(Clone, Debug)]
pub(crate) struct Rows<R> {
    pub rows: Vec<R>,
    /// Changes whenever rows that readers may have are gone.
    pub generation: u64,
    stride: usize,
    seen: usize,
}

impl<R> Default for Rows<R> {
    fn default() -> Self {
        Rows { rows: Vec::new(), generation: 0, stride: 1, seen: 0 }
    }
}

impl<R> Rows<R> {
    pub(crate) fn push(&mut self, row: R) {
        self.seen += 1;
        if !(self.seen - 1).is_multiple_of(self.stride) {
            return;
        }
        if self.rows.len() == MOST_ROWS {
            let mut place = 0;
            self.rows.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.stride *= 2;
            self.generation += 1;
            if !(self.seen - 1).is_multiple_of(self.stride) {
                return;
            }
        }
        self.rows.push(row);
    }

    fn clear(&mut self) {
        let generation = self.generation + 1;
        *self = Rows { generation, ..Rows::default() };
    }
}

/// One row of the curves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub frame: f64,
    pub score: Option<f64>,
    pub td: Option<f64>,
}

/// TD errors of all scores at one frame: each score with its error, as a share of the target.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TdColumn {
    pub frame: f64,
    pub errors: Vec<(f64, Option<f64>)>,
}

/// What each frequency does, in the newest row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Frequencies {
    pub frame: f64,
    pub activity: Vec<Option<f64>>,
    pub sigma: Vec<Option<f64>>,
    pub target_mean: Vec<Option<f64>>,
    pub loss_share: Vec<Option<f64>>,
}

/// What is known of one agent from its files.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentTables {
    pub curve: Rows<Point>,
    pub td: Rows<TdColumn>,
    pub frequencies: Option<Frequencies>,
    /// Of the newest row.
    pub frame: f64,
    pub epsilon: Option<f64>,
    pub saturated: f64,
}

/// Follows the files of one agent.
#[derive(Debug)]
pub(crate) struct Follower {
    metrics: Tail,
    td_error: Tail,
    /// TD errors of the frame that is being read.
    column: Option<TdColumn>,
}

impl Follower {
    pub(crate) fn new(folder: &Path) -> Self {
        Follower {
            metrics: Tail::new(folder.join("metrics.csv")),
            td_error: Tail::new(folder.join("td_error.csv")),
            column: None,
        }
    }

    /// Reads what was written since the last look. True if anything changed.
    pub(crate) fn look(&mut self, into: &mut AgentTables) -> bool {
        let mut changed = false;
        let Follower { metrics, td_error, column } = self;
        changed |= metrics.look(|line| match line {
            Line::Again => {
                into.curve.clear();
                into.frequencies = None;
            }
            Line::Row(row) => into.take_metrics(&row),
        });
        changed |= td_error.look(|line| match line {
            Line::Again => {
                into.td.clear();
                *column = None;
            }
            Line::Row(row) => {
                let Some(frame) = row.get("frame") else { return };
                if let Some(done) = column.take_if(|column| column.frame != frame) {
                    into.td.push(done);
                }
                let column = column.get_or_insert(TdColumn { frame, errors: Vec::new() });
                let (error, target) = (row.get("abs_error"), row.get("abs_target"));
                let share = error.zip(target).filter(|(_, target)| *target > 0.0).map(|(e, t)| e / t);
                if let (Some(score), true) = (row.get("player_score"), column.errors.len() < 256) {
                    column.errors.push((score, share));
                }
            }
        });
        // A frame's rows are written together, so at the end of a look the frame is whole.
        if let Some(done) = column.take() {
            into.td.push(done);
        }
        changed
    }
}

impl AgentTables {
    fn take_metrics(&mut self, row: &Row<'_>) {
        let Some(frame) = row.get("frame") else { return };
        self.frame = frame;
        self.epsilon = row.get("epsilon");
        self.saturated = row.get("saturated").unwrap_or(0.0);
        self.curve.push(Point { frame, score: row.get("score_mean"), td: row.get("td_abs") });
        let all = |name: &str| row.series(name);
        let activity = all("activity_");
        if !activity.is_empty() {
            self.frequencies = Some(Frequencies {
                frame,
                activity,
                sigma: all("sigma_"),
                target_mean: all("target_mean_"),
                loss_share: all("loss_share_"),
            });
        }
    }
}

/// What a look at a file finds.
enum Line<'a> {
    /// It was made anew or cut back: what came before no longer holds.
    Again,
    Row(Row<'a>),
}

/// One line of a file with the names of its columns.
struct Row<'a> {
    columns: &'a [String],
    fields: Vec<&'a str>,
}

impl Row<'_> {
    fn get(&self, name: &str) -> Option<f64> {
        let place = self.columns.iter().position(|column| column == name)?;
        self.fields.get(place)?.parse().ok().filter(|value: &f64| value.is_finite())
    }

    /// The columns `NAME0`, `NAME1` … in order.
    fn series(&self, name: &str) -> Vec<Option<f64>> {
        let is_next = |n: usize| self.columns.iter().any(|c| c.strip_prefix(name) == Some(&n.to_string()));
        (0..).take_while(|&n| n < 256 && is_next(n)).map(|n| self.get(&format!("{name}{n}"))).collect()
    }
}

/// A CSV file that grows at its end.
#[derive(Debug)]
struct Tail {
    path: PathBuf,
    /// Bytes that were read, up to the end of a line.
    read: u64,
    columns: Vec<String>,
    /// It is not a file of ours.
    foreign: bool,
}

impl Tail {
    fn new(path: PathBuf) -> Self {
        Tail { path, read: 0, columns: Vec::new(), foreign: false }
    }

    /// Passes on every whole line that was added. A file that cannot be read now is looked at again later.
    fn look(&mut self, mut each: impl FnMut(Line<'_>)) -> bool {
        let Ok(metadata) = std::fs::metadata(&self.path) else { return false };
        // A pipe or a device would keep us waiting.
        if self.foreign || !metadata.is_file() || metadata.len() == self.read {
            return false;
        }
        let mut changed = false;
        if metadata.len() < self.read {
            (self.read, changed) = (0, true);
            self.columns.clear();
            each(Line::Again);
        }
        let mut bytes = Vec::new();
        let got = open_plain(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.read))?;
            file.take(MOST_BYTES).read_to_end(&mut bytes)
        });
        if got.is_err() {
            return changed;
        }
        let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
        if whole == 0 && bytes.len() > LONGEST_LINE {
            self.foreign = true;
            return changed;
        }
        self.read += whole as u64;
        let text = String::from_utf8_lossy(&bytes[..whole]);
        for line in text.lines() {
            changed = true;
            let fields = line.split(',');
            if self.columns.is_empty() {
                self.columns = fields.take(4096).map(String::from).collect();
            } else {
                each(Line::Row(Row { columns: &self.columns, fields: fields.take(4096).collect() }));
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn rows_come_as_they_are_written_and_again_when_a_file_is_cut_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut follower = Follower::new(folder.path());
        let mut tables = AgentTables::default();
        assert!(!follower.look(&mut tables), "no file yet");
        let mut file = File::create(&path).unwrap();
        write!(file, "frame,epsilon,score_mean,td_abs,activity_0,activity_1\n10,1,,0.5,0.25,\n20,0.9,3")
            .unwrap();
        assert!(follower.look(&mut tables));
        assert_eq!(tables.curve.rows, [Point { frame: 10.0, score: None, td: Some(0.5) }]);
        assert_eq!(tables.frequencies.as_ref().unwrap().activity, [Some(0.25), None]);
        writeln!(file, ",0.25,,").unwrap();
        assert!(follower.look(&mut tables));
        assert_eq!(tables.curve.rows[1], Point { frame: 20.0, score: Some(3.0), td: Some(0.25) });
        assert!(!follower.look(&mut tables), "nothing was added");
        let generation = tables.curve.generation;
        std::fs::write(&path, "frame,score_mean\n10,1\n").unwrap();
        assert!(follower.look(&mut tables));
        assert_eq!(tables.curve.rows, [Point { frame: 10.0, score: Some(1.0), td: None }]);
        assert_ne!(tables.curve.generation, generation);
    }

    #[test]
    fn td_errors_are_shares_of_their_targets_by_frame() {
        let folder = tempfile::tempdir().unwrap();
        let text = "frame,player_score,abs_error,abs_target\n5,0,1,2\n5,1,1,0\n9,0,3,4\n";
        std::fs::write(folder.path().join("td_error.csv"), text).unwrap();
        let mut tables = AgentTables::default();
        Follower::new(folder.path()).look(&mut tables);
        let first = TdColumn { frame: 5.0, errors: vec![(0.0, Some(0.5)), (1.0, None)] };
        let second = TdColumn { frame: 9.0, errors: vec![(0.0, Some(0.75))] };
        assert_eq!(tables.td.rows, [first, second]);
    }

    #[test]
    fn many_rows_are_thinned_evenly() {
        let mut rows = Rows::default();
        for n in 0..20_000 {
            rows.push(n);
            assert!(rows.rows.len() <= MOST_ROWS);
        }
        let step = rows.rows[1] - rows.rows[0];
        assert!(rows.rows.windows(2).all(|pair| pair[1] - pair[0] == step), "{step}");
        assert!(rows.rows[0] == 0 && *rows.rows.last().unwrap() > 19_000);
        assert!(rows.generation > 0);
    }

    #[test]
    fn strange_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("metrics.csv")).unwrap();
        std::fs::write(folder.path().join("td_error.csv"), vec![b'x'; 3 << 20]).unwrap();
        let mut follower = Follower::new(folder.path());
        let mut tables = AgentTables::default();
        for _ in 0..3 {
            follower.look(&mut tables);
        }
        assert!(tables.curve.rows.is_empty() && tables.td.rows.is_empty());
    }
}
