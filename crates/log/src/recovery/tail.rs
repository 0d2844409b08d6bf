//! Where a closed segment ends, found without reading all of it.

use std::io;
use std::sync::Arc;

use wharf_types::TopicPartition;

use crate::index::Lookup;
use crate::segment::{BatchCursor, CursorError, Segment, SegmentEnd};
use crate::vfs::Vfs;

/// How much is read for a walk over the few batches behind the last index entry.
const READ_AHEAD_BYTES: usize = 64 << 10;

/// The end of a segment whose first batch and last batches are whole up to the end of the file; `None` if any is not,
/// so that the segment must be scanned.
pub(crate) fn segment_end(
    vfs: &Arc<dyn Vfs>,
    segment: &Arc<Segment>,
    partition: TopicPartition,
) -> io::Result<Option<SegmentEnd>> {
    let cursor_at = |position| {
        BatchCursor::new(Arc::clone(vfs), Arc::clone(segment), partition, position)
            .with_read_ahead(READ_AHEAD_BYTES)
    };
    let first = match cursor_at(0).peek_header() {
        // Compaction may have removed what stood before the first batch.
        Ok(Some(header)) if header.base_offset >= segment.base_offset() => header,
        Ok(None) => {
            return Ok(Some(SegmentEnd {
                bytes: 0,
                next_offset: segment.base_offset(),
                first_append_time: Default::default(),
                last_append_time: Default::default(),
            }));
        }
        Ok(Some(_)) | Err(CursorError::Bad(_)) => return Ok(None),
        Err(CursorError::Io(error)) => return Err(error),
    };
    let (start, mut expected, is_exact) = match segment.index().lookup_last(&**vfs)? {
        Lookup::Entry(entry) => {
            (u64::from(entry.position), segment.base_offset().plus(u64::from(entry.relative_offset)), true)
        }
        Lookup::Start => (0, segment.base_offset(), false),
        Lookup::Damaged => return Ok(None),
    };
    let mut cursor = cursor_at(start);
    let mut last_append_time = first.append_time;
    let mut is_first = true;
    loop {
        match cursor.next_batch() {
            Ok(Some(batch)) => {
                let in_order = if is_first && is_exact {
                    batch.base_offset() == expected
                } else {
                    batch.base_offset() >= expected
                };
                if !in_order || batch.append_time() < last_append_time {
                    return Ok(None);
                }
                is_first = false;
                last_append_time = batch.append_time();
                expected = batch.next_offset();
            }
            // An index that points to the end of the file or behind it is wrong.
            Ok(None) if is_first => return Ok(None),
            Ok(None) => break,
            Err(CursorError::Bad(_)) => return Ok(None),
            Err(CursorError::Io(error)) => return Err(error),
        }
    }
    Ok(Some(SegmentEnd {
        bytes: segment.bytes(),
        next_offset: expected,
        first_append_time: first.append_time,
        last_append_time,
    }))
}
