//! Settings: declared once, with their documentation and default, and everything else follows from that: the keys of
//! a TOML file, what `--set` accepts, what a run directory records, what `spectral agents --settings` prints.

use spectral_env::nearest;

/// A key or a value that is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// No setting has this name.
    UnknownKey {
        /// What was written.
        key: String,
        /// The valid name closest to it.
        nearest: Option<String>,
    },
    /// The setting exists and the value does not fit it.
    BadValue {
        /// The setting.
        key: String,
        /// What was written.
        value: String,
        /// What would have been right.
        expected: String,
    },
}

impl SettingError {
    /// The error for a key that is not among `keys`.
    pub fn unknown<'a>(key: &str, keys: impl IntoIterator<Item = &'a str>) -> Self {
        let keys: Vec<&str> = keys.into_iter().collect();
        SettingError::UnknownKey {
            key: key.into(),
            nearest: nearest(key, keys.iter().copied()).map(String::from),
        }
    }

    /// The error for a value that does not fit its key.
    pub fn bad(key: &str, value: impl Into<String>, expected: impl Into<String>) -> Self {
        SettingError::BadValue { key: key.into(), value: value.into(), expected: expected.into() }
    }
}

impl std::fmt::Display for SettingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SettingError::UnknownKey { key, nearest: Some(nearest) } => {
                write!(f, "there is no setting '{key}'; did you mean '{nearest}'?")
            }
            SettingError::UnknownKey { key, nearest: None } => {
                write!(f, "there is no setting '{key}'; `spectral agents --settings` lists them")
            }
            SettingError::BadValue { key, value, expected } => {
                write!(f, "setting '{key}' cannot be '{value}': expected {expected}")
            }
        }
    }
}

impl std::error::Error for SettingError {}

/// A type that a setting can have.
pub trait Setting: Sized {
    /// Reads what a user wrote; the error says what was expected.
    fn parse(text: &str) -> Result<Self, String>;
    /// Writes it so that [`parse`](Setting::parse) reads it back exactly.
    fn show(&self) -> String;
    /// What values there are, for help texts.
    fn kind() -> String;
    /// True if TOML writes it in quotes.
    fn quoted() -> bool {
        false
    }
}

macro_rules! number_setting {
    ($($type:ty: $kind:literal),*) => {
        $(impl Setting for $type {
            fn parse(text: &str) -> Result<Self, String> {
                text.replace('_', "").parse().map_err(|_| $kind.to_string())
            }
            fn show(&self) -> String {
                self.to_string()
            }
            fn kind() -> String {
                $kind.into()
            }
        })*
    };
}

number_setting!(u64: "a whole number", usize: "a whole number");

impl Setting for f64 {
    fn parse(text: &str) -> Result<Self, String> {
        match text.replace('_', "").parse::<f64>() {
            Ok(x) if x.is_finite() => Ok(x),
            _ => Err("a finite number".into()),
        }
    }
    fn show(&self) -> String {
        format!("{self:?}")
    }
    fn kind() -> String {
        "a number".into()
    }
}

impl Setting for bool {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "true or false".to_string())
    }
    fn show(&self) -> String {
        self.to_string()
    }
    fn kind() -> String {
        "true or false".into()
    }
}

impl Setting for String {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }
    fn show(&self) -> String {
        self.clone()
    }
    fn kind() -> String {
        "text".into()
    }
    fn quoted() -> bool {
        true
    }
}

/// One row of a settings table: what help texts print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingInfo {
    /// The key.
    pub key: &'static str,
    /// What it does.
    pub doc: String,
    /// What values there are.
    pub kind: String,
    /// The default.
    pub default: String,
}

/// Declares an enumeration that is a setting: each choice with its name in files and flags.
#[macro_export]
macro_rules! choices {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vmeta])* $variant),* }

        impl $crate::settings::Setting for $name {
            fn parse(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok($name::$variant),)*
                    _ => Err(Self::kind()),
                }
            }
            fn show(&self) -> String {
                match self { $($name::$variant => $text.into()),* }
            }
            fn kind() -> String {
                [$($text),*].join(" | ")
            }
            fn quoted() -> bool { true }
        }
    };
}

