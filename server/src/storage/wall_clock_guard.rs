//! Whether the wall clock can be believed: retention by time must not delete for a clock that jumped (R16).

use std::time::Duration;

use wharf_types::TimestampMs;

/// A jump larger than this makes the clock doubtful.
const JUMP: Duration = Duration::from_secs(5 * 60);
/// How long it must be steady to be believed again.
const STEADY_FOR: Duration = Duration::from_secs(10 * 60);

/// What is thought of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockState {
    /// It goes as fast as the monotonic clock.
    Steady,
    /// It jumped a short time ago.
    Jumped,
}

impl ClockState {
    pub(crate) fn is_steady(self) -> bool {
        self == ClockState::Steady
    }
}

/// Compares the wall clock with the monotonic one.
#[derive(Debug)]
pub(crate) struct WallClockGuard {
    wall: TimestampMs,
    monotonic: Duration,
    doubtful_until: Option<Duration>,
}

impl WallClockGuard {
    pub(crate) fn new(wall: TimestampMs) -> Self {
        WallClockGuard { wall, monotonic: Duration::ZERO, doubtful_until: None }
    }

    /// Takes a look at both clocks.
    pub(crate) fn look(&mut self, wall: TimestampMs, monotonic: Duration) -> ClockState {
        let elapsed = monotonic.saturating_sub(self.monotonic);
        let expected =
            self.wall.value().saturating_add(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        if Duration::from_millis(expected.abs_diff(wall.value())) > JUMP {
            tracing::warn!(
                expected,
                actual = wall.value(),
                "the wall clock jumped; retention by time pauses"
            );
            self.doubtful_until = Some(monotonic + STEADY_FOR);
        }
        self.wall = wall;
        self.monotonic = monotonic;
        match self.doubtful_until {
            Some(until) if monotonic < until => ClockState::Jumped,
            _ => {
                self.doubtful_until = None;
                ClockState::Steady
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    #[test]
    fn a_jump_pauses_until_the_clock_was_steady_for_a_while() {
        let mut guard = WallClockGuard::new(TimestampMs::new(1_000 * MINUTE));
        let at = |minutes: u64, offset: u64| {
            (TimestampMs::new((minutes + offset) * MINUTE), Duration::from_secs(minutes * 60))
        };
        let mut look = |(wall, monotonic)| guard.look(wall, monotonic);
        assert_eq!(look(at(1, 1_000)), ClockState::Steady);
        assert_eq!(look(at(2, 44_000)), ClockState::Jumped);
        assert_eq!(look(at(11, 44_000)), ClockState::Jumped);
        assert_eq!(look(at(13, 44_000)), ClockState::Steady);
        assert_eq!(look(at(14, 1_000)), ClockState::Jumped);
    }
}
