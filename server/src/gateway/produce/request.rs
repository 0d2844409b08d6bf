//! One produce request: its checks, its parts, its answer.

use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::oneshot;
use wharf_proto::error::{ApiError, Applied};
use wharf_proto::v1::ErrorReason;
use wharf_types::{PartitionIndex, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicConfig, limits};

use super::budget::BudgetShare;
use super::fence::StreamFence;
use super::partitioning::{Spread, spread};
use super::pipeline::{Part, PartAnswer, PartResult, PushRefused, SequenceKey};
use super::record::{check_record, record_bytes};
use crate::gateway::Gateway;
use crate::gateway::errors::{self, ProduceError};
use crate::gateway::retry;
use crate::gateway::routing::TopicRoute;
use crate::proto::{Acks, ProduceRequest, ProduceResponse, RecordPosition};
use crate::storage_api::{SequenceQuery, StorageError};

/// A request that passed its checks.
pub(crate) struct Submission {
    route: Arc<TopicRoute>,
    request: ProduceRequest,
    producer: Option<SequenceKey>,
    acks: Acks,
    bytes: usize,
}

/// A request whose parts have their places; what is left is to wait.
pub(crate) struct PendingProduce {
    route: Arc<TopicRoute>,
    acks: Acks,
    record_count: usize,
    parts: Vec<PendingPart>,
}

struct PendingPart {
    partition: PartitionIndex,
    /// The records of the request in this part; all of them if none.
    selection: Option<Vec<u32>>,
    answer: oneshot::Receiver<PartResult>,
}

/// What the records of a request weigh beyond their sizes in the gateway's budget.
const REQUEST_OVERHEAD_BYTES: usize = 512;

impl Submission {
    /// Checks a request against the contract.
    ///
    /// # Errors
    /// The error of api.md for the first thing that is wrong; nothing was written.
    pub(crate) fn check(gateway: &Gateway, request: ProduceRequest) -> Result<Self, ApiError> {
        let none = |error: ApiError| error.with_applied(Applied::None);
        if request.transaction_id.is_some() {
            return Err(none(ApiError::invalid(
                "transaction_id",
                "transactions are not served yet; leave it unset",
            )));
        }
        let acks = check_acks(request.acks).map_err(none)?;
        let producer = check_producer(gateway, &request).map_err(none)?;
        let route = gateway.routing.resolve(&request.topic).map_err(none)?;
        if request.records.is_empty() {
            return Err(none(ApiError::invalid("records", "the request has no records; send at least one")));
        }
        if request.records.len() > limits::RECORDS_PER_REQUEST_MAX {
            return Err(none(too_many_records(request.records.len())));
        }
        let bytes = check_records(&request, &route.config)?;
        check_encoded_size(&request, bytes).map_err(none)?;
        Ok(Submission { route, request, producer, acks, bytes })
    }

    /// What the request holds of the gateway's buffer while it is unanswered.
    pub(crate) fn budget_bytes(&self) -> usize {
        self.bytes + REQUEST_OVERHEAD_BYTES
    }

    /// Takes the places of all parts. The budget for [`Submission::budget_bytes`] was taken before, and is given
    /// back by the pipelines.
    ///
    /// # Errors
    /// As [`spread`]; nothing was written.
    pub(crate) async fn submit(
        self,
        gateway: &Gateway,
        fence: Option<&Arc<StreamFence>>,
    ) -> Result<PendingProduce, ApiError> {
        let Submission { route, request, producer, acks, bytes } = self;
        let mut share = BudgetShare::new(&gateway.pipelines.budget, bytes + REQUEST_OVERHEAD_BYTES);
        let now = gateway.clock.now();
        let spread = place_request(gateway, &route, &request, producer, now)
            .await
            .map_err(|error| error.with_applied(Applied::None))?;
        let hashed_over = |hashed: bool| hashed.then(|| route.partition_count());
        let part = Part {
            records: &request.records,
            selection: None,
            producer,
            hashed_over: None,
            arrival_ms: now.to_wire(),
            fence,
            bytes: share.bytes(),
            fire_and_forget: acks == Acks::None,
        };
        let parts = match spread {
            Spread::One { partition, hashed } => {
                let part = Part { hashed_over: hashed_over(hashed), ..part };
                let answer = push(&route, partition, &part, &mut share).await;
                vec![PendingPart { partition, selection: None, answer }]
            }
            Spread::Several { parts, hashed } => {
                let mut pending = Vec::with_capacity(parts.len());
                let last = parts.len() - 1;
                for (index, (partition, selection)) in parts.into_iter().enumerate() {
                    let records = selection.iter().filter_map(|&index| request.records.get(index as usize));
                    let weight = records.map(record_bytes).sum::<usize>();
                    let bytes = if index == last { share.bytes() } else { weight.min(share.bytes()) };
                    let part =
                        Part { selection: Some(&selection), hashed_over: hashed_over(hashed), bytes, ..part };
                    let answer = push(&route, partition, &part, &mut share).await;
                    pending.push(PendingPart { partition, selection: Some(selection), answer });
                }
                pending
            }
        };
        Ok(PendingProduce { route, acks, record_count: request.records.len(), parts })
    }
}

