//! Damaged files, after a clean stop and after a kill: the broker starts, serves all that is outside of the damage, says
//! what is damaged, and takes new records.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tonic::Code;
use wharf_proto::v1::{ErrorReason, ProducerSequence};
use wharf_tests::api::{Api, record, refused};
use wharf_tests::broker::{Broker, Options};
use wharf_tests::files::{self, DAMAGES, Damage};
use wharf_tests::{binary, cli};

/// Records of 100 KB in segments of 1 MiB: two closed segments and an active one.
const RECORDS: i64 = 26;
const COMMITTED: i64 = 7;

fn value(offset: i64) -> Vec<u8> {
    let mut value = format!("record-{offset:05}:").into_bytes();
    value.resize(100_000, offset as u8);
    value
}

/// How the broker of a fixture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Cleanly,
    Killed,
}

/// The folder of a stopped broker, to be copied.
struct Fixture {
    broker: Broker,
    topic_id: String,
    producer: ProducerSequence,
    ended: Ended,
}

impl Fixture {
    async fn new(ended: Ended) -> Fixture {
        let mut broker = Broker::start();
        let mut api = broker.api().await;
        let topic_id = api.create_with("t", 1, &[("segment.bytes", "1048576")]).await.topic_id;
        api.create("other", 1).await;
        let producer = api.producer().await;
        for offset in 0..RECORDS {
            if offset == RECORDS / 2 {
                // What lies below is in RocksDB's tables and in snapshots by then.
                broker.restart();
                api = broker.api().await;
            }
            let sequence = ProducerSequence { sequence: offset, ..producer };
            let answer = api.produce_as("t", Some(0), sequence, vec![record(value(offset))]).await.unwrap();
            assert_eq!(answer.positions[0].offset, Some(offset));
            api.put("other", 0, format!("other-{offset}")).await;
            api.commit("g", "t", 0, offset.min(COMMITTED)).await.unwrap();
        }
        match ended {
            Ended::Cleanly => broker.stop(),
            Ended::Killed => broker.kill(),
        }
        Fixture { broker, topic_id, producer, ended }
    }

    /// A broker that is not started yet, on a copy of the folder.
    fn copy(&self) -> Broker {
        let broker = Broker::prepare(Options::default());
        files::copy(self.broker.data_dir(), broker.data_dir());
        broker
    }

    fn partition(&self, broker: &Broker) -> PathBuf {
        files::partition_dir(broker.data_dir(), &self.topic_id, 0)
    }

    /// Everything is there, a retry is recognised, and the next record has the next offset.
    async fn check_whole(&self, api: &mut Api, what: &str) {
        let read = api.read_all("t", 0).await;
        assert_eq!(read.len() as i64, RECORDS, "{what}");
        for (offset, record) in (0..).zip(&read) {
            assert_eq!(
                (record.offset, record.value.as_deref()),
                (Some(offset), Some(&*value(offset))),
                "{what}"
            );
        }
        for offset in [0, 13, RECORDS - 1] {
            assert_eq!(api.fetch("t", 0, offset).await.unwrap().records[0].offset, Some(offset), "{what}");
        }
        self.check_rest(api, what).await;
        self.check_retry(api, what).await;
        assert_eq!(api.put("t", 0, "next").await, RECORDS, "{what}");
    }

    async fn check_retry(&self, api: &mut Api, what: &str) {
        let last = ProducerSequence { sequence: RECORDS - 1, ..self.producer };
        let again = api.produce_as("t", Some(0), last, vec![record(value(RECORDS - 1))]).await.unwrap();
        assert!(again.duplicate, "{what}: a retry was written again");
        assert_eq!(again.positions[0].offset, Some(RECORDS - 1), "{what}");
    }

    /// The group and the other topic know nothing of the damage.
    async fn check_rest(&self, api: &mut Api, what: &str) {
        assert_eq!(api.committed("g", "t", 0).await, Some(COMMITTED), "{what}");
        assert_eq!(api.read_all("other", 0).await.len() as i64, RECORDS, "{what}");
        api.put("other", 0, "next").await;
        api.commit("g", "t", 0, COMMITTED + 1).await.unwrap();
        assert_eq!(api.committed("g", "t", 0).await, Some(COMMITTED + 1), "{what}");
    }
}

