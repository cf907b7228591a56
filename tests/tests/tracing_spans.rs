//! Spans and events of `tracing`: which of them are in the trace, which are left out, and that the program does the
//! same.

use std::collections::BTreeMap;

use fdr_formats::notes::{Note, NoteKind, task_state};
use fdr_tests::plugin;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{fdr, json};
use fdr_tests::support::trace::{Lane, Trace};
use serde_json::json;

/// Runs the program, and gives its trace and what it printed.
pub(crate) fn run(folder: &Folder, variables: &str, word: &str) -> (Trace, String) {
    let program = Program::named("spans", folder);
    let outcome = program.set(variables).args(&[word]).run().ok();
    let trace = Trace::verified(&folder.only_trace());
    for lane in &trace.threads {
        let _ = lane.checked_counts();
    }
    (trace, outcome.stdout)
}

/// The lines of the source in names of events are left out, because they change.
fn without_lines(text: &str) -> String {
    let mut parts = text.split("spans.rs:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + "spans.rs" + part.trim_start_matches(|digit: char| digit.is_ascii_digit())
    })
}

/// Entries, exits (`/`), and events (`!`), in their order.
pub(crate) fn story(trace: &Trace, lane: &Lane) -> Vec<String> {
    let events = trace.events(lane);
    let at = lane.notes.iter().filter(|note| note.2 == NoteKind::Event);
    let mut events = at.map(|note| note.0).zip(events).peekable();
    let mut story = Vec::new();
    for number in 0..=lane.edges.len() {
        while let Some((_, event)) = events.next_if(|(edges, _)| *edges == number) {
            story.push(format!("!{}", without_lines(&event)));
        }
        let Some(edge) = lane.edges.get(number) else {
            break;
        };
        let name = trace.name_of(*edge);
        story.push(match edge & 1 {
            0 => name,
            _ => format!("/{name}"),
        });
    }
    story
}

#[test]
fn spans_are_calls_and_events_have_typed_values() {
    let failed = "failed: ".repeat(16) + "failed";
    let named = format!("!spans::elsewhere::named 0 5 error={failed:?}");
    let large = format!(
        "!programs::spans::spans.rs 0 3 large=\"{}\" small=\"{}\" display=\"1.5\" debug=\"Some(1)\"",
        u128::MAX,
        i128::MIN
    );
    let wanted = [
        "!programs::spans::spans.rs 0 1 message=\"of all types\" unsigned=1 signed=Signed(-1)",
        "!programs::spans::spans.rs 0 2 float=Float(0.5) truth=Truth(true) text=\"a \\\"text\\\"\" some=Signed(3)",
        &large,
        "!programs::spans::spans.rs 0 4 message=\"with 1 values\" error=\"failed: failed\"",
        &named,
        "programs::spans::outer",
        "!programs::spans::outer 1 3 count=2",
        "programs::spans::inner",
        "!programs::spans::inner 1 2 number=0 length=4",
        "!programs::spans::spans.rs 0 1 message=\"inside\"",
        "/programs::spans::inner",
        "programs::spans::inner",
        "!programs::spans::inner 1 2 number=1 length=4",
        "!programs::spans::spans.rs 0 1 message=\"inside\"",
        "/programs::spans::inner",
        "/programs::spans::outer",
        "programs::spans::later",
        "!programs::spans::later 1 3 first=Signed(1)",
        "!programs::spans::later 1 3 second=Signed(2)",
        "!programs::spans::later 1 3 third=\"3\"",
        "!programs::spans::spans.rs 0 3 message=\"inside\"",
        "/programs::spans::later",
        // The one that ends later goes on where the other one ends.
        "programs::spans::first",
        "programs::spans::second",
        "/programs::spans::second",
        "/programs::spans::first",
        "programs::spans::second",
        "!programs::spans::spans.rs 0 3 message=\"between\"",
        "/programs::spans::second",
        "programs::spans::around",
        "programs::spans::native",
        "!programs::spans::spans.rs 0 3 message=\"inside\"",
        "/programs::spans::native",
        "/programs::spans::around",
        "!log::log event 0 4 message=\"of log\" log.target=\"a log\" log.module_path=\"programs::spans\" \
         log.file=\"tests/src/bin/programs/spans.rs\" log.line=",
    ];
    for variables in ["FDR=1 FDR_KEEP=0", "FDR=1"] {
        let folder = Folder::new("tracing-kinds");
        let (trace, _) = run(&folder, variables, "kinds");
        let main = trace.thread("programs");
        assert_eq!(main.synthetic, [0, 0]);
        let mut story = story(&trace, main);
        let of_log = story.last_mut().expect("an event");
        let end = of_log.trim_end_matches(|digit: char| digit.is_ascii_digit());
        *of_log = end.replace("Signed(", "").to_owned();
        assert_eq!(story, wanted, "{variables}");
        let mut inner = trace.info.functions.iter();
        let inner = inner.find(|function| function.name == "programs::spans::inner");
        let inner = inner.expect("its place");
        assert!(
            inner.file.ends_with("bin/programs/spans.rs") && inner.line > 0,
            "{inner:?}"
        );
    }
}

