//! [`ApiError`] to and from what travels: `google.rpc.Status` and the trailers of a gRPC status.
//!
//! | where | what |
//! |---|---|
//! | `grpc-status`, `grpc-message` | code, message |
//! | `grpc-status-details-bin` | `google.rpc.Status` with `ErrorInfo` (domain `wharf`), `BadRequest`, `RetryInfo` |
//! | `wharf-reason` | reason without prefix |
//! | `wharf-applied` | `none`, `some`, `unknown` |
//! | `wharf-retry-after-ms` | wait in milliseconds, rounded up |
//! | `grpc-retry-pushback-ms` | the same for gRPC's own retries; -1 where they would write twice |

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use prost_types::Any;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use super::{ApiError, Applied, reason_from_name};
use crate::google_rpc::bad_request::FieldViolation;
use crate::google_rpc::{self, BadRequest, ErrorInfo, RetryInfo};
use crate::v1::ErrorReason;

/// `domain` of every ErrorInfo that Wharf sends.
pub const DOMAIN: &str = "wharf";
/// Most bytes of the encoded `google.rpc.Status`. Many clients take 8 KiB of headers in all, and base64 adds a third.
pub const DETAILS_BYTES_MAX: usize = 4096;
/// Most bytes of a message. Headers carry it percent-encoded, beside the details that repeat it.
pub const MESSAGE_BYTES_MAX: usize = 768;
/// Trailer with the reason.
pub const TRAILER_REASON: &str = "wharf-reason";
/// Trailer with `none`, `some` or `unknown`.
pub const TRAILER_APPLIED: &str = "wharf-applied";
/// Trailer with the wait in milliseconds.
pub const TRAILER_RETRY_AFTER_MS: &str = "wharf-retry-after-ms";
/// Trailer by which a server steers the retries that gRPC makes by itself (gRFC A6).
pub const TRAILER_GRPC_PUSHBACK_MS: &str = "grpc-retry-pushback-ms";

const TYPE_URL_PREFIX: &str = "type.googleapis.com/";
const ERROR_INFO: &str = "google.rpc.ErrorInfo";
const BAD_REQUEST: &str = "google.rpc.BadRequest";
const RETRY_INFO: &str = "google.rpc.RetryInfo";

const METADATA_APPLIED: &str = "applied";
const METADATA_POSITIONS: &str = "positions";
/// Under this name a reason that this version does not know is kept in the metadata.
const METADATA_UNKNOWN_REASON: &str = "reason";

/// Longest value of the metadata that survives when the details do not fit.
const VALUE_BYTES_WHEN_TIGHT: usize = 64;
/// Most values of the metadata that survive when the details do not fit.
const VALUES_WHEN_TIGHT: usize = 8;

impl ApiError {
    /// The status that a call ends with: code, message, details and trailers.
    #[must_use]
    pub fn into_status(self) -> Status {
        let (error, rpc) = self.fitted();
        let mut trailers = MetadataMap::new();
        trailers.insert(TRAILER_REASON, MetadataValue::from_static(error.reason_name()));
        if let Some(applied) = &error.applied {
            trailers.insert(TRAILER_APPLIED, MetadataValue::from_static(applied.as_str()));
        }
        if let Some(wait) = error.retry_after {
            trailers.insert(TRAILER_RETRY_AFTER_MS, MetadataValue::from(millis_up(wait)));
        }
        if let Some(pushback) = error.pushback_ms() {
            trailers.insert(TRAILER_GRPC_PUSHBACK_MS, MetadataValue::from(pushback));
        }
        let details = Bytes::from(rpc.encode_to_vec());
        Status::with_details_and_metadata(error.code, error.message, details, trailers)
    }

    /// The same as a message, for `error` of a stream's answer.
    #[must_use]
    pub fn to_rpc_status(&self) -> google_rpc::Status {
        self.clone().fitted().1
    }

    /// Reads what a call ended with. `None`: the status is not one of Wharf's, for example because the connection broke;
    /// then it is unknown whether a produce was applied. Where a proxy dropped the details, the trailers are read.
    #[must_use]
    pub fn from_status(status: &Status) -> Option<ApiError> {
        // A truncated or foreign detail is no reason to lose the trailers.
        google_rpc::Status::decode(status.details())
            .ok()
            .and_then(|rpc| ApiError::from_parts(status.code(), status.message(), &rpc.details))
            .or_else(|| ApiError::from_trailers(status))
    }

    /// Reads `error` of a stream's answer. `None`: it is not one of Wharf's.
    #[must_use]
    pub fn from_rpc_status(status: &google_rpc::Status) -> Option<ApiError> {
        ApiError::from_parts(Code::from_i32(status.code), &status.message, &status.details)
    }

    fn from_parts(code: Code, message: &str, details: &[Any]) -> Option<ApiError> {
        let info: ErrorInfo = find(details, ERROR_INFO)?;
        if info.domain != DOMAIN {
            return None;
        }
        let mut error = ApiError::bare(code, &info.reason, message);
        error.applied = info.metadata.get(METADATA_APPLIED).and_then(|word| {
            Applied::from_parts(word, info.metadata.get(METADATA_POSITIONS).map(String::as_str))
        });
        error.metadata.extend(
            info.metadata
                .into_iter()
                .filter(|(name, _)| name != METADATA_APPLIED && name != METADATA_POSITIONS)
                .map(|(name, value)| (Cow::Owned(name), value)),
        );
        if let Some(bad) = find::<BadRequest>(details, BAD_REQUEST) {
            error.field_violations =
                bad.field_violations.into_iter().map(|v| (v.field, v.description)).collect();
        }
        error.retry_after =
            find::<RetryInfo>(details, RETRY_INFO).and_then(|info| info.retry_delay?.try_into().ok());
        Some(error)
    }

