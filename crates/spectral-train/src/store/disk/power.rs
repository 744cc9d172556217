//! What a power cut leaves of a folder: only what was synced is certain.
//!
//! A file's content is safe once the file was synced, a name once its folder was. Of what came later, anything may survive or not,
//! in any order.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Which changes of names since their folders were synced survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    None,
    All,
    /// Names that went are gone, and new ones are not there.
    Removals,
    /// Each by a coin.
    Some(u64),
}

/// What survives of the content of a file that has changed since it was synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// What was synced.
    Old,
    /// All of it.
    New,
    /// The new length, with zeros in place of what was not synced.
    Zeros,
    /// One of these, by a coin for each file.
    Some(u64),
}

/// Files by their paths inside a folder; folders have no content.
pub type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// A folder as it is, and as much of it as is safe.
#[derive(Clone, Debug, Default)]
pub struct Model {
    root: PathBuf,
    files: Vec<Content>,
    /// Which file a path leads to now.
    names: BTreeMap<PathBuf, usize>,
    folders: BTreeMap<PathBuf, Folder>,
}

#[derive(Clone, Debug, Default)]
struct Content {
    safe: Vec<u8>,
    /// What it held when its last name went.
    last: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct Folder {
    safe: BTreeMap<OsString, Entry>,
    since: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Entry {
    File(usize),
    Folder,
}

#[derive(Clone, Debug)]
enum Change {
    Add(OsString, Entry),
    Remove(OsString),
    Move(OsString, OsString, usize),
}

fn name(path: &Path) -> OsString {
    path.file_name().unwrap_or_default().into()
}

impl Model {
    /// A folder all of which is safe.
    pub fn of(root: &Path) -> Self {
        let mut model = Model { root: root.into(), ..Model::default() };
        model.adopt(root);
        model
    }

    fn adopt(&mut self, folder: &Path) {
        let mut found = Folder::default();
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let entry = if path.is_dir() {
                self.adopt(&path);
                Entry::Folder
            } else {
                let content = fs::read(&path).unwrap();
                self.files.push(Content { safe: content.clone(), last: content });
                self.names.insert(path.clone(), self.files.len() - 1);
                Entry::File(self.files.len() - 1)
            };
            found.safe.insert(name(&path), entry);
        }
        self.folders.insert(folder.into(), found);
    }

    /// Paths elsewhere are nobody's business.
    fn folder_of(&mut self, path: &Path) -> Option<&mut Folder> {
        self.folders.get_mut(path.parent()?)
    }

    fn change(&mut self, path: &Path, change: Change) {
        if let Some(folder) = self.folder_of(path) {
            folder.since.push(change);
        }
    }

    /// A file is new.
    pub fn created(&mut self, path: &Path) {
        self.files.push(Content::default());
        let file = self.files.len() - 1;
        self.names.insert(path.into(), file);
        self.change(path, Change::Add(name(path), Entry::File(file)));
    }

    /// A folder is new.
    pub fn made_folder(&mut self, path: &Path) {
        self.change(path, Change::Add(name(path), Entry::Folder));
        self.folders.insert(path.into(), Folder::default());
    }

    /// A name is about to lead elsewhere or to go.
    pub fn forgets(&mut self, path: &Path) {
        if let Some(&file) = self.names.get(path) {
            self.files[file].last = fs::read(path).unwrap_or_default();
        }
    }

    /// A file was renamed.
    pub fn moved(&mut self, from: &Path, to: &Path) {
        if let Some(file) = self.names.remove(from) {
            self.names.insert(to.into(), file);
            self.change(to, Change::Move(name(from), name(to), file));
        }
    }

    /// A file has another name.
    pub fn linked(&mut self, from: &Path, to: &Path) {
        if let Some(&file) = self.names.get(from) {
            self.names.insert(to.into(), file);
            self.change(to, Change::Add(name(to), Entry::File(file)));
        }
    }

    /// A file's name went.
    pub fn removed(&mut self, path: &Path) {
        self.names.remove(path);
        self.change(path, Change::Remove(name(path)));
    }

    /// A file was synced.
    pub fn synced(&mut self, path: &Path) {
        if let Some(&file) = self.names.get(path) {
            self.files[file].safe = fs::read(path).unwrap();
        }
    }

    /// A folder was synced.
    pub fn synced_folder(&mut self, path: &Path) {
        if let Some(folder) = self.folders.get_mut(path) {
            let since = std::mem::take(&mut folder.since);
            since.into_iter().for_each(|change| apply(&mut folder.safe, change));
        }
    }

    /// What is left when the power goes now.
    pub fn cut(&self, names: Names, data: Data) -> Tree {
        let mut now: Vec<Vec<u8>> = self.files.iter().map(|file| file.last.clone()).collect();
        for (path, &file) in &self.names {
            now[file] = fs::read(path).unwrap();
        }
        let mut tree = Tree::new();
        self.survivors(&self.root, names, data, &now, &mut tree);
        tree
    }

    fn survivors(&self, at: &Path, names: Names, data: Data, now: &[Vec<u8>], tree: &mut Tree) {
        let folder = &self.folders[at];
        let mut entries = folder.safe.clone();
        for (number, change) in folder.since.iter().enumerate() {
            let survives = match names {
                Names::None => false,
                Names::All => true,
                Names::Removals => matches!(change, Change::Remove(_)),
                Names::Some(seed) => coin(seed, number).is_multiple_of(2),
            };
            if survives {
                apply(&mut entries, change.clone());
            }
        }
        for (name, entry) in entries {
            let path = at.join(name);
            let inside = path.strip_prefix(&self.root).unwrap().to_path_buf();
            match entry {
                Entry::Folder => {
                    tree.insert(inside, None);
                    self.survivors(&path, names, data, now, tree);
                }
                Entry::File(file) => {
                    let (safe, new) = (&self.files[file].safe, &now[file]);
                    let choice = match data {
                        Data::Some(seed) => {
                            [Data::Old, Data::New, Data::Zeros][coin(seed, file) as usize % 3]
                        }
                        other => other,
                    };
                    let mut content = if choice == Data::New { new.clone() } else { safe.clone() };
                    if choice == Data::Zeros && safe != new {
                        content.resize(new.len(), 0);
                    }
                    tree.insert(inside, Some(content));
                }
            }
        }
    }
}

fn apply(entries: &mut BTreeMap<OsString, Entry>, change: Change) {
    match change {
        Change::Add(name, entry) => drop(entries.insert(name, entry)),
        Change::Remove(name) => drop(entries.remove(&name)),
        Change::Move(from, to, file) => {
            entries.remove(&from);
            entries.insert(to, Entry::File(file));
        }
    }
}

fn coin(seed: u64, number: usize) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number as u64 + 1);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (state ^ (state >> 31)) >> 8
}

