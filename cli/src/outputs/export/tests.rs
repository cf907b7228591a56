//! The sums of every export are the report's, by readers that share no code with the writers. Names are text.

mod parse;
mod wire;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use fdr_formats::model::{State, Switch};
use fdr_formats::notes::{Field, FieldValue, Note};
use fdr_formats::writer::Output;
use fdr_formats::{Call, CpuId, Function, FunctionId, Mark, Source, ThreadId, Ticks, registry};

use self::parse::{Sums, TraceWriter};
use super::survey::Survey;
use super::{EXPORTS, Export};
use crate::input::exports;
use crate::output_file;
use crate::outputs::conversion::{Job, convert};
use crate::report::all::ALL;
use crate::report::engine::{Engine, gather};
use crate::report::rows::Report;
use crate::testing::functions;
use crate::testing::random_trace::RandomTrace;
use crate::testing::random_xray::random_trace;
use fdr_formats::source::drive;

/// The export of a trace: its bytes, and the message about data that was left out.
fn exported(export: &'static Export, source: &dyn Source, jobs: usize) -> (Vec<u8>, String) {
    let folder = output_file::unnamed_folder().expect("a folder for temporary files");
    let path = folder.temporary().join("export");
    let job = Job {
        trace: Path::new("trace"),
        to: &export.target,
        force: false,
        quiet: true,
        jobs,
    };
    let file = File::create_new(&path).expect("a new file");
    let done = convert(source, &job, Output::File(file));
    let Ok(done) = done else {
        panic!("{}: not written", export.target.name);
    };
    let mut bytes = Vec::new();
    let mut file = File::open(&path).expect("the export");
    file.read_to_end(&mut bytes).expect("readable");
    (bytes, done.losses.to_string())
}

fn export_named(name: &str) -> &'static Export {
    let mut all = EXPORTS.iter();
    all.find(|export| export.target.name == name)
        .expect("an export")
}

/// The figures of the report, by name. Of functions without a call there are none.
fn reported(source: &dyn Source) -> BTreeMap<String, Sums> {
    let mut engine = Engine::new(source, false);
    drive(source, &mut engine, &|_| {}).expect("readable");
    let figures = gather(vec![engine], false).expect("enough memory");
    let all = ALL;
    let report = Report::new(source.info(), figures, &all).expect("enough memory");
    let rows = report.rows.iter().map(|row| {
        let sums = Sums {
            calls: row.calls,
            own: row.self_ns,
            total: row.total_ns,
        };
        (row.name.clone(), sums)
    });
    rows.collect()
}

/// What of the sums a format holds.
fn held(name: &str, sums: &BTreeMap<String, Sums>, has_entries: bool) -> BTreeMap<String, Sums> {
    let mut sums = sums.clone();
    match name {
        // A path without time of its own has no line.
        "folded" => {
            sums.retain(|_, sums| sums.own > 0);
            sums.values_mut()
                .for_each(|sums| (sums.calls, sums.total) = (0, 0));
        }
        // What a call without an entry called is not below it.
        "pprof" if !has_entries => sums.values_mut().for_each(|sums| sums.total = 0),
        // A sample is a stretch of time.
        "firefox" => {
            sums.retain(|_, sums| sums.total > 0);
            sums.values_mut().for_each(|sums| sums.calls = 0);
        }
        _ => {}
    }
    sums
}

/// Returns how many exports are exact.
fn same_sums(source: &dyn Source, what: &str, has_entries: bool) -> usize {
    let mut exact = 0;
    let wanted = reported(source);
    for export in EXPORTS {
        let name = export.target.name;
        let (bytes, losses) = exported(export, source, 1);
        let found = held(name, &parse::sums(name, &bytes), has_entries);
        if !losses.contains("moved up to it") {
            assert_eq!(found, held(name, &wanted, has_entries), "{what} to {name}");
            exact += 1;
        }
        assert!(bytes == exported(export, source, 2).0, "{what} to {name}");
    }
    exact
}

