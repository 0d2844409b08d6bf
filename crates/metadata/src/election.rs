//! Elections as pure functions on one partition (R5, R8).
//!
//! [`next`] is the only way by which ISR, ELR, LastKnownELR and leader of a partition change. It keeps the invariants
//! of the crate's documentation as long as `eligible` is what the image will say after the record.

use wharf_types::NodeId;

use crate::topic::Partition;

/// What happened to a replica that leaves the ISR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// All that it acknowledged is still there: it stays eligible (R8).
    Clean,
    /// It stopped without a marker: its last records may be missing (R1a).
    Unclean,
    /// It came back without its log directory: it never qualifies (R1a).
    Lost,
}

/// What changes in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The ISR before an election moves anyone into it.
    pub isr: Vec<NodeId>,
    /// The replica that registered, was fenced or stops, if any, and how.
    pub departed: Option<(NodeId, Departure)>,
}

/// ELR and LastKnownELR of a partition whose ISR becomes `isr` (R8).
#[must_use]
pub fn eligible_leader_replicas(
    partition: &Partition,
    isr: &[NodeId],
    departed: Option<(NodeId, Departure)>,
) -> (Vec<NodeId>, Vec<NodeId>) {
    if isr.len() >= usize::try_from(partition.min_isr).unwrap_or(usize::MAX) {
        return (Vec::new(), Vec::new());
    }
    let left = |node: NodeId| departed.filter(|(who, _)| *who == node).map(|(_, how)| how);
    let in_l = |node: NodeId| {
        (partition.elr.contains(&node) || partition.isr.contains(&node)) && !isr.contains(&node)
    };
    let elr = |node: NodeId| in_l(node) && matches!(left(node), None | Some(Departure::Clean));
    let last_known = |node: NodeId| {
        let known = partition.last_known_elr.contains(&node);
        let joins = in_l(node) && left(node) == Some(Departure::Unclean);
        (known || joins) && !isr.contains(&node) && !elr(node) && left(node) != Some(Departure::Lost)
    };
    let pick = |wanted: &dyn Fn(NodeId) -> bool| {
        partition.replicas.iter().copied().filter(|node| wanted(*node)).collect::<Vec<_>>()
    };
    (pick(&elr), pick(&last_known))
}

/// The partition after a change, or nothing if the change touches nothing.
///
/// The leader stays where it may; else it is the first eligible ISR member in the order of the replicas; else, with an
/// empty ISR, the first eligible ELR member, which moves into the ISR; else none (R5). A leader that departed has lost
/// its office even if it is elected again at once.
#[must_use]
pub fn next(partition: &Partition, change: &Change, eligible: &dyn Fn(NodeId) -> bool) -> Option<Partition> {
    let ordered = |wanted: &dyn Fn(NodeId) -> bool| {
        partition.replicas.iter().copied().filter(|node| wanted(*node)).collect::<Vec<_>>()
    };
    let mut after = partition.clone();
    after.isr = ordered(&|node| change.isr.contains(&node));
    (after.elr, after.last_known_elr) = eligible_leader_replicas(partition, &after.isr, change.departed);
    let stays = |leader: NodeId| {
        after.isr.contains(&leader) && change.departed.is_none_or(|(departed, _)| departed != leader)
    };
    after.leader = match partition.leader.filter(|leader| stays(*leader)) {
        Some(leader) => Some(leader),
        None => after.isr.iter().copied().find(|node| eligible(*node)),
    };
    if after.leader.is_none()
        && after.isr.is_empty()
        && let Some(elected) = after.elr.iter().copied().find(|node| eligible(*node))
    {
        take_office(&mut after, elected);
    }
    let deposed = partition.leader.is_some_and(|leader| {
        after.leader != Some(leader) || change.departed.is_some_and(|(departed, _)| departed == leader)
    });
    let elected = partition.leader.is_none() && after.leader.is_some();
    if after == *partition && !deposed {
        return None;
    }
    if deposed || elected {
        after.leader_epoch = after.leader_epoch.next();
    }
    after.partition_epoch = after.partition_epoch.next();
    Some(after)
}

