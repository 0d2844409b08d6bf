//! Random histories of records against the rules of R1, R4, R5 and R8.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use wharf_metadata::codec::{decode_record, decode_snapshot, encode_record, encode_snapshot};
use wharf_metadata::{
    AllocateProducerIds, AlterPartition, AlterTopic, Bootstrap, ClusterId, CreateTopic, DeleteTopic,
    ElectUnclean, Image, Incarnation, IsrMember, LogDirId, NodeEpoch, Outcome, Partition, Record,
    RegisterNode, SetFeature, apply, place,
};
use wharf_types::{BrokerEpoch, LeaderEpoch, NodeId, PartitionEpoch, TopicId, TopicName, TopicPartition};

/// What happens next; the record is made against the image that it meets, now and then with a wrong expectation.
#[derive(Clone, Debug)]
enum Step {
    Register { node: u32, incarnation: u8, clean: bool, same_dir: bool, boot: u8, io_error: bool },
    Fence { node: u32, stale: bool },
    Stop { node: u32, stale: bool },
    Unregister { node: u32 },
    Create { id: u8, name: u8, partitions: u8, replicas: u8, min_isr: u32, os: bool },
    Grow { id: u8, by: u8 },
    Configure { id: u8, what: u8 },
    Delete { id: u8, purge: bool },
    Isr { pick: usize, members: u8, stale: bool },
    Unclean { pick: usize, node: u32 },
    Ids { count: u16 },
    Feature { level: u32 },
    Nothing,
}

fn step() -> impl Strategy<Value = Step> {
    let node = 1..5_u32;
    let register = (node.clone(), 0..4_u8, any::<bool>(), prop::bool::weighted(0.9), 0..3_u8, any::<bool>());
    let create = (0..6_u8, 0..5_u8, 0..4_u8, 0..5_u8, 0..4_u32, any::<bool>());
    prop_oneof![
        6 => register.prop_map(|(node, incarnation, clean, same_dir, boot, io_error)| {
            Step::Register { node, incarnation, clean, same_dir, boot, io_error }
        }),
        4 => (node.clone(), prop::bool::weighted(0.1)).prop_map(|(node, stale)| Step::Fence { node, stale }),
        2 => (node.clone(), prop::bool::weighted(0.1)).prop_map(|(node, stale)| Step::Stop { node, stale }),
        1 => node.clone().prop_map(|node| Step::Unregister { node }),
        4 => create.prop_map(|(id, name, partitions, replicas, min_isr, os)| {
            Step::Create { id, name, partitions, replicas, min_isr, os }
        }),
        1 => (0..6_u8, 0..3_u8).prop_map(|(id, by)| Step::Grow { id, by }),
        2 => (0..6_u8, 0..6_u8).prop_map(|(id, what)| Step::Configure { id, what }),
        1 => (0..6_u8, any::<bool>()).prop_map(|(id, purge)| Step::Delete { id, purge }),
        8 => (any::<usize>(), any::<u8>(), prop::bool::weighted(0.1))
            .prop_map(|(pick, members, stale)| Step::Isr { pick, members, stale }),
        2 => (any::<usize>(), node).prop_map(|(pick, node)| Step::Unclean { pick, node }),
        1 => any::<u16>().prop_map(|count| Step::Ids { count }),
        1 => (0..3_u32).prop_map(|level| Step::Feature { level }),
        1 => Just(Step::Nothing),
    ]
}

fn node_epoch(image: &Image, node: u32, stale: bool) -> NodeEpoch {
    let known = image.node(NodeId::new(node)).map_or(0, |node| node.broker_epoch.value());
    let broker_epoch = BrokerEpoch::new(known.saturating_sub(u64::from(stale)));
    NodeEpoch { node_id: NodeId::new(node), broker_epoch }
}

fn picked(image: &Image, pick: usize) -> Option<Arc<Partition>> {
    let all: Vec<&Arc<Partition>> = image.topics().flat_map(|topic| topic.partitions()).collect();
    (!all.is_empty()).then(|| Arc::clone(all[pick % all.len()]))
}

fn member(image: &Image, node: NodeId) -> IsrMember {
    let broker_epoch = image.node(node).map(|node| node.broker_epoch).unwrap_or_default();
    IsrMember { node_id: node, broker_epoch }
}

