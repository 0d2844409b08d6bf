//! Producer state: which requests of which producers a partition has accepted, so that a repeated one is told from a
//! new one (R10, T36 to T40).
//!
//! # Invariants
//! - The state is the fold of the log: [`ProducerStates::apply`] of every batch in order, from a snapshot or from the
//!   first batch. Nothing else changes it; no clock takes part (T39). Idle times are kept beside it for the leader's
//!   decision to write an expiry record, and are no part of snapshots.
//! - Of each producer it holds one epoch and the window of the largest accepted sequences of that epoch, at most 128
//!   (16 of a gateway's own id). A window never shrinks but by a higher epoch or by expiry.
//! - [`ProducerStates::check`] and the append of what it allowed are one critical section of the log's only writer, so
//!   every applied entry was judged [`EntryVerdict::Append`]; `apply` asserts it on every replica.
//!
//! Truncation reloads the newest snapshot at or below the cut and replays the log behind it; the log does that.

mod snapshot;
mod state;
mod states;
#[cfg(test)]
mod tests;

pub use snapshot::ProducerSnapshotError;
pub use state::AcceptedRequest;
pub use states::{CheckOutcome, EntryVerdict, ProducerStateError, ProducerStates};
