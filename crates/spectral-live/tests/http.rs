//! Every check of the server, over real sockets, with exact statuses.

#[path = "http/client.rs"]
mod client;

use client::*;
use spectral_live::http::Server;
use std::io::Write;
use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A good request with one line of its head replaced.
fn with(server: &Server, method: &str, target: &str, name: &str, line: &str) -> String {
    let request = good(server, method, target, "");
    let mut lines: Vec<&str> = request.split("\r\n").collect();
    let at = lines.iter().position(|l| l.starts_with(&format!("{name}:"))).unwrap();
    if line.is_empty() {
        lines.remove(at);
    } else {
        lines[at] = line;
    }
    lines.join("\r\n")
}

#[test]
fn good_requests_are_answered() {
    let (server, page) = serve();
    let reply = ask(&server, format!("GET / HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", server.port()));
    assert_eq!((reply.status, reply.text()), (200, "<!doctype html>"));
    assert_eq!(reply.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(reply.header("content-length"), Some("15"));

    let reply = get(&server, "/run?agent=spectral%2Ds1+a");
    assert_eq!((reply.status, reply.text()), (200, "Some(\"spectral-s1 a\")"));
    let reply = get(&server, "/run");
    assert_eq!((reply.status, reply.text()), (200, "None"));

    let reply = ask(&server, good(&server, "POST", "/control", "{\"paused\": true}"));
    assert_eq!((reply.status, reply.text()), (200, "{\"paused\": true}"));

    let reply = get(&server, "/film");
    assert_eq!((reply.status, reply.body.len()), (200, 3_000_000));
    assert_eq!(reply.header("content-disposition"), Some("attachment; filename=\"film.gif\""));

    assert_eq!(get(&server, "/odd-status").status, 500);
    let reply = get(&server, "/last");
    assert_eq!((reply.status, reply.text(), reply.header("content-length")), (200, "last words", None));
    assert_eq!(page.answers.load(Ordering::SeqCst), 7);
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let (server, _) = serve();
    let mut stream = connect(&server);
    stream.set_nodelay(true).unwrap();
    for byte in good(&server, "POST", "/control", "{}").bytes() {
        stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(parse(&read_all(&mut stream)).unwrap().text(), "{}");
}

#[test]
fn bytes_after_a_request_are_no_second_request() {
    let (server, page) = serve();
    let twice = good(&server, "POST", "/control", "{}") + &good(&server, "GET", "/run", "");
    let bytes = read_all(&mut send(&server, twice));
    assert_eq!(parse(&bytes).unwrap().text(), "{}");
    assert_eq!(page.answers.load(Ordering::SeqCst), 1);
}

#[test]
fn hosts_other_than_this_machine_and_port_get_421() {
    let (server, page) = serve();
    let port = server.port();
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let line = format!("Host: {host}:{port}");
        assert_eq!(ask(&server, with(&server, "GET", "/run", "Host", &line)).status, 200, "{line}");
    }
    let asked = page.answers.load(Ordering::SeqCst);
    let other_port = if port == 1024 { 1025 } else { 1024 };
    for host in [
        "127.0.0.1".to_string(),
        "localhost".to_string(),
        format!("127.0.0.1:{other_port}"),
        format!("localhost:{port}0"),
        format!("127.0.0.1:0{port}"),
        format!("localhost.:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("evil.example:{port}"),
        format!("127.0.0.2:{port}"),
        format!("user@127.0.0.1:{port}"),
        format!("::1:{port}"),
        format!("127.0.0.1:{port}, 127.0.0.1:{port}"),
        String::new(),
    ] {
        // For every path and method, known or not: it is the first check.
        for (method, target) in
            [("GET", "/"), ("GET", "/run"), ("POST", "/control"), ("GET", "/none"), ("PUT", "/")]
        {
            let request = with(&server, method, target, "Host", &format!("Host: {host}"));
            assert_eq!(ask(&server, request).status, 421, "{method} {target} {host:?}");
        }
    }
    let reply = ask(&server, with(&server, "GET", "/", "Host", &format!("Host: 127.0.0.1:{other_port}")));
    assert!(reply.text().contains("ssh -L"), "{}", reply.text());
    assert!(reply.text().contains(&format!("{port}:127.0.0.1:{port}")), "{}", reply.text());

    let twice = format!("Host: 127.0.0.1:{port}\r\nHost: 127.0.0.1:{port}");
    assert_eq!(ask(&server, with(&server, "GET", "/run", "Host", &twice)).status, 421);
    assert_eq!(ask(&server, with(&server, "GET", "/run", "Host", "")).status, 421);
    assert_eq!(page.answers.load(Ordering::SeqCst), asked);
}

#[test]
fn unknown_paths_get_404_and_other_methods_405() {
    let (server, _) = serve();
    for target in ["/none", "/run/x", "/RUN", "/app/none.js", "/..."] {
        for method in ["GET", "POST", "OPTIONS"] {
            assert_eq!(ask(&server, good(&server, method, target, "")).status, 404, "{method} {target}");
        }
    }
    for (method, target, allow) in [
        ("POST", "/run", "GET"),
        ("GET", "/control", "POST"),
        ("OPTIONS", "/control", "POST"),
        ("OPTIONS", "/run", "GET"),
        ("HEAD", "/", "GET"),
        ("DELETE", "/both", "GET, POST"),
        ("get", "/", "GET"),
    ] {
        let reply = ask(&server, good(&server, method, target, ""));
        assert_eq!((reply.status, reply.header("allow")), (405, Some(allow)), "{method} {target}");
    }
}

#[test]
fn without_the_token_the_answer_is_401() {
    let (server, page) = serve();
    let token = server.token();
    let flipped = if token.ends_with('0') { "1" } else { "0" };
    for line in [
        String::new(),
        "Authorization:".into(),
        "Authorization: Bearer".into(),
        format!("Authorization: {token}"),
        format!("Authorization: Basic {token}"),
        format!("Authorization: Bearer {}", &token[..31]),
        format!("Authorization: Bearer {token}0"),
        format!("Authorization: Bearer {}{flipped}", &token[..31]),
        format!("Authorization: Bearer \"{token}\""),
        format!("Cookie: token={token}"),
    ] {
        for (method, target) in [("GET", "/run"), ("GET", "/ticks"), ("POST", "/control")] {
            let reply = ask(&server, with(&server, method, target, "Authorization", &line));
            assert_eq!(reply.status, 401, "{method} {target} {line:?}");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
            assert!(!reply.text().contains(token));
        }
    }
    // It counts nowhere else.
    let request = with(&server, "GET", &format!("/run?token={token}"), "Authorization", "");
    assert_eq!(ask(&server, request).status, 401);
    // The token is asked for before the origin.
    let port = server.port();
    let request = format!("POST /control HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(ask(&server, request).status, 401);
    assert_eq!(page.answers.load(Ordering::SeqCst), 0);
    let (other, _) = serve();
    assert_ne!(other.token(), token);
}

#[test]
fn acts_from_other_pages_get_403() {
    let (server, page) = serve();
    let port = server.port();
    for line in [
        String::new(),
        "Origin: null".into(),
        "Origin:".into(),
        "Origin: http://127.0.0.1".into(),
        format!("Origin: https://127.0.0.1:{port}"),
        format!("Origin: http://localhost:{port}"),
        format!("Origin: http://127.0.0.1:{port}/"),
        format!("Origin: http://127.0.0.1:{port}0"),
        format!("Origin: http://evil.example:{port}"),
        format!("Origin: 127.0.0.1:{port}"),
        format!("Referer: http://127.0.0.1:{port}/"),
    ] {
        let reply = ask(&server, with(&server, "POST", "/control", "Origin", &line));
        assert_eq!(reply.status, 403, "{line:?}");
    }
    assert_eq!(page.answers.load(Ordering::SeqCst), 0);
    // Reading needs no origin, and one path may have two rules.
    assert_eq!(ask(&server, with(&server, "GET", "/both", "Origin", "")).status, 200);
    assert_eq!(ask(&server, with(&server, "POST", "/both", "Origin", "")).status, 403);
}

#[test]
fn malformed_and_large_requests_are_refused() {
    let (server, page) = serve();
    let port = server.port();
    let host = format!("Host: 127.0.0.1:{port}");
    for (request, status) in [
        ("\r\n\r\n".to_string(), 400),
        ("GET / HTTP/1.1\n\n".into(), 400),
        (format!("GET / HTTP/1.1\r\n{host}\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}\r\nA: \0\r\n\r\n"), 400),
        (format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n{host}\r\n\r\n"), 400),
        (format!("GET //127.0.0.1/ HTTP/1.1\r\n{host}\r\n\r\n"), 400),
        (format!("GET /app/../run HTTP/1.1\r\n{host}\r\n\r\n"), 400),
        (format!("GET /%2e HTTP/1.1\r\n{host}\r\n\r\n"), 400),
        (format!("GET /run?agent=%zz HTTP/1.1\r\n{host}\r\n\r\n"), 400),
        (format!("GET /run?agent=%00 HTTP/1.1\r\n{host}\r\n\r\n"), 400),
        (format!("OPTIONS * HTTP/1.1\r\n{host}\r\n\r\n"), 400),
        (format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n{host}\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n {host}\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}\r\nContent-Length: 5\r\n\r\nhello"), 400),
        (format!("POST /control HTTP/1.1\r\n{host}\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx"), 400),
        (format!("POST /control HTTP/1.1\r\n{host}\r\n\r\n"), 411),
        (
            format!("POST /control HTTP/1.1\r\n{host}\r\nContent-Length: 1025\r\n\r\n{}", "x".repeat(1025)),
            413,
        ),
        (
            format!("POST /control HTTP/1.1\r\n{host}\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\nx"),
            417,
        ),
        (format!("GET / HTTP/1.1\r\n{host}\r\nA: {}\r\n\r\n", "x".repeat(8192)), 431),
        (format!("GET /{} HTTP/1.1\r\n{host}\r\n\r\n", "x".repeat(8192)), 431),
        // Without end, and more than the server listens to afterwards.
        ("x".repeat(60_000), 431),
        (format!("POST /control HTTP/1.1\r\n{host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 501),
        (format!("GET / HTTP/2.0\r\n{host}\r\n\r\n"), 505),
    ] {
        let reply = ask(&server, &request);
        let start: String = request.chars().take(120).collect();
        assert_eq!(reply.status, status, "{start:?}");
        assert_eq!(reply.text().lines().count(), 1, "{:?}", reply.text());
    }
    assert_eq!(page.answers.load(Ordering::SeqCst), 0);

    // A kilobyte is allowed, and a request that ends in its middle is none.
    let body = "x".repeat(1024);
    assert_eq!(ask(&server, good(&server, "POST", "/control", &body)).text(), body);
    let request = good(&server, "POST", "/control", &body);
    for end in [1, 100, request.len() - 1024, request.len() - 1] {
        let mut stream = send(&server, &request[..end]);
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(parse(&read_all(&mut stream)).unwrap().status, 400, "{end} bytes");
    }
    assert_eq!(page.answers.load(Ordering::SeqCst), 1);
}

#[test]
fn a_refused_client_may_finish_sending() {
    let (server, _) = serve();
    // The server listens for half a second only, which a busy machine may sleep through; so try again.
    eventually("it can send on", || {
        let mut stream = send(&server, "nonsense\n");
        assert_eq!(parse(&read_all(&mut stream)).unwrap().status, 400);
        // On a closed connection, the first of these would make the second fail.
        let first = stream.write_all(b"x");
        std::thread::sleep(Duration::from_millis(20));
        first.is_ok() && stream.write_all(b"x").is_ok()
    });
}

#[test]
fn a_slow_request_is_dropped_after_five_seconds_in_all() {
    let (server, page) = serve();
    let start = Instant::now();
    let mut silent = connect(&server);
    let mut unfinished = send(&server, "GET / HTTP/1.1\r\n");
    let mut without_body =
        send(&server, good(&server, "POST", "/control", "").replace("Length: 0", "Length: 1"));
    let mut dribbling = connect(&server);
    // A byte now and then must not prolong it. Sending fails once the server has closed.
    for _ in 0..600 {
        if dribbling.write_all(b"x").is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(parse(&read_all(&mut unfinished)).unwrap().status, 408);
    assert_eq!(parse(&read_all(&mut without_body)).unwrap().status, 408);
    assert_eq!(read_all(&mut silent), b"");
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(4) && took < Duration::from_secs(40), "{took:?}");
    assert_eq!(page.answers.load(Ordering::SeqCst), 0);
}

#[test]
fn every_answer_has_the_security_headers() {
    let (server, _) = serve();
    let port = server.port();
    let mut replies: Vec<_> =
        ["/", "/run", "/film", "/last", "/none", "/panicking-answer", "/panicking-access"]
            .map(|target| get(&server, target))
            .into_iter()
            .collect();
    for method in ["POST", "OPTIONS", "HEAD"] {
        replies.push(ask(&server, good(&server, method, "/run", "")));
    }
    replies.push(ask(&server, "nonsense\n"));
    replies.push(ask(&server, format!("GET /run HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")));
    let csp = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
               img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    for reply in replies {
        for (name, value) in [
            ("content-security-policy", csp),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("x-frame-options", "DENY"),
            ("connection", "close"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{} {name}", reply.status);
        }
        assert!(reply.header("content-type").is_some());
        if let Some(length) = reply.header("content-length") {
            assert_eq!(length, reply.body.len().to_string());
        }
        let cors = |name: &str| name.to_ascii_lowercase().starts_with("access-control-");
        assert!(!reply.headers.iter().any(|(name, _)| cors(name)), "{}", reply.status);
    }
}

#[test]
fn a_panic_ends_its_connection_only() {
    let (server, _) = serve();
    let mut ticks = open_stream(&server, "/ticks");
    for _ in 0..40 {
        assert_eq!(get(&server, "/panicking-access").status, 500);
        assert_eq!(get(&server, "/panicking-answer").status, 500);
        // Its head is sent before it panics.
        let reply = get(&server, "/panicking-source");
        assert_eq!((reply.status, reply.text()), (200, ""));
    }
    assert_eq!(get(&server, "/run").status, 200);
    server.stop();
    assert!(read_all(&mut ticks).ends_with(b"goodbye\n"));
}

#[test]
fn it_listens_on_this_machine_only_and_tells_no_secrets() {
    let (server, _) = serve();
    assert_eq!(server.url(), format!("http://127.0.0.1:{}/#{}", server.port(), server.token()));
    assert!(!format!("{server:?}").contains(server.token()));
    // The same port on another address of this machine is free, so nothing listens there.
    assert!(std::net::TcpListener::bind(("127.0.0.1", server.port())).is_err());
    if cfg!(target_os = "linux") {
        std::net::TcpListener::bind(("127.0.0.2", server.port())).unwrap();
    }
    // A port in use is an error, not another port.
    let (_, page) = serve();
    assert!(Server::start(server.port(), page).is_err());
}
