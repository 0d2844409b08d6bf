//! Topics: create, look at, change, delete.

use std::sync::Arc;

use wharf_controller::{
    AlterTopicRequest, CreateTopicRequest as Create, DeleteTopicRequest as Delete, Validation,
};
use wharf_metadata::Topic;
use wharf_proto::error::ApiError;
use wharf_proto::v1::ErrorReason;
use wharf_types::{NodeId, Offset, TopicConfigKey, TopicId, TopicName, limits};

use super::super::routing::TopicRoute;
use super::super::{Gateway, errors, retry};
use super::{command_error, paging};
use crate::proto::{
    ConfigEntry, CreateTopicRequest, CreateTopicResponse, DamagedRange, DeleteRecordsRequest,
    DeleteRecordsResponse, DeleteTopicRequest, DeleteTopicResponse, GetTopicRequest, GetTopicResponse,
    ListTopicsRequest, ListTopicsResponse, PartitionInfo, RecordDeletionResult, SkipDamagedRequest,
    SkipDamagedResponse, TopicSummary, UpdateTopicRequest, UpdateTopicResponse,
};

/// Creates a topic.
pub(super) async fn create(
    gateway: &Gateway,
    request: CreateTopicRequest,
) -> Result<CreateTopicResponse, ApiError> {
    let name = TopicName::new(&request.topic).map_err(|error| errors::invalid_name("topic", &error))?;
    let partitions = count("partitions", request.partitions, limits::PARTITIONS_PER_TOPIC_MAX)?;
    let replication_factor =
        count("replication_factor", request.replication_factor, limits::REPLICATION_FACTOR_MAX)?;
    let command = Create {
        name: name.to_string(),
        partitions,
        replication_factor,
        config: request.config.into_iter().collect(),
        validation: validation(request.validate_only),
    };
    let created = gateway
        .controller
        .create_topic(command)
        .await
        .map_err(|error| command_error(&request.topic, &error))?;
    let mut topic = summary(&created.topic);
    if request.validate_only {
        // Nothing has this id.
        topic.topic_id.clear();
    } else {
        // The creator's next call must find the topic.
        gateway.routing.update(&gateway.controller.image());
        until_served(gateway, &created.topic).await;
    }
    Ok(CreateTopicResponse { topic: Some(topic), config: config_entries(&created.topic) })
}

/// Waits until every partition of a new topic is served; the call's deadline bounds it.
async fn until_served(gateway: &Gateway, topic: &Topic) {
    for partition in topic.partitions() {
        let mut attempt = 0;
        loop {
            let served = match gateway.storage.partition_status(partition.id).await {
                Ok(status) => status.high_watermark.is_some(),
                Err(error) => !error.is_retriable(),
            };
            if served || gateway.drain.is_cancelled() {
                break;
            }
            retry::pause(attempt).await;
            attempt += 1;
        }
    }
}

fn validation(validate_only: bool) -> Validation {
    if validate_only { Validation::ValidateOnly } else { Validation::Execute }
}

/// A number that a client gave; 0 means the default.
fn count(field: &'static str, asked: i32, max: u32) -> Result<u32, ApiError> {
    match u32::try_from(asked) {
        Err(_) => Err(ApiError::invalid(field, format!("{asked} is negative; 0 means the default"))),
        Ok(count) if count > max => {
            Err(ApiError::invalid(field, format!("{count} is too many; at most {max} are allowed")))
        }
        Ok(count) => Ok(count),
    }
}

fn summary(topic: &Topic) -> TopicSummary {
    TopicSummary {
        topic: topic.name.to_string(),
        topic_id: topic_id_text(topic.id),
        partition_count: topic.partition_count().cast_signed(),
        replication_factor: topic.replication_factor.cast_signed(),
        internal: topic.name.is_internal(),
    }
}

/// A topic's id as the API shows it.
fn topic_id_text(id: TopicId) -> String {
    uuid::Uuid::from_bytes(*id.as_bytes()).to_string()
}

fn config_entries(topic: &Topic) -> Vec<ConfigEntry> {
    let entry = |entry: wharf_types::ConfigEntry| ConfigEntry {
        name: entry.key.name().to_owned(),
        value: match entry.key {
            TopicConfigKey::MinInsyncReplicas => topic.min_isr.to_string(),
            _ => entry.value,
        },
        is_default: entry.is_default,
    };
    topic.config.entries().into_iter().map(entry).collect()
}

/// The topic of this name as the controller knows it now.
fn find(gateway: &Gateway, name: &str) -> Result<Arc<Topic>, ApiError> {
    let checked = TopicName::from_record(name).map_err(|error| errors::invalid_name("topic", &error))?;
    let image = gateway.controller.image();
    image.topic_by_name(checked.as_str()).cloned().ok_or_else(|| errors::topic_not_found(name))
}

