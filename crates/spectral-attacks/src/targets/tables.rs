//! The files of a run as reports read them.

use crate::fixture;
use crate::scratch::Scratch;
use spectral_report::{read_columns, read_runs};

pub(super) const WORDS: &[&[u8]] = &[
    b",",
    b"\n",
    b",,",
    b"NaN",
    b"inf",
    b"-inf",
    b"1e309",
    b"-1",
    b"0.5",
    b"\"",
    b"\r\n",
    b"\xef\xbb\xbf",
    b"frame",
];

/// The files that are attacked; the others of the run are as they were.
pub(crate) const FILES: [&str; 5] = [
    "agents/spectral-s1/episodes.csv",
    "agents/spectral-s1/metrics.csv",
    "agents/spectral-s1/eval.csv",
    "run.toml",
    "state.toml",
];

/// A table of frozen games, which the fixtures do not play.
pub(crate) const EVALUATIONS: &str = "frame,model,games,score_mean,score_least,score_most,return_mean,steps_mean,cut\n\
    100,last,2,1.5,1,2,1.5,20,0\n200,average,2,-3e2,-4e2,-2e2,-3e2,21,1\n";

struct Place {
    folder: Scratch,
    whole: Vec<Vec<u8>>,
}

impl Place {
    fn new() -> Self {
        let folder = Scratch::new();
        std::fs::create_dir_all(folder.path().join("agents/spectral-s1")).expect("a folder");
        let eval = EVALUATIONS.to_string();
        let whole = fixture::with_all(|runs| {
            // Without checksums: a report is to get further than to those.
            let plain = |text: String| {
                let sum = |line: &&str| line.starts_with("# checksum") || line.starts_with("tables = ");
                text.split_inclusive('\n').filter(|line| !sum(line)).collect()
            };
            let text = |name: &str| {
                if name.ends_with("eval.csv") { eval.clone() } else { plain(runs[0].text(name)) }
            };
            FILES.map(|name| text(name).into_bytes()).to_vec()
        });
        let place = Place { folder, whole };
        FILES.iter().zip(&place.whole).for_each(|(name, bytes)| drop(place.folder.file(name, bytes)));
        // Otherwise no report would get beyond the file that is wrong in every input.
        let runs = read_runs(&[place.folder.path().into()]).expect("a sound run");
        let agent = &runs[0].agents[0];
        assert!(agent.evaluations.len() == 2 && !agent.episodes.is_empty(), "a run without its tables");
        place
    }
}

thread_local! {
    static PLACE: Place = Place::new();
}

/// The first byte chooses a file.
pub(super) fn run(bytes: &[u8]) {
    let [which, bytes @ ..] = bytes else { return };
    PLACE.with(|Place { folder, whole }| {
        let which = usize::from(*which) % FILES.len();
        let path = folder.file(FILES[which], bytes);
        if FILES[which].ends_with(".csv") {
            for at_work in [false, true] {
                if let Ok(columns) = read_columns(&path, at_work) {
                    let rows = columns.first().map_or(0, |(_, column)| column.len());
                    assert!(
                        columns.iter().all(|(_, column)| column.len() == rows),
                        "columns of unlike lengths"
                    );
                }
            }
        }
        let _ = read_runs(&[folder.path().into()]);
        folder.file(FILES[which], &whole[which]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_read_the_run_around_the_file_that_is_attacked() {
        PLACE.with(|Place { folder, whole }| {
            assert!(read_runs(&[folder.path().into()]).is_ok());
            // A table with one row less is another sound table.
            for (name, bytes) in FILES.iter().zip(whole).filter(|(name, _)| name.ends_with(".csv")) {
                let text = String::from_utf8_lossy(bytes);
                let shorter = &text[..text.trim_end().rfind('\n').expect("two lines") + 1];
                folder.file(name, shorter.as_bytes());
                let runs = read_runs(&[folder.path().into()]);
                folder.file(name, bytes);
                assert!(runs.is_ok(), "{name}: {:?}", runs.err());
            }
        });
    }
}
