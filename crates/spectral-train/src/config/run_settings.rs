//! The settings of a run as a whole.

use crate::checkpoint::CheckpointKind;
use crate::devices::{DeviceChoice, Precision};
use crate::plan::{MAX_FRAMES, MAX_SECONDS};
use spectral_agent::settings::{Setting, SettingError};
use spectral_core::settings;
use spectral_env::TaskEntry;

settings! {
    /// How it is trained, beside the settings of tasks and agents.
    RunSettings {
        /// Emulator frames per agent. Left out, they are the protocol's: 200,000 with quick, 10 million with quick-atari, 40 million
        /// with paper and machado.
        frames: u64 = 200_000,
        /// The settings shared by all agents: paper, machado, quick or quick-atari; auto is paper for Atari and quick for
        /// other tasks.
        protocol: String = "auto".into(),
        /// What a reader of the run's figures should know; reports print it beside them.
        note: String = String::new(),
        /// Frames from one row of metrics to the next; 0 makes a hundred rows.
        log_frames: u64 = 0,
        /// Frames from one evaluation to the next: whole games with a copy of the model that does not learn, written to
        /// eval.csv; the last one is at the run's end. 0 makes ten, and none in runs of fewer than 50,000 frames or of tasks
        /// that are stepped together, as those of Gymnasium are.
        eval_every: u64 = 0,
        /// Games of one evaluation; 0 plays none.
        eval_games: u64 = 10,
        /// Probability of a random action in these games.
        eval_epsilon: f64 = 0.001,
        /// Seconds from one checkpoint to the next.
        checkpoint_seconds: f64 = 60.0,
        /// What a checkpoint holds. A compact one has of replay only the actions, and where the task stood now and then; a
        /// resumed run plays them again, to the same bits. A light one leaves out replay, which fills anew when the run is
        /// resumed: until it holds learning_starts frames again, the agent acts as it has learned to and is not updated. auto
        /// is full if the disk has room for twice the population's replay, else compact where the task is known to repeat
        /// itself, as the built-in ones are, or light.
        checkpoint: CheckpointKind = CheckpointKind::Auto,
        /// Where to train: auto (a GPU if there is one and the population suits it), cpu, cuda or cuda:N.
        device: DeviceChoice = DeviceChoice::Auto,
        /// Arithmetic of matrix products on a GPU; a CPU always uses fp32.
        precision: Precision = Precision::Auto,
        /// Groups in which a GPU trains the population: while it works for some, the cores play for the others. 0 makes 2,
        /// and 4 from 48 agents on.
        /// On a GPU sums may be rounded differently; a CPU has none.
        groups: usize = 0,
        /// Threads; 0 uses every core. Never changes a result.
        threads: usize = 0,
    }
}

impl RunSettings {
    /// Settings that leave the result as it is, or that may change from one start of a run to the next. All others decide
    /// whether two runs are the same.
    pub(crate) const INCIDENTAL: &[&str] = &[
        "frames",
        "note",
        "eval_every",
        "eval_games",
        "eval_epsilon",
        "checkpoint_seconds",
        "checkpoint",
        "device",
        "precision",
        "groups",
        "threads",
    ];

    /// Refuses what no run can have.
    pub(crate) fn validate(&self) -> Result<(), SettingError> {
        if !(1..=MAX_FRAMES).contains(&self.frames) {
            return Err(SettingError::bad("frames", self.frames.show(), format!("1 to {MAX_FRAMES}")));
        }
        if !(self.checkpoint_seconds > 0.0 && self.checkpoint_seconds <= MAX_SECONDS) {
            let expected = format!("a number above 0, {MAX_SECONDS:e} at most");
            return Err(SettingError::bad("checkpoint_seconds", self.checkpoint_seconds.show(), expected));
        }
        if self.eval_every > MAX_FRAMES {
            return Err(SettingError::bad(
                "eval_every",
                self.eval_every.show(),
                format!("0 to {MAX_FRAMES}"),
            ));
        }
        if self.eval_games > MAX_EVAL_GAMES {
            return Err(SettingError::bad(
                "eval_games",
                self.eval_games.show(),
                format!("0 to {MAX_EVAL_GAMES}"),
            ));
        }
        if !(0.0..=1.0).contains(&self.eval_epsilon) {
            return Err(SettingError::bad("eval_epsilon", self.eval_epsilon.show(), "a number from 0 to 1"));
        }
        Ok(())
    }

    /// Whether frozen games are played beside training; once the run is planned. Runs from before there were any do not.
    pub fn evaluates(&self) -> bool {
        self.eval_every > 0 && self.eval_games > 0
    }

    /// Decides when frozen games are played if the user left that open; afterwards `eval_every = 0` means never.
    pub(super) fn resolve_evaluation(&mut self, task: &TaskEntry) {
        if self.eval_games == 0 {
            self.eval_every = 0;
        } else if self.eval_every == 0 && self.frames >= EVALUATED_FRAMES && !task.is_stepped_together() {
            self.eval_every = self.frames.div_ceil(EVALUATIONS);
        }
    }
}

/// Evaluations of a run, where nothing else is asked for.
const EVALUATIONS: u64 = 10;
/// Frames from which runs are evaluated, where nothing else is asked for. What shorter ones learn is not worth the time.
const EVALUATED_FRAMES: u64 = 50_000;
/// The most games of one evaluation.
const MAX_EVAL_GAMES: u64 = 10_000;
