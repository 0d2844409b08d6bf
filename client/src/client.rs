//! A connection to a cluster.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use wharf_proto::v1::admin_service_client::AdminServiceClient;
use wharf_proto::v1::broker_service_client::BrokerServiceClient;

use crate::error::ClientError;

/// Where a broker listens unless it was told otherwise.
pub const DEFAULT_ENDPOINT: &str = "localhost:7070";

/// How long one attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often an HTTP/2 ping proves that a connection with calls under way is alive.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// How long the answer to a ping may take.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// HTTP/2 limits that this side announces. They bound what the server may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireLimits {
    /// Bytes that one stream may have under way. Covers a round trip on a long line.
    pub stream_window_bytes: u32,
    /// Bytes that all streams of the connection may have under way together.
    pub connection_window_bytes: u32,
    /// Largest frame. The default of 16 KiB costs a quarter of the throughput or more for responses of 64 KiB and above.
    pub frame_bytes_max: u32,
    /// Largest message that is decoded. Servers send at most 3 MiB.
    pub message_bytes_max: usize,
}

impl Default for WireLimits {
    fn default() -> Self {
        WireLimits {
            stream_window_bytes: 4 << 20,
            connection_window_bytes: 8 << 20,
            frame_bytes_max: 512 << 10,
            message_bytes_max: 8 << 20,
        }
    }
}

/// What to connect to, and the limits of the calls.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// `HOST:PORT` or `http://HOST:PORT` of any gateway, or of what balances between them.
    pub endpoint: String,
    /// Time limit of each unary call, sent as its deadline. At most 30 s is useful: servers cap it.
    pub call_timeout: Duration,
    /// HTTP/2 limits.
    pub wire: WireLimits,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            endpoint: DEFAULT_ENDPOINT.to_owned(),
            call_timeout: Duration::from_secs(30),
            wire: WireLimits::default(),
        }
    }
}

impl ClientOptions {
    /// Options for `endpoint`, otherwise the defaults.
    #[must_use]
    pub fn new(endpoint: impl Into<String>) -> Self {
        ClientOptions { endpoint: endpoint.into(), ..ClientOptions::default() }
    }

    fn tonic_endpoint(&self) -> Result<Endpoint, ClientError> {
        let uri = endpoint_uri(&self.endpoint)?;
        let invalid = |error: tonic::transport::Error| ClientError::InvalidEndpoint {
            endpoint: self.endpoint.clone(),
            problem: error.to_string(),
        };
        // Without TCP_NODELAY a lone call waits 40 ms for the peer's delayed acknowledgement.
        Ok(Endpoint::from_shared(uri)
            .map_err(invalid)?
            .user_agent(concat!("wharf/", env!("CARGO_PKG_VERSION")))
            .map_err(invalid)?
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .initial_stream_window_size(self.wire.stream_window_bytes)
            .initial_connection_window_size(self.wire.connection_window_bytes)
            .max_frame_size(self.wire.frame_bytes_max))
    }
}

/// A connection to a cluster. Clones share it; it reconnects by itself on the next call after a loss.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    options: ClientOptions,
}

impl Client {
    /// Connects now, so that a missing broker is found before any work is done.
    ///
    /// # Errors
    /// [`ClientError::InvalidEndpoint`], [`ClientError::Unreachable`].
    pub async fn connect(options: ClientOptions) -> Result<Client, ClientError> {
        let endpoint = options.tonic_endpoint()?;
        let channel = endpoint
            .connect()
            .await
            .map_err(|error| ClientError::from_transport(&error, &options.endpoint))?;
        Ok(Client { channel, options })
    }

    /// Connects when the first call is made. Has to be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ClientError::InvalidEndpoint`]. A broker that is not there shows as [`ClientError::Unreachable`] of the call.
    pub fn connect_lazy(options: ClientOptions) -> Result<Client, ClientError> {
        let channel = options.tonic_endpoint()?.connect_lazy();
        Ok(Client { channel, options })
    }

    /// What the client was made with.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// The stub of `BrokerService`.
    #[must_use]
    pub fn broker(&self) -> BrokerServiceClient<Channel> {
        BrokerServiceClient::new(self.channel.clone())
            .max_decoding_message_size(self.options.wire.message_bytes_max)
    }

    /// The stub of `AdminService`.
    #[must_use]
    pub fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel.clone())
            .max_decoding_message_size(self.options.wire.message_bytes_max)
    }

    /// A unary request with the client's time limit as its deadline.
    pub fn request<T>(&self, message: T) -> Request<T> {
        self.request_within(message, self.options.call_timeout)
    }

    /// A unary request with its own deadline.
    pub fn request_within<T>(&self, message: T, limit: Duration) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(limit);
        request
    }

    /// The answer of a call or its decoded error.
    ///
    /// # Errors
    /// Whatever the call ended with.
    pub fn decode<T>(&self, outcome: Result<Response<T>, Status>) -> Result<T, ClientError> {
        outcome.map(Response::into_inner).map_err(|status| self.error(&status))
    }

    /// The decoded error of a status that one of the stubs gave.
    #[must_use]
    pub fn error(&self, status: &Status) -> ClientError {
        ClientError::from_status(status, &self.options.endpoint)
    }
}

/// The URI of an endpoint as people write it.
fn endpoint_uri(endpoint: &str) -> Result<String, ClientError> {
    let invalid = |problem: &str| ClientError::InvalidEndpoint {
        endpoint: endpoint.to_owned(),
        problem: problem.to_owned(),
    };
    let authority = match endpoint.split_once("://") {
        Some(("http", rest)) => rest.trim_end_matches('/'),
        Some(("https", _)) => {
            return Err(invalid("TLS is not supported yet, use HOST:PORT or http://HOST:PORT"));
        }
        Some(_) => return Err(invalid("use HOST:PORT or http://HOST:PORT")),
        None => endpoint,
    };
    let (host, port) =
        authority.rsplit_once(':').ok_or_else(|| invalid("the port is missing, use HOST:PORT"))?;
    if host.is_empty() || host.contains('/') || port.parse::<u16>().is_err() {
        return Err(invalid("use HOST:PORT, as in localhost:7070"));
    }
    Ok(format!("http://{authority}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn endpoints_are_host_and_port_with_or_without_scheme() {
        assert_eq!(endpoint_uri("localhost:7070").unwrap(), "http://localhost:7070");
        assert_eq!(endpoint_uri("http://broker.example:80/").unwrap(), "http://broker.example:80");
        assert_eq!(endpoint_uri("[::1]:7070").unwrap(), "http://[::1]:7070");
        for wrong in ["", "localhost", ":7070", "localhost:port", "https://a:1", "ftp://a:1", "a/b:1"] {
            assert!(matches!(endpoint_uri(wrong), Err(ClientError::InvalidEndpoint { .. })), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_missing_broker_is_unreachable() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let error = Client::connect(ClientOptions::new(address.clone())).await.unwrap_err();
        assert!(
            matches!(&error, ClientError::Unreachable { endpoint, .. } if *endpoint == address),
            "{error}"
        );

        let lazy = Client::connect_lazy(ClientOptions::new(address)).unwrap();
        let request = lazy.request(wharf_proto::v1::GetServerInfoRequest {});
        let error = lazy.decode(lazy.admin().get_server_info(request).await).unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
    }
}
