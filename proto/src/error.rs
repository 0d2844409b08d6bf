//! The error model of the public API, for the server that builds errors and the clients that read them.
//!
//! Invariants:
//! * The gRPC code follows from the reason alone, by the one table in `error/table.rs`.
//! * What is sent fits: the message into [`MESSAGE_BYTES_MAX`], the encoded details into [`DETAILS_BYTES_MAX`]. What does
//!   not fit is shortened, never refused; positions of a partly applied request are kept whole or become
//!   [`Applied::Unknown`], which is the safe reading.
//! * The same `google.rpc.Status` goes into `grpc-status-details-bin` of a call and into `error` of a stream's answer, so
//!   both say the same.

use std::borrow::Cow;
use std::time::Duration;

use tonic::Code;

use crate::v1::ErrorReason;

mod table;
#[cfg(test)]
mod tests;
mod wire;

pub use table::{code_of, reason_from_name, reason_name};
pub use wire::{
    DETAILS_BYTES_MAX, DOMAIN, MESSAGE_BYTES_MAX, TRAILER_APPLIED, TRAILER_GRPC_PUSHBACK_MS, TRAILER_REASON,
    TRAILER_RETRY_AFTER_MS,
};

/// Whether a produce request that failed has written anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Nothing was written.
    None,
    /// A part was written; the text lists the positions, as in `0:17,2:5` (partition:offset). Empty when read from a
    /// status that lost its details on the way.
    Some(String),
    /// Nobody can tell: retry with the same sequence.
    Unknown,
}

impl Applied {
    /// The word in the metadata `applied` and the trailer `wharf-applied`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Applied::None => "none",
            Applied::Some(_) => "some",
            Applied::Unknown => "unknown",
        }
    }

    fn from_parts(word: &str, positions: Option<&str>) -> Option<Applied> {
        match word {
            "none" => Some(Applied::None),
            "some" => Some(Applied::Some(positions.unwrap_or_default().to_owned())),
            "unknown" => Some(Applied::Unknown),
            _ => None,
        }
    }
}

/// An error of the public API: what a call ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The gRPC code. Follows from `reason`; read from a status it is the status's own.
    pub code: Code,
    /// The published reason. [`ErrorReason::Unspecified`] for one that this version does not know.
    pub reason: ErrorReason,
    /// One sentence for a person: what, where, what to do.
    pub message: String,
    /// Values that explain the reason, as in `("limit", "1048576")`. Never `applied` and `positions`, which `applied`
    /// holds.
    pub metadata: Vec<(Cow<'static, str>, String)>,
    /// For malformed input: path of the field and what is wrong with it.
    pub field_violations: Vec<(String, String)>,
    /// How long to wait before another try, where that helps.
    pub retry_after: Option<Duration>,
    /// For produce: whether anything was written.
    pub applied: Option<Applied>,
}

impl ApiError {
    /// An error with the code, and where the reason fixes them the wait and `applied`, of `reason`.
    #[must_use]
    pub fn new(reason: ErrorReason, message: impl Into<String>) -> ApiError {
        ApiError {
            code: code_of(reason),
            reason,
            message: message.into(),
            metadata: Vec::new(),
            field_violations: Vec::new(),
            retry_after: table::retry_after_default(reason),
            applied: table::applied_default(reason),
        }
    }

    /// INVALID_REQUEST for one field: the message is `field: description`.
    #[must_use]
    pub fn invalid(field: impl Into<String>, description: impl Into<String>) -> ApiError {
        ApiError::invalid_as(ErrorReason::InvalidRequest, field, description)
    }

    /// Like [`ApiError::invalid`] for the reasons of malformed input that have a name of their own.
    #[must_use]
    pub fn invalid_as(
        reason: ErrorReason,
        field: impl Into<String>,
        description: impl Into<String>,
    ) -> ApiError {
        let (field, description) = (field.into(), description.into());
        ApiError::new(reason, format!("{field}: {description}")).with_field_violation(field, description)
    }

    /// Adds a value that explains the reason.
    #[must_use]
    pub fn with_metadata(mut self, name: &'static str, value: impl ToString) -> ApiError {
        self.metadata.push((Cow::Borrowed(name), value.to_string()));
        self
    }

    /// Adds what is wrong with one field.
    #[must_use]
    pub fn with_field_violation(
        mut self,
        field: impl Into<String>,
        description: impl Into<String>,
    ) -> ApiError {
        self.field_violations.push((field.into(), description.into()));
        self
    }

    /// Says how long to wait before another try.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> ApiError {
        self.retry_after = Some(wait);
        self
    }

    /// Says whether anything was written.
    #[must_use]
    pub fn with_applied(mut self, applied: Applied) -> ApiError {
        self.applied = Some(applied);
        self
    }

    /// Says whether anything was written, where nothing has said it yet.
    #[must_use]
    pub fn or_applied(mut self, applied: Applied) -> ApiError {
        self.applied.get_or_insert(applied);
        self
    }

    /// The value of `name` in the metadata.
    #[must_use]
    pub fn metadata_value(&self, name: &str) -> Option<&str> {
        self.metadata.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The reason as clients see it, without prefix.
    #[must_use]
    pub fn reason_name(&self) -> &'static str {
        reason_name(self.reason)
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.reason_name(), self.message)
    }
}

impl std::error::Error for ApiError {}
