//! The pages that describe the tasks name them and give the scores that the registry gives.

use spectral_env::tasks;
use std::path::Path;

#[test]
fn every_task_is_on_its_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for task in tasks() {
        let text =
            std::fs::read_to_string(root.join(task.page)).unwrap_or_else(|e| panic!("{}: {e}", task.page));
        assert!(text.contains(&format!("`{}`", task.name)), "{} does not name {}", task.page, task.name);
        let scores = [Some(task.random_score), task.best_score];
        for score in scores.into_iter().flatten() {
            let written = score.to_string().replace('-', "−");
            let plain = text.replace(',', "");
            assert!(plain.contains(&written), "{} does not give {}'s {written}", task.page, task.name);
        }
    }
}
