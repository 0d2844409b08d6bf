//! ProduceStream: answers in order, failures that break no order, and its bounds.

#![allow(clippy::unwrap_used)]

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use wharf_proto::error::{ApiError, Applied};
use wharf_proto::v1::produce_stream_response::Result as Answer;
use wharf_proto::v1::{
    ErrorReason, ProduceRequest, ProduceStreamRequest, ProduceStreamResponse, ProducerSequence, Record,
};
use wharf_tests::api::{Api, record};
use wharf_tests::broker::Broker;

fn request(
    request_id: i64,
    topic: &str,
    record: Record,
    producer: Option<ProducerSequence>,
) -> ProduceStreamRequest {
    let request = ProduceRequest {
        topic: topic.into(),
        records: vec![record],
        partition: Some(0),
        producer,
        ..Default::default()
    };
    ProduceStreamRequest { request_id, request: Some(request), timeout_ms: 0 }
}

/// Sends all at once and closes the stream; its answers and what it ended with.
async fn exchange(
    api: &mut Api,
    requests: Vec<ProduceStreamRequest>,
) -> (Vec<ProduceStreamResponse>, Option<Status>) {
    let answers = api.broker.produce_stream(tokio_stream::iter(requests)).await.unwrap().into_inner();
    collect(answers).await
}

async fn collect(
    mut answers: Streaming<ProduceStreamResponse>,
) -> (Vec<ProduceStreamResponse>, Option<Status>) {
    let mut got = Vec::new();
    loop {
        match answers.message().await {
            Ok(Some(answer)) => got.push(answer),
            Ok(None) => return (got, None),
            Err(status) => return (got, Some(status)),
        }
    }
}

fn error_of(answer: &ProduceStreamResponse) -> ApiError {
    match answer.result.as_ref().unwrap() {
        Answer::Ok(ok) => panic!("an error was expected, not {ok:?}"),
        Answer::Error(status) => ApiError::from_rpc_status(status).expect("an error of the contract"),
    }
}

fn offset_of(answer: &ProduceStreamResponse) -> i64 {
    match answer.result.as_ref().unwrap() {
        Answer::Ok(ok) => ok.positions[0].offset.unwrap(),
        Answer::Error(status) => panic!("{:?}", ApiError::from_rpc_status(status)),
    }
}

