//! The protocol of Wharf: code generated from the `.proto` files of this package, and helpers for the error model.
//!
//! * [`v1`]: the public API (`wharf.v1`). With the feature `rpc` also its services and clients.
//! * [`persisted`]: what lies on disks (`wharf.persisted.v1`). Never sent to clients.
//! * [`google_rpc`]: `google.rpc.Status` and the details of errors.
//! * `error` (feature `rpc`): errors of the public API, the one mapping between [`v1::ErrorReason`] and gRPC statuses.
//!
//! Every `bytes` field is a [`bytes::Bytes`], so that decoding from a `Bytes` copies no payload. Without the feature `rpc`
//! the crate knows no transport, and pure crates may use its messages.

#[cfg(feature = "rpc")]
pub mod error;

pub use google::rpc as google_rpc;
pub use wharf::{persisted, v1};

/// Packages `wharf.*`, nested as the generated code refers to them.
pub mod wharf {
    /// The public API: package `wharf.v1`.
    #[allow(missing_docs, clippy::all, rustdoc::all)]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/wharf.v1.rs"));
    }

    /// What lies on disks: package `wharf.persisted.v1`.
    pub mod persisted {
        /// Version 1, the only one so far.
        #[allow(missing_docs, clippy::all, rustdoc::all)]
        pub mod v1 {
            include!(concat!(env!("OUT_DIR"), "/wharf.persisted.v1.rs"));
        }
    }
}

/// Packages `google.*`, nested as the generated code refers to them.
pub mod google {
    /// Package `google.rpc`: the status and the details that errors carry.
    #[allow(missing_docs, clippy::all, rustdoc::all)]
    pub mod rpc {
        include!(concat!(env!("OUT_DIR"), "/google.rpc.rs"));
    }
}

/// The public packages with what they import, as an encoded `google.protobuf.FileDescriptorSet` without comments. For server
/// reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wharf_v1_descriptor.bin"));
