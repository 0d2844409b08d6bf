//! Which partition each record of a request goes to.

use wharf_proto::error::ApiError;
use wharf_types::{PartitionIndex, TimestampMs, murmur2, partition_for_key};

use super::pipeline::SequenceKey;
use super::record_key;
use crate::gateway::routing::TopicRoute;
use crate::proto::ProduceRequest;

/// How a request spreads over partitions.
pub(super) enum Spread {
    /// All of it goes to one partition.
    One {
        partition: PartitionIndex,
        /// Whether a key decided it.
        hashed: bool,
    },
    /// Records of several partitions: for each, the indexes of its records in order.
    Several { parts: Vec<(PartitionIndex, Vec<u32>)>, hashed: bool },
}

/// Computes the partitions over `count` of them: the one that the request names, else by key; keyless records follow
/// the topic's sticky partition, or the producer's sequence, so that a retry meets its first try.
///
/// # Errors
/// As [`TopicRoute::check_partition`].
pub(super) fn spread(
    route: &TopicRoute,
    request: &ProduceRequest,
    producer: Option<SequenceKey>,
    count: u32,
    now: TimestampMs,
) -> Result<Spread, ApiError> {
    if let Some(partition) = request.partition {
        let partition = route.check_partition(partition)?;
        return Ok(Spread::One { partition, hashed: false });
    }
    let keyless = match producer {
        Some(key) => partition_for_sequence(key, count),
        None => route.sticky_partition(now),
    };
    // A place that follows from the sequence depends on the partition count as one that follows from the key.
    let mut hashed = producer.is_some();
    let mut partition_of = |record| match record_key(record) {
        Some(key) => {
            hashed = true;
            partition_for_key(key, count)
        }
        None => keyless,
    };
    let Some(first) = request.records.first() else {
        return Ok(Spread::One { partition: keyless, hashed: false });
    };
    let first_partition = partition_of(first);
    let mut parts: Vec<(PartitionIndex, Vec<u32>)> = Vec::new();
    for (index, record) in request.records.iter().enumerate().skip(1) {
        let partition = partition_of(record);
        if parts.is_empty() && partition == first_partition {
            continue;
        }
        // A request is at most 4 MiB, so its records can be counted in 32 bits.
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        if parts.is_empty() {
            parts.push((first_partition, (0..index).collect()));
        }
        match parts.iter_mut().find(|(other, _)| *other == partition) {
            Some((_, indexes)) => indexes.push(index),
            None => parts.push((partition, vec![index])),
        }
    }
    if parts.is_empty() {
        Ok(Spread::One { partition: first_partition, hashed })
    } else {
        Ok(Spread::Several { parts, hashed })
    }
}

impl Spread {
    /// The same places, for leaders that know another partition count.
    pub(super) fn without_hash(self) -> Self {
        match self {
            Spread::One { partition, .. } => Spread::One { partition, hashed: false },
            Spread::Several { parts, .. } => Spread::Several { parts, hashed: false },
        }
    }

    /// The partitions that the request touches.
    pub(super) fn partitions(&self) -> Vec<PartitionIndex> {
        match self {
            Spread::One { partition, .. } => vec![*partition],
            Spread::Several { parts, .. } => parts.iter().map(|(partition, _)| *partition).collect(),
        }
    }
}

/// The partition of a producer's keyless records: the same for each try of a request.
fn partition_for_sequence(key: SequenceKey, count: u32) -> PartitionIndex {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&key.producer_id.value().to_le_bytes());
    bytes[8..].copy_from_slice(&key.sequence.value().to_le_bytes());
    PartitionIndex::new((murmur2(&bytes) & 0x7fff_ffff) % count.max(1))
}
