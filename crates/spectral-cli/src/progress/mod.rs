//! Progress of long work: lines with bars on a terminal, plain lines now and then elsewhere.

mod lines;

use crate::output::{note, one_line, write_above};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use lines::{Grouping, Line, Standing, line, log_line, total_line};
pub use spectral_report::duration;
use spectral_train::checkpoint::Cost;
use spectral_train::plan::Plan;
use spectral_train::trainer::{AgentProgress, Observer};
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The shortest and the longest time between the lines of a log.
const LOG_EVERY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));
/// A log's lines come ever more rarely: after this share of the time that has passed.
const LOG_SHARE: u32 = 10;
/// What a terminal is taken for that does not say how large it is: columns and rows.
const USUAL: (usize, usize) = (80, 24);
/// Rows that are left free: for the line of all agents, and for the cursor.
const SPARE_ROWS: usize = 2;

/// Shows the progress of one run.
pub struct Progress {
    /// Name and id of each agent.
    agents: Vec<(String, String)>,
    task: String,
    total: u64,
    start: Instant,
    /// Frames per agent when this sitting began: rates count from there.
    begun: Mutex<Option<Vec<u64>>>,
    screen: Screen,
    checkpoints: Mutex<(u64, Cost)>,
}

enum Screen {
    Terminal(Mutex<Bars>),
    /// When the next line is due, since the start.
    Log(Mutex<Duration>),
}

impl Progress {
    /// For a run of this plan.
    pub fn new(plan: &Plan) -> Self {
        let agents: Vec<(String, String)> =
            plan.agents.iter().map(|agent| (agent.agent.clone(), agent.id.clone())).collect();
        let screen = match std::io::stderr().is_terminal() {
            true => Screen::Terminal(Mutex::new(Bars::new(&agents, terminal().1))),
            false => Screen::Log(Mutex::new(LOG_EVERY.0)),
        };
        Progress {
            agents,
            task: one_line(&plan.task),
            total: plan.run.frames,
            start: Instant::now(),
            begun: Mutex::new(None),
            screen,
            checkpoints: Mutex::default(),
        }
    }

    /// How many checkpoints were written, and what they cost together.
    pub fn checkpoints(&self) -> (u64, Cost) {
        *held(&self.checkpoints)
    }

    /// Shows how it ended, and leaves that on the screen.
    pub fn finish(&self, progress: &[AgentProgress]) {
        match &self.screen {
            Screen::Terminal(bars) => {
                let mut bars = held(bars);
                if !progress.is_empty() {
                    self.draw(&mut bars, progress);
                }
                bars.rows.iter().for_each(|row| row.bar.abandon());
                write_above(None);
            }
            Screen::Log(_) if !progress.is_empty() => note!("{}", self.log_line(progress)),
            Screen::Log(_) => {}
        }
    }

    /// Frames per second of some agents in this sitting, and the seconds that they have left.
    pub fn pace(&self, progress: &[AgentProgress], members: impl Fn(usize) -> bool) -> Option<(f64, f64)> {
        let mut begun = held(&self.begun);
        let begun = begun.get_or_insert_with(|| progress.iter().map(|p| p.frames).collect());
        let (mut gained, mut left) = (0, 0);
        for (i, agent) in progress.iter().enumerate().filter(|(i, _)| members(*i)) {
            gained += agent.frames - begun[i];
            left += if agent.stopped.is_none() { self.total.saturating_sub(agent.frames) } else { 0 };
        }
        let rate = gained as f64 / self.start.elapsed().as_secs_f64().max(1e-3);
        (rate >= 1.0).then(|| (rate, left as f64 / rate))
    }

    fn share(&self, progress: &[AgentProgress]) -> f64 {
        let done: u64 = progress.iter().map(|p| p.frames).sum();
        done as f64 / (self.total * self.agents.len() as u64).max(1) as f64
    }

    fn log_line(&self, progress: &[AgentProgress]) -> String {
        let by_name = Grouping::by_name(&self.agents);
        let standings = by_name
            .names
            .iter()
            .enumerate()
            .map(|(number, name)| (name.clone(), Standing::of(&by_name.members(number, progress), None)));
        let standings: Vec<(String, Standing)> = standings.collect();
        log_line(&self.task, self.share(progress), self.pace(progress, |_| true), &standings)
    }

