//! The prefix truncation of an `__offsets` log (R15): live keys are appended again, then the log starts behind their
//! old records.

use wharf_coordinator::{TruncationPolicy, TruncationStep};

use super::shard::Shard;
use crate::storage_api::StorageError;

impl Shard {
    /// Takes one step, if the log has grown enough. A failed step ends the run; a later one begins afresh.
    ///
    /// # Errors
    /// As the writes of the shard: it must be read again.
    pub(super) async fn truncate_if_due(&mut self) -> Result<(), StorageError> {
        if self.truncation.is_none() {
            let reader = self.partition.reader();
            let (log_bytes, log_start) = (reader.size_bytes(), reader.log_start_offset());
            let Some(high_watermark) = self.partition.high_watermark() else { return Ok(()) };
            let planned = self.view.read(|shard| {
                shard.plan_truncation(log_bytes, log_start, high_watermark, TruncationPolicy::default())
            });
            self.truncation = planned.ok().flatten();
        }
        let Some(mut truncation) = self.truncation.take() else { return Ok(()) };
        match self.view.read(|shard| truncation.next_step(shard)) {
            Ok(TruncationStep::Rewrite(records)) => {
                self.write(records).await?;
                self.truncation = Some(truncation);
            }
            Ok(TruncationStep::Advance { new_start, .. }) => {
                // What was appended again is committed and applied; RocksDB makes it durable before the log forgets.
                let store = std::sync::Arc::clone(&self.store);
                let synced = self.node.io.run(move || store.sync()).await;
                match synced {
                    Ok(Ok(())) => {
                        let advanced =
                            self.partition.with_log(move |log| log.advance_log_start(new_start)).await;
                        match advanced {
                            Ok(Ok(Ok(()))) => {
                                tracing::info!(partition = %self.partition.id(), log_start = %new_start, "the offsets log was truncated");
                            }
                            Ok(Ok(Err(error))) => self.truncation_failed(&error),
                            Ok(Err(error)) => self.truncation_failed(&error),
                            Err(error) => self.truncation_failed(&error),
                        }
                    }
                    Ok(Err(error)) => {
                        self.truncation_failed(&error);
                        self.node.disk_failed();
                    }
                    Err(error) => self.truncation_failed(&error),
                }
            }
            Ok(TruncationStep::Abandoned) | Err(_) => {}
        }
        Ok(())
    }

    fn truncation_failed(&self, error: &dyn std::error::Error) {
        tracing::warn!(partition = %self.partition.id(), error = %error, "the offsets log was not truncated; it is tried again");
    }
}
