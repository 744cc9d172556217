use super::description::CODEC_SETTINGS;
use super::*;
use crate::config::Configuration;
use crate::policy::Policy;
use crate::registry::Registry;
use crate::store::testing::ScratchDir;
use spectral_core::rng::{Purpose, Stream};
use spectral_env::{Env, Observation, ObservationSpec, Step, TaskEntry, TaskSpec};
use std::io::{Seek, SeekFrom, Write as _};

/// A task with pictures that are just large enough for the Nature network.
struct Screens(TaskSpec);

impl Env for Screens {
    fn spec(&self) -> &TaskSpec {
        &self.0
    }
    fn reset(&mut self, _: &mut Stream) {}
    fn step(&mut self, _: usize, _: &mut Stream) -> Step {
        Step { terminated: true, ..Step::default() }
    }
    fn observe(&self, out: Observation<'_>) {
        let Observation::Planes(out) = out else { unreachable!() };
        out.fill(0);
    }
}

fn registry() -> Registry {
    let spec = || TaskSpec {
        name: "screens".into(),
        observation: ObservationSpec::Planes { channels: 1, height: 36, width: 40, stack: 2 },
        actions: vec!["left".into(), "a \"quoted\"\n[name], ü".into()],
        frames_per_step: 1,
        max_player_score: 0,
        masks_actions: false,
    };
    Registry::default().with_task(TaskEntry::new("screens", "", move || Screens(spec()))).unwrap()
}

fn resolve(settings: &[&str]) -> ResolvedRun {
    let mut config = Configuration::default();
    settings.iter().chain(&["device=cpu"]).for_each(|pair| config.set(pair).unwrap());
    registry().resolve(&config).unwrap()
}

/// A model as `save_model` writes it, of any finite bits.
fn any_model(run: &ResolvedRun, agent: usize) -> Vec<u8> {
    let network = Description::of(run, agent).unwrap().network().clone();
    let mut rng = Stream::new(agent as u64, Purpose::Weights, 7);
    let mut bits = || (rng.below(1 << 16) << 16 | rng.below(1 << 16)) as u32;
    let special = [0.0, -0.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45];
    let number = |bits: u32| Some(f32::from_bits(bits)).filter(|x| x.is_finite()).unwrap_or(0.5);
    let weight = |i: usize| special.get(i).copied().unwrap_or_else(|| number(bits()));
    let parameters: Vec<f32> = (0..network.parameters()).map(weight).collect();
    let state = run.codecs[agent].init();
    let state: Vec<f64> =
        (0..state.len()).map(|i| (i as f64 + 0.1).powi(40) * [1.0, -1e-300][i % 2]).collect();
    let mut out = StateWriter::default();
    out.f32s(&parameters);
    out.f64s(&state);
    out.into_bytes()
}

/// Changes a model file as another program would: all of it is read and written again.
fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<(String, String)>, &mut Vec<Tensor>)) {
    let mut file = TensorFile::open(path).unwrap();
    let mut metadata = file.metadata().to_vec();
    let entries = file.entries().to_vec();
    let mut tensors = entries.iter().map(|entry| file.read(entry).unwrap()).collect();
    change(&mut metadata, &mut tensors);
    let pairs: Vec<(&str, &str)> = metadata.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let mut out = Vec::new();
    safetensors::write(&mut out, &pairs, &tensors).unwrap();
    std::fs::write(path, out).unwrap();
}

#[test]
fn every_network_and_codec_comes_back_to_the_bit() {
    let names: Vec<String> = registry().agents().into_iter().map(|(_, preset)| preset.name).collect();
    let agents = format!("agents={}", names.join(","));
    let networks: [(&[&str], &str, &str); 5] = [
        (&["task=catch-scale", "hidden=5,4"], "mlp", "hidden.1.weight"),
        (&["task=catch-scale", "observation=planes", "network=mlp", "hidden=5"], "mlp", "head.bias"),
        (&["task=catch-scale", "observation=planes"], "small-cnn", "hidden.1.weight"),
        (&["task=screens", "network=nature"], "nature", "hidden.3.bias"),
        (&["task=screens", "network=nature", "dueling=true"], "nature", "advantage.hidden.weight"),
    ];
    for (settings, network, tensor) in networks {
        let dir = ScratchDir::new();
        let run = resolve(&[settings, &[agents.as_str()]].concat());
        let mut codecs: Vec<&str> = Vec::new();
        for (number, agent) in run.plan.agents.iter().enumerate() {
            let model = any_model(&run, number);
            write(dir.path(), &run, number, 77, &model, &Fence::default()).unwrap();
            let path = path_in(dir.path());
            let found = read(&path, &run, number).unwrap();
            assert!(found == model, "{} with {settings:?}", agent.id);
            let file = TensorFile::open(&path).unwrap();
            assert!(file.entries().iter().any(|entry| entry.name == tensor), "{tensor}: {settings:?}");
            let said = |key: &str| &file.metadata().iter().find(|(k, _)| k == key).unwrap().1;
            assert_eq!((said("network").as_str(), said("codec")), (network, &agent.codec));
            assert_eq!((said("frames").as_str(), said("seed")), ("77", &agent.seed.to_string()));
            codecs.push(&agent.codec);
        }
        let all = registry();
        assert!(all.codecs().iter().all(|codec| codecs.contains(&codec.name())), "{codecs:?}");
    }
}

