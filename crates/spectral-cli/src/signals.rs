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
#[cfg(unix)]
pub fn when_asked_to_stop(mut handle: impl FnMut(Asked) + Send + 'static) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    let listen = move || {
        for signal in signals.forever() {
            handle(if signal == SIGINT { Asked::CtrlC } else { Asked::ByProgram });
        }
    };
    let _ = std::thread::Builder::new().name("signals".into()).spawn(listen);
}

/// Calls `handle`, on a thread of its own, at Ctrl-C.
#[cfg(not(unix))]
pub fn when_asked_to_stop(mut handle: impl FnMut(Asked) + Send + 'static) {
    let _ = ctrlc::set_handler(move || handle(Asked::CtrlC));
}
