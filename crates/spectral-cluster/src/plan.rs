//! A job plan: what a cluster is to train, frozen as data in a folder.

use crate::place::{Unfinished, is_unfinished, restore};
use spectral_core::settings::quote;
use spectral_core::shell::quote_path;
use spectral_train::devices::DeviceChoice;
use spectral_train::error::TrainError;
use spectral_train::experiment::{Experiment, Job};
use spectral_train::machine::{Hardware, timestamp};
use spectral_train::memory::Memory;
use spectral_train::plan::Plan;
use spectral_train::registry::Registry;
use spectral_train::resolve::ResolvedRun;
use spectral_train::run_file::RunFile;
use spectral_train::store::{StoreError, read_text, write_atomically};
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

/// The format of `plan.toml` that this version writes.
const FORMAT: i64 = 1;
/// The folder of all plans, beside the runs.
const PLANS: &str = "jobs";
/// The most jobs of a plan: the largest index of a Slurm array, as clusters come, is 1000.
const MOST_JOBS: usize = 1001;

/// What a plan was made by, and so how its report is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `spectral train`.
    Train,
    /// `spectral reproduce`.
    Reproduce,
    /// `spectral sweep`.
    Sweep,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Train, Kind::Reproduce, Kind::Sweep];

    /// The command's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Train => "train",
            Kind::Reproduce => "reproduce",
            Kind::Sweep => "sweep",
        }
    }
}

/// What each job gets of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Cores.
    pub cpus: usize,
    /// GPUs: one or none.
    pub gpus: usize,
    /// Bytes of main memory.
    pub memory: u64,
}

/// One population of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct JobEntry {
    /// Its number, which is also that of the array's task.
    pub index: usize,
    /// Its run directory.
    pub run: PathBuf,
    /// The fingerprint of what it trains.
    pub fingerprint: u32,
    /// The task.
    pub task: String,
    /// Ids of its agents.
    pub agents: Vec<String>,
    /// Frames per agent.
    pub frames: u64,
    /// Bytes of main memory that it needs.
    pub memory: u64,
    /// Bytes of a GPU's memory that it needs; 0 on a CPU.
    pub device_memory: u64,
}

impl JobEntry {
    /// What to say of a run directory that is not this job's.
    pub fn holds_another(&self) -> String {
        format!(
            "{} holds another run than the one that was planned: move it away, or make the plan anew",
            self.run.display()
        )
    }
}

/// A plan that was written: see [`NewPlan::write`] and [`JobPlan::open`].
#[derive(Clone, Debug)]
pub struct JobPlan {
    folder: PathBuf,
    /// What it was made by.
    pub kind: Kind,
    /// What it was made of: a figure, a sweep or a task.
    pub name: String,
    /// The command that made it.
    pub command: String,
    /// The folder of runs and reports.
    pub out: PathBuf,
    /// What each job gets.
    pub resources: Resources,
    /// Threads of a job; 0 uses every core that it gets.
    pub threads: usize,
    /// Its jobs, in order.
    pub jobs: Vec<JobEntry>,
}

/// What a plan is made of.
#[derive(Clone, Debug)]
pub struct NewPlan<'a> {
    /// What makes it.
    pub kind: Kind,
    /// What all of it is for, runs that are there already included: the report draws it.
    pub experiment: &'a Experiment,
    /// The populations that are to be trained.
    pub jobs: &'a [Job],
    /// The folder of runs and reports. Run directories are in it.
    pub out: &'a Path,
    /// The command that makes it.
    pub command: &'a str,
    /// What each job gets.
    pub resources: Resources,
}

