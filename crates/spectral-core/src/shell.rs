//! Words of commands, as a POSIX shell reads them back: in scripts, and in messages that tell a command to type.

use std::path::Path;

/// A word in quotes, if a shell would take it for anything else without them.
///
/// ```
/// use spectral_core::shell::quote_word;
/// assert_eq!(quote_word("plain-1.0/x"), "plain-1.0/x");
/// assert_eq!(quote_word("it's"), r"'it'\''s'");
/// ```
pub fn quote_word(word: &str) -> String {
    // Letters of any language are plain: shells split and expand at ASCII characters, and at blanks of the locale.
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A path as a command's argument: quoted where it must be, and never taken for an option.
///
/// ```
/// use spectral_core::shell::quote_path;
/// assert_eq!(quote_path("runs/my task".as_ref()), "'runs/my task'");
/// assert_eq!(quote_path("--all".as_ref()), "./--all");
/// ```
pub fn quote_path(path: &Path) -> String {
    let path = path.display().to_string();
    // Quotes do not help there: a command sees the word without them.
    let here = if path.starts_with('-') { "./" } else { "" };
    quote_word(&format!("{here}{path}"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_words_and_paths_back() {
        let hostile = [
            "plain",
            "Läufe/ä",
            "a b",
            "it's",
            "\"",
            "$HOME",
            "`id`",
            "~",
            "*",
            "a\nb",
            "a\\b",
            "#",
            "a;b",
            "a&b",
            "(",
            "!",
            "=x",
        ];
        for word in hostile {
            let script = format!("printf %s {}", quote_word(word));
            let said = std::process::Command::new("sh").arg("-c").arg(&script).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), word, "{script}");
        }
        assert_eq!(quote_word(""), "''");
        for (path, word) in [
            ("runs/2048", "runs/2048"),
            ("Läufe", "Läufe"),
            ("-x", "./-x"),
            ("-x y", "'./-x y'"),
            ("a/-x", "a/-x"),
            ("", "''"),
        ] {
            assert_eq!(quote_path(Path::new(path)), word);
        }
    }
}
