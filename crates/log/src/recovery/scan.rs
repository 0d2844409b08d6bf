//! The scan: every batch from a position on, verified, with what is bad between them.

use std::io;
use std::sync::Arc;

use wharf_types::{LeaderEpoch, Offset, TimestampMs, TopicPartition};

use crate::batch::{BatchHeader, SealedBatch};
use crate::epochs::EpochEntry;
use crate::index::IndexEntry;
use crate::log::DamagedRange;
use crate::segment::{BatchCursor, CursorError, Segment, SegmentEnd, find_next_batch};
use crate::vfs::{Vfs, unless_full};

/// Something that is not the batch that should be there, and the state of the scan before it.
#[derive(Clone, Debug)]
pub(crate) struct BadBatch {
    /// The offset that was expected there.
    pub(crate) from: Offset,
    /// The next good batch's offset, with its segment's base offset and its position; `None` if there is none.
    pub(crate) next_good: Option<(Offset, (Offset, u64))>,
    /// Base offset of the segment in which the bad bytes are or, between two, of the one behind.
    pub(crate) segment: Offset,
    /// Where the good part of that segment ends.
    pub(crate) end: SegmentEnd,
    state: State,
}

/// What is known of the batches passed so far.
#[derive(Clone, Copy, Debug)]
struct State {
    expected: Offset,
    epoch: LeaderEpoch,
    append_time: TimestampMs,
    epochs_seen: usize,
}

/// The first batch of a leader epoch that a scan met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenEpoch {
    pub(crate) entry: EpochEntry,
    /// Whether the epoch surely starts there: the batch before is of another.
    pub(crate) is_start: bool,
}

/// What a scan found.
#[derive(Debug)]
pub(crate) struct ScanOutcome {
    /// The offset after the last good batch.
    pub(crate) log_end: Offset,
    /// The append time of the last good batch.
    pub(crate) append_time: TimestampMs,
    /// First batches of leader epochs.
    pub(crate) epochs: Vec<SeenEpoch>,
    /// The largest hint of an `ack` mode batch behind the first bad one.
    pub(crate) max_hint: Offset,
    /// In offset order.
    pub(crate) bad: Vec<BadBatch>,
    /// Bytes read.
    pub(crate) scanned_bytes: u64,
}

/// Scans segments in order.
pub(crate) struct Scanner<'a> {
    vfs: Arc<dyn Vfs>,
    partition: TopicPartition,
    /// Whether a jump between two batches is a hole that compaction left, or damage that is known.
    explains_hole: Box<dyn Fn(Offset, Offset) -> bool + 'a>,
    known: &'a [DamagedRange],
    state: State,
    open: Option<BadBatch>,
    outcome: ScanOutcome,
}

