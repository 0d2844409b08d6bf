//! A partition's log: one writer, any number of readers.
//!
//! # Invariants
//! - `log start ≤ high watermark ≤ log end` and `durable end ≤ log end`. `advance_*` moves a value up; only
//!   [`Log::truncate_to`] and [`Log::reset_to`] lower the log end, and each raises the truncation generation.
//! - The durable end covers only what a finished sync of the segments *and* of the directory entries covers (T25). A
//!   flush that began before a truncation changes nothing (T24).
//! - Epoch entries are durable before the first batch of their epoch is written (T31).
//! - Producer state is the fold of the log up to its end (I11); check and append are one step (R10).
//! - The first failed write or sync poisons the log: nothing is written any more (T23). A full disk does not: the
//!   segment is cut back to its last good end and synced (R17).
//! - The manifest is durable before what it announces happens; see [`manifest`](self).
//!
//! # Files of a partition directory
//! `partition.meta`, `manifest`, `epochs`, and for each segment `<base offset>.log` and `.index`, with
//! `<offset>.snapshot` of the producer state; see `docs/formats`.

mod append;
mod close;
mod compact;
mod config;
mod error;
mod find_end;
mod flushing;
mod manifest;
mod meta;
mod open;
mod pending;
mod reader;
mod rebuild;
mod retention;
mod shared;
mod snapshots;
mod truncate;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wharf_types::{FlushPolicy, LeaderEpoch, Offset, TimestampMs, TopicPartition};

use self::flushing::Unsynced;
use self::manifest::Manifest;
use self::shared::Shared;
use crate::checkpoint::CheckpointEntry;
use crate::epochs::{EpochCache, EpochEnd};
use crate::producer::ProducerStates;
use crate::segment::Segment;

pub use self::append::{LeaderAppend, LeaderAppendOutcome};
pub use self::compact::{CompactionPass, CompactionResult};
pub use self::config::LogConfig;
pub use self::error::{AppendError, LogError, ReadError};
pub use self::flushing::FlushJob;
pub use self::manifest::DamagedRange;
pub use self::meta::{PARTITION_META_FILE, read_partition_meta, write_partition_meta};
pub use self::open::{OpenHint, ProducerRecovery, RecoveryReport};
pub use self::reader::{LogReader, ReadLimit, ReadOutcome};
pub use self::retention::{RetentionLimits, RetentionReport};

/// Name of the file of leader epochs.
const EPOCHS_FILE: &str = "epochs";

/// The single writer of one partition's log. Calls block.
pub struct Log {
    shared: Arc<Shared>,
    dir: PathBuf,
    config: LogConfig,
    manifest: Manifest,
    epochs: EpochCache,
    producers: ProducerStates,
    /// Offsets of the producer snapshots on disk, rising.
    snapshots: Vec<Offset>,
    last_append_time: TimestampMs,
    /// How far the active segment's space is reserved.
    allocated_bytes: u64,
    /// Files, other than the active segment, that the next flush must sync.
    unsynced: Vec<Unsynced>,
    /// Numbers the entries of `unsynced` and the changes of the directory.
    dirt: u64,
    /// The last change of the directory, and the last one that a flush covered.
    directory_dirt: (u64, u64),
    /// Appended since the last snapshot of the producer state.
    bytes_since_snapshot: u64,
    is_poisoned: bool,
}

/// A segment as metrics and tools see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Offset in its name.
    pub base_offset: Offset,
    /// The offset after its last record.
    pub next_offset: Offset,
    /// Its length.
    pub bytes: u64,
    /// When its first batch was appended.
    pub first_append_time: TimestampMs,
    /// When its last batch was appended.
    pub last_append_time: TimestampMs,
}

impl Log {
    /// The partition.
    #[must_use]
    pub fn partition(&self) -> TopicPartition {
        self.shared.partition
    }

    /// The partition directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Changes the configuration; segments that are too large or old now roll with the next append.
    ///
    /// # Errors
    /// [`LogError::Io`] if the manifest cannot be stored, which poisons the log.
    pub fn set_config(&mut self, config: LogConfig) -> Result<(), LogError> {
        let held_compacted = self.config.cleanup.compacts() && !config.cleanup.compacts();
        if held_compacted {
            // A follower takes over the holes of its leader: from now on only these may be there.
            let end = self.log_end_offset();
            self.change_manifest("storing the manifest", |manifest| {
                manifest.compacted_below = manifest.compacted_below.max(end);
            })?;
        }
        self.config = config;
        Ok(())
    }

    /// A reader of this log.
    #[must_use]
    pub fn reader(&self) -> LogReader {
        LogReader::new(Arc::clone(&self.shared))
    }

