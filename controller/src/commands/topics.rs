//! Commands on topics.

use std::sync::Arc;

use wharf_metadata::{AlterTopic, CreateTopic, DeleteTopic, Image, Topic, place};
use wharf_types::limits::{INTERNAL_TOPIC_PARTITIONS, PARTITIONS_PER_TOPIC_MAX, REPLICATION_FACTOR_MAX};
use wharf_types::{TopicConfig, TopicConfigKey, TopicId, TopicName};

use super::Validation;
use crate::error::CommandError;

/// Replication factor where none is asked for, as far as there are storage nodes.
const REPLICATION_FACTOR_DEFAULT: u32 = 3;

/// Asks for a new topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateTopicRequest {
    /// Its name.
    pub name: String,
    /// Its partitions; 0 for the default, 1.
    pub partitions: u32,
    /// Its replicas; 0 for the default, min(3, storage nodes now).
    pub replication_factor: u32,
    /// Its configuration.
    pub config: Vec<(String, String)>,
    /// Whether it is really made.
    pub validation: Validation,
}

/// A topic that was made, or would have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicCreated {
    /// The topic.
    pub topic: Arc<Topic>,
}

/// Asks for changes of a topic; all are made or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlterTopicRequest {
    /// Its name.
    pub name: String,
    /// Configuration to set.
    pub set: Vec<(String, String)>,
    /// Names to take back to their defaults.
    pub unset: Vec<String>,
    /// The new number of partitions, at least the present one.
    pub partitions: Option<u32>,
    /// Whether the topic has keyed records; asked of its leaders by the caller, who may say true if it cannot tell.
    pub has_keyed_records: bool,
    /// Whether keys may move to other partitions.
    pub allow_key_remap: bool,
    /// Whether it is really done.
    pub validation: Validation,
}

/// A topic that was changed, or would have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicAltered {
    /// The topic after the change.
    pub topic: Arc<Topic>,
}

/// Asks for the deletion of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteTopicRequest {
    /// Its name.
    pub name: String,
    /// Whether its files go at once, without the time in the trash.
    pub purge: bool,
    /// Whether it is really done.
    pub validation: Validation,
}

/// A topic that was deleted, or would have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicDeleted {
    /// Its identity.
    pub topic_id: TopicId,
}

/// What a new topic needs to be random.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicIds {
    pub(crate) topic_id: TopicId,
    /// Where placement starts.
    pub(crate) seed: u64,
}

impl TopicIds {
    pub(crate) fn draw() -> Self {
        TopicIds { topic_id: TopicId::from_bytes(*uuid::Uuid::new_v4().as_bytes()), seed: rand::random() }
    }
}

/// The record that creates a topic.
pub(crate) fn create_topic(
    image: &Image,
    request: &CreateTopicRequest,
    ids: TopicIds,
) -> Result<CreateTopic, CommandError> {
    let name = TopicName::new(&request.name)?;
    let entries = request.config.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let config = TopicConfig::from_entries(entries)?;
    if let Some(existing) = image.topic_by_name(name.as_str()) {
        return Err(CommandError::TopicExists { name, topic_id: existing.id });
    }
    let partitions = request.partitions.max(1);
    if partitions > PARTITIONS_PER_TOPIC_MAX {
        return Err(invalid_partitions(partitions, 1));
    }
    let replication_factor = replication_factor(image, request.replication_factor)?;
    build(image, name, &config, (partitions, replication_factor), ids)
}

/// The record that creates an internal topic: its partitions never change, its records are flushed before they are
/// acknowledged, and only its coordinators cut it (R15).
pub(crate) fn create_internal_topic(
    image: &Image,
    name: &'static str,
    ids: TopicIds,
) -> Result<CreateTopic, CommandError> {
    let mut config = TopicConfig::default();
    config.set(TopicConfigKey::RetentionMs.name(), "-1")?;
    config.set(TopicConfigKey::SegmentBytes.name(), "67108864")?;
    let replication_factor = replication_factor(image, 0)?;
    let shape = (INTERNAL_TOPIC_PARTITIONS, replication_factor);
    build(image, TopicName::internal(name), &config, shape, ids)
}

fn build(
    image: &Image,
    name: TopicName,
    config: &TopicConfig,
    (partitions, replication_factor): (u32, u32),
    ids: TopicIds,
) -> Result<CreateTopic, CommandError> {
    Ok(CreateTopic {
        topic_id: ids.topic_id,
        name,
        config: config.overrides().map(|(key, value)| (key.name().to_owned(), value.to_owned())).collect(),
        min_isr: config.min_insync_replicas_for(replication_factor)?,
        replicas: place(image, 0, partitions, replication_factor, ids.seed)?,
    })
}

/// The record that changes a topic.
pub(crate) fn alter_topic(
    image: &Image,
    request: &AlterTopicRequest,
    seed: u64,
) -> Result<AlterTopic, CommandError> {
    let topic = find(image, &request.name)?;
    let present = topic.partition_count();
    let wanted = request.partitions.unwrap_or(present);
    if wanted < present || wanted > PARTITIONS_PER_TOPIC_MAX {
        return Err(invalid_partitions(wanted, present));
    }
    if wanted > present && request.has_keyed_records && !request.allow_key_remap {
        return Err(CommandError::KeyRemapNotAllowed { name: topic.name.clone(), partitions: wanted });
    }
    let mut config = TopicConfig::clone(&topic.config);
    for (name, value) in &request.set {
        config.set(name, value)?;
    }
    for name in &request.unset {
        config.unset(name)?;
    }
    config.min_insync_replicas_for(topic.replication_factor)?;
    let added = match wanted - present {
        0 => Vec::new(),
        more => place(image, present, more, topic.replication_factor, seed)?,
    };
    Ok(AlterTopic {
        topic_id: topic.id,
        set: request.set.clone(),
        unset: request.unset.clone(),
        expected_partitions: present,
        added,
    })
}

/// The record that deletes a topic.
pub(crate) fn delete_topic(image: &Image, request: &DeleteTopicRequest) -> Result<DeleteTopic, CommandError> {
    let topic = find(image, &request.name)?;
    Ok(DeleteTopic { topic_id: topic.id, purge: request.purge })
}

fn find<'a>(image: &'a Image, name: &str) -> Result<&'a Arc<Topic>, CommandError> {
    image.topic_by_name(name).ok_or_else(|| CommandError::TopicNotFound { name: name.to_owned() })
}

fn replication_factor(image: &Image, asked: u32) -> Result<u32, CommandError> {
    if asked > REPLICATION_FACTOR_MAX {
        return Err(CommandError::InvalidReplicationFactor { given: asked, max: REPLICATION_FACTOR_MAX });
    }
    let eligible = image.nodes().filter(|node| node.is_eligible()).count();
    let eligible = u32::try_from(eligible).unwrap_or(u32::MAX);
    // With no node at all, 1 makes placement say so.
    Ok(if asked == 0 { REPLICATION_FACTOR_DEFAULT.min(eligible).max(1) } else { asked })
}

fn invalid_partitions(given: u32, min: u32) -> CommandError {
    CommandError::InvalidPartitions { given, min, max: PARTITIONS_PER_TOPIC_MAX }
}