#[test]
fn export_sums_equal_the_report() {
    let mut exact = 0;
    for seed in 0..40 {
        let has_entries = seed % 4 == 0;
        let source = RandomTrace::new(seed, 0, 0);
        assert_eq!(
            same_sums(&source, &format!("trace {seed}"), has_entries),
            EXPORTS.len()
        );
        let source = RandomTrace::with_short_calls(seed, 1);
        exact += same_sums(&source, &format!("short calls {seed}"), has_entries);
    }
    // If the entry of a call is missing, short calls may be in the time before it, and inside of it.
    assert!(exact > 40 * EXPORTS.len() / 2, "{exact}");
}

#[test]
fn backward_clocks_keep_their_sums() {
    for seed in 0..40 {
        let source = RandomTrace::new(seed, 0, 100);
        let wanted = reported(&source);
        let (bytes, _) = exported(export_named("csv"), &source, 1);
        assert_eq!(parse::sums("csv", &bytes), wanted, "{seed}");
        for name in ["chrome", "perfetto"] {
            // They nest all the same. The reader checks it.
            let (bytes, losses) = exported(export_named(name), &source, 1);
            let found = parse::sums(name, &bytes);
            let calls = |sums: &BTreeMap<String, Sums>| -> Vec<u64> {
                sums.values().map(|sums| sums.calls).collect()
            };
            assert_eq!(calls(&found), calls(&wanted), "{seed} to {name}");
            if found != wanted {
                assert!(losses.contains("moved up to it"), "{losses}");
            }
        }
    }
}

#[test]
fn golden_traces_and_damaged_ones_are_exported() {
    for seed in 1..6 {
        let source = registry::open(Box::new(random_trace(seed))).expect("a trace");
        for export in EXPORTS {
            let (bytes, _) = exported(export, &*source, 1);
            parse::sums(export.target.name, &bytes);
        }
    }
}

#[test]
fn thread_states_are_exported_where_possible() {
    let mut source = RandomTrace::new(4, 1, 0);
    let ((first, last), at) = (
        Survey::read(&source)
            .expect("readable")
            .times()
            .expect("calls"),
        |time: u64| Ticks(1_000_000 + time),
    );
    assert!(
        first <= at(10_000) && last > at(60_000),
        "{first:?} {last:?}"
    );
    let switch = |time, thread, cpu, to| Switch {
        time: at(time),
        thread: ThreadId(thread),
        cpu: CpuId(cpu),
        to: Some(to),
    };
    source.info.schedule.switches = vec![
        switch(10_000, 1, 3, State::Running),
        switch(20_000, 1, 3, State::Preempted),
        switch(20_000, 2, 3, State::Running),
        switch(40_000, 2, 3, State::Waiting),
        switch(60_000, 1, 4, State::Running),
    ];
    let text = |name| String::from_utf8(exported(export_named(name), &source, 1).0).expect("UTF-8");
    let ns = |time| at(time).0 - first.0;
    let rows = text("csv");
    for (thread, from, until, state, cpu) in [
        (1, 10_000, 20_000, "running", 3),
        (1, 20_000, 60_000, "preempted", 3),
        (2, 20_000, 40_000, "running", 3),
    ] {
        let (from, until, length) = (ns(from), ns(until), until - from);
        let row = format!("state,1,{thread},,{state},,,{from},{until},{length},,,,,,,{cpu},,\n");
        assert!(rows.contains(&row), "{row}{rows}");
    }
    let chrome = text("chrome");
    let begin = format!(
        "\"ph\":\"b\",\"pid\":1,\"tid\":2,\"ts\":{}.{:03},\"cat\":\"state\",\"id\":2,\"name\":\"running\",\"args\":{{\"cpu\":3}}",
        ns(20_000) / 1000,
        ns(20_000) % 1000
    );
    assert!(chrome.contains(&begin), "{begin}{chrome}");
    let (bytes, losses) = exported(export_named("perfetto"), &source, 1);
    assert_eq!(losses, "");
    // CPU, time, thread that leaves, its state, thread that comes.
    let wanted = [
        (3, 10_000, 0, 1, 1),
        (3, 20_000, 1, 0, 2),
        (3, 40_000, 2, 1, 0),
        (4, 60_000, 0, 1, 1),
    ];
    let wanted = wanted.map(|(cpu, time, from, state, to)| [cpu, at(time).0, from, state, to]);
    assert_eq!(wire::switches(&bytes), wanted);
    assert!(
        exported(export_named("firefox"), &source, 1)
            .1
            .contains("5 context switches")
    );
}

