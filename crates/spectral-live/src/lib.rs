//! See agents learn: a page on this machine with the game, the spectrum of values and the curves of a run.
//!
//! A feed holds the newest of everything: numbers from the run's files, and pictures of agents at work or of [a model that
//! plays](performance). A [small server](http) tells it to pages at their own pace. Nothing queues up, and nothing of it changes
//! a result. [`LivePage`] puts it together.

mod assets;
mod camera;
mod describe;
mod feed;
mod film;
pub mod gif;
mod health;
pub mod http;
mod link;
mod numbers;
mod page;
pub mod performance;
pub mod picture;
pub mod scene;
mod site;
mod streams;
mod tables;
mod theatre;

pub use link::{Link, live_file};
pub use page::{LivePage, PlayOptions, check_port};
