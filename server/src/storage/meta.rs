//! `partition.meta`: what each partition folder says of itself, so that a lost controller can be rebuilt (R3).

use prost::Message;
use wharf_metadata::RecoveredPartition;
use wharf_proto::persisted::v1 as pb;
use wharf_types::{LeaderEpoch, NodeId, PartitionEpoch, PartitionIndex, TopicId, TopicName, TopicPartition};

use super::partition::TopicSettings;

/// The bytes of a partition's meta file.
pub(crate) fn encode(id: TopicPartition, settings: &TopicSettings, replicas: &[NodeId]) -> Vec<u8> {
    let config = settings
        .config
        .overrides()
        .map(|(key, value)| pb::ConfigValue { name: key.name().to_owned(), value: value.to_owned() });
    pb::PartitionMeta {
        topic_id: id.topic_id.as_bytes().to_vec().into(),
        topic: settings.name.to_string(),
        partition: id.partition.to_wire(),
        config: config.collect(),
        replicas: replicas.iter().map(|node| node.value().cast_signed()).collect(),
        ..pb::PartitionMeta::default()
    }
    .encode_to_vec()
}

/// What a meta file says; none if it is not one that this version understands.
pub(crate) fn decode(bytes: &[u8]) -> Option<RecoveredPartition> {
    let meta = pb::PartitionMeta::decode(bytes).ok()?;
    let number = |value: i32| u32::try_from(value).ok();
    Some(RecoveredPartition {
        id: TopicPartition {
            topic_id: TopicId::from_slice(&meta.topic_id)?,
            partition: PartitionIndex::from_wire(meta.partition)?,
        },
        topic: TopicName::from_record(&meta.topic).ok()?,
        config: meta.config.into_iter().map(|entry| (entry.name, entry.value)).collect(),
        replicas: meta
            .replicas
            .into_iter()
            .map(|node| number(node).map(NodeId::new))
            .collect::<Option<_>>()?,
        partition_epoch: PartitionEpoch::new(number(meta.partition_epoch)?),
        leader_epoch: LeaderEpoch::new(number(meta.leader_epoch)?),
        loss_generation: number(meta.loss_generation)?,
    })
}
