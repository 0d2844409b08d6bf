//! Walking over the batches of a segment file, and finding the next one behind damage.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use wharf_types::{Offset, TopicPartition};

use super::Segment;
use crate::batch::{BATCH_BYTES_MAX, BATCH_HEADER_BYTES, BatchError, BatchHeader, SealedBatch};
use crate::vfs::Vfs;

/// How much is read at a time.
const READ_AHEAD_BYTES: usize = 1 << 20;

/// Why a walk stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CursorError {
    /// The file system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What stands at the cursor's position is no batch of this partition.
    #[error(transparent)]
    Bad(#[from] BatchError),
}

/// Walks over a segment from a position to its end. Stays where it is when it fails.
pub(crate) struct BatchCursor {
    vfs: Arc<dyn Vfs>,
    segment: Arc<Segment>,
    partition: TopicPartition,
    position: u64,
    buffer: Bytes,
    buffer_position: u64,
    read_ahead: usize,
}

/// A batch found behind damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundBatch {
    pub(crate) position: u64,
    pub(crate) header: BatchHeader,
}

impl BatchCursor {
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        segment: Arc<Segment>,
        partition: TopicPartition,
        position: u64,
    ) -> Self {
        let (buffer, buffer_position) = (Bytes::new(), position);
        let read_ahead = READ_AHEAD_BYTES;
        BatchCursor { vfs, segment, partition, position, buffer, buffer_position, read_ahead }
    }

    /// Reads so much at a time, for walks that are expected to be short.
    pub(crate) fn with_read_ahead(mut self, bytes: usize) -> Self {
        self.read_ahead = bytes.max(BATCH_HEADER_BYTES);
        self
    }

    /// Where the next batch starts.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The header of the next batch without reading its payload; `None` at the end of the segment.
    pub(crate) fn peek_header(&mut self) -> Result<Option<BatchHeader>, CursorError> {
        if self.position >= self.segment.bytes() {
            return Ok(None);
        }
        let bytes = self.at_least(BATCH_HEADER_BYTES)?;
        let header = SealedBatch::decode_header(&bytes)?;
        if header.partition != self.partition {
            let (expected, actual) = (self.partition, header.partition);
            return Err(BatchError::WrongPartition { expected, actual }.into());
        }
        Ok(Some(header))
    }

    /// Goes to the batch behind the one with this header.
    pub(crate) fn skip(&mut self, header: &BatchHeader) {
        self.position += u64::from(header.batch_bytes);
    }

    /// The next batch, verified; `None` at the end of the segment.
    pub(crate) fn next_batch(&mut self) -> Result<Option<SealedBatch>, CursorError> {
        let Some(header) = self.peek_header()? else {
            return Ok(None);
        };
        let wanted = header.batch_bytes as usize;
        let bytes = self.at_least(wanted)?;
        if bytes.len() < wanted {
            return Err(BatchError::Truncated { expected: wanted, actual: bytes.len() }.into());
        }
        let batch = SealedBatch::verify(bytes.slice(..wanted), Some(self.partition))?;
        self.skip(&header);
        Ok(Some(batch))
    }

    /// The bytes from the position on: as many as wanted, or fewer at the end of the segment.
    fn at_least(&mut self, wanted: usize) -> io::Result<Bytes> {
        let start = self.position.checked_sub(self.buffer_position).map(usize::try_from);
        if let Some(Ok(start)) = start
            && start + wanted <= self.buffer.len()
        {
            return Ok(self.buffer.slice(start..));
        }
        self.buffer = self.segment.read(&*self.vfs, self.position, wanted.max(self.read_ahead))?;
        self.buffer_position = self.position;
        Ok(self.buffer.clone())
    }
}

/// The next whole batch of the partition at or behind a position, with a base offset of at least `at_least`.
///
/// Calls `on_header` for each valid header on the way, also where the payload is bad: its hint is as true (R17).
pub(crate) fn find_next_batch(
    vfs: &Arc<dyn Vfs>,
    segment: &Arc<Segment>,
    partition: TopicPartition,
    (from, at_least): (u64, Offset),
    on_header: &mut dyn FnMut(&BatchHeader),
) -> io::Result<Option<FoundBatch>> {
    let magic = b"WRB";
    let mut window_position = from;
    while window_position + BATCH_HEADER_BYTES as u64 <= segment.bytes() {
        let window = segment.read(&**vfs, window_position, READ_AHEAD_BYTES)?;
        let candidates = window.len().saturating_sub(BATCH_HEADER_BYTES - 1);
        if candidates == 0 {
            return Ok(None);
        }
        for start in 0..candidates {
            if !window[start..].starts_with(magic) {
                continue;
            }
            let Ok(header) = SealedBatch::decode_header(&window[start..]) else {
                continue;
            };
            if header.partition != partition || header.base_offset < at_least {
                continue;
            }
            on_header(&header);
            let position = window_position + start as u64;
            let bytes = segment.read(&**vfs, position, (header.batch_bytes as usize).min(BATCH_BYTES_MAX))?;
            if SealedBatch::verify(bytes, Some(partition)).is_ok() {
                return Ok(Some(FoundBatch { position, header }));
            }
        }
        window_position += candidates as u64;
    }
    Ok(None)
}