impl NewPlan<'_> {
    /// The folder where this plan belongs: the same for the same jobs.
    pub fn folder(&self) -> PathBuf {
        let mut text = String::new();
        for job in self.jobs {
            let run = job.run.plan.fingerprint();
            let _ = writeln!(text, "{} {run:08x} {}", job.path.display(), job.run.plan.run.frames);
        }
        let name = format!("{}-{:08x}", self.experiment.name, crc32fast::hash(text.as_bytes()));
        self.out.join(PLANS).join(name)
    }

    /// Refuses more jobs than an array may have, and a folder that no script can name.
    pub fn check(&self) -> Result<(), TrainError> {
        fits_scripts(&std::path::absolute(self.out).map_err(|e| StoreError::io(self.out, "find", e))?)?;
        if self.out.join("run.toml").exists() {
            return Err(TrainError::Usage(format!(
                "{} is a run, and on a cluster --out names the folder of runs and plans: choose another one",
                self.out.display()
            )));
        }
        match self.jobs.len() > MOST_JOBS {
            true => Err(TrainError::Usage(format!(
                "{} jobs are more than the {MOST_JOBS} that one array may have: put more agents into each (--agents-per-job), or \
                 submit a part (--tasks, --seeds)",
                self.jobs.len()
            ))),
            false => Ok(()),
        }
    }

    /// Writes the plan: all of it or nothing. A plan of the same jobs that is there already is left as it is, and is an error, if
    /// anything of it was submitted or tried; else this one takes its place.
    pub fn write(&self, registry: &Registry) -> Result<JobPlan, TrainError> {
        self.check()?;
        std::fs::create_dir_all(self.out).map_err(|e| StoreError::io(self.out, "create", e))?;
        let out = self.out.canonicalize().map_err(|e| StoreError::io(self.out, "find", e))?;
        fits_scripts(&out)?;
        let folder = self.folder();
        let name = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let folder = out.join(PLANS).join(&name);
        restore(&folder);
        if folder.exists() && JobPlan::open(&folder).map_or(true, |plan| plan.is_begun()) {
            return Err(already_there(&folder));
        }
        let place = Unfinished::new(&out.join(PLANS), &name);
        let unfinished = place.folder();
        for part in ["jobs", "plans", "logs", "status"] {
            let part = unfinished.join(part);
            std::fs::create_dir_all(&part).map_err(|e| StoreError::io(&part, "create", e))?;
        }
        let write = |name: &str, text: &str| {
            write_atomically(&unfinished.join(name), |file| file.write_all(text.as_bytes()))
        };
        for (number, plan) in self.experiment.plans.iter().enumerate() {
            // Where each agent trains is the jobs' affair. All agents together may not even be able to train together.
            let whole = registry.resolve_plan(plan.with(|run| run.device = DeviceChoice::Cpu))?;
            write(&format!("plans/{number:03}.toml"), &self.frozen(&whole))?;
        }
        for (index, job) in self.jobs.iter().enumerate() {
            // What was left open is settled here: a node whose GPU is broken must not train on its CPU instead.
            let device = job.run.device.choice();
            let mut run = job.run.clone();
            run.plan = run.plan.with(|run| run.device = device);
            write(&settings_file(index), &self.frozen(&run))?;
        }
        write("experiment.toml", &self.experiment.text)?;
        write("plan.toml", &self.text(&out)?)?;
        place.put(already_there)?;
        JobPlan::open(&folder)
    }

    /// A population as its `run.toml` will have it, but for the hardware, which nobody knows yet.
    fn frozen(&self, run: &ResolvedRun) -> String {
        run.to_toml(
            &timestamp(),
            self.command,
            &Hardware { cpu: String::new(), cores: 0, device: String::new() },
        )
    }

    fn text(&self, out: &Path) -> Result<String, TrainError> {
        let Resources { cpus, gpus, memory } = self.resources;
        let Experiment { name, title, paper, summary, .. } = self.experiment;
        let threads = self.jobs.first().map_or(0, |job| job.run.plan.run.threads);
        let mut text = format!(
            "# What is to be trained, one population a job. `spectral jobs` with this folder says how far they are.\n\
             format = {FORMAT}\nkind = {}\nname = {}\ntitle = {}\npaper = {}\nsummary = {}\ncommand = {}\ncreated = {}\n\
             version = {}\n# The folder of runs and reports, seen from this one.\nout = \"../..\"\nplans = {}\nthreads = {threads}\n\n\
             [resources]\ncpus = {cpus}\ngpus = {gpus}\nmemory = {memory}\n",
            quote(self.kind.name()),
            quote(name),
            quote(title),
            quote(paper),
            quote(summary),
            quote(self.command),
            quote(&timestamp()),
            quote(env!("CARGO_PKG_VERSION")),
            self.experiment.plans.len(),
        );
        for (index, job) in self.jobs.iter().enumerate() {
            let plan = &job.run.plan;
            let ids: Vec<String> = plan.agents.iter().map(|agent| quote(&agent.id)).collect();
            let Memory { needed, device, .. } = &job.run.memory;
            let run = inside(out, self.out, &job.path)?;
            let _ = write!(
                text,
                "\n[[job]]\nindex = {index}\nrun = {}\nfingerprint = \"{:08x}\"\ntask = {}\nagents = [{}]\nframes = {}\nmemory = {needed}\n\
                 device_memory = {}\n",
                quote(&run),
                plan.fingerprint(),
                quote(&plan.task),
                ids.join(", "),
                plan.run.frames,
                device.as_ref().map_or(0, |device| device.needed),
            );
        }
        Ok(text)
    }
}

