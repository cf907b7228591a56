//! The slowest calls as text for people.

use std::io::Write;

use fdr_formats::model::State;
use fdr_formats::{FunctionId, TraceInfo};

use crate::calls::arguments;
use crate::calls::cause::{Cause, Step};
use crate::calls::finding::Finding;
use crate::calls::findings::Findings;
use crate::calls::query::ENOUGH_CALLS;
use crate::calls::samples::Samples;
use crate::calls::states::CallStates;
use crate::calls::words::{cpu_time, idle, percent, same_cause, scope, sentence};
use crate::report::names::{name_of, thread_name};
use crate::ui;

/// Functions that are named of those whose calls a bound leaves out.
const NAMED: usize = 3;
/// The largest bound that is proposed, as a multiple of the current one.
const MORE: u64 = 4;

pub(super) fn write(out: &mut dyn Write, info: &TraceInfo, found: &Findings) -> anyhow::Result<()> {
    write_within(out, info, found, ui::columns().unwrap_or(usize::MAX))
}

/// The same within `width` columns.
pub(super) fn write_within(
    out: &mut dyn Write,
    info: &TraceInfo,
    found: &Findings,
    width: usize,
) -> anyhow::Result<()> {
    if found.list.is_empty() {
        let words = format!(
            "nothing stands out: no function of {ENOUGH_CALLS} calls or more has one far above its usual ones; \
             --over 10ms shows the calls that took so long, of any function"
        );
        writeln!(out, "{}", ui::wrap(&words, width, 0))?;
    }
    for (at, finding) in found.list.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        call(out, info, found, at, finding, width)?;
    }
    let lines = [
        hidden_in_words(info, found),
        idle(info, found),
        cpu_time(info, found),
        what_would_help(found).map(str::to_owned),
    ];
    for line in lines.iter().flatten() {
        writeln!(out, "\n{}", ui::wrap(line, width, 0))?;
    }
    Ok(())
}

/// `6 more slow calls of app::process: --limit 8`, if there are some.
fn hidden_in_words(info: &TraceInfo, found: &Findings) -> Option<String> {
    let what = match found.is_chosen {
        true => "more call",
        false => "more slow call",
    };
    let (first, others) = found.hidden_calls.split_first()?;
    let name = |function| ui::clean(&name_of(info, function)).into_owned();
    let mut parts = vec![format!(
        "{} of {}",
        ui::things(first.1, what),
        name(first.0)
    )];
    let (named, rest) = match others.len() {
        few if few <= NAMED => (others, &[][..]),
        _ => others.split_at(NAMED - 1),
    };
    for &(function, calls) in named {
        parts.push(format!("{} of {}", ui::count(calls), name(function)));
    }
    let sum = |list: &[(FunctionId, u64)]| -> u64 { list.iter().map(|(_, calls)| calls).sum() };
    if !rest.is_empty() {
        let functions = ui::things(rest.len() as u64, "other function");
        parts.push(format!("{} of {functions}", ui::count(sum(rest))));
    }
    let all = found.list.len() as u64 + sum(&found.hidden_calls);
    let limit = all.min(MORE * found.most as u64);
    Some(format!("{}: --limit {limit}", parts.join(", ")))
}

/// Advice on what to record next time, if this would help to explain one of the slow calls.
fn what_would_help(found: &Findings) -> Option<&'static str> {
    let mut open = found.list.iter().filter(|finding| {
        let is_itself = finding.explained.cause == Cause::Itself;
        is_itself && finding.wait.is_none()
    });
    let waited = |finding: &Finding| {
        let states = finding.states.as_ref();
        states.is_some_and(|states| states.excess == Some(State::Waiting))
    };
    if open.clone().any(|finding| finding.states.is_none()) {
        return Some("FDR_SCHED=1 also records whether threads run or wait: fdr slow --help");
    }
    let is_mostly_unknown = |states: &CallStates| {
        states.excess.is_none() && states.stretch.unknown > states.stretch.spent.total()
    };
    if open
        .clone()
        .any(|finding| finding.states.as_ref().is_some_and(is_mostly_unknown))
    {
        return Some(
            "FDR_SCHED=1 records all the time whether threads run or wait: fdr slow --help",
        );
    }
    (!found.has_waits && open.any(waited)).then_some(
        "locks and channels of fdr::sync record what a thread waits for, and who holds it: fdr slow --help",
    )
}

