//! Lengths and checksums of tables, with which checkpoints and `state.toml` tell whether a table's rows are still those that were
//! written.
//!
//! They are worked out while rows are written, so that nothing is read again; what is appended later does not matter to them.

use crate::store::{StoreError, disk, open_plain, refuse_link};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::settings::quote;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// The beginning of a table, up to the end of one of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSum {
    /// The name of the file in its agent's folder.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// CRC-32.
    pub crc: u32,
}

impl TableSum {
    /// Checks that the table still begins with these bytes.
    pub(crate) fn check(&self, folder: &Path) -> Result<(), StoreError> {
        let path = folder.join(&self.name);
        check_length(&path, self.bytes)?;
        let mut file = open_plain(&path).map_err(|e| StoreError::io(&path, "open", e))?;
        let found = crc_of(&mut file, self.bytes, |_| {}).map_err(|e| StoreError::io(&path, "read", e))?;
        if found != self.crc {
            let detail = format!("its first {} bytes are not those that the checkpoint knows", self.bytes);
            return Err(StoreError::Corrupt { path, detail });
        }
        Ok(())
    }
}

/// Checks that a growing file is there, no link, and at least as long as recorded.
pub(crate) fn check_length(path: &Path, recorded: u64) -> Result<(), StoreError> {
    refuse_link(path).map_err(|e| StoreError::io(path, "open", e))?;
    let found = disk::metadata(path).map_err(|e| StoreError::io(path, "read the length of", e))?.len();
    match found < recorded {
        true => Err(StoreError::TooShort { path: path.into(), found, recorded }),
        false => Ok(()),
    }
}

/// The CRC-32 of so many bytes, each part of which `look` is shown. A file that ends before is an error.
pub(crate) fn crc_of(from: impl Read, bytes: u64, mut look: impl FnMut(&[u8])) -> std::io::Result<u32> {
    let mut from = from.take(bytes);
    let (mut crc, mut left) = (crc32fast::Hasher::new(), bytes);
    let mut buffer = vec![0; 1 << 16];
    while left > 0 {
        let part = match from.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            read => &buffer[..read?],
        };
        crc.update(part);
        look(part);
        left -= part.len() as u64;
    }
    Ok(crc.finalize())
}

/// What a checkpoint keeps of an agent's tables.
pub(crate) fn to_bytes(sums: &[TableSum]) -> Vec<u8> {
    let mut out = StateWriter::default();
    out.u64(sums.len() as u64);
    for sum in sums {
        out.blob(sum.name.as_bytes());
        out.u64(sum.bytes);
        out.u32(sum.crc);
    }
    out.into_bytes()
}

/// Reads what [`to_bytes`] wrote.
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Vec<TableSum>, StateError> {
    let mut from = StateReader::new(bytes);
    let mut sums = Vec::new();
    for _ in 0..from.u64()? {
        let name = String::from_utf8_lossy(from.blob()?).into_owned();
        // The name is joined to the agent's folder: it must not lead out of it.
        if Path::new(&name).file_name().is_none_or(|file| file.to_string_lossy() != name) {
            return Err(StateError(format!("'{name}' is no table")));
        }
        sums.push(TableSum { name, bytes: from.u64()?, crc: from.u32()? });
    }
    from.finish()?;
    Ok(sums)
}

/// The line of `state.toml` about an agent's tables; nothing if there is nothing to tell.
pub(crate) fn to_toml(sums: &[TableSum]) -> String {
    let one = |TableSum { name, bytes, crc }: &TableSum| {
        format!("{} = {{ bytes = {bytes}, crc32 = \"{crc:08x}\" }}", quote(name))
    };
    match sums {
        [] => String::new(),
        sums => format!("{TOML_KEY} = {{ {} }}\n", sums.iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}

/// What [`to_toml`] wrote of one agent. What is not of that form is left out.
#[cfg(test)]
pub(crate) fn from_toml(agent: &toml::Table) -> Vec<TableSum> {
    let tables = agent.get(TOML_KEY).and_then(toml::Value::as_table).into_iter().flatten();
    let sum = |(name, table): (&String, &toml::Value)| {
        let bytes = table.get("bytes")?.as_integer()?.try_into().ok()?;
        let crc = u32::from_str_radix(table.get("crc32")?.as_str()?, 16).ok()?;
        Some(TableSum { name: name.clone(), bytes, crc })
    };
    tables.filter_map(sum).collect()
}

/// The text of a `state.toml` without what it says of tables.
pub(crate) fn without(state: &str) -> String {
    let of_tables = |line: &&str| line.split(" = ").next() == Some(TOML_KEY);
    state.split_inclusive('\n').filter(|line| !of_tables(line)).collect()
}

const TOML_KEY: &str = "tables";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::ScratchDir;

    fn sum(name: &str, content: &[u8]) -> TableSum {
        TableSum { name: name.into(), bytes: content.len() as u64, crc: crc32fast::hash(content) }
    }

    #[test]
    fn every_changed_byte_is_noticed_and_appended_rows_are_not_minded() {
        let dir = ScratchDir::new();
        // Longer than what is read at once.
        let rows: Vec<u8> = (0..30_000u32).flat_map(|row| format!("{row}\n").into_bytes()).collect();
        let sum = sum("t.csv", &rows);
        let check = |content: &[u8]| {
            std::fs::write(dir.join("t.csv"), content).unwrap();
            sum.check(dir.path())
        };
        check(&rows).unwrap();
        check(&[&rows[..], b"30000\n30"].concat()).unwrap();
        for at in [0, 1 << 16, rows.len() - 1] {
            let mut changed = rows.clone();
            changed[at] ^= 1;
            let error = check(&changed).unwrap_err();
            assert!(matches!(&error, StoreError::Corrupt { path, .. } if path.ends_with("t.csv")), "{error}");
        }
        assert!(matches!(check(&rows[1..]).unwrap_err(), StoreError::TooShort { .. }));
        std::fs::remove_file(dir.join("t.csv")).unwrap();
        assert!(matches!(sum.check(dir.path()).unwrap_err(), StoreError::NotFound { .. }));
    }

    #[test]
    fn what_is_kept_reads_back_and_leads_nowhere_else() {
        let sums = [sum("episodes.csv", b"frame\n"), sum("eval.csv", b"")];
        assert_eq!(from_bytes(&to_bytes(&sums)).unwrap(), sums);
        assert!(from_bytes(&to_bytes(&sums)[1..]).is_err());
        for name in ["../episodes.csv", "/etc/passwd", "", ".."] {
            assert!(from_bytes(&to_bytes(&[sum(name, b"")])).is_err(), "{name}");
        }
        let state = format!("status = \"running\"\n\n[[agents]]\nid = \"a\"\n{}", to_toml(&sums));
        let table: toml::Table = state.parse().unwrap();
        assert_eq!(from_toml(table["agents"][0].as_table().unwrap()), sums);
        assert_eq!(without(&state), "status = \"running\"\n\n[[agents]]\nid = \"a\"\n");
        assert_eq!(to_toml(&[]), "");
    }
}
