//! Segments: the files that a log consists of, each with the batches from its base offset on and a sparse index.
//!
//! Invariants:
//! - the file holds whole batches in offset order from its first byte to [`Segment::bytes`]; what lies behind that was
//!   never acknowledged;
//! - `bytes` and `next_offset` are published after the batch is written, so a reader that sees them finds it;
//! - a segment that loses its name (retention, truncation, compaction) has been opened before, so whoever holds it
//!   can go on reading.

mod cursor;
mod names;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use wharf_types::{Offset, TimestampMs};

use crate::batch::BatchHeader;
use crate::index::{IndexEntry, SegmentIndex};
use crate::vfs::{OpenMode, Vfs, VfsFile};

pub(crate) use self::cursor::{BatchCursor, CursorError, find_next_batch};
pub(crate) use self::names::{CLEANED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, file_name, parse};

/// One segment of a log. Written by the log's single writer, read by any number of readers.
pub(crate) struct Segment {
    base_offset: Offset,
    path: PathBuf,
    index: SegmentIndex,
    file: Mutex<Option<Arc<dyn VfsFile>>>,
    bytes: AtomicU64,
    next_offset: AtomicU64,
    first_append_time: AtomicU64,
    last_append_time: AtomicU64,
}

/// Where a segment ends and when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentEnd {
    pub(crate) bytes: u64,
    pub(crate) next_offset: Offset,
    pub(crate) first_append_time: TimestampMs,
    pub(crate) last_append_time: TimestampMs,
}

impl Segment {
    /// Creates the file of a new, empty segment. The caller syncs the directory before the bytes count (T25).
    pub(crate) fn create(vfs: &dyn Vfs, dir: &Path, base_offset: Offset) -> io::Result<Segment> {
        let segment = Segment::at(dir, base_offset);
        // A leftover of a roll that did not get far holds nothing that counts.
        let file = vfs.open(&segment.path, OpenMode::CreateOrTruncate)?;
        *segment.file.lock() = Some(file);
        Ok(segment)
    }

    /// An existing segment. Its length is that of the file until [`Segment::set_end`] corrects it.
    pub(crate) fn open(vfs: &dyn Vfs, dir: &Path, base_offset: Offset) -> io::Result<Segment> {
        let mut segment = Segment::at(dir, base_offset);
        segment.index = SegmentIndex::open(vfs, index_path(dir, base_offset), base_offset)?;
        let file = vfs.open(&segment.path, OpenMode::ReadWrite)?;
        segment.bytes = AtomicU64::new(file.len()?);
        Ok(segment)
    }

    fn at(dir: &Path, base_offset: Offset) -> Segment {
        Segment {
            base_offset,
            path: dir.join(file_name(base_offset, LOG_SUFFIX)),
            index: SegmentIndex::new(index_path(dir, base_offset), base_offset),
            file: Mutex::new(None),
            bytes: AtomicU64::new(0),
            next_offset: AtomicU64::new(base_offset.value()),
            first_append_time: AtomicU64::new(0),
            last_append_time: AtomicU64::new(0),
        }
    }

    /// Offset in its name: that of its first batch.
    #[must_use]
    pub(crate) fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// The offset after its last batch.
    #[must_use]
    pub(crate) fn next_offset(&self) -> Offset {
        Offset::new(self.next_offset.load(Ordering::Acquire))
    }

    /// Length of its whole batches, in bytes.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// When its first batch was appended; the epoch if it has none.
    #[must_use]
    pub(crate) fn first_append_time(&self) -> TimestampMs {
        TimestampMs::new(self.first_append_time.load(Ordering::Acquire))
    }

    /// When its last batch was appended; the epoch if it has none.
    #[must_use]
    pub(crate) fn last_append_time(&self) -> TimestampMs {
        TimestampMs::new(self.last_append_time.load(Ordering::Acquire))
    }

