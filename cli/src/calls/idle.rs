//! Idle calls: the thread has nothing to do, and waits for work. They are no cause of slowness, so they are set aside.

use std::ops::Range;

use fdr_formats::calls::EndedCall;
use fdr_formats::model::NoteKind;
use fdr_formats::notes::{Note, reason, thread_state};
use fdr_formats::states::States;
use fdr_formats::{Error, FunctionId, Source, ThreadId, Ticks};
use foldhash::{HashMap, HashMapExt};

use super::query::ticks;
use super::slow_call::SlowCall;
use crate::report::function_rows::Row;
use crate::stacks::{self, Pass};

/// Words in the last part of a function's name that say that its calls wait for work.
const WORDS: [&str; 8] = [
    "accept", "dequeue", "idle", "park", "pop", "receive", "recv", "wait",
];
/// Words that may say so. Functions of these names also compute. A call is idle only if it surely waited, or if its states
/// are not known and the function's calls as a whole waited.
const VAGUE_WORDS: [&str; 3] = ["next", "poll", "select"];
/// The least part of a call's time of which the states are known, if they decide.
const MIN_KNOWN: f64 = 0.5;
/// The least part of its known time that the thread waits in an idle call.
const MIN_WAITING: f64 = 0.9;
/// A call is not idle if another thread waited at least so long for a lock that the thread of the call had.
const MIN_WAITED_NS: u64 = 100_000;

/// The rule that tells idle calls from others.
pub(crate) struct IdleRule<'a> {
    /// The functions whose names have such a word, and whether calls of unknown states are idle.
    functions: HashMap<FunctionId, bool>,
    states: Option<&'a States>,
    waited_for: WaitedFor,
    min_waited: u64,
}

/// By the holder of a lock, the times in which another thread waited for it: in order, and none overlaps another.
type WaitedFor = HashMap<ThreadId, Vec<Range<Ticks>>>;

/// The idle calls of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdleFunction {
    pub(crate) function: FunctionId,
    pub(crate) calls: u64,
    /// The sums of their times, and of the time in which their threads surely waited. Ticks.
    pub(crate) total: u64,
    pub(crate) waiting: u64,
}

impl<'a> IdleRule<'a> {
    /// `has_locks`: the trace knows of waits for locks, so it is read for their holders.
    ///
    /// # Errors
    /// If the trace can't be read.
    pub(crate) fn new(
        source: &dyn Source,
        rows: &[Row],
        states: Option<&'a States>,
        has_locks: bool,
    ) -> Result<IdleRule<'a>, Error> {
        let functions = rows.iter().filter_map(|row| {
            let is_vague = is_vague(&row.name)?;
            Some((FunctionId(row.id), !is_vague || waits_as_a_whole(row)))
        });
        let functions: HashMap<FunctionId, bool> = functions.collect();
        let min_waited = ticks(&source.info().clock, MIN_WAITED_NS);
        let waited_for = match has_locks && !functions.is_empty() {
            true => HolderPass::gather(stacks::run(source, || HolderPass::new(min_waited))?),
            false => HashMap::new(),
        };
        Ok(IdleRule {
            functions,
            states,
            waited_for,
            min_waited,
        })
    }

    /// Whether the calls of a function may be idle, by its name.
    pub(crate) fn names(&self, function: FunctionId) -> bool {
        self.functions.contains_key(&function)
    }

    /// If a call is idle, the ticks in which its thread surely waited. Whether it is inside of other work is not known
    /// here.
    pub(crate) fn waiting(&self, call: &SlowCall) -> Option<u64> {
        let is_presumed = *self.functions.get(&call.function)?;
        let known = self
            .states
            .map(|states| states.in_stretch(call.thread, call.start, call.end))
            .unwrap_or_default();
        let (waiting, total) = (known.spent.waiting.0, known.spent.total().0);
        let is_waiting = match total as f64 >= MIN_KNOWN * call.total as f64 {
            true => waiting as f64 >= MIN_WAITING * total as f64,
            false => is_presumed,
        };
        (is_waiting && !self.is_waited_for(call)).then_some(waiting)
    }

    /// Whether another thread waited for a lock that the thread of the call had.
    fn is_waited_for(&self, call: &SlowCall) -> bool {
        let waits = self.waited_for.get(&call.thread);
        let waits = waits.map_or(&[][..], Vec::as_slice);
        let first = waits.partition_point(|wait| wait.end <= call.start);
        let there = waits[first..]
            .iter()
            .take_while(|wait| wait.start < call.end);
        let mut shared = there.map(|wait| wait.end.min(call.end).since(wait.start.max(call.start)));
        shared.any(|ticks| ticks.0 >= self.min_waited)
    }
}

