//! How messages reach the other voters.

use raft::eraftpb::Message;

/// Carries raft messages to other voters. May lose, repeat and reorder them; raft copes.
///
/// Called on the driver's thread, so it must not block. Messages are handed over only when what they promise is
/// durable (R3). Who receives one hands it to [`crate::ControllerHandle::step`].
pub trait Transport: Send + 'static {
    /// Sends messages, each to the voter in its `to`.
    fn send(&mut self, messages: Vec<Message>);
}

/// The transport of a sole voter, which has nobody to write to.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTransport;

impl Transport for NoTransport {
    fn send(&mut self, messages: Vec<Message>) {
        debug_assert!(messages.is_empty(), "a sole voter has nobody to write to: {messages:?}");
    }
}
