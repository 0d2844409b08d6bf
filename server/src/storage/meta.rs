//! `partition.meta`: what each partition folder says of itself, so that a lost controller can be rebuilt (R3).

use prost::Message;
use wharf_proto::persisted::v1 as pb;
use wharf_types::{NodeId, TopicPartition};

use super::partition::TopicSettings;

/// The bytes of a partition's meta file.
pub(crate) fn encode(id: TopicPartition, settings: &TopicSettings, replicas: &[NodeId]) -> Vec<u8> {
    let config = settings.config.overrides().map(|(key, value)| pb::ConfigValue {
        name: key.name().to_owned(),
        value: value.to_owned(),
    });
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
