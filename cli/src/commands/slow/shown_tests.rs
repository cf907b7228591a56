//! Which slow calls are shown, and in how many columns. 1 tick = 1 ns.

use std::ops::ControlFlow;

use fdr_formats::notes::{NoteKind, thread_state};
use fdr_formats::source::Record;
use fdr_formats::{FunctionId, Mark, Sink, Thread, ThreadId, Ticks, TraceInfo};

use super::tests::{ALL, COMPACT, HANDLE, LOCK, SERVE, Script, found, trace};
use super::*;
use crate::calls::findings::Findings;
use crate::testing::MemoryTrace;

const MS: u64 = 1_000_000;

fn functions(found: &Findings) -> Vec<u32> {
    let list = found.list.iter();
    list.map(|finding| finding.call.function.0).collect()
}

fn text(source: &dyn Source, found: &Findings, width: usize) -> String {
    let mut out = Vec::new();
    show::write_within(&mut out, source.info(), found, width).expect("memory");
    String::from_utf8(out).expect("UTF-8")
}

/// Usual requests, and slow requests that wait for these times in ms.
fn slow_requests(times: &[u64]) -> Script {
    let mut worker = Script::default();
    worker.usual(50);
    for ms in times {
        worker.request(ms * MS, 2);
        worker.usual(5);
    }
    worker
}

#[test]
fn calls_inside_hidden_slow_calls_are_hidden() {
    let mut worker = slow_requests(&[5, 4, 3, 2, 1]);
    let requests = found(&trace(&[(7, &worker.calls)]), &ALL);
    assert_eq!(functions(&requests), [HANDLE, HANDLE]);
    assert_eq!(requests.hidden_calls, [(FunctionId(HANDLE), 3)]);
    assert_eq!(requests.list[0].slow_calls, Some(5));
    // The same function outside of them is shown.
    worker.call(LOCK, |script| script.pass(MS / 2));
    let trace = trace(&[(7, &worker.calls)]);
    let others = found(&trace, &ALL);
    assert_eq!(functions(&others), [HANDLE, HANDLE, LOCK]);
    let text = text(&trace, &others, 80);
    let wanted = "\n3 more slow calls of app::handle: --limit 6\n";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn hidden_calls_are_named_by_function() {
    let mut worker = slow_requests(&[5, 4, 3, 2, 1]);
    let mut counts = vec![(FunctionId(LOCK), 1_200), (FunctionId(SERVE), 7)];
    counts.extend([
        (FunctionId(COMPACT), 6),
        (FunctionId(HANDLE), 5),
        (FunctionId(99), 4),
    ]);
    worker.usual(1);
    let trace = trace(&[(7, &worker.calls)]);
    let mut found = found(&trace, &ALL);
    found.hidden_calls = counts;
    found.is_chosen = true;
    let text = text(&trace, &found, usize::MAX);
    let wanted = "\n1,200 more calls of app::lock, 7 of app::serve, 6 of app::compact";
    assert!(text.contains(wanted), "{text}");
    assert!(text.contains("9 of 2 other functions"), "{text}");
    assert!(text.contains("--limit 20\n"), "{text}");
}

#[test]
fn spanning_calls_hide_no_requested_calls() {
    let worker = slow_requests(&[5, 4]);
    let mut all = Script::default();
    all.call(SERVE, |all| {
        all.pass(100);
        let shifted = worker.calls.iter().map(|call| fdr_formats::Call {
            time: Ticks(call.time.0 + all.now),
            ..*call
        });
        all.calls.extend(shifted);
        all.pass(worker.now + 100);
    });
    let trace = trace(&[(7, &all.calls)]);
    let over = |ns| Query {
        over: Some(ns),
        of_each: DEFAULT_CALLS,
        causes: None,
        ..ALL
    };
    let long = found(&trace, &over(3 * MS));
    assert_eq!(functions(&long), [HANDLE, HANDLE, SERVE]);
}

#[test]
fn rare_long_calls_hide_those_inside() {
    let mut worker = slow_requests(&[1]);
    worker.call(COMPACT, |script| {
        script.pass(MS);
        script.call(LOCK, |script| script.pass(3 * MS));
    });
    worker.pass(5 * MS);
    worker.usual(1);
    let over = Query {
        over: Some(MS / 2),
        of_each: DEFAULT_CALLS,
        causes: None,
        ..ALL
    };
    let found = found(&trace(&[(7, &worker.calls)]), &over);
    assert_eq!(functions(&found), [HANDLE, COMPACT]);
}

/// A trace whose last thread waits for a lock, and says so.
struct WaitingTrace<'a>(&'a MemoryTrace, NoteKind, Vec<u8>);

