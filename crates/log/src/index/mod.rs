//! The sparse index of one segment: offset → position and append time → position.
//!
//! It is a cache of the segment (T31). Invariants:
//! - entries rise strictly in offset and position, and do not fall in append time;
//! - an entry is only ever a hint where to start: whoever uses it checks that the batch there has that base offset,
//!   and scans from the segment's start if not;
//! - entries lie at least [`INDEX_INTERVAL_BYTES`] apart; the start of the segment needs no entry.
//!
//! Full blocks are written while the segment grows and not kept in memory; the entries of the last block are, while
//! the segment is open for appends. Nothing is synced but by [`SegmentIndex::seal`]'s caller and by
//! [`SegmentIndex::truncate`], after which an older block must not come back.

mod block;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use wharf_types::{Offset, TimestampMs};

use self::block::{BLOCK_BYTES, ENTRIES_PER_BLOCK};
use crate::vfs::{OpenMode, Vfs, VfsFile};

pub(crate) use self::block::IndexEntry;

/// Least distance of two indexed batches in a segment.
pub(crate) const INDEX_INTERVAL_BYTES: u32 = 4096;

/// Where to start a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// At this batch.
    Entry(IndexEntry),
    /// At the segment's start.
    Start,
    /// The index cannot be trusted: at the segment's start, and it should be rebuilt.
    Damaged,
}

/// The index of one segment.
pub(crate) struct SegmentIndex {
    path: PathBuf,
    base_offset: Offset,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    file: Option<Arc<dyn VfsFile>>,
    /// Blocks to look up in the file, before the entries of `tail`.
    blocks: u32,
    tail: Vec<IndexEntry>,
    last_position: Option<u32>,
}

impl SegmentIndex {
    /// The index of a new segment; its file comes with the first full block.
    pub(crate) fn new(path: PathBuf, base_offset: Offset) -> Self {
        SegmentIndex { path, base_offset, inner: Mutex::new(Inner::default()) }
    }

