//! An image from what the partition folders say, for a controller whose log is lost (R3).
//!
//! Invariants: every broker epoch, partition epoch, leader epoch and producer id that the new image will lead to lies
//! above every one found; nobody leads and nobody is in sync until its node registers and the election rules let it.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_types::limits::{
    INTERNAL_TOPIC_PARTITIONS, NAME_BYTES_MAX, PARTITIONS_PER_TOPIC_MAX, PRODUCER_ID_END,
};
use wharf_types::{
    BrokerEpoch, LeaderEpoch, NodeId, PartitionEpoch, PartitionIndex, TopicConfig, TopicConfigKey, TopicId,
    TopicName, TopicPartition,
};

use crate::image::Image;
use crate::node::ClusterId;
use crate::topic::{Partition, Topic};

/// How far the new log and producer ids start above what was found, for what was handed out but never seen.
pub const REBUILD_MARGIN: u64 = 1 << 20;

/// One partition folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredPartition {
    /// The partition.
    pub id: TopicPartition,
    /// Name of its topic.
    pub topic: TopicName,
    /// Configuration of its topic.
    pub config: Vec<(String, String)>,
    /// Its replicas, the preferred leader first.
    pub replicas: Vec<NodeId>,
    /// The highest partition epoch that the folder knows.
    pub partition_epoch: PartitionEpoch,
    /// The highest leader epoch in `partition.meta`, the epoch file and the log.
    pub leader_epoch: LeaderEpoch,
    /// Its loss generation.
    pub loss_generation: u32,
}

/// What the data directories say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveredMetadata {
    /// Identity of the cluster in the log directories, if they agree on one.
    pub cluster_id: Option<ClusterId>,
    /// The partition folders; not those in the trash.
    pub partitions: Vec<RecoveredPartition>,
    /// The highest broker epoch in markers and metas.
    pub highest_broker_epoch: BrokerEpoch,
    /// The highest producer id in snapshots and logs.
    pub highest_producer_id: Option<u64>,
}

/// What a person should know about a rebuilt image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RebuildNote {
    /// Two topics had one name; this one got another.
    Renamed {
        /// The topic.
        topic_id: TopicId,
        /// The name that both had.
        from: TopicName,
        /// Its new name.
        to: TopicName,
    },
    /// No folder of this partition was found. It starts empty; its records, if there were any, are lost.
    MissingPartition {
        /// The partition.
        id: TopicPartition,
    },
    /// A folder was left out: it names no replicas, or its number is beyond any topic.
    Ignored {
        /// The partition.
        id: TopicPartition,
    },
    /// A configuration value was left out, since it is not valid.
    ConfigDropped {
        /// The topic.
        topic_id: TopicId,
        /// Name of the value.
        name: String,
    },
}

/// Why no image can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RebuildError {
    /// No producer id is left above those found.
    #[error("producer id {highest} was found; none is left above it")]
    ProducerIdsExhausted {
        /// The highest id found.
        highest: u64,
    },
    /// The parts do not make an image.
    #[error("the image that was rebuilt is not valid: {0}")]
    Invariant(#[from] crate::InvariantViolation),
}

/// The image of what was found, and what a person should know about it. `cluster_id` is used if none was found.
///
/// # Errors
/// [`RebuildError`].
pub fn rebuild(
    found: &RecoveredMetadata,
    cluster_id: ClusterId,
) -> Result<(Image, Vec<RebuildNote>), RebuildError> {
    let mut notes = Vec::new();
    let mut image = Image::empty(found.highest_broker_epoch.value().saturating_add(REBUILD_MARGIN));
    image.cluster_id = Some(found.cluster_id.unwrap_or(cluster_id));
    let version = (crate::METADATA_VERSION_FEATURE.to_owned(), crate::METADATA_VERSION);
    image.features = Arc::new(BTreeMap::from([version]));
    if let Some(highest) = found.highest_producer_id {
        let next = highest.saturating_add(1).saturating_add(REBUILD_MARGIN);
        if next >= PRODUCER_ID_END {
            return Err(RebuildError::ProducerIdsExhausted { highest });
        }
        image.next_producer_id = next;
    }
    let mut topics: Vec<(TopicId, BTreeMap<u32, RecoveredPartition>)> =
        by_topic(found, &mut notes).into_iter().collect();
    // Where two topics claim one name, the larger one keeps it.
    topics.sort_by_key(|(id, partitions)| (std::cmp::Reverse(partitions.len()), *id));
    for (id, partitions) in topics {
        let topic = topic(&image, id, &partitions, &mut notes);
        Arc::make_mut(&mut image.names).insert(topic.name.clone(), id);
        Arc::make_mut(&mut image.topics).insert(id, Arc::new(topic));
    }
    image.check()?;
    Ok((image, notes))
}

