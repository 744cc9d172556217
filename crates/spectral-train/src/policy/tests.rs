use super::*;
use crate::claim::Fence;
use crate::config::Configuration;
use crate::store::testing::ScratchDir;
use crate::trainer::Trainer;
use spectral_agent::learner::Learner;
use spectral_agent::replay::Observations;
use spectral_core::bytes::{StateReader, StateWriter};
use spectral_core::rng::{Purpose, Stream};
use spectral_env::Observation;

/// Networks of every kind, on tasks that need no files.
const NETWORKS: [&[&str]; 6] = [
    &["task=catch-scale", "hidden=33,20"],
    &["task=catch-scale", "hidden=300,40", "dueling=true"],
    &["task=catch-scale", "observation=planes"],
    &["task=catch-scale", "observation=planes", "dueling=true"],
    &["task=pong-mini", "observation=pixels"],
    &["task=pong-mini", "observation=pixels", "dueling=true"],
];

fn resolve(settings: &[&str]) -> ResolvedRun {
    let mut config = Configuration::default();
    settings.iter().chain(&["device=cpu"]).for_each(|pair| config.set(pair).unwrap());
    Registry::default().resolve(&config).unwrap()
}

fn all_agents() -> String {
    let registry = Registry::default();
    let names: Vec<String> = registry.agents().into_iter().map(|(_, preset)| preset.name).collect();
    format!("agents={}", names.join(","))
}

/// Weights of order one in every layer, so that values differ, and statistics as they are after training.
fn any_model(run: &ResolvedRun, agent: usize) -> Vec<u8> {
    let description = Description::of(run, agent).unwrap();
    let mut rng = Stream::new(agent as u64, Purpose::Weights, 3);
    let parameters: Vec<f32> =
        (0..description.network().parameters()).map(|_| 0.2 * (rng.unit_f32() - 0.45)).collect();
    let state: Vec<f64> = run.codecs[agent].init().iter().map(|x| x + 3.0 * rng.unit_f64()).collect();
    let mut out = StateWriter::default();
    out.f32s(&parameters);
    out.f64s(&state);
    out.into_bytes()
}

fn fill(observations: &mut Observations, rng: &mut Stream) {
    match observations.all() {
        Observation::Planes(bytes) => bytes.fill_with(|| rng.below(256) as u8),
        Observation::Vector(floats) => floats.fill_with(|| 4.0 * rng.unit_f32() - 2.0),
    }
}

/// The row of a batch, as a batch of one.
fn row(batch: &Observations, row: usize, len: usize) -> Observations {
    match batch {
        Observations::Bytes(bytes) => Observations::Bytes(bytes[row * len..][..len].to_vec()),
        Observations::Floats(floats) => Observations::Floats(floats[row * len..][..len].to_vec()),
    }
}

#[test]
fn a_batch_gives_what_the_learner_sees_to_the_bit() {
    for network in NETWORKS {
        let agents = if network.contains(&"observation=pixels") {
            "agents=spectral,categorical,popart".to_string()
        } else {
            all_agents()
        };
        let run = resolve(&[network, &[agents.as_str(), "replay=200", "batch=8"]].concat());
        for (number, plan) in run.plan.agents.iter().enumerate() {
            let model = any_model(&run, number);
            let mut policy = Policy::from_model(&run, number, 5, &model).unwrap();
            let codec = run.codecs[number].clone();
            let mut learner = Learner::new(plan.settings.clone(), codec, &run.task, 1).unwrap();
            learner.restore_model(&mut StateReader::new(&model)).unwrap();
            let (len, actions) = (policy.observation_len(), run.task.actions.len());
            let mut rng = Stream::new(9, Purpose::Other, 0);
            for count in [1, 2, 7, BATCH, BATCH + 1, 2 * BATCH + 5] {
                let mut batch = Observations::stacked(run.task.observation, count);
                fill(&mut batch, &mut rng);
                let values = policy.q_values(batch.samples()).unwrap();
                let chosen = policy.act(batch.samples(), None).unwrap();
                let outputs = policy.outputs(batch.samples()).unwrap();
                assert_eq!(
                    (values.len(), chosen.len(), outputs.len()),
                    (count * actions, count, count * actions * run.codecs[number].outputs())
                );
                for (index, values) in values.chunks_exact(actions).enumerate() {
                    let (action, value) = learner.act_on(&row(&batch, index, len));
                    let name = format!("{} with {network:?}, row {index} of {count}", plan.id);
                    assert_eq!(chosen[index], action, "{name}");
                    assert_eq!(values[action].to_bits(), value.to_bits(), "{name}: {values:?} {value}");
                    let one = policy.q_values(row(&batch, index, len).samples()).unwrap();
                    assert!(one.iter().zip(values).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}");
                }
            }
        }
    }
}