/// Shows a topic with a page of its partitions.
pub(super) async fn get(
    gateway: &Arc<Gateway>,
    request: GetTopicRequest,
) -> Result<GetTopicResponse, ApiError> {
    let size = paging::page_size(request.page_size)?;
    let list = paging::list_of("partitions", &[&request.topic]);
    let first = paging::parse_number(&list, &request.page_token)?;
    let topic = find(gateway, &request.topic)?;
    let all = topic.partitions();
    let mut partitions = Vec::new();
    for partition in all.iter().skip(first).take(size) {
        // A partition without a leader is shown without its offsets.
        let status = gateway.storage.partition_status(partition.id).await.ok();
        let high_watermark = status.as_ref().and_then(|status| status.high_watermark).map(Offset::to_wire);
        partitions.push(PartitionInfo {
            partition: Some(partition.id.partition.to_wire()),
            leader: partition.leader.map(node_id),
            leader_epoch: Some(partition.leader_epoch.value().cast_signed()),
            replicas: partition.replicas.iter().copied().map(node_id).collect(),
            isr: partition.isr.iter().copied().map(node_id).collect(),
            log_start_offset: status.as_ref().map(|status| status.log_start.to_wire()),
            high_watermark,
            last_stable_offset: high_watermark,
            size_bytes: status.as_ref().map(|status| status.size_bytes.cast_signed()),
            damaged: status.iter().flat_map(|status| &status.damaged).map(damaged_range).collect(),
        });
    }
    let next = first.saturating_add(size);
    let next_page_token =
        if next < all.len() { paging::token(&list, &next.to_string()) } else { String::new() };
    Ok(GetTopicResponse {
        topic: Some(summary(&topic)),
        config: config_entries(&topic),
        partitions,
        next_page_token,
    })
}

fn node_id(node: NodeId) -> i32 {
    node.value().cast_signed()
}

fn damaged_range(range: &(Offset, Offset)) -> DamagedRange {
    DamagedRange { from_offset: Some(range.0.to_wire()), to_offset: Some(range.1.to_wire()) }
}

/// Lists topics in the order of their names.
pub(super) async fn list(
    gateway: &Arc<Gateway>,
    request: ListTopicsRequest,
) -> Result<ListTopicsResponse, ApiError> {
    let size = paging::page_size(request.page_size)?;
    let internal = if request.include_internal { "internal" } else { "" };
    let list = paging::list_of("topics", &[&request.prefix, internal]);
    let after = paging::parse(&list, &request.page_token)?;
    let image = gateway.controller.image();
    let mut topics = image.topics().filter(|topic| {
        (request.include_internal || !topic.name.is_internal())
            && topic.name.as_str().starts_with(&request.prefix)
            && after.is_none_or(|after| topic.name.as_str() > after)
    });
    let page: Vec<TopicSummary> = topics.by_ref().take(size).map(|topic| summary(topic)).collect();
    let more = topics.next().is_some();
    let next_page_token = match page.last() {
        Some(last) if more => paging::token(&list, &last.topic),
        _ => String::new(),
    };
    Ok(ListTopicsResponse { topics: page, next_page_token })
}

/// The topic of a request that changes it: internal topics are not for clients to change.
fn resolve(gateway: &Gateway, name: &str) -> Result<Arc<TopicRoute>, ApiError> {
    gateway.routing.resolve(name)
}

/// Changes a topic's configuration or grows it.
pub(super) async fn update(
    gateway: &Arc<Gateway>,
    request: UpdateTopicRequest,
) -> Result<UpdateTopicResponse, ApiError> {
    let route = resolve(gateway, &request.topic)?;
    let partitions = match request.partitions {
        None => None,
        Some(0) => return Err(ApiError::invalid("partitions", "a topic has at least one partition")),
        Some(asked) => Some(count("partitions", asked, limits::PARTITIONS_PER_TOPIC_MAX)?),
    };
    if let Some(asked) = partitions
        && asked < route.partition_count()
    {
        return Err(ApiError::invalid(
            "partitions",
            format!("{asked} is less than the topic's {}; the count only grows", route.partition_count()),
        ));
    }
    if let Some(name) = request.unset_config.iter().find(|name| request.set_config.contains_key(*name)) {
        return Err(ApiError::invalid_as(
            ErrorReason::InvalidConfig,
            "unset_config",
            format!("{name} is set and unset by the same request; do one of them"),
        ));
    }
    let grows = partitions.is_some_and(|asked| asked > route.partition_count());
    let has_keyed_records = grows && !request.allow_key_remap && has_keyed_records(gateway, &route).await?;
    let command = AlterTopicRequest {
        name: request.topic.clone(),
        set: request.set_config.into_iter().collect(),
        unset: request.unset_config,
        partitions,
        has_keyed_records,
        allow_key_remap: request.allow_key_remap,
        validation: validation(request.validate_only),
    };
    let altered = gateway
        .controller
        .alter_topic(command)
        .await
        .map_err(|error| command_error(&request.topic, &error))?;
    gateway.routing.update(&gateway.controller.image());
    Ok(UpdateTopicResponse { topic: Some(summary(&altered.topic)), config: config_entries(&altered.topic) })
}

