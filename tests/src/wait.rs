//! Waiting for a condition with a deadline: the only way in which tests wait.

use std::time::{Duration, Instant};

/// How long anything that should happen soon may take on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits until `look` gives something.
///
/// # Panics
/// After [`DEADLINE`], naming `what`.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < DEADLINE, "{what} did not happen within {DEADLINE:?}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until `look` gives something.
///
/// # Panics
/// After [`DEADLINE`], naming `what`.
pub async fn until_async<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(started.elapsed() < DEADLINE, "{what} did not happen within {DEADLINE:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