/// Names that mean something to a browser, a terminal, a spreadsheet, a reader of lines.
const HOSTILE: [&str; 16] = [
    "<script>alert(1)</script>",
    "\"},{\"ph\":\"B\"",
    "a;b 7",
    "=cmd|' /C calc'!A0",
    "line\nbreak\r\n",
    "\u{1b}[31mred\u{1b}[0m",
    "\u{202e}abc",
    "\0zero",
    "fn=(1) x",
    "a,b,\"c\"",
    "\u{2028}x",
    "${jndi:x}",
    " 12",
    "calls=3 4",
    "</svg>",
    "\\u0041",
];

/// A trace of calls, arguments and an event with hostile names.
fn hostile() -> Vec<u8> {
    let mut trace = parse::xray();
    for (at, name) in HOSTILE.iter().enumerate() {
        trace.functions.push(Function {
            id: FunctionId(at as u32 + 1),
            name: (*name).to_owned(),
            file: (*name).to_owned(),
            line: 3,
            ..Function::default()
        });
    }
    let mut time = 1000;
    let mut marks = Vec::new();
    for at in 0..HOSTILE.len() as u32 {
        let function = FunctionId(at + 1);
        time += 10;
        marks.push(parse::Step::Call(Call::entry(Ticks(time), function)));
        let text = HOSTILE[at as usize].as_bytes();
        let fields = vec![Field {
            name: at + 1,
            place: 0,
            value: FieldValue::Text(text, text.len() as u64),
        }];
        let arguments = Note::Arguments {
            function: at + 1,
            fields: fields.clone(),
        };
        let event = Note::Event {
            name: at + 1,
            form: 0,
            level: 3,
            span: 0,
            fields,
        };
        marks.push(parse::Step::note(time, &arguments));
        marks.push(parse::Step::note(time, &event));
    }
    for at in (0..HOSTILE.len() as u32).rev() {
        time += 10;
        marks.push(parse::Step::Call(Call::exit(
            Ticks(time),
            FunctionId(at + 1),
        )));
    }
    trace.write(HOSTILE[0], &marks)
}

#[test]
fn hostile_names_are_text() {
    let bytes = hostile();
    let source = registry::open(Box::new(bytes)).expect("a trace");
    let wanted = reported(&*source);
    assert_eq!(wanted.len(), HOSTILE.len());
    for export in EXPORTS {
        let name = export.target.name;
        let (bytes, _) = exported(export, &*source, 1);
        let found = parse::sums(name, &bytes);
        let clean = |name: &str| parse::as_written(export.target.name, name);
        let wanted = held(name, &wanted, true);
        let wanted: BTreeMap<String, Sums> = wanted
            .into_iter()
            .map(|(name, sums)| (clean(&name), sums))
            .collect();
        assert_eq!(found, wanted, "{name}");
        if !["chrome", "firefox", "otlp-json"].contains(&name) {
            continue;
        }
        let text = String::from_utf8(bytes).expect("UTF-8");
        let is_control = |character: char| character.is_control() && character != '\n';
        assert!(!text.contains(is_control), "{name}");
    }
}

#[test]
fn what_is_left_out_is_reported() {
    let source = registry::open(Box::new(hostile())).expect("a trace");
    let losses = |name| exported(export_named(name), &*source, 1).1;
    assert_eq!(losses("csv"), "");
    assert_eq!(
        losses("chrome"),
        "1 changes of CPU: left out; 16 files and lines of functions: left out"
    );
    let firefox = losses("firefox");
    assert!(
        firefox.contains("16 notes of arguments and results: left out")
            && firefox.contains("16 notes and payloads (events, counters, tasks, waits): left out"),
        "{firefox}"
    );
    let folded = losses("folded");
    assert!(
        folded.contains("1 threads: their calls are added up"),
        "{folded}"
    );
}

