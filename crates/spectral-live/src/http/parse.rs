//! Reads the head of a request: request line and headers.
//!
//! Everything that HTTP lets a server refuse is refused. The clients are browsers and small programs, whose requests
//! are plain; leniency would serve nobody else than an attacker.

use super::{Method, limits, target};

/// A request that is answered with an error, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub status: u16,
    /// One line that says what to do.
    pub line: String,
    /// The methods that the path has, for 405.
    pub allow: Option<&'static str>,
}

impl Refusal {
    pub fn new(status: u16, line: impl Into<String>) -> Refusal {
        Refusal { status, line: line.into(), allow: None }
    }
}

/// The head of a request, as far as this server cares.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// `None` for methods other than `GET` and `POST`.
    pub method: Option<Method>,
    pub path: String,
    pub query: Vec<(String, String)>,
    /// `None` if there is none, and if there are several.
    pub host: Option<String>,
    pub authorization: Option<String>,
    pub origin: Option<String>,
    /// Bytes of the body.
    pub length: usize,
}

/// Looks for the end of the head in `bytes`, of which the first `seen` were looked at before and are fine.
///
/// Control characters and lines that end otherwise than in CR LF are refused as soon as they come. A client that
/// never sends an empty line need not be waited for, and no later reader can see other lines than this one.
pub(super) fn head_end(bytes: &[u8], seen: usize) -> Result<Option<usize>, Refusal> {
    for (i, &byte) in bytes.iter().enumerate().skip(seen) {
        let after_return = i > 0 && bytes[i - 1] == b'\r';
        match byte {
            b'\n' if !after_return => return Err(bad("Lines must end in CR LF.")),
            b'\n' if bytes[..=i].ends_with(b"\r\n\r\n") => {
                return if i < limits::HEAD { Ok(Some(i + 1)) } else { Err(too_large()) };
            }
            b'\n' => {}
            _ if after_return => return Err(bad("Lines must end in CR LF.")),
            b'\r' | b'\t' | b' '..=b'~' | 0x80.. => {}
            _ => return Err(bad("Headers may have no control characters.")),
        }
    }
    if bytes.len() < limits::HEAD { Ok(None) } else { Err(too_large()) }
}

/// Reads a whole head, with the empty line at its end.
pub(super) fn parse_head(bytes: &[u8]) -> Result<Head, Refusal> {
    let mut lines = bytes.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let (method, (path, query)) = request_line(lines.next().unwrap_or_default())?;
    let mut head = Head { method, path, query, host: None, authorization: None, origin: None, length: 0 };
    let (mut hosts, mut length) = (0, None);
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = header(line)?;
        match name.to_ascii_lowercase().as_str() {
            "host" => {
                hosts += 1;
                head.host = Some(text(value)?);
            }
            "authorization" => once(&mut head.authorization, value)?,
            "origin" => once(&mut head.origin, value)?,
            "content-length" => once(&mut length, value)?,
            "transfer-encoding" => return Err(Refusal::new(501, "Send the body with Content-Length.")),
            "expect" => return Err(Refusal::new(417, "Send the request without Expect.")),
            _ => {}
        }
    }
    if hosts != 1 {
        head.host = None;
    }
    head.length = match (method, length) {
        (_, Some(length)) => body_length(&length)?,
        (Some(Method::Post), None) => return Err(Refusal::new(411, "Send Content-Length with a POST.")),
        (_, None) => 0,
    };
    if method == Some(Method::Get) && head.length > 0 {
        return Err(bad("A GET has no body."));
    }
    Ok(head)
}

fn request_line(line: &[u8]) -> Result<(Option<Method>, target::Target), Refusal> {
    let wrong = || bad("The first line must be METHOD PATH HTTP/1.1, with single spaces.");
    let mut parts = line.split(|&b| b == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    if !is_token(method) {
        return Err(wrong());
    }
    match version {
        b"HTTP/1.1" | b"HTTP/1.0" => {}
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
            return Err(Refusal::new(505, "This server speaks HTTP/1.1."));
        }
        _ => return Err(wrong()),
    }
    let method = match method {
        b"GET" => Some(Method::Get),
        b"POST" => Some(Method::Post),
        _ => None,
    };
    Ok((method, target::parse(target).map_err(bad)?))
}

/// Name and value. A name must be followed by its colon at once, which also refuses lines that continue the one before.
fn header(line: &[u8]) -> Result<(&str, &[u8]), Refusal> {
    let wrong = || bad("Each header must be one line NAME: VALUE.");
    let colon = line.iter().position(|&b| b == b':').ok_or_else(wrong)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if !is_token(name) {
        return Err(wrong());
    }
    let name = str::from_utf8(name).map_err(|_| wrong())?;
    Ok((name, value.trim_ascii()))
}

