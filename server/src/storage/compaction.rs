//! Runs compaction on the partitions whose topics ask for it (R16).

use std::sync::Arc;

use super::node::StorageNode;
use super::partition::Partition;

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
        compact(node, &partition).await;
    }
}

/// One pass: planned and completed in the partition's turn, run outside of it, so that appends go on meanwhile.
async fn compact(node: &Arc<StorageNode>, partition: &Arc<Partition>) {
    let now = node.shared.clock.now();
    let planned = partition
        .with_log(move |log| {
            let bound = log.high_watermark();
            log.begin_compaction(now, bound)
        })
        .await;
    let Ok(Ok(Some(pass))) = planned else { return };
    let Ok(ran) = node.shared.io.run(move || pass.run()).await else { return };
    let result = match ran {
        Ok(result) => result,
        Err(error) => {
            tracing::warn!(partition = %partition.id(), error = %error, "compaction failed; the segments stay as they are");
            return;
        }
    };
    match partition.with_log(move |log| log.complete_compaction(result)).await {
        Ok(Ok(Ok(stats))) => tracing::info!(partition = %partition.id(), ?stats, "compacted"),
        Ok(Ok(Err(error))) => {
            tracing::warn!(partition = %partition.id(), error = %error, "compaction was not completed");
        }
        Ok(Err(_)) | Err(_) => {}
    }
}
