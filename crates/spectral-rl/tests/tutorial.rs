//! The tutorial's program is an example that compiles, and its task can be learned.

use std::path::Path;

#[test]
fn the_tutorial_shows_the_example() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read =
        |path: &str| std::fs::read_to_string(here.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let page = read("../../docs/TUTORIAL.md");
    let shown = page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a program");
    let example = read("examples/first_task.rs");
    let (_, program) = example.split_once("\n\n").expect("a comment, then the program");
    assert_eq!(program, shown, "docs/TUTORIAL.md and examples/first_task.rs differ");
}
