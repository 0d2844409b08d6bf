//! The gateway: the public API, without any state that matters.
//!
//! It validates, partitions, builds batches and routes; storage is reached through
//! [`crate::storage_api::StorageApi`] only, decisions through the controller's handle. Every handler either reads or
//! hands its request over to a pipeline or a coordinator, so that a call that is dropped drops only its answer.

mod admin;
mod broker;
mod deadline;
pub(crate) mod errors;
mod fetch;
pub(crate) mod lag;
pub(crate) mod layers;
mod offsets;
pub(crate) mod produce;
mod retry;
mod routing;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wharf_controller::ControllerHandle;
use wharf_types::ProducerId;

use self::produce::budget::BufferBudget;
use self::produce::pipeline::PipelineContext;
use self::routing::RoutingTable;
use crate::clock::WallClock;
use crate::storage_api::SharedStorage;
use crate::telemetry::metrics::ServerMetrics;

pub(crate) use self::admin::AdminApi;
pub(crate) use self::broker::BrokerApi;

/// What a gateway is made of.
pub(crate) struct Gateway {
    pub(crate) routing: RoutingTable,
    pub(crate) pipelines: Arc<PipelineContext>,
    pub(crate) storage: SharedStorage,
    pub(crate) controller: ControllerHandle,
    pub(crate) clock: WallClock,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the role begins to drain: no new work is taken.
    pub(crate) drain: CancellationToken,
    pub(crate) limits: GatewayLimits,
    lag: lag::LagSamples,
    /// Producer ids below this were handed out, as far as this gateway knows.
    known_producers_end: AtomicU64,
}

/// What an operator can bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GatewayLimits {
    /// Bytes that unanswered produce requests may hold.
    pub(crate) produce_buffer_bytes: usize,
    /// Whether producing to a topic that does not exist creates it.
    pub(crate) auto_create_topics: bool,
}

impl Gateway {
    /// Starts a gateway: takes a producer id of its own and follows the cluster image.
    ///
    /// # Errors
    /// Those of the controller.
    pub(crate) async fn start(
        storage: SharedStorage,
        controller: ControllerHandle,
        metrics: Arc<ServerMetrics>,
        limits: GatewayLimits,
    ) -> Result<Arc<Self>, wharf_controller::CommandError> {
        let ids = controller.allocate_producer_ids(1).await?;
        let pipelines = Arc::new(PipelineContext {
            storage: Arc::clone(&storage),
            incarnation: rand::random(),
            producer_id: ProducerId::new(ids.start),
            budget: BufferBudget::new(limits.produce_buffer_bytes),
            runtime: tokio::runtime::Handle::current(),
        });
        let gateway = Arc::new(Gateway {
            routing: RoutingTable::new(Arc::clone(&pipelines)),
            pipelines,
            storage,
            clock: WallClock,
            metrics,
            tasks: TaskTracker::new(),
            drain: CancellationToken::new(),
            limits,
            lag: lag::LagSamples::default(),
            known_producers_end: AtomicU64::new(ids.end),
            controller,
        });
        gateway.routing.update(&gateway.controller.image());
        gateway.tasks.spawn(follow_image(Arc::clone(&gateway)));
        gateway.tasks.spawn(lag::sample_groups(Arc::clone(&gateway)));
        Ok(gateway)
    }

    /// Whether the id was ever handed out.
    pub(crate) fn is_known_producer(&self, id: ProducerId) -> bool {
        if id.value() < self.known_producers_end.load(Ordering::Relaxed) {
            return true;
        }
        let end = self.controller.image().next_producer_id();
        self.known_producers_end.fetch_max(end, Ordering::Relaxed);
        id.value() < end
    }
}

async fn follow_image(gateway: Arc<Gateway>) {
    let mut image = gateway.controller.watch();
    loop {
        tokio::select! {
            () = gateway.drain.cancelled() => return,
            changed = image.changed() => if changed.is_err() { return },
        }
        let current = Arc::clone(&image.borrow_and_update());
        gateway.routing.update(&current);
    }
}