    #[cfg(test)]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn index(&self) -> &SegmentIndex {
        &self.index
    }

    /// The open file; opens it at first use.
    pub(crate) fn file(&self, vfs: &dyn Vfs) -> io::Result<Arc<dyn VfsFile>> {
        let mut file = self.file.lock();
        if let Some(file) = &*file {
            return Ok(Arc::clone(file));
        }
        let opened = vfs.open(&self.path, OpenMode::ReadWrite)?;
        *file = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Closes the file until it is next read, so that old segments hold no descriptors.
    pub(crate) fn release(&self) {
        *self.file.lock() = None;
        self.index.release();
    }

    /// Publishes a batch that was written behind the last one.
    pub(crate) fn publish(&self, vfs: &dyn Vfs, header: &BatchHeader) -> io::Result<()> {
        let position = self.bytes();
        let result = self.index_batch(vfs, header, position);
        if position == 0 {
            self.first_append_time.store(header.append_time.value(), Ordering::Release);
        }
        self.last_append_time.store(header.append_time.value(), Ordering::Release);
        self.next_offset.store(header.next_offset().value(), Ordering::Release);
        self.bytes.store(position + u64::from(header.batch_bytes), Ordering::Release);
        result
    }

    fn index_batch(&self, vfs: &dyn Vfs, header: &BatchHeader, position: u64) -> io::Result<()> {
        let relative = header.base_offset.distance_from(self.base_offset);
        let (Ok(relative_offset), Ok(position)) = (u32::try_from(relative), u32::try_from(position)) else {
            return Ok(());
        };
        if !self.index.wants(position) {
            return Ok(());
        }
        self.index.push(vfs, IndexEntry { relative_offset, position, append_time: header.append_time })
    }

    /// Sets where the segment ends, after a scan or a truncation.
    pub(crate) fn set_end(&self, end: SegmentEnd) {
        self.bytes.store(end.bytes, Ordering::Release);
        self.next_offset.store(end.next_offset.value(), Ordering::Release);
        self.first_append_time.store(end.first_append_time.value(), Ordering::Release);
        self.last_append_time.store(end.last_append_time.value(), Ordering::Release);
    }

    /// Reads up to `count` bytes of whole batches' area; fewer only at its end.
    pub(crate) fn read(&self, vfs: &dyn Vfs, position: u64, count: usize) -> io::Result<Bytes> {
        let left = usize::try_from(self.bytes().saturating_sub(position)).unwrap_or(usize::MAX);
        let mut buffer = Vec::new();
        self.file(vfs)?.read_to(&mut buffer, count.min(left), position)?;
        Ok(Bytes::from(buffer))
    }

    /// Whether the relative offsets and positions of one more batch can be indexed.
    pub(crate) fn has_room_for(&self, header_offset: Offset, batch_bytes: usize) -> bool {
        let end = self.bytes() + batch_bytes as u64;
        header_offset.distance_from(self.base_offset) <= u64::from(u32::MAX) && end <= u64::from(u32::MAX)
    }

    /// Removes the names of the segment's files; whoever has it open goes on reading.
    pub(crate) fn unlink(&self, vfs: &dyn Vfs) -> io::Result<()> {
        self.pin(vfs)?;
        remove_if_there(vfs, &self.path)?;
        remove_if_there(vfs, self.index.path())
    }

    /// Opens the file so that readers survive the loss or the reuse of its name.
    pub(crate) fn pin(&self, vfs: &dyn Vfs) -> io::Result<()> {
        match self.file(vfs).and_then(|_| self.index.pin(vfs)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment")
            .field("base_offset", &self.base_offset)
            .field("next_offset", &self.next_offset())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

/// Where the index of the segment with this base offset is.
pub(crate) fn index_path(dir: &Path, base_offset: Offset) -> PathBuf {
    dir.join(file_name(base_offset, INDEX_SUFFIX))
}

/// Removes a file's name, if there is one.
pub(crate) fn remove_if_there(vfs: &dyn Vfs, path: &Path) -> io::Result<()> {
    match vfs.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
