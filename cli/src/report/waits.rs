//! What threads waited for: locks, conditions and channels, counted by the engine, and as rows for the outputs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::io;

use fdr_formats::note_words;
use fdr_formats::notes::{Note, NoteKind, reason, thread_state};
use fdr_formats::{Clock, FunctionId, Thread, ThreadId, Ticks, TraceInfo};
use serde::Serialize;

use super::names::{name_of, place_of};
use super::query::Selection;
use crate::memory;

/// The most objects with figures of their own. All further objects are counted as one without a name.
const MAX_OBJECTS: usize = 1 << 16;
/// The most functions of holders with figures of their own, for each object.
const MAX_HOLDERS: usize = 1 << 12;

/// The object of a wait: its name, or its number if it has no name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Object {
    pub(crate) reason: u8,
    name: u32,
    number: u64,
}

impl Object {
    /// An object with that name. If `name` is 0, the object has no name, and `number` identifies it.
    pub(crate) fn new(reason: u8, name: u32, number: u64) -> Object {
        let number = if name == 0 { number } else { 0 };
        Object {
            reason,
            name,
            number,
        }
    }

    pub(crate) fn in_words(self, info: &TraceInfo) -> String {
        match (self.name, self.number) {
            (0, 0) => "(not known)".to_owned(),
            (0, number) => format!("{number:#x}"),
            (name, _) => name_of(info, FunctionId(name)),
        }
    }
}

/// The waits for one object, or only those during which its holder was in one function.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    ticks: u64,
}

impl Sum {
    fn add(&mut self, more: Sum) {
        self.count += more.count;
        self.ticks = self.ticks.saturating_add(more.ticks);
    }
}

#[derive(Clone, Debug, Default)]
struct Stats {
    waits: Sum,
    longest: u64,
    threads: HashSet<ThreadId>,
    /// By what the holder was in: 0 = not known.
    holders: BTreeMap<u32, Sum>,
}

impl Stats {
    fn holder(&mut self, function: u32, sum: Sum) {
        let has_room = self.holders.len() < MAX_HOLDERS || self.holders.contains_key(&function);
        let function = if has_room { function } else { 0 };
        self.holders.entry(function).or_default().add(sum);
    }

    fn join(&mut self, more: &Stats) {
        self.waits.add(more.waits);
        self.longest = self.longest.max(more.longest);
        self.threads.extend(&more.threads);
        for (&function, &sum) in &more.holders {
            self.holder(function, sum);
        }
    }
}

/// A wait that has not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    object: Object,
    begin: Ticks,
    holder: u64,
    function: u32,
}

/// The waits of a trace, or of a worker's share of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    objects: BTreeMap<Object, Stats>,
    /// Of each thread its last state, and since when.
    last: BTreeMap<ThreadId, (Ticks, Option<Open>)>,
}

impl Waits {
    /// Takes a note, if it is of a thread's state.
    pub(crate) fn see(&mut self, thread: ThreadId, time: Ticks, kind: NoteKind, body: &[u8]) {
        if kind != NoteKind::ThreadState {
            return;
        }
        let Some(Note::ThreadState {
            object: number,
            holder,
            name,
            state,
            reason,
            function,
            waited,
        }) = Note::decode(kind, body)
        else {
            return;
        };
        let object = Object::new(reason, name, number);
        let open = (state == thread_state::BLOCKED).then_some(Open {
            object,
            begin: Ticks(time.0.saturating_sub(waited)),
            holder,
            function,
        });
        self.last.insert(thread, (time, open));
        if state == thread_state::RUNNING && reason != 0 {
            let sum = Sum {
                count: 1,
                ticks: waited,
            };
            let stats = entry(&mut self.objects, object);
            stats.waits.add(sum);
            stats.longest = stats.longest.max(waited);
            stats.threads.insert(thread);
            if reason == reason::LOCK {
                stats.holder(function, sum);
            }
        }
    }

    /// Adds those of another share, which may have a later part of the same threads.
    pub(super) fn join(&mut self, more: &Waits) {
        for (&object, stats) in &more.objects {
            entry(&mut self.objects, object).join(stats);
        }
        for (&thread, &state) in &more.last {
            let known = self.last.entry(thread).or_insert(state);
            if state.0 >= known.0 {
                *known = state;
            }
        }
    }

