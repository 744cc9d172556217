//! `spectral train` and `spectral resume`.

use super::cluster::submit;
use super::experiment::Making;
use crate::args::{LiveArgs, ResumeArgs, Scheduler, TableArgs, TrainArgs};
use crate::failure::{AGENT_STOPPED, Failure, INTERRUPTED, SUCCESS};
use crate::output::{note, print};
use crate::progress::{Progress, duration};
use crate::signals::{Asked, when_asked_to_stop};
use crate::table::count;
use crate::typed::{command_line, program};
use spectral_agent::settings::{Setting, SettingError};
use spectral_cluster::Kind;
use spectral_live::{LivePage, check_port};
use spectral_train::checkpoint::Cost;
use spectral_train::config::Configuration;
use spectral_train::control::Control;
use spectral_train::devices::DeviceChoice;
use spectral_train::error::TrainError;
use spectral_train::experiment::Experiment;
use spectral_train::machine::{Hardware, human_bytes};
use spectral_train::registry::Registry;
use spectral_train::resolve::ResolvedRun;
use spectral_train::run_dir::Status;
use spectral_train::trainer::{AgentProgress, Observer, Resumption, Trainer};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Trains agents on a task.
pub fn train(args: &TrainArgs, registry: &Registry) -> Result<u8, Failure> {
    let named =
        [("task", &args.task), ("agents", &args.agents), ("seeds", &args.seeds), ("device", &args.device)];
    let named = named.into_iter().chain(args.game.settings());
    let config = configuration(args.config.as_deref(), named, args.frames, &args.set)?;
    if let Some(on) = args.cluster.on {
        return on_cluster(args, on, &config, registry);
    }
    let run = registry.resolve(&config)?;
    announce(&run)?;
    if args.dry_run {
        run.notes.iter().for_each(|note| note!("{note}"));
        let hardware = Hardware { device: run.device_name(), ..Hardware::here() };
        print(&run.to_toml("(not created)", &command_line(), &hardware))?;
        return Ok(SUCCESS);
    }
    // What can be refused is refused before the run's folder is made.
    args.live.live.map_or(Ok(()), check_port)?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("runs").join(&run.plan.task));
    let mut trainer = Trainer::create(&out, run, registry, &command_line())?;
    work(&mut trainer, &args.live, None)
}

/// Hands a run to a cluster, as one population or several.
fn on_cluster(
    args: &TrainArgs,
    on: Scheduler,
    config: &Configuration,
    registry: &Registry,
) -> Result<u8, Failure> {
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("cluster"));
    let experiment = Experiment::of(registry.plan(config)?);
    let table = TableArgs { json: false };
    let making =
        Making { dry_run: args.dry_run, live: &args.live, ..Making::for_report("run", &out, &table) };
    submit(Kind::Train, &experiment, &making, on, &args.cluster, registry)
}

/// What flags ask for: a file's settings, then those of flags, then those of `--set`.
pub fn configuration<'a>(
    file: Option<&Path>,
    named: impl Iterator<Item = (&'static str, &'a Option<String>)>,
    frames: Option<u64>,
    set: &[String],
) -> Result<Configuration, TrainError> {
    let mut config = Configuration::default();
    if let Some(path) = file {
        config.file(path)?;
    }
    for (key, value) in named {
        if let Some(value) = value {
            config.add(key, value.clone());
        }
    }
    if let Some(frames) = frames {
        config.add("frames", frames.to_string());
    }
    set.iter().try_for_each(|pair| config.set(pair))?;
    Ok(config)
}

/// Goes on with a run.
pub fn resume(args: &ResumeArgs, registry: &Registry) -> Result<u8, Failure> {
    let parse = |text: &str| {
        DeviceChoice::parse(text).map_err(|expected| SettingError::bad("device", text, expected))
    };
    let how = Resumption {
        frames: args.frames,
        threads: args.threads,
        checkpoint: args.checkpoint.as_deref(),
        device: args.device.as_deref().map(parse).transpose().map_err(TrainError::from)?,
        ..Resumption::default()
    };
    let mut trainer = Trainer::resume(&args.run, registry, how)?;
    note!("resuming {}", args.run.display());
    work(&mut trainer, &args.live, None)
}

