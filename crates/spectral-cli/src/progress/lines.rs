//! The words of a run's progress and how they share the width of a terminal: plain functions, so that tests need no terminal.

use crate::table::{count, number};
use spectral_report::duration;
use spectral_train::trainer::AgentProgress;

/// The widest bar of a line, and the narrowest that is still one.
const BAR: (usize, usize) = (24, 6);
/// More lines than this are hard to read, however much room there is.
const MOST_LINES: usize = 16;
/// Names in a line of a log; others are counted.
const NAMED: usize = 8;
/// The shortest that a long name is cut to.
const SHORTEST_NAME: usize = 8;

/// Which agents share a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// What each line is called.
    pub names: Vec<String>,
    /// The line of each agent.
    pub line_of: Vec<usize>,
}

impl Grouping {
    /// A line per agent; per name of agents where there is no room for that; and one for all the names that then still have none.
    /// `agents` are pairs of name and id.
    pub fn new(agents: &[(String, String)], room: usize) -> Self {
        let room = room.clamp(1, MOST_LINES);
        let each = match agents.len() <= room {
            true => Self::lines(agents.iter().map(|(_, id)| id)),
            false => Self::by_name(agents),
        };
        each.within(room)
    }

    /// A line per name.
    pub fn by_name(agents: &[(String, String)]) -> Self {
        Self::lines(agents.iter().map(|(name, _)| name))
    }

    fn lines<'a>(labels: impl Iterator<Item = &'a String>) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut line_of = Vec::new();
        for label in labels {
            let line = names.iter().position(|known| known == label).unwrap_or_else(|| {
                names.push(label.clone());
                names.len() - 1
            });
            line_of.push(line);
        }
        Grouping { names, line_of }
    }

    fn within(self, room: usize) -> Self {
        let Grouping { mut names, mut line_of } = self;
        if names.len() > room {
            let more = names.len() - (room - 1);
            names.truncate(room - 1);
            names.push(format!("{more} more"));
            line_of.iter_mut().for_each(|line| *line = (*line).min(room - 1));
        }
        Grouping { names, line_of }
    }

    /// The agents of one line.
    pub fn members<'a>(&self, line: usize, progress: &'a [AgentProgress]) -> Vec<&'a AgentProgress> {
        progress.iter().zip(&self.line_of).filter(|(_, of)| **of == line).map(|(agent, _)| agent).collect()
    }
}

/// What is known of the agents of one line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// Mean frames of an agent.
    pub frames: u64,
    /// Mean score of the last episodes.
    pub score: Option<f64>,
    /// Frames a second, and seconds left.
    pub pace: Option<(f64, f64)>,
    /// Agents that were stopped.
    pub stopped: usize,
    /// Rewards beyond the codec's capacity.
    pub saturated: u64,
}

impl Standing {
    /// That of some agents.
    pub fn of(members: &[&AgentProgress], pace: Option<(f64, f64)>) -> Self {
        let scores: Vec<f64> = members.iter().filter_map(|agent| agent.score).collect();
        Standing {
            frames: members.iter().map(|agent| agent.frames).sum::<u64>() / members.len().max(1) as u64,
            score: (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64),
            pace,
            stopped: members.iter().filter(|agent| agent.stopped.is_some()).count(),
            saturated: members.iter().map(|agent| agent.saturated).sum(),
        }
    }
}

/// One line of the picture: the name, as many columns of bar (or none), the words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub name: String,
    pub bar: usize,
    pub words: String,
}

