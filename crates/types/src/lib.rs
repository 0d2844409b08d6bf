//! The vocabulary of Wharf: offsets, epochs, ids, names, limits, topic configuration and the partitioner.
//!
//! Every other crate depends on this one; it depends on nothing of Wharf and knows no clock, no randomness and
//! no IO. Main types: [`Offset`], [`LeaderEpoch`], [`TopicId`], [`TopicName`], [`TopicConfig`],
//! [`partition_for_key`].

mod config;
mod ids;
pub mod limits;
mod names;
mod offset;
mod partitioner;
mod time;

pub use config::{
    CleanupPolicy, Compression, ConfigEntry, ConfigError, FlushPolicy, TopicConfig, TopicConfigKey,
};
pub use ids::{
    BrokerEpoch, InvalidProducerId, LeaderEpoch, NodeId, PartitionEpoch, PartitionIndex, ProducerEpoch,
    ProducerId, Sequence, TopicId, TopicPartition,
};
pub use names::{GroupName, InvalidName, NameKind, TopicName};
pub use offset::Offset;
pub use partitioner::{murmur2, partition_for_key};
pub use time::TimestampMs;
