//! The two streams of a page: numbers as events, and pictures. Each connection is told what it does not know yet.

use crate::feed::{Feed, State, Watching};
use crate::http::Source;
use crate::tables::{AgentTables, Rows};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A sign of life comes at least this often.
const HEARTBEAT: Duration = Duration::from_secs(3);
/// Events are told at most this often; pictures, which change the feed too, are not waited for.
const EVENTS_TIME: Duration = Duration::from_millis(250);

/// Which rows of a table a connection knows.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    generation: u64,
    rows: usize,
    begun: bool,
}

impl Known {
    /// The rows that are new, and whether they replace those before; `None` if there are none.
    fn catch_up<'r, R>(&mut self, table: &'r Rows<R>) -> Option<(bool, &'r [R])> {
        let reset = !self.begun || self.generation != table.generation || self.rows > table.rows.len();
        let first = if reset { 0 } else { self.rows };
        if !reset && first == table.rows.len() {
            return None;
        }
        *self = Known { generation: table.generation, rows: table.rows.len(), begun: true };
        Some((reset, &table.rows[first..]))
    }
}

/// Numbers, as server-sent events.
pub(crate) struct Events {
    feed: Arc<Feed>,
    agent: usize,
    version: u64,
    progress: Option<Arc<str>>,
    curves: Vec<Known>,
    td: Known,
    frequencies_frame: Option<f64>,
    last: Instant,
    first: bool,
}

impl Events {
    pub(crate) fn new(feed: Arc<Feed>, agent: usize) -> Self {
        let curves = vec![Known::default(); feed.state().tables.len()];
        Events {
            feed,
            agent,
            version: u64::MAX,
            progress: None,
            curves,
            td: Known::default(),
            frequencies_frame: None,
            last: Instant::now(),
            first: true,
        }
    }

    fn tables(&mut self, tables: &[Arc<AgentTables>], out: &mut Vec<u8>) {
        for (agent, (tables, known)) in tables.iter().zip(&mut self.curves).enumerate() {
            if let Some((reset, rows)) = known.catch_up(&tables.curve) {
                let data = json!({
                    "agent": agent, "reset": reset,
                    "frame": rows.iter().map(|row| row.frame).collect::<Vec<_>>(),
                    "score": rows.iter().map(|row| row.score).collect::<Vec<_>>(),
                    "td": rows.iter().map(|row| row.td).collect::<Vec<_>>(),
                });
                event("curves", &data, out);
            }
        }
        let Some(chosen) = tables.get(self.agent) else { return };
        if let Some((reset, columns)) = self.td.catch_up(&chosen.td) {
            let cells = || columns.iter().flat_map(|c| c.errors.iter().map(move |(s, e)| (c.frame, *s, *e)));
            let data = json!({
                "agent": self.agent, "reset": reset,
                "frame": cells().map(|(frame, _, _)| frame).collect::<Vec<_>>(),
                "score": cells().map(|(_, score, _)| score).collect::<Vec<_>>(),
                "error": cells().map(|(_, _, error)| error).collect::<Vec<_>>(),
            });
            event("td", &data, out);
        }
        let newest = chosen.frequencies.as_ref().filter(|f| Some(f.frame) != self.frequencies_frame);
        if let Some(row) = newest {
            self.frequencies_frame = Some(row.frame);
            let data = json!({
                "agent": self.agent, "frame": row.frame, "activity": row.activity, "sigma": row.sigma,
                "target_mean": row.target_mean, "loss_share": row.loss_share,
            });
            event("frequencies", &data, out);
        }
    }
}

fn event(name: &str, data: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
}

