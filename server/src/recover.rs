//! `wharf recover metadata`: a new controller store from what the partition folders say (R3).

use std::path::Path;

/// Rebuilds the controller's store of a stopped server.
///
/// # Errors
/// If the server runs, or the folders cannot be read.
pub fn metadata(_data_dir: &Path, _dry_run: bool) -> anyhow::Result<()> {
    anyhow::bail!("not built yet")
}
