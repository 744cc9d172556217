//! A live page from its start to its end: server, threads, and the file that leads to it.

use crate::camera;
use crate::describe::{Mode, describe};
use crate::feed::Feed;
use crate::http::Server;
use crate::link::Link;
use crate::numbers::{OwnProgress, Reporter};
use crate::performance::Performance;
use crate::site::Site;
use crate::theatre::{self, Controls};
use spectral_core::shell::quote_path;
use spectral_train::checkpoint::Cost;
use spectral_train::error::TrainError;
use spectral_train::resolve::ResolvedRun;
use spectral_train::run_dir::{LIVE_FILE, RunDir, Status};
use spectral_train::trainer::{AgentProgress, Observer, Trainer};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long readers have to take the last word.
const FAREWELL: Duration = Duration::from_millis(300);

/// A page that is being served. It ends when it is dropped.
pub struct LivePage {
    feed: Arc<Feed>,
    own: Arc<OwnProgress>,
    controls: Option<Arc<Controls>>,
    server: Option<Server>,
    /// Has the last word.
    reporter: Option<JoinHandle<()>>,
    threads: Vec<JoinHandle<()>>,
    farewell: String,
    path: String,
    /// Leads browsers to the page, as long as it is there.
    link: Option<Link>,
}

/// Whether a page could be served on this port now: for programs that want to know before they begin something else.
pub fn check_port(port: u16) -> Result<(), TrainError> {
    std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port))
        .map(drop)
        .map_err(|e| no_port(port, &e))
}

fn no_port(port: u16, error: &std::io::Error) -> TrainError {
    TrainError::Usage(format!(
        "a page cannot be served on port {port} of this machine: {error}; another port may be free, and without one given a \
         free one is chosen"
    ))
}

/// Starts a server. The runs that one command trains one after the other have the same address, so that an open page can follow
/// from one to the next.
fn serve(port: u16, mode: Mode, site: Arc<Site>) -> Result<Server, TrainError> {
    static BEFORE: Mutex<Option<(u16, String)>> = Mutex::new(None);
    let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = before.as_ref().filter(|_| mode == Mode::Training);
    if let Some((last, token)) = known {
        let wanted = if port == 0 { *last } else { port };
        match Server::start_with(wanted, token, site.clone()) {
            Ok(server) => return Ok(server),
            Err(error) if port != 0 => return Err(no_port(port, &error)),
            // Somebody has taken it; any other will do.
            Err(_) => {}
        }
    }
    let server = Server::start(port, site).map_err(|e| no_port(port, &e))?;
    if mode == Mode::Training {
        *before = Some((server.port(), server.token().into()));
    }
    Ok(server)
}

/// How a model plays for a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlayOptions {
    /// The agent that plays first.
    pub agent: usize,
    /// Steps per second.
    pub speed: f64,
    /// Probability of a random action.
    pub epsilon: f64,
    /// The seed of task and random actions.
    pub seed: u64,
}

impl LivePage {
    /// Serves a page of a run that this process trains, on this port of the loopback interface (0: any that is free). Pass
    /// the page to [`Trainer::run_watched`], beside whoever else observes.
    pub fn of_training(trainer: &mut Trainer, port: u16) -> Result<Self, TrainError> {
        let slots = trainer.show();
        let (run, dir) = (trainer.resolved().clone(), trainer.dir().clone());
        let own = Arc::new(OwnProgress::default());
        let mut page = Self::new(&run, &dir, port, Mode::Training, None)?;
        page.own = own.clone();
        page.path = quote_path(dir.path());
        page.farewell =
            format!("The process that trained this run is gone: `spectral watch {}` shows it.", page.path);
        // Without the file the page is as good, so it is no error if it cannot be written.
        page.link = Link::create(dir.path().join(LIVE_FILE), &page.url()).ok();
        let reporter = Reporter::new(run.clone(), dir, Some(own));
        page.reporter = Some(page.spawn("live-numbers", move |feed| reporter.work(feed))?);
        let camera = page.spawn("live-camera", move |feed| {
            // Values for a page are no reason to occupy more than one core.
            let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build();
            match alone {
                Ok(pool) => pool.install(|| camera::film(&run, slots, feed)),
                Err(_) => camera::film(&run, slots, feed),
            }
        })?;
        page.threads.push(camera);
        Ok(page)
    }

