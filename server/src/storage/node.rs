//! A storage node: its data directory, its partitions, and what they share.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wharf_controller::{ControllerHandle, Registration};
use wharf_log::data_dir::{DataDir, DirIdentity};
use wharf_log::flush::FlushScheduler;
use wharf_log::vfs::Vfs;
use wharf_metadata::Image;
use wharf_types::{BrokerEpoch, NodeId, TopicId, TopicPartition, limits};

use super::coordinator::Coordinator;
use super::disk::DiskMonitor;
use super::housekeeping;
use super::io_pool::IoPool;
use super::offsets_store::{OffsetsStore, OffsetsStoreOptions, PowerLossMode};
use super::partition::{Partition, TopicSettings};
use super::reconcile;
use super::tail_cache::TailCache;
use crate::clock::WallClock;
use crate::storage_api::StorageError;
use crate::telemetry::metrics::ServerMetrics;

/// What an operator can set of a storage node.
#[derive(Clone, Debug)]
pub(crate) struct StorageConfig {
    pub(crate) data_dir: PathBuf,
    pub(crate) node_id: NodeId,
    pub(crate) rack: Option<String>,
    pub(crate) advertised_address: String,
    pub(crate) io_threads: usize,
    pub(crate) parallel_syncs: usize,
    pub(crate) tail_cache_bytes: usize,
    pub(crate) disk_reserve_bytes: Option<u64>,
    /// Keeps unsynced writes in the process, for power-loss tests.
    pub(crate) power_loss_mode: bool,
}

/// How long a log is held before its flush while others wait, so that more records share it (R7: at most 2 ms).
const FLUSH_HOLD: Duration = Duration::from_micros(300);
/// Logs that wait from which on that is done.
const FLUSH_QUEUE_DEEP: usize = 3;

/// What all partitions of a node share.
pub(crate) struct NodeShared {
    pub(crate) config: StorageConfig,
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) io: IoPool,
    pub(crate) flush: FlushScheduler,
    pub(crate) tail_cache: TailCache,
    pub(crate) disk: DiskMonitor,
    pub(crate) clock: WallClock,
    /// When the process started, for spans of time that no wall clock may change.
    pub(crate) started: Instant,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) controller: ControllerHandle,
    /// Random for each process start.
    pub(crate) incarnation: u128,
    pub(crate) tasks: TaskTracker,
    /// The runtime of the node's tasks, for IO threads that start one.
    pub(crate) runtime: Handle,
    /// Cancelled when the node is to stop taking work.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when a disk has failed: the process ends without a clean-shutdown marker (R17).
    pub(crate) failed: CancellationToken,
}

impl NodeShared {
    /// A write or flush failed: nothing that follows may be trusted (T23).
    pub(crate) fn disk_failed(&self) {
        self.failed.cancel();
    }
}

/// Why a storage node cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    DataDir(#[from] wharf_log::data_dir::DataDirError),
    #[error(transparent)]
    OffsetsStore(#[from] super::offsets_store::OffsetsStoreError),
    #[error("the storage node cannot register: {0}")]
    Register(#[from] wharf_controller::CommandError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// A running storage node.
pub(crate) struct StorageNode {
    pub(crate) shared: Arc<NodeShared>,
    pub(crate) data_dir: Mutex<DataDir>,
    pub(crate) broker_epoch: BrokerEpoch,
    pub(crate) coordinator: Coordinator,
    partitions: RwLock<HashMap<TopicPartition, Arc<Partition>>>,
    /// Partitions that could not be opened, so that their error is told once and not at every change of the image.
    pub(crate) unavailable: RwLock<HashSet<TopicPartition>>,
    /// Deleted topics whose folders this process has moved to the trash.
    pub(crate) discarded: RwLock<HashSet<TopicId>>,
}

/// What a storage node needs from the process around it.
pub(crate) struct Surroundings {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) data_dir: DataDir,
    pub(crate) controller: ControllerHandle,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) failed: CancellationToken,
    pub(crate) boot_id: String,
}