    fn from_trailers(status: &Status) -> Option<ApiError> {
        let text = |name| status.metadata().get(name).and_then(|value| value.to_str().ok());
        let mut error = ApiError::bare(status.code(), text(TRAILER_REASON)?, status.message());
        error.applied = text(TRAILER_APPLIED).and_then(|word| Applied::from_parts(word, None));
        error.retry_after =
            text(TRAILER_RETRY_AFTER_MS).and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
        Some(error)
    }

    /// Without the defaults of the reason: what was not sent must not be made up.
    fn bare(code: Code, reason: &str, message: &str) -> ApiError {
        let known = reason_from_name(reason);
        let unknown = known.is_none().then(|| (METADATA_UNKNOWN_REASON.into(), reason.to_owned()));
        ApiError {
            code,
            reason: known.unwrap_or(ErrorReason::Unspecified),
            message: message.to_owned(),
            metadata: unknown.into_iter().collect(),
            field_violations: Vec::new(),
            retry_after: None,
            applied: None,
        }
    }

    /// What gRPC's own retry is told. The `plain` service config repeats a Produce without a sequence on
    /// RESOURCE_EXHAUSTED, which after a partial write would write twice.
    fn pushback_ms(&self) -> Option<i64> {
        match (&self.applied, self.code) {
            (Some(Applied::Some(_) | Applied::Unknown), Code::ResourceExhausted) => Some(-1),
            _ => self.retry_after.map(|wait| i64::try_from(millis_up(wait)).unwrap_or(i64::MAX)),
        }
    }

    /// The error as it can be sent, and its encoding. What is least needed goes first: field violations beyond those
    /// that fit, then long or many values, then the list of positions.
    fn fitted(mut self) -> (ApiError, google_rpc::Status) {
        truncate_utf8(&mut self.message, MESSAGE_BYTES_MAX);
        let mut rpc = self.encode();
        if rpc.encoded_len() <= DETAILS_BYTES_MAX {
            return (self, rpc);
        }
        while !self.field_violations.is_empty() && rpc.encoded_len() > DETAILS_BYTES_MAX {
            // Halving keeps a request with thousands of violations cheap.
            self.field_violations.truncate(self.field_violations.len() / 2);
            rpc = self.encode();
        }
        if rpc.encoded_len() > DETAILS_BYTES_MAX {
            self.metadata.truncate(VALUES_WHEN_TIGHT);
            for (_, value) in &mut self.metadata {
                truncate_utf8(value, VALUE_BYTES_WHEN_TIGHT);
            }
            rpc = self.encode();
        }
        if rpc.encoded_len() > DETAILS_BYTES_MAX {
            self.applied = self.applied.map(|applied| match applied {
                Applied::Some(_) => Applied::Unknown,
                other => other,
            });
            rpc = self.encode();
        }
        (self, rpc)
    }

    fn encode(&self) -> google_rpc::Status {
        let mut metadata: BTreeMap<String, String> =
            self.metadata.iter().map(|(name, value)| (name.clone().into_owned(), value.clone())).collect();
        if let Some(applied) = &self.applied {
            metadata.insert(METADATA_APPLIED.to_owned(), applied.as_str().to_owned());
            if let Applied::Some(positions) = applied {
                metadata.insert(METADATA_POSITIONS.to_owned(), positions.clone());
            }
        }
        let info = ErrorInfo { reason: self.reason_name().to_owned(), domain: DOMAIN.to_owned(), metadata };
        let mut details = vec![any(ERROR_INFO, &info)];
        if !self.field_violations.is_empty() {
            let field_violations = self
                .field_violations
                .iter()
                .map(|(field, description)| FieldViolation {
                    field: field.clone(),
                    description: description.clone(),
                    ..FieldViolation::default()
                })
                .collect();
            details.push(any(BAD_REQUEST, &BadRequest { field_violations }));
        }
        if let Some(wait) = self.retry_after {
            let retry_delay = prost_types::Duration::try_from(wait).ok();
            details.push(any(RETRY_INFO, &RetryInfo { retry_delay }));
        }
        google_rpc::Status { code: self.code as i32, message: self.message.clone(), details }
    }
}

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Status {
        error.into_status()
    }
}

fn any(name: &str, message: &impl Message) -> Any {
    Any { type_url: format!("{TYPE_URL_PREFIX}{name}"), value: message.encode_to_vec() }
}

/// The first detail of that type that can be decoded. Only the part after the last `/` of a type URL counts.
fn find<M: Message + Default>(details: &[Any], name: &str) -> Option<M> {
    details
        .iter()
        .filter(|any| any.type_url.rsplit('/').next() == Some(name))
        .find_map(|any| M::decode(any.value.as_slice()).ok())
}

/// Rounded up, so that a client that waits so long does not come too early.
fn millis_up(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn truncate_utf8(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let mut end = bytes_max;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
}
