//! The file system as the log sees it: one trait, so that the same code runs on a disk, in memory with injected
//! faults, and in the power-loss mode of the tests.
//!
//! Calls block. Paths are absolute or relative to the process; the caller owns the directory (see
//! [`Vfs::lock_dir`]). What is durable: file contents after [`VfsFile::sync_data`], names (create, rename, remove)
//! after [`Vfs::sync_dir`] of the parent.

mod memory;
mod power_loss;
mod real;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use memory::{CrashPolicy, Fault, MemoryVfs, Operation, PAGE_BYTES, SECTOR_BYTES};
pub use power_loss::PowerLossVfs;
pub use real::RealVfs;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A new file, for reading and writing; fails if the name exists.
    CreateNew,
    /// A new or emptied file, for reading and writing.
    CreateOrTruncate,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name, without its directory.
    pub name: String,
    /// Whether it is a directory itself.
    pub is_dir: bool,
}

/// Space on the file system of a directory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Size of the file system.
    pub total_bytes: u64,
    /// What an unprivileged process can still write.
    pub available_bytes: u64,
}

/// Keeps other processes off a directory while it lives.
pub trait DirLock: Send + Sync {}

/// A file system.
pub trait Vfs: Send + Sync + 'static {
    /// Opens a file.
    ///
    /// # Errors
    /// Those of the operating system, `NotFound` and `AlreadyExists` among them.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>>;
    /// Creates a directory and its missing parents.
    ///
    /// # Errors
    /// Those of the operating system.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// Those of the operating system.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;
    /// Whether the path exists.
    ///
    /// # Errors
    /// Those of the operating system.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Gives a file or directory another name, replacing a file that has it.
    ///
    /// # Errors
    /// Those of the operating system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name; open handles go on reading.
    ///
    /// # Errors
    /// Those of the operating system.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory and all below it.
    ///
    /// # Errors
    /// Those of the operating system.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// Those of the operating system; the directory must not be trusted after one.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Space on the file system that holds the path.
    ///
    /// # Errors
    /// Those of the operating system.
    fn disk_space(&self, path: &Path) -> io::Result<DiskSpace>;
    /// Takes the directory for this process, by a lock on the file `LOCK` in it.
    ///
    /// # Errors
    /// `WouldBlock` if another holder has it; else those of the operating system.
    fn lock_dir(&self, path: &Path) -> io::Result<Box<dyn DirLock>>;
}

/// An open file. Positions are bytes from its start; calls may run at the same time.
pub trait VfsFile: Send + Sync {
    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file.
    ///
    /// # Errors
    /// Those of the operating system.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;
    /// Appends up to `count` bytes from the position to the buffer; fewer only at the end of the file. A file system
    /// that can read into memory that was not set before does so.
    ///
    /// # Errors
    /// Those of the operating system; what was read before is in the buffer.
    fn read_to(&self, buffer: &mut Vec<u8>, count: usize, position: u64) -> io::Result<()> {
        let before = buffer.len();
        buffer.resize(before + count, 0);
        let read = self.read_at(&mut buffer[before..], position);
        buffer.truncate(before + *read.as_ref().unwrap_or(&0));
        read.map(|_| ())
    }
    /// Writes all bytes. After an error any part of them may be there.
    ///
    /// # Errors
    /// Those of the operating system; `StorageFull` and `QuotaExceeded` leave the file usable.
    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;
    /// The file's length.
    ///
    /// # Errors
    /// Those of the operating system.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// Those of the operating system.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|bytes| bytes == 0)
    }
    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    /// Those of the operating system.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Reserves space without changing the length; a hint where the file system cannot.
    ///
    /// # Errors
    /// `StorageFull` and `QuotaExceeded`.
    fn allocate(&self, position: u64, bytes: u64) -> io::Result<()>;
    /// Makes contents and length durable (fdatasync).
    ///
    /// # Errors
    /// Those of the operating system. Nothing written before may be trusted after one: a second call may
    /// succeed without having written (T23).
    fn sync_data(&self) -> io::Result<()>;
}

/// Whether an error says that the disk or a quota is full: the one kind that leaves a file usable (R17).
#[must_use]
pub fn is_out_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Forgives a full disk, for writes that only make something faster.
pub(crate) fn unless_full(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if !is_out_of_space(&error) => Err(error),
        _ => Ok(()),
    }
}
