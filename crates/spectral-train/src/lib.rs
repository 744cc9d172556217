//! The training loop, run directories, checkpoints, metrics and configuration.
//!
//! Read [`agent_run`] first: it is the loop of one agent on a CPU. [`trainer`] runs a population of them, over the cores of
//! a CPU ([`cpu_population`]) or on a device ([`pipeline`]); [`checkpoint`] keeps them safe, [`config`] turns files and flags into a
//! [`plan`], [`experiment`] a figure into several; a [`registry`] knows tasks and codecs, and [resolves](resolve) a plan into a run.

pub mod actor;
pub mod agent_run;
mod checked_records;
pub mod checkpoint;
pub mod claim;
pub mod config;
pub mod control;
pub mod cpu_population;
pub mod devices;
#[cfg(test)]
mod disk_faults;
pub mod error;
pub mod eval;
mod evaluations;
pub mod events;
pub mod experiment;
pub mod frozen_games;
pub mod glimpse;
pub mod kept_model;
mod legacy;
mod lockstep;
pub mod machine;
pub mod memory;
pub mod metrics_writer;
pub mod model_file;
pub mod onnx;
pub mod pipeline;
pub mod plan;
pub mod policy;
pub mod population;
pub mod presets;
pub mod prospect;
mod recent;
mod recipe;
pub mod registry;
pub mod resolve;
pub mod run_dir;
pub mod run_file;
pub mod run_status;
pub mod store;
pub mod table_sums;
pub mod trainer;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
