//! The latest offset of each key, in bounded memory.

use std::collections::BTreeMap;

use wharf_types::Offset;

/// What an entry takes beside the key: its node, pointer, length, offset and the allocator's share.
const ENTRY_OVERHEAD_BYTES: usize = 80;

/// Whole keys, ordered rather than hashed: no key that a client chooses can make it slow or wrong.
#[derive(Debug)]
pub(super) struct LatestOffsets {
    offsets: BTreeMap<Box<[u8]>, Offset>,
    bytes: usize,
    bytes_max: usize,
}

impl LatestOffsets {
    pub(super) fn new(bytes_max: usize) -> Self {
        LatestOffsets { offsets: BTreeMap::new(), bytes: 0, bytes_max }
    }

    /// Notes a record; offsets come in rising order.
    pub(super) fn note(&mut self, key: &[u8], offset: Offset) {
        if let Some(latest) = self.offsets.get_mut(key) {
            *latest = offset;
            return;
        }
        self.bytes += key.len() + ENTRY_OVERHEAD_BYTES;
        self.offsets.insert(key.into(), offset);
    }

    /// Whether no further batch should be noted. One batch may go beyond the budget, so that each pass gets on.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    /// Whether a later record of the key is known.
    pub(super) fn supersedes(&self, key: &[u8], offset: Offset) -> bool {
        self.offsets.get(key).is_some_and(|latest| *latest > offset)
    }

    pub(super) fn len(&self) -> usize {
        self.offsets.len()
    }
}
