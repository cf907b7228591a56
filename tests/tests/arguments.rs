//! Arguments and results of calls: which values, of which call, and what a short, open or killed call leaves of them.

use fdr_formats::notes::{ERROR, Note, NoteKind, RESULT};
use fdr_tests::support::endless::only_ring;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::trace::{Lane, Trace};
use serde_json::Value;

use crate::events::record_rounds;
use fdr_tests::support::tool::{fdr, json, verify};

const ALL: &str = "FDR=*,-programs::arguments::left?out";

fn program(folder: &Folder, variables: &str) -> Program {
    Program::named("arguments", folder).set(variables)
}

fn record(folder: &Folder, variables: &str, rounds: u64) -> Trace {
    record_rounds(program(folder, variables), folder, rounds).0
}

/// Each note of a call as the call's function, without the crate, and the fields. Checks that it is the innermost open
/// call of the thread.
fn notes(trace: &Trace, lane: &Lane) -> Vec<String> {
    let is_full = lane.checked_counts().overwritten > 0;
    let mut open = Vec::new();
    let mut edges = lane.edges.iter();
    let mut before = 0;
    let words = |(at, _, kind, body): &(usize, u64, NoteKind, Vec<u8>)| {
        for edge in edges.by_ref().take(at - before) {
            match edge & 1 {
                0 => open.push(trace.name_of(*edge)),
                _ => drop(open.pop()),
            }
        }
        before = *at;
        let note = Note::decode(*kind, body).expect("a note");
        let Note::Arguments { function, fields } = note else {
            panic!("{note:?}");
        };
        let name = trace.name_of(function << 1);
        // A ring that is full may begin inside of the call.
        let is_cut = open.is_empty() && is_full;
        assert!(is_cut || open.last() == Some(&name), "{name}: {fields:?}");
        let mut words = name.replace("programs::arguments::", "");
        for field in fields {
            words += &match field.place {
                RESULT => format!(" ->{}", trace.field(&field)),
                ERROR => format!(" error{}", trace.field(&field)),
                place => format!(" {place}:{}", trace.field(&field).trim()),
            };
        }
        words
    };
    let of_calls = lane
        .notes
        .iter()
        .filter(|(_, _, kind, _)| *kind == NoteKind::Arguments);
    of_calls.map(words).collect()
}

/// Each event as its name, without the crate, and its fields.
fn events(trace: &Trace, lane: &Lane) -> Vec<String> {
    let words = |(_, _, kind, body): &(usize, u64, NoteKind, Vec<u8>)| {
        let Some(Note::Event { name, fields, .. }) = Note::decode(*kind, body) else {
            return None;
        };
        let mut words = trace
            .name_of(name << 1)
            .replace("programs::arguments::", "");
        for field in fields {
            words += &format!(" {}", trace.field(&field).trim());
        }
        Some(words)
    };
    lane.notes.iter().filter_map(words).collect()
}

/// What the forms leave, before the rounds.
const FORMS: [&str; 27] = [
    "scalars 0:a=1 1:b=Signed(-2) 2:c=Float(0.5) 3:d=Truth(true) 4:e=\"x\" 5:f=3 6:g=Signed(5) 7:h=4 8:i=Address 9:j=6 \
     14:k=\"340282366920938463463374607431768211455\"",
    "Key::chosen 0:id=7 1:of=\"key\" 2:shown=\"1\" 3:path=\"\\\"/a\\\"\" 4:sum=3 5:text=\"owned\"",
    "Key::chosen -> =\"key125\"",
    "Shape::area 0:factor=Float(1.5)",
    "Shape::area -> =Float(3.0)",
    "<Key as Shape>::name -> =\"key\"",
    "Key::into_name 0:more=4",
    "Key::into_name -> =8",
    "question error =\"failure 1\"",
    "both error =\"Failure(1)\"",
    "both -> =7",
    "both -> =5",
    "debugged -> =\"None\"",
    "debugged -> =\"Some(1)\"",
    "displayed 0:number=3",
    "displayed -> =\"failure 3\"",
    "untimed 0:number=5",
    "untimed -> =5",
    "waits 0:number=2 1:text=\"abc\"",
    "waits -> =3",
    "waits 0:number=3 1:text=\"\"",
    "waits error =\"failure 3\"",
    "does_not_wait 0:number=1",
    "does_not_wait -> =2",
    "opaque 0:number=1",
    "opaque error =\"failure 1\"",
    "opaque 0:number=2",
];

