//! Rules about imports.

use std::collections::BTreeSet;

use protox::prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

use super::context::Context;

/// Packages that the public one must not show.
const PRIVATE_PARTS: &[&str] = &["persisted", "internal"];

/// Checks the imports of one file; `set` holds the files that it imports.
pub(super) fn check(context: &mut Context<'_>, set: &FileDescriptorSet) {
    let file = context.file;
    if !file.public_dependency.is_empty() {
        context.error(&[], "IMPORT_NO_PUBLIC", "import public hides where a type comes from");
    }
    if !file.weak_dependency.is_empty() {
        context.error(&[], "IMPORT_NO_WEAK", "import weak is not supported by most languages");
    }
    let used = used_types(file);
    for name in &file.dependency {
        let Some(imported) = set.file.iter().find(|other| other.name() == name) else { continue };
        if defined_types(imported).is_disjoint(&used) {
            context.error(&[], "IMPORT_USED", format!("{name} is imported and not used"));
        }
        let is_private = |package: &str| package.split('.').any(|part| PRIVATE_PARTS.contains(&part));
        if !is_private(file.package()) && is_private(imported.package()) {
            context.error(&[], "IMPORT_PUBLIC_ONLY", format!("a public file must not import {name}"));
        }
    }
}

/// Full names, with the leading dot, of all types that fields and RPCs of the file name.
fn used_types(file: &FileDescriptorProto) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let mut open: Vec<&DescriptorProto> = file.message_type.iter().collect();
    while let Some(message) = open.pop() {
        used.extend(message.field.iter().map(|field| field.type_name().to_owned()));
        open.extend(&message.nested_type);
    }
    for method in file.service.iter().flat_map(|service| &service.method) {
        used.extend([method.input_type().to_owned(), method.output_type().to_owned()]);
    }
    used
}

/// Full names, with the leading dot, of all types that the file defines.
fn defined_types(file: &FileDescriptorProto) -> BTreeSet<String> {
    let mut defined = BTreeSet::new();
    let root = format!(".{}", file.package());
    defined.extend(file.enum_type.iter().map(|e| format!("{root}.{}", e.name())));
    let mut open: Vec<(String, &DescriptorProto)> =
        file.message_type.iter().map(|message| (format!("{root}.{}", message.name()), message)).collect();
    while let Some((name, message)) = open.pop() {
        defined.extend(message.enum_type.iter().map(|e| format!("{name}.{}", e.name())));
        open.extend(message.nested_type.iter().map(|nested| (format!("{name}.{}", nested.name()), nested)));
        defined.insert(name);
    }
    defined
}
