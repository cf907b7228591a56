//! Text in columns, for people. Rows are asked for twice: to measure them and to write them. A table of a hundred
//! thousand rows is small as figures, and large as text.

use std::io::Write;

use crate::ui;

/// If a table is too wide, a text keeps at least this many characters.
const TEXT: usize = 16;

/// How columns are to look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Columns<'a> {
    /// The head of each column.
    pub(crate) head: &'a [&'a str],
    /// How many of the first columns hold numbers, which are aligned on the right.
    pub(crate) right: usize,
    /// The head is bold.
    pub(crate) colour: bool,
    /// How wide columns are at least, from the first one on.
    pub(crate) least: &'a [usize],
    /// The width that there is; `None`: any. Texts lose their middle, down to some characters.
    pub(crate) width: Option<usize>,
    /// A text keeps at least this many characters: columns are left out before it gets shorter.
    pub(crate) text: usize,
    /// Columns that may be left out, in this order, if there is still no room.
    pub(crate) spare: &'a [&'a str],
}

impl<'a> Columns<'a> {
    /// Columns for standard output. The first `right` ones hold numbers.
    pub(crate) fn new(head: &'a [&'a str], right: usize) -> Columns<'a> {
        Columns {
            head,
            right,
            colour: ui::colour(),
            width: ui::columns(),
            ..Columns::default()
        }
    }

    /// Writes the head and the rows, and names the columns that are left out.
    ///
    /// # Errors
    /// Where it can't be written.
    pub(crate) fn write_with_note<I: Iterator<Item = Vec<String>>>(
        &self,
        out: &mut dyn Write,
        rows: impl Fn() -> I,
    ) -> anyhow::Result<()> {
        let names = self.write(out, rows)?.join(", ");
        if let (false, Some(width)) = (names.is_empty(), self.width) {
            let note = format!("no room for {names}: a wider terminal, a pipe or --json has them");
            writeln!(out, "{}", ui::wrap(&note, width, 2))?;
        }
        Ok(())
    }

    /// Writes the head and the rows; `rows` gives the same ones each time. A row may have fewer cells than
    /// there are columns. Returns the heads of the columns that are left out.
    ///
    /// # Errors
    /// Where it can't be written.
    pub(crate) fn write<I: Iterator<Item = Vec<String>>>(
        &self,
        out: &mut dyn Write,
        rows: impl Fn() -> I,
    ) -> anyhow::Result<Vec<&str>> {
        let least = self.least.iter().copied().chain(std::iter::repeat(0));
        let heads = self.head.iter().map(|cell| width(cell));
        let mut widths: Vec<usize> = heads
            .zip(least)
            .map(|(head, least)| head.max(least))
            .collect();
        for row in rows() {
            for (most, cell) in widths.iter_mut().zip(&row) {
                *most = width(cell).max(*most);
            }
        }
        let fit = self.fit(widths);
        let mut line = String::new();
        self.line(&fit, self.head.iter().copied(), &mut line);
        match self.colour {
            true => writeln!(out, "\x1b[1m{line}\x1b[0m")?,
            false => writeln!(out, "{line}")?,
        }
        for row in rows() {
            self.line(&fit, row.iter().map(String::as_str), &mut line);
            writeln!(out, "{line}")?;
        }
        let heads = self.head.iter().zip(&fit);
        let left_out = heads.filter_map(|(head, width)| width.is_none().then_some(*head));
        Ok(left_out.collect())
    }

    /// The width of each column that is shown.
    fn fit(&self, widths: Vec<usize>) -> Vec<Option<usize>> {
        let mut fit: Vec<Option<usize>> = widths.into_iter().map(Some).collect();
        let Some(room) = self.width else {
            return fit;
        };
        // Each column has a space on both sides; the last one's is not printed.
        let needed =
            |fit: &[Option<usize>]| fit.iter().flatten().map(|width| width + 2).sum::<usize>();
        let texts = |fit: &[Option<usize>]| -> usize {
            let texts = fit.iter().skip(self.right).flatten();
            let least = self.text.max(TEXT);
            texts.map(|width| width.saturating_sub(least)).sum()
        };
        for spare in self.spare {
            if needed(&fit) <= room + 1 + texts(&fit) {
                break;
            }
            let place = self.head.iter().position(|head| head == spare);
            if let Some(column) = place.and_then(|place| fit.get_mut(place)) {
                *column = None;
            }
        }
        while needed(&fit) > room + 1 {
            let texts = fit.iter_mut().skip(self.right).flatten();
            match texts.max().filter(|width| **width > TEXT) {
                Some(widest) => *widest -= 1,
                None => break,
            }
        }
        fit
    }

    fn line<'b>(
        &self,
        fit: &[Option<usize>],
        cells: impl Iterator<Item = &'b str>,
        line: &mut String,
    ) {
        line.clear();
        for (nth, (cell, most)) in cells.zip(fit).enumerate() {
            let Some(most) = *most else { continue };
            let cell = match nth < self.right {
                true => cell.into(),
                false => ui::shorten(cell, most),
            };
            let fill = most.saturating_sub(width(&cell));
            let (before, behind) = match nth < self.right {
                true => (fill, 0),
                false => (0, fill),
            };
            // A space on both sides.
            line.extend(std::iter::repeat_n(' ', before + 1));
            line.push_str(&cell);
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

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    fn text(columns: &Columns<'_>, rows: &[Vec<String>]) -> String {
        let mut out = Vec::new();
        columns.write(&mut out, || rows.iter().cloned()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_end_and_texts_begin_below_each_other() {
        let columns = Columns {
            head: &["calls", "name", "source"],
            right: 1,
            ..Columns::default()
        };
        let rows = [row(&["7", "Größe", "a.rs"]), row(&["123,456", "x"])];
        assert_eq!(
            text(&columns, &rows),
            "   calls  name   source\n       7  Größe  a.rs\n 123,456  x\n"
        );
    }

    #[test]
    fn a_row_is_never_wider_than_its_terminal() {
        let long = "a_program_with_a_long_name/and/a/path.fdr-ring";
        let rows = [
            row(&["7", "12,345", long, long]),
            row(&["8", "1", "x", "y"]),
        ];
        for room in 28..140 {
            let columns = Columns {
                head: &["pid", "records", "program", "path"],
                right: 2,
                width: Some(room),
                spare: &["records", "program"],
                ..Columns::default()
            };
            let text = text(&columns, &rows);
            let widest = text.lines().map(width).max().unwrap();
            assert!(widest <= room, "{room}: {text}");
            assert_eq!(text.contains("records"), room >= 49, "{room}: {text}");
            assert!(text.contains("fdr-ring") && text.contains("pid"), "{text}");
        }
    }
}
