//! `spectral train` and `spectral resume`.

use super::cluster::submit;
use super::experiment::Making;
use crate::args::{LiveArgs, ResumeArgs, Scheduler, TableArgs, TrainArgs};
use crate::event_stream::{EventStream, Shown};
use crate::failure::{AGENT_STOPPED, Failure, INTERRUPTED, SUCCESS};
use crate::output::{indented, note, print};
use crate::progress::{Progress, duration};
use crate::signals::{Asked, when_asked_to_stop};
use crate::table::{count, plural};
use crate::typed::{command_line, program};
use spectral_agent::settings::{Setting, SettingError};
use spectral_cluster::Kind;
use spectral_core::settings::parse_count;
use spectral_core::shell::quote_path;
use spectral_live::{LivePage, check_port};
use spectral_train::checkpoint::Cost;
use spectral_train::config::Configuration;
use spectral_train::control::Control;
use spectral_train::devices::DeviceChoice;
use spectral_train::error::TrainError;
use spectral_train::experiment::Experiment;
use spectral_train::machine::{Hardware, human_bytes};
use spectral_train::plan::Plan;
use spectral_train::registry::Registry;
use spectral_train::resolve::ResolvedRun;
use spectral_train::run_dir::{RunDir, Status};
use spectral_train::trainer::{AgentProgress, Observer, Resumption, Trainer};
use std::collections::BTreeSet;
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
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("runs").join(&run.plan.task));
    // What can be refused is refused before the plan is shown and the run's folder is made.
    if !args.dry_run {
        args.live.live.map_or(Ok(()), check_port)?;
        RunDir::check_free(&out)?;
    }
    announce(&run)?;
    if args.dry_run {
        run.notes.iter().for_each(|note| note!("{}", indented(note)));
        let hardware = Hardware { device: run.device_name(), ..Hardware::here() };
        print(&run.to_toml("(not created)", &command_line(), &hardware))?;
        return Ok(SUCCESS);
    }
    let mut trainer = Trainer::create(&out, run, registry, &command_line())?;
    work(&mut trainer, &args.live, How { json: args.table.json, ..How::default() })
}

/// Hands a run to a cluster, as one population or several.
fn on_cluster(
    args: &TrainArgs,
    on: Scheduler,
    config: &Configuration,
    registry: &Registry,
) -> Result<u8, Failure> {
    if args.table.json {
        return Err(Failure::usage(
            "--json tells of a run that trains here; `spectral jobs PLAN --json` tells of one on a cluster",
        ));
    }
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("cluster"));
    let experiment = Experiment::of(registry.plan(config)?);
    let table = TableArgs { json: false };
    let making =
        Making { dry_run: args.dry_run, live: &args.live, ..Making::for_report("run", &out, &table) };
    submit(Kind::Train, &experiment, &making, on, &args.cluster, registry)
}

/// What flags ask for: a file's settings, then those of flags, then those of `--set`. What a flag and `--set` both say is refused
/// unless they agree: one of the two is a mistake.
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
    let flags = named.filter_map(|(key, value)| Some((key, value.clone()?)));
    for (key, value) in flags.chain(frames.map(|frames| ("frames", frames.to_string()))) {
        let pairs = set.iter().filter_map(|pair| pair.split_once('='));
        for (_, other) in pairs.filter(|(other, _)| other.trim() == key) {
            let same_count =
                parse_count(&value).is_some_and(|count| parse_count(other.trim()) == Some(count));
            if other.trim() != value && !same_count {
                return Err(TrainError::Usage(format!(
                    "--{key} {value} and --set {key}={} contradict each other: give one of them",
                    other.trim()
                )));
            }
        }
        config.add(key, value);
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
        without_replay: args.without_replay,
        device: args.device.as_deref().map(parse).transpose().map_err(TrainError::from)?,
        ..Resumption::default()
    };
    let mut trainer = Trainer::resume(&args.run, registry, how)?;
    let planned = trainer.plan().run.frames;
    // A run that was killed on its last steps has its models still to be written.
    let ended = trainer.dir().finished()
        && trainer.progress().iter().all(|agent| agent.frames >= planned || agent.stopped.is_some());
    match ended {
        true => note!(
            "{} is at its planned end of {} frames already: nothing is trained (`{} resume {} --frames N` goes on past it)",
            args.run.display(),
            count(planned),
            program(),
            quote_path(&args.run)
        ),
        false => note!("resuming {}", args.run.display()),
    }
    work(&mut trainer, &args.live, How { json: args.table.json, ended, ..How::default() })
}

