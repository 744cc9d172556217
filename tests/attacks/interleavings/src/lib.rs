//! The pipeline's job board in every interleaving: its file is compiled here against loom's atomics, whose model runs each test
//! once for every order in which threads may see each other's operations (up to a number of preemptions).
//!
//! ```sh
//! cargo test --release --manifest-path tests/attacks/interleavings/Cargo.toml
//! LOOM_MAX_PREEMPTIONS=4 cargo test --release --manifest-path tests/attacks/interleavings/Cargo.toml   # more of them
//! ```
//!
//! Loom knows no order of sequentially consistent operations beyond acquire and release. What holds here holds all the more
//! where they have one; so the board must need no more, and the tests show that it does not.

#[cfg(test)]
mod pipeline;
