//! Progress of many equal things, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// A bar on stderr that fills; nothing where stderr is no terminal.
pub(super) struct Bar(Option<ProgressBar>);

impl Bar {
    /// An empty bar for `total` things, called `what`.
    pub(super) fn start(what: &'static str, total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total);
            if let Ok(style) = ProgressStyle::with_template("{msg:12} [{bar:40}] {pos}/{len} ({elapsed})") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_message(what);
            bar
        });
        Bar(bar)
    }

    /// So many more.
    pub(super) fn advance(&self, count: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(count);
        }
    }

    /// So many in all.
    pub(super) fn set(&self, count: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(count);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
