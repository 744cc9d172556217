//! What a report says about frozen games: which columns they have, and what those and the dashes with dots are.

use crate::analysis::Task;
use crate::format::list;
use crate::summary::Row;

/// A column of frozen games: its name in tables, its name in `final.csv`, and an agent's value.
pub(crate) struct Column {
    pub name: &'static str,
    pub field: &'static str,
    pub value: fn(&Row) -> Option<f64>,
}

/// The columns that these rows need; none where no frozen games were played.
pub(crate) fn columns<'r>(rows: impl Iterator<Item = &'r Row> + Clone) -> Vec<Column> {
    let averaged = rows.clone().any(|row| row.averaged.is_some());
    if !averaged && rows.clone().all(|row| row.frozen.is_none()) {
        return Vec::new();
    }
    let mut columns = vec![Column { name: "frozen", field: "frozen", value: |row| row.frozen }];
    if averaged {
        columns.push(Column { name: "averaged", field: "averaged", value: |row| row.averaged });
    }
    columns.push(Column { name: "best", field: "frozen_best", value: |row| row.frozen_best });
    columns
}

/// What the columns of a task's frozen games hold; `games` says what the games are.
pub(crate) fn table_note(rows: &[Row], games: &str, both_models: bool) -> Option<String> {
    let columns = columns(rows.iter());
    if columns.is_empty() {
        return None;
    }
    let averaged = match columns.iter().any(|column| column.name == "averaged") {
        true => " averaged: the last evaluation of the model with the running mean of the weights;",
        false => "",
    };
    // The best of two models has more to choose from, so chance flatters it more than that of one.
    let either = if both_models { ", of either model" } else { "" };
    Some(format!(
        "Frozen: the last evaluation, {games}, mean over seeds;{averaged} best: each seed’s best evaluation{either}, which \
         chance flatters."
    ))
}

/// What the dashes with dots are; none where no frozen games were played.
pub(crate) fn curve_note(task: &Task<'_>) -> Option<String> {
    let games = task.frozen_games.as_ref()?;
    let without = if task.both_models { ", without the averaged model" } else { "" };
    Some(format!("Dashes with dots: {games}; mean over seeds{without}."))
}

/// What the scores of a report are, where frozen games were played; none where they were not.
pub(crate) fn scores_note(tasks: &[Task<'_>]) -> Option<String> {
    if tasks.iter().all(|task| task.frozen_games.is_none()) {
        return None;
    }
    let columns = columns(tasks.iter().flat_map(|task| &task.rows));
    let names: Vec<String> = columns.iter().map(|column| column.name.to_owned()).collect();
    let shown = match names.is_empty() {
        true => "the dashes with dots".to_owned(),
        false => format!("the dashes with dots and the columns {}", list(&names)),
    };
    Some(format!(
        "Scores are of training episodes, exploration included, except {shown}: those are of frozen games, whole games with \
         a copy of the model that does not learn, played beside training. Findings and verdicts rest on training episodes."
    ))
}