impl<'a> Scanner<'a> {
    /// A scan that starts at a batch of this offset.
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        partition: TopicPartition,
        (expected, append_time): (Offset, TimestampMs),
        known: &'a [DamagedRange],
        explains_hole: impl Fn(Offset, Offset) -> bool + 'a,
    ) -> Self {
        let epoch = LeaderEpoch::new(0);
        let state = State { expected, epoch, append_time, epochs_seen: 0 };
        let outcome = ScanOutcome {
            log_end: expected,
            append_time,
            epochs: Vec::new(),
            max_hint: Offset::ZERO,
            bad: Vec::new(),
            scanned_bytes: 0,
        };
        let explains_hole = Box::new(explains_hole);
        Scanner { vfs, partition, explains_hole, known, state, open: None, outcome }
    }

    /// Scans one segment from a position on; at 0 unless it is the first. Sets the segment's end and index.
    pub(crate) fn scan(&mut self, segment: &Arc<Segment>, start: u64) -> io::Result<()> {
        let base = segment.base_offset();
        let mut end = SegmentEnd {
            bytes: start,
            next_offset: if start == 0 { base } else { self.state.expected },
            first_append_time: segment.first_append_time(),
            last_append_time: segment.first_append_time(),
        };
        self.outcome.scanned_bytes += segment.bytes().saturating_sub(start);
        let resume_at = if start == 0 { base } else { self.state.expected };
        segment.index().resume(&*self.vfs)?;
        segment.index().truncate(&*self.vfs, resume_at)?;
        if start == 0 {
            self.enter(segment, end);
        }
        let (vfs, partition) = (Arc::clone(&self.vfs), self.partition);
        let mut cursor = BatchCursor::new(Arc::clone(&vfs), Arc::clone(segment), partition, start);
        loop {
            let position = cursor.position();
            match cursor.next_batch() {
                Ok(None) => break,
                Ok(Some(batch)) if self.accepts(batch.header()) => {
                    self.take(segment, &batch, position, &mut end)?;
                }
                Err(CursorError::Io(error)) => return Err(error),
                Ok(Some(_)) | Err(CursorError::Bad(_)) => {
                    let Some(next) = self.pass(segment, position, end)? else {
                        break;
                    };
                    cursor = BatchCursor::new(Arc::clone(&vfs), Arc::clone(segment), partition, next);
                }
            }
        }
        segment.set_end(SegmentEnd { bytes: segment.bytes(), ..end });
        Ok(())
    }

    /// The end of the scan.
    pub(crate) fn finish(mut self) -> ScanOutcome {
        self.outcome.bad.extend(self.open.take());
        self.outcome.log_end = self.state.expected;
        self.outcome.append_time = self.state.append_time;
        self.outcome
    }

    /// At the start of a segment: its name says what should come.
    fn enter(&mut self, segment: &Segment, end: SegmentEnd) {
        let base = segment.base_offset();
        if base == self.state.expected || self.open.is_some() {
            return;
        }
        let expected = self.state.expected;
        if self.known.iter().any(|range| range.from <= expected && base <= range.next_good && base > expected)
        {
            self.state.expected = base;
        } else {
            self.open = Some(self.bad_here(base, end));
        }
    }

    fn bad_here(&self, segment: Offset, end: SegmentEnd) -> BadBatch {
        BadBatch { from: self.state.expected, next_good: None, segment, end, state: self.state }
    }

    /// Whether a whole batch can follow on what was passed.
    fn accepts(&self, header: &BatchHeader) -> bool {
        let base = header.base_offset;
        let in_place = if self.open.is_some() {
            base >= self.state.expected
        } else {
            base == self.state.expected
                || (base > self.state.expected && (self.explains_hole)(self.state.expected, base))
        };
        in_place && header.leader_epoch >= self.state.epoch && header.append_time >= self.state.append_time
    }

    fn take(
        &mut self,
        segment: &Segment,
        batch: &SealedBatch,
        position: u64,
        end: &mut SegmentEnd,
    ) -> io::Result<()> {
        let header = batch.header();
        if let Some(mut bad) = self.open.take() {
            bad.next_good = Some((header.base_offset, (segment.base_offset(), position)));
            self.outcome.bad.push(bad);
        }
        if !self.outcome.bad.is_empty() {
            self.note_hint(header);
        }
        if self.outcome.epochs.is_empty() || header.leader_epoch > self.state.epoch {
            let entry = EpochEntry { epoch: header.leader_epoch, start: header.base_offset };
            let is_start = !self.outcome.epochs.is_empty() && header.base_offset == self.state.expected;
            self.outcome.epochs.push(SeenEpoch { entry, is_start });
        }
        if position == 0 {
            end.first_append_time = header.append_time;
        }
        end.bytes = position + u64::from(header.batch_bytes);
        end.next_offset = header.next_offset();
        end.last_append_time = header.append_time;
        self.state = State {
            expected: header.next_offset(),
            epoch: header.leader_epoch,
            append_time: header.append_time,
            epochs_seen: self.outcome.epochs.len(),
        };
        let relative = header.base_offset.distance_from(segment.base_offset());
        if let (Ok(relative_offset), Ok(position)) = (u32::try_from(relative), u32::try_from(position))
            && segment.index().wants(position)
        {
            let entry = IndexEntry { relative_offset, position, append_time: header.append_time };
            // A full disk must not keep a log from being opened: an entry less only costs time.
            unless_full(segment.index().push(&*self.vfs, entry))?;
        }
        Ok(())
    }

    /// Passes over something bad: the position of the next good batch in this segment, if there is one.
    fn pass(&mut self, segment: &Arc<Segment>, position: u64, end: SegmentEnd) -> io::Result<Option<u64>> {
        let expected = self.state.expected;
        if self.open.is_none() {
            let known = self.known.iter().find(|range| range.from <= expected && expected < range.next_good);
            if let Some(known) = known {
                self.state.expected = known.next_good;
                let is_here = known.resume.0 == segment.base_offset() && known.resume.1 > position;
                return Ok(Some(if is_here { known.resume.1 } else { segment.bytes() }));
            }
            self.open = Some(self.bad_here(segment.base_offset(), SegmentEnd { bytes: position, ..end }));
        }
        let mut hint = self.outcome.max_hint;
        let found =
            find_next_batch(&self.vfs, segment, self.partition, (position + 1, expected), &mut |header| {
                hint = hint.max(hint_of(header))
            })?;
        self.outcome.max_hint = hint;
        Ok(found.map(|found| found.position))
    }

    fn note_hint(&mut self, header: &BatchHeader) {
        self.outcome.max_hint = self.outcome.max_hint.max(hint_of(header));
    }
}

impl ScanOutcome {
    /// Goes back to the state before a bad batch, for the log is to be cut there.
    pub(crate) fn rewind(&mut self, bad: &BadBatch) {
        self.log_end = bad.from;
        self.append_time = bad.state.append_time;
        self.epochs.truncate(bad.state.epochs_seen);
    }
}

/// What a header says is durable everywhere: only in `ack` mode (R17).
fn hint_of(header: &BatchHeader) -> Offset {
    if header.ack_mode { header.hw_hint } else { Offset::ZERO }
}
