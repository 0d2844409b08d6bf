//! The offsets store: the applied state of every `__offsets` partition of this node, in one RocksDB column family (R15).
//!
//! It is a cache of the log: it spares the replay of the whole log at start, and may be wiped at any time, since the log
//! from its start offset on holds every live key. It is the only part of the server that knows RocksDB.
//!
//! Invariants:
//! * The rows of a partition are the fold of its log below `applied`; both change in one write batch (T53), and only
//!   records below the replica's own high watermark get here, so truncation never has to undo anything.
//! * `durable_applied` ≤ `applied`; it moves only after a sync returned, and falls only by a wipe.
//! * The meta row's count and digest are those of the partition's rows. Where a load finds otherwise, it wipes them.
//! * After the first error of a write, a sync or RocksDB's background work nothing is written any more.
//!
//! Each partition has one owner, which makes its calls one after the other; owners of different partitions, and
//! [`OffsetsStore::sync`], run at the same time. All calls block on the disk: keep them off the async workers.

mod error;
mod load;
mod meta;
mod open;
mod row;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rocksdb::{ColumnFamily, DB, Direction, IteratorMode, ReadOptions, WriteBatch};
use wharf_coordinator::{Record, codec};
use wharf_types::{Offset, PartitionIndex};

pub(crate) use error::OffsetsStoreError;
pub(crate) use load::LogView;
pub(crate) use meta::{LossGeneration, PartitionMeta};

use meta::RowDigest;

const COLUMN_FAMILY: &str = "offsets";

/// Whether a kill of the process counts as a loss of power: a mode for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PowerLossMode {
    /// Writes reach the operating system at once and survive the end of the process.
    #[default]
    Off,
    /// Writes stay in the process until they are synced, so that its kill loses all others.
    On,
}

/// How the store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OffsetsStoreOptions {
    /// A mode for tests.
    pub(crate) power_loss_mode: PowerLossMode,
}

/// The store. See the module's invariants.
#[derive(Debug)]
pub(crate) struct OffsetsStore {
    db: DB,
    path: PathBuf,
    partitions: Mutex<BTreeMap<PartitionIndex, Progress>>,
    stopped: AtomicBool,
}

/// What is known of one partition without asking RocksDB. One that was wiped or never applied has no meta.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    meta: Option<PartitionMeta>,
    digest: RowDigest,
    durable_applied: Option<Offset>,
    /// Rises with each wipe, so that a sync begun before it does not move `durable_applied` after it.
    wipes: u64,
}

impl OffsetsStore {
    fn from_database(db: DB, path: &Path) -> Result<Self, OffsetsStoreError> {
        let store = OffsetsStore {
            db,
            path: path.to_owned(),
            partitions: Mutex::default(),
            stopped: AtomicBool::new(false),
        };
        // What recovery read from the log of writes may be in the page cache only.
        store.db.flush_cf(store.family()?).map_err(OffsetsStoreError::Sync)?;
        store.db.flush_wal(true).map_err(OffsetsStoreError::Sync)?;
        store.read_all()?;
        Ok(store)
    }

    /// Writes what `records` change and `meta` in one batch. The records must be those between what is applied and
    /// `meta.applied`, below the high watermark, in the log's order; there may be none. What is written survives a crash
    /// of the process, and one of the machine only after [`OffsetsStore::sync`].
    ///
    /// # Errors
    /// [`OffsetsStoreError`]; after `Read`, `Write` and `Stopped` the process must end.
    pub(crate) fn apply(
        &self,
        partition: PartitionIndex,
        records: &[(Offset, Record)],
        meta: PartitionMeta,
    ) -> Result<(), OffsetsStoreError> {
        self.check_running()?;
        let progress = self.progress(partition);
        if let Some(current) = progress.meta {
            check_follows(partition, &current, &meta)?;
        }
        let mut digest = progress.digest;
        let batch = self.batch(partition, records, &meta, &mut digest).map_err(|error| self.stop(error))?;
        self.db.write(batch).map_err(|error| self.stop(OffsetsStoreError::Write(error)))?;
        let mut partitions = self.partitions();
        let progress = partitions.entry(partition).or_default();
        progress.meta = Some(meta);
        progress.digest = digest;
        Ok(())
    }

