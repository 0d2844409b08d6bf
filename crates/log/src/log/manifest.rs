//! The manifest of a partition directory: what cannot be read off the segments.
//!
//! Payload of the framed file `manifest` (magic `WMAN`, version 1), integers little-endian:
//!
//! | length | field                                                                                   |
//! |--------|-----------------------------------------------------------------------------------------|
//! | 8      | log start offset                                                                        |
//! | 8      | truncation generation                                                                   |
//! | 8      | offset below which compaction may have left holes                                       |
//! | 8      | offset at which this replica's last compaction ended                                    |
//! | 1      | operation begun: 0 none, 1 truncation, 2 reset, 3 swap, 4 truncation inside a segment   |
//! | 8      | its offset: the cut, the new start; 0 otherwise                                         |
//! | 8, 8   | base offset and length of the segment that is cut inside; 0 otherwise                   |
//! | 2 + 8n | base offsets of the segments that a swap removes, their count before them               |
//! | 2 + 8n | base offsets of the segments that a swap installs, their count before them              |
//! | 2 + 16n| truncations: generation and cut, oldest first, at most 16                               |
//! | 2 + 33n| damaged ranges: first offset, next good offset, base offset and position where the next |
//! |        | good batch is, and whether the range was given up (0, 1)                                |
//!
//! Invariants: replaced atomically and durably before the operation that it announces begins, and again after it
//! ended, so that an operation cut short is finished by the next open. It is there from the log's creation on: without
//! it, nobody could tell a log whose oldest segments retention removed from one that lost them in a crash.

use std::io;
use std::path::Path;

use bytes::{Buf, BufMut};
use wharf_types::Offset;

use crate::framed::{self, FrameError, FrameKind};
use crate::vfs::Vfs;

const KIND: FrameKind = FrameKind { magic: *b"WMAN", version: 1 };
/// Name of the file in its partition directory.
pub(crate) const MANIFEST_FILE: &str = "manifest";
/// Truncations that are remembered one by one; the older ones count as the deepest of them.
const TRUNCATIONS_MAX: usize = 16;

/// Offsets that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    /// The first of them.
    pub from: Offset,
    /// The first offset behind them that can be read, or the log end.
    pub next_good: Offset,
    /// Where the batch of `next_good` is: base offset of its segment and position in it.
    pub(crate) resume: (Offset, u64),
    /// Whether readers may pass over the range: an operator gave it up.
    pub skipped: bool,
}

/// An operation on several files that has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pending {
    #[default]
    None,
    /// The log ends at the cut; so many bytes stay of the segment with this base offset, if one is cut inside.
    Truncate {
        cut: Offset,
        keep: Option<(Offset, u64)>,
    },
    Reset(Offset),
    Swap {
        removed: Vec<Offset>,
        installed: Vec<Offset>,
    },
}

/// The manifest's contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) log_start: Offset,
    pub(crate) generation: u64,
    pub(crate) compacted_below: Offset,
    pub(crate) clean_below: Offset,
    pub(crate) pending: Pending,
    pub(crate) truncations: Vec<(u64, Offset)>,
    pub(crate) damaged: Vec<DamagedRange>,
}

