//! What help texts say at their ends: examples, and what to know.

use crate::failure::exit_codes;

pub const EXAMPLES: &str = "\
Examples:
  spectral demo                                    the tour: two tasks, five agents, a report
  spectral train --task 2048 --agents spectral,clipped --seeds 5 --frames 500000
  spectral train --task 2048 --live                the same, and a page to see it learn
  spectral status runs                             what each run is doing, or how it ended
  spectral watch runs/2048                         see a run: its curves, and its agents at play
  spectral report runs/2048                        figures and a table from a run's folder
  spectral reproduce                               the paper's figures, and what each of them needs
  spectral reproduce mini-fig3                     one of them in small: minutes on two cores
  spectral sweep --task pong-mini --vary learning_rate=1e-4,4e-4 --seeds 5
  spectral decompose 6.5                           the paper's figure 2, for any number";

/// Examples with the table of exit codes, which all commands share.
pub fn with_exit_codes(examples: &str) -> String {
    format!("{examples}\n\n{}", exit_codes())
}

pub const TRAIN: &str = "\
Examples:
  spectral train --task 2048                     one agent, one seed, as many frames as it takes
  spectral train --task 2048 --agents spectral,clipped --seeds 5 --frames 1M
  spectral train --task pong-mini --set learning_rate=1e-4 --set agent.clipped.batch=64
  spectral train --task pong-mini --config mine.toml --dry-run
  spectral train --task pong-mini --json         its events as lines of JSON

Ctrl-C saves a checkpoint; `spectral resume RUN` goes on to the same bits.";

pub const STATUS: &str = "\
Examples:
  spectral status runs/2048                      each agent: frames, score, rate, time left
  spectral status runs                           one line for each run inside
  watch -n 10 spectral status runs               again and again

Nothing but the files of a run is read, so it may be at work, on another machine
too, and its task need not be known here.";

pub const WATCH: &str = "\
Examples:
  spectral watch runs/2048                       a page; the command prints its address
  spectral watch runs/2048 --agent clipped-s2    another agent plays
  spectral watch runs/2048 --terminal            in the terminal, for example over ssh

The run may be finished, interrupted or at work. One that is at work is played by
the model of its last checkpoint; `spectral train --live` shows the agents
themselves. A page on another machine: ssh -L 8123:127.0.0.1:8123 that-machine,
and there `spectral watch RUN --port 8123`. Ctrl-C ends it.";

pub const REPORT: &str = "\
Examples:
  spectral report runs/2048                      one run directory
  spectral report runs --at-frames 1000000       the same, at their millionth frame
  spectral report mine theirs --experiment fig3  is it as the paper says?

One agent trained with two settings is two agents, named by what differs:
spectral-learning_rate-1e-4 and spectral-learning_rate-4e-4.
With --experiment the report says where the runs are not what the experiment
asks for. `spectral reproduce FIGURE --report-only` draws only those that are.";

pub const REPRODUCE: &str = "\
Examples:
  spectral reproduce                         list the figures and what they need
  spectral reproduce mini-fig3               figure 3 in small: minutes on two cores
  spectral reproduce fig3 --dry-run          what the real one costs here
  spectral reproduce fig3 --frames 40000000  a fifth of it (the report says so)
  spectral reproduce fig3 --tasks ponglantis one of its tasks
  spectral reproduce fig3                    later: on from there to the end
  spectral reproduce fig4                    shares fig3's runs: only draws
  spectral reproduce mine.toml               an experiment of your own
  spectral reproduce fig5 --on slurm --device cuda --agents-per-job 20
                                             on a cluster: docs/CLUSTER.md

Whatever stops it (Ctrl-C, a crash, a power cut), the same command goes on from
the last checkpoint. Runs lie in OUT/runs, one copy for all figures; the report
is OUT/FIGURE/report.html. Run directories of other machines that are put into
OUT/runs count as if they had been made here.";

pub const JOBS: &str = "\
Examples:
  spectral reproduce fig5 --on slurm --device cuda --agents-per-job 20 --time 8:00:00
  spectral jobs reproduce/jobs/fig5-1a2b3c4d          how far they are
  spectral jobs reproduce/jobs/fig5-1a2b3c4d --retry  submit again what failed

What a job has trained is in its run directory; a job that was killed, preempted
or cut off goes on from the last checkpoint when it is started again. Exit code 7
says that a job was given up.";

pub const SWEEP: &str = "\
Examples:
  spectral sweep --task pong-mini --vary learning_rate=1e-4,2e-4,4e-4 --seeds 5
  spectral sweep --task 2048 --agents spectral,popart --vary batch=32,64 --vary n_step=1,3
  spectral sweep --task 2048 --agents spectral,popart --vary agent.popart.learning_rate=1e-4,1e-3
  spectral sweep --task pong-mini --vary 'hidden=64,64;128,128'   values with commas
  spectral sweep … --dry-run                    variants, runs, memory, disk and time

Every combination of the values is an agent of its own, such as
spectral-learning_rate-2e-4. Whatever stops it (Ctrl-C, a crash, a power cut),
the same command goes on from the last checkpoint; with more values or seeds it
trains only those that are missing. Runs lie in OUT/runs, the report is
OUT/report/report.html.

The best of many variants, chosen by the seeds it was trained with, looks better
than it is: train it again with other seeds (--seeds 1001..1005) before you
compare it with anything.";