/// Says what a run will do and need, and refuses what does not fit.
pub fn announce(run: &ResolvedRun) -> Result<(), Failure> {
    let (plan, memory) = (&run.plan, &run.memory);
    note!(
        "{}: {}, {} frames each, protocol {}\n  {}\n  memory {memory}",
        plan.task,
        who(plan),
        count(plan.run.frames),
        plan.run.protocol,
        plan.prospect(),
    );
    plan.too_short().iter().for_each(|caution| note!("note: {caution}"));
    Ok(memory.check()?)
}

/// Who trains: names of agents, and how often each.
fn who(plan: &Plan) -> String {
    let names: BTreeSet<&str> = plan.agents.iter().map(|agent| agent.agent.as_str()).collect();
    let seeds: BTreeSet<u64> = plan.agents.iter().map(|agent| agent.seed).collect();
    let agents = plural(names.len(), "agent");
    match (seeds.len(), names.len() * seeds.len() == plan.agents.len()) {
        (1, true) => agents,
        (seeds, true) => format!("{agents} × {}", plural(seeds, "seed")),
        // A part of an experiment.
        _ => format!("{agents} in {}", plural(plan.agents.len(), "run")),
    }
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

/// How a run is watched while it trains.
#[derive(Default)]
pub struct How<'a> {
    /// By programs, which read events.
    pub json: bool,
    /// By somebody else.
    pub watched_by: Option<&'a dyn Observer>,
    /// Whether it was at its end before it began, as the user was told.
    pub ended: bool,
}

/// Trains to the end or until it is asked to stop, with a live page if one is wanted, and says how it ended.
pub fn work(trainer: &mut Trainer, live: &LiveArgs, how: How<'_>) -> Result<u8, Failure> {
    // Before anything is said: who sees the page's address may press Ctrl-C at once.
    trainer.set_control(interrupt().clone());
    if !how.ended {
        trainer.notes().iter().for_each(|note| note!("{}", indented(note)));
    }
    let mut page = live.live.map(|port| LivePage::of_training(trainer, port)).transpose()?;
    if let Some(page) = &page {
        note!("live page, for a browser on this machine: {}", page.url());
    }
    let events = how.json.then(|| EventStream::of(trainer));
    let progress = Progress::new(trainer.plan());
    let nobody = ();
    let others =
        Both(how.watched_by.unwrap_or(&nobody), page.as_ref().map_or(&nobody as &dyn Observer, |page| page));
    let shown = Shown { progress: &progress, events: events.as_ref() };
    let outcome = trainer.run_watched(&Both(&shown, &others));
    if let (Some(page), Ok(outcome)) = (&mut page, &outcome) {
        page.set_end(outcome.status);
    }
    drop(page);
    if !how.ended {
        progress.finish(outcome.as_ref().map_or(&[], |outcome| &outcome.agents));
    }
    let path = quote_path(trainer.dir().path());
    let outcome = outcome.map_err(|error| {
        let go_on = trainer.how_to_go_on(&error);
        let mut failure = Failure::from(error);
        failure.text.push_str(&format!("\n{go_on}"));
        failure
    });
    if let Some(events) = events {
        match &outcome {
            Ok(outcome) => events.end(outcome),
            Err(failure) => events.fail(failure),
        }
        // What failed is said first.
        if outcome.is_ok() {
            events.close()?;
        }
    }
    let outcome = outcome?;
    let mut code = SUCCESS;
    for (plan, agent) in trainer.plan().agents.iter().zip(&outcome.agents) {
        if let Some(reason) = &agent.stopped {
            note!("{} was stopped at frame {}: {}", plan.id, agent.frames, indented(reason));
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
        Status::Finished if how.ended => note!("`{} report {path}` draws it", program()),
        Status::Finished => {
            let (checkpoints, cost) = progress.checkpoints();
            note!(
                "{}: done after {} ({}, {} written in {:.1} s); `{} report {path}` draws it",
                trainer.dir().path().display(),
                duration(outcome.seconds),
                plural(checkpoints as usize, "checkpoint"),
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
                note!("\nsaving a checkpoint … (Ctrl-C again, after a moment, ends without saving)");
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
