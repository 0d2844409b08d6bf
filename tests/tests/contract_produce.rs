//! Produce: every kind of bad input is refused by name and writes nothing; good input is kept as it was sent.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use bytes::Bytes;
use tonic::Code;
use wharf_proto::error::Applied;
use wharf_proto::v1::{Acks, ErrorReason, Header, ProduceRequest, ProducerSequence, Record};
use wharf_tests::api::{Api, keyed, record, refused, refused_produce};
use wharf_tests::broker::{Broker, Options};
use wharf_tests::raw;

const MIB: usize = 1 << 20;

/// Sends a request that has to be refused, and checks that nothing was written and that the broker still serves.
async fn rejects(
    api: &mut Api,
    request: ProduceRequest,
    code: Code,
    reason: ErrorReason,
) -> wharf_proto::error::ApiError {
    let before = api.records_written("t").await;
    let error = refused_produce(api.broker.produce(request).await, code, reason, &Applied::None);
    assert_eq!(api.records_written("t").await, before, "a refused request wrote something: {error}");
    api.put("t", 0, "still served").await;
    error
}

fn to(topic: &str, records: Vec<Record>) -> ProduceRequest {
    ProduceRequest { topic: topic.to_owned(), records, ..Default::default() }
}

fn text(value: &str) -> Record {
    Record { value_text: Some(value.to_owned()), ..Default::default() }
}