/// Says what a run will do and need, and refuses what does not fit.
pub fn announce(run: &ResolvedRun) -> Result<(), Failure> {
    let (plan, memory) = (&run.plan, &run.memory);
    note!(
        "{}: {} agents, {} frames each, protocol {}; memory {memory}",
        plan.task,
        plan.agents.len(),
        count(plan.run.frames),
        plan.run.protocol,
    );
    let starts = plan.agents.iter().map(|agent| agent.settings.learning_starts).max().unwrap_or(0);
    if starts >= plan.run.frames {
        note!(
            "nothing will be learned: learning starts at frame {}, where the run has ended (give more --frames, or --set \
             learning_starts=…)",
            count(starts)
        );
    }
    Ok(memory.check()?)
}

/// Tells two observers.
struct Both<'a>(&'a dyn Observer, &'a dyn Observer);

impl Observer for Both<'_> {
    fn tick(&self, progress: &[AgentProgress]) {
        self.0.tick(progress);
        self.1.tick(progress);
    }

    fn checkpoint(&self, cost: Cost) {
        self.0.checkpoint(cost);
        self.1.checkpoint(cost);
    }
}

/// Trains to the end or until it is asked to stop, with a live page if one is wanted, watched by somebody else if there is one, and
/// says how it ended.
pub fn work(
    trainer: &mut Trainer,
    live: &LiveArgs,
    watched_by: Option<&dyn Observer>,
) -> Result<u8, Failure> {
    // Before anything is said: who sees the page's address may press Ctrl-C at once.
    trainer.set_control(interrupt().clone());
    trainer.notes().iter().for_each(|note| note!("{note}"));
    let mut page = live.live.map(|port| LivePage::of_training(trainer, port)).transpose()?;
    if let Some(page) = &page {
        note!("live page, for a browser on this machine: {}", page.url());
    }
    let progress = Progress::new(trainer.plan());
    let nobody = ();
    let others =
        Both(watched_by.unwrap_or(&nobody), page.as_ref().map_or(&nobody as &dyn Observer, |page| page));
    let outcome = trainer.run_watched(&Both(&progress, &others));
    if let (Some(page), Ok(outcome)) = (&mut page, &outcome) {
        page.set_end(outcome.status);
    }
    drop(page);
    progress.finish();
    let path = trainer.dir().path().display().to_string();
    let outcome = outcome.map_err(|error| {
        let go_on = trainer.how_to_go_on(&error);
        let mut failure = Failure::from(error);
        failure.text.push_str(&format!("\n{go_on}"));
        failure
    })?;
    let mut code = SUCCESS;
    for (plan, agent) in trainer.plan().agents.iter().zip(&outcome.agents) {
        if let Some(reason) = &agent.stopped {
            note!("{} was stopped at frame {}: {reason}", plan.id, agent.frames);
            code = AGENT_STOPPED;
        }
        if agent.saturated > 0 {
            note!(
                "{}: {} rewards were beyond the codec's capacity and saturated",
                plan.id,
                count(agent.saturated)
            );
        }
    }
    match outcome.status {
        Status::Finished => {
            let (checkpoints, cost) = progress.checkpoints();
            note!(
                "{path}: done after {} ({checkpoints} checkpoints, {} written in {:.1} s); `{} report {path}` draws it",
                duration(outcome.seconds),
                human_bytes(cost.bytes),
                cost.seconds,
                program(),
            );
        }
        _ => {
            note!("interrupted and saved; `{} resume {path}` goes on", program());
            code = INTERRUPTED;
        }
    }
    Ok(code)
}

/// How long after the first Ctrl-C further ones are taken for the same wish: a key that is held down, or a wrapper that passes on what
/// its group got already.
const SAME_WISH: Duration = Duration::from_secs(2);

/// Set by Ctrl-C or a polite kill. Only a later Ctrl-C ends the process at once: programs that stop others say so several times,
/// and mean to wait for what is being saved.
pub fn interrupt() -> &'static Control {
    static CONTROL: OnceLock<Control> = OnceLock::new();
    CONTROL.get_or_init(|| {
        let control = Control::default();
        let own = control.clone();
        let mut first: Option<Instant> = None;
        when_asked_to_stop(move |who| {
            let Some(first) = first else {
                first = Some(Instant::now());
                own.cancel();
                note!(
                    "\nsaving a checkpoint … (Ctrl-C again, after a moment, ends at once and does not save)"
                );
                return;
            };
            if who == Asked::CtrlC && first.elapsed() >= SAME_WISH {
                note!("\nended without saving; the checkpoint before is whole");
                std::process::exit(i32::from(INTERRUPTED));
            }
        });
        control
    })
}
