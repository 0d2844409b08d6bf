//! Producers under load, and the checker of what they were promised.
//!
//! Each value is written once and names its request, so that a record tells where it comes from. A request ends as
//! acknowledged (each record is at its position for ever), refused (nothing was written) or unknown. What the checker
//! demands after a crash:
//!
//! * offsets of each partition are dense, and no value is there twice;
//! * every acknowledged record is at its offset with its bytes;
//! * nothing of a refused request is there; of an unknown one, for each partition all of it or nothing;
//! * a retry under the same sequence tells the first positions where they were acknowledged, and is written once where
//!   they were not;
//! * the records of a stream stand in its order;
//! * committed positions are at least those acknowledged and at most those sent.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use futures::StreamExt;
use futures::future::join_all;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use wharf_proto::error::{ApiError, Applied};
use wharf_proto::v1::{
    FetchedRecord, ProduceRequest, ProduceResponse, ProduceStreamRequest, ProducerSequence, Record,
    produce_stream_response,
};

use crate::api::Api;

/// Unary calls that a writer has on their way at once.
const CALLS_AT_ONCE: u64 = 8;
/// Requests that a stream has unanswered at once.
const STREAM_UNANSWERED: usize = 32;
/// Acknowledged requests of each writer that are sent again after a crash; fewer than a partition remembers.
const RETRIED_AFTER_CRASH: usize = 40;

/// How a writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Unary calls without a producer: never retried.
    Plain,
    /// Unary calls with a producer's sequence.
    Idempotent,
    /// A ProduceStream with a producer's sequence.
    Stream,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Acknowledged(Vec<(i32, i64)>),
    Refused,
    Unknown,
}

/// One request: its number is its sequence, and with it come its records.
#[derive(Clone, Debug)]
struct Sent {
    number: u64,
    state: State,
}

/// A writer with its history.
pub struct Writer {
    id: u32,
    kind: Kind,
    topic: String,
    partitions: i32,
    producer: Option<ProducerSequence>,
    sent: Vec<Sent>,
}

/// Names one record: writer, request, place in the request.
type RecordId = (u32, u64, u32);

/// What the tasks of a load share.
#[derive(Clone)]
struct Shared {
    acknowledged: Arc<AtomicU64>,
    /// For each partition the offset after the highest acknowledged one.
    ends: Arc<Vec<AtomicI64>>,
}

impl Shared {
    fn note(&self, positions: &[(i32, i64)]) {
        for &(partition, offset) in positions {
            self.ends[usize::try_from(partition).unwrap()].fetch_max(offset + 1, Ordering::SeqCst);
        }
        self.acknowledged.fetch_add(1, Ordering::SeqCst);
    }
}

/// Writers and a committing group on one topic.
pub struct Load {
    topic: String,
    group: String,
    writers: Vec<Writer>,
    shared: Shared,
    active_commits: bool,
    /// For each partition the last acknowledged and the last sent commit.
    commits: Vec<(i64, i64)>,
    /// What was found, and up to where each partition was looked through.
    found: HashMap<RecordId, (i32, i64)>,
    scanned: Vec<i64>,
}

/// The tasks of a load that runs.
pub struct Running {
    writers: Vec<tokio::task::JoinHandle<Writer>>,
    committer: tokio::task::JoinHandle<Vec<(i64, i64)>>,
    shared: Shared,
}

impl Load {
    /// A writer of each kind on a topic that exists.
    ///
    /// # Panics
    /// If the producers get no ids.
    pub async fn new(api: &mut Api, topic: &str, partitions: i32, kinds: &[Kind]) -> Load {
        let mut writers = Vec::new();
        for (id, &kind) in kinds.iter().enumerate() {
            let producer = if kind == Kind::Plain { None } else { Some(api.producer().await) };
            let id = u32::try_from(id).unwrap();
            writers.push(Writer {
                id,
                kind,
                topic: topic.to_owned(),
                partitions,
                producer,
                sent: Vec::new(),
            });
        }
        let count = usize::try_from(partitions).unwrap();
        let ends = Arc::new((0..count).map(|_| AtomicI64::new(0)).collect());
        Load {
            topic: topic.to_owned(),
            group: format!("{topic}-group"),
            writers,
            shared: Shared { acknowledged: Arc::default(), ends },
            active_commits: true,
            commits: vec![(0, 0); count],
            found: HashMap::new(),
            scanned: vec![0; count],
        }
    }

