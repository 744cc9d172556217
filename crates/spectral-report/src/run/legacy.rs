//! What `run.toml` of version 0.1 wrote elsewhere, or did not record so that it has to be inferred.

/// The task settings that format 1 has at the top level of the file.
pub(super) const LEGACY_TASK_SETTINGS: [&str; 5] =
    ["observation", "reward_scale", "frame_skip", "mode", "difficulty"];

/// The paper's own Atari tasks, whose steps take four frames like those of every `atari/` game.
const ATARI_TASKS: [&str; 5] =
    ["exponential-pong", "ponglantis", "ponglantis-easier", "ponglantis-even-easier", "reverse-ponglantis"];

/// The emulator frames per step of a run without `[task_spec]`. Version 0.1 had only built-in tasks, whose frame skip is an
/// option, and Atari tasks, whose steps take four frames whatever that option says.
pub(super) fn legacy_frames_per_step(task: &str, frame_skip: Option<&str>) -> u64 {
    if task.starts_with("atari/") || ATARI_TASKS.contains(&task) {
        return 4;
    }
    frame_skip.and_then(|text| text.parse().ok()).filter(|skip| *skip > 0).unwrap_or(1)
}

/// Whether an agent without `sees_true_rewards` learns the values of the task's own rewards. In version 0.1 the only codec that
/// changed rewards was `clipped`.
pub(super) fn legacy_sees_true_rewards(codec: &str) -> bool {
    codec != "clipped"
}
