//! Reading: batches as stored, verified, beside the writer.
//!
//! A read works on one view of the segments. If it fails while the view was replaced under it (truncation,
//! compaction), it starts again on the new one: damage is reported only from a view that is current.

use std::sync::Arc;

use bytes::Bytes;
use wharf_types::{Offset, TimestampMs};

use super::error::ReadError;
use super::manifest::DamagedRange;
use super::shared::{Shared, View};
use crate::batch::{BATCH_HEADER_BYTES, BatchHeader, SealedBatch};
use crate::index::Lookup;
use crate::segment::{BatchCursor, CursorError, Segment, find_next_batch};

/// Most bytes read from a file at a time.
const CHUNK_BYTES_MAX: usize = 272 << 10;
/// Room for what lies before the offset asked for: one index interval and a common batch.
const CHUNK_SLACK_BYTES: usize = 16 << 10;
/// How often a read starts again when the segments are replaced under it.
const ATTEMPTS: usize = 8;

/// How much a read returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimit {
    /// Bytes of batches; exceeded only by a first batch that is larger.
    pub max_bytes: usize,
    /// Exclusive bound, the high watermark as a rule: a batch that reaches beyond it is not returned.
    pub end: Offset,
}

/// What a read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOutcome {
    /// Whole batches in offset order. The first may start below the offset asked for.
    pub batches: Vec<SealedBatch>,
    /// Where to read on.
    pub next_offset: Offset,
}

/// Reads one log. Cheap to clone; reads run beside each other and beside the writer.
#[derive(Clone)]
pub struct LogReader {
    shared: Arc<Shared>,
}

impl LogReader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        LogReader { shared }
    }

    /// The first offset that can be read.
    #[must_use]
    pub fn log_start_offset(&self) -> Offset {
        self.shared.view().log_start
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

    /// All below it is committed (R7).
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.shared.high_watermark()
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.shared.view().segments.iter().map(|segment| segment.bytes()).sum()
    }

    /// Reads batches from the one that holds `from` on; at least one if there is one below the limit's end.
    ///
    /// # Errors
    /// [`ReadError`]; damage is reported when the read starts in it, and ends an earlier read before it.
    pub fn read(&self, from: Offset, limit: ReadLimit) -> Result<ReadOutcome, ReadError> {
        self.with_view(|view| {
            let log_end = self.shared.log_end();
            if from < view.log_start || from > log_end {
                return Err(ReadError::OutOfRange { offset: from, log_start: view.log_start, log_end });
            }
            let limit = ReadLimit { end: limit.end.min(log_end), ..limit };
            Walk { shared: &self.shared, view, limit, next: from, batches: Vec::new(), bytes: 0 }.run()
        })
    }

    /// The first offset whose record was appended at or after a time, and when it was; `None` if there is none yet.
    ///
    /// # Errors
    /// [`ReadError::Io`] and [`ReadError::Corrupted`].
    pub fn offset_for_time(&self, time: TimestampMs) -> Result<Option<(Offset, TimestampMs)>, ReadError> {
        self.with_view(|view| {
            // An empty segment has no times to compare.
            let is_candidate =
                |segment: &&Arc<Segment>| segment.bytes() > 0 && segment.last_append_time() >= time;
            for segment in view.segments.iter().filter(is_candidate) {
                if let Some(header) = self.first_since(segment, time)? {
                    let offset = header.base_offset.max(view.log_start);
                    return Ok((offset < self.shared.log_end()).then_some((offset, header.append_time)));
                }
            }
            Ok(None)
        })
    }

    fn first_since(
        &self,
        segment: &Arc<Segment>,
        time: TimestampMs,
    ) -> Result<Option<BatchHeader>, ReadError> {
        let shared = &self.shared;
        let lookup = segment.index().lookup_time(&*shared.vfs, time).map_err(|error| io(shared, error))?;
        let start = if let Lookup::Entry(entry) = lookup { u64::from(entry.position) } else { 0 };
        let mut cursor =
            BatchCursor::new(Arc::clone(&shared.vfs), Arc::clone(segment), shared.partition, start)
                .with_read_ahead(CHUNK_SLACK_BYTES);
        let mut next = segment.base_offset();
        loop {
            match cursor.peek_header() {
                Ok(None) => return Ok(None),
                Ok(Some(header)) if header.append_time >= time => return Ok(Some(header)),
                Ok(Some(header)) => {
                    next = header.next_offset();
                    cursor.skip(&header);
                }
                Err(CursorError::Io(error)) => return Err(io(shared, error)),
                Err(CursorError::Bad(_)) => {
                    return Err(ReadError::Corrupted {
                        partition: shared.partition,
                        from: next,
                        next_good: segment.next_offset(),
                    });
                }
            }
        }
    }

    fn with_view<T>(&self, read: impl Fn(&Arc<View>) -> Result<T, ReadError>) -> Result<T, ReadError> {
        let mut attempts = 0;
        loop {
            let view = self.shared.view();
            attempts += 1;
            match read(&view) {
                Err(ReadError::Corrupted { .. } | ReadError::Io { .. })
                    if attempts < ATTEMPTS && !self.shared.is_current(&view) => {}
                other => return other,
            }
        }
    }
}

