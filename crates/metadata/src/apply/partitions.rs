//! Records about single partitions (R8, R9).

use std::sync::Arc;

use wharf_types::{NodeId, TopicPartition};

use super::{ApplyError, Delta, Event, Outcome, put_partition};
use crate::election::{Change, next, take_office};
use crate::image::Image;
use crate::node::Node;
use crate::record::{AlterPartition, ElectUnclean, IsrMember};
use crate::topic::Partition;

/// A leader's ISR, if it still leads and every new member is as the leader saw it (R8).
pub(super) fn alter(image: &mut Image, record: &AlterPartition) -> Result<Delta, ApplyError> {
    let partition = Arc::clone(find(image, record.partition)?);
    let (leader, leader_epoch) = (record.leader, record.leader_epoch);
    if partition.leader != Some(leader) || partition.leader_epoch != leader_epoch {
        let (actual, actual_epoch) = (partition.leader, partition.leader_epoch);
        return Err(ApplyError::NotLeader {
            partition: partition.id,
            leader,
            leader_epoch,
            actual,
            actual_epoch,
        });
    }
    current(image, IsrMember { node_id: leader, broker_epoch: record.broker_epoch })?;
    if partition.partition_epoch != record.partition_epoch {
        return Err(ApplyError::StalePartitionEpoch {
            partition: partition.id,
            expected: record.partition_epoch,
            actual: partition.partition_epoch,
        });
    }
    let isr: Vec<NodeId> = record.isr.iter().map(|member| member.node_id).collect();
    let distinct = isr.iter().enumerate().all(|(at, node)| !isr[..at].contains(node));
    let within = isr.iter().all(|node| partition.replicas.contains(node));
    if !distinct || !within || !isr.contains(&leader) {
        let replicas = partition.replicas.clone();
        return Err(ApplyError::InvalidIsr { partition: partition.id, isr, replicas });
    }
    for member in record.isr.iter().filter(|member| !partition.isr.contains(&member.node_id)) {
        if !current(image, *member)?.is_eligible() {
            return Err(ApplyError::Ineligible { node: member.node_id });
        }
    }
    let mut delta = Delta::new(Outcome::Done);
    let change = Change { isr, departed: None };
    if let Some(after) = next(&partition, &change, &|node| image.is_eligible(node)) {
        put_partition(image, &mut delta, after);
    }
    Ok(delta)
}

/// A leader that may lack committed records: the loss is counted and announced (R9).
pub(super) fn elect_unclean(image: &mut Image, record: ElectUnclean) -> Result<Delta, ApplyError> {
    let partition = Arc::clone(find(image, record.partition)?);
    if let Some(leader) = partition.leader {
        return Err(ApplyError::HasLeader { partition: partition.id, leader });
    }
    if partition.partition_epoch != record.partition_epoch {
        return Err(ApplyError::StalePartitionEpoch {
            partition: partition.id,
            expected: record.partition_epoch,
            actual: partition.partition_epoch,
        });
    }
    if !partition.replicas.contains(&record.leader) || !image.is_eligible(record.leader) {
        return Err(ApplyError::Ineligible { node: record.leader });
    }
    let mut delta = Delta::new(Outcome::Done);
    let after = elected_with_loss(&partition, record.leader, &mut delta);
    put_partition(image, &mut delta, after);
    Ok(delta)
}

/// The partition led by a replica that may lack committed records.
pub(super) fn elected_with_loss(partition: &Partition, leader: NodeId, delta: &mut Delta) -> Partition {
    let mut after = partition.clone();
    take_office(&mut after, leader);
    // Whoever was eligible before may hold records that the new leader lacks; it follows now like everybody else.
    after.elr.clear();
    after.last_known_elr.clear();
    after.leader_epoch = after.leader_epoch.next();
    after.partition_epoch = after.partition_epoch.next();
    after.loss_generation = after.loss_generation.saturating_add(1);
    delta.events.push(Event::DataLossPossible {
        partition: after.id,
        leader,
        loss_generation: after.loss_generation,
    });
    after
}

fn find(image: &Image, partition: TopicPartition) -> Result<&Arc<Partition>, ApplyError> {
    image.partition(partition).ok_or(ApplyError::UnknownPartition { partition })
}

/// The node, if it is still in the incarnation that is meant.
pub(super) fn current(image: &Image, member: IsrMember) -> Result<&Arc<Node>, ApplyError> {
    let node = image.node(member.node_id).ok_or(ApplyError::UnknownNode { node: member.node_id })?;
    if node.broker_epoch == member.broker_epoch {
        Ok(node)
    } else {
        let (expected, actual) = (member.broker_epoch, node.broker_epoch);
        Err(ApplyError::StaleBrokerEpoch { node: node.id, expected, actual })
    }
}