    /// Starts all writers and the committer. They run until the broker is gone.
    #[must_use]
    pub fn start(&mut self, broker: SocketAddr) -> Running {
        self.shared.acknowledged.store(0, Ordering::SeqCst);
        let writers = std::mem::take(&mut self.writers).into_iter().map(|writer| {
            let shared = self.shared.clone();
            tokio::spawn(async move { writer.run(broker, shared).await })
        });
        let writers = writers.collect();
        let committer = Committer {
            active: self.active_commits,
            topic: self.topic.clone(),
            group: self.group.clone(),
            commits: self.commits.clone(),
            shared: self.shared.clone(),
        };
        Running { writers, committer: tokio::spawn(committer.run(broker)), shared: self.shared.clone() }
    }

    /// Starts the writers alone.
    #[must_use]
    pub fn start_without_commits(&mut self, broker: SocketAddr) -> Running {
        self.active_commits = false;
        self.start(broker)
    }

    /// Takes the histories of a load whose broker is gone.
    ///
    /// # Panics
    /// If a task has.
    pub async fn collect(&mut self, running: Running) {
        for writer in running.writers {
            self.writers.push(writer.await.unwrap());
        }
        self.commits = running.committer.await.unwrap();
    }

    /// Checks everything that was promised before a crash, on the broker that was started after it, and sends again
    /// what has no answer.
    ///
    /// # Panics
    /// If a promise was broken.
    pub async fn check(&mut self, api: &mut Api) {
        self.scan(api).await;
        self.check_found();
        self.check_commits(api).await;
        for writer in &mut self.writers {
            writer.settle(api).await;
        }
        self.scan(api).await;
        self.check_found();
        self.check_order();
        for writer in &self.writers {
            for position in writer.sent.iter().filter_map(Sent::positions).flatten() {
                self.shared.ends[usize::try_from(position.0).unwrap()]
                    .fetch_max(position.1 + 1, Ordering::SeqCst);
            }
        }
    }

    /// Looks through every partition from its start.
    pub fn forget_scans(&mut self) {
        self.scanned.fill(0);
    }

    /// For topics whose acknowledgements do not survive a power loss: what is above the ends is taken as lost, and what
    /// is below must be what was acknowledged there. Returns how many acknowledged records were lost.
    ///
    /// # Panics
    /// If what is left is no prefix.
    pub async fn check_prefix(&mut self, api: &mut Api) -> usize {
        self.found.clear();
        self.forget_scans();
        self.scan(api).await;
        let mut lost = 0;
        for writer in &mut self.writers {
            for request in &mut writer.sent {
                let State::Acknowledged(positions) = &request.state else { continue };
                let kept =
                    positions.iter().all(|&(p, offset)| offset < self.scanned[usize::try_from(p).unwrap()]);
                if !kept {
                    lost += positions.len();
                    request.state = State::Unknown;
                }
            }
        }
        self.check_found();
        for (end, scanned) in self.shared.ends.iter().zip(&self.scanned) {
            end.store(*scanned, Ordering::SeqCst);
        }
        lost
    }