async fn started() -> (Broker, Api) {
    let broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 1).await;
    (broker, api)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_come_in_order_and_repeat_the_ids() {
    let (_broker, mut api) = started().await;
    let requests = (0..500).map(|n| request(n * 7, "t", record(format!("v{n}")), None)).collect();
    let (answers, end) = exchange(&mut api, requests).await;
    assert!(end.is_none(), "{end:?}");
    assert_eq!(
        answers.iter().map(|a| a.request_id).collect::<Vec<_>>(),
        (0..500).map(|n| n * 7).collect::<Vec<_>>()
    );
    assert_eq!(answers.iter().map(offset_of).collect::<Vec<_>>(), (0..500).collect::<Vec<_>>());
    let read = api.read_all("t", 0).await;
    assert!(read.iter().enumerate().all(|(n, r)| r.value.as_deref() == Some(format!("v{n}").as_bytes())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_without_a_producer_fail_alone() {
    let (_broker, mut api) = started().await;
    let mut requests: Vec<_> = (0..6).map(|n| request(n, "t", record("v"), None)).collect();
    requests[1] = request(1, "nope", record("v"), None);
    requests[2] = request(2, "t", Record::default(), None);
    requests[3] = ProduceStreamRequest { request_id: 3, request: None, timeout_ms: 0 };
    requests[4].timeout_ms = -1;
    let (answers, end) = exchange(&mut api, requests).await;
    assert!(end.is_none(), "{end:?}");
    assert_eq!((offset_of(&answers[0]), offset_of(&answers[5])), (0, 1));
    let reasons = [
        ErrorReason::TopicNotFound,
        ErrorReason::InvalidRecord,
        ErrorReason::InvalidRequest,
        ErrorReason::InvalidRequest,
    ];
    for (answer, reason) in answers[1..5].iter().zip(reasons) {
        let error = error_of(answer);
        assert_eq!((error.reason, &error.applied), (reason, &Some(Applied::None)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failure_nothing_of_the_producer_overtakes_it() {
    let (_broker, mut api) = started().await;
    let producer = api.producer().await;
    let other = api.producer().await;
    let with = |producer: ProducerSequence, sequence| Some(ProducerSequence { sequence, ..producer });
    let requests = vec![
        request(0, "t", record("a0"), with(producer, 0)),
        request(1, "t", Record::default(), with(producer, 1)),
        request(2, "t", record("a2"), with(producer, 2)),
        request(3, "t", record("b0"), with(other, 0)),
        request(4, "t", record("plain"), None),
        request(5, "t", record("a3"), with(producer, 3)),
    ];
    let (answers, end) = exchange(&mut api, requests).await;
    // What was sent before the client could know is answered; then the stream ends with the failure.
    let status = end.expect("the stream ends with the first failure");
    assert_eq!(ApiError::from_status(&status).unwrap().reason, ErrorReason::InvalidRecord);
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(answers.len(), 6, "{answers:?}");
    assert_eq!(offset_of(&answers[0]), 0);
    assert_eq!(error_of(&answers[1]).reason, ErrorReason::InvalidRecord);
    for late in [2, 5] {
        let error = error_of(&answers[late]);
        assert_eq!((error.reason, error.code), (ErrorReason::PredecessorFailed, Code::FailedPrecondition));
        assert_eq!(error.applied, Some(Applied::None));
    }
    assert_eq!((offset_of(&answers[3]), offset_of(&answers[4])), (1, 2));
    // Sent again under the same sequences they are written, in order.
    let again = (1..4).map(|n| request(n, "t", record(format!("a{n}")), with(producer, n))).collect();
    let (answers, end) = exchange(&mut api, again).await;
    assert!(end.is_none());
    assert_eq!(answers.iter().map(offset_of).collect::<Vec<_>>(), [3, 4, 5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_producer_ends_its_stream() {
    let (_broker, mut api) = started().await;
    let producer = api.producer().await;
    let next = ProducerSequence { producer_epoch: producer.producer_epoch + 1, ..producer };
    api.produce_as("t", Some(0), next, vec![record("newer")]).await.unwrap();
    let with = |sequence| Some(ProducerSequence { sequence, ..producer });
    let requests = (0..20).map(|n| request(n, "t", record("v"), with(n))).collect();
    let (answers, end) = exchange(&mut api, requests).await;
    assert_eq!(ApiError::from_status(&end.unwrap()).unwrap().reason, ErrorReason::ProducerFenced);
    assert_eq!(answers.len(), 20);
    for answer in &answers {
        let reason = error_of(answer).reason;
        assert!(matches!(reason, ErrorReason::ProducerFenced | ErrorReason::PredecessorFailed), "{reason:?}");
    }
    assert_eq!(api.high_watermark("t", 0).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_more_than_64_requests_may_be_sent() {
    let (_broker, mut api) = started().await;
    let producer = api.producer().await;
    let with = |sequence| Some(ProducerSequence { sequence, ..producer });
    let requests = (0..1_000).map(|n| request(n, "t", record("v"), with(n))).collect();
    let (answers, end) = exchange(&mut api, requests).await;
    assert!(end.is_none(), "{end:?}");
    assert_eq!(answers.iter().map(offset_of).collect::<Vec<_>>(), (0..1_000).collect::<Vec<_>>());
    let repeat = request(0, "t", record("v"), with(999));
    let (answers, _) = exchange(&mut api, vec![repeat]).await;
    assert_eq!(offset_of(&answers[0]), 999);
    assert!(matches!(answers[0].result.as_ref().unwrap(), Answer::Ok(ok) if ok.duplicate));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_comes_while_the_stream_stays_open() {
    let (_broker, mut api) = started().await;
    let (requests, outbound) = mpsc::channel(4);
    requests.send(request(1, "t", record("v"), None)).await.unwrap();
    let mut answers = api.broker.produce_stream(ReceiverStream::new(outbound)).await.unwrap().into_inner();
    assert_eq!(offset_of(&answers.message().await.unwrap().unwrap()), 0);
    requests.send(request(2, "t", record("v"), None)).await.unwrap();
    assert_eq!(offset_of(&answers.message().await.unwrap().unwrap()), 1);
    drop(requests);
    assert!(answers.message().await.unwrap().is_none());
}

/// A client that goes away in the middle leaves whole requests, and nothing of them twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_streams_leave_no_torn_state() {
    let (broker, mut api) = started().await;
    let producer = api.producer().await;
    let with = |sequence| Some(ProducerSequence { sequence, ..producer });
    for round in 0..20_i64 {
        let mut gone = broker.api().await;
        let requests: Vec<_> = (0..5)
            .map(|n| request(n, "t", record(format!("{}", round * 5 + n)), with(round * 5 + n)))
            .collect();
        let mut answers =
            gone.broker.produce_stream(tokio_stream::iter(requests.clone())).await.unwrap().into_inner();
        answers.message().await.unwrap().unwrap();
        drop(answers);
        drop(gone);
        let (answers, end) = exchange(&mut api, requests).await;
        assert!(end.is_none(), "{end:?}");
        assert_eq!(answers.len(), 5);
    }
    let values: Vec<_> = api
        .read_all("t", 0)
        .await
        .into_iter()
        .map(|r| String::from_utf8(r.value.unwrap().to_vec()).unwrap())
        .collect();
    assert_eq!(values, (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
}
