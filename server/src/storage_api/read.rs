//! Messages of reads.

use std::time::Duration;

use wharf_log::batch::SealedBatch;
use wharf_types::{LeaderEpoch, Offset, TimestampMs, TopicPartition};

/// Where a fetch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchPosition {
    /// At this offset.
    Offset(Offset),
    /// At the first record whose append time is this or later; at the end if there is none.
    AppendTime(TimestampMs),
    /// At the log start offset.
    Earliest,
    /// At the end: nothing that is there already.
    Latest,
}

/// A fetch from one partition.
#[derive(Clone, Debug)]
pub(crate) struct FetchQuery {
    /// The partition.
    pub(crate) partition: TopicPartition,
    /// Where to begin.
    pub(crate) position: FetchPosition,
    /// Bytes of batches to read at most; the first batch comes whole.
    pub(crate) max_bytes: usize,
    /// Bytes to wait for.
    pub(crate) min_bytes: usize,
    /// How long to wait for them.
    pub(crate) max_wait: Duration,
    /// Leader epoch of the last record that the reader has seen.
    pub(crate) last_epoch: Option<LeaderEpoch>,
}

/// What a fetch found.
#[derive(Clone, Debug)]
pub(crate) struct FetchReply {
    /// The offset at which the reading began.
    pub(crate) start: Offset,
    /// Batches in order; the first may begin below `start`.
    pub(crate) batches: Vec<SealedBatch>,
    /// The offset to read next if all of the batches are consumed.
    pub(crate) next_offset: Offset,
    /// The log start offset.
    pub(crate) log_start: Offset,
    /// The high watermark; none while the leader does not know it (R5).
    pub(crate) high_watermark: Option<Offset>,
}

/// An offset to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffsetQuery {
    /// The log start offset.
    Earliest,
    /// The high watermark.
    Latest,
    /// The first record whose append time is this or later.
    AppendTime(TimestampMs),
}

/// An offset that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedOffset {
    /// The offset; none if no record is at or after the time asked for.
    pub(crate) offset: Option<Offset>,
    /// Append time of the record at the offset, where there is one and it was looked up by time.
    pub(crate) append_time: Option<TimestampMs>,
}

/// Where a partition's log begins and ends, and what it weighs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionStatus {
    /// The log start offset.
    pub(crate) log_start: Offset,
    /// The high watermark; none while the leader does not know it.
    pub(crate) high_watermark: Option<Offset>,
    /// Bytes of all segments.
    pub(crate) size_bytes: u64,
    /// Ranges `[from, next_good)` that do not match their checksums and were not given up yet.
    pub(crate) damaged: Vec<(Offset, Offset)>,
}
