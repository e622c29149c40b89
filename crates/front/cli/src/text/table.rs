//! Tables without lines, as wide as the terminal at most.

use super::Style;
use comfy_table::{Attribute, Cell, Color, ContentArrangement, Row, Table, presets};

/// Spaces between two columns.
const GAP: u16 = 2;

/// A table that is being filled.
pub(crate) struct Grid {
    table: Table,
    color: bool,
    narrow: bool,
}

impl Grid {
    pub(crate) fn new(style: &Style, header: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_truncation_indicator("…");
        if style.color {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        if let Some(width) = style.width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        let bold =
            |name: &&str| if style.color { Cell::new(name).add_attribute(Attribute::Bold) } else { Cell::new(name) };
        let mut header = Row::from(header.iter().map(bold).collect::<Vec<_>>());
        if style.width.is_some() {
            header.max_height(1);
        }
        table.set_header(header);
        Grid { table, color: style.color, narrow: style.width.is_some() }
    }

    /// Adds a row.
    pub(crate) fn row<I: IntoIterator<Item = String>>(&mut self, cells: I) {
        let cells = cells.into_iter().map(|text| {
            let color = if self.color { color_of(&text) } else { None };
            // An empty cell would swallow the gap to the next column for whoever cuts the text at spaces.
            let cell = Cell::new(if text.is_empty() { "-".to_string() } else { text });
            color.into_iter().fold(cell, Cell::fg)
        });
        let mut row = Row::from(cells.collect::<Vec<_>>());
        if self.narrow {
            row.max_height(1);
        }
        self.table.add_row(row);
    }

    /// The text, each line without spaces at its end, and a line break after the last.
    pub(crate) fn text(mut self) -> String {
        for column in self.table.column_iter_mut() {
            column.set_padding((0, GAP));
        }
        let lines = self.table.lines().map(|line| line.trim_end().to_string() + "\n");
        lines.collect()
    }
}

/// States have the colour of traffic lights; other words have none.
fn color_of(text: &str) -> Option<Color> {
    match text {
        "running" | "succeeded" | "ready" | "accepted" => Some(Color::Green),
        "pending" | "held" | "suspended" | "backingOff" | "stopping" | "placed" | "suspect" | "cordoned"
        | "unknown" => Some(Color::Yellow),
        "failed" | "cancelled" | "lost" | "refused" => Some(Color::Red),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::PLAIN;

    fn grid(style: &Style) -> String {
        let mut grid = Grid::new(style, &["NAME", "STATE"]);
        grid.row(["a".to_string(), "running".to_string()]);
        grid.row(["a-name-that-is-rather-long".to_string(), String::new()]);
        grid.text()
    }

    #[test]
    fn columns_line_up() {
        assert_eq!(
            grid(&PLAIN),
            "NAME                        STATE\na                           running\na-name-that-is-rather-long  -\n"
        );
    }

    #[test]
    fn a_narrow_terminal_cuts_cells() {
        let text = grid(&Style { width: Some(24), ..PLAIN });
        assert!(text.lines().all(|line| line.chars().count() <= 24), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains('…'), "{text}");
    }

    #[test]
    fn colour_is_used_when_wanted_only() {
        assert!(!grid(&PLAIN).contains('\x1b'));
        assert!(grid(&Style { color: true, ..PLAIN }).contains('\x1b'));
    }
}
