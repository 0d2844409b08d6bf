//! `wharf.v1.BrokerService`.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use tonic::{Request, Response, Status, Streaming};
use wharf_proto::error::{ApiError, Applied};
use wharf_types::ProducerId;

use super::produce::{Submission, produce_stream};
use super::{Gateway, deadline, errors, fetch, offsets};
use crate::proto::broker_service_server::BrokerService;
use crate::proto::{
    CommitRequest, CommitResponse, FetchRequest, FetchResponse, GetCommittedRequest, GetCommittedResponse,
    InitProducerRequest, InitProducerResponse, ListOffsetsRequest, ListOffsetsResponse, ProduceRequest,
    ProduceResponse, ProduceStreamRequest, ProduceStreamResponse,
};

/// The service over a gateway.
#[derive(Clone)]
pub(crate) struct BrokerApi {
    gateway: Arc<Gateway>,
}

impl BrokerApi {
    pub(crate) fn new(gateway: Arc<Gateway>) -> Self {
        BrokerApi { gateway }
    }

    fn admit(&self) -> Result<&Arc<Gateway>, ApiError> {
        if self.gateway.drain.is_cancelled() { Err(errors::draining()) } else { Ok(&self.gateway) }
    }

    async fn produce_one(&self, request: ProduceRequest) -> Result<ProduceResponse, ApiError> {
        let gateway = self.admit().map_err(|error| error.with_applied(Applied::None))?;
        super::admin::auto_create(gateway, &request).await?;
        let submission = Submission::check(gateway, request)?;
        if !gateway.pipelines.budget.try_take(submission.budget_bytes()) {
            return Err(errors::overloaded().with_applied(Applied::None));
        }
        submission.submit(gateway, None).await?.finish().await
    }

    async fn init_producer_one(
        &self,
        request: InitProducerRequest,
    ) -> Result<InitProducerResponse, ApiError> {
        let gateway = self.admit()?;
        if request.transactional_id.is_some() || request.transaction_timeout_ms.is_some() {
            return Err(ApiError::invalid(
                "transactional_id",
                "transactions are not served yet; leave it unset",
            ));
        }
        let ids = gateway
            .controller
            .allocate_producer_ids(1)
            .await
            .map_err(|error| super::admin::command_error("", &error))?;
        let id = ProducerId::new(ids.start);
        Ok(InitProducerResponse { producer_id: Some(id.value().cast_signed()), producer_epoch: Some(0) })
    }
}

type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl BrokerService for BrokerApi {
    async fn produce(&self, request: Request<ProduceRequest>) -> Result<Response<ProduceResponse>, Status> {
        let limit = deadline::limit_of(&request);
        let response = deadline::within(limit, self.produce_one(request.into_inner())).await;
        response.map(Response::new).map_err(|error| error.or_applied(Applied::Unknown).into_status())
    }

    type ProduceStreamStream = ResponseStream<ProduceStreamResponse>;

    async fn produce_stream(
        &self,
        request: Request<Streaming<ProduceStreamRequest>>,
    ) -> Result<Response<Self::ProduceStreamStream>, Status> {
        let gateway = self.admit().map_err(ApiError::into_status)?;
        let stream = produce_stream(Arc::clone(gateway), request.into_inner());
        Ok(Response::new(Box::pin(stream)))
    }

    async fn fetch(&self, request: Request<FetchRequest>) -> Result<Response<FetchResponse>, Status> {
        let limit = deadline::limit_of(&request);
        let call = async { fetch::fetch(self.admit()?, request.into_inner(), limit).await };
        deadline::within(limit, call).await.map(Response::new).map_err(ApiError::into_status)
    }

    async fn commit(&self, request: Request<CommitRequest>) -> Result<Response<CommitResponse>, Status> {
        let limit = deadline::limit_of(&request);
        let call = async { offsets::commit(self.admit()?, request.into_inner()).await };
        deadline::within(limit, call).await.map(Response::new).map_err(ApiError::into_status)
    }

    async fn get_committed(
        &self,
        request: Request<GetCommittedRequest>,
    ) -> Result<Response<GetCommittedResponse>, Status> {
        let limit = deadline::limit_of(&request);
        let call = async { offsets::get_committed(self.admit()?, request.into_inner()).await };
        deadline::within(limit, call).await.map(Response::new).map_err(ApiError::into_status)
    }

    async fn list_offsets(
        &self,
        request: Request<ListOffsetsRequest>,
    ) -> Result<Response<ListOffsetsResponse>, Status> {
        let limit = deadline::limit_of(&request);
        let call = async { offsets::list_offsets(self.admit()?, request.into_inner()).await };
        deadline::within(limit, call).await.map(Response::new).map_err(ApiError::into_status)
    }

    async fn init_producer(
        &self,
        request: Request<InitProducerRequest>,
    ) -> Result<Response<InitProducerResponse>, Status> {
        let limit = deadline::limit_of(&request);
        let call = self.init_producer_one(request.into_inner());
        deadline::within(limit, call).await.map(Response::new).map_err(ApiError::into_status)
    }
}