/// Declares a struct of settings: fields with documentation, type and default.
#[macro_export]
macro_rules! settings {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $($(#[doc = $doc])+ pub $field: $type),* }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default),* }
            }
        }

        impl $name {
            /// Every key, in order.
            pub const KEYS: &[&str] = &[$(stringify!($field)),*];

            /// Sets one setting from text.
            pub fn set(&mut self, key: &str, value: &str) -> Result<(), $crate::settings::SettingError> {
                match key {
                    $(stringify!($field) => {
                        self.$field = <$type as $crate::settings::Setting>::parse(value)
                            .map_err(|expected| $crate::settings::SettingError::bad(key, value, expected))?;
                    })*
                    _ => return Err($crate::settings::SettingError::unknown(key, Self::KEYS.iter().copied())),
                }
                Ok(())
            }

            /// Every setting as `key = value` lines of TOML.
            pub fn to_toml(&self) -> String {
                let mut text = String::new();
                $(
                    let value = <$type as $crate::settings::Setting>::show(&self.$field);
                    let quote = if <$type as $crate::settings::Setting>::quoted() { "\"" } else { "" };
                    text.push_str(&format!("{} = {quote}{value}{quote}\n", stringify!($field)));
                )*
                text
            }

            /// Documentation, kind and default of every setting.
            pub fn table() -> Vec<$crate::settings::SettingInfo> {
                let defaults = Self::default();
                vec![$($crate::settings::SettingInfo {
                    key: stringify!($field),
                    doc: [$($doc),+].map(str::trim).join(" "),
                    kind: <$type as $crate::settings::Setting>::kind(),
                    default: <$type as $crate::settings::Setting>::show(&defaults.$field),
                }),*]
            }
        }
    };
}

choices! {
    /// How rewards become targets and outputs become action-values.
    CodecKind {
        /// DQN: rewards clipped to ±1.
        Clipped = "clipped",
        /// DQN+TC: targets squashed.
        Compressed = "compressed",
        /// Targets normalised, outputs preserved.
        Popart = "popart",
        /// One bounded value per bucket of the reward.
        Spectral = "spectral",
        /// A distribution over a squashed support.
        Categorical = "categorical",
    }
}

choices! {
    /// How a reward is spread over frequencies.
    EncodingKind {
        /// Buckets filled from below: the paper's.
        Thermometer = "thermometer",
        /// Binary digits: the paper's counter-example.
        Binary = "binary",
    }
}

choices! {
    /// How the frequencies' losses are weighted in the hidden layers.
    WeightKind {
        /// 1/σᵢ²: the method.
        Variance = "variance",
        /// bⁱ: the paper's first ablation.
        Exponential = "exponential",
        /// 1: the paper's second ablation.
        Uniform = "uniform",
    }
}

choices! {
    /// The squashing function of target compression.
    TransformKind {
        /// sign(x)(√(|x|+1) − 1) + εx.
        Sqrt = "sqrt",
        /// sign(x) ln(|x|+1) + εx.
        Log = "log",
    }
}

choices! {
    /// The space in which a categorical agent's atoms are evenly spaced.
    SupportKind {
        /// sign(x)(√(|x|+1) − 1) + εx.
        Sqrt = "sqrt",
        /// sign(x) ln(|x|+1).
        Symlog = "symlog",
    }
}

choices! {
    /// How a categorical agent makes its target distribution.
    TargetKind {
        /// The next state's distribution, shifted, shrunk and projected onto the atoms (C51).
        Projection = "projection",
        /// A Gaussian around the scalar target, cut into bins (HL-Gauss).
        HlGauss = "hl-gauss",
    }
}

choices! {
    /// How a categorical agent reads a value out of its distribution.
    ReadoutKind {
        /// The mean of the atoms' values: exact expectations.
        Mean = "mean",
        /// The inverse of the mean in squashed space: a geometric mean where the space is logarithmic.
        InverseOfMean = "inverse-of-mean",
    }
}

choices! {
    /// Which network.
    NetworkKind {
        /// By the observation: Nature CNN for screens, a small CNN for boards, an MLP for vectors.
        Auto = "auto",
        /// Nature DQN's convolutions.
        Nature = "nature",
        /// One convolution and one hidden layer.
        SmallCnn = "small-cnn",
        /// Fully connected layers.
        Mlp = "mlp",
    }
}

