//! Fetch and ListOffsets: positions, bounds, long polls, and what is refused.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use tonic::{Code, Request};
use wharf_proto::v1::fetch_request::Position;
use wharf_proto::v1::list_offsets_request::At;
use wharf_proto::v1::{
    ErrorReason, FetchRequest, Header, ListOffsetsRequest, PartitionOffset, Record, StartPosition,
};
use wharf_tests::api::{Api, fetch, record, refused};
use wharf_tests::broker::Broker;

const MIB: usize = 1 << 20;

async fn broker_with_records(count: usize) -> (Broker, Api) {
    let broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 2).await;
    for n in 0..count {
        api.put("t", 0, format!("v{n}")).await;
    }
    (broker, api)
}

fn at(position: Position) -> FetchRequest {
    FetchRequest { position: Some(position), ..fetch("t", 0) }
}

fn start(position: StartPosition) -> FetchRequest {
    at(Position::Start(position as i32))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_fetches_are_refused() {
    let (_broker, mut api) = broker_with_records(3).await;
    let here = || at(Position::Offset(0));
    let invalid = [
        fetch("t", 0),
        at(Position::Offset(-1)),
        at(Position::FromAppendTimeMs(-1)),
        start(StartPosition::Unspecified),
        at(Position::Start(99)),
        FetchRequest { max_bytes: -1, ..here() },
        FetchRequest { max_records: -1, ..here() },
        FetchRequest { max_wait_ms: -1, ..here() },
        FetchRequest { min_bytes: -1, ..here() },
        FetchRequest { isolation: 99, ..here() },
        FetchRequest { leader_epoch: Some(-1), ..here() },
        FetchRequest { partition: -1, ..here() },
    ];
    for request in invalid {
        refused(api.fetch_with(request).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    let no_topic = FetchRequest { topic: "nope".into(), ..here() };
    refused(api.fetch_with(no_topic).await, Code::NotFound, ErrorReason::TopicNotFound);
    let no_partition = FetchRequest { partition: 2, ..here() };
    refused(api.fetch_with(no_partition).await, Code::NotFound, ErrorReason::PartitionNotFound);
    for name in ["", "..", "a/b", "__offsets"] {
        let request = FetchRequest { topic: name.into(), ..here() };
        refused(api.fetch_with(request).await, Code::InvalidArgument, ErrorReason::InvalidTopicName);
    }
    assert_eq!(api.read_all("t", 0).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_outside_of_the_log_are_refused_with_its_bounds() {
    let (_broker, mut api) = broker_with_records(5).await;
    for offset in [6, i64::MAX] {
        let error = refused(api.fetch("t", 0, offset).await, Code::OutOfRange, ErrorReason::OffsetOutOfRange);
        assert_eq!(error.metadata_value("log_start_offset"), Some("0"));
        assert_eq!(error.metadata_value("high_watermark"), Some("5"));
    }
    // Also with a long poll, which must not wait for the log to grow to there.
    let begun = Instant::now();
    let request = FetchRequest { max_wait_ms: 20_000, ..at(Position::Offset(6)) };
    refused(api.fetch_with(request).await, Code::OutOfRange, ErrorReason::OffsetOutOfRange);
    assert!(begun.elapsed() < Duration::from_secs(5));
    let end = api.fetch("t", 0, 5).await.unwrap();
    assert_eq!((end.records.len(), end.next_offset, end.high_watermark), (0, Some(5), Some(5)));
    let deletion = wharf_proto::v1::DeleteRecordsRequest {
        topic: "t".into(),
        partitions: vec![wharf_proto::v1::RecordDeletion { partition: 0, before_offset: 3 }],
        validate_only: false,
    };
    api.admin.delete_records(deletion).await.unwrap();
    let error = refused(api.fetch("t", 0, 2).await, Code::OutOfRange, ErrorReason::OffsetOutOfRange);
    assert_eq!(error.metadata_value("log_start_offset"), Some("3"));
    let earliest = api.fetch_with(start(StartPosition::Earliest)).await.unwrap();
    assert_eq!((earliest.records[0].offset, earliest.log_start_offset), (Some(3), Some(3)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_partition_has_numbers_too() {
    let (_broker, mut api) = broker_with_records(0).await;
    for position in [StartPosition::Earliest, StartPosition::Latest] {
        let page = api.fetch_with(start(position)).await.unwrap();
        assert!(page.records.is_empty());
        assert_eq!((page.next_offset, page.log_start_offset), (Some(0), Some(0)));
        assert_eq!((page.high_watermark, page.last_stable_offset), (Some(0), Some(0)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bounds_are_kept_and_at_least_one_record_comes() {
    let (_broker, mut api) = broker_with_records(10).await;
    let page = api.fetch_with(FetchRequest { max_records: 3, ..at(Position::Offset(2)) }).await.unwrap();
    assert_eq!((page.records.len(), page.next_offset), (3, Some(5)));
    // 66 bytes each: value and 64. What is asked for is the most; less may come, and something does.
    for max_bytes in [66 * 4, 66 * 4 - 1, 66 * 2, 67] {
        let page = api.fetch_with(FetchRequest { max_bytes, ..at(Position::Offset(0)) }).await.unwrap();
        let most = usize::try_from(max_bytes / 66).unwrap();
        assert!((1..=most).contains(&page.records.len()), "{max_bytes}: {}", page.records.len());
        assert_eq!(page.next_offset, Some(page.records.len() as i64));
    }
    let page = api.fetch_with(FetchRequest { max_bytes: 1, ..at(Position::Offset(7)) }).await.unwrap();
    assert_eq!((page.records.len(), page.records[0].offset, page.next_offset), (1, Some(7), Some(8)));
    let huge = FetchRequest {
        max_bytes: i32::MAX,
        max_records: i32::MAX,
        min_bytes: i32::MAX,
        ..at(Position::Offset(0))
    };
    assert_eq!(api.fetch_with(huge).await.unwrap().records.len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_record_fits_into_the_default_limit_of_a_client() {
    let (_broker, mut api) = broker_with_records(0).await;
    api.create_with("large", 1, &[("max.message.bytes", "2621440")]).await;
    let value = vec![b'x'; (5 * MIB / 2) - 64];
    for _ in 0..3 {
        api.put("large", 0, value.clone()).await;
    }
    let read = api.read_all("large", 0).await;
    assert_eq!(read.len(), 3);
    assert!(read.iter().all(|record| record.value.as_ref().unwrap().len() == value.len()));
    // The worst of records for an encoder: all of it in headers.
    let headers: Vec<Header> = (0..1_000)
        .map(|n| Header { name: format!("{n:0255}"), value: Some(vec![7; 2_300].into()), value_text: None })
        .collect();
    let record = Record { headers, ..record("") };
    api.produce("large", None, vec![record]).await.unwrap();
    let page = api.fetch("large", 0, 3).await.unwrap();
    assert_eq!(page.records[0].headers.len(), 1_000);
    // Small records up to the largest answer.
    let small: Vec<Record> = (0..40_000).map(|_| wharf_tests::api::record("")).collect();
    api.produce("large", None, small.clone()).await.unwrap();
    api.produce("large", None, small).await.unwrap();
    let request =
        FetchRequest { max_bytes: 3 << 20, position: Some(Position::Offset(4)), ..fetch("large", 0) };
    let page = api.fetch_with(request).await.unwrap();
    assert!(page.records.len() > 20_000, "{}", page.records.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_is_given_where_it_is_text() {
    let (_broker, mut api) = broker_with_records(0).await;
    let header =
        |value: &'static [u8]| Header { name: "h".into(), value: Some(value.into()), value_text: None };
    let records = vec![
        Record { key: Some("k".into()), headers: vec![header(b"x"), header(b"\xff")], ..record("ü") },
        Record { key: Some(b"\xff"[..].into()), ..record(b"\xfe"[..].to_vec()) },
    ];
    api.produce("t", Some(0), records).await.unwrap();
    let page = api.fetch_with(FetchRequest { text: true, ..at(Position::Offset(0)) }).await.unwrap();
    let [first, second] = page.records.as_slice() else { panic!("two records") };
    assert_eq!((first.key_text.as_deref(), first.value_text.as_deref()), (Some("k"), Some("ü")));
    assert_eq!((&first.key, &first.value), (&None, &None));
    assert_eq!((first.headers[0].value_text.as_deref(), &first.headers[0].value), (Some("x"), &None));
    assert_eq!(
        (&first.headers[1].value_text, first.headers[1].value.as_deref()),
        (&None, Some(&b"\xff"[..]))
    );
    assert_eq!((&second.key_text, &second.value_text), (&None, &None));
    assert_eq!((second.key.as_deref(), second.value.as_deref()), (Some(&b"\xff"[..]), Some(&b"\xfe"[..])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_poll_answers_when_there_is_something() {
    let (_broker, mut api) = broker_with_records(1).await;
    let mut poller = api.clone();
    let poll = FetchRequest { max_wait_ms: 25_000, ..at(Position::Offset(1)) };
    let begun = Instant::now();
    let waiting = tokio::spawn(async move { poller.fetch_with(poll).await });
    api.put("t", 0, "awaited").await;
    let page = waiting.await.unwrap().unwrap();
    assert_eq!(page.records[0].value.as_deref(), Some(&b"awaited"[..]));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_poll_waits_for_min_bytes() {
    let (_broker, mut api) = broker_with_records(1).await;
    // Three records of 66 to 71 bytes; the poll that wants three may not answer with one or two.
    let mut poller = api.clone();
    let poll = FetchRequest { max_wait_ms: 25_000, min_bytes: 65 * 3, ..at(Position::Offset(1)) };
    let waiting = tokio::spawn(async move { poller.fetch_with(poll).await });
    for value in ["a", "b", "c"] {
        api.put("t", 0, value).await;
    }
    assert_eq!(waiting.await.unwrap().unwrap().records.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_poll_ends_empty_and_in_time() {
    let (_broker, mut api) = broker_with_records(1).await;
    let begun = Instant::now();
    let page = api.fetch_with(FetchRequest { max_wait_ms: 300, ..at(Position::Offset(1)) }).await.unwrap();
    assert_eq!((page.records.len(), page.next_offset), (0, Some(1)));
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
    // The call's deadline comes first: the answer is empty and OK, not an error.
    let mut request = Request::new(FetchRequest { max_wait_ms: 30_000, ..at(Position::Offset(1)) });
    request.set_timeout(Duration::from_millis(1_500));
    let page = api.broker.fetch(request).await.expect("a long poll beats its deadline").into_inner();
    assert!(page.records.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn append_times_can_be_looked_up() {
    let (_broker, mut api) = broker_with_records(0).await;
    let mut times = Vec::new();
    for n in 0..3 {
        let offset = api.put("t", 0, format!("v{n}")).await;
        let written = api.fetch("t", 0, offset).await.unwrap().records[0].append_time_ms.unwrap();
        times.push(written);
        // The clock moves on before the next record.
        wharf_tests::wait::until_async("a later time", async || {
            (now(&mut api).await > written).then_some(())
        })
        .await;
    }
    for (n, time) in times.iter().enumerate() {
        let page = api.fetch_with(at(Position::FromAppendTimeMs(*time))).await.unwrap();
        assert_eq!(page.records[0].offset, Some(n as i64));
        let found = list(&mut api, At::AppendTimeMs(*time), vec![0]).await;
        assert_eq!((found[0].offset, found[0].append_time_ms), (Some(n as i64), Some(*time)));
    }
    assert_eq!(api.fetch_with(at(Position::FromAppendTimeMs(0))).await.unwrap().records.len(), 3);
    let after = api.fetch_with(at(Position::FromAppendTimeMs(times[2] + 1))).await.unwrap();
    assert_eq!((after.records.len(), after.next_offset), (0, Some(3)));
    let none = list(&mut api, At::AppendTimeMs(times[2] + 1), vec![]).await;
    assert!(none.iter().all(|found| found.offset.is_none() && found.append_time_ms.is_none()), "{none:?}");
}

async fn now(api: &mut Api) -> i64 {
    let info =
        api.admin.get_server_info(wharf_proto::v1::GetServerInfoRequest {}).await.unwrap().into_inner();
    info.server_time_ms.unwrap()
}

async fn list(api: &mut Api, at: At, partitions: Vec<i32>) -> Vec<PartitionOffset> {
    let request = ListOffsetsRequest { topic: "t".into(), partitions, at: Some(at), ..Default::default() };
    api.broker.list_offsets(request).await.unwrap().into_inner().offsets
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_are_listed_for_one_and_for_all_partitions() {
    let (_broker, mut api) = broker_with_records(4).await;
    let numbers =
        |found: Vec<PartitionOffset>| found.iter().map(|o| (o.partition, o.offset)).collect::<Vec<_>>();
    let latest = list(&mut api, At::Start(StartPosition::Latest as i32), vec![]).await;
    assert_eq!(numbers(latest), [(Some(0), Some(4)), (Some(1), Some(0))]);
    let earliest = list(&mut api, At::Start(StartPosition::Earliest as i32), vec![1, 0]).await;
    assert_eq!(numbers(earliest), [(Some(1), Some(0)), (Some(0), Some(0))]);
    let ask = |topic: &str, partitions, at| ListOffsetsRequest {
        topic: topic.into(),
        partitions,
        at,
        ..Default::default()
    };
    let latest = Some(At::Start(StartPosition::Latest as i32));
    let invalid = [
        ask("t", vec![], None),
        ask("t", vec![], Some(At::Start(0))),
        ask("t", vec![], Some(At::AppendTimeMs(-1))),
        ask("t", vec![-1], latest),
    ];
    for request in invalid {
        refused(api.broker.list_offsets(request).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    refused(
        api.broker.list_offsets(ask("t", vec![2], latest)).await,
        Code::NotFound,
        ErrorReason::PartitionNotFound,
    );
    refused(
        api.broker.list_offsets(ask("x", vec![], latest)).await,
        Code::NotFound,
        ErrorReason::TopicNotFound,
    );
}
