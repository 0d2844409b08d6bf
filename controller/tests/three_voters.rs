//! Three voters over a transport that loses messages: the seams for a quorum hold (R3, traps 57, 58).
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{create, names, register};
use wharf_controller::{
    CommandError, Controller, ControllerConfig, ControllerHandle, NoTransport, RaftMessage, SnapshotStatus,
    Transport,
};
use wharf_types::NodeId;

#[derive(Default)]
struct Net {
    nodes: BTreeMap<u64, ControllerHandle>,
    cut_off: BTreeSet<u64>,
}

#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Net>>);

impl Transport for Wire {
    fn send(&mut self, messages: Vec<RaftMessage>) {
        let net = self.0.lock().unwrap();
        for message in messages {
            let (from, to) = (message.from, message.to);
            let node = |id: u64| NodeId::new(u32::try_from(id).unwrap());
            let snapshot = message.get_msg_type() == raft::eraftpb::MessageType::MsgSnapshot;
            let cut = net.cut_off.contains(&from) || net.cut_off.contains(&to);
            let target = net.nodes.get(&to).filter(|_| !cut);
            if let Some(target) = target {
                target.step(message);
            }
            if let Some(sender) = net.nodes.get(&from) {
                match target {
                    None if snapshot => sender.report_snapshot(node(to), SnapshotStatus::Failure),
                    None => sender.report_unreachable(node(to)),
                    Some(_) if snapshot => sender.report_snapshot(node(to), SnapshotStatus::Finish),
                    Some(_) => {}
                }
            }
        }
    }
}

impl Wire {
    async fn start(&self, dir: &Path, id: u32) -> ControllerHandle {
        let mut config = ControllerConfig::new(dir.join(id.to_string()), NodeId::new(id));
        config.voters = (1..=3).map(NodeId::new).collect();
        config.tick = Duration::from_millis(10);
        config.compact_after_entries = 20;
        config.compact_keep_entries = 5;
        config.command_timeout = Duration::from_secs(20);
        std::fs::create_dir_all(&config.data_dir).unwrap();
        let handle = Controller::start(config, self.clone()).await.unwrap();
        self.0.lock().unwrap().nodes.insert(id.into(), handle.clone());
        handle
    }

    fn cut_off(&self, ids: &[u64]) {
        self.0.lock().unwrap().cut_off = ids.iter().copied().collect();
    }
}

/// The one of these that leads, once one does.
async fn leader(among: &[&ControllerHandle]) -> ControllerHandle {
    let waits = among.iter().map(|handle| {
        let handle = ControllerHandle::clone(handle);
        Box::pin(async move {
            let mut status = handle.watch_status();
            status.wait_for(|status| status.leads && status.ready).await.map(drop).unwrap();
            handle
        })
    });
    let mut waits: Vec<_> = waits.collect();
    let first = std::future::poll_fn(|context| {
        for wait in &mut waits {
            if let std::task::Poll::Ready(handle) = wait.as_mut().poll(context) {
                return std::task::Poll::Ready(handle);
            }
        }
        std::task::Poll::Pending
    });
    tokio::time::timeout(Duration::from_secs(30), first).await.unwrap()
}

async fn catches_up(handle: &ControllerHandle, index: u64) {
    let mut watch = handle.watch();
    let caught_up = watch.wait_for(|image| image.applied_index() >= index);
    tokio::time::timeout(Duration::from_secs(30), caught_up).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_goes_on_without_its_leader_and_the_old_one_follows_by_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let wire = Wire::default();
    let mut nodes = Vec::new();
    for id in 1..=3 {
        nodes.push(wire.start(dir.path(), id).await);
    }
    let all: Vec<&ControllerHandle> = nodes.iter().collect();
    let old = leader(&all).await;
    register(&old, 1, None).await;
    old.create_topic(create("before", 3)).await.unwrap();
    let cluster = old.image().cluster_id();

    let old_id = old.status().leader.unwrap();
    wire.cut_off(&[old_id.value().into()]);
    let lost = old.create_topic(create("lost", 1));
    let rest: Vec<&ControllerHandle> = nodes
        .iter()
        .enumerate()
        .filter(|(at, _)| *at + 1 != old_id.value() as usize)
        .map(|(_, node)| node)
        .collect();
    let (lost, new) = tokio::join!(lost, leader(&rest));
    assert_eq!(lost, Err(CommandError::Unknown));
    for number in 0..40 {
        new.create_topic(create(&format!("t{number}"), 1)).await.unwrap();
    }
    assert!(matches!(old.allocate_producer_ids(1).await, Err(CommandError::NotLeader { .. })));

    wire.cut_off(&[]);
    let expected = new.image();
    for node in &nodes {
        catches_up(node, expected.applied_index()).await;
        let image = node.image();
        assert_eq!(names(&image), names(&expected));
        assert_eq!(image.cluster_id(), cluster);
    }
    assert!(new.image().topic_by_name("lost").is_none());
    for node in &nodes {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn voters_restart_one_after_the_other_and_all_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let wire = Wire::default();
    let mut nodes = Vec::new();
    for id in 1..=3 {
        nodes.push(wire.start(dir.path(), id).await);
    }
    let first = leader(&nodes.iter().collect::<Vec<_>>()).await;
    register(&first, 1, None).await;
    for round in 0..3_u32 {
        let lead = leader(&nodes.iter().collect::<Vec<_>>()).await;
        // Leadership may move between the look and the call; the name is taken if the first try went through.
        match lead.create_topic(create(&format!("r{round}"), 1)).await {
            Ok(_) | Err(CommandError::Unknown | CommandError::NotLeader { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        let at = round as usize;
        nodes[at].shutdown().await;
        nodes[at] = wire.start(dir.path(), round + 1).await;
    }
    for node in &nodes {
        node.shutdown().await;
    }
    let before: Vec<Vec<String>> = nodes.iter().map(|node| names(&node.image())).collect();
    let longest = before.iter().max_by_key(|names| names.len()).unwrap().clone();
    nodes.clear();
    for id in 1..=3 {
        nodes.push(wire.start(dir.path(), id).await);
    }
    let lead = leader(&nodes.iter().collect::<Vec<_>>()).await;
    let now = names(&lead.image());
    assert!(longest.iter().all(|name| now.contains(name)), "{longest:?} → {now:?}");
    for node in &nodes {
        node.shutdown().await;
    }
}

#[tokio::test]
async fn a_voter_alone_is_not_ready() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = ControllerConfig::new(dir.path(), NodeId::new(1));
    config.voters = (1..=3).map(NodeId::new).collect();
    config.command_timeout = Duration::from_millis(200);
    struct Void;
    impl Transport for Void {
        fn send(&mut self, _messages: Vec<RaftMessage>) {}
    }
    let opened = Controller::open(config, Void).await;
    assert!(matches!(opened, Err(wharf_controller::OpenError::NoLeader { .. })), "{opened:?}");
    let mut stranger = ControllerConfig::new(dir.path(), NodeId::new(4));
    stranger.voters = vec![NodeId::new(1)];
    assert!(Controller::open(stranger, NoTransport).await.is_err());
}