    /// The index of an existing segment; a missing file is an empty index.
    pub(crate) fn open(vfs: &dyn Vfs, path: PathBuf, base_offset: Offset) -> io::Result<Self> {
        let index = SegmentIndex::new(path, base_offset);
        match vfs.open(&index.path, OpenMode::ReadWrite) {
            Ok(file) => {
                let blocks = file.len()? / BLOCK_BYTES as u64;
                let mut inner = index.inner.lock();
                inner.blocks = u32::try_from(blocks).unwrap_or(0);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(index)
    }

    /// Whether a batch at this position should get an entry.
    pub(crate) fn wants(&self, position: u32) -> bool {
        let last = self.inner.lock().last_position.unwrap_or(0);
        position.saturating_sub(last) >= INDEX_INTERVAL_BYTES
    }

    /// Adds an entry, after all others; writes a block if that fills one. After an error the entry is not there.
    pub(crate) fn push(&self, vfs: &dyn Vfs, entry: IndexEntry) -> io::Result<()> {
        let mut inner = self.inner.lock();
        inner.tail.push(entry);
        if inner.tail.len() >= ENTRIES_PER_BLOCK
            && let Err(error) = self.write_tail(&mut inner, vfs)
        {
            inner.tail.pop();
            return Err(error);
        }
        inner.last_position = Some(entry.position);
        Ok(())
    }

    /// Writes what is only in memory and returns the file to sync; `None` if there is nothing.
    pub(crate) fn seal(&self, vfs: &dyn Vfs) -> io::Result<Option<Arc<dyn VfsFile>>> {
        let mut inner = self.inner.lock();
        if !inner.tail.is_empty() {
            self.write_tail(&mut inner, vfs)?;
        }
        Ok(inner.file.take())
    }

    /// Where to start a scan for an offset: the last entry at or below it.
    pub(crate) fn lookup_offset(&self, vfs: &dyn Vfs, offset: Offset) -> io::Result<Lookup> {
        let relative = offset.distance_from(self.base_offset);
        self.lookup(vfs, |entry| u64::from(entry.relative_offset) <= relative)
    }

    /// Where to start a scan for the first batch appended at or after a time: the last entry before it.
    pub(crate) fn lookup_time(&self, vfs: &dyn Vfs, time: TimestampMs) -> io::Result<Lookup> {
        self.lookup(vfs, |entry| entry.append_time < time)
    }

    /// The last entry.
    pub(crate) fn lookup_last(&self, vfs: &dyn Vfs) -> io::Result<Lookup> {
        self.lookup(vfs, |_| true)
    }

    /// Drops all entries at and above an offset, durably, and keeps the rest open for appends.
    pub(crate) fn truncate(&self, vfs: &dyn Vfs, cut: Offset) -> io::Result<()> {
        let relative = cut.distance_from(self.base_offset);
        self.reopen_where(vfs, |entry| u64::from(entry.relative_offset) < relative)
    }

    /// Opens the index of the active segment for appends: trailing blocks that are not whole are forgotten, and
    /// the entries of a last block that is not full move to memory.
    pub(crate) fn resume(&self, vfs: &dyn Vfs) -> io::Result<()> {
        let mut inner = self.inner.lock();
        while let Some(number) = inner.blocks.checked_sub(1) {
            let Some(entries) = self.read_block(&mut inner, vfs, number)? else {
                inner.blocks = number;
                continue;
            };
            inner.last_position = entries.last().map(|entry| entry.position);
            if entries.len() < ENTRIES_PER_BLOCK {
                inner.blocks = number;
                inner.tail = entries;
            }
            break;
        }
        Ok(())
    }

    /// Replaces all entries, after damage. After an error there are none.
    pub(crate) fn rebuild(&self, vfs: &dyn Vfs, entries: &[IndexEntry]) -> io::Result<()> {
        let mut inner = self.inner.lock();
        let result = self.write_all(&mut inner, vfs, entries);
        if result.is_err() {
            *inner = Inner::default();
        }
        result
    }

    fn write_all(&self, inner: &mut Inner, vfs: &dyn Vfs, entries: &[IndexEntry]) -> io::Result<()> {
        *inner = Inner::default();
        let file = vfs.open(&self.path, OpenMode::CreateOrTruncate)?;
        inner.file = Some(file);
        for entry in entries {
            inner.tail.push(*entry);
            inner.last_position = Some(entry.position);
            if inner.tail.len() >= ENTRIES_PER_BLOCK {
                self.write_tail(inner, vfs)?;
            }
        }
        inner.file.as_ref().map_or(Ok(()), |file| file.sync_data())
    }

    /// Closes the file until the next lookup.
    pub(crate) fn release(&self) {
        self.inner.lock().file = None;
    }

    /// Opens the file, if there is one, so that readers survive the loss or the reuse of its name.
    pub(crate) fn pin(&self, vfs: &dyn Vfs) -> io::Result<()> {
        let mut inner = self.inner.lock();
        if inner.blocks == 0 {
            return Ok(());
        }
        self.open_file(&mut inner, vfs).map(|_| ())
    }

    /// The file's path, for removal.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that the index holds in memory.
    #[cfg(test)]
    fn entries_in_memory(&self) -> usize {
        self.inner.lock().tail.len()
    }

    /// Keeps the entries of a prefix and opens the last block for appends. What is dropped is gone durably.
    fn reopen_where(&self, vfs: &dyn Vfs, keep: impl Fn(&IndexEntry) -> bool) -> io::Result<()> {
        let mut inner = self.inner.lock();
        inner.tail.retain(&keep);
        while inner.tail.is_empty() && inner.blocks > 0 {
            let number = inner.blocks - 1;
            let mut entries = self.read_block(&mut inner, vfs, number)?.unwrap_or_default();
            let is_whole = entries.len() == ENTRIES_PER_BLOCK && entries.iter().all(&keep);
            if is_whole {
                inner.last_position = entries.last().map(|entry| entry.position);
                return self.cut_file(&mut inner, vfs);
            }
            entries.retain(&keep);
            inner.blocks = number;
            inner.tail = entries;
        }
        inner.last_position = inner.tail.last().map(|entry| entry.position);
        self.cut_file(&mut inner, vfs)
    }

    /// Durably removes blocks behind those that are looked up.
    fn cut_file(&self, inner: &mut Inner, vfs: &dyn Vfs) -> io::Result<()> {
        if inner.file.is_none() && !vfs.exists(&self.path)? {
            return Ok(());
        }
        let length = u64::from(inner.blocks) * BLOCK_BYTES as u64;
        let file = self.open_file(inner, vfs)?;
        if file.len()? > length {
            file.set_len(length)?;
            file.sync_data()?;
        }
        Ok(())
    }

    fn lookup(&self, vfs: &dyn Vfs, before: impl Fn(&IndexEntry) -> bool) -> io::Result<Lookup> {
        let mut inner = self.inner.lock();
        let last_of = |entries: &[IndexEntry]| {
            entries.partition_point(&before).checked_sub(1).and_then(|at| entries.get(at).copied())
        };
        if let Some(entry) = last_of(&inner.tail) {
            return Ok(Lookup::Entry(entry));
        }
        let mut found = Lookup::Start;
        let (mut low, mut high) = (0, inner.blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            let Some(entries) = self.read_block(&mut inner, vfs, middle)? else {
                return Ok(Lookup::Damaged);
            };
            match last_of(&entries) {
                Some(entry) => {
                    found = Lookup::Entry(entry);
                    if entries.last() != Some(&entry) {
                        return Ok(found);
                    }
                    low = middle + 1;
                }
                None => high = middle,
            }
        }
        Ok(found)
    }

    fn read_block(
        &self,
        inner: &mut Inner,
        vfs: &dyn Vfs,
        number: u32,
    ) -> io::Result<Option<Vec<IndexEntry>>> {
        let mut bytes = [0; BLOCK_BYTES];
        let file = self.open_file(inner, vfs)?;
        let read = file.read_at(&mut bytes, u64::from(number) * BLOCK_BYTES as u64)?;
        Ok(block::decode(self.base_offset, number, &bytes[..read]))
    }

    fn write_tail(&self, inner: &mut Inner, vfs: &dyn Vfs) -> io::Result<()> {
        let bytes = block::encode(self.base_offset, inner.blocks, &inner.tail);
        let position = u64::from(inner.blocks) * BLOCK_BYTES as u64;
        self.open_file(inner, vfs)?.write_all_at(&bytes, position)?;
        inner.blocks += 1;
        inner.tail = Vec::new();
        Ok(())
    }

    fn open_file<'a>(&self, inner: &'a mut Inner, vfs: &dyn Vfs) -> io::Result<&'a Arc<dyn VfsFile>> {
        if inner.file.is_none() {
            let opened = match vfs.open(&self.path, OpenMode::ReadWrite) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    vfs.open(&self.path, OpenMode::CreateNew)?
                }
                other => other?,
            };
            inner.file = Some(opened);
        }
        inner.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::vfs::MemoryVfs;

    fn entry(n: u32) -> IndexEntry {
        IndexEntry {
            relative_offset: n * 10,
            position: n * 5000,
            append_time: TimestampMs::new(u64::from(n / 2)),
        }
    }

    fn filled(vfs: &MemoryVfs, count: u32) -> SegmentIndex {
        let index = SegmentIndex::new(PathBuf::from("/i.index"), Offset::new(1000));
        for n in 1..=count {
            index.push(vfs, entry(n)).unwrap();
        }
        index
    }

    fn check_lookups(index: &SegmentIndex, vfs: &MemoryVfs, count: u32) {
        for n in (0..=count).step_by(37) {
            let expected = if n == 0 { Lookup::Start } else { Lookup::Entry(entry(n)) };
            let offset = Offset::new(1000 + u64::from(n) * 10 + 9);
            assert_eq!(index.lookup_offset(vfs, offset).unwrap(), expected, "{n}");
        }
        let last = if count == 0 { Lookup::Start } else { Lookup::Entry(entry(count)) };
        assert_eq!(index.lookup_last(vfs).unwrap(), last);
    }

    #[test]
    fn lookups_find_the_last_entry_before() {
        for count in [0, 1, 253, 254, 255, 508, 2000] {
            let vfs = MemoryVfs::new();
            let index = filled(&vfs, count);
            check_lookups(&index, &vfs, count);
            index.seal(&vfs).unwrap();
            assert_eq!(index.entries_in_memory(), 0);
            check_lookups(&index, &vfs, count);
            let reopened = SegmentIndex::open(&vfs, PathBuf::from("/i.index"), Offset::new(1000)).unwrap();
            check_lookups(&reopened, &vfs, count);
            reopened.resume(&vfs).unwrap();
            check_lookups(&reopened, &vfs, count);
            reopened.push(&vfs, entry(count + 1)).unwrap();
            check_lookups(&reopened, &vfs, count + 1);
        }
    }

    #[test]
    fn times_are_looked_up_by_the_last_earlier_batch() {
        let vfs = MemoryVfs::new();
        let index = filled(&vfs, 600);
        assert_eq!(index.lookup_time(&vfs, TimestampMs::new(0)).unwrap(), Lookup::Start);
        assert_eq!(index.lookup_time(&vfs, TimestampMs::new(200)).unwrap(), Lookup::Entry(entry(399)));
        assert_eq!(index.lookup_time(&vfs, TimestampMs::new(9999)).unwrap(), Lookup::Entry(entry(600)));
    }

    #[test]
    fn truncation_drops_entries_durably() {
        for (count, cut) in [(600, 100), (600, 254), (508, 255), (508, 600), (300, 1), (10, 5)] {
            let vfs = MemoryVfs::new();
            let index = filled(&vfs, count);
            if count == 300 {
                index.seal(&vfs).unwrap();
            }
            index.truncate(&vfs, Offset::new(1000 + cut * 10)).unwrap();
            let left = u32::try_from(cut - 1).unwrap().min(count);
            check_lookups(&index, &vfs, left);
            index.push(&vfs, entry(left + 1)).unwrap();
            check_lookups(&index, &vfs, left + 1);
        }
    }

    #[test]
    fn a_damaged_block_is_reported_and_rebuilt() {
        let vfs = MemoryVfs::new();
        let index = filled(&vfs, 600);
        let file = vfs.open(Path::new("/i.index"), OpenMode::ReadWrite).unwrap();
        file.write_all_at(&[9], 4100).unwrap();
        assert_eq!(index.lookup_offset(&vfs, Offset::new(1000)).unwrap(), Lookup::Damaged);
        let entries: Vec<_> = (1..=600).map(entry).collect();
        index.rebuild(&vfs, &entries).unwrap();
        check_lookups(&index, &vfs, 600);
    }
}
