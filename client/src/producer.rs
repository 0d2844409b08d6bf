//! Many produce requests on one stream.
//!
//! Invariants of [`ProducePipeline`]:
//! * `unanswered` holds, in the order of their sequences, every request that was pushed and not acknowledged. A request leaves
//!   it only from the front, by its own OK.
//! * While a stream is open, all of `unanswered` was handed to it in this order. A stream that failed is dropped and the next
//!   one starts with all of `unanswered`, each under its old sequence; so a retry neither reorders nor writes twice (the
//!   server remembers 128 sequences for each partition, and at most 64 are unanswered).
//! * Without an identity nothing is sent twice: the first failure ends the pipeline.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};
use wharf_proto::error::ApiError;
use wharf_proto::{google_rpc, v1};
use wharf_types::limits::PRODUCER_UNANSWERED_MAX;

use crate::client::Client;
use crate::error::ClientError;

const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// Longer than the server's own limit for a request, so that its answer, which says more, comes first.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(40);

/// How a pipeline writes.
#[derive(Debug, Clone)]
pub struct PipelineOptions {
    /// Topic of all records.
    pub topic: String,
    /// Partition of all records; by key where absent.
    pub partition: Option<i32>,
    /// When a request counts as written.
    pub acks: v1::Acks,
    /// Most requests without an answer: 1 to 64.
    pub unanswered_max: usize,
    /// Whether requests carry a producer identity and are retried.
    pub idempotent: bool,
    /// How long to go on trying without a single answer.
    pub retry_for: Duration,
}

/// What has been acknowledged so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// Requests.
    pub requests: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of keys, values, header names and header values in them.
    pub bytes: u64,
}

/// A request that failed for good. Those pushed before it are acknowledged, those after it are not.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{error}")]
pub struct RequestFailure {
    /// The tag that was given with the request.
    pub tag: u64,
    /// How many records it has.
    pub records: usize,
    /// How many requests after it were pushed and are not acknowledged either.
    pub requests_behind: usize,
    /// Why it failed.
    #[source]
    pub error: ClientError,
}

#[derive(Debug)]
struct Unanswered {
    sequence: i64,
    tag: u64,
    bytes: u64,
    request: v1::ProduceRequest,
}

#[derive(Debug)]
struct OpenStream {
    requests: mpsc::Sender<v1::ProduceStreamRequest>,
    answers: Streaming<v1::ProduceStreamResponse>,
}

#[derive(Debug, Default)]
struct Retry {
    failing_since: Option<Instant>,
    not_before: Option<Instant>,
    attempt: u32,
}

/// Writes requests to one topic on a stream, in order, with a bounded number unanswered.
#[derive(Debug)]
pub struct ProducePipeline {
    client: Client,
    options: PipelineOptions,
    identity: Option<(i64, i32)>,
    next_sequence: i64,
    unanswered: VecDeque<Unanswered>,
    stream: Option<OpenStream>,
    retry: Retry,
    acknowledged: Acknowledged,
}

impl ProducePipeline {
    /// A pipeline; asks for a producer identity if the options want one.
    ///
    /// # Errors
    /// What every call may end with.
    pub async fn open(client: &Client, mut options: PipelineOptions) -> Result<Self, ClientError> {
        options.unanswered_max = options.unanswered_max.clamp(1, PRODUCER_UNANSWERED_MAX);
        let identity = if options.idempotent {
            let request = client.request(v1::InitProducerRequest::default());
            let answer = client.decode(client.broker().init_producer(request).await)?;
            let problem = "an InitProducer answer without identity";
            let id = answer.producer_id.zip(answer.producer_epoch);
            Some(id.ok_or(ClientError::Protocol { problem })?)
        } else {
            None
        };
        Ok(ProducePipeline {
            client: client.clone(),
            options,
            identity,
            next_sequence: 0,
            unanswered: VecDeque::new(),
            stream: None,
            retry: Retry::default(),
            acknowledged: Acknowledged::default(),
        })
    }

