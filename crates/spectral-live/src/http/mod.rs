//! A small HTTP/1.1 server for one page on the loopback interface.
//!
//! It lives inside a process that trains for days, so its first duty is to do no harm there.
//! It binds 127.0.0.1 only, and nothing reaches a [`Handler`] before these checks, in this order:
//!
//! 1. The request is well-formed and small (400, 411, 413, 417, 431, 501, 505; 408 if it takes longer than 5 s).
//! 2. `Host` is there once and names this machine and the server's own port (421).
//!    A page from elsewhere whose name was made to point here (DNS rebinding) fails at this.
//! 3. The path exists (404), and with this method (405).
//! 4. The token is right, unless the path is [`Access::Open`] (401).
//! 5. For [`Access::Act`], `Origin` is the server's own page (403).
//!
//! There are no CORS headers, ever, so pages from elsewhere can read nothing.
//!
//! **What a hostile client can take** is bounded: 64 connections with one small thread each, 9 KiB for a request,
//! five seconds to send it, five seconds without taking a byte of the answer.
//! Clients that are still sending have places of their own, and so have those that showed no token;
//! neither can take the places of streams.
//! When all places for such clients are taken, the oldest of them must go, so they cannot shut others out either.
//!
//! **Every connection closes after one answer.**
//! So no byte after a request is ever read as a second request, and requests cannot be smuggled.
//!
//! A panic in a handler or a source ends its connection and nothing else.
//! This part prints nothing; what is printed about a panic comes from the program's panic hook.
//!
//! ```
//! use spectral_live::http::{Access, Answer, Handler, Method, Request, Server};
//! use std::sync::Arc;
//!
//! struct Page;
//!
//! impl Handler for Page {
//!     fn access(&self, method: Method, path: &str) -> Option<Access> {
//!         match (method, path) {
//!             (Method::Get, "/") => Some(Access::Open),
//!             (Method::Get, "/run") => Some(Access::Token),
//!             (Method::Post, "/control") => Some(Access::Act),
//!             _ => None,
//!         }
//!     }
//!
//!     fn answer(&self, request: &Request) -> Answer {
//!         match request.path.as_str() {
//!             "/" => Answer::whole(200, "text/html; charset=utf-8", b"<!doctype html><title>Hello</title>"),
//!             _ => Answer::whole(200, "application/json", b"{}"),
//!         }
//!     }
//! }
//!
//! let server = Server::start(0, Arc::new(Page))?;
//! assert_eq!(server.url(), format!("http://127.0.0.1:{}/#{}", server.port(), server.token()));
//! # Ok::<(), std::io::Error>(())
//! ```

mod check;
mod connection;
mod parse;
mod places;
mod read;
mod server;
mod target;
mod token;
mod write;

pub use server::Server;

/// Reads a request's head that comes in two parts, as a connection does: its path and the length of its body, or the status
/// that it is refused with; `None` while it has no end.
#[cfg(feature = "testing")]
pub fn read_head(bytes: &[u8], first_part: usize) -> Option<Result<(String, usize), u16>> {
    let read = || {
        let mut end = parse::head_end(&bytes[..first_part], 0)?;
        if end.is_none() {
            end = parse::head_end(bytes, first_part)?;
        }
        end.map(|end| parse::parse_head(&bytes[..end])).transpose()
    };
    match read() {
        Ok(head) => head.map(|head| Ok((head.path, head.length))),
        Err(refusal) => Some(Err(refusal.status)),
    }
}

use std::borrow::Cow;
use std::time::Duration;

/// The limits of this server. Together they bound the memory and the threads that clients can take.
mod limits {
    use std::time::Duration;

