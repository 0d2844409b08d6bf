//! The trash: partitions of deleted topics, kept for a while and purged oldest first (R17, T29).

use std::path::PathBuf;

use wharf_types::{TimestampMs, TopicPartition};

use super::{DataDir, DataDirError, PARTITIONS_DIR, TRASH_DIR};

/// A discarded partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrashEntry {
    /// When it was discarded.
    pub discarded_at: TimestampMs,
    /// Where it is.
    pub path: PathBuf,
}

impl DataDir {
    /// Moves a partition to the trash, durably: for a committed deletion of its topic only. Its log must be closed or
    /// never be written again. A partition that is not there is no error, so that it can be repeated.
    ///
    /// # Errors
    /// [`DataDirError::Io`].
    pub fn discard(&mut self, partition: TopicPartition, now: TimestampMs) -> Result<(), DataDirError> {
        let from = self.partition_dir(partition);
        let doing = "discarding a partition";
        let exists = self.vfs.exists(&from).map_err(|error| self.failed(doing, error))?;
        if exists {
            let to = self.free_trash_path(partition, now)?;
            let moved = self
                .vfs
                .rename(&from, &to)
                .and_then(|()| self.vfs.sync_dir(&self.path.join(TRASH_DIR)))
                .and_then(|()| self.vfs.sync_dir(&self.path.join(PARTITIONS_DIR)));
            moved.map_err(|error| self.failed(doing, error))?;
        }
        self.partitions.retain(|listed| *listed != partition);
        self.checkpoint.remove(&partition.to_string());
        Ok(())
    }

    /// What is in the trash, oldest first.
    ///
    /// # Errors
    /// [`DataDirError::Io`].
    pub fn trash(&self) -> Result<Vec<TrashEntry>, DataDirError> {
        let dir = self.path.join(TRASH_DIR);
        let entries = self.vfs.read_dir(&dir).map_err(|error| self.failed("listing the trash", error))?;
        let mut trash: Vec<TrashEntry> = entries
            .iter()
            .filter_map(|entry| {
                let milliseconds = entry.name.split('-').next()?.parse().ok()?;
                let discarded_at = TimestampMs::new(milliseconds);
                Some(TrashEntry { discarded_at, path: dir.join(&entry.name) })
            })
            .collect();
        trash.sort();
        Ok(trash)
    }

    /// Removes an entry of the trash for good.
    ///
    /// # Errors
    /// [`DataDirError::Io`].
    pub fn purge(&self, entry: &TrashEntry) -> Result<(), DataDirError> {
        self.vfs
            .remove_dir_all(&entry.path)
            .and_then(|()| self.vfs.sync_dir(&self.path.join(TRASH_DIR)))
            .map_err(|error| self.failed("purging the trash", error))
    }

    fn free_trash_path(
        &mut self,
        partition: TopicPartition,
        now: TimestampMs,
    ) -> Result<PathBuf, DataDirError> {
        loop {
            self.trash_sequence += 1;
            let name = format!("{:015}-{}-{partition}", now.value(), self.trash_sequence);
            let path = self.path.join(TRASH_DIR).join(name);
            let taken =
                self.vfs.exists(&path).map_err(|error| self.failed("discarding a partition", error))?;
            if !taken {
                return Ok(path);
            }
        }
    }
}
