//! Calls by generated stubs, with the default limits of a client, and what a refused call must look like.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt;
use wharf_proto::error::{ApiError, Applied, reason_name};
use wharf_proto::v1::admin_service_client::AdminServiceClient;
use wharf_proto::v1::broker_service_client::BrokerServiceClient;
use wharf_proto::v1::fetch_request::Position;
use wharf_proto::v1::list_offsets_request::At;
use wharf_proto::v1::{
    CommitRequest, CreateTopicRequest, ErrorReason, FetchRequest, FetchResponse, FetchedRecord,
    GetCommittedRequest, ListOffsetsRequest, OffsetCommit, ProduceRequest, ProduceResponse, ProducerSequence,
    Record, StartPosition, TopicPartition, TopicSummary,
};

/// Most pages that a helper reads.
const PAGES_MAX: usize = 1_000_000;

/// Both services on one connection.
#[derive(Clone)]
pub struct Api {
    /// Produce, fetch, commit.
    pub broker: BrokerServiceClient<Channel>,
    /// Topics, groups, the server.
    pub admin: AdminServiceClient<Channel>,
    /// The connection.
    pub channel: Channel,
}

impl Api {
    /// Connects.
    ///
    /// # Panics
    /// If nobody listens.
    pub async fn connect(address: SocketAddr) -> Api {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap().tcp_nodelay(true);
        let channel = endpoint.connect().await.expect("the broker takes connections");
        Api {
            broker: BrokerServiceClient::new(channel.clone()),
            admin: AdminServiceClient::new(channel.clone()),
            channel,
        }
    }

    /// Creates a topic with default settings.
    ///
    /// # Panics
    /// If that is refused.
    pub async fn create(&mut self, topic: &str, partitions: i32) -> TopicSummary {
        self.create_with(topic, partitions, &[]).await
    }

    /// Creates a topic with settings.
    ///
    /// # Panics
    /// If that is refused.
    pub async fn create_with(
        &mut self,
        topic: &str,
        partitions: i32,
        config: &[(&str, &str)],
    ) -> TopicSummary {
        let config = config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let request =
            CreateTopicRequest { topic: topic.to_owned(), partitions, config, ..Default::default() };
        let created = self.admin.create_topic(request).await.expect("the topic is created");
        created.into_inner().topic.expect("the answer has the topic")
    }

    /// Writes records to a partition and gives the whole answer.
    ///
    /// # Errors
    /// The call's.
    pub async fn produce(
        &mut self,
        topic: &str,
        partition: Option<i32>,
        records: Vec<Record>,
    ) -> Result<ProduceResponse, Status> {
        let request = ProduceRequest { topic: topic.to_owned(), records, partition, ..Default::default() };
        Ok(self.broker.produce(request).await?.into_inner())
    }

    /// Writes one value to a partition; its offset.
    ///
    /// # Panics
    /// If that is refused.
    pub async fn put(&mut self, topic: &str, partition: i32, value: impl Into<Bytes>) -> i64 {
        let answer =
            self.produce(topic, Some(partition), vec![record(value)]).await.expect("the record is written");
        answer.positions[0].offset.expect("acks ALL gives an offset")
    }

    /// Writes with a producer's sequence.
    ///
    /// # Errors
    /// The call's.
    pub async fn produce_as(
        &mut self,
        topic: &str,
        partition: Option<i32>,
        producer: ProducerSequence,
        records: Vec<Record>,
    ) -> Result<ProduceResponse, Status> {
        let producer = Some(producer);
        let request =
            ProduceRequest { topic: topic.to_owned(), records, partition, producer, ..Default::default() };
        Ok(self.broker.produce(request).await?.into_inner())
    }

    /// A new producer's id and epoch, with sequence 0.
    ///
    /// # Panics
    /// If that is refused.
    pub async fn producer(&mut self) -> ProducerSequence {
        let init = self.broker.init_producer(wharf_proto::v1::InitProducerRequest::default()).await;
        let init = init.expect("a producer gets an id").into_inner();
        ProducerSequence {
            producer_id: init.producer_id.expect("the id is always set"),
            producer_epoch: init.producer_epoch.expect("the epoch is always set"),
            sequence: 0,
        }
    }

    /// One fetch from an offset.
    ///
    /// # Errors
    /// The call's.
    pub async fn fetch(&mut self, topic: &str, partition: i32, offset: i64) -> Result<FetchResponse, Status> {
        self.fetch_with(FetchRequest { position: Some(Position::Offset(offset)), ..fetch(topic, partition) })
            .await
    }

    /// One fetch.
    ///
    /// # Errors
    /// The call's.
    pub async fn fetch_with(&mut self, request: FetchRequest) -> Result<FetchResponse, Status> {
        Ok(self.broker.fetch(request).await?.into_inner())
    }

    /// All records of a partition from an offset to its end.
    ///
    /// # Errors
    /// That of the first fetch that fails.
    ///
    /// # Panics
    /// If the reads make no progress.
    pub async fn read_from(
        &mut self,
        topic: &str,
        partition: i32,
        from: i64,
    ) -> Result<Vec<FetchedRecord>, Status> {
        let mut records = Vec::new();
        let mut offset = from;
        for _ in 0..PAGES_MAX {
            let page = self.fetch(topic, partition, offset).await?;
            let next = page.next_offset.expect("next_offset is always set");
            let end = page.high_watermark.expect("a sole leader knows its high watermark");
            records.extend(page.records);
            if next >= end {
                return Ok(records);
            }
            assert!(next > offset, "a fetch at {offset} below the end {end} makes no progress");
            offset = next;
        }
        panic!("no end of {topic}-{partition}");
    }

