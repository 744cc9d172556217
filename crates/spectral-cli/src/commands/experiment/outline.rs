//! The plan of an experiment as people read it before anything starts.

use crate::commands::train::interrupt;
use crate::failure::Failure;
use crate::output::note;
use crate::progress::duration;
use crate::table::{count, plural};
use serde_json::json;
use spectral_train::claim::is_at_work;
use spectral_train::experiment::forecast::{Forecast, calibrate};
use spectral_train::experiment::{Experiment, Job, RunIndex, Work};
use spectral_train::machine::human_bytes;
use spectral_train::registry::Registry;
use std::path::Path;
use std::time::Instant;

/// Below this a trial says nothing.
const SHORTEST_TRIAL: f64 = 0.5;
/// Seconds of a first look.
const GLANCE: f64 = 1.0;
const TRIAL: &str = ".trial-";

/// What there is to say about an experiment's plan.
pub struct Outline {
    name: String,
    title: String,
    paper: String,
    tasks: Vec<TaskOutline>,
    forecast: Forecast,
    begun: usize,
    /// Tasks of which something, a ROM, is missing here. What the runs need is unknown then.
    missing: Vec<String>,
    /// Expected seconds, and the seconds of trial behind that.
    seconds: Option<f64>,
    trial: f64,
}

struct TaskOutline {
    task: String,
    agents: usize,
    seeds: usize,
    frames: u64,
    runs: usize,
    there: usize,
}

impl Outline {
    /// Counts what is there and what is missing.
    pub fn of(experiment: &Experiment, index: &RunIndex, jobs: &[Job]) -> Self {
        let mut tasks = Vec::new();
        for plan in &experiment.plans {
            let distinct = |values: Vec<String>| {
                let mut values = values;
                values.sort();
                values.dedup();
                values.len()
            };
            tasks.push(TaskOutline {
                task: plan.task.clone(),
                agents: distinct(plan.agents.iter().map(|a| a.agent.clone()).collect()),
                seeds: distinct(plan.agents.iter().map(|a| a.seed.to_string()).collect()),
                frames: plan.run.frames,
                runs: plan.agents.len(),
                there: plan.agents.iter().filter(|agent| index.has(plan, agent)).count(),
            });
        }
        Outline {
            name: experiment.name.clone(),
            title: experiment.title.clone(),
            paper: experiment.paper.clone(),
            tasks,
            forecast: Forecast::of(jobs),
            begun: jobs.iter().filter(|job| job.work != Work::Begin).count(),
            missing: Vec::new(),
            seconds: None,
            trial: 0.0,
        }
    }

    /// Counts what is there and what is left to train, for an experiment of which these tasks cannot be made here.
    pub fn without_tasks(experiment: &Experiment, index: &RunIndex, missing: Vec<String>) -> Self {
        let mut outline = Outline { missing, ..Self::of(experiment, index, &[]) };
        for task in &outline.tasks {
            let runs = task.runs - task.there;
            outline.forecast.runs += runs;
            outline.forecast.frames += task.frames.saturating_mul(runs as u64);
        }
        outline
    }

    /// Tries each task's population for its share of some seconds, and estimates how long all will take.
    pub fn measure(
        &mut self,
        jobs: &[Job],
        registry: &Registry,
        out: &Path,
        seconds: f64,
    ) -> Result<(), Failure> {
        if jobs.is_empty() {
            self.seconds = Some(0.0);
            return Ok(());
        }
        let mut tasks: Vec<&Job> = Vec::new();
        for job in jobs {
            if !tasks.iter().any(|other| other.run.plan.task == job.run.plan.task) {
                tasks.push(job);
            }
        }
        let share = seconds / tasks.len() as f64;
        if share < SHORTEST_TRIAL {
            return Ok(());
        }
        note!("measuring this machine for {} at most …", duration(seconds));
        let start = Instant::now();
        let mut expected = 0.0;
        for job in tasks {
            let same = jobs.iter().filter(|other| other.run.plan.task == job.run.plan.task);
            let frames: f64 = same.map(|job| job.frames_left as f64).sum();
            let mut measured;
            let mut trial = share.min(GLANCE);
            loop {
                measured = rate(job, registry, out, trial)?.map(|rate| frames / rate);
                if interrupt().is_cancelled() {
                    return Ok(());
                }
                trial = match measured {
                    _ if trial >= share => break,
                    // Work that is shorter than its trial is not worth that trial.
                    Some(seconds) if seconds < share => break,
                    Some(_) => share,
                    // Too short a glance to tell.
                    None => share.min(4.0 * trial),
                };
            }
            let Some(seconds) = measured else { return Ok(()) };
            expected += seconds;
        }
        (self.seconds, self.trial) = (Some(expected), start.elapsed().as_secs_f64());
        Ok(())
    }

