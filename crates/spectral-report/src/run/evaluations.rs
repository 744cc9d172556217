//! Frozen games that were played beside training, from `eval.csv`.

use crate::csv::{MODELS, Source, Table};
use crate::error::ReportError;

/// How one of an agent's models played at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Frames that the agent had seen.
    pub frame: u64,
    /// Which of its models played: `last` or `average`.
    pub model: &'static str,
    /// Games played.
    pub games: u64,
    /// Mean score; not finite if a game's was not.
    pub score: f64,
}

/// Reads an agent's table; a run without frozen games has none.
pub(super) fn read_evaluations(source: &Source<'_>) -> Result<Vec<Evaluation>, ReportError> {
    let Some(table) = Table::read(source)?.filter(|table| !table.is_blank()) else {
        return Ok(Vec::new());
    };
    let (frame, model) = (table.column("frame")?, table.column("model")?);
    let (games, score) = (table.column("games")?, table.column("score_mean")?);
    let mut rows: Vec<Evaluation> = Vec::with_capacity(table.len());
    for row in 0..table.len() {
        let at = table.count(row, frame)?;
        if rows.last().is_some_and(|last| last.frame > at) {
            return Err(table.wrong(row, frame, format!("is {at}: frames must not go back")));
        }
        rows.push(Evaluation {
            frame: at,
            model: MODELS[(table.count(row, model)? as usize).min(MODELS.len() - 1)],
            games: table.count(row, games)?,
            score: table.get(row, score).unwrap_or(f64::NAN),
        });
    }
    Ok(rows)
}