    /// Reads what is new and checks that offsets are dense and values unique.
    async fn scan(&mut self, api: &mut Api) {
        for partition in 0..self.scanned.len() {
            let number = i32::try_from(partition).unwrap();
            let from = self.scanned[partition];
            let records = api.read_from(&self.topic, number, from).await;
            let records =
                records.unwrap_or_else(|error| panic!("{}-{number} from {from}: {error:?}", self.topic));
            for (expected, record) in (from..).zip(&records) {
                let offset = record.offset.unwrap();
                assert_eq!(offset, expected, "{}-{number} has a gap or a repeat", self.topic);
                let id = identify(record, number);
                let before = self.found.insert(id, (number, offset));
                assert!(
                    before.is_none_or(|before| before == (number, offset)),
                    "the value {id:?} is at {before:?} and at {:?}",
                    (number, offset)
                );
            }
            self.scanned[partition] = from + i64::try_from(records.len()).unwrap();
        }
    }

    fn check_found(&self) {
        for writer in &self.writers {
            for request in &writer.sent {
                let ids =
                    (0..writer.record_count(request.number)).map(|index| (writer.id, request.number, index));
                let places: Vec<Option<(i32, i64)>> = ids.map(|id| self.found.get(&id).copied()).collect();
                let who = (writer.kind, writer.id, request.number);
                match &request.state {
                    State::Acknowledged(positions) => {
                        let promised: Vec<_> = positions.iter().copied().map(Some).collect();
                        assert_eq!(
                            places, promised,
                            "{who:?} was acknowledged and is not where it was promised"
                        );
                    }
                    State::Refused => {
                        assert!(
                            places.iter().all(Option::is_none),
                            "{who:?} was refused and is there: {places:?}"
                        );
                    }
                    State::Unknown => check_whole(writer, request, &places),
                }
            }
        }
    }

    fn check_order(&self) {
        for writer in self.writers.iter().filter(|writer| writer.kind == Kind::Stream) {
            let mut last: HashMap<i32, i64> = HashMap::new();
            for (partition, offset) in writer.sent.iter().filter_map(Sent::positions).flatten() {
                let before = last.insert(*partition, *offset);
                assert!(
                    before < Some(*offset),
                    "the stream {} is out of order at {partition}:{offset}",
                    writer.id
                );
            }
        }
    }

    async fn check_commits(&mut self, api: &mut Api) {
        for (partition, commits) in self.commits.iter_mut().enumerate() {
            let found =
                api.committed(&self.group, &self.topic, i32::try_from(partition).unwrap()).await.unwrap_or(0);
            assert!(
                (commits.0..=commits.1).contains(&found),
                "partition {partition} is committed at {found}; acknowledged was {}, sent {}",
                commits.0,
                commits.1
            );
            *commits = (found, found);
        }
    }

    /// Requests that were acknowledged, in all runs.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.writers.iter().map(|writer| writer.sent.iter().filter_map(Sent::positions).count()).sum()
    }
}

/// Of a request without an answer each partition has all of its records or none.
fn check_whole(writer: &Writer, request: &Sent, places: &[Option<(i32, i64)>]) {
    let planned = writer.planned_partitions(request.number);
    let mut seen: HashMap<i32, bool> = HashMap::new();
    for (place, partition) in places.iter().zip(planned) {
        // A plain keyless request goes wherever the broker wants, but whole.
        let there = *seen.entry(partition).or_insert(place.is_some());
        assert_eq!(
            there,
            place.is_some(),
            "request {} of {} was written in part: {places:?}",
            request.number,
            writer.id
        );
    }
}

impl Running {
    /// Waits until so many requests were acknowledged since the start.
    pub async fn acknowledged(&self, count: u64) {
        let reached = async || (self.shared.acknowledged.load(Ordering::SeqCst) >= count).then_some(());
        crate::wait::until_async("enough acknowledged requests", reached).await;
    }
}

impl Sent {
    fn positions(&self) -> Option<&Vec<(i32, i64)>> {
        match &self.state {
            State::Acknowledged(positions) => Some(positions),
            _ => None,
        }
    }
}

impl Writer {
    /// 1 to 7 records, most often 1.
    fn record_count(&self, number: u64) -> u32 {
        if number.is_multiple_of(3) { 1 + (number % 7) as u32 } else { 1 }
    }