/// Chooses the partitions. For a while after the topic has grown, a sequenced request that the old count's partitions
/// remember goes there again, to meet its first try (R10).
async fn place_request(
    gateway: &Gateway,
    route: &TopicRoute,
    request: &ProduceRequest,
    producer: Option<SequenceKey>,
    now: TimestampMs,
) -> Result<Spread, ApiError> {
    if let (Some(key), Some(old_count), None) = (producer, route.count_before_growth(), request.partition) {
        let old = spread(route, request, producer, old_count, now)?;
        for partition in old.partitions() {
            // The first try may still be on its way, or in the log.
            let on_its_way = route.pipeline(partition).is_some_and(|pipeline| pipeline.is_pending(&key));
            if on_its_way || is_remembered(gateway, route, partition, key).await? {
                return Ok(old.without_hash());
            }
        }
    }
    spread(route, request, producer, route.partition_count(), now)
}

/// Asks the leader, under the new partition count: it answers once it knows that count, and so refuses from then on
/// what was placed under the old one.
async fn is_remembered(
    gateway: &Gateway,
    route: &TopicRoute,
    partition: PartitionIndex,
    key: SequenceKey,
) -> Result<bool, ApiError> {
    let query = SequenceQuery {
        partition: route.partition_id(partition),
        partition_count: route.partition_count(),
        producer_id: key.producer_id,
        epoch: key.epoch,
        sequence: key.sequence,
    };
    retry::while_retriable(gateway, StorageError::is_retriable, || gateway.storage.remembers(query))
        .await
        .map_err(|error| errors::storage_error(&route.name, &error))
}

/// Pushes a part, waiting while its producer has too much unanswered on the partition (R10).
async fn push(
    route: &TopicRoute,
    partition: PartitionIndex,
    part: &Part<'_>,
    share: &mut BudgetShare<'_>,
) -> oneshot::Receiver<PartResult> {
    loop {
        let Some(pipeline) = route.pipeline(partition) else {
            let (answer, receiver) = oneshot::channel();
            // The receiver is in hand, so the answer arrives.
            drop(answer.send(Err(ProduceError::TopicGone)));
            return receiver;
        };
        let answered = pipeline.answered();
        match pipeline.push(part) {
            Ok(receiver) => {
                share.hand_on(part.bytes);
                return receiver;
            }
            Err(PushRefused::ProducerWindowFull) => answered.await,
        }
    }
}

impl PendingProduce {
    /// Waits for all parts and puts their answers together.
    ///
    /// # Errors
    /// The first error of a part, with what is known of the others.
    pub(crate) async fn finish(self) -> Result<ProduceResponse, ApiError> {
        let PendingProduce { route, acks, record_count, parts } = self;
        if acks == Acks::None {
            let mut positions = vec![RecordPosition::default(); record_count];
            for part in &parts {
                place(&mut positions, part, None);
            }
            return Ok(ProduceResponse { positions, duplicate: false });
        }
        if let [part] = parts.as_slice()
            && part.selection.is_none()
        {
            return finish_one(&route, record_count, parts).await;
        }
        let answers = join_all(parts.into_iter().map(|part| async move {
            let (partition, selection) = (part.partition, part.selection);
            let result = part.answer.await.unwrap_or(Err(ProduceError::Timeout));
            (partition, selection, result)
        }))
        .await;
        assemble(&route, record_count, &answers)
    }
}

async fn finish_one(
    route: &TopicRoute,
    record_count: usize,
    parts: Vec<PendingPart>,
) -> Result<ProduceResponse, ApiError> {
    let mut positions = vec![RecordPosition::default(); record_count];
    let mut duplicate = false;
    for part in parts {
        let partition = part.partition;
        let answer = part
            .answer
            .await
            .unwrap_or(Err(ProduceError::Timeout))
            .map_err(|error| errors::produce_error(&route.name, &error))?;
        place_all(&mut positions, partition, &answer);
        duplicate = answer.duplicate;
    }
    Ok(ProduceResponse { positions, duplicate })
}

type PartOutcome = (PartitionIndex, Option<Vec<u32>>, PartResult);

fn assemble(
    route: &TopicRoute,
    record_count: usize,
    answers: &[PartOutcome],
) -> Result<ProduceResponse, ApiError> {
    let mut positions = vec![RecordPosition::default(); record_count];
    let mut duplicate = true;
    let mut failed: Option<ApiError> = None;
    let mut any_unknown = false;
    let mut written = String::new();
    for (partition, selection, result) in answers {
        match result {
            Ok(answer) => {
                duplicate &= answer.duplicate;
                let selection = selection.as_deref().unwrap_or_default();
                for (nth, &index) in selection.iter().enumerate() {
                    if let Some(position) = positions.get_mut(index as usize) {
                        *position = position_of(*partition, answer, nth);
                    }
                }
                describe_written(&mut written, *partition, answer, selection.len());
            }
            Err(error) => {
                let error = errors::produce_error(&route.name, error);
                any_unknown |= error.applied != Some(Applied::None);
                failed.get_or_insert(error);
            }
        }
    }
    let Some(error) = failed else { return Ok(ProduceResponse { positions, duplicate }) };
    Err(error.with_applied(match (any_unknown, written.is_empty()) {
        (true, _) => Applied::Unknown,
        (false, true) => Applied::None,
        (false, false) => Applied::Some(written),
    }))
}

