//! Damaged files of the metadata log: it opens with everything, or is refused with its reason. Never a panic, never a
//! topic less (traps 28, 29, 57).
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::path::{Path, PathBuf};

use common::{Random, config, copy_dir, create, names, open, register};
use wharf_controller::{Bootstrap, Controller, NoTransport, OpenError};

/// A log with a snapshot, SST files and a WAL with entries after it, as a killed process leaves it.
async fn killed_log(to: &Path, compact_after: u64) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.compact_after_entries = compact_after;
    let controller = Controller::open(config.clone(), NoTransport).await.unwrap();
    register(&controller, 1, None).await;
    for number in 0..20 {
        controller.create_topic(create(&format!("t{number}"), 3)).await.unwrap();
    }
    controller.shutdown().await;
    // The next open moves what the WAL held into an SST file.
    let controller = Controller::open(config, NoTransport).await.unwrap();
    for number in 20..30 {
        controller.create_topic(create(&format!("t{number}"), 3)).await.unwrap();
    }
    copy_dir(dir.path(), to);
    let names = names(&controller.image());
    controller.shutdown().await;
    names
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Opens a copy of `base` after `damage` and tells whether it was refused.
async fn refused(base: &Path, file: &Path, expected: &[String], what: &str, damage: impl Fn(&Path)) -> bool {
    let dir = tempfile::tempdir().unwrap();
    copy_dir(base, dir.path());
    damage(&dir.path().join(file));
    let mut config = config(dir.path());
    config.bootstrap = Bootstrap::Refuse;
    match Controller::open(config, NoTransport).await {
        Ok(controller) => {
            assert_eq!(names(&controller.image()), expected, "{what} of {}", file.display());
            controller.shutdown().await;
            false
        }
        Err(error) => {
            let named = matches!(error, OpenError::Damaged { .. } | OpenError::Missing { .. });
            assert!(named, "{what} of {}: {error:?}", file.display());
            assert!(error.to_string().contains("wharf recover metadata"), "{error}");
            true
        }
    }
}

async fn damage_everything(compact_after: u64) {
    let base = tempfile::tempdir().unwrap();
    let expected = killed_log(base.path(), compact_after).await;
    assert_eq!(expected.len(), 30);
    let mut random = Random(compact_after);
    let mut refusals = 0;
    for path in files(base.path()) {
        let file = path.strip_prefix(base.path()).unwrap();
        let length = path.metadata().unwrap().len();
        let delete = |path: &Path| std::fs::remove_file(path).unwrap();
        refusals += u32::from(refused(base.path(), file, &expected, "deletion", delete).await);
        for cut in [0, 1, length / 3, length / 2, length.saturating_sub(20), length.saturating_sub(1)] {
            let truncate = |path: &Path| {
                std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(cut).unwrap();
            };
            let what = format!("cut to {cut} of {length}");
            refusals += u32::from(refused(base.path(), file, &expected, &what, truncate).await);
        }
        for _ in 0..12 {
            let (at, bit) = (random.below(length), random.below(8));
            let flip = |path: &Path| {
                let mut bytes = std::fs::read(path).unwrap();
                if let Some(byte) = bytes.get_mut(usize::try_from(at).unwrap()) {
                    *byte ^= 1 << bit;
                }
                std::fs::write(path, bytes).unwrap();
            };
            let what = format!("flip of bit {bit} of byte {at} of {length}");
            refusals += u32::from(refused(base.path(), file, &expected, &what, flip).await);
        }
    }
    assert!(refusals > 20, "the damage must have hit something: {refusals} refusals");
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_of_a_log_that_lies_in_the_wal_never_loses_topics() {
    damage_everything(10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_of_a_compacted_log_never_loses_topics() {
    damage_everything(12).await;
}

#[tokio::test]
async fn a_killed_log_opens_with_everything_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let expected = killed_log(dir.path(), 10_000).await;
    let controller = open(dir.path()).await;
    assert_eq!(names(&controller.image()), expected);
    controller.create_topic(create("more", 1)).await.unwrap();
    controller.shutdown().await;
    let controller = open(dir.path()).await;
    assert_eq!(controller.image().topic_count(), expected.len() + 1);
    controller.shutdown().await;
}

#[tokio::test]
async fn a_start_that_died_while_it_made_the_log_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("metadata.new/db")).unwrap();
    std::fs::write(dir.path().join("metadata.new/db/CURRENT"), "half").unwrap();
    let controller = open(dir.path()).await;
    controller.shutdown().await;
}

#[tokio::test]
async fn a_failing_file_system_sends_nobody_to_recovery() {
    let dir = tempfile::tempdir().unwrap();
    killed_log(dir.path(), 10_000).await;
    let floor = dir.path().join("metadata/commit-floor");
    std::fs::remove_file(&floor).unwrap();
    std::fs::create_dir(&floor).unwrap();
    let error = Controller::open(config(dir.path()), NoTransport).await.unwrap_err();
    assert!(matches!(error, OpenError::Unreadable { .. }), "{error:?}");
    assert!(!error.to_string().contains("recover"), "{error}");
}
