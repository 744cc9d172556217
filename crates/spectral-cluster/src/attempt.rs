//! Attempts at a job: how often it is tried, and when it is given up.
//!
//! A cluster kills jobs for reasons of its own, so an attempt that ends is no failure as long as the run gets further. A job that
//! does not is not to be started for ever.

use crate::status::{JobState, JobStatus};

/// Attempts in a row without progress after which a job is given up.
pub const MOST_FRUITLESS: u64 = 3;

/// The status of the attempt that begins now, after `before`, with a run that has come this far. The error says why there is to
/// be no further attempt.
///
/// Who was asked to stop and saved has not failed, however short the attempt was. Who was killed has, if the run is where it was.
///
/// ```
/// use spectral_cluster::attempt::{begin, fail};
/// let first = begin(None, 0).unwrap();
/// assert_eq!((first.attempts, first.fruitless), (1, 0));
/// // Killed three times where it began: not tried again.
/// let second = begin(Some(&first), 0).unwrap();
/// let third = begin(Some(&second), 0).unwrap();
/// assert!(begin(Some(&third), 0).unwrap_err().contains("3 attempts"));
/// assert_eq!(begin(Some(&third), 500).unwrap().fruitless, 0);
/// // Failures count alike, and the last one says so.
/// assert_eq!(fail(&second, 0), (2, false));
/// assert_eq!(fail(&third, 0), (3, true));
/// ```
pub fn begin(before: Option<&JobStatus>, frames: u64) -> Result<JobStatus, String> {
    let Some(before) = before else { return Ok(JobStatus { attempts: 1, ..JobStatus::new() }) };
    if before.state == JobState::GaveUp {
        return Err(before.reason.clone());
    }
    let progress = frames > before.frames_at_start;
    let fruitless = match before.state {
        _ if progress => 0,
        JobState::Running => before.fruitless + 1,
        _ => before.fruitless,
    };
    if fruitless >= MOST_FRUITLESS {
        return Err(format!(
            "{MOST_FRUITLESS} attempts in a row brought it no further than {frames} frames (it was killed each time, or its node died)"
        ));
    }
    Ok(JobStatus {
        attempts: before.attempts + 1,
        fruitless,
        frames_at_start: frames,
        frames,
        ..JobStatus::new()
    })
}

/// What a failed attempt leaves: attempts in a row without progress, this one included, and whether the job is given up.
pub fn fail(status: &JobStatus, frames: u64) -> (u64, bool) {
    let fruitless = if frames > status.frames_at_start { 0 } else { status.fruitless + 1 };
    (fruitless, fruitless >= MOST_FRUITLESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_asked_to_stop_has_not_failed() {
        let mut status = begin(None, 0).unwrap();
        for _ in 0..20 {
            status.state = JobState::Stopped;
            status = begin(Some(&status), 0).unwrap();
        }
        assert_eq!((status.attempts, status.fruitless), (21, 0));
    }

    #[test]
    fn kills_and_failures_add_up_and_progress_forgives_them() {
        let mut status = begin(None, 0).unwrap();
        status = begin(Some(&status), 0).unwrap();
        let (fruitless, given_up) = fail(&status, 0);
        assert_eq!((fruitless, given_up), (2, false));
        status = JobStatus { state: JobState::Failed, fruitless, ..status };
        // A failed attempt was counted when it failed.
        status = begin(Some(&status), 0).unwrap();
        assert_eq!(status.fruitless, 2);
        assert!(begin(Some(&status), 0).is_err());
        let further = begin(Some(&status), 1).unwrap();
        assert_eq!((further.fruitless, further.frames_at_start), (0, 1));
        let given_up = JobStatus { state: JobState::GaveUp, reason: "why".into(), ..further };
        assert_eq!(begin(Some(&given_up), 1000).unwrap_err(), "why");
    }
}
