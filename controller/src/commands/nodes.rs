//! Registration of storage nodes (R1).

use wharf_metadata::{Incarnation, LogDirId, RegisterNode};
use wharf_types::{BrokerEpoch, NodeId};

/// What a storage node says when it starts, after it has removed its marker and recovered its logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The node.
    pub node_id: NodeId,
    /// 128 random bits, drawn at the start of the process; the same in every retry of the registration.
    pub incarnation: Incarnation,
    /// The broker epoch in the clean-stop marker, if there was one.
    pub marker: Option<BrokerEpoch>,
    /// The log directories whose locks the process holds; at least one.
    pub log_dirs: Vec<LogDirId>,
    /// Failure domain, if the operator named one.
    pub rack: Option<String>,
    /// Where other nodes reach it, as `host:port`.
    pub advertised_address: String,
    /// Boot id of the kernel; empty if it could not be read. In power-loss tests a fresh one at each start.
    pub boot_id: String,
    /// The version that it runs.
    pub version: String,
    /// Whether earlier processes recorded a failed write or flush since the last clean stop.
    pub io_error_recorded: bool,
}

impl From<Registration> for RegisterNode {
    fn from(registration: Registration) -> Self {
        RegisterNode {
            node_id: registration.node_id,
            incarnation: registration.incarnation,
            marker: registration.marker,
            log_dirs: registration.log_dirs,
            rack: registration.rack.map(Into::into),
            advertised_address: registration.advertised_address.into(),
            boot_id: registration.boot_id.into(),
            version: registration.version.into(),
            io_error_recorded: registration.io_error_recorded,
        }
    }
}
