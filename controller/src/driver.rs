//! The thread that owns the raft node.
//!
//! Invariants (R3):
//! * order of each Ready: messages that promise nothing → one batch of entries, hard state and snapshot, synced as raft
//!   asks → messages that promise → apply. A leader's own entries count only after its sync;
//! * only this thread changes the image, by `wharf_metadata::apply` in log order; a new image is published before the
//!   proposers of its records are answered, so whoever was answered sees what it did;
//! * each proposal gets exactly one answer: the result of its apply, or unknown once this voter no longer leads;
//! * a failed write ends the thread. Nothing is retried over it; the process must end (R17).

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use protobuf::Message as _;
use raft::eraftpb::{ConfChange, ConfChangeV2, Entry, EntryType, Message, Snapshot};
use raft::{RawNode, SnapshotStatus, StateRole};
use tokio::sync::{oneshot, watch};
use wharf_metadata::codec::{self, DecodeError};
use wharf_metadata::{
    ApplyError, Bootstrap, ClusterId, Delta, Event, Image, METADATA_VERSION, METADATA_VERSION_FEATURE,
    Record, apply,
};
use wharf_types::NodeId;

use crate::config::ControllerConfig;
use crate::logger::logger;
use crate::storage::{Persist, RaftStore, WriteError};
use crate::transport::Transport;

/// Inputs taken in before the log is written once for all of them.
const INPUTS_PER_ROUND: usize = 1_024;
/// Time between syncs of the commit floor.
const FLOOR_SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// What the driver's thread can be told.
pub(crate) enum Input {
    /// A record to commit.
    Propose { record: Bytes, answer: oneshot::Sender<Answer> },
    /// A message of another voter.
    Step(Box<Message>),
    /// A message to this voter was lost.
    Unreachable(NodeId),
    /// What became of a snapshot to this voter.
    SnapshotSent(NodeId, SnapshotStatus),
    /// Sync everything and end.
    Shutdown,
}

/// What became of a proposal.
pub(crate) enum Answer {
    /// It was committed; this is what applying it gave.
    Applied(Result<Delta, ApplyError>),
    /// It was not proposed.
    NotLeader { leader: Option<NodeId> },
    /// It was not proposed, since too much is uncommitted.
    Overloaded,
    /// It may or may not be applied.
    Unknown,
}

/// What this voter is to others, as of its last round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Who leads, where that is known.
    pub leader: Option<NodeId>,
    /// Whether this voter leads.
    pub leads: bool,
    /// The raft term.
    pub term: u64,
    /// Whether this voter knows a leader and has applied what was committed when it found that out.
    pub ready: bool,
}

/// Why the driver ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DriverError {
    /// The log could not be written. It must be opened again, after a look at the disk.
    #[error(transparent)]
    Write(Arc<WriteError>),
    /// raft-rs refused something that it must take.
    #[error("raft: {0}")]
    Raft(Arc<raft::Error>),
    /// A committed record cannot be read.
    #[error("the committed record at index {index} cannot be read: {source}")]
    Record {
        /// Its index.
        index: u64,
        /// What is wrong.
        source: DecodeError,
    },
    /// A snapshot from the leader cannot be read.
    #[error("the snapshot at index {index} cannot be read: {source}")]
    Snapshot {
        /// Its index.
        index: u64,
        /// What is wrong.
        source: DecodeError,
    },
    /// A committed change of the voters cannot be read.
    #[error("the committed configuration at index {index} cannot be read")]
    Configuration {
        /// Its index.
        index: u64,
    },
    /// An invariant of raft was broken.
    #[error("the raft node panicked: {reason}")]
    Panicked {
        /// What it said.
        reason: String,
    },
}

impl From<WriteError> for DriverError {
    fn from(error: WriteError) -> Self {
        DriverError::Write(Arc::new(error))
    }
}

impl From<raft::Error> for DriverError {
    fn from(error: raft::Error) -> Self {
        DriverError::Raft(Arc::new(error))
    }
}

struct Pending {
    context: [u8; 16],
    answer: oneshot::Sender<Answer>,
}

/// Where the driver publishes what others see.
pub(crate) struct Published {
    pub(crate) image: watch::Sender<Arc<Image>>,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) failure: watch::Sender<Option<DriverError>>,
}

