//! The cluster image: who stores and leads what, and the one function that changes it.
//!
//! Every decision of the controller is a [`Record`] in its raft log. [`apply`] turns records, in log order, into an
//! [`Image`]; every check runs there, against the image that the record meets, so that each voter comes to the same
//! image and the same refusals (R3). Records therefore carry what their proposer expected (broker epoch, partition
//! epoch, number of partitions) rather than its conclusions.
//!
//! Invariants of an image, checked after each record in debug builds ([`Image::check`]):
//! * topic ids and names are in bijection; a topic's partitions are numbered from 0 without gaps;
//! * ISR, ELR and LastKnownELR are disjoint subsets of the replicas;
//! * every ISR member is live, and the leader, if there is one, is in the ISR; an empty ISR means no leader;
//! * partition epochs rise by one with each change of a partition, leader epochs with each change of its leader,
//!   broker epochs with each registration; producer ids are handed out once.
//!
//! The crate knows no clock, no randomness, no raft and no IO: ids, seeds and indexes are arguments.
//!
//! Main types: [`Image`], [`Record`], [`apply`] with [`Delta`] and [`ApplyError`]; [`codec`] for the bytes;
//! [`place`] for the assignment of new partitions; [`rebuild`] for an image from the data, after its log was lost.

mod apply;
pub mod codec;
pub mod election;
mod image;
mod node;
mod placement;
mod rebuild;
mod record;
mod topic;

pub use apply::{ApplyError, Delta, Event, Outcome, apply};
pub use image::{Image, InvariantViolation};
pub use node::{ClusterId, Incarnation, LogDirId, Node, NodeState};
pub use placement::{PlacementError, place};
pub use rebuild::{
    REBUILD_MARGIN, RebuildError, RebuildNote, RecoveredMetadata, RecoveredPartition, rebuild,
};
pub use record::{
    AllocateProducerIds, AlterPartition, AlterTopic, Bootstrap, CreateTopic, DeleteTopic, ElectUnclean,
    IsrMember, NodeEpoch, Record, RegisterNode, SetFeature,
};
pub use topic::{DeletedTopic, Partition, Topic};

/// Name of the feature that gates the meaning of records.
pub const METADATA_VERSION_FEATURE: &str = "metadata.version";
/// Newest level of [`METADATA_VERSION_FEATURE`] that this code knows.
pub const METADATA_VERSION: u32 = 1;
/// Deleted topics that an image remembers, so that a node that was away learns of the deletion. The oldest go first;
/// folders of topics that are no longer remembered stay, since absence never deletes (trap 29).
pub const DELETED_TOPICS_MAX: usize = 100_000;
/// The first producer id.
pub const PRODUCER_ID_FIRST: u64 = 1;
