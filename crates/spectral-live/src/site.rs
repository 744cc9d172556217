//! What a page may ask for, and the answers: see `docs/LIVE_PROTOCOL.md`.

use crate::assets;
use crate::feed::{Feed, Watching};
use crate::http::{Access, Answer, Handler, Method, Request, Source};
use crate::streams::{Events, Pictures};
use crate::theatre::Controls;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// The live page of one run.
pub(crate) struct Site {
    /// The answer to `GET /run`.
    pub run: String,
    pub ids: Vec<String>,
    pub feed: Arc<Feed>,
    /// What can be steered, if anything can.
    pub controls: Option<Arc<Controls>>,
    /// Held while a film is made, with the time of the last one: a process that has other work makes few of them.
    pub filming: Mutex<Option<Instant>>,
}

impl Site {
    /// The agent that a request is about.
    fn agent(&self, request: &Request) -> usize {
        let id = request.query("agent");
        self.ids.iter().position(|known| id == Some(known)).unwrap_or(0)
    }

    /// Whose pictures a request is about. A model that plays has one stream, whoever plays.
    fn subject(&self, request: &Request) -> usize {
        if self.controls.is_some() { 0 } else { self.agent(request) }
    }

    fn watch(&self, request: &Request) -> Watching {
        self.feed.watch(self.subject(request))
    }

    fn film(&self, request: &Request) -> Answer {
        let film = self.feed.film(self.subject(request));
        if film.is_empty() {
            return Answer::error(404, "There is no picture yet to make a film of.");
        }
        let mut last = match self.filming.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Answer::error(503, "Another film is being made; try again in a moment.");
            }
        };
        if last.is_some_and(|last| last.elapsed() < FILM_TIME) {
            return Answer::error(503, "A film was made just now; try again in a few seconds.");
        }
        *last = Some(Instant::now());
        match film.gif() {
            Ok(gif) => Answer::Whole {
                status: 200,
                content_type: "image/gif",
                body: gif.into(),
                download: Some("spectral.gif"),
            },
            Err(_) => Answer::error(500, "The film could not be made."),
        }
    }

    fn control(&self, request: &Request) -> Answer {
        let Some(controls) = &self.controls else {
            let text = "Training cannot be steered; `spectral watch` plays its models.";
            return Answer::error(409, text);
        };
        match controls.change(&request.body) {
            Ok(now) => Answer::whole(200, JSON, now.to_string().into_bytes()),
            Err(why) => Answer::error(400, why),
        }
    }
}

/// The shortest time from one film to the next.
const FILM_TIME: Duration = Duration::from_secs(5);

const JSON: &str = "application/json";

fn stream(content_type: &'static str, source: impl Source + 'static) -> Answer {
    Answer::Stream { content_type, source: Box::new(source) }
}

impl Handler for Site {
    fn access(&self, method: Method, path: &str) -> Option<Access> {
        match (method, path) {
            (Method::Get, "/run" | "/events" | "/pictures" | "/film") => Some(Access::Token),
            (Method::Post, "/control") => Some(Access::Act),
            (Method::Get, path) => assets::find(path).map(|_| Access::Open),
            _ => None,
        }
    }

    fn answer(&self, request: &Request) -> Answer {
        match request.path.as_str() {
            "/run" => Answer::whole(200, JSON, self.run.clone().into_bytes()),
            "/events" => stream("text/event-stream", Events::new(self.feed.clone(), self.agent(request))),
            "/pictures" => {
                stream("application/octet-stream", Pictures::new(self.feed.clone(), self.watch(request)))
            }
            "/film" => self.film(request),
            "/control" => self.control(request),
            path => match assets::find(path) {
                Some((content_type, body)) => Answer::whole(200, content_type, body.as_bytes()),
                None => Answer::error(404, "There is nothing here."),
            },
        }
    }
}
