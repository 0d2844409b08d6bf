//! The files of a stopped broker, to be looked at and damaged.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The folder of a partition. Its name is `<topic id>-<partition>`, the id without hyphens.
#[must_use]
pub fn partition_dir(data_dir: &Path, topic_id: &str, partition: i32) -> PathBuf {
    data_dir.join("data").join(format!("{}-{partition}", topic_id.replace('-', "")))
}

/// Files of a folder whose names end so, in the order of their names.
///
/// # Panics
/// If the folder cannot be read.
#[must_use]
pub fn with_extension(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap_or_else(|error| panic!("{} cannot be read: {error}", dir.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    found.sort();
    found
}

/// Names of the files and folders in a folder, in order.
///
/// # Panics
/// If the folder cannot be read.
#[must_use]
pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Flips all bits of the byte at this position.
///
/// # Panics
/// If there is no such byte.
pub fn flip(path: &Path, position: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, position).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.write_all_at(&[!byte[0]], position).unwrap();
}

/// Cuts a file to this length.
///
/// # Panics
/// If that fails.
pub fn truncate(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

/// Length of a file.
///
/// # Panics
/// If it is not there.
#[must_use]
pub fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).len()
}

/// Every file below a folder, in the order of the paths.
///
/// # Panics
/// If the folder cannot be read.
#[must_use]
pub fn all(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(all(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Copies a folder with all that is in it.
///
/// # Panics
/// If that fails.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (source, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if source.is_dir() {
            copy(&source, &target);
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
}

/// Where these bytes stand first in a file.
///
/// # Panics
/// If they do not.
#[must_use]
pub fn position_of(path: &Path, needle: &[u8]) -> u64 {
    let bytes = fs::read(path).unwrap();
    let found = bytes.windows(needle.len()).position(|window| window == needle);
    found.unwrap_or_else(|| panic!("{} does not hold {:?}", path.display(), String::from_utf8_lossy(needle)))
        as u64
}

/// A way to damage a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One byte in its middle is another.
    Flip,
    /// The second half is gone.
    Truncate,
    /// It is empty.
    Empty,
    /// Every byte is zero.
    Zero,
    /// It is gone.
    Remove,
}

/// All ways.
pub const DAMAGES: [Damage; 5] =
    [Damage::Flip, Damage::Truncate, Damage::Empty, Damage::Zero, Damage::Remove];

impl Damage {
    /// Damages a file.
    ///
    /// # Panics
    /// If it is not there.
    pub fn inflict(self, path: &Path) {
        let size = length(path);
        match self {
            Damage::Flip if size == 0 => {}
            Damage::Flip => flip(path, size / 2),
            Damage::Truncate => truncate(path, size / 2),
            Damage::Empty => truncate(path, 0),
            Damage::Zero => fs::write(path, vec![0; usize::try_from(size).unwrap()]).unwrap(),
            Damage::Remove => fs::remove_file(path).unwrap(),
        }
    }
}
