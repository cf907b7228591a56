//! Figures of tasks whose notes and totals are typed by hand.

use std::collections::HashMap;

use fdr_formats::model::FunctionTotals;
use fdr_formats::notes::{Field, FieldValue, Form, Note, NoteKind, task_state};
use fdr_formats::tasks::{BUSY, DROPPED, FINISHED};
use fdr_formats::{
    Call, Edge, Function, FunctionId, Mark, Sink, Thread, ThreadId, Ticks, TraceInfo,
};

use super::rows::{Row, TableOptions, Tasks};
use super::task_table::TraceTasks;

const WAITING: u8 = task_state::WAITING;
const ENDED: u8 = task_state::FINISHED;
const GONE: u8 = task_state::DROPPED;

/// Functions 1 to 3 are `serve`, its parent, and the field `route`. 11 to 13 are what is counted of 1.
fn info(totals: Vec<FunctionTotals>) -> TraceInfo {
    let function = |id, name: String| Function {
        id: FunctionId(id),
        name,
        file: "a.rs".into(),
        line: id,
        untimed: false,
        ..Function::default()
    };
    let counted = [FINISHED, DROPPED, BUSY].map(|word| format!("serve{word}"));
    let names = (11..).zip(counted);
    let plain = (1..).zip(["serve", "accept", "route"].map(str::to_owned));
    TraceInfo {
        functions: plain
            .chain(names)
            .map(|(id, name)| function(id, name))
            .collect(),
        threads: vec![Thread {
            id: ThreadId(1),
            totals,
            ..Thread::default()
        }],
        end: Some(Ticks(10_000)),
        ..TraceInfo::default()
    }
}

/// A note: task, parent, function, state, counted, time, elapsed, busy, polls.
type Typed = (u64, u64, u32, u8, u8, u64, u64, u64, u64);

fn note(sink: &mut TraceTasks, typed: Typed) {
    let (task, parent, name, state, counted, time, elapsed, busy, polls) = typed;
    let note = Note::Task {
        task,
        parent,
        by: 0,
        name,
        state,
        counted,
        elapsed,
        busy,
        polls,
    };
    sink.mark(&Mark::Note {
        time: Ticks(time),
        kind: NoteKind::Task,
        body: &note.encode().expect("a note"),
    });
}

fn trace_tasks(notes: &[Typed]) -> TraceTasks {
    let mut tasks = TraceTasks::default();
    notes.iter().for_each(|typed| note(&mut tasks, *typed));
    tasks
}

fn tasks(info: &TraceInfo, found: &TraceTasks, whole: bool, by: bool) -> Tasks {
    let options = TableOptions {
        by,
        ..TableOptions::all(whole)
    };
    Tasks::new(info, found, &options).expect("memory")
}

#[test]
fn the_latest_note_of_a_task_counts() {
    let mut notes = [
        (7, 0, 1, WAITING, 0, 100, 50, 10, 1),
        (7, 0, 1, WAITING, 0, 300, 250, 20, 2),
        (7, 0, 1, ENDED, 0, 400, 350, 30, 3),
        (8, 7, 1, WAITING, 0, 500, 400, 100, 4),
        (9, 0, 1, GONE, 0, 600, 100, 40, 1),
        (10, 0, 1, GONE, 0, 700, 0, 0, 0),
    ];
    for _ in 0..2 {
        let tasks = tasks(&info(Vec::new()), &trace_tasks(&notes), true, false);
        let wanted = Row {
            name: "serve".into(),
            file: "a.rs".into(),
            line: 1,
            tasks: 4,
            finished: 1,
            dropped: 2,
            never_polled: 1,
            unfinished: 1,
            busy_ns: 30 + 100 + 40,
            busy_mean_ns: Some(35),
            busy_p50_ns: Some(24),
            busy_p99_ns: Some(40),
            // 320 and 60 of those that ended; the other one waits until the end of the trace.
            waiting_ns: 320 + 60 + 300 + 9_500,
            elapsed_ns: 350,
            elapsed_mean_ns: Some(350),
            elapsed_p50_ns: Some(336),
            elapsed_p90_ns: Some(336),
            elapsed_p99_ns: Some(336),
            elapsed_max_ns: Some(350),
            by: None,
        };
        assert_eq!(tasks.rows, [wanted]);
        assert!(!tasks.is_whole);
        let open = &tasks.open[0];
        let times = (open.elapsed_ns, open.waits_ns, open.busy_ns, open.polls);
        assert_eq!((open.id, open.parent), (8, Some(7)));
        assert_eq!(times, (9_900, 9_500, 100, 4));
        notes.reverse();
    }
}