/// The line of some agents in `width` columns; `longest` is the length of the longest name, `total` what their frames come to.
/// What matters less gives way first: the time left, the rate, the bar.
pub fn line(name: &str, longest: usize, standing: &Standing, total: u64, width: usize) -> Line {
    let name = padded(name, longest.min((width / 3).max(SHORTEST_NAME)));
    let room = width.saturating_sub(2 + name.chars().count() + 1);
    let frames = format!("{:>1$}", count(standing.frames), count(total).len());
    let score = match standing.score {
        Some(score) => format!("  score {:>7}", number(score)),
        None => String::new(),
    };
    let mut warnings = String::new();
    if standing.stopped > 0 {
        warnings += &format!("  {} stopped", standing.stopped);
    }
    if standing.saturated > 0 {
        warnings += &format!("  {} rewards over capacity", count(standing.saturated));
    }
    let (rate, left) = match standing.pace {
        Some((rate, left)) => {
            (format!("  {:>7}/s", count(rate as u64)), format!("  {} left", duration(left)))
        }
        None => (String::new(), String::new()),
    };
    let fits = |words: &String| words.chars().count() + BAR.1 < room;
    let choices = [
        [&frames, &score, &rate, &left, &warnings].map(String::as_str).concat(),
        [&frames, &score, &rate, &warnings].map(String::as_str).concat(),
        [&frames, &score, &warnings].map(String::as_str).concat(),
        [&frames, &score].map(String::as_str).concat(),
    ];
    let words = choices.iter().find(|words| fits(words)).unwrap_or(&choices[3]);
    let words: String = words.chars().take(room).collect();
    let bar = room.saturating_sub(words.chars().count() + 1).min(BAR.0);
    Line { name, bar: if bar < BAR.1 { 0 } else { bar }, words }
}

/// The line of all agents together.
pub fn total_line(task: &str, share: f64, pace: Option<(f64, f64)>, width: usize) -> Line {
    let name: String = padded(task, task.chars().count().min((width / 3).max(SHORTEST_NAME)));
    let room = width.saturating_sub(2 + name.chars().count() + 1);
    let percent = percent(share);
    let choices = [format!("{percent}  {}", pace_words(pace)), percent];
    let words = choices.iter().find(|words| words.chars().count() + BAR.1 < room).unwrap_or(&choices[1]);
    let words: String = words.chars().take(room).collect();
    let bar = room.saturating_sub(words.chars().count() + 1);
    Line { name, bar: if bar < BAR.1 { 0 } else { bar }, words }
}

/// A line of a log: all agents together, and each name's score.
pub fn log_line(task: &str, share: f64, pace: Option<(f64, f64)>, scores: &[(String, Standing)]) -> String {
    let mut text = format!("{task}: {}", percent(share).trim_start());
    // A run that was over before its speed could be measured is not starting.
    if pace.is_some() || share < 1.0 {
        text += &format!(", {}", pace_words(pace));
    }
    let mut known: Vec<(&str, f64)> =
        scores.iter().filter_map(|(name, standing)| Some((name.as_str(), standing.score?))).collect();
    if !known.is_empty() {
        let many = known.len() > NAMED;
        if many {
            known.sort_by(|a, b| b.1.total_cmp(&a.1));
        }
        let named = known.iter().take(NAMED).map(|(name, score)| format!("{name} {}", number(*score)));
        text += if many { "; best scores " } else { "; scores " };
        text += &named.collect::<Vec<_>>().join(", ");
    }
    let stopped: usize = scores.iter().map(|(_, standing)| standing.stopped).sum();
    if stopped > 0 {
        text += &format!("; {stopped} stopped");
    }
    text
}

fn percent(share: f64) -> String {
    // Not 100 before it is.
    format!("{:>3.0}%", (100.0 * share).floor())
}

fn pace_words(pace: Option<(f64, f64)>) -> String {
    match pace {
        Some((rate, left)) => format!("{} frames/s, {} left", count(rate as u64), duration(left)),
        None => "starting".into(),
    }
}