    /// The threads that still wait, those that wait for the longest time first. `since`: ns from that time on.
    pub(crate) fn open<'a>(
        &self,
        info: &TraceInfo,
        threads: impl Iterator<Item = &'a Thread> + Clone,
        since: impl Fn(Ticks) -> u64,
    ) -> Vec<OpenWait> {
        let name = |id: u64| {
            let mut known = threads.clone();
            let thread = known.find(|thread| thread.id.0 == id);
            thread.map_or_else(String::new, |thread| thread.name.clone())
        };
        let open = |(thread, (_, open)): (&ThreadId, &(Ticks, Option<Open>))| {
            let open = (*open)?;
            let known = |id: u32| (id > 0).then(|| name_of(info, FunctionId(id)));
            Some(OpenWait {
                thread: thread.0,
                thread_name: name(thread.0),
                name: open.object.in_words(info),
                reason: note_words::reason(open.object.reason).into_owned(),
                waiting_ns: since(open.begin),
                holder: (open.holder > 0).then_some(open.holder),
                holder_name: (open.holder > 0).then(|| name(open.holder)),
                holder_function: known(open.function),
            })
        };
        let mut rows: Vec<OpenWait> = self.last.iter().filter_map(open).collect();
        rows.sort_by_key(|row| (Reverse(row.waiting_ns), row.thread));
        rows
    }
}

fn entry(objects: &mut BTreeMap<Object, Stats>, object: Object) -> &mut Stats {
    let object = match objects.len() < MAX_OBJECTS || objects.contains_key(&object) {
        true => object,
        false => Object::default(),
    };
    objects.entry(object).or_default()
}

/// A thread that still waited when the trace was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct OpenWait {
    pub(crate) thread: u64,
    pub(crate) thread_name: String,
    /// What it waits for.
    pub(crate) name: String,
    pub(crate) reason: String,
    pub(crate) waiting_ns: u64,
    /// The thread that held it when the wait began, and what that one was in.
    pub(crate) holder: Option<u64>,
    pub(crate) holder_name: Option<String>,
    pub(crate) holder_function: Option<String>,
}

/// An object with the figures of its waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct WaitRow {
    pub(crate) name: String,
    pub(crate) reason: String,
    file: String,
    line: u32,
    id: u32,
    pub(crate) waits: u64,
    pub(crate) total_ns: u64,
    pub(crate) longest_ns: u64,
    pub(crate) threads: usize,
    /// What the holder was in when waits began, the largest part of the time first.
    pub(crate) holders: Vec<HolderRow>,
}

/// What a holder was in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HolderRow {
    /// `None`: not known.
    pub(crate) function: Option<String>,
    pub(crate) waits: u64,
    pub(crate) total_ns: u64,
    /// The share of the time that threads waited for the object.
    pub(crate) share: f64,
}

/// All of them: those for which threads waited longest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WaitRows {
    pub(crate) rows: Vec<WaitRow>,
    /// Rows that the limit left out.
    pub(crate) hidden: usize,
    /// The threads that still wait.
    pub(crate) open: Vec<OpenWait>,
}

impl WaitRows {
    /// Whether a thread waited for a lock.
    pub(crate) fn has_holders(&self) -> bool {
        let ended = self.rows.iter().any(|row| !row.holders.is_empty());
        ended || self.open.iter().any(|wait| wait.holder.is_some())
    }

