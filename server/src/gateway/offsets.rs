//! Commit, GetCommitted, ListOffsets.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use futures::future::try_join_all;
use wharf_proto::error::ApiError;
use wharf_types::{GroupName, LeaderEpoch, Offset, TimestampMs, TopicName, TopicPartition, limits};

use super::{Gateway, errors, retry};
use crate::proto::{
    CommitRequest, CommitResponse, CommittedOffset, GetCommittedRequest, GetCommittedResponse,
    ListOffsetsRequest, ListOffsetsResponse, OffsetCommit, PartitionOffset, StartPosition,
    list_offsets_request,
};
use crate::storage_api::{
    CommitError, CommittedPosition, GroupCommit, OffsetQuery, OffsetToCommit, StorageError,
};

/// The group that a client named.
///
/// # Errors
/// `INVALID_REQUEST`.
pub(super) fn check_group(group: &str) -> Result<GroupName, ApiError> {
    GroupName::new(group).map_err(|error| errors::invalid_name("group", &error))
}

/// Serves one commit.
///
/// # Errors
/// Those of api.md; nothing was committed then.
pub(super) async fn commit(
    gateway: &Arc<Gateway>,
    request: CommitRequest,
) -> Result<CommitResponse, ApiError> {
    let group = check_group(&request.group)?;
    if request.offsets.is_empty() {
        return Err(ApiError::invalid("offsets", "the request commits nothing; name at least one partition"));
    }
    if request.offsets.len() > limits::OFFSETS_PER_COMMIT_MAX {
        return Err(ApiError::invalid(
            "offsets",
            format!(
                "{} offsets; at most {} are allowed",
                request.offsets.len(),
                limits::OFFSETS_PER_COMMIT_MAX
            ),
        ));
    }
    let member = request.member.map(check_member).transpose()?;
    let mut offsets = Vec::with_capacity(request.offsets.len());
    let mut seen: HashMap<TopicPartition, usize> = HashMap::new();
    for (index, offset) in request.offsets.into_iter().enumerate() {
        let checked = check_offset(gateway, index, offset)?;
        // Of two positions for one partition the later counts.
        match seen.entry(checked.partition) {
            Entry::Vacant(place) => {
                place.insert(offsets.len());
                offsets.push(checked);
            }
            Entry::Occupied(place) => offsets[*place.get()] = checked,
        }
    }
    check_weight(&group, &offsets)?;
    check_ends(gateway, &offsets).await?;
    let commit = GroupCommit { group, offsets, member };
    retry::until_changed(gateway, || gateway.storage.commit(commit.clone()))
        .await
        .map_err(|error| errors::commit_error(&error))?;
    Ok(CommitResponse {})
}

fn check_member(member: crate::proto::GroupMember) -> Result<(String, u32, Option<u64>), ApiError> {
    GroupName::new(&member.member_id).map_err(|_| {
        ApiError::invalid("member.member_id", "must be 1 to 249 characters of A-Z a-z 0-9 . _ -")
    })?;
    let epoch = u32::try_from(member.member_epoch)
        .map_err(|_| ApiError::invalid("member.member_epoch", "is negative"))?;
    let sequence = member
        .commit_sequence
        .map(|sequence| {
            u64::try_from(sequence).map_err(|_| ApiError::invalid("member.commit_sequence", "is negative"))
        })
        .transpose()?;
    Ok((member.member_id, epoch, sequence))
}

fn check_offset(gateway: &Gateway, index: usize, commit: OffsetCommit) -> Result<OffsetToCommit, ApiError> {
    let route = gateway.routing.resolve(&commit.topic)?;
    let partition = route.check_partition(commit.partition)?;
    let field = |name: &str| format!("offsets[{index}].{name}");
    let offset = Offset::from_wire(commit.offset).ok_or_else(|| {
        ApiError::invalid(field("offset"), format!("{} is negative; offsets count from 0", commit.offset))
    })?;
    let leader_epoch = commit
        .leader_epoch
        .map(|epoch| u32::try_from(epoch).map(LeaderEpoch::new))
        .transpose()
        .map_err(|_| ApiError::invalid(field("leader_epoch"), "is negative"))?;
    let metadata = commit.metadata.unwrap_or_default();
    if metadata.len() > limits::COMMIT_METADATA_BYTES_MAX {
        return Err(ApiError::invalid(
            field("metadata"),
            format!(
                "has {} bytes; at most {} are allowed",
                metadata.len(),
                limits::COMMIT_METADATA_BYTES_MAX
            ),
        ));
    }
    Ok(OffsetToCommit { partition: route.partition_id(partition), offset, leader_epoch, metadata })
}

/// Most bytes of the records that one commit becomes, so that they fit into one batch of the group's log.
const COMMIT_RECORDS_BYTES_MAX: usize = 3 << 20;
/// What a committed offset takes in that log beside the group's name and the metadata.
const OFFSET_RECORD_BYTES: usize = 128;

fn check_weight(group: &GroupName, offsets: &[OffsetToCommit]) -> Result<(), ApiError> {
    let metadata: usize = offsets.iter().map(|offset| offset.metadata.len()).sum();
    let bytes = metadata + offsets.len() * (group.as_str().len() + OFFSET_RECORD_BYTES);
    if bytes <= COMMIT_RECORDS_BYTES_MAX {
        return Ok(());
    }
    Err(ApiError::invalid("offsets", "are too many with too much metadata for one commit; split it in two"))
}

