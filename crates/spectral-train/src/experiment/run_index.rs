//! The run directories in a folder: what figures share, and what is left to do for one of them.
//!
//! A run belongs to no figure. What counts is the task and its options, the protocol's name, the rows of its metrics, and
//! the agent with its seed and every setting; where these agree, a run serves every figure that asks for it.

use crate::checkpoint::Checkpoints;
use crate::devices::Place;
use crate::error::TrainError;
use crate::experiment::Experiment;
use crate::experiment::populations::{Limits, populations};
use crate::plan::{AgentPlan, Plan};
use crate::registry::Registry;
use crate::resolve::ResolvedRun;
use crate::run_dir::RunDir;
use crate::store::is_there;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How many folders deep run directories are searched for. The report searches equally deep (`SEARCH_DEPTH` in
/// `spectral-report/src/run/read.rs`); the two crates share no code, so the number stands in both.
const DEPTH: usize = 4;

/// What has to be done with one population.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Train it from the start.
    Begin,
    /// Go on from its newest checkpoint.
    Resume,
    /// Go on past its planned end, to this many frames.
    Extend(u64),
}

/// One population that has to be trained, or trained further.
#[derive(Clone, Debug)]
pub struct Job {
    /// The run directory.
    pub path: PathBuf,
    /// What it was resolved to; for a run that exists, from its `run.toml`.
    pub run: ResolvedRun,
    /// What is to be done.
    pub work: Work,
    /// Frames of all its agents together that are left to train.
    pub frames_left: u64,
}

/// A run directory and where it stands.
#[derive(Clone, Debug)]
struct RunEntry {
    path: PathBuf,
    plan: Plan,
    finished: bool,
    frames_left: u64,
    can_go_on: bool,
}

/// The run directories in a folder.
///
/// ```no_run
/// use spectral_train::experiment::{Experiment, Limits, Overrides, RunIndex};
/// use spectral_train::registry::Registry;
/// let registry = Registry::default();
/// let experiment = Experiment::find("mini-fig3", &Overrides::default(), &registry)?;
/// let index = RunIndex::scan("reproduce/runs".as_ref(), &registry)?;
/// for job in index.jobs(&experiment, &registry, &Limits::default())? {
///     println!("{}: {} frames left", job.path.display(), job.frames_left);
/// }
/// # Ok::<(), spectral_train::error::TrainError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RunIndex {
    root: PathBuf,
    runs: Vec<RunEntry>,
}

impl RunIndex {
    /// Reads what lies in a folder; one that does not exist is empty.
    pub fn scan(root: &Path, registry: &Registry) -> Result<Self, TrainError> {
        let mut paths = Vec::new();
        find(root, DEPTH, &mut paths);
        paths.sort();
        let mut runs = Vec::new();
        for path in paths {
            let (dir, plan) = match RunDir::open(&path, registry) {
                Ok((dir, file)) => (dir, file.plan),
                // Somebody else's task or codec: no run that this program could use.
                Err(TrainError::Unregistered(_)) => continue,
                Err(other) => return Err(other),
            };
            let frames_left = dir.frames_left(&plan);
            // A run that was to go on past its end and was killed at once still has the state of its old end.
            let finished = dir.finished() && frames_left == 0;
            let can_go_on = !dir.has_progress() || !Checkpoints::list(&dir)?.is_empty();
            runs.push(RunEntry { path, plan, finished, frames_left, can_go_on });
        }
        Ok(RunIndex { root: root.into(), runs })
    }

    /// What is left to do for an experiment, in order. Populations are made as large as the limits allow, the first seeds
    /// of all agents first; agents that a GPU could not train together are in different ones if a GPU trains them.
    pub fn jobs(
        &self,
        experiment: &Experiment,
        registry: &Registry,
        limits: &Limits,
    ) -> Result<Vec<Job>, TrainError> {
        let mut jobs: Vec<Job> = Vec::new();
        let mut begun = Vec::new();
        for plan in &experiment.plans {
            let mut missing = Vec::new();
            for agent in &plan.agents {
                match self.find(plan, agent) {
                    Some(_) if self.has(plan, agent) => {}
                    Some(run) => {
                        if !jobs.iter().any(|job| job.path == run.path) {
                            jobs.push(run.job(plan, registry, &limits.place)?);
                        }
                    }
                    None => missing.push(agent.clone()),
                }
            }
            for agents in populations(plan, missing, registry, limits)? {
                let plan = Plan { agents, ..plan.clone() };
                let path = self.free_path(&plan, &begun);
                begun.push(path.clone());
                let frames_left = plan.run.frames * plan.agents.len() as u64;
                let run = registry.resolve_plan_for(plan, &limits.place)?;
                jobs.push(Job { path, run, work: Work::Begin, frames_left });
            }
        }
        Ok(jobs)
    }

