//! Reads a shard: its rows in RocksDB, then the rest of its log.

use std::sync::Arc;

use wharf_coordinator::{GroupShard, Record, codec};
use wharf_log::batch::{BatchKind, SealedBatch};
use wharf_log::log::{ReadError, ReadLimit};
use wharf_types::{LeaderEpoch, Offset};

use super::super::node::NodeShared;
use super::super::offsets_store::{LogView, LossGeneration, OffsetsStore, OffsetsStoreError, PartitionMeta};
use super::super::partition::Partition;

/// Bytes of log that are replayed between two writes to the store.
const REPLAY_BYTES: usize = 1 << 20;

/// Why a shard cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] OffsetsStoreError),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// A batch of the log cannot be taken apart.
    #[error(transparent)]
    Batch(#[from] wharf_log::batch::BatchError),
    /// A record is not one that this version understands; going on would lose what it says.
    #[error("record {offset}: {source}")]
    Record {
        /// Where it stands.
        offset: Offset,
        /// What is wrong with it.
        source: wharf_coordinator::DecodeError,
    },
    /// The log has nothing where it must have records.
    #[error("the log has no records from offset {at}")]
    NoProgress {
        /// Where the reading stands.
        at: Offset,
    },
    /// Records came out of order.
    #[error(transparent)]
    Order(#[from] wharf_coordinator::AppendOutOfOrder),
    /// The node is going down.
    #[error("the node is shutting down")]
    ShuttingDown,
}

/// Waits until the partition's committed end is known, then reads up to it.
///
/// # Errors
/// [`LoadError`].
pub(super) async fn load(
    node: &Arc<NodeShared>,
    store: &Arc<OffsetsStore>,
    partition: &Arc<Partition>,
) -> Result<GroupShard, LoadError> {
    let mut committed = partition.watch_high_watermark();
    let end = tokio::select! {
        known = committed.wait_for(Option::is_some) => known.map_err(|_| LoadError::ShuttingDown)?.unwrap_or_default(),
        // Without an office, for want of space, the end stays unknown.
        () = node.stopping.cancelled() => return Err(LoadError::ShuttingDown),
        () = node.failed.cancelled() => return Err(LoadError::ShuttingDown),
    };
    // What the rows claim to end with is compared with the log.
    let index = partition.id().partition;
    let last = store.meta(index).and_then(|meta| meta.applied.previous());
    let epoch = match last {
        Some(last) => match partition.with_log(move |log| log.leader_epoch_at(last)).await {
            Ok(Ok(epoch)) => epoch,
            _ => return Err(LoadError::ShuttingDown),
        },
        None => None,
    };
    let store = Arc::clone(store);
    let partition = Arc::clone(partition);
    node.io.run(move || replay(&store, &partition, end, epoch)).await.map_err(|_| LoadError::ShuttingDown)?
}

fn replay(
    store: &OffsetsStore,
    partition: &Arc<Partition>,
    end: Offset,
    epoch: Option<LeaderEpoch>,
) -> Result<GroupShard, LoadError> {
    let reader = partition.reader();
    let index = partition.id().partition;
    let log = LogView {
        topic_id: partition.id().topic_id,
        loss_generation: LossGeneration(0),
        log_start_offset: reader.log_start_offset(),
        log_end_offset: reader.log_end_offset(),
    };
    let loaded = store.load(index, &log, |_| epoch)?;
    if let Some(reason) = &loaded.wiped {
        tracing::info!(partition = %partition.id(), %reason, "the offsets are replayed from the log");
    }
    let stored_up_to = loaded.meta.map(|meta| meta.applied);
    let mut shard = loaded.shard;
    let mut next = shard.applied();
    let mut replayed = 0_u64;
    while next < end {
        let outcome = reader.read(next, ReadLimit { max_bytes: REPLAY_BYTES, end })?;
        if outcome.next_offset <= next {
            return Err(LoadError::NoProgress { at: next });
        }
        let mut applied = Vec::new();
        for batch in &outcome.batches {
            apply_batch(&mut shard, batch, &mut applied)?;
        }
        next = outcome.next_offset;
        shard.skipped(next);
        shard.apply_pending(next);
        replayed += applied.len() as u64;
        let last = outcome.batches.last().map(SealedBatch::leader_epoch);
        let leader_epoch = last.or(epoch).unwrap_or_default();
        let meta = PartitionMeta {
            topic_id: log.topic_id,
            applied: next,
            leader_epoch,
            loss_generation: LossGeneration(0),
        };
        store.apply(index, &applied, meta)?;
    }
    tracing::debug!(partition = %partition.id(), ?stored_up_to, replayed, groups = shard.group_count(), "offsets loaded");
    Ok(shard)
}

fn apply_batch(
    shard: &mut GroupShard,
    batch: &SealedBatch,
    applied: &mut Vec<(Offset, Record)>,
) -> Result<(), LoadError> {
    if batch.header().kind == BatchKind::Control {
        return Ok(());
    }
    for record in batch.records()? {
        let record = record?;
        if record.offset < shard.applied() {
            continue;
        }
        let offset = record.offset;
        let decoded = codec::decode(record.key.as_deref(), record.value.as_deref())
            .map_err(|source| LoadError::Record { offset, source })?;
        shard.apply(offset, &decoded)?;
        applied.push((offset, decoded));
    }
    Ok(())
}
