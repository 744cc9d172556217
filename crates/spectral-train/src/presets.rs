//! The agents and protocols that come with Spectral: TOML files of `configs/`, compiled in.

/// A named set of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// The TOML text.
    pub text: &'static str,
}

impl Preset {
    /// The comment that opens the file, on one line.
    pub fn summary(&self) -> String {
        let lines = self.text.lines().take_while(|line| line.starts_with('#'));
        lines.map(|line| line.trim_start_matches(['#', ' '])).collect::<Vec<_>>().join(" ")
    }
}

macro_rules! presets {
    ($folder:literal: $($name:literal),*) => {
        &[$(Preset { name: $name, text: include_str!(concat!("../../../configs/", $folder, "/", $name, ".toml")) }),*]
    };
}

/// Every agent by name.
pub const AGENTS: &[Preset] = presets!("agents":
    "spectral", "spectral-exponential", "spectral-uniform", "spectral-binary",
    "compressed", "compressed-r2d2", "compressed-log", "popart", "clipped",
    "categorical", "categorical-mean", "c51-squashed");

/// Every protocol by name.
pub const PROTOCOLS: &[Preset] = presets!("protocols": "paper", "quick", "machado");

/// Every experiment by name.
pub const EXPERIMENTS: &[Preset] =
    presets!("experiments": "demo-exponential-pong-mini", "demo-ponglantis-mini");

/// The preset of this name.
pub fn find(presets: &'static [Preset], name: &str) -> Option<&'static Preset> {
    presets.iter().find(|p| p.name == name)
}
