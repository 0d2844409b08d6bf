//! Whether a pass is worth its reads, and how far it may go.

use wharf_types::{Offset, TimestampMs};

/// A segment as the plan sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactionInput {
    /// The offset after its last batch.
    pub(crate) next_offset: Offset,
    /// Its length.
    pub(crate) bytes: u64,
    /// When its newest batch was appended.
    pub(crate) last_append_time: TimestampMs,
}

/// What a pass will read: the first `segment_count` segments, of which those from `dirty_from` on are new to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactionPlan {
    /// Segments from the first on.
    pub(crate) segment_count: usize,
    /// Keys from this offset on go into the map.
    pub(crate) dirty_from: Offset,
}

/// Plans a pass over the closed segments, oldest first; nothing if less than half of what may be compacted is dirty.
///
/// `bound` is exclusive; segments whose newest batch is younger than `min_lag_ms` at `now`, and all behind them, are
/// not touched.
pub(crate) fn plan(
    closed: &[CompactionInput],
    bound: Offset,
    clean_below: Offset,
    min_lag_ms: u64,
    now: TimestampMs,
) -> Option<CompactionPlan> {
    let eligible = |segment: &&CompactionInput| {
        segment.next_offset <= bound && now.since(segment.last_append_time) >= min_lag_ms
    };
    let segment_count = closed.iter().take_while(eligible).count();
    let (mut total, mut dirty) = (0u64, 0u64);
    for segment in &closed[..segment_count] {
        total += segment.bytes;
        if segment.next_offset > clean_below {
            dirty += segment.bytes;
        }
    }
    (dirty > 0 && dirty.saturating_mul(2) >= total)
        .then_some(CompactionPlan { segment_count, dirty_from: clean_below })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(next_offset: u64, bytes: u64, time: u64) -> CompactionInput {
        let last_append_time = TimestampMs::new(time);
        CompactionInput { next_offset: Offset::new(next_offset), bytes, last_append_time }
    }

    fn count(closed: &[CompactionInput], bound: u64, clean_below: u64, now: u64) -> Option<usize> {
        plan(closed, Offset::new(bound), Offset::new(clean_below), 100, TimestampMs::new(now))
            .map(|plan| plan.segment_count)
    }

    #[test]
    fn only_segments_below_the_bound_and_old_enough_count() {
        let closed = [input(10, 50, 1_000), input(20, 50, 1_050), input(30, 50, 1_200)];
        assert_eq!(count(&closed, 30, 0, 1_300), Some(3));
        assert_eq!(count(&closed, 30, 0, 1_299), Some(2));
        assert_eq!(count(&closed, 29, 0, 9_999), Some(2));
        assert_eq!(count(&closed, 9, 0, 9_999), None);
        assert_eq!(count(&[], 9, 0, 9_999), None);
    }

    #[test]
    fn a_mostly_clean_log_is_left_alone() {
        let closed = [input(10, 50, 0), input(20, 50, 0), input(30, 99, 0)];
        assert_eq!(count(&closed, 30, 20, 9_999), None);
        assert_eq!(count(&closed, 30, 10, 9_999), Some(3));
        assert_eq!(count(&closed, 30, 30, 9_999), None);
    }
}
