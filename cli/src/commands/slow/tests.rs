//! What is found in traces of a few hundred calls with a planted cause. 1 tick = 1 ns.

use fdr_formats::filter::Filter;
use fdr_formats::{Call, Ticks, TraceInfo};

use super::*;
use crate::calls::cause::Cause;
use crate::calls::findings::Findings;
use crate::calls::words::sentence;
use crate::testing::functions;
use crate::testing::{MemoryTrace, entry, exit, synthetic};

pub(super) const HANDLE: u32 = 1;
const PUT: u32 = 2;
pub(super) const LOCK: u32 = 3;
const RENDER: u32 = 4;
pub(super) const COMPACT: u32 = 5;
pub(super) const SERVE: u32 = 6;

const NAMES: [(u32, &str); 6] = [
    (HANDLE, "app::handle"),
    (PUT, "app::put"),
    (LOCK, "app::lock"),
    (RENDER, "app::render"),
    (COMPACT, "app::compact"),
    (SERVE, "app::serve"),
];

pub(super) const ALL: Query<'_> = Query {
    filter: None,
    over: None,
    chosen: None,
    most: DEFAULT_CALLS,
    of_each: DEFAULT_CALLS_OF_EACH,
    causes: None,
    may_be_whole: true,
};

/// The calls of a thread, one after the other.
#[derive(Default)]
pub(super) struct Script {
    pub(super) now: u64,
    pub(super) calls: Vec<Call>,
}

impl Script {
    pub(super) fn call(&mut self, function: u32, inside: impl FnOnce(&mut Script)) {
        self.calls.push(entry(self.now, function));
        inside(self);
        self.calls.push(exit(self.now, function));
    }

    pub(super) fn pass(&mut self, ns: u64) {
        self.now += ns;
    }

    /// A request that is in [`LOCK`] for `lock` ns, and that calls [`RENDER`] `renders` times.
    pub(super) fn request(&mut self, lock: u64, renders: u32) {
        self.call(HANDLE, |script| {
            script.pass(100);
            script.call(PUT, |script| {
                script.pass(200);
                script.call(LOCK, |script| script.pass(lock));
            });
            for _ in 0..renders {
                script.call(RENDER, |script| script.pass(300));
            }
        });
        self.pass(50);
    }

    pub(super) fn usual(&mut self, requests: u32) {
        (0..requests).for_each(|_| self.request(20, 2));
    }
}

pub(super) fn trace(threads: &[(u64, &[Call])]) -> MemoryTrace {
    let mut trace = MemoryTrace::new(threads);
    trace.info.functions = functions(&NAMES);
    trace
}

pub(super) fn found(source: &dyn Source, query: &Query<'_>) -> Findings {
    let name = Path::new("memory");
    let report = Report::of_all(name, source).expect("in memory");
    find(query, name, source, &report).expect("in memory")
}

pub(super) fn sentences(trace: &MemoryTrace, query: &Query<'_>) -> Vec<String> {
    let found = found(trace, query);
    let list = found.list.iter();
    list.map(|finding| sentence(&trace.info, finding)).collect()
}

#[test]
fn waits_are_followed_to_another_thread() {
    let mut worker = Script::default();
    worker.usual(50);
    let slow = worker.now;
    worker.request(1_000_000, 2);
    worker.usual(50);
    let mut other = Script::default();
    other.call(SERVE, |other| {
        other.pass(slow - 1000);
        other.call(COMPACT, |other| other.pass(900_000));
        other.pass(worker.now);
    });
    let trace = trace(&[(7, &worker.calls), (8, &other.calls)]);
    let found = found(&trace, &ALL);
    assert_eq!(found.list.len(), 1, "a slow call inside of it is not shown");
    let finding = &found.list[0];
    let names = finding.explained.path.iter().map(|step| step.function.0);
    assert_eq!(names.collect::<Vec<_>>(), [HANDLE, PUT, LOCK]);
    assert_eq!((finding.call.thread.0, finding.call.start.0), (7, slow));
    assert_eq!((finding.usual.p50, finding.usual.calls), (923, 101));
    let lock = finding.explained.path[2];
    assert_eq!((lock.total, lock.usual), (1_000_000.0, 20.0));
    let words = sentence(&trace.info, finding);
    let wanted = "100.0 % of the excess is in app::lock itself, while 8 was in app::compact.";
    assert_eq!(words, wanted);
}

