//! The token that a client shows to be let in.

use std::hint::black_box;
use std::io;

/// 128 random bits of the operating system, as 32 hexadecimal digits.
pub(super) fn new() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(|e| io::Error::other(format!("no random bytes for a token: {e}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether an `Authorization` header shows `token`.
pub(super) fn shown(authorization: &str, token: &str) -> bool {
    let Some((scheme, shown)) = authorization.split_once(' ') else { return false };
    scheme.eq_ignore_ascii_case("bearer") && same(shown.trim_start_matches(' ').as_bytes(), token.as_bytes())
}

/// Compares in a time that depends on the lengths only, so that nobody can find the token digit by digit.
fn same(a: &[u8], b: &[u8]) -> bool {
    let mut difference = 0;
    for (x, y) in a.iter().zip(b) {
        // The black box keeps the compiler from leaving the loop early.
        difference |= black_box(x ^ y);
    }
    a.len() == b.len() && black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_hexadecimal_and_new_each_time() {
        let token = new().unwrap();
        assert_eq!(token.len(), 32);
        assert!(token.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
        assert_ne!(token, new().unwrap());
    }

    #[test]
    fn only_the_whole_token_is_accepted() {
        assert!(shown("Bearer 0123abcd", "0123abcd"));
        assert!(shown("bearer  0123abcd", "0123abcd"));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "0123abcd",
            "Bearer 0123abc",
            "Bearer 0123abcde",
            "Bearer 0123abce",
            "Bearer 1123abcd",
            "Bearer 0123ABCD",
            "Bearer 0123abcd 0123abcd",
            "Basic 0123abcd",
            "Bearer\t0123abcd",
        ] {
            assert!(!shown(wrong, "0123abcd"), "{wrong:?}");
        }
    }
}
