//! TensorBoard's own reader finds in the event files of a real run what its metrics.csv says.

mod common;

use common::*;
use std::collections::BTreeMap;

const SCRIPT: &str = r"
import struct, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0})
events.Reload()
for tag in sorted(events.Tags()['scalars']):
    for e in events.Scalars(tag):
        print(tag, e.step, struct.unpack('<I', struct.pack('<f', e.value))[0])
";

#[test]
fn tensorboard_reads_a_run_that_was_killed_and_resumed() {
    if !oracles() {
        return skipped("comparison of a run with TensorBoard's reader; set SPECTRAL_ORACLES=1 to run it");
    }
    let place = Place::new();
    let arguments = "--agents spectral,popart --frames 20000 --set checkpoint_seconds=0.05 --out run";
    let mut child = place.start(&train(arguments));
    wait_until("a checkpoint", || !checkpoints(&place.path("run")).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    place.run("resume run").code(0);
    for id in ["spectral-s1", "popart-s1"] {
        let folder = place.path(&format!("run/agents/{id}"));
        let text = std::fs::read_to_string(folder.join("metrics.csv")).unwrap();
        let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let mut expected: BTreeMap<(String, String), u32> = BTreeMap::new();
        for row in text.lines().skip(1) {
            let fields: Vec<&str> = row.split(',').collect();
            for (name, field) in header.iter().zip(&fields).skip(1).filter(|(_, field)| !field.is_empty()) {
                let value = field.parse::<f64>().unwrap() as f32;
                expected.insert((name.to_string(), fields[0].to_string()), value.to_bits());
            }
        }
        let python = std::env::var("SPECTRAL_PYTHON").unwrap_or_else(|_| "python3".into());
        let output = std::process::Command::new(&python).args(["-c", SCRIPT]).arg(&folder).output();
        let output = output.unwrap_or_else(|e| panic!("{python} cannot be run: {e}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut found = BTreeMap::new();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            found.insert((words[0].to_string(), words[1].to_string()), words[2].parse::<u32>().unwrap());
        }
        assert!(expected.len() > 100, "{}", expected.len());
        assert_eq!(found, expected, "{id}");
    }
}
