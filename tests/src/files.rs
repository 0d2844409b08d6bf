//! The files of a stopped broker, to be looked at and damaged.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The folder of a partition. Its name is `<topic id>-<partition>`.
#[must_use]
pub fn partition_dir(data_dir: &Path, topic_id: &str, partition: i32) -> PathBuf {
    data_dir.join("data").join(format!("{topic_id}-{partition}"))
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
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
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