fn call(
    out: &mut dyn Write,
    info: &TraceInfo,
    found: &Findings,
    at: usize,
    finding: &Finding,
    width: usize,
) -> anyhow::Result<()> {
    let head = headline(info, found, at, finding);
    writeln!(out, "{}", ui::wrap_facts(&head, width, 4))?;
    let inner = width.saturating_sub(4);
    if let Some(words) = same_cause(info, finding) {
        writeln!(out, "    {}", ui::wrap(&words, inner, 4))?;
    }
    let usual = usual_in_words(found, finding);
    writeln!(out, "    {}", ui::wrap(&usual, inner, 4))?;
    table(out, &path(info, finding), width)?;
    if let Some(states) = &finding.states {
        let line = states.line(info);
        writeln!(out, "    {}", ui::wrap_facts(&line, inner, 6))?;
    }
    let words = sentence(info, finding);
    writeln!(out, "    {}", ui::wrap(&words, inner, 4))?;
    if let Some(line) = arguments::line(info, finding.call.function, &finding.arguments) {
        writeln!(out, "    {}", ui::wrap(&line, inner, 6))?;
    }
    if let Some(line) = finding.events.line(info, finding.call.start) {
        writeln!(out, "    {}", ui::wrap_facts(&line, inner, 6))?;
    }
    for line in finding.samples.iter().flat_map(Samples::lines) {
        writeln!(out, "    {}", ui::wrap(&line, inner, 6))?;
    }
    if let Some(line) = meanwhile(info, finding) {
        writeln!(out, "    {}", ui::wrap(&line, inner, 6))?;
    }
    Ok(())
}

/// Which call it is: its number, length, function, thread and time.
fn headline(info: &TraceInfo, found: &Findings, at: usize, finding: &Finding) -> String {
    let (call, clock) = (&finding.call, &info.clock);
    let mut words = vec![
        format!("#{}", at + 1),
        ui::duration(clock.nanos(fdr_formats::Ticks(call.total)).0),
        ui::clean(&name_of(info, call.function)).into_owned(),
        format!("thread {}", thread_name(info, call.thread)),
    ];
    if let Some(begin) = found.begin {
        words.push(format!(
            "at +{}",
            ui::duration(clock.nanos(call.start.since(begin)).0)
        ));
    }
    if let Some(unix) = clock.unix_nanos(call.start) {
        words.push(ui::utc(unix));
    }
    if call.is_open {
        words.push("had not returned".to_owned());
    }
    words.join(" \u{b7} ")
}

/// How long calls of the function usually take.
fn usual_in_words(found: &Findings, finding: &Finding) -> String {
    let usual = &finding.usual;
    let which = scope(found.is_whole_run);
    let mut words = format!(
        "usual {} (p50 of {} {which}), p99 {}",
        ui::duration(usual.p50),
        ui::things(usual.calls, "call"),
        ui::duration(usual.p99),
    );
    if let Some(calls) = finding.slow_calls.filter(|&calls| calls > 1) {
        let calls = ui::things(calls, "call");
        words.push_str(&format!("; one of {calls} that are slow"));
    }
    words
}

/// The path from the call to what took the time.
fn path(info: &TraceInfo, finding: &Finding) -> Vec<Line> {
    let explained = &finding.explained;
    let last = explained.path.len() - 1;
    let mut rows: Vec<Line> = Vec::new();
    for (depth, step) in explained.path.iter().enumerate() {
        let mut line = Line::new(info, depth, step);
        let is_spread = !explained.spread.is_empty() || explained.cause == Cause::Spread;
        if depth == last && !is_spread && explained.cause != Cause::None {
            let state = finding.states.and_then(|states| states.excess);
            let state = state.map_or_else(String::new, |state| format!(", {}", state.name()));
            let share = percent(explained.share);
            line.note = format!("  <- {share} of the excess{state}");
            line.short_note = format!("  <- {share}{state}");
        }
        rows.push(line);
    }
    let spread = explained.spread.iter();
    rows.extend(spread.map(|step| Line::new(info, last + 1, step)));
    rows
}

