//! Creating and opening a log.
//!
//! Opening finishes what a crash cut short (the manifest's pending operation), finds the log's end, judges bad batches
//! (R17), makes what it found durable before it is served (T26), and rebuilds what is only a cache of the log: indexes,
//! leader epochs, producer state (T31).

use std::io;
use std::path::Path;
use std::sync::Arc;

use wharf_types::{FlushPolicy, Offset, TimestampMs, TopicPartition};

use super::config::LogConfig;
use super::error::LogError;
use super::manifest::{DamagedRange, Manifest};
use super::meta::{PARTITION_META_FILE, write_partition_meta};
use super::shared::{Shared, View};
use super::{EPOCHS_FILE, Log, pending, rebuild, snapshots};
use crate::checkpoint::CheckpointEntry;
use crate::epochs::EpochCache;
use crate::framed::{self, FrameError};
use crate::producer::ProducerStates;
use crate::recovery::SeenEpoch;
use crate::segment::{CLEANED_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, Segment, parse, remove_if_there};
use crate::vfs::Vfs;

/// What is known of a log before it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHint {
    /// Whether the data directory had a clean marker.
    pub clean: bool,
    /// What the data directory's checkpoint says of the log.
    pub checkpoint: Option<CheckpointEntry>,
}

/// How much of the producer state was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProducerRecovery {
    /// It is the fold of the whole log.
    #[default]
    Full,
    /// No snapshot was valid and the log does not reach back to its first record: retries of older requests would be
    /// appended again (R10).
    Partial,
}

/// What opening found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Bytes of segments read to find the end.
    pub scanned_bytes: u64,
    /// Bytes cut off: a torn or unordered tail that nobody relied on.
    pub truncated_bytes: u64,
    /// Ranges that are not readable though they were committed, those known before included.
    pub damaged: Vec<DamagedRange>,
    /// Whether the producer state is whole.
    pub producers: ProducerRecovery,
    /// How far the last append time lies ahead of `now`, in milliseconds: the clock was wrong then or is now, and
    /// retention by time waits until it has caught up.
    pub append_time_ahead_ms: u64,
    /// Files that were damaged or missing and were rebuilt from the log.
    pub rebuilt: Vec<&'static str>,
}

impl Log {
    /// Creates the log of a new partition with its metadata, durably. It takes no space before the first append.
    ///
    /// # Errors
    /// [`LogError::Exists`] if the directory has partition metadata already; [`LogError::Io`].
    pub fn create(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        partition: TopicPartition,
        config: LogConfig,
        meta: &[u8],
    ) -> Result<Log, LogError> {
        let failed = |source| LogError::Io { doing: "creating the directory", partition, source };
        if vfs.exists(&dir.join(PARTITION_META_FILE)).map_err(failed)? {
            return Err(LogError::Exists { path: dir.to_owned() });
        }
        vfs.create_dir_all(dir)
            .and_then(|()| vfs.sync_dir(framed::parent(dir)))
            .and_then(|()| Manifest::default().store(&*vfs, dir))
            .and_then(|()| write_partition_meta(&*vfs, dir, meta))
            .map_err(failed)?;
        let now = TimestampMs::EPOCH;
        Log::open(vfs, dir, partition, config, OpenHint::default(), now).map(|(log, _)| log)
    }

    /// Opens the log of a partition directory.
    ///
    /// # Errors
    /// [`LogError`] if the file system fails or a file is of a newer format. Damage is no error: see the report.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        partition: TopicPartition,
        config: LogConfig,
        hint: OpenHint,
        now: TimestampMs,
    ) -> Result<(Log, RecoveryReport), LogError> {
        let mut opening = Opening { vfs, dir, partition, config, hint, report: RecoveryReport::default() };
        let log = opening.run()?;
        opening.report.append_time_ahead_ms = log.last_append_time.since(now);
        Ok((log, opening.report))
    }
}

/// A log being opened.
pub(super) struct Opening<'a> {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) dir: &'a Path,
    pub(super) partition: TopicPartition,
    pub(super) config: LogConfig,
    pub(super) hint: OpenHint,
    pub(super) report: RecoveryReport,
}

/// Where the log ends.
pub(super) struct Found {
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) log_end: Offset,
    /// Append time of the last batch.
    pub(super) append_time: TimestampMs,
    /// The first segment scanned and the offset from which on, if any was.
    pub(super) scanned_from: Option<(Offset, Offset)>,
    /// First batches of leader epochs from there on.
    pub(super) epochs: Vec<SeenEpoch>,
}

/// What the directory holds, by offset, rising.
#[derive(Debug, Default)]
struct Names {
    segments: Vec<Offset>,
    snapshots: Vec<Offset>,
}