/// What can be read of the damaged topic: the offsets, and the damaged ranges with what each says of its end.
async fn read_around(api: &mut Api) -> (Vec<i64>, Vec<(i64, i64)>) {
    let (mut offsets, mut damaged) = (Vec::new(), Vec::new());
    let mut from = 0;
    loop {
        match api.fetch("t", 0, from).await {
            Ok(page) => {
                for record in &page.records {
                    let offset = record.offset.unwrap();
                    if offset < RECORDS {
                        assert_eq!(
                            record.value.as_deref(),
                            Some(&*value(offset)),
                            "offset {offset} has other bytes"
                        );
                    }
                    offsets.push(offset);
                }
                let next = page.next_offset.unwrap();
                if next >= page.high_watermark.unwrap() {
                    return (offsets, damaged);
                }
                assert!(next > from, "no progress at {from}");
                from = next;
            }
            Err(status) => {
                let error = refused::<()>(Err(status), Code::DataLoss, ErrorReason::DataCorrupted);
                let next_good: i64 = error.metadata_value("next_good").unwrap().parse().unwrap();
                assert!(next_good > from, "{error:?}");
                damaged.push((from, next_good));
                from = next_good;
            }
        }
    }
}

/// Damages the segment and checks that exactly `lost` cannot be read, before and after it is given up.
async fn check_damaged(fixture: &Fixture, what: &str, lost: std::ops::Range<i64>, inflict: impl Fn(&Path)) {
    let what = format!("{what}, ended {:?}", fixture.ended);
    let mut broker = fixture.copy();
    inflict(&fixture.partition(&broker));
    broker.start_again();
    let mut api = broker.api().await;
    let good: Vec<i64> = (0..RECORDS).filter(|offset| !lost.contains(offset)).collect();
    let (offsets, damaged) = read_around(&mut api).await;
    assert_eq!(offsets, good, "{what}: {damaged:?}");
    assert_eq!(damaged, [(lost.start, lost.end)], "{what}");
    // Also from within the range.
    let inside = refused(api.fetch("t", 0, lost.end - 1).await, Code::DataLoss, ErrorReason::DataCorrupted);
    assert_eq!(inside.metadata_value("next_good"), Some(lost.end.to_string().as_str()), "{what}");
    fixture.check_rest(&mut api, &what).await;
    assert_eq!(api.put("t", 0, "next").await, RECORDS, "{what}: appends go on");
    broker.restart();
    let mut api = broker.api().await;
    let (offsets, damaged) = read_around(&mut api).await;
    assert_eq!(
        (offsets.last(), damaged.as_slice()),
        (Some(&RECORDS), &[(lost.start, lost.end)][..]),
        "{what}"
    );
    let (from, to) = (lost.start.to_string(), lost.end.to_string());
    let args = ["topic", "skip-damaged", "t", "--partition", "0", "--from", &from, "--to", &to, "--yes"];
    cli::ok(broker.address(), &args);
    for restarts in 0..2 {
        let (offsets, damaged) = read_around(&mut api).await;
        assert_eq!(
            offsets,
            good.iter().copied().chain([RECORDS]).collect::<Vec<_>>(),
            "{what}, {restarts} restarts"
        );
        assert_eq!(damaged, [], "{what}, {restarts} restarts");
        if restarts == 0 {
            broker.restart();
            api = broker.api().await;
        }
    }
}

/// Flips a byte in the middle of a record's value.
fn flip_record(dir: &Path, offset: i64) {
    let marker = format!("record-{offset:05}:");
    let holds = |path: &&PathBuf| {
        std::fs::read(path).unwrap().windows(marker.len()).any(|window| window == marker.as_bytes())
    };
    let segments = files::with_extension(dir, "log");
    let segment = segments.iter().find(holds).expect("the record is somewhere");
    files::flip(segment, files::position_of(segment, marker.as_bytes()) + 50_000);
}

/// The first offset of each segment.
fn bases(dir: &Path) -> Vec<i64> {
    let stem = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    files::with_extension(dir, "log").iter().map(stem).collect()
}

