//! One process for a folder and a port; stops that are clean and stops that are not.

#![allow(clippy::unwrap_used)]

use std::process::Stdio;
use std::time::{Duration, Instant};

use tonic::Code;
use wharf_proto::v1::fetch_request::Position;
use wharf_proto::v1::{ErrorReason, FetchRequest};
use wharf_tests::api::{fetch, record, refused};
use wharf_tests::broker::{Broker, Options};
use wharf_tests::{binary, files, ops, wait};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_on_the_folder_is_refused() {
    let broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 1).await;
    let second = broker.command().stdout(Stdio::null()).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let message = String::from_utf8_lossy(&second.stderr);
    assert!(message.contains("another process"), "{message}");
    assert!(message.contains(&*broker.data_dir().to_string_lossy()), "{message}");
    let recover = binary::command()
        .args(["recover", "metadata", "--data-dir"])
        .arg(broker.data_dir())
        .output()
        .unwrap();
    assert_eq!(recover.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&recover.stderr).contains("another process"));
    api.put("t", 0, "the first one is not disturbed").await;
}

#[test]
fn a_used_port_is_refused() {
    let first = Broker::start();
    for flag in ["--listen", "--ops-listen"] {
        let address = if flag == "--listen" { first.address() } else { first.ops_address() };
        let mut second = Broker::prepare(Options::with_args(&[]));
        let failure = {
            let mut command = binary::command();
            command.arg("standalone").arg("--data-dir").arg(second.data_dir());
            for (name, port) in [("--listen", "127.0.0.1:0"), ("--ops-listen", "127.0.0.1:0")] {
                let taken = address.to_string();
                command.args([name, if name == flag { &taken } else { port }]);
            }
            command.stdout(Stdio::null()).output().unwrap()
        };
        assert_eq!(failure.status.code(), Some(1));
        let message = String::from_utf8_lossy(&failure.stderr).into_owned();
        assert!(message.contains(&address.to_string()) && message.contains(flag), "{message}");
        // The folder was not spoilt by the refusal.
        second.start_again();
    }
}

#[test]
fn a_folder_named_by_one_word_works() {
    let root = tempfile::tempdir().unwrap();
    let mut command = binary::command();
    command.args([
        "standalone",
        "--data-dir",
        "data",
        "--listen",
        "127.0.0.1:0",
        "--ops-listen",
        "127.0.0.1:0",
    ]);
    let mut child =
        command.current_dir(root.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let identity = root.path().join("data").join("identity");
    let began = wait::until("a data directory, or a refusal", || {
        if child.try_wait().unwrap().is_some() { Some(false) } else { identity.exists().then_some(true) }
    });
    // It may have ended already.
    drop(child.kill());
    let output = child.wait_with_output().unwrap();
    assert!(began, "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn bad_configuration_is_refused_by_name() {
    for (args, word) in [
        (&["standalone", "--listen", "nonsense"][..], "--listen"),
        (&["standalone", "--config", "/does/not/exist.toml"], "/does/not/exist.toml"),
        (&["standalone", "--nope"], "--nope"),
        (&["standalone", "--data-dir", "/proc/nope"], "/proc/nope"),
    ] {
        let output = binary::command().args(args).output().unwrap();
        assert!(!output.status.success(), "{args:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(word), "{args:?}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_by_signal_is_clean_and_prompt() {
    let mut broker = Broker::start();
    for signal in ["TERM", "INT"] {
        let mut api = broker.api().await;
        if signal == "TERM" {
            api.create("t", 1).await;
        }
        api.put("t", 0, "v").await;
        assert!(
            !broker.data_dir().join("clean").exists(),
            "the marker is there only while the broker is stopped"
        );
        // A long poll that waits must not hold the stop up.
        let mut poller = api.clone();
        let end = api.high_watermark("t", 0).await;
        let poll =
            FetchRequest { max_wait_ms: 30_000, position: Some(Position::Offset(end)), ..fetch("t", 0) };
        let waiting = tokio::spawn(async move { poller.fetch_with(poll).await });
        let begun = Instant::now();
        broker.signal(signal);
        let status = broker.wait();
        assert_eq!(status.code(), Some(0), "{}", broker.stderr());
        assert!(begun.elapsed() < Duration::from_secs(10), "the stop took {:?}", begun.elapsed());
        assert!(broker.data_dir().join("clean").exists(), "a clean stop leaves its marker");
        match waiting.await.unwrap() {
            Ok(page) => assert!(page.records.is_empty()),
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status:?}"),
        }
        broker.start_again();
    }
    assert_eq!(broker.api().await.read_all("t", 0).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_during_the_stop_are_refused_or_done() {
    let mut broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 1).await;
    let mut written = 0;
    let loading = tokio::spawn({
        let mut api = api.clone();
        async move {
            let mut acknowledged = 0_i64;
            loop {
                match api.produce("t", Some(0), vec![record("v")]).await {
                    Ok(_) => acknowledged += 1,
                    Err(status) => return (acknowledged, status),
                }
            }
        }
    });
    while written < 20 {
        written = api.high_watermark("t", 0).await;
    }
    let status = tokio::task::spawn_blocking(move || {
        let status = broker.terminate();
        (broker, status)
    });
    let (mut broker, status) = status.await.unwrap();
    assert_eq!(status.code(), Some(0));
    let (acknowledged, last) = loading.await.unwrap();
    // Refused by the server, or never sent because the connection was closed.
    assert!(matches!(last.code(), Code::Unavailable | Code::Cancelled), "{last:?}");
    broker.start_again();
    let found = broker.api().await.read_all("t", 0).await.len() as i64;
    assert!((acknowledged..=acknowledged + 1).contains(&found), "{acknowledged} acknowledged, {found} found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_stops_at_once() {
    let mut broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 1).await;
    api.put("t", 0, "v").await;
    // A stream that nobody ends holds the first stop up.
    let (_requests, outbound) = tokio::sync::mpsc::channel(1);
    let outbound = tokio_stream::wrappers::ReceiverStream::new(outbound);
    let mut streaming = api.clone();
    let stream = tokio::spawn(async move { streaming.broker.produce_stream(outbound).await });
    let begun = Instant::now();
    broker.signal("TERM");
    broker.signal("TERM");
    let status = broker.wait();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // It may have been done before the second signal came.
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    stream.abort();
    broker.start_again();
    assert_eq!(broker.api().await.read_all("t", 0).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_probes_and_metrics_tell_the_state() {
    let broker = Broker::start();
    let mut api = broker.api().await;
    api.create("t", 1).await;
    api.put("t", 0, "v").await;
    let ops_address = broker.ops_address();
    assert_eq!(ops::get(ops_address, "/livez").0, 200);
    assert_eq!(ops::get(ops_address, "/readyz").0, 200);
    assert_eq!(ops::get(ops_address, "/nope").0, 404);
    let (status, metrics) = ops::get(ops_address, "/metrics");
    assert_eq!(status, 200);
    assert!(metrics.lines().any(|line| line.starts_with("# TYPE wharf_")), "{metrics}");
    assert!(
        metrics.lines().all(|line| line.is_empty()
            || line.starts_with('#')
            || line.starts_with("wharf_")
            || line.starts_with("process_")),
        "{metrics}"
    );
    refused(api.fetch("nope", 0, 0).await, Code::NotFound, ErrorReason::TopicNotFound);
    assert!(files::names(broker.data_dir()).contains(&"LOCK".to_owned()));
}
