//! The leader epochs of a log: which epoch wrote which offsets (R5, R6).
//!
//! # Invariants
//! - Epochs and start offsets both rise strictly. Epoch `e` of entry `i` wrote the offsets from its start to the start
//!   of entry `i + 1`, the last one to the log end offset.
//! - It is a function of the log's batches, beside entries of epochs that have written nothing yet: a new leader makes
//!   its entry durable before its first append (T31).
//!
//! The file is framed with magic `WEPO`, version 1. Payload, little-endian: count u32, then for each entry epoch u32
//! and start offset u64.

use std::path::Path;

use wharf_types::{LeaderEpoch, Offset};

use crate::framed::{self, FrameError, FrameKind};

const KIND: FrameKind = FrameKind { magic: *b"WEPO", version: 1 };
const ENTRY_BYTES: usize = 12;

/// An epoch and the first offset that it wrote or will write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEntry {
    /// The leader epoch.
    pub epoch: LeaderEpoch,
    /// Its first offset.
    pub start: Offset,
}

/// Where an epoch ends: the answer to a follower that asks for divergence (R6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest epoch at or below the one asked for.
    pub epoch: LeaderEpoch,
    /// The offset after its last.
    pub end: Offset,
}

/// What [`EpochCache::assign`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assigned {
    /// The epoch was the newest already.
    Unchanged,
    /// There is a new entry, to be made durable before the epoch's first append.
    Added,
}

/// Why an epoch was not taken, or a file not read.
#[derive(Debug, thiserror::Error)]
pub enum EpochCacheError {
    /// Epochs only rise.
    #[error("leader epoch {actual} at offset {start} is below {latest}")]
    NotRising {
        /// The newest epoch below that offset.
        latest: LeaderEpoch,
        /// The epoch that was to be added.
        actual: LeaderEpoch,
        /// Its start.
        start: Offset,
    },
    /// The frame is damaged or of a newer version.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The frame is whole, its payload is not what this version writes.
    #[error("epoch file has a bad {field}")]
    Malformed {
        /// What is wrong.
        field: &'static str,
    },
}

/// The epochs of one log, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochCache {
    entries: Vec<EpochEntry>,
}

impl EpochCache {
    /// Of an empty log.
    #[must_use]
    pub const fn new() -> Self {
        EpochCache { entries: Vec::new() }
    }

    /// The entries, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The newest epoch.
    #[must_use]
    pub fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// Notes that `epoch` writes from `start` on; drops entries that start there or later (R5). An epoch that is the
    /// newest already stays as it is.
    ///
    /// # Errors
    /// [`EpochCacheError::NotRising`] if a higher epoch wrote below `start`; nothing is changed then.
    pub fn assign(&mut self, epoch: LeaderEpoch, start: Offset) -> Result<Assigned, EpochCacheError> {
        if self.latest().is_some_and(|latest| latest.epoch == epoch && latest.start <= start) {
            return Ok(Assigned::Unchanged);
        }
        let kept = self.entries.partition_point(|entry| entry.start < start);
        if let Some(latest) = self.entries[..kept].last().filter(|latest| latest.epoch >= epoch) {
            return Err(EpochCacheError::NotRising { latest: latest.epoch, actual: epoch, start });
        }
        self.entries.truncate(kept);
        self.entries.push(EpochEntry { epoch, start });
        Ok(Assigned::Added)
    }

