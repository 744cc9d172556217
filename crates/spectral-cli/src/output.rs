//! Words for people and programs: results to standard output, everything else to standard error.
//!
//! `println!` and `eprintln!` panic when a reader has gone (`spectral tasks | head -1`) or a disk is full; these do not.

use crate::failure::{DATA, Failure};
use std::io::{ErrorKind, Write};

/// Prints a result, line break included. A reader who wants no more of it is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure { text: format!("cannot write the result: {e}"), exit_code: DATA })
        }
        _ => Ok(()),
    }
}

/// Tells the user something. Training does not stop because nobody listens any more.
macro_rules! note {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}
pub(crate) use note;
