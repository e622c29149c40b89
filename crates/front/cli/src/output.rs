//! Printing: tables for people, JSON and YAML for programs.

use crate::answers::{visible_json, visible_lines};
use crate::failure::Failure;
use crate::globals::{Globals, OutputFormat};
use crate::terminal::stderr_width;
use crate::text::{Style, wrapped};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// Where and how results are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) format: OutputFormat,
    pub(crate) style: Style,
}

impl Output {
    pub(crate) fn new(globals: &Globals) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let width = is_terminal.then(|| comfy_table::Table::new().width()).flatten();
        let style = Style { width, color: globals.colors_on_stdout(), now_ms: ohm_runtime::clock::wall_ms() };
        Output { format: globals.output, style }
    }

    /// Prints `value`, as a table with what `table` makes of it.
    pub(crate) fn print<T: Serialize>(&self, value: &T, table: impl FnOnce(&Style) -> String) -> Result<(), Failure> {
        match self.format {
            OutputFormat::Table => write_out(table(&self.style).as_bytes()),
            OutputFormat::Json => {
                let text = serde_json::to_string_pretty(value).map_err(|error| cannot_print(&error))?;
                write_out(format!("{}\n", visible_json(&text)).as_bytes())
            }
            OutputFormat::Yaml => {
                let text = serde_saphyr::to_string(value).map_err(|error| cannot_print(&error))?;
                write_out(text.as_bytes())
            }
        }
    }

    /// Prints one of many values of a stream: JSON on one line, YAML as a document of its own.
    pub(crate) fn print_item<T: Serialize>(
        &self,
        value: &T,
        table: impl FnOnce(&Style) -> String,
    ) -> Result<(), Failure> {
        match self.format {
            OutputFormat::Table => write_out(table(&self.style).as_bytes()),
            OutputFormat::Json => {
                let text = serde_json::to_string(value).map_err(|error| cannot_print(&error))?;
                write_out(format!("{}\n", visible_json(&text)).as_bytes())
            }
            OutputFormat::Yaml => {
                let text = serde_saphyr::to_string(value).map_err(|error| cannot_print(&error))?;
                write_out(format!("---\n{text}").as_bytes())
            }
        }
    }
}

fn cannot_print(error: &dyn std::fmt::Display) -> Failure {
    Failure::Failed(format!("the answer cannot be printed: {error}"))
}

/// Writes to standard output at once.
pub(crate) fn write_out(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| Failure::io("writing to standard output", error))
}

/// Says something on stderr that is no result.
pub(crate) fn note(text: &str) {
    // Whoever closed our stderr does not want to know.
    let _ = writeln!(io::stderr().lock(), "{}", wrapped(&visible_lines(text), stderr_width(), 0));
}
