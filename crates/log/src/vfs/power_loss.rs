//! The real file system with the durability of a power loss: what is not synced lives in this process only, so that
//! `kill -9` loses it (testing mode; never for production).
//!
//! - Writes, cuts and extensions of a file stay in memory, by pages, until the file is synced.
//! - Created, renamed and removed *files* stay in memory until their directory is synced; a file that is synced before
//!   its name is keeps its contents in memory.
//! - Directories themselves are created, renamed and removed at once; what is pending in one that is renamed or removed
//!   is made durable or forgotten before.
//!
//! Memory is bounded by what is unsynced; the logs' background flushes bound that. Bytes reach the real file when they
//! are synced, and the real sync runs too, so that its time is honest.

mod node;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use self::node::Node;
use super::{DirEntry, DirLock, DiskSpace, OpenMode, RealVfs, Vfs, VfsFile};

/// The real file system, losing at `kill -9` what was not synced. Clones share what is pending.
#[derive(Clone, Default)]
pub struct PowerLossVfs {
    real: RealVfs,
    names: Arc<Mutex<Names>>,
}

/// The names as the process sees them, where they differ from the real ones.
///
/// Invariant: `pending` holds every change that the real directories lack, in order; `files` and `removed` are what
/// they amount to. A path is never in both.
#[derive(Default)]
struct Names {
    /// Files that were created, renamed or have unsynced contents.
    files: BTreeMap<PathBuf, Arc<Node>>,
    /// Real names that are gone.
    removed: BTreeSet<PathBuf>,
    pending: Vec<Change>,
}

enum Change {
    Create { path: PathBuf, node: Arc<Node> },
    Rename { from: PathBuf, to: PathBuf, node: Arc<Node> },
    Remove { path: PathBuf },
}

impl Change {
    fn touches(&self, dir: &Path) -> bool {
        match self {
            Change::Create { path, .. } | Change::Remove { path } => path.parent() == Some(dir),
            Change::Rename { from, to, .. } => from.parent() == Some(dir) || to.parent() == Some(dir),
        }
    }

