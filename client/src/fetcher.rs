//! One partition read forward.

use std::time::Duration;

use tonic::transport::Channel;
use wharf_proto::v1;
use wharf_proto::v1::broker_service_client::BrokerServiceClient;
use wharf_proto::v1::fetch_request::Position;
use wharf_types::{Offset, TimestampMs};

use crate::client::Client;
use crate::error::ClientError;

/// Where a fetcher starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchPosition {
    /// The first record at or after this offset.
    Offset(Offset),
    /// The first record appended at or after this time.
    AppendTime(TimestampMs),
    /// The oldest record that is kept.
    Earliest,
    /// The end: only what comes from now on.
    Latest,
}

impl FetchPosition {
    fn to_wire(self) -> Position {
        match self {
            FetchPosition::Offset(offset) => Position::Offset(offset.to_wire()),
            FetchPosition::AppendTime(time) => Position::FromAppendTimeMs(time.to_wire()),
            FetchPosition::Earliest => Position::Start(v1::StartPosition::Earliest.into()),
            FetchPosition::Latest => Position::Start(v1::StartPosition::Latest.into()),
        }
    }
}

/// How much one fetch returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchLimits {
    /// Bytes of records; servers cap it at 3 MiB. At least one record comes if there is one.
    pub bytes_max: i32,
    /// Which records to see.
    pub isolation: v1::IsolationLevel,
}

impl Default for FetchLimits {
    fn default() -> Self {
        FetchLimits { bytes_max: 1 << 20, isolation: v1::IsolationLevel::ReadCommitted }
    }
}

/// Reads one partition forward, one unary call at a time.
///
/// Invariant: after a successful fetch the position is an offset, the server's `next_offset`, and never goes back. A failed
/// fetch leaves the position as it was, so that the call can be made again.
#[derive(Debug, Clone)]
pub struct PartitionFetcher {
    broker: BrokerServiceClient<Channel>,
    client: Client,
    topic: String,
    partition: i32,
    position: FetchPosition,
    leader_epoch: Option<i32>,
    limits: FetchLimits,
}

impl PartitionFetcher {
    /// A fetcher at `position`; nothing is sent yet.
    #[must_use]
    pub fn new(
        client: &Client,
        topic: &str,
        partition: i32,
        position: FetchPosition,
        limits: FetchLimits,
    ) -> Self {
        PartitionFetcher {
            broker: client.broker(),
            client: client.clone(),
            topic: topic.to_owned(),
            partition,
            position,
            leader_epoch: None,
            limits,
        }
    }

    /// Number of the partition.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// Where the next fetch starts.
    #[must_use]
    pub fn position(&self) -> FetchPosition {
        self.position
    }

    /// Moves to another place.
    pub fn reset_to(&mut self, position: FetchPosition) {
        self.position = position;
        self.leader_epoch = None;
    }

    /// Fetches what is there, waiting up to `max_wait` (at most 30 s) for a first record.
    ///
    /// # Errors
    /// `TOPIC_NOT_FOUND`, `PARTITION_NOT_FOUND`, `OFFSET_OUT_OF_RANGE`, `TRUNCATED`, `DATA_CORRUPTED`, and what every call
    /// may end with.
    pub async fn fetch(&mut self, max_wait: Duration) -> Result<v1::FetchResponse, ClientError> {
        let request = v1::FetchRequest {
            topic: self.topic.clone(),
            partition: self.partition,
            position: Some(self.position.to_wire()),
            max_bytes: self.limits.bytes_max,
            max_wait_ms: i32::try_from(max_wait.as_millis()).unwrap_or(i32::MAX),
            isolation: self.limits.isolation.into(),
            leader_epoch: self.leader_epoch,
            ..v1::FetchRequest::default()
        };
        let limit = self.client.options().call_timeout + max_wait;
        let request = self.client.request_within(request, limit);
        let response = self.client.decode(self.broker.fetch(request).await)?;
        let next = response
            .next_offset
            .and_then(Offset::from_wire)
            .ok_or(ClientError::Protocol { problem: "a fetch answer without next_offset" })?;
        self.position = FetchPosition::Offset(next);
        if let Some(last) = response.records.last() {
            self.leader_epoch = last.leader_epoch;
        }
        Ok(response)
    }
}
