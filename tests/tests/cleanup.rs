//! Retention and compaction on a running broker: what has to stay stays, at its offsets, also after a kill.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use tonic::Code;
use wharf_proto::v1::{ErrorReason, FetchedRecord, GetTopicRequest, Record};
use wharf_tests::api::{Api, keyed, refused};
use wharf_tests::broker::Broker;
use wharf_tests::wait;

const KEYS: i64 = 20;
const WRITES: i64 = 300;

fn value(n: i64) -> Vec<u8> {
    let mut value = format!("value-{n}:").into_bytes();
    value.resize(20_000, n as u8);
    value
}

async fn write_all(api: &mut Api, topic: &str) {
    for n in 0..WRITES {
        let records = vec![keyed(format!("k{}", n % KEYS), value(n))];
        assert_eq!(api.produce(topic, Some(0), records).await.unwrap().positions[0].offset, Some(n));
    }
}

fn check_values(read: &[FetchedRecord]) {
    for record in read {
        let offset = record.offset.unwrap();
        assert_eq!(record.value.as_deref(), Some(&*value(offset)), "offset {offset}");
    }
    assert!(read.windows(2).all(|pair| pair[0].offset < pair[1].offset));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_by_size_moves_the_start() {
    let mut broker = Broker::start();
    let mut api = broker.api().await;
    api.create_with("t", 1, &[("segment.bytes", "1048576"), ("retention.bytes", "2097152")]).await;
    write_all(&mut api, "t").await;
    let start = wait::until_async("a later log start", async || {
        let first = api.clone().fetch("t", 0, WRITES).await.unwrap().log_start_offset.unwrap();
        (first > 0).then_some(first)
    })
    .await;
    refused(api.fetch("t", 0, 0).await, Code::OutOfRange, ErrorReason::OffsetOutOfRange);
    let read = api.read_all("t", 0).await;
    check_values(&read);
    assert_eq!(read.len() as i64, WRITES - read[0].offset.unwrap());
    assert!(read[0].offset.unwrap() >= start);
    assert!(read.len() >= 50, "one segment at least stays: {}", read.len());
    broker.kill();
    broker.start_again();
    let mut api = broker.api().await;
    let again = api.read_all("t", 0).await;
    assert!(again[0].offset >= read[0].offset, "a log start never goes back");
    check_values(&again);
    let next = api.produce("t", Some(0), vec![keyed("k", "v")]).await.unwrap();
    assert_eq!(next.positions[0].offset, Some(WRITES));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_by_time_empties_a_topic_and_keeps_its_offsets() {
    let mut broker = Broker::start();
    let mut api = broker.api().await;
    api.create_with("t", 1, &[("segment.bytes", "1048576"), ("retention.ms", "1"), ("segment.ms", "1000")])
        .await;
    write_all(&mut api, "t").await;
    wait::until_async("a later log start", async || {
        let first = api.clone().fetch("t", 0, WRITES).await.unwrap().log_start_offset.unwrap();
        (first > 100).then_some(())
    })
    .await;
    broker.restart();
    let mut api = broker.api().await;
    let next = api.produce("t", Some(0), vec![keyed("k", "v")]).await.unwrap();
    assert_eq!(next.positions[0].offset, Some(WRITES), "offsets go on after everything was deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_keeps_the_last_value_of_each_key_at_its_offset() {
    let mut broker = Broker::start();
    let mut api = broker.api().await;
    api.create_with("t", 1, &[("segment.bytes", "1048576"), ("cleanup.policy", "compact")]).await;
    write_all(&mut api, "t").await;
    api.commit("g", "t", 0, 10).await.unwrap();
    wait::until_async("a smaller log", async || {
        let request = GetTopicRequest { topic: "t".into(), ..Default::default() };
        let shown = api.clone().admin.get_topic(request).await.unwrap().into_inner();
        (shown.partitions[0].size_bytes.unwrap() < 2_500_000).then_some(())
    })
    .await;
    // What was written lately may still come from memory; after a restart it comes from the compacted files.
    check_values(&api.read_all("t", 0).await);
    for kill in [true, false] {
        if kill {
            broker.kill();
            broker.start_again();
        } else {
            broker.restart();
        }
        let mut api = broker.api().await;
        let read = api.read_all("t", 0).await;
        check_values(&read);
        assert!(read.len() < 200, "{} records are left", read.len());
        let last: BTreeMap<_, _> = read.iter().map(|r| (r.key.clone().unwrap(), r.offset.unwrap())).collect();
        for key in 0..KEYS {
            let name = bytes::Bytes::from(format!("k{key}"));
            assert_eq!(last.get(&name), Some(&(WRITES - KEYS + key)), "the last value of {name:?}");
        }
        // From within a hole the next record comes.
        let page = api.fetch("t", 0, 1).await.unwrap();
        assert_eq!(
            page.records.first().map(|r| r.offset),
            read.iter().find(|r| r.offset > Some(0)).map(|r| r.offset)
        );
        assert_eq!(api.high_watermark("t", 0).await, WRITES);
        assert_eq!(api.committed("g", "t", 0).await, Some(10));
    }
    let mut api = broker.api().await;
    let tombstone = Record { key: Some("k0".into()), tombstone: true, ..Default::default() };
    let next = api.produce("t", None, vec![tombstone]).await.unwrap();
    assert_eq!(next.positions[0].offset, Some(WRITES));
}
