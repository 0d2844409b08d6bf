//! Which partitions to read, from where, up to where.

use std::collections::BTreeMap;

use wharf_proto::v1::{self, ErrorReason};
use wharf_types::{Offset, TimestampMs};

use super::ConsumeArgs;
use crate::cli::error::CliError;
use crate::cli::position::Place;
use crate::cli::time::now;
use crate::client::Client;
use crate::fetcher::{FetchLimits, FetchPosition, PartitionFetcher};

/// Where reading a partition ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Never,
    /// Before this offset.
    Before(Offset),
    /// Before the first record that is appended at or after this time, which lies ahead.
    At(TimestampMs),
}

impl Stop {
    /// Whether a record is beyond the end.
    pub(super) fn excludes(self, offset: Offset, append_time: TimestampMs) -> bool {
        match self {
            Stop::Never => false,
            Stop::Before(end) => offset >= end,
            Stop::At(time) => append_time >= time,
        }
    }

    /// Whether nothing before the end is left, with `next` the offset to be read next, past all that was there.
    pub(super) fn reached(self, next: Offset, now: TimestampMs, caught_up: bool) -> bool {
        match self {
            Stop::Never => false,
            Stop::Before(end) => next >= end,
            Stop::At(time) => caught_up && now >= time,
        }
    }
}

/// A partition and where it ends.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) fetcher: PartitionFetcher,
    pub(super) stop: Stop,
}

/// Looks up what the arguments mean now.
pub(super) async fn plan(client: &Client, args: &ConsumeArgs) -> Result<Vec<Cursor>, CliError> {
    let partitions = partitions(client, args).await?;
    let mut starts = starts(client, args, &partitions).await?;
    let mut stops = stops(client, args, &partitions).await?;
    let isolation = isolation(args);
    let limits = FetchLimits { isolation, ..FetchLimits::default() };
    let cursor = |partition: i32| Cursor {
        fetcher: PartitionFetcher::new(
            client,
            &args.topic,
            partition,
            starts.remove(&partition).unwrap_or(FetchPosition::Earliest),
            limits,
        ),
        stop: stops.remove(&partition).unwrap_or(Stop::Never),
    };
    Ok(partitions.into_iter().map(cursor).collect())
}

fn isolation(args: &ConsumeArgs) -> v1::IsolationLevel {
    if args.read_uncommitted {
        v1::IsolationLevel::ReadUncommitted
    } else {
        v1::IsolationLevel::ReadCommitted
    }
}

async fn partitions(client: &Client, args: &ConsumeArgs) -> Result<Vec<i32>, CliError> {
    let topic = match client.describe_topic(&args.topic).await {
        Err(error) if error.reason() == Some(ErrorReason::TopicNotFound) => {
            return Err(CliError::NoTopic { topic: args.topic.clone() });
        }
        outcome => outcome?,
    };
    let all: Vec<i32> = topic.partitions.iter().filter_map(|partition| partition.partition).collect();
    if let Some(missing) = args.partitions.iter().find(|wanted| !all.contains(wanted)) {
        return Err(CliError::NoPartition {
            topic: args.topic.clone(),
            count: all.len(),
            partition: *missing,
        });
    }
    Ok(all
        .into_iter()
        .filter(|number| args.partitions.is_empty() || args.partitions.contains(number))
        .collect())
}

async fn starts(
    client: &Client,
    args: &ConsumeArgs,
    partitions: &[i32],
) -> Result<BTreeMap<i32, FetchPosition>, CliError> {
    let committed = match &args.group {
        Some(group) => committed(client, group, &args.topic, partitions).await?,
        None => BTreeMap::new(),
    };
    let ends = match args.from {
        // The end as it is now: what is written while the last partition waits for its turn belongs to it.
        Place::Latest => offsets(client, args, partitions, Target::End).await?,
        _ => BTreeMap::new(),
    };
    let default = |partition: i32| match (args.from, args.from.append_time()) {
        (Place::Earliest, _) => FetchPosition::Earliest,
        (Place::Offset(offset), _) => FetchPosition::Offset(offset),
        (_, Some(time)) => FetchPosition::AppendTime(time),
        (_, None) => ends.get(&partition).copied().map_or(FetchPosition::Latest, FetchPosition::Offset),
    };
    let start = |partition: &i32| {
        let position = committed.get(partition).copied().map(FetchPosition::Offset);
        (*partition, position.unwrap_or_else(|| default(*partition)))
    };
    Ok(partitions.iter().map(start).collect())
}

