//! What the gateway knows of the topics: their configuration and a pipeline to each partition.
//!
//! Follows the cluster image. A pipeline lives as long as its topic, so that order is kept across changes of the
//! image; the pipelines of a deleted topic are closed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use wharf_metadata::{Image, Topic};
use wharf_proto::error::ApiError;
use wharf_types::{PartitionIndex, TimestampMs, TopicConfig, TopicId, TopicName, TopicPartition};

use super::errors;
use super::produce::pipeline::{PartitionPipeline, PartitionRoute, PipelineContext};

/// One topic as the gateway uses it.
pub(crate) struct TopicRoute {
    pub(crate) id: TopicId,
    pub(crate) name: TopicName,
    pub(crate) config: Arc<TopicConfig>,
    pub(crate) pipelines: Vec<Arc<PartitionPipeline>>,
    sticky: Arc<Sticky>,
    /// The partition count before the topic last grew, and when this gateway saw it grow.
    grown: Option<(u32, Instant)>,
}

/// How long after growth a retry may still mean the old partition count (R10).
const GROWTH_REMEMBERED: Duration = Duration::from_secs(600);

impl TopicRoute {
    pub(crate) fn partition_count(&self) -> u32 {
        u32::try_from(self.pipelines.len()).unwrap_or(u32::MAX)
    }

    /// The partition count before a growth that retries may not know of yet.
    pub(crate) fn count_before_growth(&self) -> Option<u32> {
        self.grown.filter(|(_, seen)| seen.elapsed() < GROWTH_REMEMBERED).map(|(count, _)| count)
    }

    pub(crate) fn partition_id(&self, partition: PartitionIndex) -> TopicPartition {
        TopicPartition { topic_id: self.id, partition }
    }

    /// The pipeline to a partition that is known to exist.
    pub(crate) fn pipeline(&self, partition: PartitionIndex) -> Option<&Arc<PartitionPipeline>> {
        self.pipelines.get(partition.value() as usize)
    }

    /// The partition that the client named.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a negative one, `PARTITION_NOT_FOUND` for one that is not there.
    pub(crate) fn check_partition(&self, partition: i32) -> Result<PartitionIndex, ApiError> {
        let index = PartitionIndex::from_wire(partition).ok_or_else(|| {
            ApiError::invalid("partition", format!("{partition} is negative; partitions count from 0"))
        })?;
        if self.pipeline(index).is_none() {
            return Err(errors::partition_not_found(
                self.name.as_str(),
                i64::from(partition),
                self.pipelines.len(),
            ));
        }
        Ok(index)
    }

    /// Where keyless records go now. One partition takes them all for a while, so that they share batches.
    pub(crate) fn sticky_partition(&self, now: TimestampMs) -> PartitionIndex {
        self.sticky.partition(now, self.partition_count())
    }
}

/// The partition that keyless records of a topic go to, and since when.
#[derive(Default)]
struct Sticky {
    partition: AtomicU32,
    since_ms: AtomicU64,
}

/// How long keyless records stay with a partition, in milliseconds: some flushes' time, so that neither the records of
/// many callers spread over many small batches nor one partition gets all of a slow producer's.
const STICKY_MS: u64 = 5;

impl Sticky {
    fn partition(&self, now: TimestampMs, count: u32) -> PartitionIndex {
        let since = self.since_ms.load(Ordering::Relaxed);
        // Also after the clock went back. Whoever loses the race goes where the winner has moved to.
        if now.value().abs_diff(since) >= STICKY_MS
            && self
                .since_ms
                .compare_exchange(since, now.value(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.partition.fetch_add(1, Ordering::Relaxed);
        }
        PartitionIndex::new(self.partition.load(Ordering::Relaxed) % count.max(1))
    }
}

/// Topics by name.
#[derive(Default)]
struct Routes {
    by_name: HashMap<TopicName, Arc<TopicRoute>>,
}

/// The gateway's view of the cluster.
pub(crate) struct RoutingTable {
    context: Arc<PipelineContext>,
    routes: ArcSwap<Routes>,
}

impl RoutingTable {
    pub(crate) fn new(context: Arc<PipelineContext>) -> Self {
        RoutingTable { context, routes: ArcSwap::default() }
    }

    /// The topic of this name.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<TopicRoute>> {
        self.routes.load().by_name.get(name).cloned()
    }

    /// The topic that a client named.
    ///
    /// # Errors
    /// `INVALID_TOPIC_NAME` for a name that no topic can have, `TOPIC_NOT_FOUND` for one that none has.
    pub(crate) fn resolve(&self, name: &str) -> Result<Arc<TopicRoute>, ApiError> {
        if let Some(route) = self.find(name)
            && !route.name.is_internal()
        {
            return Ok(route);
        }
        match TopicName::new(name) {
            Err(error) => Err(errors::invalid_name("topic", &error)),
            Ok(_) => Err(errors::topic_not_found(name)),
        }
    }

    /// Follows the image.
    pub(crate) fn update(&self, image: &Image) {
        let old = self.routes.load_full();
        let by_name: HashMap<_, _> = image
            .topics()
            .map(|topic| {
                let before = old.by_name.get(&topic.name).filter(|route| route.id == topic.id);
                (topic.name.clone(), self.route(topic, before))
            })
            .collect();
        for route in old.by_name.values() {
            if by_name.get(&route.name).is_none_or(|new| new.id != route.id) {
                route.pipelines.iter().for_each(|pipeline| pipeline.close());
            }
        }
        self.routes.store(Arc::new(Routes { by_name }));
    }

    fn route(&self, topic: &Topic, before: Option<&Arc<TopicRoute>>) -> Arc<TopicRoute> {
        let pipeline = |(index, partition): (usize, &Arc<wharf_metadata::Partition>)| {
            let route = PartitionRoute {
                leader_epoch: partition.leader.map(|_| partition.leader_epoch),
                compression: topic.config.compression,
            };
            match before.and_then(|before| before.pipelines.get(index)) {
                Some(pipeline) => {
                    pipeline.update_route(route);
                    Arc::clone(pipeline)
                }
                None => PartitionPipeline::new(partition.id, Arc::clone(&self.context), route),
            }
        };
        Arc::new(TopicRoute {
            id: topic.id,
            name: topic.name.clone(),
            config: Arc::clone(&topic.config),
            pipelines: topic.partitions().iter().enumerate().map(pipeline).collect(),
            grown: before.and_then(|before| {
                let grew = before.pipelines.len() < topic.partitions().len();
                if grew { Some((before.partition_count(), Instant::now())) } else { before.grown }
            }),
            sticky: before.map_or_else(Arc::default, |before| Arc::clone(&before.sticky)),
        })
    }
}