/// Whether the calls of a function waited nearly always, if the states of most of their time are known.
fn waits_as_a_whole(row: &Row) -> bool {
    let states = row.states.unwrap_or_default().total;
    let known = states.running_ns + states.preempted_ns + states.waiting_ns;
    let all = known + states.unknown_ns;
    let is_known = known > 0 && known as f64 >= MIN_KNOWN * all as f64;
    is_known && states.waiting_ns as f64 >= MIN_WAITING * known as f64
}

/// Whether the word in a name that says that the function waits is vague. `None`: there is no such word.
fn is_vague(name: &str) -> Option<bool> {
    let last = name.rsplit("::").next()?;
    let words = last.split(|char: char| !char.is_alphanumeric());
    let words: Vec<String> = words.map(str::to_lowercase).collect();
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(&word.as_str()));
    match has(&WORDS) {
        true => Some(false),
        false => has(&VAGUE_WORDS).then_some(true),
    }
}

/// Looks for the holders of locks that other threads waited for.
struct HolderPass {
    /// Shorter waits are left out.
    min_waited: u64,
    thread: ThreadId,
    waits: Vec<(ThreadId, Range<Ticks>)>,
    /// The latest note of each thread. If it waits there: for which holder, and since when.
    last: HashMap<ThreadId, (Ticks, Option<(ThreadId, Ticks)>)>,
}

impl HolderPass {
    fn new(min_waited: u64) -> HolderPass {
        HolderPass {
            min_waited,
            thread: ThreadId::default(),
            waits: Vec::new(),
            last: HashMap::new(),
        }
    }

    fn gather(passes: Vec<HolderPass>) -> WaitedFor {
        let (mut waits, mut last) = (Vec::new(), HashMap::new());
        for pass in passes {
            waits.extend(pass.waits);
            for (thread, note) in pass.last {
                let known = last.entry(thread).or_insert(note);
                *known = note.max(*known);
            }
        }
        let open = last.into_values().filter_map(|(_, open)| open);
        waits.extend(open.map(|(holder, begin)| (holder, begin..Ticks(u64::MAX))));
        waits.sort_unstable_by_key(|(holder, wait)| (*holder, wait.start));
        let mut found = WaitedFor::new();
        for (holder, wait) in waits {
            let known = found.entry(holder).or_default();
            match known.last_mut() {
                Some(before) if wait.start <= before.end => before.end = before.end.max(wait.end),
                _ => known.push(wait),
            }
        }
        found
    }
}

impl Pass for HolderPass {
    type Data = ();

    fn thread(&mut self, thread: ThreadId) {
        self.thread = thread;
    }

    fn ended(&mut self, _: &EndedCall<()>, _: bool) {}

    fn note(&mut self, (): (), time: Ticks, kind: NoteKind, body: &[u8]) {
        let Some(Note::ThreadState {
            holder,
            state,
            reason: why,
            waited,
            ..
        }) = Note::decode(kind, body)
        else {
            return;
        };
        let is_for_holder = holder > 0 && why == reason::LOCK;
        let (holder, begin) = (ThreadId(holder), Ticks(time.0.saturating_sub(waited)));
        let open = is_for_holder && state == thread_state::BLOCKED;
        let open = open.then_some((holder, begin));
        self.last.insert(self.thread, (time, open));
        if is_for_holder && open.is_none() && waited >= self.min_waited {
            self.waits.push((holder, begin..time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_name_decides() {
        assert_eq!(is_vague("app::pool::Worker::next_job"), Some(true));
        assert_eq!(is_vague("<app::Queue as app::Source>::pop"), Some(false));
        assert_eq!(is_vague("app::wait_for_work"), Some(false));
        assert_eq!(is_vague("recv jobs"), Some(false));
        for other in ["app::recv::parse", "app::populate", "app::nextest", ""] {
            assert_eq!(is_vague(other), None, "{other}");
        }
    }
}
