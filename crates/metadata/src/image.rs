//! The cluster image and its invariants.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_types::{NodeId, TopicId, TopicName, TopicPartition};

use crate::node::{ClusterId, Node};
use crate::topic::{DeletedTopic, Partition, Topic};

/// Everything the cluster has decided, as of one index of the controller's log.
///
/// Cloning copies a few pointers; a clone that is still held makes the next change copy the maps' pointers once, not
/// what they point to. Only [`crate::apply`] changes an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub(crate) cluster_id: Option<ClusterId>,
    pub(crate) features: Arc<BTreeMap<String, u32>>,
    pub(crate) nodes: Arc<BTreeMap<NodeId, Arc<Node>>>,
    pub(crate) topics: Arc<BTreeMap<TopicId, Arc<Topic>>>,
    pub(crate) names: Arc<BTreeMap<TopicName, TopicId>>,
    pub(crate) deleted: Arc<BTreeMap<TopicId, DeletedTopic>>,
    pub(crate) next_producer_id: u64,
    pub(crate) applied_index: u64,
}

impl Image {
    /// The image before the first record, as of `index`.
    #[must_use]
    pub fn empty(index: u64) -> Self {
        Image {
            cluster_id: None,
            features: Arc::default(),
            nodes: Arc::default(),
            topics: Arc::default(),
            names: Arc::default(),
            deleted: Arc::default(),
            next_producer_id: crate::PRODUCER_ID_FIRST,
            applied_index: index,
        }
    }

    /// Identity of the cluster; none before the first record.
    #[must_use]
    pub fn cluster_id(&self) -> Option<ClusterId> {
        self.cluster_id
    }

    /// Level of a feature; 0 if it is off.
    #[must_use]
    pub fn feature(&self, name: &str) -> u32 {
        self.features.get(name).copied().unwrap_or(0)
    }

    /// Features that are on, with their levels.
    pub fn features(&self) -> impl Iterator<Item = (&str, u32)> {
        self.features.iter().map(|(name, level)| (name.as_str(), *level))
    }

