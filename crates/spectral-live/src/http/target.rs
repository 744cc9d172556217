//! What a request asks for: path and query.
//!
//! A path is taken as it is. What could be read in two ways (percent-encoding, empty and dotted segments) is refused,
//! because no path of this server needs it. A query is decoded once, here.

use super::limits;

/// A path and the decoded pairs of its query.
pub(super) type Target = (String, Vec<(String, String)>);

/// Reads a target such as `/events?agent=a`. The error says what is wrong with it.
pub(super) fn parse(target: &[u8]) -> Result<Target, &'static str> {
    if target.first() != Some(&b'/') {
        return Err("The target must be a path, such as /run.");
    }
    let (path, query) = match target.iter().position(|&b| b == b'?') {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, &[][..]),
    };
    if !path.iter().all(|&b| b == b'/' || is_path(b)) {
        return Err("The path may have letters, digits and - . _ ~ ! $ & ' ( ) * + , ; = : @ only.");
    }
    // "/" alone is one empty segment, and the only one that is allowed.
    let dotted_or_empty = |segment: &[u8]| matches!(segment, b"" | b"." | b"..");
    if path != b"/" && path[1..].split(|&b| b == b'/').any(dotted_or_empty) {
        return Err("The path may have no empty segment, and none of dots.");
    }
    let path = path.iter().map(|&b| char::from(b)).collect();
    Ok((path, parse_query(query)?))
}

fn parse_query(query: &[u8]) -> Result<Vec<(String, String)>, &'static str> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in query.split(|&b| b == b'&').filter(|pair| !pair.is_empty()) {
        let (key, value) = match pair.iter().position(|&b| b == b'=') {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &[][..]),
        };
        let (key, value) = (decode(key)?, decode(value)?);
        // Two values for one key could be read in two ways.
        if pairs.iter().any(|(k, _)| *k == key) {
            return Err("The query may have each key once only.");
        }
        if pairs.len() == limits::QUERY_PAIRS {
            return Err("The query has too many keys.");
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// Undoes what browsers do to text in a query.
fn decode(text: &[u8]) -> Result<String, &'static str> {
    const WRONG: &str = "The query must be text in percent-encoded UTF-8 without control characters.";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = after;
        bytes.push(match *first {
            b'+' => b' ',
            b'%' => {
                let [high, low, after @ ..] = after else { return Err(WRONG) };
                rest = after;
                hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low).ok_or(WRONG)?
            }
            byte if is_path(byte) || matches!(byte, b'/' | b'?') => byte,
            _ => return Err(WRONG),
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| WRONG)?;
    if text.chars().any(char::is_control) { Err(WRONG) } else { Ok(text) }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// The characters of a path segment (RFC 3986), without `%`.
fn is_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Option<Vec<(String, String)>> {
        parse(format!("/x?{text}").as_bytes()).ok().map(|(_, query)| query)
    }

    fn pairs(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
    }

    #[test]
    fn plain_paths_are_taken_as_they_are() {
        for path in ["/", "/run", "/app/main.js", "/a/b-c_d~e.f", "/...", "/a:b@c"] {
            assert_eq!(parse(path.as_bytes()), Ok((path.to_string(), vec![])));
        }
    }

    #[test]
    fn paths_that_could_be_read_in_two_ways_are_refused() {
        for path in [
            "",
            "run",
            "*",
            "http://127.0.0.1/run",
            "127.0.0.1:80",
            "//run",
            "/run/",
            "/app//main.js",
            "/.",
            "/..",
            "/app/../run",
            "/app/./main.js",
            "/%72un",
            "/run%00",
            "/app\\main.js",
            "/run#x",
            "/run\"",
            "/r\u{fc}n",
            "/run x",
            "/run\0",
        ] {
            assert!(parse(path.as_bytes()).is_err(), "{path:?}");
        }
    }

    #[test]
    fn queries_are_decoded_once() {
        assert_eq!(query(""), pairs(&[]));
        assert_eq!(query("&&"), pairs(&[]));
        assert_eq!(query("a=1&b=2"), pairs(&[("a", "1"), ("b", "2")]));
        assert_eq!(query("a"), pairs(&[("a", "")]));
        assert_eq!(query("=1"), pairs(&[("", "1")]));
        assert_eq!(query("a=b=c"), pairs(&[("a", "b=c")]));
        assert_eq!(query("a=x+y%20z%2B%26%3d"), pairs(&[("a", "x y z+&=")]));
        assert_eq!(query("a=%2541"), pairs(&[("a", "%41")]));
        assert_eq!(query("a=%C3%BC/?"), pairs(&[("a", "\u{fc}/?")]));
    }

    #[test]
    fn queries_that_are_no_text_are_refused() {
        for text in [
            "a=%", "a=%4", "a=%4g", "a=%+1", "a=%00", "a=%0d%0a", "a=%7f", "a=%c2%85", "a=%ff", "a=%C3",
            "a=\"",
        ] {
            assert_eq!(query(text), None, "{text:?}");
        }
        // Twice the same key, also if it is written in two ways.
        assert_eq!(query("a=1&a=1"), None);
        assert_eq!(query("a=1&%61=2"), None);
        let many = |n: usize| (0..n).map(|i| format!("k{i}=1")).collect::<Vec<_>>().join("&");
        assert!(query(&many(16)).is_some());
        assert!(query(&many(17)).is_none());
    }
}
