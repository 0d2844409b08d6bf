//! The metadata quorum: raft-rs over RocksDB, commands to records.
//!
//! A [`Controller`] owns one voter. Its [`ControllerHandle`] is what the rest of the process uses: commands that become
//! records of the raft log, and the cluster image that follows from it. No record data ever passes through here, and
//! nothing here knows gRPC: services map commands and errors at the edge.
//!
//! * `storage`: the raft log on disk, with its checks at open (R3).
//! * `driver`: the thread that owns the raft node; its order is persist, send, apply.
//! * `commands`: requests to records, as pure functions of the image.
//! * `recover`: a new log from what the data folders say, for a sole voter whose log is damaged (R3).
//!
//! Only this crate knows raft. What a record means is in `wharf-metadata`.

mod commands;
mod config;
mod driver;
mod error;
mod handle;
mod logger;
mod open;
mod recover;
mod storage;
mod transport;

pub use commands::{
    AlterTopicRequest, CreateTopicRequest, DeleteTopicRequest, Registration, TopicAltered, TopicCreated,
    TopicDeleted, Validation,
};
pub use config::{Bootstrap, ControllerConfig};
pub use driver::{DriverError, Status};
pub use error::{CommandError, OpenError};
pub use handle::ControllerHandle;
pub use open::Controller;
pub use raft::SnapshotStatus;
pub use raft::eraftpb::Message as RaftMessage;
pub use recover::{Existing, RecoverError, RecoveryReport, recover_metadata};
pub use storage::{Damage, METADATA_DIR, SyncMode, WriteError};
pub use transport::{NoTransport, Transport};
pub use wharf_metadata::{RebuildNote, RecoveredMetadata, RecoveredPartition};
