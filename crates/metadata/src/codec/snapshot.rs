//! Images to and from `MetadataSnapshot`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use wharf_proto::persisted::v1 as pb;
use wharf_types::{PartitionIndex, TopicId, TopicPartition};

use super::DecodeError;
use super::value::*;
use crate::image::Image;
use crate::node::{Node, NodeState};
use crate::topic::{DeletedTopic, Partition, Topic};

/// Version of the snapshot's layout.
pub const SNAPSHOT_FORMAT: i32 = 1;

/// The bytes of an image: equal for equal images.
#[must_use]
pub fn encode_snapshot(image: &Image) -> Bytes {
    let features = image.features();
    let feature =
        |(name, level): (&str, u32)| pb::FeatureRecord { name: name.to_owned(), level: wire32(level) };
    pb::MetadataSnapshot {
        format: SNAPSHOT_FORMAT,
        applied_index: wire64(image.applied_index),
        cluster_id: image.cluster_id.map(|id| wire_id(id.as_bytes())).unwrap_or_default(),
        features: features.map(feature).collect(),
        nodes: image.nodes().map(|node| wire_node(node)).collect(),
        topics: image.topics().map(|topic| wire_topic(topic)).collect(),
        deleted_topics: image.deleted_topics().map(wire_deleted).collect(),
        next_producer_id: wire64(image.next_producer_id),
    }
    .encode_to_vec()
    .into()
}

/// The image of these bytes.
///
/// # Errors
/// [`DecodeError`] if the bytes are no snapshot that this version knows, or the image breaks an invariant.
pub fn decode_snapshot(bytes: Bytes) -> Result<Image, DecodeError> {
    let snapshot = pb::MetadataSnapshot::decode(bytes)?;
    if snapshot.format != SNAPSHOT_FORMAT {
        return Err(DecodeError::UnknownFormat { actual: snapshot.format, expected: SNAPSHOT_FORMAT });
    }
    let mut image = Image::empty(uint64("applied_index", snapshot.applied_index)?);
    image.next_producer_id = uint64("next_producer_id", snapshot.next_producer_id)?;
    if !snapshot.cluster_id.is_empty() {
        image.cluster_id = Some(cluster_id(&snapshot.cluster_id)?);
    }
    let mut features = BTreeMap::new();
    for feature in snapshot.features {
        features.insert(feature.name, uint32("level", feature.level)?);
    }
    let mut nodes = BTreeMap::new();
    for record in snapshot.nodes {
        let node = node(record)?;
        nodes.insert(node.id, Arc::new(node));
    }
    let (mut topics, mut names) = (BTreeMap::new(), BTreeMap::new());
    for record in &snapshot.topics {
        let topic = topic(record)?;
        names.insert(topic.name.clone(), topic.id);
        topics.insert(topic.id, Arc::new(topic));
    }
    let mut deleted = BTreeMap::new();
    for record in &snapshot.deleted_topics {
        let topic = deleted_topic(record)?;
        deleted.insert(topic.id, topic);
    }
    image.features = Arc::new(features);
    image.nodes = Arc::new(nodes);
    image.topics = Arc::new(topics);
    image.names = Arc::new(names);
    image.deleted = Arc::new(deleted);
    image.check()?;
    Ok(image)
}

fn wire_node(node: &Node) -> pb::NodeRecord {
    let state = match node.state {
        NodeState::Live => pb::NodeState::Live,
        NodeState::Stopping => pb::NodeState::Stopping,
        NodeState::Fenced => pb::NodeState::Fenced,
    };
    pb::NodeRecord {
        node_id: wire32(node.id.value()),
        incarnation: wire_id(node.incarnation.as_bytes()),
        broker_epoch: wire64(node.broker_epoch.value()),
        rack: node.rack.as_deref().map(str::to_owned),
        advertised_address: node.advertised_address.to_string(),
        log_dir_ids: node.log_dirs.iter().map(|dir| wire_id(dir.as_bytes())).collect(),
        boot_id: node.boot_id.to_string(),
        version: node.version.to_string(),
        state: state.into(),
    }
}