async fn committed(
    client: &Client,
    group: &str,
    topic: &str,
    partitions: &[i32],
) -> Result<BTreeMap<i32, Offset>, CliError> {
    let named = |partition: &i32| v1::TopicPartition { topic: topic.to_owned(), partition: *partition };
    let request = client.request(v1::GetCommittedRequest {
        group: group.to_owned(),
        partitions: partitions.iter().map(named).collect(),
    });
    let response = client.decode(client.broker().get_committed(request).await)?;
    let known = |found: &v1::CommittedOffset| found.partition.zip(found.offset.and_then(Offset::from_wire));
    Ok(response.offsets.iter().filter_map(known).collect())
}

async fn stops(
    client: &Client,
    args: &ConsumeArgs,
    partitions: &[i32],
) -> Result<BTreeMap<i32, Stop>, CliError> {
    let Some(until) = args.until else { return Ok(BTreeMap::new()) };
    if let Place::Offset(offset) = until {
        return Ok(partitions.iter().map(|partition| (*partition, Stop::Before(offset))).collect());
    }
    let Some(time) = until.append_time() else {
        let ends = offsets(client, args, partitions, Target::End).await?;
        return Ok(ends.into_iter().map(|(partition, end)| (partition, Stop::Before(end))).collect());
    };
    let found = offsets(client, args, partitions, Target::AppendTime(time)).await?;
    let ends = offsets(client, args, partitions, Target::End).await?;
    let stop = |partition: &i32| {
        let stop = match (found.get(partition), ends.get(partition)) {
            (Some(offset), _) => Stop::Before(*offset),
            // Nothing is that late yet, and append times do not go back: all that is there now is before it.
            (None, Some(end)) if time <= now() => Stop::Before(*end),
            _ => Stop::At(time),
        };
        (*partition, stop)
    };
    Ok(partitions.iter().map(stop).collect())
}

#[derive(Debug, Clone, Copy)]
enum Target {
    End,
    AppendTime(TimestampMs),
}

/// Offsets by partition; those where there is none at or after the time are left out.
async fn offsets(
    client: &Client,
    args: &ConsumeArgs,
    partitions: &[i32],
    target: Target,
) -> Result<BTreeMap<i32, Offset>, CliError> {
    use v1::list_offsets_request::At;
    let at = match target {
        Target::End => At::Start(v1::StartPosition::Latest.into()),
        Target::AppendTime(time) => At::AppendTimeMs(time.to_wire()),
    };
    let request = client.request(v1::ListOffsetsRequest {
        topic: args.topic.clone(),
        partitions: partitions.to_vec(),
        at: Some(at),
        isolation: isolation(args).into(),
    });
    let response = client.decode(client.broker().list_offsets(request).await)?;
    let known = |found: &v1::PartitionOffset| found.partition.zip(found.offset.and_then(Offset::from_wire));
    Ok(response.offsets.iter().filter_map(known).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_not_part_of_what_is_read() {
        let time = TimestampMs::new(5);
        let stop = Stop::Before(Offset::new(10));
        assert!(!stop.excludes(Offset::new(9), time));
        assert!(stop.excludes(Offset::new(10), time));
        assert!(stop.reached(Offset::new(10), time, false));
        assert!(!stop.reached(Offset::new(9), time, true));
    }

    #[test]
    fn a_time_ahead_is_reached_when_it_has_come_and_all_is_read() {
        let stop = Stop::At(TimestampMs::new(5));
        assert!(stop.excludes(Offset::ZERO, TimestampMs::new(5)));
        assert!(!stop.excludes(Offset::ZERO, TimestampMs::new(4)));
        assert!(!stop.reached(Offset::ZERO, TimestampMs::new(4), true));
        assert!(!stop.reached(Offset::ZERO, TimestampMs::new(5), false));
        assert!(stop.reached(Offset::ZERO, TimestampMs::new(5), true));
    }
}