async fn has_keyed_records(gateway: &Arc<Gateway>, route: &TopicRoute) -> Result<bool, ApiError> {
    for index in 0..route.partition_count() {
        let partition = route.partition_id(wharf_types::PartitionIndex::new(index));
        let keyed =
            retry::until_available(gateway, partition, || gateway.storage.has_keyed_records(partition))
                .await
                .map_err(|error| errors::storage_error(&route.name, &error))?;
        if keyed {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes a topic, with what groups committed on it.
pub(super) async fn delete(
    gateway: &Arc<Gateway>,
    request: DeleteTopicRequest,
) -> Result<DeleteTopicResponse, ApiError> {
    let route = resolve(gateway, &request.topic)?;
    let command = Delete {
        name: route.name.to_string(),
        purge: request.purge,
        validation: validation(request.validate_only),
    };
    let deleted = gateway
        .controller
        .delete_topic(command)
        .await
        .map_err(|error| command_error(&request.topic, &error))?;
    gateway.routing.update(&gateway.controller.image());
    Ok(DeleteTopicResponse { topic_id: topic_id_text(deleted.topic_id) })
}

/// Moves log start offsets up.
pub(super) async fn delete_records(
    gateway: &Arc<Gateway>,
    request: DeleteRecordsRequest,
) -> Result<DeleteRecordsResponse, ApiError> {
    let route = resolve(gateway, &request.topic)?;
    if request.partitions.is_empty() {
        return Err(ApiError::invalid("partitions", "names no partition"));
    }
    let mut checked: Vec<(wharf_types::TopicPartition, Offset)> =
        Vec::with_capacity(request.partitions.len());
    for (index, deletion) in request.partitions.iter().enumerate() {
        let partition = route.partition_id(route.check_partition(deletion.partition)?);
        let before = Offset::from_wire(deletion.before_offset).ok_or_else(|| {
            ApiError::invalid(
                format!("partitions[{index}].before_offset"),
                "is negative; offsets count from 0",
            )
        })?;
        if checked.iter().any(|(other, _)| *other == partition) {
            return Err(ApiError::invalid(format!("partitions[{index}]"), "names a partition a second time"));
        }
        checked.push((partition, before));
    }
    let failed = |error| errors::storage_error(&route.name, &error);
    // All are checked before any is done.
    for &(partition, before) in &checked {
        retry::until_available(gateway, partition, || {
            gateway.storage.delete_records(partition, before, true)
        })
        .await
        .map_err(failed)?;
    }
    let mut partitions = Vec::with_capacity(checked.len());
    for (partition, before) in checked {
        let log_start =
            gateway.storage.delete_records(partition, before, request.validate_only).await.map_err(failed)?;
        partitions.push(RecordDeletionResult {
            partition: Some(partition.partition.to_wire()),
            log_start_offset: Some(log_start.to_wire()),
        });
    }
    Ok(DeleteRecordsResponse { partitions })
}

/// Gives a damaged range up.
pub(super) async fn skip_damaged(
    gateway: &Arc<Gateway>,
    request: SkipDamagedRequest,
) -> Result<SkipDamagedResponse, ApiError> {
    // Internal topics too: a damaged range of theirs must not be for ever.
    let route = match gateway.routing.find(&request.topic) {
        Some(route) => route,
        None => resolve(gateway, &request.topic)?,
    };
    let partition = route.partition_id(route.check_partition(request.partition)?);
    let bound = |field: &'static str, offset: i64| {
        Offset::from_wire(offset).ok_or_else(|| ApiError::invalid(field, "is negative; offsets count from 0"))
    };
    let (from, to) = (bound("from_offset", request.from_offset)?, bound("to_offset", request.to_offset)?);
    gateway
        .storage
        .skip_damaged(partition, from, to, request.validate_only)
        .await
        .map_err(|error| errors::storage_error(&route.name, &error))?;
    Ok(SkipDamagedResponse { from_offset: Some(from.to_wire()), to_offset: Some(to.to_wire()) })
}
