//! The traces that the test of the page in a browser looks at: made by hand, so that it is known what has to be seen.

use std::fs;
use std::path::Path;

use fdr_formats::model::{Clock, FunctionKind, FunctionTotals};
use fdr_formats::notes::{Field, FieldValue, Form, Note, RESULT, reason, task_state, thread_state};
use fdr_formats::xray::{Version, XrayWriter};
use fdr_formats::{
    Call, CpuId, Function, FunctionId, Mark, Sink, Thread, ThreadId, Ticks, TraceInfo,
};

fn writer(path: &Path, info: &TraceInfo) -> XrayWriter<fs::File> {
    let mut options = fs::OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path);
    XrayWriter::new(file.expect("a file"), Version::V3, info).expect("a writer")
}

fn write(path: &Path, info: &TraceInfo, threads: &[(Thread, Vec<Call>)]) {
    let mut writer = writer(path, info);
    for (thread, calls) in threads {
        writer.thread(thread);
        for (nth, calls) in calls.chunks(300).enumerate() {
            let (time, cpu) = (calls[0].time, CpuId(nth as u32 % 3));
            writer.mark(&Mark::Cpu { time, cpu });
            writer.calls(calls);
        }
    }
    writer.finish().expect("a trace");
}

fn function(id: u32, name: &str) -> Function {
    Function {
        id: FunctionId(id),
        name: name.to_owned(),
        file: "src/main.rs".to_owned(),
        line: id,
        ..Function::default()
    }
}

fn thread(id: u64, name: &str) -> Thread {
    Thread {
        id: ThreadId(id),
        name: name.to_owned(),
        ..Thread::default()
    }
}

/// Three threads that call three functions. One call takes far longer than usual.
pub(super) fn usual(path: &Path) {
    usual_for(path, "");
}

/// The same, where a panic of the second thread ended the trace.
pub(super) fn ended(path: &Path) {
    let reason = "panic in thread 8 (worker-1) at src/main.rs:7:5: <b>index</b> out of bounds";
    usual_for(path, reason);
}

fn usual_for(path: &Path, reason: &str) {
    let functions = [(1, "app::run"), (2, "app::step"), (3, "app::leaf")];
    let info = TraceInfo {
        functions: functions.map(|(id, name)| function(id, name)).to_vec(),
        reason: reason.to_owned(),
        ..TraceInfo::default()
    };
    let id = FunctionId;
    let calls = |shift: u64| {
        let mut calls = vec![Call::entry(Ticks(1000 + shift), id(1))];
        let mut at = 2000 + shift;
        for nth in 0..2000 {
            calls.push(Call::entry(Ticks(at), id(2)));
            calls.push(Call::entry(Ticks(at + 10), id(3)));
            calls.push(Call::exit(Ticks(at + 60 + nth % 37), id(3)));
            calls.push(Call::exit(Ticks(at + 110 + nth % 41), id(2)));
            at += if nth % 400 == 399 { 50_000 } else { 200 };
        }
        if shift == 8000 {
            calls.push(Call::entry(Ticks(at), id(2)));
            calls.push(Call::entry(Ticks(at + 10), id(3)));
            calls.push(Call::exit(Ticks(at + 60_010), id(3)));
            calls.push(Call::exit(Ticks(at + 60_020), id(2)));
            at += 60_100;
        }
        calls.push(Call::exit(Ticks(at), id(1)));
        calls
    };
    let threads = [(7, "main"), (8, "worker-1"), (9, "worker-2")];
    let threads = threads.map(|(id, name)| (thread(id, name), calls(id * 1000)));
    write(path, &info, &threads);
}

/// A run of 4,000 calls, of which the trace still has `calls`.
pub(super) fn readable_part(path: &Path, calls: u64) {
    let function = |(id, name)| function(id, name);
    let info = TraceInfo {
        functions: [(1, "app::run"), (2, "app::step")].map(function).to_vec(),
        ..TraceInfo::default()
    };
    let totals = FunctionTotals {
        function: FunctionId(2),
        calls: 4000,
        untimed: 0,
        total: Ticks(400_000),
        own: Ticks(400_000),
        longest: Ticks(100),
        lengths: vec![(10, 4000)],
        nests: false,
        estimate: None,
    };
    let edges = (0..calls).flat_map(|nth| {
        let at = 1_000_000 + nth * 200;
        let (entry, exit) = (Call::entry, Call::exit);
        [
            entry(Ticks(at), FunctionId(2)),
            exit(Ticks(at + 100), FunctionId(2)),
        ]
    });
    let main = Thread {
        totals: vec![totals],
        ..thread(7, "main")
    };
    write(path, &info, &[(main, edges.collect())]);
}