settings! {
    /// Everything that defines one agent. The defaults are the paper's.
    AgentSettings {
        /// How rewards become targets and outputs become action-values.
        codec: CodecKind = CodecKind::Spectral,
        /// Spectral: base b of the decomposition.
        base: f64 = 2.0,
        /// Spectral: maximum frequency N; there are N + 1 heads.
        max_frequency: usize = 20,
        /// Spectral: how a reward is spread over frequencies.
        encoding: EncodingKind = EncodingKind::Thermometer,
        /// Spectral: how the frequencies' losses are weighted in the hidden layers.
        weights: WeightKind = WeightKind::Variance,
        /// Spectral: train the last layer as if every weight were 1.
        undo_last_layer: bool = true,
        /// Spectral and Pop-Art: rate of the running statistics.
        statistics_rate: f64 = 3e-4,
        /// Compressed: the squashing function.
        transform: TransformKind = TransformKind::Sqrt,
        /// Compressed and categorical: ε of the squashing function (0.01 in the authors' code, 0.001 in R2D2).
        transform_epsilon: f64 = 0.01,
        /// Compressed and Pop-Art: divide errors by their running magnitude, as the authors' code does.
        error_correction: bool = true,
        /// Categorical: the space in which atoms are evenly spaced.
        support: SupportKind = SupportKind::Symlog,
        /// Categorical: the largest return, in reward units, that the support covers.
        support_max: f64 = 1e7,
        /// Categorical: how many atoms.
        atoms: usize = 129,
        /// Categorical: how the target distribution is made.
        targets: TargetKind = TargetKind::HlGauss,
        /// Categorical: how a value is read out.
        readout: ReadoutKind = ReadoutKind::InverseOfMean,
        /// Categorical: width of HL-Gauss's Gaussian, in bins.
        gauss_bins: f64 = 0.75,
        /// Adam's step size.
        learning_rate: f64 = 2.5e-5,
        /// Adam's decay of the first moment.
        adam_beta1: f64 = 0.9,
        /// Adam's decay of the second moment.
        adam_beta2: f64 = 0.999,
        /// Adam's regularisation constant.
        adam_epsilon: f64 = 0.005 / 32.0,
        /// Discount per agent step.
        discount: f64 = 0.996_655_493_412_596_4,
        /// Steps of reward before bootstrapping.
        n_step: usize = 3,
        /// Transitions in a minibatch.
        batch: usize = 32,
        /// Transitions that replay holds.
        replay: usize = 1_000_000,
        /// Frames before the first update.
        learning_starts: u64 = 200_000,
        /// Frames from one update to the next.
        update_period: u64 = 16,
        /// Frames from one refresh of the target network to the next.
        target_period: u64 = 40_000,
        /// Exploration before learning starts.
        epsilon_start: f64 = 1.0,
        /// Exploration in the end.
        epsilon_final: f64 = 0.01,
        /// Frames, after learning starts, over which exploration falls.
        epsilon_frames: u64 = 4_000_000,
        /// The loss of a life ends the episode for the learner.
        life_loss_terminal: bool = true,
        /// Which network.
        network: NetworkKind = NetworkKind::Auto,
        /// Widths of the MLP's hidden layers, separated by commas.
        hidden: String = "128,128".into(),
        /// Double Q-learning: the online network chooses the action that the target network values.
        double: bool = false,
        /// Dueling heads: a value stream and an advantage stream.
        dueling: bool = false,
        /// Prioritised replay.
        prioritised: bool = false,
        /// Prioritised: how strongly priorities count (0: uniform).
        priority_exponent: f64 = 0.6,
        /// Prioritised: how far sampling bias is corrected (1: fully).
        importance_exponent: f64 = 0.4,
    }
}

