//! `spectral play`.

use crate::args::PlayArgs;
use crate::failure::{DATA, Failure, INTERRUPTED, SUCCESS};
use crate::film::Film;
use crate::half_blocks::HalfBlocks;
use crate::output::note;
use crate::signals::when_asked_to_stop;
use crate::table::{Table, count};
use serde_json::json;
use spectral_env::{Env, Picture, Step, nearest};
use spectral_train::config::Configuration;
use spectral_train::devices::DeviceChoice;
use spectral_train::eval::Player;
use spectral_train::kept_model::{Arithmetic, KeptModel, ModelChoice};
use spectral_train::plan::Plan;
use spectral_train::registry::Registry;
use spectral_train::run_dir::RunDir;
use std::io::{ErrorKind, IsTerminal};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Pictures a second that a GIF can have: its times are hundredths of a second, and viewers slow down a single one.
const FPS: std::ops::RangeInclusive<u32> = 1..=50;

/// Probability of a random action, where nothing else is asked for.
const EPSILON: f64 = 0.001;

/// Set by Ctrl-C: what was seen so far is written.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Plays a task and shows it.
pub fn run(args: &PlayArgs, registry: &Registry) -> Result<u8, Failure> {
    if args.episodes == 0 || args.steps == 0 || !(0.0..=1.0).contains(&args.epsilon.unwrap_or(EPSILON)) {
        return Err(Failure::usage(
            "--episodes and --steps must be at least 1 and --epsilon between 0 and 1",
        ));
    }
    if !FPS.contains(&args.fps) {
        return Err(Failure::usage(format!("--fps must be from {} to {}", FPS.start(), FPS.end())));
    }
    let (mut env, mut player) = cast(args, registry)?;
    when_asked_to_stop(|_| {
        if STOPPED.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    });
    let shown = args.terminal || (args.out.is_none() && std::io::stdout().is_terminal());
    let mut watcher = Watcher {
        film: args.out.as_deref().map(|path| Film::begin(path, args.fps)).transpose()?,
        screen: shown.then(|| HalfBlocks::new(args.fps)),
        picture: Picture::default(),
        steps_left: args.steps,
        score: 0.0,
        reader_gone: false,
    };
    let mut table = Table::new(&["episode", "steps", "score", "return", "ended"]);
    let mut last_over = true;
    for number in 1..=args.episodes {
        watcher.score = 0.0;
        let episode = player.play(env.as_mut(), |env, step| watcher.see(env, step))?;
        let ended = if episode.over { "by the task" } else { "cut off" };
        table.row(vec![
            json!(number),
            json!(episode.steps),
            json!(episode.score),
            json!(episode.sum),
            json!(ended),
        ]);
        last_over = episode.over;
        if watcher.enough() {
            break;
        }
    }
    let Watcher { film, screen, picture, steps_left, reader_gone, .. } = watcher;
    // Gives the cursor back before anything else is written.
    drop(screen);
    if let (Some(film), Some(path)) = (film, &args.out) {
        let pictures = film.finish()?;
        note!("{}: {pictures} pictures of {} × {}", path.display(), picture.width, picture.height);
    }
    if steps_left == 0 && !last_over {
        note!("stopped after {} steps; --steps allows more", args.steps);
    }
    if !reader_gone {
        table.print(args.table.json)?;
    }
    Ok(if STOPPED.load(Ordering::Relaxed) { INTERRUPTED } else { SUCCESS })
}

