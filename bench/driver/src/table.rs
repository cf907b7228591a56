//! Tables in Markdown, for a terminal as for a document, and the marks between which documents have them.

use std::fs;
use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};

use crate::Result;

/// A table without rows, with heads that stand between ` | `.
pub(crate) fn table(heads: &str) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::ASCII_MARKDOWN)
        .set_header(heads.split(" | "));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The cell of a figure that was not measured.
pub(crate) const NONE: &str = "-";

/// A number, or a dash.
pub(crate) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.digits$}"))
}

/// The last line of an error that says anything.
pub(crate) fn last_line(text: &str) -> &str {
    let mut lines = text.lines().rev().map(str::trim);
    lines.find(|line| !line.is_empty()).unwrap_or_default()
}

const END: &str = "<!-- end of figures -->\n";

/// Puts the tables between the marks of that bench.
///
/// # Errors
/// If the file can't be read or written, or has no such marks.
pub(crate) fn bless(path: &Path, bench: &str, tables: &str) -> Result<()> {
    let about = |error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(about)?;
    let text = between(&text, bench, tables)
        .ok_or_else(|| format!("{} has no marks for the tables", path.display()))?;
    Ok(fs::write(path, text).map_err(about)?)
}

fn between(text: &str, bench: &str, tables: &str) -> Option<String> {
    let begin = format!("<!-- figures: `cargo xtask bench {bench} --bless` writes them -->\n");
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, &begin, tables, END, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_markdown() {
        let mut table = table("body | ns");
        table.add_row(["leaf", "31.20"]);
        assert_eq!(
            table.to_string(),
            "| body |    ns |\n|------|-------|\n| leaf | 31.20 |"
        );
    }

    #[test]
    fn tables_go_between_the_marks() {
        let mark = "<!-- figures: `cargo xtask bench peers --bless` writes them -->\n";
        let text = |tables| format!("a\n{mark}{tables}{END}b\n");
        assert_eq!(
            between(&text("old\n"), "peers", "new\n"),
            Some(text("new\n"))
        );
        assert_eq!(between(&text("old\n"), "scale", "new\n"), None);
        assert_eq!(between("a\n", "peers", "new\n"), None);
    }
}