/// The folders by topic and number; of several of one partition, what each knows best.
fn by_topic(
    found: &RecoveredMetadata,
    notes: &mut Vec<RebuildNote>,
) -> BTreeMap<TopicId, BTreeMap<u32, RecoveredPartition>> {
    let mut topics: BTreeMap<TopicId, BTreeMap<u32, RecoveredPartition>> = BTreeMap::new();
    for folder in &found.partitions {
        let number = folder.id.partition.value();
        if folder.replicas.is_empty() || number >= PARTITIONS_PER_TOPIC_MAX {
            notes.push(RebuildNote::Ignored { id: folder.id });
            continue;
        }
        let known = topics.entry(folder.id.topic_id).or_default();
        let merged = match known.remove(&number) {
            None => folder.clone(),
            Some(other) => {
                let leader_epoch = folder.leader_epoch.max(other.leader_epoch);
                let loss_generation = folder.loss_generation.max(other.loss_generation);
                let newer =
                    if folder.partition_epoch > other.partition_epoch { folder.clone() } else { other };
                RecoveredPartition { leader_epoch, loss_generation, ..newer }
            }
        };
        known.insert(number, merged);
    }
    topics
}

fn topic(
    image: &Image,
    id: TopicId,
    folders: &BTreeMap<u32, RecoveredPartition>,
    notes: &mut Vec<RebuildNote>,
) -> Topic {
    // Non-empty by construction; the newest folder speaks for the topic.
    let newest = folders.values().max_by_key(|folder| folder.partition_epoch);
    let (given, entries) = newest.map_or((TopicName::internal("__lost"), &[][..]), |folder| {
        (folder.topic.clone(), folder.config.as_slice())
    });
    let name = free_name(image, id, &given, notes);
    let config = config(id, entries, notes);
    let replication_factor = folders.values().map(|folder| folder.replicas.len()).max().unwrap_or(1);
    let replication_factor = u32::try_from(replication_factor).unwrap_or(u32::MAX);
    let chosen = config.min_insync_replicas.unwrap_or(2).min(replication_factor).max(1);
    let last = folders.keys().next_back().copied().unwrap_or(0);
    let count = if name.is_internal() { INTERNAL_TOPIC_PARTITIONS.max(last + 1) } else { last + 1 };
    let highest_leader_epoch = folders.values().map(|folder| folder.leader_epoch).max().unwrap_or_default();
    let highest_partition_epoch =
        folders.values().map(|folder| folder.partition_epoch).max().unwrap_or_default();
    let highest_loss = folders.values().map(|folder| folder.loss_generation).max().unwrap_or(0);
    let sibling = newest.map(|folder| folder.replicas.clone()).unwrap_or_default();
    let partition = |number: u32| {
        let partition_id = TopicPartition { topic_id: id, partition: PartitionIndex::new(number) };
        let folder = folders.get(&number);
        if folder.is_none() {
            notes.push(RebuildNote::MissingPartition { id: partition_id });
        }
        let replicas = deduplicated(folder.map_or(&sibling, |folder| &folder.replicas));
        Arc::new(Partition {
            id: partition_id,
            min_isr: chosen.min(u32::try_from(replicas.len()).unwrap_or(u32::MAX)),
            // Whether they stopped cleanly is not known, so nobody is eligible without a look at its log (R1a).
            last_known_elr: replicas.clone(),
            replicas,
            adding: Vec::new(),
            removing: Vec::new(),
            leader: None,
            leader_epoch: folder.map_or(highest_leader_epoch, |folder| folder.leader_epoch).next(),
            partition_epoch: folder.map_or(highest_partition_epoch, |folder| folder.partition_epoch).next(),
            isr: Vec::new(),
            elr: Vec::new(),
            durability: config.flush_policy,
            loss_generation: folder.map_or(highest_loss.saturating_add(1), |folder| folder.loss_generation),
        })
    };
    let partitions = (0..count).map(partition).collect();
    Topic {
        id,
        name,
        min_isr: chosen,
        config: Arc::new(config),
        replication_factor,
        created_index: image.applied_index,
        partitions,
    }
}

fn deduplicated(nodes: &[NodeId]) -> Vec<NodeId> {
    let mut distinct: Vec<NodeId> = Vec::with_capacity(nodes.len());
    for node in nodes {
        if !distinct.contains(node) {
            distinct.push(*node);
        }
    }
    distinct
}

/// The topic's name, or one made from it and the topic's identity if it is taken.
fn free_name(image: &Image, id: TopicId, given: &TopicName, notes: &mut Vec<RebuildNote>) -> TopicName {
    if !image.names.contains_key(given) {
        return given.clone();
    }
    let suffix = format!(".recovered-{id}");
    let kept: String =
        given.as_str().trim_start_matches('_').chars().take(NAME_BYTES_MAX - suffix.len()).collect();
    // Made of the characters of a name, not reserved and short enough.
    let renamed = TopicName::new(&format!("{kept}{suffix}")).unwrap_or_else(|_| given.clone());
    notes.push(RebuildNote::Renamed { topic_id: id, from: given.clone(), to: renamed.clone() });
    renamed
}