#[test]
fn values_and_names_of_anybody_do_no_harm() {
    let folder = Folder::new("tracing-harm");
    let (trace, _) = run(&folder, "FDR=1 FDR_KEEP=0", "harm");
    let main = trace.thread("programs");
    let most = (1..=32).map(|number| format!(" a{number}=1"));
    let most = format!("!programs::spans::spans.rs 0 3{}", most.collect::<String>());
    let speaks = [
        "programs::spans::speaks",
        "!programs::spans::speaks 1 3 depth=1",
        "programs::spans::speaks",
        "!programs::spans::speaks 1 3 depth=0",
        "/programs::spans::speaks",
        "!programs::spans::spans.rs 0 3 message=\"spoken\" again=\"spoke\"",
        "/programs::spans::speaks",
    ];
    let mut wanted = vec![
        "!programs::spans::spans.rs 0 3 before=1 panics=\"so far<panicked>\" after=\"2\"",
        "programs::spans::panics",
        "!programs::spans::panics 1 3 panics=\"so far<panicked>\" after=3",
        "/programs::spans::panics",
    ];
    wanted.extend(speaks);
    wanted.push("!programs::spans::spans.rs 0 3 speaks=\"spoke\"");
    wanted.extend(speaks);
    wanted.extend([
        "programs::spans::speaker",
        "!programs::spans::speaker 1 3 speaks=\"spoke\"",
        "!programs::spans::spans.rs 0 3 message=\"inside\"",
        "/programs::spans::speaker",
        "!<t>\u{202e}::a\nb\u{1b}[31m 0 3 message=\"\\u{1b}[0m\" a\nfield=\"a\\0text\\n\"",
        "::",
        "/::",
        "!programs::spans::spans.rs 0 3 long=[1024 of 131072] after=7",
        &most,
        "programs::spans::waits",
    ]);
    // The first ones, and the last one.
    let waits: Vec<String> = (0..7)
        .chain([99])
        .map(|number| format!("!programs::spans::waits 1 3 number={number}"))
        .collect();
    wanted.extend(waits.iter().map(String::as_str));
    wanted.extend([
        "/programs::spans::waits",
        "programs::spans::unwound",
        "/programs::spans::unwound",
        "programs::spans::forgotten",
        "!programs::spans::spans.rs 0 3 message=\"at the end\"",
    ]);
    let story: Vec<String> = story(&trace, main)
        .iter()
        .map(|line| line.replace("Signed(", "").replace(')', ""))
        .collect();
    assert_eq!(story, wanted);
    // No name breaks a line.
    let report = fdr("report", &[&folder.only_trace()]);
    assert!(!report.contains(['\u{1b}', '\u{202e}']), "{report}");
}

/// The rows of `fdr report --tasks --json`, by name: how many finished, and how many did not.
fn tasks(folder: &Folder) -> BTreeMap<String, [u64; 2]> {
    let document = json("report --tasks", &[&folder.only_trace()]);
    let rows = document["tasks"].as_array().expect("rows").iter();
    rows.map(|row| {
        let counts = ["finished", "unfinished"].map(|end| row[end].as_u64().expect("a count"));
        assert_eq!(row["dropped"], 0);
        (row["name"].as_str().expect("a name").to_owned(), counts)
    })
    .collect()
}

