//! Words for people and programs: results to standard output, everything else to standard error.
//!
//! `println!` and `eprintln!` panic when a reader has gone (`spectral tasks | head -1`) or a disk is full; these do not.

use crate::failure::{DATA, Failure};
use indicatif::MultiProgress;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

/// A text that tells a terminal nothing but what to show. Names and messages come from files and programs of anybody: what moves the
/// cursor, changes colours or turns the direction of writing is shown as `\u001b`, which is the same character in JSON and TOML.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let acts = |c: char| match c {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    };
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match acts(c) {
            true => write!(shown, "\\u{:04x}", u32::from(c)).expect("writing to a string"),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// A harmless text that breaks no line: a name inside of a sentence, or a cell.
pub fn one_line(text: &str) -> String {
    harmless(&text.trim_end().replace("\r\n", "\n")).replace(['\n', '\t'], " ")
}

/// A text whose further lines begin with blanks, so that none looks as if it were another message.
pub fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n  ")
}

/// Prints a result, line break included. A reader who wants no more of it is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out
        .write_all(harmless(text).as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
    {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure { text: format!("cannot write the result: {e}"), exit_code: DATA })
        }
        _ => Ok(()),
    }
}

/// The lines of progress that are on the terminal, if there are any.
static SHOWN: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// From now on notes are written above these lines of progress, or, without any, where the cursor is.
pub fn write_above(lines: Option<MultiProgress>) {
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = lines;
}

/// Writes a note. Nobody can be told if that fails.
pub fn write_note(text: &str) {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let write = |text: &str| {
        let _ = writeln!(std::io::stderr(), "{}", harmless(text));
    };
    match shown {
        // A line break at the beginning is for the cursor's line, which is free then.
        Some(lines) => lines.suspend(|| write(text.trim_start_matches('\n'))),
        None => write(text),
    }
}

/// Tells the user something. Training does not stop because nobody listens any more.
macro_rules! note {
    ($($words:tt)*) => {
        $crate::output::write_note(&format!($($words)*))
    };
}
pub(crate) use note;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown_and_stays_what_it_is_for_programs() {
        let hostile = "a\u{1b}[2J\u{7}\r\u{9b}31m\u{7f}\u{202e}b\u{2028}";
        let shown = harmless(hostile);
        assert_eq!(shown, r"a\u001b[2J\u0007\u000d\u009b31m\u007f\u202eb\u2028");
        assert!(matches!(harmless("ε = 0.1\n\tα ▸ × 日本"), Cow::Borrowed(_)));
        let text = serde_json::to_string(hostile).unwrap();
        assert_eq!(serde_json::from_str::<String>(&harmless(&text)).unwrap(), hostile);
        let text = format!("name = {}", spectral_core::settings::quote(hostile));
        let table: toml::Table = harmless(&text).parse().unwrap();
        assert_eq!(table["name"].as_str(), Some(hostile));
    }

    #[test]
    fn no_name_begins_a_line() {
        assert_eq!(one_line("a\r\nerror: all is lost\n\u{1b}\n"), r"a error: all is lost \u001b");
        assert_eq!(indented("why\nerror: all is lost\n"), "why\n  error: all is lost");
    }
}
