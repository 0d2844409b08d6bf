//! A data directory: what all partitions on a disk share.
//!
//! | name          | what                                                                                  |
//! |---------------|---------------------------------------------------------------------------------------|
//! | `LOCK`        | held while a process uses the directory                                               |
//! | `identity`    | cluster, node and directory ids (R1), written once                                    |
//! | `clean`       | the broker epoch of the last clean stop; there only between that and the next start   |
//! | `checkpoint`  | where the recovery of each log starts                                                 |
//! | `data/`       | a directory for each partition, `<topic id>-<partition>`                              |
//! | `trash/`      | partition directories of deleted topics, `<milliseconds>-<sequence>-<name>`           |
//!
//! Invariants:
//! - the clean marker is removed durably before anything else is read, so a crash never meets a stale one (T27);
//! - absence never deletes: only [`DataDir::discard`], for a committed deletion, moves a partition to the trash (T29);
//! - a directory keeps its identity for ever.

mod identity;
mod trash;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wharf_types::{BrokerEpoch, PartitionIndex, TopicId, TopicPartition};

use crate::checkpoint::{Checkpoint, CheckpointEntry};
use crate::framed::{self, FrameError, FrameKind};
use crate::log::OpenHint;
use crate::vfs::{DirLock, DiskSpace, Vfs};

pub use self::identity::DirIdentity;
pub use self::trash::TrashEntry;

const CLEAN_KIND: FrameKind = FrameKind { magic: *b"WCLN", version: 1 };
const CLEAN_FILE: &str = "clean";
const PARTITIONS_DIR: &str = "data";
const TRASH_DIR: &str = "trash";

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process uses it.
    #[error("{} is used by another process", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The file system failed.
    #[error("{doing} in {} failed: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The directory.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// A file of it cannot be read.
    #[error(transparent)]
    File(#[from] FrameError),
}

/// A data directory, locked while this lives.
pub struct DataDir {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    identity: Option<DirIdentity>,
    clean_marker: Option<BrokerEpoch>,
    checkpoint: BTreeMap<String, CheckpointEntry>,
    checkpoint_is_damaged: bool,
    partitions: Vec<TopicPartition>,
    stored: Checkpoint,
    trash_sequence: u64,
    _lock: Box<dyn DirLock>,
}

