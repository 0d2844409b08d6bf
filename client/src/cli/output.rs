//! Results on stdout: tables, JSON, YAML.

use std::fmt::Display;
use std::io::{IsTerminal, Write};

use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use serde_json::Value;

use super::OutputFormat;
use super::error::CliError;

/// Whether to use colour on a stream that is a terminal or not. `NO_COLOR` turns it off (no-color.org).
pub(super) fn colour(is_terminal: bool) -> bool {
    is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// How a column is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// Rows below a head.
#[derive(Debug)]
pub(super) struct Grid {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub(super) fn new(columns: &[(&'static str, Align)]) -> Self {
        Grid { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text. On a terminal the head is bold; else the text is the same without it, and never wrapped.
    pub(super) fn render(&self, on_terminal: bool) -> String {
        let mut table = Table::new();
        let rule = LineStyle::none().fill('─').junction('─');
        table
            .load_style(TableStyle::new().header_separator(rule))
            .set_content_arrangement(ContentArrangement::Disabled);
        if !on_terminal {
            table.force_no_tty();
        }
        table.set_header(self.columns.iter().map(|(name, _)| {
            let cell = Cell::new(name);
            if colour(on_terminal) { cell.add_attribute(Attribute::Bold) } else { cell }
        }));
        for row in &self.rows {
            table.add_row(row.iter().map(Cell::new));
        }
        for (column, (_, align)) in table.column_iter_mut().zip(&self.columns) {
            // One more stands where the rule has its junctions.
            column.set_padding((0, 1));
            if *align == Align::Right {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = String::new();
        for line in table.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Names and values below each other.
pub(super) fn facts(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    pairs.iter().map(|(name, value)| format!("{name:<width$}  {value}\n")).collect()
}

/// Prints results in the form that was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    format: OutputFormat,
    on_terminal: bool,
}

impl Output {
    pub(super) fn new(format: OutputFormat) -> Self {
        Output { format, on_terminal: std::io::stdout().is_terminal() }
    }

    pub(super) fn format(self) -> OutputFormat {
        self.format
    }

    pub(super) fn on_terminal(self) -> bool {
        self.on_terminal
    }

    /// Prints the value for programs or, by `table`, the text for people; only what is needed is made.
    ///
    /// # Errors
    /// Whatever the makers end with, [`CliError::Io`], [`CliError::BrokenPipe`].
    pub(super) fn print(
        self,
        value: impl FnOnce() -> Result<Value, CliError>,
        table: impl FnOnce(bool) -> String,
    ) -> Result<(), CliError> {
        let text = match self.format {
            OutputFormat::Table => table(self.on_terminal),
            OutputFormat::Json => json_text(&value()?)?,
            OutputFormat::Yaml => yaml_text(&value()?)?,
        };
        write_stdout(text.as_bytes())
    }
}

pub(super) fn json_text(value: &Value) -> Result<String, CliError> {
    let mut text = serde_json::to_string_pretty(value).map_err(render_error)?;
    text.push('\n');
    Ok(text)
}

pub(super) fn yaml_text(value: &Value) -> Result<String, CliError> {
    serde_norway::to_string(value).map_err(render_error)
}

fn render_error(error: impl std::fmt::Display) -> CliError {
    CliError::Render { problem: error.to_string() }
}

/// Writes to stdout and flushes.
pub(super) fn write_stdout(bytes: &[u8]) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(bytes)
        .and_then(|()| stdout.flush())
        .map_err(|source| CliError::io("write the result", source))
}

/// A value that may be absent.
pub(super) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A count for people: `1 record`, `12 records`.
pub(super) fn count_text(count: impl Display + PartialEq + From<u8>, word: &str) -> String {
    let plural = if count == 1.into() { "" } else { "s" };
    format!("{count} {word}{plural}")
}

/// Bytes for people: `1.5 MiB`.
pub(super) fn bytes_text(bytes: u64) -> String {
    bytesize::ByteSize::b(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_is_aligned_and_has_no_trailing_space() {
        let mut grid = Grid::new(&[("TOPIC", Align::Left), ("PARTITIONS", Align::Right)]);
        grid.row(vec!["flights".into(), "12".into()]);
        grid.row(vec!["x".into(), "1".into()]);
        assert_eq!(
            grid.render(false),
            "TOPIC    PARTITIONS\n\
             ────────────────────\n\
             flights          12\n\
             x                 1\n"
        );
    }

    #[test]
    fn facts_line_up() {
        assert_eq!(
            facts(&[("Topic", "t".into()), ("Partitions", "3".into())]),
            "Topic       t\nPartitions  3\n"
        );
    }

    #[test]
    fn json_and_yaml_end_with_a_line_break() {
        let value = json!({"topic": "t", "partitions": [0]});
        assert_eq!(
            json_text(&value).unwrap(),
            "{\n  \"topic\": \"t\",\n  \"partitions\": [\n    0\n  ]\n}\n"
        );
        assert_eq!(yaml_text(&value).unwrap(), "topic: t\npartitions:\n- 0\n");
    }

    #[test]
    fn bytes_are_told_in_powers_of_two() {
        assert_eq!(bytes_text(512), "512 B");
        assert_eq!(bytes_text(3 << 20), "3.0 MiB");
    }
}
