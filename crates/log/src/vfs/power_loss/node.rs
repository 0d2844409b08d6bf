//! One file: its synced bytes, and in memory what was written since.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use parking_lot::Mutex;

use crate::vfs::VfsFile;

const PAGE_BYTES: usize = 4096;

/// Where the synced bytes are.
enum Synced {
    /// In the real file.
    Real(File),
    /// In memory, for the file's name is not durable.
    Memory(Vec<u8>),
}

struct Contents {
    synced: Synced,
    synced_len: u64,
    /// Pages written since the last sync, whole.
    dirty: BTreeMap<u64, Box<[u8]>>,
    /// Synced bytes from here on were cut off since.
    valid: u64,
    len: u64,
}

/// A file of a [`super::PowerLossVfs`].
pub(super) struct Node {
    contents: Mutex<Contents>,
}

impl Node {
    /// A new, empty file without a durable name.
    pub(super) fn new() -> Node {
        Node::of(Synced::Memory(Vec::new()), 0)
    }

    /// A real file, as it is.
    pub(super) fn open(path: &Path) -> io::Result<Node> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let len = file.metadata()?.len();
        Ok(Node::of(Synced::Real(file), len))
    }

    fn of(synced: Synced, len: u64) -> Node {
        let contents = Contents { synced, synced_len: len, dirty: BTreeMap::new(), valid: len, len };
        Node { contents: Mutex::new(contents) }
    }

    /// Whether nothing is only in memory.
    pub(super) fn is_clean(&self) -> bool {
        let contents = self.contents.lock();
        let is_real = matches!(contents.synced, Synced::Real(_));
        is_real
            && contents.dirty.is_empty()
            && contents.len == contents.synced_len
            && contents.valid == contents.len
    }

    /// The name is durable now: the synced bytes move to a real file of that name.
    pub(super) fn materialise(&self, path: &Path) -> io::Result<()> {
        let mut contents = self.contents.lock();
        let Synced::Memory(bytes) = &contents.synced else {
            return Ok(());
        };
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        file.write_all_at(bytes, 0)?;
        file.sync_data()?;
        contents.synced = Synced::Real(file);
        Ok(())
    }
}

impl Contents {
    /// A page as it is now.
    fn page(&self, number: u64) -> io::Result<Box<[u8]>> {
        if let Some(page) = self.dirty.get(&number) {
            return Ok(page.clone());
        }
        let mut page = vec![0; PAGE_BYTES].into_boxed_slice();
        let start = number * PAGE_BYTES as u64;
        let count = usize::try_from(self.valid.saturating_sub(start)).unwrap_or(usize::MAX).min(PAGE_BYTES);
        self.read_synced(&mut page[..count], start)?;
        Ok(page)
    }

    fn read_synced(&self, buffer: &mut [u8], position: u64) -> io::Result<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        match &self.synced {
            Synced::Real(file) => file.read_exact_at(buffer, position),
            Synced::Memory(bytes) => {
                let start = usize::try_from(position).unwrap_or(usize::MAX);
                let source = bytes.get(start..start + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
                buffer.copy_from_slice(source);
                Ok(())
            }
        }
    }

    fn write(&mut self, bytes: &[u8], position: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let at = position + done as u64;
            let number = at / PAGE_BYTES as u64;
            let start = usize::try_from(at % PAGE_BYTES as u64).unwrap_or(0);
            let count = (PAGE_BYTES - start).min(bytes.len() - done);
            if !self.dirty.contains_key(&number) {
                let page = self.page(number)?;
                self.dirty.insert(number, page);
            }
            if let Some(page) = self.dirty.get_mut(&number) {
                page[start..start + count].copy_from_slice(&bytes[done..done + count]);
            }
            done += count;
        }
        self.len = self.len.max(position + bytes.len() as u64);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let dirty = std::mem::take(&mut self.dirty);
        let len = self.len;
        match &mut self.synced {
            Synced::Real(file) => {
                if self.valid < self.synced_len {
                    file.set_len(self.valid)?;
                }
                for (number, page) in dirty {
                    let start = number * PAGE_BYTES as u64;
                    let count =
                        usize::try_from(len.saturating_sub(start)).unwrap_or(usize::MAX).min(PAGE_BYTES);
                    file.write_all_at(&page[..count], start)?;
                }
                file.set_len(len)?;
                file.sync_data()?;
            }
            Synced::Memory(bytes) => {
                bytes.truncate(usize::try_from(self.valid).unwrap_or(usize::MAX));
                bytes.resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
                for (number, page) in dirty {
                    let start = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(PAGE_BYTES);
                    let count = bytes.len().saturating_sub(start).min(PAGE_BYTES);
                    if let Some(target) = bytes.get_mut(start..start + count) {
                        target.copy_from_slice(&page[..count]);
                    }
                }
            }
        }
        self.synced_len = len;
        self.valid = len;
        Ok(())
    }
}

impl VfsFile for Node {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let contents = self.contents.lock();
        let left = usize::try_from(contents.len.saturating_sub(position)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        if contents.dirty.is_empty() && contents.valid >= position + wanted as u64 {
            contents.read_synced(&mut buffer[..wanted], position)?;
            return Ok(wanted);
        }
        let mut done = 0;
        while done < wanted {
            let at = position + done as u64;
            let page = contents.page(at / PAGE_BYTES as u64)?;
            let start = usize::try_from(at % PAGE_BYTES as u64).unwrap_or(0);
            let count = (PAGE_BYTES - start).min(wanted - done);
            buffer[done..done + count].copy_from_slice(&page[start..start + count]);
            done += count;
        }
        Ok(wanted)
    }

    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.contents.lock().write(bytes, position)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.contents.lock().len)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut contents = self.contents.lock();
        if bytes < contents.len {
            contents.valid = contents.valid.min(bytes);
            let page_bytes = PAGE_BYTES as u64;
            contents.dirty.retain(|number, _| number * page_bytes < bytes);
            let start = usize::try_from(bytes % page_bytes).unwrap_or(0);
            if let Some(page) = contents.dirty.get_mut(&(bytes / page_bytes)) {
                page[start..].fill(0);
            }
        }
        contents.len = bytes;
        Ok(())
    }

    fn allocate(&self, _position: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.contents.lock().sync()
    }
}