    /// A partition by number, or by key.
    fn partition_of(&self, number: u64) -> Option<i32> {
        let by_key = number.is_multiple_of(5);
        (!by_key).then(|| i32::try_from(number % u64::try_from(self.partitions).unwrap()).unwrap())
    }

    /// For each record a name of the partition it goes to; those of one name go together.
    fn planned_partitions(&self, number: u64) -> Vec<i32> {
        let count = self.record_count(number);
        match self.partition_of(number) {
            Some(partition) => vec![partition; count as usize],
            None => (0..count).map(|index| i32::try_from(index).unwrap()).collect(),
        }
    }

    fn request(&self, number: u64) -> ProduceRequest {
        let records = (0..self.record_count(number)).map(|index| {
            let id = (self.id, number, index);
            Record {
                key: Some(format!("{id:?}").into()),
                value: Some(value_of(id).into()),
                ..Default::default()
            }
        });
        let sequence = i64::try_from(number).unwrap();
        ProduceRequest {
            topic: self.topic.clone(),
            records: records.collect(),
            partition: self.partition_of(number),
            producer: self.producer.map(|producer| ProducerSequence { sequence, ..producer }),
            ..Default::default()
        }
    }

    async fn run(mut self, broker: SocketAddr, shared: Shared) -> Writer {
        let api = Api::connect(broker).await;
        match self.kind {
            Kind::Plain | Kind::Idempotent => self.run_calls(&api, &shared).await,
            Kind::Stream => self.run_stream(api, &shared).await,
        }
        self
    }

    async fn run_calls(&mut self, api: &Api, shared: &Shared) {
        loop {
            let first = self.sent.len() as u64;
            let calls = (first..first + CALLS_AT_ONCE).map(|number| {
                let (mut api, request, shared) = (api.clone(), self.request(number), shared.clone());
                async move {
                    let answer = api.broker.produce(request).await.map(tonic::Response::into_inner);
                    let gone = answer.as_ref().is_err_and(|status| ApiError::from_status(status).is_none());
                    let state = state_of(answer);
                    if let State::Acknowledged(positions) = &state {
                        shared.note(positions);
                    }
                    (Sent { number, state }, gone)
                }
            });
            let mut gone = false;
            for (sent, broken) in join_all(calls).await {
                self.sent.push(sent);
                gone |= broken;
            }
            if gone {
                return;
            }
        }
    }

    async fn run_stream(&mut self, mut api: Api, shared: &Shared) {
        let (requests, outbound) = mpsc::channel(STREAM_UNANSWERED);
        let mut next = self.sent.len() as u64;
        let mut answered = self.sent.len();
        // Something has to be sent before the broker answers with headers.
        for _ in 0..STREAM_UNANSWERED {
            requests.try_send(self.stream_request(next)).expect("the channel has room");
            self.sent.push(Sent { number: next, state: State::Unknown });
            next += 1;
        }
        let Ok(stream) = api.broker.produce_stream(ReceiverStream::new(outbound)).await else { return };
        let mut answers = stream.into_inner();
        while let Some(Ok(answer)) = answers.next().await {
            let sent = &mut self.sent[answered];
            assert_eq!(answer.request_id, i64::try_from(sent.number).unwrap(), "answers come in order");
            match answer.result.expect("an answer has a result") {
                produce_stream_response::Result::Ok(ok) => {
                    let positions = positions_of(&ok);
                    shared.note(&positions);
                    sent.state = State::Acknowledged(positions);
                }
                produce_stream_response::Result::Error(error) => {
                    panic!("a stream that nothing is wrong with got {error:?}");
                }
            }
            answered += 1;
            if requests.send(self.stream_request(next)).await.is_err() {
                return;
            }
            self.sent.push(Sent { number: next, state: State::Unknown });
            next += 1;
        }
    }

