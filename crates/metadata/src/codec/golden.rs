//! Literal bytes of format 1. They never change; a new format gets its own beside them.
#![allow(clippy::unwrap_used)]

use wharf_types::{BrokerEpoch, NodeId, TopicId, TopicName};

use super::{decode_record, decode_snapshot, encode_record, encode_snapshot};
use crate::{
    AllocateProducerIds, Bootstrap, ClusterId, CreateTopic, Image, Incarnation, LogDirId, NodeEpoch, Record,
    RegisterNode, apply,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn joined(parts: &[&str]) -> String {
    parts.concat().replace(' ', "")
}

fn bootstrap() -> Record {
    Record::Bootstrap(Bootstrap {
        cluster_id: ClusterId::from_bytes([0xc1; 16]),
        features: vec![("metadata.version".into(), 1)],
    })
}

fn register() -> Record {
    Record::RegisterNode(RegisterNode {
        node_id: NodeId::new(1),
        incarnation: Incarnation::from_bytes([0x1a; 16]),
        marker: Some(BrokerEpoch::new(300)),
        log_dirs: vec![LogDirId::from_bytes([0xd1; 16])],
        rack: None,
        advertised_address: "h:1".into(),
        boot_id: "b".into(),
        version: "v".into(),
        io_error_recorded: false,
    })
}

fn create() -> Record {
    Record::CreateTopic(CreateTopic {
        topic_id: TopicId::from_bytes([0x70; 16]),
        name: TopicName::new("t").unwrap(),
        config: vec![("segment.ms".into(), "1000".into())],
        min_isr: 1,
        replicas: vec![vec![NodeId::new(1)]],
    })
}

#[test]
fn records_keep_their_bytes() {
    let cases: [(Record, &[&str]); 5] = [
        (bootstrap(), BOOTSTRAP),
        (register(), REGISTER),
        (create(), CREATE),
        (
            Record::StopNode(NodeEpoch { node_id: NodeId::new(1), broker_epoch: BrokerEpoch::new(300) }),
            &["2205 0801 10ac02"],
        ),
        (Record::AllocateProducerIds(AllocateProducerIds { count: 1_000 }), &["5a03 08e807"]),
    ];
    for (record, expected) in cases {
        let bytes = encode_record(&record);
        assert_eq!(hex(&bytes), joined(expected), "{}", record.kind());
        assert_eq!(decode_record(bytes).unwrap(), Some(record));
    }
}

#[test]
fn a_snapshot_keeps_its_bytes() {
    let mut image = Image::empty(1);
    for (index, record) in (2..).zip([bootstrap(), register(), create()]) {
        apply(&mut image, Some(&record), index).unwrap();
    }
    let bytes = encode_snapshot(&image);
    assert_eq!(hex(&bytes), joined(SNAPSHOT));
    assert_eq!(decode_snapshot(bytes).unwrap(), image);
}

const BOOTSTRAP: &[&str] = &[
    "0a28",                                       // 1, bootstrap: 40 bytes
    "0a10 c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1",      // 1, cluster id
    "1214",                                       // 2, feature: 20 bytes
    "0a10 6d657461646174612e76657273696f6e 1001", // "metadata.version", level 1
];

const REGISTER: &[&str] = &[
    "1234",                                  // 2, register node: 52 bytes
    "0801",                                  // 1, node id
    "1210 1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a", // 2, incarnation
    "18ac02",                                // 3, broker epoch of the marker: 300
    "2210 d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1", // 4, log directory
    "3203 683a31",                           // 6, address
    "3a01 62",                               // 7, boot id
    "4201 76",                               // 8, version
];

const CREATE: &[&str] = &[
    "3230",                                         // 6, create topic: 48 bytes
    "0a10 70707070707070707070707070707070",        // 1, topic id
    "1201 74",                                      // 2, name
    "1a12 0a0a 7365676d656e742e6d73 1204 31303030", // 3, "segment.ms" = "1000"
    "2001",                                         // 4, min_isr
    "2a03 0a0101",                                  // 5, replicas of partition 0
];

const SNAPSHOT: &[&str] = &[
    "0801",                                            // 1, format
    "1004",                                            // 2, applied index
    "1a10 c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1",           // 3, cluster id
    "2214 0a10 6d657461646174612e76657273696f6e 1001", // 4, feature
    "2a35",                                            // 5, node: 53 bytes
    "0801",                                            // id
    "1210 1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a",           // incarnation
    "1803",                                            // broker epoch
    "2a03 683a31",                                     // address
    "3210 d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1",           // log directory
    "3a01 62 4201 76",                                 // boot id, version
    "4801",                                            // live
    "323d",                                            // 6, topic: 61 bytes
    "0a10 70707070707070707070707070707070",           // id
    "1201 74",                                         // name
    "1a12 0a0a 7365676d656e742e6d73 1204 31303030",    // config
    "2001 2801 3004",                                  // replication factor, min_isr, created index
    "3a0c 0a0101 2001 3a0101 5001 5801", // partition: replicas, leader, ISR, min_isr, durability
    "4001",                              // 8, next producer id
];
