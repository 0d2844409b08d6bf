//! A request with a producer's sequence is written once, however often it is sent.

#![allow(clippy::unwrap_used)]

use tonic::Code;
use wharf_proto::error::Applied;
use wharf_proto::v1::{ErrorReason, ProducerSequence, Record};
use wharf_tests::api::{Api, keyed, record, refused_produce};
use wharf_tests::broker::Broker;

/// How many requests of a producer a partition remembers.
const WINDOW: i64 = 128;

fn at(producer: ProducerSequence, sequence: i64) -> ProducerSequence {
    ProducerSequence { sequence, ..producer }
}

async fn put(api: &mut Api, producer: ProducerSequence, sequence: i64) -> (bool, i64) {
    let answer =
        api.produce_as("t", Some(0), at(producer, sequence), vec![record(format!("s{sequence}"))]).await;
    let answer = answer.unwrap_or_else(|error| panic!("sequence {sequence}: {error:?}"));
    (answer.duplicate, answer.positions[0].offset.unwrap())
}

async fn started() -> (Broker, Api, ProducerSequence) {
    let broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 3).await;
    let producer = api.producer().await;
    (broker, api, producer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_gets_the_first_positions_also_after_restarts() {
    let (mut broker, mut api, producer) = started().await;
    assert!(producer.producer_id >= 0 && producer.producer_id < 1 << 53);
    for sequence in 0..10 {
        assert_eq!(put(&mut api, producer, sequence).await, (false, sequence));
    }
    assert_eq!(put(&mut api, producer, 3).await, (true, 3));
    broker.restart();
    let mut api = broker.api().await;
    assert_eq!(put(&mut api, producer, 9).await, (true, 9));
    broker.kill();
    broker.start_again();
    let mut api = broker.api().await;
    for sequence in 0..10 {
        assert_eq!(put(&mut api, producer, sequence).await, (true, sequence));
    }
    assert_eq!(put(&mut api, producer, 10).await, (false, 10));
    assert_eq!(api.read_all("t", 0).await.len(), 11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_are_never_given_twice() {
    let (mut broker, mut api, producer) = started().await;
    let mut seen = std::collections::BTreeSet::from([producer.producer_id]);
    for round in 0..4 {
        for _ in 0..20 {
            assert!(seen.insert(api.producer().await.producer_id), "an id was given twice");
        }
        if round % 2 == 0 {
            broker.kill()
        } else {
            broker.stop()
        }
        broker.start_again();
        api = broker.api().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_over_several_partitions_are_kept_once_in_each() {
    let (mut broker, mut api, producer) = started().await;
    let records = || -> Vec<Record> { (0..30).map(|n| keyed(format!("k{n}"), format!("v{n}"))).collect() };
    let first = api.produce_as("t", None, at(producer, 7), records()).await.unwrap();
    assert!(!first.duplicate);
    broker.kill();
    broker.start_again();
    let mut api = broker.api().await;
    let again = api.produce_as("t", None, at(producer, 7), records()).await.unwrap();
    assert!(again.duplicate);
    assert_eq!(again.positions, first.positions);
    assert_eq!(api.records_written("t").await, 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keyless_requests_meet_their_first_try() {
    let (_broker, mut api, producer) = started().await;
    let mut partitions = std::collections::BTreeSet::new();
    for sequence in 0..30 {
        let first = api.produce_as("t", None, at(producer, sequence), vec![record("v")]).await.unwrap();
        let again = api.produce_as("t", None, at(producer, sequence), vec![record("v")]).await.unwrap();
        assert!(!first.duplicate && again.duplicate);
        assert_eq!(first.positions, again.positions);
        partitions.insert(first.positions[0].partition);
    }
    assert_eq!(partitions.len(), 3, "sequences spread over the partitions");
    assert_eq!(api.records_written("t").await, 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_older_than_the_window_is_refused_not_dropped() {
    let (mut broker, mut api, producer) = started().await;
    for sequence in 0..WINDOW {
        put(&mut api, producer, sequence).await;
    }
    assert_eq!(put(&mut api, producer, 0).await, (true, 0), "the window holds 128");
    put(&mut api, producer, WINDOW).await;
    for restart in [false, true] {
        if restart {
            broker.restart();
            api = broker.api().await;
        }
        let old = api.produce_as("t", Some(0), at(producer, 0), vec![record("s0")]).await;
        refused_produce(old, Code::FailedPrecondition, ErrorReason::OutOfOrderSequence, &Applied::Unknown);
        assert_eq!(put(&mut api, producer, 1).await, (true, 1));
    }
    assert_eq!(api.high_watermark("t", 0).await, WINDOW + 1);
    // A sequence counts requests of the producer, not of the partition: gaps are fine, and each partition has its window.
    assert_eq!(put(&mut api, producer, 10_000).await, (false, WINDOW + 1));
    let other = api.produce_as("t", Some(1), at(producer, 0), vec![record("v")]).await.unwrap();
    assert!(!other.duplicate);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_sequences_may_arrive_in_any_order() {
    let (_broker, mut api, producer) = started().await;
    for sequence in [5, 3, 9, 4, 0] {
        assert!(!put(&mut api, producer, sequence).await.0);
    }
    let calls: Vec<_> = (0..60_i64)
        .map(|n| {
            let mut api = api.clone();
            // Each sequence is sent three times at once.
            tokio::spawn(async move { (n / 3, put(&mut api, producer, 100 + n / 3).await) })
        })
        .collect();
    let mut firsts = std::collections::BTreeMap::new();
    for call in calls {
        let (sequence, (duplicate, offset)) = call.await.unwrap();
        let entry = firsts.entry(sequence).or_insert((0, offset));
        entry.0 += usize::from(!duplicate);
        assert_eq!(entry.1, offset, "all tries of {sequence} have the same position");
    }
    assert!(firsts.values().all(|(first, _)| *first <= 1), "{firsts:?}");
    assert_eq!(api.high_watermark("t", 0).await, 25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_higher_epoch_fences_the_lower_one() {
    let (mut broker, mut api, producer) = started().await;
    put(&mut api, producer, 0).await;
    let next = ProducerSequence { producer_epoch: producer.producer_epoch + 1, ..producer };
    assert_eq!(put(&mut api, next, 0).await, (false, 1), "a new epoch starts afresh");
    for restart in [false, true] {
        if restart {
            broker.kill();
            broker.start_again();
            api = broker.api().await;
        }
        let fenced = api.produce_as("t", Some(0), at(producer, 1), vec![record("v")]).await;
        refused_produce(fenced, Code::Aborted, ErrorReason::ProducerFenced, &Applied::None);
        assert_eq!(put(&mut api, next, 0).await, (true, 1));
    }
    assert_eq!(api.high_watermark("t", 0).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partly_refused_request_says_what_was_written() {
    let (_broker, mut api, producer) = started().await;
    // Partition 1 ("u1") knows a higher epoch, the others do not.
    let next = ProducerSequence { producer_epoch: producer.producer_epoch + 1, ..producer };
    api.produce_as("t", Some(1), next, vec![record("fence")]).await.unwrap();
    let records: Vec<Record> =
        (0..30).map(|n| keyed(format!("k{n}"), "v")).chain([keyed("u1", "v")]).collect();
    let answer = api.produce_as("t", None, at(producer, 1), records).await;
    let status = answer.unwrap_err();
    let error = wharf_proto::error::ApiError::from_status(&status).unwrap();
    assert_eq!((error.code, error.reason), (Code::Aborted, ErrorReason::ProducerFenced));
    let Some(Applied::Some(positions)) = &error.applied else { panic!("{error:?}") };
    assert!(positions.contains("0:0") && positions.contains("2:0"), "{positions}");
    assert_eq!(api.high_watermark("t", 1).await, 1);
    assert!(api.high_watermark("t", 0).await > 0 && api.high_watermark("t", 2).await > 0);
}
