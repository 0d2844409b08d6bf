//! One partition's log on disk: record batches, segments with their indexes, flushing, recovery, retention,
//! compaction, leader epochs and producer state.
//!
//! The crate knows no async runtime, no clock and no randomness: the time is an argument, calls block, and
//! whoever calls them chooses the thread. It knows nothing of replication beyond the rules that the log itself must
//! keep (R5, R6, R10, R16, R17), and nothing of topics beyond [`log::LogConfig`]. All IO goes through [`vfs::Vfs`].
//!
//! Main types: [`log::Log`] (the single writer of a partition), [`log::LogReader`] (any number beside it),
//! [`data_dir::DataDir`] (what all partitions of a disk share), [`checkpoint::Checkpoint`], [`vfs::Vfs`].

pub mod batch;
pub mod checkpoint;
pub mod compaction;
pub mod data_dir;
pub mod epochs;
pub mod flush;
mod framed;
mod index;
pub mod log;
pub mod producer;
mod recovery;
mod segment;
pub mod vfs;