/// A commit above the end of a log is refused where the leader knows the end.
async fn check_ends(gateway: &Gateway, offsets: &[OffsetToCommit]) -> Result<(), ApiError> {
    for commit in offsets {
        let latest = gateway.storage.list_offset(commit.partition, OffsetQuery::Latest).await;
        let Some(high_watermark) = latest.ok().and_then(|latest| latest.offset) else { continue };
        if commit.offset > high_watermark {
            let earliest = gateway.storage.list_offset(commit.partition, OffsetQuery::Earliest).await;
            let name = topic_name(gateway, commit.partition);
            let error = StorageError::OffsetOutOfRange {
                requested: commit.offset,
                log_start: earliest.ok().and_then(|earliest| earliest.offset).unwrap_or_default(),
                high_watermark,
            };
            return Err(errors::storage_error(&name, &error));
        }
    }
    Ok(())
}

/// The name of a partition's topic, for messages.
pub(super) fn topic_name(gateway: &Gateway, partition: TopicPartition) -> TopicName {
    let image = gateway.controller.image();
    image
        .topic(partition.topic_id)
        .map_or_else(|| TopicName::internal("__deleted"), |topic| topic.name.clone())
}

/// Serves one read of committed offsets.
///
/// # Errors
/// Those of api.md.
pub(super) async fn get_committed(
    gateway: &Arc<Gateway>,
    request: GetCommittedRequest,
) -> Result<GetCommittedResponse, ApiError> {
    let group = check_group(&request.group)?;
    let mut partitions = Vec::with_capacity(request.partitions.len());
    for partition in &request.partitions {
        let route = gateway.routing.resolve(&partition.topic)?;
        partitions.push(route.partition_id(route.check_partition(partition.partition)?));
    }
    let named_alone = partitions.is_empty();
    let committed =
        retry::until_coordinated(gateway, || gateway.storage.committed(group.clone(), partitions.clone()))
            .await
            .map_err(|error| errors::commit_error(&CommitError::Storage(error)))?;
    let positions = match committed {
        Some(positions) => positions,
        None if named_alone => return Err(errors::group_not_found(&group)),
        None => partitions.iter().map(|partition| nothing_committed(*partition)).collect(),
    };
    let image = gateway.controller.image();
    let offsets = positions
        .into_iter()
        .filter_map(|position| {
            let topic = image.topic(position.partition.topic_id)?;
            Some(committed_offset(topic.name.as_str(), position))
        })
        .collect();
    Ok(GetCommittedResponse { offsets })
}

fn nothing_committed(partition: TopicPartition) -> CommittedPosition {
    CommittedPosition {
        partition,
        offset: None,
        leader_epoch: None,
        metadata: String::new(),
        commit_time: None,
    }
}

fn committed_offset(topic: &str, position: CommittedPosition) -> CommittedOffset {
    CommittedOffset {
        topic: topic.to_owned(),
        partition: Some(position.partition.partition.to_wire()),
        offset: position.offset.map(Offset::to_wire),
        leader_epoch: position.leader_epoch.map(|epoch| epoch.value().cast_signed()),
        metadata: position.metadata,
        commit_time_ms: position.commit_time.map(TimestampMs::to_wire),
    }
}

/// Serves one look-up of offsets.
///
/// # Errors
/// Those of api.md.
pub(super) async fn list_offsets(
    gateway: &Arc<Gateway>,
    request: ListOffsetsRequest,
) -> Result<ListOffsetsResponse, ApiError> {
    let query = match request.at {
        None => return Err(ApiError::invalid("at", "is not set; set start or append_time_ms")),
        Some(list_offsets_request::At::AppendTimeMs(time)) => OffsetQuery::AppendTime(
            TimestampMs::from_wire(time)
                .ok_or_else(|| ApiError::invalid("append_time_ms", format!("{time} is negative")))?,
        ),
        Some(list_offsets_request::At::Start(start)) => match StartPosition::try_from(start) {
            Ok(StartPosition::Earliest) => OffsetQuery::Earliest,
            Ok(StartPosition::Latest) => OffsetQuery::Latest,
            _ => {
                return Err(ApiError::invalid(
                    "start",
                    "must be START_POSITION_EARLIEST or START_POSITION_LATEST",
                ));
            }
        },
    };
    let route = gateway.routing.resolve(&request.topic)?;
    let partitions = if request.partitions.is_empty() {
        (0..route.partition_count())
            .map(|index| route.partition_id(wharf_types::PartitionIndex::new(index)))
            .collect()
    } else {
        let mut partitions = Vec::with_capacity(request.partitions.len());
        for partition in request.partitions {
            partitions.push(route.partition_id(route.check_partition(partition)?));
        }
        partitions
    };
    let look_up = |partition: TopicPartition| async move {
        let found =
            retry::until_available(gateway, partition, || gateway.storage.list_offset(partition, query))
                .await?;
        Ok(PartitionOffset {
            partition: Some(partition.partition.to_wire()),
            offset: found.offset.map(Offset::to_wire),
            append_time_ms: found.append_time.map(TimestampMs::to_wire),
            leader_epoch: None,
        })
    };
    let offsets = try_join_all(partitions.into_iter().map(look_up))
        .await
        .map_err(|error: StorageError| errors::storage_error(&route.name, &error))?;
    Ok(ListOffsetsResponse { offsets })
}
