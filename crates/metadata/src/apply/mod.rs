//! The only mutator of the cluster image.
//!
//! Each record is checked in full before anything changes, so a refused record changes nothing but the applied index.

mod nodes;
mod partitions;
mod topics;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use wharf_types::limits::PRODUCER_ID_END;
use wharf_types::{
    BrokerEpoch, ConfigError, LeaderEpoch, NodeId, PartitionEpoch, TopicId, TopicName, TopicPartition,
};

use crate::image::Image;
use crate::node::{ClusterId, LogDirId};
use crate::record::{AllocateProducerIds, Bootstrap, Record, SetFeature};
use crate::topic::Partition;

/// What a record answers to its proposer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done; there is nothing more to say.
    Done,
    /// The node is registered under this epoch.
    Registered(BrokerEpoch),
    /// These producer ids belong to the proposer, and were never handed out before.
    ProducerIds(Range<u64>),
}

/// What an operator must learn about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A leader was elected that may lack committed records: DATA_LOSS_POSSIBLE (R9).
    DataLossPossible {
        /// The partition.
        partition: TopicPartition,
        /// The leader.
        leader: NodeId,
        /// The partition's new loss generation.
        loss_generation: u32,
    },
    /// A partition has no leader that could be elected without loss.
    NoLeader {
        /// The partition.
        partition: TopicPartition,
    },
}

/// What a record changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The answer to the proposer.
    pub outcome: Outcome,
    /// Nodes that were added, changed or removed.
    pub nodes: BTreeSet<NodeId>,
    /// Topics that were added or whose configuration changed.
    pub topics: BTreeSet<TopicId>,
    /// Topics that were deleted.
    pub deleted_topics: BTreeSet<TopicId>,
    /// Partitions that were added or changed.
    pub partitions: BTreeSet<TopicPartition>,
    /// What an operator must learn about.
    pub events: Vec<Event>,
}

impl Delta {
    fn new(outcome: Outcome) -> Self {
        Delta {
            outcome,
            nodes: BTreeSet::new(),
            topics: BTreeSet::new(),
            deleted_topics: BTreeSet::new(),
            partitions: BTreeSet::new(),
            events: Vec::new(),
        }
    }
}

