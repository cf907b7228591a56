//! The first pass over a folder: its tables, and each interval once. It finds threads, functions, damage, and the plan
//! that puts the intervals in order of time. Memory is the keys, the functions and the plan.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use super::meta::{Meta, ThreadMeta};
use super::names::{self, Names};
use super::order::{IntervalContent, Item, Plan, Planner};
use super::record::{HEADER_SIZE, Header, Interval, MIN_SIZE, SORTED, Value};
use super::scan::{Bounds, Scanner};
use super::switches::Collector;
use super::tree::{self, Role, Tree};
use super::{FILES, META};
use crate::bytes::{FileBytes, ReadAt};
use crate::error::{Diagnostic, DiagnosticList, Error};
use crate::model::{FunctionId, Schedule, Thread, ThreadId, Ticks, TraceInfo};

/// The most bytes of a table that are read. No table of ours is longer.
const MAX_TABLE: u64 = 256 << 20;
const HISTORY: &str = "history.bin";

/// A folder, indexed.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) info: TraceInfo,
    /// The part of meta.json about each thread of `info`.
    pub(super) threads: Vec<ThreadMeta>,
    pub(super) tree: Tree,
    /// For each thread of the tree, its place in `info`.
    thread_of_tree: Vec<u32>,
    thread_of_id: HashMap<u64, u32>,
    pub(super) bounds: Bounds,
    pub(super) plan: Plan,
    /// The function of each string; `None` if no call stack has the string.
    pub(super) function_of: Vec<Option<FunctionId>>,
    pub(super) strings: names::StringRange,
    /// The states of threads, until the index is settled.
    schedule: Schedule,
    /// An earlier end of the history, which the folder states as well.
    other_end: Option<i64>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// history.bin and its header.
pub(super) fn open_history(folder: &Path) -> Result<(FileBytes, Header), Error> {
    let name = |error: std::io::Error| {
        let path = folder.join(HISTORY);
        std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))
    };
    let bytes = File::open(folder.join(HISTORY))
        .and_then(FileBytes::new)
        .map_err(name)?;
    let mut head = [0; HEADER_SIZE];
    let count = bytes.read_at(0, &mut head).map_err(name)?;
    let header = Header::decode(&head[..count]).ok_or_else(|| {
        let what = format!("{HISTORY}: the header is cut off or none of a history");
        Error::format(0, what)
    })?;
    if header.major != 1 {
        let what = format!(
            "{HISTORY}: version {} is not known; fdr reads 1",
            header.major
        );
        return Err(Error::format(8, what));
    }
    Ok((bytes, header))
}

/// Reads a folder once.
pub(super) fn index(folder: &Path, bytes: &dyn ReadAt, header: &Header) -> Result<Index, Error> {
    let mut diagnostics = DiagnosticList::default();
    let mut table = |name: &str| load(folder, name, &mut diagnostics);
    let [types, tree, state] = [FILES[0].1, FILES[1].1, FILES[2].1].map(&mut table);
    let has_meta = folder.join(META).exists();
    let meta = if has_meta { table(META) } else { None };
    let meta = meta.map(|bytes| Meta::read(&bytes));
    let (meta, is_meta_whole) = match meta {
        Some(Ok(meta)) => (meta, true),
        Some(Err(bad)) => {
            let what = format!("{}; read without it", bad.what);
            diagnostics.add_in(META, bad.offset, &what);
            (Meta::default(), false)
        }
        None => (Meta::default(), !has_meta),
    };
    // Every key has an interval.
    let most = bytes.size() / MIN_SIZE as u64;
    let most = u32::try_from(most).unwrap_or(u32::MAX).min(1 << 31);
    let tree = Tree::read(types, tree, most, &mut diagnostics);
    tree::check_state(state, tree.keys(), &mut diagnostics);
    if tree.keys() != header.keys {
        let what = format!("{} keys, but the tables have {}", header.keys, tree.keys());
        diagnostics.add_in(HISTORY, 40, &what);
    }
    if header.flags & SORTED == 0 {
        let what = "it says that it is not sorted; what is not in order is left out";
        diagnostics.add_in(HISTORY, 44, what);
    }
    if header.flags & !SORTED != 0 {
        let what = format!(
            "flags {:#x}, of which fdr knows the lowest only",
            header.flags
        );
        diagnostics.add_in(HISTORY, 44, &what);
    }
    let mut index = Index {
        info: TraceInfo::default(),
        threads: Vec::new(),
        tree,
        thread_of_tree: Vec::new(),
        thread_of_id: HashMap::new(),
        bounds: Bounds::default(),
        plan: Plan::default(),
        function_of: Vec::new(),
        strings: names::StringRange::default(),
        schedule: Schedule::default(),
        other_end: None,
        diagnostics: Vec::new(),
    };
    index.threads(&meta);
    index.bounds(bytes, header, &meta, &mut diagnostics)?;
    let is_whole = index.intervals(bytes, header, &mut diagnostics)?;
    index.functions(bytes, &meta, &mut diagnostics)?;
    // Our writers describe each thread.
    let is_foreign = is_meta_whole && meta.threads.is_empty();
    index.settle(meta);
    if is_foreign && is_whole {
        // Its open calls have no other end than that of the history.
        index.info.end = u64::try_from(index.bounds.end).ok().map(Ticks);
    }
    index.diagnostics = diagnostics.finish();
    Ok(index)
}