fn totals(function: u32, calls: u64, untimed: u64, total: u64, own: u64) -> FunctionTotals {
    FunctionTotals {
        function: FunctionId(function),
        calls,
        untimed,
        total: Ticks(total),
        own: Ticks(own),
        longest: Ticks(total),
        lengths: vec![(20, calls)],
        nests: false,
        estimate: None,
    }
}

#[test]
fn functions_with_calls_that_were_only_counted_are_named() {
    let polls = totals(1, 90, 10, 9_000, 900);
    let rows = [totals(11, 90, 0, 9_000, 900), totals(13, 90, 90, 900, 900)];
    let info = info(rows.into_iter().chain([polls]).collect());
    let found = trace_tasks(&[]);
    assert_eq!(tasks(&info, &found, true, false).only_counted, ["serve"]);
    let of_notes = trace_tasks(&[(7, 0, 1, ENDED, 0, 400, 350, 30, 3)]);
    assert!(
        tasks(&info, &of_notes, false, false)
            .only_counted
            .is_empty()
    );
}

#[test]
fn notes_count_tasks_missing_from_totals() {
    let counted = vec![
        totals(11, 90, 0, 9_000, 900),
        totals(12, 5, 2, 500, 100),
        totals(13, 95, 100, 1_000, 1_000),
    ];
    let notes = [
        // Counted from beginning to end, begun in no totals, and ended in none.
        (1, 0, 1, ENDED, 3, 100, 50, 10, 1),
        (2, 0, 1, ENDED, 0, 100, 50, 10, 1),
        (3, 0, 1, ENDED, 1, 100, 50, 10, 1),
        (4, 0, 1, WAITING, 1, 9_000, 50, 10, 1),
    ];
    let info = info(counted);
    let whole = tasks(&info, &trace_tasks(&notes), true, false);
    assert!(whole.is_whole);
    let row = &whole.rows[0];
    assert_eq!(row.tasks, 100 + 2 + 1);
    assert_eq!((row.finished, row.dropped), (90 + 2, 7));
    assert_eq!(row.unfinished, 103 - 99);
    assert_eq!(row.busy_ns, 1_000 + 20 + 10);
    assert_eq!(row.elapsed_ns, 9_000 + 100);
    assert_eq!(row.never_polled, 2);
    assert_eq!(whole.open.len(), 1);
    assert_eq!(row.elapsed_max_ns, Some(9_000));
    let noted = tasks(&info, &trace_tasks(&notes), false, false);
    assert_eq!((noted.rows[0].tasks, noted.rows[0].finished), (4, 3));
}

#[test]
fn tasks_with_overwritten_ends_are_closed() {
    let counted = vec![totals(11, 9, 0, 900, 90), totals(13, 9, 10, 100, 100)];
    let notes = [
        (1, 0, 1, WAITING, 1, 100, 50, 10, 1),
        (2, 0, 1, WAITING, 1, 200, 50, 10, 1),
    ];
    let whole = tasks(&info(counted), &trace_tasks(&notes), true, false);
    assert_eq!((whole.rows[0].finished, whole.rows[0].unfinished), (9, 1));
    assert_eq!(whole.rows[0].busy_ns, 100 + 10);
    let open: Vec<u64> = whole.open.iter().map(|task| task.id).collect();
    assert_eq!(open, [2]);
}