/// Makes `elected` the leader of a partition whose ISR is empty; ELR and LastKnownELR follow by R8. Epochs are the
/// caller's business.
pub(crate) fn take_office(partition: &mut Partition, elected: NodeId) {
    let isr = vec![elected];
    (partition.elr, partition.last_known_elr) = eligible_leader_replicas(partition, &isr, None);
    partition.isr = isr;
    partition.leader = Some(elected);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use wharf_types::{FlushPolicy, LeaderEpoch, PartitionEpoch, PartitionIndex, TopicId, TopicPartition};

    use super::*;

    fn nodes(ids: &[u32]) -> Vec<NodeId> {
        ids.iter().copied().map(NodeId::new).collect()
    }

    fn partition(replicas: &[u32], isr: &[u32], min_isr: u32) -> Partition {
        Partition {
            id: TopicPartition { topic_id: TopicId::from_bytes([1; 16]), partition: PartitionIndex::new(0) },
            replicas: nodes(replicas),
            adding: vec![],
            removing: vec![],
            leader: isr.first().copied().map(NodeId::new),
            leader_epoch: LeaderEpoch::new(5),
            partition_epoch: PartitionEpoch::new(9),
            isr: nodes(isr),
            elr: vec![],
            last_known_elr: vec![],
            min_isr,
            durability: FlushPolicy::Ack,
            loss_generation: 0,
        }
    }

    fn depart(partition: &Partition, node: u32, how: Departure, live: &[u32]) -> Partition {
        let node = NodeId::new(node);
        let isr = partition.isr.iter().copied().filter(|member| *member != node).collect();
        let change = Change { isr, departed: Some((node, how)) };
        next(partition, &change, &|node| live.contains(&node.value())).unwrap()
    }

    #[test]
    fn a_follower_that_leaves_moves_only_the_partition_epoch() {
        let after = depart(&partition(&[1, 2, 3], &[1, 2, 3], 2), 3, Departure::Clean, &[1, 2]);
        assert_eq!((after.leader, after.leader_epoch.value()), (Some(NodeId::new(1)), 5));
        assert_eq!((after.partition_epoch.value(), after.isr), (10, nodes(&[1, 2])));
        assert!(after.elr.is_empty() && after.last_known_elr.is_empty());
    }

    #[test]
    fn the_leader_is_followed_by_the_next_isr_member() {
        let after = depart(&partition(&[1, 2, 3], &[1, 3], 2), 1, Departure::Clean, &[2, 3]);
        assert_eq!((after.leader, after.leader_epoch.value()), (Some(NodeId::new(3)), 6));
        assert_eq!((after.isr, after.elr), (nodes(&[3]), nodes(&[1])));
    }

    #[test]
    fn the_last_replica_standing_leaves_an_empty_isr_and_stays_eligible() {
        let first = depart(&partition(&[1, 2], &[1, 2], 2), 2, Departure::Clean, &[1]);
        let after = depart(&first, 1, Departure::Clean, &[]);
        assert_eq!((after.leader, after.isr, after.elr), (None, vec![], nodes(&[1, 2])));
        assert_eq!(after.leader_epoch.value(), 6);
    }

    #[test]
    fn an_unclean_member_of_the_elr_becomes_a_last_known_one() {
        let first = depart(&partition(&[1, 2], &[1, 2], 2), 2, Departure::Clean, &[1]);
        let second = depart(&first, 1, Departure::Clean, &[]);
        let third = depart(&second, 1, Departure::Unclean, &[1]);
        assert_eq!((third.leader, &third.elr, &third.last_known_elr), (None, &nodes(&[2]), &nodes(&[1])));
        let fourth = depart(&third, 2, Departure::Clean, &[1, 2]);
        assert_eq!((fourth.leader, &fourth.isr), (Some(NodeId::new(2)), &nodes(&[2])));
        assert_eq!(fourth.last_known_elr, nodes(&[1]));
    }

    #[test]
    fn a_lost_directory_is_forgotten() {
        let after = depart(&partition(&[1], &[1], 1), 1, Departure::Lost, &[1]);
        assert_eq!((after.leader, after.elr, after.last_known_elr), (None, vec![], vec![]));
    }

    #[test]
    fn a_sole_replica_that_restarts_cleanly_leads_again_in_a_new_epoch() {
        let after = depart(&partition(&[1], &[1], 1), 1, Departure::Clean, &[1]);
        assert_eq!((after.leader, after.isr, after.elr), (Some(NodeId::new(1)), nodes(&[1]), vec![]));
        assert_eq!((after.leader_epoch.value(), after.partition_epoch.value()), (6, 10));
    }

    #[test]
    fn a_bystander_changes_nothing() {
        let partition = partition(&[1, 2, 3], &[1, 2], 2);
        let change =
            Change { isr: partition.isr.clone(), departed: Some((NodeId::new(3), Departure::Unclean)) };
        assert_eq!(next(&partition, &change, &|_| true), None);
    }
}
