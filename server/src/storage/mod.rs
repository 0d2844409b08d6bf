//! The storage role: partitions on the local disk, the coordinator of groups, and the housekeeping around them.
//!
//! Nothing here knows gRPC or the gateway; both meet it through [`crate::storage_api`].

mod compaction;
mod coordinator;
mod disk;
mod housekeeping;
mod io_pool;
mod local;
pub(crate) mod meta;
mod node;
mod offsets_store;
mod partition;
mod reconcile;
mod tail_cache;
mod wall_clock_guard;

pub(crate) use local::LocalStorage;
pub(crate) use node::{StorageConfig, StorageNode, Surroundings};
