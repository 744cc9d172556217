//! Single instructions, documented and not, in every addressing mode and in decimal mode too, against the
//! processor inside the Arcade Learning Environment.

mod machine_common;

use machine_common::python;
use spectral_atari::machine::{Console, Format, Input, PowerOn, Rom};
use std::process::Command;
use std::sync::Arc;

#[test]
fn every_instruction_does_the_same() {
    let Some(python) = python() else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/instructions.py");
    let cases = std::env::var("SPECTRAL_ATARI_CASES").unwrap_or_else(|_| "4".into());
    let output = Command::new(python).args([script, &cases, "1"]).output().expect("run the oracle");
    assert!(output.status.success(), "the oracle failed: {}", String::from_utf8_lossy(&output.stderr));
    let programs: Vec<_> = output.stdout.chunks_exact(4096 + 128).collect();
    assert!(programs.len() > 80, "too few programs: {}", programs.len());
    for (index, record) in programs.into_iter().enumerate() {
        let (bytes, expected) = record.split_at(4096);
        let rom = Arc::new(Rom::new(bytes, None).expect("4096 bytes"));
        let mut console = Console::new(rom, PowerOn::ale(), Format::Ntsc);
        for _ in 0..4 {
            console.run_frame(&Input::default(), false);
        }
        assert_eq!(&console.ram()[..], expected, "program {index}: {:02X?}", &bytes[..0x300]);
    }
}
