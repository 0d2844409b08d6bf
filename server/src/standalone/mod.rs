//! `wharf standalone`: controller, storage and gateway in one process, with direct calls between them.
//!
//! Start: bind the ports, take the data directory, open the controller, register and open the partitions, then serve.
//! Stop: refuse new work, let calls end, flush everything, write the clean-shutdown marker last. After a failed disk
//! the process ends at once without a marker, so that the next start checks the logs.

mod banner;
mod readiness;
mod serve;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use wharf_controller::{Bootstrap, Controller, ControllerConfig, ControllerHandle, NoTransport, SyncMode};
use wharf_log::data_dir::DataDir;
use wharf_log::vfs::{PowerLossVfs, RealVfs, Vfs};
use wharf_types::NodeId;

use self::readiness::Readiness;
use crate::config::StandaloneConfig;
use crate::gateway::{Gateway, GatewayLimits};
use crate::storage::{LocalStorage, StorageConfig, StorageNode, Surroundings};
use crate::telemetry::metrics::ServerMetrics;
use crate::telemetry::ops_http;

/// How long open calls may go on after a stop has begun; what waits for data is answered at once.
const CALLS_GRACE: Duration = Duration::from_secs(5);
/// The one node of a standalone cluster.
pub(crate) const NODE_ID: NodeId = NodeId::new(1);

/// Runs until a signal or a failed disk.
///
/// # Errors
/// For whatever keeps the server from starting, and for a stop that was not clean. The message says what to do.
pub async fn run(config: StandaloneConfig) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let vfs: Arc<dyn Vfs> =
        if config.test_power_loss { Arc::new(PowerLossVfs::new()) } else { Arc::new(RealVfs::new()) };
    // The ports first: a start that cannot be leaves no folder behind.
    let listener = bind(config.listen, "--listen").await?;
    let ops_listener = bind(config.ops_listen, "--ops-listen").await?;
    let data_dir = open_data_dir(&config, &vfs).await?;
    let server = tokio::select! {
        server = Server::start(&config, vfs, data_dir) => server?,
        () = signals.next() => anyhow::bail!("stopped before the start was complete"),
    };
    let ended = server.serve(&config, listener, ops_listener, &mut signals).await;
    if server.failed.is_cancelled() {
        // Destructors would wait for threads that wait for the disk.
        tracing::error!("the disk failed; check it and start again");
        crate::exit::exit_now(1);
    }
    ended
}

async fn open_data_dir(config: &StandaloneConfig, vfs: &Arc<dyn Vfs>) -> anyhow::Result<DataDir> {
    let (vfs, path) = (Arc::clone(vfs), config.data_dir.clone());
    let opened = tokio::task::spawn_blocking(move || DataDir::open(vfs, &path)).await?;
    opened.with_context(|| format!("the data directory {} cannot be used", config.data_dir.display()))
}

