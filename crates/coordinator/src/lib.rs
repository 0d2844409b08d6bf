//! Consumer groups and their offsets as a pure replicated state machine (R14, R15).
//!
//! A coordinator is the leader of one partition of `__offsets`. Its state is a [`GroupShard`]: a handler looks at the
//! state and a request and returns [`Record`]s; the caller appends them to the log; once they are below the high
//! watermark, applying them changes the state. Applying is the only mutator, the same for the leader, for followers and
//! for the replay at start (T50), so a shard is always the fold of its log.
//!
//! The crate knows no clock, IO, transport, RocksDB or randomness: times are arguments, and so is every bound of the log.
//!
//! * [`GroupShard`]: the groups of one `__offsets` partition; [`Group`]: what is visible of one group.
//! * [`Record`], [`codec`]: what stands in the log, and its bytes.
//! * [`Truncation`]: the prefix truncation of the log by re-append (R15).
//!
//! Groups have no members yet: commits name no member, and the last accepted wins.

pub mod codec;
mod ids;
mod record;
mod shard;
mod truncation;

pub use codec::{DecodeError, EncodedRecord};
pub use ids::{CommitSequence, GroupEpoch, MemberEpoch};
pub use record::{CommitKey, CommitValue, Committed, GroupValue, Position, Record};
pub use shard::{
    AppendOutOfOrder, Applied, CommitError, CommitMember, CommitRequest, DeleteGroupError, Group, GroupShard,
    GroupSummary, OffsetCommit, OffsetReset, ResetError, ShardRestore, TopicDeletion,
};
pub use truncation::{Truncation, TruncationPolicy, TruncationStep};
