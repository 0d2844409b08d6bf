//! Blocks: what an index file is made of.
//!
//! | byte | length     | field                                                        |
//! |------|------------|--------------------------------------------------------------|
//! | 0    | 4          | CRC32C of bytes 4 to 24 + 16 × count                         |
//! | 4    | 2          | version, 1                                                   |
//! | 6    | 2          | count of entries, 1 to 254                                   |
//! | 8    | 8          | base offset of the segment                                   |
//! | 16   | 4          | number of this block in its file, from 0                     |
//! | 20   | 4          | reserved, 0                                                  |
//! | 24   | 16 × count | entries: relative offset 4, position 4, append time 8        |
//!
//! Then zeros up to 4,096 bytes. Integers are little-endian.

use wharf_types::{Offset, TimestampMs};

/// Size of a block in the file.
pub(super) const BLOCK_BYTES: usize = 4096;
const HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 16;
/// Entries of a full block.
pub(super) const ENTRIES_PER_BLOCK: usize = (BLOCK_BYTES - HEADER_BYTES) / ENTRY_BYTES;
const VERSION: u16 = 1;

/// Where one batch of a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// The batch's base offset, relative to the segment's.
    pub(crate) relative_offset: u32,
    /// The batch's first byte in the segment file.
    pub(crate) position: u32,
    /// When the leader appended the batch.
    pub(crate) append_time: TimestampMs,
}

/// The block's bytes, ready to be written.
pub(super) fn encode(base_offset: Offset, number: u32, entries: &[IndexEntry]) -> Vec<u8> {
    debug_assert!((1..=ENTRIES_PER_BLOCK).contains(&entries.len()));
    let mut bytes = Vec::with_capacity(BLOCK_BYTES);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&u16::try_from(entries.len()).unwrap_or(0).to_le_bytes());
    bytes.extend_from_slice(&base_offset.value().to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    for entry in entries {
        bytes.extend_from_slice(&entry.relative_offset.to_le_bytes());
        bytes.extend_from_slice(&entry.position.to_le_bytes());
        bytes.extend_from_slice(&entry.append_time.value().to_le_bytes());
    }
    let crc = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes.resize(BLOCK_BYTES, 0);
    bytes
}

/// The entries of a block, or nothing if it is not this block of this segment, whole and in order.
pub(super) fn decode(base_offset: Offset, number: u32, bytes: &[u8]) -> Option<Vec<IndexEntry>> {
    let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    let count = usize::from(u16::from_le_bytes([header[6], header[7]]));
    let fits = (1..=ENTRIES_PER_BLOCK).contains(&count) && header[4..6] == VERSION.to_le_bytes();
    let body = bytes.get(4..HEADER_BYTES + count * ENTRY_BYTES)?;
    let is_this_block =
        header[8..16] == base_offset.value().to_le_bytes() && header[16..20] == number.to_le_bytes();
    if !fits || !is_this_block || header[..4] != crc32c::crc32c(body).to_le_bytes() {
        return None;
    }
    let entries: Vec<IndexEntry> =
        body[HEADER_BYTES - 4..].as_chunks::<ENTRY_BYTES>().0.iter().map(decode_entry).collect();
    let in_order = entries.windows(2).all(|pair| {
        pair[0].relative_offset < pair[1].relative_offset
            && pair[0].position < pair[1].position
            && pair[0].append_time <= pair[1].append_time
    });
    in_order.then_some(entries)
}

fn decode_entry(bytes: &[u8; ENTRY_BYTES]) -> IndexEntry {
    let [a, b, c, d, e, f, g, h, time @ ..] = *bytes;
    IndexEntry {
        relative_offset: u32::from_le_bytes([a, b, c, d]),
        position: u32::from_le_bytes([e, f, g, h]),
        append_time: TimestampMs::new(u64::from_le_bytes(time)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn entries(count: u32) -> Vec<IndexEntry> {
        let entry = |n: u32| IndexEntry {
            relative_offset: n * 3 + 1,
            position: n * 4096,
            append_time: TimestampMs::new(u64::from(n)),
        };
        (0..count).map(entry).collect()
    }

    #[test]
    fn a_block_has_these_bytes() {
        let bytes = encode(Offset::new(5), 2, &entries(2));
        #[rustfmt::skip]
        let expected: &[u8] = &[
            1, 0,                   // version
            2, 0,                   // count
            5, 0, 0, 0, 0, 0, 0, 0, // base offset
            2, 0, 0, 0,             // block number
            0, 0, 0, 0,             // reserved
            1, 0, 0, 0,             // relative offset
            0, 0, 0, 0,             // position
            0, 0, 0, 0, 0, 0, 0, 0, // append time
            4, 0, 0, 0,             // relative offset
            0, 16, 0, 0,            // position
            1, 0, 0, 0, 0, 0, 0, 0, // append time
        ];
        assert_eq!(bytes[4..56], *expected);
        assert_eq!(bytes.len(), BLOCK_BYTES);
    }

    #[test]
    fn blocks_of_other_places_and_damaged_ones_are_refused() {
        let base = Offset::new(77);
        let bytes = encode(base, 1, &entries(200));
        assert_eq!(decode(base, 1, &bytes).unwrap(), entries(200));
        assert_eq!(decode(base, 2, &bytes), None);
        assert_eq!(decode(Offset::new(78), 1, &bytes), None);
        for at in (0..24 + 200 * 16).step_by(7) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert_eq!(decode(base, 1, &flipped), None, "byte {at}");
        }
        assert_eq!(decode(base, 1, &bytes[..3000]), None);
    }
}
