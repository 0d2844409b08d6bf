//! When the process is ready: every partition is served, or known to be unservable, and nothing drains.

use std::sync::Arc;
use std::time::Duration;

use wharf_controller::ControllerHandle;

use crate::gateway::Gateway;
use crate::storage::StorageNode;
use crate::telemetry::metrics::ServerMetrics;
use crate::telemetry::ops_http::Probe;

/// Time between two looks while the process is not ready.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Looks at all roles of the process.
pub(super) struct Readiness {
    storage: Arc<StorageNode>,
    gateway: Arc<Gateway>,
    controller: ControllerHandle,
}

impl Readiness {
    pub(super) fn new(
        storage: Arc<StorageNode>,
        gateway: Arc<Gateway>,
        controller: ControllerHandle,
    ) -> Self {
        Readiness { storage, gateway, controller }
    }

    /// Waits until the process is ready.
    pub(super) async fn wait(&self) {
        while self.unready_reason().is_some() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Probe for Readiness {
    fn unready_reason(&self) -> Option<String> {
        if self.gateway.drain.is_cancelled() {
            return Some("draining".to_owned());
        }
        if self.controller.status().leader.is_none() {
            return Some("the controller knows no leader".to_owned());
        }
        let waiting = self.storage.partitions_not_served();
        (waiting > 0).then(|| format!("{waiting} partitions are not served yet"))
    }

    fn refresh(&self, metrics: &ServerMetrics) {
        self.storage.refresh_metrics(metrics);
        let held = self.gateway.pipelines.budget.used_bytes();
        metrics.gauges.resident_bytes.set(resident_bytes().unwrap_or_default());
        metrics.gauges.produce_buffer_bytes.set(i64::try_from(held).unwrap_or(i64::MAX));
    }
}

/// Memory of this process as the kernel counts it.
fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes.saturating_mul(1_024))
}
