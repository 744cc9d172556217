//! Plans that lie beside a new one: those that train the same already, and those that nobody has begun.

use crate::plan::{JobEntry, JobPlan, NewPlan};
use crate::slurm;
use spectral_core::shell::quote_path;
use spectral_train::error::TrainError;
use spectral_train::experiment::Job;
use spectral_train::plan::Plan;
use spectral_train::registry::Registry;
use spectral_train::run_dir::RunDir;
use std::path::Path;

impl JobPlan {
    /// Whether something of it was submitted or tried. If not, it may be written anew.
    pub(crate) fn is_begun(&self) -> bool {
        let tried =
            std::fs::read_dir(self.folder().join("status")).map(|mut entries| entries.next().is_some());
        // What cannot be read may be anything.
        tried.unwrap_or(true) || slurm::submissions(self).map_or(true, |all| !all.is_empty())
    }

    /// Whether a job's run is at the end that this plan has for it, as its directory says. One that somebody has taken further is
    /// past it: there, whether its own end is reached is nothing to this plan.
    pub fn is_finished(job: &JobEntry, registry: &Registry) -> Result<bool, TrainError> {
        if !job.run.join("run.toml").exists() {
            return Ok(false);
        }
        let (dir, file) = RunDir::open(&job.run, registry)?;
        Ok(file.plan.fingerprint() == job.fingerprint && is_at_end(&dir, &file.plan, job))
    }
}

/// Whether a run with this plan of its own is at the end that a job has.
pub(crate) fn is_at_end(dir: &RunDir, run: &Plan, job: &JobEntry) -> bool {
    let wanted = run.with(|run| run.frames = job.frames);
    // At its own end, its models are still to be written.
    dir.frames_left(&wanted) == 0 && (dir.finished() || run.run.frames > job.frames)
}

impl NewPlan<'_> {
    /// Refuses what another plan in the same folder trains already: two jobs would train one run, one of them waiting for the other
    /// on a node of its own, or each of them a run of the same agent.
    pub fn refuse_what_is_under_way(&self, registry: &Registry) -> Result<(), TrainError> {
        let own = self.folder();
        for plan in plans_in(own.parent().unwrap_or(&own)) {
            if plan.folder().file_name() == own.file_name() {
                continue;
            }
            for job in &plan.jobs {
                // A plan that is damaged trains nothing, and a run that is damaged says so to whoever trains it.
                let Ok(other) = plan.settings(job, registry) else { continue };
                let same = self.jobs.iter().find_map(|new| Some((new, trains_too(new, &other)?)));
                let Some((new, agent)) = same else { continue };
                if JobPlan::is_finished(job, registry).unwrap_or(false) {
                    continue;
                }
                let folder = plan.folder();
                return Err(TrainError::Usage(format!(
                    "{agent} on {} is in a plan that is not finished, {}: `spectral jobs {}` says how far its jobs are, and \
                     --retry submits those again that nobody has. If you do not want them any more, cancel them and remove that folder",
                    new.run.plan.task,
                    folder.display(),
                    quote_path(folder)
                )));
            }
        }
        Ok(())
    }
}

/// An agent that both a new job and one of another plan would train, however far: one that is to go on past the other's end would
/// hold a node until it is reached.
fn trains_too(new: &Job, other: &Plan) -> Option<String> {
    let plan = &new.run.plan;
    let alike = plan.same_task(other) && plan.run.log_frames == other.run.log_frames;
    let both = plan.agents.iter().find(|agent| other.agents.contains(agent));
    both.filter(|_| alike).map(|agent| agent.id.clone())
}

/// The plans in a folder that can be read, in order of their names.
fn plans_in(folder: &Path) -> Vec<JobPlan> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<_> = entries
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    folders.iter().filter_map(|folder| JobPlan::open(folder).ok()).collect()
}
