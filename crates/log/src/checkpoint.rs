//! The checkpoint of a data directory: where the recovery of each log may start.
//!
//! Payload of the framed file `checkpoint` (magic `WCKP`, version 1), integers little-endian:
//!
//! | length | field                                                                          |
//! |--------|--------------------------------------------------------------------------------|
//! | 4      | count of entries                                                               |
//! | per entry: 2 + n | name of the partition directory, with its length before it           |
//! | 8      | durable end offset                                                             |
//! | 8      | high watermark                                                                 |
//! | 4      | leader epoch                                                                   |
//! | 8      | truncation generation of the log's manifest                                    |
//!
//! Replaced atomically every 5 s if it changed, at each roll and at a clean stop (R17). Invariant: an entry's durable
//! end offset was true when the entry was taken; a truncation since then shows in the generation.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::{Buf, BufMut};
use wharf_types::{LeaderEpoch, Offset};

use crate::framed::{self, FrameKind};
use crate::vfs::Vfs;

pub use crate::framed::FrameError;

const KIND: FrameKind = FrameKind { magic: *b"WCKP", version: 1 };
/// Name of the file in its data directory.
pub const CHECKPOINT_FILE: &str = "checkpoint";

/// What the checkpoint says of one log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointEntry {
    /// All below it was covered by a finished sync.
    pub durable_end: Offset,
    /// The high watermark that the replica knew.
    pub high_watermark: Offset,
    /// The leader epoch of the last record.
    pub leader_epoch: LeaderEpoch,
    /// How often the log had been truncated.
    pub generation: u64,
}

/// The checkpoint of all logs of a data directory, by the name of their partition directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// One entry for each log.
    pub entries: BTreeMap<String, CheckpointEntry>,
}

impl Checkpoint {
    /// Reads the checkpoint of a data directory; an absent one is empty.
    ///
    /// # Errors
    /// [`FrameError`]. A damaged checkpoint costs only time: recovery then scans whole logs.
    pub fn load(vfs: &dyn Vfs, dir: &Path) -> Result<Checkpoint, FrameError> {
        let path = dir.join(CHECKPOINT_FILE);
        let Some(payload) = framed::load(vfs, &path, KIND)? else {
            return Ok(Checkpoint::default());
        };
        Checkpoint::decode(&payload)
            .ok_or(FrameError::Damaged { path, reason: "its entries are not what its length says" })
    }

    /// Replaces the checkpoint of a data directory durably.
    ///
    /// # Errors
    /// [`FrameError::Io`].
    pub fn store(&self, vfs: &dyn Vfs, dir: &Path) -> Result<(), FrameError> {
        let path = dir.join(CHECKPOINT_FILE);
        framed::store(vfs, &path, KIND, &self.encode()).map_err(|source| FrameError::Io { path, source })
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 + self.entries.len() * 80);
        bytes.put_u32_le(u32::try_from(self.entries.len()).unwrap_or(u32::MAX));
        for (name, entry) in &self.entries {
            bytes.put_u16_le(u16::try_from(name.len()).unwrap_or(u16::MAX));
            bytes.put_slice(name.as_bytes());
            bytes.put_u64_le(entry.durable_end.value());
            bytes.put_u64_le(entry.high_watermark.value());
            bytes.put_u32_le(entry.leader_epoch.value());
            bytes.put_u64_le(entry.generation);
        }
        bytes
    }

    fn decode(mut bytes: &[u8]) -> Option<Checkpoint> {
        let count = bytes.try_get_u32_le().ok()?;
        let mut entries = BTreeMap::new();
        for _ in 0..count {
            let length = usize::from(bytes.try_get_u16_le().ok()?);
            let (name, rest) = bytes.split_at_checked(length)?;
            let name = std::str::from_utf8(name).ok()?.to_owned();
            bytes = rest;
            let entry = CheckpointEntry {
                durable_end: Offset::new(bytes.try_get_u64_le().ok()?),
                high_watermark: Offset::new(bytes.try_get_u64_le().ok()?),
                leader_epoch: LeaderEpoch::new(bytes.try_get_u32_le().ok()?),
                generation: bytes.try_get_u64_le().ok()?,
            };
            entries.insert(name, entry);
        }
        bytes.is_empty().then_some(Checkpoint { entries })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::vfs::{MemoryVfs, OpenMode};

    fn sample() -> Checkpoint {
        let entry = CheckpointEntry {
            durable_end: Offset::new(7),
            high_watermark: Offset::new(5),
            leader_epoch: LeaderEpoch::new(3),
            generation: 2,
        };
        Checkpoint { entries: [("ab-0".to_owned(), entry), ("ab-1".to_owned(), entry)].into() }
    }

    #[test]
    fn an_entry_has_these_bytes() {
        let mut one = sample();
        one.entries.remove("ab-1");
        #[rustfmt::skip]
        let expected: &[u8] = &[
            1, 0, 0, 0,             // count
            4, 0,                   // length of the name
            b'a', b'b', b'-', b'0', // name
            7, 0, 0, 0, 0, 0, 0, 0, // durable end offset
            5, 0, 0, 0, 0, 0, 0, 0, // high watermark
            3, 0, 0, 0,             // leader epoch
            2, 0, 0, 0, 0, 0, 0, 0, // generation
        ];
        assert_eq!(one.encode(), expected);
    }

    #[test]
    fn it_round_trips_and_damage_is_reported() {
        let vfs = MemoryVfs::new();
        let dir = Path::new("/");
        assert_eq!(Checkpoint::load(&vfs, dir).unwrap(), Checkpoint::default());
        sample().store(&vfs, dir).unwrap();
        assert_eq!(Checkpoint::load(&vfs, dir).unwrap(), sample());
        let file = vfs.open(Path::new("/checkpoint"), OpenMode::ReadWrite).unwrap();
        file.write_all_at(&[1], 40).unwrap();
        assert!(matches!(Checkpoint::load(&vfs, dir), Err(FrameError::Damaged { .. })));
    }

    #[test]
    fn lies_about_the_count_are_refused() {
        let mut bytes = sample().encode();
        bytes[0] = 0xff;
        assert_eq!(Checkpoint::decode(&bytes), None);
        assert_eq!(Checkpoint::decode(&[]), None);
    }
}