    /// Deletes every row of a partition, durably. Its log is to be replayed from the log start offset.
    ///
    /// # Errors
    /// [`OffsetsStoreError`]; the process must end.
    pub(crate) fn wipe(&self, partition: PartitionIndex) -> Result<(), OffsetsStoreError> {
        self.check_running()?;
        let family = self.family()?;
        self.db
            .delete_range_cf(family, row::meta_key(partition), row::end_key(partition))
            .map_err(|error| self.stop(OffsetsStoreError::Write(error)))?;
        self.db.flush_wal(true).map_err(|error| self.stop(OffsetsStoreError::Sync(error)))?;
        let mut partitions = self.partitions();
        let wipes = partitions.get(&partition).map_or(0, |progress| progress.wipes);
        partitions.insert(partition, Progress { wipes: wipes + 1, ..Progress::default() });
        Ok(())
    }

    /// Makes durable all that was applied before the call, of every partition, and moves their `durable_applied`.
    ///
    /// # Errors
    /// [`OffsetsStoreError::Sync`] and [`OffsetsStoreError::Background`]: the process must end.
    pub(crate) fn sync(&self) -> Result<(), OffsetsStoreError> {
        self.check_running()?;
        let before: BTreeMap<PartitionIndex, Progress> = self.partitions().clone();
        self.db.flush_wal(true).map_err(|error| self.stop(OffsetsStoreError::Sync(error)))?;
        self.check_health()?;
        let mut partitions = self.partitions();
        for (partition, before) in before {
            let Some(progress) = partitions.get_mut(&partition) else { continue };
            if progress.wipes == before.wipes {
                let applied = before.meta.map(|meta| meta.applied);
                progress.durable_applied = progress.durable_applied.max(applied);
            }
        }
        Ok(())
    }

