//! Run directories made up for tests: known shapes of learning, seeded noise, every kind of ending.
#![allow(dead_code)] // each test binary uses its own part

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Deterministic noise.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// How an agent of a made-up run ended.
#[derive(Clone, Copy, PartialEq)]
pub enum End {
    Finished,
    Stopped,
    Running,
}

/// One agent of a made-up run.
pub struct SyntheticAgent {
    pub agent: &'static str,
    pub seed: u64,
    /// Score at the start, score that it tends to, and the frame at which half of the way is done.
    pub learning: (f64, f64, f64),
    pub noise: f64,
    pub end: End,
    pub reached: u64,
}

pub fn member(
    agent: &'static str,
    seed: u64,
    learning: (f64, f64, f64),
    noise: f64,
    frames: u64,
) -> SyntheticAgent {
    SyntheticAgent { agent, seed, learning, noise, end: End::Finished, reached: frames }
}

/// Writes a run directory.
pub fn write_run(directory: &Path, task: &str, frames: u64, players_score: bool, members: &[SyntheticAgent]) {
    fs::create_dir_all(directory).unwrap();
    let mut run = format!(
        "format = 1\ntask = \"{task}\"\nframes = {frames}\ncreated = \"2026-01-31T12:00:00Z\"\nversion = \"0.1.0\"\n\
         protocol = \"quick\"\nnote = \"The sign of this reward is plain Pong & no more.\"\ncommand = \"spectral train --task {task}\"\n\n[hardware]\ncpu = \"AMD EPYC 7B13\"\n\
         cores = 2\ndevice = \"cpu\"\n"
    );
    let running = members.iter().any(|member| member.end == End::Running);
    let mut state =
        format!("status = \"{}\"\nseconds = 93.1\n", if running { "interrupted" } else { "finished" });
    for member in members {
        let id = format!("{}-s{}", member.agent, member.seed);
        write!(
            run,
            "\n[[agents]]\nid = \"{id}\"\nagent = \"{0}\"\ncodec = \"{0}\"\nseed = {1}\n[agents.settings]\n\
             learning_rate = {2}\nbatch = 32\ndiscount = 0.99\nseed = {1}\nnetwork = {{ kind = \"mlp\", hidden = [128, 128] }}\n",
            member.agent,
            member.seed,
            if member.agent == "popart" { "0.001" } else { "0.0005" }
        )
        .unwrap();
        let (status, reason) = match member.end {
            End::Finished => ("finished", ""),
            End::Stopped => ("stopped", "values stopped being finite"),
            End::Running => ("running", ""),
        };
        write!(
            state,
            "\n[[agents]]\nid = \"{id}\"\nframes = {}\nstatus = \"{status}\"\nreason = \"{reason}\"\n",
            member.reached
        )
        .unwrap();
        write_agent(&directory.join("agents").join(&id), member, players_score);
    }
    fs::write(directory.join("run.toml"), run).unwrap();
    fs::write(directory.join("state.toml"), state).unwrap();
}

fn write_agent(folder: &Path, member: &SyntheticAgent, players_score: bool) {
    fs::create_dir_all(folder).unwrap();
    let mut noise = Noise::new(member.seed * 31 + member.agent.len() as u64);
    let (from, to, half) = member.learning;
    let mut episodes = String::from("frame,return,score,length\n");
    let mut frame = 0;
    loop {
        let length = 300 + (noise.uniform() * 500.0) as u64;
        frame += length;
        if frame > member.reached {
            break;
        }
        let progress = 1.0 / (1.0 + (-(frame as f64 - half) / (0.18 * half.max(1.0))).exp());
        // Noise grows with what is at stake, as it does where rewards explode.
        let noisy = member.noise.min(3.0) + (member.noise - 3.0).max(0.0) * progress.powi(2);
        let progress = if to > 100.0 { progress.powi(3) } else { progress };
        let score = from + (to - from) * progress + noisy * noise.normal();
        writeln!(episodes, "{frame},{score},{score},{length}").unwrap();
    }
    fs::write(folder.join("episodes.csv"), episodes).unwrap();
    fs::write(folder.join("metrics.csv"), metrics(member)).unwrap();
    if players_score {
        let mut rows = String::from("frame,player_score,abs_error,abs_target\n");
        for step in 1..=100u64 {
            let at = step * member.reached / 100;
            for score in 0..21i64 {
                // Higher scores are met later, and an agent that does not learn never meets them.
                let met = (score as f64) * half / 16.0;
                let best = if to > 0.0 { 21 } else { 9 };
                if (at as f64) < met || score >= best {
                    continue;
                }
                let scale = 2f64.powi(score as i32);
                let age = (at as f64 - met) / half.max(1.0);
                let floor = if to > 0.0 { 0.03 } else { 0.05 + 0.05 * score as f64 };
                let error = scale * (floor + (-2.0 * age).exp()) * (0.15 * noise.normal()).exp();
                writeln!(rows, "{at},{score},{error},{scale}").unwrap();
            }
        }
        fs::write(folder.join("td_error.csv"), rows).unwrap();
    }
}

