//! Which part of a trace a command looks at: the options `--thread`, `--task`, `--function`, `--since`, `--until`,
//! `--last` and `--filter`; and [`of_calls`], which calls of it are listed. They are the same in every command that
//! reads a trace. A selected trace is a source that wraps the source of the whole trace, so no command needs to know of
//! the selection. If nothing is selected, there must be no such wrapper.
//!
//! A call that is open where the window begins has a synthetic entry there; one that is open where it ends
//! has a synthetic exit. So every command and every format shows such a call as clipped.

pub(crate) mod call_options;
mod calls;
pub(crate) mod moment;
mod source;
mod tasks;
#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::{Context, bail};
use fdr_formats::filter::{Filter, Glob, nearest};
use fdr_formats::model::FunctionKind;
use fdr_formats::{Clock, FunctionId, Source, ThreadId, Ticks, TraceInfo};

use self::moment::{MomentOption, Span};
use self::source::Selected;
use self::tasks::{Polls, TaskName};
use crate::report::names::name_of;
use crate::tally::Tally;
use crate::{input, ui};

/// How a moment is written, for a help text.
pub(crate) const MOMENTS: &str = "  start, end              of the trace
  +1.5ms, 1.5ms, -2s      since the start, before the end; in ns, us, ms, s,
                          min or h
  1700000123              ns of the trace's own clock
  2026-11-20T12:30:01.5Z  UTC, as fdr info shows it, where the trace knows
                          the time of day
  12:30:01.5              UTC, on the day of the trace";

const HEADING: &str = "Selection";

/// How many names are looked at for the nearest to a glob.
pub(crate) const MAX_NAMES: usize = 10_000;

/// Globs that name functions.
pub(crate) fn filter(text: &str) -> Result<Filter, String> {
    match Filter::parse(text)? {
        filter if filter.is_off() => {
            Err("it names no function; leave the option out for all".into())
        }
        filter => Ok(filter),
    }
}

/// The part of a trace that a command looks at.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Selection {
    /// Only threads with this number or name (a glob); may be repeated
    #[arg(short, long, value_name = "THREAD", help_heading = HEADING)]
    thread: Vec<Glob>,
    /// Only what happens inside this task: its number, or FIELD=VALUE of an event in it (a glob); may be repeated
    #[arg(long, value_name = "TASK", help_heading = HEADING)]
    task: Vec<TaskName>,
    /// Only what happens inside calls of these functions: globs or ends of names, comma between
    #[arg(short = 'F', long, value_name = "GLOBS", allow_hyphen_values = true, value_parser = filter, help_heading = HEADING)]
    function: Vec<Filter>,
    /// Only these functions: globs or ends of names, comma between, `-` before one excludes
    #[arg(short, long, value_name = "GLOBS", allow_hyphen_values = true, value_parser = filter, help_heading = HEADING)]
    filter: Option<Filter>,
    /// Only from this moment on: 1.5s after the start, -200ms before the end, or a time of day; see fdr state --help
    #[arg(long, value_name = "MOMENT", value_parser = moment::parse, allow_hyphen_values = true, help_heading = HEADING)]
    since: Option<MomentOption>,
    /// Only up to this moment
    #[arg(long, value_name = "MOMENT", value_parser = moment::parse, allow_hyphen_values = true, help_heading = HEADING)]
    until: Option<MomentOption>,
    /// Only the last 2s, 300ms, … before the end or before --until
    #[arg(long, value_name = "TIME", value_parser = moment::length, conflicts_with = "since", help_heading = HEADING)]
    last: Option<i128>,
}

/// What `--filter` means to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filtering {
    /// Calls of other functions are left out.
    Calls,
    /// The command shows those functions alone; what the others took is known to it.
    Shown,
}

