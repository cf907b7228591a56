//! The first pass over a file: kind, threads, functions, clock and damage. Memory is these. The pass must
//! never keep entries.

use std::collections::HashMap;

use super::facts;
use super::names::Names;
use super::notes;
use super::record::{Container, Decoded, Entry, HEAD_SIZE, Value, Version, decode_head};
use super::scan::{self, FIRST, Flow, Frame, Layout};
use super::tables::{self, Tables};
use crate::bytes::ReadAt;
use crate::error::{Diagnostic, DiagnosticList, Error};
use crate::model::{Thread, ThreadId, Ticks, TraceInfo};

/// The result of the first pass.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) layout: Layout,
    pub(super) info: TraceInfo,
    pub(super) names: Names,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Whether the entries have times. If no entry has one, their order replaces the time.
    pub(super) timed: bool,
    /// The number of damaged entries. Other entries may name them as their parents.
    pub(super) holes: u64,
}

/// Reads a file once.
pub(super) fn index(bytes: &dyn ReadAt) -> Result<Index, Error> {
    let mut diagnostics = DiagnosticList::default();
    let layout = layout(bytes, &mut diagnostics)?;
    let mut pass = Pass {
        diagnostics,
        layout,
        info: TraceInfo {
            format: layout.kind.to_string(),
            ..TraceInfo::default()
        },
        names: Names::default(),
        thread_of: HashMap::new(),
        described: false,
        timed: 0,
        untimed: 0,
        first_untimed: 0,
        holes: 0,
        sum: 0,
        entries: 0,
        start: None,
    };
    let missing = scan::each(bytes, &layout, &mut |frame: &Frame<'_>| {
        pass.look(frame);
        Flow::On
    })?;
    if let Some((offset, what)) = missing {
        pass.diagnostics.add(offset, what);
    }
    pass.pool();
    Ok(pass.finish())
}

/// Head and tables.
fn layout(bytes: &dyn ReadAt, diagnostics: &mut DiagnosticList) -> Result<Layout, Error> {
    let mut head = [0; HEAD_SIZE];
    let count = bytes.read_at(0, &mut head)?;
    let kind = decode_head(head.get(..count).unwrap_or(&[]));
    let kind = kind.map_err(|bad| Error::format(0, bad.to_string()))?;
    let mut layout = Layout {
        kind,
        first: FIRST,
        tables: None,
        size: bytes.size(),
    };
    if kind.container != Container::Et {
        return Ok(layout);
    }
    match tables::survey(bytes, kind.version)? {
        Ok(tables) => {
            (layout.first, layout.tables) = (tables.entries, Some(tables));
            if let Some((offset, what)) = tables.wrong {
                diagnostics.add(
                    offset,
                    format!("{what}: only the entries themselves were relied on"),
                );
            }
        }
        Err((offset, why)) => {
            let root = tables::find_root(bytes, kind.version, FIRST)?;
            layout.first = root.unwrap_or(layout.size);
            let done = match root {
                Some(root) => format!("the entries were found by their root at byte {root}"),
                None => "no entry was found".to_owned(),
            };
            let what = format!("the tables of offsets and children can't be read ({why}): {done}");
            diagnostics.add(offset, what);
        }
    }
    Ok(layout)
}

struct Pass {
    diagnostics: DiagnosticList,
    layout: Layout,
    info: TraceInfo,
    names: Names,
    thread_of: HashMap<ThreadId, usize>,
    /// There is an entry about the trace.
    described: bool,
    timed: u64,
    untimed: u64,
    first_untimed: u64,
    holes: u64,
    /// The sum over all (parent, entry), to be compared with the pool's sum.
    sum: u64,
    entries: u64,
    start: Option<Ticks>,
}

impl Pass {
    fn look(&mut self, frame: &Frame<'_>) {
        if let Some(problem) = &frame.problem {
            self.diagnostics.add(frame.offset, problem);
        }
        let Some(decoded) = &frame.content else {
            self.holes += 1;
            return;
        };
        self.entries += 1;
        let parent = u64::from(decoded.entry.parent);
        if frame.index == 0 {
            if parent != 0 {
                let what = format!("the root has the parent {parent}: ignored");
                self.diagnostics.add(frame.offset, what);
            }
            return;
        }
        tables::add(&mut self.sum, parent, frame.index);
        if parent >= frame.index {
            let what = format!(
                "entry {} has the parent {parent}, which does not come before it: its place was \
                 told from its time",
                frame.index
            );
            self.diagnostics.add(frame.offset, what);
        }
        let entry = &decoded.entry;
        if self.layout.kind.version == Version::V2 && !entry.is_sorted() {
            let what = "the attributes are not sorted: ENTRACE's own tools may not find them";
            self.diagnostics.add(frame.offset, what);
        }
        if entry.metadata.target == facts::TARGET && self.own(entry) {
            return;
        }
        if notes::is_note(entry) {
            return self.timed(entry);
        }
        self.call(frame, decoded);
    }

