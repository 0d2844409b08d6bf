//! The raft log on disk (R3): RocksDB below, a mirror of the retained log in memory above.
//!
//! A folder `metadata` in the data directory holds `db`, the database, and `commit-floor` ([`floor`]). It appears whole:
//! it is built as `metadata.new`, synced and renamed.
//!
//! Invariants:
//! * what one Ready asks to persist is one write batch; hard state and entries are never apart (facts.md section 2);
//! * entries are contiguous from `truncated.index + 1` to the last; terms never fall; `truncated ≤ snapshot ≤ commit ≤
//!   last` by index; the applied index at start is the snapshot's, whose configuration is stored with it, so image,
//!   configuration and applied index cannot come apart (trap 53);
//! * the mirror is changed only after the batch was written. After a failed write the store is of no use any more: the
//!   process must end and open it again.
//!
//! Reading the whole log at open is what makes damage visible then and not later: raft-rs panics on a log that fails it
//! while running. Compaction keeps the log short.

mod disk;
mod error;
mod floor;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use disk::{Batch, Disk};
pub use error::{Damage, WriteError};
use floor::{Floor, FloorFile};

/// Folder of the controller's log in its data directory.
pub const METADATA_DIR: &str = "metadata";
const NEW_DIR: &str = "metadata.new";
const DB_DIR: &str = "db";
const FLOOR_FILE: &str = "commit-floor";

/// How writes reach the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// Written at once, synced where the protocol demands it.
    #[default]
    Normal,
    /// For tests: what was not synced stays in the process's memory, so that killing it is a power loss.
    PowerLossTest,
}

/// A place in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPosition {
    pub(crate) index: u64,
    pub(crate) term: u64,
}

/// The raft log of one voter.
#[derive(Debug)]
pub(crate) struct RaftStore {
    disk: Disk,
    floor: FloorFile,
    floor_path: PathBuf,
    raft_id: u64,
    hard_state: HardState,
    snapshot: LogPosition,
    /// Configuration at the snapshot.
    conf_state: ConfState,
    truncated: LogPosition,
    entries: VecDeque<Entry>,
    entry_bytes: usize,
}

/// What one Ready asks to persist.
#[derive(Default)]
pub(crate) struct Persist<'a> {
    pub(crate) snapshot: Option<&'a Snapshot>,
    pub(crate) entries: &'a [Entry],
    pub(crate) hard_state: Option<&'a HardState>,
}

/// Whether the folder of the log exists, whatever its state.
pub(crate) fn exists(data_dir: &Path) -> bool {
    data_dir.join(METADATA_DIR).symlink_metadata().is_ok()
}

impl RaftStore {
    /// Makes the folder of a new log that starts with `snapshot`, for a voter that knows nothing else.
    pub(crate) fn create(data_dir: &Path, raft_id: u64, snapshot: &Snapshot) -> Result<(), WriteError> {
        Self::build(data_dir, raft_id, snapshot)?;
        Self::publish(data_dir)
    }

    /// Builds and syncs a new log beside the place where it belongs.
    pub(crate) fn build(data_dir: &Path, raft_id: u64, snapshot: &Snapshot) -> Result<(), WriteError> {
        let new = data_dir.join(NEW_DIR);
        // Left over from a start that did not get this far; nothing refers to it.
        if new.symlink_metadata().is_ok() {
            fs::remove_dir_all(&new).map_err(at(&new))?;
        }
        fs::create_dir_all(&new).map_err(at(&new))?;
        let meta = snapshot.get_metadata();
        let position = LogPosition { index: meta.index, term: meta.term };
        let hard_state = HardState { term: position.term, commit: position.index, ..HardState::default() };
        let mut batch = Batch::default();
        batch.put_format(raft_id);
        batch.put_hard_state(&hard_state)?;
        batch.put_snapshot(snapshot)?;
        batch.put_truncated(position);
        let disk = Disk::open(&new.join(DB_DIR), SyncMode::Normal, true)?;
        disk.write(batch, true)?;
        drop(disk);
        let path = new.join(FLOOR_FILE);
        FloorFile::create(&path, Floor { commit: position.index, term: position.term }).map_err(at(&path))?;
        sync_dir(&new).map_err(at(&new))
    }

    /// Puts a log that was built in its place, which must be free.
    pub(crate) fn publish(data_dir: &Path) -> Result<(), WriteError> {
        let target = data_dir.join(METADATA_DIR);
        fs::rename(data_dir.join(NEW_DIR), &target).map_err(at(&target))?;
        sync_dir(data_dir).map_err(at(data_dir))
    }

