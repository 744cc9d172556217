//! Those who watch see what the agent saw, and the agent does not notice.

use spectral_env::{Env, Observation, ObservationSpec, Picture, Step, Stream, TaskEntry, TaskSpec};
use spectral_nn::Samples;
use spectral_train::config::Configuration;
use spectral_train::glimpse::{Glimpse, GlimpseSlot};
use spectral_train::policy::Policy;
use spectral_train::registry::Registry;
use spectral_train::trainer::Trainer;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Shows noise in stacks of four, ends after 17 steps, and loses a life every 5.
struct Noise {
    spec: TaskSpec,
    plane: [u8; 9],
    steps: u64,
}

impl Noise {
    fn draw(&mut self, rng: &mut Stream) {
        self.plane.fill_with(|| rng.below(256) as u8);
    }
}

impl Env for Noise {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }
    fn reset(&mut self, rng: &mut Stream) {
        self.steps = 0;
        self.draw(rng);
    }
    fn step(&mut self, action: usize, rng: &mut Stream) -> Step {
        self.draw(rng);
        self.steps += 1;
        let (score, life_lost) = (action as f64, self.steps.is_multiple_of(5));
        Step { reward: score, score, terminated: self.steps == 17, life_lost, ..Step::default() }
    }
    fn observe(&self, out: Observation<'_>) {
        out.planes().copy_from_slice(&self.plane);
    }
    fn picture(&self, picture: &mut Picture) -> bool {
        picture.start(3, 3, [0; 3]);
        for (pixel, value) in picture.rgb.chunks_exact_mut(3).zip(self.plane) {
            pixel.fill(value);
        }
        true
    }
}

fn registry() -> Registry {
    let make = || {
        let observation = ObservationSpec::Planes { channels: 1, height: 3, width: 3, stack: 4 };
        Noise { spec: TaskSpec::new("noise", observation, &["a", "b", "c"]), plane: [0; 9], steps: 0 }
    };
    Registry::default().with_task(TaskEntry::new("noise", "noise", make)).unwrap()
}

fn trainer(folder: &Path, settings: &[&str]) -> Trainer {
    let registry = registry();
    let mut config = Configuration::default();
    for pair in settings.iter().chain(&["threads=2", "log_frames=100"]) {
        config.set(pair).unwrap();
    }
    Trainer::create(folder, registry.resolve(&config).unwrap(), &registry, "test").unwrap()
}

/// Trains while another thread asks each agent for everything, all the time. Returns how many glimpses were seen.
fn watched(mut trainer: Trainer, mut see: impl FnMut(&[Glimpse], Option<&mut Policy>) + Send) -> usize {
    let slots: Vec<Arc<GlimpseSlot>> = trainer.show();
    let run = trainer.resolved().clone();
    let (done, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut glimpses = Vec::new();
            let mut policies: Vec<Option<Policy>> = slots.iter().map(|_| None).collect();
            while !done.load(Ordering::Relaxed) {
                for (agent, slot) in slots.iter().enumerate() {
                    slot.ask(6, true);
                    slot.ask_model();
                    if let Some((frames, model)) = slot.take_model() {
                        policies[agent] = Some(Policy::from_model(&run, agent, frames, &model).unwrap());
                    }
                    if slot.take(&mut glimpses) {
                        assert_eq!(glimpses.len(), 6);
                        seen.fetch_add(glimpses.len(), Ordering::Relaxed);
                        see(&glimpses, policies[agent].as_mut());
                    }
                }
                std::thread::yield_now();
            }
        });
        trainer.run().unwrap();
        done.store(true, Ordering::Relaxed);
    });
    seen.into_inner()
}

/// An agent that does not learn acts by the model that watchers have: what they see must lead to what it did.
#[test]
fn what_is_seen_is_what_the_agent_acted_on() {
    for device in ["cpu", "cpu-lockstep"] {
        let (mut greedy, mut explored) = (0, 0);
        for lives in ["true", "false"] {
            let folder = tempfile::tempdir().unwrap();
            let lives = format!("life_loss_terminal={lives}");
            let chosen = format!("device={device}");
            let settings = ["task=noise", "agents=clipped", "seeds=2", "frames=100000", "network=mlp"];
            let never = ["learning_starts=100000", "epsilon_start=0.3", "epsilon_final=0.3", &lives, &chosen];
            let trainer = trainer(&folder.path().join("run"), &[&settings[..], &never].concat());
            watched(trainer, |glimpses, policy| {
                for pair in glimpses.windows(2) {
                    assert_eq!(pair[0].frame + 1, pair[1].frame, "nothing is left out of a sequence");
                }
                for glimpse in glimpses {
                    let Samples::Bytes(stack) = glimpse.stack.samples() else { panic!("planes are bytes") };
                    let drawn: Vec<u8> = glimpse.picture.rgb.chunks_exact(3).map(|pixel| pixel[0]).collect();
                    assert_eq!(&stack[27..], drawn, "the picture is of the newest observation");
                }
                let Some(policy) = policy else { return };
                for glimpse in glimpses {
                    let values = policy.q_values(glimpse.stack.samples()).unwrap();
                    match device {
                        "cpu" => assert_eq!(glimpse.values, values, "the values are those that it acted on"),
                        _ => assert!(glimpse.values.is_empty(), "a device keeps them to itself"),
                    }
                    if glimpse.explored {
                        explored += 1;
                    } else {
                        let best = policy.act(glimpse.stack.samples(), None).unwrap();
                        assert_eq!(
                            best,
                            [glimpse.action],
                            "frame {} with {lives} on {device}",
                            glimpse.frame
                        );
                        greedy += 1;
                    }
                }
            });
        }
        assert!(greedy > 10 && explored > 3, "{greedy} greedy, {explored} explored on {device}");
    }
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for agent in std::fs::read_dir(folder.join("agents")).unwrap().flatten() {
        for name in ["episodes.csv", "metrics.csv", "td_error.csv", "model.safetensors"] {
            if let Ok(bytes) = std::fs::read(agent.path().join(name)) {
                all.push((format!("{}/{name}", agent.file_name().to_string_lossy()), bytes));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn a_watched_run_computes_the_same_bits() {
    for device in ["cpu", "cpu-lockstep"] {
        let folder = tempfile::tempdir().unwrap();
        let device = format!("device={device}");
        let settings =
            ["task=exponential-pong-mini", "agents=spectral,popart", "seeds=2", "frames=4000", &device];
        let alone = folder.path().join("alone");
        trainer(&alone, &settings).run().unwrap();
        let together = folder.path().join("watched");
        let seen = watched(trainer(&together, &settings), |_, _| {});
        assert!(seen > 20, "{seen} glimpses");
        let (alone, together) = (files(&alone), files(&together));
        assert_eq!(alone.len(), 16);
        for ((name, a), (_, b)) in alone.iter().zip(&together) {
            assert!(a == b, "{name} differs on {device}");
        }
    }
}
