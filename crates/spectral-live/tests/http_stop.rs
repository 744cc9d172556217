//! A stopped server leaves nothing behind. Only this program looks at all threads, so its tests take turns.

#[path = "http/client.rs"]
mod client;

use client::*;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

static TURN: Mutex<()> = Mutex::new(());

/// How many threads of servers there are.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = names.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("live-")).count()
}

#[cfg(target_os = "linux")]
#[test]
fn all_threads_end_and_streams_say_goodbye() {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (server, page) = serve();
    let port = server.port();
    let mut streams: Vec<TcpStream> = (0..5).map(|_| open_stream(&server, "/ticks")).collect();
    // One that nobody reads, so that its thread is stuck in writing.
    let _unread = open_stream(&server, "/flood");
    let mut half_open: Vec<TcpStream> = (0..5).map(|_| send(&server, "GET / HT")).collect();
    eventually("their threads", || threads() == 12);
    std::thread::sleep(Duration::from_secs(1));

    let start = Instant::now();
    server.stop();
    let took = start.elapsed();
    // It gives itself a second; a busy machine gets more.
    assert!(took < Duration::from_secs(4), "{took:?}");
    // A thread that was joined may be listed for a moment longer.
    eventually("no threads", || threads() == 0);
    assert_eq!(Arc::strong_count(&page), 1);
    for stream in &mut streams {
        assert!(read_all(stream).ends_with(b"tick\ngoodbye\n"));
    }
    for stream in &mut half_open {
        assert_eq!(read_all(stream), b"");
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
}

#[test]
fn an_idle_server_stops_at_once() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let start = Instant::now();
    for _ in 0..20 {
        let (server, page) = serve();
        drop(server);
        assert_eq!(Arc::strong_count(&page), 1);
    }
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_handler_that_does_not_return_holds_up_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (server, page) = serve();
    let _stuck = send(&server, good(&server, "GET", "/stuck", ""));
    eventually("the handler runs", || page.answers.load(Ordering::SeqCst) == 1);
    assert_eq!(get(&server, "/run").status, 200);
    let start = Instant::now();
    server.stop();
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    // The thread that was left behind ends when its handler returns.
    page.release.store(true, Ordering::SeqCst);
    eventually("nobody holds the handler", || Arc::strong_count(&page) == 1);
}
