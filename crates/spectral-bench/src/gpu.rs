//! `spectral-bench gpu`: populations on a GPU, next to what the hardware allows.

use crate::args::{BenchPrecision, GpuArgs};
use crate::end_to_end;
use crate::failure::{DEVICE, Failure};
use crate::floor::{self, Floor};
use crate::group_times::{GroupTimes, Noise, REPLAY, Times, USUAL, copy_bandwidth, measure, specs, task};
use crate::output::{Table, note, print};
use serde_json::{Value, json};
use spectral_agent::gpu::{AgentSpec, host_resident, memory_bytes};
use spectral_agent::lockstep::DeviceFailure;
use spectral_nn::cuda::{Device, DeviceInfo, Precision};
use spectral_train::machine::{Hardware, available_memory, human_bytes};

/// A figure of the paper: five agents with five seeds, each with this many transitions.
const FIGURE_AGENTS: usize = 25;
const FIGURE_REPLAY: usize = 1_000_000;

/// What to measure, as the arguments mean it.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    /// Agents as [`specs`] reads them.
    agents: Vec<String>,
    populations: Vec<usize>,
    precisions: Vec<Precision>,
    seconds: f64,
}

impl Wanted {
    fn of(args: &GpuArgs) -> Result<Wanted, Failure> {
        let seconds = args.seconds.unwrap_or(if args.end_to_end { 10.0 } else { 1.0 });
        if !(seconds > 0.0 && seconds < 1e4) {
            return Err(Failure::usage("--seconds must be a positive number, below 10000"));
        }
        let usual: &[usize] = if args.end_to_end { &[20] } else { &[1, 5, 20, 64] };
        let mut populations: Vec<usize> = args.populations.iter().map(|&p| usize::from(p)).collect();
        if populations.is_empty() {
            populations = usual.to_vec();
        }
        let usual = if args.end_to_end { BenchPrecision::Bf16 } else { BenchPrecision::All };
        let precisions = match args.precision.unwrap_or(usual) {
            BenchPrecision::Bf16 => vec![Precision::Bf16],
            BenchPrecision::Tf32 => vec![Precision::Tf32],
            BenchPrecision::Fp32 => vec![Precision::Fp32],
            BenchPrecision::All => vec![Precision::Bf16, Precision::Tf32, Precision::Fp32],
        };
        let agents = match &args.agents[..] {
            [] => vec![USUAL.to_string()],
            named => named.to_vec(),
        };
        for text in &agents {
            specs(text, 1, REPLAY).map_err(|e| Failure::usage(format!("--agent '{text}': {e}")))?;
        }
        Ok(Wanted { agents, populations, precisions, seconds })
    }
}

/// A failure of the device as the command reports it.
pub fn failed(error: DeviceFailure) -> Failure {
    Failure { text: format!("the GPU failed: {error}"), exit_code: DEVICE }
}

/// Measures and prints.
pub fn run(args: &GpuArgs) -> Result<(), Failure> {
    let wanted = Wanted::of(args)?;
    let device = Device::open(args.gpu).map_err(|why| Failure::usage(format!("no GPU to measure: {why}")))?;
    let info = device.info();
    let hardware = Hardware::here();
    note!(
        "{}, {} multiprocessors, compute capability {}.{}, CUDA {}, {} free of {}; {} with {} cores",
        info.name,
        info.multiprocessors,
        info.capability.0,
        info.capability.1,
        cuda_version(info),
        human_bytes(info.free),
        human_bytes(info.memory),
        hardware.cpu,
        hardware.cores
    );
    let noise = Noise::new();
    if args.end_to_end {
        for &precision in &wanted.precisions {
            for &agents in &wanted.populations {
                let (gpu, groups, seconds) = (args.gpu, args.groups, wanted.seconds);
                let wanted = end_to_end::Wanted { gpu, precision, agents, groups, seconds };
                end_to_end::run(&device, &wanted, &args.tasks, &noise, args.json)?;
            }
        }
        return Ok(());
    }
    updates(&device, &wanted, &noise, args)?;
    memory(&device, args.json)
}

/// Times of updates and acting for every population and precision.
fn updates(device: &Device, wanted: &Wanted, noise: &Noise, args: &GpuArgs) -> Result<(), Failure> {
    let bandwidth = copy_bandwidth(device).map_err(failed)?;
    if args.json {
        let line = json!({ "stack": "spectral", "what": "copy", "bytes_per_second": bandwidth });
        print(&line.to_string())?;
    }
    let work = floor::update(false);
    note!(
        "a copy moves {:.2} TB/s; one agent's update moves at least {:.1} MB and takes {:.2} GFLOP, without dueling heads",
        1e-12 * bandwidth,
        1e-6 * work.bytes as f64,
        1e-9 * work.flops as f64
    );
    let mut table = Table::new(&[
        "agent",
        "P",
        "products",
        "update ms",
        "min",
        "agent-updates/s",
        "floor ms",
        "floor by",
        "of the floor",
        "act ms",
        "min",
        "act with upload ms",
    ]);
    for &agents in &wanted.populations {
        for &precision in &wanted.precisions {
            for agent in &wanted.agents {
                for spilt in if args.spill { 0..2 } else { 0..1 } {
                    let setting = Setting { agent, agents, precision, spilt };
                    let times = measure(device, precision, (agent, agents), spilt, noise, wanted.seconds);
                    let times = times.map_err(failed)?;
                    let rate = floor::stated_rate(device.info(), precision);
                    let floor = Floor::new(agents, floor::update(has_dueling_heads(agent)), bandwidth, rate);
                    if args.json {
                        for line in lines(&setting, &times, &floor, device.info()) {
                            print(&line.to_string())?;
                        }
                    }
                    table.row(row(&setting, &times, &floor));
                }
            }
        }
    }
    show(&table, args.json)
}

