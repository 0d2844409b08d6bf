//! Configuration of `wharf standalone`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use serde::{Deserialize, Serialize};

use crate::telemetry::logging::LogFormat;

/// `WHARF_*` variables that belong to the command line or the build and are no configuration keys.
const OTHER_VARIABLES: [&str; 4] = ["endpoint", "config", "cache_dir", "manifest_dir"];

/// Everything that `wharf standalone` can be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandaloneConfig {
    /// Folder for everything that the server keeps.
    pub data_dir: PathBuf,
    /// Address of the public gRPC port.
    pub listen: SocketAddr,
    /// Address of the operations port: /metrics, /livez, /readyz.
    pub ops_listen: SocketAddr,
    /// Failure domain of this server, if it has a name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rack: Option<String>,
    /// What is logged: a level, or target=level pairs.
    pub log: String,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Threads of the async runtime; 0 for half of the cores, at least one.
    pub worker_threads: usize,
    /// Threads for disk IO; 0 for one for each core, at least two.
    pub io_threads: usize,
    /// Flushes of different logs that may run at the same time.
    pub parallel_syncs: usize,
    /// Memory for recent batches, in bytes.
    pub tail_cache_bytes: usize,
    /// Memory for unanswered produce requests, in bytes.
    pub produce_buffer_bytes: usize,
    /// Disk space below which produce is refused, in bytes; by default max(5%, 256 MiB) of the file system, at most
    /// half of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disk_reserve_bytes: Option<u64>,
    /// Whether producing to a topic that does not exist creates it.
    pub auto_create_topics: bool,
    /// Longest time for a graceful stop, in milliseconds.
    pub shutdown_timeout_ms: u64,
    /// For power-loss tests: writes stay in the process until they are flushed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub test_power_loss: bool,
}

impl Default for StandaloneConfig {
    fn default() -> Self {
        StandaloneConfig {
            data_dir: PathBuf::from("./wharf-data"),
            listen: SocketAddr::from(([127, 0, 0, 1], 7070)),
            ops_listen: SocketAddr::from(([127, 0, 0, 1], 7080)),
            rack: None,
            log: "info".to_owned(),
            log_format: LogFormat::Text,
            worker_threads: 0,
            io_threads: 0,
            parallel_syncs: 2,
            tail_cache_bytes: 16 << 20,
            produce_buffer_bytes: 256 << 20,
            disk_reserve_bytes: None,
            auto_create_topics: false,
            shutdown_timeout_ms: 30_000,
            test_power_loss: false,
        }
    }
}

/// Flags of `wharf standalone`; what is not given comes from the environment, the file, or the defaults.
#[derive(Clone, Debug, Default, clap::Args, Serialize)]
pub struct StandaloneArgs {
    /// TOML file with any of the configuration keys
    #[arg(long, env = "WHARF_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Print the resulting configuration and exit
    #[arg(long)]
    #[serde(skip)]
    pub dump_config: bool,
    /// Folder for everything that the server keeps [default: ./wharf-data]
    #[arg(long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<PathBuf>,
    /// Address of the public gRPC port [default: 127.0.0.1:7070]
    #[arg(long, value_name = "ADDR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// Address of the operations port: /metrics, /livez, /readyz [default: 127.0.0.1:7080]
    #[arg(long, value_name = "ADDR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops_listen: Option<SocketAddr>,
    /// Failure domain of this server
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// What is logged: a level, or target=level pairs [default: info]
    #[arg(long, value_name = "FILTER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// How log lines look [default: text]
    #[arg(long, value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_format: Option<LogFormat>,
    /// Threads of the async runtime; 0 for half of the cores [default: 0]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_threads: Option<usize>,
    /// Threads for disk IO; 0 for one for each core [default: 0]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_threads: Option<usize>,
    /// Flushes of different logs that may run at the same time [default: 2]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_syncs: Option<usize>,
    /// Memory for recent batches, in bytes [default: 16 MiB]
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail_cache_bytes: Option<usize>,
    /// Memory for unanswered produce requests, in bytes [default: 256 MiB]
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub produce_buffer_bytes: Option<usize>,
    /// Disk space below which produce is refused, in bytes [default: max(5%, 256 MiB), at most half of the disk]
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_reserve_bytes: Option<u64>,
    /// Create topics on first produce
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub auto_create_topics: bool,
    /// Longest time for a graceful stop, in milliseconds [default: 30000]
    #[arg(long, value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shutdown_timeout_ms: Option<u64>,
    /// For power-loss tests: writes stay in the process until they are flushed
    #[arg(long, hide = true)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub test_power_loss: bool,
}

impl StandaloneConfig {
    /// Puts the sources together.
    ///
    /// # Errors
    /// For a file that cannot be read, an unknown key, or a value that does not fit; the message names the source.
    pub fn load(args: &StandaloneArgs) -> anyhow::Result<Self> {
        let mut figment = Figment::from(Serialized::defaults(StandaloneConfig::default()));
        if let Some(file) = &args.config {
            anyhow::ensure!(file.is_file(), "the configuration file {} does not exist", file.display());
            figment = figment.merge(Toml::file_exact(file));
        }
        let environment = Env::prefixed("WHARF_").ignore(&OTHER_VARIABLES);
        let config: StandaloneConfig = figment
            .merge(environment)
            .merge(Serialized::defaults(args))
            .extract()
            .context("the configuration is not usable")?;
        anyhow::ensure!(config.parallel_syncs > 0, "parallel_syncs must be at least 1");
        Ok(config)
    }

    /// The configuration as TOML.
    ///
    /// # Errors
    /// If it cannot be written as TOML, which a test rules out.
    pub fn dump(&self) -> anyhow::Result<String> {
        Ok(toml::to_string(self)?)
    }

    /// Threads of the async runtime. More workers than cores to run them only wake each other up.
    #[must_use]
    pub fn workers(&self) -> usize {
        if self.worker_threads > 0 { self.worker_threads } else { (cores() / 2).max(1) }
    }

    /// Threads for disk IO.
    #[must_use]
    pub fn io(&self) -> usize {
        if self.io_threads > 0 { self.io_threads } else { cores().max(2) }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn flags_win_over_the_file_which_wins_over_the_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("wharf.toml");
        std::fs::write(&file, "parallel_syncs = 8\nio_threads = 3\n").unwrap();
        let args = StandaloneArgs { config: Some(file), io_threads: Some(5), ..StandaloneArgs::default() };
        let config = StandaloneConfig::load(&args).unwrap();
        assert_eq!((config.parallel_syncs, config.io_threads), (8, 5));
        assert_eq!(config.listen, StandaloneConfig::default().listen);
    }

    #[test]
    fn unknown_keys_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("wharf.toml");
        std::fs::write(&file, "paralel_syncs = 8\n").unwrap();
        let args = StandaloneArgs { config: Some(file), ..StandaloneArgs::default() };
        let error = format!("{:#}", StandaloneConfig::load(&args).unwrap_err());
        assert!(error.contains("paralel_syncs"), "{error}");
    }

    #[test]
    fn the_dump_is_a_configuration_file() {
        let dumped = StandaloneConfig::default().dump().unwrap();
        let read: StandaloneConfig = toml::from_str(&dumped).unwrap();
        assert_eq!(read, StandaloneConfig::default());
    }
}
