//! `wharf bench`: how fast this client gets records in and out.
//!
//! The client is made to cost little, because it shares the machine with what it measures: requests are built beforehand and
//! only their references are cloned; one thread serves all connections. A server without `AdminService`, such as the bare
//! one that the comparison runs against, is taken as it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use clap::{Args, Subcommand, ValueEnum};
use tonic::Code;
use wharf_proto::v1::{self, ErrorReason};

use super::Globals;
use super::error::CliError;
use super::progress::Progress;
use crate::client::Client;
use crate::error::ClientError;

mod fetch;
mod produce;
mod report;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchVerb {
    /// Write records
    Produce(produce::ProduceBenchArgs),
    /// Read records that are there
    Fetch(fetch::FetchBenchArgs),
}

/// What both kinds take.
#[derive(Debug, Args)]
pub(super) struct CommonArgs {
    /// Topic; created if it does not exist
    #[arg(long, default_value = "wharf-bench")]
    topic: String,
    /// Partitions of a topic that is created
    #[arg(long, value_name = "COUNT", default_value_t = 12, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    /// Flush policy of a topic that is created [default: the server's, ack]
    #[arg(long, value_enum)]
    flush_policy: Option<FlushPolicyArg>,
    /// Connections
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
    /// Stop after this time [default: not]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// Stop after so many bytes of records
    #[arg(long, value_name = "BYTES", default_value = "1GiB")]
    bytes: ByteSize,
    /// Print the live line even if stderr is no terminal
    #[arg(long)]
    progress: bool,
}

/// When an acknowledged record is on stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FlushPolicyArg {
    /// Before it is acknowledged
    Ack,
    /// Some time after
    Interval,
    /// When the operating system likes
    Os,
}

impl FlushPolicyArg {
    fn value(self) -> &'static str {
        match self {
            FlushPolicyArg::Ack => "ack",
            FlushPolicyArg::Interval => "interval",
            FlushPolicyArg::Os => "os",
        }
    }
}

pub(super) async fn run(verb: BenchVerb, globals: &Globals) -> Result<(), CliError> {
    match verb {
        BenchVerb::Produce(args) => produce::run(&args, globals).await,
        BenchVerb::Fetch(args) => fetch::run(&args, globals).await,
    }
}

/// Connections to one endpoint.
async fn connect(args: &CommonArgs, globals: &Globals) -> Result<Vec<Client>, CliError> {
    let mut clients = Vec::with_capacity(usize::from(args.connections));
    for _ in 0..args.connections {
        clients.push(globals.connect().await?);
    }
    Ok(clients)
}

/// Creates the topic if it is missing and gives its number of partitions. A server without the service has as many as the
/// arguments say.
async fn ensure_topic(client: &Client, args: &CommonArgs) -> Result<i32, CliError> {
    let policy = args.flush_policy.map(|policy| ("flush.policy".to_owned(), policy.value().to_owned()));
    let request = client.request(v1::CreateTopicRequest {
        topic: args.topic.clone(),
        partitions: args.partitions,
        config: policy.into_iter().collect(),
        ..Default::default()
    });
    match client.decode(client.admin().create_topic(request).await) {
        Ok(_) | Err(ClientError::Foreign { code: Code::Unimplemented, .. }) => Ok(args.partitions),
        Err(error) if error.reason() == Some(ErrorReason::TopicAlreadyExists) => {
            let topic = client.describe_topic(&args.topic).await?;
            Ok(topic.topic.partition_count)
        }
        Err(error) => Err(error.into()),
    }
}

/// What is left to do, shared by all connections, and what has been done.
#[derive(Debug)]
struct Budget {
    requests_left: AtomicU64,
    deadline: Option<Instant>,
    stopped: AtomicBool,
    records: AtomicU64,
    bytes: AtomicU64,
}

impl Budget {
    fn new(requests: u64, duration: Option<Duration>) -> Arc<Self> {
        Arc::new(Budget {
            requests_left: AtomicU64::new(requests),
            deadline: duration.map(|duration| Instant::now() + duration),
            stopped: AtomicBool::new(false),
            records: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        })
    }

    /// Whether one more request may be made.
    fn take(&self) -> bool {
        if self.stopped.load(Ordering::Relaxed) || self.deadline.is_some_and(|end| Instant::now() >= end) {
            return false;
        }
        let less = |left: u64| left.checked_sub(1);
        self.requests_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Lets everybody stop after a failure.
    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn done(&self, records: u64, bytes: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn done_so_far(&self) -> (u64, u64) {
        (self.records.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// Shows the live line until it is dropped.
async fn live_line(budget: Arc<Budget>, wanted: bool, total_bytes: u64) -> std::convert::Infallible {
    let started = Instant::now();
    let mut progress = Progress::new(wanted, Some(total_bytes));
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    let (mut last, mut last_at) = ((0, 0), started);
    loop {
        ticks.tick().await;
        let now = budget.done_so_far();
        let seconds = last_at.elapsed().as_secs_f64().max(1e-6);
        let (records, bytes) = ((now.0 - last.0) as f64 / seconds, (now.1 - last.1) as f64 / seconds);
        progress.update(now.1, || {
            let at = started.elapsed().as_secs_f64();
            format!("{at:.0} s: {records:.0} records/s, {:.1} MB/s", bytes / 1e6)
        });
        (last, last_at) = (now, Instant::now());
    }
}
