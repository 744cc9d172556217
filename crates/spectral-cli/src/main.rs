//! The `spectral` command.
fn main() {}