/// Calls of a microsecond in half an hour, by a clock whose ticks are no whole ns.
pub(super) fn spread(path: &Path) {
    const FREQUENCY: u64 = 2_900_000_000;
    const MICROSECOND: u64 = FREQUENCY / 1_000_000;
    let functions = [(1, "app::run"), (2, "app::step"), (3, "app::leaf")];
    let info = TraceInfo {
        functions: functions.map(|(id, name)| function(id, name)).to_vec(),
        clock: Clock {
            frequency: FREQUENCY,
            ..Clock::default()
        },
        ..TraceInfo::default()
    };
    let id = FunctionId;
    let mut calls = Vec::new();
    for group in 0..40 {
        let begin = 10_000_000 * FREQUENCY / 3 + group * 50 * FREQUENCY;
        calls.push(Call::entry(Ticks(begin), id(1)));
        for nth in 0..30 {
            let at = begin + 1000 + nth * 4 * MICROSECOND;
            calls.push(Call::entry(Ticks(at), id(2)));
            calls.push(Call::entry(Ticks(at + MICROSECOND / 3), id(3)));
            calls.push(Call::exit(Ticks(at + MICROSECOND), id(3)));
            calls.push(Call::exit(Ticks(at + 2 * MICROSECOND), id(2)));
        }
        calls.push(Call::exit(Ticks(begin + 130 * MICROSECOND), id(1)));
    }
    write(path, &info, &[(thread(7, "main"), calls)]);
}

/// Names that would be more than text, if a page let them.
const HOSTILE_NAMES: &[&str] = &[
    "<script>window.hacked=1;alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"><img src=http://example.invalid/x onerror=alert(2)>",
    "</script><script>alert(3)</script>",
    "</style><style>*{display:none}</style>",
    "<svg onload=alert(4)>",
    "<iframe src=javascript:alert(5)>",
    "<a href=\"javascript:alert(6)\">click</a>",
    "<link rel=stylesheet href=http://example.invalid/x.css>",
    "<base href=http://example.invalid/>",
    "<!--",
    "-->",
    "]]>",
    "{{script}}",
    "${alert(7)}",
    "$&",
    "$`",
    "%s%n",
    "&lt;b&gt;",
    "&#x3c;script>",
    "javascript:alert(8)",
    "data:text/html,<script>alert(9)</script>",
    "\u{202e}gnp.exe",
    "\u{2066}isolated\u{2069}",
    "\u{200b}\u{200d}\u{feff}",
    "\u{1b}[31mred\u{1b}[0m",
    "\0nul\0",
    "line\nline\r\n",
    "\t\u{8}\u{7f}\u{9b}",
    "__proto__",
    "constructor",
    "toString",
    "hasOwnProperty",
    "null",
    "undefined",
    "NaN",
    "",
    " ",
    "\u{e0041}\u{e0042}",
    "\u{2028}\u{2029}",
    "ﷺ",
    "e\u{301}\u{301}\u{301}\u{301}\u{301}",
    "👩‍👩‍👧‍👦",
    "نص عربي",
    "＜script＞alert(1)＜/script＞",
    "' OR 1=1 --",
    "../../../etc/passwd",
    "\\u003cscript\\u003e",
    "onclick=alert(1)",
    "style=\"position:fixed\"",
];

/// A trace in which all names are hostile.
pub(super) fn hostile(path: &Path) {
    let mut names: Vec<String> = HOSTILE_NAMES.iter().map(|&name| name.to_owned()).collect();
    names.push("<b>long</b>".repeat(6000));
    let functions = names.iter().zip(1..).map(|(name, id)| function(id, name));
    let info = TraceInfo {
        functions: functions.collect(),
        program: "<img src=x onerror=alert(10)>".to_owned(),
        reason: "<script>alert(11)</script>".to_owned(),
        ..TraceInfo::default()
    };
    let threads = names.iter().zip(1..).step_by(5);
    let threads = threads.map(|(name, id)| (thread(id, name), hostile_steps(&names, id)));
    write_steps(path, &info, threads.collect());
}

