//! What the screen shows, and what keys change of that.

use std::time::Duration;

use fdr_formats::filter::Filter;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row as Cells, Table, TableState};

use super::figures::{Picture, Row, Sort, ThreadRow};
use super::table::{self, Column};
use crate::ui;

const KEYS: &str = "Tab threads  s sort  / filter  p pause  d dump  ? help  q quit";

const HELP: &[(&str, &str)] = &[
    ("Tab", "functions or threads"),
    ("Enter", "the functions of the thread"),
    ("Esc", "all threads again; no filter"),
    ("s, S", "sort by the next, the previous"),
    ("/", "show functions of a glob only"),
    ("p, space", "pause, go on"),
    ("d", "dump: the process writes a trace"),
    ("↑ ↓ PgUp PgDn Home End", "move"),
    ("q, ^C", "quit"),
];

/// What a key asks for beyond the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyAction {
    Nothing,
    Quit,
    Dump,
    Suspend,
}

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Page {
    #[default]
    Functions,
    Threads,
    /// The functions of the thread with that number.
    OfThread(u64),
}

#[derive(Default)]
pub(super) struct View {
    pub(super) page: Page,
    pub(super) sort: Sort,
    pub(super) filter: Option<(String, Filter)>,
    pub(super) is_paused: bool,
    pub(super) every: Duration,
    /// The last line, instead of the keys.
    pub(super) message: Option<String>,
    /// The process is asked for a trace.
    pub(super) is_dumping: bool,
    colour: bool,
    /// The filter that is being typed.
    input: Option<String>,
    has_help: bool,
    functions: TableState,
    threads: TableState,
}

/// A filter of that text: a word without `*` may stand anywhere in a name.
pub(super) fn filter_of(text: &str) -> Result<Filter, String> {
    let has_glob = text.contains(['*', '?', ',', '-']);
    crate::selection::filter(&match has_glob {
        true => text.to_owned(),
        false => format!("*{text}*"),
    })
}

impl View {
    pub(super) fn new(
        page: Page,
        sort: Sort,
        filter: Option<(String, Filter)>,
        every: Duration,
    ) -> View {
        View {
            page,
            sort,
            filter,
            every,
            colour: ui::colour(),
            ..View::default()
        }
    }

