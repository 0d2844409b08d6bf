//! Conversions of single values, shared by records and snapshots.

use std::fmt::Display;

use bytes::Bytes;
use wharf_proto::persisted::v1 as pb;
use wharf_types::{
    BrokerEpoch, FlushPolicy, LeaderEpoch, NodeId, PartitionEpoch, PartitionIndex, TopicConfig, TopicId,
    TopicName, TopicPartition,
};

use super::DecodeError;
use crate::node::{ClusterId, Incarnation, LogDirId};

pub(super) fn invalid(field: &'static str, value: impl Display) -> DecodeError {
    DecodeError::InvalidField { field, value: value.to_string() }
}

pub(super) fn uint32(field: &'static str, value: i32) -> Result<u32, DecodeError> {
    u32::try_from(value).map_err(|_| invalid(field, value))
}

pub(super) fn uint64(field: &'static str, value: i64) -> Result<u64, DecodeError> {
    u64::try_from(value).map_err(|_| invalid(field, value))
}

pub(super) fn node_id(value: i32) -> Result<NodeId, DecodeError> {
    uint32("node_id", value).map(NodeId::new)
}

pub(super) fn node_ids(values: &[i32]) -> Result<Vec<NodeId>, DecodeError> {
    values.iter().copied().map(node_id).collect()
}

pub(super) fn broker_epoch(value: i64) -> Result<BrokerEpoch, DecodeError> {
    uint64("broker_epoch", value).map(BrokerEpoch::new)
}

pub(super) fn leader_epoch(value: i32) -> Result<LeaderEpoch, DecodeError> {
    uint32("leader_epoch", value).map(LeaderEpoch::new)
}

pub(super) fn partition_epoch(value: i32) -> Result<PartitionEpoch, DecodeError> {
    uint32("partition_epoch", value).map(PartitionEpoch::new)
}

pub(super) fn topic_id(bytes: &Bytes) -> Result<TopicId, DecodeError> {
    TopicId::from_slice(bytes).ok_or_else(|| invalid("topic_id", format_args!("{} bytes", bytes.len())))
}

pub(super) fn cluster_id(bytes: &Bytes) -> Result<ClusterId, DecodeError> {
    ClusterId::from_slice(bytes).ok_or_else(|| invalid("cluster_id", format_args!("{} bytes", bytes.len())))
}

pub(super) fn incarnation(bytes: &Bytes) -> Result<Incarnation, DecodeError> {
    Incarnation::from_slice(bytes)
        .ok_or_else(|| invalid("incarnation", format_args!("{} bytes", bytes.len())))
}

pub(super) fn log_dirs(values: &[Bytes]) -> Result<Vec<LogDirId>, DecodeError> {
    let one = |bytes: &Bytes| {
        LogDirId::from_slice(bytes)
            .ok_or_else(|| invalid("log_dir_ids", format_args!("{} bytes", bytes.len())))
    };
    values.iter().map(one).collect()
}

pub(super) fn topic_name(name: &str) -> Result<TopicName, DecodeError> {
    TopicName::from_record(name).map_err(|error| invalid("name", error))
}

pub(super) fn topic_partition(id: &Bytes, partition: i32) -> Result<TopicPartition, DecodeError> {
    let partition = PartitionIndex::from_wire(partition).ok_or_else(|| invalid("partition", partition))?;
    Ok(TopicPartition { topic_id: topic_id(id)?, partition })
}

pub(super) fn durability(value: i32) -> Result<FlushPolicy, DecodeError> {
    match pb::FlushPolicy::try_from(value) {
        Ok(pb::FlushPolicy::Unspecified | pb::FlushPolicy::Ack) => Ok(FlushPolicy::Ack),
        Ok(pb::FlushPolicy::Interval) => Ok(FlushPolicy::Interval),
        Ok(pb::FlushPolicy::Os) => Ok(FlushPolicy::Os),
        Err(_) => Err(invalid("durability", value)),
    }
}

pub(super) fn topic_config(values: &[pb::ConfigValue]) -> Result<TopicConfig, DecodeError> {
    let entries = values.iter().map(|value| (value.name.as_str(), value.value.as_str()));
    TopicConfig::from_entries(entries).map_err(|error| invalid("config", error))
}

pub(super) fn pairs(values: Vec<pb::ConfigValue>) -> Vec<(String, String)> {
    values.into_iter().map(|value| (value.name, value.value)).collect()
}

/// Numbers that are bounded far below the wire's range everywhere they arise; cut there rather than wrapped.
pub(super) fn wire32(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

pub(super) fn wire64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn wire_nodes(nodes: &[NodeId]) -> Vec<i32> {
    nodes.iter().map(|node| wire32(node.value())).collect()
}

pub(super) fn wire_id(bytes: &[u8; 16]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

pub(super) fn wire_durability(policy: FlushPolicy) -> i32 {
    let policy = match policy {
        FlushPolicy::Ack => pb::FlushPolicy::Ack,
        FlushPolicy::Interval => pb::FlushPolicy::Interval,
        FlushPolicy::Os => pb::FlushPolicy::Os,
    };
    policy.into()
}

pub(super) fn wire_pairs(pairs: &[(String, String)]) -> Vec<pb::ConfigValue> {
    pairs.iter().map(|(name, value)| pb::ConfigValue { name: name.clone(), value: value.clone() }).collect()
}

pub(super) fn wire_config(config: &TopicConfig) -> Vec<pb::ConfigValue> {
    let one = |(key, value): (wharf_types::TopicConfigKey, &str)| pb::ConfigValue {
        name: key.name().to_owned(),
        value: value.to_owned(),
    };
    let mut values: Vec<pb::ConfigValue> = config.overrides().map(one).collect();
    values.sort_by(|a, b| a.name.cmp(&b.name));
    values
}