/// Each call is the only poll of a task, has the name as an argument, and sets a counter of that name.
fn hostile_steps(names: &[String], shift: u64) -> Vec<Step<'_>> {
    let count = names.len() as u64;
    let each = |nth: u64| {
        let (at, id) = (1000 + nth * 100, (1 + (nth + shift) % count) as u32);
        let text = names[id as usize - 1].as_bytes();
        let text = &text[..text.len().min(200)];
        let arguments = Note::Arguments {
            function: id,
            fields: vec![field(id, 0, FieldValue::Text(text, text.len() as u64))],
        };
        let task = Note::Task {
            task: shift * count + nth + 1,
            parent: 0,
            by: 0,
            name: id,
            state: task_state::FINISHED,
            counted: 0,
            elapsed: 80,
            busy: 80,
            polls: 1,
        };
        [
            Step::Calls(Call::entry(Ticks(at), FunctionId(id))),
            Step::Note(at + 10, arguments),
            Step::Note(at + 20, counter(id, FieldValue::Unsigned(nth))),
            Step::Note(at + 80, task),
            Step::Calls(Call::exit(Ticks(at + 80), FunctionId(id))),
        ]
    };
    (0..count).flat_map(each).collect()
}

/// A thread waits for a lock that another thread holds, for long and then often; the main thread has two events. The
/// threads are not in the order of their names.
pub(super) fn waiting(path: &Path) {
    let functions = [
        named(1, "app::run", FunctionKind::Calls),
        named(2, "app::save", FunctionKind::Calls),
        named(30, "table", FunctionKind::Name),
        named(40, "rejected", FunctionKind::Event),
        named(41, "number", FunctionKind::Name),
        named(42, "logged", FunctionKind::Event),
    ];
    let info = TraceInfo {
        functions: functions.to_vec(),
        ..TraceInfo::default()
    };
    let event = |name, value| Note::Event {
        name,
        form: Form::Instant as u8,
        level: 0,
        span: 0,
        fields: vec![field(41, 0, FieldValue::Unsigned(value))],
    };
    let state = |state, waited| Note::ThreadState {
        object: 1,
        holder: 8,
        name: 30,
        state,
        reason: reason::LOCK,
        function: 2,
        waited,
    };
    let entry = |at, id| Step::Calls(Call::entry(Ticks(at), FunctionId(id)));
    let exit = |at, id| Step::Calls(Call::exit(Ticks(at), FunctionId(id)));
    let main = vec![
        entry(1000, 1),
        Step::Note(10_000, event(40, 7)),
        Step::Note(60_000, event(42, 8)),
        exit(101_000, 1),
    ];
    let mut worker = vec![
        entry(2000, 1),
        Step::Note(20_000, state(thread_state::BLOCKED, 0)),
        Step::Note(50_000, state(thread_state::RUNNING, 30_000)),
    ];
    for nth in 0..500 {
        let at = 60_000 + nth * 40;
        worker.push(entry(at, 2));
        if nth % 10 == 0 {
            worker.push(Step::Note(at + 9, state(thread_state::RUNNING, 8)));
        }
        worker.push(exit(at + 10, 2));
    }
    worker.push(exit(90_000, 1));
    let holder = vec![entry(5000, 2), exit(50_000, 2)];
    let threads = vec![
        (thread(7, "main"), main),
        (thread(9, "worker-10"), worker),
        (thread(8, "worker-2"), holder),
    ];
    write_steps(path, &info, threads);
}

/// What a thread does, in order.
enum Step<'a> {
    Calls(Call),
    Cpu(u64, u32),
    Note(u64, Note<'a>),
}

