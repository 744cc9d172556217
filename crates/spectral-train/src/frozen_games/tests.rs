use super::*;
use crate::config::Configuration;
use crate::registry::Registry;
use spectral_agent::learner::Learner;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_env::{ActionMask, Observation, Step, TaskEntry, TaskSpec};

/// A run with one agent and a model of it. The weights of a fresh network are drawn, but for the last layer, which may be 0.
fn agent(registry: &Registry, pairs: &[&str]) -> (Arc<ResolvedRun>, Vec<u8>) {
    let mut config = Configuration::default();
    for pair in ["agents=clipped", "hidden=8", "device=cpu", "eval_every=100"].iter().chain(pairs) {
        config.set(pair).unwrap();
    }
    let run = registry.resolve(&config).unwrap();
    let plan = &run.plan.agents[0];
    let learner = Learner::new(plan.settings.clone(), run.codecs[0].clone(), &run.task, 5).unwrap();
    let mut model = StateWriter::default();
    learner.save_model(&mut model);
    (Arc::new(run), model.into_bytes())
}

fn request(frame: u64, model: &[u8]) -> Arc<Request> {
    Arc::new(Request { frame, models: vec![("last", model.to_vec())] })
}

fn rows(run: &Arc<ResolvedRun>, request: Arc<Request>) -> Vec<Row> {
    FrozenGames::new(run.clone(), request).unwrap().advance_to_end(&mut || false).unwrap().unwrap()
}

/// What `spectral eval` does, with the streams of these games.
#[test]
fn a_row_is_what_a_player_of_the_same_streams_achieves() {
    for task in ["exponential-pong-mini", "2048", "catch-scale"] {
        let (run, model) =
            agent(&Registry::default(), &[&format!("task={task}"), "eval_games=4", "eval_epsilon=0.1"]);
        let row = rows(&run, request(700, &model))[0];
        let mut env = run.make_task().unwrap();
        let mut seeds = game_seeds(1, 700);
        let mut games = Vec::new();
        for _ in 0..4 {
            let mut player = Player::with_model(&run, 0, &model, 0.1, seeds.next_u64()).unwrap();
            let see = |_: &dyn Env, _: Option<&Step>| Ok::<_, ()>(std::ops::ControlFlow::Continue(()));
            games.push(player.play(env.as_mut(), see).unwrap());
        }
        let sum = |value: fn(&Episode) -> f64| games.iter().map(value).sum::<f64>();
        let (scores, returns, steps) = (sum(|g| g.score), sum(|g| g.sum), sum(|g| g.steps as f64));
        assert_eq!((row.frame, row.model, row.games, row.cut), (700, "last", 4, 0), "{task}");
        assert_eq!(
            [row.score_mean, row.return_mean, row.steps_mean],
            [scores, returns, steps].map(|x| x / 4.0)
        );
        let most = games.iter().map(|g| g.score).fold(f64::MIN, f64::max);
        assert!(row.score_most == most && row.score_least <= row.score_mean, "{row:?}");
    }
}

#[test]
fn pauses_change_nothing_and_other_frames_have_other_games() {
    let (run, model) = agent(&Registry::default(), &["task=pong-mini", "eval_games=3", "eval_epsilon=0.2"]);
    let whole = rows(&run, request(100, &model));
    let mut games = FrozenGames::new(run.clone(), request(100, &model)).unwrap();
    let (mut pauses, mut count) = (0, 0u64);
    let paused = loop {
        let mut pause = || {
            count += 1;
            count.is_multiple_of(7)
        };
        match games.advance(&mut pause).unwrap() {
            Some(rows) => break rows.to_vec(),
            None => pauses += 1,
        }
    };
    assert!(pauses > 10 && paused == whole, "{pauses} pauses: {paused:?}, {whole:?}");
    assert_ne!(rows(&run, request(200, &model))[0].steps_mean, whole[0].steps_mean);
}

#[test]
fn several_models_have_a_row_each_and_those_that_cannot_act_have_none() {
    let (run, model) = agent(&Registry::default(), &["task=catch-scale", "eval_games=5"]);
    let mut broken = model.clone();
    // The numbers follow their count.
    broken[8..12].copy_from_slice(&f32::NAN.to_le_bytes());
    let models = vec![("last", broken.clone()), ("average", model.clone())];
    let found = rows(&run, Arc::new(Request { frame: 100, models }));
    assert_eq!(found.iter().map(|row| row.model).collect::<Vec<_>>(), ["average"]);
    assert_eq!(rows(&run, request(100, &broken)), []);
    // Every model meets the same games.
    assert_eq!(found[0].score_mean, rows(&run, request(100, &model))[0].score_mean);
}

/// A task without an end, of which one action alone is legal at any time; it counts those that were not.
struct Endless {
    spec: TaskSpec,
    steps: u64,
}

impl Env for Endless {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }
    fn reset(&mut self, _: &mut Stream) {
        self.steps = 0;
    }
    fn step(&mut self, action: usize, _: &mut Stream) -> Step {
        assert_eq!(action as u64, self.steps % 3, "an action that is not legal");
        self.steps += 1;
        Step { reward: 1.0, score: 1.0, ..Step::default() }
    }
    fn observe(&self, out: Observation<'_>) {
        let Observation::Vector(out) = out else { unreachable!() };
        out[0] = (self.steps % 5) as f32;
    }
    fn legal_actions(&self, legal: &mut ActionMask) {
        legal.clear();
        legal.allow((self.steps % 3) as usize);
    }
    fn save(&self, out: &mut StateWriter) {
        out.u64(self.steps);
    }
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.steps = from.u64()?;
        Ok(())
    }
}

#[test]
fn a_game_that_never_ends_is_broken_off_and_illegal_actions_are_not_played() {
    let make = || Endless { spec: TaskSpec::vector("endless", 1, &["a", "b", "c"]).masking(), steps: 0 };
    let registry = Registry::default().with_task(TaskEntry::new("endless", "", make)).unwrap();
    let (run, model) = agent(&registry, &["task=endless", "eval_games=2", "eval_epsilon=0.5"]);
    let row = rows(&run, request(100, &model))[0];
    assert_eq!((row.games, row.cut, row.steps_mean), (2, 2, GAME_STEPS as f64));
    assert_eq!((row.score_mean, row.score_least, row.score_most), (27_000.0, 27_000.0, 27_000.0));
}
