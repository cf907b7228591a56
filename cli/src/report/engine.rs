//! The engine of `fdr report`: a sink that turns the calls of a trace into figures per function.
//!
//! Every worker has an engine of its own for the lanes that it decodes; [`gather`] merges them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use fdr_formats::calls::{Untimed, untimed};
use fdr_formats::notes::NoteKind;
use fdr_formats::packed::Packed;
use fdr_formats::states::States;
use fdr_formats::{Call, Diagnostic, FunctionId, Mark, Sink, Source, Thread, ThreadId, Ticks};

use super::events::Events;
use super::open::{self, Ends, OpenCall};
use super::stack::{Batch, Flaws, ShortCalls, Stack};
use super::stats::{Stats, Table};
use super::waits::Waits;
use crate::damage::Damage;
use crate::off_cpu::Absence;
use crate::{memory, trace};

/// Threads that are found without a hash; a power of two.
const RECENT: usize = 32;

/// A worker's share of the trace.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    per_thread: bool,
    /// A thread has ended when another one begins.
    one_by_one: bool,
    batch: Batch,
    untimed: Untimed,
    /// The states of the threads, if the trace has any.
    states: Option<Arc<States>>,
    /// The moment of the dump, where it is known.
    end: Option<Ticks>,
    /// One for all threads, or one for each.
    tables: Vec<Table>,
    threads: Vec<(Thread, Stack)>,
    /// For each of these threads, the calls that were open at the end.
    ends: Vec<Ends>,
    by_id: HashMap<ThreadId, usize>,
    /// The places of the latest threads, by the low bits of their numbers. This helps because
    /// sources with several threads in a lane switch threads after every few calls.
    recent: [usize; RECENT],
    current: usize,
    events: Events,
    waits: Waits,
    /// Notes of tasks.
    task_notes: u64,
    damage: Damage,
}

/// What is known of one thread.
#[derive(Debug)]
pub(crate) struct ThreadPart {
    pub(crate) thread: Thread,
    pub(crate) first: Option<Ticks>,
    pub(crate) last: Ticks,
    pub(crate) records: u64,
    pub(crate) synthetic: u64,
    /// Records that are missing between others.
    pub(crate) lost: u64,
    /// Places where its clock jumped or began anew.
    pub(crate) breaks: u64,
    /// Its calls without records.
    pub(crate) short: ShortCalls,
    /// What it was in when the trace was written.
    pub(crate) open: Option<OpenCall>,
    /// Its functions; empty unless asked for.
    pub(crate) functions: BTreeMap<FunctionId, Box<Stats>>,
}

/// What is known of the trace.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) functions: BTreeMap<FunctionId, Box<Stats>>,
    /// In the order of their ids.
    pub(crate) threads: Vec<ThreadPart>,
    pub(crate) flaws: Flaws,
    pub(crate) events: Events,
    pub(crate) waits: Waits,
    /// Notes of tasks.
    pub(crate) task_notes: u64,
    /// In the order of the file, at most [`MAX_DIAGNOSTICS`](crate::damage::MAX_DIAGNOSTICS).
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) more_diagnostics: u64,
}

impl Engine {
    /// An engine for a source, which keeps figures per thread also, or only over all threads.
    pub(crate) fn new(source: &dyn Source, per_thread: bool) -> Engine {
        Engine {
            untimed: untimed(source.info()),
            end: source.info().end,
            per_thread,
            one_by_one: trace::has_lane_for_each_thread(source),
            ..Engine::default()
        }
    }

    /// One for a trace that knows its threads' states.
    pub(crate) fn with_states(self, states: Option<Arc<States>>) -> Engine {
        Engine { states, ..self }
    }

    /// Takes back the memory of a thread that has ended.
    fn end_current(&mut self) {
        let table = if self.per_thread { self.current } else { 0 };
        if let (Some((_, stack)), Some(table)) = (
            self.threads.get_mut(self.current),
            self.tables.get_mut(table),
        ) {
            if let Some(ends) = self.ends.get_mut(self.current) {
                ends.finish(stack, self.end);
            }
            stack.finish(&mut self.batch, self.end, table);
        }
    }
}

impl Sink for Engine {
    fn thread(&mut self, thread: &Thread) {
        if self
            .threads
            .get(self.current)
            .is_some_and(|(current, _)| current.id == thread.id)
        {
            return;
        }
        if self.one_by_one {
            self.end_current();
        }
        let slot = &mut self.recent[thread.id.0 as usize % RECENT];
        if self
            .threads
            .get(*slot)
            .is_some_and(|(known, _)| known.id == thread.id)
        {
            self.current = *slot;
            return;
        }
        let threads = &mut self.threads;
        let stack = || {
            let mut stack = Stack::new(&self.untimed);
            let absence = |states: &Arc<States>| Absence::new(states, thread.id, &self.untimed);
            stack.absence = self.states.as_ref().map(absence).map(Box::new);
            stack
        };
        self.current = *self.by_id.entry(thread.id).or_insert_with(|| {
            threads.push((thread.clone(), stack()));
            threads.len() - 1
        });
        *slot = self.current;
        self.ends.resize(self.threads.len(), Ends::default());
        let tables = if self.per_thread {
            self.threads.len()
        } else {
            1
        };
        if self.tables.len() < tables {
            self.tables.resize_with(tables, Table::default);
        }
    }

