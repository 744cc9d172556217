//! The page that describes the Atari tasks names every one of them.

use spectral_atari::task::tasks;
use std::path::Path;

#[test]
fn every_task_is_on_its_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for task in tasks() {
        let text =
            std::fs::read_to_string(root.join(task.page)).unwrap_or_else(|e| panic!("{}: {e}", task.page));
        assert!(text.contains(&format!("`{}`", task.name)), "{} does not name {}", task.page, task.name);
        assert!(!task.summary.is_empty() && !task.games.is_empty());
    }
}
