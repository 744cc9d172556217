//! A task and a codec of a program's own are first class in the command: named, set, recorded, resumed, evaluated, reported.
#![cfg(feature = "command")]

use spectral_rl::agent::codecs::Clipped;
use spectral_rl::command::run;
use spectral_rl::prelude::*;
use std::sync::Arc;

spectral_rl::settings! {
    /// Settings of a task.
    WalkSettings {
        /// Steps to the end.
        distance: u32 = 5,
    }
}

spectral_rl::settings! {
    /// Settings of a codec.
    MineSettings {
        /// Nothing that matters.
        gain: f64 = 1.0,
    }
}

/// Walk to the end of a line; four frames a step.
struct Walk {
    spec: TaskSpec,
    at: u32,
    distance: u32,
}

impl Env for Walk {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }
    fn reset(&mut self, _: &mut Stream) {
        self.at = 0;
    }
    fn step(&mut self, action: usize, _: &mut Stream) -> Step {
        self.at += action as u32;
        let reward = f64::from(self.at);
        Step { reward, score: reward, terminated: self.at >= self.distance, ..Step::default() }
    }
    fn observe(&self, out: Observation<'_>) {
        out.vector()[0] = self.at as f32 / self.distance as f32;
    }
}

fn registry() -> Registry {
    let walk = TaskEntry::with_settings("walk", "walk to the end of a line", |settings: &WalkSettings| {
        let spec = TaskSpec { frames_per_step: 4, ..TaskSpec::vector("walk", 1, &["stay", "go"]) };
        Ok(Box::new(Walk { spec, at: 0, distance: settings.distance }))
    });
    let mine = CodecEntry::new("mine", "clips, and has a setting", |settings: &MineSettings, _| {
        if settings.gain <= 0.0 {
            return Err(SettingError::bad("gain", settings.gain.show(), "a number above 0"));
        }
        Ok(Arc::new(Clipped))
    })
    .preset("mine-twice", "with twice the gain", "gain = 2.0");
    Registry::default().with_task(walk).and_then(|registry| registry.with_codec(mine)).unwrap()
}

/// Runs a command line in which words have no spaces.
fn spectral(line: &str) -> u8 {
    run(&registry(), std::iter::once("spectral").chain(line.split(' ')))
}

#[test]
fn own_tasks_and_codecs_are_first_class() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let agent = at("third.toml");
    std::fs::write(&agent, "codec = \"mine\"\ngain = 3.0\nbatch = 16\n").unwrap();
    let out = at("run");
    let train = format!(
        "train --task walk --agents mine-twice,spectral,{agent} --frames 800 --out {out} --device cpu \
         --set distance=7 --set hidden=8 --set learning_starts=100 --set agent.third.discount=0.5"
    );
    assert_eq!(spectral(&train), 0);
    let text = std::fs::read_to_string(folder.path().join("run/run.toml")).unwrap();
    for line in ["task = \"walk\"", "distance = 7", "frames_per_step = 4", "gain = 2.0", "gain = 3.0"] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert_eq!(text.matches("codec = \"mine\"").count(), 2);
    assert_eq!(spectral(&format!("resume {out} --frames 1200")), 0);
    assert_eq!(spectral(&format!("eval {out} --episodes 3")), 0);
    assert_eq!(spectral(&format!("report {out} --out {}", at("report"))), 0);
    assert!(folder.path().join("report/report.html").exists());
    for words in ["tasks", "agents", "agents --settings", "agents --settings --json"] {
        assert_eq!(spectral(words), 0, "{words}");
    }
    // A command without them says whose they are.
    let plain = |line: &str| run(&Registry::default(), std::iter::once("spectral").chain(line.split(' ')));
    assert_eq!(plain(&format!("eval {out} --episodes 3")), 2);
    assert_eq!(plain(&train), 2);
    // And mistakes in their settings are mistakes.
    for (setting, code) in [("gain=-1", 2), ("distanse=3", 2), ("distance=far", 2), ("gain=4", 0)] {
        let line = format!("train --task walk --agents mine-twice --frames 8 --dry-run --set {setting}");
        assert_eq!(spectral(&line), code, "{setting}");
    }
}