fn node(record: pb::NodeRecord) -> Result<Node, DecodeError> {
    let state = match pb::NodeState::try_from(record.state) {
        Ok(pb::NodeState::Live) => NodeState::Live,
        Ok(pb::NodeState::Stopping) => NodeState::Stopping,
        Ok(pb::NodeState::Fenced) => NodeState::Fenced,
        Ok(pb::NodeState::Unspecified) | Err(_) => return Err(invalid("state", record.state)),
    };
    Ok(Node {
        id: node_id(record.node_id)?,
        incarnation: incarnation(&record.incarnation)?,
        broker_epoch: broker_epoch(record.broker_epoch)?,
        rack: record.rack.map(Into::into),
        advertised_address: record.advertised_address.into(),
        log_dirs: log_dirs(&record.log_dir_ids)?,
        boot_id: record.boot_id.into(),
        version: record.version.into(),
        state,
    })
}

fn wire_topic(topic: &Topic) -> pb::TopicRecord {
    pb::TopicRecord {
        topic_id: wire_id(topic.id.as_bytes()),
        name: topic.name.as_str().to_owned(),
        config: wire_config(&topic.config),
        replication_factor: wire32(topic.replication_factor),
        min_isr: wire32(topic.min_isr),
        created_index: wire64(topic.created_index),
        partitions: topic.partitions.iter().map(|partition| wire_partition(partition)).collect(),
    }
}

fn topic(record: &pb::TopicRecord) -> Result<Topic, DecodeError> {
    let id = topic_id(&record.topic_id)?;
    let mut partitions = Vec::with_capacity(record.partitions.len());
    for (index, record) in (0..).zip(&record.partitions) {
        partitions.push(Arc::new(partition(id, PartitionIndex::new(index), record)?));
    }
    Ok(Topic {
        id,
        name: topic_name(&record.name)?,
        config: Arc::new(topic_config(&record.config)?),
        replication_factor: uint32("replication_factor", record.replication_factor)?,
        min_isr: uint32("min_isr", record.min_isr)?,
        created_index: uint64("created_index", record.created_index)?,
        partitions,
    })
}

fn wire_partition(partition: &Partition) -> pb::PartitionRecord {
    pb::PartitionRecord {
        replicas: wire_nodes(&partition.replicas),
        adding: wire_nodes(&partition.adding),
        removing: wire_nodes(&partition.removing),
        leader: partition.leader.map(|leader| wire32(leader.value())),
        leader_epoch: wire32(partition.leader_epoch.value()),
        partition_epoch: wire32(partition.partition_epoch.value()),
        isr: wire_nodes(&partition.isr),
        elr: wire_nodes(&partition.elr),
        last_known_elr: wire_nodes(&partition.last_known_elr),
        min_isr: wire32(partition.min_isr),
        durability: wire_durability(partition.durability),
        loss_generation: wire32(partition.loss_generation),
    }
}

fn partition(
    topic_id: TopicId,
    partition: PartitionIndex,
    record: &pb::PartitionRecord,
) -> Result<Partition, DecodeError> {
    Ok(Partition {
        id: TopicPartition { topic_id, partition },
        replicas: node_ids(&record.replicas)?,
        adding: node_ids(&record.adding)?,
        removing: node_ids(&record.removing)?,
        leader: record.leader.map(node_id).transpose()?,
        leader_epoch: leader_epoch(record.leader_epoch)?,
        partition_epoch: partition_epoch(record.partition_epoch)?,
        isr: node_ids(&record.isr)?,
        elr: node_ids(&record.elr)?,
        last_known_elr: node_ids(&record.last_known_elr)?,
        min_isr: uint32("min_isr", record.min_isr)?,
        durability: durability(record.durability)?,
        loss_generation: uint32("loss_generation", record.loss_generation)?,
    })
}

fn wire_deleted(topic: &DeletedTopic) -> pb::DeletedTopicRecord {
    pb::DeletedTopicRecord {
        topic_id: wire_id(topic.id.as_bytes()),
        name: topic.name.as_str().to_owned(),
        purge: topic.purge,
        deleted_index: wire64(topic.deleted_index),
    }
}

fn deleted_topic(record: &pb::DeletedTopicRecord) -> Result<DeletedTopic, DecodeError> {
    Ok(DeletedTopic {
        id: topic_id(&record.topic_id)?,
        name: topic_name(&record.name)?,
        purge: record.purge,
        deleted_index: uint64("deleted_index", record.deleted_index)?,
    })
}
