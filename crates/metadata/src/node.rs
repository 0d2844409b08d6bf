//! Nodes as the cluster image knows them (R1), and the 128-bit ids around them.

use std::fmt;
use std::sync::Arc;

use wharf_types::{BrokerEpoch, NodeId};

macro_rules! id128 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// The id of these bytes.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                $name(bytes)
            }

            /// The id of a byte string, if it is 16 bytes long.
            #[must_use]
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map($name)
            }

            /// The id's bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let digits = format!("{:032x}", u128::from_be_bytes(self.0));
                let (a, rest) = digits.split_at(8);
                let (b, rest) = rest.split_at(4);
                let (c, rest) = rest.split_at(4);
                let (d, e) = rest.split_at(4);
                write!(f, "{a}-{b}-{c}-{d}-{e}")
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

id128! {
    /// Identity of a cluster, drawn when its metadata is created. Shown as a UUID.
    ClusterId
}
id128! {
    /// 128 random bits, drawn at each start of a storage process (R1).
    Incarnation
}
id128! {
    /// Identity of a log directory, drawn when it is formatted (R1).
    LogDirId
}

/// Whether a node may lead or join an ISR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Has a session and is not stopping: eligible (R1).
    Live,
    /// Has announced a controlled stop.
    Stopping,
    /// Has no live session.
    Fenced,
}

/// A storage node as it last registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node.
    pub id: NodeId,
    /// Drawn at the start of the process that registered.
    pub incarnation: Incarnation,
    /// Raft index of the registration. Rises with each registration of any node.
    pub broker_epoch: BrokerEpoch,
    /// Failure domain, if the operator named one.
    pub rack: Option<Arc<str>>,
    /// Where other nodes reach it, as `host:port`.
    pub advertised_address: Arc<str>,
    /// Its log directories, sorted.
    pub log_dirs: Vec<LogDirId>,
    /// Boot id of the kernel under which it runs; empty if it could not be read, and then equal to no other (R1a).
    pub boot_id: Arc<str>,
    /// The version that it runs.
    pub version: Arc<str>,
    /// Whether it may lead.
    pub state: NodeState,
}

impl Node {
    /// Whether the node may lead, join an ISR or get new replicas: live, not fenced, not stopping (R1).
    #[must_use]
    pub fn is_eligible(&self) -> bool {
        self.state == NodeState::Live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shown_as_uuids() {
        let id = ClusterId::from_bytes([
            0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
        ]);
        assert_eq!(id.to_string(), "00112233-4455-6677-8899-aabbccddeeff");
    }
}
