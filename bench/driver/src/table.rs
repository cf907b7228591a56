//! Tables, for a terminal and as Markdown, and the marks between which documents have them. Pure but for [`bless`].

use std::fs;
use std::path::Path;

use crate::Result;
use crate::figures::Spread;

/// Rows of fields below their heads.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With heads that stand between ` | `.
    pub(crate) fn new(heads: &str) -> Table {
        let heads = heads.split(" | ").map(str::to_owned).collect();
        Table { rows: vec![heads] }
    }

    pub(crate) fn add(&mut self, fields: impl IntoIterator<Item = String>) {
        self.rows.push(fields.into_iter().collect());
    }

    /// For a terminal. Columns of figures stand to the right.
    pub(crate) fn text(&self) -> String {
        let columns = self.rows[0].len();
        let field = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
        let mut lines = vec![String::new(); self.rows.len()];
        for column in 0..columns {
            let fields: Vec<String> = self.rows.iter().map(|row| field(row, column)).collect();
            let width = fields.iter().map(|field| field.chars().count()).max();
            let width = width.unwrap_or(0);
            let is_figure = |text: &String| !text.starts_with(|c: char| c.is_alphabetic());
            let right = column > 0 && fields[1..].iter().all(is_figure);
            for (line, text) in lines.iter_mut().zip(fields) {
                *line += &match right {
                    true => format!("{text:>width$}  "),
                    false => format!("{text:<width$}  "),
                };
            }
        }
        let ended = lines.iter().map(|line| format!("{}\n", line.trim_end()));
        ended.collect()
    }

    /// For a document.
    pub(crate) fn markdown(&self) -> String {
        let line = |fields: &Vec<String>| {
            let fields: Vec<String> = fields.iter().map(|text| text.replace('|', "\\|")).collect();
            format!("| {} |\n", fields.join(" | "))
        };
        let rule = line(&vec!["---".to_owned(); self.rows[0].len()]);
        let rows = self.rows[1..].iter().map(line);
        [line(&self.rows[0]), rule]
            .into_iter()
            .chain(rows)
            .collect()
    }
}

/// The cell of a figure that was not measured.
pub(crate) const NONE: &str = "-";

/// A median with its spread, or a dash.
pub(crate) fn spread_cell(spread: Option<Spread>, digits: usize) -> String {
    spread.map_or_else(
        || NONE.to_owned(),
        |Spread { median, min, max }| format!("{median:.digits$} ({min:.digits$}..{max:.digits$})"),
    )
}

/// A number, or a dash.
pub(crate) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.digits$}"))
}

/// A median alone.
pub(crate) fn middle(spread: Option<Spread>, digits: usize) -> String {
    number(spread.map(|spread| spread.median), digits)
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
    fn figures_align_right_and_words_left() {
        let mut table = Table::new("body | ns | why");
        table.add(["leaf", "31.20", "a|b"].map(str::to_owned));
        table.add(["a longer name", "-", ""].map(str::to_owned));
        assert_eq!(
            table.text(),
            "body              ns  why\nleaf           31.20  a|b\na longer name      -\n"
        );
        assert_eq!(
            table.markdown(),
            "| body | ns | why |\n| --- | --- | --- |\n| leaf | 31.20 | a\\|b |\n| a longer name | - |  |\n"
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
