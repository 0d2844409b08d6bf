//! Commits of what was printed.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use wharf_proto::v1;
use wharf_types::Offset;

use crate::cli::error::CliError;
use crate::client::Client;

/// How long a printed record may be uncommitted while more come.
const COMMIT_INTERVAL: Duration = Duration::from_millis(500);

/// Commits positions for a group, some time after they were noted.
///
/// Invariant: a position is noted only after stdout took all records below it.
#[derive(Debug)]
pub(super) struct Committer {
    client: Client,
    group: String,
    topic: String,
    noted: BTreeMap<i32, v1::OffsetCommit>,
    due: Option<Instant>,
}

impl Committer {
    pub(super) fn new(client: &Client, group: String, topic: String) -> Self {
        Committer { client: client.clone(), group, topic, noted: BTreeMap::new(), due: None }
    }

    /// Notes that the group's next record of the partition is at `next`.
    pub(super) fn note(&mut self, partition: i32, next: Offset, leader_epoch: Option<i32>) {
        let commit = v1::OffsetCommit {
            topic: self.topic.clone(),
            partition,
            offset: next.to_wire(),
            leader_epoch,
            metadata: None,
        };
        self.noted.insert(partition, commit);
        self.due.get_or_insert_with(|| Instant::now() + COMMIT_INTERVAL);
    }

    /// When to commit next, if there is anything.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Commits what is noted. After a failure it is still noted.
    pub(super) async fn commit(&mut self) -> Result<(), CliError> {
        if self.noted.is_empty() {
            return Ok(());
        }
        let request = self.client.request(v1::CommitRequest {
            group: self.group.clone(),
            offsets: self.noted.values().cloned().collect(),
            member: None,
        });
        self.client.decode(self.client.broker().commit(request).await)?;
        self.noted.clear();
        self.due = None;
        Ok(())
    }
}