/// Why a record was refused. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The cluster has a name already.
    #[error("the cluster is already named {actual}; refused to name it {given}")]
    AlreadyBootstrapped {
        /// Its name.
        actual: ClusterId,
        /// The name of the record.
        given: ClusterId,
    },
    /// The feature's level was another one.
    #[error("feature {name} is at level {actual}, not at {expected}")]
    FeatureLevel {
        /// The feature.
        name: String,
        /// The level that the proposer saw.
        expected: u32,
        /// The level in force.
        actual: u32,
    },
    /// The topic's name is taken.
    #[error("topic {name} already exists with id {topic_id}")]
    TopicExists {
        /// The name.
        name: TopicName,
        /// Identity of the topic that has it.
        topic_id: TopicId,
    },
    /// The topic's identity is or was in use.
    #[error("topic id {topic_id} is or was in use")]
    TopicIdUsed {
        /// The identity.
        topic_id: TopicId,
    },
    /// No topic has this identity.
    #[error("there is no topic with id {topic_id}")]
    UnknownTopic {
        /// The identity.
        topic_id: TopicId,
    },
    /// Internal topics are not altered or deleted.
    #[error("topic {name} is internal: it keeps its partitions and is not deleted")]
    InternalTopic {
        /// The name.
        name: TopicName,
    },
    /// The topic's configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The number of partitions was another one.
    #[error("topic {topic_id} has {actual} partitions, not {expected}")]
    PartitionCount {
        /// The topic.
        topic_id: TopicId,
        /// The number that the proposer saw.
        expected: u32,
        /// The number there is.
        actual: u32,
    },
    /// There would be no partition, or too many.
    #[error("a topic has 1 to {max} partitions, not {given}")]
    PartitionsOutOfBounds {
        /// The number that would be.
        given: u64,
        /// The most.
        max: u32,
    },
    /// A partition's replicas are none, too many, repeated or not as many as the topic's others.
    #[error(
        "partition {partition} cannot have the replicas {replicas:?}; expected {expected} different nodes"
    )]
    InvalidReplicas {
        /// Number of the partition.
        partition: u32,
        /// Its replicas.
        replicas: Vec<NodeId>,
        /// The replication factor.
        expected: u32,
    },
    /// `min.insync.replicas` is 0 or above the replication factor.
    #[error("min.insync.replicas is {min_isr}; it must be 1 to the replication factor {replication_factor}")]
    InvalidMinIsr {
        /// The value.
        min_isr: u32,
        /// The replication factor.
        replication_factor: u32,
    },
    /// No replica of a partition is eligible.
    #[error("partition {partition} has no live replica among {replicas:?}")]
    NoEligibleReplica {
        /// Number of the partition.
        partition: u32,
        /// Its replicas.
        replicas: Vec<NodeId>,
    },
    /// A change of `min.insync.replicas` or `flush.policy` while a partition has no ISR (R8).
    #[error("partition {partition} has an empty ISR: min.insync.replicas and flush.policy cannot change now")]
    EmptyIsr {
        /// The partition.
        partition: TopicPartition,
    },
    /// No partition has this id.
    #[error("there is no partition {partition}")]
    UnknownPartition {
        /// The partition.
        partition: TopicPartition,
    },
    /// The partition has changed since.
    #[error("partition {partition} is at partition epoch {actual}, not at {expected}")]
    StalePartitionEpoch {
        /// The partition.
        partition: TopicPartition,
        /// The epoch that the proposer saw.
        expected: PartitionEpoch,
        /// The epoch in force.
        actual: PartitionEpoch,
    },
    /// The sender does not lead, or in another epoch.
    #[error(
        "partition {partition} is led by {actual:?} in epoch {actual_epoch}, not by {leader} in {leader_epoch}"
    )]
    NotLeader {
        /// The partition.
        partition: TopicPartition,
        /// The sender.
        leader: NodeId,
        /// The sender's leader epoch.
        leader_epoch: LeaderEpoch,
        /// The leader.
        actual: Option<NodeId>,
        /// Its epoch.
        actual_epoch: LeaderEpoch,
    },
    /// The proposed ISR is not a subset of the replicas that contains the leader.
    #[error(
        "partition {partition} cannot have the ISR {isr:?}: it must be of {replicas:?} and contain the leader"
    )]
    InvalidIsr {
        /// The partition.
        partition: TopicPartition,
        /// The proposed ISR.
        isr: Vec<NodeId>,
        /// The replicas.
        replicas: Vec<NodeId>,
    },
    /// The partition has a leader.
    #[error("partition {partition} is led by {leader}; an unclean election is only for one without a leader")]
    HasLeader {
        /// The partition.
        partition: TopicPartition,
        /// The leader.
        leader: NodeId,
    },
    /// No node has this id.
    #[error("there is no node {node}")]
    UnknownNode {
        /// The node.
        node: NodeId,
    },
    /// The node has registered anew.
    #[error("node {node} is registered at broker epoch {actual}, not at {expected}")]
    StaleBrokerEpoch {
        /// The node.
        node: NodeId,
        /// The epoch that the proposer saw.
        expected: BrokerEpoch,
        /// The epoch in force.
        actual: BrokerEpoch,
    },
    /// The node is fenced or stopping.
    #[error("node {node} is fenced or stopping")]
    Ineligible {
        /// The node.
        node: NodeId,
    },
    /// The node's id has a live session over another log directory (R1).
    #[error(
        "node {node} is live with the log directories {live:?}; refused to replace it by one with {given:?}"
    )]
    NodeIdInUse {
        /// The node.
        node: NodeId,
        /// Log directories of the live session.
        live: Vec<LogDirId>,
        /// Log directories of the one that registers.
        given: Vec<LogDirId>,
    },
    /// A registration without a log directory.
    #[error("node {node} registers without a log directory")]
    NoLogDir {
        /// The node.
        node: NodeId,
    },
    /// The node stores replicas.
    #[error("node {node} still stores {replicas} replicas")]
    NodeInUse {
        /// The node.
        node: NodeId,
        /// How many.
        replicas: usize,
    },
    /// Fewer producer ids are left than asked for, or none was asked for.
    #[error("cannot hand out {count} producer ids from {next} on: ids are below 2^53")]
    ProducerIds {
        /// How many were asked for.
        count: u64,
        /// The next id.
        next: u64,
    },
}

