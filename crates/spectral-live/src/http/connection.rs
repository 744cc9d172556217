//! One client, from its request to the end of its answer.

use super::check::Gate;
use super::parse::Refusal;
use super::places::{Place, Places, Stage};
use super::read::{Reader, Unread, timed_out};
use super::write::{self, AnswerHead};
use super::{Access, Answer, Handler, Request, Source, limits};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// What all connections of a server share.
pub(super) struct Shared {
    pub handler: Arc<dyn Handler>,
    pub gate: Gate,
    pub places: Arc<Places>,
}

/// Serves one client. Errors end the connection; there is nobody to tell.
pub(super) fn serve(shared: &Shared, place: Place, stream: &TcpStream) {
    // Small pieces of streams must not wait for larger ones.
    let _ = stream.set_nodelay(true);
    let mut reader = Reader::new(stream);
    match take(shared, &place, &mut reader) {
        Ok(Answer::Whole { status, content_type, body, download }) => {
            let status = if (200..600).contains(&status) { status } else { 500 };
            let length = Some(body.len());
            let head = AnswerHead { status, content_type, length, download, allow: None };
            let _ = send_whole(stream, head.bytes(), &body);
        }
        Ok(Answer::Stream { content_type, mut source }) => {
            // Both may panic. Two panics at once would end the process, so the source is dropped by itself.
            let _ = unless_panic(|| stream_from(&mut *source, content_type, stream, &shared.places));
            let _ = unless_panic(move || drop(source));
        }
        Err(Unread::Refused(refusal)) => {
            if write::send(stream, &write::refusal(&refusal)).is_ok() {
                reader.linger();
            }
        }
        Err(Unread::Gone) => {}
    }
    // The list of places holds the connection as well, so it would not close by being dropped here.
    let _ = stream.shutdown(Shutdown::Write);
    drop(place);
}

/// Reads a request, checks it, and asks the handler.
fn take(shared: &Shared, place: &Place, reader: &mut Reader) -> Result<Answer, Unread> {
    let (head, start) = reader.head()?;
    let handler = &*shared.handler;
    let (method, access) = unless_panic(|| shared.gate.check(&head, handler))??;
    // Only now, so that strangers cannot make the server wait for a body.
    let body = reader.body(start, head.length)?;
    let stage = if access == Access::Open { Stage::Open } else { Stage::Trusted };
    if !place.move_to(stage) {
        return Err(write::busy().into());
    }
    let request = Request { method, path: head.path, body, query: head.query };
    Ok(unless_panic(|| handler.answer(&request))?)
}

/// What `ask` returns; a panic in it is this client's problem only.
fn unless_panic<T>(ask: impl FnOnce() -> T) -> Result<T, Refusal> {
    catch_unwind(AssertUnwindSafe(ask))
        .map_err(|_| Refusal::new(500, "The program failed to answer this; its terminal says more."))
}

fn send_whole(stream: &TcpStream, mut head: Vec<u8>, body: &[u8]) -> io::Result<()> {
    // Small answers go in one packet.
    if body.len() <= 16 * 1024 {
        head.extend_from_slice(body);
        return write::send(stream, &head);
    }
    write::send(stream, &head)?;
    write::send(stream, body)
}

/// Sends what the source gives until it ends, the client leaves or the server stops.
fn stream_from(
    source: &mut dyn Source,
    content_type: &'static str,
    stream: &TcpStream,
    places: &Places,
) -> io::Result<()> {
    let head = AnswerHead { status: 200, content_type, length: None, download: None, allow: None };
    write::send(stream, &head.bytes())?;
    let mut out = Vec::new();
    loop {
        let stopping = places.stopping();
        let start = Instant::now();
        let goes_on = source.next(if stopping { Duration::ZERO } else { limits::STREAM_WAIT }, &mut out);
        write::send(stream, &out)?;
        if stopping || !goes_on {
            return Ok(());
        }
        if out.is_empty() {
            if has_left(stream)? {
                return Ok(());
            }
            // A source that does not wait must not keep a core busy.
            if start.elapsed() < Duration::from_millis(1) {
                thread::sleep(Duration::from_millis(5));
            }
        }
        out.clear();
        if out.capacity() > 8 * limits::STREAM_BUFFER {
            out.shrink_to(limits::STREAM_BUFFER);
        }
    }
}

/// Whether the client has closed its half. Otherwise a silent stream would keep the place of a closed page.
fn has_left(stream: &TcpStream) -> io::Result<bool> {
    stream.set_nonblocking(true)?;
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false)?;
    match peeked {
        Ok(n) => Ok(n == 0),
        Err(e) if timed_out(&e) => Ok(false),
        Err(e) => Err(e),
    }
}
