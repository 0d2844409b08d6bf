//! Snapshots of the producer state: when they are taken, kept and loaded (R10, T40).
//!
//! Invariants: a snapshot is named by the offset that it holds the state before; it appears under its name only whole
//! (its checksum tells if the disk lost part of it); older ones are removed only when newer ones are durable.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wharf_types::Offset;

use super::Log;
use super::error::LogError;
use crate::framed;
use crate::producer::ProducerStates;
use crate::segment::{SNAPSHOT_SUFFIX, file_name, remove_if_there};
use crate::vfs::Vfs;

/// Least growth of the log between two snapshots, so that little has to be replayed after a crash.
const INTERVAL_BYTES_MIN: u64 = 64 << 20;
/// A snapshot may cost this part of what is written to the log: one in 16.
const SHARE_OF_LOG: u64 = 16;
/// Largest share of one producer in a snapshot.
const BYTES_PER_PRODUCER: u64 = 4096;
/// Newest snapshots that are kept.
const KEPT: usize = 3;

/// How much the log should grow before the next snapshot.
pub(super) fn interval_bytes(producers: &ProducerStates) -> u64 {
    let estimate = producers.len() as u64 * BYTES_PER_PRODUCER;
    INTERVAL_BYTES_MIN.max(estimate * SHARE_OF_LOG)
}

pub(super) fn snapshot_path(dir: &Path, offset: Offset) -> PathBuf {
    dir.join(file_name(offset, SNAPSHOT_SUFFIX))
}

impl Log {
    /// Writes the producer state at the log end; durable with the next flush. The log does this by itself at each
    /// roll, every 64 MiB or more, and when it is closed.
    ///
    /// # Errors
    /// [`LogError::StorageFull`]; [`LogError::Io`] poisons the log.
    pub fn take_snapshot(&mut self) -> Result<(), LogError> {
        self.check_writable()?;
        let offset = self.log_end_offset();
        self.bytes_since_snapshot = 0;
        if offset == Offset::ZERO || self.snapshots.last() == Some(&offset) {
            return Ok(());
        }
        let vfs = Arc::clone(&self.shared.vfs);
        let path = snapshot_path(&self.dir, offset);
        let written = framed::write_beside(&*vfs, &path, &self.producers.encode_snapshot())
            .and_then(|file| vfs.rename(&framed::tmp_path(&path), &path).map(|()| file));
        match written {
            Ok(file) => {
                self.note_unsynced(file);
                self.note_directory_change();
                self.snapshots.push(offset);
                Ok(())
            }
            Err(error) => Err(self.out_of_space_or_poison("writing a producer snapshot", error)),
        }
    }

    /// The newest snapshot with its offset, for a follower that starts there (R10); `None` before the first.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn newest_snapshot(&self) -> Result<Option<(Offset, Vec<u8>)>, LogError> {
        let Some(offset) = self.snapshots.last().copied() else {
            return Ok(None);
        };
        let bytes = framed::read_whole(&*self.shared.vfs, &snapshot_path(&self.dir, offset))?;
        Ok(bytes.map(|bytes| (offset, bytes)))
    }

    /// Makes sure that a durable snapshot at or above an offset exists, before the segments below go.
    pub(super) fn ensure_snapshot_from(&mut self, offset: Offset) -> Result<(), LogError> {
        if self.snapshots.last().is_none_or(|newest| *newest < offset) {
            self.take_snapshot()?;
        }
        self.flush().map(|_| ())
    }

    /// Removes snapshots that newer ones make useless. All of them must be durable.
    pub(super) fn prune_snapshots(&mut self) -> Result<(), LogError> {
        let excess = self.snapshots.len().saturating_sub(KEPT);
        for offset in self.snapshots.drain(..excess).collect::<Vec<_>>() {
            if let Err(error) = remove_if_there(&*self.shared.vfs, &snapshot_path(&self.dir, offset)) {
                return Err(self.poison("removing a producer snapshot", error));
            }
        }
        Ok(())
    }

    /// Removes snapshots above an offset, which a truncation has made wrong.
    pub(super) fn drop_snapshots_above(&mut self, offset: Offset) -> std::io::Result<()> {
        let kept = self.snapshots.partition_point(|snapshot| *snapshot <= offset);
        for offset in self.snapshots.drain(kept..) {
            remove_if_there(&*self.shared.vfs, &snapshot_path(&self.dir, offset))?;
        }
        Ok(())
    }
}

/// The state of the newest valid snapshot in `[low, high]`, and its offset.
pub(super) fn load_newest(
    vfs: &dyn Vfs,
    dir: &Path,
    snapshots: &[Offset],
    (low, high): (Offset, Offset),
) -> Result<Option<ProducerStates>, LogError> {
    for offset in snapshots.iter().rev().filter(|offset| (low..=high).contains(offset)) {
        let path = snapshot_path(dir, *offset);
        let bytes = match framed::read_whole(vfs, &path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) | Err(framed::FrameError::Damaged { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        if let Ok(states) = ProducerStates::decode_snapshot(&path, &bytes)
            && states.end_offset() == *offset
        {
            return Ok(Some(states));
        }
    }
    Ok(None)
}
