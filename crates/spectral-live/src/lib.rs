//! See agents learn: a page on this machine with the game, the spectrum of values and the curves of a run.

pub mod http;
