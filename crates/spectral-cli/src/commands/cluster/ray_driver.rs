//! The driver of a plan on Ray, in the foreground.

use crate::failure::{Failure, INTERRUPTED};
use crate::output::note;
use crate::signals::when_asked_to_stop;
use crate::typed::program;
use spectral_cluster::JobPlan;
use spectral_core::shell::quote_path;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often somebody looks whether the driver has ended or is to be asked to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Runs the driver in the foreground, with the Python that has Ray.
pub fn drive(plan: &JobPlan, driver: &Path, words: &[String]) -> Result<u8, Failure> {
    // Where the command is part of a Python package, that Python; else the one that a user would call.
    let python = if words.len() > 1 { words[0].clone() } else { "python3".to_string() };
    let has_ray =
        Command::new(&python).args(["-c", "import ray"]).output().is_ok_and(|ran| ran.status.success());
    if !has_ray {
        return Err(Failure::usage(format!(
            "the plan is written, but {python} has no Ray to run it: install Ray there (pip install ray), or run {} with a Python \
             that has it",
            driver.display()
        )));
    }
    note!("`{} jobs {}` says how far they are", program(), quote_path(plan.folder()));
    let unable = |e: std::io::Error| Failure::usage(format!("cannot run {python}: {e}"));
    // A wish to stop is the driver's to follow: it waits until its jobs have saved.
    let wish = Wish::listen();
    let mut child = Command::new(&python).arg(driver).spawn().map_err(unable)?;
    let mut passed_on = false;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(unable)? {
            break status;
        }
        if wish.is_there() && !passed_on {
            pass_on(&child);
            passed_on = true;
        }
        std::thread::sleep(LOOK);
    };
    // Ended by a signal, it goes on when it is started again.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(INTERRUPTED))
}

/// Whether this process was asked to stop.
struct Wish(Arc<AtomicBool>);

impl Wish {
    fn listen() -> Self {
        let asked = Arc::new(AtomicBool::new(false));
        let heard = asked.clone();
        when_asked_to_stop(move |_| heard.store(true, Ordering::Relaxed));
        Wish(asked)
    }

    fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Asks the driver to stop. Ctrl-C in a terminal reaches it anyway, also the second one; a signal to this process alone does not.
#[cfg(unix)]
fn pass_on(child: &Child) {
    // It may have ended by itself just now.
    let _ =
        rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::TERM);
}

#[cfg(not(unix))]
fn pass_on(_: &Child) {}