#[test]
fn spans_that_are_entered_again_are_tasks() {
    for variables in ["FDR=1 FDR_KEEP=0", "FDR=1", "FDR=1 FDR_CLOCK=monotonic"] {
        let folder = Folder::new("tracing-tasks");
        let (trace, _) = run(&folder, variables, "tasks");
        let wanted = [
            ("programs::spans::child", [1, 0]),
            ("programs::spans::dropped", [1, 0]),
            ("programs::spans::parent", [1, 0]),
            ("programs::spans::waiting", [0, 1]),
            ("programs::spans::waits", [21, 0]),
        ];
        let wanted = wanted.map(|(name, ends)| (name.to_owned(), ends));
        assert_eq!(tasks(&folder), BTreeMap::from(wanted), "{variables}");
        // Three polls of 20, two of one, and the entries in which they are dropped. Those of calls are no tasks.
        let calls = trace.calls();
        assert_eq!(
            (
                calls["programs::spans::waits"],
                calls["programs::spans::call"]
            ),
            (20 * 4 + 3, 20)
        );
        let notes = trace.threads.iter().flat_map(|lane| &lane.notes);
        let tasks = notes.filter_map(|(_, _, kind, body)| {
            let Some(Note::Task {
                task,
                parent,
                name,
                state,
                polls,
                elapsed,
                busy,
                ..
            }) = Note::decode(*kind, body)
            else {
                return None;
            };
            assert!(busy <= elapsed, "{task}");
            Some((trace.name_of(name << 1), task, parent, state, polls))
        });
        let tasks: Vec<_> = tasks.collect();
        let last = |name: &str| {
            let named = tasks.iter().filter(|task| task.0 == name);
            named
                .max_by_key(|task| (task.1, task.4, task.3))
                .expect("a task")
        };
        let parent = last("programs::spans::parent");
        assert_eq!((parent.2, parent.3, parent.4), (0, task_state::FINISHED, 4));
        // Both tasks were made inside `programs::spans::parent`, although another thread polls one of them.
        assert_eq!(
            (
                last("programs::spans::child").2,
                last("programs::spans::child").4
            ),
            (parent.1, 3)
        );
        assert_eq!(
            (
                last("programs::spans::waits").2,
                last("programs::spans::waits").4
            ),
            (parent.1, 3)
        );
        assert_eq!(
            (
                last("programs::spans::waiting").3,
                last("programs::spans::waiting").4
            ),
            (task_state::WAITING, 2)
        );
    }
}

/// Fields inside of the span, inside of another one, between polls, and behind the last exit.
#[test]
fn late_fields_belong_to_their_span() {
    for variables in ["FDR=1 FDR_KEEP=0", "FDR=1"] {
        let folder = Folder::new("tracing-fields");
        let program = Program::named("spans", &folder).set(variables);
        let _ = program.args(&["fields"]).run().ok();
        let path = folder.only_trace();
        let by = |field: &str| {
            let document = json(&format!("report --tasks --by {field}"), &[&path]);
            let rows = document["tasks"].as_array().expect("rows").iter();
            let rows = rows.map(|row| (row["by"].clone(), row["tasks"].as_u64().expect("tasks")));
            let rows: Vec<_> = rows.map(|(by, tasks)| (by.to_string(), tasks)).collect();
            rows.into_iter().collect::<BTreeMap<String, u64>>()
        };
        // The last value, whatever the polls before had; also of the first task of the program.
        let [even, odd] = [200, 201].map(|status| (format!("\"{status}\""), 5));
        assert_eq!(by("status"), BTreeMap::from([even, odd]), "{variables}");
        let names = (0..10).map(|id| (format!("\"GET /item/{id}\""), 1));
        assert_eq!(by("otel.name"), names.collect(), "{variables}");
        let tasks = fdr("slow --tasks --over 1ns -n 10", &[&path]);
        for id in 0..10 {
            let status = 200 + id % 2;
            let fields =
                format!("arguments  id={id} otel.name=\"GET /item/{id}\" status={status}\n");
            assert!(tasks.contains(&fields), "{variables}: {fields}{tasks}");
        }
        // A call that is no task.
        let calls = fdr("slow --calls --over 10ms", &[&path]);
        let fields = "arguments  id=3 size=3 status=203\n";
        assert!(calls.contains(fields), "{variables}: {calls}");
        let replay = fdr("replay --records --filter programs::spans::job", &[&path]);
        assert!(replay.contains("status=203"), "{variables}: {replay}");
    }
}

