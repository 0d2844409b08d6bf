//! Client library of Wharf and the verbs of its command line.
//!
//! * [`Client`]: a connection to a cluster and its stubs.
//! * [`ProducePipeline`]: many requests on one stream with a bounded number unanswered, written once however often they
//!   have to be sent.
//! * [`PartitionFetcher`]: one partition read forward from a position.
//! * [`ClientError`]: what a call ends with, decoded.
//! * [`cli`]: the verbs (`topic`, `produce`, `consume` ...), which the `wharf` binary adds to its roles.
//!
//! The crate knows the public API only: no node's address, no storage format, no internal RPC. Nothing that it does is out of
//! reach of a client that was generated from the `.proto` files.

pub mod cli;
mod client;
mod error;
mod fetcher;
mod lists;
mod producer;

pub use client::{Client, ClientOptions, DEFAULT_ENDPOINT, WireLimits};
pub use error::ClientError;
pub use fetcher::{FetchLimits, FetchPosition, PartitionFetcher};
pub use lists::{GroupDescription, TopicDescription};
pub use producer::{Acknowledged, PipelineOptions, ProducePipeline, RequestFailure};