    /// An entry that this project adds. Returns false for all other entries.
    fn own(&mut self, entry: &Entry<'_>) -> bool {
        match entry.metadata.name {
            facts::TRACE => {
                facts::decode_trace(entry, &mut self.info);
                self.described = true;
            }
            facts::FUNCTION => {
                if let Some(function) = facts::decode_function(entry) {
                    self.names.describe(function);
                }
            }
            facts::THREAD => {
                if let Some(thread) = facts::decode_thread(entry) {
                    let place = self.thread(thread.id);
                    self.info.threads[place] = thread;
                }
            }
            facts::CUSTOM | facts::TYPED | facts::LOST | facts::WALL => {
                self.timed(entry);
            }
            _ => return false,
        }
        true
    }

    /// The thread and the time of an event.
    fn timed(&mut self, entry: &Entry<'_>) {
        if let Some(thread) = facts::unsigned(entry, "tid") {
            self.thread(ThreadId(thread));
        }
        if let Some(start) = facts::unsigned(entry, "start_ns") {
            self.reach(Ticks(start));
        }
    }

    fn call(&mut self, frame: &Frame<'_>, decoded: &Decoded<'_>) {
        match when(&decoded.entry) {
            Some((thread, start)) => {
                self.timed += 1;
                self.thread(thread);
                self.reach(start);
            }
            None => {
                if self.untimed == 0 {
                    self.first_untimed = frame.offset;
                }
                self.untimed += 1;
            }
        }
        self.names.call(decoded);
    }

    fn reach(&mut self, time: Ticks) {
        self.start = Some(self.start.map_or(time, |known| known.min(time)));
    }

    fn thread(&mut self, id: ThreadId) -> usize {
        let threads = &mut self.info.threads;
        *self.thread_of.entry(id).or_insert_with(|| {
            threads.push(Thread {
                id,
                ..Thread::default()
            });
            threads.len() - 1
        })
    }

    /// Compares an ET's pool with the entries. The entries count.
    fn pool(&mut self) {
        let complete = |tables: &Tables| tables.count == self.entries && tables.wrong.is_none();
        let Some(tables) = self.layout.tables.filter(complete) else {
            return;
        };
        if tables.sum != self.sum {
            let what = "the pool has other children than the entries' own parents say, which were \
                        taken";
            self.diagnostics.add(tables.pool, what);
        }
    }

    fn finish(mut self) -> Index {
        let timed = self.described || self.timed > 0;
        if timed && self.untimed > 0 {
            let what = format!(
                "{} entries without `start_ns` and `tid` among others that have them: left out",
                self.untimed
            );
            self.diagnostics.add(self.first_untimed, what);
        }
        if timed {
            let start = self.info.start.into_iter().chain(self.start).min();
            self.info.start = start;
        } else {
            self.info.format.push_str(", without times");
            self.info.start = Some(Ticks(0)).filter(|_| self.untimed > 0);
            if self.untimed > 0 && self.info.threads.is_empty() {
                self.thread(ThreadId(1));
            }
        }
        self.info.functions = self.names.settle();
        Index {
            layout: self.layout,
            info: self.info,
            names: self.names,
            diagnostics: self.diagnostics.finish(),
            timed,
            holes: self.holes,
        }
    }
}

/// Thread and time of an entry, if it has both.
pub(super) fn when(entry: &Entry<'_>) -> Option<(ThreadId, Ticks)> {
    let (mut thread, mut time) = (None, None);
    for (name, value) in &entry.attributes {
        match (*name, value) {
            ("tid", Value::U64(value)) => thread = Some(ThreadId(*value)),
            ("start_ns", Value::U64(value)) => time = Some(Ticks(*value)),
            _ => {}
        }
    }
    thread.zip(time)
}
