//! The valid word nearest to a mistyped one, for error messages that help.

/// The candidate with the smallest edit distance to `word`, if any is close enough to be a likely slip of the
/// keyboard; the first of equals.
///
/// Close enough means that at most half of the longer word's letters (rounded up) must change, or that one word
/// contains the other. Case does not count, nor does the choice between `-` and `_`.
///
/// ```
/// use spectral_core::nearest::nearest;
/// let tasks = ["pong-mini", "2048", "investor"];
/// assert_eq!(nearest("pong_mnii", tasks), Some("pong-mini"));
/// assert_eq!(nearest("xylophone", tasks), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = normalised(word);
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        let letters = normalised(candidate);
        let mut distance = edit_distance(&word, &letters);
        if contains(&word, &letters) || contains(&letters, &word) {
            // A shortened or lengthened name is a likelier slip than as many wrong letters.
            distance = distance.min(1 + distance / 2);
        } else if distance * 2 > word.len().max(letters.len()) + 1 {
            continue;
        }
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

fn normalised(word: &str) -> Vec<char> {
    word.chars().flat_map(char::to_lowercase).map(|c| if c == '_' { '-' } else { c }).collect()
}

fn contains(long: &[char], short: &[char]) -> bool {
    short.len() >= 3 && long.windows(short.len()).any(|part| part == short)
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string alignment).
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substituted = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substituted.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(a: &str, b: &str) -> usize {
        edit_distance(&normalised(a), &normalised(b))
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