/// How many frequencies the made-up spectral agents have; the last of them is never active.
pub const FREQUENCIES: usize = 5;

fn metrics(member: &SyntheticAgent) -> String {
    let spectral = member.agent.starts_with("spectral");
    let mut text = String::from("frame,updates,saturated,epsilon");
    if spectral {
        for family in ["activity", "sigma", "loss_share"] {
            for k in 0..FREQUENCIES {
                write!(text, ",{family}_{k}").unwrap();
            }
        }
    } else if member.agent == "popart" {
        text.push_str(",mu,sigma");
    }
    text.push('\n');
    for step in 1..=50u64 {
        let progress = step as f64 / 50.0;
        write!(text, "{},{},0,{}", step * member.reached / 50, step * 10, 1.0 - 0.95 * progress).unwrap();
        if spectral {
            let silent = |k: usize| k + 1 == FREQUENCIES;
            for k in 0..FREQUENCIES {
                let activity = if silent(k) { 0.0 } else { 0.2 * 0.3f64.powi(k as i32) * (0.2 + progress) };
                write!(text, ",{activity}").unwrap();
            }
            for k in 0..FREQUENCIES {
                write!(text, ",{}", if silent(k) { 0.0316 } else { 0.05 + progress / (1.0 + k as f64) })
                    .unwrap();
            }
            for k in 0..FREQUENCIES {
                // The first value does not exist yet.
                let share = if silent(k) { 0.0 } else { 0.25 };
                write!(text, ",{}", if step == 1 { String::new() } else { share.to_string() }).unwrap();
            }
        } else if member.agent == "popart" {
            write!(text, ",{},{}", -3.0 + 900.0 * progress, 1.0 + 4000.0 * progress).unwrap();
        }
        text.push('\n');
    }
    text
}

/// A film of one white point.
pub const GIF: &[u8] =
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x00\x00\x00\x00\x00,\
\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// Puts a film where the report looks for it.
pub fn write_clip(run: &Path, id: &str, bytes: &[u8]) {
    fs::create_dir_all(run.join("clips")).unwrap();
    fs::write(run.join("clips").join(format!("{id}.gif")), bytes).unwrap();
}

/// Four agents with three seeds each on two tasks, under `root`: one agent stopped, one unfinished, and the third
/// seed of the first task in a run directory of its own.
pub fn demo(root: &Path) {
    let frames = 150_000;
    let mut first = Vec::new();
    let mut second = Vec::new();
    let mut other = Vec::new();
    for seed in 1000..1003u64 {
        let wobble = seed as f64 - 1001.0;
        let pong = [
            member("spectral", seed, (-10.5, 7.0 + wobble, 60_000.0 + 6_000.0 * wobble), 3.5, frames),
            member("compressed", seed, (-10.5, -9.3 + 0.5 * wobble, 60_000.0), 2.5, frames),
            member("popart", seed, (-10.5, -8.0 + 1.5 * wobble, 40_000.0), 3.0, frames),
            member("clipped", seed, (-10.5, 20.1 + 0.2 * wobble, 45_000.0 + 3_000.0 * wobble), 2.0, frames),
        ];
        for mut agent in pong {
            if agent.agent == "popart" && seed == 1001 {
                (agent.end, agent.reached) = (End::Stopped, 86_000);
            }
            if seed == 1002 { second.push(agent) } else { first.push(agent) }
        }
        let ponglantis = [
            member("spectral", seed, (-12.0, 20_000.0 + 900.0 * wobble, 70_000.0), 900.0, frames),
            member("compressed", seed, (-12.0, 12_000.0 + 2500.0 * wobble, 80_000.0), 2000.0, frames),
            member("popart", seed, (-12.0, -9.0 + wobble, 50_000.0), 3.0, frames),
            member("clipped", seed, (-12.0, 3_200.0 + 40.0 * wobble, 40_000.0), 200.0, frames),
        ];
        for mut agent in ponglantis {
            if agent.agent == "compressed" && seed == 1002 {
                (agent.end, agent.reached) = (End::Running, 104_000);
            }
            other.push(agent);
        }
    }
    write_run(&root.join("pong-a"), "exponential-pong-mini", frames, true, &first);
    write_run(&root.join("pong-b"), "exponential-pong-mini", frames, true, &second);
    write_run(&root.join("ponglantis"), "ponglantis-mini", frames, false, &other);
    for agent in ["spectral", "clipped"] {
        write_clip(&root.join("pong-a"), &format!("{agent}-s1000"), GIF);
        write_clip(&root.join("pong-b"), &format!("{agent}-s1002"), GIF);
    }
}
