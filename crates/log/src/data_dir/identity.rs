//! Whose directory it is (R1).
//!
//! Payload of the framed file `identity` (magic `WIDT`, version 1): directory id 16 bytes, node id 4 bytes
//! little-endian, then the cluster id as UTF-8.

use std::io;
use std::path::Path;

use wharf_types::NodeId;

use crate::framed::{self, FrameError, FrameKind};
use crate::vfs::Vfs;

const KIND: FrameKind = FrameKind { magic: *b"WIDT", version: 1 };
const IDENTITY_FILE: &str = "identity";

/// The identity of a data directory; never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirIdentity {
    /// 128 random bits, drawn when the directory was first used.
    pub dir_id: [u8; 16],
    /// The node that it belongs to.
    pub node_id: NodeId,
    /// The cluster that the node belongs to.
    pub cluster_id: String,
}

impl DirIdentity {
    pub(super) fn load(vfs: &dyn Vfs, dir: &Path) -> Result<Option<DirIdentity>, FrameError> {
        let path = dir.join(IDENTITY_FILE);
        let Some(payload) = framed::load(vfs, &path, KIND)? else {
            return Ok(None);
        };
        match DirIdentity::decode(&payload) {
            Some(identity) => Ok(Some(identity)),
            None => Err(FrameError::Damaged { path, reason: "its fields are not what its length says" }),
        }
    }

    pub(super) fn store(&self, vfs: &dyn Vfs, dir: &Path) -> io::Result<()> {
        let mut payload = self.dir_id.to_vec();
        payload.extend_from_slice(&self.node_id.value().to_le_bytes());
        payload.extend_from_slice(self.cluster_id.as_bytes());
        framed::store(vfs, &dir.join(IDENTITY_FILE), KIND, &payload)
    }

    fn decode(payload: &[u8]) -> Option<DirIdentity> {
        let (dir_id, rest) = payload.split_first_chunk::<16>()?;
        let (node_id, cluster_id) = rest.split_first_chunk::<4>()?;
        Some(DirIdentity {
            dir_id: *dir_id,
            node_id: NodeId::new(u32::from_le_bytes(*node_id)),
            cluster_id: std::str::from_utf8(cluster_id).ok()?.to_owned(),
        })
    }
}