    /// The rows of a trace whose last moment is `end`.
    ///
    /// # Errors
    /// Where they take too much memory.
    pub(super) fn new(
        info: &TraceInfo,
        waits: &Waits,
        open: Vec<OpenWait>,
        selection: &Selection,
    ) -> io::Result<WaitRows> {
        let mut rows = Vec::new();
        for (object, stats) in &waits.objects {
            memory::check()?;
            let name = object.in_words(info);
            let filter = selection.filter.as_ref();
            if filter.is_none_or(|filter| filter.matches(&name)) {
                rows.push(row(info, *object, name, stats));
            }
        }
        rows.sort_by(|a, b| {
            let order = b.total_ns.cmp(&a.total_ns);
            order.then_with(|| a.name.cmp(&b.name))
        });
        let all = rows.len();
        rows.truncate(selection.limit.unwrap_or(all));
        Ok(WaitRows {
            hidden: all - rows.len(),
            rows,
            open,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.open.is_empty()
    }
}

fn row(info: &TraceInfo, object: Object, name: String, stats: &Stats) -> WaitRow {
    let nanos = |ticks: u64| Clock::nanos(&info.clock, Ticks(ticks)).0;
    let (file, line) = place_of(info, FunctionId(object.name));
    let holder = |(&function, sum): (&u32, &Sum)| HolderRow {
        function: (function > 0).then(|| name_of(info, FunctionId(function))),
        waits: sum.count,
        total_ns: nanos(sum.ticks),
        share: match stats.waits.ticks {
            0 => 0.0,
            all => sum.ticks as f64 / all as f64,
        },
    };
    let mut holders: Vec<HolderRow> = stats.holders.iter().map(holder).collect();
    holders.sort_by_key(|holder| Reverse((holder.total_ns, holder.waits)));
    WaitRow {
        name,
        reason: note_words::reason(object.reason).into_owned(),
        file,
        line,
        id: object.name,
        waits: stats.waits.count,
        total_ns: nanos(stats.waits.ticks),
        longest_ns: nanos(stats.longest),
        threads: stats.threads.len(),
        holders,
    }
}

#[cfg(test)]
mod tests {
    use fdr_formats::filter::Filter;

    use super::*;
    use crate::report::all::ALL;
    use crate::testing::functions;

    const THREAD: ThreadId = ThreadId(7);

    /// A note at that time of a wait that began at 1000.
    fn note(waits: &mut Waits, time: u64, state: u8, reason: u8, name: u32, function: u32) {
        let note = Note::ThreadState {
            object: 0x40,
            holder: 8,
            name,
            state,
            reason,
            function,
            waited: time - 1000,
        };
        let body = note.encode().expect("a note");
        waits.see(THREAD, Ticks(time), NoteKind::ThreadState, &body);
    }

    fn info() -> TraceInfo {
        TraceInfo {
            functions: functions(&[(1, "queue"), (2, "app::flush")]),
            ..TraceInfo::default()
        }
    }

    fn rows(waits: &Waits, limit: Option<usize>, filter: Option<&str>) -> WaitRows {
        let selection = Selection {
            filter: filter.map(|filter| Filter::parse(filter).expect("a filter")),
            limit,
            ..ALL
        };
        let info = info();
        let open = waits.open(&info, info.threads.iter(), |begin| 5000 - begin.0);
        WaitRows::new(&info, waits, open, &selection).expect("memory")
    }

    const RUNNING: u8 = thread_state::RUNNING;
    const BLOCKED: u8 = thread_state::BLOCKED;

    #[test]
    fn ended_waits_count_and_shares_are_times() {
        let (mut waits, mut later) = (Waits::default(), Waits::default());
        note(&mut waits, 1010, BLOCKED, reason::LOCK, 1, 2);
        note(&mut waits, 1300, RUNNING, reason::LOCK, 1, 2);
        note(&mut later, 1100, RUNNING, reason::LOCK, 1, 0);
        note(&mut later, 1050, RUNNING, reason::CONDITION, 0, 0);
        // A state without a reason ends no wait.
        note(&mut later, 1060, RUNNING, 0, 0, 0);
        waits.join(&later);
        let found = rows(&waits, None, None);
        let [queue, condition] = &found.rows[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (queue.name.as_str(), queue.reason.as_str()),
            ("queue", "lock")
        );
        let figures = (queue.waits, queue.total_ns, queue.longest_ns, queue.threads);
        assert_eq!(figures, (2, 400, 300, 1));
        let holders = queue.holders.iter();
        let holders: Vec<_> = holders
            .map(|holder| (holder.function.as_deref(), holder.waits, holder.share))
            .collect();
        assert_eq!(holders, [(Some("app::flush"), 1, 0.75), (None, 1, 0.25)]);
        assert_eq!((condition.name.as_str(), condition.total_ns), ("0x40", 50));
        assert_eq!(
            (condition.reason.as_str(), condition.holders.len()),
            ("condition", 0)
        );
        assert_eq!(found.open, []);
        let one = rows(&waits, Some(1), None);
        assert_eq!((one.rows.len(), one.hidden), (1, 1));
        assert_eq!(rows(&waits, None, Some("0x*")).rows.len(), 1);
    }

    #[test]
    fn threads_wait_until_their_next_state() {
        let (mut waits, mut later) = (Waits::default(), Waits::default());
        note(&mut waits, 1010, BLOCKED, reason::LOCK, 1, 2);
        let open = OpenWait {
            thread: 7,
            thread_name: String::new(),
            name: "queue".to_owned(),
            reason: "lock".to_owned(),
            waiting_ns: 4000,
            holder: Some(8),
            holder_name: Some(String::new()),
            holder_function: Some("app::flush".to_owned()),
        };
        assert_eq!(rows(&waits, None, None).open, [open]);
        // The later part of the thread decides, whichever comes first.
        note(&mut later, 1300, RUNNING, reason::LOCK, 1, 2);
        let mut joined = later.clone();
        joined.join(&waits);
        assert_eq!(rows(&joined, None, None).open, []);
        waits.join(&later);
        assert_eq!(rows(&waits, None, None).open, []);
    }
}
