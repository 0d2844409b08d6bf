//! Calls are held while storage is not ready yet, rather than bounced: the caller's deadline ends the waiting.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use wharf_types::TopicPartition;

use super::Gateway;
use crate::storage_api::StorageError;

const WAIT_FIRST: Duration = Duration::from_millis(2);
const WAIT_LONGEST: Duration = Duration::from_millis(100);

/// Repeats a read while its leader is not available; the future is dropped at the call's deadline.
///
/// # Errors
/// The first error that waiting does not cure, and the last one of any kind while this gateway drains.
pub(super) async fn until_available<T>(
    gateway: &Arc<Gateway>,
    partition: TopicPartition,
    call: impl Fn() -> BoxFuture<'static, Result<T, StorageError>>,
) -> Result<T, StorageError> {
    let mut attempt = 0;
    loop {
        match call().await {
            Err(error) if error.is_retriable() && !gateway.drain.is_cancelled() => {
                if gateway.controller.image().topic(partition.topic_id).is_none() {
                    return Err(StorageError::TopicDeleted(partition));
                }
                pause(attempt).await;
                attempt += 1;
            }
            result => return result,
        }
    }
}

/// Waits before try number `attempt + 2` of a call.
pub(crate) async fn pause(attempt: u32) {
    let wait = WAIT_FIRST.saturating_mul(1 << attempt.min(6)).min(WAIT_LONGEST);
    tokio::time::sleep(wait.mul_f64(rand::random_range(0.5..1.0))).await;
}

/// As [`until_available`], for calls to the coordinator of a group.
///
/// # Errors
/// As [`until_available`].
pub(super) async fn until_coordinated<T>(
    gateway: &Arc<Gateway>,
    call: impl Fn() -> BoxFuture<'static, Result<T, StorageError>>,
) -> Result<T, StorageError> {
    let mut attempt = 0;
    loop {
        match call().await {
            Err(error) if error.is_retriable() && !gateway.drain.is_cancelled() => {
                pause(attempt).await;
                attempt += 1;
            }
            result => return result,
        }
    }
}
