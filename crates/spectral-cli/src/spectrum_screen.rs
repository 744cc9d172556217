//! A run in a terminal: the game, what the agent expects of each action, and how its score has grown.

use crate::failure::{DATA, Failure};
use crate::half_blocks::{HalfBlocks, picture_lines, terminal};
use crate::output::one_line;
use crate::table::{count, number};
use spectral_env::Picture;
use spectral_live::scene::{Chooser, Scene};
use spectral_report::read_columns;
use spectral_train::resolve::ResolvedRun;
use spectral_train::run_dir::RunDir;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Heights from an eighth to a whole character.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of an action's name, and of its value.
const NAME: usize = 11;
const VALUE: usize = 9;
/// The most columns of bars.
const BARS: usize = 32;
/// How often the score's file is read again.
const SCORE_TIME: Duration = Duration::from_secs(5);

const DIM: &str = "\x1b[2m";
const BOLD: &str = "\x1b[1m";
const BLUE: &str = "\x1b[38;2;47;155;189m";
const RED: &str = "\x1b[38;2;213;94;0m";
const PLAIN: &str = "\x1b[0m";

/// Draws scenes, one in the place of the other.
pub struct SpectrumScreen {
    screen: HalfBlocks,
    title: String,
    actions: Vec<String>,
    metrics: PathBuf,
    scores: Vec<f64>,
    read: Option<Instant>,
    /// What a full bar stands for; it follows the outputs slowly.
    scale: f32,
}

impl SpectrumScreen {
    /// For one agent of a run.
    pub fn new(dir: &RunDir, run: &ResolvedRun, agent: usize, speed: f64) -> Self {
        let id = &run.plan.agents[agent].id;
        SpectrumScreen {
            screen: HalfBlocks::new(speed.round().max(1.0) as u32),
            title: format!("{}  {id}", run.plan.task),
            actions: run.task.actions.clone(),
            metrics: dir.agent(id).join("metrics.csv"),
            scores: Vec::new(),
            read: None,
            scale: 1.0,
        }
    }

