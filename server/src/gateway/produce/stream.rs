//! `ProduceStream`: pipelined requests, answered in order (R10).
//!
//! One task reads and submits, so that the requests enter each partition in the order of the stream; the response
//! stream awaits the answers in that order. What is unanswered is bounded by count and by the gateway's budget, and
//! the transport's flow control holds the client back.
//!
//! After the first failure of a sequenced request, the requests that the client had sent already still get their
//! answers (`PREDECESSOR_FAILED` for those of the same producer), then the stream ends with that failure.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};
use wharf_proto::error::{ApiError, Applied};
use wharf_types::{ProducerId, limits};

use super::fence::{FirstFailure, StreamFence};
use super::{PendingProduce, Submission};
use crate::gateway::admin::auto_create;
use crate::gateway::{Gateway, errors, layers};
use crate::proto::{
    ProduceRequest, ProduceResponse, ProduceStreamRequest, ProduceStreamResponse, produce_stream_response,
};

/// Most unanswered requests of one stream.
const UNANSWERED_MAX: usize = 256;
/// How long a failed stream is read on for requests that were sent before the client could know.
const DRAIN_IDLE: Duration = Duration::from_millis(50);
/// Most requests that are read on then.
const DRAIN_REQUESTS_MAX: usize = 1_024;

type Outcome = Result<ProduceResponse, ApiError>;

/// A place in the order of the answers.
struct Place {
    request_id: i64,
    /// Ties the request to its producer's others on this stream; none for requests without a producer.
    fence: Option<Arc<StreamFence>>,
    outcome: BoxFuture<'static, Outcome>,
    /// The producer's place among its unanswered requests.
    _permit: Option<OwnedSemaphorePermit>,
}

/// Serves one stream.
pub(crate) fn produce_stream(
    gateway: Arc<Gateway>,
    inbound: Streaming<ProduceStreamRequest>,
) -> impl Stream<Item = Result<ProduceStreamResponse, Status>> + Send + 'static {
    let (places, awaited) = mpsc::channel(UNANSWERED_MAX);
    let failed = CancellationToken::new();
    let tasks = gateway.tasks.clone();
    let reader = Reader { gateway, producers: HashMap::new(), failed: failed.clone() };
    tasks.spawn(reader.run(inbound, places));
    answers(Answers { awaited, failed, ending: None })
}

struct Answers {
    awaited: mpsc::Receiver<Result<Place, Status>>,
    failed: CancellationToken,
    /// What the stream will end with.
    ending: Option<Status>,
}

fn answers(answers: Answers) -> impl Stream<Item = Result<ProduceStreamResponse, Status>> + Send + 'static {
    futures::stream::unfold(answers, |mut answers| async move {
        loop {
            match answers.awaited.recv().await {
                Some(Ok(place)) => {
                    let outcome = place.outcome.await;
                    if let (Err(error), Some(fence)) = (&outcome, &place.fence) {
                        fence.fail();
                        answers.failed.cancel();
                        answers.ending.get_or_insert_with(|| error.clone().into_status());
                    }
                    return Some((Ok(response(place.request_id, outcome)), answers));
                }
                Some(Err(status)) => {
                    answers.ending.get_or_insert(status);
                }
                None => return answers.ending.take().map(|status| (Err(status), answers)),
            }
        }
    })
}

fn response(request_id: i64, outcome: Outcome) -> ProduceStreamResponse {
    let result = match outcome {
        Ok(ok) => produce_stream_response::Result::Ok(ok),
        Err(error) => produce_stream_response::Result::Error(error.to_rpc_status()),
    };
    ProduceStreamResponse { request_id, result: Some(result) }
}

/// One producer on one stream.
struct StreamProducer {
    first_failure: FirstFailure,
    /// Requests that were read.
    requests: u64,
    unanswered: Arc<Semaphore>,
}

struct Reader {
    gateway: Arc<Gateway>,
    producers: HashMap<ProducerId, StreamProducer>,
    failed: CancellationToken,
}