/// A selection, found in one trace.
#[derive(Clone, Debug, Default)]
struct ResolvedSelection {
    /// Sorted; `None`: all.
    threads: Option<Vec<ThreadId>>,
    /// Only inside of these polls.
    polls: Option<Polls>,
    /// Only inside of calls of one of them.
    within: Vec<Filter>,
    filter: Option<Filter>,
    /// The first tick that is in it, and the last one.
    from: Option<Ticks>,
    to: Option<Ticks>,
}

impl ResolvedSelection {
    /// Whether only threads are chosen, each as a whole.
    fn is_threads(&self) -> bool {
        let window = (self.from, self.to) != (None, None);
        self.is_anywhere() && self.filter.is_none() && !window
    }

    fn is_everything(&self) -> bool {
        self.threads.is_none() && self.is_threads()
    }

    /// Whether calls are chosen wherever they are made.
    fn is_anywhere(&self) -> bool {
        self.within.is_empty() && self.polls.is_none()
    }

    fn has_thread(&self, id: ThreadId) -> bool {
        let chosen = self.threads.as_ref();
        chosen.is_none_or(|threads| threads.binary_search(&id).is_ok())
    }
}

/// What a trace has from that tick on up to the other.
pub(crate) fn between(source: Box<dyn Source>, from: Ticks, to: Ticks) -> Box<dyn Source> {
    let chosen = ResolvedSelection {
        from: Some(from),
        to: Some(to),
        ..ResolvedSelection::default()
    };
    Box::new(Selected::new(source, chosen))
}

/// What a trace has of some threads, from one tick on up to another; `None`: all.
pub(crate) fn part(
    source: Box<dyn Source>,
    threads: Option<Vec<ThreadId>>,
    (from, to): (Option<Ticks>, Option<Ticks>),
) -> Box<dyn Source> {
    let threads = threads.map(|mut threads| {
        threads.sort_unstable();
        threads
    });
    let chosen = ResolvedSelection {
        threads,
        from,
        to,
        ..ResolvedSelection::default()
    };
    match chosen.is_everything() {
        true => source,
        false => Box::new(Selected::new(source, chosen)),
    }
}

/// What a trace has from that tick on.
pub(crate) fn from_on(source: Box<dyn Source>, from: Ticks) -> Box<dyn Source> {
    let chosen = ResolvedSelection {
        from: Some(from),
        ..ResolvedSelection::default()
    };
    Box::new(Selected::new(source, chosen))
}

impl Selection {
    /// Whether nothing is left out.
    pub(crate) fn is_everything(&self) -> bool {
        self.thread.is_empty() && self.is_of_threads()
    }

    /// Whether it is of whole threads at most.
    pub(crate) fn is_of_threads(&self) -> bool {
        let functions = !self.function.is_empty() || self.filter.is_some();
        !functions && self.task.is_empty() && !self.has_window()
    }

    /// Whether nothing is left out but functions that are not shown.
    pub(crate) fn is_of_whole_trace(&self) -> bool {
        let anywhere = self.function.is_empty() && self.task.is_empty();
        self.thread.is_empty() && anywhere && !self.has_window()
    }

    /// The functions that are shown.
    pub(crate) fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// Opens the selected part of a trace; the error names the file.
    ///
    /// # Errors
    /// Where the trace can't be read, or has no such part.
    pub(crate) fn open(
        &self,
        path: &Path,
        filtering: Filtering,
    ) -> anyhow::Result<Box<dyn Source>> {
        self.select(input::open(path)?, path, filtering)
    }

    /// Whether it has a beginning or an end in time.
    pub(crate) fn has_window(&self) -> bool {
        self.since.is_some() || self.until.is_some() || self.last.is_some()
    }

    /// Whether a moment is given at which the part ends: what is open there need not be open when the trace ends.
    pub(crate) fn ends_early(&self) -> bool {
        self.until.is_some()
    }