    /// Opens a log and checks all of it (R3).
    pub(crate) fn open(data_dir: &Path, mode: SyncMode) -> Result<Self, Damage> {
        let dir = data_dir.join(METADATA_DIR);
        let floor_path = dir.join(FLOOR_FILE);
        let floor = FloorFile::open(&floor_path)?;
        let disk = Disk::open(&dir.join(DB_DIR), mode, false)?;
        let loaded = disk.load()?;
        let meta = loaded.snapshot.get_metadata();
        let store = RaftStore {
            disk,
            floor,
            floor_path,
            raft_id: loaded.raft_id,
            hard_state: loaded.hard_state,
            snapshot: LogPosition { index: meta.index, term: meta.term },
            conf_state: meta.get_conf_state().clone(),
            truncated: loaded.truncated,
            entry_bytes: loaded.entries.iter().map(weight).sum(),
            entries: loaded.entries.into(),
        };
        store.check()?;
        Ok(store)
    }

    fn check(&self) -> Result<(), Damage> {
        let mut before = self.truncated;
        for entry in &self.entries {
            let expected = before.index.saturating_add(1);
            if entry.index != expected || entry.term < before.term {
                let (actual, term, term_before) = (entry.index, entry.term, before.term);
                return Err(Damage::Gap { expected, actual, term, term_before });
            }
            before = LogPosition { index: entry.index, term: entry.term };
        }
        let (commit, snapshot, truncated) =
            (self.hard_state.commit, self.snapshot.index, self.truncated.index);
        if commit > before.index {
            return Err(Damage::CommitAheadOfLog { commit, last: before.index });
        }
        if snapshot < truncated || snapshot > commit {
            return Err(Damage::SnapshotOutOfBounds { snapshot, truncated, commit });
        }
        let floor = self.floor.floor();
        if floor.commit > before.index || floor.term > self.hard_state.term {
            return Err(Damage::FloorAheadOfLog {
                commit: floor.commit,
                floor_term: floor.term,
                last: before.index,
                term: self.hard_state.term,
            });
        }
        Ok(())
    }

    /// Persists what a Ready asks for, in one batch; `sync` as the Ready says.
    pub(crate) fn persist(&mut self, persist: &Persist<'_>, sync: bool) -> Result<(), WriteError> {
        let mut batch = Batch::default();
        let mut last = self.last();
        if let Some(snapshot) = persist.snapshot {
            let meta = snapshot.get_metadata();
            batch.put_snapshot(snapshot)?;
            batch.put_truncated(LogPosition { index: meta.index, term: meta.term });
            batch.delete_entries(0, u64::MAX);
            last = LogPosition { index: meta.index, term: meta.term };
        }
        if let Some(first) = persist.entries.first() {
            if first.index > last.index.saturating_add(1) || first.index <= self.truncated.index {
                return Err(WriteError::Gap { actual: first.index, last: last.index });
            }
            // A conflicting tail goes in the same batch as what replaces it.
            if first.index <= last.index {
                batch.delete_entries(first.index, last.index.saturating_add(1));
            }
            for entry in persist.entries {
                batch.put_entry(entry)?;
            }
        }
        if let Some(state) = persist.hard_state {
            batch.put_hard_state(state)?;
        }
        self.disk.write(batch, sync)?;
        if let Some(snapshot) = persist.snapshot {
            let meta = snapshot.get_metadata();
            self.snapshot = LogPosition { index: meta.index, term: meta.term };
            self.truncated = self.snapshot;
            self.conf_state = meta.get_conf_state().clone();
            self.entries.clear();
            self.entry_bytes = 0;
        }
        if let Some(first) = persist.entries.first() {
            while self.entries.back().is_some_and(|entry| entry.index >= first.index) {
                self.entry_bytes -= self.entries.pop_back().as_ref().map_or(0, weight);
            }
            self.entry_bytes += persist.entries.iter().map(weight).sum::<usize>();
            self.entries.extend(persist.entries.iter().cloned());
        }
        if let Some(state) = persist.hard_state {
            self.hard_state = state.clone();
        }
        Ok(())
    }

    /// Notes a commit index that follows from what is persisted. Not synced: it can be found again.
    pub(crate) fn advance_commit(&mut self, commit: u64) -> Result<(), WriteError> {
        if commit <= self.hard_state.commit {
            return Ok(());
        }
        let mut state = self.hard_state.clone();
        state.commit = commit;
        self.persist(&Persist { hard_state: Some(&state), ..Persist::default() }, false)
    }