/// Prints a table: to people who watch where programs read the result.
pub fn show(table: &Table, json: bool) -> Result<(), Failure> {
    if json {
        note!("{}", table.text());
        return Ok(());
    }
    print(&table.text())
}

/// Whether an agent that was checked before has dueling heads.
fn has_dueling_heads(agent: &str) -> bool {
    specs(agent, 1, REPLAY).is_ok_and(|specs| specs[0].settings.dueling)
}

/// What is measured.
struct Setting<'a> {
    agent: &'a str,
    agents: usize,
    precision: Precision,
    spilt: usize,
}

fn row(setting: &Setting<'_>, GroupTimes { update, act, step }: &GroupTimes, floor: &Floor) -> Vec<Value> {
    let name = match setting.spilt {
        0 => setting.precision.name().to_string(),
        spilt => format!("{}, {spilt} agent's frames in the host's memory", setting.precision.name()),
    };
    vec![
        json!(setting.agent),
        json!(setting.agents),
        json!(name),
        json!(update.median),
        json!(update.min),
        json!(1e3 * setting.agents as f64 / update.median),
        json!(floor.ms()),
        json!(floor.bound()),
        json!(format!("{:.0}%", 100.0 * floor.ms() / update.median)),
        json!(act.median),
        json!(act.min),
        json!(step.median),
    ]
}

/// The measurements as lines that `benches/gpu_compare.py` reads.
fn lines(setting: &Setting<'_>, times: &GroupTimes, floor: &Floor, info: &DeviceInfo) -> [Value; 2] {
    let mut variant = if setting.spilt == 0 { "graph" } else { "graph, one agent spilt" }.to_string();
    if setting.agent != USUAL {
        variant += &format!(", {}", setting.agent);
    }
    let versions = json!({
        "spectral": env!("CARGO_PKG_VERSION"), "device": info.name, "cuda": cuda_version(info),
    });
    let line = |what: &str, times: &Times| {
        json!({
            "stack": "spectral", "variant": variant, "precision": setting.precision.name(), "P": setting.agents,
            "what": what, "ms_median": times.median, "ms_min": times.min, "versions": versions,
        })
    };
    let (mut update, mut act) = (line("update", &times.update), line("act", &times.act));
    update["floor_ms"] = json!(floor.ms());
    update["floor_by"] = json!(floor.bound());
    act["with_upload_ms_median"] = json!(times.step.median);
    [update, act]
}

fn cuda_version(info: &DeviceInfo) -> String {
    format!("{}.{}", info.driver / 1000, info.driver % 1000 / 10)
}

fn figure_agents() -> Result<Vec<AgentSpec>, Failure> {
    specs(USUAL, FIGURE_AGENTS, FIGURE_REPLAY).map_err(|e| Failure::usage(e.to_string()))
}

