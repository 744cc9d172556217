//! The Atari 2600 in pure Rust: machine, games, preprocessing, the composed tasks of the paper.

pub mod games;
pub mod machine;
pub mod preprocess;
pub mod roms;
pub mod task;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
