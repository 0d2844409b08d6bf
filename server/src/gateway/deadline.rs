//! Deadlines of unary calls.

use std::time::Duration;

use tonic::Request;
use wharf_proto::error::ApiError;
use wharf_types::limits;

use super::errors;

/// The client's gRPC deadline as it stands in the request, if there is one.
fn client_timeout<T>(request: &Request<T>) -> Option<Duration> {
    let text = request.metadata().get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let value: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(value.saturating_mul(3_600)),
        "M" => Duration::from_secs(value.saturating_mul(60)),
        "S" => Duration::from_secs(value),
        "m" => Duration::from_millis(value),
        "u" => Duration::from_micros(value),
        "n" => Duration::from_nanos(value),
        _ => return None,
    })
}

/// How long a unary call may take: the client's deadline, or 30 s where it set none.
pub(crate) fn limit_of<T>(request: &Request<T>) -> Duration {
    client_timeout(request).unwrap_or(Duration::from_millis(u64::from(limits::DEADLINE_DEFAULT_MS)))
}

/// Runs a call up to its limit.
///
/// # Errors
/// The call's own, or `TIMEOUT`.
pub(crate) async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    match tokio::time::timeout(limit, call).await {
        Ok(result) => result,
        Err(_) => Err(errors::timeout(limit)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_clients_deadline_counts() {
        let mut request = Request::new(());
        assert_eq!(limit_of(&request), Duration::from_secs(30));
        for (text, expected) in [("500m", 500), ("2S", 2_000), ("1M", 60_000)] {
            request.metadata_mut().insert("grpc-timeout", text.parse().unwrap());
            assert_eq!(limit_of(&request), Duration::from_millis(expected));
        }
    }
}
