//! Reading zip archives: a wheel is one.

use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// Files in an archive that are larger than this cannot be ROMs.
pub(super) const MAX_FILE_BYTES: usize = 1 << 16;
/// The small files of one archive have no more bytes than this together, packed ones unpacked: many times what all cartridges
/// ever made have. Their sums are taken within a second or two.
const MAX_TOTAL_BYTES: usize = 256 << 20;

/// Why an archive is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// It is none, or damaged.
    Broken,
    /// Several of its files are made of the same bytes, which no program that packs archives does.
    Overlapping,
    /// Its small files are too many.
    TooMuch,
    /// It is too large to be held in memory.
    TooLarge,
}

impl Problem {
    /// What is said after the archive's name.
    pub fn words(self) -> &'static str {
        match self {
            Problem::Broken => "cannot be read as a zip archive; check that it was downloaded whole",
            Problem::Overlapping => {
                "is not read: some files in this zip archive overlap, as in one made to do harm"
            }
            Problem::TooMuch => {
                "is not read: the small files in this zip archive have more than 256 MiB; unpack it and give the folder"
            }
            Problem::TooLarge => {
                "is not read: the archive has more than 512 MiB; unpack it, and give a folder without it"
            }
        }
    }
}

/// A small file in an archive.
struct Entry {
    packed: bool,
    /// Where its own header begins.
    header: usize,
    /// Where its bytes are.
    bytes: std::ops::Range<usize>,
    /// How many they are when they are unpacked.
    size: usize,
}

/// Calls `each` with the bytes of every plain file of at most 64 KiB in the archive. What an archive costs is bounded before
/// anything of it is unpacked: by [`MAX_TOTAL_BYTES`], and because each of its bytes belongs to one file only.
pub(super) fn for_each_small_file(archive: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), Problem> {
    let entries = entries(archive).ok_or(Problem::Broken)?;
    let mut places: Vec<_> = entries.iter().map(|entry| (entry.header, entry.bytes.end)).collect();
    places.sort_unstable();
    if places.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err(Problem::Overlapping);
    }
    if entries.iter().map(|entry| entry.size).sum::<usize>() > MAX_TOTAL_BYTES {
        return Err(Problem::TooMuch);
    }
    for entry in entries {
        let bytes = &archive[entry.bytes];
        if entry.packed {
            let unpacked = decompress_to_vec_with_limit(bytes, entry.size).map_err(|_| Problem::Broken)?;
            if unpacked.len() != entry.size {
                return Err(Problem::Broken);
            }
            each(&unpacked);
        } else {
            each(bytes);
        }
    }
    Ok(())
}

/// The small files of an archive, in the order of its directory. `None` if it is no zip archive, or a damaged one.
fn entries(archive: &[u8]) -> Option<Vec<Entry>> {
    let end = end_of_directory(archive)?;
    let count = number(archive, end + 10, 2)?;
    let mut at = number(archive, end + 16, 4)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        if number(archive, at, 4)? != 0x0201_4b50 {
            return None;
        }
        let method = number(archive, at + 10, 2)?;
        let (packed, size) = (number(archive, at + 20, 4)?, number(archive, at + 24, 4)?);
        let (name, extra, comment) =
            (number(archive, at + 28, 2)?, number(archive, at + 30, 2)?, number(archive, at + 32, 2)?);
        let header = number(archive, at + 42, 4)?;
        // Other methods are rare, and no ROM in circulation uses them.
        let usual = method == 0 || method == 8;
        if usual && (1..=MAX_FILE_BYTES).contains(&size) && number(archive, header, 4)? == 0x0403_4b50 {
            let start = header + 30 + number(archive, header + 26, 2)? + number(archive, header + 28, 2)?;
            let bytes = start..start.checked_add(packed)?;
            if bytes.end > archive.len() || (method == 0 && packed != size) {
                return None;
            }
            entries.push(Entry { packed: method == 8, header, bytes, size });
        }
        at = at.checked_add(46 + name + extra + comment)?;
    }
    Some(entries)
}

/// The record at the end of the archive, which a comment of up to 64 KiB may follow.
fn end_of_directory(archive: &[u8]) -> Option<usize> {
    let last = archive.len().checked_sub(22)?;
    (last.saturating_sub(0xffff)..=last).rev().find(|&at| archive[at..at + 4] == *b"PK\x05\x06")
}