/// The task and who plays it.
fn cast(args: &PlayArgs, registry: &Registry) -> Result<(Box<dyn Env>, Player), Failure> {
    let Some(run) = &args.run else {
        let mut config = Configuration::default();
        let Some(task) = &args.task else {
            return Err(Failure::usage(
                "give --task NAME for random play (`spectral tasks` lists them), or --run FOLDER for a trained agent",
            ));
        };
        if let Some(agent) = &args.agent {
            return Err(Failure::usage(format!(
                "--agent {agent} needs --run FOLDER, the run that trained it"
            )));
        }
        if let Some(model) = &args.model {
            return Err(Failure::usage(format!(
                "--model {model} needs --run FOLDER, the run that has kept it"
            )));
        }
        if args.epsilon.is_some() || args.arithmetic != Arithmetic::Fp32 {
            return Err(Failure::usage(
                "--epsilon and --arithmetic are about a trained agent: they need --run FOLDER, the run that trained it",
            ));
        }
        config.add("task", task.clone());
        for (key, value) in args.game.settings() {
            if let Some(value) = value {
                config.add(key, value.clone());
            }
        }
        for pair in &args.set {
            let key = pair.split_once('=').map_or(pair.as_str(), |(key, _)| key).trim();
            if !registry.tasks().iter().any(|task| task.schema().keys().contains(&key)) {
                return Err(Failure::usage(not_of_a_task(key, task, registry)));
            }
            config.set(pair)?;
        }
        config.add("device", "cpu");
        return Ok((registry.resolve(&config)?.make_task()?, Player::random(args.seed)));
    };
    if args.game.settings().iter().any(|(_, value)| value.is_some()) {
        return Err(Failure::usage("a run is played in the mode and difficulty that it was trained in"));
    }
    let (dir, file) = RunDir::open(run, registry)?;
    let agent = agent_number(&file.plan, args.agent.as_deref(), run)?;
    let resolved = registry.resolve_plan(file.plan.with(|run| run.device = DeviceChoice::Cpu))?;
    let choice = args.model.unwrap_or(ModelChoice::Last);
    let model = KeptModel::need(&dir, &resolved, agent, choice)?;
    if choice != ModelChoice::Last || !dir.finished() {
        let id = &resolved.plan.agents[agent].id;
        note!("{id} plays with its {choice} model, of frame {}", count(model.frames));
    }
    let mut player = Player::kept(&resolved, agent, &model, args.epsilon.unwrap_or(EPSILON), args.seed)?;
    if args.arithmetic.rounds(&dir)? {
        player.round_to_bf16();
    }
    Ok((resolved.make_task()?, player))
}

/// Why a setting is refused that no task has: nothing would come of it.
fn not_of_a_task(key: &str, task: &str, registry: &Registry) -> String {
    let keys = registry.task(task).map(|task| task.schema().keys()).unwrap_or_default();
    let hint = match nearest(key, keys.iter().copied()) {
        Some(nearest) => format!("did you mean '{nearest}'?"),
        None if keys.is_empty() => format!("{task} has none"),
        None => format!("{task} has {}", keys.join(", ")),
    };
    format!("--set {key}: `play` takes settings of the task only; {hint}")
}

/// The number of the agent of this id; a run with a single agent needs none to be named.
pub(crate) fn agent_number(plan: &Plan, id: Option<&str>, run: &Path) -> Result<usize, Failure> {
    let ids = || plan.agents.iter().map(|agent| agent.id.as_str());
    let list = || ids().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    let Some(id) = id else {
        return match plan.agents.as_slice() {
            [_] => Ok(0),
            _ => Err(Failure::usage(format!("--agent must say who plays: {} has {}", run.display(), list()))),
        };
    };
    plan.agents.iter().position(|agent| agent.id == id).ok_or_else(|| {
        let hint = match nearest(id, ids()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("its agents are {}", list()),
        };
        Failure::usage(format!("{} has no agent `{id}`; {hint}", run.display()))
    })
}

/// Who looks on: pictures go to the film and to the terminal.
struct Watcher {
    film: Option<Film>,
    screen: Option<HalfBlocks>,
    picture: Picture,
    steps_left: u64,
    /// Plain score of the episode so far.
    score: f64,
    /// Nobody reads standard output any more.
    reader_gone: bool,
}

impl Watcher {
    fn see(&mut self, env: &dyn Env, step: Option<&Step>) -> Result<ControlFlow<()>, Failure> {
        if let Some(step) = step {
            self.steps_left -= 1;
            self.score += step.score;
        }
        if self.film.is_some() || self.screen.is_some() {
            self.draw(env)?;
        }
        Ok(if self.enough() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn enough(&self) -> bool {
        self.steps_left == 0 || self.reader_gone || STOPPED.load(Ordering::Relaxed)
    }

    fn draw(&mut self, env: &dyn Env) -> Result<(), Failure> {
        let name = &env.spec().name;
        if !env.picture(&mut self.picture) {
            return Err(Failure::usage(format!("the task `{name}` has no picture to show")));
        }
        if let Some(film) = &mut self.film {
            film.add(&self.picture)?;
        }
        if let Some(screen) = &mut self.screen {
            match screen.show(&self.picture, &format!("{name}   score {}", self.score)) {
                Err(e) if e.kind() == ErrorKind::BrokenPipe => self.reader_gone = true,
                Err(e) => {
                    return Err(Failure { text: format!("cannot show the picture: {e}"), exit_code: DATA });
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }
}
