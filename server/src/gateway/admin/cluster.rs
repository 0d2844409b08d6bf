//! The server and the cluster.

use std::sync::Arc;

use wharf_proto::error::ApiError;
use wharf_types::limits;

use super::super::Gateway;
use super::super::layers::DECODE_BYTES_MAX;
use crate::proto::{
    DescribeClusterRequest, DescribeClusterResponse, GetServerInfoRequest, GetServerInfoResponse, Node,
    NodeRole, NodeState, ServerLimits,
};

/// What this version can do; clients look for a name, never for a version. In lexical order.
const FEATURES: [&str; 6] = [
    "compaction",
    "fetch-long-poll",
    "group-offsets",
    "idempotent-producer",
    "produce-stream",
    "server-side-coalescing",
];

/// Tells version, features and limits.
pub(super) async fn server_info(
    gateway: &Arc<Gateway>,
    _: GetServerInfoRequest,
) -> Result<GetServerInfoResponse, ApiError> {
    Ok(GetServerInfoResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        cluster_id: cluster_id(gateway),
        features: FEATURES.iter().map(ToString::to_string).collect(),
        limits: Some(server_limits()),
        server_time_ms: Some(gateway.clock.now().to_wire()),
    })
}

fn cluster_id(gateway: &Gateway) -> String {
    gateway.controller.image().cluster_id().map(|id| id.to_string()).unwrap_or_default()
}

fn server_limits() -> ServerLimits {
    let wide = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
    ServerLimits {
        record_bytes_max: i64::from(limits::MESSAGE_BYTES_MAX),
        record_bytes_default: i64::from(limits::MESSAGE_BYTES_DEFAULT),
        produce_request_bytes_max: wide(limits::PRODUCE_REQUEST_BYTES_MAX),
        request_bytes_max: wide(DECODE_BYTES_MAX),
        response_bytes_max: wide(limits::RESPONSE_BYTES_MAX),
        records_per_request_max: wide(limits::RECORDS_PER_REQUEST_MAX),
        headers_per_record_max: wide(limits::HEADERS_PER_RECORD_MAX),
        header_name_bytes_max: wide(limits::HEADER_NAME_BYTES_MAX),
        name_bytes_max: wide(limits::NAME_BYTES_MAX),
        commit_metadata_bytes_max: wide(limits::COMMIT_METADATA_BYTES_MAX),
        fetch_bytes_default: i64::from(limits::FETCH_BYTES_DEFAULT),
        fetch_bytes_max: wide(limits::RESPONSE_BYTES_MAX),
        fetch_wait_ms_max: i64::from(limits::MAX_WAIT_MS),
        unary_timeout_ms_default: i64::from(limits::DEADLINE_DEFAULT_MS),
        produce_timeout_ms_max: i64::from(limits::DEADLINE_DEFAULT_MS),
        produce_stream_unanswered_max: wide(limits::PRODUCER_UNANSWERED_MAX),
        producer_window_requests: wide(limits::PRODUCER_WINDOW),
        partitions_per_topic_max: i64::from(limits::PARTITIONS_PER_TOPIC_MAX),
        page_size_default: i64::from(limits::PAGE_SIZE_DEFAULT),
        page_size_max: i64::from(limits::PAGE_SIZE_MAX),
        offsets_per_commit_max: wide(limits::OFFSETS_PER_COMMIT_MAX),
    }
}

/// Shows the nodes.
pub(super) async fn describe(
    gateway: &Arc<Gateway>,
    _: DescribeClusterRequest,
) -> Result<DescribeClusterResponse, ApiError> {
    let image = gateway.controller.image();
    let disk = gateway.storage.disk_status();
    let controller = gateway.controller.status().leader;
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let bytes = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let nodes = image
        .nodes()
        .map(|node| Node {
            node_id: Some(node.id.value().cast_signed()),
            roles: [NodeRole::Controller, NodeRole::Storage, NodeRole::Gateway].map(i32::from).to_vec(),
            state: i32::from(match node.state {
                wharf_metadata::NodeState::Fenced => NodeState::Fenced,
                wharf_metadata::NodeState::Stopping => NodeState::Stopping,
                wharf_metadata::NodeState::Live => NodeState::Alive,
            }),
            rack: node.rack.as_deref().unwrap_or_default().to_owned(),
            version: node.version.to_string(),
            disk_total_bytes: Some(bytes(disk.total_bytes)),
            disk_available_bytes: Some(bytes(disk.available_bytes)),
            log_bytes: Some(bytes(disk.log_bytes)),
            replicas: Some(count(image.partitions_of(node.id).count())),
            leaders: Some(count(
                image.partitions_of(node.id).filter(|partition| partition.leader == Some(node.id)).count(),
            )),
        })
        .collect();
    Ok(DescribeClusterResponse {
        cluster_id: cluster_id(gateway),
        controller_node_id: controller.map(|node| node.value().cast_signed()),
        nodes,
    })
}
