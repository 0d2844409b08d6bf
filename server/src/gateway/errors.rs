//! The one mapping from what can go wrong to the public error model of `wharf.v1`.

use std::time::Duration;

use wharf_log::producer::EntryVerdict;
use wharf_proto::error::{ApiError, Applied};
use wharf_proto::v1::ErrorReason;
use wharf_types::{ConfigError, GroupName, InvalidName, NameKind, TopicName, limits};

use crate::storage_api::{CommitError, StorageError};

/// What a client is told to wait before it tries again.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// What a client is told to wait where the load must go down first.
const RETRY_AFTER_OVERLOAD: Duration = Duration::from_millis(500);

/// Why one request was not written to one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProduceError {
    /// Storage refused or failed.
    Storage(StorageError),
    /// Storage failed after it may have appended the request.
    Doubtful(StorageError),
    /// The partition's producer state judged the request.
    Verdict(EntryVerdict),
    /// An earlier request of the stream and producer failed.
    PredecessorFailed,
    /// The topic was deleted while the request waited.
    TopicGone,
    /// Nobody waited for the answer any more, and the request was never appended.
    GaveUp,
    /// The time was up before an answer came.
    Timeout,
}

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidRecord {
    #[error("{field} and {field}_text are both set; set one of them")]
    BothForms { field: &'static str },
    #[error(
        "a record needs value or value_text, or tombstone: true to delete its key; an empty value is data"
    )]
    NoValue,
    #[error("a tombstone has no value; remove the value or set tombstone to false")]
    TombstoneWithValue,
    #[error("timestamp_ms is negative; it counts milliseconds since 1970")]
    NegativeTimestamp,
    #[error("the record has {actual} headers; at most {} are allowed", limits::HEADERS_PER_RECORD_MAX)]
    TooManyHeaders { actual: usize },
    #[error(
        "the name of header {index} has {actual} bytes; 1 to {} are allowed",
        limits::HEADER_NAME_BYTES_MAX
    )]
    HeaderName { index: usize, actual: usize },
    #[error("header {index} sets value and value_text; set one of them")]
    HeaderBothForms { index: usize },
    #[error("the topic is compacted, so every record needs a key")]
    KeyRequired,
    #[error("the record has {actual} bytes; the topic's max.message.bytes allows {limit}")]
    TooLarge { actual: usize, limit: usize },
}

impl InvalidRecord {
    /// The error for the record at `index` of the request.
    pub(crate) fn into_api(self, index: usize) -> ApiError {
        let field = format!("records[{index}]");
        let error = match &self {
            InvalidRecord::TooLarge { actual, limit } => {
                ApiError::invalid_as(ErrorReason::RecordTooLarge, field, self.to_string())
                    .with_metadata("limit", limit)
                    .with_metadata("size", actual)
            }
            InvalidRecord::BothForms { .. } => ApiError::invalid(field, self.to_string()),
            _ => ApiError::invalid_as(ErrorReason::InvalidRecord, field, self.to_string()),
        };
        error.with_applied(Applied::None)
    }
}

/// The error for a bad name.
pub(crate) fn invalid_name(field: &str, error: &InvalidName) -> ApiError {
    let of_topic = match error {
        InvalidName::Empty(kind)
        | InvalidName::TooLong { kind, .. }
        | InvalidName::Character { kind, .. } => *kind == NameKind::Topic,
        InvalidName::Reserved(_) => true,
    };
    let reason = if of_topic { ErrorReason::InvalidTopicName } else { ErrorReason::InvalidRequest };
    ApiError::invalid_as(reason, field, error.to_string())
}

/// The error for a bad topic configuration.
pub(crate) fn invalid_config(error: &ConfigError) -> ApiError {
    ApiError::invalid_as(ErrorReason::InvalidConfig, "config", error.to_string())
}

/// The error for a topic that is not there.
pub(crate) fn topic_not_found(topic: &str) -> ApiError {
    ApiError::new(
        ErrorReason::TopicNotFound,
        format!("topic {topic:?} does not exist; create it with AdminService/CreateTopic"),
    )
    .with_metadata("topic", topic)
}

