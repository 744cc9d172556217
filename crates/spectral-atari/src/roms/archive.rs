//! Reading zip archives: a wheel is one.

use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// Files in an archive that are larger than this cannot be ROMs.
pub(super) const MAX_FILE_BYTES: usize = 1 << 16;

/// Calls `each` with the bytes of every plain file of at most 64 KiB in the archive. `None` if it is no zip archive, or
/// a damaged one.
pub(super) fn for_each_small_file(archive: &[u8], mut each: impl FnMut(&[u8])) -> Option<()> {
    let end = end_of_directory(archive)?;
    let entries = number(archive, end + 10, 2)?;
    let mut at = number(archive, end + 16, 4)?;
    for _ in 0..entries {
        if number(archive, at, 4)? != 0x0201_4b50 {
            return None;
        }
        let method = number(archive, at + 10, 2)?;
        let (packed, size) = (number(archive, at + 20, 4)?, number(archive, at + 24, 4)?);
        let (name, extra, comment) =
            (number(archive, at + 28, 2)?, number(archive, at + 30, 2)?, number(archive, at + 32, 2)?);
        let local = number(archive, at + 42, 4)?;
        if (1..=MAX_FILE_BYTES).contains(&size) && number(archive, local, 4)? == 0x0403_4b50 {
            let start = local + 30 + number(archive, local + 26, 2)? + number(archive, local + 28, 2)?;
            let bytes = archive.get(start..start.checked_add(packed)?)?;
            match method {
                0 => each(bytes),
                8 => each(&decompress_to_vec_with_limit(bytes, MAX_FILE_BYTES).ok()?),
                // Other methods are rare, and no ROM in circulation uses them.
                _ => {}
            }
        }
        at = at.checked_add(46 + name + extra + comment)?;
    }
    Some(())
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
mod tests {
    use super::*;
    use miniz_oxide::deflate::compress_to_vec;

    /// A zip archive of these files, packed or not.
    fn zipped(files: &[(&str, &[u8], bool)], comment: &[u8]) -> Vec<u8> {
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

    fn contents(archive: &[u8]) -> Option<Vec<Vec<u8>>> {
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
        assert_eq!(contents(&archive), Some(vec![b"plain".to_vec(), long]));
        assert_eq!(contents(&zipped(&[("huge", &vec![1; MAX_FILE_BYTES + 1], true)], b"")), Some(vec![]));
    }

    #[test]
    fn damage_is_noticed_and_never_a_panic() {
        let bytes: Vec<u8> = (0..3_000u32).map(|i| ((i * 7919) >> 3) as u8).collect();
        let archive = zipped(&[("a", &bytes, true), ("b", &bytes, false)], b"");
        for cut in 0..archive.len() {
            assert_eq!(contents(&archive[..cut]), None, "cut at {cut}");
        }
        for at in 0..archive.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = archive.clone();
                damaged[at] ^= flip;
                let _ = contents(&damaged);
            }
        }
        assert_eq!(contents(b"no archive at all, but longer than its last record"), None);
    }
}
