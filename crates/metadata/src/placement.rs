//! Placement of new partitions: round robin over racks, from a start that the caller draws.

use std::collections::BTreeMap;

use wharf_types::NodeId;

use crate::image::Image;

/// Why replicas cannot be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// There are fewer eligible nodes than replicas.
    #[error("replication factor {replication_factor} needs as many live storage nodes; there are {eligible}")]
    NotEnoughNodes {
        /// The replication factor.
        replication_factor: u32,
        /// Nodes that are live and not stopping.
        eligible: u32,
    },
}

/// Replicas for `partitions` new partitions over the eligible nodes of `image`.
///
/// Nodes are ordered so that neighbours stand in different racks where possible; partition `first + i` takes
/// `replication_factor` neighbours from place `seed + first + i` on, so leaders and followers spread evenly and growth
/// goes on where creation stopped.
///
/// # Errors
/// [`PlacementError::NotEnoughNodes`].
pub fn place(
    image: &Image,
    first: u32,
    partitions: u32,
    replication_factor: u32,
    seed: u64,
) -> Result<Vec<Vec<NodeId>>, PlacementError> {
    let nodes = rack_alternating(image);
    let wanted = usize::try_from(replication_factor).unwrap_or(usize::MAX);
    if nodes.len() < wanted || nodes.is_empty() {
        let eligible = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        return Err(PlacementError::NotEnoughNodes { replication_factor, eligible });
    }
    let count = nodes.len() as u64;
    let of = |partition: u32| {
        let start = (seed % count + u64::from(partition) % count) % count;
        // Below the number of nodes, which is a usize.
        let start = usize::try_from(start).unwrap_or(0);
        nodes.iter().cycle().skip(start).take(wanted).copied().collect()
    };
    Ok((first..first.saturating_add(partitions)).map(of).collect())
}

/// The eligible nodes, one of each rack in turn. Nodes without a rack count as racks of their own.
fn rack_alternating(image: &Image) -> Vec<NodeId> {
    let mut racks: BTreeMap<(Option<&str>, Option<NodeId>), Vec<NodeId>> = BTreeMap::new();
    for node in image.nodes().filter(|node| node.is_eligible()) {
        let own = node.rack.is_none().then_some(node.id);
        racks.entry((node.rack.as_deref(), own)).or_default().push(node.id);
    }
    let longest = racks.values().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|at| racks.values().filter_map(move |rack| rack.get(at).copied())).collect()
}