#[test]
fn exports_are_recognised_as_input() {
    let source = registry::open(Box::new(hostile())).expect("a trace");
    for export in EXPORTS {
        let (bytes, _) = exported(export, &*source, 1);
        let head = &bytes[..bytes.len().min(64)];
        let name = format!("a.{}", export.target.extension);
        let by_name = exports::title(Path::new(&name), &[]);
        assert_eq!(by_name, Some(export.target.title));
        let by_head = exports::title(Path::new("a"), head);
        match export.target.name {
            // It begins as any text does.
            "folded" | "perfetto" | "pprof" | "otlp" => assert_eq!(by_head, None),
            _ => assert_eq!(by_head, by_name),
        }
    }
}

#[test]
fn each_record_kind_is_in_its_place() {
    let mut trace = parse::xray();
    trace
        .functions
        .extend(functions(&[(1, "outer"), (2, "key"), (3, "inner")]));
    let fields = vec![Field {
        name: 2,
        place: 0,
        value: FieldValue::Signed(-7),
    }];
    let counter = Note::Event {
        name: 3,
        form: 3,
        level: 0,
        span: 0,
        fields: fields.clone(),
    };
    let task = |state| Note::Task {
        task: 9,
        parent: 0,
        by: 0,
        name: 1,
        state,
        counted: 0,
        elapsed: 100,
        busy: 50,
        polls: 2,
    };
    let arguments = Note::Arguments {
        function: 1,
        fields,
    };
    let call = parse::Step::Call;
    let steps = [
        call(Call::entry(Ticks(1000), FunctionId(1))),
        parse::Step::note(1000, &arguments),
        call(Call::entry(Ticks(1100), FunctionId(3))),
        call(Call::exit(Ticks(1200), FunctionId(3))),
        parse::Step::note(1300, &counter),
        parse::Step::note(1400, &task(2)),
        parse::Step::note(1500, &task(4)),
        parse::Step::Mark(Mark::Lost { records: 12 }),
        call(Call::exit(Ticks(2001), FunctionId(1))),
    ];
    let bytes = trace.write("worker", &steps);
    let source = registry::open(Box::new(bytes)).expect("a trace");
    let (bytes, _) = exported(export_named("chrome"), &*source, 1);
    let text = String::from_utf8(bytes).expect("UTF-8");
    for wanted in [
        r#"{"ph":"M","pid":1,"tid":7,"name":"thread_name","args":{"name":"worker"}}"#,
        r#"{"ph":"B","pid":1,"tid":7,"ts":0.000,"name":"outer"}"#,
        r#"{"ph":"E","pid":1,"tid":7,"ts":1.001,"name":"outer","args":{"key":-7,"clipped":true}}"#,
        r#"{"ph":"C","pid":1,"tid":7,"ts":0.300,"cat":"counter","name":"inner","args":{"key":-7}}"#,
        r#"{"ph":"s","pid":1,"tid":7,"ts":0.400,"cat":"task","name":"task","id":9}"#,
        r#"{"ph":"f","pid":1,"tid":7,"ts":0.500,"cat":"task","name":"task","id":9,"bp":"e"}"#,
        r#"{"ph":"i","pid":1,"tid":7,"ts":0.500,"s":"t","cat":"lost","name":"records are missing","args":{"records":12}}"#,
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
    let (bytes, _) = exported(export_named("csv"), &*source, 1);
    let text = String::from_utf8(bytes).expect("UTF-8");
    for wanted in [
        "call,1,7,worker,inner,,,100,200,100,100,1,,,,,3,,",
        r#"call,1,7,worker,outer,,,0,1001,1001,901,0,true,,,,3,,"{""key"":-7}""#,
        r#"lost,1,7,worker,records are missing,,,500,,,,,,,,,,,"{""records"":12}""#,
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
}
