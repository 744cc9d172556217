//! `spectral watch` and `--live`: the address, the page behind it, the terminal, and clear words when something is wrong.

mod common;

use common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Child;

/// The address that a command prints, once it does.
fn address(child: &mut Child) -> (u16, String) {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("http://"))).unwrap().unwrap();
    // Whatever follows must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    let url = line.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:")).unwrap();
    let (host, token) = url.split_once("/#").expect("a token");
    (host.rsplit_once(':').unwrap().1.parse().unwrap(), token.into())
}

fn get(port: u16, target: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_finished_run_has_a_page_until_ctrl_c() {
    let place = Place::new();
    place.train("--agents spectral --frames 1500 --out run").code(0);
    let before = snapshot(&place.path("run"));
    let mut child = place.start("watch run --speed 100");
    let (port, token) = address(&mut child);
    assert!(get(port, "/", "").starts_with("HTTP/1.1 200"));
    assert!(get(port, "/run", "").starts_with("HTTP/1.1 401"));
    assert!(get(port, "/run", &token).contains("\"mode\":\"playing\""));
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_same(&snapshot(&place.path("run")), &before);
}

#[test]
fn a_run_at_work_has_a_page_that_its_report_links_to() {
    let place = Place::new();
    let mut child = place.start(&train("--agents spectral --frames 100000000 --out run --live"));
    let (port, token) = address(&mut child);
    assert!(get(port, "/run", &token).contains("\"mode\":\"training\""));
    let link = place.path("run/live.html");
    assert!(std::fs::read_to_string(&link).unwrap().contains(&token));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(link.metadata().unwrap().permissions().mode() & 0o777, 0o600, "the token is the owner's");
    }
    wait_until("a row of metrics", || {
        std::fs::read_to_string(place.path("run/agents/spectral-s1/metrics.csv"))
            .is_ok_and(|text| text.lines().count() > 2)
    });
    place.run("report run").code(0);
    let report = std::fs::read_to_string(place.path("run/report/report.html")).unwrap();
    assert!(report.contains("href=\"../live.html\""), "the report of a run at work links to its page");
    assert!(!report.contains(&token), "a report may be shared, the token may not");
    signal(&child, "KILL");
    child.wait().unwrap();
    // The address leads nowhere now; the next process that has a page replaces it, and takes it away.
    assert!(link.exists());
    let mut child = place.start("resume run --live");
    let (_, other) = address(&mut child);
    assert!(std::fs::read_to_string(&link).unwrap().contains(&other));
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!link.exists());
    place.run("report run --out again").code(0);
    let report = std::fs::read_to_string(place.path("again/report.html")).unwrap();
    assert!(!report.contains("live.html"));
}

#[test]
fn the_terminal_shows_the_game_the_bars_and_the_score() {
    let place = Place::new();
    place.train("--agents spectral,clipped,categorical --frames 1500 --out run").code(0);
    for agent in ["spectral-s1", "clipped-s1", "categorical-s1"] {
        let arguments = format!("watch run --terminal --steps 4 --speed 240 --agent {agent}");
        let output = place.command(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        for part in ["▀", "stay", "up", "down", agent, "weights of frame 1,500", "score "] {
            assert!(text.contains(part), "no '{part}' in what {agent} shows: {text}");
        }
        // As wide as 80 columns and as high as 24 rows allow.
        let plain = strip(&text);
        let widest = plain.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{widest} columns: {plain}");
        assert!(plain.lines().count() <= 4 * 23, "{plain}");
    }
}

/// Text without what steers a terminal.
fn strip(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(after.len() - 1);
        rest = &after[end + 1..];
    }
    plain + rest
}

#[test]
fn what_is_wrong_is_said() {
    let place = Place::new();
    place.train("--agents spectral --frames 600 --out run").code(0);
    place.run("watch nowhere").code(2).says(&["nowhere is not a run directory"]);
    place.run("watch run --agent spectral-s2").code(2).says(&["did you mean `spectral-s1`?"]);
    place.run("watch run --speed 0").code(2).says(&["--speed must be from 1 to 240"]);
    place.run("watch run --epsilon 2").code(2).says(&["--epsilon from 0 to 1"]);
    place.run("watch run --terminal --port 1").code(2);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let words = format!("cannot be served on port {port}");
    place.run(&format!("watch run --port {port}")).code(2).says(&[&words]);
    let out = format!("--agents spectral --frames 600 --out other --live={port}");
    place.train(&out).code(2).says(&[&words]);
    assert!(!place.path("other").exists(), "nothing is begun that cannot be shown");
}
