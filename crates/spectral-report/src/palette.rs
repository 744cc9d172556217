//! Colours: one per agent, the same in every figure, and legible on white and on dark grey alike.

/// An sRGB colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rgb(pub u8, pub u8, pub u8);

impl Rgb {
    pub(crate) fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// How an agent is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Style {
    pub colour: Rgb,
    /// Dash pattern for agents beyond the eighth, which have to share a colour.
    pub dash: Option<(f64, f64)>,
}

/// After Okabe and Ito's palette for colour-blind readers, moved towards middle lightness so that every entry has a
/// contrast of at least 3:1 both to white and to the report's dark background.
const COLOURS: [Rgb; 8] = [
    Rgb(0x1f, 0x77, 0xc4), // blue
    Rgb(0xd5, 0x5e, 0x00), // vermilion
    Rgb(0x0a, 0x94, 0x72), // bluish green
    Rgb(0xb5, 0x56, 0x9a), // reddish purple
    Rgb(0xb0, 0x7d, 0x00), // ochre
    Rgb(0x2f, 0x9b, 0xbd), // sky
    Rgb(0x7a, 0x7f, 0x87), // grey
    Rgb(0x8b, 0x5a, 0x3c), // brown
];

/// Agents that appear in most reports keep their colour from one report to the next.
const FAMILIAR: [&str; 8] = [
    "spectral",
    "compressed",
    "popart",
    "clipped",
    "categorical",
    "spectral-uniform",
    "spectral-binary",
    "spectral-exponential",
];

/// How an agent is drawn everywhere: its colour as `#rrggbb`, and the dash pattern of its line if it has one.
pub type AgentStyle = (String, Option<(f64, f64)>);

/// How these agents are drawn, in their order.
///
/// ```
/// let styles = spectral_report::agent_styles(&["spectral", "mine"]);
/// assert_eq!(styles[0], ("#1f77c4".to_string(), None));
/// ```
pub fn agent_styles(agents: &[&str]) -> Vec<AgentStyle> {
    let palette = Palette::new(agents);
    let style = |agent: &&str| {
        let Style { colour, dash } = palette.style(agent);
        (colour.hex(), dash)
    };
    agents.iter().map(style).collect()
}

/// Which agent has which colour.
pub(crate) struct Palette(Vec<(String, Style)>);

impl Palette {
    pub(crate) fn new(agents: &[&str]) -> Self {
        let reserved: Vec<usize> =
            FAMILIAR.iter().enumerate().filter(|(_, name)| agents.contains(name)).map(|(k, _)| k).collect();
        let mut free = (0..).filter(|slot| !reserved.contains(slot));
        let mut styles = Vec::new();
        for name in agents {
            let familiar = FAMILIAR.iter().position(|known| known == name);
            let slot = familiar.or_else(|| free.next()).unwrap_or(0);
            let dash = match slot / COLOURS.len() {
                0 => None,
                1 => Some((6.0, 3.0)),
                _ => Some((2.0, 3.0)),
            };
            styles.push(((*name).to_owned(), Style { colour: COLOURS[slot % COLOURS.len()], dash }));
        }
        Self(styles)
    }

    pub(crate) fn style(&self, agent: &str) -> Style {
        let found = self.0.iter().find(|(name, _)| name == agent);
        found.map_or(Style { colour: COLOURS[6], dash: None }, |(_, style)| *style)
    }
}

/// Blue for the lowest score, through purple, to red for the highest, as in the paper's figure 4.
pub(crate) fn score_colour(share: f64) -> Rgb {
    const STOPS: [[f64; 3]; 5] = [
        [36.0, 105.0, 214.0],
        [98.0, 98.0, 214.0],
        [152.0, 84.0, 178.0],
        [196.0, 68.0, 116.0],
        [219.0, 50.0, 47.0],
    ];
    let place = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let below = (place.floor() as usize).min(STOPS.len() - 2);
    let mix = |channel: usize| {
        let (a, b) = (STOPS[below][channel], STOPS[below + 1][channel]);
        (a + (b - a) * (place - below as f64)).round() as u8
    };
    Rgb(mix(0), mix(1), mix(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn luminance(colour: Rgb) -> f64 {
        let linear = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.03928 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(colour.0) + 0.7152 * linear(colour.1) + 0.0722 * linear(colour.2)
    }

    #[test]
    fn every_colour_stands_out_on_both_backgrounds() {
        let dark = luminance(Rgb(0x14, 0x16, 0x1a));
        let ramp = (0..=20).map(|k| score_colour(f64::from(k) / 20.0));
        for colour in COLOURS.into_iter().chain(ramp) {
            let own = luminance(colour);
            assert!(1.05 / (own + 0.05) >= 3.0, "{} on white", colour.hex());
            assert!((own + 0.05) / (dark + 0.05) >= 3.0, "{} on dark", colour.hex());
        }
    }

    #[test]
    fn an_agent_keeps_its_colour_and_no_two_look_alike() {
        let few = Palette::new(&["popart", "mine"]);
        let many = Palette::new(&["mine", "spectral", "compressed", "popart", "clipped", "yours"]);
        assert_eq!(few.style("popart"), many.style("popart"));
        let names: Vec<String> = (0..20).map(|k| format!("agent-{k}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let palette = Palette::new(&names);
        for (k, a) in names.iter().enumerate() {
            for b in &names[..k] {
                assert_ne!(palette.style(a), palette.style(b), "{a} and {b}");
            }
        }
    }
}