    fn make_real(self) -> io::Result<()> {
        match self {
            Change::Create { path, node } => node.materialise(&path),
            Change::Rename { from, to, node } => {
                node.materialise(&from)?;
                std::fs::rename(from, to)
            }
            Change::Remove { path } => match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }
}

impl PowerLossVfs {
    /// A view of the real file system with nothing pending.
    #[must_use]
    pub fn new() -> Self {
        PowerLossVfs::default()
    }
}

impl Names {
    /// The file of a name, if there is one.
    fn find(&mut self, path: &Path) -> io::Result<Option<Arc<Node>>> {
        if let Some(node) = self.files.get(path) {
            return Ok(Some(Arc::clone(node)));
        }
        if self.removed.contains(path) {
            return Ok(None);
        }
        match Node::open(path) {
            Ok(node) => {
                let node = Arc::new(node);
                self.files.insert(path.to_owned(), Arc::clone(&node));
                Ok(Some(node))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Forgets files that nobody has open and that are as the real ones.
    fn tidy(&mut self) {
        let held: BTreeSet<*const Node> = self
            .pending
            .iter()
            .filter_map(|change| match change {
                Change::Create { node, .. } | Change::Rename { node, .. } => Some(Arc::as_ptr(node)),
                Change::Remove { .. } => None,
            })
            .collect();
        self.files.retain(|_, node| {
            Arc::strong_count(node) > 1 || held.contains(&Arc::as_ptr(node)) || !node.is_clean()
        });
    }

    fn create(&mut self, path: &Path) -> Arc<Node> {
        let node = Arc::new(Node::new());
        self.removed.remove(path);
        self.files.insert(path.to_owned(), Arc::clone(&node));
        self.pending.push(Change::Create { path: path.to_owned(), node: Arc::clone(&node) });
        node
    }

    fn make_real(&mut self, dir: &Path) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let (due, later): (Vec<_>, Vec<_>) = pending.into_iter().partition(|change| change.touches(dir));
        self.pending = later;
        for change in due {
            change.make_real()?;
        }
        let pending = &self.pending;
        self.removed
            .retain(|path| path.parent() != Some(dir) || pending.iter().any(|change| change.touches(dir)));
        self.tidy();
        Ok(())
    }

    /// What is pending below a directory that is about to go.
    fn forget_below(&mut self, dir: &Path) {
        self.files.retain(|path, _| !path.starts_with(dir));
        self.removed.retain(|path| !path.starts_with(dir));
        self.pending.retain(|change| match change {
            Change::Create { path, .. } | Change::Remove { path } => !path.starts_with(dir),
            Change::Rename { from, to, .. } => !from.starts_with(dir) && !to.starts_with(dir),
        });
    }

    /// A directory is renamed: its files go with it, synced names and all.
    fn move_dir(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let dirs: BTreeSet<PathBuf> = self
            .files
            .keys()
            .chain(&self.removed)
            .filter(|path| path.starts_with(from))
            .filter_map(|path| path.parent().map(Path::to_owned))
            .collect();
        for dir in dirs {
            self.make_real(&dir)?;
        }
        std::fs::rename(from, to)?;
        let moved: Vec<PathBuf> = self.files.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for path in moved {
            if let (Some(node), Ok(rest)) = (self.files.remove(&path), path.strip_prefix(from)) {
                self.files.insert(to.join(rest), node);
            }
        }
        Ok(())
    }
}

impl Vfs for PowerLossVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let mut names = self.names.lock();
        let node = match (names.find(path)?, mode) {
            (Some(_), OpenMode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(node), OpenMode::CreateOrTruncate) => {
                node.set_len(0)?;
                node
            }
            (Some(node), _) => node,
            (None, OpenMode::Read | OpenMode::ReadWrite) => return Err(io::ErrorKind::NotFound.into()),
            (None, OpenMode::CreateNew | OpenMode::CreateOrTruncate) => {
                let parent = path.parent().unwrap_or(Path::new("."));
                if !parent.as_os_str().is_empty() && !parent.is_dir() {
                    return Err(io::ErrorKind::NotFound.into());
                }
                names.create(path)
            }
        };
        Ok(node)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.real.create_dir_all(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let names = self.names.lock();
        let mut entries: BTreeSet<DirEntry> = self
            .real
            .read_dir(path)?
            .into_iter()
            .filter(|entry| !names.removed.contains(&path.join(&entry.name)))
            .collect();
        for file in names.files.keys().filter(|file| file.parent() == Some(path)) {
            if let Some(name) = file.file_name() {
                entries.insert(DirEntry { name: name.to_string_lossy().into_owned(), is_dir: false });
            }
        }
        Ok(entries.into_iter().collect())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let names = self.names.lock();
        if names.files.contains_key(path) {
            return Ok(true);
        }
        Ok(!names.removed.contains(path) && self.real.exists(path)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names.lock();
        if from.is_dir() {
            return names.move_dir(from, to);
        }
        let node = names.find(from)?.ok_or(io::ErrorKind::NotFound)?;
        names.files.remove(from);
        names.removed.insert(from.to_owned());
        names.removed.remove(to);
        names.files.insert(to.to_owned(), Arc::clone(&node));
        names.pending.push(Change::Rename { from: from.to_owned(), to: to.to_owned(), node });
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut names = self.names.lock();
        names.find(path)?.ok_or(io::ErrorKind::NotFound)?;
        names.files.remove(path);
        names.removed.insert(path.to_owned());
        names.pending.push(Change::Remove { path: path.to_owned() });
        Ok(())
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut names = self.names.lock();
        names.forget_below(path);
        self.real.remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.names.lock().make_real(path)?;
        self.real.sync_dir(path)
    }

    fn disk_space(&self, path: &Path) -> io::Result<DiskSpace> {
        self.real.disk_space(path)
    }

    fn lock_dir(&self, path: &Path) -> io::Result<Box<dyn DirLock>> {
        self.real.lock_dir(path)
    }
}

#[cfg(test)]
mod tests;
