//! Checks of the workspace that compilers and linters do not make. `cargo xtask tidy` holds the source to the rules of the
//! architecture and the style, `cargo xtask proto-lint` holds the `.proto` files to buf's STANDARD and COMMENTS rules, and
//! `cargo xtask descriptor-set` writes the API's descriptors for tools.
//!
//! It must not depend on any package that it checks, so that it still runs when they do not build.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod proto;
mod report;
mod source;
mod tidy;
mod workspace;

use report::Report;
use workspace::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks of the Wharf workspace")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check dependency rules, file sizes, banned constructs, crate documentation and links.
    Tidy,
    /// Check the .proto files against buf's STANDARD and COMMENTS rules.
    ProtoLint,
    /// Write the public API as a descriptor set with comments, for example for grpcurl -protoset.
    DescriptorSet {
        /// File to write.
        out: PathBuf,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let workspace = Workspace::load()?;
    let report = match arguments.command {
        Command::Tidy => tidy::run(&workspace)?,
        Command::ProtoLint => proto::lint(&workspace)?,
        Command::DescriptorSet { out } => {
            proto::write_descriptor_set(&workspace, &out)?;
            Report::default()
        }
    };
    Ok(report.print())
}
