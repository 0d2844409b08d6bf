//! How far long work is, on stderr.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a line is printed where no bar can be drawn.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// A bar on a terminal, a line a second where progress was asked for and there is none, else nothing.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
    last_line: Instant,
}

impl Progress {
    /// `total_bytes` is what there is to do, where that is known.
    pub(super) fn new(wanted: bool, total_bytes: Option<u64>) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let bar = on_terminal.then(|| {
            let (bar, template) = match total_bytes {
                Some(total) => {
                    (ProgressBar::new(total), "{bar:30} {binary_bytes}/{binary_total_bytes} {msg} ETA {eta}")
                }
                None => (ProgressBar::new_spinner(), "{spinner} {binary_bytes} {msg}"),
            };
            // The templates are fixed; a wrong one only costs the looks.
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style);
            bar
        });
        Progress { bar, lines: wanted && !on_terminal, last_line: Instant::now() }
    }

    /// Shows how far it is. `message` is only made when it is shown.
    pub(super) fn update(&mut self, done_bytes: u64, message: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_position(done_bytes);
            if self.last_line.elapsed() >= LINE_INTERVAL / 10 {
                self.last_line = Instant::now();
                bar.set_message(message());
            }
        } else if self.lines && self.last_line.elapsed() >= LINE_INTERVAL {
            self.last_line = Instant::now();
            eprintln!("{}", message());
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