    fn draw(&self, bars: &mut Bars, progress: &[AgentProgress]) {
        let (columns, height) = terminal();
        if height != bars.height {
            // Somebody made the window larger or smaller.
            let _ = bars.all.clear();
            *bars = Bars::new(&self.agents, height);
        }
        let Bars { rows, grouping, .. } = bars;
        let longest = grouping.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        // A terminal that is full to its last column may break the line, and shows "^C" behind what is there.
        let width = columns.saturating_sub(3);
        let done = |members: &[&AgentProgress]| members.iter().map(|p| p.frames).sum();
        for (number, name) in grouping.names.iter().enumerate() {
            let members = grouping.members(number, progress);
            let pace = self.pace(progress, |i| grouping.line_of[i] == number);
            let line = line(name, longest, &Standing::of(&members, pace), self.total, width);
            rows[number].show(line, "cyan/blue", done(&members), self.total * members.len() as u64);
        }
        if let Some(last) = rows.last_mut() {
            let all: Vec<&AgentProgress> = progress.iter().collect();
            let line = total_line(&self.task, self.share(progress), self.pace(progress, |_| true), width);
            last.show(line, "green/blue", done(&all), self.total * self.agents.len() as u64);
        }
    }
}

/// One line on a terminal.
struct Row {
    bar: ProgressBar,
    /// Columns of the bar that is shown now; `None` before anything is.
    columns: Option<usize>,
}

impl Row {
    /// Puts a line into its place. It may be drawn after any of these calls, so whatever gets shorter does so first.
    fn show(&mut self, line: Line, colours: &str, done: u64, total: u64) {
        let Line { name, bar: columns, words } = line;
        if self.columns.is_some_and(|shown| shown < columns) {
            self.bar.set_message(words.clone());
        }
        if self.columns.is_none() {
            // Draws nothing yet: a line is never seen without its words.
            drop(self.bar.clone().with_prefix(name.clone()).with_message(words.clone()));
        }
        if self.columns != Some(columns) {
            let template = match columns {
                0 => "  {prefix} {msg}".to_string(),
                columns => format!("  {{prefix}} {{bar:{columns}.{colours}}} {{msg}}"),
            };
            if let Ok(style) = ProgressStyle::with_template(&template) {
                self.bar.set_style(style.progress_chars("━╸─"));
            }
            self.columns = Some(columns);
        }
        self.bar.set_length(total.max(1));
        self.bar.set_position(done);
        self.bar.set_prefix(name);
        self.bar.set_message(words);
    }
}

/// Columns and rows of the terminal that shows progress.
fn terminal() -> (usize, usize) {
    terminal_size::terminal_size_of(std::io::stderr())
        .map_or(USUAL, |(columns, rows)| (columns.0.max(1).into(), rows.0.max(1).into()))
}

/// The lines on a terminal.
struct Bars {
    all: MultiProgress,
    /// One for each of the grouping's names, and one for all agents, last, next to the cursor.
    rows: Vec<Row>,
    grouping: Grouping,
    /// Rows of the terminal for which they were made.
    height: usize,
}

impl Bars {
    fn new(agents: &[(String, String)], height: usize) -> Self {
        let grouping = Grouping::new(agents, height.saturating_sub(SPARE_ROWS));
        let all = MultiProgress::new();
        let row = |_| Row { bar: all.add(ProgressBar::new(1)), columns: None };
        let rows = (0..=grouping.names.len()).map(row).collect();
        write_above(Some(all.clone()));
        Bars { all, rows, grouping, height }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if matches!(self.screen, Screen::Terminal(_)) {
            write_above(None);
        }
    }
}

impl Observer for Progress {
    fn tick(&self, progress: &[AgentProgress]) {
        match &self.screen {
            Screen::Terminal(bars) => self.draw(&mut held(bars), progress),
            Screen::Log(due) => {
                // The rate counts from the first call on.
                self.pace(progress, |_| true);
                let (mut due, elapsed) = (held(due), self.start.elapsed());
                if elapsed >= *due {
                    *due = next_line(elapsed);
                    note!("{}", self.log_line(progress));
                }
            }
        }
    }

    fn checkpoint(&self, cost: Cost) {
        let mut sum = held(&self.checkpoints);
        sum.0 += 1;
        sum.1.seconds += cost.seconds;
        sum.1.bytes += cost.bytes;
    }
}

/// When a log's next line is due.
fn next_line(elapsed: Duration) -> Duration {
    elapsed + (elapsed / LOG_SHARE).clamp(LOG_EVERY.0, LOG_EVERY.1)
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_of_a_day_can_be_read() {
        let lines = |hours: u64| {
            let mut at = LOG_EVERY.0;
            let mut lines = 0;
            while at <= Duration::from_secs(3600 * hours) {
                at = next_line(at);
                lines += 1;
            }
            lines
        };
        assert!((30..60).contains(&lines(1)) && lines(24) < 200, "{} and {}", lines(1), lines(24));
        assert_eq!(next_line(Duration::from_secs(10)), Duration::from_secs(20));
    }
}
