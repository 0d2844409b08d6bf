//! Rebuilding what is only a cache of the log: leader epochs and producer state (T31, T40).

use std::io;
use std::sync::Arc;

use wharf_types::{LeaderEpoch, Offset, TopicPartition};

use super::open::Found;
use crate::batch::BatchHeader;
use crate::epochs::EpochCache;
use crate::index::{INDEX_INTERVAL_BYTES, IndexEntry, Lookup};
use crate::producer::ProducerStates;
use crate::segment::{BatchCursor, CursorError, Segment, find_next_batch};
use crate::vfs::Vfs;

/// The leader epoch of the last batch.
pub(super) fn last_epoch(
    vfs: &Arc<dyn Vfs>,
    partition: TopicPartition,
    segments: &[Arc<Segment>],
) -> io::Result<Option<LeaderEpoch>> {
    let Some(last) = segments.iter().rev().find(|segment| segment.bytes() > 0) else {
        return Ok(None);
    };
    let start = match last.index().lookup_last(&**vfs)? {
        Lookup::Entry(entry) => u64::from(entry.position),
        Lookup::Start | Lookup::Damaged => 0,
    };
    let mut epoch = None;
    for_each_header(vfs, partition, (last, start), &mut |header| epoch = Some(header.leader_epoch))?;
    Ok(epoch)
}

/// Whether the cache says of every batch that was seen what its header says.
pub(super) fn epochs_agree(
    cache: &EpochCache,
    found: &Found,
    log_start: Offset,
    last_epoch: Option<LeaderEpoch>,
) -> bool {
    let last = found.log_end.previous().and_then(|offset| cache.epoch_at(offset));
    if found.log_end > log_start && last_epoch.is_some_and(|epoch| last != Some(epoch)) {
        return false;
    }
    // What wrote offsets below the log start is no longer in the cache.
    found.epochs.iter().filter(|seen| seen.entry.start >= log_start).all(|seen| {
        if seen.is_start {
            cache.entries().contains(&seen.entry)
        } else {
            cache.epoch_at(seen.entry.start) == Some(seen.entry.epoch)
        }
    })
}

/// The leader epochs as the headers of all batches tell them.
pub(super) fn epochs(
    vfs: &Arc<dyn Vfs>,
    partition: TopicPartition,
    segments: &[Arc<Segment>],
) -> io::Result<EpochCache> {
    let mut cache = EpochCache::new();
    for segment in segments {
        for_each_header(vfs, partition, (segment, 0), &mut |header| {
            // Headers of damaged places may contradict each other; the first one stands.
            let _ = cache.assign(header.leader_epoch, header.base_offset);
        })?;
    }
    Ok(cache)
}

/// The producer state at the end of the segments, from the state at an offset on; and whether every batch between
/// could be applied.
pub(super) fn producers(
    vfs: &Arc<dyn Vfs>,
    partition: TopicPartition,
    segments: &[Arc<Segment>],
    mut states: ProducerStates,
) -> io::Result<(ProducerStates, bool)> {
    let start = states.end_offset();
    let first = segments.partition_point(|segment| segment.base_offset() <= start).saturating_sub(1);
    let mut is_whole = true;
    for segment in segments.get(first..).unwrap_or_default() {
        let position = match segment.index().lookup_offset(&**vfs, start)? {
            Lookup::Entry(entry) => u64::from(entry.position),
            Lookup::Start | Lookup::Damaged => 0,
        };
        let mut cursor = BatchCursor::new(Arc::clone(vfs), Arc::clone(segment), partition, position);
        loop {
            match cursor.next_batch() {
                Ok(None) => break,
                Ok(Some(batch)) if batch.base_offset() < states.end_offset() => {}
                Ok(Some(batch)) => {
                    if states.apply(&batch).is_err() {
                        is_whole = false;
                        states = ProducerStates::new(batch.next_offset());
                    }
                }
                Err(CursorError::Io(error)) => return Err(error),
                Err(CursorError::Bad(_)) => {
                    is_whole = false;
                    let from = (cursor.position() + 1, states.end_offset());
                    let Some(found) = find_next_batch(vfs, segment, partition, from, &mut |_| {})? else {
                        break;
                    };
                    cursor =
                        BatchCursor::new(Arc::clone(vfs), Arc::clone(segment), partition, found.position);
                }
            }
        }
    }
    Ok((states, is_whole))
}

/// Walks over the headers of a segment, past what is bad.
fn for_each_header(
    vfs: &Arc<dyn Vfs>,
    partition: TopicPartition,
    (segment, start): (&Arc<Segment>, u64),
    visit: &mut dyn FnMut(&BatchHeader),
) -> io::Result<()> {
    let mut cursor = BatchCursor::new(Arc::clone(vfs), Arc::clone(segment), partition, start);
    loop {
        match cursor.peek_header() {
            Ok(None) => return Ok(()),
            Ok(Some(header)) => {
                visit(&header);
                cursor.skip(&header);
            }
            Err(CursorError::Io(error)) => return Err(error),
            Err(CursorError::Bad(_)) => {
                let from = (cursor.position() + 1, Offset::ZERO);
                let Some(found) = find_next_batch(vfs, segment, partition, from, &mut |_| {})? else {
                    return Ok(());
                };
                cursor = BatchCursor::new(Arc::clone(vfs), Arc::clone(segment), partition, found.position);
            }
        }
    }
}

/// Writes the index of a closed segment anew.
pub(super) fn index(vfs: &Arc<dyn Vfs>, partition: TopicPartition, segment: &Arc<Segment>) -> io::Result<()> {
    let mut entries: Vec<IndexEntry> = Vec::new();
    let mut cursor = BatchCursor::new(Arc::clone(vfs), Arc::clone(segment), partition, 0);
    while let Ok(Some(header)) = cursor.peek_header() {
        let relative = header.base_offset.distance_from(segment.base_offset());
        let last = entries.last().map_or(0, |entry| entry.position);
        if let (Ok(relative_offset), Ok(position)) =
            (u32::try_from(relative), u32::try_from(cursor.position()))
            && position.saturating_sub(last) >= INDEX_INTERVAL_BYTES
        {
            entries.push(IndexEntry { relative_offset, position, append_time: header.append_time });
        }
        cursor.skip(&header);
    }
    segment.index().rebuild(&**vfs, &entries)
}
