//! Produce: validate, partition, hand each partition its share, and put the answers together.

pub(crate) mod budget;
pub(crate) mod fence;
mod partitioning;
pub(crate) mod pipeline;
mod record;
mod request;
mod stream;

pub(crate) use self::record::record_key;
pub(crate) use self::request::{PendingProduce, Submission};
pub(crate) use self::stream::produce_stream;