fn number(bytes: &[u8], at: usize, len: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(len)?)?;
    Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use miniz_oxide::deflate::compress_to_vec;

    /// A zip archive of these files, packed or not.
    pub fn zipped(files: &[(&str, &[u8], bool)], comment: &[u8]) -> Vec<u8> {
        let (mut out, mut directory) = (Vec::new(), Vec::new());
        for &(name, bytes, packed) in files {
            let body = if packed { compress_to_vec(bytes, 6) } else { bytes.to_vec() };
            let local = out.len() as u32;
            let mut fields = Vec::new();
            fields.extend([20, 0, 0, 0, if packed { 8 } else { 0 }, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            fields.extend((body.len() as u32).to_le_bytes());
            fields.extend((bytes.len() as u32).to_le_bytes());
            fields.extend((name.len() as u16).to_le_bytes());
            fields.extend([0, 0]);
            out.extend(b"PK\x03\x04".iter().chain(&fields).chain(name.as_bytes()).chain(&body));
            directory.extend(b"PK\x01\x02\x14\x00".iter().chain(&fields).chain(&[0; 10]));
            directory.extend(local.to_le_bytes().iter().chain(name.as_bytes()));
        }
        let (start, count) = (out.len() as u32, (files.len() as u16).to_le_bytes());
        out.extend(&directory);
        out.extend(b"PK\x05\x06\0\0\0\0".iter().chain(&count).chain(&count));
        out.extend((directory.len() as u32).to_le_bytes().iter().chain(&start.to_le_bytes()));
        out.extend((comment.len() as u16).to_le_bytes().iter().chain(comment));
        out
    }

    fn contents(archive: &[u8]) -> Result<Vec<Vec<u8>>, Problem> {
        let mut all = Vec::new();
        for_each_small_file(archive, |bytes| all.push(bytes.to_vec())).map(|()| all)
    }

    #[test]
    fn files_come_out_as_they_went_in() {
        let long: Vec<u8> = (0..5_000u32).map(|i| ((i * i) >> 5) as u8).collect();
        let archive = zipped(
            &[("a", b"plain", false), ("folder/b", &long, true), ("empty", b"", false)],
            b"a comment PK",
        );
        assert_eq!(contents(&archive), Ok(vec![b"plain".to_vec(), long]));
        assert_eq!(contents(&zipped(&[("huge", &vec![1; MAX_FILE_BYTES + 1], true)], b"")), Ok(vec![]));
    }

    #[test]
    fn damage_is_noticed_and_never_a_panic() {
        let bytes: Vec<u8> = (0..3_000u32).map(|i| ((i * 7919) >> 3) as u8).collect();
        let archive = zipped(&[("a", &bytes, true), ("b", &bytes, false)], b"");
        for cut in 0..archive.len() {
            assert_eq!(contents(&archive[..cut]), Err(Problem::Broken), "cut at {cut}");
        }
        for at in 0..archive.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = archive.clone();
                damaged[at] ^= flip;
                let _ = contents(&damaged);
            }
        }
        assert_eq!(contents(b"no archive at all, but longer than its last record"), Err(Problem::Broken));
    }

    /// An archive whose files are all the first one: their number is that of its directory's entries.
    fn overlapping(body: &[u8], count: u16) -> Vec<u8> {
        let one = zipped(&[("a", body, true)], b"");
        let end = one.len() - 22;
        let directory = number(&one, end + 16, 4).unwrap();
        let entries = one[directory..end].repeat(usize::from(count));
        let mut out = [&one[..directory], &entries, &one[end..]].concat();
        let end = out.len() - 22;
        out[end + 8..end + 10].copy_from_slice(&count.to_le_bytes());
        out[end + 10..end + 12].copy_from_slice(&count.to_le_bytes());
        out
    }

    #[test]
    fn files_that_overlap_are_refused_before_any_is_unpacked() {
        let archive = overlapping(&[0; MAX_FILE_BYTES], u16::MAX);
        assert!(archive.len() < 4 << 20, "4 GiB in {} bytes", archive.len());
        let mut calls = 0;
        assert_eq!(for_each_small_file(&archive, |_| calls += 1), Err(Problem::Overlapping));
        assert_eq!(calls, 0);
        assert_eq!(contents(&overlapping(b"one file", 1)).unwrap().len(), 1);
        assert_eq!(contents(&overlapping(b"one file", 2)), Err(Problem::Overlapping));
    }

    #[test]
    fn bombs_are_refused_before_anything_is_unpacked() {
        let zeros = vec![0; MAX_FILE_BYTES];
        let most = MAX_TOTAL_BYTES / MAX_FILE_BYTES;
        let bomb = |files: usize| zipped(&vec![("a", &zeros[..], true); files], b"");
        let mut calls = 0;
        let outcome = for_each_small_file(&bomb(most + 1), |_| calls += 1);
        assert_eq!((outcome, calls), (Err(Problem::TooMuch), 0));
        // One that says less than it holds gets no more room than it asked for.
        let mut liar = zipped(&[("a", &zeros, true)], b"");
        let directory = number(&liar, liar.len() - 6, 4).unwrap();
        liar[directory + 24..directory + 28].copy_from_slice(&2048u32.to_le_bytes());
        assert_eq!(contents(&liar), Err(Problem::Broken));
        // Nor may a file that is not packed be longer than it says.
        let mut liar = zipped(&[("a", &zeros, false)], b"");
        let directory = number(&liar, liar.len() - 6, 4).unwrap();
        liar[directory + 24..directory + 28].copy_from_slice(&2048u32.to_le_bytes());
        assert_eq!(contents(&liar), Err(Problem::Broken));
    }
}
