//! What a user can do whose checkpoint cannot be read: what else is sound, and what is sound without its replay.

use super::{Checkpoints, Saving};
use crate::population::Population;
use crate::resolve::ResolvedRun;
use crate::run_dir::RunDir;
use spectral_core::shell::quote_path;
use std::path::{Path, PathBuf};

/// How the command is told to leave out replay.
const WITHOUT_REPLAY: &str = " --without-replay";

/// How the run can go on, though `path`, one of `all` or a file from elsewhere, cannot be read. What can be read to the end, tables
/// included, can be gone on from. The population is of no use any more.
pub(super) fn after_damage(
    dir: &RunDir,
    run: &ResolvedRun,
    population: &mut dyn Population,
    path: &PathBuf,
    all: &[PathBuf],
    saving: Saving,
    without_replay: bool,
) -> String {
    let mut sound = |p: &Path, without| Checkpoints::read(dir, run, population, p, saving, without).is_ok();
    let others = || all.iter().rev().filter(|p| *p != path);
    let folder = quote_path(dir.path());
    let other = others().find(|p| sound(p, without_replay));
    let mut hint = match other {
        Some(p) => {
            let further = if without_replay { WITHOUT_REPLAY } else { "" };
            let p = quote_path(p);
            format!(
                "another checkpoint is sound: `spectral resume {folder} --checkpoint {p}{further}` uses it"
            )
        }
        None => "there is no other sound checkpoint of this run".to_string(),
    };
    if without_replay {
        return hint;
    }
    // Of all that a checkpoint holds, a run can do without replay alone.
    let bare = std::iter::once(path).chain(others()).find(|p| sound(p, true));
    if let Some(p) = bare.filter(|p| Some(*p) != other) {
        let is_newest = all.last() == Some(p);
        let place = if is_newest { String::new() } else { format!(" --checkpoint {}", quote_path(p)) };
        hint += &format!(
            "; `spectral resume {folder}{place}{WITHOUT_REPLAY}` leaves out replay, which then fills anew before learning goes on"
        );
    }
    hint
}
