//! A hundred thousand requests that are wrong somewhere, and what they leave behind.

#[path = "http/client.rs"]
mod client;

use client::*;
use spectral_live::http::{Access, Answer, Handler, Method, Request, Server};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

const REQUESTS: usize = 100_000;
const THREADS: usize = 2;
/// Connections of each thread at once. All of them together have places.
const TOGETHER: usize = 10;

/// A page without anything that needs no token, so that whatever gets an answer should not have got it.
#[derive(Default)]
struct Locked(Page);

impl Handler for Locked {
    fn access(&self, method: Method, path: &str) -> Option<Access> {
        self.0.access(method, path).filter(|&access| access != Access::Open)
    }

    fn answer(&self, request: &Request) -> Answer {
        self.0.answer(request)
    }
}

/// Random numbers that are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// The first, mostly.
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        if self.one_in(8) { from[self.below(from.len())] } else { from[0] }
    }
}

/// One request. It has no right token, or a wrong host, whatever else changes.
fn request(random: &mut Random, server: &Server) -> Vec<u8> {
    let port = server.port();
    let method =
        random.pick(&["GET", "POST", "OPTIONS", "HEAD", "get", "", "G\0T", "GET GET", "PRI", "\u{fc}"]);
    let target = random.pick(&[
        "/run",
        "/control",
        "/ticks",
        "/both",
        "/none",
        "",
        "*",
        "//run",
        "/run/",
        "/../run",
        "/%72un",
        "/run?agent=%",
        "/run?agent=%41&agent=b",
        "/run?%00",
        "http://127.0.0.1/run",
        "/run#",
        "/\u{fc}",
        "/run?a=b=c&&d",
    ]);
    let version =
        random.pick(&["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.", "http/1.1", "", "HTTP/1.1 ", "ICY"]);
    let end = random.pick(&["\r\n", "\n", "\r", "\r\n ", "\r\n\r\n", "\0\r\n"]);
    let right_token = random.one_in(4);
    let host =
        if right_token { "evil.example" } else { random.pick(&["127.0.0.1", "localhost", "[::1]", "a", ""]) };
    let token = if right_token { server.token() } else { "0123456789abcdef0123456789abcdef" };
    let mut headers = vec![
        format!("Host: {host}:{port}"),
        format!("Authorization: {} {token}", random.pick(&["Bearer", "bearer", "Basic", ""])),
        format!("Origin: http://127.0.0.1:{port}"),
    ];
    if method == "POST" || random.one_in(4) {
        let lengths =
            ["2", "0", "1024", "1025", "-1", "+2", "2, 2", "", "18446744073709551616", "0x2", "1e9"];
        headers.push(format!("Content-Length: {}", random.pick(&lengths)));
    }
    let odd = [
        "X: y",
        "X:",
        "Transfer-Encoding: chunked",
        "Expect: 100-continue",
        "no colon",
        " folded",
        ": x",
        "X : y",
    ];
    for _ in 0..random.below(3) {
        match random.below(4) {
            0 => headers.push(odd[random.below(odd.len())].to_string()),
            1 => headers.push(headers[random.below(headers.len())].clone()),
            2 => drop(headers.remove(random.below(headers.len()))),
            _ if random.one_in(20) => headers.push(format!("X: {}", "x".repeat(random.below(20_000)))),
            _ => headers.reverse(),
        }
        if headers.is_empty() {
            headers.push("X: y".into());
        }
    }
    let body = random.pick(&["{}", "", "{", "\0\0", "GET /run HTTP/1.1\r\n\r\n"]);
    let mut bytes =
        format!("{method} {target} {version}{end}{}\r\n\r\n{body}", headers.join("\r\n")).into_bytes();
    // Changes of single bytes cannot make the wrong token right, nor the wrong host.
    for _ in 0..random.below(3) {
        let at = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes.insert(at, random.below(256) as u8),
            2 => drop(bytes.remove(at)),
            3 if random.one_in(3) => bytes.truncate(at + 1),
            _ => bytes.swap(at, at / 2),
        }
        if bytes.is_empty() {
            bytes.push(b'x');
        }
    }
    bytes
}

/// Sends `count` requests and counts the statuses; 0 is a connection that closed without one.
fn attack(server: &Server, seed: u64, count: usize) -> BTreeMap<u16, usize> {
    let mut random = Random(seed);
    let mut statuses = BTreeMap::new();
    let mut reply = Vec::new();
    // Some at a time, so that neither side waits for the other with each.
    for _ in 0..count / TOGETHER {
        let open = |_| {
            let request = request(&mut random, server);
            let stream = send(server, &request);
            // Some leave without waiting for an answer.
            let stays = !random.one_in(50);
            stays.then_some((stream, request))
        };
        for (mut stream, request) in (0..TOGETHER).filter_map(open).collect::<Vec<_>>() {
            let _ = stream.shutdown(Shutdown::Write);
            reply.clear();
            if let Err(e) = stream.read_to_end(&mut reply) {
                let waited = matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(!waited, "no answer to {:?}", String::from_utf8_lossy(&request));
            }
            let status = parse(&reply).map_or(0, |reply| reply.status);
            assert!(status == 0 || status >= 400, "{status} for {:?}", String::from_utf8_lossy(&request));
            *statuses.entry(status).or_default() += 1;
        }
    }
    statuses
}

/// Kilobytes of memory that this process has in use.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[cfg(not(target_os = "linux"))]
fn resident() -> usize {
    0
}

#[test]
fn a_hundred_thousand_malformed_requests() {
    let page = Arc::new(Locked::default());
    let server = Server::start(0, page.clone()).unwrap();
    // A first round fills what is kept: stacks of ended threads, the allocator's pools.
    let attack_with = |seed: u64, count: usize| {
        thread::scope(|scope| {
            let one = |i| attack(&server, seed + i as u64, count / THREADS);
            let threads: Vec<_> = (0..THREADS).map(|i| scope.spawn(move || one(i))).collect();
            let mut all = BTreeMap::<u16, usize>::new();
            for (status, n) in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
                *all.entry(status).or_default() += n;
            }
            all
        })
    };
    attack_with(1000, 4000);
    let before = resident();
    let start = Instant::now();
    let statuses = attack_with(1, REQUESTS);
    let took = start.elapsed();
    let grown = resident().saturating_sub(before);
    println!("{REQUESTS} requests in {took:.1?}, {grown} kB more than {before} kB, statuses {statuses:?}");

    assert_eq!(page.0.answers.load(Ordering::SeqCst), 0, "a malformed request reached the handler");
    // The requests must get as far as each check, or this test tries little.
    for status in [400, 401, 404, 405, 411, 413, 417, 421, 431, 501, 505] {
        assert!(statuses.get(&status).is_some_and(|&n| n >= 20), "{status}: {statuses:?}");
    }
    // Almost all get an answer, although they come as fast as they can.
    let silent: usize = [0, 503].iter().filter_map(|status| statuses.get(status)).sum();
    assert!(silent < REQUESTS / 20, "{statuses:?}");
    assert!(grown < 8 * 1024, "{grown} kB more");
    assert_eq!(get(&server, "/run").status, 200);
}
