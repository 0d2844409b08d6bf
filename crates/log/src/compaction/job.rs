//! One pass: map the dirty part, rewrite the segments. Runs beside the log's writer and its readers.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use wharf_types::{Offset, TimestampMs, TopicPartition};

use super::keys::LatestOffsets;
use super::rewrite::SegmentWriter;
use crate::batch::{BatchError, BatchKind, RawRecords, SealedBatch};
use crate::producer::ProducerStates;
use crate::segment::{BatchCursor, CursorError, Segment};
use crate::vfs::Vfs;

/// Why a pass gave up. The log is as it was; files that it left behind are removed when the log is opened.
#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    /// The file system failed.
    #[error("compaction: {0}")]
    Io(#[from] io::Error),
    /// A batch is damaged, or cannot be written again.
    #[error("compaction at offset {offset}: {source}")]
    Bad {
        /// Where: the batch's base offset, or where one was expected.
        offset: Offset,
        /// What is wrong.
        source: BatchError,
    },
    /// A batch belongs to a transaction.
    #[error("compaction at offset {offset}: batches of transactions cannot be compacted")]
    Transactional {
        /// The batch's base offset.
        offset: Offset,
    },
}

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionStats {
    /// Length of the segments read.
    pub bytes_before: u64,
    /// Length of the segments written.
    pub bytes_after: u64,
    /// Records read.
    pub records_before: u64,
    /// Records kept.
    pub records_after: u64,
    /// Keys in the map.
    pub keys: usize,
}

/// A segment that a pass wrote, synced but not yet named by the log.
#[derive(Debug)]
pub(crate) struct CompactedSegment {
    /// Base offset of its name: that of the first segment that it replaces. Its first batch may lie higher.
    pub(crate) base_offset: Offset,
    /// Where it is: `<base offset>.cleaned`. Its index is to be built.
    pub(crate) path: PathBuf,
    /// The segments whose place it takes; the swap is legal only while the log still has exactly these.
    pub(crate) replaces: Vec<Arc<Segment>>,
}

/// What a pass wrote.
#[derive(Debug)]
pub(crate) struct CompactionOutput {
    /// The new segments, oldest first; none is empty, and each ends where the last one that it replaces ended.
    /// To be swapped in all at once: a dropped tombstone must not be gone while an older value is still there.
    pub(crate) segments: Vec<CompactedSegment>,
    /// The `dirty_from` of the next pass; to be made durable with or after the swap.
    pub(crate) clean_below: Offset,
    /// Counts.
    pub(crate) stats: CompactionStats,
}

/// A pass that is ready to run, without the log: it owns all that it needs.
pub(crate) struct CompactionJob {
    pub(crate) vfs: Arc<dyn Vfs>,
    /// The partition directory.
    pub(crate) dir: PathBuf,
    pub(crate) partition: TopicPartition,
    /// The first closed segments, oldest first, as planned; at least one.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Keys from this offset on go into the map.
    pub(crate) dirty_from: Offset,
    /// The producer state at the log end: which entries must stay.
    pub(crate) producers: ProducerStates,
    pub(crate) now: TimestampMs,
    /// From the first pass that keeps a tombstone to the first that may drop it.
    pub(crate) delete_retention_ms: u64,
    /// Small neighbours are merged up to this.
    pub(crate) segment_bytes: u64,
    /// Budget of the key map.
    pub(crate) map_bytes_max: usize,
}

impl CompactionJob {
    /// Maps, rewrites and syncs. Blocks for as long as it takes to read the segments once or twice.
    pub(crate) fn run(&self) -> Result<CompactionOutput, CompactionError> {
        let (latest, clean_below) = self.map_keys()?;
        let mut stats = CompactionStats { keys: latest.len(), ..CompactionStats::default() };
        let mut segments = Vec::new();
        for group in self.groups() {
            let Some(base_offset) = group.first().map(|segment| segment.base_offset()) else {
                continue;
            };
            let mut writer = SegmentWriter::create(self, &latest, clean_below, base_offset)?;
            for (index, segment) in group.iter().enumerate() {
                stats.bytes_before += segment.bytes();
                let is_last = index + 1 == group.len();
                self.rewrite(segment, is_last, &mut writer)?;
            }
            segments.push(CompactedSegment {
                base_offset,
                path: writer.finish(&mut stats)?,
                replaces: group.to_vec(),
            });
        }
        Ok(CompactionOutput { segments, clean_below, stats })
    }

    /// The latest offset of each key of the dirty part, and where the map ends.
    fn map_keys(&self) -> Result<(LatestOffsets, Offset), CompactionError> {
        let mut latest = LatestOffsets::new(self.map_bytes_max);
        let mut end = self.dirty_from;
        for segment in self.segments.iter().filter(|segment| segment.next_offset() > self.dirty_from) {
            let mut cursor = self.cursor(segment);
            while let Some(batch) = next_batch(&mut cursor, end)? {
                if batch.next_offset() <= self.dirty_from {
                    continue;
                }
                if latest.is_full() {
                    return Ok((latest, end));
                }
                note_batch(&mut latest, &batch)?;
                end = batch.next_offset();
            }
            end = end.max(segment.next_offset());
        }
        Ok((latest, end))
    }

    /// Neighbours that together fit a segment, in length as it is and in offsets that an index can hold.
    fn groups(&self) -> Vec<&[Arc<Segment>]> {
        let mut groups = Vec::new();
        let mut start = 0;
        let mut bytes = 0;
        for (index, segment) in self.segments.iter().enumerate() {
            let offsets = segment.next_offset().distance_from(self.segments[start].base_offset());
            let too_large = bytes + segment.bytes() > self.segment_bytes || offsets > u64::from(u32::MAX);
            if index > start && too_large {
                groups.push(&self.segments[start..index]);
                start = index;
                bytes = 0;
            }
            bytes += segment.bytes();
        }
        groups.push(&self.segments[start..]);
        groups
    }

    /// Writes what stays of a segment; its last batch stays in any case if the output ends with it.
    fn rewrite(
        &self,
        segment: &Arc<Segment>,
        is_last: bool,
        writer: &mut SegmentWriter<'_>,
    ) -> Result<(), CompactionError> {
        let mut cursor = self.cursor(segment);
        let mut next = next_batch(&mut cursor, segment.base_offset())?;
        while let Some(batch) = next {
            next = next_batch(&mut cursor, batch.next_offset())?;
            writer.push(&batch, is_last && next.is_none())?;
        }
        Ok(())
    }

    fn cursor(&self, segment: &Arc<Segment>) -> BatchCursor {
        BatchCursor::new(Arc::clone(&self.vfs), Arc::clone(segment), self.partition, 0)
    }
}

fn next_batch(cursor: &mut BatchCursor, offset: Offset) -> Result<Option<SealedBatch>, CompactionError> {
    cursor.next_batch().map_err(|error| match error {
        CursorError::Io(error) => CompactionError::Io(error),
        CursorError::Bad(source) => CompactionError::Bad { offset, source },
    })
}

fn note_batch(latest: &mut LatestOffsets, batch: &SealedBatch) -> Result<(), CompactionError> {
    let offset = batch.base_offset();
    if batch.header().transactional {
        return Err(CompactionError::Transactional { offset });
    }
    if batch.header().kind == BatchKind::Control || !batch.header().keyed {
        return Ok(());
    }
    let bad = |source| CompactionError::Bad { offset, source };
    let section = batch.records_section().map_err(bad)?;
    for record in RawRecords::new(&section, batch.header()) {
        let record = record.map_err(bad)?;
        if let Some(key) = record.key {
            latest.note(key, record.offset);
        }
    }
    Ok(())
}
