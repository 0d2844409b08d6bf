//! Calls that are given up, connections that go away, deadlines that pass: nothing is torn, and nothing is kept.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use rand::RngExt;
use tonic::{Code, Request};
use wharf_proto::v1::fetch_request::Position;
use wharf_proto::v1::{FetchRequest, ProduceRequest};
use wharf_tests::api::{fetch, keyed, record};
use wharf_tests::broker::Broker;
use wharf_tests::{ops, seed, wait};

const CALLS: u64 = 1_500;

/// A metric without labels.
fn metric(broker: &Broker, name: &str) -> Option<f64> {
    let (_, text) = ops::get(broker.ops_address(), "/metrics");
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_calls_leave_whole_records_and_no_bytes_behind() {
    let mut rng = seed::rng("cancel");
    let broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 3).await;
    let mut sent = BTreeSet::new();
    let mut calls: Vec<tokio::task::JoinHandle<bool>> = Vec::new();
    let mut answered = 0;
    for n in 0..CALLS {
        let value = format!("v{n}:{}", "x".repeat(rng.random_range(0..2_000)));
        let records =
            (0..rng.random_range(1..6)).map(|i| keyed(format!("{n}-{i}"), value.clone())).collect::<Vec<_>>();
        sent.insert(value);
        let patience = Duration::from_micros(rng.random_range(0..60_000));
        let by_deadline = rng.random_bool(0.5);
        let mut api = api.clone();
        calls.push(tokio::spawn(async move {
            let mut request =
                Request::new(ProduceRequest { topic: "t".into(), records, ..Default::default() });
            if by_deadline {
                request.set_timeout(patience);
                api.broker.produce(request).await.is_ok()
            } else {
                tokio::time::timeout(patience, api.broker.produce(request))
                    .await
                    .is_ok_and(|answer| answer.is_ok())
            }
        }));
        let poll = FetchRequest {
            max_wait_ms: 30_000,
            position: Some(Position::Offset(0)),
            min_bytes: 1 << 20,
            ..fetch("t", 0)
        };
        if n.is_multiple_of(50) {
            // Not all at once: some are to be answered in time.
            for call in std::mem::take(&mut calls) {
                answered += usize::from(call.await.unwrap());
            }
            // A connection of its own, which goes away with the call.
            let mut poller = broker.api().await;
            drop(tokio::time::timeout(patience, poller.fetch_with(poll)).await);
        }
    }
    for call in calls {
        answered += usize::from(call.await.unwrap());
    }
    eprintln!("{answered} of {CALLS} calls were answered");
    let mut offsets_seen = 0;
    for partition in 0..3 {
        let read = api.read_all("t", partition).await;
        for (expected, record) in (0..).zip(&read) {
            assert_eq!(record.offset, Some(expected));
            let value = String::from_utf8(record.value.as_ref().unwrap().to_vec()).unwrap();
            assert!(sent.contains(&value), "a record that nobody sent");
        }
        offsets_seen += read.len();
    }
    assert!(offsets_seen >= answered);
    wait::until("an empty produce buffer", || {
        (metric(&broker, "wharf_gateway_produce_buffer_bytes") == Some(0.0)).then_some(())
    });
    api.put("t", 0, "still served").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deadline_of_a_call_is_honoured() {
    let broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 1).await;
    let mut request =
        Request::new(ProduceRequest { topic: "t".into(), records: vec![record("v")], ..Default::default() });
    request.set_timeout(Duration::from_nanos(1));
    let status = api.broker.produce(request).await.unwrap_err();
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status:?}");
    api.put("t", 0, "still served").await;
}

/// A proxy in front of many clients that all give up at once: its connection, and the other calls on it, stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_cancelled_calls_keeps_the_connection() {
    let broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 1).await;
    let mut rng = seed::rng("burst");
    for _ in 0..3 {
        let calls: Vec<_> = (0..1_000)
            .map(|_| {
                let (mut api, patience) = (api.clone(), Duration::from_micros(rng.random_range(0..8_000)));
                tokio::spawn(async move {
                    let call = api.produce("t", Some(0), vec![record("x".repeat(1_000))]);
                    drop(tokio::time::timeout(patience, call).await);
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        api.put("t", 0, "on the same connection").await;
    }
    api.put("t", 0, "still served").await;
}

/// Bytes that are no HTTP/2, half a preface, and connections that say nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strange_connections_disturb_nobody() {
    let broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 1).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let frame_of_a_gibibyte = [&preface[..], &[0x3f, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat();
    let noise: [&[u8]; 5] =
        [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", &preface[..10], &frame_of_a_gibibyte, &[0xff; 4_096]];
    let mut open = Vec::new();
    for round in 0..40 {
        let mut stream = TcpStream::connect(broker.address()).unwrap();
        // The broker may close it first.
        drop(stream.write_all(noise[round % noise.len()]));
        if round % 2 == 0 {
            open.push(stream);
        }
    }
    for n in 0..20 {
        assert_eq!(api.put("t", 0, format!("v{n}")).await, n);
    }
    let mut another = broker.api().await;
    assert_eq!(another.read_all("t", 0).await.len(), 20);
}
