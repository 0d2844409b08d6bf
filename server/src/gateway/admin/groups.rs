//! Groups: list, describe with lag, reset, delete.

use std::sync::Arc;
use std::time::Duration;

use wharf_proto::error::ApiError;
use wharf_proto::v1::ErrorReason;
use wharf_types::{GroupName, Offset, TimestampMs};

use super::super::lag::{self, Lag};
use super::super::offsets::{check_group, topic_name};
use super::super::{Gateway, errors, retry};
use super::paging;
use crate::proto::{
    DeleteGroupRequest, DeleteGroupResponse, DescribeGroupRequest, DescribeGroupResponse, GroupPartition,
    GroupState, GroupSummary, ListGroupsRequest, ListGroupsResponse, OffsetReset, ResetOffsetsRequest,
    ResetOffsetsResponse, StartPosition, reset_offsets_request,
};
use crate::storage_api::{
    CommitError, CommittedPosition, GroupCommit, GroupDescription, OffsetQuery, OffsetToCommit, StorageError,
};

fn failed(error: StorageError) -> ApiError {
    errors::commit_error(&CommitError::Storage(error))
}

/// Lists groups in the order of their names.
pub(super) async fn list(
    gateway: &Arc<Gateway>,
    request: ListGroupsRequest,
) -> Result<ListGroupsResponse, ApiError> {
    let size = paging::page_size(request.page_size)?;
    let list = paging::list_of("groups", &[&request.prefix]);
    let after = paging::parse(&list, &request.page_token)?.map(str::to_owned);
    let page = retry::until_coordinated(gateway, || {
        gateway.storage.list_groups(request.prefix.clone(), after.clone(), size)
    })
    .await
    .map_err(failed)?;
    let next_page_token = match page.groups.last() {
        Some(last) if page.more => paging::token(&list, last),
        _ => String::new(),
    };
    Ok(ListGroupsResponse { groups: page.groups.into_iter().map(summary).collect(), next_page_token })
}

/// Groups have no members yet.
fn summary(group: String) -> GroupSummary {
    GroupSummary { group, state: i32::from(GroupState::Empty), member_count: Some(0) }
}

async fn find(gateway: &Arc<Gateway>, group: &GroupName) -> Result<GroupDescription, ApiError> {
    retry::until_coordinated(gateway, || gateway.storage.describe_group(group.clone()))
        .await
        .map_err(failed)?
        .ok_or_else(|| errors::group_not_found(group))
}

/// Shows a group with a page of its partitions.
pub(super) async fn describe(
    gateway: &Arc<Gateway>,
    request: DescribeGroupRequest,
) -> Result<DescribeGroupResponse, ApiError> {
    let size = paging::page_size(request.page_size)?;
    let list = paging::list_of("partitions", &[&request.group]);
    let first = paging::parse_number(&list, &request.page_token)?;
    let group = check_group(&request.group)?;
    let described = find(gateway, &group).await?;
    let image = gateway.controller.image();
    let mut positions: Vec<(String, CommittedPosition)> = described
        .committed
        .into_iter()
        .filter(|position| image.topic(position.partition.topic_id).is_some())
        .map(|position| (topic_name(gateway, position.partition).to_string(), position))
        .collect();
    positions.sort_by(|a, b| (&a.0, a.1.partition).cmp(&(&b.0, b.1.partition)));
    let total = positions.len();
    let mut partitions = Vec::new();
    for (topic, position) in positions.into_iter().skip(first).take(size) {
        let lag = lag::measure(gateway, &group, &position).await;
        partitions.push(group_partition(topic, position, lag));
    }
    let next = first.saturating_add(size);
    let next_page_token = if next < total { paging::token(&list, &next.to_string()) } else { String::new() };
    Ok(DescribeGroupResponse {
        group: Some(summary(group.to_string())),
        group_epoch: Some(described.group_epoch.cast_signed()),
        members: Vec::new(),
        partitions,
        next_page_token,
    })
}