/// The owner of one raft node.
pub(crate) struct Driver {
    node: RawNode<RaftStore>,
    image: Image,
    published: Published,
    transport: Box<dyn Transport>,
    config: ControllerConfig,
    /// Proposals by the index at which they must appear.
    pending: BTreeMap<u64, Pending>,
    /// Tells this process's proposals from those of earlier ones at the same index.
    nonce: u64,
    proposals: u64,
    /// Name for the cluster, if it has none.
    cluster_id: ClusterId,
    leads: bool,
    /// Term of the last entry that was applied.
    applied_term: u64,
    /// Term in which this voter proposed the name for the cluster.
    bootstrap_term: u64,
}

impl Driver {
    /// A driver over an open log. `image` is the one of the log's snapshot; `nonce` and `cluster_id` are random.
    pub(crate) fn new(
        store: RaftStore,
        image: Image,
        published: Published,
        transport: Box<dyn Transport>,
        config: ControllerConfig,
        (nonce, cluster_id): (u64, ClusterId),
    ) -> Result<Self, DriverError> {
        let node = RawNode::new(&config.raft(store.snapshot_index()), store, &logger())?;
        Ok(Driver {
            node,
            image,
            published,
            transport,
            config,
            pending: BTreeMap::new(),
            nonce,
            proposals: 0,
            cluster_id,
            leads: false,
            applied_term: 0,
            bootstrap_term: 0,
        })
    }

