//! A first line that holds a text file's checksum, so that a change of a single digit is noticed, and a lost end. It is a comment in
//! TOML.

const WORDS: &str = "# checksum of all lines below: ";

/// The text after its checksum, if it has one as its first line: that line, and the rest.
fn split(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix(WORDS).map(|rest| rest.split_once('\n').unwrap_or((rest, "")))
}

/// The text with its checksum as the first line, in place of one that it has.
///
/// ```
/// use spectral_train::store::{check_seal, seal};
/// let text = seal("frames = 100\nseed = 1\n");
/// assert!(check_seal(&text).is_ok());
/// assert!(check_seal(&text.replace("100", "200")).is_err());
/// assert!(check_seal(&text.replace("seed = 1\n", "")).is_err());
/// assert_eq!(seal(&text), text);
/// ```
pub fn seal(text: &str) -> String {
    let text = split(text).map_or(text, |(_, below)| below);
    format!("{WORDS}{:08x}\n{text}", crc32fast::hash(text.as_bytes()))
}

/// Checks the first line, if it is a checksum: texts of earlier versions have none, and whoever changes one on purpose removes it.
///
/// ```
/// assert!(spectral_train::store::check_seal("frames = 200\n").is_ok());
/// ```
pub fn check_seal(text: &str) -> Result<(), String> {
    let Some((sum, below)) = split(text) else { return Ok(()) };
    match sum == format!("{:08x}", crc32fast::hash(below.as_bytes())) {
        true => Ok(()),
        false => Err("it was changed after it was written, as the checksum in its first line tells: put back what it was \
                      (if the change is wanted, remove that line)"
            .into()),
    }
}

/// A text that was made from another one: with a checksum if that has one.
pub(crate) fn seal_like(before: &str, after: &str) -> String {
    if split(before).is_some() { seal(after) } else { after.into() }
}
