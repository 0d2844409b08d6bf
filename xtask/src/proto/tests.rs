#![allow(clippy::unwrap_used)]

use std::path::Path;

use protox::Compiler;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

use super::check;
use crate::report::Report;

/// A file that keeps every rule.
const GOOD: &str = r#"syntax = "proto3";

package wharf.v1;

import "google/protobuf/duration.proto";

option csharp_namespace = "Wharf.V1";
option go_package = "wharf.dev/gen/wharf/v1;wharfv1";
option java_multiple_files = true;
option java_package = "dev.wharf.v1";

// Serves.
service BoatService {
  // Sails.
  rpc Sail(SailRequest) returns (SailResponse);
}

// Asks.
message SailRequest {
  // How far.
  optional int32 distance_m = 1;
  // Where.
  oneof course {
    // Home.
    string home_port = 2;
  }
  // By name.
  map<string, string> cargo = 3;
  // What kind.
  enum BoatKind {
    // Any.
    BOAT_KIND_UNSPECIFIED = 0;
    // Small.
    BOAT_KIND_SMALL = 1;
  }
  // Which.
  BoatKind kind = 4;
}

// Answers.
message SailResponse {
  // How long.
  google.protobuf.Duration time = 1;
}
"#;

const NAME: &str = "wharf/v1/boat_trips.proto";

struct Memory(Vec<(String, String)>);

impl FileResolver for Memory {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        path.to_str().map(str::to_owned)
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match self.0.iter().find(|(known, _)| known == name) {
            Some((_, text)) => File::from_source(name, text),
            None => Err(protox::Error::file_not_found(name)),
        }
    }
}

/// Names of the rules that the files break.
fn broken(files: &[(&str, &str)]) -> Vec<String> {
    let mut resolver = ChainFileResolver::new();
    resolver.add(Memory(files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect()));
    resolver.add(GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).include_source_info(true);
    for (name, _) in files {
        compiler.open_file(name).unwrap();
    }
    let mut report = Report::default();
    check(&compiler.file_descriptor_set(), &mut report);
    report.errors().iter().map(|error| error.split(": ").nth(1).unwrap().to_owned()).collect()
}

#[test]
fn a_good_file_breaks_nothing() {
    assert_eq!(broken(&[(NAME, GOOD)]), [""; 0]);
}

#[test]
fn each_rule_fires_for_its_fault() {
    let faults = [
        ("PACKAGE_VERSION_SUFFIX", "package wharf.v1;", "package wharf.one;"),
        ("PACKAGE_DIRECTORY_MATCH", "package wharf.v1;", "package wharf.v2;"),
        ("PACKAGE_LOWER_SNAKE_CASE", "package wharf.v1;", "package wharf.Big.v1;"),
        ("PACKAGE_DEFINED", "package wharf.v1;", ""),
        ("FILE_OPTIONS", "option go_package = \"wharf.dev/gen/wharf/v1;wharfv1\";", ""),
        ("FILE_OPTIONS", "option java_multiple_files = true;", ""),
        ("FILE_OPTIONS", "option java_package = \"dev.wharf.v1\";", ""),
        ("FILE_OPTIONS", "option csharp_namespace = \"Wharf.V1\";", ""),
        ("IMPORT_NO_PUBLIC", "import \"google/protobuf/d", "import public \"google/protobuf/d"),
        ("IMPORT_NO_WEAK", "import \"google/protobuf/d", "import weak \"google/protobuf/d"),
        (
            "IMPORT_USED",
            "import \"google/protobuf/d",
            "import \"google/protobuf/any.proto\"; import \"google/protobuf/d",
        ),
        ("SERVICE_SUFFIX", "service BoatService", "service BoatServer"),
        ("SERVICE_PASCAL_CASE", "service BoatService", "service boatService"),
        ("RPC_PASCAL_CASE", "rpc Sail(", "rpc sail("),
        ("RPC_REQUEST_STANDARD_NAME", "(SailRequest)", "(google.protobuf.Duration)"),
        ("RPC_RESPONSE_STANDARD_NAME", "returns (SailResponse)", "returns (SailRequest)"),
        (
            "RPC_REQUEST_RESPONSE_UNIQUE",
            "  // Sails.",
            "  // Rows.\n  rpc Row(SailRequest) returns (SailResponse);\n  // Sails.",
        ),
        ("MESSAGE_PASCAL_CASE", "// Asks.", "// Bad.\nmessage bad_name {}\n// Asks."),
        ("FIELD_LOWER_SNAKE_CASE", "distance_m", "distanceM"),
        ("ONEOF_LOWER_SNAKE_CASE", "oneof course", "oneof Course"),
        ("ENUM_PASCAL_CASE", "BoatKind", "boatKind"),
        ("ENUM_VALUE_PREFIX", "BOAT_KIND_SMALL", "SMALL"),
        ("ENUM_VALUE_UPPER_SNAKE_CASE", "BOAT_KIND_SMALL", "BOAT_KIND_small"),
        ("ENUM_ZERO_VALUE_SUFFIX", "BOAT_KIND_UNSPECIFIED", "BOAT_KIND_ANY"),
        (
            "ENUM_NO_ALLOW_ALIAS",
            "    // Small.",
            "    option allow_alias = true;\n    // Same.\n    BOAT_KIND_TINY = 1;\n    // Small.",
        ),
        ("COMMENT_SERVICE", "// Serves.", ""),
        ("COMMENT_RPC", "// Sails.", ""),
        ("COMMENT_MESSAGE", "// Answers.", ""),
        ("COMMENT_FIELD", "// How far.", ""),
        ("COMMENT_ONEOF", "// Where.", ""),
        ("COMMENT_FIELD", "// Home.", ""),
        ("COMMENT_ENUM", "// What kind.", ""),
        ("COMMENT_ENUM_VALUE", "// Small.", ""),
        ("COMMENT_FIELD", "// How long.", "//"),
    ];
    for (rule, good, bad) in faults {
        assert!(GOOD.contains(good), "{good}");
        let found = broken(&[(NAME, &GOOD.replace(good, bad))]);
        assert!(found.iter().any(|found| found == rule), "{rule} did not fire for {bad:?}: {found:?}");
    }
}

