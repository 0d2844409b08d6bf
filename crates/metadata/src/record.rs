//! The records of the controller's log: one decision each, with what its proposer expected.

use std::sync::Arc;

use wharf_types::{BrokerEpoch, LeaderEpoch, NodeId, PartitionEpoch, TopicId, TopicName, TopicPartition};

use crate::node::{ClusterId, Incarnation, LogDirId};

/// One entry of the controller's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Names the cluster; the first record of every log.
    Bootstrap(Bootstrap),
    /// A storage node registers (R1).
    RegisterNode(RegisterNode),
    /// A node's session has expired (R2).
    FenceNode(NodeEpoch),
    /// A node has announced a controlled stop (R8).
    StopNode(NodeEpoch),
    /// A node is gone for good; refused while it stores replicas.
    UnregisterNode(NodeEpoch),
    /// A new topic.
    CreateTopic(CreateTopic),
    /// New configuration or more partitions.
    AlterTopic(AlterTopic),
    /// A topic goes, with its partitions.
    DeleteTopic(DeleteTopic),
    /// A leader proposes an ISR (R8).
    AlterPartition(AlterPartition),
    /// A leader is named that may lack committed records (R9).
    ElectUnclean(ElectUnclean),
    /// Producer ids are handed out.
    AllocateProducerIds(AllocateProducerIds),
    /// A feature is switched.
    SetFeature(SetFeature),
}

impl Record {
    /// The kind of record, for logs.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Record::Bootstrap(_) => "bootstrap",
            Record::RegisterNode(_) => "register node",
            Record::FenceNode(_) => "fence node",
            Record::StopNode(_) => "stop node",
            Record::UnregisterNode(_) => "unregister node",
            Record::CreateTopic(_) => "create topic",
            Record::AlterTopic(_) => "alter topic",
            Record::DeleteTopic(_) => "delete topic",
            Record::AlterPartition(_) => "alter partition",
            Record::ElectUnclean(_) => "elect unclean",
            Record::AllocateProducerIds(_) => "allocate producer ids",
            Record::SetFeature(_) => "set feature",
        }
    }
}

/// Names the cluster. Refused once it has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// Identity of the cluster.
    pub cluster_id: ClusterId,
    /// Features that are on from the start, each name once, with their levels.
    pub features: Vec<(String, u32)>,
}

/// A storage node registers. Its broker epoch is the raft index of this record (R1).
///
/// With the incarnation that is registered and live it is a retry and changes nothing. Otherwise the node leaves every
/// ISR and leadership, and is elected again where the rules allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterNode {
    /// The node.
    pub node_id: NodeId,
    /// Drawn at the start of its process.
    pub incarnation: Incarnation,
    /// The broker epoch in the clean-stop marker that it found, if it found one.
    pub marker: Option<BrokerEpoch>,
    /// Its log directories, whose locks it holds; at least one.
    pub log_dirs: Vec<LogDirId>,
    /// Failure domain, if the operator named one.
    pub rack: Option<Arc<str>>,
    /// Where other nodes reach it, as `host:port`.
    pub advertised_address: Arc<str>,
    /// Boot id of the kernel; empty if it could not be read (R1a).
    pub boot_id: Arc<str>,
    /// The version that it runs.
    pub version: Arc<str>,
    /// Whether its earlier processes recorded a failed write or flush since the last clean stop; then an equal boot id
    /// proves nothing (R1a).
    pub io_error_recorded: bool,
}

/// A node in one of its incarnations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEpoch {
    /// The node.
    pub node_id: NodeId,
    /// The registration that is meant; another one makes the record void.
    pub broker_epoch: BrokerEpoch,
}

/// A new topic, with its replicas placed by the proposer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTopic {
    /// Identity; drawn by the proposer, never reused.
    pub topic_id: TopicId,
    /// Name; must be free.
    pub name: TopicName,
    /// Configuration that was given, each name once.
    pub config: Vec<(String, String)>,
    /// `min.insync.replicas` in force.
    pub min_isr: u32,
    /// Replicas of each partition, the preferred leader first; all lists equally long.
    pub replicas: Vec<Vec<NodeId>>,
}

/// Changes a topic. Several changes of one record are made together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTopic {
    /// The topic.
    pub topic_id: TopicId,
    /// Configuration to set.
    pub set: Vec<(String, String)>,
    /// Names to take back to their defaults, after `set`.
    pub unset: Vec<String>,
    /// Partitions that the proposer saw; checked only if some are added.
    pub expected_partitions: u32,
    /// Replicas of each partition that is added.
    pub added: Vec<Vec<NodeId>>,
}

/// Deletes a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteTopic {
    /// The topic.
    pub topic_id: TopicId,
    /// Whether its files go at once, without the time in the trash.
    pub purge: bool,
}

/// A member of a proposed ISR, with the broker epoch that the leader saw in its fetch (trap 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsrMember {
    /// The node.
    pub node_id: NodeId,
    /// Its registration.
    pub broker_epoch: BrokerEpoch,
}

/// A leader proposes an ISR (R8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterPartition {
    /// The partition.
    pub partition: TopicPartition,
    /// Who proposes; must lead.
    pub leader: NodeId,
    /// Its registration.
    pub broker_epoch: BrokerEpoch,
    /// The leader epoch in which it leads.
    pub leader_epoch: LeaderEpoch,
    /// The partition epoch on which the proposal builds.
    pub partition_epoch: PartitionEpoch,
    /// The ISR, itself included.
    pub isr: Vec<IsrMember>,
}

/// An election that may lose committed records (R9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectUnclean {
    /// The partition; must be without a leader.
    pub partition: TopicPartition,
    /// The partition epoch on which the choice builds.
    pub partition_epoch: PartitionEpoch,
    /// The new leader: a replica that is eligible.
    pub leader: NodeId,
}

/// Hands out producer ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocateProducerIds {
    /// How many; at least 1.
    pub count: u64,
}

/// Switches a feature of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFeature {
    /// Name of the feature.
    pub name: String,
    /// The new level; 0 switches it off.
    pub level: u32,
    /// The level that the proposer saw.
    pub expected_level: u32,
}