async fn broker_with_topic() -> (Broker, Api) {
    let broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 3).await;
    (broker, api)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_places_are_refused() {
    let (_broker, mut api) = broker_with_topic().await;
    let error =
        rejects(&mut api, to("nope", vec![record("v")]), Code::NotFound, ErrorReason::TopicNotFound).await;
    assert_eq!(error.metadata_value("topic"), Some("nope"));
    let at = |partition| ProduceRequest { partition: Some(partition), ..to("t", vec![record("v")]) };
    rejects(&mut api, at(3), Code::NotFound, ErrorReason::PartitionNotFound).await;
    rejects(&mut api, at(i32::MAX), Code::NotFound, ErrorReason::PartitionNotFound).await;
    rejects(&mut api, at(-1), Code::InvalidArgument, ErrorReason::InvalidRequest).await;
    let long = "x".repeat(300);
    for name in ["", "/", "a/b", "..", ".", "__offsets", "__x", "ä", "a b", "a\0b", long.as_str()] {
        let request = to(name, vec![record("v")]);
        rejects(&mut api, request, Code::InvalidArgument, ErrorReason::InvalidTopicName).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_records_are_refused() {
    let (_broker, mut api) = broker_with_topic().await;
    let header = |name: &str| Header { name: name.to_owned(), value: Some("v".into()), value_text: None };
    let with_headers = |headers| Record { headers, ..record("v") };
    let both = Header { name: "h".into(), value: Some("v".into()), value_text: Some("v".into()) };
    let invalid_records = [
        Record::default(),
        keyed_only("k"),
        Record { tombstone: true, ..record("v") },
        Record { tombstone: true, ..text("v") },
        Record { tombstone: true, ..record("") },
        Record { timestamp_ms: Some(-1), ..record("v") },
        with_headers(vec![header("")]),
        with_headers(vec![header(&"n".repeat(256))]),
        with_headers(vec![both]),
        with_headers(vec![header("h"); 1_001]),
    ];
    for bad in invalid_records {
        let request = to("t", vec![record("good"), bad]);
        let error = rejects(&mut api, request, Code::InvalidArgument, ErrorReason::InvalidRecord).await;
        assert!(error.field_violations[0].0.starts_with("records[1]"), "{error:?}");
    }
    let both_forms = [
        Record { value_text: Some("v".into()), ..record("v") },
        Record { key_text: Some("k".into()), ..keyed("k", "v") },
    ];
    for bad in both_forms {
        rejects(&mut api, to("t", vec![bad]), Code::InvalidArgument, ErrorReason::InvalidRequest).await;
    }
}

fn keyed_only(key: &'static str) -> Record {
    Record { key: Some(key.into()), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_are_refused() {
    let (_broker, mut api) = broker_with_topic().await;
    let invalid = [
        to("t", Vec::new()),
        ProduceRequest { acks: 17, ..to("t", vec![record("v")]) },
        ProduceRequest { transaction_id: Some(1), ..to("t", vec![record("v")]) },
        sequenced(ProducerSequence { producer_id: -1, producer_epoch: 0, sequence: 0 }),
        sequenced(ProducerSequence { producer_id: 1 << 53, producer_epoch: 0, sequence: 0 }),
        sequenced(ProducerSequence { producer_id: (1 << 53) - 1, producer_epoch: 0, sequence: 0 }),
    ];
    for request in invalid {
        rejects(&mut api, request, Code::InvalidArgument, ErrorReason::InvalidRequest).await;
    }
    let known = api.producer().await;
    for bad in [ProducerSequence { sequence: -1, ..known }, ProducerSequence { producer_epoch: -1, ..known }]
    {
        rejects(&mut api, sequenced(bad), Code::InvalidArgument, ErrorReason::InvalidRequest).await;
    }
}

fn sequenced(producer: ProducerSequence) -> ProduceRequest {
    ProduceRequest { producer: Some(producer), ..to("t", vec![record("v")]) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_records_are_refused_with_limit_and_size() {
    let (_broker, mut api) = broker_with_topic().await;
    // What counts is key, value, header names and values, and 64 bytes.
    let fits = Record {
        headers: vec![Header { name: "name".into(), value: Some("value".into()), value_text: None }],
        ..keyed("key", vec![b'x'; MIB - 64 - 3 - 4 - 5])
    };
    api.produce("t", Some(1), vec![fits.clone()]).await.unwrap();
    let above = Record { key: Some("key+".into()), ..fits };
    let request = to("t", vec![record("small"), above]);
    let error = rejects(&mut api, request, Code::InvalidArgument, ErrorReason::RecordTooLarge).await;
    assert_eq!(error.metadata_value("limit"), Some("1048576"));
    assert_eq!(error.metadata_value("size"), Some("1048577"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_requests_are_refused_with_limit_and_size() {
    let (_broker, mut api) = broker_with_topic().await;
    let limit = 4 * MIB;
    // Just above the limit, far above it, and far above any window of the transport.
    for bytes in [4 * MIB, 5 * MIB, 40 * MIB] {
        let request = to("t", vec![record(vec![b'x'; MIB / 2]); bytes / (MIB / 2)]);
        let before = api.records_written("t").await;
        let error =
            refused(api.broker.produce(request).await, Code::InvalidArgument, ErrorReason::RequestTooLarge);
        assert_eq!(error.metadata_value("limit"), Some(limit.to_string().as_str()), "{error:?}");
        let size: usize = error.metadata_value("size").unwrap().parse().unwrap();
        assert!(size > limit, "{error:?}");
        assert_eq!(
            error.applied,
            Some(Applied::None),
            "a request that was not read has written nothing: {error:?}"
        );
        assert_eq!(api.records_written("t").await, before);
        api.put("t", 0, "still served").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undecodable_requests_are_refused() {
    let (_broker, mut api) = broker_with_topic().await;
    let methods = [
        "/wharf.v1.BrokerService/Produce",
        "/wharf.v1.BrokerService/Fetch",
        "/wharf.v1.BrokerService/Commit",
        "/wharf.v1.AdminService/CreateTopic",
    ];
    // A wrong wire type, a length beyond the end, a field number of zero, text that is no UTF-8.
    let garbage: [&'static [u8]; 4] = [b"\x0f\xff\xff", b"\x0a\x7fx", b"\x00\x00", b"\x0a\x02\xff\xfe"];
    for method in methods {
        for bytes in garbage {
            let answer = raw::call(&api.channel, method, Bytes::from_static(bytes)).await;
            let error = refused(answer, Code::InvalidArgument, ErrorReason::MalformedRequest);
            if method.ends_with("/Produce") {
                assert_eq!(
                    error.applied,
                    Some(Applied::None),
                    "what cannot be read writes nothing: {error:?}"
                );
            }
        }
    }
    api.put("t", 0, "still served").await;
    assert_eq!(api.records_written("t").await, 1);
    let unknown = raw::call(&api.channel, "/wharf.v1.BrokerService/Nope", Bytes::new()).await;
    assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented);
    let unknown = raw::call(&api.channel, "/wharf.v1.NopeService/Nope", Bytes::new()).await;
    assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_come_back_as_they_were_sent() {
    let (_broker, mut api) = broker_with_topic().await;
    let named = |name: &str, value: Option<&'static [u8]>| Header {
        name: name.to_owned(),
        value: value.map(Bytes::from_static),
        value_text: None,
    };
    let binary: Vec<u8> = (0..=255).collect();
    let headers =
        vec![named("b", Some(b"1")), named("a", Some(b"")), named("b", Some(b"\xff\x00")), named("ä", None)];
    let sent = vec![
        Record { headers: headers.clone(), timestamp_ms: Some(0), ..keyed(binary.clone(), binary.clone()) },
        Record { timestamp_ms: Some(i64::MAX), ..keyed("", "") },
        Record { tombstone: true, ..keyed_only("gone") },
        Record { key_text: Some("schlüssel".into()), ..text("größe") },
    ];
    let answer = api.produce("t", Some(2), sent).await.unwrap();
    assert!(!answer.duplicate);
    let offsets: Vec<_> = answer.positions.iter().map(|p| (p.partition, p.offset)).collect();
    assert_eq!(offsets, (0..4).map(|offset| (Some(2), Some(offset))).collect::<Vec<_>>());
    let read = api.read_all("t", 2).await;
    assert_eq!(read.iter().map(|r| r.offset).collect::<Vec<_>>(), [Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(read[0].headers, headers);
    assert_eq!((read[0].key.as_deref(), read[0].value.as_deref()), (Some(&*binary), Some(&*binary)));
    assert_eq!((read[0].timestamp_ms, read[1].timestamp_ms), (Some(0), Some(i64::MAX)));
    assert_eq!(
        (read[1].key.as_deref(), read[1].value.as_deref(), read[1].tombstone),
        (Some(&b""[..]), Some(&b""[..]), false)
    );
    assert_eq!(
        (read[2].key.as_deref(), read[2].value.as_deref(), read[2].tombstone),
        (Some(&b"gone"[..]), None, true)
    );
    assert_eq!(read[3].value.as_deref(), Some("größe".as_bytes()));
    assert_eq!(read[3].key.as_deref(), Some("schlüssel".as_bytes()));
    for record in &read {
        assert!(record.leader_epoch.is_some_and(|epoch| epoch >= 0), "{record:?}");
        assert!(record.append_time_ms.is_some_and(|time| time > 1_600_000_000_000), "{record:?}");
    }
    assert!(read.windows(2).all(|pair| pair[0].append_time_ms <= pair[1].append_time_ms));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_event_time_is_the_time_of_arrival() {
    let (_broker, mut api) = broker_with_topic().await;
    let now = |info: wharf_proto::v1::GetServerInfoResponse| info.server_time_ms.unwrap();
    let before =
        now(api.admin.get_server_info(wharf_proto::v1::GetServerInfoRequest {}).await.unwrap().into_inner());
    api.put("t", 0, "v").await;
    let after =
        now(api.admin.get_server_info(wharf_proto::v1::GetServerInfoRequest {}).await.unwrap().into_inner());
    let read = api.read_all("t", 0).await;
    assert!((before..=after).contains(&read[0].timestamp_ms.unwrap()));
    assert!((before..=after).contains(&read[0].append_time_ms.unwrap()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_choose_partitions_as_kafkas_clients_do() {
    let (_broker, mut api) = broker_with_topic().await;
    let answer = api.produce("t", None, vec![keyed("u1", "hello")]).await.unwrap();
    assert_eq!(answer.positions[0].partition, Some(1));
    let text = Record { key_text: Some("u1".into()), ..text("hello") };
    assert_eq!(api.produce("t", None, vec![text]).await.unwrap().positions[0].partition, Some(1));
    // A request over several partitions: every record has its position, in order, and is where it says.
    let records: Vec<Record> = (0..60).map(|n| keyed(format!("k{n}"), format!("v{n}"))).collect();
    let answer = api.produce("t", None, records).await.unwrap();
    let partitions: BTreeSet<_> =
        answer.positions.iter().map(|position| position.partition.unwrap()).collect();
    assert_eq!(partitions, BTreeSet::from([0, 1, 2]));
    for (n, position) in answer.positions.iter().enumerate() {
        let page = api.fetch("t", position.partition.unwrap(), position.offset.unwrap()).await.unwrap();
        assert_eq!(page.records[0].value.as_deref(), Some(format!("v{n}").as_bytes()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acks_level_answers_as_it_says() {
    let (mut broker, mut api) = broker_with_topic().await;
    for acks in [Acks::None, Acks::Leader, Acks::All, Acks::Unspecified] {
        let request = ProduceRequest {
            acks: acks as i32,
            partition: Some(0),
            ..to("t", vec![record(acks.as_str_name())])
        };
        let answer = api.broker.produce(request).await.unwrap().into_inner();
        assert_eq!(answer.positions[0].partition, Some(0));
        assert_eq!(answer.positions[0].offset.is_none(), acks == Acks::None, "{acks:?}");
    }
    // Once a later record is acknowledged, the earlier ones of the partition are there too.
    let read = api.read_all("t", 0).await;
    assert_eq!(read.len(), 4);
    broker.kill();
    broker.start_again();
    let mut api = broker.api().await;
    assert_eq!(api.read_all("t", 0).await, read);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_topics_give_back_what_was_written() {
    let mut broker = Broker::start();
    let mut api = broker.api().await;
    for codec in ["none", "lz4", "zstd"] {
        api.create_with(codec, 1, &[("compression.type", codec)]).await;
        let records: Vec<Record> = (0..500)
            .map(|n| keyed(format!("key{n}"), format!("{{\"n\":{n},\"pad\":\"{}\"}}", "ab".repeat(100))))
            .collect();
        api.produce(codec, Some(0), records).await.unwrap();
    }
    broker.restart();
    let mut api = broker.api().await;
    for codec in ["none", "lz4", "zstd"] {
        let read = api.read_all(codec, 0).await;
        assert_eq!(read.len(), 500, "{codec}");
        for (n, record) in read.iter().enumerate() {
            assert_eq!(record.key.as_deref(), Some(format!("key{n}").as_bytes()), "{codec}");
            assert!(
                record.value.as_ref().unwrap().starts_with(format!("{{\"n\":{n},").as_bytes()),
                "{codec}"
            );
        }
        // From the middle of a batch.
        assert_eq!(api.fetch(codec, 0, 321).await.unwrap().records[0].offset, Some(321), "{codec}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compacted_topics_want_keys() {
    let broker = Broker::start();
    let mut api = broker.api().await;
    api.create_with("c", 1, &[("cleanup.policy", "compact")]).await;
    let answer = api.produce("c", None, vec![record("v")]).await;
    refused_produce(answer, Code::InvalidArgument, ErrorReason::InvalidRecord, &Applied::None);
    let tombstone = Record { tombstone: true, ..keyed_only("k") };
    api.produce("c", None, vec![keyed("k", "v"), tombstone]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_created_on_first_produce_where_that_is_switched_on() {
    let broker = Broker::start_with(Options::with_args(&["--auto-create-topics"]));
    let mut api = broker.api().await;
    api.put("new", 0, "v").await;
    assert_eq!(api.read_all("new", 0).await.len(), 1);
    let answer = api.produce("__bad", None, vec![record("v")]).await;
    refused_produce(answer, Code::InvalidArgument, ErrorReason::InvalidTopicName, &Applied::None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_at_once_are_all_answered() {
    let (_broker, api) = broker_with_topic().await;
    let calls = (0..500).map(|n: i32| {
        let mut api = api.clone();
        tokio::spawn(async move { api.put("t", n % 3, format!("v{n}")).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    let mut api = api;
    let mut seen = BTreeSet::new();
    for partition in 0..3 {
        let read = api.read_all("t", partition).await;
        let offsets: Vec<i64> = read.iter().map(|record| record.offset.unwrap()).collect();
        assert_eq!(offsets, (0..read.len() as i64).collect::<Vec<_>>());
        seen.extend(read.into_iter().map(|record| record.value.unwrap()));
    }
    assert_eq!(seen.len(), 500);
}