#[test]
fn only_proto3_is_taken() {
    let head = &GOOD[GOOD.find("package").unwrap()..GOOD.find("// Serves").unwrap()];
    let head = head.replace("import \"google/protobuf/duration.proto\";", "");
    assert_eq!(broken(&[(NAME, &format!("syntax = \"proto3\";{head}"))]), [""; 0]);
    assert_eq!(broken(&[(NAME, &format!("syntax = \"proto2\";{head}"))]), ["SYNTAX_SPECIFIED"]);
    assert_eq!(broken(&[(NAME, &head)]), ["SYNTAX_SPECIFIED"]);
}

#[test]
fn names_of_files_are_checked() {
    assert_eq!(broken(&[("wharf/v1/BoatTrips.proto", GOOD)]), ["FILE_LOWER_SNAKE_CASE"]);
    assert_eq!(broken(&[("wharf/boat_trips.proto", GOOD)]), ["PACKAGE_DIRECTORY_MATCH"]);
}

#[test]
fn files_of_a_package_agree_on_options() {
    let head = |go: &str, java: &str, csharp: &str| {
        format!(
            "syntax = \"proto3\";\npackage wharf.v1;\noption go_package = \"{go}\";\noption java_package = \"{java}\";\n\
             option java_multiple_files = true;\noption csharp_namespace = \"{csharp}\";\n"
        )
    };
    let first = head("g", "j", "c");
    let against = |other: &str| broken(&[("wharf/v1/a.proto", &first), ("wharf/v1/b.proto", other)]);
    assert_eq!(against(&head("g", "j", "c")), [""; 0]);
    assert_eq!(against(&head("x", "j", "c")), ["PACKAGE_SAME_GO_PACKAGE"]);
    assert_eq!(against(&head("g", "x", "c")), ["PACKAGE_SAME_JAVA_PACKAGE"]);
    assert_eq!(against(&head("g", "j", "x")), ["PACKAGE_SAME_CSHARP_NAMESPACE"]);
}

#[test]
fn public_files_do_not_show_private_ones() {
    let head = |package: &str| {
        format!(
            "syntax = \"proto3\";\npackage {package};\noption go_package = \"g\";\noption java_package = \"j\";\n\
             option java_multiple_files = true;\noption csharp_namespace = \"c\";\n"
        )
    };
    let private = format!("{}// Hidden.\nmessage Hidden {{}}\n", head("wharf.persisted.v1"));
    let public = format!(
        "{}import \"wharf/persisted/v1/a.proto\";\n// Shows.\nmessage Shows {{\n  // It.\n  wharf.persisted.v1.Hidden hidden = 1;\n}}\n",
        head("wharf.v1")
    );
    let files = [("wharf/persisted/v1/a.proto", private.as_str()), ("wharf/v1/b.proto", public.as_str())];
    assert_eq!(broken(&files), ["IMPORT_PUBLIC_ONLY"]);
}
