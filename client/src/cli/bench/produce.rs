//! `wharf bench produce`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use rand::Rng;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use wharf_proto::v1::{self, produce_stream_response::Result as StreamResult};

use super::report::{Conditions, Latencies, Outcome, Report};
use super::{Budget, CommonArgs, connect, ensure_topic, live_line};
use crate::cli::Globals;
use crate::cli::error::CliError;
use crate::cli::produce::AcksArg;
use crate::client::Client;
use crate::error::ClientError;
use crate::producer::stream_error;

/// Requests that are built beforehand and sent in turn, so that keys and bytes differ.
const PREBUILT: usize = 32;
/// Request size of a stream, unless it is given.
const STREAM_REQUEST_BYTES: u32 = 65_536;
/// How long to leave a server alone that is overloaded.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// How to write.
#[derive(Debug, Args)]
pub struct ProduceBenchArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Bytes of a record's value; they are random, so that compression cannot help
    #[arg(long, value_name = "BYTES", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=2_097_152))]
    record_bytes: u32,
    /// Bytes of a request [default: 65536 in stream mode, one record in unary mode]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=3_145_728))]
    request_bytes: Option<u32>,
    /// Pipelined requests on a stream for each connection, or calls of their own
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// Requests without an answer, on each connection
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4_096))]
    in_flight: u16,
    /// When a request is answered
    #[arg(long, value_enum, default_value_t)]
    acks: AcksArg,
    /// Give records keys that spread over the partitions
    #[arg(long, conflicts_with = "keyless")]
    keyed: bool,
    /// Give records no keys, which is the default
    #[arg(long)]
    keyless: bool,
}

/// How requests travel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// ProduceStream
    #[default]
    Stream,
    /// Produce
    Unary,
}

impl ProduceBenchArgs {
    fn records_per_request(&self) -> u32 {
        let default = match self.mode {
            Mode::Stream => STREAM_REQUEST_BYTES,
            Mode::Unary => self.record_bytes,
        };
        (self.request_bytes.unwrap_or(default) / self.record_bytes).max(1)
    }

    fn request_payload_bytes(&self) -> u64 {
        u64::from(self.records_per_request()) * u64::from(self.record_bytes)
    }
}

/// What one task has done.
struct Share {
    requests: u64,
    refused: u64,
    latencies: Latencies,
}

/// What all tasks share.
struct Load {
    requests: Vec<v1::ProduceRequest>,
    records_per_request: u64,
    payload_bytes: u64,
    budget: Arc<Budget>,
}

pub(super) async fn run(args: &ProduceBenchArgs, globals: &Globals) -> Result<(), CliError> {
    let clients = connect(&args.common, globals).await?;
    let partitions = match clients.first() {
        Some(client) => ensure_topic(client, &args.common).await?,
        None => args.common.partitions,
    };
    let payload_bytes = args.request_payload_bytes();
    let budget = Budget::new(args.common.bytes.as_u64().div_ceil(payload_bytes), args.common.duration);
    let load = Arc::new(Load {
        requests: prebuilt(args),
        records_per_request: u64::from(args.records_per_request()),
        payload_bytes,
        budget: budget.clone(),
    });
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for client in &clients {
        match args.mode {
            Mode::Stream => {
                tasks.spawn(stream(client.clone(), load.clone(), usize::from(args.in_flight)));
            }
            Mode::Unary => {
                for index in 0..usize::from(args.in_flight) {
                    tasks.spawn(unary(client.clone(), load.clone(), index));
                }
            }
        }
    }
    let shares = tokio::select! {
        shares = gather(tasks, &budget) => shares?,
        never = live_line(budget.clone(), args.common.progress, args.common.bytes.as_u64()) => match never {},
    };
    let outcome = sum(&shares, &load, started.elapsed())?;
    Report::new(conditions(args, partitions), &outcome).print(globals)
}

fn conditions(args: &ProduceBenchArgs, partitions: i32) -> Conditions {
    Conditions {
        kind: "produce",
        mode: match args.mode {
            Mode::Stream => "stream",
            Mode::Unary => "unary",
        },
        topic: args.common.topic.clone(),
        partitions,
        connections: args.common.connections,
        in_flight: usize::from(args.in_flight),
        record_bytes: Some(args.record_bytes),
        records_per_request: Some(args.records_per_request()),
        keyed: Some(args.keyed),
        acks: Some(match args.acks {
            AcksArg::None => "none",
            AcksArg::Leader => "leader",
            AcksArg::All => "all",
        }),
    }
}