#[test]
fn many_calls_of_usual_length_are_reported() {
    let mut worker = Script::default();
    worker.usual(60);
    worker.request(20, 9000);
    let sentences = sentences(&trace(&[(7, &worker.calls)]), &ALL);
    let wanted = "100.0 % of the excess is in app::render, which was called 9,000 times, and usually 2 times.";
    assert_eq!(sentences, [wanted]);
}

#[test]
fn an_excess_without_a_place_is_spread() {
    let mut worker = Script::default();
    worker.usual(60);
    worker.call(HANDLE, |script| {
        script.pass(33_000);
        script.call(PUT, |script| script.pass(33_000));
        script.call(RENDER, |script| script.pass(33_000));
    });
    let trace = trace(&[(7, &worker.calls)]);
    assert_eq!(
        sentences(&trace, &ALL),
        ["No call inside has most of the excess."]
    );
    let found = found(&trace, &ALL);
    let spread = found.list[0].explained.spread.iter();
    let spread: Vec<u32> = spread.map(|step| step.function.0).collect();
    assert_eq!(spread, [PUT, RENDER]);
}

#[test]
fn nothing_stands_out_where_all_calls_are_alike() {
    let mut worker = Script::default();
    worker.usual(200);
    let trace = trace(&[(7, &worker.calls)]);
    assert_eq!(found(&trace, &ALL).list.len(), 0);
    // Calls that are asked for are shown, and are as usual.
    let filter = Filter::parse("app::handle").expect("a glob");
    let query = Query {
        filter: Some(&filter),
        of_each: 3,
        causes: None,
        ..ALL
    };
    let words = sentences(&trace, &query);
    assert_eq!(words.len(), 3);
    assert_eq!(words[0], "The call took no longer than usual.");
}

#[test]
fn open_calls_last_until_the_dump() {
    let mut worker = Script::default();
    worker.usual(60);
    let since = worker.now;
    worker.calls.push(entry(since, HANDLE));
    worker.calls.push(entry(since + 100, LOCK));
    let end = since + 5_000_000;
    worker.calls.push(synthetic(exit(end, LOCK)));
    worker.calls.push(synthetic(exit(end, HANDLE)));
    let mut trace = trace(&[(7, &worker.calls)]);
    trace.info.end = Some(Ticks(end));
    let found = found(&trace, &ALL);
    let call = &found.list[0].call;
    assert!(call.is_open);
    assert_eq!((call.function.0, call.total), (HANDLE, 5_000_000));
    let words = sentence(&trace.info, &found.list[0]);
    assert_eq!(words, "100.0 % of the excess is in app::lock itself.");
}

#[test]
fn only_calls_over_the_time_are_shown() {
    let mut worker = Script::default();
    worker.usual(30);
    worker.request(5_000, 2);
    let trace = trace(&[(7, &worker.calls)]);
    assert_eq!(found(&trace, &ALL).list.len(), 0, "5 times the usual");
    let over = |ns| Query {
        over: Some(ns),
        of_each: DEFAULT_CALLS,
        causes: None,
        ..ALL
    };
    assert_eq!(found(&trace, &over(5_900)).list.len(), 1);
    assert_eq!(found(&trace, &over(5_901)).list.len(), 0);
}