    /// Exclusive end of what a loss of power leaves applied; `None` if nothing. The log may not be truncated above it (R16).
    #[must_use]
    #[allow(
        dead_code,
        reason = "leaders ask for it once replicas follow; alone, a sync before the truncation does"
    )]
    pub(crate) fn durable_applied(&self, partition: PartitionIndex) -> Option<Offset> {
        self.progress(partition).durable_applied
    }

    /// How far a partition's rows have come; `None` if nothing was applied since it was made or wiped.
    #[must_use]
    pub(crate) fn meta(&self, partition: PartitionIndex) -> Option<PartitionMeta> {
        self.progress(partition).meta
    }

    /// Fails once RocksDB's background work has failed. [`OffsetsStore::sync`] asks it too.
    ///
    /// # Errors
    /// [`OffsetsStoreError::Background`]: the process must end.
    pub(crate) fn check_health(&self) -> Result<(), OffsetsStoreError> {
        let count = self.property(rocksdb::properties::BACKGROUND_ERRORS)?;
        if count > 0 {
            return Err(self.stop(OffsetsStoreError::Background { count }));
        }
        Ok(())
    }

    fn batch(
        &self,
        partition: PartitionIndex,
        records: &[(Offset, Record)],
        meta: &PartitionMeta,
        digest: &mut RowDigest,
    ) -> Result<WriteBatch, OffsetsStoreError> {
        let family = self.family()?;
        let mut batch = WriteBatch::default();
        for (key, after) in self.fold(partition, records)? {
            let before = self.db.get_pinned_cf(family, &key).map_err(OffsetsStoreError::Read)?;
            if let Some(before) = &before {
                digest.remove(&key, before);
            }
            match after {
                Some(value) => {
                    digest.add(&key, &value);
                    batch.put_cf(family, &key, &value);
                }
                None if before.is_some() => batch.delete_cf(family, &key),
                None => {}
            }
        }
        batch.put_cf(family, row::meta_key(partition), meta::encode(meta, digest));
        Ok(batch)
    }

    /// What `records` leave behind: for each row that they touch its last value, or nothing.
    fn fold(
        &self,
        partition: PartitionIndex,
        records: &[(Offset, Record)],
    ) -> Result<BTreeMap<Vec<u8>, Option<Vec<u8>>>, OffsetsStoreError> {
        let mut rows: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
        for (offset, record) in records {
            match record {
                Record::Commit { key, value } => {
                    let value = value.clone().into_committed(*offset).to_value();
                    let value = row::value(*offset, &codec::encode_commit_value(&value));
                    rows.insert(row::position_key(partition, key), Some(value));
                }
                Record::CommitTombstone(key) => {
                    rows.insert(row::position_key(partition, key), None);
                }
                Record::Group { group, value } => {
                    let value = row::value(*offset, &codec::encode_group_value(value));
                    rows.insert(row::group_key(partition, group), Some(value));
                }
                Record::GroupTombstone(group) => {
                    rows.insert(row::group_key(partition, group), None);
                    let prefix = row::positions_prefix(partition, group);
                    let touched = rows.range_mut(prefix.clone()..);
                    for (_, value) in touched.take_while(|(key, _)| key.starts_with(&prefix)) {
                        *value = None;
                    }
                    for key in self.keys_with_prefix(&prefix)? {
                        rows.insert(key, None);
                    }
                }
            }
        }
        Ok(rows)
    }

    fn keys_with_prefix(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, OffsetsStoreError> {
        let mode = IteratorMode::From(prefix, Direction::Forward);
        let mut keys = Vec::new();
        for row in self.db.iterator_cf_opt(self.family()?, read_options(), mode) {
            let (key, _) = row.map_err(OffsetsStoreError::Read)?;
            if !key.starts_with(prefix) {
                break;
            }
            keys.push(key.into_vec());
        }
        Ok(keys)
    }

    fn family(&self) -> Result<&ColumnFamily, OffsetsStoreError> {
        self.db.cf_handle(COLUMN_FAMILY).ok_or_else(|| OffsetsStoreError::Damaged {
            path: self.path.clone(),
            detail: format!("it has no column family {COLUMN_FAMILY}"),
        })
    }

    fn property(&self, name: &rocksdb::properties::PropName) -> Result<u64, OffsetsStoreError> {
        Ok(self.db.property_int_value(name).map_err(OffsetsStoreError::Read)?.unwrap_or(0))
    }

    fn progress(&self, partition: PartitionIndex) -> Progress {
        self.partitions().get(&partition).copied().unwrap_or_default()
    }

    fn partitions(&self) -> MutexGuard<'_, BTreeMap<PartitionIndex, Progress>> {
        // No code that holds the lock can leave the map half changed.
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_running(&self) -> Result<(), OffsetsStoreError> {
        if self.stopped.load(Ordering::Acquire) { Err(OffsetsStoreError::Stopped) } else { Ok(()) }
    }

    fn stop(&self, error: OffsetsStoreError) -> OffsetsStoreError {
        self.stopped.store(true, Ordering::Release);
        error
    }
}

fn check_follows(
    partition: PartitionIndex,
    current: &PartitionMeta,
    next: &PartitionMeta,
) -> Result<(), OffsetsStoreError> {
    if current.topic_id != next.topic_id {
        let (expected, actual) = (current.topic_id, next.topic_id);
        return Err(OffsetsStoreError::TopicMismatch { partition, expected, actual });
    }
    if next.applied < current.applied {
        let (current, actual) = (current.applied, next.applied);
        return Err(OffsetsStoreError::AppliedBackwards { partition, current, actual });
    }
    Ok(())
}

/// Long reads leave the block cache to the look-ups of [`OffsetsStore::apply`].
fn read_options() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_verify_checksums(true);
    options.fill_cache(false);
    options
}
