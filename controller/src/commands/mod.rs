//! Requests to records, as pure functions of the image: what can be refused early is, and what must be chosen (ids,
//! places) is chosen here. The record is judged again when it is applied.

mod nodes;
mod topics;

pub use nodes::Registration;
pub use topics::{
    AlterTopicRequest, CreateTopicRequest, DeleteTopicRequest, TopicAltered, TopicCreated, TopicDeleted,
};
pub(crate) use topics::{TopicIds, alter_topic, create_internal_topic, create_topic, delete_topic};

/// Whether a command is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// It is.
    #[default]
    Execute,
    /// It is only checked, against the image of this moment.
    ValidateOnly,
}
