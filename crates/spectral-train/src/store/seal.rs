//! A last line that holds a text file's checksum, so that a change of a single digit is noticed. It is a comment in TOML.

const BEFORE: &str = "# checksum of all lines above: ";

/// The text with its checksum as the last line, in place of one that it has.
///
/// ```
/// use spectral_train::store::{check_seal, seal};
/// let text = seal("frames = 100\n");
/// assert!(check_seal(&text).is_ok());
/// assert!(check_seal(&text.replace("100", "200")).is_err());
/// assert_eq!(seal(&text), text);
/// ```
pub fn seal(text: &str) -> String {
    let text = text.rfind(BEFORE).map_or(text, |at| &text[..at]);
    format!("{text}{BEFORE}{:08x}\n", crc32fast::hash(text.as_bytes()))
}

/// Checks the last line, if it is a checksum: texts of earlier versions have none, and whoever changes one on purpose removes it.
///
/// ```
/// assert!(spectral_train::store::check_seal("frames = 200\n").is_ok());
/// ```
pub fn check_seal(text: &str) -> Result<(), String> {
    let Some((above, sum)) = text.rsplit_once(BEFORE) else { return Ok(()) };
    match sum.trim_end() == format!("{:08x}", crc32fast::hash(above.as_bytes())) {
        true => Ok(()),
        false => Err("it was changed after it was written, as the checksum in its last line tells: put back what it was \
                      (if the change is wanted, remove that line)"
            .into()),
    }
}

/// A text that was made from another one: with a checksum if that has one.
pub(crate) fn seal_like(before: &str, after: &str) -> String {
    if before.contains(BEFORE) { seal(after) } else { after.into() }
}