impl Source for WaitingTrace<'_> {
    fn info(&self) -> &TraceInfo {
        self.0.info()
    }

    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), fdr_formats::Error> {
        self.0.decode(lane, sink, progress)?;
        sink.thread(&Thread {
            id: ThreadId(9),
            ..Thread::default()
        });
        sink.mark(&Mark::Note {
            time: Ticks(1),
            kind: self.1,
            body: &self.2,
        });
        Ok(())
    }

    fn records(
        &self,
        visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>,
    ) -> Result<(), fdr_formats::Error> {
        self.0.records(visit)
    }
}

/// The body of a note of a wait that took `waited` ticks.
fn wait(waited: u64) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(7u64.to_le_bytes());
    body.extend(0u64.to_le_bytes());
    body.extend(0u32.to_le_bytes());
    body.extend([thread_state::RUNNING, 1, 0, 0]);
    body.extend(0u64.to_le_bytes());
    body.extend(waited.to_le_bytes());
    body
}

#[test]
fn lines_fit_and_locks_are_named() {
    let worker = slow_requests(&[50, 40]);
    let mut trace = trace(&[(7, &worker.calls)]);
    trace.info.schedule = super::states_tests::waits(7);
    for function in &mut trace.info.functions {
        let last = function.name.trim_start_matches("app::").to_owned();
        function.name = format!("jobber_service::Shared::{last}");
    }
    let mut found = found(&trace, &ALL);
    for width in [72, 80, 84] {
        let text = text(&trace, &found, width);
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}\n{text}");
        }
        assert!(text.contains("\u{2514} Shared::lock "), "{width}: {text}");
        assert!(text.contains("fdr::sync"), "{text}");
    }
    let narrow = text(&trace, &found, 72);
    assert!(narrow.contains("  <- 100.0 %, waiting\n"), "{narrow}");
    let wide = text(&trace, &found, 200);
    assert!(wide.contains("jobber_service::Shared::lock "), "{wide}");
    assert!(wide.contains("<- 100.0 % of the excess, waiting"), "{wide}");
    // A program that already records its waits gets no advice about locks.
    let noted = WaitingTrace(&trace, NoteKind::ThreadState, wait(30));
    found = super::tests::found(&noted, &ALL);
    let text = text(&noted, &found, 80);
    assert!(!text.contains("fdr::sync"), "{text}");
}

#[test]
fn calls_of_one_cause_are_one_entry() {
    let mut worker = slow_requests(&[5, 4, 3, 2, 1]);
    worker.request(20, 5_000);
    let trace = trace(&[(7, &worker.calls)]);
    let all = found(&trace, &Query::of_causes(5, true));
    assert_eq!(functions(&all), [HANDLE, HANDLE]);
    let counts = |found: &Findings| -> Vec<u64> {
        let same = found.list.iter().filter_map(|finding| finding.same_cause);
        same.map(|same| same.calls).collect()
    };
    assert_eq!(counts(&all), [5, 1]);
    assert_eq!(all.hidden_calls, []);
    let shown = text(&trace, &all, 80);
    let wanted = "\n    the slowest of 5 calls with this cause: 15.00 ms in all\n";
    assert!(shown.contains(wanted), "{shown}");
    assert_eq!(shown.matches("with this cause").count(), 1, "{shown}");
    let one = found(&trace, &Query::of_causes(1, true));
    assert_eq!(one.hidden_calls, [(FunctionId(HANDLE), 1)]);
    // Each call by itself has none.
    assert_eq!(counts(&found(&trace, &ALL)), [0_u64; 0]);
}