impl Manifest {
    pub(crate) fn load(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Manifest>, FrameError> {
        let path = dir.join(MANIFEST_FILE);
        let Some(payload) = framed::load(vfs, &path, KIND)? else {
            return Ok(None);
        };
        match Manifest::decode(&payload) {
            Some(manifest) => Ok(Some(manifest)),
            None => Err(FrameError::Damaged { path, reason: "its fields are not what its length says" }),
        }
    }

    pub(crate) fn store(&self, vfs: &dyn Vfs, dir: &Path) -> io::Result<()> {
        framed::store(vfs, &dir.join(MANIFEST_FILE), KIND, &self.encode())
    }

    /// Notes a truncation: older checkpoints say nothing about offsets from the cut on.
    pub(crate) fn note_truncation(&mut self, cut: Offset) {
        self.generation += 1;
        self.clean_below = self.clean_below.min(cut);
        self.truncations.push((self.generation, cut));
        if self.truncations.len() > TRUNCATIONS_MAX {
            let (_, oldest_cut) = self.truncations.remove(0);
            if let Some((_, next_cut)) = self.truncations.first_mut() {
                *next_cut = oldest_cut.min(*next_cut);
            }
        }
    }

    /// How far a durable end offset of an older generation still holds.
    pub(crate) fn capped(&self, durable_end: Offset, generation: u64) -> Offset {
        let cuts = self.truncations.iter().filter(|(at, _)| *at > generation).map(|(_, cut)| *cut);
        cuts.fold(durable_end, Offset::min)
    }

    /// Whether a jump between two batches of a segment may be a hole that compaction left, or known damage.
    pub(crate) fn explains_hole(&self, from: Offset, to: Offset) -> bool {
        to <= self.compacted_below || self.explains_gap(from, to)
    }

    /// Whether a jump between two segments is known damage. Compaction leaves none: segments adjoin.
    pub(crate) fn explains_gap(&self, from: Offset, to: Offset) -> bool {
        self.damaged.iter().any(|range| range.from <= from && to <= range.next_good)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_u64_le(self.log_start.value());
        bytes.put_u64_le(self.generation);
        bytes.put_u64_le(self.compacted_below.value());
        bytes.put_u64_le(self.clean_below.value());
        let none: &[Offset] = &[];
        let nowhere = (Offset::ZERO, 0);
        let (kind, offset, keep, removed, installed) = match &self.pending {
            Pending::None => (0, Offset::ZERO, nowhere, none, none),
            Pending::Truncate { cut, keep: None } => (1, *cut, nowhere, none, none),
            Pending::Truncate { cut, keep: Some(keep) } => (4, *cut, *keep, none, none),
            Pending::Reset(to) => (2, *to, nowhere, none, none),
            Pending::Swap { removed, installed } => (3, Offset::ZERO, nowhere, &removed[..], &installed[..]),
        };
        bytes.put_u8(kind);
        bytes.put_u64_le(offset.value());
        bytes.put_u64_le(keep.0.value());
        bytes.put_u64_le(keep.1);
        for offsets in [removed, installed] {
            put_count(&mut bytes, offsets.len());
            offsets.iter().for_each(|offset| bytes.put_u64_le(offset.value()));
        }
        put_count(&mut bytes, self.truncations.len());
        for (generation, cut) in &self.truncations {
            bytes.put_u64_le(*generation);
            bytes.put_u64_le(cut.value());
        }
        put_count(&mut bytes, self.damaged.len());
        for range in &self.damaged {
            bytes.put_u64_le(range.from.value());
            bytes.put_u64_le(range.next_good.value());
            bytes.put_u64_le(range.resume.0.value());
            bytes.put_u64_le(range.resume.1);
            bytes.put_u8(u8::from(range.skipped));
        }
        bytes
    }

    fn decode(mut bytes: &[u8]) -> Option<Manifest> {
        let log_start = get_offset(&mut bytes)?;
        let generation = bytes.try_get_u64_le().ok()?;
        let compacted_below = get_offset(&mut bytes)?;
        let clean_below = get_offset(&mut bytes)?;
        let kind = bytes.try_get_u8().ok()?;
        let offset = get_offset(&mut bytes)?;
        let keep = (get_offset(&mut bytes)?, bytes.try_get_u64_le().ok()?);
        let removed = get_offsets(&mut bytes)?;
        let installed = get_offsets(&mut bytes)?;
        let pending = match kind {
            0 => Pending::None,
            1 => Pending::Truncate { cut: offset, keep: None },
            4 => Pending::Truncate { cut: offset, keep: Some(keep) },
            2 => Pending::Reset(offset),
            3 => Pending::Swap { removed, installed },
            _ => return None,
        };
        let mut truncations = Vec::new();
        for _ in 0..bytes.try_get_u16_le().ok()? {
            truncations.push((bytes.try_get_u64_le().ok()?, get_offset(&mut bytes)?));
        }
        let mut damaged = Vec::new();
        for _ in 0..bytes.try_get_u16_le().ok()? {
            damaged.push(DamagedRange {
                from: get_offset(&mut bytes)?,
                next_good: get_offset(&mut bytes)?,
                resume: (get_offset(&mut bytes)?, bytes.try_get_u64_le().ok()?),
                skipped: bytes.try_get_u8().ok()? != 0,
            });
        }
        let manifest =
            Manifest { log_start, generation, compacted_below, clean_below, pending, truncations, damaged };
        bytes.is_empty().then_some(manifest)
    }
}

fn put_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.put_u16_le(u16::try_from(count).unwrap_or(u16::MAX));
}