#[test]
fn answers_do_not_depend_on_lanes() {
    let mut one = Script::default();
    one.usual(80);
    one.request(700_000, 2);
    let mut two = Script::default();
    two.usual(80);
    two.request(20, 4000);
    let lanes = trace(&[(7, &one.calls), (8, &two.calls)]);
    let text = |trace: &MemoryTrace| {
        let mut out = Vec::new();
        show::write(&mut out, &trace.info, &found(trace, &ALL)).expect("memory");
        String::from_utf8(out).expect("UTF-8")
    };
    let wanted = text(&lanes);
    assert!(wanted.contains("#2 · "), "{wanted}");
    // The same calls in the order of their times, in many small lanes.
    let mut all: Vec<(u64, Call)> = Vec::new();
    all.extend(one.calls.iter().map(|call| (7, *call)));
    all.extend(two.calls.iter().map(|call| (8, *call)));
    all.sort_by_key(|(thread, call)| (call.time, *thread));
    let one_by_one: Vec<(u64, &[Call])> = all
        .iter()
        .map(|(thread, call)| (*thread, std::slice::from_ref(call)))
        .collect();
    let mixed = MixedTrace(trace(&one_by_one));
    let mut out = Vec::new();
    let found = found(&mixed, &ALL);
    show::write(&mut out, mixed.info(), &found).expect("memory");
    assert_eq!(String::from_utf8(out).expect("UTF-8"), wanted);
}

/// All threads in one lane.
struct MixedTrace(MemoryTrace);

impl Source for MixedTrace {
    fn info(&self) -> &TraceInfo {
        self.0.info()
    }

    fn decode(
        &self,
        _: usize,
        sink: &mut dyn fdr_formats::Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), fdr_formats::Error> {
        (0..self.0.lanes()).try_for_each(|lane| self.0.decode(lane, sink, progress))
    }

    fn records(
        &self,
        visit: &mut dyn FnMut(&fdr_formats::source::Record<'_>) -> std::ops::ControlFlow<()>,
    ) -> Result<(), fdr_formats::Error> {
        self.0.records(visit)
    }
}

/// Two threads of a pool that run requests, each of which has two halves. While one request waits, its thread runs what
/// `other` does, such as halves of other requests.
fn pool(other: impl FnOnce(&mut Script)) -> MemoryTrace {
    let request = |script: &mut Script| {
        script.call(HANDLE, |script| {
            script.call(RENDER, |script| script.pass(1000));
            script.call(RENDER, |script| script.pass(1000));
        });
        script.pass(50);
    };
    let (mut one, mut two) = (Script::default(), Script::default());
    for script in [&mut one, &mut two] {
        (0..40).for_each(|_| request(script));
        // A thread that does not wait runs a half outside of any request.
        script.call(RENDER, |script| script.pass(1000));
    }
    one.call(HANDLE, |script| {
        script.call(RENDER, |script| script.pass(1000));
        other(script);
        script.call(RENDER, |script| script.pass(1000));
    });
    trace(&[(1, &one.calls), (2, &two.calls)])
}

/// The cause and the sentence of the slowest call.
fn sentence_of(trace: &MemoryTrace) -> (Cause, String) {
    let found = found(trace, &ALL);
    let finding = found.list.first().expect("a slow call");
    (finding.explained.cause, sentence(&trace.info, finding))
}

#[test]
fn work_of_others_is_not_blamed() {
    let may = "Several threads make such calls outermost, too, so this thread may have run other work while the call waited.";
    // Halves of others, and whole requests of others.
    let halves = pool(|script| {
        (0..40).for_each(|_| script.call(RENDER, |script| script.pass(1000)));
    });
    let (cause, words) = sentence_of(&halves);
    assert_eq!(cause, Cause::OtherWork);
    let what = "of the excess is in 42 calls of app::render (usually 2). ";
    assert!(words.contains(what) && words.ends_with(may), "{words}");
    let requests = pool(|script| {
        for _ in 0..20 {
            script.call(HANDLE, |script| {
                (0..2).for_each(|_| script.call(RENDER, |script| script.pass(1000)));
            });
        }
    });
    let (cause, words) = sentence_of(&requests);
    assert_eq!(cause, Cause::OtherWork);
    let what = "of the excess is in 20 calls of app::handle (usually 0). ";
    assert!(words.contains(what) && words.ends_with(may), "{words}");
}

#[test]
fn slow_work_of_its_own_is_blamed() {
    // As many halves as usual; and a function that no thread runs by itself.
    let slow = pool(|script| script.call(COMPACT, |script| script.pass(40_000)));
    let (cause, words) = sentence_of(&slow);
    assert_eq!(cause, Cause::Itself, "{words}");
    assert!(words.contains("in app::compact itself"), "{words}");
}
