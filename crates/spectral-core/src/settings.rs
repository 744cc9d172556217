//! Settings: declared once, with type, default and documentation. The keys of a TOML file, what `--set` accepts, what a
//! run directory records and what help texts print all follow from that declaration.
//!
//! [`settings!`](crate::settings!) declares a struct of settings, [`choices!`](crate::choices!) an enumeration that can be
//! one of them. A [`Schema`] is such a struct as data, for programs that handle settings of things they do not know: of
//! tasks and codecs that somebody registers. [`Values`] are the settings themselves as data.
//!
//! ```
//! use spectral_core::settings::{Schema, Settings};
//!
//! spectral_core::settings! {
//!     /// Settings of a bandit.
//!     BanditSettings {
//!         /// How many arms.
//!         arms: usize = 10,
//!         /// The factor on every reward.
//!         scale: f64 = 1.0,
//!     }
//! }
//!
//! let schema = Schema::of::<BanditSettings>();
//! let mut values = schema.defaults();
//! schema.set(&mut values, "arms", "3")?;
//! assert_eq!(values.to_toml(), "arms = 3\nscale = 1.0\n");
//! assert_eq!(values.read::<BanditSettings>()?.arms, 3);
//! assert!(schema.set(&mut values, "arm", "3").unwrap_err().to_string().contains("'arms'"));
//! # Ok::<(), spectral_core::settings::SettingError>(())
//! ```

use crate::nearest::nearest;

/// A key or a value that is not valid.
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
    /// True if TOML writes this value in quotes.
    fn quoted(&self) -> bool {
        false
    }
}

macro_rules! number_setting {
    ($($type:ty: $kind:literal),*) => {
        $(impl Setting for $type {
            fn parse(text: &str) -> Result<Self, String> {
                parse_count(text).and_then(|count| count.try_into().ok()).ok_or_else(|| $kind.to_string())
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

/// A whole number as people write it: `1000000`, `1_000_000`, `1e6`, `1M`, `1.5M`, `200k`, `2G`.
///
/// ```
/// use spectral_core::settings::parse_count;
/// assert_eq!(parse_count("1.5M"), Some(1_500_000));
/// assert_eq!(parse_count("1e6"), parse_count("1_000_000"));
/// assert_eq!(parse_count("0.5"), None);
/// assert_eq!(parse_count("-3"), None);
/// ```
pub fn parse_count(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    if let Ok(count) = text.parse() {
        return Some(count);
    }
    let (digits, unit) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 1e3),
        'M' => (&text[..text.len() - 1], 1e6),
        'G' => (&text[..text.len() - 1], 1e9),
        _ => (text.as_str(), 1.0),
    };
    // Only what is written in digits: no names of numbers, no signs.
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let count = digits.parse::<f64>().ok()? * unit;
    // Up to here every whole number is exact.
    ((0.0..=9e15).contains(&count) && count.fract() == 0.0).then_some(count as u64)
}

/// A whole number with commas between thousands, as people read it.
///
/// ```
/// use spectral_core::settings::show_count;
/// assert_eq!([7, 1_000, 1_234_567].map(show_count), ["7", "1,000", "1,234,567"]);
/// ```
pub fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

number_setting!(u32: "a whole number", u64: "a whole number", usize: "a whole number");

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
    fn quoted(&self) -> bool {
        true
    }
}

/// What help texts print about one setting.
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

/// A struct of settings, as [`settings!`](crate::settings!) declares it.
pub trait Settings: Default {
    /// Every key, in order.
    const KEYS: &'static [&'static str];
    /// Sets one setting from text.
    fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError>;
    /// Every setting as text, in order.
    fn values(&self) -> Values;
    /// Documentation, kind and default of every setting.
    fn table() -> Vec<SettingInfo>;
}

/// For tasks and codecs that have no settings.
impl Settings for () {
    const KEYS: &'static [&'static str] = &[];
    fn set(&mut self, key: &str, _value: &str) -> Result<(), SettingError> {
        Err(SettingError::unknown(key, []))
    }
    fn values(&self) -> Values {
        Values::default()
    }
    fn table() -> Vec<SettingInfo> {
        Vec::new()
    }
}

/// Settings as data: key and value, in the order in which they are declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(Vec<Value>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Value {
    key: String,
    text: String,
    quoted: bool,
}

impl Values {
    /// Adds one setting at the end.
    pub fn push<T: Setting>(&mut self, key: &str, value: &T) {
        self.0.push(Value { key: key.into(), text: value.show(), quoted: value.quoted() });
    }