impl StorageNode {
    /// Registers the node, opens its partitions and follows the cluster image.
    ///
    /// # Errors
    /// [`StartError`].
    pub(crate) async fn start(
        config: StorageConfig,
        surroundings: Surroundings,
    ) -> Result<Arc<Self>, StartError> {
        let Surroundings { vfs, mut data_dir, controller, metrics, failed, boot_id } = surroundings;
        let dir_id = identify(&mut data_dir, &config, &controller)?;
        let incarnation: u128 = rand::random();
        let power_loss_mode = if config.power_loss_mode { PowerLossMode::On } else { PowerLossMode::Off };
        let options = OffsetsStoreOptions { power_loss_mode };
        let opened = OffsetsStore::open_or_rebuild(&config.data_dir.join("offsets"), options)?;
        if let Some(damaged) = &opened.damaged {
            tracing::warn!(error = %damaged.error, moved_to = %damaged.moved_to.display(), "the offsets store was damaged; it is rebuilt from the log");
        }
        let log_dirs = vec![wharf_metadata::LogDirId::from_bytes(dir_id)];
        if let Some(known) = controller.image().node(config.node_id)
            && known.log_dirs != log_dirs
        {
            // The directory was replaced. Its lock is held, so nobody else serves under the old session.
            controller.fence_node(config.node_id, known.broker_epoch).await?;
        }
        let broker_epoch = controller
            .register_storage(Registration {
                node_id: config.node_id,
                incarnation: wharf_metadata::Incarnation::from_bytes(incarnation.to_be_bytes()),
                marker: data_dir.clean_marker(),
                log_dirs,
                rack: config.rack.clone(),
                advertised_address: config.advertised_address.clone(),
                boot_id,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                // A process that met an IO error leaves no marker and ends; what it wrote before is checked by
                // recovery, and what it could not write it never acknowledged.
                io_error_recorded: false,
            })
            .await?;
        let shared = Arc::new(NodeShared {
            io: IoPool::start(config.io_threads)?,
            flush: FlushScheduler::start(wharf_log::flush::FlushSchedulerConfig {
                parallel_syncs: config.parallel_syncs,
                hold: FLUSH_HOLD,
                queue_deep: FLUSH_QUEUE_DEEP,
            })?,
            tail_cache: TailCache::new(config.tail_cache_bytes),
            disk: DiskMonitor::new(Arc::clone(&vfs), config.data_dir.clone(), config.disk_reserve_bytes)?,
            clock: WallClock,
            started: Instant::now(),
            incarnation,
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            stopping: CancellationToken::new(),
            config,
            vfs,
            metrics,
            controller,
            failed,
        });
        let node = Arc::new(StorageNode {
            coordinator: Coordinator::new(Arc::clone(&shared), Arc::new(opened.store)),
            shared,
            data_dir: Mutex::new(data_dir),
            broker_epoch,
            partitions: RwLock::default(),
            unavailable: RwLock::default(),
            discarded: RwLock::default(),
        });
        node.shared.tasks.spawn(reconcile::follow_image(Arc::clone(&node)));
        node.shared.tasks.spawn(housekeeping::run(Arc::clone(&node)));
        Ok(node)
    }

    /// The partition, if this node serves it.
    ///
    /// # Errors
    /// [`StorageError::LeaderNotAvailable`].
    pub(crate) fn partition(&self, id: TopicPartition) -> Result<Arc<Partition>, StorageError> {
        self.partitions.read().get(&id).cloned().ok_or(StorageError::LeaderNotAvailable(id))
    }

    /// All partitions, in no order.
    pub(crate) fn partitions(&self) -> Vec<Arc<Partition>> {
        self.partitions.read().values().cloned().collect()
    }

    pub(crate) fn insert(&self, partition: Arc<Partition>) {
        self.partitions.write().insert(partition.id(), partition);
    }

    pub(crate) fn remove(&self, id: TopicPartition) -> Option<Arc<Partition>> {
        self.partitions.write().remove(&id)
    }

    /// What the image says of a partition's topic.
    pub(crate) fn settings(image: &Image, id: TopicPartition) -> Option<TopicSettings> {
        let topic = image.topic(id.topic_id)?;
        let mut config = (*topic.config).clone();
        if topic.name.is_internal() {
            // Internal topics are always in `ack` mode, whatever the defaults become.
            config.flush_policy = wharf_types::FlushPolicy::Ack;
        }
        Some(TopicSettings { name: topic.name.clone(), config, partition_count: topic.partition_count() })
    }