fn record(image: &Image, step: &Step) -> Option<Record> {
    let topic_id = |id: u8| TopicId::from_bytes([id; 16]);
    Some(match *step {
        Step::Register { node, incarnation, clean, same_dir, boot, io_error } => {
            Record::RegisterNode(RegisterNode {
                node_id: NodeId::new(node),
                incarnation: Incarnation::from_bytes([incarnation; 16]),
                marker: clean.then(|| node_epoch(image, node, false).broker_epoch),
                log_dirs: vec![LogDirId::from_bytes([u8::from(same_dir); 16])],
                rack: (node % 2 == 0).then(|| "even".into()),
                advertised_address: "localhost:7071".into(),
                boot_id: ["", "a", "b"][usize::from(boot)].into(),
                version: "1".into(),
                io_error_recorded: io_error,
            })
        }
        Step::Fence { node, stale } => Record::FenceNode(node_epoch(image, node, stale)),
        Step::Stop { node, stale } => Record::StopNode(node_epoch(image, node, stale)),
        Step::Unregister { node } => Record::UnregisterNode(node_epoch(image, node, false)),
        Step::Create { id, name, partitions, replicas, min_isr, os } => Record::CreateTopic(CreateTopic {
            topic_id: topic_id(id),
            name: TopicName::new(&format!("t{name}")).unwrap(),
            config: if os { vec![("flush.policy".into(), "os".into())] } else { vec![] },
            min_isr,
            replicas: place(image, 0, partitions.into(), replicas.into(), id.into()).ok()?,
        }),
        Step::Grow { id, by } => {
            let topic = image.topic(topic_id(id))?;
            let count = topic.partition_count();
            Record::AlterTopic(AlterTopic {
                topic_id: topic.id,
                set: vec![],
                unset: vec![],
                expected_partitions: count,
                added: place(image, count, by.into(), topic.replication_factor, 0).ok()?,
            })
        }
        Step::Configure { id, what } => {
            let one = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
            let (set, unset) = match what {
                0 => (one("min.insync.replicas", "1"), vec![]),
                1 => (one("min.insync.replicas", "3"), vec![]),
                2 => (vec![], vec!["min.insync.replicas".to_owned()]),
                3 => (one("flush.policy", "interval"), vec![]),
                4 => (one("retention.ms", "nonsense"), vec![]),
                _ => (vec![], vec!["flush.policy".to_owned()]),
            };
            let topic_id = topic_id(id);
            Record::AlterTopic(AlterTopic { topic_id, set, unset, expected_partitions: 0, added: vec![] })
        }
        Step::Delete { id, purge } => Record::DeleteTopic(DeleteTopic { topic_id: topic_id(id), purge }),
        Step::Isr { pick, members, stale } => {
            let partition = picked(image, pick)?;
            let leader = partition.leader.unwrap_or(NodeId::new(1));
            let isr = (0..5).filter(|bit| members >> bit & 1 == 1 || NodeId::new(*bit) == leader);
            let epoch = partition.partition_epoch.value().wrapping_sub(u32::from(stale));
            Record::AlterPartition(AlterPartition {
                partition: partition.id,
                leader,
                broker_epoch: member(image, leader).broker_epoch,
                leader_epoch: partition.leader_epoch,
                partition_epoch: PartitionEpoch::new(epoch & 0x7fff_ffff),
                isr: isr.map(|node| member(image, NodeId::new(node))).collect(),
            })
        }
        Step::Unclean { pick, node } => {
            let partition = picked(image, pick)?;
            Record::ElectUnclean(ElectUnclean {
                partition: partition.id,
                partition_epoch: partition.partition_epoch,
                leader: NodeId::new(node),
            })
        }
        Step::Ids { count } => Record::AllocateProducerIds(AllocateProducerIds { count: count.into() }),
        Step::Feature { level } => {
            Record::SetFeature(SetFeature { name: "f".into(), level, expected_level: 0 })
        }
        Step::Nothing => return None,
    })
}

type Partitions = BTreeMap<TopicPartition, Partition>;

fn partitions(image: &Image) -> Partitions {
    let all = image.topics().flat_map(|topic| topic.partitions());
    all.map(|partition| (partition.id, Partition::clone(partition))).collect()
}

