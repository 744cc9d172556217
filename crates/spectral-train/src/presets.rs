//! The protocols and experiments that come with Spectral: the TOML files of this crate's `configs/`, compiled in.

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
        opening_comment(self.text)
    }
}

/// The comment that opens a TOML text, on one line.
pub fn opening_comment(text: &str) -> String {
    let lines = text.lines().take_while(|line| line.starts_with('#'));
    lines.map(|line| line.trim_start_matches(['#', ' '])).collect::<Vec<_>>().join(" ")
}

macro_rules! presets {
    ($folder:literal: $($name:literal),*) => {
        &[$(Preset { name: $name, text: include_str!(concat!("../configs/", $folder, "/", $name, ".toml")) }),*]
    };
}

/// Every protocol by name.
pub const PROTOCOLS: &[Preset] = presets!("protocols": "paper", "quick", "quick-atari", "machado");

/// The paper's figures and tables, and ours, by name: what `spectral reproduce` knows.
pub const FIGURES: &[Preset] = presets!("experiments":
    "fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8", "table1", "encoding", "quick",
    "mini-fig1", "mini-fig3", "mini-fig4", "mini-fig5", "mini-fig6", "mini-fig7", "mini-fig8", "mini-encoding",
    "mini-agents", "mini-2048");

/// The two halves of the demo, by name.
pub const EXPERIMENTS: &[Preset] =
    presets!("experiments": "demo-exponential-pong-mini", "demo-ponglantis-mini");

/// The preset of this name.
pub fn find(presets: &'static [Preset], name: &str) -> Option<&'static Preset> {
    presets.iter().find(|p| p.name == name)
}