impl DataDir {
    /// Opens a data directory, creating it if it is not there: takes the lock, reads the identity, reads the clean
    /// marker and removes it durably (R1), loads the checkpoint and lists the partitions.
    ///
    /// A damaged checkpoint or clean marker costs time only: every log is scanned then.
    ///
    /// # Errors
    /// [`DataDirError`].
    pub fn open(vfs: Arc<dyn Vfs>, path: &Path) -> Result<DataDir, DataDirError> {
        let failed = |doing| move |source| DataDirError::Io { doing, path: path.to_owned(), source };
        create_dirs(&*vfs, path).map_err(failed("creating directories"))?;
        let lock = vfs.lock_dir(path).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => DataDirError::Locked { path: path.to_owned() },
            _ => failed("locking")(source),
        })?;
        let clean_marker = take_clean_marker(&*vfs, path)?;
        let identity = DirIdentity::load(&*vfs, path)?;
        let loaded = match Checkpoint::load(&*vfs, path) {
            Ok(checkpoint) => Some(checkpoint),
            Err(FrameError::Damaged { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let partitions = list_partitions(&*vfs, path).map_err(failed("listing partitions"))?;
        let stored = loaded.clone().unwrap_or_default();
        Ok(DataDir {
            vfs,
            path: path.to_owned(),
            identity,
            clean_marker,
            checkpoint_is_damaged: loaded.is_none(),
            checkpoint: stored.entries.clone(),
            partitions,
            stored,
            trash_sequence: 0,
            _lock: lock,
        })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file system that it is on.
    #[must_use]
    pub fn vfs(&self) -> &Arc<dyn Vfs> {
        &self.vfs
    }

    /// Whose directory this is; `None` for a new one.
    #[must_use]
    pub fn identity(&self) -> Option<&DirIdentity> {
        self.identity.as_ref()
    }

    /// Gives a new directory its identity, durably.
    ///
    /// # Errors
    /// [`DataDirError::Io`]; with `AlreadyExists` if it has another one.
    pub fn set_identity(&mut self, identity: DirIdentity) -> Result<(), DataDirError> {
        if self.identity.as_ref().is_some_and(|current| *current != identity) {
            return Err(self.failed("setting the identity", io::ErrorKind::AlreadyExists.into()));
        }
        identity.store(&*self.vfs, &self.path).map_err(|error| self.failed("setting the identity", error))?;
        self.identity = Some(identity);
        Ok(())
    }

    /// The broker epoch of the clean stop before this start; `None` after a crash and for a new directory.
    #[must_use]
    pub fn clean_marker(&self) -> Option<BrokerEpoch> {
        self.clean_marker
    }

    /// The partitions that were there when the directory was opened.
    #[must_use]
    pub fn partitions(&self) -> &[TopicPartition] {
        &self.partitions
    }

    /// Whether the checkpoint could not be read, so that all logs are scanned.
    #[must_use]
    pub fn checkpoint_is_damaged(&self) -> bool {
        self.checkpoint_is_damaged
    }

    /// Where a partition's log is.
    #[must_use]
    pub fn partition_dir(&self, partition: TopicPartition) -> PathBuf {
        self.path.join(PARTITIONS_DIR).join(partition.to_string())
    }

    /// What to open a partition's log with.
    #[must_use]
    pub fn open_hint(&self, partition: TopicPartition) -> OpenHint {
        let checkpoint = self.checkpoint.get(&partition.to_string()).copied();
        // A clean stop has checkpointed every log; one without an entry came from elsewhere.
        OpenHint { clean: self.clean_marker.is_some() && checkpoint.is_some(), checkpoint }
    }

    /// Replaces the checkpoint, durably, if it changed. To be called every 5 s, after rolls and at a clean stop, with
    /// the entries of *all* logs of the directory (R17).
    ///
    /// # Errors
    /// [`DataDirError`].
    pub fn store_checkpoint(
        &mut self,
        entries: impl IntoIterator<Item = (TopicPartition, CheckpointEntry)>,
    ) -> Result<(), DataDirError> {
        let entries = entries.into_iter().map(|(partition, entry)| (partition.to_string(), entry)).collect();
        let checkpoint = Checkpoint { entries };
        if checkpoint != self.stored {
            checkpoint.store(&*self.vfs, &self.path)?;
            self.stored = checkpoint;
        }
        Ok(())
    }

    /// Says that all logs were closed and checkpointed and that no IO error was seen (T27): the last thing of a clean
    /// stop.
    ///
    /// # Errors
    /// [`DataDirError::Io`].
    pub fn write_clean_marker(&mut self, broker_epoch: BrokerEpoch) -> Result<(), DataDirError> {
        let path = self.path.join(CLEAN_FILE);
        framed::store(&*self.vfs, &path, CLEAN_KIND, &broker_epoch.value().to_le_bytes())
            .map_err(|error| self.failed("writing the clean marker", error))
    }

    /// Space on the disk of the directory.
    ///
    /// # Errors
    /// [`DataDirError::Io`].
    pub fn disk_space(&self) -> Result<DiskSpace, DataDirError> {
        self.vfs.disk_space(&self.path).map_err(|error| self.failed("asking for disk space", error))
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> DataDirError {
        DataDirError::Io { doing, path: self.path.clone(), source }
    }
}

/// Creates the directory with what belongs into it, and makes the names durable, those of new parents too.
fn create_dirs(vfs: &dyn Vfs, path: &Path) -> io::Result<()> {
    let mut missing = Vec::new();
    for part in path.ancestors().filter(|part| !part.as_os_str().is_empty()) {
        if vfs.exists(part)? {
            break;
        }
        missing.push(part);
    }
    for part in [path.to_owned(), path.join(PARTITIONS_DIR), path.join(TRASH_DIR)] {
        vfs.create_dir_all(&part)?;
    }
    vfs.sync_dir(path)?;
    missing.iter().try_for_each(|part| vfs.sync_dir(framed::parent(part)))
}

/// The partition whose directory has this name.
fn parse_partition(name: &str) -> Option<TopicPartition> {
    let (topic, partition) = name.split_once('-')?;
    let index: u32 = partition.parse().ok()?;
    let parsed = TopicPartition { topic_id: TopicId::parse(topic)?, partition: PartitionIndex::new(index) };
    (parsed.to_string() == name).then_some(parsed)
}

fn list_partitions(vfs: &dyn Vfs, path: &Path) -> io::Result<Vec<TopicPartition>> {
    let entries = vfs.read_dir(&path.join(PARTITIONS_DIR))?;
    Ok(entries.iter().filter(|entry| entry.is_dir).filter_map(|entry| parse_partition(&entry.name)).collect())
}

/// Reads the clean marker and removes it durably; a damaged one is none.
fn take_clean_marker(vfs: &dyn Vfs, path: &Path) -> Result<Option<BrokerEpoch>, DataDirError> {
    let marker = path.join(CLEAN_FILE);
    let epoch = match framed::load(vfs, &marker, CLEAN_KIND) {
        Ok(None) => return Ok(None),
        Ok(Some(payload)) => payload.as_slice().try_into().ok().map(u64::from_le_bytes),
        Err(FrameError::Io { source, .. }) => {
            return Err(DataDirError::Io { doing: "reading the clean marker", path: marker, source });
        }
        Err(_) => None,
    };
    let doing = "removing the clean marker";
    vfs.remove_file(&marker).and_then(|()| vfs.sync_dir(path)).map_err(|source| DataDirError::Io {
        doing,
        path: path.to_owned(),
        source,
    })?;
    Ok(epoch.map(BrokerEpoch::new))
}

#[cfg(test)]
mod tests;
