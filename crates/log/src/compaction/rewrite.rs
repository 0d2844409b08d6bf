//! Writing one output segment: which batches and records stay.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use wharf_types::{Offset, TimestampMs};

use super::job::{CompactionError, CompactionJob, CompactionStats};
use super::keys::LatestOffsets;
use crate::batch::{BatchError, BatchKind, RawRecords, SealedBatch, assemble_compacted};
use crate::segment::{CLEANED_SUFFIX, file_name};
use crate::vfs::{OpenMode, VfsFile};

/// How much is collected before it is written.
const WRITE_BYTES: usize = 1 << 20;

/// Appends what stays of the batches that it is given to a `.cleaned` file.
pub(super) struct SegmentWriter<'a> {
    job: &'a CompactionJob,
    latest: &'a LatestOffsets,
    /// Batches from here on are not in the map and stay as they are.
    clean_below: Offset,
    path: PathBuf,
    file: Arc<dyn VfsFile>,
    written: u64,
    pending: Vec<u8>,
    records_before: u64,
    records_after: u64,
}

/// What stays of a batch's records.
struct Kept {
    encoded: Vec<u8>,
    record_count: u32,
    has_tombstones: bool,
}

impl<'a> SegmentWriter<'a> {
    pub(super) fn create(
        job: &'a CompactionJob,
        latest: &'a LatestOffsets,
        clean_below: Offset,
        base_offset: Offset,
    ) -> Result<Self, CompactionError> {
        let path = job.dir.join(file_name(base_offset, CLEANED_SUFFIX));
        let file = job.vfs.open(&path, OpenMode::CreateOrTruncate)?;
        Ok(SegmentWriter {
            job,
            latest,
            clean_below,
            path,
            file,
            written: 0,
            pending: Vec::new(),
            records_before: 0,
            records_after: 0,
        })
    }

    /// Writes what stays of the next batch; `must_stay` keeps it even without records.
    pub(super) fn push(&mut self, batch: &SealedBatch, must_stay: bool) -> Result<(), CompactionError> {
        let header = batch.header();
        self.records_before += u64::from(header.record_count);
        if header.transactional {
            return Err(CompactionError::Transactional { offset: header.base_offset });
        }
        if header.kind == BatchKind::Control || !header.keyed || batch.next_offset() > self.clean_below {
            return self.write_unchanged(batch);
        }
        let bad = |source| CompactionError::Bad { offset: header.base_offset, source };
        let kept = self.kept_records(batch).map_err(bad)?;
        if kept.record_count == 0 && !must_stay && !self.is_remembered(batch).map_err(bad)? {
            return Ok(());
        }
        let horizon = if kept.has_tombstones {
            header.delete_horizon.or_else(|| Some(self.new_horizon()))
        } else {
            None
        };
        if kept.record_count == header.record_count && horizon == header.delete_horizon {
            return self.write_unchanged(batch);
        }
        let compacted = assemble_compacted(batch, &kept.encoded, kept.record_count, horizon).map_err(bad)?;
        self.records_after += u64::from(kept.record_count);
        self.write(compacted.bytes())
    }

    /// Writes the rest and makes the file durable. Its name is the log's affair.
    pub(super) fn finish(mut self, stats: &mut CompactionStats) -> Result<PathBuf, CompactionError> {
        self.write_pending()?;
        self.file.sync_data()?;
        stats.bytes_after += self.written;
        stats.records_before += self.records_before;
        stats.records_after += self.records_after;
        Ok(self.path)
    }

    fn kept_records(&self, batch: &SealedBatch) -> Result<Kept, BatchError> {
        let header = batch.header();
        let drop_tombstones = header.delete_horizon.is_some_and(|horizon| horizon <= self.job.now);
        let section = batch.records_section()?;
        let mut kept = Kept { encoded: Vec::new(), record_count: 0, has_tombstones: false };
        for record in RawRecords::new(&section, header) {
            let record = record?;
            let is_tombstone = record.key.is_some() && record.value.is_none();
            let superseded = record.key.is_some_and(|key| self.latest.supersedes(key, record.offset));
            if superseded || (is_tombstone && drop_tombstones) {
                continue;
            }
            kept.encoded.extend_from_slice(record.encoded);
            kept.record_count += 1;
            kept.has_tombstones |= is_tombstone;
        }
        Ok(kept)
    }

    /// Whether producer state would lose a request without this batch.
    fn is_remembered(&self, batch: &SealedBatch) -> Result<bool, BatchError> {
        let mut base_offset = batch.base_offset();
        for entry in batch.entries()? {
            let found = self.job.producers.find(entry.producer_id, entry.producer_epoch, entry.sequence);
            if found.is_some_and(|request| request.base_offset == base_offset) {
                return Ok(true);
            }
            base_offset = base_offset.plus(u64::from(entry.record_count));
        }
        Ok(false)
    }

    /// Never the epoch, which would mean none.
    fn new_horizon(&self) -> TimestampMs {
        let retained = self.job.now.value().saturating_add(self.job.delete_retention_ms);
        TimestampMs::new(retained.max(1))
    }

    fn write_unchanged(&mut self, batch: &SealedBatch) -> Result<(), CompactionError> {
        self.records_after += u64::from(batch.header().record_count);
        self.write(batch.bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CompactionError> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= WRITE_BYTES {
            self.write_pending()?;
        }
        Ok(())
    }

    fn write_pending(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.pending, self.written)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}
