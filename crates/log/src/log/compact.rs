//! Compaction as the log sees it: what may be compacted, and putting the result in place of the old segments.
//!
//! A pass is begun and completed under the log's lock and runs between the two. The swap is announced by the manifest
//! before the first name changes, so that a crash in it is finished by the next open: never both, never neither.

use std::io;
use std::sync::Arc;

use wharf_types::{Offset, TimestampMs};

use super::error::LogError;
use super::manifest::Pending;
use super::{Log, pending, rebuild};
use crate::compaction::{
    self, COMPACTION_MAP_BYTES_DEFAULT, CompactedSegment, CompactionError, CompactionInput, CompactionJob,
    CompactionOutput, CompactionStats,
};
use crate::recovery;
use crate::segment::Segment;

/// A compaction pass that is ready to run, without the log's lock.
pub struct CompactionPass {
    job: CompactionJob,
    generation: u64,
}

/// What a pass wrote, to be put in place by [`Log::complete_compaction`].
pub struct CompactionResult {
    output: CompactionOutput,
    generation: u64,
}

impl CompactionPass {
    /// Reads and rewrites the segments. Blocks for as long as that takes.
    ///
    /// # Errors
    /// [`CompactionError`]: the log is as it was.
    pub fn run(self) -> Result<CompactionResult, CompactionError> {
        Ok(CompactionResult { output: self.job.run()?, generation: self.generation })
    }
}

impl Log {
    /// Plans a pass over the closed segments below `bound` (R16); `None` if none is worth it or the topic is not
    /// compacted.
    pub fn begin_compaction(&mut self, now: TimestampMs, bound: Offset) -> Option<CompactionPass> {
        if self.is_poisoned || !self.config.cleanup.compacts() {
            return None;
        }
        let view = self.shared.view();
        let damaged = view.damaged.first().map_or(Offset::MAX, |range| range.from);
        let bound = bound.min(self.high_watermark()).min(damaged);
        let closed = view.segments.split_last().map_or(&[][..], |(_, closed)| closed);
        let inputs: Vec<CompactionInput> = closed
            .iter()
            .map(|segment| CompactionInput {
                next_offset: segment.next_offset(),
                bytes: segment.bytes(),
                last_append_time: segment.last_append_time(),
            })
            .collect();
        let min_lag_ms = self.config.min_compaction_lag_ms;
        let plan = compaction::plan(&inputs, bound, self.manifest.clean_below, min_lag_ms, now)?;
        let job = CompactionJob {
            vfs: Arc::clone(&self.shared.vfs),
            dir: self.dir.clone(),
            partition: self.partition(),
            segments: closed[..plan.segment_count].to_vec(),
            dirty_from: plan.dirty_from,
            producers: self.producers.clone(),
            now,
            delete_retention_ms: self.config.delete_retention_ms,
            segment_bytes: u64::from(self.config.segment_bytes),
            map_bytes_max: COMPACTION_MAP_BYTES_DEFAULT,
        };
        Some(CompactionPass { job, generation: self.manifest.generation })
    }

    /// Puts what a pass wrote in the place of the segments that it read. If the log was truncated or lost segments
    /// since, the result is dropped and `None` returned.
    ///
    /// # Errors
    /// [`LogError::Io`] poisons the log.
    pub fn complete_compaction(
        &mut self,
        result: CompactionResult,
    ) -> Result<Option<CompactionStats>, LogError> {
        self.check_writable()?;
        let CompactionOutput { segments, clean_below, stats } = result.output;
        if result.generation != self.manifest.generation || !self.still_has(&segments) {
            for segment in &segments {
                if let Err(error) = self.shared.vfs.remove_file(&segment.path) {
                    return Err(self.poison("dropping a compaction", error));
                }
            }
            return Ok(None);
        }
        // The snapshots below hold what replaying the shorter log would not tell; the newest one covers it all.
        self.take_snapshot()?;
        self.flush()?;
        match self.replace_segments(&segments, clean_below) {
            Ok(()) => Ok(Some(stats)),
            Err(error) => Err(self.poison("swapping segments", error)),
        }
    }

    /// Plans, runs and completes a pass in the calling thread.
    ///
    /// # Errors
    /// [`LogError`]; a pass that gives up changes nothing and is reported as [`LogError::Compaction`].
    pub fn compact(&mut self, now: TimestampMs, bound: Offset) -> Result<Option<CompactionStats>, LogError> {
        let Some(pass) = self.begin_compaction(now, bound) else {
            return Ok(None);
        };
        let result =
            pass.run().map_err(|source| LogError::Compaction { partition: self.partition(), source })?;
        self.complete_compaction(result)
    }

    /// Whether the log begins with exactly the segments that a pass has read.
    fn still_has(&self, segments: &[CompactedSegment]) -> bool {
        let view = self.shared.view();
        let read = segments.iter().flat_map(|segment| &segment.replaces);
        let mut current = view.segments.iter();
        read.into_iter().all(|segment| current.next().is_some_and(|current| Arc::ptr_eq(current, segment)))
            && current.next().is_some()
    }

    fn replace_segments(&mut self, segments: &[CompactedSegment], clean_below: Offset) -> io::Result<()> {
        let vfs = Arc::clone(&self.shared.vfs);
        let replaced: Vec<Arc<Segment>> =
            segments.iter().flat_map(|segment| segment.replaces.iter().cloned()).collect();
        let removed: Vec<Offset> = replaced.iter().map(|segment| segment.base_offset()).collect();
        let installed: Vec<Offset> = segments.iter().map(|segment| segment.base_offset).collect();
        let end = replaced.last().map_or(Offset::ZERO, |last| last.next_offset());
        // The new files' names must be there before the manifest counts on them.
        vfs.sync_dir(&self.dir)?;
        self.manifest.clean_below = clean_below;
        self.manifest.compacted_below = self.manifest.compacted_below.max(end);
        self.manifest.pending = Pending::Swap { removed: removed.clone(), installed: installed.clone() };
        self.manifest.store(&*vfs, &self.dir)?;
        for segment in &replaced {
            segment.pin(&*vfs)?;
        }
        pending::swap(&*vfs, &self.dir, &removed, &installed)?;
        let mut opened = Vec::with_capacity(installed.len());
        for base in installed {
            opened.push(self.open_compacted(base)?);
        }
        self.shared.change_view(|view| {
            view.segments.splice(..replaced.len(), opened);
        });
        self.manifest.pending = Pending::None;
        self.manifest.store(&*vfs, &self.dir)
    }

    fn open_compacted(&self, base_offset: Offset) -> io::Result<Arc<Segment>> {
        let vfs = &self.shared.vfs;
        let segment = Arc::new(Segment::open(&**vfs, &self.dir, base_offset)?);
        rebuild::index(vfs, self.partition(), &segment)?;
        let end = recovery::segment_end(vfs, &segment, self.partition())?;
        let end = end.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        segment.set_end(end);
        Ok(segment)
    }
}
