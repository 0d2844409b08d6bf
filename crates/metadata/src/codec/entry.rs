//! Records to and from `MetadataEntry`.

use bytes::Bytes;
use prost::Message;
use wharf_proto::persisted::v1 as pb;
use wharf_proto::persisted::v1::metadata_entry::Change;
use wharf_types::NodeId;

use super::DecodeError;
use super::value::*;
use crate::record::*;

/// The bytes of a record.
#[must_use]
pub fn encode_record(record: &Record) -> Bytes {
    pb::MetadataEntry { change: Some(to_wire(record)) }.encode_to_vec().into()
}

/// The record of these bytes; none for an entry that decides nothing.
///
/// # Errors
/// [`DecodeError`]; the log is damaged or was written by a newer version.
pub fn decode_record(bytes: Bytes) -> Result<Option<Record>, DecodeError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let change = pb::MetadataEntry::decode(bytes)?.change.ok_or(DecodeError::UnknownRecord)?;
    from_wire(change).map(Some)
}

fn to_wire(record: &Record) -> Change {
    match record {
        Record::Bootstrap(record) => Change::Bootstrap(pb::BootstrapChange {
            cluster_id: wire_id(record.cluster_id.as_bytes()),
            features: record.features.iter().map(|(name, level)| wire_feature(name, *level)).collect(),
        }),
        Record::RegisterNode(record) => Change::RegisterNode(wire_register(record)),
        Record::FenceNode(record) => Change::FenceNode(wire_node_epoch(*record)),
        Record::StopNode(record) => Change::StopNode(wire_node_epoch(*record)),
        Record::UnregisterNode(record) => Change::UnregisterNode(wire_node_epoch(*record)),
        Record::CreateTopic(record) => Change::CreateTopic(pb::CreateTopicChange {
            topic_id: wire_id(record.topic_id.as_bytes()),
            name: record.name.as_str().to_owned(),
            config: wire_pairs(&record.config),
            min_isr: wire32(record.min_isr),
            replicas: wire_replicas(&record.replicas),
        }),
        Record::AlterTopic(record) => Change::AlterTopic(pb::AlterTopicChange {
            topic_id: wire_id(record.topic_id.as_bytes()),
            set: wire_pairs(&record.set),
            unset: record.unset.clone(),
            expected_partitions: wire32(record.expected_partitions),
            added: wire_replicas(&record.added),
        }),
        Record::DeleteTopic(record) => Change::DeleteTopic(pb::DeleteTopicChange {
            topic_id: wire_id(record.topic_id.as_bytes()),
            purge: record.purge,
        }),
        Record::AlterPartition(record) => Change::AlterPartition(wire_alter_partition(record)),
        Record::ElectUnclean(record) => Change::ElectUnclean(pb::ElectUncleanChange {
            topic_id: wire_id(record.partition.topic_id.as_bytes()),
            partition: record.partition.partition.to_wire(),
            partition_epoch: wire32(record.partition_epoch.value()),
            leader: wire32(record.leader.value()),
        }),
        Record::AllocateProducerIds(record) => {
            Change::AllocateProducerIds(pb::AllocateProducerIdsChange { count: wire64(record.count) })
        }
        Record::SetFeature(record) => Change::SetFeature(pb::SetFeatureChange {
            name: record.name.clone(),
            level: wire32(record.level),
            expected_level: wire32(record.expected_level),
        }),
    }
}

fn from_wire(change: Change) -> Result<Record, DecodeError> {
    Ok(match change {
        Change::Bootstrap(change) => Record::Bootstrap(Bootstrap {
            cluster_id: cluster_id(&change.cluster_id)?,
            features: change
                .features
                .into_iter()
                .map(|feature| Ok((feature.name, uint32("level", feature.level)?)))
                .collect::<Result<_, DecodeError>>()?,
        }),
        Change::RegisterNode(change) => Record::RegisterNode(register(change)?),
        Change::FenceNode(change) => Record::FenceNode(node_epoch(&change)?),
        Change::StopNode(change) => Record::StopNode(node_epoch(&change)?),
        Change::UnregisterNode(change) => Record::UnregisterNode(node_epoch(&change)?),
        Change::CreateTopic(change) => Record::CreateTopic(CreateTopic {
            topic_id: topic_id(&change.topic_id)?,
            name: topic_name(&change.name)?,
            config: pairs(change.config),
            min_isr: uint32("min_isr", change.min_isr)?,
            replicas: replicas(&change.replicas)?,
        }),
        Change::AlterTopic(change) => Record::AlterTopic(AlterTopic {
            topic_id: topic_id(&change.topic_id)?,
            set: pairs(change.set),
            unset: change.unset,
            expected_partitions: uint32("expected_partitions", change.expected_partitions)?,
            added: replicas(&change.added)?,
        }),
        Change::DeleteTopic(change) => {
            Record::DeleteTopic(DeleteTopic { topic_id: topic_id(&change.topic_id)?, purge: change.purge })
        }
        Change::AlterPartition(change) => Record::AlterPartition(alter_partition(&change)?),
        Change::ElectUnclean(change) => Record::ElectUnclean(ElectUnclean {
            partition: topic_partition(&change.topic_id, change.partition)?,
            partition_epoch: partition_epoch(change.partition_epoch)?,
            leader: node_id(change.leader)?,
        }),
        Change::AllocateProducerIds(change) => {
            Record::AllocateProducerIds(AllocateProducerIds { count: uint64("count", change.count)? })
        }
        Change::SetFeature(change) => Record::SetFeature(SetFeature {
            level: uint32("level", change.level)?,
            expected_level: uint32("expected_level", change.expected_level)?,
            name: change.name,
        }),
    })
}