#[test]
fn metadata_says_what_the_numbers_mean() {
    let dir = ScratchDir::new();
    let run =
        resolve(&["task=screens", "network=nature", "agents=spectral", "seeds=3..3", "max_frequency=4"]);
    write(dir.path(), &run, 0, 12, &any_model(&run, 0), &Fence::default()).unwrap();
    let file = TensorFile::open(&path_in(dir.path())).unwrap();
    let metadata: Vec<(&str, &str)> = file
        .metadata()
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .filter(|(k, _)| *k != CHECKSUM)
        .collect();
    assert_eq!(
        metadata,
        [
            ("format", "spectral-rl 1"),
            ("task", "screens"),
            ("task_settings", ""),
            ("observation", "{\"channels\": 1, \"height\": 36, \"width\": 40, \"stack\": 2}"),
            ("input_scaling", "bytes/255"),
            ("actions", "[\"left\", \"a \\\"quoted\\\"\\n[name], ü\"]"),
            ("agent", "spectral"),
            ("seed", "3"),
            ("codec", "spectral"),
            ("codec_settings", run.plan.agents[0].codec_settings.to_toml().as_str()),
            ("outputs_per_action", "5"),
            ("output_order", "[action][output]"),
            ("discount", "0.99"),
            ("network", "nature"),
            ("hidden", "[32, 64, 64, 512]"),
            ("strides", "[4, 2, 1]"),
            ("dueling", "false"),
            ("frames", "12"),
        ]
    );
    let shapes: Vec<(&str, &[usize])> =
        file.entries().iter().map(|entry| (entry.name.as_str(), &entry.shape[..])).collect();
    assert_eq!(shapes[..2], [("codec_state", &[15][..]), ("hidden.0.weight", &[32, 2, 8, 8])]);
    assert_eq!(
        shapes[7..],
        [
            ("hidden.3.weight", &[512, 64][..]),
            ("hidden.3.bias", &[512]),
            ("head.weight", &[10, 512]),
            ("head.bias", &[10])
        ]
    );
}

