//! `wharf bench fetch`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::task::JoinSet;
use wharf_proto::v1;

use super::report::{Conditions, Latencies, Outcome, Report, fetched_bytes};
use super::{Budget, CommonArgs, connect, ensure_topic, live_line};
use crate::cli::Globals;
use crate::cli::error::CliError;
use crate::fetcher::{FetchLimits, FetchPosition, PartitionFetcher};

/// How to read.
#[derive(Debug, Args)]
pub struct FetchBenchArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Most bytes of records in an answer
    #[arg(long, value_name = "BYTES", default_value_t = 1_048_576, value_parser = clap::value_parser!(i32).range(1..))]
    response_bytes: i32,
    /// Partitions that are read at once
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=4_096))]
    in_flight: u16,
    /// Start again at the oldest record when the end is reached, until --bytes or --duration are up
    #[arg(long)]
    repeat: bool,
}

/// What one task has done.
struct Share {
    requests: u64,
    records: u64,
    bytes: u64,
    latencies: Latencies,
}

pub(super) async fn run(args: &FetchBenchArgs, globals: &Globals) -> Result<(), CliError> {
    let clients = connect(&args.common, globals).await?;
    let partitions = match clients.first() {
        Some(client) => ensure_topic(client, &args.common).await?,
        None => args.common.partitions,
    };
    // The bound is in bytes, which only the answers tell; requests are not counted down.
    let budget = Budget::new(u64::MAX, args.common.duration);
    let bytes_max = args.common.bytes.as_u64();
    let limits = FetchLimits { bytes_max: args.response_bytes, ..FetchLimits::default() };
    let workers = i32::from(args.in_flight).min(partitions);
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for worker in 0..workers {
        let client = &clients[worker as usize % clients.len()];
        let share = (worker..partitions).step_by(workers as usize);
        let fetcher = |partition| {
            PartitionFetcher::new(client, &args.common.topic, partition, FetchPosition::Earliest, limits)
        };
        tasks.spawn(read(share.map(fetcher).collect(), budget.clone(), bytes_max, args.repeat));
    }
    let shares = tokio::select! {
        shares = gather(tasks, &budget) => shares?,
        never = live_line(budget.clone(), args.common.progress, bytes_max) => match never {},
    };
    let outcome = sum(&shares, started.elapsed())?;
    let conditions = Conditions {
        kind: "fetch",
        mode: "unary",
        topic: args.common.topic.clone(),
        partitions,
        connections: args.common.connections,
        in_flight: usize::try_from(workers).unwrap_or(0),
        record_bytes: None,
        records_per_request: None,
        keyed: None,
        acks: None,
    };
    Report::new(conditions, &outcome).print(globals)
}

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

fn sum(shares: &[Share], elapsed: Duration) -> Result<Outcome, CliError> {
    let mut latencies = Latencies::new()?;
    for share in shares {
        latencies.merge(&share.latencies)?;
    }
    Ok(Outcome {
        requests: shares.iter().map(|share| share.requests).sum(),
        requests_refused: 0,
        records: shares.iter().map(|share| share.records).sum(),
        bytes: shares.iter().map(|share| share.bytes).sum(),
        elapsed,
        latencies,
    })
}

/// Reads partitions in turn, one answer at a time, until all are at their ends or enough was read by all tasks together.
async fn read(
    mut fetchers: Vec<PartitionFetcher>,
    budget: Arc<Budget>,
    bytes_max: u64,
    repeat: bool,
) -> Result<Share, CliError> {
    let mut share = Share { requests: 0, records: 0, bytes: 0, latencies: Latencies::new()? };
    let mut turn = 0;
    while !fetchers.is_empty() && budget.take() && budget.done_so_far().1 < bytes_max {
        turn = (turn + 1) % fetchers.len();
        let sent_at = Instant::now();
        let response = fetchers[turn].fetch(Duration::ZERO).await?;
        share.latencies.record(sent_at.elapsed());
        share.requests += 1;
        if response.records.is_empty() {
            if repeat && fetchers[turn].position() != FetchPosition::Offset(wharf_types::Offset::ZERO) {
                fetchers[turn].reset_to(FetchPosition::Earliest);
            } else {
                fetchers.swap_remove(turn);
            }
            continue;
        }
        let records = response.records.len() as u64;
        let bytes: u64 =
            response.records.iter().map(|record: &v1::FetchedRecord| fetched_bytes(record)).sum();
        share.records += records;
        share.bytes += bytes;
        budget.done(records, bytes);
    }
    Ok(share)
}