/// Says what a figure of the paper needs.
fn memory(device: &Device, json: bool) -> Result<(), Failure> {
    let agents = figure_agents()?;
    let (fixed, frames) = memory_bytes(&task(), &agents, Precision::Bf16).map_err(failed)?;
    let free = device.free_memory().map_err(|e| failed(DeviceFailure(e.0)))?;
    let outside = host_resident(free, fixed, &frames);
    let spilt = outside.iter().filter(|spilt| **spilt).count();
    let pinned: u64 = frames.iter().zip(&outside).filter(|(_, spilt)| **spilt).map(|(own, _)| own).sum();
    let frames: u64 = frames.iter().sum();
    let host = available_memory();
    if json {
        return print(
            &json!({
                "stack": "spectral", "what": "memory", "P": FIGURE_AGENTS, "replay": FIGURE_REPLAY, "fixed_bytes": fixed,
                "observation_bytes": frames, "free_bytes": free, "spilt": spilt, "pinned_bytes": pinned,
                "host_available_bytes": host,
            })
            .to_string(),
        );
    }
    let end = match spilt {
        0 => "everything fits".to_string(),
        n => format!(
            "the observations of {n} agents ({}) go to the host's memory, where {} are available",
            human_bytes(pinned),
            host.map_or("an unknown number of bytes".into(), human_bytes)
        ),
    };
    print(&format!(
        "{FIGURE_AGENTS} agents with {FIGURE_REPLAY} transitions each need {} and {} for observations; {} are free: {end}",
        human_bytes(fixed),
        human_bytes(frames),
        human_bytes(free)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Benchmark};
    use clap::Parser;

    fn args(text: &str) -> Result<GpuArgs, String> {
        let words = format!("spectral-bench gpu {text}");
        let parsed = Arguments::try_parse_from(words.split_whitespace()).map_err(|e| e.to_string())?;
        match parsed.what {
            Some(Benchmark::Gpu(args)) => Ok(args),
            None => Err("no subcommand".into()),
        }
    }

    #[test]
    fn arguments_mean_what_they_say() {
        let usual = Wanted::of(&args("").unwrap()).unwrap();
        assert_eq!((usual.populations, usual.seconds), (vec![1, 5, 20, 64], 1.0));
        assert_eq!(usual.precisions.len(), 3);
        let training = Wanted::of(&args("--end-to-end").unwrap()).unwrap();
        assert_eq!(
            training,
            Wanted {
                agents: vec![USUAL.into()],
                populations: vec![20],
                precisions: vec![Precision::Bf16],
                seconds: 10.0
            }
        );
        let own = args("--populations 3,7 --precision tf32 --seconds 0.5 --json --spill").unwrap();
        assert!(own.json && own.spill);
        let own = Wanted::of(&own).unwrap();
        assert_eq!((own.populations, own.precisions, own.seconds), (vec![3, 7], vec![Precision::Tf32], 0.5));
        let mut named = args("").unwrap();
        named.agents = vec!["popart".into(), "spectral double=true".into()];
        assert_eq!(Wanted::of(&named).unwrap().agents, named.agents);
        named.agents = vec!["spectral duble=true".into()];
        assert_eq!(Wanted::of(&named).unwrap_err().exit_code, 2);
        assert_eq!(args("--end-to-end --tasks atari/pong").unwrap().tasks, ["atari/pong"]);
    }

    #[test]
    fn mistakes_are_refused() {
        for bad in [
            "--populations 0",
            "--populations x",
            "--populations 9999",
            "--precision fp8",
            "--end-to-end --spill",
            "--tasks pong-mini",
        ] {
            assert!(args(bad).is_err(), "{bad}");
        }
        for bad in ["--seconds 0", "--seconds=-1", "--seconds nan"] {
            assert_eq!(Wanted::of(&args(bad).unwrap()).unwrap_err().exit_code, 2, "{bad}");
        }
    }

    #[test]
    fn json_lines_have_the_keys_that_the_comparison_needs() {
        let times = Times { median: 0.5, min: 0.4, launches: 100 };
        let all = GroupTimes { update: times, act: Times { median: 0.1, ..times }, step: times };
        let setting = Setting { agent: USUAL, agents: 20, precision: Precision::Bf16, spilt: 0 };
        let info = DeviceInfo {
            name: "a GPU".into(),
            capability: (9, 0),
            driver: 13010,
            memory: 0,
            free: 0,
            multiprocessors: 132,
            shared_per_block: 232_448,
        };
        let lines = lines(&setting, &all, &Floor::new(20, floor::update(false), 4e12, None), &info);
        for (line, what) in lines.iter().zip(["update", "act"]) {
            let text = line.to_string();
            assert!(!text.contains('\n') && text.starts_with('{'), "{text}");
            for key in ["stack", "variant", "precision", "P", "what", "ms_median", "ms_min", "versions"] {
                assert!(line.get(key).is_some(), "{key}: {line}");
            }
            assert_eq!(line["what"], what);
            assert_eq!((&line["P"], &line["precision"]), (&json!(20), &json!("bf16")));
        }
        assert_eq!((&lines[0]["ms_median"], &lines[1]["ms_median"]), (&json!(0.5), &json!(0.1)));
        assert_eq!(lines[0]["versions"]["cuda"], "13.1");
        // A spilt measurement must not pass for the usual one.
        let spilt = super::lines(
            &Setting { spilt: 1, ..setting },
            &all,
            &Floor::new(20, floor::update(false), 4e12, None),
            &info,
        );
        assert_ne!(spilt[0]["variant"], lines[0]["variant"]);
        assert_eq!(
            row(&setting, &all, &Floor::new(20, floor::update(false), 4e12, None))[5],
            json!(40_000.0)
        );
        let other = Setting { agent: "spectral double=true", ..setting };
        assert_ne!(
            super::lines(&other, &all, &Floor::new(20, floor::update(false), 4e12, None), &info)[0]["variant"],
            "graph"
        );
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let outside = |free, fixed, frames: &[u64]| {
            host_resident(free, fixed, frames).into_iter().filter(|s| *s).count()
        };
        assert_eq!(outside(100, 20, &[10; 25]), 17);
        assert_eq!(outside(1000, 20, &[10; 25]), 0);
        assert_eq!(outside(10, 20, &[10, 20]), 2);
        let agents = figure_agents().unwrap();
        let (fixed, frames) = memory_bytes(&task(), &agents, Precision::Bf16).unwrap();
        assert_eq!(frames, [7_056_000_000; 25]);
        assert!(fixed < 5_000_000_000, "{fixed}");
    }
}