/// A name in so many columns; one that is too long loses its middle, because beginnings and ends tell names apart.
fn padded(name: &str, columns: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= columns {
        return format!("{name:columns$}");
    }
    let (head, tail) = ((columns - 1).div_ceil(2), (columns - 1) / 2);
    let ends = [&letters[..head], &['…'], &letters[letters.len() - tail..]];
    ends.concat().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agents(names: usize, seeds: usize) -> Vec<(String, String)> {
        let pair = |i: usize| {
            let name = format!("agent{}", i / seeds);
            (name.clone(), format!("{name}-s{}", i % seeds + 1))
        };
        (0..names * seeds).map(pair).collect()
    }

    impl Line {
        /// Its width: two blanks, the name, a blank, the bar and a blank if there is one, the words.
        fn width(&self) -> usize {
            let bar = if self.bar > 0 { self.bar + 1 } else { 0 };
            2 + self.name.chars().count() + 1 + bar + self.words.chars().count()
        }
    }

    fn busy() -> Standing {
        Standing {
            frames: 123_456,
            score: Some(-1234.5),
            pace: Some((98_765.0, 7_260.0)),
            stopped: 1,
            saturated: 12_345,
        }
    }

    #[test]
    fn agents_share_lines_when_space_is_short() {
        // 24 rows: twelve agents have a line each, thirty share those of their names.
        assert_eq!(Grouping::new(&agents(4, 3), 20).names.len(), 12);
        assert_eq!(Grouping::new(&agents(4, 3), 11).names, ["agent0", "agent1", "agent2", "agent3"]);
        let many = Grouping::new(&agents(30, 2), 20);
        assert_eq!((many.names.len(), many.names[15].as_str()), (16, "15 more"));
        assert_eq!((many.line_of[0], many.line_of[59]), (0, 15));
        for room in 0..40 {
            for (names, seeds) in [(1, 1), (4, 3), (12, 1), (30, 2)] {
                let Grouping { names, line_of } = Grouping::new(&agents(names, seeds), room);
                assert!(names.len() <= room.max(1) && line_of.iter().all(|line| *line < names.len()));
            }
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_scores_stay() {
        let idle = Standing::default();
        for width in 30..220 {
            for name in ["spectral-s1", "a-name-that-somebody-made-of-seven-words-s1000"] {
                for standing in [&busy(), &idle] {
                    let line = line(name, name.len(), standing, 200_000, width);
                    assert!(line.width() <= width, "{width}: {line:?}");
                }
                let line = line(name, name.len(), &busy(), 200_000, width);
                assert!(width < 40 || line.words.contains("score   -1234"), "{width}: {line:?}");
            }
            for pace in [None, busy().pace] {
                let line = total_line("exponential-pong-mini", 0.5, pace, width);
                assert!(line.width() <= width && line.words.contains("50%"), "{width}: {line:?}");
            }
        }
    }

    #[test]
    fn eighty_columns_hold_all_that_matters() {
        let standing = Standing { stopped: 0, saturated: 0, ..busy() };
        let line = line("compressed-s1", 13, &standing, 200_000, 80);
        assert_eq!(line.words, "123,456  score   -1234   98,765/s  2 h 01 min left");
        assert!(line.bar >= BAR.1, "{line:?}");
        let total = total_line("pong-mini", 0.5, standing.pace, 80);
        assert_eq!(total.words, " 50%  98,765 frames/s, 2 h 01 min left");
        assert_eq!(total.width(), 80);
    }

    #[test]
    fn a_log_shows_scores_and_rate() {
        let scores = |n: usize| -> Vec<(String, Standing)> {
            let one = |i| (format!("a{i}"), Standing { score: Some(i as f64), ..Standing::default() });
            (0..n).map(one).collect()
        };
        assert_eq!(
            log_line("2048", 0.999, Some((1500.4, 65.0)), &scores(2)),
            "2048: 99%, 1,500 frames/s, 1 min 05 s left; scores a0 0, a1 1.00"
        );
        let many = log_line("2048", 0.0, None, &scores(12));
        assert!(many.starts_with("2048: 0%, starting; best scores a11 11.00, a10 10.00"), "{many}");
        assert!(!many.contains("a3 "), "{many}");
        assert!(log_line("2048", 0.0, None, &[("a".into(), busy())]).ends_with("; 1 stopped"));
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(padded("spectral", 10), "spectral  ");
        assert_eq!(padded("spectral-learning_rate-1e-4-s3", 12), "spectr…-4-s3");
    }
}
