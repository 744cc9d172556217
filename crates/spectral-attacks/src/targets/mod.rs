//! One module for each thing that is attacked.

mod checkpoint;
mod container;
mod engines;
mod http;
mod settings;
mod tables;
mod tensors;
mod zip;

use crate::Target;
pub(crate) use tables::EVALUATIONS;

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "container",
        about: "a file of sections with checksums, and a list of segments",
        run: container::run,
        words: &[b"SPECTRAL", b"\x01", b"\xff"],
        rounds: 30_000,
    },
    Target {
        name: "checkpoint",
        about: "checkpoints and replay segments with right checksums and wrong contents, and training from them",
        run: checkpoint::run,
        words: &[],
        rounds: 1_000,
    },
    Target {
        name: "settings",
        about: "run.toml, files of settings and of experiments",
        run: settings::run,
        words: settings::WORDS,
        rounds: 2_000,
    },
    Target {
        name: "tables",
        about: "the tables and descriptions of a run, as reports read them",
        run: tables::run,
        words: tables::WORDS,
        rounds: 4_000,
    },
    Target {
        name: "tensors",
        about: "models in safetensors files, and what they choose",
        run: tensors::run,
        words: tensors::WORDS,
        rounds: 10_000,
    },
    Target {
        name: "zip",
        about: "zip archives that may hold ROMs",
        run: zip::run,
        words: &[b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"],
        rounds: 20_000,
    },
    Target {
        name: "engines",
        about: "ROMs of any bytes on both engines of the Atari machine, which must agree",
        run: engines::run,
        words: engines::WORDS,
        rounds: 60,
    },
    Target {
        name: "http",
        about: "requests to the live page's server",
        run: http::run,
        words: &[b"\r\n", b"%00", b"/../", b"HTTP/1.1", b"Host:", b"Content-Length:"],
        rounds: 100_000,
    },
];
