//! What a role tells of itself: logs, metrics, and the HTTP port for probes and scrapers.

pub(crate) mod logging;
pub(crate) mod metrics;
pub(crate) mod ops_http;

pub use logging::{LogFormat, start as start_logging};