fn io(shared: &Shared, source: std::io::Error) -> ReadError {
    ReadError::Io { partition: shared.partition, source }
}

/// One read in progress.
struct Walk<'a> {
    shared: &'a Shared,
    view: &'a Arc<View>,
    limit: ReadLimit,
    next: Offset,
    batches: Vec<SealedBatch>,
    bytes: usize,
}

/// Whether the walk goes on.
enum Step {
    /// In the next segment, or behind a gap.
    Continue,
    Done,
}

impl Walk<'_> {
    fn run(mut self) -> Result<ReadOutcome, ReadError> {
        let mut at = self.view.segment_for(self.next);
        let mut position = None;
        while self.next < self.limit.end {
            if let Some(range) = self.view.damage_at(self.next) {
                if !range.skipped {
                    let from = range.from.max(self.next);
                    return self.end_at_damage(from, range.next_good);
                }
                self.next = range.next_good;
                at = self.view.segment_for(self.next);
                position = at
                    .and_then(|at| self.view.segments.get(at))
                    .filter(|segment| segment.base_offset() == range.resume.0)
                    .map(|_| range.resume.1);
                continue;
            }
            let Some(segment) = at.and_then(|at| self.view.segments.get(at)) else {
                break;
            };
            match self.read_segment(segment, position.take())? {
                Step::Done => break,
                Step::Continue if self.view.damage_at(self.next).is_some() => {}
                Step::Continue => at = at.map(|at| at + 1),
            }
        }
        Ok(ReadOutcome { batches: self.batches, next_offset: self.next })
    }

    fn end_at_damage(self, from: Offset, next_good: Offset) -> Result<ReadOutcome, ReadError> {
        if self.batches.is_empty() {
            let partition = self.shared.partition;
            return Err(ReadError::Corrupted { partition, from, next_good });
        }
        Ok(ReadOutcome { batches: self.batches, next_offset: self.next })
    }

    fn read_segment(&mut self, segment: &Arc<Segment>, start: Option<u64>) -> Result<Step, ReadError> {
        let mut position = match start {
            Some(position) => position,
            None => self.start_in(segment)?,
        };
        let mut expected = segment.base_offset();
        let mut chunk = Bytes::new();
        while position < segment.bytes() && self.next < self.limit.end {
            if self.view.damage_at(self.next).is_some() {
                return Ok(Step::Continue);
            }
            if chunk.len() < BATCH_HEADER_BYTES {
                chunk = self.read_chunk(segment, position, BATCH_HEADER_BYTES)?;
            }
            let header = match SealedBatch::decode_header(&chunk) {
                Ok(header) if header.partition == self.shared.partition => header,
                _ => {
                    position = self.pass_damage(segment, position, expected)?;
                    if position == u64::MAX {
                        return Ok(Step::Done);
                    }
                    chunk = Bytes::new();
                    continue;
                }
            };
            let length = header.batch_bytes as usize;
            if header.next_offset() > self.next {
                if header.next_offset() > self.limit.end || self.is_full(length) {
                    return Ok(Step::Done);
                }
                if chunk.len() < length {
                    chunk = self.read_chunk(segment, position, length)?;
                }
                let bytes = chunk.slice(..length.min(chunk.len()));
                let Ok(batch) = SealedBatch::verify(bytes, Some(self.shared.partition)) else {
                    position = self.pass_damage(segment, position, header.base_offset)?;
                    if position == u64::MAX {
                        return Ok(Step::Done);
                    }
                    chunk = Bytes::new();
                    continue;
                };
                self.bytes += length;
                self.next = batch.next_offset();
                self.batches.push(batch);
            }
            expected = header.next_offset();
            position += length as u64;
            chunk = chunk.slice(length.min(chunk.len())..);
        }
        self.next = self.next.max(segment.next_offset().min(self.limit.end));
        Ok(if self.next < self.limit.end { Step::Continue } else { Step::Done })
    }

    fn is_full(&self, more: usize) -> bool {
        !self.batches.is_empty() && self.bytes.saturating_add(more) > self.limit.max_bytes
    }

    /// Where to start for the next offset, checked against the batch there.
    fn start_in(&self, segment: &Arc<Segment>) -> Result<u64, ReadError> {
        if self.next <= segment.base_offset() {
            return Ok(0);
        }
        let vfs = &*self.shared.vfs;
        let lookup = segment.index().lookup_offset(vfs, self.next).map_err(|error| io(self.shared, error))?;
        let Lookup::Entry(entry) = lookup else {
            return Ok(0);
        };
        let position = u64::from(entry.position);
        let header =
            segment.read(vfs, position, BATCH_HEADER_BYTES).map_err(|error| io(self.shared, error))?;
        let expected = segment.base_offset().plus(u64::from(entry.relative_offset));
        let is_there = SealedBatch::decode_header(&header).is_ok_and(|header| header.base_offset == expected);
        Ok(if is_there { position } else { 0 })
    }

    fn read_chunk(&self, segment: &Arc<Segment>, position: u64, least: usize) -> Result<Bytes, ReadError> {
        let wanted = self.limit.max_bytes.saturating_sub(self.bytes).saturating_add(CHUNK_SLACK_BYTES);
        let count = wanted.min(CHUNK_BYTES_MAX).max(least);
        segment.read(&*self.shared.vfs, position, count).map_err(|error| io(self.shared, error))
    }

    /// A bad batch at a position: where to go on if the next offset lies behind the damage. If it lies inside, that
    /// is an error, or the end (`u64::MAX`) if batches were found before.
    fn pass_damage(&self, segment: &Arc<Segment>, position: u64, expected: Offset) -> Result<u64, ReadError> {
        let shared = self.shared;
        let found =
            find_next_batch(&shared.vfs, segment, shared.partition, (position + 1, expected), &mut |_| {})
                .map_err(|error| io(shared, error))?;
        let range = match found {
            Some(found) => DamagedRange {
                from: expected,
                next_good: found.header.base_offset,
                resume: (segment.base_offset(), found.position),
                skipped: false,
            },
            None => {
                let next = segment.next_offset();
                DamagedRange { from: expected, next_good: next, resume: (next, 0), skipped: false }
            }
        };
        if found.is_some() && self.next >= range.next_good {
            return Ok(range.resume.1);
        }
        if self.shared.is_current(self.view) && range.from < range.next_good {
            self.shared.change_view(|view| view.add_damage(range));
        }
        if self.batches.is_empty() {
            let from = range.from.max(self.next);
            return Err(ReadError::Corrupted {
                partition: shared.partition,
                from,
                next_good: range.next_good,
            });
        }
        Ok(u64::MAX)
    }
}