    /// Shows a scene when its time has come; false if nobody reads any more.
    pub fn show(&mut self, scene: &Scene, picture: &Picture) -> Result<bool, Failure> {
        if self.read.is_none_or(|read| read.elapsed() >= SCORE_TIME) {
            // A run that is at work may have no rows yet; the curve comes with them.
            let columns = read_columns(&self.metrics, true).unwrap_or_default();
            let scores = columns.into_iter().find(|(name, _)| name == "score_mean");
            self.scores = scores.map_or_else(Vec::new, |(_, scores)| scores);
            self.scores.retain(|score| score.is_finite());
            self.read = Some(Instant::now());
        }
        let size = terminal();
        let lines = self.lines(scene, picture, size);
        match self.screen.show_lines(&lines, size) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(e) => Err(Failure { text: format!("cannot show the picture: {e}"), exit_code: DATA }),
            Ok(()) => Ok(true),
        }
    }

    /// The whole screen: the picture on the left, values on the right, the score's curve below.
    fn lines(&mut self, scene: &Scene, picture: &Picture, (columns, rows): (usize, usize)) -> Vec<String> {
        let most = rows.saturating_sub(4).max(1);
        let bars = scene.values.as_ref().and_then(|values| values.shown.first()).map_or(0, Vec::len);
        let bars = if bars == 0 { BARS } else { bars.min(BARS) };
        let side = (NAME + bars + VALUE + 5).min(columns * 3 / 5);
        let mut left = match picture.rgb.is_empty() {
            true => Vec::new(),
            false => picture_lines(picture, (columns.saturating_sub(side + 2).max(1), most)),
        };
        let width = left.first().map_or(0, |line| line.matches('▀').count());
        let mut right = self.spectrum(scene, columns.saturating_sub(width + 3));
        let height = left.len().max(right.len()).min(most);
        left.resize(height, " ".repeat(width));
        right.resize(height, String::new());
        let mut lines: Vec<String> = left.iter().zip(&right).map(|(a, b)| format!("{a}  {b}")).collect();
        let fits = |text: String| one_line(&text).chars().take(columns.saturating_sub(1)).collect::<String>();
        lines.push(fits(self.caption(scene)));
        lines.push(fits(self.curve(columns.saturating_sub(24))));
        lines
    }

    fn caption(&self, scene: &Scene) -> String {
        let weights = match scene.weights_frame {
            Some(frames) => format!("weights of frame {}", count(frames)),
            None => scene.trouble.clone().unwrap_or_else(|| "actions are drawn at random".into()),
        };
        let over = if scene.over { "   the episode is over" } else { "" };
        format!("{}   score {}   {weights}{over}", self.title, number(scene.score))
    }

    /// The score over the run, as a line of blocks.
    fn curve(&self, width: usize) -> String {
        let (Some(&last), width) = (self.scores.last(), width.clamp(1, 120)) else {
            return "no score yet".into();
        };
        let cells = width.min(self.scores.len());
        let cell = |n: usize| {
            let part = &self.scores[n * self.scores.len() / cells..(n + 1) * self.scores.len() / cells];
            part.iter().sum::<f64>() / part.len().max(1) as f64
        };
        let means: Vec<f64> = (0..cells).map(cell).collect();
        let (low, high) = means.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
        let range = (high - low).max(1e-9);
        let bars: String = means.iter().map(|x| block((x - low) / range)).collect();
        format!("score {bars} {}", number(last))
    }

    /// A line per action.
    fn spectrum(&mut self, scene: &Scene, columns: usize) -> Vec<String> {
        let room = columns.saturating_sub(NAME + VALUE + 4).clamp(1, BARS);
        let Some(values) = &scene.values else { return Vec::new() };
        let largest = values.shown.iter().flatten().fold(0f32, |most, y| most.max(y.abs()));
        if largest.is_finite() {
            // Up at once, down slowly: bars stay inside, and do not jump.
            self.scale = largest.max(self.scale * 0.98).max(1e-6);
        }
        let best = values.decoded.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let span = values.decoded.iter().fold(1e-9f32, |most, v| most.max(v.abs()));
        let mut lines = Vec::new();
        for (action, value) in values.decoded.iter().enumerate() {
            let legal = scene.legal.as_ref().is_none_or(|legal| legal.allows(action));
            let mark = match (scene.action == Some(action), scene.chooser) {
                (true, Chooser::Chance) => '?',
                (true, _) => '▸',
                _ => ' ',
            };
            let name: String = one_line(&self.actions[action]).chars().take(NAME).collect();
            let shown = &values.shown[action];
            let bars = match shown.is_empty() {
                true => level(value / span, room),
                false => bars(shown, self.scale, room),
            };
            let style = match (legal, *value == best) {
                (false, _) => DIM,
                (true, true) => BOLD,
                _ => "",
            };
            let value = number(f64::from(*value));
            lines.push(format!("{style}{mark} {name:NAME$} {PLAIN}{bars} {style}{value:>VALUE$}{PLAIN}"));
        }
        lines
    }
}

/// A share from 0 to 1 as a block.
fn block(share: f64) -> char {
    HEIGHTS[((share * 8.0) as usize).min(7)]
}

/// One block per output, red below zero; several outputs share a block where there is no room.
fn bars(shown: &[f32], scale: f32, room: usize) -> String {
    let cells = room.min(shown.len());
    let mut text = String::new();
    for cell in 0..cells {
        let part = &shown[cell * shown.len() / cells..(cell + 1) * shown.len() / cells];
        let tallest = part.iter().copied().fold(0f32, |most, y| if y.abs() > most.abs() { y } else { most });
        let share = f64::from(tallest.abs() / scale);
        text.push_str(if tallest < 0.0 { RED } else { BLUE });
        text.push(if share < 0.02 { '·' } else { block(share) });
    }
    text + PLAIN
}

/// One value as a bar from the left.
fn level(share: f32, room: usize) -> String {
    let cells = (share.abs() * room as f32).round() as usize;
    let cells = cells.min(room);
    let colour = if share < 0.0 { RED } else { BLUE };
    format!("{colour}{}{PLAIN}{}", "█".repeat(cells), " ".repeat(room - cells))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_size_and_sign() {
        assert_eq!(bars(&[1.0, 0.0, -0.5], 1.0, 10), format!("{BLUE}█{BLUE}·{RED}▅{PLAIN}"));
        assert_eq!(bars(&[0.0, 1.0, 0.0, -1.0], 1.0, 2), format!("{BLUE}█{RED}█{PLAIN}"));
        assert_eq!(level(-0.5, 4), format!("{RED}██{PLAIN}  "));
    }
}
