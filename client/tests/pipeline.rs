//! The produce pipeline against a scripted broker: what is sent again, under which sequence, in which order.

#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};
use wharf_client::{Client, ClientError, ClientOptions, PipelineOptions, ProducePipeline};
use wharf_proto::error::{ApiError, Applied};
use wharf_proto::v1;
use wharf_proto::v1::ErrorReason;
use wharf_proto::v1::broker_service_server::{BrokerService, BrokerServiceServer};
use wharf_proto::v1::produce_stream_response::Result as StreamResult;

/// What the broker does with a request of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    /// Keeps it and says so.
    Write,
    /// Answers this reason, and PREDECESSOR_FAILED to all later ones of the stream.
    Refuse(ErrorReason),
    /// Keeps it and breaks the stream before the answer.
    WriteAndBreak,
}

#[derive(Debug, Default)]
struct State {
    streams: usize,
    /// First values of the requests that were kept, each sequence once.
    written: Vec<(i64, String)>,
    sequences: BTreeSet<i64>,
    refused: usize,
}

type Script = fn(stream: usize, sequence: i64) -> Act;
type Answers = Pin<Box<dyn Stream<Item = Result<v1::ProduceStreamResponse, Status>> + Send>>;

struct Broker {
    state: Arc<Mutex<State>>,
    script: Script,
}

fn first_value(request: &v1::ProduceRequest) -> String {
    String::from_utf8(request.records[0].value.clone().unwrap().to_vec()).unwrap()
}

/// One answer, or nothing where the stream breaks.
fn act(
    state: &Mutex<State>,
    script: Script,
    stream: usize,
    failed: &mut bool,
    frame: v1::ProduceStreamRequest,
) -> Option<StreamResult> {
    let request = frame.request.unwrap();
    let sequence = request.producer.map_or(frame.request_id, |producer| producer.sequence);
    let mut state = state.lock().unwrap();
    let error = |reason| StreamResult::Error(ApiError::new(reason, "scripted").to_rpc_status());
    if *failed {
        return Some(error(ErrorReason::PredecessorFailed));
    }
    let mut keep = || {
        if state.sequences.insert(sequence) {
            state.written.push((sequence, first_value(&request)));
        }
    };
    match script(stream, sequence) {
        Act::Write => {
            keep();
            Some(StreamResult::Ok(v1::ProduceResponse::default()))
        }
        Act::WriteAndBreak => {
            keep();
            None
        }
        Act::Refuse(reason) => {
            state.refused += 1;
            *failed = true;
            Some(error(reason))
        }
    }
}

#[tonic::async_trait]
impl BrokerService for Broker {
    type ProduceStreamStream = Answers;