    /// Runs until told to stop, or until something fails; then all who wait are answered with unknown.
    pub(crate) fn run(mut self, inputs: &Receiver<Input>) {
        // raft-rs panics on broken invariants; the rest of the process must learn of it, not hang.
        let result = catch_unwind(AssertUnwindSafe(|| self.serve(inputs))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(DriverError::Panicked { reason: text.unwrap_or_default() })
        });
        if let Err(error) = result {
            tracing::error!(%error, "the controller has failed");
            self.published.failure.send_replace(Some(error));
        }
        self.abandon_pending();
    }

    fn serve(&mut self, inputs: &Receiver<Input>) -> Result<(), DriverError> {
        self.process_ready()?;
        if self.is_sole_voter() {
            // Nobody else can lead, so there is no timeout to wait for (R3).
            self.node.campaign()?;
            self.process_ready()?;
        }
        let mut next_tick = Instant::now() + self.config.tick;
        let mut next_floor_sync = Instant::now() + FLOOR_SYNC_INTERVAL;
        loop {
            let first = inputs.recv_timeout(next_tick.saturating_duration_since(Instant::now()));
            let first = match first {
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Input::Shutdown),
            };
            // All that wait now share one write; `first` is counted too.
            let waiting = first.into_iter().chain(inputs.try_iter()).take(INPUTS_PER_ROUND);
            for input in waiting {
                match input {
                    Input::Propose { record, answer } => self.propose(record, answer),
                    // A message that raft refuses is a stray one; it loses nothing.
                    Input::Step(message) => drop(self.node.step(*message)),
                    Input::Unreachable(voter) => self.node.report_unreachable(voter.value().into()),
                    Input::SnapshotSent(voter, status) => {
                        self.node.report_snapshot(voter.value().into(), status);
                    }
                    Input::Shutdown => {
                        self.process_ready()?;
                        return Ok(self.node.mut_store().sync_all()?);
                    }
                }
            }
            let now = Instant::now();
            if now >= next_tick {
                self.node.tick();
                next_tick = now + self.config.tick;
            }
            self.process_ready()?;
            if now >= next_floor_sync {
                self.node.mut_store().sync_floor()?;
                next_floor_sync = now + FLOOR_SYNC_INTERVAL;
            }
        }
    }

    fn is_sole_voter(&self) -> bool {
        let id = u64::from(self.config.node_id.value());
        let voters = self.node.raft.prs().conf().voters();
        voters.contains(id) && voters.ids().iter().count() == 1
    }

    fn propose(&mut self, record: Bytes, answer: oneshot::Sender<Answer>) {
        if self.node.raft.state != StateRole::Leader {
            let leader = self.leader();
            // Whoever asked may be gone; then nobody needs the answer.
            let _ = answer.send(Answer::NotLeader { leader });
            return;
        }
        self.proposals += 1;
        let mut context = [0; 16];
        context[..8].copy_from_slice(&self.nonce.to_le_bytes());
        context[8..].copy_from_slice(&self.proposals.to_le_bytes());
        match self.node.propose(context.to_vec(), record.to_vec()) {
            Ok(()) => {
                let index = self.node.raft.raft_log.last_index();
                if let Some(replaced) = self.pending.insert(index, Pending { context, answer }) {
                    let _ = replaced.answer.send(Answer::Unknown);
                }
            }
            Err(error) => {
                tracing::debug!(%error, "raft dropped a proposal");
                let _ = answer.send(Answer::Overloaded);
            }
        }
    }

    fn leader(&self) -> Option<NodeId> {
        let leader = u32::try_from(self.node.raft.leader_id).ok()?;
        (leader != 0).then(|| NodeId::new(leader))
    }

    /// Works off everything that raft has ready.
    fn process_ready(&mut self) -> Result<(), DriverError> {
        let mut worked = false;
        let mut answers = Vec::new();
        while self.node.has_ready() {
            worked = true;
            let mut ready = self.node.ready();
            self.note_role(&mut answers);
            self.transmit(ready.take_messages());
            let snapshot = (!ready.snapshot().is_empty()).then(|| ready.snapshot());
            // Decoded before it replaces anything.
            let image = snapshot.map(decode_image).transpose()?;
            let persist = Persist { snapshot, entries: ready.entries(), hard_state: ready.hs() };
            let sync = ready.must_sync() || snapshot.is_some();
            if snapshot.is_some() || !ready.entries().is_empty() || ready.hs().is_some() {
                self.node.mut_store().persist(&persist, sync)?;
            }
            if let Some(image) = image {
                self.image = image;
            }
            self.transmit(ready.take_persisted_messages());
            self.apply_entries(ready.take_committed_entries(), &mut answers)?;
            let mut light = self.node.advance_append(ready);
            if let Some(commit) = light.commit_index() {
                self.node.mut_store().advance_commit(commit)?;
            }
            self.transmit(light.take_messages());
            self.apply_entries(light.take_committed_entries(), &mut answers)?;
            self.node.advance_apply();
            self.node.mut_store().advance_floor()?;
            self.note_role(&mut answers);
        }
        if worked {
            self.publish();
            self.compact_if_long()?;
        }
        for (answer, result) in answers {
            let _ = answer.send(result);
        }
        Ok(())
    }

    fn transmit(&mut self, messages: Vec<Message>) {
        if !messages.is_empty() {
            self.transport.send(messages);
        }
    }

    fn apply_entries(
        &mut self,
        entries: Vec<Entry>,
        answers: &mut Vec<(oneshot::Sender<Answer>, Answer)>,
    ) -> Result<(), DriverError> {
        for entry in entries {
            let (index, term) = (entry.index, entry.term);
            let result = match entry.get_entry_type() {
                EntryType::EntryNormal => {
                    let record = codec::decode_record(entry.data)
                        .map_err(|source| DriverError::Record { index, source })?;
                    self.apply_record(record.as_ref(), index)
                }
                EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
                    self.apply_configuration(&entry)?;
                    apply(&mut self.image, None, index)
                }
            };
            self.applied_term = term;
            // Proposals below this index were overwritten by another leader's entries.
            while let Some(first) = self.pending.first_entry().filter(|first| *first.key() <= index) {
                let (at, pending) = first.remove_entry();
                if at == index && entry.context == pending.context[..] {
                    answers.push((pending.answer, Answer::Applied(result.clone())));
                } else {
                    answers.push((pending.answer, Answer::Unknown));
                }
            }
        }
        Ok(())
    }

    fn apply_record(&mut self, record: Option<&Record>, index: u64) -> Result<Delta, ApplyError> {
        let result = apply(&mut self.image, record, index);
        let kind = record.map_or("empty", Record::kind);
        match &result {
            Ok(delta) => {
                tracing::debug!(index, kind, "applied");
                for event in &delta.events {
                    announce(event, index);
                }
            }
            Err(error) => tracing::info!(index, kind, %error, "refused"),
        }
        result
    }

    fn apply_configuration(&mut self, entry: &Entry) -> Result<(), DriverError> {
        let invalid = |_| DriverError::Configuration { index: entry.index };
        // It reaches the disk with the next snapshot; until then it is applied again at each start, like the records.
        if entry.get_entry_type() == EntryType::EntryConfChange {
            let change = ConfChange::parse_from_bytes(&entry.data).map_err(invalid)?;
            self.node.apply_conf_change(&change)?;
        } else {
            let change = ConfChangeV2::parse_from_bytes(&entry.data).map_err(invalid)?;
            self.node.apply_conf_change(&change)?;
        }
        Ok(())
    }

    /// Follows raft's role: a leader that lost office cannot tell what became of its proposals.
    fn note_role(&mut self, answers: &mut Vec<(oneshot::Sender<Answer>, Answer)>) {
        let leads = self.node.raft.state == StateRole::Leader;
        let term = self.node.raft.term;
        if leads != self.leads {
            self.leads = leads;
            tracing::info!(term, leads, leader = ?self.leader(), "controller role changed");
            if !leads {
                let pending = std::mem::take(&mut self.pending);
                answers.extend(pending.into_values().map(|pending| (pending.answer, Answer::Unknown)));
            }
        }
        if self.is_current() && leads && self.image.cluster_id().is_none() && self.bootstrap_term != term {
            self.bootstrap_term = term;
            let record = Record::Bootstrap(Bootstrap {
                cluster_id: self.cluster_id,
                features: vec![(METADATA_VERSION_FEATURE.to_owned(), METADATA_VERSION)],
            });
            let (answer, _) = oneshot::channel();
            self.propose(codec::encode_record(&record), answer);
        }
    }

    /// Whether the image holds everything that was committed before this leader took office.
    fn is_current(&self) -> bool {
        if self.leads { self.applied_term == self.node.raft.term } else { self.leader().is_some() }
    }

    fn publish(&self) {
        let published = &self.published;
        if published.image.borrow().applied_index() != self.image.applied_index() {
            published.image.send_replace(Arc::new(self.image.clone()));
        }
        let status = Status {
            leader: self.leader(),
            leads: self.leads,
            term: self.node.raft.term,
            ready: self.is_current() && self.image.cluster_id().is_some(),
        };
        published.status.send_if_modified(|current| {
            let changed = *current != status;
            *current = status;
            changed
        });
    }

    fn compact_if_long(&mut self) -> Result<(), DriverError> {
        let index = self.image.applied_index();
        let store = self.node.store();
        let entries = index.saturating_sub(store.snapshot_index());
        if entries < self.config.compact_after_entries
            && store.entry_bytes() < self.config.compact_after_bytes
        {
            return Ok(());
        }
        let Some(term) = store.term_at(index).filter(|_| entries > 0) else { return Ok(()) };
        let mut snapshot = Snapshot::default();
        snapshot.set_data(codec::encode_snapshot(&self.image));
        let meta = snapshot.mut_metadata();
        meta.index = index;
        meta.term = term;
        meta.set_conf_state(self.node.raft.prs().conf().to_conf_state());
        let keep = if self.is_sole_voter() { 0 } else { self.config.compact_keep_entries };
        self.node.mut_store().compact(&snapshot, keep)?;
        tracing::info!(index, entries, "compacted the metadata log");
        Ok(())
    }

    fn abandon_pending(&mut self) {
        for pending in std::mem::take(&mut self.pending).into_values() {
            let _ = pending.answer.send(Answer::Unknown);
        }
    }
}

fn decode_image(snapshot: &Snapshot) -> Result<Image, DriverError> {
    let index = snapshot.get_metadata().index;
    codec::decode_snapshot(snapshot.data.clone()).map_err(|source| DriverError::Snapshot { index, source })
}

fn announce(event: &Event, index: u64) {
    match event {
        Event::DataLossPossible { partition, leader, loss_generation } => {
            tracing::error!(
                index, %partition, %leader, loss_generation,
                "DATA_LOSS_POSSIBLE: a leader was elected that may lack committed records"
            );
        }
        // Also at each clean stop, and again when the log is replayed.
        Event::NoLeader { partition } => tracing::debug!(index, %partition, "partition without a leader"),
    }
}