#[test]
fn masks_leave_the_best_of_what_is_allowed() {
    let run = resolve(&["task=catch-scale", "agents=spectral", "hidden=8"]);
    let mut policy = Policy::from_model(&run, 0, 5, &any_model(&run, 0)).unwrap();
    let mut batch = Observations::stacked(run.task.observation, 50);
    fill(&mut batch, &mut Stream::new(1, Purpose::Other, 0));
    let values = policy.q_values(batch.samples()).unwrap();
    let mut rng = Stream::new(2, Purpose::Other, 0);
    let mut mask: Vec<bool> = (0..150).map(|_| rng.below(2) == 0).collect();
    for row in mask.chunks_exact_mut(3) {
        row[rng.below(3)] = true;
    }
    let chosen = policy.act(batch.samples(), Some(&mask)).unwrap();
    for (row, &action) in chosen.iter().enumerate() {
        assert!(mask[3 * row + action]);
        let best = (0..3).filter(|a| mask[3 * row + a]).map(|a| values[3 * row + a]).fold(f32::MIN, f32::max);
        assert_eq!(values[3 * row + action], best);
    }
    mask[3..6].fill(false);
    let said = policy.act(batch.samples(), Some(&mask)).unwrap_err().to_string();
    assert!(said.contains("row 1 of the mask allows no action"), "{said}");
    let said = policy.act(batch.samples(), Some(&mask[1..])).unwrap_err().to_string();
    assert!(said.contains("149 entries"), "{said}");
    let said = policy.q_values(Samples::Bytes(&[0; 99])).unwrap_err().to_string();
    assert!(said.contains("32-bit floats each"), "{said}");
}

#[test]
fn a_file_alone_is_enough() {
    let dir = ScratchDir::new();
    let path = dir.join("some.safetensors");
    for network in &NETWORKS[..4] {
        let run = resolve(&[*network, &[all_agents().as_str(), "max_frequency=7", "seeds=4..4"]].concat());
        for (number, plan) in run.plan.agents.iter().enumerate() {
            let mut live = Policy::from_model(&run, number, 1234, &any_model(&run, number)).unwrap();
            live.save(&path).unwrap();
            let written = std::fs::read(&path).unwrap();
            let mut read = Policy::load(&path, &Registry::default()).unwrap();
            assert_eq!((read.frames(), read.description().seed), (1234, 4));
            assert_eq!(read.description().agent, plan.agent);
            let mut batch = Observations::stacked(run.task.observation, 3);
            fill(&mut batch, &mut Stream::new(1, Purpose::Other, 0));
            let [a, b] = [&mut live, &mut read].map(|policy| policy.q_values(batch.samples()).unwrap());
            assert!(a.iter().zip(&b).all(|(a, b)| a.to_bits() == b.to_bits()), "{}", plan.id);
            read.save(&path).unwrap();
            assert!(std::fs::read(&path).unwrap() == written, "a copy has the same bytes");
            let model = any_model(&run, number);
            model_file::write(dir.path(), &run, number, 1234, &model, &Fence::default()).unwrap();
            let of_run = std::fs::read(model_file::path_in(dir.path())).unwrap();
            assert!(of_run == written, "and so has what a run writes");
        }
    }
}

#[test]
fn runs_and_their_folders_are_loaded() {
    let dir = ScratchDir::new();
    let short = ["task=catch-scale", "frames=300", "learning_starts=50", "batch=4", "hidden=8", "replay=200"];
    let registry = Registry::default();
    let trained = |name: &str, agents: &str| {
        let run = resolve(&[&short[..], &[agents]].concat());
        let mut trainer = Trainer::create(&dir.join(name), run.clone(), &registry, "test").unwrap();
        trainer.run().unwrap();
        (trainer.dir().clone(), run)
    };
    let (one, run) = trained("one", "agents=popart");
    let mut batch = Observations::stacked(run.task.observation, 3);
    fill(&mut batch, &mut Stream::new(1, Purpose::Other, 0));
    let mut values = Vec::new();
    for policy in [
        Policy::of_run(&one, &run, 0),
        Policy::load(one.path(), &registry),
        Policy::load(&one.agent("popart-s1"), &registry),
        Policy::load(&one.model("popart-s1"), &registry),
    ] {
        let mut policy = policy.unwrap();
        assert_eq!(policy.frames(), 300);
        values.push(policy.q_values(batch.samples()).unwrap());
    }
    assert!(values.iter().all(|other| *other == values[0]));
    let (two, _) = trained("two", "agents=popart,clipped");
    let said = Policy::load(two.path(), &registry).unwrap_err().to_string();
    assert!(said.contains("2 models") && said.contains("clipped-s1"), "{said}");
    let said = Policy::load(&dir.join("none"), &registry).unwrap_err().to_string();
    assert!(said.contains("none"), "{said}");
    let foreign = dir.join("foreign.safetensors");
    std::fs::write(&foreign, b"\x02\0\0\0\0\0\0\0{}").unwrap();
    let said = Policy::load(&foreign, &registry).unwrap_err().to_string();
    assert!(said.contains("lacks 'format'") && said.contains("by itself"), "{said}");
    let lonely = dir.join("model.bin");
    std::fs::write(&lonely, b"x").unwrap();
    let said = Policy::load(&lonely, &registry).unwrap_err().to_string();
    assert!(said.contains("not a run directory"), "{said}");
}
