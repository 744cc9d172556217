//! The tasks' page names every task, and every game with its modes and difficulties.

use spectral_atari::{games, task};

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tasks/atari.md");
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn every_task_is_on_its_page() {
    let page = page();
    for task in task::tasks() {
        assert_eq!(task.page, "docs/tasks/atari.md");
        assert!(page.contains(&format!("| `{}` |", task.name)), "{} is not on the page", task.name);
    }
}

/// Numbers in their order, three or more in succession as a range.
fn numbers(all: impl Iterator<Item = u16>) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for number in all {
        match runs.last_mut() {
            Some(run) if run.1 + 1 == number => run.1 = number,
            _ => runs.push((number, number)),
        }
    }
    let words = runs.into_iter().map(|(from, to)| match to - from {
        0 => from.to_string(),
        1 => format!("{from}, {to}"),
        _ => format!("{from}–{to}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

#[test]
fn every_game_is_on_the_page_as_it_is() {
    let page = page();
    for game in games::all() {
        let modes = numbers(game.playable_modes().iter().copied());
        let difficulties = numbers(game.difficulties.iter().map(|&number| number.into()));
        let actions = game.minimal.iter().count();
        let row =
            format!("| `atari/{}` | {} | {actions} | {modes} | {difficulties} |", game.name, game.title);
        assert!(page.contains(&row), "the page lacks\n{row}");
    }
}
