//! Agents on a GPU against the same agents on the CPU: the same draws, decisions, statistics, files; numbers up to rounding.

use spectral_agent::average::{Average, ModelKind};
use spectral_agent::codecs::{Codec, configure, test_variants};
use spectral_agent::gpu::{AgentSpec, CudaGroup};
use spectral_agent::learner::{Learner, architecture};
use spectral_agent::lockstep::{CpuGroup, Group, ObservationRef};
use spectral_agent::replay::Outcome;
use spectral_agent::settings::AgentSettings;
use spectral_core::bytes::{StateReader, StateWriter};
use spectral_core::rng::{Purpose, Stream};
use spectral_env::{ActionMask, ObservationSpec, TaskSpec};
use spectral_nn::cuda::{Device, Precision};
use std::io::Write as _;
use std::sync::Arc;

fn device() -> Option<Device> {
    match Device::open(0) {
        Ok(device) => Some(device),
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "NO GPU, not tested: {why}");
            None
        }
    }
}

fn task(observation: ObservationSpec) -> TaskSpec {
    let actions = ["a", "b", "c", "d", "e", "f"].map(String::from).to_vec();
    TaskSpec {
        name: "random".into(),
        observation,
        actions,
        frames_per_step: 4,
        max_player_score: 21,
        masks_actions: false,
    }
}

const ATARI: ObservationSpec = ObservationSpec::Planes { channels: 1, height: 84, width: 84, stack: 4 };

/// Every codec, at defaults and at its main variants.
fn variants() -> Vec<(String, AgentSettings, Arc<dyn Codec>)> {
    test_variants().iter().map(|text| variant(text)).collect()
}

fn variant(text: &str) -> (String, AgentSettings, Arc<dyn Codec>) {
    let (settings, codec) =
        configure(text, AgentSettings { learning_rate: 1e-4, ..Default::default() }).unwrap();
    (text.into(), settings, codec)
}

fn specs(variants: Vec<(String, AgentSettings, Arc<dyn Codec>)>, replay: usize) -> Vec<AgentSpec> {
    let one = |(seed, (_, settings, codec))| AgentSpec {
        settings: AgentSettings { replay, ..settings },
        codec,
        seed,
    };
    (10..).zip(variants).map(one).collect()
}

fn on_cpu(task: &TaskSpec, specs: &[AgentSpec]) -> CpuGroup {
    let learner = |t: &AgentSpec| Learner::new(t.settings.clone(), t.codec.clone(), task, t.seed).unwrap();
    CpuGroup::new(specs.iter().map(learner).collect())
}

/// What environments would say, as a function of agent and step alone.
fn world(task: &TaskSpec, agent: usize, step: u64) -> (Outcome, Vec<u8>, Vec<f32>) {
    let mut rng = Stream::new(agent as u64, Purpose::Other, step);
    let outcome = Outcome {
        action: rng.below(task.actions.len()) as u8,
        reward: if rng.chance(0.3) { (rng.normal() * 20.0) as f32 } else { 0.0 },
        terminal: rng.chance(0.05),
        truncated: false,
        player_score: rng.below(22) as u8,
    };
    let outcome = Outcome { truncated: !outcome.terminal && rng.chance(0.02), ..outcome };
    let len = task.observation.len();
    // Blocks of equal pixels, not noise: nearer to what networks see.
    let shade: Vec<u8> = (0..64).map(|_| rng.below(256) as u8).collect();
    let bytes = (0..len).map(|i| shade[i / 126 % 64]).collect();
    let floats = (0..len).map(|_| rng.normal() as f32 * 0.5).collect();
    (outcome, bytes, floats)
}

/// Which actions the world says are legal, if the task does say: few or many, never none.
fn legal(task: &TaskSpec, agent: usize, step: u64) -> Option<ActionMask> {
    let mut rng = Stream::new(1000 + agent as u64, Purpose::Other, step);
    let mut legal = ActionMask::none();
    let share = rng.unit_f64();
    (0..task.actions.len()).filter(|_| rng.chance(share)).for_each(|action| legal.allow(action));
    legal.allow(rng.below(task.actions.len()));
    task.masks_actions.then_some(legal)
}

