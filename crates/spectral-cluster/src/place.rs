//! How a plan that is written comes to its name, in place of an earlier one, and what is left if that is broken off.
//!
//! No file system that clusters share can exchange two folders at once, so there is a moment in which nothing has the name.
//! Whoever looks for the plan later finds the earlier one where it was put aside, and gives its name back.

use spectral_train::error::TrainError;
use spectral_train::store::{StoreError, sync_folder};
use std::fs;
use std::path::{Path, PathBuf};

/// How names of folders begin that are no plans, or not yet.
const UNFINISHED: &str = ".unfinished-";
/// How the name of a plan ends that was put aside.
const EARLIER: &str = ".earlier";

/// A plan that is being written. Its folder goes, unless it gets its name.
pub(crate) struct Unfinished {
    folder: PathBuf,
    name: String,
}

impl Unfinished {
    /// For a plan of this name in this folder of plans.
    pub fn new(plans: &Path, name: &str) -> Self {
        let folder = plans.join(format!("{UNFINISHED}{}-{name}", std::process::id()));
        Unfinished { folder, name: name.into() }
    }

    /// Where it is written.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Gives the finished plan its name. Of the one that has it now nothing is left; it stays if this fails.
    pub fn put(self, taken: impl Fn(&Path) -> TrainError) -> Result<(), TrainError> {
        let plans = self.folder.parent().unwrap_or(Path::new("."));
        let folder = plans.join(&self.name);
        let mut aside = self.folder.clone().into_os_string();
        aside.push(EARLIER);
        if folder.exists() {
            fs::rename(&folder, &aside).map_err(|e| StoreError::io(&folder, "rename", e))?;
        }
        if let Err(error) = fs::rename(&self.folder, &folder) {
            if folder.exists() {
                return Err(taken(&folder));
            }
            restore(&folder);
            return Err(StoreError::io(&folder, "rename the finished plan to", error).into());
        }
        // A scheduler may be told of it at once: its name must not go with the power, nor that of the folder of all plans.
        for parent in folder.ancestors().skip(1).take(2) {
            sync_folder(parent)?;
        }
        for old in put_aside(&folder) {
            let _ = fs::remove_dir_all(old);
        }
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // What is left of a plan that was not finished is in nobody's way.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Whether this is the name of a folder that is no plan, or not yet.
pub(crate) fn is_unfinished(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(UNFINISHED))
}

/// If nothing has this plan's name, because its replacement was broken off between putting it aside and putting the new one in
/// its place, the plan gets its name back.
pub(crate) fn restore(folder: &Path) {
    if folder.exists() {
        return;
    }
    let written = |plan: &PathBuf| plan.join("plan.toml").metadata().and_then(|data| data.modified()).ok();
    let newest = put_aside(folder).into_iter().filter_map(|plan| Some((written(&plan)?, plan))).max();
    if let Some((_, plan)) = newest {
        // Somebody else may have been faster, or nobody may write here. Then it is said that there is no plan, as before.
        let _ = fs::rename(plan, folder);
    }
}

/// All plans of this name that were put aside.
fn put_aside(folder: &Path) -> Vec<PathBuf> {
    let (Some(plans), Some(name)) = (folder.parent(), folder.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    let entries = fs::read_dir(plans).into_iter().flatten().flatten().map(|entry| entry.path());
    let of_ours = |path: &PathBuf| {
        let middle =
            path.file_name().and_then(|name| name.to_str()?.strip_prefix(UNFINISHED)?.strip_suffix(EARLIER));
        middle
            .and_then(|it| it.split_once('-'))
            .is_some_and(|(process, of)| of == name && process.bytes().all(|digit| digit.is_ascii_digit()))
    };
    entries.filter(of_ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobPlan;

    const NAME: &str = "mini.v2-fig1-0a1b2c3d";

    fn plan(folder: &Path, command: &str) {
        fs::create_dir_all(folder).unwrap();
        let text = format!(
            "format = 1\nkind = \"train\"\nname = \"mini\"\ncommand = \"{command}\"\nthreads = 1\n\
             [resources]\ncpus = 1\ngpus = 0\nmemory = 1\n[[job]]\nindex = 0\nrun = \"a\"\nfingerprint = \"00000000\"\n\
             task = \"2048\"\nagents = [\"spectral-s1\"]\nframes = 1\nmemory = 1\ndevice_memory = 0\n"
        );
        fs::write(folder.join("plan.toml"), text).unwrap();
    }

    fn taken(folder: &Path) -> TrainError {
        TrainError::Usage(format!("taken: {}", folder.display()))
    }

    fn names(plans: &Path) -> Vec<String> {
        let entries = fs::read_dir(plans).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_plan_that_was_put_aside_by_a_process_that_died_is_there_again() {
        let out = tempfile::tempdir().unwrap();
        let plans = out.path().join("jobs");
        // As a kill between the two renames leaves them.
        plan(&plans.join(format!("{UNFINISHED}77-{NAME}{EARLIER}")), "earlier");
        plan(&plans.join(format!("{UNFINISHED}77-{NAME}")), "new");
        plan(&plans.join(format!("{UNFINISHED}78-other-{NAME}{EARLIER}")), "another");
        let opened = JobPlan::open(&plans.join(NAME)).unwrap();
        assert_eq!(opened.command, "earlier");
        // The next plan of this name takes its place, and sweeps what others left of it.
        plan(&plans.join(format!("{UNFINISHED}79-{NAME}{EARLIER}")), "left");
        let unfinished = Unfinished::new(&plans, NAME);
        plan(unfinished.folder(), "next");
        unfinished.put(taken).unwrap();
        assert_eq!(JobPlan::open(&plans.join(NAME)).unwrap().command, "next");
        let aside: Vec<_> = names(&plans).into_iter().filter(|name| name.ends_with(EARLIER)).collect();
        assert_eq!(aside, [format!("{UNFINISHED}78-other-{NAME}{EARLIER}")]);
    }

    #[test]
    fn a_plan_stays_if_its_successor_cannot_be_put_in_its_place() {
        let out = tempfile::tempdir().unwrap();
        let plans = out.path().join("jobs");
        plan(&plans.join(NAME), "earlier");
        // Nothing was written, so nothing can be renamed.
        let error = Unfinished::new(&plans, NAME).put(taken).unwrap_err().to_string();
        assert!(error.contains(NAME) && error.contains("no such file"), "{error}");
        assert_eq!(JobPlan::open(&plans.join(NAME)).unwrap().command, "earlier");
        assert_eq!(names(&plans), [NAME]);
    }

    #[test]
    fn the_newest_plan_is_none_that_is_unfinished() {
        let out = tempfile::tempdir().unwrap();
        let plans = out.path().join("jobs");
        plan(&plans.join(NAME), "finished");
        plan(&plans.join(format!("{UNFINISHED}77-{NAME}")), "new");
        let error = JobPlan::open(&plans).unwrap_err().to_string();
        assert!(error.contains(NAME) && !error.contains(UNFINISHED), "{error}");
    }
}