/// The first failure, or what each task did.
async fn gather(
    mut tasks: JoinSet<Result<Share, CliError>>,
    budget: &Budget,
) -> Result<Vec<Share>, CliError> {
    let mut shares = Vec::new();
    while let Some(joined) = tasks.join_next().await {
        let share = joined.unwrap_or(Err(CliError::Interrupted)).inspect_err(|_| budget.stop())?;
        shares.push(share);
    }
    Ok(shares)
}

fn sum(shares: &[Share], load: &Load, elapsed: Duration) -> Result<Outcome, CliError> {
    let mut latencies = Latencies::new()?;
    for share in shares {
        latencies.merge(&share.latencies)?;
    }
    let requests: u64 = shares.iter().map(|share| share.requests).sum();
    Ok(Outcome {
        requests,
        requests_refused: shares.iter().map(|share| share.refused).sum(),
        records: requests * load.records_per_request,
        bytes: requests * load.payload_bytes,
        elapsed,
        latencies,
    })
}

/// Requests of random bytes. A clone of one shares the bytes.
fn prebuilt(args: &ProduceBenchArgs) -> Vec<v1::ProduceRequest> {
    let mut random = rand::rng();
    let mut record = |number: usize| {
        let mut value = vec![0; args.record_bytes as usize];
        random.fill_bytes(&mut value);
        v1::Record {
            key: args.keyed.then(|| Bytes::from(format!("key-{number}"))),
            value: Some(value.into()),
            ..v1::Record::default()
        }
    };
    let per_request = args.records_per_request() as usize;
    (0..PREBUILT)
        .map(|request| v1::ProduceRequest {
            topic: args.common.topic.clone(),
            records: (0..per_request).map(|index| record(request * per_request + index)).collect(),
            acks: args.acks.to_wire().into(),
            ..v1::ProduceRequest::default()
        })
        .collect()
}

/// Keeps `in_flight` requests unanswered on one stream.
async fn stream(client: Client, load: Arc<Load>, in_flight: usize) -> Result<Share, CliError> {
    let mut share = Share { requests: 0, refused: 0, latencies: Latencies::new()? };
    let (sender, receiver) = mpsc::channel(in_flight);
    let mut sent_at: VecDeque<Instant> = VecDeque::with_capacity(in_flight);
    let mut next_id = 0i64;
    let mut send = |sent_at: &mut VecDeque<Instant>| {
        let request = load.requests[next_id as usize % load.requests.len()].clone();
        let frame = v1::ProduceStreamRequest { request_id: next_id, request: Some(request), timeout_ms: 0 };
        next_id += 1;
        sent_at.push_back(Instant::now());
        // There is room for all that may be unanswered; if the stream has ended, the answers say why.
        drop(sender.try_send(frame));
    };
    while sent_at.len() < in_flight && load.budget.take() {
        send(&mut sent_at);
    }
    let outcome = client.broker().produce_stream(ReceiverStream::new(receiver)).await;
    let mut answers = outcome.map_err(|status| client.error(&status))?.into_inner();
    while !sent_at.is_empty() {
        let answer = answers.message().await.map_err(|status| client.error(&status))?;
        let answer = answer.ok_or(ClientError::Protocol { problem: "a produce stream that ended early" })?;
        let latency = sent_at.pop_front().map(|at| at.elapsed()).unwrap_or_default();
        match answer.result {
            Some(StreamResult::Ok(_)) => {
                share.latencies.record(latency);
                share.requests += 1;
                load.budget.done(load.records_per_request, load.payload_bytes);
            }
            Some(StreamResult::Error(status)) => {
                let error = stream_error(&status);
                if !error.is_transient() {
                    return Err(error.into());
                }
                share.refused += 1;
                tokio::time::sleep(REFUSED_PAUSE).await;
            }
            None => return Err(ClientError::Protocol { problem: "a produce answer without result" }.into()),
        }
        if load.budget.take() {
            send(&mut sent_at);
        }
    }
    Ok(share)
}

/// Makes one call after the other.
async fn unary(client: Client, load: Arc<Load>, index: usize) -> Result<Share, CliError> {
    let mut share = Share { requests: 0, refused: 0, latencies: Latencies::new()? };
    let mut broker = client.broker();
    let mut next = index;
    while load.budget.take() {
        let request = load.requests[next % load.requests.len()].clone();
        next += 1;
        let sent_at = Instant::now();
        match broker.produce(Request::new(request)).await {
            Ok(_) => {
                share.latencies.record(sent_at.elapsed());
                share.requests += 1;
                load.budget.done(load.records_per_request, load.payload_bytes);
            }
            Err(status) => {
                let error = client.error(&status);
                if error.api().is_none() || !error.is_transient() {
                    return Err(error.into());
                }
                share.refused += 1;
                tokio::time::sleep(REFUSED_PAUSE).await;
            }
        }
    }
    Ok(share)
}
