//! How many clients there may be at once, by what they do.

use super::limits;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a client does. Each has its own number of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Sends its request, or reads why it was refused.
    Reading,
    /// Gets an answer that needs no token.
    Open,
    /// Gets an answer that needs the token.
    Trusted,
}

impl Stage {
    fn limit(self) -> usize {
        match self {
            Stage::Reading => limits::READING,
            Stage::Open => limits::OPEN,
            Stage::Trusted => limits::TRUSTED,
        }
    }

    /// How long a client keeps its place while others wait for one; `None`: as long as it likes.
    ///
    /// A stranger who sends nothing, or takes nothing, could hold a place for seconds, and another right after.
    /// So when all places for strangers are taken, the oldest must go; what is honest takes milliseconds.
    fn grace(self) -> Option<Duration> {
        match self {
            Stage::Reading => Some(limits::READING_GRACE),
            Stage::Open => Some(limits::OPEN_GRACE),
            Stage::Trusted => None,
        }
    }
}

/// All clients.
#[derive(Default)]
pub(super) struct Places {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    clients: Vec<Client>,
    next: u64,
    stopping: bool,
}

struct Client {
    id: u64,
    stage: Stage,
    since: Instant,
    /// Its connection was closed to make room, and its thread is about to end.
    leaving: bool,
    stream: Arc<TcpStream>,
}

impl State {
    fn has_room(&self, stage: Stage) -> bool {
        self.clients.iter().filter(|client| client.stage == stage).count() < stage.limit()
    }

    /// Closes the connection that has been at `stage` for longest, if that is long enough and nobody leaves already.
    fn make_room(&mut self, stage: Stage) {
        let Some(grace) = stage.grace() else { return };
        let mut here: Vec<&mut Client> =
            self.clients.iter_mut().filter(|client| client.stage == stage).collect();
        if here.iter().any(|client| client.leaving) {
            return;
        }
        let oldest = here.iter_mut().min_by_key(|client| client.since);
        if let Some(client) = oldest.filter(|client| client.since.elapsed() >= grace) {
            client.leaving = true;
            let _ = client.stream.shutdown(Shutdown::Both);
        }
    }
}

impl Places {
    /// A place for a new client, which sends its request; `None` if there is none soon.
    pub fn admit(self: &Arc<Self>, stream: &Arc<TcpStream>) -> Option<Place> {
        let mut state = self.wait_for_room(Stage::Reading)?;
        let id = state.next;
        state.next += 1;
        let (stage, since, stream) = (Stage::Reading, Instant::now(), Arc::clone(stream));
        state.clients.push(Client { id, stage, since, leaving: false, stream });
        Some(Place { places: Arc::clone(self), id })
    }

    /// Waits until there is room at `stage`, for a moment only. `None` if there is none, or if the server stops.
    fn wait_for_room(&self, stage: Stage) -> Option<MutexGuard<'_, State>> {
        let start = Instant::now();
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            if state.has_room(stage) {
                return Some(state);
            }
            let left = limits::PLACE.checked_sub(start.elapsed())?;
            state.make_room(stage);
            // Nobody says when the oldest client is old enough, so look often.
            let wait = left.min(Duration::from_millis(10));
            state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether the server is about to stop.
    pub fn stopping(&self) -> bool {
        self.lock().stopping
    }

    /// Lets nobody in from now on, and closes connections that have not sent their request yet.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        close(state.clients.iter().filter(|client| client.stage == Stage::Reading));
        drop(state);
        self.changed.notify_all();
    }

    /// Closes all connections.
    pub fn close_all(&self) {
        close(self.lock().clients.iter());
    }

    /// Nothing that can panic runs under this lock, so a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn close<'a>(clients: impl Iterator<Item = &'a Client>) {
    for client in clients {
        // An error means that it is closed already.
        let _ = client.stream.shutdown(Shutdown::Both);
    }
}

/// One client's place. It is free again when this is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    id: u64,
}

impl Place {
    /// Moves the client on to `stage`; false if no place there becomes free soon.
    pub fn move_to(&self, stage: Stage) -> bool {
        let Some(mut state) = self.places.wait_for_room(stage) else { return false };
        // One that was told to leave gets nothing more.
        let moved = state.clients.iter_mut().find(|client| client.id == self.id && !client.leaving);
        let found = moved.is_some();
        if let Some(client) = moved {
            client.stage = stage;
            client.since = Instant::now();
        }
        drop(state);
        self.places.changed.notify_all();
        found
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().clients.retain(|client| client.id != self.id);
        self.places.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn each_stage_has_its_own_places() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = Arc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let places = Arc::new(Places::default());

        let fill = |stage: Stage| -> Vec<Place> {
            let place = || places.admit(&stream).filter(|place| place.move_to(stage)).unwrap();
            (0..stage.limit()).map(|_| place()).collect()
        };
        let trusted = fill(Stage::Trusted);
        let open = fill(Stage::Open);
        let reading: Vec<Place> = (0..limits::READING).map(|_| places.admit(&stream).unwrap()).collect();
        assert_eq!(places.lock().clients.len(), 64);

        // Nobody leaves, for these places have no threads that would notice.
        assert!(places.admit(&stream).is_none());
        assert!(!reading[1].move_to(Stage::Trusted));
        assert!(!reading[1].move_to(Stage::Open));
        drop(trusted);
        assert!(reading[1].move_to(Stage::Trusted));
        // The oldest was told to leave, so it gets no other place.
        assert!(!reading[0].move_to(Stage::Trusted));
        drop((open, reading));
        assert_eq!(places.lock().clients.len(), 0);
    }

    #[test]
    fn nobody_is_let_in_while_the_server_stops() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = Arc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let places = Arc::new(Places::default());
        let place = places.admit(&stream).unwrap();
        places.stop();
        assert!(places.stopping());
        assert!(places.admit(&stream).is_none());
        assert!(!place.move_to(Stage::Trusted));
    }
}
