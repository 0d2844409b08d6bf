//! The command line: exit codes, hints, output for programs, and bytes that stay as they are.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use wharf_tests::broker::Broker;
use wharf_tests::cli::{self, command, ok, ok_with, run, run_with};
use wharf_tests::wait;

#[test]
fn exit_codes_and_hints_say_what_went_wrong() {
    let broker = Broker::start();
    let at = broker.address();
    ok(at, &["topic", "create", "t", "--partitions", "2"]);
    let refused: [&[&str]; 7] = [
        &["topic", "create", "t"],
        &["topic", "create", "__bad"],
        &["topic", "create", "x", "--config", "nope=1"],
        &["topic", "describe", "missing"],
        &["topic", "delete", "missing", "--yes"],
        &["group", "describe", "missing"],
        &["consume", "missing", "--until", "end"],
    ];
    for args in refused {
        let ran = run(at, args);
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(ran.stderr.starts_with("error: "), "{args:?}: {ran:?}");
        assert!(ran.stdout.is_empty(), "{args:?}: {ran:?}");
    }
    let produced = run_with(at, &["produce", "missing"], b"x\n");
    assert_eq!(produced.code, Some(1), "{produced:?}");
    assert!(produced.stderr.contains("hint: "), "{produced:?}");
    let usage: [&[&str]; 5] = [
        &["topic", "create"],
        &["topic", "create", "t", "--partitions", "-1"],
        &["nope"],
        &["consume", "t", "--until", "earliest"],
        &["consume", "t", "--from", "yesterday-ish"],
    ];
    for args in usage {
        assert_eq!(run(at, args).code, Some(2), "{args:?}");
    }
    let no_separator = run_with(at, &["produce", "t", "--key-separator", "="], b"a=1\nno separator\nb=2\n");
    assert_eq!(no_separator.code, Some(4), "{no_separator:?}");
    assert!(no_separator.stderr.contains("line 2"), "{no_separator:?}");
    let no_file = run(at, &["produce", "t", "--file", "/does/not/exist"]);
    assert_eq!(no_file.code, Some(4), "{no_file:?}");
    assert!(no_file.stderr.contains("/does/not/exist"), "{no_file:?}");
}

#[test]
fn nobody_at_the_endpoint_is_its_own_exit_code() {
    let mut broker = Broker::start();
    let at = broker.address();
    broker.stop();
    let ran = run(at, &["topic", "ls", "--timeout", "2s"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("hint: "), "{ran:?}");
    assert!(ran.stderr.contains(&at.to_string()), "{ran:?}");
    assert_eq!(run(at, &["topic", "ls", "--endpoint", "not an endpoint", "--timeout", "1s"]).stdout, b"");
}

#[test]
fn output_for_programs_can_be_read() {
    let broker = Broker::start();
    let at = broker.address();
    ok(at, &["topic", "create", "t", "--partitions", "3", "--config", "retention.ms=1000000"]);
    ok_with(at, &["produce", "t", "--key-separator", "="], b"u1=a\nu2=b\nu3=c\n");
    ok(at, &["consume", "t", "--until", "end", "--group", "g"]);
    let topics = ok(at, &["topic", "ls", "-o", "json"]).json();
    assert!(topics.to_string().contains("\"t\""), "{topics}");
    let described = ok(at, &["topic", "describe", "t", "-o", "json"]).json();
    let text = described.to_string();
    assert!(text.contains("retention.ms") && text.contains("\"high_watermark\":"), "{text}");
    let lists: [&[&str]; 6] = [
        &["topic", "create", "u"],
        &["group", "ls"],
        &["group", "describe", "g"],
        &["group", "lag", "g"],
        &["cluster", "info"],
        &["group", "seek", "g", "--to", "earliest"],
    ];
    for args in lists {
        let json = ok(at, &[args, &["-o", "json"]].concat()).json();
        assert!(json.is_object() || json.is_array(), "{args:?}: {json}");
    }
    let yaml = ok(at, &["topic", "describe", "t", "-o", "yaml"]);
    assert!(yaml.text().lines().count() > 5 && yaml.text().contains("retention.ms"), "{}", yaml.text());
    // One JSON document for each record.
    let records = ok(at, &["consume", "t", "--until", "end", "-o", "json"]);
    let lines: Vec<serde_json::Value> =
        records.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines.iter().all(|line| line["offset"].is_number() && line["partition"].is_number()),
        "{lines:?}"
    );
    let deleted = ok(at, &["topic", "delete", "u", "--yes", "-o", "json"]);
    assert!(deleted.stdout.is_empty() || deleted.json().is_object());
}

