//! Compiles the `.proto` files without an installed `protoc`.
//!
//! Writes to `OUT_DIR` the Rust code of each package and `wharf_v1_descriptor.bin`: the public packages and what they
//! import, without comments, for server reflection. Services and clients are generated only with the feature `rpc`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message;
use protox::prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};

/// What clients may see by reflection. Persisted and internal packages stay out.
const PUBLIC_FILES: &[&str] = &[
    "google/rpc/error_details.proto",
    "google/rpc/status.proto",
    "wharf/v1/admin.proto",
    "wharf/v1/broker.proto",
    "wharf/v1/errors.proto",
    "wharf/v1/types.proto",
];

const PRIVATE_FILES: &[&str] = &["wharf/persisted/v1/metadata.proto", "wharf/persisted/v1/offsets.proto"];

fn main() -> anyhow::Result<()> {
    for folder in ["google", "wharf"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);

    let files = compile(&root)?;
    fs::write(out_dir.join("wharf_v1_descriptor.bin"), public_subset(&files).encode_to_vec())?;

    let rpc = env::var_os("CARGO_FEATURE_RPC").is_some();
    tonic_prost_build::configure()
        .build_client(rpc)
        .build_server(rpc)
        .bytes(".")
        .btree_map(".")
        .emit_rerun_if_changed(false)
        .out_dir(&out_dir)
        .compile_fds(files)?;
    Ok(())
}

fn compile(root: &Path) -> Result<FileDescriptorSet, protox::Error> {
    let mut compiler = protox::Compiler::new([root])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(PUBLIC_FILES.iter().chain(PRIVATE_FILES).map(|name| root.join(name)))?;
    let mut files = compiler.file_descriptor_set();
    for file in &mut files.file {
        // The comments of foreign files hold indented JSON, which rustdoc would take for code.
        if !file.package().starts_with("wharf.") {
            file.source_code_info = None;
        }
    }
    Ok(files)
}

/// The public files with all they import, each after its imports as reflection clients expect, without comments.
fn public_subset(all: &FileDescriptorSet) -> FileDescriptorSet {
    let mut wanted: BTreeSet<&str> = PUBLIC_FILES.iter().copied().collect();
    // The set is in dependency order, so one pass from the end reaches every import.
    for file in all.file.iter().rev() {
        if wanted.contains(file.name()) {
            wanted.extend(file.dependency.iter().map(String::as_str));
        }
    }
    FileDescriptorSet {
        file: all
            .file
            .iter()
            .filter(|file| wanted.contains(file.name()))
            .map(|file| FileDescriptorProto { source_code_info: None, ..file.clone() })
            .collect(),
    }
}
