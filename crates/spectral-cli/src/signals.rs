//! Being asked to stop: by Ctrl-C, by `kill`, by a scheduler.

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Somebody at the keyboard.
    CtrlC,
    /// A program: SIGTERM, or the terminal went away. Schedulers, wrappers and `timeout` may say it several times.
    #[cfg_attr(not(unix), allow(dead_code))]
    ByProgram,
}

/// Calls `handle`, on a thread of its own, whenever the process is asked to stop, instead of ending the process. Where that cannot be
/// arranged the process ends as it would otherwise: less politely, but not worth failing for.
///
/// Who was started by `nohup` is to go on when the terminal goes away, and does.
#[cfg(unix)]
pub fn when_asked_to_stop(mut handle: impl FnMut(Asked) + Send + 'static) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let wishes: &[i32] = if hangup_is_ignored() { &[SIGINT, SIGTERM] } else { &[SIGINT, SIGTERM, SIGHUP] };
    let Ok(mut signals) = signal_hook::iterator::Signals::new(wishes) else { return };
    let listen = move || {
        for signal in signals.forever() {
            handle(if signal == SIGINT { Asked::CtrlC } else { Asked::ByProgram });
        }
    };
    let _ = std::thread::Builder::new().name("signals".into()).spawn(listen);
}

/// From now on a file that reaches a limit of the system on its size is an error of whoever writes it, as a full disk is, and no
/// longer the end of the process.
#[cfg(unix)]
pub fn outlive_large_files() {
    let heard = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    // If that fails, a limit ends the process as it would have.
    let _ = signal_hook::flag::register(signal_hook::consts::signal::SIGXFSZ, heard);
}

/// There is no such limit.
#[cfg(not(unix))]
pub fn outlive_large_files() {}

/// Whether whoever started this process has told the system to let no SIGHUP through, as Linux says.
#[cfg(unix)]
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // A hexadecimal mask; the lowest bit is that of SIGHUP, which is signal 1.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Calls `handle`, on a thread of its own, at Ctrl-C.
#[cfg(not(unix))]
pub fn when_asked_to_stop(mut handle: impl FnMut(Asked) + Send + 'static) {
    let _ = ctrlc::set_handler(move || handle(Asked::CtrlC));
}
