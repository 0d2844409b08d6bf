//! `kill -9` at random moments under load: nothing that was acknowledged is lost, nothing is there twice.
//!
//! Ten kills in the usual run; `KILL_CAMPAIGN=full` makes it 60, `WHARF_KILLS` any number.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use wharf_tests::broker::{Broker, Options};
use wharf_tests::load::{Kind, Load};
use wharf_tests::seed;

const PARTITIONS: i32 = 3;

/// How often the broker is killed.
fn kills() -> usize {
    let asked = std::env::var("WHARF_KILLS").ok().map(|text| text.parse().expect("WHARF_KILLS is a number"));
    let full = std::env::var("KILL_CAMPAIGN").is_ok_and(|value| value == "full");
    asked.unwrap_or(if full { 60 } else { 10 })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_campaign_loses_nothing_that_was_acknowledged() {
    campaign("kill_campaign", Options::default(), "ack").await;
}

/// A killed process loses nothing that it had written, so the other policies lose nothing either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_campaign_loses_nothing_without_flushes() {
    campaign("kill_campaign_os", Options::default(), "os").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_campaign_with_power_loss_loses_nothing_that_was_acknowledged() {
    let options = Options { power_loss: true, ..Options::default() };
    campaign("kill_campaign_power", options, "ack").await;
}

async fn campaign(name: &str, options: Options, flush_policy: &str) {
    let mut rng = seed::rng(name);
    let mut broker = Broker::start_with(options);
    let mut api = broker.api().await;
    let small = [("segment.bytes", "1048576"), ("flush.policy", flush_policy), ("compression.type", "lz4")];
    api.create_with("load", PARTITIONS, &small).await;
    let kinds = [Kind::Plain, Kind::Idempotent, Kind::Stream];
    let mut load = Load::new(&mut api, "load", PARTITIONS, &kinds).await;
    for kill in 0..kills() {
        let running = load.start(broker.address());
        running.acknowledged(rng.random_range(10..500)).await;
        broker.kill();
        load.collect(running).await;
        crash_while_starting(&mut broker, &mut rng);
        broker.start_again();
        if kill % 10 == 9 {
            load.forget_scans();
        }
        load.check(&mut broker.api().await).await;
        eprintln!("{name}: {} kills, {} acknowledged requests", kill + 1, load.acknowledged());
    }
    broker.restart();
    load.forget_scans();
    load.check(&mut broker.api().await).await;
}

/// Now and then the next crash comes while the broker recovers from the last one.
fn crash_while_starting(broker: &mut Broker, rng: &mut StdRng) {
    while rng.random_bool(0.3) {
        broker.crash_while_starting(Duration::from_millis(rng.random_range(0..200)));
    }
}