    /// The same for a trace that is already open.
    ///
    /// # Errors
    /// As [`Selection::open`].
    pub(crate) fn select(
        &self,
        source: Box<dyn Source>,
        path: &Path,
        filtering: Filtering,
    ) -> anyhow::Result<Box<dyn Source>> {
        if self.is_everything() {
            return Ok(source);
        }
        let chosen = self
            .find(&*source, filtering)
            .with_context(|| ui::path(path))?;
        if chosen.is_everything() {
            return Ok(source);
        }
        Ok(Box::new(Selected::new(source, chosen)))
    }

    /// The chosen threads, sorted; `None`: all.
    ///
    /// # Errors
    /// If no thread has the name or number.
    pub(crate) fn threads(&self, info: &TraceInfo) -> anyhow::Result<Option<Vec<ThreadId>>> {
        if self.thread.is_empty() {
            return Ok(None);
        }
        let mut chosen = Vec::new();
        for glob in &self.thread {
            let number = glob.as_str().parse().ok();
            let is = |id: ThreadId, name: &str| Some(id.0) == number || glob.matches(name);
            let threads = info
                .threads
                .iter()
                .filter(|thread| is(thread.id, &thread.name));
            let before = chosen.len();
            chosen.extend(threads.map(|thread| thread.id));
            if chosen.len() == before {
                let names = info.threads.iter().map(|thread| thread.name.as_str());
                let names = names.filter(|name| !name.is_empty()).take(MAX_NAMES);
                let names = nearest(&names.collect::<Vec<_>>(), glob.as_str(), 3);
                let near = match names.is_empty() {
                    true => String::new(),
                    false => format!("; the nearest: {}", names.join(", ")),
                };
                bail!(
                    "no thread {:?} in the trace{near} (fdr info lists them)",
                    glob.as_str()
                );
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        Ok(Some(chosen))
    }

    fn find(&self, source: &dyn Source, filtering: Filtering) -> anyhow::Result<ResolvedSelection> {
        let info = source.info();
        let threads = self.threads(info)?;
        let filter = self
            .filter
            .clone()
            .filter(|_| filtering == Filtering::Calls);
        for (option, filter) in (self.function.iter().map(|filter| ("--function", filter)))
            .chain(filter.iter().map(|filter| ("--filter", filter)))
        {
            complain_of(option, filter, info);
        }
        let (from, to) = self.window(source)?;
        let polls = match self.task.is_empty() {
            true => None,
            false => Some(Polls::read(&self.task, source)?),
        };
        Ok(ResolvedSelection {
            threads,
            polls,
            within: self.function.clone(),
            filter,
            from,
            to,
        })
    }

    /// First and last tick of the window. `None`: the window has no bound there, or there is no window.
    fn window(&self, source: &dyn Source) -> anyhow::Result<(Option<Ticks>, Option<Ticks>)> {
        if !self.has_window() {
            return Ok((None, None));
        }
        let tally = Tally::count(source)?;
        let clock = &source.info().clock;
        let Some(span) = Span::from_tally(&tally, clock) else {
            return Ok((None, None));
        };
        let (start, end) = (i128::from(span.start), i128::from(span.end));
        let to = match &self.until {
            Some(until) => span.resolve(until, clock)?,
            None => end,
        };
        let from = match (&self.since, self.last) {
            (Some(since), _) => span.resolve(since, clock)?,
            (None, Some(last)) => to.min(end) - last,
            (None, None) => start,
        };
        if let Some(since) = self.since.as_ref().filter(|_| from > end) {
            bail!(span.outside(&format!("--since {}", since.text), clock));
        }
        if let Some(until) = self.until.as_ref().filter(|_| to < start) {
            bail!(span.outside(&format!("--until {}", until.text), clock));
        }
        if from > to {
            bail!("--since is after --until: there is nothing between them");
        }
        Ok((
            (from > start).then(|| first_tick(from, clock)),
            (to < end).then(|| Ticks(first_tick(to + 1, clock).0.saturating_sub(1))),
        ))
    }
}

/// Where the trace begins, from which all commands count. A selection does not move it.
///
/// # Errors
/// Where the trace can't be read.
pub(crate) fn begin(source: &dyn Source) -> anyhow::Result<Option<Ticks>> {
    let mut whole = source;
    while let Some(inner) = whole.inner() {
        whole = inner;
    }
    let tally = Tally::count(whole)?;
    Ok(Span::ticks(&tally).map(|(first, _)| first))
}

/// The first tick that is at that time, in ns of the clock, or later.
pub(crate) fn first_tick(nanos: i128, clock: &Clock) -> Ticks {
    let (mut low, mut high) = (0, u64::MAX);
    while low < high {
        let middle = low + (high - low) / 2;
        match i128::from(clock.nanos(Ticks(middle)).0) < nanos {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    Ticks(low)
}

/// Names what may have been meant by globs that no function of the trace matches.
fn complain_of(option: &str, filter: &Filter, info: &TraceInfo) {
    // Events are chosen by their names, too; names of fields are not.
    let switched = || {
        info.functions
            .iter()
            .filter(|known| known.kind != FunctionKind::Name)
    };
    let names = || switched().map(|function| function.name.as_str());
    // Functions without a name are `#12`.
    let is_number = |glob: &String| glob.starts_with('#');
    if names().next().is_none()
        || filter.includes().iter().any(is_number)
        || names().any(|name| filter.matches(name))
    {
        return;
    }
    complain_of_none(option, filter, &names().collect::<Vec<_>>(), "function");
}

/// Says that globs match none of these functions, and which ones may have been meant. Says nothing if there are none.
pub(crate) fn complain_of_none(option: &str, filter: &Filter, names: &[&str], what: &str) {
    if names.is_empty() {
        return;
    }
    if let Some(name) = names.iter().find(|name| filter.matches(name)) {
        let name = ui::clean(name);
        return ui::complain(&format!(
            "{option}: {name} has no figures of the whole run (--window: figures of the records)"
        ));
    }
    let near = nearest_names(filter, names);
    let near = match near.is_empty() {
        true => "it excludes all of them".to_owned(),
        false => format!("the nearest: {}", near.join(", ")),
    };
    let functions = ui::things(names.len() as u64, what);
    ui::complain(&format!("{option} matches none of {functions}; {near}"));
}

/// The names that the globs of a filter may have meant. Empty: the filter only excludes.
pub(crate) fn nearest_names<'a>(filter: &Filter, names: &[&'a str]) -> Vec<&'a str> {
    let some = names.get(..MAX_NAMES).unwrap_or(names);
    let globs = filter.includes().iter();
    globs.flat_map(|glob| nearest(some, glob, 3)).collect()
}

/// Whether functions are wanted; each is asked for once.
#[derive(Debug)]
struct FunctionMatcher<'a> {
    info: &'a TraceInfo,
    filters: &'a [Filter],
    /// By number: 0 not known yet, 1 no, 2 yes.
    cache: Vec<u8>,
}

impl<'a> FunctionMatcher<'a> {
    /// Numbers that are kept.
    const MAX_CACHED: usize = 1 << 20;

    /// Matches the functions that at least one of the filters names.
    fn new(info: &'a TraceInfo, filters: &'a [Filter]) -> FunctionMatcher<'a> {
        FunctionMatcher {
            info,
            filters,
            cache: Vec::new(),
        }
    }

    fn is(&mut self, id: FunctionId) -> bool {
        let place = id.0 as usize;
        match self.cache.get(place) {
            Some(1) => return false,
            Some(2) => return true,
            _ => {}
        }
        let name = name_of(self.info, id);
        let wanted = self.filters.iter().any(|filter| filter.matches(&name));
        if place < Self::MAX_CACHED {
            if self.cache.len() <= place {
                self.cache.resize(place + 1, 0);
            }
            self.cache[place] = 1 + u8::from(wanted);
        }
        wanted
    }
}