impl AgentSettings {
    /// Checks what no single value can show to be wrong.
    pub fn validate(&self) -> Result<(), SettingError> {
        let positive = [
            ("learning_rate", self.learning_rate),
            ("adam_epsilon", self.adam_epsilon),
            ("support_max", self.support_max),
            ("gauss_bins", self.gauss_bins),
        ];
        for (key, value) in positive {
            // Not `value <= 0.0`: NaN is refused too.
            if !matches!(value.partial_cmp(&0.0), Some(std::cmp::Ordering::Greater)) {
                return Err(SettingError::bad(key, value.show(), "a number above 0"));
            }
        }
        let shares = [
            ("epsilon_start", self.epsilon_start),
            ("epsilon_final", self.epsilon_final),
            ("priority_exponent", self.priority_exponent),
            ("importance_exponent", self.importance_exponent),
        ];
        for (key, value) in shares {
            if !(0.0..=1.0).contains(&value) {
                return Err(SettingError::bad(key, value.show(), "a number from 0 to 1"));
            }
        }
        let fractions = [
            ("discount", self.discount),
            ("adam_beta1", self.adam_beta1),
            ("adam_beta2", self.adam_beta2),
            ("statistics_rate", self.statistics_rate),
        ];
        for (key, value) in fractions {
            if !(0.0..1.0).contains(&value) {
                return Err(SettingError::bad(
                    key,
                    value.show(),
                    "a number from 0 up to, but not including, 1",
                ));
            }
        }
        if self.statistics_rate == 0.0 {
            return Err(SettingError::bad("statistics_rate", "0", "a number above 0"));
        }
        if !(0.0..=1e6).contains(&self.transform_epsilon) {
            return Err(SettingError::bad(
                "transform_epsilon",
                self.transform_epsilon.show(),
                "a number from 0 to 1e6",
            ));
        }
        let counts =
            [("n_step", self.n_step, 1000), ("batch", self.batch, 65_536), ("atoms", self.atoms, 4096)];
        for (key, value, most) in counts {
            let least = if key == "atoms" { 2 } else { 1 };
            if !(least..=most).contains(&value) {
                return Err(SettingError::bad(key, value.show(), format!("{least} to {most}")));
            }
        }
        for (key, value) in [("update_period", self.update_period), ("target_period", self.target_period)] {
            if value == 0 {
                return Err(SettingError::bad(key, "0", "at least one frame"));
            }
        }
        if self.replay < self.batch + self.n_step + 8 {
            return Err(SettingError::bad("replay", self.replay.show(), "room for at least one minibatch"));
        }
        self.hidden_widths().map(|_| ())
    }

    /// The MLP's hidden widths as numbers.
    pub fn hidden_widths(&self) -> Result<Vec<usize>, SettingError> {
        let expected = "widths from 1 to 65536 separated by commas, such as \"128,128\"";
        let widths: Result<Vec<usize>, _> =
            self.hidden.split(',').map(|w| w.trim().parse::<usize>()).collect();
        match widths {
            Ok(widths) if widths.iter().all(|w| (1..=65_536).contains(w)) => Ok(widths),
            _ => Err(SettingError::bad("hidden", self.hidden.clone(), expected)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_papers() {
        let s = AgentSettings::default();
        assert_eq!(s.discount, 0.99f64.powf(1.0 / 3.0));
        assert_eq!((s.learning_rate, s.adam_epsilon), (2.5e-5, 0.005 / 32.0));
        assert_eq!((s.base, s.max_frequency, s.n_step, s.batch), (2.0, 20, 3, 32));
        s.validate().unwrap();
    }

    #[test]
    fn every_setting_survives_text() {
        let mut settings = AgentSettings { learning_rate: 0.1 + 0.2, double: true, ..Default::default() };
        settings.codec = CodecKind::Popart;
        let mut copy = AgentSettings::default();
        for line in settings.to_toml().lines() {
            let (key, value) = line.split_once(" = ").unwrap();
            copy.set(key, value.trim_matches('"')).unwrap();
        }
        assert_eq!(settings, copy);
        assert_eq!(AgentSettings::table().len(), AgentSettings::KEYS.len());
    }

    #[test]
    fn wrong_keys_and_values_say_what_would_be_right() {
        let mut s = AgentSettings::default();
        let message = s.set("learning_rat", "1").unwrap_err().to_string();
        assert!(message.contains("learning_rate"), "{message}");
        let message = s.set("codec", "spectra").unwrap_err().to_string();
        assert!(message.contains("clipped | compressed"), "{message}");
        assert!(s.set("discount", "NaN").is_err());
        s.set("discount", "1.0").unwrap();
        assert!(s.validate().unwrap_err().to_string().contains("discount"));
    }
}