    async fn produce_stream(
        &self,
        request: Request<Streaming<v1::ProduceStreamRequest>>,
    ) -> Result<Response<Answers>, Status> {
        let (state, script) = (Arc::clone(&self.state), self.script);
        let stream = {
            let mut state = state.lock().unwrap();
            state.streams += 1;
            state.streams
        };
        let mut frames = request.into_inner();
        let (sender, receiver) = mpsc::channel(64);
        tokio::spawn(async move {
            let mut failed = false;
            while let Ok(Some(frame)) = frames.message().await {
                let request_id = frame.request_id;
                let result = act(&state, script, stream, &mut failed, frame);
                let broken = result.is_none();
                let answer = match result {
                    Some(result) => Ok(v1::ProduceStreamResponse { request_id, result: Some(result) }),
                    None => Err(Status::unavailable("scripted break")),
                };
                if sender.send(answer).await.is_err() || broken {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn init_producer(
        &self,
        _: Request<v1::InitProducerRequest>,
    ) -> Result<Response<v1::InitProducerResponse>, Status> {
        Ok(Response::new(v1::InitProducerResponse { producer_id: Some(7), producer_epoch: Some(0) }))
    }

    async fn produce(&self, _: Request<v1::ProduceRequest>) -> Result<Response<v1::ProduceResponse>, Status> {
        Err(Status::unimplemented(""))
    }
    async fn fetch(&self, _: Request<v1::FetchRequest>) -> Result<Response<v1::FetchResponse>, Status> {
        Err(Status::unimplemented(""))
    }
    async fn commit(&self, _: Request<v1::CommitRequest>) -> Result<Response<v1::CommitResponse>, Status> {
        Err(Status::unimplemented(""))
    }
    async fn get_committed(
        &self,
        _: Request<v1::GetCommittedRequest>,
    ) -> Result<Response<v1::GetCommittedResponse>, Status> {
        Err(Status::unimplemented(""))
    }
    async fn list_offsets(
        &self,
        _: Request<v1::ListOffsetsRequest>,
    ) -> Result<Response<v1::ListOffsetsResponse>, Status> {
        Err(Status::unimplemented(""))
    }
}

async fn start(script: Script) -> (Client, Arc<Mutex<State>>) {
    let state = Arc::new(Mutex::new(State::default()));
    let broker = Broker { state: Arc::clone(&state), script };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tonic::transport::Server::builder().add_service(BrokerServiceServer::new(broker));
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    (Client::connect(ClientOptions::new(address)).await.unwrap(), state)
}

fn options(idempotent: bool) -> PipelineOptions {
    PipelineOptions {
        topic: "t".into(),
        partition: None,
        acks: v1::Acks::All,
        unanswered_max: 4,
        idempotent,
        retry_for: Duration::from_secs(10),
    }
}

async fn produce(client: &Client, idempotent: bool) -> Result<u64, wharf_client::RequestFailure> {
    let mut pipeline = ProducePipeline::open(client, options(idempotent)).await.unwrap();
    for number in 0..10u64 {
        let record = v1::Record { value: Some(format!("value {number}").into()), ..Default::default() };
        pipeline.push(vec![record], number + 1).await?;
    }
    Ok(pipeline.finish().await?.records)
}

fn in_order() -> Vec<(i64, String)> {
    (0..10).map(|number| (number, format!("value {number}"))).collect()
}

#[tokio::test]
async fn all_requests_are_written_in_order_on_one_stream() {
    let (client, state) = start(|_, _| Act::Write).await;
    assert_eq!(produce(&client, true).await.unwrap(), 10);
    let state = state.lock().unwrap();
    assert_eq!(state.written, in_order());
    assert_eq!(state.streams, 1);
}

#[tokio::test]
async fn a_refusal_that_may_pass_is_sent_again_with_all_behind_it() {
    let script = |stream, sequence| match (stream, sequence) {
        (1, 3) | (2, 7) => Act::Refuse(ErrorReason::Overloaded),
        _ => Act::Write,
    };
    let (client, state) = start(script).await;
    assert_eq!(produce(&client, true).await.unwrap(), 10);
    let state = state.lock().unwrap();
    assert_eq!(state.written, in_order());
    assert_eq!((state.streams, state.refused), (3, 2));
}

#[tokio::test]
async fn a_broken_stream_writes_nothing_twice_and_keeps_the_order() {
    let script = |stream, sequence| match (stream, sequence) {
        (1, 0) | (2, 5) | (3, 9) => Act::WriteAndBreak,
        _ => Act::Write,
    };
    let (client, state) = start(script).await;
    assert_eq!(produce(&client, true).await.unwrap(), 10);
    assert_eq!(state.lock().unwrap().written, in_order());
}

#[tokio::test]
async fn a_refusal_for_good_names_the_request() {
    let script = |_, sequence| match sequence {
        6 => Act::Refuse(ErrorReason::InvalidRecord),
        _ => Act::Write,
    };
    let (client, state) = start(script).await;
    let failure = produce(&client, true).await.unwrap_err();
    assert_eq!((failure.tag, failure.records), (7, 1));
    assert_eq!(failure.error.reason(), Some(ErrorReason::InvalidRecord));
    assert_eq!(state.lock().unwrap().written, in_order()[..6]);
}

#[tokio::test]
async fn without_an_identity_nothing_is_sent_twice() {
    let script = |_, sequence| match sequence {
        2 => Act::WriteAndBreak,
        _ => Act::Write,
    };
    let (client, state) = start(script).await;
    let failure = produce(&client, false).await.unwrap_err();
    assert_eq!(failure.tag, 3);
    assert_eq!(failure.error.applied(), Applied::Unknown);
    assert!(matches!(failure.error, ClientError::Foreign { .. }), "{:?}", failure.error);
    assert_eq!(state.lock().unwrap().streams, 1);
}

#[tokio::test]
async fn a_broker_that_stays_away_is_given_up_after_the_time_for_retries() {
    let (client, state) = start(|_, _| Act::Refuse(ErrorReason::Overloaded)).await;
    let patience = PipelineOptions { retry_for: Duration::from_millis(300), ..options(true) };
    let mut pipeline = ProducePipeline::open(&client, patience).await.unwrap();
    let record = v1::Record { value: Some("value".into()), ..Default::default() };
    pipeline.push(vec![record], 1).await.unwrap();
    let failure = pipeline.finish().await.unwrap_err();
    assert_eq!(failure.error.reason(), Some(ErrorReason::Overloaded));
    let streams = state.lock().unwrap().streams;
    assert!(streams > 1, "{streams} streams");
}
