//! The end of the process without its usual end.
#![allow(unsafe_code)]

/// Ends the process at once, without destructors and exit handlers: RocksDB's own would tear down what its threads still
/// use. Everything acknowledged is on disk already, and no clean-shutdown marker is written, so the next start checks
/// the logs as after a crash (see docs/adr/0016-exit-without-handlers.md).
pub fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` takes any number, touches no memory of this process and does not return.
    unsafe { libc::_exit(code) }
}
