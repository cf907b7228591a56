//! A replay for people: one column for all threads, or one for each.

use std::collections::HashMap;
use std::io::Write;

use fdr_formats::model::State;
use fdr_formats::states::States;
use fdr_formats::{ThreadId, Ticks, TraceInfo};

use super::Replay;
use super::lines::{CallLine, Line};
use super::nearest::{Kind, NearNote};
use super::notes;
use crate::report::names::name_of;
use crate::report::open::early_call;
use crate::trace;
use crate::ui;

/// Threads stand beside each other from this width of a column on.
const COLUMN: usize = 34;
/// Seconds with nine decimals.
const TIME: usize = 14;
const DURATION: usize = 9;
/// Deeper calls are not indented further than this part of the room for a name.
const INDENT: usize = 2;
const COLOURS: [&str; 6] = ["36", "33", "35", "32", "34", "31"];

/// The data for the text of a line.
struct LinePrinter<'a> {
    info: &'a TraceInfo,
    states: Option<&'a States>,
    begin: Ticks,
    threads: Vec<ThreadId>,
    colour: bool,
}

/// Writes the lines.
pub(super) fn write(
    out: &mut dyn Write,
    replay: &Replay<'_>,
    states: Option<&States>,
    lines_only: bool,
) -> anyhow::Result<()> {
    let info = replay.source.info();
    let mut threads: Vec<ThreadId> = Vec::new();
    let mut seen = HashMap::new();
    for line in &replay.lines {
        seen.entry(line.thread())
            .or_insert_with(|| threads.push(line.thread()));
    }
    threads.sort_by_key(|thread| (Some(*thread) != replay.failed, *thread));
    let sayer = LinePrinter {
        info,
        states,
        begin: replay.begin,
        threads,
        colour: ui::colour(),
    };
    head(out, replay)?;
    if replay.lines.is_empty() {
        return Ok(());
    }
    let room = ui::columns();
    let count = sayer.threads.len();
    let column = room.and_then(|room| room.saturating_sub(TIME).checked_div(count));
    match column.filter(|width| *width > COLUMN && count > 1 && !lines_only) {
        Some(width) => sayer.columns(out, replay, width - 1)?,
        None => sayer.lines(out, replay, room)?,
    }
    Ok(())
}

/// Writes the head: the trace, and the part that is shown.
fn head(out: &mut dyn Write, replay: &Replay<'_>) -> anyhow::Result<()> {
    let info = replay.source.info();
    let mut facts = Vec::from_iter(trace::program(info));
    let calls = ui::things(replay.shown, "call");
    facts.push(match (replay.hidden, replay.around) {
        (0, _) => calls,
        (hidden, None) => format!(
            "the first {calls}, {} more (--limit, --around)",
            ui::count(hidden)
        ),
        (hidden, Some(_)) => format!("the nearest {calls}, {} more (--limit)", ui::count(hidden)),
    });
    if replay.notes_hidden > 0 {
        let notes = ui::things(replay.notes_hidden, "note");
        facts.push(format!("{notes} not shown"));
    }
    if !info.reason.is_empty() {
        facts.push(crate::trace::reason(info).into_owned());
    }
    let facts = ui::clean(&facts.join(" · ")).into_owned();
    let facts = match ui::columns() {
        Some(width) => ui::wrap_facts(&facts, width, 0),
        None => facts,
    };
    writeln!(out, "{facts}")?;
    Ok(())
}

