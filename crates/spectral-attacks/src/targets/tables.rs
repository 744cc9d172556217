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

struct Place {
    folder: Scratch,
    whole: Vec<Vec<u8>>,
}

impl Place {
    fn new() -> Self {
        let folder = Scratch::new();
        std::fs::create_dir_all(folder.path().join("agents/spectral-s1")).expect("a folder");
        let eval = "frame,model,score\n100,last,1\n200,last,2\n".to_string();
        let whole = fixture::with_all(|runs| {
            let text =
                |name: &str| if name.ends_with("eval.csv") { eval.clone() } else { runs[0].text(name) };
            FILES.map(|name| text(name).into_bytes()).to_vec()
        });
        let place = Place { folder, whole };
        FILES.iter().zip(&place.whole).for_each(|(name, bytes)| drop(place.folder.file(name, bytes)));
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
