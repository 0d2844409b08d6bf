//! What a call ends with.

use std::time::Duration;

use tonic::{Code, Status};
use wharf_proto::error::{ApiError, Applied};
use wharf_proto::v1::ErrorReason;

/// Why a call failed, as far as the client can tell.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// The endpoint is not `HOST:PORT` or a URL with the scheme `http`.
    #[error("`{endpoint}` is not an endpoint: {problem}")]
    InvalidEndpoint {
        /// The text that was given.
        endpoint: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No connection could be made.
    #[error("no broker at {endpoint}: {cause}")]
    Unreachable {
        /// The endpoint that was tried.
        endpoint: String,
        /// The innermost cause, as in "Connection refused".
        cause: String,
    },
    /// The connection broke while the call was under way; whether it took effect is unknown.
    #[error("the connection to {endpoint} broke: {cause}")]
    ConnectionLost {
        /// The endpoint of the connection.
        endpoint: String,
        /// The innermost cause.
        cause: String,
    },
    /// The client's own time limit passed; whether the call took effect is unknown.
    #[error("no answer from {endpoint} within the time limit")]
    TimedOut {
        /// The endpoint that was asked.
        endpoint: String,
    },
    /// The server refused, with a published reason.
    #[error("{}", .0.message)]
    Api(Box<ApiError>),
    /// The server, or something between, ended the call without a reason of Wharf's: a proxy, another kind of server.
    #[error("{code:?}{}{message}", if message.is_empty() { "" } else { ": " })]
    Foreign {
        /// The gRPC code.
        code: Code,
        /// The message that came with it.
        message: String,
    },
    /// An answer breaks the contract of the API.
    #[error("unexpected answer: {problem}")]
    Protocol {
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl ClientError {
    /// What a status means that a call to `endpoint` ended with.
    pub(crate) fn from_status(status: &Status, endpoint: &str) -> ClientError {
        if let Some(api) = ApiError::from_status(status) {
            return ClientError::Api(Box::new(api));
        }
        let endpoint = endpoint.to_owned();
        // Only statuses that were made on this side of the wire have a source.
        let source = std::error::Error::source(status);
        match (status.code(), source) {
            (Code::Cancelled, _) if status.message() == "Timeout expired" => {
                ClientError::TimedOut { endpoint }
            }
            (Code::DeadlineExceeded, _) => ClientError::TimedOut { endpoint },
            (Code::Unavailable, Some(source)) if has_connect_error(source) => {
                ClientError::Unreachable { endpoint, cause: innermost(source) }
            }
            (Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled, Some(source)) => {
                ClientError::ConnectionLost { endpoint, cause: innermost(source) }
            }
            (code, _) => ClientError::Foreign { code, message: status.message().to_owned() },
        }
    }

    /// What it means that no channel could be made.
    pub(crate) fn from_transport(error: &tonic::transport::Error, endpoint: &str) -> ClientError {
        ClientError::Unreachable { endpoint: endpoint.to_owned(), cause: innermost(error) }
    }

    /// The published reason, where the server gave one.
    #[must_use]
    pub fn reason(&self) -> Option<ErrorReason> {
        match self {
            ClientError::Api(api) => Some(api.reason),
            _ => None,
        }
    }

    /// The decoded error, where the server gave one.
    #[must_use]
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            ClientError::Api(api) => Some(api),
            _ => None,
        }
    }

    /// Whether the same call, sent again under the same sequence, may succeed without anybody changing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            ClientError::Unreachable { .. }
            | ClientError::ConnectionLost { .. }
            | ClientError::TimedOut { .. } => true,
            ClientError::Api(api) => {
                api.retry_after.is_some()
                    || api.code == Code::Unavailable
                    || matches!(api.reason, ErrorReason::Timeout | ErrorReason::PredecessorFailed)
            }
            ClientError::Foreign { code, .. } => *code == Code::Unavailable,
            ClientError::InvalidEndpoint { .. } | ClientError::Protocol { .. } => false,
        }
    }

    /// How long the server wants to be left alone.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.api().and_then(|api| api.retry_after)
    }

    /// For produce: whether anything was written. Unknown where nobody said so.
    #[must_use]
    pub fn applied(&self) -> Applied {
        match self {
            ClientError::Unreachable { .. } | ClientError::InvalidEndpoint { .. } => Applied::None,
            other => other.api().and_then(|api| api.applied.clone()).unwrap_or(Applied::Unknown),
        }
    }
}

/// The last cause of an error: the operating system's word for it, where there is one.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}

fn has_connect_error(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut current = Some(error);
    while let Some(cause) = current {
        if cause.is::<tonic::ConnectError>() || cause.to_string().contains("connect error") {
            return true;
        }
        current = cause.source();
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn reasons_survive_and_say_whether_to_retry() {
        let busy = ApiError::new(ErrorReason::Overloaded, "too much at once").with_applied(Applied::None);
        let error = ClientError::from_status(&busy.into_status(), "h:1");
        assert_eq!(error.reason(), Some(ErrorReason::Overloaded));
        assert!(error.is_transient());
        assert_eq!(error.applied(), Applied::None);

        let missing = ApiError::new(ErrorReason::TopicNotFound, "no topic \"t\"");
        let error = ClientError::from_status(&missing.into_status(), "h:1");
        assert!(!error.is_transient());
        assert_eq!(error.to_string(), "no topic \"t\"");
    }

    #[test]
    fn statuses_of_others_keep_code_and_message() {
        let error = ClientError::from_status(&Status::unimplemented("what?"), "h:1");
        assert!(
            matches!(&error, ClientError::Foreign { code: Code::Unimplemented, message } if message == "what?")
        );
        assert!(!error.is_transient());
        assert!(ClientError::from_status(&Status::unavailable("proxy: no upstream"), "h:1").is_transient());
    }

    #[test]
    fn own_time_limit_is_told_from_a_servers_cancel() {
        let own = ClientError::from_status(&Status::cancelled("Timeout expired"), "h:1");
        assert!(matches!(own, ClientError::TimedOut { .. }));
        let other = ClientError::from_status(&Status::cancelled("gone"), "h:1");
        assert!(matches!(other, ClientError::Foreign { code: Code::Cancelled, .. }));
    }
}
