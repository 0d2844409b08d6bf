//! A full disk: produce is refused, everything else goes on, and space that is freed is used again.
//!
//! Each test mounts a small tmpfs of its own. Where mounting is not permitted the test says so and ends.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use tonic::{Code, Status};
use wharf_proto::error::{ApiError, Applied};
use wharf_proto::v1::{DeleteTopicRequest, ErrorReason, ProducerSequence};
use wharf_tests::api::{Api, record, refused_produce};
use wharf_tests::broker::{Broker, Options};
use wharf_tests::wait;

const VALUE_BYTES: usize = 200_000;
/// Records of a topic that is deleted to make room; more than the space that is allocated ahead.
const BALLAST: i64 = 60;
/// More than what fits on the disk.
const WRITES_MAX: i64 = 2_000;

/// A mounted tmpfs, unmounted when dropped.
struct SmallDisk {
    path: PathBuf,
    /// Removed after the disk is unmounted.
    _root: TempDir,
}

impl SmallDisk {
    fn mount(mebibytes: u32) -> Option<SmallDisk> {
        let root = tempfile::Builder::new().prefix("wharf-test-disk-").tempdir().unwrap();
        let path = root.path().join("mount");
        std::fs::create_dir_all(&path).unwrap();
        let size = format!("size={mebibytes}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "wharf-test"]).arg(&path).output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk { path, _root: root }),
            Ok(output) => {
                eprintln!(
                    "skipped: a tmpfs cannot be mounted here: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                None
            }
            Err(error) => {
                eprintln!("skipped: mount cannot be run here: {error}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the broker may still be on its way out.
        drop(Command::new("umount").arg("-l").arg(&self.path).output());
    }
}

/// The broker is dropped before its disk.
struct Setup {
    broker: Broker,
    _disk: SmallDisk,
}

fn setup(mebibytes: u32, args: &[&str]) -> Option<Setup> {
    let mut broker = Broker::prepare(Options::with_args(args));
    let disk = SmallDisk::mount(mebibytes)?;
    broker.set_data_dir(disk.path.join("data"));
    broker.start_again();
    Some(Setup { broker, _disk: disk })
}

fn value(n: i64) -> Vec<u8> {
    let mut value = format!("value-{n}:").into_bytes();
    value.resize(VALUE_BYTES, n as u8);
    value
}

/// Writes until the disk is full; how many records were acknowledged.
async fn fill(api: &mut Api, topic: &str) -> i64 {
    let from = api.high_watermark(topic, 0).await;
    for n in from..from + WRITES_MAX {
        match api.produce(topic, Some(0), vec![record(value(n))]).await {
            Ok(answer) => assert_eq!(answer.positions[0].offset, Some(n)),
            Err(status) => {
                storage_full(Err(status));
                return n;
            }
        }
    }
    panic!("the disk does not get full");
}

fn storage_full(answer: Result<(), Status>) -> ApiError {
    refused_produce(answer, Code::ResourceExhausted, ErrorReason::StorageFull, &Applied::None)
}

async fn check(api: &mut Api, topic: &str, count: i64) {
    let read = api.read_all(topic, 0).await;
    assert_eq!(read.len() as i64, count);
    for (n, record) in (0..).zip(&read) {
        assert_eq!((record.offset, record.value.as_deref()), (Some(n), Some(&*value(n))));
    }
}

async fn full_and_free_again(mut setup: Setup) {
    let broker = &mut setup.broker;
    let mut api = broker.api().await;
    api.create("t", 1).await;
    api.create("ballast", 1).await;
    for n in 0..BALLAST {
        api.put("ballast", 0, value(n)).await;
    }
    let producer = api.producer().await;
    let first = api.produce_as("t", Some(0), producer, vec![record(value(0))]).await.unwrap();
    assert_eq!(first.positions[0].offset, Some(0));
    let count = fill(&mut api, "t").await;
    assert!(count >= 1, "{count} records on the whole disk");
    // Refused, also with a sequence, and still refused after a restart; everything else goes on.
    let next = ProducerSequence { sequence: 1, ..producer };
    let answer = api.produce_as("t", Some(0), next, vec![record(value(count))]).await.map(|_| ());
    storage_full(answer);
    check(&mut api, "t", count).await;
    api.commit("g", "t", 0, count).await.unwrap();
    assert_eq!(api.committed("g", "t", 0).await, Some(count));
    broker.restart();
    let mut api = broker.api().await;
    check(&mut api, "t", count).await;
    assert_eq!(api.committed("g", "t", 0).await, Some(count));
    api.commit("g", "t", 0, count - 1).await.unwrap();
    storage_full(api.produce("t", Some(0), vec![record(value(count))]).await.map(|_| ()));
    broker.kill();
    broker.start_again();
    let mut api = broker.api().await;
    check(&mut api, "t", count).await;
    assert_eq!(api.committed("g", "t", 0).await, Some(count - 1));
    let deletion = DeleteTopicRequest { topic: "ballast".into(), purge: true, validate_only: false };
    api.admin.delete_topic(deletion).await.unwrap();
    // The refused request's sequence was not used up.
    let positions = wait::until_async("space after the deletion", async || {
        let answer = api.clone().produce_as("t", Some(0), next, vec![record(value(count))]).await;
        let answer = answer.inspect_err(|status| eprintln!("still refused: {}", status.message()));
        answer.ok().map(|answer| (answer.duplicate, answer.positions))
    })
    .await;
    assert_eq!((positions.0, positions.1[0].offset), (false, Some(count)));
    check(&mut api, "t", count + 1).await;
    // Full once more, and again freed, now by deleting records.
    let count = fill(&mut api, "t").await;
    check(&mut api, "t", count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reserve_keeps_everything_but_produce_alive() {
    let Some(setup) = setup(64, &[]) else { return };
    full_and_free_again(setup).await;
}

/// Without a reserve the writes themselves find no space.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_without_reserve_refuses_whole_batches() {
    let Some(mut setup) = setup(64, &["--disk-reserve-bytes", "0"]) else { return };
    let broker = &mut setup.broker;
    let mut api = broker.api().await;
    api.create("t", 1).await;
    api.create("ballast", 1).await;
    for n in 0..BALLAST {
        api.put("ballast", 0, value(n)).await;
    }
    let count = fill(&mut api, "t").await;
    check(&mut api, "t", count).await;
    assert!(broker.is_alive(), "a full disk does not end the process: {}", broker.stderr());
    let deletion = DeleteTopicRequest { topic: "ballast".into(), purge: true, validate_only: false };
    api.admin.delete_topic(deletion).await.unwrap();
    wait::until_async("space after the deletion", async || {
        let answer = api.clone().produce("t", Some(0), vec![record(value(count))]).await;
        answer.inspect_err(|status| eprintln!("still refused: {}", status.message())).ok()
    })
    .await;
    check(&mut api, "t", count + 1).await;
    broker.kill();
    broker.start_again();
    check(&mut broker.api().await, "t", count + 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trash_is_emptied_before_produce_stays_refused() {
    let Some(mut setup) = setup(64, &[]) else { return };
    let broker = &mut setup.broker;
    let mut api = broker.api().await;
    api.create("ballast", 1).await;
    fill(&mut api, "ballast").await;
    let deletion = DeleteTopicRequest { topic: "ballast".into(), ..Default::default() };
    api.admin.delete_topic(deletion).await.unwrap();
    api.create("t", 1).await;
    wait::until_async("space from the trash", async || {
        api.clone().produce("t", Some(0), vec![record(value(0))]).await.ok()
    })
    .await;
    check(&mut api, "t", 1).await;
}