    /// A node, if it ever registered and was not removed.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.nodes.get(&id)
    }

    /// The registered nodes, by id.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Arc<Node>> {
        self.nodes.values()
    }

    /// Whether the node may lead, join an ISR or get new replicas (R1).
    #[must_use]
    pub fn is_eligible(&self, id: NodeId) -> bool {
        self.nodes.get(&id).is_some_and(|node| node.is_eligible())
    }

    /// The topic of this id.
    #[must_use]
    pub fn topic(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.topics.get(&id)
    }

    /// The topic of this name, internal topics included.
    #[must_use]
    pub fn topic_by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(self.names.get(name)?)
    }

    /// The topics in the order of their names, internal ones included.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.names.values().filter_map(|id| self.topics.get(id))
    }

    /// The topics whose names come after `name`, in order; for lists in pages.
    pub fn topics_after<'a>(&'a self, name: &'a TopicName) -> impl Iterator<Item = &'a Arc<Topic>> + 'a {
        let bounds = (std::ops::Bound::Excluded(name), std::ops::Bound::Unbounded);
        self.names.range::<TopicName, _>(bounds).filter_map(|(_, id)| self.topics.get(id))
    }

    /// How many topics there are, internal ones included.
    #[must_use]
    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// One partition.
    #[must_use]
    pub fn partition(&self, id: TopicPartition) -> Option<&Arc<Partition>> {
        self.topics.get(&id.topic_id)?.partition(id.partition)
    }

    /// The partitions of which `node` is a replica.
    pub fn partitions_of(&self, node: NodeId) -> impl Iterator<Item = &Arc<Partition>> {
        let all = self.topics.values().flat_map(|topic| topic.partitions.iter());
        all.filter(move |partition| partition.replicas.contains(&node))
    }

    /// A topic whose deletion was committed and is still remembered.
    #[must_use]
    pub fn deleted_topic(&self, id: TopicId) -> Option<&DeletedTopic> {
        self.deleted.get(&id)
    }

    /// The deletions that are remembered.
    pub fn deleted_topics(&self) -> impl ExactSizeIterator<Item = &DeletedTopic> {
        self.deleted.values()
    }

    /// The first producer id that was not handed out.
    #[must_use]
    pub fn next_producer_id(&self) -> u64 {
        self.next_producer_id
    }

    /// Index of the last record that the image contains.
    #[must_use]
    pub fn applied_index(&self) -> u64 {
        self.applied_index
    }

    /// Checks the invariants of the crate's documentation.
    ///
    /// # Errors
    /// [`InvariantViolation`] names the first that does not hold. An image that came from [`crate::apply`] or from a
    /// snapshot never fails.
    pub fn check(&self) -> Result<(), InvariantViolation> {
        if self.names.len() != self.topics.len() {
            let (names, topics) = (self.names.len(), self.topics.len());
            return Err(InvariantViolation::Names { names, topics });
        }
        for (name, id) in self.names.iter() {
            let topic = self.topics.get(id).filter(|topic| topic.name == *name && topic.id == *id);
            let topic = topic.ok_or_else(|| InvariantViolation::NameWithoutTopic { name: name.clone() })?;
            for (index, partition) in topic.partitions.iter().enumerate() {
                if partition.id.topic_id != *id
                    || usize::try_from(partition.id.partition.value()) != Ok(index)
                {
                    return Err(InvariantViolation::Partition {
                        id: partition.id,
                        rule: "is numbered without gaps",
                    });
                }
                self.check_partition(partition)
                    .map_err(|rule| InvariantViolation::Partition { id: partition.id, rule })?;
            }
        }
        for node in self.nodes.values() {
            if node.broker_epoch.value() > self.applied_index {
                return Err(InvariantViolation::BrokerEpochAhead {
                    node: node.id,
                    applied: self.applied_index,
                });
            }
        }
        Ok(())
    }

    fn check_partition(&self, p: &Partition) -> Result<(), &'static str> {
        let distinct =
            |nodes: &[NodeId]| nodes.iter().enumerate().all(|(at, node)| !nodes[..at].contains(node));
        let within = |nodes: &[NodeId]| distinct(nodes) && nodes.iter().all(|node| p.replicas.contains(node));
        if p.replicas.is_empty() || !distinct(&p.replicas) {
            return Err("has replicas, each once");
        }
        if ![&p.isr, &p.elr, &p.last_known_elr, &p.adding, &p.removing].into_iter().all(|set| within(set)) {
            return Err("has subsets of its replicas");
        }
        if p.elr.iter().any(|node| p.isr.contains(node) || p.last_known_elr.contains(node))
            || p.last_known_elr.iter().any(|node| p.isr.contains(node))
        {
            return Err("has ISR, ELR and LastKnownELR disjoint");
        }
        if !p.isr.iter().all(|node| self.is_eligible(*node)) {
            return Err("has only eligible nodes in its ISR");
        }
        match p.leader {
            Some(leader) if !p.isr.contains(&leader) => Err("is led from the ISR"),
            None if !p.isr.is_empty() => Err("has a leader while the ISR has members"),
            _ if p.min_isr == 0 => Err("needs at least one in-sync replica"),
            _ => Ok(()),
        }
    }
}

/// What is wrong with an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvariantViolation {
    /// Names and topics are not in bijection.
    #[error("{names} names for {topics} topics")]
    Names {
        /// How many names there are.
        names: usize,
        /// How many topics there are.
        topics: usize,
    },
    /// A name leads to no topic, or to one of another name.
    #[error("the name {name} leads to no topic of that name")]
    NameWithoutTopic {
        /// The name.
        name: TopicName,
    },
    /// A rule about partitions does not hold.
    #[error("partition {id} breaks the rule that each {rule}")]
    Partition {
        /// The partition.
        id: TopicPartition,
        /// The rule, as the end of a sentence.
        rule: &'static str,
    },
    /// A node registered after the image's last record.
    #[error("node {node} registered after index {applied}")]
    BrokerEpochAhead {
        /// The node.
        node: NodeId,
        /// Index of the image.
        applied: u64,
    },
}
