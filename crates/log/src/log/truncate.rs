//! Lowering the log end, raising the log start, and giving up damaged ranges.

use std::io;
use std::sync::Arc;

use wharf_types::{Offset, TimestampMs};

use super::error::LogError;
use super::manifest::Pending;
use super::{Log, rebuild, snapshots};
use crate::producer::ProducerStates;
use crate::segment::{BatchCursor, CursorError, Segment, SegmentEnd};

impl Log {
    /// Cuts the log so that it ends at `cut` (R6): durable before it returns. A flush that is running changes nothing
    /// any more (T24). The caller has checked that nothing below the high watermark goes.
    ///
    /// A cut inside of a batch removes the whole batch, so the log may end before `cut`, but never before its start;
    /// the new end is returned.
    ///
    /// # Errors
    /// [`LogError::OutOfBounds`] outside of `[log start, log end]`; [`LogError::Io`] poisons the log.
    pub fn truncate_to(&mut self, cut: Offset) -> Result<Offset, LogError> {
        self.check_writable()?;
        let (low, high) = (self.log_start_offset(), self.log_end_offset());
        if cut < low || cut > high {
            return Err(LogError::OutOfBounds { offset: cut, low, high });
        }
        if cut == high {
            return Ok(high);
        }
        match self.cut_segments(cut) {
            Ok(end) => Ok(end),
            Err(error) => Err(self.failed_change("truncating", error)),
        }
    }

