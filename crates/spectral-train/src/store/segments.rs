//! Replay memories on disk, in append-only segments: a checkpoint writes only the records added since the last one and not
//! the whole memory (7 GB per agent at Atari size).
//!
//! A replay is a ring of records numbered by an index that only grows. Each checkpoint writes the records
//! appended since the previous one into new segment files and stores in itself the manifest: the segments that
//! together hold every record of the ring. A segment file is never changed. [`collect_garbage`] deletes it only when no kept
//! checkpoint refers to it, so a run killed at any moment finds everything that its last checkpoint needs. No manifest refers
//! to files that a killed run wrote after that. They are never read, and collected later.

use std::collections::HashSet;
use std::path::Path;

use spectral_core::bytes::{StateError, StateReader, StateWriter};

use super::atomic::{file_names, is_temporary, remove_temporary, sync_folder, write_and_rename};
use super::container::{Container, ContainerWriter};
use super::disk;
use super::error::StoreError;
use crate::recipe::Recipe;

/// The most bytes of records in one segment before compression. A single larger record gets a segment of its own.
pub const SEGMENT_BYTES: usize = 64 << 20;
const SUFFIX: &str = ".segment";
const RANGE: &str = "range";
const RECORDS: &str = "records";
const RECIPE: &str = "recipe";

/// A ring of records as segments see it. A record never changes once it is counted in `newest()`: a segment
/// that holds it is not written again.
pub trait Records {
    /// Index of the oldest record held.
    fn oldest(&self) -> u64;
    /// One past the index of the newest record.
    fn newest(&self) -> u64;
    /// Appends records `first..first + count`, all of which are held, to `out`. A device may fail to return them.
    fn write_range(&mut self, first: u64, count: u64, out: &mut Vec<u8>) -> Result<(), StateError>;
    /// The size of a record in bytes, which determines the size of segments.
    fn bytes_per_record(&self) -> usize;
    /// Restores what `write_range` wrote. Ranges come in ascending order without gaps. The first may begin before the oldest
    /// record that the ring keeps, so a ring either ignores such records or lets newer ones overwrite them.
    fn read_range(&mut self, first: u64, count: u64, bytes: &[u8]) -> Result<(), StateError>;
}

impl<R: Records + ?Sized> Records for &mut R {
    fn oldest(&self) -> u64 {
        (**self).oldest()
    }
    fn newest(&self) -> u64 {
        (**self).newest()
    }
    fn write_range(&mut self, first: u64, count: u64, out: &mut Vec<u8>) -> Result<(), StateError> {
        (**self).write_range(first, count, out)
    }
    fn bytes_per_record(&self) -> usize {
        (**self).bytes_per_record()
    }
    fn read_range(&mut self, first: u64, count: u64, bytes: &[u8]) -> Result<(), StateError> {
        (**self).read_range(first, count, bytes)
    }
}

/// A checkpoint's reference to a segment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// The file's name inside the checkpoint folder.
    pub file: String,
    /// Index of its first record.
    pub first: u64,
    /// How many records it holds.
    pub count: u64,
    /// CRC-32 of the records, or of their recipe, before compression.
    pub crc: u32,
    /// The file's length.
    pub bytes: u64,
}

impl SegmentRef {
    /// One past its last record.
    pub fn end(&self) -> u64 {
        self.first + self.count
    }

    /// Appends it to a saved state.
    pub fn write(&self, out: &mut StateWriter) {
        out.blob(self.file.as_bytes());
        out.u64(self.first);
        out.u64(self.count);
        out.u32(self.crc);
        out.u64(self.bytes);
    }

    /// Reads what [`write`](SegmentRef::write) wrote.
    pub fn read(from: &mut StateReader) -> Result<Self, StateError> {
        let file = std::str::from_utf8(from.blob()?)
            .map_err(|_| StateError("a segment's name is no text".into()))?;
        // The name is joined to the checkpoint folder: it must not lead out of it.
        if file.is_empty() || file.starts_with('.') || file.contains(['/', '\\', ':']) {
            return Err(StateError(format!("'{file}' is no name of a segment")));
        }
        let found = SegmentRef {
            file: file.to_owned(),
            first: from.u64()?,
            count: from.u64()?,
            crc: from.u32()?,
            bytes: from.u64()?,
        };
        if found.count == 0 || found.first.checked_add(found.count).is_none() {
            return Err(StateError(format!("'{file}' holds an impossible number of records")));
        }
        Ok(found)
    }