/// The error for a partition that a topic does not have.
pub(crate) fn partition_not_found(topic: &str, partition: i64, count: usize) -> ApiError {
    ApiError::new(
        ErrorReason::PartitionNotFound,
        format!("topic {topic:?} has the partitions 0 to {}, not {partition}", count.saturating_sub(1)),
    )
    .with_metadata("topic", topic)
    .with_metadata("partitions", count)
}

/// The error for a group that is not there.
pub(crate) fn group_not_found(group: &GroupName) -> ApiError {
    ApiError::new(
        ErrorReason::GroupNotFound,
        format!("group {group} does not exist; a group exists from its first commit"),
    )
    .with_metadata("group", group)
}

/// The error for a request that the server's own limit ended.
pub(crate) fn timeout(limit: Duration) -> ApiError {
    ApiError::new(
        ErrorReason::Timeout,
        format!("no answer within {} ms; what was asked may still happen", limit.as_millis()),
    )
}

/// The error for a gateway that holds as much as it may.
pub(crate) fn overloaded() -> ApiError {
    ApiError::new(
        ErrorReason::Overloaded,
        "this gateway holds as many unanswered records as it may; try again later",
    )
    .with_retry_after(RETRY_AFTER_OVERLOAD)
    .with_metadata("limit_of", "gateway")
}

/// The error for a role that is going down.
pub(crate) fn draining() -> ApiError {
    ApiError::new(ErrorReason::ServerDraining, "this server is shutting down; try another gateway")
        .with_retry_after(RETRY_AFTER)
}

/// The public form of a storage error.
pub(crate) fn storage_error(topic: &TopicName, error: &StorageError) -> ApiError {
    let named = |error: ApiError| error.with_metadata("topic", topic);
    match error {
        StorageError::OffsetOutOfRange { requested, log_start, high_watermark } => named(
            ApiError::new(
                ErrorReason::OffsetOutOfRange,
                format!(
                    "offset {requested} of topic {topic} is outside of [{log_start}, {high_watermark}]; use start EARLIEST or LATEST"
                ),
            )
            .with_metadata("log_start_offset", log_start)
            .with_metadata("high_watermark", high_watermark),
        ),
        StorageError::DataCorrupted { from, next_good } => named(
            ApiError::new(
                ErrorReason::DataCorrupted,
                format!(
                    "the records of topic {topic} from offset {from} do not match their checksums; reading goes on at {next_good}, and 'wharf topic skip-damaged' gives the range up"
                ),
            )
            .with_metadata("from", from)
            .with_metadata("next_good", next_good),
        ),
        StorageError::NotDamaged { .. } => named(ApiError::invalid(
            "from_offset",
            format!("{error}; AdminService/GetTopic shows the damaged ranges"),
        )),
        StorageError::StorageFull { available_bytes, reserve_bytes } => ApiError::new(
            ErrorReason::StorageFull,
            format!("the disk is full: {error}; delete topics or records, lower the retention or add space"),
        )
        .with_metadata("available_bytes", available_bytes)
        .with_metadata("reserve_bytes", reserve_bytes)
        .with_retry_after(Duration::from_secs(1)),
        StorageError::Truncated { from, to } => named(
            ApiError::new(
                ErrorReason::Truncated,
                format!("topic {topic}: {error}; read on from offset {from} without leader_epoch to accept the loss"),
            )
            .with_metadata("from", from)
            .with_metadata("to", to),
        ),
        StorageError::TooManyProducers(limit) => named(
            ApiError::new(ErrorReason::QuotaExceeded, format!("topic {topic}: {error}; reuse producer ids"))
                .with_metadata("limit_of", "partition")
                .with_metadata("limit", limit)
                .with_retry_after(Duration::from_secs(60)),
        ),
        StorageError::Overloaded => overloaded(),
        StorageError::CoordinatorLoading => {
            ApiError::new(ErrorReason::CoordinatorLoading, format!("{error}; try again"))
                .with_retry_after(RETRY_AFTER)
        }
        StorageError::ShuttingDown => draining(),
        StorageError::TopicDeleted(_) => topic_not_found(topic.as_str()),
        StorageError::LeaderNotAvailable(_)
        | StorageError::FencedLeaderEpoch { .. }
        | StorageError::PipelineBroken
        | StorageError::StalePartitionCount { .. }
        | StorageError::DiskFailed => named(
            ApiError::new(ErrorReason::LeaderNotAvailable, format!("topic {topic}: {error}; try again"))
                .with_retry_after(RETRY_AFTER),
        ),
    }
}