    /// The epoch that wrote the offset; nothing below the first entry.
    #[must_use]
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let index = self.entries.partition_point(|entry| entry.start <= offset);
        self.entries[..index].last().map(|entry| entry.epoch)
    }

    /// The largest epoch at or below `asked` and its end, in a log that ends at `log_end` (R6). If all epochs are
    /// higher, the first one's start: the log has nothing of what was asked for. Nothing if there are no epochs.
    #[must_use]
    pub fn end_offset_for(&self, asked: LeaderEpoch, log_end: Offset) -> Option<EpochEnd> {
        let index = self.entries.partition_point(|entry| entry.epoch <= asked);
        let end = self.entries.get(index).map_or(log_end, |next| next.start);
        match self.entries[..index].last() {
            Some(entry) => Some(EpochEnd { epoch: entry.epoch, end }),
            None => self.entries.first().map(|first| EpochEnd { epoch: asked, end: first.start }),
        }
    }

    /// The log now ends at `offset`: epochs that start there or later are gone. True if any was.
    pub fn truncate_from_end(&mut self, offset: Offset) -> bool {
        let kept = self.entries.partition_point(|entry| entry.start < offset);
        let changed = kept < self.entries.len();
        self.entries.truncate(kept);
        changed
    }

    /// The log now starts at `offset`: epochs that end there or earlier are gone, and the one that wrote the offset
    /// before or at it starts there. True if anything changed.
    pub fn truncate_from_start(&mut self, offset: Offset) -> bool {
        let passed = self.entries.partition_point(|entry| entry.start <= offset);
        let Some(current) = passed.checked_sub(1) else {
            return false;
        };
        let changed = current > 0 || self.entries[current].start < offset;
        self.entries.drain(..current);
        self.entries[0].start = offset;
        changed
    }

    /// The file's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(4 + self.entries.len() * ENTRY_BYTES);
        let count = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        payload.extend_from_slice(&count.to_le_bytes());
        for entry in &self.entries {
            payload.extend_from_slice(&entry.epoch.value().to_le_bytes());
            payload.extend_from_slice(&entry.start.value().to_le_bytes());
        }
        framed::encode(KIND, &payload)
    }

    /// Reads a file's bytes; `origin` is for error texts.
    ///
    /// # Errors
    /// [`EpochCacheError::Frame`] and [`EpochCacheError::Malformed`]; the cache must be rebuilt from the log then.
    pub fn decode(origin: &Path, bytes: &[u8]) -> Result<Self, EpochCacheError> {
        let payload = framed::decode(origin, KIND, bytes)?;
        let (count, rest) =
            payload.split_first_chunk::<4>().ok_or(EpochCacheError::Malformed { field: "count" })?;
        let (chunks, remainder) = rest.as_chunks::<ENTRY_BYTES>();
        if chunks.len() != u32::from_le_bytes(*count) as usize || !remainder.is_empty() {
            return Err(EpochCacheError::Malformed { field: "length" });
        }
        let entries: Vec<EpochEntry> = chunks
            .iter()
            .map(|&[e0, e1, e2, e3, s0, s1, s2, s3, s4, s5, s6, s7]| EpochEntry {
                epoch: LeaderEpoch::new(u32::from_le_bytes([e0, e1, e2, e3])),
                start: Offset::new(u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7])),
            })
            .collect();
        let rising = |pair: &[EpochEntry]| pair[0].epoch < pair[1].epoch && pair[0].start < pair[1].start;
        if !entries.windows(2).all(rising) {
            return Err(EpochCacheError::Malformed { field: "order" });
        }
        Ok(EpochCache { entries })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn cache(entries: &[(u32, u64)]) -> EpochCache {
        let mut cache = EpochCache::new();
        for (epoch, start) in entries {
            cache.assign(LeaderEpoch::new(*epoch), Offset::new(*start)).unwrap();
        }
        cache
    }

    fn end(cache: &EpochCache, asked: u32) -> (u32, u64) {
        let end = cache.end_offset_for(LeaderEpoch::new(asked), Offset::new(100)).unwrap();
        (end.epoch.value(), end.end.value())
    }

    #[test]
    fn the_end_is_that_of_the_largest_epoch_not_above() {
        let cache = cache(&[(2, 10), (5, 40), (6, 70)]);
        assert_eq!(end(&cache, 1), (1, 10));
        assert_eq!(end(&cache, 2), (2, 40));
        assert_eq!(end(&cache, 4), (2, 40));
        assert_eq!(end(&cache, 5), (5, 70));
        assert_eq!(end(&cache, 9), (6, 100));
        assert_eq!(EpochCache::new().end_offset_for(LeaderEpoch::new(0), Offset::ZERO), None);
    }

    #[test]
    fn a_new_epoch_drops_entries_that_wrote_nothing() {
        let mut cache = cache(&[(2, 10), (5, 40)]);
        assert_eq!(cache.assign(LeaderEpoch::new(7), Offset::new(40)).unwrap(), Assigned::Added);
        assert_eq!(cache.entries().len(), 2);
        assert_eq!(cache.latest().unwrap().epoch, LeaderEpoch::new(7));
        assert_eq!(cache.assign(LeaderEpoch::new(7), Offset::new(60)).unwrap(), Assigned::Unchanged);
        assert!(cache.assign(LeaderEpoch::new(6), Offset::new(60)).is_err());
        assert!(cache.assign(LeaderEpoch::new(1), Offset::new(20)).is_err());
    }

    #[test]
    fn truncation_cuts_at_the_offset() {
        let mut ends = cache(&[(2, 10), (5, 40), (6, 70)]);
        assert!(ends.truncate_from_end(Offset::new(40)));
        assert_eq!(ends, cache(&[(2, 10)]));
        assert!(!ends.truncate_from_end(Offset::new(40)));
        let mut starts = cache(&[(2, 10), (5, 40), (6, 70)]);
        assert!(!starts.truncate_from_start(Offset::new(5)));
        assert!(starts.truncate_from_start(Offset::new(50)));
        assert_eq!(starts, cache(&[(5, 50), (6, 70)]));
        assert!(starts.truncate_from_start(Offset::new(500)));
        assert_eq!(starts.epoch_at(Offset::new(500)), Some(LeaderEpoch::new(6)));
        assert_eq!(starts.epoch_at(Offset::new(499)), None);
    }

    #[test]
    fn the_file_has_these_bytes() {
        let bytes = cache(&[(1, 0), (3, 258)]).encode();
        #[rustfmt::skip]
        let payload: &[u8] = &[
            2, 0, 0, 0,             // count
            1, 0, 0, 0,             // epoch 1
            0, 0, 0, 0, 0, 0, 0, 0, // from offset 0
            3, 0, 0, 0,             // epoch 3
            2, 1, 0, 0, 0, 0, 0, 0, // from offset 258
        ];
        assert_eq!(bytes[..4], *b"WEPO");
        assert_eq!(bytes[16..], *payload);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(EpochCache::decode(Path::new("epochs"), &flipped).is_err(), "bit {bit}");
        }
    }

    proptest! {
        /// The log of one epoch for each offset is the model.
        #[test]
        fn the_cache_is_a_function_of_the_log(
            runs in proptest::collection::vec((1..4u32, 1..5u64), 1..10),
            cut in 0..40u64,
            start in 0..40u64,
        ) {
            let mut model = Vec::new();
            let mut cache = EpochCache::new();
            let mut epoch = 0;
            for (step, length) in runs {
                epoch += step;
                cache.assign(LeaderEpoch::new(epoch), Offset::new(model.len() as u64)).unwrap();
                model.extend(std::iter::repeat_n(epoch, length as usize));
            }
            model.truncate(cut as usize);
            cache.truncate_from_end(Offset::new(model.len() as u64));
            let start = start.min((model.len() as u64).saturating_sub(1));
            cache.truncate_from_start(Offset::new(start));
            for (offset, epoch) in model.iter().enumerate().skip(start as usize) {
                let found = cache.epoch_at(Offset::new(offset as u64));
                prop_assert_eq!(found, Some(LeaderEpoch::new(*epoch)));
            }
            for asked in 0..=epoch {
                let last = model.iter().rposition(|epoch| *epoch <= asked);
                let end = cache.end_offset_for(LeaderEpoch::new(asked), Offset::new(model.len() as u64));
                if let Some(last) = last.filter(|last| *last as u64 >= start) {
                    let found = end.map(|end| (end.epoch.value(), end.end.value()));
                    prop_assert_eq!(found, Some((model[last], last as u64 + 1)));
                }
            }
            let decoded = EpochCache::decode(Path::new("epochs"), &cache.encode()).unwrap();
            prop_assert_eq!(decoded, cache);
        }

        #[test]
        fn any_bytes_are_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = EpochCache::decode(Path::new("epochs"), &framed::encode(KIND, &bytes));
            prop_assert!(EpochCache::decode(Path::new("epochs"), &bytes).is_err());
        }
    }
}
