//! Many clients at once, rude and slow ones among them.

#[path = "http/client.rs"]
mod client;

use client::*;
use spectral_live::http::Server;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Asks until the answer is 200, as a browser's user would. Returns how often that took.
/// The test must not have begun, at `start`, too long ago.
fn insist(server: &Server, request: &str, start: Instant) -> usize {
    for tries in 1.. {
        let bytes = read_all(&mut send(server, request));
        match parse(&bytes).map(|reply| reply.status) {
            Some(200) => return tries,
            // No place, or it had to leave before its thread got to run.
            Some(503 | 400) | None => {}
            Some(other) => panic!("{other}"),
        }
        assert!(start.elapsed() < PATIENCE, "not served in {tries} tries");
        thread::sleep(Duration::from_millis(20));
    }
    unreachable!()
}

/// Ends the crowd also when the test fails, or it would fail without ever ending.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Keeps `count` connections open that send nothing, or a byte at a time, until told to stop.
/// It opens a new one for each that the server closes. Returns how many that were.
fn crowd(server: &Server, count: usize, stop: &AtomicBool) -> usize {
    let mut clients: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
    let mut lost = 0;
    while !stop.load(Ordering::SeqCst) {
        for (i, client) in clients.iter_mut().enumerate() {
            if let Some(stream) = client {
                let closed = match stream.read(&mut [0; 512]) {
                    Ok(0) => true,
                    Ok(_) => false,
                    Err(e) => e.kind() != ErrorKind::WouldBlock,
                };
                // Every second client dribbles.
                if closed || (i % 2 == 0 && stream.write_all(b"x").is_err()) {
                    *client = None;
                    lost += 1;
                }
            } else {
                let stream = connect(server);
                stream.set_nonblocking(true).unwrap();
                *client = Some(stream);
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
    lost
}

#[test]
fn two_hundred_clients_half_of_them_stuck() {
    let (server, _) = serve();
    let mut ticks = open_stream(&server, "/ticks");
    let (server, stop, served) = (&server, AtomicBool::new(false), AtomicUsize::new(0));
    let page = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", server.port());
    let run = good(server, "GET", "/run", "");
    let start = Instant::now();
    thread::scope(|scope| {
        let stop_at_end = Stop(&stop);
        let crowd = scope.spawn(|| crowd(server, 100, &stop));
        // The stuck ones come first and take all places for sending.
        thread::sleep(Duration::from_millis(300));
        let clients: Vec<_> = (0..100)
            .map(|i| {
                let (request, served) = (if i % 2 == 0 { &page } else { &run }, &served);
                let client = thread::Builder::new().stack_size(128 * 1024);
                client
                    .spawn_scoped(scope, move || {
                        insist(server, request, start);
                        served.fetch_add(1, Ordering::SeqCst);
                    })
                    .unwrap()
            })
            .collect();
        // One of them goes on asking, and need not ask twice each time.
        let tries: usize = (0..20).map(|_| insist(server, &run, start)).sum();
        println!("{tries} tries for 20 answers, {:.1?}", start.elapsed());
        assert!(tries <= 60, "{tries} tries for 20 answers");
        for client in clients {
            client.join().unwrap();
        }
        drop(stop_at_end);
        // The server must have thrown stuck clients out, or this test had no crowd.
        assert!(crowd.join().unwrap() > 50);
    });
    assert_eq!(served.load(Ordering::SeqCst), 100);
    // A stream that was there before has not noticed.
    let mut tick = [0; 5];
    ticks.read_exact(&mut tick).unwrap();
    assert_eq!(&tick, b"tick\n");
}

#[test]
fn streams_have_32_places_and_a_closed_page_frees_its_own() {
    let (server, _) = serve();
    // The silent ones never write, so only looking can tell that a client has left.
    let streams: Vec<TcpStream> =
        (0..32).map(|i| open_stream(&server, ["/ticks", "/silent"][i % 2])).collect();
    let reply = get(&server, "/ticks");
    assert_eq!(reply.status, 503);
    assert_eq!(reply.text().lines().count(), 1);
    // The page itself has places of its own.
    let page = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", server.port());
    assert_eq!(ask(&server, page).status, 200);
    drop(streams);
    // All of them are free again.
    let mut again = Vec::new();
    for _ in 0..32 {
        eventually("a free place", || {
            let mut stream = send(&server, good(&server, "GET", "/silent", ""));
            let mut start = [0; 13];
            stream.read_exact(&mut start).unwrap();
            let came = &start == b"HTTP/1.1 200 ";
            again.extend(came.then_some(stream));
            came
        });
    }
}

#[test]
fn a_slow_reader_misses_pieces_and_delays_nobody() {
    const PIECES: usize = 1000;
    fn next(stream: &mut TcpStream) -> u64 {
        let mut piece = vec![0; FLOOD_PIECE];
        stream.read_exact(&mut piece).unwrap();
        u64::from_le_bytes(piece[..8].try_into().unwrap())
    }
    let (server, _) = serve();
    let mut slow = open_stream(&server, "/flood");
    let mut quick = open_stream(&server, "/flood");
    let finished = AtomicBool::new(false);
    let start = Instant::now();
    thread::scope(|scope| {
        // The slow one would need minutes for as many pieces as the quick one gets.
        let slow = scope.spawn(|| {
            let mut pieces = 0;
            while !finished.load(Ordering::SeqCst) {
                next(&mut slow);
                pieces += 1;
                thread::sleep(Duration::from_millis(200));
            }
            // What the system kept for it, up to now.
            while next(&mut slow) + 1000 < start.elapsed().as_millis() as u64 {
                pieces += 1;
            }
            pieces
        });
        let finish = Stop(&finished);
        let last = (0..PIECES).map(|_| next(&mut quick)).last();
        let took = start.elapsed();
        drop(finish);
        assert!(took < PATIENCE, "{took:?} for the quick one");
        // It got what was new, not what had piled up.
        assert!((took.as_millis() as u64).abs_diff(last.unwrap()) < 3000, "{last:?} ms after {took:?}");
        let pieces = slow.join().unwrap();
        assert!(pieces < PIECES * 3 / 4, "the slow one got {pieces} pieces");
    });
}

#[test]
fn a_reader_that_takes_nothing_is_dropped() {
    let (server, page) = serve();
    let start = Instant::now();
    let _stuck = open_stream(&server, "/flood");
    assert_eq!(page.floods.load(Ordering::SeqCst), 1);
    eventually("it is dropped", || page.floods.load(Ordering::SeqCst) == 0);
    // Not before its five seconds are over, and some time passes before the system's buffers are full.
    assert!(start.elapsed() > Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(get(&server, "/run").status, 200);
}
