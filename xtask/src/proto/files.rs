//! Rules about files: names, packages and options.

use std::collections::BTreeMap;

use protox::prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet, FileOptions};

use super::context::Context;
use super::names::is_lower_snake;
use crate::report::Report;

/// Checks one file.
pub(super) fn check(context: &mut Context<'_>) {
    let file = context.file;
    let (folder, name) = file.name().rsplit_once('/').unwrap_or(("", file.name()));
    if !is_lower_snake(name.trim_end_matches(".proto")) {
        context.error(&[], "FILE_LOWER_SNAKE_CASE", format!("{name} must be lower_snake_case.proto"));
    }
    if file.syntax() != "proto3" {
        context.error(&[], "SYNTAX_SPECIFIED", "the file must say syntax = \"proto3\"");
    }
    check_package(context, folder);
    check_options(context);
}

fn check_package(context: &mut Context<'_>, folder: &str) {
    let package = context.file.package();
    if package.is_empty() {
        context.error(&[], "PACKAGE_DEFINED", "the file must have a package");
        return;
    }
    if folder != package.replace('.', "/") {
        context.error(
            &[],
            "PACKAGE_DIRECTORY_MATCH",
            format!("package {package} must lie in {}", package.replace('.', "/")),
        );
    }
    if !package.split('.').all(is_lower_snake) {
        context.error(&[], "PACKAGE_LOWER_SNAKE_CASE", format!("{package} must be lower_snake.case"));
    }
    let last = package.rsplit('.').next().unwrap_or_default();
    if !is_version(last) {
        context.error(&[], "PACKAGE_VERSION_SUFFIX", format!("{package} must end with a version such as v1"));
    }
}

/// `v1`, `v1beta2`, `v2alpha`.
fn is_version(part: &str) -> bool {
    let Some(number) = part.strip_prefix('v') else { return false };
    let stable = number.trim_start_matches(|c: char| c.is_ascii_digit());
    stable.len() < number.len()
        && (stable.is_empty() || stable.starts_with("alpha") || stable.starts_with("beta"))
}

fn check_options(context: &mut Context<'_>) {
    let options = context.file.options.clone().unwrap_or_default();
    let missing = [
        ("go_package", options.go_package().is_empty()),
        ("java_package", options.java_package().is_empty()),
        ("java_multiple_files", !options.java_multiple_files()),
        ("csharp_namespace", options.csharp_namespace().is_empty()),
    ];
    for (name, _) in missing.iter().filter(|(_, missing)| *missing) {
        context.error(&[], "FILE_OPTIONS", format!("option {name} must be set"));
    }
}

/// The files of one package agree on the options that name it in other languages.
pub(super) fn check_same_options(set: &FileDescriptorSet, report: &mut Report) {
    type Read = fn(&FileOptions) -> &str;
    let rules: [(&str, Read); 3] = [
        ("PACKAGE_SAME_GO_PACKAGE", FileOptions::go_package),
        ("PACKAGE_SAME_JAVA_PACKAGE", FileOptions::java_package),
        ("PACKAGE_SAME_CSHARP_NAMESPACE", FileOptions::csharp_namespace),
    ];
    for (rule, read) in rules {
        let mut first: BTreeMap<&str, (&FileDescriptorProto, String)> = BTreeMap::new();
        for file in set.file.iter().filter(|file| file.package().starts_with("wharf.")) {
            let value = file.options.as_ref().map(read).unwrap_or_default().to_owned();
            let (other, expected) = first.entry(file.package()).or_insert_with(|| (file, value.clone()));
            if *expected != value {
                report.error(
                    format!("{}:1", file.name()),
                    format!("{rule}: {value:?} here, {expected:?} in {}", other.name()),
                );
            }
        }
    }
}