    /// Raises the commit floor to the commit index; for after the entries were synced.
    pub(crate) fn advance_floor(&mut self) -> Result<(), WriteError> {
        let floor = Floor { commit: self.hard_state.commit, term: self.hard_state.term };
        self.floor.advance(floor).map_err(|source| WriteError::File { path: self.floor_path.clone(), source })
    }

    /// Makes the commit floor survive a power loss, if it was raised since.
    pub(crate) fn sync_floor(&mut self) -> Result<(), WriteError> {
        self.floor.sync().map_err(|source| WriteError::File { path: self.floor_path.clone(), source })
    }

    /// Makes everything survive a power loss; for a clean stop.
    pub(crate) fn sync_all(&mut self) -> Result<(), WriteError> {
        self.disk.sync()?;
        self.sync_floor()
    }

    /// Replaces the snapshot by a newer one and drops the entries that it covers, but for the last `keep` of them.
    pub(crate) fn compact(&mut self, snapshot: &Snapshot, keep: u64) -> Result<(), WriteError> {
        let meta = snapshot.get_metadata();
        let index = meta.index.saturating_sub(keep).max(self.truncated.index);
        let term = if index == meta.index { meta.term } else { self.term_at(index).unwrap_or(meta.term) };
        let truncated = LogPosition { index, term };
        let mut batch = Batch::default();
        batch.put_snapshot(snapshot)?;
        batch.put_truncated(truncated);
        batch.delete_entries(0, index.saturating_add(1));
        self.disk.write(batch, true)?;
        self.snapshot = LogPosition { index: meta.index, term: meta.term };
        self.conf_state = meta.get_conf_state().clone();
        self.truncated = truncated;
        while self.entries.front().is_some_and(|entry| entry.index <= index) {
            self.entry_bytes -= self.entries.pop_front().as_ref().map_or(0, weight);
        }
        Ok(())
    }

    /// The snapshot with its data, as it lies on disk.
    pub(crate) fn read_snapshot(&self) -> Result<Snapshot, Damage> {
        self.disk.snapshot()
    }

    pub(crate) fn raft_id(&self) -> u64 {
        self.raft_id
    }

    pub(crate) fn snapshot_index(&self) -> u64 {
        self.snapshot.index
    }

    /// The retained entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Bytes of the retained entries, about.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.entry_bytes
    }

    fn last(&self) -> LogPosition {
        let last = self.entries.back();
        last.map_or(self.truncated, |entry| LogPosition { index: entry.index, term: entry.term })
    }

    /// The term of an index that is retained.
    pub(crate) fn term_at(&self, index: u64) -> Option<u64> {
        if index == self.truncated.index {
            return Some(self.truncated.term);
        }
        if index == self.snapshot.index {
            return Some(self.snapshot.term);
        }
        let at = index.checked_sub(self.truncated.index)?.checked_sub(1)?;
        self.entries.get(usize::try_from(at).ok()?).map(|entry| entry.term)
    }
}

impl Storage for RaftStore {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState { hard_state: self.hard_state.clone(), conf_state: self.conf_state.clone() })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        let first = self.truncated.index.saturating_add(1);
        if low < first {
            return Err(StorageError::Compacted.into());
        }
        if high > self.last().index.saturating_add(1) {
            return Err(StorageError::Unavailable.into());
        }
        let at = |index: u64| usize::try_from(index - first).unwrap_or(usize::MAX);
        let mut entries: Vec<Entry> = self.entries.range(at(low)..at(high)).cloned().collect();
        raft::util::limit_size(&mut entries, max_size.into());
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        match self.term_at(index) {
            Some(term) => Ok(term),
            None if index < self.truncated.index => Err(StorageError::Compacted.into()),
            None => Err(StorageError::Unavailable.into()),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.truncated.index.saturating_add(1))
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last().index)
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        if request_index > self.snapshot.index {
            return Err(StorageError::SnapshotTemporarilyUnavailable.into());
        }
        self.read_snapshot().map_err(|damage| {
            // raft-rs would panic on any other error; a follower that waits is the lesser evil.
            tracing::error!(%damage, "the snapshot cannot be read; a restart will refuse this log");
            StorageError::SnapshotTemporarilyUnavailable.into()
        })
    }
}

fn weight(entry: &Entry) -> usize {
    entry.data.len() + entry.context.len() + 64
}

/// Names the file of an error.
fn at(path: &Path) -> impl FnOnce(io::Error) -> WriteError {
    let path = path.to_owned();
    move |source| WriteError::File { path, source }
}

/// Makes the names in a folder survive a power loss.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
