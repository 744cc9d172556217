//! Containers: the file format of checkpoints and segments.

use crate::scratch::Scratch;
use spectral_train::store::{Container, SegmentRef};

thread_local! {
    static FOLDER: Scratch = Scratch::new();
}

pub(super) fn run(bytes: &[u8]) {
    FOLDER.with(|folder| {
        let path = folder.file("attack.checkpoint", bytes);
        let Ok(container) = Container::open(&path) else { return };
        let names: Vec<String> = container.names().map(String::from).collect();
        let sound = container.verify().is_ok();
        for name in &names {
            let part = container.section(name);
            assert!(part.is_ok() || !sound, "a part of a file that was verified cannot be read");
            if let Ok(manifest) =
                part.map(|part| SegmentRef::manifest_from_bytes(&part)).unwrap_or(Ok(Vec::new()))
            {
                let again = SegmentRef::manifest_to_bytes(&manifest);
                assert_eq!(SegmentRef::manifest_from_bytes(&again).ok().as_ref(), Some(&manifest));
            }
        }
    });
}
