//! Records about nodes: registration, fencing, controlled stop (R1, R1a, R5).

use std::sync::Arc;

use wharf_types::{BrokerEpoch, FlushPolicy, NodeId};

use super::partitions::{current, elected_with_loss};
use super::{ApplyError, Delta, Outcome, put_partition};
use crate::election::{Change, Departure, next, take_office};
use crate::image::Image;
use crate::node::{Node, NodeState};
use crate::record::{IsrMember, NodeEpoch, RegisterNode};
use crate::topic::Partition;

/// Registers a node at broker epoch `index`.
pub(super) fn register(image: &mut Image, record: &RegisterNode, index: u64) -> Result<Delta, ApplyError> {
    let node = record.node_id;
    if record.log_dirs.is_empty() {
        return Err(ApplyError::NoLogDir { node });
    }
    let known = image.node(node).cloned();
    if let Some(known) = &known {
        if known.incarnation == record.incarnation && known.state != NodeState::Fenced {
            return Ok(Delta::new(Outcome::Registered(known.broker_epoch)));
        }
        let shares_a_dir = known.log_dirs.iter().any(|dir| record.log_dirs.contains(dir));
        if known.state != NodeState::Fenced && !shares_a_dir {
            let (live, given) = (known.log_dirs.clone(), record.log_dirs.clone());
            return Err(ApplyError::NodeIdInUse { node, live, given });
        }
    }
    let broker_epoch = BrokerEpoch::new(index);
    let mut log_dirs = record.log_dirs.clone();
    log_dirs.sort_unstable();
    log_dirs.dedup();
    let registered = Node {
        id: node,
        incarnation: record.incarnation,
        broker_epoch,
        rack: record.rack.clone(),
        advertised_address: Arc::clone(&record.advertised_address),
        log_dirs,
        boot_id: Arc::clone(&record.boot_id),
        version: Arc::clone(&record.version),
        state: NodeState::Live,
    };
    Arc::make_mut(&mut image.nodes).insert(node, Arc::new(registered));
    let mut delta = Delta::new(Outcome::Registered(broker_epoch));
    delta.nodes.insert(node);
    depart(image, &mut delta, node, departure(known.as_deref(), record));
    Ok(delta)
}

/// How the node's earlier incarnation ended, as its registration shows (R1, R1a).
fn departure(known: Option<&Node>, record: &RegisterNode) -> Departure {
    let Some(known) = known else {
        // Metadata that was rebuilt from the data knows replicas, but not how their node stopped.
        return Departure::Unclean;
    };
    if known.log_dirs.iter().any(|dir| !record.log_dirs.contains(dir)) {
        return Departure::Lost;
    }
    let same_process = known.incarnation == record.incarnation;
    let marked = record.marker == Some(known.broker_epoch);
    let same_boot = !known.boot_id.is_empty() && known.boot_id == record.boot_id && !record.io_error_recorded;
    if same_process || marked || same_boot { Departure::Clean } else { Departure::Unclean }
}

/// Takes a node's session (R2).
pub(super) fn fence(image: &mut Image, record: NodeEpoch) -> Result<Delta, ApplyError> {
    set_state(image, record, NodeState::Fenced)
}

/// Notes a controlled stop: leaders move, the node leaves every ISR (R8).
pub(super) fn stop(image: &mut Image, record: NodeEpoch) -> Result<Delta, ApplyError> {
    set_state(image, record, NodeState::Stopping)
}

fn set_state(image: &mut Image, record: NodeEpoch, state: NodeState) -> Result<Delta, ApplyError> {
    let member = IsrMember { node_id: record.node_id, broker_epoch: record.broker_epoch };
    let mut node = Node::clone(current(image, member)?);
    let mut delta = Delta::new(Outcome::Done);
    // A fenced node that announces its stop stays fenced.
    if node.state == state || node.state == NodeState::Fenced {
        return Ok(delta);
    }
    node.state = state;
    delta.nodes.insert(node.id);
    Arc::make_mut(&mut image.nodes).insert(record.node_id, Arc::new(node));
    depart(image, &mut delta, record.node_id, Departure::Clean);
    Ok(delta)
}

/// Forgets a node that stores nothing.
pub(super) fn unregister(image: &mut Image, record: NodeEpoch) -> Result<Delta, ApplyError> {
    let node = record.node_id;
    current(image, IsrMember { node_id: node, broker_epoch: record.broker_epoch })?;
    let replicas = image.partitions_of(node).count();
    if replicas > 0 {
        return Err(ApplyError::NodeInUse { node, replicas });
    }
    Arc::make_mut(&mut image.nodes).remove(&node);
    let mut delta = Delta::new(Outcome::Done);
    delta.nodes.insert(node);
    Ok(delta)
}

/// The node leaves every ISR and leadership, and is elected where the rules allow (R1, R5).
fn depart(image: &mut Image, delta: &mut Delta, node: NodeId, how: Departure) {
    let affected: Vec<Arc<Partition>> = image.partitions_of(node).map(Arc::clone).collect();
    for partition in affected {
        let isr = partition.isr.iter().copied().filter(|member| *member != node).collect();
        let change = Change { isr, departed: Some((node, how)) };
        let after = next(&partition, &change, &|node| image.is_eligible(node));
        let current = after.as_ref().unwrap_or(&partition);
        let after = match elect_sole_replica(current, &partition, image.is_eligible(node), delta) {
            Some(elected) => Some(elected),
            None => after,
        };
        if let Some(after) = after {
            put_partition(image, delta, after);
        }
    }
}

/// A sole replica that is back with its log directory leads again, however it stopped (R1a): in `ack` mode nothing that
/// was acknowledged is missing, and damage shows as DATA_CORRUPTED (R17); in the other modes the loss is announced.
fn elect_sole_replica(
    partition: &Partition,
    before: &Partition,
    eligible: bool,
    delta: &mut Delta,
) -> Option<Partition> {
    let [node] = partition.replicas.as_slice() else { return None };
    if !eligible || partition.leader.is_some() || !partition.last_known_elr.contains(node) {
        return None;
    }
    let mut elected = if partition.durability == FlushPolicy::Ack {
        let mut elected = partition.clone();
        take_office(&mut elected, *node);
        elected
    } else {
        elected_with_loss(partition, *node, delta)
    };
    // One record is one change: the epochs rise once, whatever `next` has counted already.
    elected.leader_epoch = before.leader_epoch.next();
    elected.partition_epoch = before.partition_epoch.next();
    Some(elected)
}
