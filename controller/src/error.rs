//! Errors of opening a controller and of its commands.

use std::path::PathBuf;
use std::time::Duration;

use wharf_metadata::{ApplyError, PlacementError};
use wharf_types::{ConfigError, InvalidName, NodeId, TopicId, TopicName};

use crate::driver::DriverError;
use crate::storage::{Damage, WriteError};

/// Why a controller does not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration cannot work.
    #[error("invalid controller configuration: {reason}")]
    InvalidConfig {
        /// What is wrong.
        reason: &'static str,
    },
    /// Another process has the log open.
    #[error("{path} is in use by another process")]
    InUse {
        /// Folder of the log.
        path: PathBuf,
    },
    /// There is no log, but there should be one.
    #[error(
        "{path} is missing while the data directory holds partitions; \
         `wharf recover metadata` rebuilds it from them"
    )]
    Missing {
        /// Folder of the log.
        path: PathBuf,
    },
    /// The log is damaged. Nothing was changed.
    #[error(
        "the metadata log in {path} is damaged: {damage}. `wharf recover metadata` rebuilds it from the partitions"
    )]
    Damaged {
        /// Folder of the log.
        path: PathBuf,
        /// How.
        damage: Damage,
    },
    /// The operating system does not let the log be read or opened. Nothing was changed.
    #[error("the metadata log in {path} cannot be opened: {damage}")]
    Unreadable {
        /// Folder of the log.
        path: PathBuf,
        /// What failed.
        damage: Damage,
    },
    /// The log was written by a newer version.
    #[error("the metadata log in {path} was written by a newer version: {reason}")]
    NewerVersion {
        /// Folder of the log.
        path: PathBuf,
        /// How that shows.
        reason: String,
    },
    /// The log belongs to another voter.
    #[error("the metadata log in {path} belongs to controller {actual}, not to {expected}")]
    WrongNode {
        /// Folder of the log.
        path: PathBuf,
        /// The configured id.
        expected: u64,
        /// The id in the log.
        actual: u64,
    },
    /// The log could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The driver ended before it was ready.
    #[error("the controller stopped while it started: {0}")]
    Driver(DriverError),
    /// No leader in time.
    #[error("no controller leader within {waited:?}")]
    NoLeader {
        /// How long was waited.
        waited: Duration,
    },
    /// The driver's thread could not be started.
    #[error("cannot start the controller's thread: {0}")]
    Thread(std::io::Error),
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// This voter does not lead. Nothing was done.
    #[error("this controller does not lead; the leader is {leader:?}")]
    NotLeader {
        /// Who leads, where that is known.
        leader: Option<NodeId>,
    },
    /// The command may or may not be done: leadership was lost, or the time is over (R3).
    #[error("the outcome of the command is unknown: it may or may not have been applied")]
    Unknown,
    /// Too many commands wait. Nothing was done.
    #[error("the controller's queue of {queue} commands is full")]
    Overloaded {
        /// Its length.
        queue: usize,
    },
    /// The controller has stopped. Nothing was done.
    #[error("the controller has stopped")]
    Stopped,
    /// The topic's name is not allowed.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// The topic's configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The number of partitions is out of bounds.
    #[error("{given} partitions are not possible; give {min} to {max}")]
    InvalidPartitions {
        /// The number that was given.
        given: u32,
        /// The fewest possible here.
        min: u32,
        /// The most.
        max: u32,
    },
    /// The replication factor is out of bounds.
    #[error("replication factor {given} is not possible; give 1 to {max}, or 0 for the default")]
    InvalidReplicationFactor {
        /// The factor that was given.
        given: u32,
        /// The largest.
        max: u32,
    },
    /// Replicas cannot be placed.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The topic's name is taken.
    #[error("topic {name} already exists")]
    TopicExists {
        /// Its name.
        name: TopicName,
        /// Its identity.
        topic_id: TopicId,
    },
    /// There is no topic of this name.
    #[error("topic {name:?} does not exist")]
    TopicNotFound {
        /// The name.
        name: String,
    },
    /// More partitions would move the keys of a topic that has keyed records.
    #[error(
        "topic {name} has keyed records: {partitions} partitions move keys to others; set allow_key_remap to accept that"
    )]
    KeyRemapNotAllowed {
        /// The topic.
        name: TopicName,
        /// The number of partitions that was asked for.
        partitions: u32,
    },
    /// The record was refused when it met the image. Nothing was done.
    #[error(transparent)]
    Refused(ApplyError),
}

impl From<ApplyError> for CommandError {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::TopicExists { name, topic_id } => CommandError::TopicExists { name, topic_id },
            ApplyError::UnknownTopic { topic_id } => {
                CommandError::TopicNotFound { name: topic_id.to_string() }
            }
            ApplyError::Config(error) => CommandError::Config(error),
            error => CommandError::Refused(error),
        }
    }
}
