//! The server: the gateway and storage roles, their wiring into one process, telemetry and configuration.
//!
//! `gateway` and `storage` never import each other; they meet in [`standalone`], and the gateway reaches storage
//! through `storage_api` only. The controller is the crate `wharf-controller`; this crate knows no raft, and RocksDB
//! only in `storage::offsets_store`.

mod clock;
pub mod config;
pub mod exit;
mod gateway;
pub mod recover;
pub mod standalone;
mod storage;
mod storage_api;
pub mod telemetry;

/// The public API's messages and services.
use wharf_proto::v1 as proto;