fn wire_feature(name: &str, level: u32) -> pb::FeatureRecord {
    pb::FeatureRecord { name: name.to_owned(), level: wire32(level) }
}

fn wire_node_epoch(record: NodeEpoch) -> pb::NodeEpochChange {
    pb::NodeEpochChange {
        node_id: wire32(record.node_id.value()),
        broker_epoch: wire64(record.broker_epoch.value()),
    }
}

fn node_epoch(change: &pb::NodeEpochChange) -> Result<NodeEpoch, DecodeError> {
    Ok(NodeEpoch { node_id: node_id(change.node_id)?, broker_epoch: broker_epoch(change.broker_epoch)? })
}

fn wire_register(record: &RegisterNode) -> pb::RegisterNodeChange {
    pb::RegisterNodeChange {
        node_id: wire32(record.node_id.value()),
        incarnation: wire_id(record.incarnation.as_bytes()),
        marker_broker_epoch: record.marker.map(|epoch| wire64(epoch.value())),
        log_dir_ids: record.log_dirs.iter().map(|dir| wire_id(dir.as_bytes())).collect(),
        rack: record.rack.as_deref().map(str::to_owned),
        advertised_address: record.advertised_address.to_string(),
        boot_id: record.boot_id.to_string(),
        version: record.version.to_string(),
        io_error_recorded: record.io_error_recorded,
    }
}

fn register(change: pb::RegisterNodeChange) -> Result<RegisterNode, DecodeError> {
    Ok(RegisterNode {
        node_id: node_id(change.node_id)?,
        incarnation: incarnation(&change.incarnation)?,
        marker: change.marker_broker_epoch.map(broker_epoch).transpose()?,
        log_dirs: log_dirs(&change.log_dir_ids)?,
        rack: change.rack.map(Into::into),
        advertised_address: change.advertised_address.into(),
        boot_id: change.boot_id.into(),
        version: change.version.into(),
        io_error_recorded: change.io_error_recorded,
    })
}

fn wire_alter_partition(record: &AlterPartition) -> pb::AlterPartitionChange {
    let member = |member: &IsrMember| pb::IsrMember {
        node_id: wire32(member.node_id.value()),
        broker_epoch: wire64(member.broker_epoch.value()),
    };
    pb::AlterPartitionChange {
        topic_id: wire_id(record.partition.topic_id.as_bytes()),
        partition: record.partition.partition.to_wire(),
        leader: wire32(record.leader.value()),
        broker_epoch: wire64(record.broker_epoch.value()),
        leader_epoch: wire32(record.leader_epoch.value()),
        partition_epoch: wire32(record.partition_epoch.value()),
        isr: record.isr.iter().map(member).collect(),
    }
}

fn alter_partition(change: &pb::AlterPartitionChange) -> Result<AlterPartition, DecodeError> {
    let member = |member: &pb::IsrMember| {
        Ok(IsrMember { node_id: node_id(member.node_id)?, broker_epoch: broker_epoch(member.broker_epoch)? })
    };
    Ok(AlterPartition {
        partition: topic_partition(&change.topic_id, change.partition)?,
        leader: node_id(change.leader)?,
        broker_epoch: broker_epoch(change.broker_epoch)?,
        leader_epoch: leader_epoch(change.leader_epoch)?,
        partition_epoch: partition_epoch(change.partition_epoch)?,
        isr: change.isr.iter().map(member).collect::<Result<_, DecodeError>>()?,
    })
}

fn wire_replicas(lists: &[Vec<NodeId>]) -> Vec<pb::ReplicaList> {
    lists.iter().map(|nodes| pb::ReplicaList { nodes: wire_nodes(nodes) }).collect()
}

fn replicas(lists: &[pb::ReplicaList]) -> Result<Vec<Vec<NodeId>>, DecodeError> {
    lists.iter().map(|list| node_ids(&list.nodes)).collect()
}
