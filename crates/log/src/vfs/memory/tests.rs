#![allow(clippy::unwrap_used)]

use std::path::Path;

use super::*;

fn names(vfs: &MemoryVfs) -> Vec<String> {
    vfs.read_dir(Path::new("/")).unwrap().into_iter().map(|entry| entry.name).collect()
}

fn contents(vfs: &MemoryVfs, path: &str) -> Vec<u8> {
    let file = vfs.open(Path::new(path), OpenMode::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

#[test]
fn a_crash_loses_what_no_sync_covered() {
    let vfs = MemoryVfs::new();
    let root = Path::new("/");
    let file = vfs.open(Path::new("/a"), OpenMode::CreateNew).unwrap();
    file.write_all_at(b"one", 0).unwrap();
    file.sync_data().unwrap();
    assert!(names(&vfs.crash(CrashPolicy::LoseAll)).is_empty(), "the name was not synced");
    vfs.sync_dir(root).unwrap();
    file.write_all_at(b"two", 3).unwrap();
    vfs.rename(Path::new("/a"), Path::new("/b")).unwrap();
    let lost = vfs.crash(CrashPolicy::LoseAll);
    assert_eq!(contents(&lost, "/a"), b"one");
    let kept = vfs.crash(CrashPolicy::KeepAll);
    assert_eq!(names(&kept), ["b"]);
    assert_eq!(contents(&kept, "/b"), b"onetwo");
}

#[test]
fn seeded_crashes_mix_pages_and_repeat() {
    let vfs = MemoryVfs::new();
    let file = vfs.open(Path::new("/a"), OpenMode::CreateNew).unwrap();
    vfs.sync_dir(Path::new("/")).unwrap();
    file.write_all_at(&[7; 40_000], 0).unwrap();
    let states: Vec<_> = (0..50).map(|seed| contents(&vfs.crash(CrashPolicy::Seeded(seed)), "/a")).collect();
    let again: Vec<_> = (0..50).map(|seed| contents(&vfs.crash(CrashPolicy::Seeded(seed)), "/a")).collect();
    assert_eq!(states, again);
    assert!(states.iter().any(|state| state.contains(&0) && state.contains(&7)));
}

#[test]
fn a_failed_sync_loses_its_pages_for_good() {
    let vfs = MemoryVfs::new();
    let file = vfs.open(Path::new("/a"), OpenMode::CreateNew).unwrap();
    vfs.sync_dir(Path::new("/")).unwrap();
    file.write_all_at(b"lost", 0).unwrap();
    vfs.inject(Fault::SyncError { nth: 1 });
    assert!(file.sync_data().is_err());
    file.sync_data().unwrap();
    assert_ne!(contents(&vfs.crash(CrashPolicy::LoseAll), "/a"), b"lost");
}

#[test]
fn a_full_disk_takes_what_fits() {
    let vfs = MemoryVfs::new();
    let file = vfs.open(Path::new("/a"), OpenMode::CreateNew).unwrap();
    vfs.inject(Fault::Space { bytes: 5 });
    assert!(file.write_all_at(b"abc", 0).is_ok());
    let error = file.write_all_at(b"defg", 3).unwrap_err();
    assert!(crate::vfs::is_out_of_space(&error));
    assert_eq!(contents(&vfs, "/a"), b"abcde");
    file.set_len(3).unwrap();
    assert!(file.write_all_at(b"de", 3).is_ok());
}

#[test]
fn recorded_operations_replay_to_the_same_state() {
    let vfs = MemoryVfs::new();
    vfs.start_recording();
    vfs.create_dir_all(Path::new("/d/e")).unwrap();
    let file = vfs.open(Path::new("/d/e/f"), OpenMode::CreateNew).unwrap();
    file.write_all_at(b"abc", 2).unwrap();
    vfs.rename(Path::new("/d/e"), Path::new("/g")).unwrap();
    let copy = MemoryVfs::new();
    for operation in vfs.recorded() {
        copy.replay(&operation);
    }
    assert_eq!(contents(&copy, "/g/f"), b"\0\0abc");
    assert!(copy.lock_dir(Path::new("/g")).is_ok());
}

#[test]
fn one_holder_at_a_time_locks_a_directory() {
    let vfs = MemoryVfs::new();
    let lock = vfs.lock_dir(Path::new("/")).unwrap();
    assert_eq!(vfs.lock_dir(Path::new("/")).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    drop(lock);
    assert!(vfs.lock_dir(Path::new("/")).is_ok());
}
