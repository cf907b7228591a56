//! Text in columns, for people. Rows are asked for twice, to measure and to write, because a table of a
//! hundred thousand rows is small as figures and large as text. Must never keep a row.

use std::io::Write;

/// How columns are to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<'a> {
    /// The head of each column.
    pub(crate) head: &'a [&'a str],
    /// So many of the first columns hold numbers, which end below each other.
    pub(crate) right: usize,
    /// The head is bold.
    pub(crate) colour: bool,
}

impl Columns<'_> {
    /// Writes the head and the rows; `rows` gives the same ones each time. A row may have fewer cells than
    /// there are columns.
    ///
    /// # Errors
    /// Where it can't be written.
    pub(crate) fn write<I: Iterator<Item = Vec<String>>>(
        &self,
        out: &mut dyn Write,
        rows: impl Fn() -> I,
    ) -> anyhow::Result<()> {
        let mut widths: Vec<usize> = self.head.iter().map(|cell| width(cell)).collect();
        for row in rows() {
            for (most, cell) in widths.iter_mut().zip(&row) {
                *most = width(cell).max(*most);
            }
        }
        let mut line = String::new();
        self.line(&widths, self.head.iter().copied(), &mut line);
        match self.colour {
            true => writeln!(out, "\x1b[1m{line}\x1b[0m")?,
            false => writeln!(out, "{line}")?,
        }
        for row in rows() {
            self.line(&widths, row.iter().map(String::as_str), &mut line);
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn line<'b>(&self, widths: &[usize], cells: impl Iterator<Item = &'b str>, line: &mut String) {
        line.clear();
        for (nth, (cell, most)) in cells.zip(widths).enumerate() {
            let fill = most - width(cell);
            let (before, behind) = match nth < self.right {
                true => (fill, 0),
                false => (0, fill),
            };
            // A space on both sides.
            line.extend(std::iter::repeat_n(' ', before + 1));
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', behind + 1));
        }
        line.truncate(line.trim_end().len());
    }
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_and_texts_begin_below_each_other() {
        let columns = Columns {
            head: &["calls", "name", "source"],
            right: 1,
            colour: false,
        };
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        let rows = [row(&["7", "Größe", "a.rs"]), row(&["123,456", "x"])];
        let mut out = Vec::new();
        columns.write(&mut out, || rows.iter().cloned()).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "   calls  name   source\n       7  Größe  a.rs\n 123,456  x\n"
        );
    }
}
