//! A process that has run out of file descriptors keeps its server, and its cores.

#![cfg(target_os = "linux")]

#[path = "http/client.rs"]
mod client;

use client::*;
use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Set in the process with few descriptors.
const FEW: &str = "SPECTRAL_TEST_FEW_DESCRIPTORS";

/// Runs a test in a process of its own with few descriptors. Returns false there, where the test itself is to run.
fn ran_elsewhere(test: &str) -> bool {
    if std::env::var_os(FEW).is_some() {
        return false;
    }
    let program = std::env::current_exe().unwrap();
    let script = format!("ulimit -n 100 && {FEW}=1 exec \"$0\" --exact {test}");
    let output = Command::new("sh").arg("-c").arg(script).arg(program).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    true
}

/// Takes all descriptors there are.
fn fill() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// Processor time of this process, in hundredths of a second.
fn ticks(stat: &mut File) -> u64 {
    use std::io::{Read, Seek};
    stat.rewind().unwrap();
    let mut text = String::new();
    stat.read_to_string(&mut text).unwrap();
    // User and system time are the 14th and 15th field; the name in the second may have spaces.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn nothing_spins_without_descriptors() {
    if ran_elsewhere("nothing_spins_without_descriptors") {
        return;
    }
    let (server, _) = serve();
    let mut stat = File::open("/proc/self/stat").unwrap();
    let mut files = fill();
    assert!(files.len() < 100);
    // One descriptor, for the client. The server has none to accept it with.
    files.pop();
    let mut client = connect(&server);
    client.write_all(good(&server, "GET", "/run", "").as_bytes()).unwrap();
    let before = ticks(&mut stat);
    thread::sleep(Duration::from_secs(2));
    let used = ticks(&mut stat) - before;
    assert!(used < 50, "{used} of 200 ticks were used for waiting");
    drop(files);
    assert_eq!(parse(&read_all(&mut client)).unwrap().status, 200);
}

#[test]
fn it_stops_without_descriptors() {
    if ran_elsewhere("it_stops_without_descriptors") {
        return;
    }
    let (server, page) = serve();
    assert_eq!(get(&server, "/run").status, 200);
    // By now the server waits for the next client, with a descriptor set aside for it.
    thread::sleep(Duration::from_millis(500));
    let files = fill();
    let start = Instant::now();
    server.stop();
    assert!(start.elapsed() < Duration::from_secs(10));
    // The thread is gone, not left behind.
    assert_eq!(std::sync::Arc::strong_count(&page), 1);
    drop(files);
}