fn play(group: &mut dyn Group, task: &TaskSpec, steps: std::ops::Range<u64>) -> Vec<Vec<usize>> {
    let mut decisions = Vec::new();
    for step in steps {
        for agent in 0..group.len() {
            let (_, bytes, floats) = world(task, agent, step);
            let outcome = (step > 0).then(|| world(task, agent, step - 1).0);
            let seen = match task.observation {
                ObservationSpec::Planes { .. } => ObservationRef::Bytes(&bytes),
                ObservationSpec::Vector { .. } => ObservationRef::Floats(&floats),
            };
            group.stage(agent, outcome, Some(seen), legal(task, agent, step).as_ref());
        }
        group.submit(step >= 40 && step % 2 == 0, step % 30 == 0).unwrap();
        let chosen: Vec<usize> = group.wait().unwrap().iter().map(|d| d.action).collect();
        for (agent, &action) in chosen.iter().enumerate() {
            let legal = legal(task, agent, step);
            assert!(legal.is_none_or(|legal| legal.allows(action)), "action {action} of {legal:?}");
        }
        decisions.push(chosen);
    }
    decisions
}

fn saved(group: &mut dyn Group, agent: usize) -> Vec<u8> {
    let mut out = StateWriter::default();
    group.save(agent, &mut out).unwrap();
    out.into_bytes()
}

/// The online parameters of a saved state.
fn parameters(state: &[u8]) -> Vec<f32> {
    StateReader::new(state).f32s().unwrap()
}

fn records(group: &mut dyn Group, agent: usize) -> Vec<u8> {
    let range = group.records(agent);
    let mut out = Vec::new();
    group.get_records(agent, range.start, range.end - range.start, &mut out).unwrap();
    out
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    let sum = |f: &dyn Fn(usize) -> f64| (0..a.len()).map(|i| f(i) * f(i)).sum::<f64>().sqrt();
    sum(&|i| f64::from(a[i]) - f64::from(b[i])) / sum(&|i| f64::from(b[i]))
}

#[test]
fn a_gpu_learns_what_the_cpu_learns() {
    let Some(device) = device() else { return };
    let vectors = ObservationSpec::Vector { len: 18 };
    for (name, task, variants, replay) in [
        ("pixels, all codecs", task(ATARI), variants(), 60),
        ("vectors, all codecs", task(vectors), variants(), 50),
        ("alone", task(ATARI), vec![variant("spectral")], 500),
        ("legal actions, pixels", task(ATARI).masking(), variants(), 60),
        ("legal actions, vectors", task(vectors).masking(), variants(), 50),
    ] {
        let specs = specs(variants, replay);
        // Legal actions stay on the device where observations do not.
        let host_resident = vec![task.masks_actions; specs.len()];
        for (precision, most) in [(Precision::Fp32, 1e-5), (Precision::Tf32, 1e-3), (Precision::Bf16, 5e-3)] {
            let gpu = CudaGroup::with_host_resident(&device, precision, &task, specs.clone(), &host_resident);
            let mut gpu = gpu.unwrap();
            let mut cpu = on_cpu(&task, &specs);
            let a = play(&mut gpu, &task, 0..44);
            let b = play(&mut cpu, &task, 0..44);
            let same = a.iter().flatten().zip(b.iter().flatten()).filter(|(x, y)| x == y).count();
            let all = a.len() * specs.len();
            let mut worst = 0.0f64;
            for agent in 0..specs.len() {
                assert_eq!(records(&mut gpu, agent), records(&mut cpu, agent), "{name}: replay");
                assert_eq!(gpu.updates(agent).unwrap(), cpu.updates(agent).unwrap(), "{name}: updates");
                assert_eq!(gpu.metric_columns(agent), cpu.metric_columns(agent));
                let (x, y) = (saved(&mut gpu, agent), saved(&mut cpu, agent));
                assert_eq!(x.len(), y.len(), "{name}: saved state");
                worst = worst.max(distance(&parameters(&x), &parameters(&y)));
                let metrics = gpu.drain_metrics(agent).unwrap();
                for (m, n) in metrics.iter().zip(cpu.drain_metrics(agent).unwrap()) {
                    assert_eq!(m.is_some(), n.is_some(), "{name}");
                    if let (Some(m), Some(n)) = (m, n) {
                        let bound = if precision == Precision::Fp32 { 1e-4 } else { 0.2 };
                        assert!(
                            (m - n).abs() <= bound * (1.0 + n.abs()),
                            "{name} {precision:?}: {m} and {n}"
                        );
                    }
                }
                let (s, t) = (gpu.td_by_score(agent).unwrap(), cpu.td_by_score(agent).unwrap());
                assert_eq!(s.len(), t.len());
            }
            println!(
                "{name:<20} {:<5} parameters {worst:.1e}, {same} of {all} decisions equal",
                precision.name()
            );
            assert!(worst < most, "{name} {precision:?}: {worst}");
            assert!(precision != Precision::Fp32 || same + all / 20 >= all, "{name}: {same} of {all}");
        }
    }
}