/// Refuses a folder that no script can name. A line break in a directive would begin a line that the shell runs; and Slurm
/// replaces what follows a percent sign, and takes a backslash out, in the path of a job's log, which it then cannot open.
fn fits_scripts(folder: &Path) -> Result<(), TrainError> {
    let fits = |c: char| !c.is_control() && c != '%' && c != '\\';
    match folder.to_str().is_some_and(|path| path.chars().all(fits)) {
        true => Ok(()),
        false => Err(TrainError::Usage(format!(
            "{folder:?} cannot be written into a script for a cluster, because its path has a percent sign, a backslash, a line break or \
             another control character, or is no Unicode: choose another folder (--out)"
        ))),
    }
}

/// A run's path seen from the folder of runs and reports.
fn inside(out: &Path, as_given: &Path, run: &Path) -> Result<String, TrainError> {
    let relative = run.strip_prefix(as_given).or_else(|_| run.strip_prefix(out)).ok().and_then(Path::to_str);
    relative.map(String::from).ok_or_else(|| {
        TrainError::Usage(format!(
            "{} is not in {}, or its name is no Unicode: put the run there",
            run.display(),
            out.display()
        ))
    })
}

fn settings_file(index: usize) -> String {
    format!("jobs/{index:03}.toml")
}

fn already_there(folder: &Path) -> TrainError {
    let again = match folder.join("ray_driver.py").is_file() {
        true => "its ray_driver.py goes on with them if no other one does",
        false => "with --retry it submits those again that nobody has",
    };
    TrainError::Usage(format!(
        "these jobs were planned before, in {}: `spectral jobs {}` says how far they are, and {again}",
        folder.display(),
        quote_path(folder)
    ))
}

/// The plan in a folder of plans that was written last.
fn newest_in(folder: &Path) -> Option<PathBuf> {
    let plans = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let plans = plans.filter(|plan| !is_unfinished(plan));
    let written = |plan: &Path| plan.join("plan.toml").metadata().and_then(|data| data.modified()).ok();
    plans.filter_map(|plan| Some((written(&plan)?, plan))).max().map(|(_, plan)| plan)
}

impl JobPlan {
    /// Opens a plan.
    pub fn open(folder: &Path) -> Result<Self, TrainError> {
        restore(folder);
        let file = folder.join("plan.toml");
        let text = read_text(&file).map_err(|e| {
            let hint = match newest_in(folder).or_else(|| newest_in(&folder.join(PLANS))) {
                Some(plan) => format!("the newest plan there is {}", plan.display()),
                None => "`--on slurm` or `--on ray` makes one".into(),
            };
            TrainError::Usage(format!(
                "{} is not a job plan: cannot read {}: {e} ({hint})",
                folder.display(),
                file.display()
            ))
        })?;
        let folder = folder.canonicalize().map_err(|e| StoreError::io(folder, "find", e))?;
        Self::read(&folder, &text)
            .map_err(|what| TrainError::Data(format!("{} is not a job plan: {what}", file.display())))
    }