fn write_steps(path: &Path, info: &TraceInfo, threads: Vec<(Thread, Vec<Step<'_>>)>) {
    let mut writer = writer(path, info);
    for (thread, steps) in threads {
        writer.thread(&thread);
        for step in steps {
            match step {
                Step::Calls(call) => writer.calls(&[call]),
                Step::Cpu(time, cpu) => writer.mark(&Mark::Cpu {
                    time: Ticks(time),
                    cpu: CpuId(cpu),
                }),
                Step::Note(time, note) => {
                    let (kind, body) = (note.kind(), note.encode().expect("a note"));
                    let (time, body) = (Ticks(time), &body[..]);
                    writer.mark(&Mark::Note { time, kind, body });
                }
            }
        }
    }
    writer.finish().expect("a trace");
}

fn field(name: u32, place: u8, value: FieldValue<'_>) -> Field<'_> {
    Field { name, place, value }
}

fn counter(name: u32, value: FieldValue<'_>) -> Note<'_> {
    Note::Event {
        name,
        form: Form::Counter as u8,
        level: 0,
        span: 0,
        fields: vec![field(0, 0, value)],
    }
}

fn named(id: u32, name: &str, kind: FunctionKind) -> Function {
    Function {
        kind,
        ..function(id, name)
    }
}

/// Functions, counters and names of fields. Two places of the program set the same counter.
fn noted_info(anchor: u64) -> TraceInfo {
    let functions = [
        named(1, "app::run", FunctionKind::Calls),
        named(2, "app::fetch", FunctionKind::Calls),
        named(3, "app::leaf", FunctionKind::Calls),
        named(10, "queue", FunctionKind::Event),
        named(11, "queue", FunctionKind::Event),
        named(12, "load", FunctionKind::Event),
        named(20, "address", FunctionKind::Name),
        named(21, "result", FunctionKind::Name),
    ];
    TraceInfo {
        functions: functions.to_vec(),
        clock: Clock {
            anchor: Some((Ticks(0), 1_700_000_000_000_000_000 + anchor)),
            ..Clock::default()
        },
        ..TraceInfo::default()
    }
}

/// Polls of six tasks and the notes in them: three polls of 1 µs, 4 µs from one to the next, on two threads by turns.
fn poll(thread: u64, at: u64, task: u64, number: u64) -> Vec<Step<'static>> {
    let function = FunctionId(2);
    let (state, elapsed) = match number {
        3 if task == 6 => (task_state::DROPPED, 9000),
        3 => (task_state::FINISHED, 9000),
        _ => (task_state::WAITING, (number - 1) * 4000 + 1000),
    };
    let note = Note::Task {
        task,
        parent: 0,
        by: 0,
        name: 2,
        state,
        counted: 0,
        elapsed,
        busy: number * 1000,
        polls: number,
    };
    let value_note = |place, name, value| Note::Arguments {
        function: 2,
        fields: vec![field(name, place, value)],
    };
    let mut steps = vec![
        Step::Cpu(at, (thread + task) as u32 % 3),
        Step::Calls(Call::entry(Ticks(at), function)),
    ];
    if number == 1 {
        let text = FieldValue::Text(b"<b>example</b>", 14);
        steps.push(Step::Note(at + 100, value_note(0, 20, text)));
    }
    if number == 3 {
        let value = FieldValue::Unsigned(200 + task);
        steps.push(Step::Note(at + 900, value_note(RESULT, 21, value)));
    }
    steps.push(Step::Note(at + 1000, note));
    steps.push(Step::Calls(Call::exit(Ticks(at + 1000), function)));
    steps
}

/// Two threads with counters, tasks and changes of the CPU. The counter `queue` is 3, but for one spike of 90.
pub(super) fn noted(path: &Path) {
    write_noted(path, 0, 1);
}

/// A later run of the same program. By the wall clock it begins 30 µs later, and one of its functions takes longer.
pub(super) fn changed(path: &Path) {
    write_noted(path, 30_000, 3);
}

fn write_noted(path: &Path, anchor: u64, factor: u64) {
    let thread_of = |thread: u64| {
        let mut steps = vec![
            Step::Cpu(1000, 0),
            Step::Calls(Call::entry(Ticks(1000), FunctionId(1))),
        ];
        // Each task begins 3 µs after the one before, on the other thread; its polls go from thread to thread.
        let mut due: Vec<(u64, Vec<Step<'_>>)> = Vec::new();
        for task in 1..=6 {
            for number in 1..=3 {
                let at = 2000 + (task - 1) * 3000 + (number - 1) * 4000;
                if (task + number) % 2 == thread {
                    due.push((at, poll(thread, at, task, number)));
                }
            }
        }
        for nth in 0..2000 {
            let at = 40_000 + nth * 100;
            let leaf = FunctionId(3);
            let queue = if (thread, nth) == (1, 1234) { 90 } else { 3 };
            let mut each = vec![
                Step::Calls(Call::entry(Ticks(at), leaf)),
                Step::Calls(Call::exit(Ticks(at + 20 * factor), leaf)),
                Step::Note(
                    at + 61,
                    counter(10 + thread as u32, FieldValue::Unsigned(queue)),
                ),
            ];
            if thread == 0 && nth % 100 == 0 {
                let load = FieldValue::Float(nth as f64 / 1000.0 - 0.5);
                each.push(Step::Note(at + 70, counter(12, load)));
            }
            due.push((at, each));
        }
        due.sort_by_key(|(at, _)| *at);
        steps.extend(due.into_iter().flat_map(|(_, steps)| steps));
        steps.push(Step::Calls(Call::exit(Ticks(245_000), FunctionId(1))));
        steps
    };
    let threads = [(0, "main"), (1, "worker")];
    let threads = threads.map(|(nth, name)| (thread(nth + 1, name), thread_of(nth)));
    write_steps(path, &noted_info(anchor), threads.into());
}
