//! Attempts at a job: how often it is tried, and when it is given up.
//!
//! A cluster kills jobs for reasons of its own, so an attempt that ends is no failure as long as the run gets further. A job that
//! does not is not to be started for ever: a few times if it fails or is killed, more often if others were in its way.

use crate::status::{JobState, JobStatus};

/// Attempts in a row without progress after which a job is given up.
pub const MOST_FRUITLESS: u64 = 3;
/// Attempts in a row without progress after which a job is given up that was asked to stop each time, or whose nodes lacked what it
/// needs. Whoever trains at all before it is asked to stop gets further, so that preemption alone does not come to this; and in so
/// many attempts a job meets other nodes than the one whose GPU is broken.
pub const MOST_TURNED_AWAY: u64 = 20;

/// The status of the attempt that begins now, after `before`, with a run that has come this far. The error says why there is to
/// be no further attempt.
///
/// Who was asked to stop has not failed, however short the attempt was, but that does not go on for ever either. Who was killed has,
/// if the run is where it was.
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
    let (fruitless, turned_away) = match before.state {
        _ if progress => (0, 0),
        JobState::Running => (before.fruitless + 1, before.turned_away),
        JobState::Stopped => (before.fruitless, before.turned_away + 1),
        // Counted when it failed.
        _ => (before.fruitless, before.turned_away),
    };
    if fruitless >= MOST_FRUITLESS {
        return Err(format!(
            "{MOST_FRUITLESS} attempts in a row brought it no further than {frames} frames (it was killed each time, or its node died)"
        ));
    }
    if turned_away >= MOST_TURNED_AWAY {
        return Err(format!(
            "{MOST_TURNED_AWAY} attempts in a row brought it no further than {frames} frames (they were asked to stop before they could \
             train, or their nodes lacked what it needs): it may need more time than it gets"
        ));
    }
    Ok(JobStatus {
        attempts: before.attempts + 1,
        fruitless,
        turned_away,
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

/// What an attempt leaves whose node lacks what the run needs: attempts in a row that others were in the way of, this one included,
/// and whether the job is given up.
///
/// ```
/// use spectral_cluster::attempt::{MOST_TURNED_AWAY, begin, turn_away};
/// let mut status = begin(None, 0).unwrap();
/// assert_eq!(turn_away(&status, 0), (1, false));
/// status.turned_away = MOST_TURNED_AWAY - 1;
/// assert_eq!(turn_away(&status, 0), (MOST_TURNED_AWAY, true));
/// ```
pub fn turn_away(status: &JobStatus, frames: u64) -> (u64, bool) {
    let turned_away = if frames > status.frames_at_start { 0 } else { status.turned_away + 1 };
    (turned_away, turned_away >= MOST_TURNED_AWAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_asked_to_stop_has_not_failed_but_is_not_tried_for_ever() {
        let mut status = begin(None, 0).unwrap();
        let stop = |status: JobStatus, frames| {
            begin(Some(&JobStatus { state: JobState::Stopped, ..status }), frames)
        };
        for _ in 1..MOST_TURNED_AWAY {
            status = stop(status, 0).unwrap();
        }
        assert_eq!((status.attempts, status.fruitless), (MOST_TURNED_AWAY, 0));
        let why = stop(status.clone(), 0).unwrap_err();
        assert!(why.contains("20 attempts") && why.contains("asked to stop"), "{why}");
        // A cluster that preempts it again and again, but lets it train, does no harm.
        for frames in 1..100 {
            status = stop(status, frames).unwrap();
            assert_eq!(status.turned_away, 0);
        }
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