    /// The run directories that an experiment draws, each with the ids of the agents that belong to it.
    pub fn used(&self, experiment: &Experiment) -> BTreeMap<PathBuf, Vec<String>> {
        let mut used: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
        for plan in &experiment.plans {
            for agent in &plan.agents {
                if let Some(path) = self.run_of(plan, agent) {
                    used.entry(path.into()).or_default().push(agent.id.clone());
                }
            }
        }
        used
    }

    /// Whether an agent's run is there, finished.
    pub fn has(&self, plan: &Plan, agent: &AgentPlan) -> bool {
        self.find(plan, agent).is_some_and(|run| run.finished && run.plan.run.frames == plan.run.frames)
    }

    /// The run directory of an agent, finished or not, if its planned end is that of the plan.
    pub fn run_of(&self, plan: &Plan, agent: &AgentPlan) -> Option<&Path> {
        let run = self.find(plan, agent).filter(|run| run.plan.run.frames == plan.run.frames);
        run.map(|run| run.path.as_path())
    }

    /// The run that holds this agent: of the right length if there is one, and finished if there is one.
    fn find(&self, plan: &Plan, agent: &AgentPlan) -> Option<&RunEntry> {
        let fits = |run: &&RunEntry| {
            let same = run.plan.same_task(plan) && run.plan.run.log_frames == plan.run.log_frames;
            let (its, wanted) = (run.plan.run.frames, plan.run.frames);
            let enough = its == wanted && (run.finished || run.can_go_on);
            same && (enough || (its < wanted && run.can_go_on)) && run.plan.agents.contains(agent)
        };
        self.runs.iter().filter(fits).max_by_key(|run| (run.plan.run.frames, run.finished))
    }

    /// A folder for a new run, named after what is in it.
    fn free_path(&self, plan: &Plan, begun: &[PathBuf]) -> PathBuf {
        let folder = self.root.join(plan.task.replace('/', "-"));
        let name = format!("{}-{:08x}", plan.run.protocol, plan.fingerprint());
        let taken = |path: &PathBuf| begun.contains(path) || self.runs.iter().any(|run| run.path == *path);
        let numbered = (2..).map(|n| folder.join(format!("{name}-{n}")));
        let mut free = std::iter::once(folder.join(&name)).chain(numbered).filter(|path| !taken(path));
        free.next().unwrap_or(folder)
    }
}

impl RunEntry {
    /// What is left of it to a plan's end. Where it trains is the plan's choice, which may change between sittings.
    fn job(&self, wanted: &Plan, registry: &Registry, place: &Place) -> Result<Job, TrainError> {
        let frames = wanted.run.frames;
        let longer = frames.saturating_sub(self.plan.run.frames) * self.plan.agents.len() as u64;
        let plan = self.plan.with(|run| {
            run.frames = frames.max(run.frames);
            (run.device, run.precision) = (wanted.run.device, wanted.run.precision);
            (run.groups, run.threads) = (wanted.run.groups, wanted.run.threads);
        });
        Ok(Job {
            path: self.path.clone(),
            run: registry.resolve_plan_for(plan, place)?,
            work: if longer > 0 { Work::Extend(frames) } else { Work::Resume },
            frames_left: self.frames_left + longer,
        })
    }
}

