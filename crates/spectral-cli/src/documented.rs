//! Every command that the documents show is one that the command understands: words, options and values.

use crate::args::{Arguments, Command};
use clap::Parser;
use spectral_train::registry::Registry;
use std::path::{Path, PathBuf};

/// A command as a document shows it.
struct Shown {
    page: PathBuf,
    line: usize,
    words: Vec<String>,
}

/// The Markdown files that a user reads.
fn pages() -> Vec<PathBuf> {
    fn walk(folder: &Path, pages: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.is_symlink() {
                walk(&path, pages);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("python/README.md")];
    walk(&root.join("docs"), &mut pages);
    walk(&root.join("results"), &mut pages);
    pages.sort();
    pages
}

/// The words of a line as a shell takes it apart: quotes, and comments that begin with a word of their own.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The commands in the code blocks of a page: lines that begin with the command's name or with cargo's way to run it, on as many
/// lines as end with a backslash. `&&` separates two, and what waits in the background or is piped ends one.
fn commands(page: &Path) -> Vec<Shown> {
    let text = std::fs::read_to_string(page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
    let (mut shown, mut fenced, mut before) = (Vec::new(), false, String::new());
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if !fenced {
            continue;
        }
        if let Some(part) = line.strip_suffix('\\') {
            before += part;
            continue;
        }
        let whole = words(&(std::mem::take(&mut before) + line));
        for part in whole.split(|word| matches!(word.as_str(), "&&" | "|" | "&" | ";")) {
            let part: Vec<&str> = part.iter().map(String::as_str).collect();
            let words = match part.as_slice() {
                ["spectral", rest @ ..] if !rest.is_empty() => rest,
                ["cargo", "run", "--release", "--", rest @ ..] if !rest.is_empty() => rest,
                _ => continue,
            };
            // What a user is to fill in, or a line of what the command prints.
            if words.iter().any(|word| word.contains('…')) {
                continue;
            }
            let words = words.iter().map(|word| word.to_string()).collect();
            shown.push(Shown { page: page.to_path_buf(), line: number + 1, words });
        }
    }
    shown
}

fn all() -> Vec<Shown> {
    pages().iter().flat_map(|page| commands(page)).collect()
}

/// A value in capitals stands for one of the user's.
fn with_values(words: &[String]) -> impl Iterator<Item = String> + '_ {
    words.iter().map(|word| if word == "FRAMES" { "1000".into() } else { word.clone() })
}

#[test]
fn every_command_in_the_documents_is_understood() {
    let (mut count, mut wrong) = (0, Vec::new());
    for shown in all() {
        count += 1;
        let words = std::iter::once("spectral".to_string()).chain(with_values(&shown.words));
        if let Err(message) = Arguments::try_parse_from(words)
            && message.use_stderr()
        {
            wrong.push(format!("{}:{}: {message}", shown.page.display(), shown.line));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 80, "only {count} commands were found");
}

/// Tasks, agents, settings and figures exist. Nothing is trained; what needs a file or a device that is not here is left out.
#[test]
fn what_the_documents_train_can_be_planned() {
    let (mut count, mut wrong) = (0, Vec::new());
    for shown in all() {
        let words = || std::iter::once("spectral".to_string()).chain(shown.words.iter().cloned());
        let needs_more = |word: &String| {
            word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
                || word.starts_with("atari/")
                || word.ends_with(".toml")
                || matches!(
                    word.as_str(),
                    "--on" | "cuda" | "exponential-pong" | "ponglantis" | "--config" | "--help"
                )
        };
        if shown.words.iter().any(needs_more) {
            continue;
        }
        let more: &[&str] = match Arguments::try_parse_from(words()).map(|arguments| arguments.command) {
            Ok(Command::Train(args)) if args.task.is_some() => &["--dry-run"],
            Ok(Command::Sweep(_)) => &["--dry-run"],
            Ok(Command::Reproduce(args))
                if args.figure.as_deref().is_some_and(|name| name.starts_with("mini-")) =>
            {
                &["--dry-run", "--calibrate", "0"]
            }
            _ => continue,
        };
        count += 1;
        let more = more
            .iter()
            .filter(|word| !shown.words.iter().any(|said| said == *word))
            .map(|word| word.to_string());
        let code = crate::run(&Registry::default(), words().chain(more));
        if code != 0 {
            wrong.push(format!(
                "{}:{}: spectral {}: exit code {code}",
                shown.page.display(),
                shown.line,
                shown.words.join(" ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 15, "only {count} commands were planned");
}

#[test]
fn lines_are_taken_apart_as_a_shell_does() {
    assert_eq!(words("a 'b c' --d=\"e f\" g#h # i"), ["a", "b c", "--d=e f", "g#h"]);
    assert!(words("# all of it").is_empty());
}
