//! Whether a recovered log is legal.

use wharf_log::log::{Log, LogConfig, ProducerRecovery, RecoveryReport};
use wharf_log::producer::ProducerStates;
use wharf_log::vfs::MemoryVfs;
use wharf_types::{LeaderEpoch, Offset};

use crate::scenario::{Version, open, read_all};

/// Opens a crash state between two versions and checks what it finds. Returns the recovered log.
pub(crate) fn check(
    vfs: &MemoryVfs,
    config: &LogConfig,
    (before, after): (&Version, &Version),
) -> Result<Log, String> {
    let (_dir, (log, report)) = open(vfs, config);
    let is_reset = after.fold_from > Offset::ZERO && log.log_end_offset() == after.fold_from;
    check_report(&report, is_reset)?;
    let visible = read_all(&log);
    let (start, end) = (log.log_start_offset(), log.log_end_offset());
    let least = before.durable_end.min(after.log_end);
    if end < least {
        return Err(format!("I17: the log ends at {end}, {least} was durable"));
    }
    if start != before.log_start && start != after.log_start {
        return Err(format!("I18: the log starts at {start}"));
    }
    if log.durable_end_offset() != end {
        return Err(format!("T26: durable to {} of {end}", log.durable_end_offset()));
    }
    let matches = |version: &&Version| {
        end <= version.log_end
            && start >= version.fold_from
            && version.visible.range(start.value()..end.value().max(start.value())).eq(visible.iter())
    };
    let Some(version) = [before, after].into_iter().find(matches) else {
        let offsets: Vec<_> = visible.keys().collect();
        return Err(format!("[{start}, {end}) is neither the log before nor after: {offsets:?}"));
    };
    check_epochs(&log, version)?;
    check_producers(&log, version)?;
    Ok(log)
}

/// A log that was reset has no producer state before the leader's is installed.
fn check_report(report: &RecoveryReport, is_reset: bool) -> Result<(), String> {
    if !report.damaged.is_empty() {
        return Err(format!("R17: torn data was taken for rot: {report:?}"));
    }
    if report.producers != ProducerRecovery::Full && !is_reset {
        return Err(format!("T40: producer state is partial: {report:?}"));
    }
    Ok(())
}

/// I9: every epoch of the batches that are there ends where the next begins.
fn check_epochs(log: &Log, version: &Version) -> Result<(), String> {
    let end = log.log_end_offset();
    let mut epochs: Vec<(LeaderEpoch, Offset)> = Vec::new();
    for batch in version.batches.iter().filter(|batch| batch.next_offset() <= end) {
        if epochs.last().is_none_or(|(epoch, _)| *epoch != batch.leader_epoch()) {
            epochs.push((batch.leader_epoch(), batch.base_offset()));
        }
    }
    for (at, (epoch, _)) in epochs.iter().enumerate() {
        let expected = epochs.get(at + 1).map_or(end, |(_, start)| *start);
        let actual = log.epoch_end(*epoch);
        if expected > log.log_start_offset()
            && actual.is_none_or(|actual| actual.epoch != *epoch || actual.end != expected)
        {
            return Err(format!("I9: epoch {epoch} should end at {expected}: {actual:?}"));
        }
    }
    Ok(())
}

/// I11: the producer state is the fold of the log.
fn check_producers(log: &Log, version: &Version) -> Result<(), String> {
    let mut fold = ProducerStates::new(version.fold_from);
    for batch in version.batches.iter().filter(|batch| batch.next_offset() <= log.log_end_offset()) {
        fold.apply(batch).map_err(|error| error.to_string())?;
    }
    if fold.encode_snapshot() != log.producer_states().encode_snapshot() {
        return Err(format!(
            "I11: producer state at {} is not the fold up to {}",
            log.producer_states().end_offset(),
            fold.end_offset()
        ));
    }
    Ok(())
}