    fn stream_request(&self, number: u64) -> ProduceStreamRequest {
        ProduceStreamRequest {
            request_id: i64::try_from(number).unwrap(),
            request: Some(self.request(number)),
            timeout_ms: 0,
        }
    }

    /// Sends again what has no answer, and some of what has.
    async fn settle(&mut self, api: &mut Api) {
        if self.kind == Kind::Plain {
            return;
        }
        let last = self.sent.len().saturating_sub(RETRIED_AFTER_CRASH + STREAM_UNANSWERED);
        for place in 0..self.sent.len() {
            let known = self.sent[place].positions().cloned();
            if known.is_some() && place < last {
                continue;
            }
            let number = self.sent[place].number;
            let answer = api.broker.produce(self.request(number)).await;
            let answer = answer
                .unwrap_or_else(|error| panic!("the retry of {number} by {} failed: {error:?}", self.id));
            let answer = answer.into_inner();
            let positions = positions_of(&answer);
            if let Some(known) = known {
                assert!(
                    answer.duplicate,
                    "the retry of {number} by {} was written again: {positions:?}",
                    self.id
                );
                assert_eq!(positions, known, "the retry of {number} by {} got other positions", self.id);
            }
            self.sent[place].state = State::Acknowledged(positions);
        }
    }
}

fn state_of(answer: Result<ProduceResponse, Status>) -> State {
    match answer {
        Ok(answer) => State::Acknowledged(positions_of(&answer)),
        Err(status) => match ApiError::from_status(&status).and_then(|error| error.applied) {
            Some(Applied::None) => State::Refused,
            _ => State::Unknown,
        },
    }
}

fn positions_of(answer: &ProduceResponse) -> Vec<(i32, i64)> {
    let place =
        |position: &wharf_proto::v1::RecordPosition| (position.partition.unwrap(), position.offset.unwrap());
    answer.positions.iter().map(place).collect()
}

/// The bytes that belong to a record: its name and 0 to 6,000 bytes that follow from it and that no codec makes shorter.
fn value_of(id: RecordId) -> Vec<u8> {
    let mut value = format!("{}:{}:{}:", id.0, id.1, id.2).into_bytes();
    let length = (id.1 * 7_919 + u64::from(id.2) * 104_729 + u64::from(id.0)) % 6_000;
    let mut state = id.1.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    value.extend((0..length).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    }));
    value
}

fn identify(record: &FetchedRecord, partition: i32) -> RecordId {
    let value = record.value.as_deref().expect("all records have values");
    let mut parts =
        value.split(|byte| *byte == b':').map(|part| std::str::from_utf8(part).unwrap_or_default());
    let id =
        (|| Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?)))();
    let id: RecordId = id.unwrap_or_else(|| panic!("{partition}:{:?} was never sent", record.offset));
    assert_eq!(value, value_of(id), "{partition}:{:?} has other bytes than were sent", record.offset);
    assert_eq!(record.key.as_deref(), Some(format!("{id:?}").as_bytes()));
    id
}

struct Committer {
    active: bool,
    topic: String,
    group: String,
    commits: Vec<(i64, i64)>,
    shared: Shared,
}

impl Committer {
    /// Commits the acknowledged ends in turn until the broker is gone.
    async fn run(mut self, broker: SocketAddr) -> Vec<(i64, i64)> {
        if !self.active {
            return self.commits;
        }
        let mut api = Api::connect(broker).await;
        loop {
            for partition in 0..self.commits.len() {
                let offset = self.shared.ends[partition].load(Ordering::SeqCst);
                self.commits[partition].1 = offset;
                let number = i32::try_from(partition).unwrap();
                match api.commit(&self.group, &self.topic, number, offset).await {
                    Ok(()) => self.commits[partition].0 = offset,
                    Err(status) if ApiError::from_status(&status).is_none() => return self.commits,
                    Err(status) => panic!("a commit was refused: {status:?}"),
                }
            }
        }
    }
}
