//! Writes answers.

use super::limits;
use super::parse::Refusal;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::time::Instant;

/// The media type of errors.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// On every answer, errors as well.
const HEADERS: &str = "\
Connection: close\r\n\
Cache-Control: no-store\r\n\
Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
X-Content-Type-Options: nosniff\r\n\
X-Frame-Options: DENY\r\n\
Referrer-Policy: no-referrer\r\n\
Cross-Origin-Opener-Policy: same-origin\r\n\
Cross-Origin-Resource-Policy: same-origin\r\n";

/// What the head of an answer says.
pub(super) struct AnswerHead {
    pub status: u16,
    pub content_type: &'static str,
    /// `None` for streams, which end with the connection.
    pub length: Option<usize>,
    pub download: Option<&'static str>,
    pub allow: Option<&'static str>,
}

impl AnswerHead {
    pub fn bytes(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n{HEADERS}", self.status, reason(self.status));
        // Writing to a string cannot fail.
        let _ = write!(head, "Content-Type: {}\r\n", self.content_type);
        if let Some(length) = self.length {
            let _ = write!(head, "Content-Length: {length}\r\n");
        }
        if let Some(name) = self.download {
            let _ = write!(head, "Content-Disposition: attachment; filename=\"{name}\"\r\n");
        }
        if let Some(methods) = self.allow {
            let _ = write!(head, "Allow: {methods}\r\n");
        }
        if self.status == 401 {
            head.push_str("WWW-Authenticate: Bearer\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

/// The whole answer to a request that was refused.
pub(super) fn refusal(refusal: &Refusal) -> Vec<u8> {
    let length = Some(refusal.line.len() + 1);
    let head = AnswerHead {
        status: refusal.status,
        content_type: TEXT,
        length,
        download: None,
        allow: refusal.allow,
    };
    let mut bytes = head.bytes();
    bytes.extend_from_slice(refusal.line.as_bytes());
    bytes.push(b'\n');
    bytes
}

/// The answer to clients for whom there is no place.
pub(super) fn busy() -> Refusal {
    Refusal::new(503, "Too many clients at once: close a page, or try again in a moment.")
}

/// Sends everything, unless the client takes nothing for a while, or too long in all.
pub(super) fn send(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    // In pieces, so that the time-out is for a piece and not for a film.
    const PIECE: usize = 64 * 1024;
    let deadline = Instant::now() + limits::ANSWER;
    stream.set_write_timeout(Some(limits::WRITE))?;
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.write(&rest[..rest.len().min(PIECE)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => rest = &rest[n..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if !rest.is_empty() && Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        // Clients read the number; HTTP lets the words be left out.
        _ => "",
    }
}
