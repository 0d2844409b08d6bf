//! The outermost layer of the public port: the framework's own errors become those of the published model, and every
//! call is counted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use http::{HeaderMap, Request, Response};
use tonic::{Code, Status, body::Body};
use tower::{Layer, Service};
use wharf_proto::error::{ApiError, Applied, TRAILER_REASON};
use wharf_proto::v1::ErrorReason;
use wharf_types::limits;

use crate::telemetry::metrics::{RpcMetrics, ServerMetrics};

/// Longest request on the transport: the largest produce request, in the largest envelope around it.
pub(crate) const DECODE_BYTES_MAX: usize = limits::PRODUCE_REQUEST_BYTES_MAX + (64 << 10);

/// Turns a status of the framework into one of the published model; others pass.
pub(crate) fn translate(status: Status) -> Status {
    if status.metadata().contains_key(TRAILER_REASON) {
        return status;
    }
    match framework_error(status.code(), status.message()) {
        Some(error) => error.into_status(),
        None => status,
    }
}

/// What a message of the framework means. It tells its errors apart by their texts only.
fn framework_error(code: Code, message: &str) -> Option<ApiError> {
    let lower = message.to_ascii_lowercase();
    if lower.contains("too large") && (lower.contains("length") || lower.contains("message")) {
        let numbers: Vec<u64> =
            message.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
        let size = numbers.first().copied().unwrap_or_default();
        return Some(
            ApiError::invalid_as(
                ErrorReason::RequestTooLarge,
                "request",
                format!(
                    "it has {size} bytes; at most {} are allowed, so send less at once",
                    limits::PRODUCE_REQUEST_BYTES_MAX
                ),
            )
            .with_metadata("limit", limits::PRODUCE_REQUEST_BYTES_MAX)
            .with_metadata("size", size),
        );
    }
    let undecodable = matches!(code, Code::Internal | Code::InvalidArgument | Code::Unimplemented)
        && (lower.contains("decode")
            || lower.contains("decompress")
            || lower.contains("compression flag")
            || lower.contains("eof")
            || lower.contains("wire type"));
    if undecodable {
        return Some(ApiError::new(
            ErrorReason::MalformedRequest,
            format!("the request cannot be decoded as the protobuf message of this method: {message}"),
        ));
    }
    None
}

/// Puts [`Outermost`] around a service.
#[derive(Clone)]
pub(crate) struct OutermostLayer {
    metrics: Arc<ServerMetrics>,
}

impl OutermostLayer {
    pub(crate) fn new(metrics: Arc<ServerMetrics>) -> Self {
        OutermostLayer { metrics }
    }
}

impl<S> Layer<S> for OutermostLayer {
    type Service = Outermost<S>;

    fn layer(&self, inner: S) -> Outermost<S> {
        Outermost { inner, metrics: Arc::clone(&self.metrics) }
    }
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Outermost<S> {
    inner: S,
    metrics: Arc<ServerMetrics>,
}

impl<S> Service<Request<Body>> for Outermost<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = OutermostFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let (rpc, produces) = (self.metrics.rpc(path), path.ends_with("/Produce"));
        OutermostFuture { inner: Box::pin(self.inner.call(request)), rpc, produces, started: Instant::now() }
    }
}

/// The future of [`Outermost`].
pub(crate) struct OutermostFuture<F> {
    inner: Pin<Box<F>>,
    rpc: RpcMetrics,
    /// Whether the errors of the call say what was applied.
    produces: bool,
    started: Instant,
}

impl<F, E> Future for OutermostFuture<F>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    type Output = Result<Response<Body>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = std::task::ready!(self.inner.as_mut().poll(context));
        let took = self.started.elapsed();
        Poll::Ready(result.map(|response| {
            let response = if response.headers().contains_key("grpc-status") {
                translate_response(response, self.produces)
            } else {
                response
            };
            self.rpc.finished(status_code(response.headers()), took);
            response
        }))
    }
}

fn status_code(headers: &HeaderMap) -> Code {
    let Some(status) = headers.get("grpc-status") else { return Code::Ok };
    Code::from_bytes(status.as_bytes())
}

/// A call that failed before its first message has its status in the headers.
fn translate_response(response: Response<Body>, produces: bool) -> Response<Body> {
    if response.headers().contains_key(TRAILER_REASON) {
        return response;
    }
    match Status::from_header_map(response.headers()) {
        Some(status) if status.code() != Code::Ok => match framework_error(status.code(), status.message()) {
            // The framework could not read the request, so nobody has acted on it.
            Some(error) if produces => error.with_applied(Applied::None).into_status().into_http(),
            Some(error) => error.into_status().into_http(),
            None => response,
        },
        _ => response,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_frameworks_errors_get_reasons() {
        let large = Status::out_of_range(
            "Error, decoded message length too large: found 5000000 bytes, the limit is: 4259840 bytes",
        );
        let error = ApiError::from_status(&translate(large)).unwrap();
        assert_eq!(error.reason, ErrorReason::RequestTooLarge);
        assert_eq!(error.metadata_value("size"), Some("5000000"));
        let garbage = Status::internal("failed to decode Protobuf message: invalid wire type: 7");
        let error = ApiError::from_status(&translate(garbage)).unwrap();
        assert_eq!((error.reason, error.code), (ErrorReason::MalformedRequest, Code::InvalidArgument));
    }

    #[test]
    fn statuses_of_the_model_pass_unchanged() {
        let status = ApiError::new(ErrorReason::TopicNotFound, "no topic").into_status();
        assert_eq!(translate(status).code(), Code::NotFound);
        assert_eq!(translate(Status::unimplemented("")).code(), Code::Unimplemented);
    }
}