    /// Serves a page of a run that is finished, or that another process trains: its numbers, and a model of it that plays.
    /// The run must have been resolved for the CPU.
    pub fn of_run(
        dir: &RunDir,
        run: &ResolvedRun,
        port: u16,
        options: PlayOptions,
    ) -> Result<Self, TrainError> {
        let PlayOptions { agent, speed, epsilon, seed } = options;
        let performance = Performance::new(dir, run, agent, epsilon, seed)?;
        let controls = Arc::new(Controls::new(run, agent, speed, epsilon));
        let mut page = Self::new(run, dir, port, Mode::Playing, Some(controls.clone()))?;
        page.farewell = "The page has ended; `spectral watch` shows it again.".into();
        let reporter = Reporter::new(run.clone(), dir.clone(), None);
        page.reporter = Some(page.spawn("live-numbers", move |feed| reporter.work(feed))?);
        let run = run.clone();
        let theatre =
            page.spawn("live-theatre", move |feed| theatre::play(&run, performance, &controls, feed))?;
        page.threads.push(theatre);
        Ok(page)
    }

    fn new(
        run: &ResolvedRun,
        dir: &RunDir,
        port: u16,
        mode: Mode,
        controls: Option<Arc<Controls>>,
    ) -> Result<Self, TrainError> {
        let feed = Arc::new(Feed::new(run.plan.agents.len()));
        let site = Site {
            run: describe(run, dir, mode).to_string(),
            ids: run.plan.agents.iter().map(|agent| agent.id.clone()).collect(),
            feed: feed.clone(),
            controls: controls.clone(),
            filming: Mutex::new(None),
        };
        let server = serve(port, mode, Arc::new(site))?;
        Ok(LivePage {
            feed,
            own: Arc::default(),
            controls,
            server: Some(server),
            reporter: None,
            threads: Vec::new(),
            farewell: String::new(),
            path: String::new(),
            link: None,
        })
    }

    fn spawn(
        &self,
        name: &str,
        work: impl FnOnce(&Feed) + Send + 'static,
    ) -> Result<JoinHandle<()>, TrainError> {
        let feed = self.feed.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || work(&feed));
        let failed = |e| TrainError::Usage(format!("the system gives no thread for the live page: {e}"));
        thread.map_err(failed)
    }

    /// Says how the run ended; the page tells its readers when it is dropped.
    pub fn set_end(&mut self, status: Status) {
        self.own.end(status);
        let path = &self.path;
        self.farewell = match status {
            Status::Interrupted => {
                format!("The run was interrupted and saved: `spectral resume {path}` goes on with it.")
            }
            _ => format!("The run has ended here: `spectral watch {path}` shows it."),
        };
    }

    /// The address to open in a browser on this machine. Whoever knows it can see the run, so it is not for everybody.
    pub fn url(&self) -> String {
        self.server.as_ref().map(Server::url).unwrap_or_default()
    }
}

impl Drop for LivePage {
    fn drop(&mut self) {
        self.link = None;
        self.feed.close();
        if let Some(reporter) = self.reporter.take() {
            let _ = reporter.join();
        }
        self.feed.end(&self.farewell);
        if let Some(controls) = &self.controls {
            controls.wake();
        }
        let reading = |agent| self.feed.is_watched(agent);
        if (0..self.feed.agents()).any(reading) {
            std::thread::sleep(FAREWELL);
        }
        self.server = None;
        for thread in self.threads.drain(..) {
            // A page that failed has told so on standard error, and harms nothing else.
            let _ = thread.join();
        }
    }
}

impl Observer for LivePage {
    fn tick(&self, progress: &[AgentProgress]) {
        self.own.tick(progress);
    }

    fn checkpoint(&self, cost: Cost) {
        self.own.checkpoint(cost);
    }
}
