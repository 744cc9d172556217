//! Starts, accepts, stops.

use super::check::Gate;
use super::connection::{self, Shared};
use super::{Handler, limits, token, write};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A running server. It stops when it is dropped.
pub struct Server {
    port: u16,
    shared: Arc<Shared>,
    /// Ends with the threads of clients that are still there. `None` once stopped.
    accepting: Option<JoinHandle<Vec<JoinHandle<()>>>>,
    /// A descriptor in reserve, see [`Server::stop`].
    spare: Option<TcpListener>,
}

impl Server {
    /// Starts to serve on 127.0.0.1. Port 0 means any that is free.
    pub fn start(port: u16, handler: Arc<dyn Handler>) -> io::Result<Server> {
        Self::start_with(port, &token::new()?, handler)
    }

    /// The same with the token of an earlier server of this process, whose clients are let in.
    pub fn start_with(port: u16, token: &str, handler: Arc<dyn Handler>) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        let spare = Some(listener.try_clone()?);
        let gate = Gate::new(port, token.to_string());
        let shared = Arc::new(Shared { handler, gate, places: Arc::default() });
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("live-accept".into()).stack_size(limits::STACK);
        let accepting = Some(thread.spawn(move || accept(&listener, &for_thread))?);
        Ok(Server { port, shared, accepting, spare })
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What clients must show: 32 hexadecimal digits, new for each server.
    pub fn token(&self) -> &str {
        &self.shared.gate.token
    }

    /// The address to open in a browser. The token is in its fragment, which browsers keep to themselves.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/#{}", self.port, self.token())
    }

    /// Stops: accepts nobody any more, lets streams say goodbye, and ends all threads within about a second.
    /// A thread whose handler or source does not return in that time is left behind.
    pub fn stop(self) {
        drop(self);
    }

    fn end(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        let deadline = Instant::now() + limits::STOP;
        self.shared.places.stop();
        // The thread waits for a client, so it gets one. If the process is out of descriptors, there is the spare one.
        drop(self.spare.take());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        while !accepting.is_finished() && Instant::now() < deadline {
            let _ = TcpStream::connect_timeout(&address, Duration::from_millis(50));
            thread::sleep(Duration::from_millis(1));
        }
        if !accepting.is_finished() {
            return;
        }
        let clients = accepting.join().unwrap_or_default();
        // Half of the time is for streams to end by themselves, half for what must be cut off.
        wait_for(&clients, deadline - limits::STOP / 2);
        self.shared.places.close_all();
        wait_for(&clients, deadline);
        for client in clients.into_iter().filter(JoinHandle::is_finished) {
            // A panic in it was its own.
            let _ = client.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Server {
    /// Without the token, which does not belong into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("port", &self.port).finish_non_exhaustive()
    }
}

fn wait_for(threads: &[JoinHandle<()>], deadline: Instant) {
    while threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Accepts clients until the server stops. Returns the threads that may still run.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) -> Vec<JoinHandle<()>> {
    let mut clients: Vec<JoinHandle<()>> = Vec::new();
    loop {
        let accepted = listener.accept();
        if shared.places.stopping() {
            return clients;
        }
        clients.retain(|client| !client.is_finished());
        match accepted {
            Ok((stream, _)) => clients.extend(welcome(stream, shared)),
            // Out of descriptors, for example. The same error would come back at once, so do not ask at once.
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Gives a new client a thread, or turns it away.
fn welcome(stream: TcpStream, shared: &Arc<Shared>) -> Option<JoinHandle<()>> {
    let stream = Arc::new(stream);
    let Some(place) = shared.places.admit(&stream) else {
        turn_away(&stream);
        return None;
    };
    let thread = thread::Builder::new().name("live-client".into()).stack_size(limits::STACK);
    let (for_thread, shared) = (Arc::clone(&stream), Arc::clone(shared));
    let started = thread.spawn(move || connection::serve(&shared, place, &for_thread));
    if started.is_err() {
        turn_away(&stream);
    }
    started.ok()
}

/// Says that there is no place, without waiting for anything.
fn turn_away(mut stream: &TcpStream) {
    if stream.set_nonblocking(true).is_err() {
        return;
    }
    // The answer fits into the buffer of a new connection. A client that misses it sees a closed connection.
    let _ = stream.write(&write::refusal(&write::busy()));
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read(&mut [0; 4096]);
}