impl Source for Events {
    fn next(&mut self, wait: Duration, out: &mut Vec<u8>) -> bool {
        // Pictures change the feed 30 times a second; numbers need not keep up with them.
        let rest = EVENTS_TIME.saturating_sub(self.last.elapsed());
        if !self.first && !rest.is_zero() && !self.feed.is_closing() {
            self.feed.wait_for_close(rest.min(wait));
            return true;
        }
        let state = self.feed.wait(self.version, wait);
        self.version = state.version;
        let (progress, farewell) = (state.progress.clone(), state.farewell.clone());
        let tables = state.tables.clone();
        drop(state);
        self.tables(&tables, out);
        if let Some(now) =
            progress.filter(|now| self.progress.as_ref().is_none_or(|told| !Arc::ptr_eq(now, told)))
        {
            out.extend_from_slice(format!("event: progress\ndata: {now}\n\n").as_bytes());
            self.progress = Some(now);
        }
        if let Some(text) = &farewell {
            event("ended", &json!({ "text": &**text }), out);
        }
        if out.is_empty() && (self.first || self.last.elapsed() >= HEARTBEAT) {
            out.extend_from_slice(b":\n\n");
        }
        if !out.is_empty() {
            (self.last, self.first) = (Instant::now(), false);
        }
        farewell.is_none()
    }
}

/// Pictures with what the agent expects, newest first and only.
pub(crate) struct Pictures {
    feed: Arc<Feed>,
    watching: Watching,
    version: u64,
    shown: u64,
    last: Instant,
}

impl Pictures {
    pub(crate) fn new(feed: Arc<Feed>, watching: Watching) -> Self {
        Pictures { feed, watching, version: u64::MAX, shown: 0, last: Instant::now() }
    }

    fn newest(&self, state: &State) -> Option<(u64, Arc<[u8]>)> {
        state.pictures[self.watching.agent].clone().filter(|(number, _)| *number != self.shown)
    }
}

impl Source for Pictures {
    fn next(&mut self, wait: Duration, out: &mut Vec<u8>) -> bool {
        let state = self.feed.wait(self.version, wait);
        self.version = state.version;
        let newest = self.newest(&state);
        drop(state);
        if let Some((number, message)) = newest {
            self.shown = number;
            out.extend_from_slice(&message);
        } else if self.last.elapsed() >= HEARTBEAT {
            out.extend_from_slice(&0u32.to_le_bytes());
        }
        if !out.is_empty() {
            self.last = Instant::now();
        }
        !self.feed.has_ended()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Point;

    fn told(events: &mut Events) -> String {
        let mut out = Vec::new();
        events.last = Instant::now() - Duration::from_secs(1);
        events.next(Duration::ZERO, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_reader_is_told_what_is_new_and_no_more() {
        let feed = Arc::new(Feed::new(1));
        let mut events = Events::new(feed.clone(), 0);
        assert!(told(&mut events).contains(r#""reset":true,"frame":[]"#));
        let mut tables = AgentTables::default();
        let mut add = |frame: f64| {
            tables.curve.push(Point { frame, score: None, td: Some(0.5) });
            feed.change(|state| state.tables[0] = Arc::new(tables.clone()));
        };
        add(1.0);
        assert!(told(&mut events).contains(r#""reset":false,"frame":[1.0],"score":[null],"td":[0.5]"#));
        assert_eq!(told(&mut events), "");
        add(2.0);
        add(3.0);
        assert!(told(&mut events).contains(r#""frame":[2.0,3.0]"#));
        assert!(told(&mut Events::new(feed.clone(), 0)).contains(r#""frame":[1.0,2.0,3.0]"#));
        feed.end("Good-bye.");
        assert!(told(&mut events).contains("event: ended\ndata: {\"text\":\"Good-bye.\"}"));
    }

    #[test]
    fn a_slow_reader_gets_the_newest_picture() {
        let feed = Arc::new(Feed::new(1));
        let mut pictures = Pictures::new(feed.clone(), feed.watch(0));
        assert!(feed.is_watched(0));
        let mut out = Vec::new();
        for n in 0..3u8 {
            feed.show(0, vec![n].into());
        }
        assert!(pictures.next(Duration::ZERO, &mut out));
        assert_eq!(out, [2]);
        drop(pictures);
        assert!(!feed.is_watched(0));
    }
}
