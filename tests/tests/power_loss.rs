//! Power loss where the topic's flush policy does not wait for the disk: what was acknowledged may be lost, but what is
//! left is a prefix of it, and nothing is damaged. (With `flush.policy=ack` nothing is lost: see `kill.rs`.)

#![allow(clippy::unwrap_used)]

use rand::RngExt;
use wharf_tests::broker::{Broker, Options};
use wharf_tests::load::{Kind, Load};
use wharf_tests::seed;

const ROUNDS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_flushes_a_power_loss_leaves_a_prefix() {
    let mut rng = seed::rng("power_loss_os");
    let mut broker = Broker::start_with(Options { power_loss: true, ..Options::default() });
    let mut api = broker.api().await;
    api.create_with("load", 2, &[("segment.bytes", "1048576"), ("flush.policy", "os")]).await;
    let mut load = Load::new(&mut api, "load", 2, &[Kind::Plain, Kind::Plain]).await;
    for round in 0..ROUNDS {
        let running = load.start_without_commits(broker.address());
        running.acknowledged(rng.random_range(100..400)).await;
        broker.kill();
        load.collect(running).await;
        broker.start_again();
        let lost = load.check_prefix(&mut broker.api().await).await;
        eprintln!("round {round}: {lost} acknowledged records were lost, as documented");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_and_a_topic_survive_a_power_loss() {
    let mut broker = Broker::start_with(Options { power_loss: true, ..Options::default() });
    let mut api = broker.api().await;
    api.create("t", 1).await;
    api.put("t", 0, "v").await;
    api.commit("g", "t", 0, 1).await.unwrap();
    broker.kill();
    broker.start_again();
    let mut api = broker.api().await;
    assert_eq!(api.committed("g", "t", 0).await, Some(1));
    assert_eq!(api.read_all("t", 0).await.len(), 1);
    assert_eq!(api.put("t", 0, "w").await, 1);
    // A clean stop flushes everything, whatever the policy.
    api.create_with("os", 1, &[("flush.policy", "os")]).await;
    api.put("os", 0, "v").await;
    broker.restart();
    assert_eq!(broker.api().await.read_all("os", 0).await.len(), 1);
}
