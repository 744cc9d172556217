//! A handler with every kind of answer, and a client that can be rude.

#![allow(dead_code, reason = "each of the test programs uses a part")]

use spectral_live::http::{Access, Answer, Handler, Method, Request, Server, Source};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Long enough for the busiest machine; only failing tests wait for so long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Counts how often it was asked.
#[derive(Default)]
pub struct Page {
    pub answers: AtomicUsize,
    /// How many floods there are.
    pub floods: Arc<AtomicUsize>,
    /// Frees those who wait for `/stuck`.
    pub release: AtomicBool,
}

impl Handler for Page {
    fn access(&self, method: Method, path: &str) -> Option<Access> {
        use Access::*;
        use Method::*;
        Some(match (method, path) {
            (Get, "/") => Open,
            (Get, "/panicking-access") => panic!("access panics, as the test wants"),
            (Get, "/run" | "/film" | "/ticks" | "/flood" | "/silent" | "/last" | "/both" | "/odd-status") => {
                Token
            }
            (Get, "/panicking-answer" | "/panicking-source" | "/stuck") => Token,
            (Post, "/control" | "/both") => Act,
            _ => return None,
        })
    }

    fn answer(&self, request: &Request) -> Answer {
        self.answers.fetch_add(1, Ordering::SeqCst);
        let stream = |source: Box<dyn Source>| Answer::Stream { content_type: "text/event-stream", source };
        match request.path.as_str() {
            "/" => Answer::whole(200, "text/html; charset=utf-8", b"<!doctype html>"),
            "/run" => Answer::whole(200, "text/plain", format!("{:?}", request.query("agent")).into_bytes()),
            "/film" => Answer::Whole {
                status: 200,
                content_type: "image/gif",
                body: vec![7; 3_000_000].into(),
                download: Some("film.gif"),
            },
            "/control" | "/both" => Answer::whole(200, "application/json", request.body.clone()),
            "/ticks" => stream(Box::new(Ticks)),
            "/flood" => stream(Box::new(Flood::new(&self.floods))),
            "/silent" => stream(Box::new(Silent)),
            "/last" => stream(Box::new(Last)),
            "/odd-status" => Answer::error(7, "No such status."),
            "/panicking-answer" => panic!("answer panics, as the test wants"),
            "/panicking-source" => stream(Box::new(Panics)),
            "/stuck" => {
                while !self.release.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(10));
                }
                Answer::error(409, "Too late.")
            }
            _ => Answer::error(409, "Not now."),
        }
    }
}

/// Something every 20 ms.
struct Ticks;

impl Source for Ticks {
    fn next(&mut self, wait: Duration, out: &mut Vec<u8>) -> bool {
        let goodbye = wait.is_zero();
        thread::sleep(wait.min(Duration::from_millis(20)));
        out.extend_from_slice(if goodbye { b"goodbye\n" } else { b"tick\n" });
        true
    }
}

/// As much as the client takes, always the newest: 64 KiB that say how many milliseconds old the stream is.
struct Flood {
    start: Instant,
    count: Arc<AtomicUsize>,
}

impl Flood {
    fn new(count: &Arc<AtomicUsize>) -> Flood {
        count.fetch_add(1, Ordering::SeqCst);
        Flood { start: Instant::now(), count: Arc::clone(count) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}

pub const FLOOD_PIECE: usize = 64 * 1024;

impl Source for Flood {
    fn next(&mut self, wait: Duration, out: &mut Vec<u8>) -> bool {
        assert!(out.is_empty());
        thread::sleep(wait.min(Duration::from_millis(5)));
        out.extend_from_slice(&(self.start.elapsed().as_millis() as u64).to_le_bytes());
        out.resize(FLOOD_PIECE, 0);
        true
    }
}

/// Neither says nor waits for anything.
struct Silent;

impl Source for Silent {
    fn next(&mut self, _: Duration, _: &mut Vec<u8>) -> bool {
        true
    }
}

/// Ends with its first words.
struct Last;

impl Source for Last {
    fn next(&mut self, _: Duration, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(b"last words");
        false
    }
}

/// Panics when asked, and again when dropped.
struct Panics;

impl Source for Panics {
    fn next(&mut self, _: Duration, _: &mut Vec<u8>) -> bool {
        panic!("next panics, as the test wants")
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("drop panics, as the test wants")
    }
}

/// A server on any port with a [`Page`].
pub fn serve() -> (Server, Arc<Page>) {
    let page = Arc::new(Page::default());
    (Server::start(0, page.clone()).unwrap(), page)
}

/// What came back.
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} comes twice");
        value
    }

    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }
}

/// A connection that gives up only after a long time.
pub fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Connects and sends. Errors of sending are left to the reading: the server may have answered before the end.
pub fn send(server: &Server, request: impl AsRef<[u8]>) -> TcpStream {
    let mut stream = connect(server);
    let _ = stream.write_all(request.as_ref());
    stream
}

/// Everything until the connection ends. A time-out is a failure, another error is an end.
pub fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Err(e) = stream.read_to_end(&mut bytes) {
        assert!(!matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "nothing came: {e}");
    }
    bytes
}

/// Takes an answer apart; `None` if there is no whole head.
pub fn parse(bytes: &[u8]) -> Option<Reply> {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")?;
    let head = str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.split(' ').next()?.parse().ok()?;
    let headers = lines.map(|line| line.split_once(": ").map(|(n, v)| (n.to_string(), v.to_string())));
    Some(Reply { status, headers: headers.collect::<Option<_>>()?, body: bytes[end + 4..].to_vec() })
}

/// The answer to these bytes.
pub fn ask(server: &Server, request: impl AsRef<[u8]>) -> Reply {
    let bytes = read_all(&mut send(server, request));
    parse(&bytes).unwrap_or_else(|| panic!("no answer but {:?}", String::from_utf8_lossy(&bytes)))
}

/// A good request, with the token and the origin.
pub fn good(server: &Server, method: &str, target: &str, body: &str) -> String {
    let (port, token) = (server.port(), server.token());
    let length = if method == "POST" { format!("Content-Length: {}\r\n", body.len()) } else { String::new() };
    format!(
        "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
         Origin: http://127.0.0.1:{port}\r\n{length}\r\n{body}"
    )
}

/// `GET` with the token.
pub fn get(server: &Server, target: &str) -> Reply {
    ask(server, good(server, "GET", target, ""))
}

/// An open stream, read up to the end of its head.
pub fn open_stream(server: &Server, target: &str) -> TcpStream {
    let mut stream = send(server, good(server, "GET", target, ""));
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{:?}", String::from_utf8_lossy(&head));
    stream
}

/// Waits until something is so.
pub fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}
