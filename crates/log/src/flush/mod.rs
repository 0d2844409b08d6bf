//! The flush scheduler of a data directory: group commit across its logs (R7).
//!
//! fdatasync hardly scales with the number of files, so the logs of a disk share a few threads. Dirty logs queue in
//! arrival order; while a log waits, later appends to it join the sync that it waits for.
//!
//! # Invariants
//! - A target is in the queue at most once: its flag is set exactly while it is there.
//! - The flag is cleared before [`FlushTarget::flush`] runs, so an append that comes during a flush queues the target
//!   again and no last batch stays unflushed (T24). Whoever submits has made the dirt visible before.
//! - Targets leave the queue in the order in which they came; at most `parallel_syncs` flushes run at once.
//! - A target that is queued again while it is being flushed may be flushed by a second thread at the same time. Its
//!   completions may then come in any order, and it takes their maximum (T24).
//! - A shutdown flushes all that was submitted before it.
//!
//! Which offsets a flush made durable is the target's own affair: it flushes outside of the log's lock and completes
//! under it, by generation.

mod scheduler;

pub use scheduler::{FlushScheduler, FlushSchedulerConfig, FlushTarget, SchedulerStopped};
