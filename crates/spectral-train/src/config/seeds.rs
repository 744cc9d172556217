//! The seeds of a run.

use crate::error::TrainError;
use spectral_agent::settings::SettingError;

/// The most seeds of one run, and the most agents, each with its seed.
pub(super) const MAX_SEEDS: u64 = 100_000;

/// The seeds that a text means: a count, an inclusive range or a list.
///
/// ```
/// use spectral_train::config::parse_seeds;
/// assert_eq!(parse_seeds("3").unwrap(), [1, 2, 3]);
/// assert_eq!(parse_seeds("1000..1002").unwrap(), [1000, 1001, 1002]);
/// assert_eq!(parse_seeds("7,9").unwrap(), [7, 9]);
/// ```
pub fn parse_seeds(text: &str) -> Result<Vec<u64>, TrainError> {
    const FORMS: &str = "a count (5), a range (1000..1009) or a list (3,7,9)";
    let wrong = || SettingError::bad("seeds", text, FORMS);
    let too_many = || SettingError::bad("seeds", text, format!("{MAX_SEEDS} seeds at most: {FORMS}"));
    let number = |word: &str| word.trim().replace('_', "").parse::<u64>().map_err(|_| wrong());
    let seeds: Vec<u64> = if let Some((first, last)) = text.split_once("..") {
        let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
        if last < first {
            let expected = format!("a range that begins with its lower end, as in {last}..{first}: {FORMS}");
            return Err(SettingError::bad("seeds", text, expected).into());
        }
        if last - first >= MAX_SEEDS {
            return Err(too_many().into());
        }
        (first..=last).collect()
    } else if text.contains(',') {
        let words = text.split(',').filter(|w| !w.trim().is_empty());
        words.map(number).collect::<Result<_, _>>()?
    } else {
        let count = number(text)?;
        if count > MAX_SEEDS {
            return Err(too_many().into());
        }
        (1..=count).collect()
    };
    if seeds.is_empty() { Err(wrong().into()) } else { Ok(seeds) }
}