    /// The first offset that can be read.
    #[must_use]
    pub fn log_start_offset(&self) -> Offset {
        self.manifest.log_start
    }

    /// The next offset to be written.
    #[must_use]
    pub fn log_end_offset(&self) -> Offset {
        self.shared.log_end()
    }

    /// All below it was covered by a finished sync.
    #[must_use]
    pub fn durable_end_offset(&self) -> Offset {
        self.shared.durable_end()
    }

    /// All below it is committed, as far as this replica knows (R7).
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.shared.high_watermark()
    }

    /// Raises the high watermark, to the log end offset at most; a lower value changes nothing.
    pub fn advance_high_watermark(&mut self, offset: Offset) {
        let raised = offset.min(self.log_end_offset());
        if raised > self.high_watermark() {
            self.shared.set_high_watermark(raised);
        }
    }

    /// The leader epoch in which the record at an offset was appended; `None` below the first epoch known.
    #[must_use]
    pub fn leader_epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.epochs.epoch_at(offset)
    }

    /// The leader epoch of the last record or of the last taking of office; 0 before both.
    #[must_use]
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.epochs.latest().map_or(LeaderEpoch::new(0), |entry| entry.epoch)
    }

    /// The largest epoch at or below `epoch` and its end offset (R6).
    #[must_use]
    pub fn epoch_end(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        self.epochs.end_offset_for(epoch, self.log_end_offset())
    }

    /// The producer state at the log end offset.
    #[must_use]
    pub fn producer_states(&self) -> &ProducerStates {
        &self.producers
    }

    /// Moves the clock by which the idle times of producers are measured; see [`ProducerStates::advance_clock`].
    pub fn advance_producer_clock(&mut self, now: std::time::Duration) {
        self.producers.advance_clock(now);
    }

    /// Length of all segments.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.shared.view().segments.iter().map(|segment| segment.bytes()).sum()
    }

    /// The segments, oldest first.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let info = |segment: &Arc<Segment>| SegmentInfo {
            base_offset: segment.base_offset(),
            next_offset: segment.next_offset(),
            bytes: segment.bytes(),
            first_append_time: segment.first_append_time(),
            last_append_time: segment.last_append_time(),
        };
        self.shared.view().segments.iter().map(info).collect()
    }

    /// Ranges that cannot be read.
    #[must_use]
    pub fn damaged_ranges(&self) -> Vec<DamagedRange> {
        self.shared.view().damaged.clone()
    }

    /// Whether an IO error ended this log's life as a writer.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.is_poisoned
    }

    /// What the data directory's checkpoint should say of this log.
    #[must_use]
    pub fn checkpoint_entry(&self) -> CheckpointEntry {
        CheckpointEntry {
            durable_end: self.durable_end_offset(),
            high_watermark: self.high_watermark(),
            leader_epoch: self.leader_epoch(),
            generation: self.manifest.generation,
        }
    }

    fn active(&self) -> Option<Arc<Segment>> {
        self.shared.view().segments.last().cloned()
    }

    fn is_ack_mode(&self) -> bool {
        self.config.flush_policy == FlushPolicy::Ack
    }

    fn check_writable(&self) -> Result<(), LogError> {
        if self.is_poisoned {
            return Err(LogError::Poisoned { partition: self.partition() });
        }
        Ok(())
    }

    /// Ends the log's life as a writer (T23).
    fn poison(&mut self, doing: &'static str, source: io::Error) -> LogError {
        self.is_poisoned = true;
        LogError::Io { doing, partition: self.partition(), source }
    }

    /// Changes the manifest durably where its older form would still be right: a full disk leaves it as it was, in
    /// memory too.
    fn change_manifest(
        &mut self,
        doing: &'static str,
        change: impl FnOnce(&mut Manifest),
    ) -> Result<(), LogError> {
        let mut changed = self.manifest.clone();
        change(&mut changed);
        match changed.store(&*self.shared.vfs, &self.dir) {
            Ok(()) => {
                self.manifest = changed;
                Ok(())
            }
            Err(error) => Err(self.out_of_space_or_poison(doing, error)),
        }
    }

    /// Notes that names in the directory changed, for the next flush to sync.
    fn note_directory_change(&mut self) {
        self.dirt += 1;
        self.directory_dirt.0 = self.dirt;
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("partition", &self.partition())
            .field("log_start", &self.log_start_offset())
            .field("log_end", &self.log_end_offset())
            .field("durable_end", &self.durable_end_offset())
            .field("high_watermark", &self.high_watermark())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
