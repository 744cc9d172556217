//! Films of play, embedded in the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::analysis::{Agent, Task};
use crate::canvas::escape;
use crate::error::ReportError;
use crate::format::{list, number};
use crate::run::AgentRun;
use crate::stats::{final_score, median_place};

/// The largest film that is embedded, and the most bytes of films in one page.
const MAX_CLIP_BYTES: u64 = 3 << 20;
const MAX_PAGE_BYTES: u64 = 24 << 20;

/// Films that were read, by their files; a film too large to embed has `None`.
pub(crate) struct Clips(BTreeMap<PathBuf, Option<String>>);

impl Clips {
    /// Reads one film per agent and task: that of its median seed, or of the filmed seed nearest to it.
    pub(crate) fn read(tasks: &[Task<'_>]) -> Result<Self, ReportError> {
        let mut clips = BTreeMap::new();
        let mut total = 0;
        for (_, path) in tasks.iter().flat_map(|task| &task.agents).filter_map(typical) {
            let size = fs::metadata(&path).map_err(|error| ReportError::io(&path, "read", error))?.len();
            if size > MAX_CLIP_BYTES || total + size > MAX_PAGE_BYTES {
                clips.insert(path, None);
                continue;
            }
            let bytes = fs::read(&path).map_err(|error| ReportError::io(&path, "read", error))?;
            if !bytes.starts_with(b"GIF8") {
                return Err(ReportError::malformed(
                    &path,
                    None,
                    "is no GIF: a clip is made by `spectral play --out`",
                ));
            }
            total += size;
            clips.insert(path, Some(base64(&bytes)));
        }
        Ok(Self(clips))
    }

    /// The films of one task.
    pub(super) fn section(&self, task: &Task<'_>) -> String {
        let mut films = String::new();
        let mut too_large = Vec::new();
        for agent in &task.agents {
            let Some((run, path)) = typical(agent) else { continue };
            let Some(data) = self.0.get(&path).and_then(Option::as_ref) else {
                too_large.push(path.display().to_string());
                continue;
            };
            let beside = match median(agent) {
                Some((middle, score)) if !std::ptr::eq(middle, run) => {
                    format!(" (the median: {})", number(score))
                }
                _ => String::new(),
            };
            let score = final_score(&run.episodes, run.frames)
                .map_or_else(String::new, |score| format!("; final score {}{beside}", number(score)));
            writeln!(
                films,
                "<figure class=\"clip\" data-figure=\"clip\" data-agent=\"{0}\" style=\"--agent:{1}\">\
                 <img alt=\"{0} at play, seed {2}\" src=\"data:image/gif;base64,{data}\">\
                 <figcaption><b>{0}</b> seed {2}{score}</figcaption></figure>",
                escape(&agent.name),
                agent.style.colour.hex(),
                run.seed,
            )
            .ok();
        }
        if films.is_empty() && too_large.is_empty() {
            return String::new();
        }
        // A single filmed seed need not be the median one, and the reader should know that.
        let untypical: Vec<String> =
            task.agents.iter().filter(|agent| !is_median(agent)).map(|agent| agent.name.clone()).collect();
        let exception = match untypical.as_slice() {
            [] => String::new(),
            names => format!(
                " That seed was not filmed of {}: the film is of the filmed seed nearest to it, typical or not.",
                escape(&list(names))
            ),
        };
        let mut text = format!(
            "<h3>At play</h3>\n<p class=\"caption\">Each agent’s trained network at play, with its median seed by final \
             score.{exception}</p>\n"
        );
        if !films.is_empty() {
            write!(text, "<div class=\"clips\">\n{films}</div>\n").ok();
        }
        for path in too_large {
            let words = format!("{path} is too large to embed; record fewer steps (--steps).");
            writeln!(text, "<p class=\"note\">{}</p>", escape(&words)).ok();
        }
        text
    }
}

/// An agent's median seed by final score and that score: of the finished seeds, if there are any.
fn median<'a>(agent: &Agent<'a>) -> Option<(&'a AgentRun, f64)> {
    let runs = if agent.finished.is_empty() { &agent.unfinished } else { &agent.finished };
    let scores: Vec<Option<f64>> = runs.iter().map(|run| final_score(&run.episodes, run.frames)).collect();
    let place = median_place(&scores)?;
    Some((runs[place], scores[place]?))
}

/// The film of the median seed, or of the filmed seed whose final score is nearest to its.
fn typical<'a>(agent: &Agent<'a>) -> Option<(&'a AgentRun, PathBuf)> {
    let median = median(agent);
    let distance = |run: &AgentRun| match (median, final_score(&run.episodes, run.frames)) {
        (Some((middle, _)), _) if std::ptr::eq(middle, run) => -1.0,
        (Some((_, middle)), Some(score)) => (score - middle).abs(),
        _ => f64::INFINITY,
    };
    agent
        .runs()
        .filter_map(|run| Some((run, run.clip.clone()?)))
        .min_by(|(a, _), (b, _)| distance(a).total_cmp(&distance(b)))
}

/// Whether an agent's film is of its median seed, or there is none to be had.
fn is_median(agent: &Agent<'_>) -> bool {
    match (typical(agent), median(agent)) {
        (Some((filmed, _)), Some((middle, _))) => std::ptr::eq(filmed, middle),
        _ => true,
    }
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |k: usize| u32::from(chunk.get(k).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for k in 0..4 {
            let sign = SIGNS[(word >> (18 - 6 * k) & 63) as usize];
            text.push(if k <= chunk.len() { char::from(sign) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_equals_the_examples_of_its_standard() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in cases {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[255, 254, 253]), "//79");
    }
}
