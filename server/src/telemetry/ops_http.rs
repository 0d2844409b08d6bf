//! The operations port: `/metrics`, `/livez`, `/readyz`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::metrics::ServerMetrics;

/// What the port asks the role.
pub(crate) trait Probe: Send + Sync + 'static {
    /// Why the role is not ready; nothing if it is.
    fn unready_reason(&self) -> Option<String>;
    /// Brings the values that are looked up on demand up to date.
    fn refresh(&self, metrics: &ServerMetrics);
}

#[derive(Clone)]
struct Ops {
    metrics: Arc<ServerMetrics>,
    probe: Arc<dyn Probe>,
}

/// Serves the port until `stop` is cancelled.
///
/// # Errors
/// Those of the socket.
pub(crate) async fn serve(
    listener: TcpListener,
    metrics: Arc<ServerMetrics>,
    probe: Arc<dyn Probe>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(metrics_page))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready_page))
        .with_state(Ops { metrics, probe });
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn metrics_page(State(ops): State<Ops>) -> Response {
    ops.probe.refresh(&ops.metrics);
    match ops.metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn ready_page(State(ops): State<Ops>) -> Response {
    match ops.probe.unready_reason() {
        None => "ready\n".into_response(),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")).into_response(),
    }
}
