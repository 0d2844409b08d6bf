//! The commit floor: a small file beside the database that says how far the log must reach.
//!
//! RocksDB's point-in-time recovery ends the log at the first bad record of its WAL. Whether what is missing was an
//! unsynced tail or a committed part cannot be seen there, so the commit index is kept here too (the idea of R17).
//!
//! Invariants:
//! * the floor is raised only after the entries below it were synced, so a floor above the log's end proves damage;
//! * it never falls, and is written with every advance of the commit index: after a crash of the process it is exact.
//!   It is synced about once a second and at a clean stop: after a power loss it may be low, never high.
//!
//! The file has two slots, written in turn, so that a torn write leaves the other one:
//!
//! | position | length | content |
//! |---|---|---|
//! | 0, 512 | 8 | `WHFLOOR1` |
//! | +8 | 8 | number of the write, little endian as all numbers here |
//! | +16 | 8 | commit index |
//! | +24 | 8 | term of the writer |
//! | +32 | 4 | CRC32C of the 32 bytes before |

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::Damage;

const MAGIC: &[u8; 8] = b"WHFLOOR1";
const SLOT_BYTES: usize = 36;
const SLOT_SPACING: u64 = 512;

/// What the file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Floor {
    /// The log must reach this index.
    pub(crate) commit: u64,
    /// The hard state must have reached this term.
    pub(crate) term: u64,
}

/// The open file.
#[derive(Debug)]
pub(crate) struct FloorFile {
    file: File,
    writes: u64,
    floor: Floor,
    dirty: bool,
}

impl FloorFile {
    /// Writes and syncs a new file. The caller syncs its folder.
    pub(crate) fn create(path: &Path, floor: Floor) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let mut created = FloorFile { file, writes: 0, floor: Floor::default(), dirty: false };
        // Both slots, so that one bad slot never hides the whole floor.
        created.put(floor)?;
        created.put(floor)?;
        created.sync()?;
        Ok(created)
    }

    /// Opens the file and finds its newest valid slot.
    pub(crate) fn open(path: &Path) -> Result<Self, Damage> {
        let read = |source| Damage::FloorUnreadable { path: path.to_owned(), source };
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(read)?;
        let bytes = std::fs::read(path).map_err(read)?;
        let at = |slot: usize| bytes.get(slot..slot.checked_add(SLOT_BYTES)?);
        let slots = [at(0), at(usize::try_from(SLOT_SPACING).unwrap_or(usize::MAX))];
        let newest = slots.into_iter().flatten().filter_map(decode).max_by_key(|(writes, _)| *writes);
        let (writes, floor) = newest.ok_or_else(|| Damage::FloorInvalid { path: path.to_owned() })?;
        Ok(FloorFile { file, writes, floor, dirty: false })
    }

    /// What the file says.
    pub(crate) fn floor(&self) -> Floor {
        self.floor
    }

    /// Raises the floor. Everything below it must have been synced.
    pub(crate) fn advance(&mut self, floor: Floor) -> io::Result<()> {
        if floor.commit > self.floor.commit || floor.term > self.floor.term {
            let commit = floor.commit.max(self.floor.commit);
            self.put(Floor { commit, term: floor.term.max(self.floor.term) })?;
        }
        Ok(())
    }

    /// Makes the floor survive a power loss.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if self.dirty {
            self.file.sync_data()?;
            self.dirty = false;
        }
        Ok(())
    }

    fn put(&mut self, floor: Floor) -> io::Result<()> {
        self.writes = self.writes.saturating_add(1);
        let position = (self.writes % 2) * SLOT_SPACING;
        self.file.write_all_at(&encode(self.writes, floor), position)?;
        self.floor = floor;
        self.dirty = true;
        Ok(())
    }
}

fn encode(writes: u64, floor: Floor) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(MAGIC);
    slot[8..16].copy_from_slice(&writes.to_le_bytes());
    slot[16..24].copy_from_slice(&floor.commit.to_le_bytes());
    slot[24..32].copy_from_slice(&floor.term.to_le_bytes());
    let checksum = crc32c::crc32c(&slot[..32]);
    slot[32..].copy_from_slice(&checksum.to_le_bytes());
    slot
}

fn decode(slot: &[u8]) -> Option<(u64, Floor)> {
    let number = |at: usize| Some(u64::from_le_bytes(slot.get(at..at + 8)?.try_into().ok()?));
    let checksum = u32::from_le_bytes(slot.get(32..36)?.try_into().ok()?);
    if slot.get(..8)? != MAGIC || crc32c::crc32c(slot.get(..32)?) != checksum {
        return None;
    }
    Some((number(8)?, Floor { commit: number(16)?, term: number(24)? }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_slot_has_the_documented_bytes() {
        let slot = encode(1, Floor { commit: 2, term: 3 });
        let mut expected = b"WHFLOOR1".to_vec();
        for number in [1_u64, 2, 3] {
            expected.extend(number.to_le_bytes());
        }
        expected.extend([0x05, 0x4c, 0xde, 0xeb]);
        assert_eq!(slot[..], expected[..]);
        assert_eq!(decode(&slot), Some((1, Floor { commit: 2, term: 3 })));
    }

    #[test]
    fn one_bad_slot_leaves_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("floor");
        let mut file = FloorFile::create(&path, Floor { commit: 1, term: 1 }).unwrap();
        file.advance(Floor { commit: 7, term: 1 }).unwrap();
        file.advance(Floor { commit: 9, term: 2 }).unwrap();
        drop(file);
        assert_eq!(FloorFile::open(&path).unwrap().floor(), Floor { commit: 9, term: 2 });
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[20] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(FloorFile::open(&path).unwrap().floor(), Floor { commit: 7, term: 1 });
        bytes[512 + 20] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(FloorFile::open(&path), Err(Damage::FloorInvalid { .. })));
    }
}
