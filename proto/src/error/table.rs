//! What follows from a reason: the published table of errors as code.

use std::time::Duration;

use tonic::Code;

use super::Applied;
use crate::v1::ErrorReason;

/// Prefix of the enum's value names, which clients never see.
const PREFIX: &str = "ERROR_REASON_";

/// The gRPC code of a reason. `UNKNOWN` for [`ErrorReason::Unspecified`], which is never sent on purpose.
#[must_use]
pub fn code_of(reason: ErrorReason) -> Code {
    use ErrorReason as R;
    match reason {
        R::Unspecified => Code::Unknown,
        R::TopicNotFound | R::PartitionNotFound | R::GroupNotFound => Code::NotFound,
        R::TopicAlreadyExists => Code::AlreadyExists,
        R::InvalidRequest
        | R::InvalidTopicName
        | R::InvalidRecord
        | R::InvalidConfig
        | R::MalformedRequest
        | R::RecordTooLarge
        | R::RequestTooLarge => Code::InvalidArgument,
        R::Timeout => Code::DeadlineExceeded,
        R::OffsetOutOfRange | R::Truncated => Code::OutOfRange,
        R::NotEnoughReplicas
        | R::NotEnoughReplicasAfterAppend
        | R::LeaderNotAvailable
        | R::CoordinatorLoading
        | R::ServerDraining => Code::Unavailable,
        R::QuotaExceeded | R::Overloaded | R::StorageFull => Code::ResourceExhausted,
        R::KeyRemapNotAllowed
        | R::OutOfOrderSequence
        | R::PredecessorFailed
        | R::UnknownMember
        | R::GroupNotEmpty
        | R::NoCommittedOffset
        | R::InvalidTxnState => Code::FailedPrecondition,
        R::ProducerFenced
        | R::MemberFenced
        | R::StaleCommit
        | R::ProcessingTimeout
        | R::SessionExpired
        | R::ConcurrentTransaction => Code::Aborted,
        R::Unauthenticated => Code::Unauthenticated,
        R::PermissionDenied => Code::PermissionDenied,
        R::DataCorrupted => Code::DataLoss,
    }
}

/// The wait of the reasons that always carry one, unless the caller knows better.
pub(super) fn retry_after_default(reason: ErrorReason) -> Option<Duration> {
    use ErrorReason as R;
    match reason {
        R::LeaderNotAvailable | R::CoordinatorLoading | R::Overloaded | R::ConcurrentTransaction => {
            Some(Duration::from_millis(100))
        }
        // Another server takes the call at once; the wait only spreads the reconnects.
        R::ServerDraining => Some(Duration::from_millis(20)),
        R::QuotaExceeded => Some(Duration::from_secs(1)),
        _ => None,
    }
}

/// `applied` of the reasons that fix it, unless a request over several partitions knows better.
pub(super) fn applied_default(reason: ErrorReason) -> Option<Applied> {
    use ErrorReason as R;
    match reason {
        R::NotEnoughReplicas => Some(Applied::None),
        R::NotEnoughReplicasAfterAppend | R::OutOfOrderSequence | R::Timeout => Some(Applied::Unknown),
        _ => None,
    }
}

/// The reason as clients see it: the name of the enum value without its prefix.
#[must_use]
pub fn reason_name(reason: ErrorReason) -> &'static str {
    let name = reason.as_str_name();
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// The reason of a name without prefix, if this version knows it.
#[must_use]
pub fn reason_from_name(name: &str) -> Option<ErrorReason> {
    ErrorReason::from_str_name(&format!("{PREFIX}{name}"))
}