#[test]
fn a_gpu_repeats_itself_and_resumes() {
    let Some(device) = device() else { return };
    let specs = specs(variants(), 60);
    for (precision, task) in [
        (Precision::Fp32, task(ATARI)),
        (Precision::Tf32, task(ATARI)),
        (Precision::Bf16, task(ATARI)),
        (Precision::Bf16, task(ATARI).masking()),
    ] {
        let make = || CudaGroup::new(&device, precision, &task, specs.clone()).unwrap();
        let (mut first, mut second) = (make(), make());
        let a = play(&mut first, &task, 0..120);
        let b = play(&mut second, &task, 0..70);
        assert_eq!(a[..70], b[..]);
        // To a third group, through bytes, and on to the same end.
        let mut third = make();
        let outcomes: Vec<_> = (0..specs.len()).map(|agent| (agent, world(&task, agent, 69).0)).collect();
        second.flush(&outcomes).unwrap();
        for agent in 0..specs.len() {
            let state = saved(&mut second, agent);
            third.restore(agent, &mut StateReader::new(&state)).unwrap();
            let range = second.records(agent);
            let bytes = records(&mut second, agent);
            third.put_records(agent, range.start, range.end - range.start, &bytes).unwrap();
            assert_eq!(saved(&mut third, agent), state, "{precision:?}: restored");
        }
        for agent in 0..specs.len() {
            let (seen, legal) = (world(&task, agent, 70).1, legal(&task, agent, 70));
            third.stage(agent, None, Some(ObservationRef::Bytes(&seen)), legal.as_ref());
        }
        third.submit(true, false).unwrap();
        third.wait().unwrap();
        let c = play(&mut third, &task, 71..120);
        assert_eq!(a[71..], c[..], "{precision:?}: decisions after resuming");
        for agent in 0..specs.len() {
            assert_eq!(saved(&mut first, agent), saved(&mut third, agent), "{precision:?}: after resuming");
        }
    }
}