/// Appends `partition:first-last` of what was written, for the error of a request that was written in part.
fn describe_written(written: &mut String, partition: PartitionIndex, answer: &PartAnswer, records: usize) {
    let Some(base) = answer.base_offset else { return };
    if !written.is_empty() {
        written.push(',');
    }
    let last = base.plus(records.saturating_sub(1) as u64);
    written.push_str(&format!("{partition}:{base}-{last}"));
}

fn position_of(partition: PartitionIndex, answer: &PartAnswer, nth: usize) -> RecordPosition {
    RecordPosition {
        partition: Some(partition.to_wire()),
        offset: answer.base_offset.map(|base| base.plus(nth as u64).to_wire()),
    }
}

fn place_all(positions: &mut [RecordPosition], partition: PartitionIndex, answer: &PartAnswer) {
    for (nth, position) in positions.iter_mut().enumerate() {
        *position = position_of(partition, answer, nth);
    }
}

fn place(positions: &mut [RecordPosition], part: &PendingPart, base_offset: Option<wharf_types::Offset>) {
    let answer = PartAnswer { base_offset, duplicate: false };
    match &part.selection {
        None => place_all(positions, part.partition, &answer),
        Some(selection) => {
            for (nth, &index) in selection.iter().enumerate() {
                if let Some(position) = positions.get_mut(index as usize) {
                    *position = position_of(part.partition, &answer, nth);
                }
            }
        }
    }
}

fn check_acks(acks: i32) -> Result<Acks, ApiError> {
    match Acks::try_from(acks) {
        Ok(Acks::Unspecified) => Ok(Acks::All),
        Ok(acks) => Ok(acks),
        Err(_) => {
            Err(ApiError::invalid("acks", format!("{acks} is not one of ACKS_NONE, ACKS_LEADER, ACKS_ALL")))
        }
    }
}

fn check_producer(gateway: &Gateway, request: &ProduceRequest) -> Result<Option<SequenceKey>, ApiError> {
    let Some(producer) = &request.producer else { return Ok(None) };
    let producer_id = ProducerId::from_wire(producer.producer_id)
        .map_err(|error| ApiError::invalid("producer.producer_id", error.to_string()))?;
    if !gateway.is_known_producer(producer_id) {
        return Err(ApiError::invalid(
            "producer.producer_id",
            format!("{producer_id} was never handed out; get one with BrokerService/InitProducer"),
        ));
    }
    let epoch = u32::try_from(producer.producer_epoch)
        .map_err(|_| ApiError::invalid("producer.producer_epoch", "is negative"))?;
    let sequence = u64::try_from(producer.sequence)
        .map_err(|_| ApiError::invalid("producer.sequence", "is negative; it counts requests from 0"))?;
    Ok(Some(SequenceKey { producer_id, epoch: ProducerEpoch::new(epoch), sequence: Sequence::new(sequence) }))
}

/// Most bytes of a header's encoding beside its name and value.
const HEADER_WIRE_OVERHEAD: usize = 16;

fn check_encoded_size(request: &ProduceRequest, records_bytes: usize) -> Result<(), ApiError> {
    // A record's encoding takes less than the 64 bytes that its size counts beside its contents, but for its headers.
    let headers: usize = request.records.iter().map(|record| record.headers.len()).sum();
    let bound = records_bytes + headers * HEADER_WIRE_OVERHEAD + REQUEST_OVERHEAD_BYTES;
    if bound <= limits::PRODUCE_REQUEST_BYTES_MAX {
        return Ok(());
    }
    let size = prost::Message::encoded_len(request);
    if size <= limits::PRODUCE_REQUEST_BYTES_MAX {
        return Ok(());
    }
    Err(request_too_large(size, limits::PRODUCE_REQUEST_BYTES_MAX))
}

/// The error for a request above its limit.
pub(crate) fn request_too_large(size: usize, limit: usize) -> ApiError {
    ApiError::invalid_as(
        ErrorReason::RequestTooLarge,
        "request",
        format!("it has {size} bytes; at most {limit} are allowed, so send fewer records at once"),
    )
    .with_metadata("limit", limit)
    .with_metadata("size", size)
}

/// The error for a request with too many records.
fn too_many_records(actual: usize) -> ApiError {
    ApiError::invalid(
        "records",
        format!("{actual} records; at most {} are allowed in one request", limits::RECORDS_PER_REQUEST_MAX),
    )
}

fn check_records(request: &ProduceRequest, config: &TopicConfig) -> Result<usize, ApiError> {
    let mut bytes = 0;
    for (index, record) in request.records.iter().enumerate() {
        bytes += check_record(record, config).map_err(|error| error.into_api(index))?;
    }
    Ok(bytes)
}