    /// A whole manifest as bytes, for a section of a checkpoint.
    ///
    /// ```
    /// use spectral_train::store::SegmentRef;
    /// let segment = SegmentRef { file: "a-s1-0-9.segment".into(), first: 0, count: 9, crc: 7, bytes: 80 };
    /// let bytes = SegmentRef::manifest_to_bytes(std::slice::from_ref(&segment));
    /// assert_eq!(SegmentRef::manifest_from_bytes(&bytes)?, [segment]);
    /// # Ok::<(), spectral_core::bytes::StateError>(())
    /// ```
    pub fn manifest_to_bytes(manifest: &[SegmentRef]) -> Vec<u8> {
        let mut out = StateWriter::default();
        out.u64(manifest.len() as u64);
        manifest.iter().for_each(|segment| segment.write(&mut out));
        out.into_bytes()
    }

    /// Reads back a manifest.
    pub fn manifest_from_bytes(bytes: &[u8]) -> Result<Vec<SegmentRef>, StateError> {
        let mut from = StateReader::new(bytes);
        let count = from.u64()?;
        let manifest = (0..count).map(|_| SegmentRef::read(&mut from)).collect::<Result<_, _>>()?;
        from.finish()?;
        Ok(manifest)
    }
}

/// Writes what `records` gained since the manifest `previous` was made as new segment files in `dir`, and
/// returns the new manifest: the old segments that still hold a record of the ring, then the new ones.
///
/// When it returns, the new files are safe on disk. They have no effect until a checkpoint with the new manifest is written.
/// Existing files, including those of a killed run, are never touched: a name is used only once.
///
/// ```
/// use spectral_core::bytes::StateError;
/// use spectral_train::store::{Records, append_segments, load_segments};
///
/// #[derive(Default)]
/// struct Letters(Vec<u8>);
/// impl Records for Letters {
///     fn oldest(&self) -> u64 { 0 }
///     fn newest(&self) -> u64 { self.0.len() as u64 }
///     fn write_range(&mut self, first: u64, count: u64, out: &mut Vec<u8>) -> Result<(), StateError> {
///         out.extend_from_slice(&self.0[first as usize..(first + count) as usize]);
///         Ok(())
///     }
///     fn bytes_per_record(&self) -> usize { 1 }
///     fn read_range(&mut self, _: u64, _: u64, bytes: &[u8]) -> Result<(), StateError> {
///         self.0.extend_from_slice(bytes);
///         Ok(())
///     }
/// }
///
/// # let dir = std::env::temp_dir().join(format!("spectral-doc-segments-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// let mut replay = Letters(b"spec".to_vec());
/// let first = append_segments(&dir, "spectral-s1", &[], &mut replay)?;
/// replay.0.extend_from_slice(b"tral");
/// let second = append_segments(&dir, "spectral-s1", &first, &mut replay)?; // writes "tral" only
/// assert_eq!(second[0], first[0]);
/// let mut restored = Letters::default();
/// load_segments(&dir, &second, &mut restored)?;
/// assert_eq!(restored.0, b"spectral");
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn append_segments(
    dir: &Path,
    prefix: &str,
    previous: &[SegmentRef],
    records: &mut dyn Records,
) -> Result<Vec<SegmentRef>, StoreError> {
    let (oldest, newest) = (records.oldest(), records.newest());
    let covered = previous.last().map_or(0, SegmentRef::end);
    if covered > newest {
        return Err(StoreError::Mismatch {
            path: dir.into(),
            detail: format!("segments of {prefix} reach record {covered}, its replay only {newest}"),
        });
    }
    let mut manifest: Vec<SegmentRef> = previous.iter().filter(|s| s.end() > oldest).cloned().collect();
    let per_segment = (SEGMENT_BYTES / records.bytes_per_record().max(1)).max(1) as u64;
    let mut first = covered.max(oldest);
    let mut bytes = Vec::new();
    let mut wrote = false;
    while first < newest {
        let count = per_segment.min(newest - first);
        bytes.clear();
        records
            .write_range(first, count, &mut bytes)
            .map_err(|e| StoreError::Source { path: dir.into(), detail: e.0 })?;
        manifest.push(write_segment(dir, prefix, first, count, RECORDS, &bytes)?);
        wrote = true;
        first += count;
    }
    if wrote {
        sync_folder(dir)?;
    }
    Ok(manifest)
}

