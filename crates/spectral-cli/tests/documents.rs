//! The documents: every relative link leads somewhere, and lines are short enough to read and to compare.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Every Markdown file of the repository, in order.
fn pages() -> Vec<PathBuf> {
    fn walk(folder: &Path, pages: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() && !path.is_symlink() && name != "target" && !name.starts_with('.') {
                walk(&path, pages);
            } else if name.ends_with(".md") {
                pages.push(path);
            }
        }
    }
    let mut pages = Vec::new();
    walk(&root(), &mut pages);
    pages.sort();
    assert!(pages.len() > 30, "{pages:?}");
    pages
}

fn read(page: &Path) -> String {
    std::fs::read_to_string(page).unwrap_or_else(|e| panic!("{}: {e}", page.display()))
}

/// The lines outside of code blocks, with code in backticks removed: brackets there make no links.
fn prose(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push(line.split('`').step_by(2).collect());
        }
    }
    lines
}

/// Where the links of a text lead: what stands in `](…)`.
fn links(text: &str) -> Vec<String> {
    let lines = prose(text);
    let targets = lines.iter().flat_map(|line| line.split("](").skip(1));
    targets.map(|rest| rest.split(')').next().expect("a part").to_string()).collect()
}

/// The anchors of a page, one per heading, as code hosts make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let repeated = (1..).map(|n| format!("{anchor}-{n}"));
        let free = std::iter::once(anchor.clone()).chain(repeated).find(|a| !anchors.contains(a));
        anchors.insert(free.expect("one of infinitely many"));
    }
    anchors
}

/// What is wrong with a link of a page, if anything is.
fn broken(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target =
        if path.is_empty() { page.to_path_buf() } else { page.parent().expect("a folder").join(path) };
    if !target.exists() {
        return Some(format!("{}: {link} leads nowhere", page.display()));
    }
    let anchored = anchor.is_empty() || anchors(&read(&target)).contains(anchor);
    (!anchored).then(|| format!("{}: {link}: there is no such heading", page.display()))
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages() {
        for link in links(&read(&page)) {
            count += 1;
            wrong.extend(broken(&page, &link));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 100, "only {count} links were found");
}

#[test]
fn no_line_of_the_documents_is_too_long() {
    for page in pages().iter().filter(|page| page.starts_with(root().join("docs"))) {
        for (number, line) in read(page).lines().enumerate() {
            let length = line.chars().count();
            assert!(length <= 400, "{}:{} has {length} characters", page.display(), number + 1);
        }
    }
}

#[test]
fn links_and_headings_are_told_from_code() {
    let text =
        "# One `two` three's\n[a](b.md) `[c](d.md)` [e](#f)\n```\n# not\n[g](h.md)\n```\n## One two threes\n";
    assert_eq!(links(text), ["b.md", "#f"]);
    let expected = ["one-two-threes", "one-two-threes-1"].map(String::from);
    assert_eq!(anchors(text), BTreeSet::from(expected));
    let here = root().join("README.md");
    assert!(broken(&here, "no-such-file.md").is_some());
    assert!(broken(&here, "docs/GPU.md#no-such-heading").is_some());
    assert!(broken(&here, "docs/GPU.md#precision").is_none());
}
