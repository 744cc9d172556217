//! Suggests the valid word nearest to a mistyped one, for error messages.

use strsim::osa_distance;

/// What other libraries and papers call things, and what they are called here.
const OTHER_NAMES: [(&str, &str); 20] = [
    ("dqn", "clipped"),
    ("dqn-tc", "compressed"),
    ("dqn+tc", "compressed"),
    ("spectral-dqn", "spectral"),
    ("pop-art", "popart"),
    ("c51", "c51-squashed"),
    ("hl-gauss", "categorical"),
    ("lr", "learning-rate"),
    ("alpha", "learning-rate"),
    ("gamma", "discount"),
    ("batch-size", "batch"),
    ("minibatch", "batch"),
    ("buffer-size", "replay"),
    ("replay-size", "replay"),
    ("epsilon", "epsilon-final"),
    ("train-freq", "update-period"),
    ("target-update-interval", "target-period"),
    ("nsteps", "n-step"),
    ("per", "prioritised"),
    ("total-timesteps", "frames"),
];

/// The candidate with the smallest edit distance to `word`, if any is close enough to be a likely typo. Of several with the same
/// distance it returns the first.
///
/// Names that are usual elsewhere are known. Otherwise a candidate is close enough if at most half of the longer word's letters (rounded up) must change, or if one word contains the
/// other. Letter case and the choice between `-` and `_` do not count.
///
/// ```
/// use spectral_core::nearest::nearest;
/// let tasks = ["pong-mini", "2048", "investor"];
/// assert_eq!(nearest("pong_mnii", tasks), Some("pong-mini"));
/// assert_eq!(nearest("xylophone", tasks), None);
/// assert_eq!(nearest("lr", ["batch", "learning_rate"]), Some("learning_rate"));
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = normalised(word);
    let other_name = OTHER_NAMES.iter().find(|(known, _)| *known == word).map(|(_, ours)| *ours);
    let candidates: Vec<&'a str> = candidates.into_iter().collect();
    if let Some(ours) = other_name.and_then(|ours| candidates.iter().find(|c| normalised(c) == ours)) {
        return Some(ours);
    }
    let letters = word.chars().count();
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        let other = normalised(candidate);
        let mut distance = osa_distance(&word, &other);
        if contains(&word, &other) || contains(&other, &word) {
            // A shortened or lengthened name is a more likely typo than equally many wrong letters.
            distance = distance.min(1 + distance / 2);
        } else if distance * 2 > letters.max(other.chars().count()) + 1 {
            continue;
        }
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

fn normalised(word: &str) -> String {
    word.chars().flat_map(char::to_lowercase).map(|c| if c == '_' { '-' } else { c }).collect()
}

fn contains(long: &str, short: &str) -> bool {
    short.chars().count() >= 3 && long.contains(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(a: &str, b: &str) -> usize {
        osa_distance(&normalised(a), &normalised(b))
    }

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("pong", "pnog", 1),
            ("catch_scale", "Catch-Scale", 0),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn nearest_word() {
        let words = ["pong-mini", "exponential-pong-mini", "investor", "2048"];
        assert_eq!(nearest("ponng-mini", words), Some("pong-mini"));
        assert_eq!(nearest("exponential-pong", words), Some("exponential-pong-mini"));
        assert_eq!(nearest("pong", words), Some("pong-mini"));
        assert_eq!(nearest("2084", words), Some("2048"));
        assert_eq!(nearest("zzzzzzzzz", words), None);
        assert_eq!(nearest("", words), None);
        assert_eq!(nearest("pong", []), None);
    }
}