/// Applies the record at `index` of the controller's log to the image: the only way an image changes.
///
/// The image's applied index becomes `index` in every case, also for `record` = none, an entry without content (such
/// as a new leader's first). Deterministic: equal images and records give equal results.
///
/// # Errors
/// [`ApplyError`] if the record's expectations do not hold; nothing else changes then.
pub fn apply(image: &mut Image, record: Option<&Record>, index: u64) -> Result<Delta, ApplyError> {
    debug_assert!(index > image.applied_index, "records are applied in log order, each once");
    image.applied_index = index;
    let result = match record {
        None => Ok(Delta::new(Outcome::Done)),
        Some(Record::Bootstrap(record)) => bootstrap(image, record),
        Some(Record::RegisterNode(record)) => nodes::register(image, record, index),
        Some(Record::FenceNode(record)) => nodes::fence(image, *record),
        Some(Record::StopNode(record)) => nodes::stop(image, *record),
        Some(Record::UnregisterNode(record)) => nodes::unregister(image, *record),
        Some(Record::CreateTopic(record)) => topics::create(image, record, index),
        Some(Record::AlterTopic(record)) => topics::alter(image, record),
        Some(Record::DeleteTopic(record)) => topics::delete(image, *record, index),
        Some(Record::AlterPartition(record)) => partitions::alter(image, record),
        Some(Record::ElectUnclean(record)) => partitions::elect_unclean(image, *record),
        Some(Record::AllocateProducerIds(record)) => allocate_producer_ids(image, *record),
        Some(Record::SetFeature(record)) => set_feature(image, record),
    };
    debug_assert_eq!(image.check(), Ok(()), "after {record:?}");
    result
}

fn bootstrap(image: &mut Image, record: &Bootstrap) -> Result<Delta, ApplyError> {
    if let Some(actual) = image.cluster_id {
        return Err(ApplyError::AlreadyBootstrapped { actual, given: record.cluster_id });
    }
    image.cluster_id = Some(record.cluster_id);
    Arc::make_mut(&mut image.features).extend(record.features.iter().cloned());
    Ok(Delta::new(Outcome::Done))
}

fn set_feature(image: &mut Image, record: &SetFeature) -> Result<Delta, ApplyError> {
    let actual = image.feature(&record.name);
    if actual != record.expected_level {
        let (name, expected) = (record.name.clone(), record.expected_level);
        return Err(ApplyError::FeatureLevel { name, expected, actual });
    }
    let features = Arc::make_mut(&mut image.features);
    if record.level == 0 {
        features.remove(&record.name);
    } else {
        features.insert(record.name.clone(), record.level);
    }
    Ok(Delta::new(Outcome::Done))
}

fn allocate_producer_ids(image: &mut Image, record: AllocateProducerIds) -> Result<Delta, ApplyError> {
    let next = image.next_producer_id;
    let end = next.checked_add(record.count).filter(|end| *end <= PRODUCER_ID_END && *end > next);
    let end = end.ok_or(ApplyError::ProducerIds { count: record.count, next })?;
    image.next_producer_id = end;
    Ok(Delta::new(Outcome::ProducerIds(next..end)))
}

/// Puts a changed partition into the image and its id into the delta.
fn put_partition(image: &mut Image, delta: &mut Delta, partition: Partition) {
    let id = partition.id;
    debug_assert!(image.partition(id).is_some_and(|old| {
        old.partition_epoch < partition.partition_epoch && old.leader_epoch <= partition.leader_epoch
    }));
    if partition.leader.is_none() {
        delta.events.push(Event::NoLeader { partition: id });
    }
    delta.partitions.insert(id);
    let topic = Arc::make_mut(&mut image.topics).get_mut(&id.topic_id);
    let index = usize::try_from(id.partition.value()).ok();
    let slot = topic.zip(index).and_then(|(topic, index)| Arc::make_mut(topic).partitions.get_mut(index));
    if let Some(slot) = slot {
        *slot = Arc::new(partition);
    }
}