/// The bytes of a table. `None`: there are none, which is reported.
fn load(folder: &Path, name: &str, diagnostics: &mut DiagnosticList) -> Option<Vec<u8>> {
    let path = folder.join(name);
    let size = std::fs::metadata(&path).map_or(0, |file| file.len());
    if size > MAX_TABLE {
        diagnostics.add_in(name, MAX_TABLE, "it is larger than 256 MiB and not read");
        return None;
    }
    let read = std::fs::read(&path);
    read.inspect_err(|error| diagnostics.add_in(name, 0, &format!("{error}; read without it")))
        .ok()
}

impl Index {
    /// The threads of meta.json first, in its order, then the other threads of the tree.
    fn threads(&mut self, meta: &Meta) {
        for known in &meta.threads {
            let next = self.threads.len() as u32;
            if *self.thread_of_id.entry(known.thread.id.0).or_insert(next) == next {
                self.threads.push(known.clone());
            }
        }
        for (&id, is_alone) in self.tree.threads.iter().zip(&self.tree.has_states_alone) {
            let next = self.threads.len() as u32;
            // A thread that has only states is not one of the trace's threads.
            if *is_alone && !self.thread_of_id.contains_key(&id) {
                self.thread_of_tree.push(u32::MAX);
                continue;
            }
            let place = *self.thread_of_id.entry(id).or_insert(next);
            if place == next {
                self.threads.push(ThreadMeta {
                    thread: Thread {
                        id: ThreadId(id),
                        ..Thread::default()
                    },
                    ..ThreadMeta::default()
                });
            }
            self.thread_of_tree.push(place);
        }
    }

    /// The place of the intervals, and the bounds of their times. The header and meta.json both state
    /// them. The first interval begins with the history.
    fn bounds(
        &mut self,
        bytes: &dyn ReadAt,
        header: &Header,
        meta: &Meta,
        diagnostics: &mut DiagnosticList,
    ) -> Result<(), Error> {
        let size = bytes.size();
        let mut from = u64::from(header.size);
        if from < HEADER_SIZE as u64 || from > size {
            let what = format!("the header has {from} bytes, it says; {HEADER_SIZE} are taken");
            diagnostics.add_in(HISTORY, 12, &what);
            from = HEADER_SIZE as u64;
        }
        let mut first = [0; 8];
        let first = (bytes.read_at(from, &mut first)? == 8).then(|| i64::from_le_bytes(first));
        let (mut start, mut end) = (header.start, header.end);
        if let Some(other) = meta.start.filter(|&other| other != start) {
            let what = format!("the history starts at {start} ns, it says; {META} says {other} ns");
            diagnostics.add_in(HISTORY, 16, &what);
            if first == Some(other) {
                start = other;
            }
        }
        if let Some(other) = meta.end.filter(|&other| other != end) {
            let what = format!("the history ends at {end} ns, it says; {META} says {other} ns");
            diagnostics.add_in(HISTORY, 24, &what);
            self.other_end = Some(end.min(other));
            end = end.max(other);
        }
        if start < 0 && self.threads.iter().all(|thread| thread.before == 0) {
            diagnostics.add_in(HISTORY, 16, "times before 0 are given as 0");
        }
        let (place, whole) = names::find(bytes, header, &self.tree.kinds, from, diagnostics)?;
        self.strings = place;
        self.bounds = Bounds {
            from,
            to: place.from,
            most: if whole { u64::MAX } else { header.intervals },
            start,
            end,
            strings: place.count,
        };
        Ok(())
    }

