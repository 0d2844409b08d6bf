//! A file system in memory that models power loss and faults, for tests.
//!
//! What it promises is the least that a POSIX file system promises: contents are durable after a sync of the file,
//! names after a sync of their directory, and before that each 4 KiB page and each name may or may not survive a crash
//! (see [`MemoryVfs::crash`]). A rename is atomic. After a failed sync the pages that it should have written are
//! lost to every later sync, as on Linux (T23).
//!
//! All mutations can be recorded and replayed up to any point, which is how crash states are enumerated.

mod crash;
mod fault;
mod state;

use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use self::state::{NodeId, State};
use super::{DirEntry, DirLock, DiskSpace, OpenMode, Vfs, VfsFile};

pub use self::crash::{CrashPolicy, PAGE_BYTES, SECTOR_BYTES};
pub use self::fault::Fault;
pub use self::state::Operation;

/// A file system in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryVfs {
    state: Arc<Mutex<State>>,
}

impl MemoryVfs {
    /// An empty file system with a root directory.
    #[must_use]
    pub fn new() -> Self {
        MemoryVfs::default()
    }

    /// What a crash at this moment leaves, as chosen by the policy. This file system goes on unharmed.
    #[must_use]
    pub fn crash(&self, policy: CrashPolicy) -> MemoryVfs {
        let mut chooser = crash::Chooser::new(policy);
        self.crash_with(&mut |options| chooser.choose(options))
    }

    /// What a crash at this moment leaves: `choose(n)` picks one of `n` possibilities, 0 being "as last synced".
    #[must_use]
    pub fn crash_with(&self, choose: &mut dyn FnMut(usize) -> usize) -> MemoryVfs {
        let state = crash::crash_state(&self.state.lock(), choose);
        MemoryVfs { state: Arc::new(Mutex::new(state)) }
    }

    /// From now on remembers every mutation.
    pub fn start_recording(&self) {
        self.state.lock().recorded = Some(Vec::new());
    }

    /// The mutations since the recording began.
    #[must_use]
    pub fn recorded(&self) -> Vec<Operation> {
        self.state.lock().recorded.clone().unwrap_or_default()
    }

    /// An independent copy, unsynced data and all, without faults.
    #[must_use]
    pub fn fork(&self) -> MemoryVfs {
        MemoryVfs { state: Arc::new(Mutex::new(self.state.lock().fork())) }
    }

    /// Does what was recorded on a file system that was in the same state.
    pub fn replay(&self, operation: &Operation) {
        self.state.lock().apply(operation);
    }

    /// Arms a fault.
    pub fn inject(&self, fault: Fault) {
        self.state.lock().faults.arm(fault);
    }

    /// Disarms all faults.
    pub fn clear_faults(&self) {
        self.state.lock().faults = fault::Faults::default();
    }

    /// Syncs of files and directories so far.
    #[must_use]
    pub fn sync_count(&self) -> u64 {
        self.state.lock().syncs
    }

    /// Changes one bit of a file behind everyone's back, durably: what rot does.
    ///
    /// # Errors
    /// `NotFound`, and `UnexpectedEof` beyond the end of the file.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let node = state.resolve(path)?;
        state.flip_bit(node, bit)
    }
}

struct MemoryFile {
    state: Arc<Mutex<State>>,
    node: NodeId,
    path: String,
}

struct MemoryLock {
    state: Arc<Mutex<State>>,
    node: NodeId,
}

impl DirLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.state.lock().locked.remove(&self.node);
    }
}

impl Vfs for MemoryVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let mut state = self.state.lock();
        let existing = state.resolve(path);
        let node = match (mode, existing) {
            (OpenMode::Read | OpenMode::ReadWrite, existing) => existing?,
            (OpenMode::CreateNew, Ok(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            (OpenMode::CreateOrTruncate, Ok(node)) => {
                state.mutate(Operation::SetLen { node, bytes: 0 })?;
                node
            }
            (OpenMode::CreateNew | OpenMode::CreateOrTruncate, Err(_)) => state.create(path, false)?,
        };
        state.require_file(node)?;
        let path = path.to_string_lossy().into_owned();
        Ok(Arc::new(MemoryFile { state: Arc::clone(&self.state), node, path }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let mut missing: Vec<&Path> = path.ancestors().filter(|part| state.resolve(part).is_err()).collect();
        missing.reverse();
        for part in missing {
            state.create(part, true)?;
        }
        Ok(())
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.state.lock();
        state.list(state.resolve(path)?)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.state.lock().resolve(path).is_ok())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.resolve(from)?;
        let (from_dir, from_name) = state.parent_of(from)?;
        let (to_dir, to_name) = state.parent_of(to)?;
        state.mutate(Operation::Rename { from_dir, from_name, to_dir, to_name })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let node = state.resolve(path)?;
        state.require_file(node)?;
        let (dir, name) = state.parent_of(path)?;
        state.mutate(Operation::Remove { dir, name })
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.resolve(path)?;
        let (dir, name) = state.parent_of(path)?;
        state.mutate(Operation::Remove { dir, name })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let dir = state.resolve(path)?;
        state.syncs += 1;
        state.faults.on_sync()?;
        state.mutate(Operation::SyncDir { dir })
    }

    fn disk_space(&self, _path: &Path) -> io::Result<DiskSpace> {
        Ok(self.state.lock().faults.disk_space())
    }

    fn lock_dir(&self, path: &Path) -> io::Result<Box<dyn DirLock>> {
        let mut state = self.state.lock();
        let node = state.resolve(path)?;
        if !state.locked.insert(node) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(MemoryLock { state: Arc::clone(&self.state), node }))
    }
}

impl VfsFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.state.lock();
        state.faults.on_read(&self.path)?;
        Ok(state.read(self.node, buffer, position))
    }

    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let grows = (position + bytes.len() as u64).saturating_sub(state.length(self.node));
        let (written, result) = state.faults.on_write(bytes.len(), grows);
        if written > 0 {
            let bytes = bytes[..written].to_vec();
            state.mutate(Operation::Write { node: self.node, position, bytes })?;
        }
        result
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.state.lock().length(self.node))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let given_back = state.length(self.node).saturating_sub(bytes);
        state.faults.give_back(given_back);
        state.mutate(Operation::SetLen { node: self.node, bytes })
    }

    fn allocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        let state = self.state.lock();
        let grows = (position + bytes).saturating_sub(state.length(self.node));
        state.faults.on_allocate(grows)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.syncs += 1;
        if let Err(error) = state.faults.on_sync() {
            state.forget_dirty(self.node);
            return Err(error);
        }
        state.mutate(Operation::Sync { node: self.node })
    }
}

#[cfg(test)]
mod tests;