fn get_offset(bytes: &mut &[u8]) -> Option<Offset> {
    let value = bytes.try_get_u64_le().ok()?;
    (value <= Offset::MAX.value()).then_some(Offset::new(value))
}

fn get_offsets(bytes: &mut &[u8]) -> Option<Vec<Offset>> {
    let count = bytes.try_get_u16_le().ok()?;
    (0..count).map(|_| get_offset(bytes)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::vfs::MemoryVfs;

    fn sample(pending: Pending) -> Manifest {
        let damaged = DamagedRange {
            from: Offset::new(3),
            next_good: Offset::new(9),
            resume: (Offset::ZERO, 4096),
            skipped: true,
        };
        Manifest {
            log_start: Offset::new(2),
            generation: 4,
            compacted_below: Offset::new(6),
            clean_below: Offset::new(5),
            pending,
            truncations: vec![(3, Offset::new(50)), (4, Offset::new(60))],
            damaged: vec![damaged],
        }
    }

    #[test]
    fn a_manifest_has_these_bytes() {
        #[rustfmt::skip]
        let expected: &[u8] = &[
            2, 0, 0, 0, 0, 0, 0, 0,  // log start offset
            4, 0, 0, 0, 0, 0, 0, 0,  // generation
            6, 0, 0, 0, 0, 0, 0, 0,  // compacted below
            5, 0, 0, 0, 0, 0, 0, 0,  // clean below
            4,                       // truncation inside a segment
            7, 0, 0, 0, 0, 0, 0, 0,  // its cut
            3, 0, 0, 0, 0, 0, 0, 0,  // base offset of the segment
            0, 1, 0, 0, 0, 0, 0, 0,  // its length then
            0, 0,                    // removed segments
            0, 0,                    // installed segments
            2, 0,                    // truncations
            3, 0, 0, 0, 0, 0, 0, 0, 50, 0, 0, 0, 0, 0, 0, 0,
            4, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0,
            1, 0,                    // damaged ranges
            3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 1,
        ];
        assert_eq!(
            sample(Pending::Truncate { cut: Offset::new(7), keep: Some((Offset::new(3), 256)) }).encode(),
            expected
        );
    }

    #[test]
    fn it_round_trips_and_every_cut_is_refused() {
        let offsets = vec![Offset::new(1), Offset::new(2)];
        let swap = Pending::Swap { removed: offsets.clone(), installed: offsets };
        for pending in [Pending::None, Pending::Reset(Offset::new(1)), swap] {
            let (vfs, dir) = (MemoryVfs::new(), Path::new("/"));
            assert_eq!(Manifest::load(&vfs, dir).unwrap(), None);
            let manifest = sample(pending);
            manifest.store(&vfs, dir).unwrap();
            assert_eq!(Manifest::load(&vfs, dir).unwrap(), Some(manifest.clone()));
            let bytes = manifest.encode();
            for length in 0..bytes.len() {
                assert_eq!(Manifest::decode(&bytes[..length]), None);
            }
        }
    }

    #[test]
    fn older_checkpoints_are_capped_by_every_later_cut() {
        let mut manifest = Manifest::default();
        manifest.note_truncation(Offset::new(50));
        manifest.note_truncation(Offset::new(80));
        assert_eq!(manifest.capped(Offset::new(100), 0), Offset::new(50));
        assert_eq!(manifest.capped(Offset::new(100), 1), Offset::new(80));
        assert_eq!(manifest.capped(Offset::new(100), 2), Offset::new(100));
        for cut in 0..40 {
            manifest.note_truncation(Offset::new(1000 + cut));
        }
        assert_eq!(manifest.capped(Offset::new(5000), 0), Offset::new(50));
        assert_eq!(manifest.truncations.len(), TRUNCATIONS_MAX);
    }
}