/// A line about a function in which another thread was, and usually is not.
fn meanwhile(info: &TraceInfo, finding: &Finding) -> Option<String> {
    let meanwhile = finding.meanwhile.as_ref()?;
    let nanos = |ticks| info.clock.nanos(fdr_formats::Ticks(ticks)).0;
    let here = ui::duration(nanos(meanwhile.ticks));
    let running = match finding.states {
        Some(_) => format!(" (running {})", ui::duration(nanos(meanwhile.running))),
        None => String::new(),
    };
    Some(format!(
        "meanwhile  {} was in {} for {here}{running}; during usual calls: {} of the time",
        thread_name(info, meanwhile.thread),
        ui::clean(&name_of(info, meanwhile.function)),
        percent(meanwhile.usual),
    ))
}

/// A line of the path.
struct Line {
    branch: String,
    name: String,
    calls: String,
    total: String,
    usual: String,
    note: String,
    /// The same for a narrow terminal.
    short_note: String,
}

impl Line {
    fn new(info: &TraceInfo, depth: usize, step: &Step) -> Line {
        Line {
            branch: match depth {
                0 => String::new(),
                depth => format!("{}\u{2514} ", "  ".repeat(depth - 1)),
            },
            name: ui::clean(&name_of(info, step.function)).into_owned(),
            calls: match step.calls {
                1 => String::new(),
                calls => format!(" \u{d7} {}", ui::count(calls)),
            },
            total: ui::duration(step.total as u64),
            usual: match step.usual_calls {
                0.0 => "usually not called".to_owned(),
                _ => format!("usual {}", ui::duration(step.usual as u64)),
            },
            note: String::new(),
            short_note: String::new(),
        }
    }

    /// The number of characters in addition to the name.
    fn around(&self) -> usize {
        self.branch.chars().count() + self.calls.chars().count()
    }

    /// Whether the name fits, without its crate at least.
    fn fits(&self, room: usize) -> bool {
        let length = self.name.chars().count();
        let without = ui::last_parts(&self.name, length.saturating_sub(1));
        self.around() + without.chars().count() <= room
    }

    /// The line within `room` columns. If the name does not fit, it first loses its crate, and then its middle.
    fn within(&self, room: usize) -> String {
        let most = room.saturating_sub(self.around());
        let name = ui::last_parts(&self.name, most);
        let text = format!("{}{}{}", self.branch, ui::shorten(name, most), self.calls);
        ui::shorten(&text, room).into_owned()
    }
}

/// The lines with their times one below the other.
fn table(out: &mut dyn Write, lines: &[Line], width: usize) -> anyhow::Result<()> {
    let longest = |text: fn(&Line) -> &str| {
        let lengths = lines.iter().map(|line| text(line).chars().count());
        lengths.max().unwrap_or(0)
    };
    let (total, usual) = (longest(|line| &line.total), longest(|line| &line.usual));
    let room = |note: usize| width.saturating_sub(4 + 2 + total + 2 + usual + note);
    let long = room(longest(|line| &line.note));
    let (room, note): (usize, fn(&Line) -> &str) = match lines.iter().all(|line| line.fits(long)) {
        true => (long, |line| &line.note),
        false => (room(longest(|line| &line.short_note)), |line| {
            &line.short_note
        }),
    };
    let names: Vec<String> = lines.iter().map(|line| line.within(room.max(8))).collect();
    let widest = names.iter().map(|name| name.chars().count()).max();
    let widest = widest.unwrap_or(0);
    for (line, name) in lines.iter().zip(names) {
        let gap = " ".repeat(widest.saturating_sub(name.chars().count()));
        let note = note(line);
        let text = format!(
            "    {name}{gap}  {:>total$}  {:<usual$}{note}",
            line.total, line.usual
        );
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}