fn group_partition(topic: String, position: CommittedPosition, lag: Lag) -> GroupPartition {
    GroupPartition {
        topic,
        partition: Some(position.partition.partition.to_wire()),
        member_id: String::new(),
        committed_offset: position.offset.map(Offset::to_wire),
        end_offset: lag.end.map(Offset::to_wire),
        lag: lag.records.map(|records| i64::try_from(records).unwrap_or(i64::MAX)),
        lag_time: lag.time.and_then(duration),
        lag_change_per_second: lag.change_per_second,
        retention_used: lag.retention_used,
        time_to_drain: lag.time_to_drain.and_then(duration),
        leader_epoch: position.leader_epoch.map(|epoch| epoch.value().cast_signed()),
        metadata: position.metadata,
        commit_time_ms: position.commit_time.map(TimestampMs::to_wire),
        log_start_offset: lag.log_start.map(Offset::to_wire),
    }
}

fn duration(span: Duration) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(span).ok()
}

/// Where a reset goes.
enum Target {
    Query(OffsetQuery),
    Exact(Offset),
    Shift(i64),
}

fn check_target(gateway: &Gateway, request: &ResetOffsetsRequest) -> Result<Target, ApiError> {
    use reset_offsets_request::Target as Asked;
    match &request.target {
        None => Err(ApiError::invalid(
            "target",
            "is not set; set start, offset, append_time_ms, duration or shift_by",
        )),
        Some(Asked::Start(start)) => match StartPosition::try_from(*start) {
            Ok(StartPosition::Earliest) => Ok(Target::Query(OffsetQuery::Earliest)),
            Ok(StartPosition::Latest) => Ok(Target::Query(OffsetQuery::Latest)),
            _ => Err(ApiError::invalid("start", "must be START_POSITION_EARLIEST or START_POSITION_LATEST")),
        },
        Some(Asked::Offset(offset)) => Offset::from_wire(*offset).map(Target::Exact).ok_or_else(|| {
            ApiError::invalid("offset", format!("{offset} is negative; offsets count from 0"))
        }),
        Some(Asked::AppendTimeMs(time)) => TimestampMs::from_wire(*time)
            .map(|time| Target::Query(OffsetQuery::AppendTime(time)))
            .ok_or_else(|| ApiError::invalid("append_time_ms", format!("{time} is negative"))),
        Some(Asked::Duration(span)) => {
            let span = Duration::try_from(*span)
                .map_err(|_| ApiError::invalid("duration", "is negative; it reaches back from now"))?;
            let back = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
            Ok(Target::Query(OffsetQuery::AppendTime(gateway.clock.now().minus(back))))
        }
        Some(Asked::ShiftBy(shift)) => Ok(Target::Shift(*shift)),
    }
}

/// Moves a group's positions.
pub(super) async fn reset(
    gateway: &Arc<Gateway>,
    request: ResetOffsetsRequest,
) -> Result<ResetOffsetsResponse, ApiError> {
    let group = check_group(&request.group)?;
    let target = check_target(gateway, &request)?;
    if request.topic.is_empty() && !request.partitions.is_empty() {
        return Err(ApiError::invalid("partitions", "are named without a topic"));
    }
    if request.topic.is_empty() && matches!(target, Target::Exact(_)) {
        return Err(ApiError::invalid("offset", "one offset for all topics means nothing; name a topic"));
    }
    let described = match find(gateway, &group).await {
        Ok(described) => Some(described),
        // A position may be set before the group's first reader comes.
        Err(error) if error.reason == ErrorReason::GroupNotFound && !request.topic.is_empty() => None,
        Err(error) => return Err(error),
    };
    let exists = described.is_some();
    let committed = described.map(|described| described.committed).unwrap_or_default();
    let image = gateway.controller.image();
    let is_live = |position: &CommittedPosition| image.topic(position.partition.topic_id).is_some();
    let positions = select(gateway, &request, committed.into_iter().filter(is_live).collect())?;
    let mut offsets = Vec::with_capacity(positions.len());
    let mut resets = Vec::with_capacity(positions.len());
    for position in positions {
        // Where nothing is committed there is nothing to shift.
        if matches!(target, Target::Shift(_)) && position.offset.is_none() {
            continue;
        }
        let after = resolve(gateway, &target, &position).await?;
        resets.push(OffsetReset {
            topic: topic_name(gateway, position.partition).to_string(),
            partition: Some(position.partition.partition.to_wire()),
            before_offset: position.offset.map(Offset::to_wire),
            after_offset: Some(after.to_wire()),
        });
        offsets.push(OffsetToCommit {
            partition: position.partition,
            offset: after,
            leader_epoch: None,
            metadata: String::new(),
        });
    }
    if !request.validate_only && !offsets.is_empty() {
        let written = if exists {
            gateway.storage.reset(group, offsets).await
        } else {
            gateway.storage.commit(GroupCommit { group, offsets, member: None }).await
        };
        written.map_err(|error| errors::commit_error(&error))?;
    }
    Ok(ResetOffsetsResponse { offsets: resets })
}