    /// The value of one setting, as text.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|value| value.key == key).map(|value| value.text.as_str())
    }

    /// Every key and value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|value| (value.key.as_str(), value.text.as_str()))
    }

    /// The typed settings that these values stand for. Keys that are missing keep their defaults.
    pub fn read<S: Settings>(&self) -> Result<S, SettingError> {
        let mut settings = S::default();
        for (key, value) in self.iter() {
            settings.set(key, value)?;
        }
        Ok(settings)
    }

    /// Every setting as a `key = value` line of TOML.
    pub fn to_toml(&self) -> String {
        let line = |value: &Value| match value.quoted {
            true => format!("{} = {}\n", value.key, quote(&value.text)),
            false => format!("{} = {}\n", value.key, value.text),
        };
        self.0.iter().map(line).collect()
    }
}

/// A TOML basic string.
///
/// ```
/// assert_eq!(spectral_core::settings::quote("a \"b\"\n"), r#""a \"b\"\u000A""#);
/// ```
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A struct of settings as data.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    keys: &'static [&'static str],
    defaults: fn() -> Values,
    table: fn() -> Vec<SettingInfo>,
    set: fn(&mut Values, &str, &str) -> Result<(), SettingError>,
}

impl Schema {
    /// The schema of a struct of settings.
    pub fn of<S: Settings>() -> Self {
        Schema {
            keys: S::KEYS,
            defaults: || S::default().values(),
            table: S::table,
            set: |values, key, text| {
                let mut typed = values.read::<S>()?;
                typed.set(key, text)?;
                *values = typed.values();
                Ok(())
            },
        }
    }

    /// Every key, in order.
    pub fn keys(&self) -> &'static [&'static str] {
        self.keys
    }

    /// Every setting at its default.
    pub fn defaults(&self) -> Values {
        (self.defaults)()
    }

    /// Documentation, kind and default of every setting.
    pub fn table(&self) -> Vec<SettingInfo> {
        (self.table)()
    }

    /// Sets one setting from text.
    pub fn set(&self, values: &mut Values, key: &str, text: &str) -> Result<(), SettingError> {
        (self.set)(values, key, text)
    }
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
            fn quoted(&self) -> bool { true }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&<Self as $crate::settings::Setting>::show(self))
            }
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

        impl $crate::settings::Settings for $name {
            const KEYS: &'static [&'static str] = &[$(stringify!($field)),*];

            fn set(&mut self, key: &str, value: &str) -> Result<(), $crate::settings::SettingError> {
                match key {
                    $(stringify!($field) => {
                        self.$field = <$type as $crate::settings::Setting>::parse(value)
                            .map_err(|expected| $crate::settings::SettingError::bad(key, value, expected))?;
                    })*
                    _ => return Err($crate::settings::SettingError::unknown(key, Self::KEYS.iter().copied())),
                }
                Ok(())
            }

            fn values(&self) -> $crate::settings::Values {
                let mut values = $crate::settings::Values::default();
                $(values.push(stringify!($field), &self.$field);)*
                values
            }

            fn table() -> Vec<$crate::settings::SettingInfo> {
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

#[cfg(test)]
mod tests {
    use super::*;

    crate::choices! {
        /// Colours.
        Colour {
            /// Red.
            Red = "red",
            /// Green.
            Green = "green",
        }
    }

    crate::settings! {
        /// Settings of every type.
        Sample {
            /// A word
            /// on two lines.
            word: String = "plain".into(),
            /// A number.
            number: f64 = 0.5,
            /// A colour.
            colour: Colour = Colour::Red,
            /// A switch.
            on: bool = true,
        }
    }

    #[test]
    fn every_setting_survives_text() {
        let sample =
            Sample { word: "a \"b\" \\".into(), number: 0.1 + 0.2, colour: Colour::Green, on: false };
        assert_eq!(sample.values().read::<Sample>().unwrap(), sample);
        let toml = sample.values().to_toml();
        assert_eq!(toml.lines().next(), Some(r#"word = "a \"b\" \\""#), "{toml}");
        assert!(toml.contains("colour = \"green\"\non = false\n"), "{toml}");
        let table = Sample::table();
        assert_eq!(table[0].doc, "A word on two lines.");
        assert_eq!(table.iter().map(|row| row.key).collect::<Vec<_>>(), Sample::KEYS);
    }

    #[test]
    fn wrong_keys_and_values_say_what_would_be_right() {
        let schema = Schema::of::<Sample>();
        let mut values = schema.defaults();
        for (key, value, want) in
            [("colr", "red", "'colour'"), ("colour", "blue", "red | green"), ("number", "NaN", "finite")]
        {
            let said = schema.set(&mut values, key, value).unwrap_err().to_string();
            assert!(said.contains(want), "{said}");
        }
        assert_eq!(values, Sample::default().values(), "a refused value changes nothing");
    }
}
