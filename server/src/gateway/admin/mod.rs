//! `wharf.v1.AdminService`: topics, groups, the server and the cluster.

mod cluster;
mod groups;
mod paging;
mod topics;

use std::sync::Arc;

use tonic::{Request, Response, Status};
use wharf_controller::CommandError;
use wharf_proto::error::{ApiError, Applied};
use wharf_proto::v1::ErrorReason;

use super::{Gateway, deadline, errors};
use crate::proto::admin_service_server::AdminService;
use crate::proto::{
    CreateTopicRequest, CreateTopicResponse, DeleteGroupRequest, DeleteGroupResponse, DeleteRecordsRequest,
    DeleteRecordsResponse, DeleteTopicRequest, DeleteTopicResponse, DescribeClusterRequest,
    DescribeClusterResponse, DescribeGroupRequest, DescribeGroupResponse, GetServerInfoRequest,
    GetServerInfoResponse, GetTopicRequest, GetTopicResponse, ListGroupsRequest, ListGroupsResponse,
    ListTopicsRequest, ListTopicsResponse, ProduceRequest, ResetOffsetsRequest, ResetOffsetsResponse,
    SkipDamagedRequest, SkipDamagedResponse, UpdateTopicRequest, UpdateTopicResponse,
};

/// The service over a gateway.
#[derive(Clone)]
pub(crate) struct AdminApi {
    gateway: Arc<Gateway>,
}

impl AdminApi {
    pub(crate) fn new(gateway: Arc<Gateway>) -> Self {
        AdminApi { gateway }
    }
}

/// Creates the topic of a produce request, where the operator has switched that on.
///
/// # Errors
/// Those of topic creation.
pub(crate) async fn auto_create(gateway: &Gateway, request: &ProduceRequest) -> Result<(), ApiError> {
    if !gateway.limits.auto_create_topics || gateway.routing.find(&request.topic).is_some() {
        return Ok(());
    }
    let create = CreateTopicRequest { topic: request.topic.clone(), ..CreateTopicRequest::default() };
    match topics::create(gateway, create).await {
        Ok(_) => Ok(()),
        Err(error) if error.reason == ErrorReason::TopicAlreadyExists => Ok(()),
        Err(error) => Err(error.with_applied(Applied::None)),
    }
}

/// The public form of a refused command.
pub(super) fn command_error(topic: &str, error: &CommandError) -> ApiError {
    match error {
        CommandError::TopicExists { .. } => ApiError::new(
            ErrorReason::TopicAlreadyExists,
            format!("topic {topic:?} exists already; see AdminService/GetTopic"),
        )
        .with_metadata("topic", topic),
        CommandError::TopicNotFound { .. } => errors::topic_not_found(topic),
        CommandError::KeyRemapNotAllowed { .. } => {
            ApiError::new(ErrorReason::KeyRemapNotAllowed, error.to_string()).with_metadata("topic", topic)
        }
        CommandError::Config(error) => errors::invalid_config(error),
        CommandError::InvalidName(error) => errors::invalid_name("topic", error),
        CommandError::InvalidPartitions { .. } => ApiError::invalid("partitions", error.to_string()),
        CommandError::InvalidReplicationFactor { .. } | CommandError::Placement(_) => {
            ApiError::invalid("replication_factor", error.to_string())
        }
        CommandError::Overloaded { .. } => errors::overloaded(),
        CommandError::Stopped => errors::draining(),
        CommandError::NotLeader { .. } | CommandError::Unknown | CommandError::Refused(_) => ApiError::new(
            ErrorReason::LeaderNotAvailable,
            format!(
                "the controller could not do it: {error}; look whether the change was made, and try again"
            ),
        ),
    }
}

macro_rules! serve {
    ($self:ident, $request:ident, $handler:path) => {{
        let limit = deadline::limit_of(&$request);
        let call = async {
            if $self.gateway.drain.is_cancelled() {
                return Err(errors::draining());
            }
            $handler(&$self.gateway, $request.into_inner()).await
        };
        deadline::within(limit, call).await.map(Response::new).map_err(ApiError::into_status)
    }};
}

#[tonic::async_trait]
impl AdminService for AdminApi {
    async fn get_server_info(
        &self,
        request: Request<GetServerInfoRequest>,
    ) -> Result<Response<GetServerInfoResponse>, Status> {
        serve!(self, request, cluster::server_info)
    }

    async fn describe_cluster(
        &self,
        request: Request<DescribeClusterRequest>,
    ) -> Result<Response<DescribeClusterResponse>, Status> {
        serve!(self, request, cluster::describe)
    }

    async fn create_topic(
        &self,
        request: Request<CreateTopicRequest>,
    ) -> Result<Response<CreateTopicResponse>, Status> {
        serve!(self, request, topics::create)
    }

    async fn get_topic(
        &self,
        request: Request<GetTopicRequest>,
    ) -> Result<Response<GetTopicResponse>, Status> {
        serve!(self, request, topics::get)
    }

    async fn list_topics(
        &self,
        request: Request<ListTopicsRequest>,
    ) -> Result<Response<ListTopicsResponse>, Status> {
        serve!(self, request, topics::list)
    }

    async fn update_topic(
        &self,
        request: Request<UpdateTopicRequest>,
    ) -> Result<Response<UpdateTopicResponse>, Status> {
        serve!(self, request, topics::update)
    }

    async fn delete_topic(
        &self,
        request: Request<DeleteTopicRequest>,
    ) -> Result<Response<DeleteTopicResponse>, Status> {
        serve!(self, request, topics::delete)
    }

    async fn delete_records(
        &self,
        request: Request<DeleteRecordsRequest>,
    ) -> Result<Response<DeleteRecordsResponse>, Status> {
        serve!(self, request, topics::delete_records)
    }

    async fn skip_damaged(
        &self,
        request: Request<SkipDamagedRequest>,
    ) -> Result<Response<SkipDamagedResponse>, Status> {
        serve!(self, request, topics::skip_damaged)
    }

    async fn list_groups(
        &self,
        request: Request<ListGroupsRequest>,
    ) -> Result<Response<ListGroupsResponse>, Status> {
        serve!(self, request, groups::list)
    }

    async fn describe_group(
        &self,
        request: Request<DescribeGroupRequest>,
    ) -> Result<Response<DescribeGroupResponse>, Status> {
        serve!(self, request, groups::describe)
    }

    async fn reset_offsets(
        &self,
        request: Request<ResetOffsetsRequest>,
    ) -> Result<Response<ResetOffsetsResponse>, Status> {
        serve!(self, request, groups::reset)
    }

    async fn delete_group(
        &self,
        request: Request<DeleteGroupRequest>,
    ) -> Result<Response<DeleteGroupResponse>, Status> {
        serve!(self, request, groups::delete)
    }
}