    /// The plan for people.
    pub fn text(&self) -> String {
        let paper = if self.paper.is_empty() { String::new() } else { format!(" ({})", self.paper) };
        let mut lines = vec![format!("{}: {}{paper}", self.name, self.title)];
        let width = self.tasks.iter().map(|t| t.task.len()).max().unwrap_or(0);
        for t in &self.tasks {
            let there = match t.there {
                0 => "to be trained".to_string(),
                n if n == t.runs => "all there".to_string(),
                n => format!("{n} of {} runs are there", t.runs),
            };
            let (agents, seeds) = (plural(t.agents, "agent"), plural(t.seeds, "seed"));
            lines.push(format!(
                "  {:width$}   {agents} × {seeds} × {} frames   {there}",
                t.task,
                count(t.frames)
            ));
        }
        let f = &self.forecast;
        if !self.missing.is_empty() && f.runs > 0 {
            lines.push(format!(
                "  to train   {} frames at most ({})\n  missing    ROMs for {}\n  memory     unknown without these ROMs, as are \
                 disk and time",
                count(f.frames),
                plural(f.runs, "run"),
                self.missing.join(", ")
            ));
            return lines.join("\n");
        }
        if f.jobs == 0 {
            lines.push("  nothing to train: everything is there, the report will be drawn".into());
            return lines.join("\n");
        }
        let begun = match self.begun {
            0 => String::new(),
            n => format!(", {n} of them begun already"),
        };
        lines.push(format!(
            "  to train   {} frames in {} ({}{begun})",
            count(f.frames),
            plural(f.jobs, "population"),
            plural(f.runs, "run")
        ));
        if let Some(memory) = &f.memory {
            lines.push(format!("  memory     {memory}"));
        }
        lines.push(format!("  disk       {} at most, before compression", human_bytes(f.disk)));
        let time = match self.seconds {
            Some(seconds) => {
                format!("about {}, by a trial of {}", duration(seconds), duration(self.trial))
            }
            None => "unknown: not measured (--calibrate SECONDS)".into(),
        };
        lines.push(format!("  time       {time}"));
        lines.join("\n")
    }

    /// The plan for programs.
    pub fn json(&self) -> String {
        let task = |t: &TaskOutline| {
            json!({
                "task": t.task, "agents": t.agents, "seeds": t.seeds, "frames": t.frames, "runs": t.runs,
                "there": t.there,
            })
        };
        let f = &self.forecast;
        let known = self.missing.is_empty();
        let device = f.memory.as_ref().and_then(|m| m.device.as_ref());
        let plan = json!({
            "figure": self.name, "title": self.title, "paper": self.paper,
            "tasks": self.tasks.iter().map(task).collect::<Vec<_>>(),
            "populations": known.then_some(f.jobs), "runs": f.runs, "frames": f.frames,
            "disk_bytes": known.then_some(f.disk), "seconds": self.seconds, "missing_roms_for": self.missing,
            "memory_bytes": f.memory.as_ref().map(|m| m.needed),
            "memory_available_bytes": f.memory.as_ref().and_then(|m| m.available),
            "device": device.map(|d| &d.name), "device_memory_bytes": device.map(|d| d.needed),
            "device_memory_available_bytes": device.map(|d| d.available),
        });
        serde_json::to_string_pretty(&plan).expect("plain values")
    }
}

/// Frames a second of a job by a trial of so many seconds, which leaves no folder that it made.
fn rate(job: &Job, registry: &Registry, out: &Path, seconds: f64) -> Result<Option<f64>, Failure> {
    let made: Vec<&Path> = out.ancestors().take_while(|folder| !folder.exists()).collect();
    let folder = out.join(format!("{TRIAL}{}", std::process::id()));
    let rate = calibrate(&job.run, registry, &folder, seconds, interrupt());
    for folder in made {
        // One that is in use by now is left.
        let _ = std::fs::remove_dir(folder);
    }
    Ok(rate?)
}

/// Removes trials that a killed process left; one that is at work, here or on another machine, has its folder.
pub fn sweep_trials(out: &Path) {
    let entries = std::fs::read_dir(out).into_iter().flatten().flatten();
    for entry in entries.filter(|e| e.file_name().to_string_lossy().starts_with(TRIAL)) {
        let free = !entry.path().join(".lock").exists() || is_at_work(&entry.path()) == Some(false);
        if free {
            // In nobody's way: not worth failing for.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
