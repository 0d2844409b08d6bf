//! One file under check: where its elements stand, and a walk over them.
//!
//! An element's path is that of `google.protobuf.SourceCodeInfo`: field numbers of descriptor.proto and indexes in turn.

use protox::prost_reflect::prost_types::source_code_info::Location;
use protox::prost_reflect::prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto};

use crate::report::Report;

/// Field numbers of descriptor.proto that paths are made of.
pub(super) mod tag {
    pub(in crate::proto) const FILE_MESSAGE: i32 = 4;
    pub(in crate::proto) const FILE_ENUM: i32 = 5;
    pub(in crate::proto) const FILE_SERVICE: i32 = 6;
    pub(in crate::proto) const MESSAGE_FIELD: i32 = 2;
    pub(in crate::proto) const MESSAGE_NESTED: i32 = 3;
    pub(in crate::proto) const MESSAGE_ENUM: i32 = 4;
    pub(in crate::proto) const MESSAGE_ONEOF: i32 = 8;
    pub(in crate::proto) const ENUM_VALUE: i32 = 2;
    pub(in crate::proto) const SERVICE_METHOD: i32 = 2;
}

/// A file, its report, and where each element stands.
pub(super) struct Context<'a> {
    pub(super) file: &'a FileDescriptorProto,
    report: &'a mut Report,
}

impl<'a> Context<'a> {
    pub(super) fn new(file: &'a FileDescriptorProto, report: &'a mut Report) -> Context<'a> {
        Context { file, report }
    }

    /// Adds an error at the element of that path.
    pub(super) fn error(&mut self, path: &[i32], rule: &str, text: impl std::fmt::Display) {
        let line = self.location(path).and_then(|location| location.span.first()).map_or(1, |line| line + 1);
        self.report.error(format!("{}:{line}", self.file.name()), format!("{rule}: {text}"));
    }

    /// Whether a comment stands right before the element.
    pub(super) fn is_commented(&self, path: &[i32]) -> bool {
        self.location(path).is_some_and(|location| !location.leading_comments().trim().is_empty())
    }

    fn location(&self, path: &[i32]) -> Option<&'a Location> {
        self.file.source_code_info.as_ref()?.location.iter().find(|location| location.path == path)
    }

    /// Every message with its path, nested ones included, without those that stand for maps.
    pub(super) fn messages(&self) -> Vec<(Vec<i32>, &'a DescriptorProto)> {
        let mut found = Vec::new();
        for (index, message) in self.file.message_type.iter().enumerate() {
            add_messages(path(&[], tag::FILE_MESSAGE, index), message, &mut found);
        }
        found
    }

    /// Every enum with its path, nested ones included.
    pub(super) fn enums(&self) -> Vec<(Vec<i32>, &'a EnumDescriptorProto)> {
        let top = self.file.enum_type.iter().enumerate();
        let mut found: Vec<_> = top.map(|(index, e)| (path(&[], tag::FILE_ENUM, index), e)).collect();
        for (parent, message) in self.messages() {
            let nested = message.enum_type.iter().enumerate();
            found.extend(nested.map(|(index, e)| (path(&parent, tag::MESSAGE_ENUM, index), e)));
        }
        found
    }
}

fn add_messages<'a>(
    at: Vec<i32>,
    message: &'a DescriptorProto,
    found: &mut Vec<(Vec<i32>, &'a DescriptorProto)>,
) {
    if message.options.as_ref().is_some_and(|options| options.map_entry()) {
        return;
    }
    for (index, nested) in message.nested_type.iter().enumerate() {
        add_messages(path(&at, tag::MESSAGE_NESTED, index), nested, found);
    }
    found.push((at, message));
}

/// Path of a child.
pub(super) fn path(parent: &[i32], tag: i32, index: usize) -> Vec<i32> {
    let index = i32::try_from(index).expect("a file has fewer elements than 2^31");
    parent.iter().copied().chain([tag, index]).collect()
}

/// The oneofs of a message that its author wrote: not those that stand for `optional`.
pub(super) fn written_oneofs(message: &DescriptorProto) -> impl Iterator<Item = (usize, &str)> {
    message.oneof_decl.iter().enumerate().map(|(index, oneof)| (index, oneof.name())).filter(|(index, _)| {
        !message
            .field
            .iter()
            .any(|field| field.proto3_optional() && field.oneof_index.map(|i| i as usize) == Some(*index))
    })
}
