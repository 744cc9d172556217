//! What the sections of a checkpoint are called, and what those say that are read without a population.

use crate::plan::Plan;
use crate::store::{Container, SegmentRef, StoreError};
use spectral_core::bytes::StateReader;
use std::collections::HashSet;
use std::path::Path;

pub(super) const MANIFEST: &str = "manifest";

/// Where the mean of an agent's weights is.
pub(super) fn average_section(id: &str) -> String {
    format!("average/{id}")
}

/// Where the lengths and checksums of an agent's tables are.
pub(super) fn tables_section(id: &str) -> String {
    format!("tables/{id}")
}

/// The plan's fingerprint, and whether the checkpoint is a light one.
pub(super) fn read_manifest(container: &Container) -> Result<(u32, bool), StoreError> {
    let manifest = container.section(MANIFEST)?;
    let mut from = StateReader::new(&manifest);
    let mut read = || Ok((from.u32()?, manifest.len() > 4 && from.bool()?));
    read().map_err(|e| StoreError::state(container.path(), &e))
}

pub(super) fn segments_of(container: &Container, id: &str) -> Result<Vec<SegmentRef>, StoreError> {
    let bytes = container.section(&format!("segments/{id}"))?;
    SegmentRef::manifest_from_bytes(&bytes).map_err(|e| StoreError::state(container.path(), &e))
}

/// Refuses segments of more records than a replay ever held at once: to make them again could take any time.
pub(super) fn check_room(folder: &Path, segments: &[SegmentRef], room: u64) -> Result<(), StoreError> {
    match segments.iter().find(|segment| segment.count > room) {
        Some(SegmentRef { file, count, .. }) => Err(StoreError::Mismatch {
            path: folder.join(file),
            detail: format!("{count} records for a replay that has room for {room}"),
        }),
        None => Ok(()),
    }
}

/// The segments that a checkpoint beside the one in use needs, if it is sound and of this plan.
pub(super) fn segments_needed(path: &Path, plan: &Plan) -> Option<HashSet<String>> {
    let container = Container::open(path).ok()?;
    container.verify().ok()?;
    if read_manifest(&container).ok()?.0 != plan.fingerprint() {
        return None;
    }
    let mut files = HashSet::new();
    for agent in &plan.agents {
        files.extend(segments_of(&container, &agent.id).ok()?.into_iter().map(|s| s.file));
    }
    Some(files)
}