#[test]
fn what_does_not_fit_the_run_is_named() {
    let dir = ScratchDir::new();
    let small = ["task=catch-scale", "agents=spectral", "hidden=4", "max_frequency=3"];
    let run = resolve(&small);
    write(dir.path(), &run, 0, 1, &any_model(&run, 0), &Fence::default()).unwrap();
    let path = path_in(dir.path());
    let others: [(&[&str], &[&str]); 7] = [
        (
            &["task=pong-mini"],
            &["its task is 'catch-scale', not 'pong-mini'", "its observation is", "its actions is"],
        ),
        (
            &["agents=popart"],
            &["its codec is 'spectral', not 'popart'", "codec_state is F64 [12], not F64 [5]"],
        ),
        (&["base=3"], &["its codec's base is 2.0, not 3.0"]),
        (
            &["max_frequency=4"],
            &["outputs_per_action is '4', not '5'", "head.weight is F32 [12, 4], not F32 [15, 4]"],
        ),
        (&["hidden=4,4"], &["its hidden is '[4]', not '[4, 4]'", "it has no tensor hidden.1.weight"]),
        (
            &["dueling=true"],
            &["its dueling is 'false'", "it has no tensor value.hidden.weight", "more differences"],
        ),
        (
            &["observation=planes"],
            &["input_scaling is 'none', not 'bytes/255'", "its network is 'mlp', not 'small-cnn'"],
        ),
    ];
    for (settings, words) in others {
        // Pop-Art has no frequencies to set.
        let common = if settings == ["agents=popart"] { &small[..3] } else { &small[..] };
        let other = resolve(&[common, settings].concat());
        let error = read(&path, &other, 0).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        let said = error.to_string();
        assert!(said.contains(NAME), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{settings:?}: {said}");
    }
    // Another reward scale or seed does not change what the numbers mean.
    read(&path, &resolve(&[&small[..], &["reward_scale=7", "seeds=5..5"]].concat()), 0).unwrap();
}

#[test]
fn damaged_and_hostile_models_are_refused_by_name() {
    let dir = ScratchDir::new();
    let run = resolve(&["task=catch-scale", "agents=popart", "hidden=4"]);
    let model = any_model(&run, 0);
    write(dir.path(), &run, 0, 1, &model, &Fence::default()).unwrap();
    let path = path_in(dir.path());
    let whole = std::fs::read(&path).unwrap();
    let refused = |word: &str| {
        let error = read(&path, &run, 0).unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, TrainError::Store(StoreError::Model { .. })), "{said}");
        assert!(said.contains(NAME) && said.contains(word), "{word}: {said}");
        std::fs::write(&path, &whole).unwrap();
    };
    // Whichever bit changes, the file is refused or gives the model that was written.
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let mut put = |at: usize, byte: u8| {
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(&[byte]).unwrap();
    };
    for at in 0..whole.len() {
        put(at, whole[at] ^ 1 << (at % 8));
        match read(&path, &run, 0) {
            Ok(found) => assert!(found == model && at < whole.len() - model.len() + 16, "byte {at}"),
            Err(error) => assert!(error.to_string().contains(NAME), "byte {at}: {error}"),
        }
        put(at, whole[at]);
    }
    type Change = fn(&mut Vec<(String, String)>, &mut Vec<Tensor>);
    let without_checksum = |change: Change| {
        rewrite(&path, |metadata, tensors| {
            metadata.retain(|(key, _)| key != CHECKSUM);
            change(metadata, tensors);
        });
    };
    let changes: [(Change, &str); 10] = [
        (
            |_, t| t[1].bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes()),
            "hidden.0.weight holds a number that is not finite",
        ),
        (
            |_, t| t[4].bytes[4..8].copy_from_slice(&f32::INFINITY.to_le_bytes()),
            "head.bias holds a number that is not finite",
        ),
        (
            |_, t| t[0].bytes[..8].copy_from_slice(&f64::NAN.to_le_bytes()),
            "codec_state holds a number that is not finite",
        ),
        (|_, t| t[1].shape.reverse(), "hidden.0.weight is F32"),
        (|_, t| t[4].name = "x".repeat(1000), "it has no tensor head.bias"),
        (|_, t| t.truncate(1), "it has no tensor hidden.0.weight"),
        (|_, t| t.push(Tensor { name: "more".into(), ..t[4].clone() }), "its tensor more is not expected"),
        (|m, _| m.clear(), "lacks 'format'"),
        (|m, _| m[0].1 = "spectral-rl 2".into(), "its format is 'spectral-rl 2', not 'spectral-rl 1'"),
        (
            |m, _| {
                m.iter_mut().for_each(|(k, v)| {
                    if k == CODEC_SETTINGS {
                        *v = "[".repeat(10_000)
                    }
                })
            },
            "not TOML",
        ),
    ];
    for (change, word) in changes {
        without_checksum(change);
        refused(word);
    }
    // An edit is refused while the checksum is there, and accepted without it.
    rewrite(&path, |_, tensors| tensors[2].bytes[0] ^= 1);
    refused("but its metadata say");
    without_checksum(|_, tensors| tensors[2].bytes[0] ^= 1);
    assert_ne!(read(&path, &run, 0).unwrap(), model);
    std::fs::write(&path, &whole).unwrap();
    // Another program may write it in another order.
    rewrite(&path, |metadata, tensors| {
        metadata.reverse();
        tensors.reverse();
    });
    assert_eq!(read(&path, &run, 0).unwrap(), model);
}

