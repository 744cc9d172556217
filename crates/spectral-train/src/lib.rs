//! The training loop, run directories, checkpoints, metrics and configuration.
