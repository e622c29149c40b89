//! Progress: a line that turns on a terminal, a word now and then elsewhere.

use crate::output::note;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Between two lines where stderr is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// A line on stderr that turns while something is waited for; where stderr is no terminal, only what is told.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    told: Cell<Instant>,
}

impl Progress {
    /// Begins with `message`.
    pub(crate) fn start(message: String) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar.set_message(message);
            bar
        });
        Progress { bar, told: Cell::new(Instant::now()) }
    }

    /// Goes on with `message`.
    pub(crate) fn say(&self, message: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(message);
        }
    }

    /// Goes on with `message`, of which a person or a log has to know: where stderr is no terminal it is a line of its
    /// own every few seconds.
    pub(crate) fn tell(&self, message: String) {
        if self.bar.is_none() && self.told.get().elapsed() >= TOLD_EVERY {
            self.told.set(Instant::now());
            note(&message);
        }
        self.say(message);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
