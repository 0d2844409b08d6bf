//! A `wharf standalone` process.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;

use tempfile::TempDir;

use crate::api::Api;
use crate::binary;
use crate::wait::{self, DEADLINE};

/// How a broker is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Further arguments.
    pub args: Vec<String>,
    /// Writes stay in the process until they are flushed, so that a kill is a power loss.
    pub power_loss: bool,
}

impl Options {
    /// The usual ones, with further arguments.
    #[must_use]
    pub fn with_args(args: &[&str]) -> Options {
        Options { args: args.iter().map(ToString::to_string).collect(), ..Options::default() }
    }
}

/// Why a broker did not start.
#[derive(Debug)]
pub struct StartFailure {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to stderr in this run.
    pub stderr: String,
}

/// A broker and its folder. Dropping it kills the process and removes the folder; where the test has failed, the end of
/// the log is printed.
pub struct Broker {
    options: Options,
    data_dir: PathBuf,
    stderr: PathBuf,
    stderr_start: u64,
    running: Option<Running>,
    /// Held for its Drop.
    root: TempDir,
}

struct Running {
    child: Child,
    listen: SocketAddr,
    ops: SocketAddr,
}

impl Broker {
    /// Starts a broker on a new folder and waits until it is ready.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start() -> Broker {
        Broker::start_with(Options::default())
    }

    /// [`Broker::start`] with options.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start_with(options: Options) -> Broker {
        let mut broker = Broker::prepare(options);
        broker.start_again();
        broker
    }

    /// A broker that is not started yet.
    ///
    /// # Panics
    /// If no temporary folder can be made.
    #[must_use]
    pub fn prepare(options: Options) -> Broker {
        let root =
            tempfile::Builder::new().prefix("wharf-test-").tempdir().expect("a temporary folder can be made");
        let data_dir = root.path().join("data");
        let stderr = root.path().join("stderr.log");
        Broker { options, data_dir, stderr, stderr_start: 0, running: None, root }
    }

    /// Starts the stopped broker again on its folder.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_again(&mut self) {
        if let Err(failure) = self.try_start() {
            panic!("the broker did not start: {}\n{}", failure.status, failure.stderr);
        }
    }

    /// Starts the stopped broker, which may refuse to.
    ///
    /// # Errors
    /// [`StartFailure`], if the process ended before it was ready.
    ///
    /// # Panics
    /// If it neither gets ready nor ends.
    pub fn try_start(&mut self) -> Result<(), StartFailure> {
        assert!(self.running.is_none(), "the broker runs already");
        let log = OpenOptions::new().create(true).append(true).open(&self.stderr).unwrap();
        self.stderr_start = log.metadata().unwrap().len();
        let mut command = self.command();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let mut listen = None;
        loop {
            match lines.recv_timeout(DEADLINE) {
                Ok(line) => {
                    listen = listen.or_else(|| address_after(&line, "is listening on "));
                    if let (Some(listen), Some(ops)) = (listen, address_after(&line, "probes on http://")) {
                        self.running = Some(Running { child, listen, ops });
                        return Ok(());
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let status = child.wait().unwrap();
                    return Err(StartFailure { status, stderr: self.stderr() });
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    panic!("the broker was not ready within {DEADLINE:?}:\n{}", self.stderr());
                }
            }
        }
    }

    /// Starts the stopped broker and kills it after this time, wherever it is then.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn crash_while_starting(&mut self, after: std::time::Duration) {
        let log = OpenOptions::new().create(true).append(true).open(&self.stderr).unwrap();
        let mut command = self.command();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        // Not to wait for something, but to come at any moment.
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The command line that starts it.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = binary::command();
        command.arg("standalone").arg("--data-dir").arg(&self.data_dir);
        command.args(["--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]);
        if self.options.power_loss {
            command.arg("--test-power-loss");
        }
        command.args(&self.options.args);
        command
    }

    /// Where it serves the public API.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.running().listen
    }

    /// Where it serves metrics and probes.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn ops_address(&self) -> SocketAddr {
        self.running().ops
    }

    /// Stubs on a new connection.
    pub async fn api(&self) -> Api {
        Api::connect(self.address()).await
    }

    /// Its folder.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The folder around its folder, for other files of the test.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Puts its folder elsewhere, before the first start.
    pub fn set_data_dir(&mut self, path: PathBuf) {
        self.data_dir = path;
    }

    /// Kills it, as `kill -9` does.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill(&mut self) {
        let mut running = self.running.take().expect("the broker runs");
        running.child.kill().unwrap();
        running.child.wait().unwrap();
    }

    /// Asks it to stop and waits until it has.
    ///
    /// # Panics
    /// If it does not end before the deadline.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.wait()
    }

    /// Stops it cleanly.
    ///
    /// # Panics
    /// If the exit code is not 0.
    pub fn stop(&mut self) {
        let status = self.terminate();
        assert!(status.success(), "a clean stop ends with 0, not with {status}:\n{}", self.stderr());
    }

    /// Stops it cleanly and starts it again.
    ///
    /// # Panics
    /// If one of the two fails.
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Sends it a signal, by name.
    ///
    /// # Panics
    /// If it does not run.
    pub fn signal(&self, name: &str) {
        let pid = self.running().child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(sent.success(), "signal {name} could not be sent");
    }

    /// Waits until it has ended by itself.
    ///
    /// # Panics
    /// After the deadline.
    pub fn wait(&mut self) -> ExitStatus {
        let mut running = self.running.take().expect("the broker runs");
        wait::until("the end of the broker", || running.child.try_wait().unwrap())
    }

    /// Whether it still runs.
    ///
    /// # Panics
    /// If it was stopped.
    pub fn is_alive(&mut self) -> bool {
        self.running.as_mut().expect("the broker was started").child.try_wait().unwrap().is_none()
    }

    /// What it wrote to stderr since its last start.
    ///
    /// # Panics
    /// If that cannot be read.
    #[must_use]
    pub fn stderr(&self) -> String {
        let all = std::fs::read(&self.stderr).unwrap_or_default();
        let start = usize::try_from(self.stderr_start).unwrap().min(all.len());
        String::from_utf8_lossy(&all[start..]).into_owned()
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the broker runs")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            // It may have ended already.
            drop(running.child.kill());
            drop(running.child.wait());
        }
        if std::thread::panicking() {
            let all = File::open(&self.stderr)
                .map(BufReader::new)
                .map(|file| file.lines().map_while(Result::ok).collect());
            let lines: Vec<String> = all.unwrap_or_default();
            eprintln!("--- the end of the broker's log ---");
            lines.iter().skip(lines.len().saturating_sub(60)).for_each(|line| eprintln!("{line}"));
        }
    }
}

/// The lines of a stream, read by a thread of its own until the stream ends.
fn lines_of(stream: impl std::io::Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            // Nobody listens after the start; the pipe must be emptied still.
            drop(sender.send(line));
        }
    });
    receiver
}

fn address_after(line: &str, words: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once(words)?;
    rest.split([' ', ',']).next()?.parse().ok()
}