const LAST_FORMS: [&str; 5] = [
    "unwinds 0:number=1",
    "unwinds -> =1",
    "unwinds 0:number=3",
    "hostile 0:text=\"<b>\\u{202e}\\0\\u{1b}[31m\\n#\" 1:long=[256 of 2000] 2:empty=\"\" 3:zero=Signed(0)",
    "hostile -> =\"\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\"",
];

#[test]
fn values_of_every_type_belong_to_their_calls() {
    for variables in [
        "",
        "FDR_KEEP=0",
        "FDR_CLOCK=monotonic",
        "FDR_CLOCK=monotonic FDR_KEEP=0",
    ] {
        let folder = Folder::new("arguments-forms");
        let trace = record(&folder, &format!("{ALL} {variables}"), 2);
        let main = trace.thread("programs");
        let mut notes = notes(&trace, main);
        let pointer = notes[0].split(" 8:i=").nth(1).expect("a pointer");
        let pointer = pointer.split(' ').next().expect("a pointer").to_owned();
        assert!(pointer.starts_with("Address(") && pointer != "Address(0)");
        notes[0] = notes[0].replace(&pointer, "Address");
        let wanted: Vec<&str> = FORMS.into_iter().chain(LAST_FORMS).collect();
        assert_eq!(&notes[..wanted.len()], wanted, "{variables}");
        let rounds = [
            "short 0:number=0",
            "short -> =0",
            "short 0:number=1",
            "short -> =1",
        ];
        assert_eq!(
            &notes[wanted.len()..wanted.len() + 4],
            rounds,
            "{variables}"
        );
        assert_eq!(notes.len(), wanted.len() + 4 + 2 * 151 + 2 * 3);
        assert_eq!(main.synthetic, [0, 0]);
    }
}

#[test]
fn nothing_is_evaluated_while_off() {
    let folder = Folder::new("arguments-off");
    for variables in ["", "FDR=nothing::*"] {
        let outcome = program(&folder, variables).args(&["1"]).run().ok();
        assert!(!outcome.stdout.contains("evaluated"), "{}", outcome.stdout);
    }
}

#[test]
fn replay_over_a_time_hides_other_notes() {
    let folder = Folder::new("arguments-replay");
    let _ = program(&folder, &format!("{ALL} FDR_KEEP=0"))
        .args(&["20"])
        .run()
        .ok();
    let trace = folder.only_trace();
    let replay = |more: &str| -> (Vec<Value>, Vec<Value>) {
        let replay = json(&format!("replay -n 1000000 {more}"), &[&trace]);
        let list = |name: &str| replay[name].as_array().expect("a list").clone();
        (list("calls"), list("notes"))
    };
    let (calls, notes) = replay("");
    let number = |of: &Value, name: &str| of[name].as_u64().expect("a number");
    let mut times: Vec<u64> = calls.iter().map(|call| number(call, "total_ns")).collect();
    times.sort_unstable();
    let (long, long_notes) = replay(&format!("--over {}ns", times[times.len() / 2]));
    assert!(!long.is_empty() && long.len() < calls.len() && long_notes.len() < notes.len());
    // Each call of this function has a note with its argument.
    let name = "programs::arguments::recurses";
    let recurses = |call: &&Value| call["function"] == name;
    let is_argument = |note: &&Value| {
        let detail = note["detail"].as_str().expect("words");
        detail.starts_with(name) && detail.contains("number=")
    };
    let of_all = calls.iter().filter(recurses).count();
    let of_long = long.iter().filter(recurses).count();
    assert_eq!(notes.iter().filter(is_argument).count(), of_all);
    assert_eq!(long_notes.iter().filter(is_argument).count(), of_long);
    assert!((1..of_all).contains(&of_long), "{of_long} of {of_all}");
}

/// The last calls of the program, and which of them are open.
fn nested(until: u64, with_results: bool) -> Vec<String> {
    let calls = (0..=until)
        .rev()
        .map(|number| format!("recurses 0:number={number}"));
    let results = (0..=until).map(|number| format!("recurses -> ={number}"));
    calls.chain(results.filter(|_| with_results)).collect()
}

#[test]
fn only_long_calls_leave_arguments() {
    for variables in [
        "FDR_KEEP=3600s FDR_BUFFER=128K",
        "FDR_KEEP=3600s FDR_BUFFER=128K FDR_CLOCK=monotonic",
        "FDR_KEEP=0 FDR_BUFFER=128K",
    ] {
        let folder = Folder::new("arguments-short");
        let trace = record(&folder, &format!("{ALL} {variables}"), 20_000);
        let main = trace.thread("programs");
        let notes = notes(&trace, main);
        let counts = main.checked_counts();
        let shorts = notes
            .iter()
            .filter(|note| note.starts_with("short"))
            .count() as u64;
        if variables.contains("FDR_KEEP=0") {
            assert_eq!(counts.summarised, 0);
            assert!(notes.ends_with(&nested(2, true)));
        } else {
            // Each of them has at most two notes, and has records then.
            assert!(counts.summarised > 10_000, "{counts:?}");
            assert!(shorts <= counts.readable);
        }
    }
}