#[test]
fn a_model_that_is_not_finite_is_not_kept() {
    let run = resolve(&["task=catch-scale", "agents=popart", "hidden=4"]);
    let sound = any_model(&run, 0);
    let mut broken = sound.clone();
    let last = broken.len() - 8;
    broken[last..].copy_from_slice(&f64::INFINITY.to_le_bytes());
    let dir = ScratchDir::new();
    std::fs::write(dir.join(LEGACY_NAME), "old").unwrap();
    assert_eq!(path_in(dir.path()), dir.join(LEGACY_NAME));
    write(dir.path(), &run, 0, 1, &sound, &Fence::default()).unwrap();
    assert_eq!(dir.names(), [NAME], "the new one replaces the old one");
    for _ in 0..2 {
        write(dir.path(), &run, 0, 1, &broken, &Fence::default()).unwrap();
        assert!(dir.names().is_empty());
    }
    let missing = read(&path_in(dir.path()), &run, 0).unwrap_err();
    assert!(matches!(missing, TrainError::Store(StoreError::NotFound { .. })), "{missing}");
}

#[test]
fn the_mean_of_weights_says_that_it_is_one() {
    let dir = ScratchDir::new();
    let run = resolve(&["task=catch-scale", "agents=popart", "seeds=1", "average=7000"]);
    let model = any_model(&run, 0);
    write(dir.path(), &run, 0, 12, &model, &Fence::default()).unwrap();
    write_average(dir.path(), &run, 0, 12, Some(&model), &Fence::default()).unwrap();
    let path = average_in(dir.path());
    assert!(read(&path, &run, 0).unwrap() == model);
    let registry = registry();
    let frames = |path: &Path| Model::load(path, &registry).unwrap().average;
    assert_eq!((frames(&path), frames(&path_in(dir.path()))), (Some(7000), None));
    let policy = Policy::load(&path, &registry).unwrap();
    assert_eq!((policy.average(), policy.frames()), (Some(7000), 12));
    let copy = dir.join("copy.safetensors");
    policy.save(&copy).unwrap();
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(&path).unwrap());
    assert_eq!(Policy::load(dir.path(), &registry).unwrap().average(), None, "a folder's model is the last");
    rewrite(&copy, |metadata, _| {
        metadata.retain(|(key, _)| key != CHECKSUM);
        metadata.iter_mut().filter(|(key, _)| key == AVERAGE_FRAMES).for_each(|(_, v)| *v = "many".into());
    });
    let said = Model::load(&copy, &registry).unwrap_err().to_string();
    assert!(said.contains("average_frames"), "{said}");
    // One that could not act is not kept, nor one that is no more.
    let mut broken = StateWriter::default();
    broken.f32s(&vec![f32::NAN; Description::of(&run, 0).unwrap().network().parameters()]);
    broken.f64s(&run.codecs[0].init());
    for gone in [Some(broken.into_bytes()), None] {
        write_average(dir.path(), &run, 0, 12, Some(&model), &Fence::default()).unwrap();
        write_average(dir.path(), &run, 0, 12, gone.as_deref(), &Fence::default()).unwrap();
        assert!(!path.exists());
    }
    assert!(path_in(dir.path()).exists());
}

#[test]
fn a_model_that_was_copied_from_another_agent_or_run_is_not_taken_for_ones_own() {
    let dir = ScratchDir::new();
    let small = ["task=catch-scale", "agents=popart", "hidden=4", "seeds=2"];
    let run = resolve(&small);
    let model = any_model(&run, 1);
    write(dir.path(), &run, 1, 70, &model, &Fence::default()).unwrap();
    let path = path_in(dir.path());
    assert!(read_own(&path, &run, 1, Some(70)).unwrap() == model);
    assert!(read_own(&path, &run, 1, None).unwrap() == model);
    let refused = |run: &ResolvedRun, agent, frames, words: &str| {
        let error = read_own(&path, run, agent, frames).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(&run, 0, None, "this is the model of popart-s2, not of popart-s1");
    refused(&run, 1, Some(80), "a model of frame 70, but the agent ended at frame 80");
    let other = resolve(&[&small[..], &["reward_scale=7"]].concat());
    refused(&other, 1, None, "reward_scale");
    // Files of earlier versions, and of tasks that have got a setting since, say less.
    rewrite(&path, |metadata, _| {
        metadata.retain(|(key, _)| key != CHECKSUM);
        let settings = metadata.iter_mut().find(|(key, _)| key == "task_settings").unwrap();
        settings.1 =
            settings.1.lines().filter(|l| !l.starts_with("reward_scale")).map(|l| format!("{l}\n")).collect();
    });
    assert!(read_own(&path, &other, 1, None).unwrap() == model);
    rewrite(&path, |metadata, _| {
        metadata.retain(|(key, _)| !["agent", "seed", "task_settings"].contains(&key.as_str()))
    });
    assert!(read_own(&path, &run, 0, None).unwrap() == model);
}
