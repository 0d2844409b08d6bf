#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::vfs::{CrashPolicy, MemoryVfs};

fn contents(vfs: &dyn Vfs, path: &Path) -> Option<Vec<u8>> {
    let file = vfs.open(path, OpenMode::Read).ok()?;
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    Some(bytes)
}

#[test]
fn another_process_sees_only_what_was_synced() {
    let dir = tempfile::tempdir().unwrap();
    let (vfs, real) = (PowerLossVfs::new(), RealVfs::new());
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let file = vfs.open(&a, OpenMode::CreateNew).unwrap();
    file.write_all_at(b"one", 0).unwrap();
    file.sync_data().unwrap();
    assert!(!real.exists(&a).unwrap());
    vfs.sync_dir(dir.path()).unwrap();
    file.write_all_at(b"two", 3).unwrap();
    assert_eq!(contents(&real, &a).unwrap(), b"one");
    vfs.rename(&a, &b).unwrap();
    assert!(!vfs.exists(&a).unwrap() && vfs.exists(&b).unwrap());
    assert!(real.exists(&a).unwrap() && !real.exists(&b).unwrap());
    assert_eq!(contents(&vfs, &b).unwrap(), b"onetwo");
    vfs.sync_dir(dir.path()).unwrap();
    assert_eq!(contents(&real, &b).unwrap(), b"one");
    file.sync_data().unwrap();
    assert_eq!(contents(&real, &b).unwrap(), b"onetwo");
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, u64, u8, usize),
    SetLen(usize, u64),
    Sync(usize),
    Rename(usize, usize),
    Remove(usize),
    SyncDir,
}

fn step() -> impl Strategy<Value = Step> {
    let file = 0..3usize;
    prop_oneof![
        4 => (file.clone(), 0..9000u64, any::<u8>(), 1..6000usize)
            .prop_map(|(file, at, byte, count)| Step::Write(file, at, byte, count)),
        1 => (file.clone(), 0..9000u64).prop_map(|(file, bytes)| Step::SetLen(file, bytes)),
        2 => file.clone().prop_map(Step::Sync),
        1 => (file.clone(), file.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => file.prop_map(Step::Remove),
        1 => Just(Step::SyncDir),
    ]
}

fn apply(vfs: &dyn Vfs, dir: &Path, step: &Step) {
    let path = |file: &usize| dir.join(format!("f{file}"));
    let open = |file: &usize| match vfs.open(&path(file), OpenMode::ReadWrite) {
        Ok(file) => file,
        Err(_) => vfs.open(&path(file), OpenMode::CreateNew).unwrap(),
    };
    match step {
        Step::Write(file, at, byte, count) => open(file).write_all_at(&vec![*byte; *count], *at).unwrap(),
        Step::SetLen(file, bytes) => open(file).set_len(*bytes).unwrap(),
        Step::Sync(file) => open(file).sync_data().unwrap(),
        Step::Rename(from, to) if from != to && vfs.exists(&path(from)).unwrap() => {
            vfs.rename(&path(from), &path(to)).unwrap();
        }
        Step::Remove(file) if vfs.exists(&path(file)).unwrap() => vfs.remove_file(&path(file)).unwrap(),
        Step::Rename(..) | Step::Remove(_) => {}
        Step::SyncDir => vfs.sync_dir(dir).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// What the process sees, and what a crash leaves, is what the model in memory says.
    #[test]
    fn it_behaves_as_the_model_that_loses_everything_unsynced(steps in proptest::collection::vec(step(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let (vfs, model, root) = (PowerLossVfs::new(), MemoryVfs::new(), Path::new("/"));
        for step in &steps {
            apply(&vfs, dir.path(), step);
            apply(&model, root, step);
        }
        let crashed = model.crash(CrashPolicy::LoseAll);
        for file in ["f0", "f1", "f2"] {
            prop_assert_eq!(contents(&vfs, &dir.path().join(file)), contents(&model, &root.join(file)));
            let survived = contents(&RealVfs::new(), &dir.path().join(file));
            prop_assert_eq!(survived, contents(&crashed, &root.join(file)));
        }
        prop_assert_eq!(vfs.read_dir(dir.path()).unwrap(), model.read_dir(root).unwrap());
    }
}
