//! A value codec of your own, with a setting of its own and GPU code, against a built-in one:
//! `cargo run --release -p spectral-rl --example own_codec` (a number after `--` changes the frames).
//!
//! The idea tried here: let the network learn the square root of the value, as DQN+TC does, with a knee that can be set:
//! below it the codec is nearly linear, above it a square root. Everything else (replay, exploration, targets, optimiser,
//! checkpoints, metrics) belongs to the learner and the trainer, and stays as it is.

use spectral_rl::agent::codecs::squared_error_gradient;
use spectral_rl::prelude::*;
use std::sync::Arc;

spectral_rl::settings! {
    /// Settings of the codec: a TOML key, a `--set` key and a line of run.toml.
    RootSettings {
        /// The value around which the codec turns from a line into a square root.
        knee: f64 = 1.0,
    }
}

/// The network's single output per action is sign(v)·(√(|v|/knee + 1) − 1).
#[derive(Debug)]
struct Root {
    knee: f32,
}

/// The codec as the registry knows it: its name, its settings, how it is built, and the variants that tests run.
fn root() -> CodecEntry {
    CodecEntry::new("root", "square roots with a knee", |settings: &RootSettings, _| {
        if settings.knee <= 0.0 {
            return Err(SettingError::bad("knee", settings.knee.show(), "a number above 0"));
        }
        Ok(Arc::new(Root { knee: settings.knee as f32 }))
    })
    .variants(&["knee=30"])
}

impl Codec for Root {
    fn outputs(&self) -> usize {
        1
    }

    /// Raw rewards add up to an n-step return; `factor` is the discount to the power of the step.
    fn encode_reward(&self, reward: f32, factor: f32, out: &mut [f32]) {
        out[0] += factor * reward;
    }

    /// What the learner compares actions by, in reward units.
    fn decode(&self, outputs: &[f32], _state: &[f64]) -> f32 {
        let root = outputs[0].abs() + 1.0;
        let value = self.knee * (root * root - 1.0);
        if outputs[0] < 0.0 { -value } else { value }
    }

    /// Bootstrapping happens in reward units; only the sum is squashed. `bootstrap` is 0 after a terminal state.
    fn target(&self, encoded: &[f32], bootstrap: f32, next: &[f32], frozen: &[f64], out: &mut [f32]) {
        let value = encoded[0] + bootstrap * self.decode(next, frozen);
        let root = (value.abs() / self.knee + 1.0).sqrt() - 1.0;
        out[0] = if value < 0.0 { -root } else { root };
    }

    /// Squared error; the hidden layers see the same gradient as the last one.
    fn gradient(&self, rows: &Rows<'_>, _state: &mut [f64], gradients: &mut [f32], trunk: &mut [f32]) {
        squared_error_gradient(rows, gradients);
        trunk.fill(1.0);
    }

    /// The same formulas for a GPU. The test below compares the two.
    fn device(&self) -> Option<DeviceCodec> {
        Some(DeviceCodec { name: "Root", source: ON_A_GPU, constants: vec![self.knee.into()] })
    }
}

const ON_A_GPU: &str = r"
struct Root : CodecDefaults<Root> {
    static __device__ void encode(const Agent&, float reward, float factor, float* out) {
        if (lane() == 0) out[0] += factor * reward;
    }
    static __device__ float decode(const Agent& agent, const float* outputs, const double*) {
        const float root = fabsf(outputs[0]) + 1.0f;
        const float value = (float)agent.codec[0] * (root * root - 1.0f);
        return outputs[0] < 0.0f ? -value : value;
    }
    static __device__ void target(const Agent& agent, const float* encoded, float bootstrap, const float* next,
                                  float* out) {
        if (lane() != 0) return;
        const float value = encoded[0] + bootstrap * decode(agent, next, agent.frozen);
        const float root = sqrtf(fabsf(value) / (float)agent.codec[0] + 1.0f) - 1.0f;
        out[0] = value < 0.0f ? -root : root;
    }
};
";

fn main() -> Result<()> {
    let frames = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(6_000);
    let path = std::env::temp_dir().join(format!("spectral-own-codec-{}", std::process::id()));
    println!("training in {}", path.display());
    let run = Run::task("pong-mini")
        .codec(root())
        .agents(["compressed", "root"])
        .seeds(1..=2)
        .set(|s| (s.epsilon_frames, s.learning_starts, s.update_period) = (2_000, 500, 1))
        .option("agent.root.knee", 2.0)
        .frames(frames)
        .dir(&path)
        .train()?;
    println!("scores run from -21 to 21; 20 games each:");
    for agent in run.agents() {
        println!("  {agent:<16}{:>6.1}", agent.evaluate_with(20, 0.001)?.mean());
    }
    println!("two seeds and a short run show that it works, not which is better");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use spectral_rl::testing::compare_device_code;

    #[test]
    fn a_value_that_is_its_own_target_gets_no_gradient() {
        let codec = Root { knee: 2.0 };
        for value in [-1e6f32, -3.0, 0.0, 0.5, 2e4] {
            // A terminal transition whose reward is the value that the network predicts.
            let mut output = [0.0];
            codec.target(&[value], 0.0, &[0.0], &[], &mut output);
            assert!((codec.decode(&output, &[]) - value).abs() <= 1e-5 * value.abs());
            let (mut gradient, mut trunk) = ([1.0], [0.0]);
            let rows = Rows { outputs: &output, targets: &output, returns: &[value], live: &[true] };
            codec.gradient(&rows, &mut [], &mut gradient, &mut trunk);
            assert_eq!((gradient[0], trunk[0]), (0.0, 1.0));
        }
    }

    /// Every variant in Rust against its CUDA source, on a CPU: a C++ compiler takes the place of a GPU. Both must agree to the
    /// bit, so use operations that are exact or the same on both sides: + − · / and sqrt are; of Rust's functions `exp` and
    /// `ln` are those of C, `asinh` and others are not. A setting that no variant changes is not tested.
    #[test]
    fn the_gpu_code_says_the_same() {
        for (name, text) in root().test_variants() {
            let (settings, codec) = root().configure(AgentSettings::default(), &text).unwrap();
            let comparison = compare_device_code(&settings, codec).unwrap_or_else(|e| panic!("{name}: {e}"));
            eprintln!("{name}: {comparison}");
        }
    }

    #[test]
    fn a_knee_that_makes_no_sense_is_refused() {
        let said = root().configure(AgentSettings::default(), "knee=-1").unwrap_err().to_string();
        assert!(said.contains("knee"), "{said}");
    }

    /// First class: named in a run, with its own setting in run.toml, trained, resumed, evaluated, reported.
    #[test]
    fn it_is_trained_like_a_built_in_one() {
        let folder = tempfile::tempdir().unwrap();
        let run = |frames| {
            let set = |s: &mut AgentSettings| (s.hidden, s.learning_starts) = ("8".into(), 50);
            let run = Run::task("catch-scale").codec(root()).agents(["root", "clipped"]).set(set);
            run.option("knee", 7.5).frames(frames).dir(folder.path().join("run")).train().unwrap()
        };
        run(100);
        let run = run(200);
        let text = std::fs::read_to_string(run.dir().join("run.toml")).unwrap();
        assert!(text.contains("codec = \"root\"") && text.contains("knee = 7.5"), "{text}");
        assert!(run.agents().all(|agent| agent.evaluate(2).is_ok_and(|games| games.mean().is_finite())));
        run.report(folder.path().join("report")).unwrap();
        assert!(folder.path().join("report/report.html").exists());
    }
}
