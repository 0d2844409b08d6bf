//! A real data set through the command line: 120,000 lines into 12 partitions and back.
//!
//! `WHARF_FLIGHTS` names the file (gzip, or plain text), else `../shared/data/flights-2013.tsv.gz` beside the workspace is
//! taken where it is there, else lines of the same shape are made.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

use rand::RngExt;
use wharf_tests::broker::Broker;
use wharf_tests::{cli, seed};

const PARTITIONS: &str = "12";
const MADE_LINES: usize = 30_000;

/// The input: lines of a key, a tab and a value.
fn input() -> Vec<u8> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/flights-2013.tsv.gz");
    let named = std::env::var_os("WHARF_FLIGHTS").map(PathBuf::from);
    match named.or_else(|| beside.exists().then_some(beside)) {
        Some(path) => read(&path),
        None => made(),
    }
}

fn read(path: &Path) -> Vec<u8> {
    if path.extension().is_none_or(|extension| extension != "gz") {
        return std::fs::read(path).unwrap();
    }
    let output = Command::new("gzip").args(["-dc"]).arg(path).output().expect("gzip is installed");
    assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn made() -> Vec<u8> {
    let mut rng = seed::rng("flights");
    let mut lines = Vec::new();
    for n in 0..MADE_LINES {
        let plane = rng.random_range(10_000..14_000);
        let delay: i32 = rng.random_range(-20..300);
        lines.extend(
            format!(
                "N{plane}\t{{\"time\":\"2013-01-01T10:00:00Z\",\"flight\":\"UA{n}\",\"from\":\"EWR\",\"to\":\"IAH\",\"dep_delay\":\"{delay}\",\"km\":2253.1}}\n"
            )
            .bytes(),
        );
    }
    lines
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.strip_suffix(b"\n").unwrap_or(bytes).split(|byte| *byte == b'\n').collect()
}

/// The lines of each key in their order. That these are the same on both sides says that nothing is missing, nothing is
/// twice and every key has its order.
fn by_key<'a>(lines: &[&'a [u8]]) -> BTreeMap<&'a [u8], Vec<&'a [u8]>> {
    let mut keys: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    for line in lines {
        let tab = line.iter().position(|byte| *byte == b'\t').expect("a line has a key");
        keys.entry(&line[..tab]).or_default().push(line);
    }
    keys
}

#[test]
fn flights_come_back_complete_and_each_plane_in_order() {
    let input = input();
    let sent = lines(&input);
    let mut broker = Broker::start();
    let at = broker.address();
    cli::ok(at, &["topic", "create", "flights", "--partitions", PARTITIONS]);
    cli::ok_with(at, &["produce", "flights", "--key-separator", r"\t"], &input);
    let consume = |at, group: &str| {
        let format = r"%k\t%v\n";
        cli::ok(at, &["consume", "flights", "--group", group, "--until", "end", "--format", format]).stdout
    };
    let output = consume(at, "first");
    let received = lines(&output);
    assert_eq!(received.len(), sent.len());
    assert!(
        by_key(&received) == by_key(&sent),
        "the lines of a key are not those that were sent, in their order"
    );
    assert_eq!(consume(at, "first"), b"", "what was read is committed");
    broker.kill();
    broker.start_again();
    let at = broker.address();
    assert_eq!(consume(at, "first"), b"", "a commit survives the restart");
    let again = consume(at, "second");
    assert!(by_key(&lines(&again)) == by_key(&sent), "a second group reads everything for itself");
    // Each key is in one partition.
    let places = cli::ok(at, &["consume", "flights", "--until", "end", "--format", r"%k\t%p\n"]).stdout;
    let mut partition_of: HashMap<&[u8], &[u8]> = HashMap::new();
    for line in lines(&places) {
        let tab = line.iter().position(|byte| *byte == b'\t').unwrap();
        let before = partition_of.insert(&line[..tab], &line[tab..]);
        assert!(before.is_none_or(|before| before == &line[tab..]), "a key is in two partitions");
    }
    assert!(!partition_of.is_empty());
}