async fn bind(address: std::net::SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; free the port or choose another with {flag}"))
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The roles of the process.
struct Server {
    controller: ControllerHandle,
    storage: Arc<StorageNode>,
    gateway: Arc<Gateway>,
    metrics: Arc<ServerMetrics>,
    failed: CancellationToken,
}

impl Server {
    async fn start(config: &StandaloneConfig, vfs: Arc<dyn Vfs>, data_dir: DataDir) -> anyhow::Result<Self> {
        let metrics = ServerMetrics::new()?;
        let failed = CancellationToken::new();
        let mut controller_config = ControllerConfig::new(&config.data_dir, NODE_ID);
        if !data_dir.partitions().is_empty() {
            // Partitions without a controller store are not a first start: an empty store would hide their topics.
            controller_config.bootstrap = Bootstrap::Refuse;
        }
        if config.test_power_loss {
            controller_config.sync_mode = SyncMode::PowerLossTest;
        }
        let controller = Controller::open(controller_config, NoTransport).await?;
        let storage = StorageNode::start(
            storage_config(config),
            Surroundings {
                vfs,
                data_dir,
                controller: controller.clone(),
                metrics: Arc::clone(&metrics),
                failed: failed.clone(),
                boot_id: boot_id(config.test_power_loss),
            },
        )
        .await?;
        let gateway = Gateway::start(
            Arc::new(LocalStorage::new(Arc::clone(&storage))),
            controller.clone(),
            Arc::clone(&metrics),
            GatewayLimits {
                produce_buffer_bytes: config.produce_buffer_bytes,
                auto_create_topics: config.auto_create_topics,
            },
        )
        .await?;
        Ok(Server { controller, storage, gateway, metrics, failed })
    }

    async fn serve(
        &self,
        config: &StandaloneConfig,
        listener: TcpListener,
        ops_listener: TcpListener,
        signals: &mut Signals,
    ) -> anyhow::Result<()> {
        let (address, ops_address) = (listener.local_addr()?, ops_listener.local_addr()?);
        let stop_calls = CancellationToken::new();
        let stop_ops = CancellationToken::new();
        let readiness = Arc::new(Readiness::new(
            Arc::clone(&self.storage),
            Arc::clone(&self.gateway),
            self.controller.clone(),
        ));
        let ops = tokio::spawn(ops_http::serve(
            ops_listener,
            Arc::clone(&self.metrics),
            Arc::clone(&readiness) as Arc<dyn ops_http::Probe>,
            stop_ops.clone(),
        ));
        let (up, is_up) = tokio::sync::oneshot::channel();
        let mut calls = tokio::spawn(serve::public_port(
            Arc::clone(&self.gateway),
            listener,
            stop_calls.clone(),
            Arc::clone(&readiness),
            up,
        ));
        let announce = async {
            // Without an answer the port has ended, which is told by another branch.
            if is_up.await.is_ok() {
                banner::print(address, ops_address, &config.data_dir);
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = announce => {}
            () = signals.next() => tracing::info!("stopping; a second signal stops at once"),
            () = self.failed.cancelled() => anyhow::bail!("the disk failed"),
            stopped = self.controller.stopped() => anyhow::bail!("the controller stopped: {stopped:?}"),
            ended = &mut calls => {
                ended??;
                anyhow::bail!("the public port was closed");
            }
        }
        self.gateway.drain.cancel();
        stop_calls.cancel();
        let timeout = Duration::from_millis(config.shutdown_timeout_ms);
        let stopping = async {
            // Streams that watch for ever are cut, so that the flush and the marker still come.
            if tokio::time::timeout(CALLS_GRACE.min(timeout / 2), &mut calls).await.is_err() {
                tracing::warn!("calls are still open; they are cut");
                calls.abort();
            }
            self.gateway.tasks.close();
            self.storage.stop().await;
            self.controller.shutdown().await;
            stop_ops.cancel();
        };
        tokio::select! {
            stopped = tokio::time::timeout(timeout, stopping) => {
                stopped.context("the stop took longer than shutdown_timeout_ms; the next start checks the logs")?;
            }
            () = signals.next() => anyhow::bail!("stopped at once by a second signal"),
            () = self.failed.cancelled() => anyhow::bail!("the disk failed while stopping"),
        }
        ops.abort();
        tracing::info!("stopped");
        Ok(())
    }
}

fn storage_config(config: &StandaloneConfig) -> StorageConfig {
    StorageConfig {
        data_dir: config.data_dir.clone(),
        node_id: NODE_ID,
        rack: config.rack.clone(),
        advertised_address: config.listen.to_string(),
        io_threads: config.io(),
        parallel_syncs: config.parallel_syncs,
        tail_cache_bytes: config.tail_cache_bytes,
        disk_reserve_bytes: config.disk_reserve_bytes,
        power_loss_mode: config.test_power_loss,
    }
}

/// The kernel's boot id: a crash under the same one lost nothing that was written (R1a). A power-loss test reports a
/// fresh one at each start.
fn boot_id(power_loss_mode: bool) -> String {
    if power_loss_mode {
        return uuid::Uuid::new_v4().to_string();
    }
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}
