//! A client for the page's server, and runs to watch.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Where a page is served, and the token that it needs.
#[derive(Clone)]
pub struct Address {
    pub port: u16,
    pub token: String,
}

impl Address {
    /// From the address that a person gets.
    pub fn new(url: &str) -> Self {
        let (host, token) = url.split_once("/#").expect("an address with a token");
        let port = host.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        Address { port, token: token.into() }
    }

    fn send(&self, method: &str, target: &str, body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let Address { port, token } = self;
        write!(
            stream,
            "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
             Origin: http://127.0.0.1:{port}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        BufReader::new(stream)
    }

    /// The status and the body of a request.
    pub fn ask(&self, method: &str, target: &str, body: &str) -> (u16, Vec<u8>) {
        let mut reader = self.send(method, target, body);
        let status = head(&mut reader);
        let mut body = Vec::new();
        reader.read_to_end(&mut body).unwrap();
        (status, body)
    }

    /// The JSON that a request is answered with.
    pub fn json(&self, method: &str, target: &str, body: &str) -> Value {
        let (status, answer) = self.ask(method, target, body);
        assert_eq!(status, 200, "{target}: {}", String::from_utf8_lossy(&answer));
        serde_json::from_slice(&answer).unwrap()
    }

    /// Pictures from now on.
    pub fn pictures(&self, agent: &str) -> Pictures {
        let mut reader = self.send("GET", &format!("/pictures?agent={agent}"), "");
        assert_eq!(head(&mut reader), 200);
        Pictures(reader)
    }

    /// Events from now on.
    pub fn events(&self, agent: &str) -> Events {
        let mut reader = self.send("GET", &format!("/events?agent={agent}"), "");
        assert_eq!(head(&mut reader), 200);
        Events(reader)
    }
}

fn head(reader: &mut BufReader<TcpStream>) -> u16 {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    while line.trim() != "" {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    status
}

/// One message of the picture stream.
pub struct Message {
    pub head: Value,
    pub pixels: Vec<u8>,
}

pub struct Pictures(BufReader<TcpStream>);

impl Iterator for Pictures {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        loop {
            let mut number = [0; 4];
            self.0.read_exact(&mut number).ok()?;
            let mut rest = vec![0; u32::from_le_bytes(number) as usize];
            if rest.is_empty() {
                continue;
            }
            self.0.read_exact(&mut rest).ok()?;
            let json = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
            let head = serde_json::from_slice(&rest[4..4 + json]).unwrap();
            return Some(Message { head, pixels: rest[4 + json..].to_vec() });
        }
    }
}

pub struct Events(BufReader<TcpStream>);

impl Iterator for Events {
    type Item = (String, Value);

    fn next(&mut self) -> Option<(String, Value)> {
        let (mut name, mut line) = (String::new(), String::new());
        loop {
            line.clear();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.trim().into();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
    }
}
