//! The real command, run as a user runs it.

use std::process::{Command, Output};

fn run(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spectral-bench"));
    command.args(arguments.split_whitespace()).output().expect("the command starts")
}

/// Measuring takes seconds, however little is measured: once is enough.
#[test]
fn measurements_are_valid_json_on_demand() {
    let ran = run("--seconds 0.001 --json");
    assert!(ran.status.success(), "{ran:?}");
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(rows.len() > 5, "{rows:?}");
    assert!(rows.iter().all(|row| row["what"].is_string() && row["unit"].is_string()), "{rows:?}");
}

#[test]
fn a_gpu_is_measured_only_where_there_is_one() {
    for bad in ["--seconds 0", "gpu --populations 0", "gpu --precision fp8", "gpu --seconds 0", "fpga"] {
        assert_eq!(run(bad).status.code(), Some(2), "{bad}");
    }
    let ran = run("gpu --gpu 999 --json");
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(ran.stdout.is_empty(), "{ran:?}");
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.contains("no GPU to measure"), "{said}");
}
