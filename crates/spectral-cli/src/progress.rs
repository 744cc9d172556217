//! Progress of long work: a line per agent and an overall bar on a terminal, plain lines elsewhere.

use crate::output::note;
use crate::table::{count, number};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
pub use spectral_report::duration;
use spectral_train::checkpoint::Cost;
use spectral_train::plan::Plan;
use spectral_train::trainer::{AgentProgress, Observer};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time between plain lines.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// More agents than this share lines, one per agent name, so that the picture fits a screen.
const MOST_LINES: usize = 16;

/// Shows the progress of one run.
pub struct Progress {
    labels: Vec<String>,
    total: u64,
    start: Instant,
    /// Frames per agent when this sitting began: rates count from there.
    begun: Mutex<Option<Vec<u64>>>,
    last_line: Mutex<Instant>,
    bars: Option<Bars>,
    title: String,
    checkpoints: Mutex<(u64, Cost)>,
}

struct Bars {
    overall: ProgressBar,
    lines: Vec<ProgressBar>,
    /// Which line an agent belongs to.
    line_of: Vec<usize>,
    group_sizes: Vec<u64>,
}

impl Progress {
    /// For a run of this plan.
    pub fn new(plan: &Plan) -> Self {
        let labels: Vec<String> = plan.agents.iter().map(|a| a.id.clone()).collect();
        let bars = std::io::stderr().is_terminal().then(|| Bars::new(plan));
        Progress {
            labels,
            total: plan.run.frames,
            start: Instant::now(),
            begun: Mutex::new(None),
            last_line: Mutex::new(Instant::now()),
            bars,
            title: plan.task.clone(),
            checkpoints: Mutex::default(),
        }
    }

    /// How many checkpoints were written, and what they cost together.
    pub fn checkpoints(&self) -> (u64, Cost) {
        *self.checkpoints.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Ends the picture, leaving it on the screen.
    pub fn finish(&self) {
        if let Some(bars) = &self.bars {
            bars.lines.iter().chain([&bars.overall]).for_each(ProgressBar::abandon);
        }
    }

    /// Frames per second of some agents in this sitting, and the seconds that they have left.
    fn pace(&self, progress: &[AgentProgress], members: impl Fn(usize) -> bool) -> Option<(f64, f64)> {
        let mut begun = self.begun.lock().unwrap_or_else(|e| e.into_inner());
        let begun = begun.get_or_insert_with(|| progress.iter().map(|p| p.frames).collect());
        let (mut gained, mut left) = (0, 0);
        for (i, agent) in progress.iter().enumerate().filter(|(i, _)| members(*i)) {
            gained += agent.frames - begun[i];
            left += if agent.stopped.is_none() { self.total.saturating_sub(agent.frames) } else { 0 };
        }
        let rate = gained as f64 / self.start.elapsed().as_secs_f64().max(1e-3);
        (rate >= 1.0).then(|| (rate, left as f64 / rate))
    }

    /// The overall rate and time left, as text.
    fn overall_pace(&self, progress: &[AgentProgress]) -> String {
        match self.pace(progress, |_| true) {
            Some((rate, left)) => format!("{} frames/s, {} left", count(rate as u64), duration(left)),
            None => "starting".into(),
        }
    }
}

impl Bars {
    fn new(plan: &Plan) -> Self {
        let all = MultiProgress::new();
        let by_agent = plan.agents.len() > MOST_LINES;
        let mut names: Vec<String> = Vec::new();
        let mut line_of = Vec::new();
        for agent in &plan.agents {
            let name = if by_agent { agent.agent.clone() } else { agent.id.clone() };
            let line = names.iter().position(|n| *n == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            line_of.push(line);
        }
        let group_sizes: Vec<u64> =
            (0..names.len()).map(|l| line_of.iter().filter(|&&x| x == l).count() as u64).collect();
        let width = names.iter().map(|n| n.len()).max().unwrap_or(8);
        let template = format!("  {{prefix:{width}}} {{bar:24.cyan/blue}} {{msg}}");
        let style = ProgressStyle::with_template(&template).expect("a fixed template").progress_chars("━╸─");
        let line = |(name, size): (&String, &u64)| {
            let bar = all.add(ProgressBar::new(plan.run.frames * size));
            bar.set_style(style.clone());
            bar.set_prefix(name.clone());
            bar
        };
        let lines = names.iter().zip(&group_sizes).map(line).collect();
        let overall = all.add(ProgressBar::new(plan.run.frames * plan.agents.len() as u64));
        let template = "  {prefix} {wide_bar:.green/blue} {percent:>3}%  {msg}";
        overall.set_style(
            ProgressStyle::with_template(template).expect("a fixed template").progress_chars("━╸─"),
        );
        overall.set_prefix(plan.task.clone());
        Bars { overall, lines, line_of, group_sizes }
    }

    fn show(&self, progress: &[AgentProgress], whole: &Progress) {
        for (line, bar) in self.lines.iter().enumerate() {
            let members: Vec<&AgentProgress> =
                progress.iter().zip(&self.line_of).filter(|(_, l)| **l == line).map(|(p, _)| p).collect();
            bar.set_position(members.iter().map(|p| p.frames).sum());
            let scores: Vec<f64> = members.iter().filter_map(|p| p.score).collect();
            let frames = members.iter().map(|p| p.frames).sum::<u64>() / self.group_sizes[line];
            let mut text = format!("{:>10}", count(frames));
            if let Some((rate, left)) = whole.pace(progress, |i| self.line_of[i] == line) {
                text.push_str(&format!("  {:>7}/s  {:>12} left", count(rate as u64), duration(left)));
            }
            if !scores.is_empty() {
                let mean = scores.iter().sum::<f64>() / scores.len() as f64;
                text.push_str(&format!("  score {:>8}", number(mean)));
            }
            let stopped = members.iter().filter(|p| p.stopped.is_some()).count();
            if stopped > 0 {
                text.push_str(&format!("  {stopped} stopped"));
            }
            let saturated: u64 = members.iter().map(|p| p.saturated).sum();
            if saturated > 0 {
                text.push_str(&format!("  {} rewards over capacity", count(saturated)));
            }
            bar.set_message(text);
        }
        self.overall.set_position(progress.iter().map(|p| p.frames).sum());
        self.overall.set_message(whole.overall_pace(progress));
    }
}

impl Observer for Progress {
    fn tick(&self, progress: &[AgentProgress]) {
        if let Some(bars) = &self.bars {
            bars.show(progress, self);
            return;
        }
        let pace = self.overall_pace(progress);
        let mut last = self.last_line.lock().unwrap_or_else(|e| e.into_inner());
        if last.elapsed() >= LINE_EVERY {
            *last = Instant::now();
            let done: u64 = progress.iter().map(|p| p.frames).sum();
            let percent = 100.0 * done as f64 / (self.total * self.labels.len() as u64).max(1) as f64;
            note!("{}: {percent:.0}%, {pace}", self.title);
        }
    }

    fn checkpoint(&self, cost: Cost) {
        let mut sum = self.checkpoints.lock().unwrap_or_else(|e| e.into_inner());
        sum.0 += 1;
        sum.1.seconds += cost.seconds;
        sum.1.bytes += cost.bytes;
    }
}
