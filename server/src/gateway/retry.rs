//! Calls are held while storage is not ready yet, rather than bounced: the caller's deadline ends the waiting.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use wharf_types::TopicPartition;

use super::Gateway;
use crate::storage_api::{CommitError, StorageError};

const WAIT_FIRST: Duration = Duration::from_millis(2);
const WAIT_LONGEST: Duration = Duration::from_millis(100);

/// Repeats a call while waiting may cure its error; the future is dropped at the call's deadline.
///
/// # Errors
/// The first error that waiting does not cure, and the last one of any kind while this gateway drains.
pub(crate) async fn while_retriable<T, E>(
    gateway: &Gateway,
    is_retriable: impl Fn(&E) -> bool,
    call: impl Fn() -> BoxFuture<'static, Result<T, E>>,
) -> Result<T, E> {
    let mut attempt = 0;
    loop {
        match call().await {
            Err(error) if is_retriable(&error) && !gateway.drain.is_cancelled() => {
                pause(attempt).await;
                attempt += 1;
            }
            result => return result,
        }
    }
}

/// Repeats a call to the leader of a partition while it is not available, as long as the topic exists.
///
/// # Errors
/// As [`while_retriable`], and [`StorageError::TopicDeleted`].
pub(super) async fn until_available<T>(
    gateway: &Arc<Gateway>,
    partition: TopicPartition,
    call: impl Fn() -> BoxFuture<'static, Result<T, StorageError>>,
) -> Result<T, StorageError> {
    let exists = || gateway.controller.image().topic(partition.topic_id).is_some();
    match while_retriable(gateway, |error: &StorageError| error.is_retriable() && exists(), call).await {
        Err(error) if error.is_retriable() && !exists() => Err(StorageError::TopicDeleted(partition)),
        result => result,
    }
}

/// Waits before try number `attempt + 2` of a call.
pub(super) async fn pause(attempt: u32) {
    let wait = WAIT_FIRST.saturating_mul(1 << attempt.min(6)).min(WAIT_LONGEST);
    tokio::time::sleep(wait.mul_f64(rand::random_range(0.5..1.0))).await;
}

/// Repeats a read at the coordinator of a group while it is loading.
///
/// # Errors
/// As [`while_retriable`].
pub(super) async fn until_coordinated<T>(
    gateway: &Arc<Gateway>,
    call: impl Fn() -> BoxFuture<'static, Result<T, StorageError>>,
) -> Result<T, StorageError> {
    while_retriable(gateway, StorageError::is_retriable, call).await
}

/// Repeats a change at the coordinator of a group while it is loading.
///
/// # Errors
/// As [`while_retriable`].
pub(super) async fn until_changed(
    gateway: &Arc<Gateway>,
    call: impl Fn() -> BoxFuture<'static, Result<(), CommitError>>,
) -> Result<(), CommitError> {
    let is_retriable =
        |error: &CommitError| matches!(error, CommitError::Storage(error) if error.is_retriable());
    while_retriable(gateway, is_retriable, call).await
}