    fn read(folder: &Path, text: &str) -> Result<Self, String> {
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
        if table.get("format").and_then(toml::Value::as_integer) != Some(FORMAT) {
            return Err("it was written by another version of spectral".into());
        }
        let kind = text_of(&table, "kind")?;
        let kind =
            Kind::ALL.into_iter().find(|k| k.name() == kind).ok_or(format!("'{kind}' is no kind of plan"))?;
        let out =
            folder.parent().and_then(Path::parent).ok_or("it lies in no folder of plans")?.to_path_buf();
        let given = table.get("resources").and_then(toml::Value::as_table).ok_or("no [resources]")?;
        let resources = Resources {
            cpus: count_of(given, "cpus")? as usize,
            gpus: count_of(given, "gpus")? as usize,
            memory: count_of(given, "memory")?,
        };
        let list = table.get("job").and_then(toml::Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if list.is_empty() || list.len() > MOST_JOBS {
            return Err(format!("it must have 1 to {MOST_JOBS} jobs"));
        }
        let mut jobs = Vec::new();
        for (number, job) in list.iter().enumerate() {
            let job = job.as_table().ok_or("a job is no table")?;
            let run = text_of(job, "run")?;
            // A plan of somebody else's must not lead out of its folder.
            let plain = |c: Component<'_>| matches!(c, Component::Normal(_));
            if run.is_empty() || !Path::new(&run).components().all(plain) {
                return Err(format!("'{run}' is not the path of a run in {}", out.display()));
            }
            let fingerprint = text_of(job, "fingerprint")?;
            let agents = job.get("agents").and_then(toml::Value::as_array).ok_or("a job has no agents")?;
            let agents = agents.iter().map(|id| id.as_str().map(String::from)).collect::<Option<Vec<_>>>();
            if count_of(job, "index")? != number as u64 {
                return Err("its jobs are not numbered from 0 on".into());
            }
            jobs.push(JobEntry {
                index: number,
                run: out.join(run),
                fingerprint: u32::from_str_radix(&fingerprint, 16)
                    .map_err(|_| "a fingerprint is no number")?,
                task: text_of(job, "task")?,
                agents: agents.ok_or("an agent's id is no text")?,
                frames: count_of(job, "frames")?,
                memory: count_of(job, "memory")?,
                device_memory: count_of(job, "device_memory")?,
            });
        }
        // The report gets a folder of this name.
        let name = text_of(&table, "name")?;
        let mut parts = Path::new(&name).components();
        let one = matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name.as_str());
        if !one || name.contains(char::is_control) {
            return Err(format!("{name:?} is not the name of a plan"));
        }
        Ok(JobPlan {
            folder: folder.into(),
            kind,
            name,
            command: text_of(&table, "command")?,
            out,
            resources,
            threads: count_of(&table, "threads")? as usize,
            jobs,
        })
    }

    /// The plan's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The job of this number.
    pub fn job(&self, index: usize) -> Result<&JobEntry, TrainError> {
        self.jobs.get(index).ok_or_else(|| {
            TrainError::Usage(format!(
                "{} has no job {index}: its jobs are 0 to {}",
                self.folder.display(),
                self.jobs.len() - 1
            ))
        })
    }

    /// What a job trains.
    pub fn settings(&self, job: &JobEntry, registry: &Registry) -> Result<Plan, TrainError> {
        let plan = self.read_run(&settings_file(job.index), registry)?;
        if plan.fingerprint() != job.fingerprint {
            return Err(TrainError::Data(format!(
                "{} is not what was planned (its fingerprint is {:08x}, not {:08x}): make the plan anew",
                self.folder.join(settings_file(job.index)).display(),
                plan.fingerprint(),
                job.fingerprint
            )));
        }
        Ok(plan.with(|run| run.threads = self.threads))
    }

    /// What all of it is for, runs that were there before included.
    pub fn experiment(&self, registry: &Registry) -> Result<Experiment, TrainError> {
        let file = self.folder.join("plan.toml");
        let wrong = |what: String| TrainError::Data(format!("{}: {what}", file.display()));
        let read = |name: &str| {
            let path = self.folder.join(name);
            read_text(&path).map_err(|e| TrainError::from(StoreError::io(&path, "read", e)))
        };
        let table: toml::Table =
            read("plan.toml")?.parse().map_err(|e: toml::de::Error| wrong(e.to_string()))?;
        let text = |key: &str| text_of(&table, key).map_err(wrong);
        let plans = count_of(&table, "plans").map_err(wrong)?.min(MOST_JOBS as u64);
        Ok(Experiment {
            name: self.name.clone(),
            title: text("title")?,
            paper: text("paper")?,
            summary: text("summary")?,
            text: read("experiment.toml")?,
            computed: None,
            plans: (0..plans)
                .map(|number| self.read_run(&format!("plans/{number:03}.toml"), registry))
                .collect::<Result<_, _>>()?,
        })
    }

    fn read_run(&self, name: &str, registry: &Registry) -> Result<Plan, TrainError> {
        let path = self.folder.join(name);
        let text = read_text(&path).map_err(|e| StoreError::io(&path, "read", e))?;
        Ok(RunFile::read(&text, &path, registry)?.plan)
    }
}

fn text_of(table: &toml::Table, key: &str) -> Result<String, String> {
    table.get(key).and_then(toml::Value::as_str).map(String::from).ok_or(format!("no text '{key}'"))
}

fn count_of(table: &toml::Table, key: &str) -> Result<u64, String> {
    let number = table.get(key).and_then(toml::Value::as_integer);
    number.and_then(|n| u64::try_from(n).ok()).ok_or(format!("no number '{key}'"))
}
