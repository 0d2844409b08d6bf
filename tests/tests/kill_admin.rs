//! `kill -9` while topics come, change and go: what was acknowledged holds after the restart.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use wharf_proto::error::ApiError;
use wharf_proto::v1::{
    CreateTopicRequest, DeleteRecordsRequest, DeleteTopicRequest, ErrorReason, GetTopicRequest,
    ListTopicsRequest, RecordDeletion, UpdateTopicRequest,
};
use wharf_tests::api::{Api, settings};
use wharf_tests::broker::{Broker, Options};
use wharf_tests::seed;

const NAMES: u32 = 6;

/// What is known of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    partitions: i32,
    retention_ms: i64,
    values: i64,
    log_start: i64,
    committed: i64,
}

/// One change, known to be made, or perhaps made.
#[derive(Clone, Debug)]
enum Change {
    Set(Known),
    Gone,
}

struct Model {
    topics: BTreeMap<String, Known>,
    /// The change that was on its way when the broker died.
    pending: Option<(String, Change)>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_campaign_keeps_acknowledged_changes() {
    campaign("kill_admin", Options::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_campaign_with_power_loss_keeps_acknowledged_changes() {
    campaign("kill_admin_power", Options { power_loss: true, ..Options::default() }).await;
}

async fn campaign(name: &str, options: Options) {
    let mut rng = seed::rng(name);
    let full = std::env::var("KILL_CAMPAIGN").is_ok_and(|value| value == "full");
    let mut broker = Broker::start_with(options);
    let mut model = Model { topics: BTreeMap::new(), pending: None };
    for _ in 0..if full { 60 } else { 8 } {
        let mut api = broker.api().await;
        let after = Duration::from_millis(rng.random_range(20..600));
        let killer = std::thread::spawn(move || {
            // Not to wait for something, but to come at any moment.
            std::thread::sleep(after);
            broker.kill();
            broker
        });
        while step(&mut api, &mut model, &mut rng).await {}
        broker = tokio::task::spawn_blocking(move || killer.join().unwrap()).await.unwrap();
        broker.start_again();
        check(&mut broker.api().await, &mut model).await;
    }
    broker.restart();
    check(&mut broker.api().await, &mut model).await;
}

/// Makes one change; false once the broker is gone.
async fn step(api: &mut Api, model: &mut Model, rng: &mut StdRng) -> bool {
    let name = format!("topic-{}", rng.random_range(0..NAMES));
    let known = model.topics.get(&name).cloned();
    let change = match (&known, rng.random_range(0..8)) {
        (None, _) => Change::Set(Known {
            partitions: rng.random_range(1..4),
            retention_ms: 604_800_000,
            ..Known::default()
        }),
        (Some(_), 0) => Change::Gone,
        (Some(known), 1) => {
            Change::Set(Known { retention_ms: rng.random_range(1_000_000..9_000_000), ..known.clone() })
        }
        (Some(known), 2) => Change::Set(Known { partitions: known.partitions + 1, ..known.clone() }),
        (Some(known), 3) => Change::Set(Known { log_start: known.values, ..known.clone() }),
        (Some(known), 4) => Change::Set(Known { committed: known.values, ..known.clone() }),
        (Some(known), _) => Change::Set(Known { values: known.values + 1, ..known.clone() }),
    };
    let done = make(api, &name, known.as_ref(), &change).await;
    match done {
        Ok(()) => {
            apply(model, name, change);
            true
        }
        Err(status) => {
            assert!(ApiError::from_status(&status).is_none(), "{name}, {known:?} to {change:?}: {status:?}");
            model.pending = Some((name, change));
            false
        }
    }
}

fn apply(model: &mut Model, name: String, change: Change) {
    match change {
        Change::Set(known) => drop(model.topics.insert(name, known)),
        Change::Gone => drop(model.topics.remove(&name)),
    }
}

async fn make(
    api: &mut Api,
    name: &str,
    known: Option<&Known>,
    change: &Change,
) -> Result<(), tonic::Status> {
    let topic = name.to_owned();
    match (known, change) {
        (_, Change::Gone) => {
            let purge = name.ends_with('1');
            api.admin.delete_topic(DeleteTopicRequest { topic, purge, validate_only: false }).await?;
        }
        (None, Change::Set(new)) => {
            let partitions = new.partitions;
            api.admin.create_topic(CreateTopicRequest { topic, partitions, ..Default::default() }).await?;
        }
        (Some(old), Change::Set(new)) if old.retention_ms != new.retention_ms => {
            let set_config = BTreeMap::from([("retention.ms".to_owned(), new.retention_ms.to_string())]);
            api.admin.update_topic(UpdateTopicRequest { topic, set_config, ..Default::default() }).await?;
        }
        (Some(old), Change::Set(new)) if old.partitions != new.partitions => {
            let partitions = Some(new.partitions);
            api.admin.update_topic(UpdateTopicRequest { topic, partitions, ..Default::default() }).await?;
        }
        (Some(old), Change::Set(new)) if old.log_start != new.log_start => {
            let partitions = vec![RecordDeletion { partition: 0, before_offset: new.log_start }];
            api.admin
                .delete_records(DeleteRecordsRequest { topic, partitions, validate_only: false })
                .await?;
        }
        (Some(old), Change::Set(new)) if old.committed != new.committed => {
            api.commit("g", name, 0, new.committed).await?;
        }
        (Some(old), Change::Set(new)) if old.values != new.values => {
            let value = format!("{name}:{}", old.values);
            let answer = api.produce(name, Some(0), vec![wharf_tests::api::record(value)]).await?;
            assert_eq!(answer.positions[0].offset, Some(old.values), "{name}");
        }
        (Some(_), Change::Set(_)) => {}
    }
    Ok(())
}

/// The topics are those of the model, with or without the change that has no answer.
async fn check(api: &mut Api, model: &mut Model) {
    let listed = api.admin.list_topics(ListTopicsRequest::default()).await.unwrap().into_inner().topics;
    let mut found = BTreeMap::new();
    for topic in listed {
        let known = look_at(api, &topic.topic, model).await;
        found.insert(topic.topic, known);
    }
    if let Some((name, change)) = model.pending.take() {
        let mut with = Model { topics: model.topics.clone(), pending: None };
        apply(&mut with, name.clone(), change.clone());
        if found == with.topics {
            model.topics = with.topics;
            return;
        }
        assert_eq!(found, model.topics, "neither before nor after {name}: {change:?}");
        return;
    }
    assert_eq!(found, model.topics);
}

async fn look_at(api: &mut Api, name: &str, model: &Model) -> Known {
    let request = GetTopicRequest { topic: name.to_owned(), page_size: 1_000, ..Default::default() };
    let shown = api.admin.get_topic(request).await.unwrap().into_inner();
    let records = api.read_all(name, 0).await;
    for record in &records {
        let value = format!("{name}:{}", record.offset.unwrap());
        assert_eq!(
            record.value.as_deref(),
            Some(value.as_bytes()),
            "{name} holds what was not written there"
        );
    }
    let first = &shown.partitions[0];
    let values = first.high_watermark.unwrap();
    let log_start = first.log_start_offset.unwrap();
    assert_eq!(records.len() as i64, values - log_start, "{name} in {:?}", model.topics.get(name));
    let committed = api.committed("g", name, 0).await.unwrap_or_default();
    Known {
        partitions: shown.topic.as_ref().unwrap().partition_count,
        retention_ms: settings(&shown.config)["retention.ms"].0.parse().unwrap(),
        values,
        log_start,
        committed,
    }
}

/// The reasons that a restarted broker may give while it gets ready are none that a caller sees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_broker_answers_at_once() {
    let mut broker = Broker::start();
    let mut api = broker.api().await;
    for n in 0..20 {
        api.create(&format!("t{n}"), 4).await;
        api.put(&format!("t{n}"), 3, "v").await;
        api.commit(&format!("g{n}"), &format!("t{n}"), 3, 1).await.unwrap();
    }
    for kill in [true, false] {
        if kill {
            broker.kill()
        } else {
            broker.stop()
        }
        broker.start_again();
        let mut api = broker.api().await;
        for n in 0..20 {
            assert_eq!(api.committed(&format!("g{n}"), &format!("t{n}"), 3).await, Some(1));
            assert_eq!(api.read_all(&format!("t{n}"), 3).await.len(), 1);
        }
        let missing = api.fetch("missing", 0, 0).await.unwrap_err();
        assert_eq!(ApiError::from_status(&missing).unwrap().reason, ErrorReason::TopicNotFound);
    }
}

/// A stop that comes while the broker still follows changes of topics ends in time, and clean.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_amid_changes_of_topics_is_clean() {
    let mut broker = Broker::start_with(Options { power_loss: true, ..Options::default() });
    for round in 0..15 {
        let mut api = broker.api().await;
        for n in 0..6 {
            api.create(&format!("r{round}-{n}"), 3).await;
            // With a commit there are shards of the offsets log that have to end too.
            api.commit("g", &format!("r{round}-{n}"), 0, 0).await.unwrap();
        }
        let deletions: Vec<_> = (0..6)
            .map(|n| {
                let (mut api, topic) = (api.clone(), format!("r{round}-{n}"));
                let deletion = DeleteTopicRequest { topic, purge: false, validate_only: false };
                tokio::spawn(async move { api.admin.delete_topic(deletion).await.is_ok() })
            })
            .collect();
        for deletion in deletions {
            assert!(deletion.await.unwrap());
        }
        broker.kill();
        // The next start has the folders of the deleted topics to clear away, and is stopped meanwhile.
        broker.start_again();
        broker.stop();
        assert!(broker.data_dir().join("clean").exists(), "no clean marker: {}", broker.stderr());
        broker.start_again();
    }
}
