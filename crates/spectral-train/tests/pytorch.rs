//! Models against PyTorch: the program in `docs/RUN_DIRECTORY.md` loads them and computes what our networks compute.

use spectral_agent::learner::architecture;
use spectral_core::bytes::StateReader;
use spectral_core::rng::{Purpose, Stream};
use spectral_nn::{Cpu, Input, Network, Samples, Which};
use spectral_train::config::Configuration;
use spectral_train::model_file;
use spectral_train::registry::Registry;
use spectral_train::resolve::ResolvedRun;
use spectral_train::trainer::Trainer;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const BATCH: usize = 16;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The one program in a page of the documentation.
fn program(page: &Path) -> String {
    let text = std::fs::read_to_string(page).unwrap();
    let mut blocks = text.split("```python\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let block = blocks.next().expect("the page has a program");
    assert!(blocks.next().is_none(), "{} has two programs", page.display());
    block.into()
}

fn run(python: &str, arguments: &[&Path]) -> String {
    let output = Command::new(python).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{python} cannot be run: {error}"));
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}:\n{said}");
    said.into_owned()
}

/// A trained agent.
struct Trained {
    /// Where its model, samples and outputs lie.
    folder: PathBuf,
    /// Its model as it was read.
    model: Vec<u8>,
    run: ResolvedRun,
}

/// Trains one agent for a few updates.
fn train(folder: PathBuf, settings: &[&str]) -> Trained {
    let mut config = Configuration::default();
    let short =
        ["frames=160", "learning_starts=40", "update_period=4", "batch=8", "replay=200", "device=cpu"];
    for pair in short.iter().chain(settings) {
        config.set(pair).unwrap();
    }
    let registry = Registry::default();
    let resolved = registry.resolve(&config).unwrap();
    let mut trainer = Trainer::create(&folder.join("run"), resolved.clone(), &registry, "test").unwrap();
    trainer.run().unwrap();
    let agent = &resolved.plan.agents[0];
    let path = folder.join("model.safetensors");
    std::fs::copy(trainer.dir().model(&agent.id), &path).unwrap();
    let model = model_file::read(&path, &resolved, 0).unwrap();

    let shape = architecture(&agent.settings, &resolved.task, resolved.codecs[0].as_ref()).unwrap();
    let mut network = Network::new(Cpu::new(), shape.clone(), 1, BATCH).unwrap();
    StateReader::new(&model).f32s_into(network.parameters_mut(Which::Online, 0)).unwrap();
    let mut rng = Stream::new(5, Purpose::Environment, 0);
    let count = BATCH * shape.input.len();
    let (samples, outputs) = if matches!(shape.input, Input::Planes { .. }) {
        let bytes: Vec<u8> = (0..count).map(|_| rng.below(256) as u8).collect();
        let outputs = network.forward(Which::Online, Samples::Bytes(&bytes), BATCH).to_vec();
        (bytes, outputs)
    } else {
        let floats: Vec<f32> = (0..count).map(|_| 2.0 * rng.unit_f32() - 1.0).collect();
        let outputs = network.forward(Which::Online, Samples::Floats(&floats), BATCH).to_vec();
        (floats.iter().flat_map(|x| x.to_le_bytes()).collect(), outputs)
    };
    std::fs::write(folder.join("samples.bin"), samples).unwrap();
    let outputs: Vec<u8> = outputs.iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(folder.join("outputs.bin"), outputs).unwrap();
    Trained { folder, model, run: resolved }
}

#[test]
fn pytorch_computes_what_our_networks_compute() {
    if std::env::var("SPECTRAL_ORACLES").as_deref() != Ok("1") {
        // Not eprintln!, whose words libtest swallows when a test passes.
        let skipped = "SKIPPED: comparison of models with PyTorch; set SPECTRAL_ORACLES=1 to run it";
        let _ = writeln!(std::io::stderr(), "{skipped}");
        return;
    }
    let root = std::env::temp_dir().join(format!("spectral-pytorch-{}", std::process::id()));
    let networks: [(&str, &[&str]); 6] = [
        ("mlp", &["task=catch-scale", "agents=spectral", "hidden=16,12", "learning_rate=0.01"]),
        ("mlp-dueling", &["task=catch-scale", "agents=popart", "hidden=16,12", "dueling=true"]),
        (
            "mlp-on-planes",
            &["task=pong-mini", "observation=planes", "agents=compressed", "network=mlp", "hidden=20"],
        ),
        ("small-cnn", &["task=pong-mini", "observation=planes", "agents=categorical", "atoms=21"]),
        ("small-cnn-dueling", &["task=pong-mini", "observation=planes", "agents=clipped", "dueling=true"]),
        ("nature", &["task=pong-mini", "observation=pixels", "agents=compressed"]),
    ];
    let trained: Vec<Trained> =
        networks.iter().map(|(name, settings)| train(root.join(name), settings)).collect();
    let weights = root.join("weights.py");
    std::fs::write(&weights, program(&here("../../docs/RUN_DIRECTORY.md"))).unwrap();
    let python = std::env::var("SPECTRAL_PYTHON").unwrap_or_else(|_| "python3".into());

    let compare = here("tests/pytorch/compare.py");
    let mut arguments: Vec<&Path> = vec![&compare, &weights];
    arguments.extend(trained.iter().map(|trained| trained.folder.as_path()));
    let said = run(&python, &arguments);
    print!("{said}");
    assert_eq!(said.matches("differ by").count(), networks.len(), "{said}");
    for Trained { folder, model, run } in &trained {
        let again = model_file::read(&folder.join("again.safetensors"), run, 0).unwrap();
        assert!(again == *model, "{folder:?}: not the same when Python writes it");
    }
    // The documentation's program as its reader runs it.
    let said = run(&python, &[&weights, &trained[0].folder.join("model.safetensors")]);
    assert!(said.contains("Linear") && said.contains("left"), "{said}");
    let said = run(&python, &[&weights, &trained[5].folder.join("model.safetensors")]);
    assert!(said.contains("Conv2d(4, 32, kernel_size=(8, 8), stride=(4, 4))"), "{said}");
    std::fs::remove_dir_all(&root).unwrap();
}