#[test]
fn bytes_go_through_as_they_are() {
    let broker = Broker::start();
    let at = broker.address();
    ok(at, &["topic", "create", "t"]);
    // Every byte but the newline, which ends a record; an empty line is an empty value.
    let all: Vec<u8> = (0..=255).filter(|byte| *byte != b'\n').collect();
    let input = [&all[..], b"\n\n\xff\xfe\n\r\n", &[b'x'; 100_000], b"\nlast without newline"].concat();
    ok_with(at, &["produce", "t"], &input);
    let output = ok(at, &["consume", "t", "--until", "end"]).stdout;
    assert_eq!(output, [&input[..], b"\n"].concat());
    let offsets = ok(at, &["consume", "t", "--until", "end", "--format", "%p:%o "]);
    assert_eq!(offsets.text(), "0:0 0:1 0:2 0:3 0:4 0:5 ");
}

#[test]
fn keys_headers_and_tombstones_are_told() {
    let broker = Broker::start();
    let at = broker.address();
    ok(at, &["topic", "create", "t", "--partitions", "3"]);
    let args = ["produce", "t", "-K", r"\t", "--null-value", "NULL", "-H", "source=test"];
    ok_with(at, &args, b"u1\thello\nu1\twith\ttab\nu1\tNULL\n");
    let read = ok(at, &["consume", "t", "--until", "end", "--format", r"%p|%k|%v|%h\n"]);
    let lines: Vec<&str> = read.text().lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("1|u1|hello|") && lines[0].contains("source"), "{lines:?}");
    assert!(lines[1].starts_with("1|u1|with\ttab|"), "{lines:?}");
    let records = ok(at, &["consume", "t", "--until", "end", "-o", "json"]);
    let last: serde_json::Value = serde_json::from_str(records.text().lines().nth(2).unwrap()).unwrap();
    assert!(last["value"].is_null(), "{last}");
}

#[test]
fn a_group_goes_on_where_it_stopped() {
    let mut broker = Broker::start();
    let at = broker.address();
    ok(at, &["topic", "create", "t", "--partitions", "2"]);
    let lines = |from: u32, to: u32| (from..to).map(|n| format!("k{n}=v{n}\n")).collect::<String>();
    ok_with(at, &["produce", "t", "-K", "="], lines(0, 50).as_bytes());
    let read = |at, extra: &[&str]| {
        let ran = ok(at, &[&["consume", "t", "--until", "end", "--group", "g"], extra].concat());
        let mut values: Vec<String> = ran.text().lines().map(str::to_owned).collect();
        values.sort();
        values
    };
    assert_eq!(read(at, &["--no-commit"]).len(), 50);
    assert_eq!(read(at, &["-n", "20"]).len(), 20);
    broker.restart();
    let at = broker.address();
    assert_eq!(read(at, &[]).len(), 30);
    assert_eq!(read(at, &[]).len(), 0);
    ok_with(at, &["produce", "t", "-K", "="], lines(50, 60).as_bytes());
    assert_eq!(read(at, &[]), (50..60).map(|n| format!("v{n}")).collect::<Vec<_>>());
    ok(at, &["group", "seek", "g", "--to", "earliest"]);
    assert_eq!(read(at, &[]).len(), 60);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let broker = Broker::start();
    let at = broker.address();
    ok(at, &["topic", "create", "t"]);
    let lines = "some line of text\n".repeat(50_000);
    ok_with(at, &["produce", "t"], lines.as_bytes());
    let mut child =
        command(at, &["consume", "t"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "some line of text\n");
    let status = wait::until("the end of a consumer without a reader", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_tail_follows_what_is_written() {
    let broker = Broker::start();
    let at = broker.address();
    ok(at, &["topic", "create", "t"]);
    let mut tail = command(at, &["consume", "t"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    for n in 0..3 {
        ok_with(at, &["produce", "t"], format!("line {n}\n").as_bytes());
        assert_eq!(lines.next().unwrap().unwrap(), format!("line {n}"));
    }
    let interrupted =
        std::process::Command::new("kill").args(["-s", "INT", &tail.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let status = wait::until("the end of the tail", || tail.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
}

#[test]
fn the_commands_of_the_banner_work() {
    let broker = Broker::start();
    let at = broker.address();
    ok(at, &["topic", "create", "clicks", "--partitions", "3"]);
    ok_with(at, &["produce", "clicks", "--key-separator", "="], b"u1=hello\n");
    let read = ok(at, &["consume", "clicks", "--from", "earliest", "--until", "end", "--format", r"%k %v\n"]);
    assert_eq!(read.text(), "u1 hello\n");
    let grpcurl = ok(at, &["grpcurl", "topic", "create", "x"]);
    assert!(grpcurl.text().contains("wharf.v1.AdminService/CreateTopic"), "{}", grpcurl.text());
    for shell in ["bash", "zsh", "fish"] {
        assert!(!cli::ok(at, &["completion", shell]).stdout.is_empty());
    }
}
