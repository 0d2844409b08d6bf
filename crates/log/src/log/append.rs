//! Appending, as leader and as follower, and rolling to a new segment.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use wharf_types::{LeaderEpoch, Offset, TimestampMs};

use super::error::{AppendError, LogError};
use super::flushing::Unsynced;
use super::{EPOCHS_FILE, Log, snapshots};
use crate::batch::{BatchKind, Seal, SealedBatch, UnsealedBatch};
use crate::epochs::Assigned;
use crate::framed;
use crate::producer::{CheckOutcome, EntryVerdict};
use crate::segment::Segment;
use crate::vfs::{VfsFile, is_out_of_space};

/// Space is reserved in chunks of at most this (R17).
const ALLOCATION_BYTES_MAX: u64 = 16 << 20;
/// The first chunk of a segment, so that a partition with little data takes little.
const ALLOCATION_BYTES_MIN: u64 = 64 << 10;

/// What a leader knows when it appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderAppend {
    /// The epoch in which it leads.
    pub leader_epoch: LeaderEpoch,
    /// Its high watermark; goes into the batch as a hint for recovery (R17).
    pub high_watermark: Offset,
    /// The wall-clock time.
    pub now: TimestampMs,
}

/// What became of a batch.
#[derive(Clone, Debug)]
pub enum LeaderAppendOutcome {
    /// It is in the log, not yet durable.
    Appended {
        /// Offset of its first record.
        base_offset: Offset,
        /// Offset of its last record.
        last_offset: Offset,
        /// The append time that its records carry.
        append_time: TimestampMs,
        /// Whether a segment was closed before it: a good moment for a checkpoint (R17).
        rolled: bool,
        /// As stored, for followers and readers at the tail.
        batch: SealedBatch,
    },
    /// Nothing of it is in the log: at least one entry is a duplicate or refused (R10).
    Refused {
        /// One for each entry, in order.
        verdicts: Vec<EntryVerdict>,
        /// The batch, so that the entries that may be appended can be sent again.
        batch: UnsealedBatch,
    },
}

impl Log {
    /// Appends a batch as the leader: checks its entries against the producer state at the log end, gives it its
    /// place and writes it (R10). One critical section: the caller holds the log alone.
    ///
    /// # Errors
    /// [`AppendError`]; after [`AppendError::Io`] the log is poisoned and the outcome unknown, otherwise nothing of
    /// the batch is in the log.
    pub fn append_leader(
        &mut self,
        batch: UnsealedBatch,
        context: &LeaderAppend,
    ) -> Result<LeaderAppendOutcome, AppendError> {
        self.check_append()?;
        if let CheckOutcome::Refused(verdicts) = self.producers.check(batch.entries()) {
            return Ok(LeaderAppendOutcome::Refused { verdicts, batch });
        }
        self.append_sealed_by_leader(batch, BatchKind::Data, context)
    }

    /// Appends control records as the leader.
    ///
    /// # Errors
    /// As [`Log::append_leader`].
    pub fn append_control(
        &mut self,
        batch: UnsealedBatch,
        context: &LeaderAppend,
    ) -> Result<LeaderAppendOutcome, AppendError> {
        self.check_append()?;
        self.append_sealed_by_leader(batch, BatchKind::Control, context)
    }

    /// Takes office in an epoch: its entry is durable before anything is appended in it (R5). Returns the offset at
    /// which the epoch starts.
    ///
    /// # Errors
    /// [`AppendError::WrongEpoch`] if the log knows a higher one, and those of storing the entry.
    pub fn begin_leader_epoch(&mut self, epoch: LeaderEpoch) -> Result<Offset, AppendError> {
        self.check_append()?;
        let start = self.log_end_offset();
        if let Some(latest) = self.epochs.latest() {
            if epoch < latest.epoch {
                let high = LeaderEpoch::new(u32::MAX);
                return Err(AppendError::WrongEpoch { low: latest.epoch, high, actual: epoch });
            }
            if epoch == latest.epoch {
                return Ok(latest.start);
            }
        }
        self.assign_epoch(epoch, start)?;
        Ok(start)
    }

    /// Appends what a leader sent: whole sealed batches that follow on the log end (T16). Returns the new log end.
    /// On an error the batches before the bad one are in the log.
    ///
    /// # Errors
    /// [`AppendError`].
    pub fn append_follower(
        &mut self,
        mut batches: Bytes,
        leader_epoch: LeaderEpoch,
    ) -> Result<Offset, AppendError> {
        while let Some(batch) = SealedBatch::split_first(&mut batches, Some(self.partition()))? {
            self.check_append()?;
            self.check_follows(&batch, leader_epoch)?;
            if self.epochs.latest().is_none_or(|entry| entry.epoch < batch.leader_epoch()) {
                self.assign_epoch(batch.leader_epoch(), batch.base_offset())?;
            }
            // Segments adjoin: a hole before the batch belongs to the segment that it opens.
            let base_offset = batch.base_offset().min(self.log_end_offset());
            self.roll_if_needed(batch.bytes().len(), base_offset, batch.append_time())?;
            self.write(&batch)?;
        }
        Ok(self.log_end_offset())
    }