/// The value of a header that this server reads.
fn text(value: &[u8]) -> Result<String, Refusal> {
    if !value.iter().all(|&b| matches!(b, b' '..=b'~')) {
        return Err(bad("Headers that this server reads must be ASCII."));
    }
    Ok(value.iter().map(|&b| char::from(b)).collect())
}

/// Keeps the value of a header that may come once.
fn once(slot: &mut Option<String>, value: &[u8]) -> Result<(), Refusal> {
    match slot.replace(text(value)?) {
        None => Ok(()),
        Some(_) => Err(bad("Authorization, Origin and Content-Length may come once only.")),
    }
}

fn body_length(text: &str) -> Result<usize, Refusal> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad("Content-Length must be a number."));
    }
    // A number that does not fit is too large as well.
    match text.parse() {
        Ok(length) if length <= limits::BODY => Ok(length),
        _ => Err(Refusal::new(413, format!("The body may have {} bytes.", limits::BODY))),
    }
}

/// Whether these are the characters of a method or of a header's name (RFC 9110).
fn is_token(bytes: &[u8]) -> bool {
    let is = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    !bytes.is_empty() && bytes.iter().all(is)
}

fn bad(line: &'static str) -> Refusal {
    Refusal::new(400, line)
}

fn too_large() -> Refusal {
    Refusal::new(431, format!("Request line and headers may have {} bytes.", limits::HEAD))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reader that gets everything at once makes of it.
    fn read(request: &[u8]) -> Result<Head, u16> {
        let end = head_end(request, 0).map_err(|r| r.status)?.ok_or(0u16)?;
        parse_head(&request[..end]).map_err(|r| r.status)
    }

    fn with(headers: &str) -> Result<Head, u16> {
        read(format!("POST /control HTTP/1.1\r\n{headers}\r\n\r\n").as_bytes())
    }

    #[test]
    fn a_request_of_a_browser() {
        let head = read(
            b"POST /control?a=b HTTP/1.1\r\nHost: 127.0.0.1:80\r\nuser-agent: K\xc3\xa4fer\t1\r\n\
              AUTHORIZATION:Bearer x\r\nOrigin: \t http://127.0.0.1:80 \t\r\nContent-Length: 2\r\nX-Empty:\r\n\r\n{}",
        );
        let expected = Head {
            method: Some(Method::Post),
            path: "/control".into(),
            query: vec![("a".into(), "b".into())],
            host: Some("127.0.0.1:80".into()),
            authorization: Some("Bearer x".into()),
            origin: Some("http://127.0.0.1:80".into()),
            length: 2,
        };
        assert_eq!(head, Ok(expected));
    }

    #[test]
    fn first_lines() {
        for line in ["GET / HTTP/1.1", "GET /run?a HTTP/1.0", "OPTIONS /run HTTP/1.1", "get / HTTP/1.1"] {
            assert!(read(format!("{line}\r\n\r\n").as_bytes()).is_ok(), "{line:?}");
        }
        assert_eq!(read(b"get / HTTP/1.1\r\n\r\n").unwrap().method, None);
        for line in [
            "",
            " ",
            "GET",
            "GET /",
            "GET  / HTTP/1.1",
            "GET /  HTTP/1.1",
            " GET / HTTP/1.1",
            "GET / HTTP/1.1 ",
            "GET\t/ HTTP/1.1",
            "GET / HTTP/1.1 x",
            "G(T / HTTP/1.1",
            "GET / http/1.1",
            "GET / HTTP/1.10",
            "GET / HTTP/1,1",
            "GET / HTTP",
            "GET http://127.0.0.1/ HTTP/1.1",
            "GET * HTTP/1.1",
            "CONNECT 127.0.0.1:1 HTTP/1.1",
        ] {
            assert_eq!(read(format!("{line}\r\n\r\n").as_bytes()), Err(400), "{line:?}");
        }
        assert_eq!(read(b"GET / HTTP/2.0\r\n\r\n"), Err(505));
        assert_eq!(read(b"PRI * HTTP/2.0\r\n\r\n"), Err(505));
    }

    #[test]
    fn headers_that_are_refused() {
        for (headers, status) in [
            ("no colon", 400),
            (": nameless", 400),
            ("Host : 127.0.0.1", 400),
            (" Host: 127.0.0.1", 400),
            ("A: b\r\n continued", 400),
            ("A: b\r\n\tcontinued", 400),
            ("H\u{f6}st: x", 400),
            ("Host: \u{f6}", 400),
            ("Authorization: Bearer a\tb", 400),
            ("Content-Length: 1\r\nContent-Length: 1", 400),
            ("Content-Length: 1\r\ncontent-length: 2", 400),
            ("Content-Length: 1, 1", 400),
            ("Content-Length: +1", 400),
            ("Content-Length: -1", 400),
            ("Content-Length: 0x1", 400),
            ("Content-Length: 1 1", 400),
            ("Content-Length:", 400),
            ("Content-Length: 1025", 413),
            ("Content-Length: 99999999999999999999999999", 413),
            ("Transfer-Encoding: chunked", 501),
            ("Transfer-Encoding: identity\r\nContent-Length: 1", 501),
            ("Content-Length: 1\r\ntransfer-encoding: chunked", 501),
            ("Content-Length: 1\r\nExpect: 100-continue", 417),
            ("Content-Length: 1\r\nOrigin: a\r\nOrigin: a", 400),
            ("Content-Length: 1\r\nAuthorization: a\r\nAuthorization: a", 400),
            ("A: b", 411),
        ] {
            assert_eq!(with(headers), Err(status), "{headers:?}");
        }
        assert_eq!(with("Content-Length: 1024").unwrap().length, 1024);
        assert_eq!(with("Content-Length: 0000001").unwrap().length, 1);
        assert_eq!(read(b"GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n").unwrap().length, 0);
        assert_eq!(read(b"GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\n"), Err(400));
    }

    #[test]
    fn one_host_is_needed() {
        assert_eq!(with("Content-Length: 0\r\nHost: a").unwrap().host.as_deref(), Some("a"));
        assert_eq!(with("Content-Length: 0").unwrap().host, None);
        assert_eq!(with("Content-Length: 0\r\nHost: a\r\nHost: a").unwrap().host, None);
        assert_eq!(with("Content-Length: 0\r\nHost: a\r\nhost: a\r\nHOST: a").unwrap().host, None);
    }

    #[test]
    fn odd_bytes_are_refused_as_soon_as_they_come() {
        for start in [
            "GET / HTTP/1.1\n",
            "\n",
            "GET / HTTP/1.1\rH",
            "\r\r",
            "GET /\0",
            "GET / HTTP/1.1\r\nA: \x7f",
            "\x1b",
        ] {
            assert_eq!(head_end(start.as_bytes(), 0).map_err(|r| r.status), Err(400), "{start:?}");
        }
        for start in ["", "G", "GET / HTTP/1.1\r", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n\r"] {
            assert_eq!(head_end(start.as_bytes(), 0), Ok(None), "{start:?}");
        }
    }

    #[test]
    fn the_end_is_found_however_the_bytes_come() {
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nbody\n\0";
        for step in 1..request.len() {
            let (mut seen, mut found) = (0, None);
            for len in (step..=request.len()).step_by(step).chain([request.len()]) {
                found = found.or(head_end(&request[..len], seen).unwrap());
                if found.is_some() {
                    break;
                }
                seen = len;
            }
            assert_eq!(found, Some(27), "{step} bytes at a time");
        }
    }

    #[test]
    fn a_head_may_have_8_kib() {
        let head = |len: usize| {
            let start = "GET / HTTP/1.1\r\nA: ";
            format!("{start}{}\r\n\r\n", "x".repeat(len - start.len() - 4)).into_bytes()
        };
        assert!(read(&head(8192)).is_ok());
        assert_eq!(read(&head(8193)), Err(431));
        assert_eq!(head_end(&[b'x'; 8191], 0), Ok(None));
        assert_eq!(head_end(&[b'x'; 8192], 0).map_err(|r| r.status), Err(431));
    }

    #[test]
    fn no_input_makes_the_parser_panic() {
        // A small generator of its own, so that a failure comes back.
        let mut state = 1u64;
        let mut random = |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) as usize) % n
        };
        let seeds: [&[u8]; 2] = [
            b"GET /events?agent=a%20b HTTP/1.1\r\nHost: 127.0.0.1:80\r\nAuthorization: Bearer x\r\n\r\n",
            b"POST /control HTTP/1.1\r\nHost: [::1]:80\r\nOrigin: http://[::1]:80\r\nContent-Length: 2\r\n\r\n{}",
        ];
        let odd = b"\0\r\n\t :/?%&=+.*\x7f\x80\xff09azGH";
        let mut accepted = 0;
        for round in 0..200_000 {
            let mut request = seeds[round % 2].to_vec();
            for _ in 0..=random(4) {
                let at = random(request.len());
                match random(3) {
                    0 => request[at] = odd[random(odd.len())],
                    1 => request.insert(at, odd[random(odd.len())]),
                    _ => drop(request.remove(at)),
                }
            }
            if let Ok(head) = read(&request) {
                accepted += 1;
                assert!(head.path.starts_with('/') && !head.path.contains(['%', '\\', '\0']), "{head:?}");
                assert!(head.length <= 1024, "{head:?}");
            }
        }
        // Some of the changes must leave a good request, or this test tries nothing behind the first check.
        assert!((1_000..190_000).contains(&accepted), "{accepted}");
    }
}
