//! Attacks on everything that reads bytes from elsewhere: files that were damaged or forged, programs of unknown origin,
//! requests of unknown clients.
//!
//! A [`Target`] is a function of bytes that must return, whatever they are: no panic, no hang, no memory beyond [`LIMIT`]. What
//! it does with them is what a command would do, and what it checks beside that is in its module.
//!
//! Two things call them. libFuzzer (the folder `fuzz/`, by `tests/attacks/libfuzzer.sh`) looks for bytes that reach new code, and
//! needs a nightly toolchain.
//! The command `attack` and the test of this crate change the bytes of the corpus at random, always in the same way for the
//! same seed, and need nothing.

pub mod attack;
pub mod corpus;
mod fixture;
pub mod guard;
pub mod mutate;
mod scratch;
mod targets;

pub use guard::LIMIT;
pub use targets::TARGETS;

/// Something that is attacked.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// What is attacked, in a line.
    pub about: &'static str,
    /// Does with the bytes what a command would do.
    pub run: fn(&[u8]),
    /// Words that its inputs are likely to hold; they are put into them at random.
    pub words: &'static [&'static [u8]],
    /// Executions in the test of this crate: about a second of them.
    pub rounds: u64,
}

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