impl Reader {
    async fn run(
        mut self,
        mut inbound: Streaming<ProduceStreamRequest>,
        places: mpsc::Sender<Result<Place, Status>>,
    ) {
        let drain = self.gateway.drain.clone();
        loop {
            let message = tokio::select! {
                biased;
                () = self.failed.cancelled() => break,
                () = drain.cancelled() => {
                    // The stream's reader may be gone already; so below.
                    drop(places.send(Err(errors::draining().into_status())).await);
                    return;
                }
                message = inbound.message() => message,
            };
            let message = match message {
                Ok(Some(message)) => message,
                Ok(None) => return,
                Err(status) => {
                    drop(places.send(Err(layers::translate(status))).await);
                    return;
                }
            };
            let place = tokio::select! {
                // After a failure it ends soon: by its fence, or by its deadline.
                place = self.place(message) => place,
                () = drain.cancelled() => {
                    drop(places.send(Err(errors::draining().into_status())).await);
                    return;
                }
            };
            if places.send(Ok(place)).await.is_err() {
                return;
            }
        }
        for _ in 0..DRAIN_REQUESTS_MAX {
            let Ok(Ok(Some(message))) = timeout(DRAIN_IDLE, inbound.message()).await else { return };
            let place = self.place(message).await;
            if places.send(Ok(place)).await.is_err() {
                return;
            }
        }
    }

    async fn place(&mut self, message: ProduceStreamRequest) -> Place {
        let request_id = message.request_id;
        let timeout = match message.timeout_ms {
            0 => u64::from(limits::DEADLINE_DEFAULT_MS),
            timeout_ms => u64::try_from(timeout_ms).unwrap_or(0),
        };
        let limit = Duration::from_millis(timeout.min(u64::from(limits::DEADLINE_DEFAULT_MS)));
        let sequenced = message.request.as_ref().and_then(|request| request.producer.as_ref());
        let producer_id = sequenced.and_then(|producer| ProducerId::from_wire(producer.producer_id).ok());
        let Some(producer_id) = producer_id else {
            let outcome = self.outcome(message, limit, None).await;
            return Place { request_id, fence: None, outcome, _permit: None };
        };
        let producer = self.producers.entry(producer_id).or_insert_with(|| StreamProducer {
            first_failure: FirstFailure::default(),
            requests: 0,
            unanswered: Arc::new(Semaphore::new(limits::PRODUCER_UNANSWERED_MAX)),
        });
        let fence = Arc::new(StreamFence::new(&producer.first_failure, producer.requests));
        producer.requests += 1;
        // The semaphore is never closed.
        let permit = Arc::clone(&producer.unanswered).acquire_owned().await.ok();
        let outcome = self.outcome(message, limit, Some(&fence)).await;
        Place { request_id, fence: Some(fence), outcome, _permit: permit }
    }

    /// Submits a request; what comes back resolves to its answer.
    async fn outcome(
        &self,
        message: ProduceStreamRequest,
        limit: Duration,
        fence: Option<&Arc<StreamFence>>,
    ) -> BoxFuture<'static, Outcome> {
        let deadline = Instant::now() + limit;
        if fence.is_some_and(|fence| fence.has_failed()) {
            return ready(Err(errors::predecessor_failed(Applied::None)));
        }
        let negative = message.timeout_ms < 0;
        let submitted = match message.request {
            _ if negative => {
                Err(ApiError::invalid("timeout_ms", "is negative; 0 means 30 s").with_applied(Applied::None))
            }
            None => Err(ApiError::invalid("request", "is not set").with_applied(Applied::None)),
            Some(request) => match timeout_at(deadline, self.submit(request, fence)).await {
                Ok(submitted) => submitted,
                // Of several partitions some may have got their share.
                Err(_) => Err(errors::timeout(limit).with_applied(Applied::Unknown)),
            },
        };
        match submitted {
            Ok(pending) => Box::pin(async move {
                match timeout_at(deadline, pending.finish()).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(errors::timeout(limit).with_applied(Applied::Unknown)),
                }
            }),
            Err(error) => {
                if let Some(fence) = fence {
                    fence.fail();
                }
                ready(Err(error))
            }
        }
    }
}

impl Reader {
    async fn submit(
        &self,
        request: ProduceRequest,
        fence: Option<&Arc<StreamFence>>,
    ) -> Result<PendingProduce, ApiError> {
        auto_create(&self.gateway, &request).await?;
        let submission = Submission::check(&self.gateway, request)?;
        self.gateway.pipelines.budget.take(submission.budget_bytes()).await;
        submission.submit(&self.gateway, fence).await
    }
}

fn ready(outcome: Outcome) -> BoxFuture<'static, Outcome> {
    Box::pin(std::future::ready(outcome))
}
