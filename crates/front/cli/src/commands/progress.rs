//! Progress, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// A line on stderr that turns while something is waited for; nothing where stderr is no terminal.
pub(crate) struct Progress(Option<ProgressBar>);

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
        Progress(bar)
    }

    /// Goes on with `message`.
    pub(crate) fn say(&self, message: String) {
        if let Some(bar) = &self.0 {
            bar.set_message(message);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