impl LinePrinter<'_> {
    /// One column for all threads.
    fn lines(
        &self,
        out: &mut dyn Write,
        replay: &Replay<'_>,
        room: Option<usize>,
    ) -> anyhow::Result<()> {
        let names: Vec<String> = self.threads.iter().map(|id| self.thread(*id)).collect();
        let widest = names
            .iter()
            .map(|name| name.chars().count())
            .max()
            .unwrap_or(0);
        // `format!` pads to no more columns.
        let most = room.map_or(u16::MAX.into(), |room| (room / 4).max(8));
        let width = widest.clamp(6, most.max(6));
        let head = format!(
            "{:>TIME$}  {:>DURATION$}  {:<width$}  call",
            "seconds", "took", "thread"
        );
        writeln!(out, "{}", self.bold(&head))?;
        let left = TIME + 2 + DURATION + 2 + width + 2;
        let room = room.map_or(usize::MAX, |room| room.saturating_sub(left).max(16));
        for line in &replay.lines {
            let place = self.threads.iter().position(|id| *id == line.thread());
            let name = place
                .and_then(|place| names.get(place))
                .map_or("", String::as_str);
            let name = format!("{:<width$}", ui::shorten(name, width));
            let name = self.painted(&name, place.unwrap_or(0));
            let (took, text, behind) = self.cells(line);
            let behind: Vec<String> = behind
                .into_iter()
                .filter(|words| !words.is_empty())
                .collect();
            let behind = match behind.is_empty() {
                true => String::new(),
                false => format!("   {}", behind.join(" · ")),
            };
            let text = self.indented(
                line,
                &text,
                room.saturating_sub(behind.chars().count()).max(16),
            );
            let text = format!("{text}{behind}");
            let text = ui::shorten(&text, room);
            writeln!(
                out,
                "{:>TIME$}  {took:>DURATION$}  {name}  {text}",
                self.seconds(line.time())
            )?;
        }
        Ok(())
    }

    /// A column for each thread.
    fn columns(
        &self,
        out: &mut dyn Write,
        replay: &Replay<'_>,
        width: usize,
    ) -> anyhow::Result<()> {
        let mut head = format!("{:>TIME$}", "seconds");
        for id in &self.threads {
            let name = self.thread(*id);
            head.push_str(&format!(" {:<width$}", ui::shorten(&name, width)));
        }
        writeln!(out, "{}", self.bold(head.trim_end()))?;
        for line in &replay.lines {
            let place = self
                .threads
                .iter()
                .position(|id| *id == line.thread())
                .unwrap_or(0);
            let (took, text, _) = self.cells(line);
            let mark = self.mark(line);
            // The end of a column: the duration, and a letter.
            let behind = format!(" {took:>DURATION$} {mark}");
            let room = match took.is_empty() {
                true => width,
                false => width - behind.chars().count(),
            };
            let text = self.indented(line, &text, room);
            let cell = match took.is_empty() {
                true => text,
                false => format!("{text:<room$}{behind}"),
            };
            let gap = " ".repeat(place * (width + 1));
            let cell = self.painted(cell.trim_end(), place);
            writeln!(out, "{:>TIME$} {gap}{cell}", self.seconds(line.time()))?;
        }
        Ok(())
    }

    /// A text, indented below the calls around it, within `room` columns.
    fn indented(&self, line: &Line, text: &str, room: usize) -> String {
        // A deep call must still have a name.
        let indent = (line.depth() * INDENT).min(room / 2);
        let left = room - indent;
        let text = match line {
            Line::Call(_) => ui::shorten(ui::last_parts(text, left), left),
            // A note begins with what it is.
            Line::Note(..) => ui::cut(text, left),
        };
        format!("{}{text}", " ".repeat(indent))
    }

    /// The duration, the text, and the remarks behind the text.
    fn cells(&self, line: &Line) -> (String, String, Vec<String>) {
        match line {
            Line::Note(note, _) => (String::new(), self.note(note), Vec::new()),
            Line::Call(shown) => self.call(shown),
        }
    }

    fn call(&self, shown: &CallLine) -> (String, String, Vec<String>) {
        let call = &shown.call;
        let time = |ticks| ui::duration(self.info.clock.nanos(Ticks(ticks)).0);
        if let Kind::Short(calls) = call.kind {
            let calls = ui::things(calls, "short call");
            let text = format!("[{calls} without records]");
            return (time(shown.total), text, Vec::new());
        }
        let name = ui::clean(&name_of(self.info, call.function)).into_owned();
        let (name, longest) = match shown.calls {
            1 => (name, String::new()),
            calls => (
                format!("{name} ×{}", ui::count(calls)),
                format!("longest {}", time(shown.longest)),
            ),
        };
        let cpu = match call.cpus {
            [Some(from), Some(to)] if from != to => format!("cpu {}→{}", from.0, to.0),
            _ => String::new(),
        };
        let thread = self
            .info
            .threads
            .iter()
            .find(|thread| thread.id == call.thread);
        let level = u64::from(call.depth) + 1;
        let early = thread.and_then(|thread| early_call(thread, level, call.function));
        let early = early.filter(|_| call.is_open && !call.has_entry);
        let open = early.map_or_else(String::new, |early| {
            format!("[open for {}]", time(call.end.since(early.begin).0))
        });
        let edge = match (call.has_entry, call.has_exit, call.is_open) {
            (true, true, _) => "",
            (true, _, true) => "[open]",
            (true, false, false) => "[ended later]",
            (false, true, _) => "[began earlier]",
            (false, _, true) if early.is_some() => "",
            (false, _, true) => "[began earlier] [open]",
            (false, false, false) => "[began earlier] [ended later]",
        };
        let took = match call.untimed {
            true => "untimed".to_owned(),
            false => time(shown.total),
        };
        (
            took,
            name,
            vec![open, edge.to_owned(), longest, self.states(shown), cpu],
        )
    }

    /// In which states the thread was, if it did not run all the time.
    fn states(&self, shown: &CallLine) -> String {
        let Some(states) = self.states else {
            return String::new();
        };
        let call = &shown.call;
        let known = states.in_stretch(call.thread, call.start, call.end);
        let all = known.spent.total().0 + known.unknown.0;
        if known.spent.total().0 == 0 {
            return if all == 0 { "" } else { "?" }.to_owned();
        }
        let part = |name: &str, ticks: Ticks| {
            let share = 100.0 * ticks.0 as f64 / all as f64;
            (share >= 0.5).then(|| format!("{name} {share:.0} %"))
        };
        let parts = [
            part("preempted", known.spent.preempted),
            part("waiting", known.spent.waiting),
            part("?", known.unknown),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join(" · ")
    }

    /// The letter at the end of a column.
    fn mark(&self, line: &Line) -> char {
        let Line::Call(CallLine { call, .. }) = line else {
            return ' ';
        };
        if call.is_open {
            return '!';
        }
        let known = self
            .states
            .map(|states| states.in_stretch(call.thread, call.start, call.end));
        let Some(known) = known else {
            return ' ';
        };
        let half = known.spent.total().0 / 2;
        let is = |state| half > 0 && known.spent.in_state(state).0 >= half;
        match () {
            () if is(State::Waiting) => 'w',
            () if is(State::Preempted) => 'p',
            () => ' ',
        }
    }

    fn note(&self, near_note: &NearNote) -> String {
        let words = notes::in_words(self.info, near_note, |id| self.thread(id));
        format!("* {}", ui::clean(&words))
    }

    /// Seconds since the first record.
    fn seconds(&self, time: Ticks) -> String {
        let sign = if time < self.begin { "-" } else { "" };
        let ticks = time.since(self.begin).0.max(self.begin.since(time).0);
        let ns = self.info.clock.nanos(Ticks(ticks)).0;
        format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
    }

    fn thread(&self, id: ThreadId) -> String {
        let thread = self.info.threads.iter().find(|thread| thread.id == id);
        match thread.map_or("", |thread| &thread.name) {
            "" => id.to_string(),
            name => format!("{} ({id})", ui::clean(name)),
        }
    }

    fn bold(&self, text: &str) -> String {
        match self.colour {
            true => format!("\x1b[1m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    fn painted(&self, text: &str, thread: usize) -> String {
        match self.colour {
            true => format!("\x1b[{}m{text}\x1b[0m", COLOURS[thread % COLOURS.len()]),
            false => text.to_owned(),
        }
    }
}