    /// Whether the partition belongs to `__offsets`.
    pub(crate) fn is_offsets(settings: &TopicSettings) -> bool {
        settings.name.as_str() == limits::OFFSETS_TOPIC
    }

    /// Partitions that the image assigns to this node and that are neither led nor known to be unservable.
    pub(crate) fn partitions_not_served(&self) -> usize {
        let image = self.shared.controller.image();
        let unavailable = self.unavailable.read();
        let served = |id| match self.partition(id) {
            Ok(partition) => partition.high_watermark().is_some() || partition.is_failed(),
            Err(_) => unavailable.contains(&id),
        };
        let assigned = image.partitions_of(self.shared.config.node_id);
        assigned.filter(|partition| partition.leader.is_some() && !served(partition.id)).count()
    }

    /// Brings the values that are looked up on demand up to date.
    pub(crate) fn refresh_metrics(&self, metrics: &ServerMetrics) {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
        let partitions = self.partitions();
        for partition in &partitions {
            *sizes.entry(partition.settings().name.to_string()).or_default() +=
                partition.reader().size_bytes();
        }
        metrics.topic_sizes(sizes.iter().map(|(topic, bytes)| (topic.as_str(), *bytes)));
        let (gauges, disk) = (&metrics.gauges, &self.shared.disk);
        gauges.disk_total_bytes.set(number(disk.total_bytes()));
        gauges.disk_available_bytes.set(number(disk.available_bytes()));
        gauges.disk_reserve_bytes.set(number(disk.reserve_bytes()));
        gauges.storage_full.set(i64::from(disk.is_full()));
        gauges.log_bytes.set(number(sizes.values().sum()));
        gauges.partitions.set(number(partitions.len() as u64));
        gauges.tail_cache_bytes.set(number(self.shared.tail_cache.bytes() as u64));
    }

    /// Stops in order: no new work, everything flushed, the marker last (R8).
    pub(crate) async fn stop(&self) {
        self.shared.stopping.cancel();
        self.coordinator.stop();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        if let Err(error) =
            self.shared.controller.controlled_stop(self.shared.config.node_id, self.broker_epoch).await
        {
            tracing::warn!(error = %error, "the controlled stop was not announced");
        }
        // A log that could not be opened was not closed either: the next start must check it.
        let mut clean = self.unavailable.read().is_empty();
        let partitions = self.partitions();
        let closing: Vec<_> =
            partitions.iter().map(|partition| (partition.id(), partition.close())).collect();
        let mut closed_entries = Vec::new();
        for (id, closed) in closing {
            match closed.await {
                Ok(Ok(entry)) => closed_entries.push((id, entry)),
                _ => clean = false,
            }
        }
        let store = Arc::clone(self.coordinator.store());
        clean &= matches!(self.shared.io.run(move || store.sync()).await, Ok(Ok(())));
        self.partitions.write().clear();
        // A sync that runs beside the last one may be the one that is told of an error.
        let flushed =
            self.shared.io.run(move || partitions.iter().for_each(|partition| partition.await_flush()));
        clean &= flushed.await.is_ok();
        if !clean || self.shared.failed.is_cancelled() {
            tracing::warn!("stopped without a clean-shutdown marker; the next start checks the logs");
            return;
        }
        if !housekeeping::store_checkpoint(self, closed_entries, housekeeping::Others::Forget) {
            return;
        }
        if let Err(error) = self.data_dir.lock().write_clean_marker(self.broker_epoch) {
            tracing::warn!(error = %error, "the clean-shutdown marker was not written; the next start checks the logs");
        }
    }
}

/// The data directory's own id; drawn at its first use, together with what it belongs to.
fn identify(
    data_dir: &mut DataDir,
    config: &StorageConfig,
    controller: &ControllerHandle,
) -> Result<[u8; 16], StartError> {
    if let Some(identity) = data_dir.identity() {
        return Ok(identity.dir_id);
    }
    let cluster_id = controller.image().cluster_id().map(|id| id.to_string()).unwrap_or_default();
    let identity = DirIdentity { dir_id: rand::random(), node_id: config.node_id, cluster_id };
    let dir_id = identity.dir_id;
    data_dir.set_identity(identity)?;
    Ok(dir_id)
}
