//! The controller as the rest of the process sees it.

use std::ops::Range;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use raft::SnapshotStatus;
use raft::eraftpb::Message;
use tokio::sync::{oneshot, watch};
use wharf_metadata::codec;
use wharf_metadata::{
    AllocateProducerIds, Delta, ElectUnclean, Image, NodeEpoch, Outcome, Record, Topic, apply,
};
use wharf_types::{BrokerEpoch, NodeId, PartitionEpoch, TopicPartition};

use crate::commands::{
    self, AlterTopicRequest, CreateTopicRequest, DeleteTopicRequest, Registration, TopicAltered,
    TopicCreated, TopicDeleted, Validation,
};
use crate::driver::{Answer, DriverError, Input, Status};
use crate::error::{CommandError, OpenError};

/// What all clones of a handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) inputs: SyncSender<Input>,
    pub(crate) image: watch::Receiver<Arc<Image>>,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) failure: watch::Receiver<Option<DriverError>>,
    pub(crate) thread: Mutex<Option<JoinHandle<()>>>,
    pub(crate) queue: usize,
    pub(crate) timeout: Duration,
}

/// A handle to a running controller. Clones are cheap; the controller stops with [`ControllerHandle::shutdown`], or
/// when the last handle goes.
///
/// Commands return when their record is applied and the image shows it. Dropping a command's future does not take the
/// command back.
#[derive(Clone, Debug)]
pub struct ControllerHandle {
    shared: Arc<Shared>,
}

impl ControllerHandle {
    pub(crate) fn new(shared: Shared) -> Self {
        ControllerHandle { shared: Arc::new(shared) }
    }

    /// The newest image.
    #[must_use]
    pub fn image(&self) -> Arc<Image> {
        Arc::clone(&self.shared.image.borrow())
    }