    /// Bytes of request line and headers.
    pub const HEAD: usize = 8 * 1024;
    /// Bytes of a request's body.
    pub const BODY: usize = 1024;
    /// Pairs in a query.
    pub const QUERY_PAIRS: usize = 16;
    /// Time for a whole request, from the connection on.
    pub const REQUEST: Duration = Duration::from_secs(5);
    /// A client that takes nothing for this long is dropped.
    pub const WRITE: Duration = Duration::from_secs(5);
    /// Time for a whole answer, or for one piece of a stream. It is long, for films over slow tunnels.
    pub const ANSWER: Duration = Duration::from_secs(60);
    /// Clients that send a request, or read why it was refused.
    pub const READING: usize = 24;
    /// Clients that get an answer for which no token is needed.
    pub const OPEN: usize = 8;
    /// Clients that get an answer for which they showed the token; streams among them.
    pub const TRUSTED: usize = 32;
    /// How long a client may keep its place for sending while others wait for one.
    pub const READING_GRACE: Duration = Duration::from_millis(100);
    /// The same for a client that gets an answer without a token. It is longer, for slow tunnels.
    pub const OPEN_GRACE: Duration = Duration::from_millis(1000);
    /// How long a client waits for a place before it is turned away.
    pub const PLACE: Duration = Duration::from_millis(250);
    /// How long a refused client is listened to, so that it gets to read the refusal.
    pub const LINGER: Duration = Duration::from_millis(500);
    /// How long a source may wait before the server looks whether it must stop.
    pub const STREAM_WAIT: Duration = Duration::from_millis(250);
    /// Time for all threads to end when the server stops; those in a handler that does not return are left behind.
    pub const STOP: Duration = Duration::from_millis(1000);
    /// Stack of a connection's thread. Handlers and sources run on it.
    pub const STACK: usize = 256 * 1024;
    /// A stream's buffer shrinks to this after a piece that was larger than eight times this.
    pub const STREAM_BUFFER: usize = 64 * 1024;
}

/// A request's method. Requests with others get 405.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Asks for something and changes nothing.
    Get,
    /// Changes something.
    Post,
}

/// Who may ask for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody on this machine, so for nothing secret: the page itself and its scripts.
    Open,
    /// Who knows the token.
    Token,
    /// Who knows the token, from the server's own page only (`Origin`).
    Act,
}

/// A request that passed every check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked for.
    pub method: Method,
    /// The path, exactly as it was sent. It begins with `/` and has no `%`, no empty and no dotted segment.
    pub path: String,
    /// The body, at most 1 KiB; empty for `GET`.
    pub body: Vec<u8>,
    query: Vec<(String, String)>,
}

impl Request {
    /// A request as a client would make it, to try a handler without a server. `None` if `target` is malformed.
    ///
    /// ```
    /// use spectral_live::http::{Method, Request};
    ///
    /// let request = Request::new(Method::Get, "/events?agent=spectral%2Ds1", vec![]).unwrap();
    /// assert_eq!(request.path, "/events");
    /// assert_eq!(request.query("agent"), Some("spectral-s1"));
    /// assert_eq!(request.query("seed"), None);
    /// ```
    pub fn new(method: Method, target: &str, body: Vec<u8>) -> Option<Request> {
        let (path, query) = target::parse(target.as_bytes()).ok()?;
        Some(Request { method, path, body, query })
    }

    /// The value of `key` in the query, decoded. A key without a value has an empty one.
    pub fn query(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }
}

/// What a handler answers.
pub enum Answer {
    /// An answer of known length.
    Whole {
        /// The status, such as 200. One that is no final status becomes 500.
        status: u16,
        /// The media type.
        content_type: &'static str,
        /// The body.
        body: Cow<'static, [u8]>,
        /// The name under which browsers save it, for what is not shown; plain letters, digits, `-` and `.`.
        download: Option<&'static str>,
    },
    /// An answer that goes on until the source ends, the client leaves or the server stops. Its status is 200.
    Stream {
        /// The media type.
        content_type: &'static str,
        /// Where its bytes come from.
        source: Box<dyn Source>,
    },
}

impl Answer {
    /// An answer that is shown, of bytes that are fixed or made now.
    pub fn whole(status: u16, content_type: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Answer {
        Answer::Whole { status, content_type, body: body.into(), download: None }
    }

    /// An error: one line that says what to do.
    pub fn error(status: u16, line: impl Into<String>) -> Answer {
        Answer::whole(status, write::TEXT, (line.into() + "\n").into_bytes())
    }
}

/// Where the bytes of a stream come from.
///
/// A source is asked again only when the client has taken what it gave before.
/// So a source that offers the newest thing, instead of everything in turn, makes a slow client miss things
/// and delays nobody.
pub trait Source: Send {
    /// Waits at most `wait` for something new and appends it to `out`, which is empty. False if the stream has ended;
    /// what is in `out` is sent all the same.
    ///
    /// When the server stops, each source is asked once more with no time to wait, so that it can say goodbye.
    fn next(&mut self, wait: Duration, out: &mut Vec<u8>) -> bool;
}

/// What the server serves.
///
/// It is called from several threads at once, each with a stack of 256 KiB.
pub trait Handler: Send + Sync {
    /// Who may ask for `path` with `method`; `None` if there is no such thing.
    fn access(&self, method: Method, path: &str) -> Option<Access>;

    /// The answer to a request that [`access`](Handler::access) knows and that passed every check.
    /// It should return soon: the client waits, and so does the server when it stops.
    fn answer(&self, request: &Request) -> Answer;
}