/// Run directories at and below a folder. What cannot be listed holds none that could be used.
fn find(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if is_there(&folder.join("run.toml")) {
        found.push(folder.into());
    } else if depth > 0 {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()).filter(|path| path.is_dir()) {
            find(&path, depth - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Overrides;
    use crate::experiment::populations::MEMORY_SHARE;

    const MINE: &str = "agents = [\"spectral\", \"clipped\"]\nseeds = 3\nframes = 100\nreplay = 2000\n\
                        [[task]]\nname = \"pong-mini\"\n[[task]]\nname = \"2048\"\n";

    fn empty() -> RunIndex {
        RunIndex::scan(Path::new("/no/such/folder"), &Registry::default()).unwrap()
    }

    fn within(memory: u64) -> Limits {
        Limits { memory: Some(memory), ..Limits::default() }
    }

    #[test]
    fn what_does_not_fit_is_split_with_the_first_seeds_of_all_agents_first() {
        let experiment = Experiment::read("mine", MINE, &Overrides::default(), &Registry::default()).unwrap();
        let registry = Registry::default();
        let whole = empty().jobs(&experiment, &registry, &Limits::default()).unwrap();
        assert_eq!(whole.iter().map(|job| job.run.plan.agents.len()).collect::<Vec<_>>(), [6, 6]);
        let paths = |jobs: &[Job]| jobs.iter().map(|job| job.path.clone()).collect::<Vec<_>>();
        assert_eq!(paths(&whole), paths(&empty().jobs(&experiment, &registry, &within(1 << 40)).unwrap()));
        // Room for two agents of the larger kind.
        let plan =
            Plan { agents: vec![experiment.plans[0].agents[0].clone()], ..experiment.plans[0].clone() };
        let one = registry.resolve_plan(plan).unwrap().memory.needed;
        let memory = (2.01 * one as f64 / MEMORY_SHARE) as u64;
        let jobs = empty().jobs(&experiment, &registry, &within(memory)).unwrap();
        let pong: Vec<&Job> = jobs.iter().filter(|job| job.run.plan.task == "pong-mini").collect();
        let groups: Vec<Vec<&str>> =
            pong.iter().map(|job| job.run.plan.agents.iter().map(|a| a.id.as_str()).collect()).collect();
        assert_eq!(groups, [1, 2, 3].map(|s| [format!("spectral-s{s}"), format!("clipped-s{s}")]));
        let mut paths: Vec<&PathBuf> = jobs.iter().map(|job| &job.path).collect();
        paths.dedup();
        assert_eq!(paths.len(), jobs.len());
        assert_eq!(jobs.iter().map(|job| job.frames_left).sum::<u64>(), experiment.frames());
    }

    /// A run of version 0.1 in another mode, finished, of the very agent that is asked for: its scores are of another game.
    #[test]
    #[cfg(feature = "atari")]
    fn a_run_in_another_mode_is_not_taken_for_the_same() {
        use spectral_agent::settings::Settings;
        let text = "agents = [\"clipped\"]\nframes = 100\nlog_frames = 10\n[[task]]\nname = \"atari/pong\"\n";
        let registry = Registry::default();
        let read = |overrides| Experiment::read("mine", text, &overrides, &registry).unwrap();
        let usual = read(Overrides::default());
        let folder = crate::store::testing::ScratchDir::new();
        let old = |mode: u16| {
            let path = folder.join(&format!("mode-{mode}"));
            std::fs::create_dir_all(&path).unwrap();
            let settings = usual.plans[0].agents[0].settings.values().to_toml();
            let run = format!(
                "format = 1\ntask = \"atari/pong\"\nobservation = \"auto\"\nreward_scale = 1.0\nframe_skip = 1\n\
                 mode = {mode}\ndifficulty = 0\nframes = 100\nlog_frames = 10\ncheckpoint_seconds = 60.0\n\
                 created = \"\"\nversion = \"0.1.0\"\nprotocol = \"paper\"\nnote = \"\"\ncommand = \"\"\n\n[hardware]\n\
                 cpu = \"\"\ncores = 1\ndevice = \"cpu\"\n\n[[agents]]\nid = \"clipped-s1\"\nagent = \"clipped\"\n\
                 codec = \"clipped\"\nseed = 1\n[agents.settings]\ncodec = \"clipped\"\n{settings}"
            );
            std::fs::write(path.join("run.toml"), run).unwrap();
            let state = "status = \"finished\"\nseconds = 1.0\n\n[[agents]]\nid = \"clipped-s1\"\nframes = 100\n\
                         status = \"finished\"\nreason = \"\"\n";
            std::fs::write(path.join("state.toml"), state).unwrap();
            path
        };
        let there = |index: &RunIndex, experiment: &Experiment| {
            let plan = &experiment.plans[0];
            index.run_of(plan, &plan.agents[0]).map(Path::to_path_buf)
        };
        let other = old(1);
        let index = RunIndex::scan(&folder.join(""), &registry).unwrap();
        assert_eq!(there(&index, &usual), None, "it is of mode 1");
        let changed = read(Overrides { set: vec!["mode=1".into()], ..Overrides::default() });
        assert_eq!(there(&index, &changed), Some(other));
        let same = old(0);
        let index = RunIndex::scan(&folder.join(""), &registry).unwrap();
        assert_eq!(there(&index, &usual), Some(same));
    }

    #[test]
    fn nothing_fits_and_each_agent_is_tried_alone() {
        let experiment = Experiment::read("mine", MINE, &Overrides::default(), &Registry::default()).unwrap();
        let jobs = empty().jobs(&experiment, &Registry::default(), &within(1)).unwrap();
        // Training refuses them with the reason; the plan does not hide them.
        assert_eq!(jobs.len(), 12);
    }
}