    fn calls(&mut self, calls: &[Call]) {
        if self.threads.is_empty() {
            self.thread(&Thread::default());
        }
        let table = if self.per_thread { self.current } else { 0 };
        let (_, stack) = &mut self.threads[self.current];
        let (table, batch) = (&mut self.tables[table], &mut self.batch);
        let mut rest = calls;
        // Without a branch for each call: nearly all are measured.
        if calls.iter().fold(false, |any, call| any | call.synthetic) {
            while let Some(at) = rest.iter().position(open::is_end) {
                let (before, from) = rest.split_at(at);
                let (end, after) = from.split_at(1);
                stack.run(batch, table, before);
                self.ends[self.current].add(&end[0], stack);
                stack.run(batch, table, end);
                rest = after;
            }
        }
        stack.run(batch, table, rest);
    }

    fn packed(&mut self, packed: &Packed<'_>) {
        if self.threads.is_empty() {
            self.thread(&Thread::default());
        }
        let table = if self.per_thread { self.current } else { 0 };
        let (_, stack) = &mut self.threads[self.current];
        stack.run_packed(&mut self.batch, &mut self.tables[table], packed);
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let Some((thread, stack)) = self.threads.get_mut(self.current) else {
            return;
        };
        match mark {
            Mark::Note { time, kind, body } => {
                self.task_notes += u64::from(*kind == NoteKind::Task);
                self.events.see(thread.id, *time, *kind, body);
                self.waits.see(thread.id, *time, *kind, body);
            }
            Mark::Lost { records } => stack.lose(*records),
            Mark::Break { .. } => stack.break_off(),
            Mark::ShortCalls { time, calls, ticks } => stack.short_calls(*time, *calls, *ticks),
            _ => {}
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.damage.add(diagnostic);
    }
}

/// Ends the engines and adds up what they have.
///
/// # Errors
/// Where that takes too much memory.
pub(crate) fn gather(engines: Vec<Engine>, per_thread: bool) -> io::Result<Figures> {
    let (mut figures, mut damage) = (Figures::default(), Damage::default());
    let mut threads: BTreeMap<ThreadId, ThreadPart> = BTreeMap::new();
    for mut engine in engines {
        let mut tables = engine.tables;
        for (at, (thread, mut stack)) in engine.threads.into_iter().enumerate() {
            let table = &mut tables[if per_thread { at } else { 0 }];
            memory::check()?;
            let mut ends = engine.ends.get(at).copied().unwrap_or_default();
            ends.finish(&stack, engine.end);
            stack.finish(&mut engine.batch, engine.end, table);
            add_flaws(&mut figures.flaws, stack.flaws);
            let mut part = part_of(thread, &stack);
            part.open = ends.open_call(stack.records());
            if per_thread {
                part.functions = std::mem::take(table).into_functions().collect();
                for (id, stats) in &part.functions {
                    memory::check()?;
                    figures.functions.entry(*id).or_default().merge(stats);
                }
            }
            match threads.get_mut(&part.thread.id) {
                Some(known) => merge_parts(known, part),
                None => drop(threads.insert(part.thread.id, part)),
            }
        }
        for table in tables {
            add(&mut figures.functions, table.into_functions());
        }
        figures.events.join(&engine.events);
        figures.waits.join(&engine.waits);
        damage.join(engine.damage);
        figures.task_notes += engine.task_notes;
    }
    figures.threads = threads.into_values().collect();
    (figures.diagnostics, figures.more_diagnostics) = damage.into_parts();
    Ok(figures)
}

fn part_of(thread: Thread, stack: &Stack) -> ThreadPart {
    ThreadPart {
        thread,
        first: stack.first(),
        last: stack.last(),
        records: stack.records(),
        synthetic: stack.synthetic(),
        lost: stack.lost,
        breaks: stack.breaks,
        short: stack.short,
        open: None,
        functions: BTreeMap::new(),
    }
}

/// Two lanes may hold one thread.
fn merge_parts(known: &mut ThreadPart, part: ThreadPart) {
    known.first = [known.first, part.first].into_iter().flatten().min();
    known.last = known.last.max(part.last);
    known.records += part.records;
    known.synthetic += part.synthetic;
    known.breaks += part.breaks;
    known.short.add(part.short);
    known.lost = known.lost.saturating_add(part.lost);
    known.open = [known.open, part.open]
        .into_iter()
        .flatten()
        .max_by_key(|open| open.end);
    add(&mut known.functions, part.functions.into_iter());
}

/// Moves what is new: the histograms of a large program are no small thing to copy.
fn add(
    functions: &mut BTreeMap<FunctionId, Box<Stats>>,
    more: impl Iterator<Item = (FunctionId, Box<Stats>)>,
) {
    for (id, stats) in more {
        match functions.entry(id) {
            Entry::Vacant(place) => {
                place.insert(stats);
            }
            Entry::Occupied(mut known) => known.get_mut().merge(&stats),
        }
    }
}

fn add_flaws(sum: &mut Flaws, flaws: Flaws) {
    sum.missing_exits += flaws.missing_exits;
    sum.missing_entries += flaws.missing_entries;
    sum.open += flaws.open;
}