/// Means of a group whose target networks are refreshed at steps 60, 90 and so on: what mixing the targets in saved states gives.
#[test]
fn means_of_weights_are_those_of_the_targets_to_the_bit() {
    let Some(device) = device() else { return };
    for (task, dueling) in [(task(ATARI), false), (task(ATARI), true)] {
        let keeps = |(number, mut spec): (usize, AgentSpec)| {
            spec.settings.dueling = dueling;
            // One agent keeps none.
            spec.settings.average = if number == 1 { 0 } else { 100_000 };
            spec
        };
        let specs: Vec<AgentSpec> = specs(variants(), 60).into_iter().enumerate().map(keeps).collect();
        let none = |spec: &AgentSpec| AgentSpec {
            settings: AgentSettings { average: 0, ..spec.settings.clone() },
            ..spec.clone()
        };
        let make =
            |specs: &[AgentSpec]| CudaGroup::new(&device, Precision::Bf16, &task, specs.to_vec()).unwrap();
        let mut group = make(&specs);
        let mut without = make(&specs.iter().map(none).collect::<Vec<_>>());
        let mean = |spec: &AgentSpec| {
            let shape = architecture(&spec.settings, &task, spec.codec.as_ref()).unwrap();
            Average::of(&spec.settings, spec.codec.clone(), shape)
        };
        let mut expected: Vec<Option<Average>> = specs.iter().map(mean).collect();
        let model = |group: &mut CudaGroup, agent: usize| {
            let mut out = StateWriter::default();
            group.save_model(agent, ModelKind::Average, &mut out).unwrap().then(|| out.into_bytes())
        };
        for steps in [0..1, 1..31, 31..61, 61..91, 91..121, 121..151] {
            play(&mut group, &task, steps.clone());
            play(&mut without, &task, steps.clone());
            for (agent, expected) in expected.iter_mut().enumerate() {
                let state = saved(&mut group, agent);
                assert_eq!(state, saved(&mut without, agent), "training is the same without means");
                let mut from = StateReader::new(&state);
                let (_, _) = (from.f32s().unwrap(), from.f64s().unwrap());
                let (target, frozen) = (from.f32s().unwrap(), from.f64s().unwrap());
                let (_, _) = (from.f32s().unwrap(), from.f32s().unwrap());
                let (_, updates) = (from.u64().unwrap(), from.u64().unwrap());
                let wanted = expected.as_mut().and_then(|expected| {
                    expected.refreshed(updates, &target, &frozen);
                    let mut out = StateWriter::default();
                    expected.save_model(&mut out).then(|| out.into_bytes())
                });
                assert_eq!(wanted.is_some(), agent != 1 && steps.end > 40);
                assert!(model(&mut group, agent) == wanted, "dueling {dueling}, agent {agent}, {steps:?}");
            }
        }
        // Through bytes to another group: `restore` forgets the mean, `restore_average` brings it back.
        let mut other = make(&specs);
        for agent in 0..specs.len() {
            let state = saved(&mut group, agent);
            let mut out = StateWriter::default();
            let kept = group.save_average(agent, &mut out).unwrap();
            assert_eq!(kept, agent != 1);
            let bytes = out.into_bytes();
            for _ in 0..2 {
                other.restore(agent, &mut StateReader::new(&state)).unwrap();
                assert!(model(&mut other, agent).is_none());
                let restored = other.restore_average(agent, &mut StateReader::new(&bytes));
                assert_eq!(restored.is_ok(), kept);
            }
            assert!(model(&mut other, agent) == model(&mut group, agent));
        }
    }
}

#[test]
fn an_agent_that_is_not_finite_stops_alone() {
    let Some(device) = device() else { return };
    let task = task(ATARI);
    let variants = ["compressed learning_rate=1e30", "spectral"].map(variant);
    let specs = specs(variants.to_vec(), 200);
    let mut group = CudaGroup::new(&device, Precision::Bf16, &task, specs).unwrap();
    play(&mut group, &task, 0..100);
    let decisions = group.wait().unwrap().to_vec();
    assert!(decisions[0].not_finite.is_some() && decisions[1].not_finite.is_none(), "{decisions:?}");
    assert!(group.updates(0).unwrap() < group.updates(1).unwrap());
    assert!(parameters(&saved(&mut group, 1)).iter().all(|x| x.is_finite()));
}

#[test]
fn what_a_gpu_cannot_do_is_refused() {
    let Some(device) = device() else { return };
    let task = task(ATARI);
    for texts in [["spectral batch=32", "spectral batch=16"], ["spectral", "spectral dueling=true"]] {
        let mixed = specs(texts.map(variant).to_vec(), 100);
        let error = CudaGroup::new(&device, Precision::Bf16, &task, mixed).err().unwrap();
        assert!(error.0.contains("share") && error.0.contains("--device cpu"), "{error}");
    }
    // More than the device and the machine have together.
    let huge = specs(vec![variant("clipped")], 1 << 28);
    let error = CudaGroup::new(&device, Precision::Bf16, &task, huge).err().unwrap();
    assert!(error.0.contains("replay"), "{error}");
}
