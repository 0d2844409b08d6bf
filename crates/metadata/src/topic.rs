//! Topics and partitions as the cluster image knows them (R4).

use std::sync::Arc;

use wharf_types::{
    FlushPolicy, LeaderEpoch, NodeId, PartitionEpoch, PartitionIndex, TopicConfig, TopicId, TopicName,
    TopicPartition,
};

/// The partition record of R4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Which partition this is.
    pub id: TopicPartition,
    /// The nodes that store it, the preferred leader first; each once.
    pub replicas: Vec<NodeId>,
    /// Those of them that a reassignment adds.
    pub adding: Vec<NodeId>,
    /// Those of them that a reassignment removes.
    pub removing: Vec<NodeId>,
    /// The node that leads it; always in the ISR.
    pub leader: Option<NodeId>,
    /// Rises by one with every change of the leader, also to none.
    pub leader_epoch: LeaderEpoch,
    /// Rises by one with every change of this record.
    pub partition_epoch: PartitionEpoch,
    /// In-sync replicas, in the order of `replicas`.
    pub isr: Vec<NodeId>,
    /// Out of the ISR, yet known to hold all that is committed (R8).
    pub elr: Vec<NodeId>,
    /// Those that would be in the ELR, had they not stopped uncleanly (R8).
    pub last_known_elr: Vec<NodeId>,
    /// How many in-sync replicas a commit needs; at least 1, at most the replication factor.
    pub min_isr: u32,
    /// When appended records are flushed (R7).
    pub durability: FlushPolicy,
    /// Rises by one with every election that may have lost committed records (R9).
    pub loss_generation: u32,
}

/// A topic with its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Identity; never reused.
    pub id: TopicId,
    /// Name.
    pub name: TopicName,
    /// Configuration. `min.insync.replicas` in force is in the partitions (R4), since it is stored at creation.
    pub config: Arc<TopicConfig>,
    /// Replication factor of partitions that are added later.
    pub replication_factor: u32,
    /// `min.insync.replicas` in force, as chosen at creation or set since.
    pub min_isr: u32,
    /// Raft index of the record that created it.
    pub created_index: u64,
    pub(crate) partitions: Vec<Arc<Partition>>,
}

impl Topic {
    /// The partitions, by their number from 0.
    #[must_use]
    pub fn partitions(&self) -> &[Arc<Partition>] {
        &self.partitions
    }

    /// One partition.
    #[must_use]
    pub fn partition(&self, index: PartitionIndex) -> Option<&Arc<Partition>> {
        self.partitions.get(usize::try_from(index.value()).ok()?)
    }

    /// How many partitions there are; at least 1.
    #[must_use]
    pub fn partition_count(&self) -> u32 {
        u32::try_from(self.partitions.len()).unwrap_or(u32::MAX)
    }
}

/// A topic that was deleted: what a storage node needs to move its folders to the trash. Only this deletes; that a
/// topic is missing from the image means nothing (trap 29).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedTopic {
    /// Identity.
    pub id: TopicId,
    /// The name it had.
    pub name: TopicName,
    /// Whether its files go at once, without the time in the trash.
    pub purge: bool,
    /// Raft index of the deletion.
    pub deleted_index: u64,
}