/// The public form of a refused produce, with what is known of its effect.
pub(crate) fn produce_error(topic: &TopicName, error: &ProduceError) -> ApiError {
    match error {
        ProduceError::Storage(error) => {
            let applied = match error {
                StorageError::DiskFailed | StorageError::ShuttingDown => Applied::Unknown,
                _ => Applied::None,
            };
            storage_error(topic, error).with_applied(applied)
        }
        ProduceError::Doubtful(error) => storage_error(topic, error).with_applied(Applied::Unknown),
        ProduceError::Verdict(EntryVerdict::Fenced { current }) => ApiError::new(
            ErrorReason::ProducerFenced,
            format!("topic {topic}: a newer producer with epoch {current} has taken over this producer_id"),
        )
        .with_metadata("producer_epoch", current)
        .with_applied(Applied::None),
        ProduceError::Verdict(EntryVerdict::OutOfOrder { smallest }) => ApiError::new(
            ErrorReason::OutOfOrderSequence,
            format!(
                "topic {topic}: the sequence is older than the {} requests remembered, of which {smallest} is the oldest; it may have been written before",
                limits::PRODUCER_WINDOW
            ),
        )
        .with_metadata("smallest_sequence", smallest)
        .with_applied(Applied::Unknown),
        ProduceError::Verdict(EntryVerdict::TooManyProducers) => {
            storage_error(topic, &StorageError::TooManyProducers(limits::PRODUCERS_PER_PARTITION_MAX))
                .with_applied(Applied::None)
        }
        ProduceError::Verdict(_) => {
            ApiError::new(ErrorReason::LeaderNotAvailable, format!("topic {topic}: the request was held up; try again"))
                .with_retry_after(RETRY_AFTER)
                .with_applied(Applied::None)
        }
        ProduceError::PredecessorFailed => predecessor_failed(Applied::None),
        ProduceError::TopicGone => topic_not_found(topic.as_str()).with_applied(Applied::None),
        ProduceError::GaveUp => timeout(Duration::from_millis(u64::from(limits::DEADLINE_DEFAULT_MS)))
            .with_applied(Applied::None),
        ProduceError::Timeout => timeout(Duration::from_millis(u64::from(limits::DEADLINE_DEFAULT_MS)))
            .with_applied(Applied::Unknown),
    }
}

/// The error for a request whose predecessor on the stream failed.
pub(crate) fn predecessor_failed(applied: Applied) -> ApiError {
    ApiError::new(
        ErrorReason::PredecessorFailed,
        "an earlier request of this producer on this stream failed; send it and this one again under their sequences",
    )
    .with_applied(applied)
}

/// The public form of a refused commit.
pub(crate) fn commit_error(error: &CommitError) -> ApiError {
    let text = error.to_string();
    match error {
        CommitError::Storage(error) => storage_error(&TopicName::internal(limits::OFFSETS_TOPIC), error),
        CommitError::UnknownMember { group, .. } => {
            ApiError::new(ErrorReason::UnknownMember, format!("{text}; join the group again"))
                .with_metadata("group", group)
        }
        CommitError::GroupNotEmpty(group) => {
            ApiError::new(ErrorReason::GroupNotEmpty, format!("{text}; stop its consumers first"))
                .with_metadata("group", group)
        }
        CommitError::GroupNotFound(group) => group_not_found(group),
    }
}
