//! Records about topics: creation, configuration, growth, deletion.

use std::sync::Arc;

use wharf_types::limits::{PARTITIONS_PER_TOPIC_MAX, REPLICATION_FACTOR_MAX};
use wharf_types::{
    FlushPolicy, LeaderEpoch, NodeId, PartitionEpoch, PartitionIndex, TopicConfig, TopicConfigKey, TopicId,
    TopicPartition,
};

use super::{ApplyError, Delta, Outcome, put_partition};
use crate::image::Image;
use crate::record::{AlterTopic, CreateTopic, DeleteTopic};
use crate::topic::{DeletedTopic, Partition, Topic};

/// Creates a topic with all its partitions.
pub(super) fn create(image: &mut Image, record: &CreateTopic, index: u64) -> Result<Delta, ApplyError> {
    let topic_id = record.topic_id;
    if let Some(existing) = image.names.get(&record.name) {
        return Err(ApplyError::TopicExists { name: record.name.clone(), topic_id: *existing });
    }
    if image.topics.contains_key(&topic_id) || image.deleted.contains_key(&topic_id) {
        return Err(ApplyError::TopicIdUsed { topic_id });
    }
    let entries = record.config.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let config = TopicConfig::from_entries(entries)?;
    let replication_factor = replication_factor(&record.replicas)?;
    if record.min_isr == 0 || record.min_isr > replication_factor {
        return Err(ApplyError::InvalidMinIsr { min_isr: record.min_isr, replication_factor });
    }
    let mut topic = Topic {
        id: topic_id,
        name: record.name.clone(),
        config: Arc::new(config),
        replication_factor,
        min_isr: record.min_isr,
        created_index: index,
        partitions: Vec::new(),
    };
    add_partitions(image, &mut topic, &record.replicas)?;
    let mut delta = Delta::new(Outcome::Done);
    delta.topics.insert(topic_id);
    delta.partitions.extend(topic.partitions.iter().map(|partition| partition.id));
    Arc::make_mut(&mut image.names).insert(topic.name.clone(), topic_id);
    Arc::make_mut(&mut image.topics).insert(topic_id, Arc::new(topic));
    Ok(delta)
}

/// The replication factor of new partitions: that of the first; [`add_partitions`] holds the others to it.
fn replication_factor(replicas: &[Vec<NodeId>]) -> Result<u32, ApplyError> {
    let first = replicas.first().map_or(&[][..], Vec::as_slice);
    match u32::try_from(first.len()) {
        Ok(factor) if (1..=REPLICATION_FACTOR_MAX).contains(&factor) => Ok(factor),
        _ if replicas.is_empty() => {
            Err(ApplyError::PartitionsOutOfBounds { given: 0, max: PARTITIONS_PER_TOPIC_MAX })
        }
        _ => {
            let replicas = first.to_vec();
            Err(ApplyError::InvalidReplicas { partition: 0, replicas, expected: REPLICATION_FACTOR_MAX })
        }
    }
}

/// Adds partitions to a topic that is not in the image yet, or replaces one there.
fn add_partitions(image: &Image, topic: &mut Topic, added: &[Vec<NodeId>]) -> Result<(), ApplyError> {
    let given = topic.partitions.len() as u64 + added.len() as u64;
    if given == 0 || given > u64::from(PARTITIONS_PER_TOPIC_MAX) {
        return Err(ApplyError::PartitionsOutOfBounds { given, max: PARTITIONS_PER_TOPIC_MAX });
    }
    for replicas in added {
        let partition = topic.partition_count();
        let expected = topic.replication_factor;
        let distinct = replicas.iter().enumerate().all(|(at, node)| !replicas[..at].contains(node));
        if !distinct || u32::try_from(replicas.len()) != Ok(expected) {
            return Err(ApplyError::InvalidReplicas { partition, replicas: replicas.clone(), expected });
        }
        if let Some(node) = replicas.iter().copied().find(|node| image.node(*node).is_none()) {
            return Err(ApplyError::UnknownNode { node });
        }
        let isr: Vec<NodeId> = replicas.iter().copied().filter(|node| image.is_eligible(*node)).collect();
        let Some(leader) = isr.first().copied() else {
            return Err(ApplyError::NoEligibleReplica { partition, replicas: replicas.clone() });
        };
        topic.partitions.push(Arc::new(Partition {
            id: TopicPartition { topic_id: topic.id, partition: PartitionIndex::new(partition) },
            replicas: replicas.clone(),
            adding: Vec::new(),
            removing: Vec::new(),
            leader: Some(leader),
            leader_epoch: LeaderEpoch::default(),
            partition_epoch: PartitionEpoch::default(),
            isr,
            elr: Vec::new(),
            last_known_elr: Vec::new(),
            min_isr: topic.min_isr,
            durability: topic.config.flush_policy,
            loss_generation: 0,
        }));
    }
    Ok(())
}

