//! `spectral watch`.

use crate::args::WatchArgs;
use crate::commands::play::agent_number;
use crate::failure::{Failure, SUCCESS};
use crate::output::note;
use crate::signals::when_asked_to_stop;
use crate::spectrum_screen::SpectrumScreen;
use spectral_live::performance::Performance;
use spectral_live::{Link, LivePage, PlayOptions, live_file};
use spectral_train::devices::DeviceChoice;
use spectral_train::registry::Registry;
use spectral_train::resolve::ResolvedRun;
use spectral_train::run_dir::RunDir;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Set by Ctrl-C, the usual end.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// Seconds that the end of an episode stays on a terminal.
const CURTAIN: f64 = 0.9;

/// Shows a run, on a page or in the terminal.
pub fn run(args: &WatchArgs, registry: &Registry) -> Result<u8, Failure> {
    if !(1.0..=240.0).contains(&args.speed) || !(0.0..=1.0).contains(&args.epsilon) {
        return Err(Failure::usage("--speed must be from 1 to 240 and --epsilon from 0 to 1"));
    }
    let (dir, file) = RunDir::open(&args.run, registry)?;
    let agent = match &args.agent {
        Some(_) => agent_number(&file.plan, args.agent.as_deref(), &args.run)?,
        None => 0,
    };
    // A model plays on the CPU, wherever the run trains.
    let run = registry.resolve_plan(file.plan.with(|run| run.device = DeviceChoice::Cpu))?;
    when_asked_to_stop(|_| STOPPED.store(true, Ordering::Relaxed));
    match args.terminal {
        true => in_terminal(args, &dir, &run, agent),
        false => on_page(args, &dir, &run, agent),
    }
}

fn on_page(args: &WatchArgs, dir: &RunDir, run: &ResolvedRun, agent: usize) -> Result<u8, Failure> {
    let options = PlayOptions { agent, speed: args.speed, epsilon: args.epsilon, seed: args.seed };
    let page = LivePage::of_run(dir, run, args.port, options)?;
    if let Some(own) = live_file(dir.path()).filter(|_| dir.is_at_work() == Some(true)) {
        note!("the process that trains this run has a page of its own: open {}", own.display());
    }
    note!("page, for a browser on this machine: {}", page.url());
    note!("Ctrl-C ends it");
    let _link = if args.open { open(&page.url()) } else { None };
    while !STOPPED.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(SUCCESS)
}

/// Opens the page in this machine's browser, by a private file: the address is a secret, and other users see command lines.
fn open(url: &str) -> Option<Link> {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let path = folder.join(format!("spectral-watch-{}.html", std::process::id()));
    let file = Link::create(path, url).ok()?;
    let programs: &[&str] = if cfg!(target_os = "macos") { &["open"] } else { &["xdg-open", "gio"] };
    for program in programs {
        let mut command = Command::new(program);
        if *program == "gio" {
            command.arg("open");
        }
        let quiet = command.arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if quiet.spawn().is_ok() {
            return Some(file);
        }
    }
    note!("no program was found that opens a browser; open the address above yourself");
    None
}

fn in_terminal(args: &WatchArgs, dir: &RunDir, run: &ResolvedRun, agent: usize) -> Result<u8, Failure> {
    let mut performance = Performance::new(dir, run, agent, args.epsilon, args.seed)?;
    let mut screen = SpectrumScreen::new(dir, run, agent, args.speed);
    let mut left = args.steps.unwrap_or(u64::MAX);
    while left > 0 && !STOPPED.load(Ordering::Relaxed) {
        left -= 1;
        let scene = performance.look();
        if !screen.show(&scene, &performance.picture.picture())? {
            break;
        }
        if performance.is_over() {
            std::thread::sleep(Duration::from_secs_f64(CURTAIN));
            performance.restart();
        } else {
            performance.step(None);
        }
    }
    Ok(SUCCESS)
}