    /// Empties the log and lets it start at `offset` (T34): log start, log end, durable end and high watermark are
    /// `offset` then. The producer state is empty until [`Log::install_snapshot`].
    ///
    /// # Errors
    /// [`LogError::Io`] poisons the log.
    pub fn reset_to(&mut self, offset: Offset) -> Result<(), LogError> {
        self.check_writable()?;
        match self.remove_all(offset) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failed_change("resetting", error)),
        }
    }

    /// Takes the producer state that a leader sent for the offset at which this empty log starts (R10).
    ///
    /// # Errors
    /// [`LogError::OutOfBounds`] if the log is not empty or the state is not of its end.
    pub fn install_snapshot(&mut self, states: ProducerStates) -> Result<(), LogError> {
        let (offset, end) = (states.end_offset(), self.log_end_offset());
        if offset != end || self.log_start_offset() != end {
            return Err(LogError::OutOfBounds { offset, low: self.log_start_offset(), high: end });
        }
        self.producers = states;
        self.take_snapshot()?;
        self.flush().map(|_| ())
    }

    /// Raises the log start: durable before anything is removed (R16). A lower value changes nothing.
    ///
    /// # Errors
    /// [`LogError::OutOfBounds`] above the high watermark (I18); [`LogError::Io`] poisons the log.
    pub fn advance_log_start(&mut self, offset: Offset) -> Result<(), LogError> {
        self.check_writable()?;
        let (low, high) = (self.log_start_offset(), self.high_watermark());
        if offset > high {
            return Err(LogError::OutOfBounds { offset, low, high });
        }
        if offset <= low {
            // An earlier call may have found no space for the snapshot that must stand before segments go.
            return self.remove_passed_segments();
        }
        self.change_manifest("storing the log start", |manifest| {
            manifest.log_start = offset;
            manifest.damaged.retain(|range| range.next_good > offset);
        })?;
        let damaged = self.manifest.damaged.clone();
        self.shared.change_view(|view| {
            view.log_start = offset;
            view.damaged = damaged;
        });
        self.remove_passed_segments()?;
        let mut epochs = self.epochs.clone();
        if epochs.truncate_from_start(offset) {
            self.epochs = epochs;
            self.store_epochs()?;
        }
        Ok(())
    }

    /// Notes that a range is damaged, as a reader found it.
    ///
    /// # Errors
    /// [`LogError::Io`] poisons the log.
    pub fn note_damage(&mut self) -> Result<(), LogError> {
        self.check_writable()?;
        let found = self.shared.view().damaged.clone();
        if found != self.manifest.damaged {
            self.change_manifest("storing damaged ranges", |manifest| manifest.damaged = found)?;
        }
        Ok(())
    }

    /// Gives a damaged range up: readers pass over it from now on. Durable before it returns.
    ///
    /// # Errors
    /// [`LogError::NotDamaged`] unless a damaged range has exactly these bounds; [`LogError::Io`] poisons the log.
    pub fn skip_damaged(&mut self, from: Offset, next_good: Offset) -> Result<(), LogError> {
        self.check_writable()?;
        let mut ranges = self.shared.view().damaged.clone();
        let Some(range) = ranges.iter_mut().find(|range| range.from == from && range.next_good == next_good)
        else {
            return Err(LogError::NotDamaged { from, next_good });
        };
        range.skipped = true;
        self.change_manifest("storing damaged ranges", |manifest| manifest.damaged.clone_from(&ranges))?;
        self.shared.change_view(|view| view.damaged = ranges);
        Ok(())
    }

    /// A full disk before an operation was announced has changed nothing; behind that there is no way back.
    fn failed_change(&mut self, doing: &'static str, error: io::Error) -> LogError {
        match self.manifest.pending {
            Pending::None => self.out_of_space_or_poison(doing, error),
            _ => self.poison(doing, error),
        }
    }

    fn cut_segments(&mut self, cut: Offset) -> io::Result<Offset> {
        let vfs = Arc::clone(&self.shared.vfs);
        let segments = self.shared.view().segments.clone();
        let mut kept = segments.partition_point(|segment| segment.base_offset() < cut);
        let mut end = cut;
        let mut keep = None;
        let mut removed_from = cut;
        if let Some(last) = kept.checked_sub(1).and_then(|at| segments.get(at)) {
            let last_end = self.end_below(last, cut)?;
            if last.next_offset() > cut {
                end = last_end.next_offset;
            }
            keep = Some((Arc::clone(last), last_end));
            if end < self.log_start_offset() {
                // Nothing that can be read is left of the batch at the log start.
                (keep, kept, removed_from) = (None, kept - 1, last.base_offset());
                end = self.log_start_offset();
            }
        }
        let mut manifest = self.manifest.clone();
        manifest.note_truncation(end);
        let announced = keep.as_ref().map(|(segment, end)| (segment.base_offset(), end.bytes));
        manifest.pending = Pending::Truncate { cut: removed_from, keep: announced };
        manifest.damaged.retain(|range| range.from < end);
        manifest.store(&*vfs, &self.dir)?;
        self.manifest = manifest;
        for segment in segments.iter() {
            segment.pin(&*vfs)?;
        }
        let (generation, damaged) = (self.manifest.generation, self.manifest.damaged.clone());
        self.shared.set_log_end(end);
        self.shared.set_durable_end(self.durable_end_offset().min(end));
        self.shared.set_high_watermark(self.high_watermark().min(end));
        let replacement = match &keep {
            Some((segment, segment_end)) => Some(self.reopen_below(segment, *segment_end)?),
            None => None,
        };
        self.shared.change_view(|view| {
            view.generation = generation;
            view.damaged = damaged;
            view.segments.truncate(kept);
            if let Some(replacement) = replacement {
                view.segments.pop();
                view.segments.push(replacement);
            }
        });
        for segment in segments[kept..].iter().rev() {
            segment.unlink(&*vfs)?;
        }
        if let Some((segment, segment_end)) = &keep {
            let file = segment.file(&*vfs)?;
            file.set_len(segment_end.bytes)?;
            file.sync_data()?;
        }
        self.drop_snapshots_above(end)?;
        vfs.sync_dir(&self.dir)?;
        self.finish_cut(end)
    }

    /// A fresh object for a segment that is to be cut, so that readers of the old view keep their bounds.
    fn reopen_below(&self, segment: &Arc<Segment>, end: SegmentEnd) -> io::Result<Arc<Segment>> {
        let vfs = &*self.shared.vfs;
        segment.index().seal(vfs)?;
        let reopened = Segment::open(vfs, &self.dir, segment.base_offset())?;
        reopened.index().resume(vfs)?;
        reopened.index().truncate(vfs, end.next_offset)?;
        reopened.set_end(end);
        Ok(Arc::new(reopened))
    }

    /// Where a segment ends below an offset, at a batch's bound.
    fn end_below(&self, segment: &Arc<Segment>, cut: Offset) -> io::Result<SegmentEnd> {
        let mut end = SegmentEnd {
            bytes: segment.bytes(),
            next_offset: segment.next_offset(),
            first_append_time: segment.first_append_time(),
            last_append_time: segment.last_append_time(),
        };
        if end.next_offset <= cut {
            return Ok(end);
        }
        let vfs = Arc::clone(&self.shared.vfs);
        let mut cursor = BatchCursor::new(vfs, Arc::clone(segment), self.partition(), 0);
        (end.bytes, end.next_offset) = (0, segment.base_offset());
        end.last_append_time = TimestampMs::EPOCH;
        loop {
            match cursor.peek_header() {
                Ok(Some(header)) if header.next_offset() <= cut => {
                    cursor.skip(&header);
                    end.bytes = cursor.position();
                    end.next_offset = header.next_offset();
                    end.last_append_time = header.append_time;
                }
                Ok(_) => return Ok(end),
                Err(CursorError::Io(error)) => return Err(error),
                Err(CursorError::Bad(error)) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
    }

    /// Brings everything that follows the log to its new end, then drops the announcement.
    fn finish_cut(&mut self, end: Offset) -> io::Result<Offset> {
        let vfs = Arc::clone(&self.shared.vfs);
        self.directory_dirt.1 = self.directory_dirt.0;
        if self.epochs.truncate_from_end(end) {
            let path = self.dir.join(super::EPOCHS_FILE);
            crate::framed::replace(&*vfs, &path, &self.epochs.encode())?;
        }
        self.reload_producers(end)?;
        let view = self.shared.view();
        self.last_append_time =
            view.segments.iter().map(|segment| segment.last_append_time()).max().unwrap_or_default();
        self.allocated_bytes = view.segments.last().map_or(0, |active| active.bytes());
        self.sync_segments(&view.segments)?;
        self.manifest.pending = Pending::None;
        self.manifest.store(&*vfs, &self.dir)?;
        self.shared.set_durable_end(end);
        Ok(end)
    }

    /// What flushes that no longer count would have synced.
    fn sync_segments(&self, segments: &[Arc<Segment>]) -> io::Result<()> {
        let durable_end = self.durable_end_offset();
        for segment in segments.iter().filter(|segment| segment.next_offset() > durable_end) {
            segment.file(&*self.shared.vfs)?.sync_data()?;
        }
        Ok(())
    }

    fn reload_producers(&mut self, end: Offset) -> io::Result<()> {
        let vfs = Arc::clone(&self.shared.vfs);
        let segments = self.shared.view().segments.clone();
        let first = segments.first().map_or(end, |first| first.base_offset());
        let snapshot = snapshots::load_newest(&*vfs, &self.dir, &self.snapshots, (first, end))
            .map_err(io::Error::other)?;
        let start = snapshot.unwrap_or_else(|| ProducerStates::new(first));
        (self.producers, _) = rebuild::producers(&vfs, self.partition(), &segments, start)?;
        Ok(())
    }

    fn remove_all(&mut self, offset: Offset) -> io::Result<()> {
        let vfs = Arc::clone(&self.shared.vfs);
        let segments = self.shared.view().segments.clone();
        let mut manifest = self.manifest.clone();
        manifest.note_truncation(Offset::ZERO);
        manifest.log_start = offset;
        manifest.compacted_below = Offset::ZERO;
        manifest.damaged.clear();
        manifest.pending = Pending::Reset(offset);
        manifest.store(&*vfs, &self.dir)?;
        self.manifest = manifest;
        for segment in &segments {
            segment.pin(&*vfs)?;
        }
        let generation = self.manifest.generation;
        self.shared.set_log_end(offset);
        self.shared.set_durable_end(offset);
        self.shared.set_high_watermark(offset);
        self.shared.change_view(|view| {
            view.segments.clear();
            view.log_start = offset;
            view.generation = generation;
            view.damaged.clear();
        });
        for segment in segments.iter().rev() {
            segment.unlink(&*vfs)?;
        }
        for snapshot in std::mem::take(&mut self.snapshots) {
            crate::segment::remove_if_there(&*vfs, &snapshots::snapshot_path(&self.dir, snapshot))?;
        }
        vfs.sync_dir(&self.dir)?;
        self.epochs = crate::epochs::EpochCache::new();
        crate::framed::replace(&*vfs, &self.dir.join(super::EPOCHS_FILE), &self.epochs.encode())?;
        self.producers = ProducerStates::new(offset);
        self.unsynced.clear();
        self.directory_dirt.1 = self.directory_dirt.0;
        self.last_append_time = TimestampMs::EPOCH;
        self.allocated_bytes = 0;
        self.manifest.pending = Pending::None;
        self.manifest.store(&*vfs, &self.dir)
    }

    /// Removes the segments that the log start has passed, oldest first (R16). The active one stays.
    pub(super) fn remove_passed_segments(&mut self) -> Result<(), LogError> {
        let start = self.log_start_offset();
        let segments = self.shared.view().segments.clone();
        let passed = segments
            .windows(2)
            .take_while(|pair| pair[1].base_offset() <= start)
            .map(|pair| Arc::clone(&pair[0]))
            .collect::<Vec<_>>();
        let Some(next_base) = passed.len().checked_sub(1).map(|_| segments[passed.len()].base_offset())
        else {
            return Ok(());
        };
        self.ensure_snapshot_from(next_base)?;
        let vfs = Arc::clone(&self.shared.vfs);
        let removed = passed.iter().try_for_each(|segment| segment.pin(&*vfs)).and_then(|()| {
            self.shared.change_view(|view| {
                view.segments.drain(..passed.len());
            });
            passed.iter().try_for_each(|segment| segment.unlink(&*vfs))?;
            vfs.sync_dir(&self.dir)
        });
        match removed {
            Ok(()) => Ok(()),
            Err(error) => Err(self.poison("removing segments", error)),
        }
    }
}