/// Writes `count` records from `first` on as a recipe by which they can be made again, and returns the new manifest. The recipe
/// follows on the manifest `previous` without a gap.
pub(crate) fn append_recipe(
    dir: &Path,
    prefix: &str,
    previous: &[SegmentRef],
    oldest: u64,
    (first, count): (u64, u64),
    recipe: &[u8],
) -> Result<Vec<SegmentRef>, StoreError> {
    let mut manifest: Vec<SegmentRef> = previous.iter().filter(|s| s.end() > oldest).cloned().collect();
    manifest.push(write_segment(dir, prefix, first, count, RECIPE, recipe)?);
    sync_folder(dir)?;
    Ok(manifest)
}

/// Whether a file has this name. A disk that does not say so may have one.
fn is_taken(path: &Path) -> Result<bool, StoreError> {
    match disk::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(StoreError::io(path, "look for", e)),
    }
}

fn write_segment(
    dir: &Path,
    prefix: &str,
    first: u64,
    count: u64,
    section: &str,
    content: &[u8],
) -> Result<SegmentRef, StoreError> {
    // An orphan of a killed run may have the name. It must not be replaced, whatever it holds.
    let stem = format!("{prefix}-{first:012}-{count}");
    let mut file = format!("{stem}{SUFFIX}");
    let mut attempt = 0u64;
    while is_taken(&dir.join(&file))? {
        attempt += 1;
        file = format!("{stem}-{attempt}{SUFFIX}");
    }
    let path = dir.join(&file);
    let mut range = StateWriter::default();
    range.u64(first);
    range.u64(count);
    let range = range.into_bytes();
    write_and_rename(&path, |out| {
        let mut container = ContainerWriter::new(out)?;
        container.section(RANGE, &range)?;
        container.section(section, content)?;
        container.finish()
    })?;
    let bytes = disk::metadata(&path).map_err(|e| StoreError::io(&path, "read the length of", e))?.len();
    Ok(SegmentRef { file, first, count, crc: crc32fast::hash(content), bytes })
}

/// Reads all segments of a manifest, oldest first, into a ring whose counters are already restored (or that counts what it
/// reads). A file that is missing, truncated, damaged, or not the one that the checkpoint refers to is an error that names it.
/// A manifest with gaps, or one that does not cover the ring, is an error too.
///
/// Segments of a compact checkpoint hold a recipe in place of records. They are returned, and it is for the caller to make their
/// records again.
pub fn load_segments(
    dir: &Path,
    manifest: &[SegmentRef],
    records: &mut dyn Records,
) -> Result<Vec<(SegmentRef, Vec<u8>)>, StoreError> {
    let mismatch = |path: &Path, detail: String| StoreError::Mismatch { path: path.into(), detail };
    for pair in manifest.windows(2) {
        if pair[0].end() != pair[1].first {
            let detail = format!("records {} to {} are in no segment", pair[0].end(), pair[1].first);
            return Err(mismatch(dir, detail));
        }
    }
    let mut recipes = Vec::new();
    let bytes_per_record = records.bytes_per_record();
    for segment in manifest {
        let path = dir.join(&segment.file);
        let (bytes, is_recipe) = read_segment(&path, segment, bytes_per_record)?;
        if is_recipe {
            recipes.push((segment.clone(), bytes));
            continue;
        }
        records.read_range(segment.first, segment.count, &bytes).map_err(|e| StoreError::state(&path, &e))?;
    }
    let (oldest, newest) = (records.oldest(), records.newest());
    match (manifest.first(), manifest.last()) {
        (Some(first), Some(last)) if first.first > oldest || last.end() != newest => Err(mismatch(
            dir,
            format!(
                "segments hold records {}..{}, the replay needs {oldest}..{newest}",
                first.first,
                last.end()
            ),
        )),
        // Recipes are played from their first record on, whether a replay needs it or not.
        (Some(first), Some(_)) if first.end() <= oldest => Err(mismatch(
            &dir.join(&first.file),
            format!("it ends at record {}, the replay needs {oldest}..{newest}", first.end()),
        )),
        (None, None) if oldest != newest => {
            Err(mismatch(dir, format!("no segment is listed, the replay needs records {oldest}..{newest}")))
        }
        _ => Ok(recipes),
    }
}

