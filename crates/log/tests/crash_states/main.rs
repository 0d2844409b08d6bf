//! Crash-state enumeration: every legal state that a crash can leave at every point of a scenario must recover to a
//! legal log (testing.md 3).
//!
//! A scenario runs once on the memory file system, which records each mutation. Then, for every prefix of the record,
//! crash states are enumerated: each unsynced name, page, sector and length kept or lost. Each state is opened like a
//! restarted process opens it, and checked against what was promised before the crash. Of some states the recovery
//! itself is crashed again.
//!
//! `WHARF_CRASH_STATES` sets how many states all scenarios together aim at (default 100,000).
#![allow(clippy::unwrap_used)]

mod check;
mod enumerate;
mod scenario;

use enumerate::Budget;
use scenario::Scenario;

/// States per scenario, from the environment.
fn budget(share: u64) -> Budget {
    let total =
        std::env::var("WHARF_CRASH_STATES").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000u64);
    Budget { states: total * share / 100 }
}

fn run(name: &str, share: u64, steps: impl FnOnce(&mut Scenario)) {
    let mut scenario = Scenario::new();
    steps(&mut scenario);
    let outcome = enumerate::run(scenario.finish(), budget(share));
    println!(
        "{name}: {} points, {} states, {} of them in recovery",
        outcome.points, outcome.states, outcome.second
    );
    assert!(outcome.states >= budget(share).states / 4, "the scenario is too small for its share");
}

#[test]
fn appends_rolls_and_flushes() {
    run("append", 30, |scenario| {
        for round in 0..6 {
            scenario.append(2);
            scenario.append_from_producer(1);
            if round % 2 == 0 {
                scenario.flush();
            }
            scenario.append(1);
            if round == 3 {
                scenario.checkpoint();
            }
        }
        scenario.flush();
        scenario.append(3);
    });
}

#[test]
fn leader_epochs() {
    run("epochs", 10, |scenario| {
        scenario.append(2);
        scenario.next_epoch();
        scenario.append(1);
        scenario.flush();
        scenario.next_epoch();
        scenario.next_epoch();
        scenario.append_from_producer(2);
        scenario.checkpoint();
        scenario.append(2);
        scenario.flush();
    });
}

#[test]
fn truncations() {
    run("truncate", 20, |scenario| {
        scenario.append(4);
        scenario.next_epoch();
        scenario.append_from_producer(8);
        scenario.flush();
        scenario.checkpoint();
        scenario.truncate(9);
        scenario.append(3);
        scenario.flush();
        scenario.append(2);
        scenario.truncate(10);
        scenario.append_from_producer(6);
        scenario.truncate(2);
        scenario.append(2);
        scenario.flush();
        scenario.checkpoint();
        scenario.append(1);
        scenario.truncate(0);
        scenario.append(2);
    });
}

#[test]
fn retention_and_reset() {
    run("retention", 15, |scenario| {
        scenario.append_from_producer(6);
        scenario.append(6);
        scenario.flush();
        scenario.advance_start(5);
        scenario.append(4);
        scenario.checkpoint();
        scenario.flush();
        scenario.advance_start(13);
        scenario.append(2);
        scenario.reset(40);
        scenario.append_from_producer(3);
        scenario.flush();
        scenario.append(5);
        scenario.flush();
        scenario.advance_start(43);
    });
}

#[test]
fn compaction_swaps() {
    run("compact", 15, |scenario| {
        scenario.compacted();
        scenario.append_keyed(9);
        scenario.flush();
        scenario.compact();
        scenario.append_keyed(6);
        scenario.checkpoint();
        scenario.flush();
        scenario.compact();
        scenario.append_keyed(2);
        scenario.flush();
    });
}

#[test]
fn clean_stops() {
    run("clean", 10, |scenario| {
        scenario.append_from_producer(4);
        scenario.restart();
        scenario.append(3);
        scenario.flush();
        scenario.restart();
        scenario.append_from_producer(2);
        scenario.truncate(6);
        scenario.restart();
        scenario.append(1);
    });
}