    /// The meaning of an interval for a thread.
    #[inline]
    pub(super) fn item(&self, interval: &Interval) -> Option<Item> {
        let role = self.tree.roles.get(interval.key as usize)?;
        let (thread, what) = match (*role, interval.value) {
            (Role::Level(thread, level), Value::Text(string)) => {
                let thread = *self.thread_of_tree.get(thread as usize)?;
                (thread, IntervalContent::Frame { level, string })
            }
            (Role::CurrentThread(cpu), Value::Int(id)) => (
                *self.thread_of_id.get(&(id as u64))?,
                IntervalContent::Cpu(cpu),
            ),
            _ => return None,
        };
        Some(Item {
            start: interval.start,
            end: interval.end,
            thread,
            what,
        })
    }

    /// The first pass over the intervals. Returns whether the history is whole.
    fn intervals(
        &mut self,
        bytes: &dyn ReadAt,
        header: &Header,
        diagnostics: &mut DiagnosticList,
    ) -> Result<bool, Error> {
        let mut planner = Planner::new(self.tree.keys());
        let mut used = Vec::new();
        let (mut count, mut latest) = (0u64, i64::MIN);
        let mut known = Collector::new(&self.tree.threads);
        let mut scanner = Scanner::new(bytes, &self.tree.kinds, self.bounds);
        while let Some(piece) = scanner.next()? {
            if let Some(what) = piece.fault {
                diagnostics.add_in(HISTORY, piece.offset, &what);
            }
            let Some(interval) = piece.interval else {
                continue;
            };
            (count, latest) = (count + 1, interval.end);
            let role = self.tree.roles.get(interval.key as usize).copied();
            if let Some(what) = known.add(role.unwrap_or_default(), &interval, piece.offset) {
                diagnostics.add_in(HISTORY, piece.offset, &what);
            }
            let Some(item) = self.item(&interval) else {
                continue;
            };
            planner.add(&item);
            if let IntervalContent::Frame { string, .. } = item.what {
                let string = string as usize;
                if string >= used.len() {
                    used.resize(string + 1, None);
                }
                used[string] = Some(FunctionId(0));
            }
        }
        let (unfinished, first) = scanner.unfinished();
        let whole = !scanner.damaged() && scanner.offset() == self.bounds.to;
        self.bounds.to = scanner.offset();
        if self.other_end == Some(latest) {
            self.bounds.end = latest;
        } else if unfinished > 0 {
            let what = format!(
                "the timelines of {unfinished} keys end before the history does, the first is {first}"
            );
            diagnostics.add_in(HISTORY, self.bounds.to, &what);
        } else if count != header.intervals && whole {
            let what = format!("{} intervals, it says; there are {count}", header.intervals);
            diagnostics.add_in(HISTORY, 32, &what);
        }
        self.plan = planner.finish();
        self.function_of = used;
        let (schedule, without_cpu) = known.finish(self.bounds.end);
        self.schedule = schedule;
        if let Some(offset) = without_cpu.filter(|_| !scanner.damaged()) {
            let what =
                "a status without a CPU (Current_cpu_rq); it is taken as not known, as each such";
            diagnostics.add_in(HISTORY, offset, what);
        }
        Ok(whole && unfinished == 0)
    }

    /// Finds a function for each string that is on a call stack.
    fn functions(
        &mut self,
        bytes: &dyn ReadAt,
        meta: &Meta,
        diagnostics: &mut DiagnosticList,
    ) -> Result<(), Error> {
        let mut names = Names::new(meta);
        names::each(bytes, self.strings, &mut |found| {
            if let Some(what) = found.fault {
                diagnostics.add_in(HISTORY, found.offset, what);
            }
            if let Some(Some(function)) = self.function_of.get_mut(found.number as usize) {
                let (id, agrees) = names.function(found.number, found.text);
                *function = id;
                if !agrees {
                    let number = found.number;
                    let what = format!("string {number} is not what {META} has for its function");
                    diagnostics.add_in(HISTORY, found.offset, &what);
                }
            }
            true
        })?;
        let known = usize::try_from(self.strings.complete).unwrap_or(usize::MAX);
        for (number, function) in self.function_of.iter_mut().enumerate().skip(known) {
            if let Some(function) = function {
                *function = names.without_text(number as u32);
            }
        }
        self.info.functions = names.finish();
        Ok(())
    }

    fn settle(&mut self, meta: Meta) {
        let functions = std::mem::take(&mut self.info.functions);
        self.info = meta.info;
        self.info.functions = functions;
        self.info.schedule = std::mem::take(&mut self.schedule);
        self.info.format = "Trace Compass state history, version 1".into();
        self.info.threads = self
            .threads
            .iter()
            .map(|known| known.thread.clone())
            .collect();
        let spans = self.threads.iter().filter_map(|known| known.span);
        let first = spans.map(|(first, _)| first).min();
        let start = first.unwrap_or(self.bounds.start).max(0) as u64;
        self.info.start.get_or_insert(Ticks(start));
    }
}
