//! The mean of an agent's weights: the same bits wherever they are trained, and no others of anything else.

use super::tests::{assert_same, plan, registry, results, resume, train};
use crate::checkpoint::Checkpoints;
use crate::devices::DeviceChoice;
use crate::model_file;
use crate::run_dir::RunDir;
use crate::store::{Container, ContainerWriter, testing::ScratchDir, write_atomically};
use std::path::Path;

const MEAN: &str = "model-average.safetensors";

#[test]
fn training_is_the_same_with_a_mean_and_without() {
    let dir = ScratchDir::new();
    for (name, further) in [("plain", &[][..]), ("dueling", &["dueling=true", "double=true"])] {
        let [with, without] = [("with", "average=200"), ("without", "average=0")].map(|(run, average)| {
            let path = dir.join(&format!("{name}-{run}"));
            let all = [further, &["frames=1501", average]].concat();
            train(&path, &plan("exponential-pong-mini", &all), DeviceChoice::Cpu, 2);
            results(&path)
        });
        let (means, others): (Vec<_>, Vec<_>) =
            with.iter().partition(|(name, _)| name.ends_with(MEAN) || name.ends_with("/average"));
        assert_eq!(means.len(), 2 * 5, "a file and a section of the checkpoint for each agent");
        assert_eq!(others, without.iter().collect::<Vec<_>>());
        for (name, mean) in means.iter().filter(|(name, _)| name.ends_with(MEAN)) {
            assert_ne!(
                *mean,
                &with[&name.replace(MEAN, "model.safetensors")],
                "{name} is a model of its own"
            );
        }
    }
}

#[test]
fn every_population_has_the_same_mean_with_any_number_of_threads() {
    let dir = ScratchDir::new();
    let tasks: [(&str, &[&str]); 2] = [
        ("exponential-pong-mini", &["frames=1501", "average=200"]),
        // Agents with their own reach, or none; frames that are not a multiple of a step's.
        ("pong-mini", &["frames=3003", "frame_skip=4", "average=1000", "agent.popart.average=0"]),
    ];
    for (task, further) in tasks {
        let plan = plan(task, further);
        let expected = dir.join(&format!("{task}-cpu"));
        train(&expected, &plan, DeviceChoice::Cpu, 1);
        for threads in [2, 7] {
            let path = dir.join(&format!("{task}-cpu-{threads}"));
            train(&path, &plan, DeviceChoice::Cpu, threads);
            assert_same(&path, &expected);
        }
        for (groups, threads) in [(1, 1), (2, 2), (3, 10)] {
            let path = dir.join(&format!("{task}-{groups}"));
            train(&path, &plan.with(|run| run.groups = groups), DeviceChoice::CpuLockstep, threads);
            assert_same(&path, &expected);
        }
        let has_mean = |agent: &str| expected.join("agents").join(agent).join(MEAN).exists();
        assert_eq!((has_mean("spectral-s4"), has_mean("popart-s4")), (true, task != "pong-mini"));
    }
}

#[test]
fn a_run_that_is_resumed_has_the_mean_of_one_that_is_not() {
    let dir = ScratchDir::new();
    let whole = plan("exponential-pong-mini", &["frames=2000", "average=500"]);
    train(&dir.join("whole"), &whole, DeviceChoice::Cpu, 2);
    let moved = dir.join("moved");
    // The first ends before anything was learned, and has no mean yet.
    train(&moved, &whole.with(|run| run.frames = 90), DeviceChoice::Cpu, 2);
    assert!(!moved.join("agents/popart-s4").join(MEAN).exists());
    let ends = [
        (DeviceChoice::Cpu, 457),
        (DeviceChoice::CpuLockstep, 911),
        (DeviceChoice::Cpu, 1333),
        (DeviceChoice::CpuLockstep, 2000),
    ];
    for (device, frames) in ends {
        resume(&moved, device, Some(frames));
    }
    assert_same(&moved, &dir.join("whole"));
}

/// Takes the means out of a run's newest checkpoint.
fn forget_means(run: &Path) {
    let (dir, _) = RunDir::open(run, &registry()).unwrap();
    let newest = Checkpoints::list(&dir).unwrap().pop().unwrap();
    let container = Container::open(&newest).unwrap();
    let names: Vec<String> = container.names().map(String::from).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("average/")).count(), 5);
    let kept = names.iter().filter(|name| !name.starts_with("average/"));
    let sections: Vec<_> = kept.map(|name| (name, container.section(name).unwrap())).collect();
    drop(container);
    write_atomically(&newest, |out| {
        let mut container = ContainerWriter::new(out)?;
        sections.iter().try_for_each(|(name, bytes)| container.section(name, bytes))?;
        container.finish()
    })
    .unwrap();
}

/// The target networks are refreshed after every 70 steps, the last time here by 490.
#[test]
fn a_mean_begins_at_the_next_refresh_after_a_checkpoint_without_one() {
    for device in [DeviceChoice::Cpu, DeviceChoice::CpuLockstep] {
        let dir = ScratchDir::new();
        let run = dir.join("run");
        let plan = plan("exponential-pong-mini", &["frames=457", "average=500"]);
        train(&run, &plan, device, 2);
        forget_means(&run);
        let folders = || plan.agents.iter().map(|agent| run.join("agents").join(&agent.id));
        assert!(folders().all(|folder| folder.join(MEAN).exists()));
        resume(&run, device, Some(480));
        assert!(folders().all(|folder| !folder.join(MEAN).exists()), "an old mean is not left behind");
        // No update follows the refresh, so its weights are also the last.
        resume(&run, device, Some(491));
        let resolved = registry().resolve_plan(plan.clone()).unwrap();
        for (agent, folder) in folders().enumerate() {
            let [mean, last] = [MEAN, "model.safetensors"]
                .map(|name| model_file::read(&folder.join(name), &resolved, agent).unwrap());
            assert!(mean == last, "{}", plan.agents[agent].id);
        }
        train(&dir.join("whole"), &plan.with(|run| run.frames = 491), device, 2);
        let (found, expected) = (results(&run), results(&dir.join("whole")));
        for (name, bytes) in &expected {
            let of_a_mean = name.ends_with(MEAN) || name.ends_with("/average");
            assert_eq!(*bytes == found[name], !of_a_mean, "{name}");
        }
    }
}