#[test]
fn names_made_at_run_time_are_names_of_otlp_spans() {
    let folder = Folder::new("tracing-names");
    let program = Program::named("spans", &folder).set("FDR=1 FDR_KEEP=0 FDR_OUT=spans.fdr");
    let _ = program.args(&["fields"]).run().ok();
    let out = folder.join("spans.json");
    let _ = fdr(
        "convert -q --to otlp-json -o",
        &[&out, &folder.join("spans.fdr")],
    );
    let text = std::fs::read_to_string(out).expect("the export");
    assert!(text.contains(r#""name":"GET /item/7""#), "{text}");
}

#[test]
fn two_threads_may_be_in_one_span() {
    let folder = Folder::new("tracing-threads");
    let (trace, _) = run(&folder, "FDR=1 FDR_KEEP=0", "threads");
    let mut fields = 0;
    for name in ["one", "two"] {
        let message = format!("!programs::spans::spans.rs 0 3 message=\"in {name}\"");
        let mut story = story(&trace, trace.thread(name));
        // The thread that comes first has the fields.
        story.retain(|line| {
            let is_field = line.starts_with("!programs::spans::shared 1 3 number=");
            fields += u32::from(is_field);
            !is_field
        });
        let wanted = [
            "programs::spans::shared",
            "programs::spans::child",
            &message,
            "/programs::spans::child",
            "/programs::spans::shared",
        ];
        assert_eq!(story, wanted);
    }
    assert_eq!(fields, 1);
    let wanted = [
        "programs::spans::shared",
        "programs::spans::shared",
        "!programs::spans::spans.rs 0 3 message=\"twice\"",
        "/programs::spans::shared",
        "/programs::spans::shared",
    ];
    assert_eq!(story(&trace, trace.thread("programs")), wanted);
    assert_eq!(tasks(&folder)["programs::spans::shared"], [1, 0]);
}

#[test]
fn spans_are_off_until_enabled() {
    let folder = Folder::new("tracing-late");
    let (trace, stdout) = run(&folder, "", "late");
    assert!(
        stdout.starts_with("level off\non true\nlevel trace\n"),
        "{stdout}"
    );
    let wanted = [
        "programs::spans::work",
        "!programs::spans::work 1 3 number=2",
        "!programs::spans::spans.rs 0 3 message=\"works\" number=2",
        "/programs::spans::work",
        // The span of that event is left out by the filter.
        "!programs::spans::spans.rs 0 3 message=\"works\" number=4",
    ];
    assert_eq!(story(&trace, trace.thread("programs")), wanted);
}

#[test]
fn other_layers_see_what_the_recorder_leaves_out() {
    for (variables, calls, events) in [
        ("", 0, 0),
        ("FDR=off", 0, 0),
        ("FDR=somebody::else", 0, 0),
        ("FDR=programs::spans::work", 3, 3),
        ("FDR=programs::spans::*,-programs::spans::work", 0, 3),
        ("FDR=1", 3, 6),
        ("FDR=1 FDR_KEEP=0", 3, 6),
    ] {
        let folder = Folder::new("tracing-layers");
        let program = Program::named("spans", &folder);
        let outcome = program.set(variables).args(&["layers"]).run().ok();
        assert!(
            outcome.stdout.starts_with("3 3\n"),
            "{variables}: {outcome:?}"
        );
        if (calls, events) == (0, 0) {
            assert_eq!(folder.names().len(), 0, "{variables}: {:?}", folder.names());
            continue;
        }
        let trace = Trace::read(&folder.only_trace());
        let main = trace.thread("programs");
        let found = (
            trace.calls().values().sum::<u64>(),
            trace.events(main).len(),
        );
        assert_eq!(found, (calls, events), "{variables}");
    }
}

#[test]
fn spans_convert_to_ctf() {
    let folder = Folder::new("tracing-ctf");
    let program = Program::named("spans", &folder).set("FDR=1 FDR_KEEP=0 FDR_OUT=spans.fdr");
    let _ = program.args(&["kinds"]).run().ok();
    let recorded = folder.join("spans.fdr");
    let stories = ["xray", "ctf"].map(|format| {
        let path = folder.join(format);
        let _ = fdr(&format!("convert -q --to {format} -o"), &[&path, &recorded]);
        let trace = Trace::verified(&path);
        story(&trace, trace.thread("programs"))
    });
    // Names of fields are those of the format.
    let [xray, ctf] = stories.map(|story| story.join("\n").replace("log.", "log_"));
    assert_eq!(xray, ctf);
}

#[test]
fn a_ring_goes_round_and_its_counts_hold() {
    for variables in ["FDR=1 FDR_BUFFER=128K", "FDR=1 FDR_BUFFER=128K FDR_KEEP=0"] {
        let folder = Folder::new("tracing-many");
        let program = Program::named("spans", &folder).set(variables);
        let outcome = program.args(&["many", "20000"]).run().ok();
        let trace = Trace::read(&folder.only_trace());
        let counts = trace.thread("programs").checked_counts();
        assert_eq!((counts.recorded, counts.dropped), (40_000, 0), "{counts:?}");
        assert!(counts.overwritten > 0, "{counts:?}");
        // Slots of spans are used again.
        assert!(outcome.stdout.contains("spans at once 1\n"), "{outcome:?}");
    }
}

#[test]
fn killed_processes_leave_span_names() {
    let folder = Folder::new("tracing-killed");
    let program = Program::named("spans", &folder).set("FDR=1 FDR_DIR=.");
    let outcome = program.args(&["killed"]).run();
    assert!(!outcome.status.success());
    let ring = folder.ending(".fdr-ring").pop().expect("a ring");
    let out = folder.join("recovered.fdr");
    let _ = fdr("dump -o", &[&out, &ring]);
    let trace = Trace::read(&out);
    let wanted = [
        "programs::spans::work",
        "!programs::spans::work 1 3 number=7",
        "!programs::spans::spans.rs 0 3 message=\"works\" number=7",
        "/programs::spans::work",
    ];
    assert_eq!(story(&trace, &trace.threads[0]), wanted);
}

#[test]
fn spans_are_off_once_the_ring_is_lost() {
    let folder = Folder::new("tracing-cut");
    let program = Program::named("spans", &folder).set("FDR=1 FDR_DIR=.");
    let outcome = program.args(&["cut"]).run().ok();
    assert!(outcome.stdout.contains("on 0\non 0\n"), "{outcome:?}");
    let count = outcome.stderr.matches("recording has ended").count();
    assert_eq!(count, 1, "{outcome:?}");
}

#[test]
fn forked_children_have_their_own_spans() {
    for words in [&["forks"][..], &["forks", "kill"]] {
        let folder = Folder::new("tracing-forks");
        let program = Program::named("spans", &folder).set("FDR=1 FDR_DIR=.");
        let _ = program.args(words).run().ok();
        let mut traces = folder.ending(".fdr");
        if let Some(ring) = folder.ending(".fdr-ring").pop() {
            let out = folder.join("recovered.fdr");
            let _ = fdr("dump -o", &[&out, &ring]);
            traces.push(out);
        }
        let stories = traces.iter().map(|path| {
            let trace = Trace::read(path);
            story(&trace, &trace.threads[0])
        });
        let mut stories: Vec<Vec<String>> = stories.collect();
        stories.sort();
        let child = [
            "programs::spans::in the child",
            "/programs::spans::in the child",
        ];
        let parent = [
            "programs::spans::work",
            "!programs::spans::work 1 3 number=1",
            "!programs::spans::spans.rs 0 3 message=\"works\" number=1",
            "/programs::spans::work",
        ];
        assert_eq!(stories, [&child[..], &parent[..]], "{words:?}");
    }
}

/// A plug-in has its own copies of the recorder and of `tracing`. It may be the guest of its host from the start, become
/// the host, or become the guest of another plug-in later.
#[test]
fn plugins_bring_spans_to_their_host() {
    let file = plugin();
    for (variables, words, spans) in [
        ("FDR=1", "open spans spans dump", 2),
        ("", "open spans enable spans dump", 1),
        ("", "open spans other enable close spans dump", 1),
    ] {
        let folder = Folder::new("tracing-plugin");
        let copy = folder.join("libother.so");
        std::fs::copy(&file, &copy).expect("a copy");
        let words = words.split(' ').map(|word| match word {
            "open" => format!("open:{}", file.display()),
            "other" => format!("open:{}", copy.display()),
            word => word.to_owned(),
        });
        let words: Vec<String> = words.collect();
        let host = Program::new(env!("CARGO_BIN_EXE_bare_host"), &folder);
        let host = host.set(variables).args(&words);
        let outcome = host.run().ok();
        assert!(outcome.stdout.contains("done\n"), "{outcome:?}");
        let traces = folder.ending(".fdr");
        let trace = Trace::read(traces.first().expect("a trace"));
        let calls = trace.calls().get("recorded_plugin::plugged in").copied();
        assert_eq!(calls, Some(spans), "{words:?}");
        let events = trace.events(&trace.threads[0]);
        let fields = events
            .iter()
            .filter(|event| event.ends_with("number=Signed(1)"));
        let inside = events
            .iter()
            .filter(|event| event.ends_with("message=\"inside\""));
        let found = (fields.count() as u64, inside.count() as u64);
        assert_eq!(found, (spans, spans), "{words:?} {events:?}");
    }
}

#[test]
fn the_example_tells_its_tasks() {
    let folder = Folder::new("tracing-example");
    let program = Program::new(fdr_tests::example("tracing_layer"), &folder);
    let _ = program.set("FDR=1").run().ok();
    let wanted = json!({"tracing_layer::connection": [10, 0], "tracing_layer::request": [10, 0]});
    assert_eq!(json!(tasks(&folder)), wanted);
}
