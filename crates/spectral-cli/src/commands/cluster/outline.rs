//! The jobs of a plan before they are submitted: how many, of what, and what each needs.

use crate::table::{count, plural};
use serde_json::json;
use spectral_agent::settings::Settings;
use spectral_cluster::Resources;
use spectral_cluster::slurm::Options;
use spectral_train::experiment::{Experiment, Job, Work};
use spectral_train::machine::human_bytes;
use spectral_train::plan::Plan;

/// What there is to say about jobs that are not yet written down.
pub struct Outline {
    name: String,
    title: String,
    runs: usize,
    resources: Resources,
    /// Options of sbatch that win over these, and the memory that one of them asks for.
    instead: Vec<String>,
    memory_instead: Option<u64>,
    /// Memory of the GPU that a job gets.
    gpu_memory: u64,
    jobs: Vec<Line>,
    /// Settings that runs which go on have otherwise than they were asked for.
    kept: Vec<String>,
}

struct Line {
    task: String,
    agents: usize,
    frames: u64,
    left: u64,
    memory: u64,
    device: u64,
}

impl Outline {
    /// Of these jobs.
    pub fn of(
        experiment: &Experiment,
        jobs: &[Job],
        resources: Resources,
        gpu_memory: u64,
        options: &Options,
    ) -> Self {
        let line = |job: &Job| Line {
            task: job.run.plan.task.clone(),
            agents: job.run.plan.agents.len(),
            frames: job.run.plan.run.frames,
            left: job.frames_left,
            memory: job.run.memory.needed,
            device: job.run.memory.device.as_ref().map_or(0, |device| device.needed),
        };
        Outline {
            name: experiment.name.clone(),
            title: experiment.title.clone(),
            runs: experiment.runs(),
            resources,
            instead: options.about_resources().into_iter().map(String::from).collect(),
            memory_instead: options.memory(),
            gpu_memory,
            jobs: jobs.iter().map(line).collect(),
            kept: kept(experiment, jobs),
        }
    }

    /// For people: like jobs in one line.
    pub fn text(&self) -> String {
        let mut lines = vec![format!("{}: {}", self.name, self.title)];
        let width = self.jobs.iter().map(|job| job.task.len()).max().unwrap_or(0);
        let mut from = 0;
        while from < self.jobs.len() {
            let first = &self.jobs[from];
            let alike = |job: &&Line| {
                (&job.task, job.agents, job.frames) == (&first.task, first.agents, first.frames)
            };
            let same = self.jobs[from..].iter().take_while(alike).count();
            let largest =
                |of: fn(&Line) -> u64| self.jobs[from..from + same].iter().map(of).max().unwrap_or(0);
            let gpu = match largest(|job| job.device) {
                0 => String::new(),
                // Both in the same unit: what was given as 139G is more in this one.
                bytes => format!(", {} of {} on the GPU", human_bytes(bytes), human_bytes(self.gpu_memory)),
            };
            lines.push(format!(
                "  {:width$}   {same} × {} × {} frames   memory {}{gpu}",
                first.task,
                plural(first.agents, "agent"),
                count(first.frames),
                human_bytes(largest(|job| job.memory)),
            ));
            from += same;
        }
        let trained: usize = self.jobs.iter().map(|job| job.agents).sum();
        let left: u64 = self.jobs.iter().map(|job| job.left).sum();
        lines.push(format!(
            "  to train   {} frames in {} ({} of {})",
            count(left),
            plural(self.jobs.len(), "job"),
            count(trained as u64),
            plural(self.runs, "run")
        ));
        if self.jobs.is_empty() {
            return lines.join("\n");
        }
        let Resources { cpus, gpus, memory } = self.resources;
        lines.extend(
            self.kept.iter().map(|setting| format!("  note       runs that go on keep their own {setting}")),
        );
        let gpus = if gpus > 0 { format!("{}, ", plural(gpus, "GPU")) } else { String::new() };
        let asked = format!("{gpus}{}, {}", plural(cpus, "core"), human_bytes(memory));
        if self.instead.is_empty() {
            lines.push(format!("  each gets  {asked}"));
        } else {
            lines.push(format!("  planned    {asked} for each"));
            let memory = self
                .memory_instead
                .map_or_else(String::new, |bytes| format!(" ({} of memory)", human_bytes(bytes)));
            lines.push(format!(
                "  each gets  that, but for {}{memory}, which --sbatch asks for",
                self.instead.join(" ")
            ));
        }
        lines.join("\n")
    }

    /// For programs.
    pub fn json(&self) -> String {
        let job = |(index, job): (usize, &Line)| {
            json!({
                "index": index, "task": job.task, "agents": job.agents, "frames": job.frames, "frames_left": job.left,
                "memory_bytes": job.memory, "device_memory_bytes": job.device,
            })
        };
        let Resources { cpus, gpus, memory } = self.resources;
        let plan = json!({
            "name": self.name, "title": self.title, "runs": self.runs,
            "jobs": self.jobs.iter().enumerate().map(job).collect::<Vec<_>>(),
            "each": {"cpus": cpus, "gpus": gpus, "memory_bytes": self.memory_instead.unwrap_or(memory), "sbatch": self.instead},
        });
        serde_json::to_string_pretty(&plan).expect("plain values")
    }
}

/// Settings that change no result, as runs that go on have them, where the experiment asks for something else: a run keeps those that
/// it began with.
fn kept(experiment: &Experiment, jobs: &[Job]) -> Vec<String> {
    const KEPT: [&str; 5] = ["checkpoint_seconds", "checkpoint", "eval_every", "eval_games", "eval_epsilon"];
    let mut found = Vec::new();
    for job in jobs.iter().filter(|job| job.work != Work::Begin) {
        let run = &job.run.plan;
        let asks =
            |plan: &&Plan| plan.same_task(run) && plan.agents.iter().any(|agent| run.agents.contains(agent));
        let Some(wanted) = experiment.plans.iter().find(asks) else { continue };
        let (own, wanted) = (run.run.values(), wanted.run.values());
        for key in KEPT {
            let differs = own.get(key).filter(|_| own.get(key) != wanted.get(key));
            let setting = differs.map(|value| format!("{key} = {value}"));
            found.extend(setting.filter(|setting| !found.contains(setting)));
        }
    }
    found
}
