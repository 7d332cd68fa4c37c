//! Tables for the terminal, Markdown and CSV.

use comfy_table::{CellAlignment, presets};

/// A table of text. The first column is left-aligned, all others are right-aligned.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    title: String,
    headers: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Starts a table without rows.
    #[must_use]
    pub fn new<'a>(title: &str, headers: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            title: title.to_owned(),
            headers: headers.into_iter().map(str::to_owned).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Empty cells are added, or cells are dropped, so that the row has as many cells
    /// as the table has headers.
    pub fn push(&mut self, row: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = row.into_iter().collect();
        row.resize(self.headers.len(), String::new());
        self.rows.push(row);
    }

    /// Returns the title.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Formats the table for a terminal, without the title.
    #[must_use]
    pub fn terminal(&self) -> String {
        let mut table = comfy_table::Table::new();
        table
            .load_style(presets::UTF8_FULL_CONDENSED)
            .set_header(&self.headers);
        for row in &self.rows {
            table.add_row(row);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{table}\n")
    }

    /// Formats the table as GitHub Flavored Markdown, without the title.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<_> = cells.iter().map(|cell| markdown_cell(cell)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = (0..self.headers.len()).map(|column| if column == 0 { ":--" } else { "--:" });
        let rule: Vec<String> = rule.map(str::to_owned).collect();
        let mut text = line(&self.headers) + &line(&rule);
        text.extend(self.rows.iter().map(|row| line(row)));
        text
    }

    /// Formats the table as comma-separated values (RFC 4180), with the headers first.
    #[must_use]
    pub fn csv(&self) -> String {
        let line = |cells: &Vec<String>| {
            let cells: Vec<_> = cells.iter().map(|cell| csv_cell(cell)).collect();
            cells.join(",") + "\r\n"
        };
        line(&self.headers) + &self.rows.iter().map(line).collect::<String>()
    }
}

fn markdown_cell(cell: &str) -> String {
    cell.replace('|', "\\|").replace(['\n', '\r'], " ")
}

fn csv_cell(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// Formats a number with about three significant digits: `0.123`, `12.3`, `1234`.
#[must_use]
pub fn number(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "-".to_owned(),
        0.0 => "0".to_owned(),
        size if size < 0.001 => format!("{value:.1e}"),
        size if size < 0.9995 => format!("{value:.3}"),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("Odd cells", ["name", "value"]);
        table.push(["a|b".to_owned(), "1,5".to_owned()]);
        table.push(["say \"hi\"".to_owned()]);
        table
    }

    #[test]
    fn markdown_is_well_formed() {
        assert_eq!(
            table().markdown(),
            "| name | value |\n| :-- | --: |\n| a\\|b | 1,5 |\n| say \"hi\" |  |\n"
        );
    }

    #[test]
    fn csv_is_quoted_where_needed() {
        assert_eq!(
            table().csv(),
            "name,value\r\na|b,\"1,5\"\r\n\"say \"\"hi\"\"\",\r\n"
        );
    }

    #[test]
    fn terminals_get_all_cells() {
        let text = table().terminal();
        for cell in ["name", "value", "a|b", "1,5", "say \"hi\""] {
            assert!(text.contains(cell), "{cell} is not in\n{text}");
        }
    }

    #[test]
    fn numbers_have_three_digits_that_count() {
        let written = [
            (0.0, "0"),
            (0.000_12, "1.2e-4"),
            (0.123_4, "0.123"),
            (0.999_9, "1.00"),
            (9.999, "10.0"),
            (99.96, "100"),
            (2616.59, "2617"),
            (-12.34, "-12.3"),
            (f64::NAN, "-"),
        ];
        for (value, text) in written {
            assert_eq!(number(value), text);
        }
    }
}