    /// Closes the active segment if its time is over, so that retention can reach it. Returns whether it did.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn roll_if_due(&mut self, now: TimestampMs) -> Result<bool, LogError> {
        self.check_writable()?;
        let end = self.log_end_offset();
        let is_due = self.active().is_some_and(|active| self.is_old(&active, now));
        if is_due {
            self.roll(end)?;
        }
        Ok(is_due)
    }

    fn check_append(&self) -> Result<(), AppendError> {
        if self.is_poisoned {
            return Err(AppendError::Poisoned { partition: self.partition() });
        }
        Ok(())
    }

    fn append_sealed_by_leader(
        &mut self,
        batch: UnsealedBatch,
        kind: BatchKind,
        context: &LeaderAppend,
    ) -> Result<LeaderAppendOutcome, AppendError> {
        self.begin_leader_epoch(context.leader_epoch)?;
        let append_time = self.last_append_time.max(context.now);
        let base_offset = self.log_end_offset();
        let rolled = self.roll_if_needed(batch.encoded_bytes(), base_offset, append_time)?;
        let seal = Seal {
            partition: self.partition(),
            base_offset,
            leader_epoch: context.leader_epoch,
            // A hint in `ack` mode says that all below it is durable, also just after a change of the policy.
            hw_hint: if self.is_ack_mode() {
                context.high_watermark.min(self.durable_end_offset())
            } else {
                context.high_watermark.min(base_offset)
            },
            ack_mode: self.is_ack_mode(),
            append_time,
            kind,
        };
        let batch = batch.seal(&seal)?;
        self.write(&batch)?;
        let last_offset = batch.last_offset();
        Ok(LeaderAppendOutcome::Appended { base_offset, last_offset, append_time, rolled, batch })
    }

    fn check_follows(&self, batch: &SealedBatch, leader_epoch: LeaderEpoch) -> Result<(), AppendError> {
        let (low, actual) = (self.leader_epoch(), batch.leader_epoch());
        if actual < low || actual > leader_epoch {
            return Err(AppendError::WrongEpoch { low, high: leader_epoch, actual });
        }
        let expected = self.log_end_offset();
        let is_empty = self.shared.view().segments.is_empty();
        let base = batch.base_offset();
        // After a reset the first batch may start below the log start (T34); compaction leaves holes at the leader.
        let overlaps_start = is_empty && base < expected && expected < batch.next_offset();
        let jumps_hole = base > expected && self.config.cleanup.compacts();
        if base == expected || overlaps_start || jumps_hole {
            return Ok(());
        }
        Err(AppendError::NotAtEnd { expected, actual: base })
    }

    /// Makes an epoch's start durable before the epoch's first batch (T31).
    fn assign_epoch(&mut self, epoch: LeaderEpoch, start: Offset) -> Result<(), AppendError> {
        let before = self.epochs.clone();
        if self.epochs.assign(epoch, start)? == Assigned::Added
            && let Err(error) = self.store_epochs()
        {
            self.epochs = before;
            return Err(error.into());
        }
        Ok(())
    }

    /// Replaces the epoch file durably.
    pub(super) fn store_epochs(&mut self) -> Result<(), LogError> {
        let path = self.dir.join(EPOCHS_FILE);
        match framed::replace(&*self.shared.vfs, &path, &self.epochs.encode()) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.out_of_space_or_poison("storing the leader epochs", error)),
        }
    }

    /// Makes sure that there is an active segment with room; returns whether one was closed for it.
    fn roll_if_needed(
        &mut self,
        batch_bytes: usize,
        base_offset: Offset,
        append_time: TimestampMs,
    ) -> Result<bool, AppendError> {
        let Some(active) = self.active() else {
            self.open_segment(base_offset)?;
            return Ok(false);
        };
        let is_full = active.bytes() > 0
            && (active.bytes() + batch_bytes as u64 > u64::from(self.config.segment_bytes)
                || !active.has_room_for(base_offset, batch_bytes));
        // Damage at the end leaves a gap that no batch may be written behind in the same file.
        let is_behind_gap = active.next_offset() < self.log_end_offset();
        if !is_full && !is_behind_gap && !self.is_old(&active, append_time) {
            return Ok(false);
        }
        self.roll(base_offset)?;
        Ok(true)
    }

    fn is_old(&self, active: &Segment, now: TimestampMs) -> bool {
        active.bytes() > 0 && now.since(active.first_append_time()) >= self.config.segment_ms
    }

    /// Closes the active segment and opens the next one at `base_offset`.
    pub(super) fn roll(&mut self, base_offset: Offset) -> Result<(), LogError> {
        let closed = self.active();
        if let Some(closed) = &closed {
            self.close_segment(closed)?;
        }
        self.take_snapshot()?;
        let view = self.shared.view();
        // The flush holds the handles that it needs.
        view.segments.iter().for_each(|segment| segment.release());
        self.open_segment(base_offset)
    }

    fn close_segment(&mut self, segment: &Arc<Segment>) -> Result<(), LogError> {
        let vfs = Arc::clone(&self.shared.vfs);
        let sealed = segment.file(&*vfs).and_then(|file| {
            // Gives back what was reserved behind the end.
            file.set_len(segment.bytes())?;
            Ok((file, segment.index().seal(&*vfs)?))
        });
        match sealed {
            Ok((file, index_file)) => {
                self.note_unsynced(file);
                if let Some(index_file) = index_file {
                    self.note_unsynced(index_file);
                }
                Ok(())
            }
            Err(error) => Err(self.out_of_space_or_poison("closing a segment", error)),
        }
    }

    fn open_segment(&mut self, base_offset: Offset) -> Result<(), LogError> {
        match Segment::create(&*self.shared.vfs, &self.dir, base_offset) {
            Ok(segment) => {
                self.note_directory_change();
                self.allocated_bytes = 0;
                self.shared.change_view(|view| view.segments.push(Arc::new(segment)));
                Ok(())
            }
            Err(error) => Err(self.out_of_space_or_poison("creating a segment", error)),
        }
    }

    /// Writes a batch that follows on the log end behind the active segment's last one.
    fn write(&mut self, batch: &SealedBatch) -> Result<(), AppendError> {
        let Some(active) = self.active() else {
            let source = io::ErrorKind::NotFound.into();
            return Err(self.poison("finding the active segment", source).into());
        };
        let vfs = Arc::clone(&self.shared.vfs);
        let position = active.bytes();
        let file = active.file(&*vfs).map_err(|error| self.write_failed(error))?;
        let end = position + batch.bytes().len() as u64;
        let written = self.reserve(&*file, end).and_then(|()| file.write_all_at(batch.bytes(), position));
        if let Err(error) = written {
            return Err(self.cut_back(&*file, position, error));
        }
        if let Err(error) = active.publish(&*vfs, batch.header())
            && !is_out_of_space(&error)
        {
            // An index entry less only costs time, but an error of the disk says that nothing can be trusted.
            return Err(self.write_failed(error));
        }
        if let Err(error) = self.producers.apply(batch) {
            // The log and the state that it was checked against contradict each other: neither can be trusted.
            self.is_poisoned = true;
            return Err(error.into());
        }
        self.last_append_time = batch.append_time();
        self.shared.set_log_end(batch.next_offset());
        self.bytes_since_snapshot += batch.bytes().len() as u64;
        if self.bytes_since_snapshot >= snapshots::interval_bytes(&self.producers) {
            match self.take_snapshot() {
                // The batch is in the log whether or not a snapshot finds space; the next append tries again.
                Ok(()) | Err(LogError::StorageFull { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reserves space up to `end` and some way beyond.
    fn reserve(&mut self, file: &dyn VfsFile, end: u64) -> io::Result<()> {
        if end <= self.allocated_bytes {
            return Ok(());
        }
        let chunk = end.clamp(ALLOCATION_BYTES_MIN, ALLOCATION_BYTES_MAX);
        let start = self.allocated_bytes.min(end);
        let until = (end + chunk).min(u64::from(self.config.segment_bytes)).max(end);
        match file.allocate(start, until - start) {
            Ok(()) => self.allocated_bytes = until,
            // What is left is less than a chunk, but may still hold the batch.
            Err(error) if is_out_of_space(&error) => {
                file.allocate(start, end - start)?;
                self.allocated_bytes = end;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// After a failed write: a full disk costs the batch, any other error the log (R17).
    fn cut_back(&mut self, file: &dyn VfsFile, position: u64, error: io::Error) -> AppendError {
        if !is_out_of_space(&error) {
            return self.write_failed(error);
        }
        self.allocated_bytes = position;
        match file.set_len(position).and_then(|()| file.sync_data()) {
            Ok(()) => AppendError::StorageFull { partition: self.partition() },
            Err(error) => self.write_failed(error),
        }
    }

    fn write_failed(&mut self, source: io::Error) -> AppendError {
        self.is_poisoned = true;
        AppendError::Io { partition: self.partition(), source }
    }

    pub(super) fn out_of_space_or_poison(&mut self, doing: &'static str, error: io::Error) -> LogError {
        if is_out_of_space(&error) {
            return LogError::StorageFull { partition: self.partition() };
        }
        self.poison(doing, error)
    }

    /// Notes a file for the next flush to sync.
    pub(super) fn note_unsynced(&mut self, file: Arc<dyn VfsFile>) {
        self.dirt += 1;
        self.unsynced.push(Unsynced { dirt: self.dirt, file });
    }
}
