//! The training loop, run directories, checkpoints, metrics and configuration.
//!
//! Read [`agent_run`] first: it is the loop of one agent on a CPU. [`trainer`] runs a population of them, over the cores of
//! a CPU ([`cores`]) or on a device ([`pipeline`]); [`checkpoint`] keeps them safe, [`config`] turns files and flags into a
//! [`plan`], [`experiment`] a figure into several, [`workshop`] is where a program adds its own tasks and codecs.

pub mod actor;
pub mod agent_run;
pub mod atari;
pub mod checkpoint;
pub mod config;
pub mod cores;
pub mod devices;
pub mod error;
pub mod eval;
pub mod experiment;
pub mod machine;
pub mod memory;
pub mod pipeline;
pub mod plan;
pub mod population;
pub mod presets;
pub mod run_dir;
pub mod sinks;
pub mod store;
pub mod trainer;
pub mod workshop;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
