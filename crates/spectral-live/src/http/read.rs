//! Reads one request from a connection, within one deadline.

use super::limits;
use super::parse::{self, Head, Refusal};
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

/// Why there is no request.
pub(super) enum Unread {
    /// The client left, or never said a word. There is nobody to answer.
    Gone,
    /// It sent something that is no request.
    Refused(Refusal),
}

impl From<Refusal> for Unread {
    fn from(refusal: Refusal) -> Unread {
        Unread::Refused(refusal)
    }
}

/// The sending half of one client.
pub(super) struct Reader<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
    buffer: Vec<u8>,
    /// How many bytes of `buffer` the client has sent.
    len: usize,
}

impl<'a> Reader<'a> {
    pub fn new(stream: &'a TcpStream) -> Reader<'a> {
        // One deadline for all reads: a client that sends a byte now and then gains nothing.
        let deadline = Instant::now() + limits::REQUEST;
        Reader { stream, deadline, buffer: vec![0; limits::HEAD + limits::BODY], len: 0 }
    }

    /// Reads the head. Returns with it where the body begins.
    pub fn head(&mut self) -> Result<(Head, usize), Unread> {
        let mut seen = 0;
        loop {
            if let Some(end) = parse::head_end(&self.buffer[..self.len], seen)? {
                return Ok((parse::parse_head(&self.buffer[..end])?, end));
            }
            seen = self.len;
            self.more()?;
        }
    }

    /// Reads a body of `length` bytes that begins at `start`. What comes after it is never looked at.
    pub fn body(&mut self, start: usize, length: usize) -> Result<Vec<u8>, Unread> {
        // The buffer has room for the largest head and the largest body.
        while self.len < start + length {
            self.more()?;
        }
        Ok(self.buffer[start..start + length].to_vec())
    }

    fn more(&mut self) -> Result<(), Unread> {
        match read_until(self.stream, self.deadline, &mut self.buffer[self.len..]) {
            Ok(0) if self.len > 0 => Err(Refusal::new(400, "The request ended early.").into()),
            Ok(0) => Err(Unread::Gone),
            Ok(n) => {
                self.len += n;
                Ok(())
            }
            // Browsers open connections in advance; if they do not use one, a 408 would only confuse them.
            Err(e) if timed_out(&e) && self.len > 0 => {
                let line = format!("A request must arrive within {} seconds.", limits::REQUEST.as_secs());
                Err(Refusal::new(408, line).into())
            }
            Err(_) => Err(Unread::Gone),
        }
    }

    /// Listens on for a moment, after a refusal was sent.
    ///
    /// If a connection is closed while the client is still sending, the client gets an error instead of the answer.
    pub fn linger(&mut self) {
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let deadline = Instant::now() + limits::LINGER;
        for _ in 0..8 {
            if !matches!(read_until(self.stream, deadline, &mut self.buffer), Ok(1..)) {
                return;
            }
        }
    }
}

/// One read that ends at `deadline` at the latest.
fn read_until(mut stream: &TcpStream, deadline: Instant, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Systems have two names for this.
pub(super) fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}
