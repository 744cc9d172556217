//! Convolutions by warpgroups on the CPU: their text, compiled by the system's C++ compiler with tensor cores made of loops, against
//! plain loops. What it cannot see: whether the device's tensor cores read shared memory as `emulated/emulation.h` does.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

#[test]
fn warpgroups_convolve_as_plain_loops_do() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("warpgroups-{}", std::process::id()));
    let program = folder.join("warpgroups");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("net.cuh"), spectral_nn::cuda::net_header()).unwrap();
    let compiler = std::env::var("CXX").unwrap_or("c++".into());
    let compiled = Command::new(&compiler)
        .args([
            "-std=c++17",
            "-O2",
            "-pthread",
            "-Wall",
            "-Wno-unknown-pragmas",
            "-Wno-unused-function",
            "-I",
        ])
        .arg(here.join("src/cuda/kernels"))
        .args([Path::new("-I"), &folder, Path::new("-o")])
        .args([&program, &here.join("tests/emulated/warpgroups.cpp")])
        .output();
    let Ok(compiled) = compiled else {
        let required = std::env::var("SPECTRAL_ORACLES").is_ok_and(|value| value == "1");
        assert!(!required, "SPECTRAL_ORACLES=1 needs a C++ compiler: '{compiler}' cannot be run");
        let why = "SKIPPED: convolutions by warpgroups were not emulated; there is no C++ compiler";
        writeln!(std::io::stderr(), "{why}").unwrap();
        return;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = Command::new(&program).output().unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    let printed = String::from_utf8_lossy(&run.stdout);
    print!("{printed}");
    assert!(run.status.success(), "{printed}{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(printed.lines().count(), 13, "every comparison was made: {printed}");
}
