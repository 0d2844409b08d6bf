//! The public port: services, health, reflection, and the settings of the transport.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use wharf_proto::v1::admin_service_server::AdminServiceServer;
use wharf_proto::v1::broker_service_server::BrokerServiceServer;

use super::readiness::Readiness;
use crate::gateway::layers::{DECODE_BYTES_MAX, OutermostLayer};
use crate::gateway::{AdminApi, BrokerApi, Gateway};

/// Window of one stream; a quarter of the connection's, so that no stream can starve the others (R18).
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Large frames cost fewer wake-ups; the receiving side sets them.
const FRAME_BYTES: u32 = 1 << 20;
const STREAMS_PER_CONNECTION_MAX: u32 = 4_096;
/// Calls of a connection that may be given up before the server has looked at them. The transport's own default of 20
/// ends the connection of a proxy, and every other call on it, when some dozen of its clients give up at once.
const RESETS_PENDING_MAX: usize = STREAMS_PER_CONNECTION_MAX as usize;
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves the public port until `stop` is cancelled and the calls have ended. `up` is told once health says SERVING.
///
/// # Errors
/// Those of the transport.
pub(super) async fn public_port(
    gateway: Arc<Gateway>,
    listener: TcpListener,
    stop: CancellationToken,
    readiness: Arc<Readiness>,
    up: oneshot::Sender<()>,
) -> anyhow::Result<()> {
    let (health, health_service) = tonic_health::server::health_reporter();
    let broker = BrokerServiceServer::new(BrokerApi::new(Arc::clone(&gateway)))
        .max_decoding_message_size(DECODE_BYTES_MAX)
        .accept_compressed(CompressionEncoding::Gzip);
    let admin = AdminServiceServer::new(AdminApi::new(Arc::clone(&gateway)))
        .max_decoding_message_size(DECODE_BYTES_MAX)
        .accept_compressed(CompressionEncoding::Gzip);
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(wharf_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let stop_health = stop.clone();
    health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
    let reporting = tokio::spawn(async move {
        readiness.wait().await;
        health.set_service_status("", tonic_health::ServingStatus::Serving).await;
        health.set_serving::<BrokerServiceServer<BrokerApi>>().await;
        health.set_serving::<AdminServiceServer<AdminApi>>().await;
        // Whoever started the server may not care.
        let _ = up.send(());
        stop_health.cancelled().await;
        health.set_not_serving::<BrokerServiceServer<BrokerApi>>().await;
        health.set_not_serving::<AdminServiceServer<AdminApi>>().await;
        health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
    });
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let served = Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .http2_max_pending_accept_reset_streams(Some(RESETS_PENDING_MAX))
        .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .layer(OutermostLayer::new(Arc::clone(&gateway.metrics)))
        .add_service(broker)
        .add_service(admin)
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .serve_with_incoming_shutdown(incoming, stop.cancelled_owned())
        .await;
    reporting.abort();
    Ok(served?)
}
