//! What jobs need of the environment in which they were planned.

use spectral_train::error::TrainError;
use std::ffi::OsString;
use std::path::Path;

/// Where ROMs are, if not in the user's folder.
const ROMS: &str = "SPECTRAL_ROMS";

/// Variables that jobs find set, on whichever node they run.
///
/// A job begins in the plan's folder, and perhaps in the environment of another shell: a relative path would lead elsewhere there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(Vec<(String, String)>);

impl Environment {
    /// That of this process, as far as jobs need it: the folder of ROMs, as an absolute path.
    pub fn of_this_process() -> Result<Self, TrainError> {
        Self::with(std::env::var_os(ROMS))
    }

    fn with(roms: Option<OsString>) -> Result<Self, TrainError> {
        let Some(roms) = roms.filter(|roms| !roms.is_empty()) else { return Ok(Self::default()) };
        let wrong = |why: String| TrainError::Usage(format!("{ROMS} {}: {why}", Path::new(&roms).display()));
        let path = std::path::absolute(&roms).map_err(|error| wrong(error.to_string()))?;
        let text = path.to_str().filter(|text| !text.contains(char::is_control));
        let text = text.ok_or_else(|| wrong("scripts cannot hold this path".into()))?;
        Ok(Environment(vec![(ROMS.into(), text.into())]))
    }

    /// Names and values.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_roms_is_found_from_anywhere() {
        let pairs = |roms: Option<&str>| Environment::with(roms.map(OsString::from));
        assert_eq!(pairs(None).unwrap(), Environment::default());
        assert_eq!(pairs(Some("")).unwrap(), Environment::default());
        let relative = pairs(Some("my roms")).unwrap();
        let here = std::env::current_dir().unwrap().join("my roms");
        assert_eq!(relative.pairs().collect::<Vec<_>>(), [(ROMS, here.to_str().unwrap())]);
        assert!(pairs(Some("a\nb")).unwrap_err().to_string().contains("scripts cannot hold"));
    }
}