/// R4: epochs rise by one with each change, and with nothing else; R5, I5: who may lead.
fn check_changes(before: &Partitions, after: &Partitions) {
    for (id, new) in after {
        let Some(old) = before.get(id) else {
            assert_eq!(
                (new.leader_epoch, new.partition_epoch),
                (LeaderEpoch::new(0), PartitionEpoch::new(0))
            );
            continue;
        };
        let step = new.partition_epoch.value() - old.partition_epoch.value();
        assert_eq!(step, u32::from(old != new), "{old:?} → {new:?}");
        let rose = new.leader_epoch.value() - old.leader_epoch.value();
        assert!(rose <= 1, "{old:?} → {new:?}");
        if old.leader != new.leader {
            assert_eq!(rose, 1, "{old:?} → {new:?}");
        }
        let lost = new.loss_generation - old.loss_generation;
        assert!(lost <= 1 && (lost == 0 || (rose == 1 && new.leader.is_some())), "{old:?} → {new:?}");
        // Committed records live on ISR ∪ ELR: a leader comes from there, or the loss is counted, or all that was
        // acknowledged is durable on a sole replica (R1a).
        if let Some(leader) = new.leader.filter(|_| rose == 1 && lost == 0) {
            let known = old.isr.contains(&leader) || old.elr.contains(&leader);
            let sole = new.replicas.len() == 1 && old.last_known_elr.contains(&leader);
            assert!(known || sole, "{old:?} → {new:?}");
        }
        if new.isr.len() >= new.min_isr as usize {
            assert!(new.elr.is_empty() && new.last_known_elr.is_empty(), "{new:?}");
        }
    }
}

fn damaged(bytes: &[u8], flips: &[(prop::sample::Index, u8)]) -> bytes::Bytes {
    let mut bytes = bytes.to_vec();
    for (at, value) in flips {
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] ^= value;
        }
    }
    bytes.into()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_keeps_the_rules(
        steps in prop::collection::vec(step(), 1..120),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut image = Image::empty(1);
        let name = Bootstrap { cluster_id: ClusterId::from_bytes([5; 16]), features: vec![("v".into(), 1)] };
        apply(&mut image, Some(&Record::Bootstrap(name.clone())), 2).unwrap();
        prop_assert!(apply(&mut image.clone(), Some(&Record::Bootstrap(name)), 3).is_err());
        let cut = cut.index(steps.len());
        let mut resumed: Option<Image> = None;
        let mut handed_out = image.next_producer_id();
        for (index, (position, step)) in (3..).zip(steps.iter().enumerate()) {
            let record = record(&image, step);
            if let Some(record) = &record {
                let decoded = decode_record(encode_record(record)).unwrap();
                prop_assert_eq!(decoded.as_ref(), Some(record));
            }
            if position == cut {
                resumed = Some(decode_snapshot(encode_snapshot(&image)).unwrap());
            }
            let before = image.clone();
            let result = apply(&mut image, record.as_ref(), index);
            prop_assert_eq!(image.check(), Ok(()));
            prop_assert_eq!(image.applied_index(), index);
            let (old, new) = (partitions(&before), partitions(&image));
            check_changes(&old, &new);
            match &result {
                Err(_) => {
                    let mut untouched = before.clone();
                    apply(&mut untouched, None, index).unwrap();
                    prop_assert_eq!(&untouched, &image);
                }
                Ok(delta) => {
                    if let Outcome::ProducerIds(ids) = &delta.outcome {
                        prop_assert_eq!(ids.start, handed_out);
                        handed_out = ids.end;
                    }
                    let changed = new.iter().filter(|(id, partition)| old.get(id) != Some(*partition));
                    prop_assert!(changed.map(|(id, _)| id).eq(delta.partitions.iter()));
                }
            }
            if let Some(resumed) = &mut resumed {
                prop_assert_eq!(&apply(resumed, record.as_ref(), index), &result);
            }
        }
        prop_assert_eq!(&resumed.unwrap(), &image);
        prop_assert_eq!(decode_snapshot(encode_snapshot(&image)).unwrap(), image);
    }

    #[test]
    fn damaged_bytes_never_panic(
        steps in prop::collection::vec(step(), 1..40),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut image = Image::empty(1);
        for (index, step) in (2..).zip(&steps) {
            let record = record(&image, step);
            let _ = apply(&mut image, record.as_ref(), index);
            if let Some(record) = &record {
                let _ = decode_record(damaged(&encode_record(record), &flips));
            }
        }
        if let Ok(image) = decode_snapshot(damaged(&encode_snapshot(&image), &flips)) {
            prop_assert_eq!(image.check(), Ok(()));
        }
    }
}