async fn damaged_segments(ended: Ended) {
    let fixture = Fixture::new(ended).await;
    let bases = bases(&fixture.partition(&fixture.broker));
    assert_eq!(bases.len(), 3, "{bases:?}");
    let middle = bases[1] + 4;
    check_damaged(&fixture, "a flip in the first record", 0..1, |dir| flip_record(dir, 0)).await;
    check_damaged(&fixture, "a flip in a closed segment", middle..middle + 1, |dir| flip_record(dir, middle))
        .await;
    let last = bases[2] - 1;
    check_damaged(&fixture, "a flip at the end of a closed segment", last..last + 1, |dir| {
        flip_record(dir, last)
    })
    .await;
    let cut = |dir: &Path| {
        let segment = &files::with_extension(dir, "log")[1];
        let start = files::position_of(segment, format!("record-{middle:05}:").as_bytes());
        files::truncate(segment, start + 10);
    };
    check_damaged(&fixture, "a closed segment cut short", middle..bases[2], cut).await;
    let remove = |dir: &Path| std::fs::remove_file(&files::with_extension(dir, "log")[1]).unwrap();
    check_damaged(&fixture, "a closed segment that is gone", bases[1]..bases[2], remove).await;
    let active = bases[2] + 2;
    check_damaged(&fixture, "a flip in the active segment", active..active + 1, |dir| {
        flip_record(dir, active)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_segments_after_a_clean_stop() {
    damaged_segments(Ended::Cleanly).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_segments_after_a_kill() {
    damaged_segments(Ended::Killed).await;
}

/// After a clean stop the checkpoint knows the end; what is missing below it is damage, not a torn tail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_tail_after_a_clean_stop_is_damage() {
    let fixture = Fixture::new(Ended::Cleanly).await;
    let last = RECORDS - 1;
    check_damaged(&fixture, "a flip in the last record", last..RECORDS, |dir| flip_record(dir, last)).await;
    let tail = RECORDS - 3;
    let cut = |dir: &Path| {
        let segment = files::with_extension(dir, "log").pop().unwrap();
        let start = files::position_of(&segment, format!("record-{tail:05}:").as_bytes());
        files::truncate(&segment, start + 10);
    };
    check_damaged(&fixture, "the active segment cut short", tail..RECORDS, cut).await;
}

/// After a kill a rotten last record cannot be told from a torn one: it is cut off, or reported, and all before it stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_tail_after_a_kill_leaves_a_prefix() {
    let fixture = Fixture::new(Ended::Killed).await;
    for damage in ["flip", "cut"] {
        let mut broker = fixture.copy();
        let dir = fixture.partition(&broker);
        let segment = files::with_extension(&dir, "log").pop().unwrap();
        let start = files::position_of(&segment, format!("record-{:05}:", RECORDS - 1).as_bytes());
        match damage {
            "flip" => files::flip(&segment, start + 10),
            _ => files::truncate(&segment, start + 10),
        }
        broker.start_again();
        let mut api = broker.api().await;
        let (offsets, _) = read_around(&mut api).await;
        assert_eq!(offsets, (0..RECORDS - 1).collect::<Vec<_>>(), "{damage}");
        fixture.check_rest(&mut api, damage).await;
        let next = api.put("t", 0, "next").await;
        broker.restart();
        let mut api = broker.api().await;
        assert_eq!(
            api.fetch("t", 0, next).await.unwrap().records[0].value.as_deref(),
            Some(&b"next"[..]),
            "{damage}"
        );
    }
}

/// Files that are made from the log again: whatever happens to them, nothing is lost.
async fn damaged_caches(ended: Ended) {
    let fixture = Fixture::new(ended).await;
    let dir = fixture.partition(&fixture.broker);
    let mut targets: Vec<PathBuf> = files::with_extension(&dir, "index");
    targets.extend(files::with_extension(&dir, "snapshot"));
    targets.extend(["epochs", "manifest", "partition.meta"].map(|name| dir.join(name)));
    targets.extend(["checkpoint", "clean"].map(|name| fixture.broker.data_dir().join(name)));
    targets.retain(|path| path.exists());
    for (step, target) in (usize::from(ended == Ended::Killed)..).zip(targets) {
        let inside = target.strip_prefix(fixture.broker.data_dir()).unwrap();
        let ways = if full() { &DAMAGES[..] } else { &DAMAGES[step % 2..][..3] };
        for damage in ways {
            let what = format!("{damage:?} of {}, ended {ended:?}", inside.display());
            let mut broker = fixture.copy();
            damage.inflict(&broker.data_dir().join(inside));
            if let Err(failure) = broker.try_start() {
                panic!("{what}: {}", failure.stderr);
            }
            fixture.check_whole(&mut broker.api().await, &what).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_campaign_damaged_caches_after_a_clean_stop_lose_nothing() {
    damaged_caches(Ended::Cleanly).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_campaign_damaged_caches_after_a_kill_lose_nothing() {
    damaged_caches(Ended::Killed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_caches_at_once_may_be_gone() {
    for ended in [Ended::Cleanly, Ended::Killed] {
        let fixture = Fixture::new(ended).await;
        let mut broker = fixture.copy();
        let dir = fixture.partition(&broker);
        for extension in ["index", "snapshot"] {
            files::with_extension(&dir, extension).iter().for_each(|path| Damage::Remove.inflict(path));
        }
        std::fs::remove_file(dir.join("epochs")).unwrap();
        std::fs::remove_dir_all(broker.data_dir().join("offsets")).unwrap();
        for name in ["checkpoint", "clean"] {
            // Not each of them is there after each end.
            drop(std::fs::remove_file(broker.data_dir().join(name)));
        }
        broker.start_again();
        fixture.check_whole(&mut broker.api().await, &format!("all caches gone, ended {ended:?}")).await;
    }
}

/// Whether every file is damaged in every way, or one file of each kind, each kind in one way after each end.
fn full() -> bool {
    std::env::var("KILL_CAMPAIGN").is_ok_and(|value| value == "full")
}

/// The files of a RocksDB and what is done to each.
fn store_damages(dir: &Path, ended: Ended, ways: &[Damage]) -> Vec<(PathBuf, Damage)> {
    let mut kinds = BTreeSet::new();
    let mut damages = Vec::new();
    for (n, file) in files::all(dir).into_iter().enumerate() {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let kind: String = name.chars().filter(|c| !c.is_ascii_digit()).collect();
        if full() {
            damages.extend(ways.iter().map(|way| (file.clone(), *way)));
        } else if kinds.insert(kind) {
            let way = n + usize::from(ended == Ended::Killed);
            damages.push((file, ways[way % ways.len()]));
        }
    }
    damages
}

const STORE_WAYS: [Damage; 4] = [Damage::Flip, Damage::Truncate, Damage::Zero, Damage::Remove];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_campaign_damaged_offsets_store_is_made_again_from_its_log() {
    for ended in [Ended::Cleanly, Ended::Killed] {
        let fixture = Fixture::new(ended).await;
        for (file, damage) in store_damages(&fixture.broker.data_dir().join("offsets"), ended, &STORE_WAYS) {
            let inside = file.strip_prefix(fixture.broker.data_dir()).unwrap();
            let what = format!("{damage:?} of {}, ended {ended:?}", inside.display());
            let mut broker = fixture.copy();
            damage.inflict(&broker.data_dir().join(inside));
            if let Err(failure) = broker.try_start() {
                panic!("{what}: {}", failure.stderr);
            }
            let mut api = broker.api().await;
            fixture.check_rest(&mut api, &what).await;
            broker.restart();
            assert_eq!(broker.api().await.committed("g", "t", 0).await, Some(COMMITTED + 1), "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_campaign_damaged_controller_store_names_the_way_out_which_brings_all_back() {
    for ended in [Ended::Cleanly, Ended::Killed] {
        let fixture = Fixture::new(ended).await;
        let mut refusals = 0;
        for (file, damage) in store_damages(&fixture.broker.data_dir().join("metadata"), ended, &STORE_WAYS) {
            let inside = file.strip_prefix(fixture.broker.data_dir()).unwrap();
            let what = format!("{damage:?} of {}, ended {ended:?}", inside.display());
            let mut broker = fixture.copy();
            damage.inflict(&broker.data_dir().join(inside));
            if let Err(failure) = broker.try_start() {
                refusals += 1;
                recover(&mut broker, &failure.stderr, &what);
            }
            fixture.check_whole(&mut broker.api().await, &what).await;
        }
        assert!(refusals > 0, "no damage of the controller's store was noticed");
        let what = format!("metadata/ is gone, ended {ended:?}");
        let mut broker = fixture.copy();
        std::fs::remove_dir_all(broker.data_dir().join("metadata")).unwrap();
        let failure = broker.try_start().expect_err("partitions without a controller store are not started");
        recover(&mut broker, &failure.stderr, &what);
        fixture.check_whole(&mut broker.api().await, &what).await;
    }
}

/// Does what the refusal says, and starts.
fn recover(broker: &mut Broker, refusal: &str, what: &str) {
    assert!(refusal.contains("wharf recover metadata"), "{what}: the way out is not named: {refusal}");
    let output = binary::command()
        .args(["recover", "metadata", "--data-dir"])
        .arg(broker.data_dir())
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {refusal}\n{stdout}\n{stderr}");
    if let Err(failure) = broker.try_start() {
        panic!("{what}: after the recovery: {}\n{stdout}", failure.stderr);
    }
}