impl Opening<'_> {
    fn run(&mut self) -> Result<Log, LogError> {
        let mut names = self.list()?;
        let mut manifest = self.load_manifest(&names.segments)?;
        if pending::finish(&*self.vfs, self.dir, &mut manifest, &names.segments)
            .map_err(|error| self.io("finishing an operation", error))?
        {
            names = self.list()?;
        }
        self.remove_cleaned()?;
        self.remove_passed(&mut names.segments, manifest.log_start)?;
        let mut found = self.find_end(&mut manifest, &names.segments)?;
        self.drop_below_start(&manifest, &mut found)?;
        self.report.damaged = manifest.damaged.clone();
        let durable_end = self.make_durable(&found)?;
        let epochs = self.load_epochs(&found, manifest.log_start)?;
        let mut snapshots = names.snapshots;
        let producers = self.load_producers(&found, &manifest, &mut snapshots)?;
        let checkpoint = self.hint.checkpoint.unwrap_or_default();
        let view = View {
            segments: found.segments,
            log_start: manifest.log_start,
            generation: manifest.generation,
            damaged: manifest.damaged.clone(),
        };
        let shared = Shared::new(Arc::clone(&self.vfs), self.partition, view);
        shared.set_log_end(found.log_end);
        shared.set_durable_end(durable_end);
        let high_watermark = checkpoint.high_watermark.max(manifest.log_start).min(found.log_end);
        shared.set_high_watermark(high_watermark);
        let mut log = Log {
            shared: Arc::new(shared),
            dir: self.dir.to_owned(),
            config: self.config.clone(),
            manifest,
            epochs,
            producers,
            snapshots,
            last_append_time: found.append_time,
            allocated_bytes: 0,
            unsynced: Vec::new(),
            dirt: 0,
            directory_dirt: (0, 0),
            bytes_since_snapshot: 0,
            is_poisoned: false,
        };
        log.allocated_bytes = log.active().map_or(0, |active| active.bytes());
        log.resume_unsynced(durable_end)?;
        Ok(log)
    }

    pub(super) fn io(&self, doing: &'static str, source: io::Error) -> LogError {
        LogError::Io { doing, partition: self.partition, source }
    }

    /// The base offsets of segments and snapshots; removes what a crash left half-written.
    fn list(&self) -> Result<Names, LogError> {
        let failed = |error| self.io("listing the directory", error);
        let mut names = Names::default();
        for entry in self.vfs.read_dir(self.dir).map_err(failed)? {
            if let Some(base) = parse(&entry.name, LOG_SUFFIX) {
                names.segments.push(base);
            } else if let Some(offset) = parse(&entry.name, SNAPSHOT_SUFFIX) {
                names.snapshots.push(offset);
            } else if entry.name.ends_with(framed::TMP_SUFFIX) {
                remove_if_there(&*self.vfs, &self.dir.join(&entry.name)).map_err(failed)?;
            }
        }
        Ok(names)
    }

    fn load_manifest(&mut self, segments: &[Offset]) -> Result<Manifest, LogError> {
        let first = segments.first().copied().unwrap_or(Offset::ZERO);
        match Manifest::load(&*self.vfs, self.dir) {
            Ok(Some(manifest)) => Ok(manifest),
            Ok(None) if segments.is_empty() => Ok(Manifest::default()),
            Ok(None) | Err(FrameError::Damaged { .. }) => {
                self.report.rebuilt.push("manifest");
                let generation = self.hint.checkpoint.map_or(0, |checkpoint| checkpoint.generation);
                let compacted_below = if self.config.cleanup.compacts() { Offset::MAX } else { Offset::ZERO };
                let manifest =
                    Manifest { log_start: first, generation, compacted_below, ..Manifest::default() };
                manifest
                    .store(&*self.vfs, self.dir)
                    .map_err(|error| self.io("rebuilding the manifest", error))?;
                Ok(manifest)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Segments of a compaction that no manifest names were never part of the log.
    fn remove_cleaned(&self) -> Result<(), LogError> {
        let failed = |error| self.io("removing what a compaction left", error);
        for entry in self.vfs.read_dir(self.dir).map_err(failed)? {
            if entry.name.ends_with(CLEANED_SUFFIX) {
                remove_if_there(&*self.vfs, &self.dir.join(&entry.name)).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Removes segments that the log start has passed: a crash may have kept any of their names, in any order, so
    /// gaps between them mean nothing.
    fn remove_passed(&self, bases: &mut Vec<Offset>, log_start: Offset) -> Result<(), LogError> {
        let failed = |error| self.io("removing a segment", error);
        let passed = bases.partition_point(|base| *base <= log_start).saturating_sub(1);
        for base in bases.drain(..passed) {
            pending::remove_segment(&*self.vfs, self.dir, base).map_err(failed)?;
        }
        if passed > 0 { self.vfs.sync_dir(self.dir).map_err(failed) } else { Ok(()) }
    }

    /// Removes segments that the log start has passed, and all of them if the log ends before it.
    fn drop_below_start(&self, manifest: &Manifest, found: &mut Found) -> Result<(), LogError> {
        let start = manifest.log_start;
        let is_short = found.log_end < start;
        let is_gone = |segments: &[Arc<Segment>]| match segments {
            [] => false,
            [_] => is_short,
            [_, next, ..] => is_short || next.base_offset() <= start,
        };
        let mut removed = false;
        while is_gone(&found.segments) {
            let first = found.segments.remove(0);
            first.unlink(&*self.vfs).map_err(|error| self.io("removing a segment", error))?;
            removed = true;
        }
        if removed {
            self.vfs.sync_dir(self.dir).map_err(|error| self.io("removing a segment", error))?;
        }
        found.log_end = found.log_end.max(start);
        Ok(())
    }

    /// Syncs what recovery found, before it is served (T26); in `os` mode that is left to the first flush.
    fn make_durable(&self, found: &Found) -> Result<Offset, LogError> {
        let Some((segment, from)) = found.scanned_from else {
            return Ok(found.log_end);
        };
        if self.config.flush_policy == FlushPolicy::Os {
            return Ok(from.min(found.log_end));
        }
        let failed = |error| self.io("syncing what was recovered", error);
        for segment in found.segments.iter().filter(|found| found.base_offset() >= segment) {
            segment.file(&*self.vfs).and_then(|file| file.sync_data()).map_err(failed)?;
        }
        self.vfs.sync_dir(self.dir).map_err(failed)?;
        Ok(found.log_end)
    }

    /// The leader epochs, checked against the log and rebuilt from it on doubt (T31).
    fn load_epochs(&mut self, found: &Found, log_start: Offset) -> Result<EpochCache, LogError> {
        let path = self.dir.join(EPOCHS_FILE);
        let loaded = match framed::read_whole(&*self.vfs, &path) {
            Ok(None) => Some(EpochCache::new()),
            Ok(Some(bytes)) => EpochCache::decode(&path, &bytes).ok(),
            Err(FrameError::Damaged { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let had_file = loaded.as_ref().is_none_or(|cache| !cache.entries().is_empty());
        let mut changed = false;
        let trusted = loaded.map(|mut cache| {
            changed = cache.truncate_from_end(found.log_end.next());
            cache
        });
        let last_epoch = rebuild::last_epoch(&self.vfs, self.partition, &found.segments)
            .map_err(|error| self.io("reading the last leader epoch", error))?;
        let cache = trusted.filter(|cache| rebuild::epochs_agree(cache, found, log_start, last_epoch));
        let cache = match cache {
            Some(cache) => cache,
            None => {
                if had_file {
                    self.report.rebuilt.push("epochs");
                }
                changed = true;
                rebuild::epochs(&self.vfs, self.partition, &found.segments)
                    .map_err(|error| self.io("rebuilding the leader epochs", error))?
            }
        };
        if changed {
            framed::replace(&*self.vfs, &path, &cache.encode())
                .map_err(|error| self.io("rebuilding the leader epochs", error))?;
        }
        Ok(cache)
    }

    /// The producer state at the log end: the newest valid snapshot and the log behind it (R10).
    fn load_producers(
        &mut self,
        found: &Found,
        manifest: &Manifest,
        offsets: &mut Vec<Offset>,
    ) -> Result<ProducerStates, LogError> {
        let first = found.segments.first().map_or(found.log_end, |first| first.base_offset());
        let bounds = (first, found.log_end);
        let snapshot = snapshots::load_newest(&*self.vfs, self.dir, offsets, bounds)?;
        let usable = snapshot.as_ref().map(ProducerStates::end_offset);
        let mut removed = Vec::new();
        offsets.retain(|offset| {
            let keep = usable.is_some_and(|usable| *offset <= usable);
            if !keep {
                removed.push(*offset);
            }
            keep
        });
        let failed = |error| self.io("removing a producer snapshot", error);
        for offset in &removed {
            remove_if_there(&*self.vfs, &snapshots::snapshot_path(self.dir, *offset)).map_err(failed)?;
        }
        if !removed.is_empty() {
            // They must not come back when the log has grown beyond them with other records.
            self.vfs.sync_dir(self.dir).map_err(failed)?;
        }
        let is_whole =
            snapshot.is_some() || (first == Offset::ZERO && manifest.compacted_below == Offset::ZERO);
        let start = snapshot.unwrap_or_else(|| ProducerStates::new(first));
        let (states, replayed_all) = rebuild::producers(&self.vfs, self.partition, &found.segments, start)
            .map_err(|error| self.io("replaying the producer state", error))?;
        if !(is_whole && replayed_all) && found.log_end > Offset::ZERO {
            self.report.producers = ProducerRecovery::Partial;
        }
        Ok(states)
    }
}

impl Log {
    /// After an open in `os` mode: what was recovered is still to be synced by the first flush.
    fn resume_unsynced(&mut self, durable_end: Offset) -> Result<(), LogError> {
        if durable_end >= self.log_end_offset() {
            return Ok(());
        }
        let segments = self.shared.view().segments.clone();
        for segment in segments.iter().filter(|segment| segment.next_offset() > durable_end) {
            match segment.file(&*self.shared.vfs) {
                Ok(file) => self.note_unsynced(file),
                Err(error) => return Err(self.poison("opening a segment", error)),
            }
        }
        self.note_directory_change();
        Ok(())
    }
}