    /// The images as they come; some may be skipped. Ends when the controller stops.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Arc<Image>> {
        self.shared.image.clone()
    }

    /// Who leads.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status.borrow().clone()
    }

    /// Who leads, as it changes.
    #[must_use]
    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.shared.status.clone()
    }

    /// Waits until the controller has stopped; the error says why, if it failed. Then the process should end.
    ///
    /// # Errors
    /// [`DriverError`] if it failed rather than was shut down.
    pub async fn stopped(&self) -> Result<(), DriverError> {
        let mut failure = self.shared.failure.clone();
        loop {
            if let Some(error) = failure.borrow_and_update().clone() {
                return Err(error);
            }
            if failure.changed().await.is_err() {
                return failure.borrow().clone().map_or(Ok(()), Err);
            }
        }
    }

    /// Creates a topic.
    ///
    /// # Errors
    /// [`CommandError`]; a name that is taken is [`CommandError::TopicExists`].
    pub async fn create_topic(&self, request: CreateTopicRequest) -> Result<TopicCreated, CommandError> {
        let ids = commands::TopicIds::draw();
        let image = self.image();
        let record = commands::create_topic(&image, &request, ids)?;
        let topic_id = record.topic_id;
        let image = self.execute(&image, Record::CreateTopic(record), request.validation).await?.1;
        let topic = image.topic(topic_id).ok_or(CommandError::Unknown)?;
        Ok(TopicCreated { topic: Arc::clone(topic) })
    }

    /// Changes a topic's configuration, or grows it.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn alter_topic(&self, request: AlterTopicRequest) -> Result<TopicAltered, CommandError> {
        let image = self.image();
        let record = commands::alter_topic(&image, &request, rand::random())?;
        let topic_id = record.topic_id;
        let image = self.execute(&image, Record::AlterTopic(record), request.validation).await?.1;
        // Deleted since by somebody else: what was asked for was done before that.
        let gone = || CommandError::TopicNotFound { name: request.name.clone() };
        let topic = image.topic(topic_id).ok_or_else(gone)?;
        Ok(TopicAltered { topic: Arc::clone(topic) })
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn delete_topic(&self, request: DeleteTopicRequest) -> Result<TopicDeleted, CommandError> {
        let image = self.image();
        let record = commands::delete_topic(&image, &request)?;
        self.execute(&image, Record::DeleteTopic(record), request.validation).await?;
        Ok(TopicDeleted { topic_id: record.topic_id })
    }

    /// An internal topic, made at its first use with the partitions that it keeps for ever.
    ///
    /// # Errors
    /// [`CommandError`], for one if no storage node is registered.
    pub async fn ensure_internal_topic(&self, name: &'static str) -> Result<Arc<Topic>, CommandError> {
        let image = self.image();
        if let Some(topic) = image.topic_by_name(name) {
            return Ok(Arc::clone(topic));
        }
        let record = commands::create_internal_topic(&image, name, commands::TopicIds::draw())?;
        match self.execute(&image, Record::CreateTopic(record), Validation::Execute).await {
            // Two first uses at once: the other one made it.
            Ok(_) | Err(CommandError::TopicExists { .. }) => {}
            Err(error) => return Err(error),
        }
        self.image().topic_by_name(name).map(Arc::clone).ok_or(CommandError::Unknown)
    }

    /// Registers a storage node (R1) and returns its broker epoch. Sent again with the same incarnation it returns the
    /// same epoch.
    ///
    /// # Errors
    /// [`CommandError`]; [`wharf_metadata::ApplyError::NodeIdInUse`] in it if another process is live under that id.
    pub async fn register_storage(&self, registration: Registration) -> Result<BrokerEpoch, CommandError> {
        let delta = self.propose(&Record::RegisterNode(registration.into())).await?;
        match delta.outcome {
            Outcome::Registered(epoch) => Ok(epoch),
            Outcome::Done | Outcome::ProducerIds(_) => Err(CommandError::Unknown),
        }
    }

    /// Announces a controlled stop: the node leaves every leadership and ISR (R8).
    ///
    /// # Errors
    /// [`CommandError`]; [`wharf_metadata::ApplyError::StaleBrokerEpoch`] in it if the node has registered anew.
    pub async fn controlled_stop(
        &self,
        node_id: NodeId,
        broker_epoch: BrokerEpoch,
    ) -> Result<(), CommandError> {
        self.propose(&Record::StopNode(NodeEpoch { node_id, broker_epoch })).await.map(drop)
    }

    /// Takes a node's session: it leaves every leadership and ISR until it registers again (R2, R5). For whoever knows
    /// that its process is gone, such as a standalone process that holds the node's directory lock.
    ///
    /// # Errors
    /// [`CommandError`]; [`wharf_metadata::ApplyError::StaleBrokerEpoch`] in it if the node has registered anew.
    pub async fn fence_node(&self, node_id: NodeId, broker_epoch: BrokerEpoch) -> Result<(), CommandError> {
        self.propose(&Record::FenceNode(NodeEpoch { node_id, broker_epoch })).await.map(drop)
    }

    /// Makes an eligible replica the leader of a partition that has none, whatever records it lacks (R9): an operator's
    /// decision. The loss generation rises and DATA_LOSS_POSSIBLE is announced.
    ///
    /// # Errors
    /// [`CommandError`]; the partition epoch must be the one on which the decision builds.
    pub async fn elect_unclean(
        &self,
        partition: TopicPartition,
        partition_epoch: PartitionEpoch,
        leader: NodeId,
    ) -> Result<(), CommandError> {
        self.propose(&Record::ElectUnclean(ElectUnclean { partition, partition_epoch, leader }))
            .await
            .map(drop)
    }

    /// Hands out producer ids that nobody else ever gets. Ids of an answer that got lost are lost with it.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn allocate_producer_ids(&self, count: u64) -> Result<Range<u64>, CommandError> {
        let delta = self.propose(&Record::AllocateProducerIds(AllocateProducerIds { count })).await?;
        match delta.outcome {
            Outcome::ProducerIds(ids) => Ok(ids),
            Outcome::Done | Outcome::Registered(_) => Err(CommandError::Unknown),
        }
    }

    /// Hands in a raft message of another voter. One that finds the queue full is lost, which raft copes with.
    pub fn step(&self, message: Message) {
        let _ = self.shared.inputs.try_send(Input::Step(Box::new(message)));
    }

    /// Tells that a message to this voter could not be delivered. The transport must, or raft goes on as if it had been.
    pub fn report_unreachable(&self, voter: NodeId) {
        let _ = self.shared.inputs.try_send(Input::Unreachable(voter));
    }

    /// Tells what became of a snapshot to this voter. The transport must, or raft sends it nothing more.
    pub fn report_snapshot(&self, voter: NodeId, status: SnapshotStatus) {
        let _ = self.shared.inputs.try_send(Input::SnapshotSent(voter, status));
    }

    /// Stops the controller: what was accepted is finished, everything is synced, the log is closed.
    pub async fn shutdown(&self) {
        let shared = Arc::clone(&self.shared);
        let stop = move || {
            // Blocks while the queue is full; the driver empties it. An error means that it has ended.
            let _ = shared.inputs.send(Input::Shutdown);
            let thread = shared.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(thread) = thread {
                // Its panics are caught and told of by `stopped`.
                let _ = thread.join();
            }
        };
        let _ = tokio::task::spawn_blocking(stop).await;
    }

    /// Waits until this voter leads or knows a leader, and its image is current.
    ///
    /// # Errors
    /// [`OpenError::NoLeader`] after the configured time, [`OpenError::Driver`] if the controller stopped before.
    pub async fn wait_ready(&self) -> Result<(), OpenError> {
        let mut status = self.shared.status.clone();
        let wait = tokio::time::timeout(self.shared.timeout, status.wait_for(|status| status.ready)).await;
        match wait {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => {
                let stopped = || DriverError::Panicked { reason: "it ended without an error".to_owned() };
                Err(OpenError::Driver(self.stopped().await.err().unwrap_or_else(stopped)))
            }
            Err(_) => Err(OpenError::NoLeader { waited: self.shared.timeout }),
        }
    }

    /// Proposes a record, or only tries it on a copy of the image. Returns the image after it.
    async fn execute(
        &self,
        image: &Arc<Image>,
        record: Record,
        validation: Validation,
    ) -> Result<(Delta, Arc<Image>), CommandError> {
        match validation {
            Validation::Execute => {
                let delta = self.propose(&record).await?;
                Ok((delta, self.image()))
            }
            Validation::ValidateOnly => {
                let mut trial = Image::clone(image);
                let index = trial.applied_index().saturating_add(1);
                let delta = apply(&mut trial, Some(&record), index)?;
                Ok((delta, Arc::new(trial)))
            }
        }
    }

    async fn propose(&self, record: &Record) -> Result<Delta, CommandError> {
        let (answer, answered) = oneshot::channel();
        let input = Input::Propose { record: codec::encode_record(record), answer };
        match self.shared.inputs.try_send(input) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(CommandError::Overloaded { queue: self.shared.queue }),
            Err(TrySendError::Disconnected(_)) => return Err(CommandError::Stopped),
        }
        match tokio::time::timeout(self.shared.timeout, answered).await {
            Ok(Ok(Answer::Applied(result))) => result.map_err(CommandError::from),
            Ok(Ok(Answer::NotLeader { leader })) => Err(CommandError::NotLeader { leader }),
            Ok(Ok(Answer::Overloaded)) => Err(CommandError::Overloaded { queue: self.shared.queue }),
            Ok(Ok(Answer::Unknown)) | Err(_) => Err(CommandError::Unknown),
            // Never taken from the queue, or lost with the driver: it may have been proposed.
            Ok(Err(_)) => Err(CommandError::Unknown),
        }
    }
}
