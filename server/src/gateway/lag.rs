//! How far groups are behind: in records, in time, and as share of the retention.
//!
//! A sampler looks at every group now and then, so that the rate of change is known when somebody asks, and the
//! metrics show groups with and without members.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wharf_types::{GroupName, Offset, TimestampMs, TopicPartition};

use super::Gateway;
use crate::storage_api::{CommittedPosition, FetchPosition, FetchQuery, StorageError};
use crate::telemetry::metrics::TopicLag;

/// Time between two samples of all groups.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// Groups that are sampled; the rest is looked at only when asked for.
const GROUPS_SAMPLED_MAX: usize = 1_000;
/// Groups and topics with a lag in the metrics; a bound on what clients can make a scraper store.
const SERIES_MAX: usize = 5_000;
/// Partitions of a group that are sampled.
const PARTITIONS_SAMPLED_MAX: usize = 2_000;

/// The lag of one partition of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Lag {
    pub(super) log_start: Option<Offset>,
    pub(super) end: Option<Offset>,
    pub(super) records: Option<u64>,
    /// Age of the oldest unread record by append time; zero if all is read.
    pub(super) time: Option<Duration>,
    /// Records that the lag grows by in a second; negative while it shrinks.
    pub(super) change_per_second: Option<f64>,
    /// Share of the retention that is used up by the lag: at 1 unread records are deleted.
    pub(super) retention_used: Option<f64>,
    pub(super) time_to_drain: Option<Duration>,
}

/// Earlier samples, by group and partition.
#[derive(Default)]
pub(super) struct LagSamples {
    samples: Mutex<HashMap<(GroupName, TopicPartition), Sample>>,
}

#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    records: u64,
    change_per_second: Option<f64>,
}

impl LagSamples {
    fn note(&self, group: &GroupName, partition: TopicPartition, records: u64) {
        let now = Instant::now();
        let mut samples = self.samples.lock();
        let before = samples.get(&(group.clone(), partition)).copied();
        let change_per_second = before.and_then(|before| rate(before, records, now));
        samples.insert((group.clone(), partition), Sample { at: now, records, change_per_second });
    }

    fn change_per_second(&self, group: &GroupName, partition: TopicPartition, records: u64) -> Option<f64> {
        let sample = self.samples.lock().get(&(group.clone(), partition)).copied()?;
        // A sample that is too fresh says less than the rate it was taken with.
        if sample.at.elapsed() < Duration::from_secs(1) {
            return sample.change_per_second;
        }
        rate(sample, records, Instant::now())
    }

    fn forget_older_than(&self, age: Duration) {
        self.samples.lock().retain(|_, sample| sample.at.elapsed() < age);
    }
}

// Lags are far below 2^52.
#[allow(clippy::cast_precision_loss)]
fn rate(before: Sample, records: u64, now: Instant) -> Option<f64> {
    let seconds = now.duration_since(before.at).as_secs_f64();
    (seconds > 0.0).then(|| (records as f64 - before.records as f64) / seconds)
}

/// Measures the lag of one committed position.
pub(super) async fn measure(gateway: &Gateway, group: &GroupName, position: &CommittedPosition) -> Lag {
    let Ok(status) = gateway.storage.partition_status(position.partition).await else {
        return Lag::default();
    };
    let log_start = Some(status.log_start);
    let Some(end) = status.high_watermark else { return Lag { log_start, ..Lag::default() } };
    let Some(committed) = position.offset else { return Lag { log_start, end: Some(end), ..Lag::default() } };
    let next = committed.max(status.log_start);
    let records = end.distance_from(next);
    let time =
        if records == 0 { Some(Duration::ZERO) } else { age_at(gateway, position.partition, next).await };
    let change_per_second = gateway.lag.change_per_second(group, position.partition, records);
    Lag {
        log_start,
        end: Some(end),
        records: Some(records),
        time,
        change_per_second,
        retention_used: retention_used(gateway, position.partition, time),
        time_to_drain: time_to_drain(records, change_per_second),
    }
}

// As in `rate`.
#[allow(clippy::cast_precision_loss)]
fn time_to_drain(records: u64, change_per_second: Option<f64>) -> Option<Duration> {
    if records == 0 {
        return Some(Duration::ZERO);
    }
    let change = change_per_second.filter(|change| *change < 0.0)?;
    Duration::try_from_secs_f64(records as f64 / -change).ok()
}

/// Age of the record at an offset.
async fn age_at(gateway: &Gateway, partition: TopicPartition, offset: Offset) -> Option<Duration> {
    let query = FetchQuery {
        partition,
        position: FetchPosition::Offset(offset),
        max_bytes: 1,
        min_bytes: 0,
        max_wait: Duration::ZERO,
        last_epoch: None,
    };
    let found = gateway.storage.fetch(query).await;
    let appended: TimestampMs = match found {
        Ok(reply) => reply.batches.first()?.append_time(),
        Err(StorageError::DataCorrupted { .. }) | Err(_) => return None,
    };
    Some(Duration::from_millis(gateway.clock.now().since(appended)))
}

fn retention_used(gateway: &Gateway, partition: TopicPartition, age: Option<Duration>) -> Option<f64> {
    let image = gateway.controller.image();
    let topic = image.topic(partition.topic_id)?;
    if !topic.config.cleanup_policy.deletes() {
        return None;
    }
    let retention = Duration::from_millis(topic.config.retention_ms?);
    Some(age?.as_secs_f64() / retention.as_secs_f64().max(f64::MIN_POSITIVE))
}

/// Samples all groups until the gateway drains.
pub(super) async fn sample_groups(gateway: Arc<Gateway>) {
    let mut ticks = tokio::time::interval(SAMPLE_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = gateway.drain.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let page = gateway.storage.list_groups(String::new(), None, GROUPS_SAMPLED_MAX).await;
        let Ok(page) = page else { continue };
        let mut totals = Vec::new();
        for name in page.groups {
            let Ok(group) = GroupName::new(&name) else { continue };
            if totals.len() < SERIES_MAX {
                totals.extend(sample_group(&gateway, &group).await);
            }
        }
        totals.truncate(SERIES_MAX);
        gateway.metrics.group_lag(&totals);
        gateway.lag.forget_older_than(SAMPLE_EVERY * 6);
    }
}

async fn sample_group(gateway: &Gateway, group: &GroupName) -> Vec<TopicLag> {
    let Ok(Some(described)) = gateway.storage.describe_group(group.clone()).await else { return Vec::new() };
    let mut topics: HashMap<String, TopicLag> = HashMap::new();
    for position in described.committed.iter().take(PARTITIONS_SAMPLED_MAX) {
        let lag = measure(gateway, group, position).await;
        let Some(records) = lag.records else { continue };
        gateway.lag.note(group, position.partition, records);
        let topic = super::offsets::topic_name(gateway, position.partition).to_string();
        let total = topics.entry(topic.clone()).or_insert_with(|| TopicLag {
            group: group.to_string(),
            topic,
            records: 0,
            seconds: 0.0,
        });
        total.records += records;
        total.seconds = total.seconds.max(lag.time.unwrap_or_default().as_secs_f64());
    }
    topics.into_values().collect()
}