    /// What has been acknowledged so far.
    #[must_use]
    pub fn acknowledged(&self) -> Acknowledged {
        self.acknowledged
    }

    /// How many requests have no answer yet.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// Sends records as one request, after waiting until there is room. `tag` comes back if the request fails.
    ///
    /// Not cancellation-safe: if the future is dropped the records may or may not have been sent.
    ///
    /// # Errors
    /// The first request that failed for good, which need not be this one. Nothing may be pushed after that.
    pub async fn push(&mut self, records: Vec<v1::Record>, tag: u64) -> Result<(), RequestFailure> {
        while self.unanswered.len() >= self.options.unanswered_max {
            self.next_answer().await?;
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let bytes = records.iter().map(record_bytes).sum();
        let producer = self.identity.map(|(producer_id, producer_epoch)| v1::ProducerSequence {
            producer_id,
            producer_epoch,
            sequence,
        });
        let request = v1::ProduceRequest {
            topic: self.options.topic.clone(),
            records,
            partition: self.options.partition,
            acks: self.options.acks.into(),
            producer,
            transaction_id: None,
        };
        self.unanswered.push_back(Unanswered { sequence, tag, bytes, request });
        match (&self.stream, self.unanswered.back()) {
            // The channel has room for as many as may be unanswered. If it is closed, the stream's end says why.
            (Some(stream), Some(last)) => drop(stream.requests.try_send(frame(last))),
            _ => self.ensure_stream().await?,
        }
        Ok(())
    }

    /// Waits for one acknowledgement, reconnecting and sending again where needed. Returns at once if nothing is unanswered.
    ///
    /// Cancellation-safe: a dropped future loses neither requests nor answers.
    ///
    /// # Errors
    /// The request that failed for good.
    pub async fn next_answer(&mut self) -> Result<(), RequestFailure> {
        while !self.unanswered.is_empty() {
            self.ensure_stream().await?;
            let Some(stream) = &mut self.stream else { continue };
            let error = match tokio::time::timeout(ANSWER_TIMEOUT, stream.answers.message()).await {
                Ok(Ok(Some(answer))) => match self.judge(answer) {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                },
                Ok(Ok(None)) => ClientError::ConnectionLost {
                    endpoint: self.client.options().endpoint.clone(),
                    cause: "the stream ended early".to_owned(),
                },
                Ok(Err(status)) => self.client.error(&status),
                Err(_) => ClientError::TimedOut { endpoint: self.client.options().endpoint.clone() },
            };
            self.stream = None;
            self.plan_retry(error)?;
        }
        Ok(())
    }

    /// Waits until everything is acknowledged.
    ///
    /// # Errors
    /// The first request that failed for good.
    pub async fn finish(&mut self) -> Result<Acknowledged, RequestFailure> {
        while !self.unanswered.is_empty() {
            self.next_answer().await?;
        }
        self.stream = None;
        Ok(self.acknowledged)
    }

    /// Opens a stream and hands all that is unanswered to it. On a failure that may pass, leaves no stream and a time before
    /// which not to try again.
    async fn ensure_stream(&mut self) -> Result<(), RequestFailure> {
        if self.stream.is_some() {
            return Ok(());
        }
        if let Some(not_before) = self.retry.not_before {
            tokio::time::sleep_until(not_before).await;
            self.retry.not_before = None;
        }
        let (requests, receiver) = mpsc::channel(PRODUCER_UNANSWERED_MAX);
        for unanswered in &self.unanswered {
            // There is room: the channel holds as many as may be unanswered, and the receiver is alive.
            drop(requests.try_send(frame(unanswered)));
        }
        match self.client.broker().produce_stream(ReceiverStream::new(receiver)).await {
            Ok(response) => {
                self.stream = Some(OpenStream { requests, answers: response.into_inner() });
                Ok(())
            }
            Err(status) => {
                let error = self.client.error(&status);
                self.plan_retry(error)
            }
        }
    }

    /// Takes an answer in: counts it, or tells why the front request failed.
    fn judge(&mut self, answer: v1::ProduceStreamResponse) -> Result<(), ClientError> {
        let front = self.unanswered.front().map(|front| front.sequence);
        if front != Some(answer.request_id) {
            return Err(ClientError::Protocol { problem: "answers of a produce stream out of order" });
        }
        match answer.result {
            Some(v1::produce_stream_response::Result::Ok(_)) => {
                if let Some(done) = self.unanswered.pop_front() {
                    self.acknowledged.requests += 1;
                    self.acknowledged.records += done.request.records.len() as u64;
                    self.acknowledged.bytes += done.bytes;
                }
                self.retry = Retry::default();
                Ok(())
            }
            Some(v1::produce_stream_response::Result::Error(status)) => Err(stream_error(&status)),
            None => Err(ClientError::Protocol { problem: "a produce answer without result" }),
        }
    }

    /// Decides whether a failure is worth another stream, and when.
    fn plan_retry(&mut self, error: ClientError) -> Result<(), RequestFailure> {
        let now = Instant::now();
        let since = *self.retry.failing_since.get_or_insert(now);
        let worthwhile = self.options.idempotent && error.is_transient();
        if !worthwhile || now.duration_since(since) >= self.options.retry_for {
            return Err(self.failure(error));
        }
        let pause =
            backoff(self.retry.attempt, rand::random::<f64>()).max(error.retry_after().unwrap_or_default());
        self.retry.attempt += 1;
        self.retry.not_before = Some(now + pause);
        Ok(())
    }

    fn failure(&self, error: ClientError) -> RequestFailure {
        let front = self.unanswered.front();
        RequestFailure {
            tag: front.map_or(0, |front| front.tag),
            records: front.map_or(0, |front| front.request.records.len()),
            requests_behind: self.unanswered.len().saturating_sub(1),
            error,
        }
    }
}

fn frame(unanswered: &Unanswered) -> v1::ProduceStreamRequest {
    v1::ProduceStreamRequest {
        request_id: unanswered.sequence,
        request: Some(unanswered.request.clone()),
        timeout_ms: 0,
    }
}

/// The error of one request of a stream.
pub(crate) fn stream_error(status: &google_rpc::Status) -> ClientError {
    match ApiError::from_rpc_status(status) {
        Some(api) => ClientError::Api(Box::new(api)),
        None => ClientError::Foreign { code: Code::from(status.code), message: status.message.clone() },
    }
}

/// Bytes of a record as it is counted in summaries: without the overhead that limits count.
fn record_bytes(record: &v1::Record) -> u64 {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let bytes = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    let headers: usize = record
        .headers
        .iter()
        .map(|header| header.name.len() + bytes(&header.value) + text(&header.value_text))
        .sum();
    let total = bytes(&record.key) + text(&record.key_text) + bytes(&record.value) + text(&record.value_text);
    (total + headers) as u64
}

/// The pause before try number `attempt`: doubling, between half and all of it by `jitter` (0 to 1).
fn backoff(attempt: u32, jitter: f64) -> Duration {
    let full = BACKOFF_FIRST.saturating_mul(1 << attempt.min(16)).min(BACKOFF_MAX);
    full.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_limit() {
        assert_eq!(backoff(0, 1.0), BACKOFF_FIRST);
        assert_eq!(backoff(1, 1.0), BACKOFF_FIRST * 2);
        assert_eq!(backoff(40, 1.0), BACKOFF_MAX);
        assert_eq!(backoff(40, 0.0), BACKOFF_MAX / 2);
    }

    #[test]
    fn record_bytes_count_what_the_user_gave() {
        let record = v1::Record {
            key: Some("key".into()),
            value_text: Some("value".into()),
            headers: vec![v1::Header { name: "h".into(), value: Some("v".into()), value_text: None }],
            ..Default::default()
        };
        assert_eq!(record_bytes(&record), 10);
    }
}