    /// The rows of functions that are shown, in their order.
    pub(super) fn rows<'a>(&self, picture: &'a Picture) -> Vec<&'a Row> {
        let of_thread = |number: u64| {
            let mut threads = picture.threads.iter();
            threads.find(|thread| thread.id == number)
        };
        let all: &[Row] = match self.page {
            Page::OfThread(number) => of_thread(number).map_or(&[], |thread| &thread.functions),
            _ => &picture.functions,
        };
        let is_shown = |row: &&Row| {
            let filter = self.filter.as_ref();
            filter.is_none_or(|(_, filter)| filter.matches(&row.name))
        };
        let mut rows: Vec<&Row> = all.iter().filter(is_shown).collect();
        rows.sort_by(|one, other| self.sort.compare(one, other));
        rows
    }

    /// The threads in their order: those that do most first.
    pub(super) fn threads<'a>(&self, picture: &'a Picture) -> Vec<&'a ThreadRow> {
        let mut rows: Vec<&ThreadRow> = picture.threads.iter().collect();
        let by_calls =
            |one: &ThreadRow, other: &ThreadRow| other.calls_per_s.total_cmp(&one.calls_per_s);
        rows.sort_by(|one, other| {
            let order = match self.sort {
                Sort::Name => one.name.cmp(&other.name),
                Sort::Calls => by_calls(one, other),
                _ => other
                    .running_ns
                    .cmp(&one.running_ns)
                    .then(by_calls(one, other)),
            };
            order.then(one.id.cmp(&other.id))
        });
        rows
    }

    /// Does what the key says.
    pub(super) fn key(&mut self, key: KeyEvent, picture: &Picture) -> KeyAction {
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if with_control => return KeyAction::Quit,
            KeyCode::Char('z') if with_control => return KeyAction::Suspend,
            _ if with_control => return KeyAction::Nothing,
            _ => {}
        }
        self.message = None;
        if let Some(text) = self.input.take() {
            self.type_filter(text, key.code);
            return KeyAction::Nothing;
        }
        if std::mem::take(&mut self.has_help) {
            return match key.code {
                KeyCode::Char('q') => KeyAction::Quit,
                _ => KeyAction::Nothing,
            };
        }
        match key.code {
            KeyCode::Char('q') => return KeyAction::Quit,
            KeyCode::Char('d') => return KeyAction::Dump,
            KeyCode::Char('s') => self.sort = self.sort.next(picture),
            KeyCode::Char('S') => self.sort = self.sort.previous(picture),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.has_help = true,
            KeyCode::Char('/') => {
                let text = self.filter.as_ref().map(|(text, _)| text.clone());
                self.input = Some(text.unwrap_or_default());
            }
            KeyCode::Tab | KeyCode::BackTab => {
                self.page = match self.page {
                    Page::Functions => Page::Threads,
                    Page::Threads | Page::OfThread(_) => Page::Functions,
                };
                self.functions = TableState::new();
            }
            KeyCode::Enter if self.page == Page::Threads => {
                let threads = self.threads(picture);
                let chosen = threads.get(self.threads.selected().unwrap_or(0));
                if let Some(thread) = chosen {
                    self.page = Page::OfThread(thread.id);
                    self.functions = TableState::new();
                }
            }
            KeyCode::Esc => match self.page {
                Page::OfThread(_) => self.page = Page::Threads,
                _ => self.filter = None,
            },
            code => self.walk(code),
        }
        KeyAction::Nothing
    }

    fn walk(&mut self, code: KeyCode) {
        let state = match self.page {
            Page::Threads => &mut self.threads,
            _ => &mut self.functions,
        };
        match code {
            KeyCode::Up | KeyCode::Char('k') => state.select_previous(),
            KeyCode::Down | KeyCode::Char('j') => state.select_next(),
            KeyCode::PageUp => state.scroll_up_by(20),
            KeyCode::PageDown => state.scroll_down_by(20),
            KeyCode::Home => state.select_first(),
            KeyCode::End => state.select_last(),
            _ => {}
        }
    }

    fn type_filter(&mut self, mut text: String, code: KeyCode) {
        match code {
            KeyCode::Esc => return,
            KeyCode::Enter if text.is_empty() => {
                self.filter = None;
                return;
            }
            KeyCode::Enter => match filter_of(&text) {
                Ok(filter) => {
                    self.filter = Some((text, filter));
                    self.functions = TableState::new();
                    return;
                }
                Err(why) => self.message = Some(format!("{}: {why}", ui::clean(&text))),
            },
            KeyCode::Backspace => _ = text.pop(),
            KeyCode::Char(character) => text.push(character),
            _ => {}
        }
        self.input = Some(text);
    }

    /// Draws all of it. `None`: there are no figures yet.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, picture: Option<&Picture>) {
        let areas = Layout::vertical([
            Constraint::Length(2),
            Constraint::Min(1),
            Constraint::Length(1),
        ]);
        let [head, middle, foot] = areas.areas(frame.area());
        let nothing = Picture::default();
        let shown = picture.unwrap_or(&nothing);
        self.draw_head(frame, head, picture);
        match self.page {
            Page::Threads => {
                let rows = self.threads(shown);
                let mut state = self.threads;
                self.draw_table(frame, middle, table::THREADS, &rows, &mut state);
                self.threads = state;
            }
            Page::Functions | Page::OfThread(_) => {
                let rows = self.rows(shown);
                let mut state = self.functions;
                self.draw_table(frame, middle, table::of_functions(shown), &rows, &mut state);
                self.functions = state;
            }
        }
        let foot_text = match (&self.input, &self.message) {
            (Some(text), None) => Line::from(format!("/{}█  (Enter, Esc)", ui::clean(text))),
            (_, Some(message)) => Line::from(message.clone()).bold(),
            (None, None) if self.is_dumping => Line::from("the process writes a trace"),
            (None, None) => Line::from(KEYS).style(self.dim()),
        };
        frame.render_widget(foot_text, foot);
        if self.has_help {
            self.draw_help(frame);
        }
    }

    /// What the process does as a whole.
    pub(super) fn facts(&self, picture: &Picture) -> String {
        let mut facts = vec![
            format!("{} {}", ui::clean(&picture.program), picture.process),
            ui::things(picture.threads.len() as u64, "thread"),
            format!("{} calls/s", table::rate(picture.calls_per_s)),
        ];
        let running = picture
            .threads
            .iter()
            .filter_map(|thread| thread.running_ns);
        let running: u64 = running.sum();
        if picture
            .threads
            .iter()
            .any(|thread| thread.running_ns.is_some())
        {
            let cpus = running as f64 / picture.interval_ns.max(1) as f64;
            facts.push(format!("{cpus:.2} CPUs"));
        }
        facts.push(format!("over {}", ui::duration(picture.interval_ns)));
        facts.join(" · ")
    }

    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect, picture: Option<&Picture>) {
        let Some(picture) = picture else {
            let text = format!("fdr top: a first look, of {}", period(self.every));
            frame.render_widget(Line::from(text), area);
            return;
        };
        let mut how = vec![match self.page {
            Page::Functions => "functions of all threads".to_owned(),
            Page::Threads => "threads".to_owned(),
            Page::OfThread(number) => {
                let thread = picture.threads.iter().find(|thread| thread.id == number);
                let name = thread.map(table::name_of_thread);
                format!(
                    "functions of {}",
                    name.unwrap_or_else(|| format!("{number}, which has ended"))
                )
            }
        }];
        how.push(format!("by {}", self.sort.in_words()));
        if let Some((text, _)) = self.filter.as_ref().filter(|_| self.page != Page::Threads) {
            how.push(format!("only {}", ui::clean(text)));
        }
        if self.is_paused {
            how.push("paused".to_owned());
        }
        let mut second = Vec::new();
        if let Some(over) = &picture.over {
            let over = Span::from(format!("{}: the last figures", ui::clean(over)));
            second.push(if self.colour {
                over.red().bold()
            } else {
                over.bold()
            });
            second.push(Span::from(" · "));
        }
        second.push(Span::from(how.join(" · ")));
        let lines = vec![Line::from(self.facts(picture)).bold(), Line::from(second)];
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn draw_table<T>(
        &self,
        frame: &mut Frame<'_>,
        area: Rect,
        columns: &[Column<T>],
        rows: &[&T],
        state: &mut TableState,
    ) {
        let shown: Vec<&Column<T>> = (columns.iter())
            .filter(|column| area.width >= column.from)
            .collect();
        // A space on each side of all columns but the last one's.
        let fixed: u16 = shown.iter().map(|column| column.width + 2).sum();
        let left = area.width.saturating_sub(fixed);
        let width = |column: &Column<T>| match column.width {
            0 => left,
            width => width,
        };
        let line = |column: &Column<T>, text: &str| {
            let text = Line::from(table::fit(text, width(column)).into_owned());
            match table::is_right(column) {
                true => text.right_aligned(),
                false => text,
            }
        };
        let head = shown.iter().map(|column| {
            let head = line(column, column.head);
            let is_key = column.head.split('/').next() == Some(self.sort.in_words());
            Cell::from(if is_key { head.underlined() } else { head })
        });
        let head = Cells::new(head).style(Style::new().add_modifier(Modifier::BOLD));
        // Only what can be seen is made: there may be ten thousand functions.
        let room = usize::from(area.height.saturating_sub(1));
        if let Some(selected) = state.selected() {
            let last = rows.len().saturating_sub(1);
            *state.selected_mut() = Some(selected.min(last)).filter(|_| !rows.is_empty());
        }
        let selected = state.selected().unwrap_or(0);
        let offset = state
            .offset()
            .min(selected)
            .max((selected + 1).saturating_sub(room));
        *state.offset_mut() = offset;
        let visible = rows.iter().skip(offset).take(room).map(|row| {
            let cells = shown
                .iter()
                .map(|column| Cell::from(line(column, &(column.cell)(row))));
            Cells::new(cells)
        });
        let widths = shown.iter().map(|column| Constraint::Length(width(column)));
        let style = Style::new().add_modifier(Modifier::REVERSED);
        let table = Table::new(visible, widths).header(head).column_spacing(2);
        let mut window = TableState::new();
        *window.selected_mut() = state.selected().map(|selected| selected - offset);
        frame.render_stateful_widget(table.row_highlight_style(style), area, &mut window);
    }

    fn draw_help(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let (width, height) = (60.min(area.width), (HELP.len() as u16 + 2).min(area.height));
        let area = Rect {
            x: (area.width - width) / 2,
            y: (area.height - height) / 2,
            width,
            height,
        };
        let lines = HELP.iter().map(|(key, what)| {
            Line::from(vec![
                Span::from(format!(" {key:<23}")).bold(),
                Span::from(*what),
            ])
        });
        let text =
            Paragraph::new(lines.collect::<Vec<_>>()).block(Block::bordered().title(" Keys "));
        frame.render_widget(Clear, area);
        frame.render_widget(text, area);
    }

    fn dim(&self) -> Style {
        match self.colour {
            true => Style::new().add_modifier(Modifier::DIM),
            false => Style::new(),
        }
    }
}

fn period(every: Duration) -> String {
    ui::duration(u64::try_from(every.as_nanos()).unwrap_or(u64::MAX))
}
