//! Messages of an append.

use wharf_log::batch::UnsealedBatch;
use wharf_log::producer::EntryVerdict;
use wharf_types::{LeaderEpoch, Offset, TopicPartition};

use super::StorageError;

/// Where an append stands in the order of one gateway's appends to one partition (R10).
///
/// Indexes of a generation rise from 0 without a hole. After a refusal the leader refuses all later indexes of that
/// generation, until the gateway begins a new one with the first unanswered batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PipelinePosition {
    /// The gateway's incarnation: random for each process start.
    pub(crate) gateway: u128,
    /// Rises with each restart of the pipeline.
    pub(crate) generation: u64,
    /// Rises by one with each batch of the generation.
    pub(crate) index: u64,
}

/// One batch for the leader of a partition.
#[derive(Debug)]
pub(crate) struct AppendRequest {
    /// The partition.
    pub(crate) partition: TopicPartition,
    /// The leader epoch that the gateway believes in.
    pub(crate) leader_epoch: LeaderEpoch,
    /// The partition count under which keyed records were hashed; none if every record named its partition.
    pub(crate) hashed_over: Option<u32>,
    /// The batch's place in the gateway's order.
    pub(crate) pipeline: PipelinePosition,
    /// The records, with their request entries.
    pub(crate) batch: UnsealedBatch,
}

/// What became of a batch.
#[derive(Debug)]
pub(crate) enum AppendReply {
    /// All of it is in the log and below the high watermark.
    Committed {
        /// Offset of its first record; the others follow without a hole.
        base_offset: Offset,
    },
    /// Nothing of it was appended, because of one entry at least; a verdict for each entry, in order. The batch
    /// comes back, so that the entries that were only held up can be sent again.
    Judged {
        /// A verdict for each entry.
        verdicts: Vec<EntryVerdict>,
        /// The batch as it was sent.
        batch: UnsealedBatch,
    },
}

/// A refused append: nothing of the batch was appended, unless the error says that this is unknown.
#[derive(Debug)]
pub(crate) struct AppendFailure {
    /// Why.
    pub(crate) error: StorageError,
    /// The batch as it was sent, where the refusal came before anything was done with it.
    pub(crate) batch: Option<UnsealedBatch>,
}

/// Whether the verdict answers the entry for good; the others are to be sent again.
#[must_use]
pub(crate) fn is_final(verdict: &EntryVerdict) -> bool {
    !matches!(verdict, EntryVerdict::Append | EntryVerdict::RepeatedInBatch)
}