#[test]
fn open_calls_have_their_arguments_after_a_kill() {
    for variables in ["", "FDR_KEEP=3600s FDR_BUFFER=128K", "FDR_KEEP=0"] {
        let folder = Folder::new("arguments-kill");
        std::fs::create_dir(folder.join("rings")).expect("a folder");
        let outcome = program(&folder, &format!("{ALL} {variables} FDR_DIR=rings/"))
            .args(&["20000", "kill"])
            .run();
        assert!(!outcome.status.success());
        let found = folder.join("found.fdr");
        let ring = only_ring(&folder);
        let _ = fdr("dump -o", &[&found, &ring]);
        verify(&found);
        let trace = Trace::read(&found);
        let notes = notes(&trace, trace.thread("programs"));
        assert!(
            notes.ends_with(&nested(2, false)),
            "{variables}: {:?}",
            notes.last_chunk::<4>()
        );
    }
}

#[test]
fn open_calls_keep_their_arguments() {
    for variables in [
        "FDR_KEEP=3600s FDR_BUFFER=128K",
        "FDR_KEEP=3600s FDR_BUFFER=128K FDR_CLOCK=monotonic",
    ] {
        let folder = Folder::new("arguments-snapshot");
        let mut running = program(&folder, &format!("{ALL} {variables} FDR_OUT=dump.fdr"))
            .args(&["20000", "wait"])
            .start_until("waits");
        let (pid, snapshot) = (running.id(), folder.join("snapshot.fdr"));
        let _ = fdr(&format!("dump -q {pid} -o"), &[&snapshot]);
        let _ = fdr(&format!("ctl {pid} dump"), &[]);
        for name in ["snapshot.fdr", "dump.fdr"] {
            let trace = Trace::verified(&folder.join(name));
            let notes = notes(&trace, trace.thread("programs"));
            let open = nested(2, false);
            assert!(
                notes.ends_with(&open),
                "{name} {variables}: {:?}",
                notes.last_chunk::<4>()
            );
        }
        running.tell("");
        let _ = running.end().ok();
    }
}

#[test]
fn values_whose_print_panics_disturb_nothing() {
    let run =
        |folder: &Folder, variables: &str| program(folder, variables).args(&["bombs"]).run().ok();
    let folder = Folder::new("arguments-bombs");
    let off = run(&folder, "");
    for variables in ["", "FDR_KEEP=0", "FDR_CLOCK=monotonic"] {
        let folder = Folder::new("arguments-bombs");
        let on = run(&folder, &format!("FDR=1 FDR_PANIC=1 {variables}"));
        assert_eq!(on.stdout, off.stdout);
        assert!(!on.stderr.contains("panicked"), "{}", on.stderr);
        let traces = folder.ending(".fdr");
        // A panic of the program's own dumps, under each hook.
        assert_eq!(traces.len(), 3 + 1, "{:?}", folder.names());
        let trace = Trace::read(traces.last().expect("the last one"));
        let lane = trace.thread("programs");
        let of_calls = notes(&trace, lane);
        let call = [
            "explodes 0:before=Signed(1) 1:bomb=\"so far<panicked>\" 2:after=Signed(2)",
            "explodes -> =\"so far<panicked>\"",
        ];
        let wanted = [
            call[0],
            call[1],
            "fails_and_explodes 0:bomb=\"<panicked>\"",
            "fails_and_explodes error =\"<panicked>\"",
        ];
        let wanted = [&wanted.repeat(4)[..], &call[..]].concat();
        assert_eq!(of_calls, wanted, "{variables}");
        let events = events(&trace, lane);
        let inside = "inside bomb=\"so far<panicked>\"";
        let bombs = "bombs bomb=\"so far<panicked>\" other=\"<panicked>\" last=Signed(3)";
        let count = |wanted: &str| events.iter().filter(|event| *event == wanted).count();
        assert_eq!((count(inside), count(bombs)), (12, 4), "{events:?}");
        let panics = events.iter().filter(|event| event.starts_with("panic "));
        assert_eq!(panics.count(), 3, "{events:?}");
    }
}