/// Changes configuration and adds partitions.
pub(super) fn alter(image: &mut Image, record: &AlterTopic) -> Result<Delta, ApplyError> {
    let topic_id = record.topic_id;
    let before = image.topic(topic_id).cloned().ok_or(ApplyError::UnknownTopic { topic_id })?;
    let mut topic = Topic::clone(&before);
    if topic.name.is_internal() && refused_for_internal(record) {
        return Err(ApplyError::InternalTopic { name: topic.name });
    }
    let (config, min_isr) = altered_config(&topic, record)?;
    let durability = config.flush_policy;
    topic.config = Arc::new(config);
    topic.min_isr = min_isr;
    if !record.added.is_empty() {
        let (expected, actual) = (record.expected_partitions, topic.partition_count());
        if expected != actual {
            return Err(ApplyError::PartitionCount { topic_id, expected, actual });
        }
        add_partitions(image, &mut topic, &record.added)?;
    }
    let rules_changed = min_isr != before.min_isr || durability != before.config.flush_policy;
    let rules_change = |p: &Partition| rules_changed && (p.min_isr != min_isr || p.durability != durability);
    let without_isr = before.partitions.iter().find(|p| rules_change(p) && p.isr.is_empty());
    if let Some(partition) = without_isr {
        return Err(ApplyError::EmptyIsr { partition: partition.id });
    }
    let mut delta = Delta::new(Outcome::Done);
    delta.topics.insert(topic_id);
    let old_count = before.partitions.len();
    delta.partitions.extend(topic.partitions[old_count..].iter().map(|partition| partition.id));
    Arc::make_mut(&mut image.topics).insert(topic_id, Arc::new(topic));
    for partition in before.partitions.iter().filter(|p| rules_change(p)) {
        let after = with_rules(partition, min_isr, durability);
        put_partition(image, &mut delta, after);
    }
    Ok(delta)
}

/// Internal topics keep their partitions and are always in `ack` mode.
fn refused_for_internal(record: &AlterTopic) -> bool {
    let fixed = |name: &str| name == TopicConfigKey::FlushPolicy.name();
    !record.added.is_empty() || record.set.iter().any(|(name, _)| fixed(name))
}

/// The configuration and `min.insync.replicas` after a change.
fn altered_config(topic: &Topic, record: &AlterTopic) -> Result<(TopicConfig, u32), ApplyError> {
    let mut config = TopicConfig::clone(&topic.config);
    for (name, value) in &record.set {
        config.set(name, value)?;
    }
    for name in &record.unset {
        config.unset(name)?;
    }
    let key = TopicConfigKey::MinInsyncReplicas.name();
    let touched =
        record.set.iter().any(|(name, _)| name == key) || record.unset.iter().any(|name| name == key);
    let min_isr =
        if touched { config.min_insync_replicas_for(topic.replication_factor)? } else { topic.min_isr };
    Ok((config, min_isr))
}

/// The partition under another `min.insync.replicas` or durability: ELR and LastKnownELR were judged by the old one and
/// go (R8, trap 13).
fn with_rules(partition: &Partition, min_isr: u32, durability: FlushPolicy) -> Partition {
    let mut after = partition.clone();
    after.min_isr = min_isr;
    after.durability = durability;
    after.elr.clear();
    after.last_known_elr.clear();
    after.partition_epoch = after.partition_epoch.next();
    after
}

/// Deletes a topic and remembers that it was deleted.
pub(super) fn delete(image: &mut Image, record: DeleteTopic, index: u64) -> Result<Delta, ApplyError> {
    let topic_id: TopicId = record.topic_id;
    let topic = image.topic(topic_id).cloned().ok_or(ApplyError::UnknownTopic { topic_id })?;
    if topic.name.is_internal() {
        return Err(ApplyError::InternalTopic { name: topic.name.clone() });
    }
    Arc::make_mut(&mut image.topics).remove(&topic_id);
    Arc::make_mut(&mut image.names).remove(&topic.name);
    let deleted = Arc::make_mut(&mut image.deleted);
    let entry =
        DeletedTopic { id: topic_id, name: topic.name.clone(), purge: record.purge, deleted_index: index };
    deleted.insert(topic_id, entry);
    if deleted.len() > crate::DELETED_TOPICS_MAX
        && let Some(oldest) = deleted.values().min_by_key(|entry| entry.deleted_index).map(|entry| entry.id)
    {
        deleted.remove(&oldest);
    }
    let mut delta = Delta::new(Outcome::Done);
    delta.deleted_topics.insert(topic_id);
    Ok(delta)
}