#[test]
fn tasks_are_grouped_by_event_field() {
    let mut all = TraceTasks::by(&info(Vec::new()), "route");
    let thread = Thread {
        id: ThreadId(1),
        ..Thread::default()
    };
    all.thread(&thread);
    let call = |sink: &mut TraceTasks, function, edge| {
        let (time, function) = (Ticks(0), FunctionId(function));
        sink.calls(&[match edge {
            Edge::Entry => Call::entry(time, function),
            _ => Call::exit(time, function),
        }]);
    };
    let event = |sink: &mut TraceTasks, route: &str| {
        let value = FieldValue::Text(route.as_bytes(), route.len() as u64);
        let field = Field {
            name: 3,
            place: 0,
            value,
        };
        let note = Note::Event {
            name: 1,
            form: 0,
            level: 0,
            span: 0,
            fields: vec![field],
        };
        sink.mark(&Mark::Note {
            time: Ticks(0),
            kind: NoteKind::Event,
            body: &note.encode().expect("a note"),
        });
    };
    let sink = &mut all;
    // The event of a function inside belongs to the task, and the first one counts. A task inside has none of its own.
    call(sink, 2, Edge::Entry);
    call(sink, 1, Edge::Entry);
    note(sink, (2, 1, 1, ENDED, 0, 1, 10, 5, 1));
    call(sink, 1, Edge::Exit);
    call(sink, 9, Edge::Entry);
    event(sink, "/a");
    call(sink, 9, Edge::Exit);
    event(sink, "/b");
    note(sink, (1, 0, 2, WAITING, 0, 1, 10, 5, 1));
    call(sink, 2, Edge::Exit);
    // Another one beside.
    call(sink, 2, Edge::Entry);
    note(sink, (3, 0, 2, ENDED, 0, 1, 10, 5, 1));
    call(sink, 2, Edge::Exit);
    all.inherit();
    let tasks = tasks(&info(Vec::new()), &all, false, true);
    let rows: HashMap<(&str, Option<&str>), u64> = tasks
        .rows
        .iter()
        .map(|row| ((row.name.as_str(), row.by.as_deref()), row.tasks))
        .collect();
    let wanted = [
        (("accept", Some("/a")), 1),
        (("serve", Some("/a")), 1),
        (("accept", None), 1),
    ];
    assert_eq!(rows, HashMap::from(wanted));
}

#[test]
fn last_value_of_own_span_wins() {
    let mut all = TraceTasks::by(&info(Vec::new()), "route");
    let thread = Thread {
        id: ThreadId(1),
        ..Thread::default()
    };
    all.thread(&thread);
    let mut field = |time, form: Form, span, route: &str| {
        let value = FieldValue::Text(route.as_bytes(), route.len() as u64);
        let (name, place) = (3, 0);
        let note = Note::Event {
            name: 1,
            form: form as u8,
            level: 0,
            span,
            fields: vec![Field { name, place, value }],
        };
        all.mark(&Mark::Note {
            time: Ticks(time),
            kind: NoteKind::Event,
            body: &note.encode().expect("a note"),
        });
    };
    // Outside of calls and on another thread, too. A span that is no task has no row.
    field(5, Form::End, 2, "/late");
    field(3, Form::Begin, 2, "/early");
    field(4, Form::Instant, 0, "/event");
    field(9, Form::End, 1 << 63, "/call");
    for (id, parent) in [(2, 0), (7, 2)] {
        note(&mut all, (id, parent, 2, ENDED, 0, 1, 10, 5, 1));
    }
    all.take_of_spans();
    all.inherit();
    let value = |id| all.tasks[&id].value.as_deref();
    // The task inside has the value of its parent.
    assert_eq!((value(2), value(7)), (Some("/late"), Some("/late")));
    assert_eq!(all.tasks.len(), 2);
}