    /// All records of a partition.
    ///
    /// # Panics
    /// If a read fails.
    pub async fn read_all(&mut self, topic: &str, partition: i32) -> Vec<FetchedRecord> {
        let start = FetchRequest {
            position: Some(Position::Start(StartPosition::Earliest as i32)),
            max_records: 1,
            ..fetch(topic, partition)
        };
        let first = self.fetch_with(start).await.expect("the start can be read");
        let from = first.log_start_offset.expect("log_start_offset is always set");
        self.read_from(topic, partition, from).await.expect("the partition can be read")
    }

    /// The high watermark of a partition.
    ///
    /// # Panics
    /// If it is not known.
    pub async fn high_watermark(&mut self, topic: &str, partition: i32) -> i64 {
        let request = FetchRequest {
            position: Some(Position::Start(StartPosition::Latest as i32)),
            ..fetch(topic, partition)
        };
        let answer = self.fetch_with(request).await.expect("the end can be read");
        answer.high_watermark.expect("a sole leader knows its high watermark")
    }

    /// The ends of all partitions of a topic, summed.
    ///
    /// # Panics
    /// If they are not known.
    pub async fn records_written(&mut self, topic: &str) -> i64 {
        let at = Some(At::Start(StartPosition::Latest as i32));
        let request = ListOffsetsRequest { topic: topic.to_owned(), at, ..Default::default() };
        let ends = self.broker.list_offsets(request).await.expect("the ends can be listed").into_inner();
        ends.offsets.iter().map(|end| end.offset.expect("every partition has an end")).sum()
    }

    /// Commits one position.
    ///
    /// # Errors
    /// The call's.
    pub async fn commit(
        &mut self,
        group: &str,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<(), Status> {
        let offsets = vec![OffsetCommit { topic: topic.to_owned(), partition, offset, ..Default::default() }];
        let request = CommitRequest { group: group.to_owned(), offsets, member: None };
        self.broker.commit(request).await.map(|_| ())
    }

    /// The committed position of a partition, if there is one.
    ///
    /// # Panics
    /// If the call fails.
    pub async fn committed(&mut self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let partitions = vec![TopicPartition { topic: topic.to_owned(), partition }];
        let request = GetCommittedRequest { group: group.to_owned(), partitions };
        let answer = self.broker.get_committed(request).await.expect("positions can be read").into_inner();
        assert_eq!(answer.offsets.len(), 1, "one answer for one partition");
        answer.offsets[0].offset
    }
}

/// A record with this value.
#[must_use]
pub fn record(value: impl Into<Bytes>) -> Record {
    Record { value: Some(value.into()), ..Default::default() }
}

/// A record with this key and value.
#[must_use]
pub fn keyed(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Record {
    Record { key: Some(key.into()), value: Some(value.into()), ..Default::default() }
}

/// A fetch of this partition, without a position.
#[must_use]
pub fn fetch(topic: &str, partition: i32) -> FetchRequest {
    FetchRequest { topic: topic.to_owned(), partition, ..Default::default() }
}

/// Checks that a call was refused as the contract has it: code, ErrorInfo and trailers say the same, the message says
/// something, malformed input names the field.
///
/// # Panics
/// If not.
pub fn refused<T: std::fmt::Debug>(result: Result<T, Status>, code: Code, reason: ErrorReason) -> ApiError {
    let name = reason_name(reason);
    let status = match result {
        Ok(answer) => panic!("{name} was expected, not {answer:?}"),
        Err(status) => status,
    };
    assert_eq!(status.code(), code, "{name} was expected, not {status:?}");
    let info = status.get_details_error_info().unwrap_or_else(|| panic!("{status:?} has no ErrorInfo"));
    assert_eq!((info.domain.as_str(), info.reason.as_str()), ("wharf", name), "{status:?}");
    let trailer = |trailer| status.metadata().get(trailer).and_then(|value| value.to_str().ok());
    assert_eq!(trailer("wharf-reason"), Some(name));
    assert_eq!(trailer("wharf-applied"), info.metadata.get("applied").map(String::as_str));
    assert!(!status.message().is_empty(), "{name} has no message");
    assert!(status.details().len() <= 4096, "the details of {name} have {} bytes", status.details().len());
    let retry_ms = status
        .get_details_retry_info()
        .map(|info| info.retry_delay.unwrap_or_default().as_millis().to_string());
    assert_eq!(trailer("wharf-retry-after-ms"), retry_ms.as_deref());
    let names_fields = matches!(
        reason,
        ErrorReason::InvalidRequest
            | ErrorReason::InvalidTopicName
            | ErrorReason::InvalidRecord
            | ErrorReason::InvalidConfig
    );
    if names_fields {
        let bad = status.get_details_bad_request().unwrap_or_else(|| panic!("{status:?} has no BadRequest"));
        assert!(!bad.field_violations.is_empty(), "{status:?} names no field");
    }
    ApiError::from_status(&status).expect("the client's decoder reads what the server sends")
}

/// [`refused`] for produce calls, which also say whether anything was written.
///
/// # Panics
/// If the answer is another one.
pub fn refused_produce<T: std::fmt::Debug>(
    result: Result<T, Status>,
    code: Code,
    reason: ErrorReason,
    applied: &Applied,
) -> ApiError {
    let error = refused(result, code, reason);
    assert_eq!(error.applied.as_ref(), Some(applied), "{error:?}");
    error
}

/// The settings of an answer by name.
#[must_use]
pub fn settings(config: &[wharf_proto::v1::ConfigEntry]) -> BTreeMap<&str, (&str, bool)> {
    config.iter().map(|entry| (entry.name.as_str(), (entry.value.as_str(), entry.is_default))).collect()
}
