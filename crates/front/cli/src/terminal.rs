//! The terminal on the other side.

use std::io::{self, IsTerminal};

/// Columns of the terminal that stderr is; nothing where it is none.
pub(crate) fn stderr_width() -> Option<u16> {
    io::stderr().is_terminal().then(|| comfy_table::Table::new().width()).flatten()
}
