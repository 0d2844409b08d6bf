//! `wharf-bench-bare`: what the wire alone allows.
//!
//! A `BrokerService` with the messages and the transport settings of Wharf's own, which stores nothing: it counts records to
//! answer positions, and answers every fetch with the same records. `wharf bench --endpoint` measures it with the same client
//! in the same way, so the difference between both is what the broker costs. It is no broker: a fetch does not return what was
//! produced.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::Context;
use bytes::Bytes;
use clap::Parser;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};
use wharf_proto::v1;
use wharf_proto::v1::broker_service_server::{BrokerService, BrokerServiceServer};
use wharf_proto::v1::produce_stream_response::Result as StreamResult;

/// The allocator of the `wharf` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Partitions that positions pretend to have; every record goes to the first.
const PARTITION: i32 = 0;
/// The largest request, as Wharf takes it.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// A BrokerService that stores nothing, to measure what the wire alone allows.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// Where to listen; port 0 takes a free one, which is printed
    #[arg(long, default_value = "127.0.0.1:7170")]
    listen: SocketAddr,
    /// Worker threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    worker_threads: u16,
    /// Largest HTTP/2 frame that is received
    #[arg(long, default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(16_384..=16_777_215))]
    frame_bytes_max: u32,
    /// HTTP/2 window of a stream
    #[arg(long, default_value_t = 4 << 20)]
    stream_window_bytes: u32,
    /// HTTP/2 window of a connection
    #[arg(long, default_value_t = 16 << 20)]
    connection_window_bytes: u32,
    /// Records in the answer to a fetch
    #[arg(long, default_value_t = 1_024)]
    fetch_records: usize,
    /// Bytes of each of their values
    #[arg(long, default_value_t = 1_024)]
    fetch_record_bytes: usize,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(usize::from(arguments.worker_threads))
        .enable_all()
        .build()
        .context("start the runtime")?
        .block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> anyhow::Result<()> {
    let listener = TcpListener::bind(arguments.listen).await.context("listen")?;
    println!("listening on {}", listener.local_addr().context("read the address")?);
    let mut terminate = signal(SignalKind::terminate()).context("wait for SIGTERM")?;
    let stopped = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    let bare = Bare::new(arguments.fetch_records, arguments.fetch_record_bytes);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .initial_stream_window_size(arguments.stream_window_bytes)
        .initial_connection_window_size(arguments.connection_window_bytes)
        .max_frame_size(arguments.frame_bytes_max)
        .add_service(BrokerServiceServer::new(bare).max_decoding_message_size(MESSAGE_BYTES_MAX))
        .serve_with_incoming_shutdown(incoming, stopped)
        .await
        .context("serve")
}

/// Counts what it is given and forgets it.
struct Bare {
    next_offset: Arc<AtomicI64>,
    fetched: v1::FetchResponse,
}

impl Bare {
    fn new(records: usize, record_bytes: usize) -> Self {
        let value = Bytes::from(vec![b'x'; record_bytes]);
        let record = |offset: usize| v1::FetchedRecord {
            offset: i64::try_from(offset).ok(),
            timestamp_ms: Some(1_767_225_600_000),
            append_time_ms: Some(1_767_225_600_000),
            leader_epoch: Some(1),
            value: Some(value.clone()),
            ..v1::FetchedRecord::default()
        };
        Bare {
            next_offset: Arc::new(AtomicI64::new(0)),
            fetched: v1::FetchResponse {
                records: (0..records).map(record).collect(),
                log_start_offset: Some(0),
                high_watermark: Some(i64::MAX),
                last_stable_offset: Some(i64::MAX),
                ..v1::FetchResponse::default()
            },
        }
    }
}

/// A position for each record, as if one partition took them all.
fn positions(next_offset: &AtomicI64, request: &v1::ProduceRequest) -> v1::ProduceResponse {
    let count = i64::try_from(request.records.len()).unwrap_or(0);
    let first = next_offset.fetch_add(count, Ordering::Relaxed);
    let position = |offset| v1::RecordPosition { partition: Some(PARTITION), offset: Some(offset) };
    v1::ProduceResponse { positions: (first..first + count).map(position).collect(), duplicate: false }
}

type Answers = Pin<Box<dyn Stream<Item = Result<v1::ProduceStreamResponse, Status>> + Send>>;

#[tonic::async_trait]
impl BrokerService for Bare {
    async fn produce(
        &self,
        request: Request<v1::ProduceRequest>,
    ) -> Result<Response<v1::ProduceResponse>, Status> {
        Ok(Response::new(positions(&self.next_offset, request.get_ref())))
    }

    type ProduceStreamStream = Answers;

    async fn produce_stream(
        &self,
        request: Request<Streaming<v1::ProduceStreamRequest>>,
    ) -> Result<Response<Answers>, Status> {
        let next_offset = Arc::clone(&self.next_offset);
        let answers = request.into_inner().map(move |frame| {
            let frame = frame?;
            let ok = positions(&next_offset, &frame.request.unwrap_or_default());
            Ok(v1::ProduceStreamResponse { request_id: frame.request_id, result: Some(StreamResult::Ok(ok)) })
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn fetch(&self, request: Request<v1::FetchRequest>) -> Result<Response<v1::FetchResponse>, Status> {
        let from = match request.get_ref().position {
            Some(v1::fetch_request::Position::Offset(offset)) => offset,
            _ => 0,
        };
        let records = i64::try_from(self.fetched.records.len()).unwrap_or(0);
        Ok(Response::new(v1::FetchResponse {
            next_offset: Some(from.saturating_add(records)),
            ..self.fetched.clone()
        }))
    }

    async fn commit(
        &self,
        _request: Request<v1::CommitRequest>,
    ) -> Result<Response<v1::CommitResponse>, Status> {
        Ok(Response::new(v1::CommitResponse {}))
    }

    async fn get_committed(
        &self,
        _request: Request<v1::GetCommittedRequest>,
    ) -> Result<Response<v1::GetCommittedResponse>, Status> {
        Err(Status::unimplemented("nothing is stored"))
    }

    async fn list_offsets(
        &self,
        _request: Request<v1::ListOffsetsRequest>,
    ) -> Result<Response<v1::ListOffsetsResponse>, Status> {
        Err(Status::unimplemented("nothing is stored"))
    }

    async fn init_producer(
        &self,
        _request: Request<v1::InitProducerRequest>,
    ) -> Result<Response<v1::InitProducerResponse>, Status> {
        Ok(Response::new(v1::InitProducerResponse { producer_id: Some(1), producer_epoch: Some(0) }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_record_gets_the_next_position() {
        let next_offset = AtomicI64::new(0);
        let request = v1::ProduceRequest { records: vec![v1::Record::default(); 3], ..Default::default() };
        positions(&next_offset, &request);
        let second = positions(&next_offset, &request);
        let offsets: Vec<_> = second.positions.iter().map(|position| position.offset.unwrap()).collect();
        assert_eq!(offsets, [3, 4, 5]);
    }

    #[tokio::test]
    async fn fetches_answer_the_prepared_records_from_any_offset() {
        let bare = Bare::new(4, 16);
        let position = Some(v1::fetch_request::Position::Offset(8));
        let request = v1::FetchRequest { position, ..Default::default() };
        let response = bare.fetch(Request::new(request)).await.unwrap().into_inner();
        assert_eq!(response.records.len(), 4);
        assert_eq!(response.next_offset, Some(12));
    }
}