/// The positions that a reset is about: the named partitions, all of the named topic, or all that is committed.
fn select(
    gateway: &Gateway,
    request: &ResetOffsetsRequest,
    committed: Vec<CommittedPosition>,
) -> Result<Vec<CommittedPosition>, ApiError> {
    if request.topic.is_empty() {
        return Ok(committed);
    }
    let route = gateway.routing.resolve(&request.topic)?;
    let named: Vec<_> = if request.partitions.is_empty() {
        (0..route.partition_count())
            .map(|index| route.partition_id(wharf_types::PartitionIndex::new(index)))
            .collect()
    } else {
        let checked = request.partitions.iter().map(|partition| route.check_partition(*partition));
        checked
            .map(|partition| partition.map(|partition| route.partition_id(partition)))
            .collect::<Result<_, _>>()?
    };
    let find = |partition| {
        committed.iter().find(|position| position.partition == partition).cloned().unwrap_or(
            CommittedPosition {
                partition,
                offset: None,
                leader_epoch: None,
                metadata: String::new(),
                commit_time: None,
            },
        )
    };
    Ok(named.into_iter().map(find).collect())
}

async fn resolve(
    gateway: &Arc<Gateway>,
    target: &Target,
    position: &CommittedPosition,
) -> Result<Offset, ApiError> {
    let name = topic_name(gateway, position.partition);
    let refused = |error: StorageError| errors::storage_error(&name, &error);
    let list = |query| {
        retry::until_available(gateway, position.partition, move || {
            gateway.storage.list_offset(position.partition, query)
        })
    };
    match target {
        Target::Query(query) => {
            let found = list(*query).await.map_err(refused)?;
            match found.offset {
                Some(offset) => Ok(offset),
                None => Ok(list(OffsetQuery::Latest).await.map_err(refused)?.offset.unwrap_or_default()),
            }
        }
        Target::Exact(_) | Target::Shift(_) => {
            let log_start = list(OffsetQuery::Earliest).await.map_err(refused)?.offset.unwrap_or_default();
            let high_watermark = list(OffsetQuery::Latest).await.map_err(refused)?.offset.unwrap_or_default();
            match target {
                Target::Shift(shift) => {
                    let from = position.offset.unwrap_or(log_start).to_wire();
                    let moved = Offset::from_wire(from.saturating_add(*shift)).unwrap_or_default();
                    Ok(moved.clamp(log_start, high_watermark))
                }
                Target::Exact(offset) if *offset <= high_watermark => Ok((*offset).max(log_start)),
                Target::Exact(requested) => Err(refused(StorageError::OffsetOutOfRange {
                    requested: *requested,
                    log_start,
                    high_watermark,
                })),
                Target::Query(_) => Ok(log_start),
            }
        }
    }
}

/// Deletes a group.
pub(super) async fn delete(
    gateway: &Arc<Gateway>,
    request: DeleteGroupRequest,
) -> Result<DeleteGroupResponse, ApiError> {
    let group = check_group(&request.group)?;
    retry::until_changed(gateway, || gateway.storage.delete_group(group.clone(), request.validate_only))
        .await
        .map_err(|error| errors::commit_error(&error))?;
    Ok(DeleteGroupResponse {})
}