/// The records of a segment, or their recipe. A file that decompresses to more than the records that the checkpoint means is
/// refused before it takes the memory.
fn read_segment(
    path: &Path,
    expected: &SegmentRef,
    bytes_per_record: usize,
) -> Result<(Vec<u8>, bool), StoreError> {
    let container = Container::open(path)?;
    let range = container.section_within(RANGE, 16)?;
    let mut reader = StateReader::new(&range);
    let found =
        reader.u64().and_then(|first| Ok((first, reader.u64()?))).map_err(|e| StoreError::state(path, &e))?;
    let mismatch = |detail| StoreError::Mismatch { path: path.into(), detail };
    let length = disk::metadata(path).map_err(|e| StoreError::io(path, "read the length of", e))?.len();
    if length != expected.bytes {
        return Err(mismatch(format!(
            "{length} bytes long, the checkpoint means a file of {}",
            expected.bytes
        )));
    }
    if found != (expected.first, expected.count) {
        return Err(mismatch(format!(
            "{} records from {} found, the checkpoint means {} from {}",
            found.1, found.0, expected.count, expected.first
        )));
    }
    let is_recipe = container.names().any(|name| name == RECIPE);
    let (section, most) = match is_recipe {
        true => (RECIPE, Recipe::most_bytes(expected.count)),
        false => (RECORDS, expected.count.saturating_mul(bytes_per_record as u64)),
    };
    let bytes = container.section_within(section, most)?;
    if crc32fast::hash(&bytes) != expected.crc {
        return Err(mismatch("a sound segment, but not the one that the checkpoint means".into()));
    }
    Ok((bytes, is_recipe))
}

/// Deletes the segment files in `dir` that are not in `keep`, and temporary files that a killed process left. Returns the
/// names of the deleted segments, sorted.
///
/// `keep` holds the segments of *every* kept checkpoint. Call this only after the newest checkpoint is safely written, and
/// never while another process writes to the folder.
pub fn collect_garbage(dir: &Path, keep: &HashSet<String>) -> Result<Vec<String>, StoreError> {
    collect_garbage_if(dir, keep, || Ok(()))
}

/// Like [`collect_garbage`]; nothing more goes once `allowed`, which is asked before each file, does not agree.
///
/// The folder is listed before the first question. So a process that is stopped for long at any moment, and whose place another
/// takes meanwhile, knows no name of the other's files when it wakes: of those that it may still remove, one at the most, none is
/// needed by anybody.
pub(crate) fn collect_garbage_if(
    dir: &Path,
    keep: &HashSet<String>,
    mut allowed: impl FnMut() -> std::io::Result<()>,
) -> Result<Vec<String>, StoreError> {
    let mut deleted = Vec::new();
    for name in file_names(dir)? {
        let path = dir.join(&name);
        let needless = is_segment(&name) && !keep.contains(&name);
        if needless || is_temporary(&name) {
            allowed().map_err(|e| StoreError::io(&path, "remove", e))?;
        }
        if needless {
            disk::remove_file(&path).map_err(|e| StoreError::io(&path, "remove", e))?;
            deleted.push(name);
        } else if is_temporary(&name) {
            remove_temporary(&path)?;
        }
    }
    deleted.sort();
    Ok(deleted)
}

/// Names of all segment files in a folder, in no particular order.
pub(crate) fn segment_names(dir: &Path) -> Result<Vec<String>, StoreError> {
    Ok(file_names(dir)?.into_iter().filter(|name| is_segment(name)).collect())
}

/// Whether a file has a name that [`write_segment`] gives: whose, first record, number of records, and maybe an attempt.
fn is_segment(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(SUFFIX).filter(|_| !name.starts_with('.')) else { return false };
    let numbers = stem.rsplit('-').take_while(|part| is_number(part));
    let numbers: Vec<&str> = numbers.collect();
    (numbers.len() >= 2 && numbers[1].len() >= 12) || (numbers.len() >= 3 && numbers[2].len() >= 12)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