fn config(id: TopicId, entries: &[(String, String)], notes: &mut Vec<RebuildNote>) -> TopicConfig {
    let mut config = TopicConfig::default();
    for (name, value) in entries {
        if config.set(name, value).is_err() {
            let name = TopicConfigKey::parse(name).map_or_else(|| name.clone(), |key| key.name().to_owned());
            notes.push(RebuildNote::ConfigDropped { topic_id: id, name });
        }
    }
    config
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use wharf_types::FlushPolicy;

    use super::*;
    use crate::{Incarnation, LogDirId, Outcome, Record, RegisterNode, apply};

    fn folder(topic: u8, name: &str, number: u32, epochs: (u32, u32)) -> RecoveredPartition {
        RecoveredPartition {
            id: TopicPartition {
                topic_id: TopicId::from_bytes([topic; 16]),
                partition: PartitionIndex::new(number),
            },
            topic: TopicName::from_record(name).unwrap(),
            config: vec![("flush.policy".into(), "os".into()), ("gone".into(), "1".into())],
            replicas: vec![NodeId::new(1)],
            partition_epoch: PartitionEpoch::new(epochs.0),
            leader_epoch: LeaderEpoch::new(epochs.1),
            loss_generation: 2,
        }
    }

    fn found(partitions: Vec<RecoveredPartition>) -> RecoveredMetadata {
        RecoveredMetadata {
            cluster_id: None,
            partitions,
            highest_broker_epoch: BrokerEpoch::new(500),
            highest_producer_id: Some(7_000),
        }
    }

    fn register() -> Record {
        Record::RegisterNode(RegisterNode {
            node_id: NodeId::new(1),
            incarnation: Incarnation::from_bytes([1; 16]),
            marker: None,
            log_dirs: vec![LogDirId::from_bytes([1; 16])],
            rack: None,
            advertised_address: "localhost:7071".into(),
            boot_id: "".into(),
            version: "1".into(),
            io_error_recorded: false,
        })
    }

    #[test]
    fn everything_starts_above_what_was_found() {
        let found =
            found(vec![folder(1, "a", 0, (4, 9)), folder(1, "a", 2, (8, 3)), folder(1, "a", 0, (5, 1))]);
        let (mut image, notes) = rebuild(&found, ClusterId::from_bytes([3; 16])).unwrap();
        assert_eq!(image.next_producer_id(), 7_001 + REBUILD_MARGIN);
        let topic = image.topic_by_name("a").unwrap();
        let epochs: Vec<(u32, u32, u32)> = topic
            .partitions()
            .iter()
            .map(|p| (p.partition_epoch.value(), p.leader_epoch.value(), p.loss_generation))
            .collect();
        assert_eq!(epochs, [(6, 10, 2), (9, 10, 3), (9, 4, 2)]);
        assert_eq!(topic.config.flush_policy, FlushPolicy::Os);
        let missing = topic.partitions()[1].id;
        let topic_id = topic.id;
        assert_eq!(
            notes,
            [
                RebuildNote::ConfigDropped { topic_id, name: "gone".into() },
                RebuildNote::MissingPartition { id: missing },
            ]
        );
        let index = image.applied_index() + 1;
        let delta = apply(&mut image, Some(&register()), index).unwrap();
        assert!(matches!(delta.outcome, Outcome::Registered(epoch) if epoch.value() > 500));
        let topic = image.topic_by_name("a").unwrap();
        assert!(topic.partitions().iter().all(|partition| partition.leader == Some(NodeId::new(1))));
    }

    #[test]
    fn two_topics_of_one_name_both_survive() {
        let found =
            found(vec![folder(1, "a", 0, (1, 1)), folder(2, "a", 0, (1, 1)), folder(2, "a", 1, (1, 1))]);
        let (image, notes) = rebuild(&found, ClusterId::from_bytes([3; 16])).unwrap();
        assert_eq!(image.topic_by_name("a").unwrap().id, TopicId::from_bytes([2; 16]));
        assert_eq!(image.topic_count(), 2);
        assert!(notes.iter().any(|note| matches!(note, RebuildNote::Renamed { .. })));
    }

    #[test]
    fn the_offsets_topic_keeps_its_sixteen_partitions() {
        let (image, notes) =
            rebuild(&found(vec![folder(1, "__offsets", 3, (1, 1))]), ClusterId::from_bytes([3; 16])).unwrap();
        assert_eq!(image.topic_by_name("__offsets").unwrap().partition_count(), 16);
        assert_eq!(
            notes.iter().filter(|note| matches!(note, RebuildNote::MissingPartition { .. })).count(),
            15
        );
    }

    #[test]
    fn unusable_folders_are_told_of() {
        let mut nobody = folder(1, "a", 0, (1, 1));
        nobody.replicas.clear();
        let beyond = folder(1, "a", 20_000, (1, 1));
        let (image, notes) = rebuild(&found(vec![nobody, beyond]), ClusterId::from_bytes([3; 16])).unwrap();
        assert_eq!((image.topic_count(), notes.len()), (0, 2));
    }
}
