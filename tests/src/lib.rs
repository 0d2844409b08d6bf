//! What black-box tests of Wharf share: real processes on ephemeral ports and temporary folders, driven by the stubs
//! that any client has.
//!
//! * [`broker`]: a `wharf standalone` process: start, kill, stop, start again on the same folder.
//! * [`api`]: calls by generated stubs, and what a refused call must look like.
//! * [`cli`]: the command line.
//! * [`load`]: producers and a committer under load, and the checker of what they were promised.
//! * [`files`]: the files of a stopped broker, to be damaged.
//!
//! The crate must not know the server's code: what it says is what a client or an operator can see. A step that fails
//! is a failed test, so the helpers panic; each says what it waited for. Seeds are printed, and `WHARF_TEST_SEED` sets one.

#![allow(clippy::unwrap_used)]

pub mod api;
pub mod binary;
pub mod broker;
pub mod cli;
pub mod files;
pub mod load;
pub mod ops;
pub mod raw;
pub mod seed;
pub mod wait;