/// Everything in a folder.
pub fn tree_of(folder: &Path) -> Tree {
    Model::of(folder).cut(Names::All, Data::New)
}

/// Makes a new folder of this content.
pub fn lay(tree: &Tree, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for (path, content) in tree {
        let path = folder.join(path);
        match content {
            Some(content) => fs::write(path, content).unwrap(),
            None => fs::create_dir(path).unwrap(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::ScratchDir;
    use super::super::super::{atomic::write_and_rename, sync_folder, write_atomically};
    use super::super::faults::{Disk, Fault, File};
    use super::*;
    use std::io::Write;

    fn texts(tree: &Tree) -> Vec<(String, String)> {
        let text = |content: &Vec<u8>| String::from_utf8_lossy(content).into_owned();
        let named = |(path, content): (&PathBuf, &Option<Vec<u8>>)| {
            Some((path.to_string_lossy().into_owned(), text(content.as_ref()?)))
        };
        tree.iter().filter_map(named).collect()
    }

    #[test]
    fn what_was_synced_survives_and_nothing_else_is_certain() {
        let dir = ScratchDir::new();
        let old = dir.join("a");
        fs::write(&old, "old").unwrap();
        let disk = Disk::watch(dir.path(), None);
        let left = |names, data| texts(&disk.model().cut(names, data));
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|&(name, text)| (name.into(), text.into())).collect()
        };
        write_and_rename(&old, |out| out.write_all(b"new")).unwrap();
        assert_eq!(left(Names::None, Data::New), pairs(&[("a", "old")]), "the new name was not synced");
        assert_eq!(left(Names::All, Data::Old), pairs(&[("a", "new")]), "the file was");
        sync_folder(dir.path()).unwrap();
        assert_eq!(left(Names::None, Data::Old), pairs(&[("a", "new")]));
        let mut grown = File::create_new(dir.join("b")).unwrap();
        grown.write_all(b"12").unwrap();
        assert_eq!(left(Names::None, Data::New), pairs(&[("a", "new")]));
        assert_eq!(left(Names::All, Data::Old), pairs(&[("a", "new"), ("b", "")]));
        assert_eq!(left(Names::All, Data::Zeros), pairs(&[("a", "new"), ("b", "\0\0")]));
        grown.sync_data().unwrap();
        grown.write_all(b"34").unwrap();
        sync_folder(dir.path()).unwrap();
        super::super::remove_file(&old).unwrap();
        assert_eq!(left(Names::None, Data::Zeros), pairs(&[("a", "new"), ("b", "12\0\0")]));
        assert_eq!(left(Names::Removals, Data::New), pairs(&[("b", "1234")]));
    }

    #[test]
    fn after_a_kill_nothing_happens_and_other_folders_do_not_notice() {
        let (dir, other) = (ScratchDir::new(), ScratchDir::new());
        let write = |dir: &ScratchDir| write_atomically(&dir.join("a"), |out| out.write_all(b"1234"));
        let operations = {
            let disk = Disk::watch(dir.path(), None);
            write(&dir).unwrap();
            fs::remove_file(dir.join("a")).unwrap();
            disk.kinds().len()
        };
        for point in 0..operations {
            let _disk = Disk::watch(dir.path(), Some((point, Fault::Kill)));
            let outcome = write(&dir);
            write(&other).unwrap();
            let names = dir.names();
            assert!(outcome.is_err() || point + 2 >= operations, "{point} of {operations}: {outcome:?}");
            assert_eq!(names.len(), 1, "the temporary file stays, or the file is there: {names:?}");
            fs::remove_file(dir.join(&names[0])).unwrap();
        }
    }
}
