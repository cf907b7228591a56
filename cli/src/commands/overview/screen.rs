//! Which parts of a text are shown where a screen has too few lines for all of it.

use std::collections::BTreeMap;

use crate::ui;

/// Lines that are shown: those of a terminal of 24, without that of the prompt.
const MAX_LINES: usize = 23;
/// Lines of a paragraph. A longer one is cut off.
const MAX_PARAGRAPH: usize = 3;

/// Sections, each below an empty line.
#[derive(Default)]
pub(super) struct Screen {
    sections: Vec<Section>,
    columns: Option<usize>,
}

/// What is shown below each other. If a part of it does not fit, the parts behind it are not shown either.
#[derive(Default)]
pub(super) struct Section {
    /// The line above the first part that is shown.
    heading: Option<String>,
    parts: Vec<Part>,
}

/// What is shown as a whole or not at all. Parts with smaller ranks are more useful.
struct Part {
    rank: u8,
    text: PartText,
}

enum PartText {
    /// A row of a table, which fits.
    Row(String),
    Words(String),
    /// Facts with dots between.
    Facts(String),
}

impl Section {
    pub(super) fn with_heading(heading: String) -> Section {
        Section {
            heading: Some(heading),
            parts: Vec::new(),
        }
    }

    /// A table: its head, and rows.
    pub(super) fn of_table(lines: Vec<String>) -> Section {
        let mut lines = lines.into_iter();
        let heading = lines.next();
        let part = |(nth, line)| Part {
            rank: if nth < 2 { 2 } else { 3 },
            text: PartText::Row(line),
        };
        Section {
            heading,
            parts: lines.enumerate().map(part).collect(),
        }
    }

    /// Adds a paragraph. An empty one is none.
    pub(super) fn text(&mut self, rank: u8, words: &str) {
        let text = PartText::Words(words.to_owned());
        self.parts
            .extend((!words.is_empty()).then_some(Part { rank, text }));
    }

    /// Adds facts.
    pub(super) fn facts(&mut self, rank: u8, facts: String) {
        let text = PartText::Facts(facts);
        self.parts.push(Part { rank, text });
    }
}

impl Part {
    /// Its lines within so many columns.
    fn lines(&self, columns: Option<usize>) -> Vec<String> {
        let width = columns.unwrap_or(usize::MAX);
        let text = match &self.text {
            PartText::Row(row) => return vec![row.clone()],
            PartText::Words(words) => ui::wrap(words, width, 4),
            PartText::Facts(facts) => ui::wrap_facts(facts, width, 2),
        };
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if lines.len() > MAX_PARAGRAPH {
            lines.truncate(MAX_PARAGRAPH);
            lines[MAX_PARAGRAPH - 1] += " …";
        }
        lines
    }
}

impl Screen {
    pub(super) fn new(columns: Option<usize>) -> Screen {
        Screen {
            columns,
            ..Screen::default()
        }
    }

    pub(super) fn add(&mut self, section: Section) {
        self.sections.push(section);
    }

    /// The most useful parts, up to the first one that does not fit.
    pub(super) fn text(&self) -> String {
        let mut order: Vec<(u8, usize, usize)> = Vec::new();
        for (nth, section) in self.sections.iter().enumerate() {
            let parts = section.parts.iter().enumerate();
            // The first rows of all tables come before the second ones.
            order.extend(parts.map(|(place, part)| (part.rank, place, nth)));
        }
        order.sort_unstable();
        let mut shown = vec![BTreeMap::new(); self.sections.len()];
        for (_, place, nth) in order {
            let part = &self.sections[nth].parts[place];
            shown[nth].insert(place, part.lines(self.columns));
            if self.lines(&shown).len() > MAX_LINES {
                shown[nth].remove(&place);
                break;
            }
        }
        let lines = self.lines(&shown).into_iter();
        lines.map(|line| line + "\n").collect()
    }

    /// The lines of the parts that are shown.
    fn lines(&self, shown: &[BTreeMap<usize, Vec<String>>]) -> Vec<String> {
        let mut lines = Vec::new();
        for (section, parts) in self.sections.iter().zip(shown) {
            if parts.is_empty() {
                continue;
            }
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.extend(section.heading.iter().cloned());
            lines.extend(parts.values().flatten().cloned());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, rows: usize) -> Section {
        let rows = (1..=rows).map(|nth| format!("{name} {nth}"));
        let lines = [format!("head of {name}")].into_iter().chain(rows);
        Section::of_table(lines.collect())
    }

    #[test]
    fn all_is_shown_if_it_fits() {
        let mut screen = Screen::new(Some(20));
        let mut head = Section::default();
        head.text(0, "a program of some words");
        head.text(1, "");
        screen.add(head);
        screen.add(Section::default());
        screen.add(table("function", 2));
        let wanted = "a program of some\n    words\n\nhead of function\nfunction 1\nfunction 2\n";
        assert_eq!(screen.text(), wanted);
    }

    #[test]
    fn the_least_useful_lines_are_left_out() {
        let mut screen = Screen::new(None);
        screen.add(table("function", 20));
        screen.add(table("task", 20));
        let mut last = Section::with_heading("Slow:".to_owned());
        last.text(5, "a cause");
        screen.add(last);
        let mut next = Section::default();
        next.text(0, "Next");
        screen.add(next);
        let text = screen.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), MAX_LINES, "{text}");
        assert_eq!(
            lines[9..14],
            ["function 9", "", "head of task", "task 1", "task 2"]
        );
        assert_eq!(lines[MAX_LINES - 3..], ["task 9", "", "Next"]);
    }

    #[test]
    fn long_paragraphs_are_cut_off() {
        let mut screen = Screen::new(Some(10));
        let mut head = Section::default();
        head.text(0, "one two three four five six seven eight");
        screen.add(head);
        assert_eq!(screen.text(), "one two\n    three\n    four …\n");
    }
}
