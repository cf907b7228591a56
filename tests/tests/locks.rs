//! Waits for locks, conditions and channels. The trace must name the holder of the lock and the holder's function,
//! and the object of each wait that has not ended.

use std::collections::HashSet;
use std::path::Path;

use fdr_formats::FunctionId;
use fdr_formats::notes::{Note, reason, thread_state};
use fdr_tests::plugin;
use fdr_tests::support::endless::only_ring;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{fdr, json, verify};
use fdr_tests::support::trace::{Lane, Trace};
use serde_json::{Value, json};

fn program(folder: &Folder, variables: &str, scenario: &str) -> Program {
    let program = Program::named("locks", folder);
    program.set(variables).args(&[scenario])
}

/// Runs the program, and reads its trace.
fn record(folder: &Folder, variables: &str, scenario: &str) -> Trace {
    let _ = program(folder, variables, scenario).run().ok();
    Trace::verified(&folder.only_trace())
}

/// A note of a thread's state.
#[derive(Debug, PartialEq)]
pub(crate) struct State {
    pub(crate) state: u8,
    pub(crate) reason: u8,
    pub(crate) name: String,
    /// The thread's name.
    pub(crate) holder: String,
    pub(crate) function: String,
}

/// The states of a thread, and how long the waits took in ticks.
fn states(trace: &Trace, lane: &Lane) -> Vec<(State, u64)> {
    let name = |id: u32| match trace.info.function(FunctionId(id)) {
        Some(function) => function.name.clone(),
        None => String::new(),
    };
    let thread = |id: u64| {
        let mut lanes = trace.threads.iter();
        let lane = lanes.find(|lane| lane.thread.id.0 == id);
        lane.map_or_else(String::new, |lane| lane.thread.name.clone())
    };
    let note = |(_, _, kind, body): &(usize, u64, _, Vec<u8>)| match Note::decode(*kind, body) {
        Some(Note::ThreadState {
            object,
            holder,
            name: id,
            state,
            reason,
            function,
            waited,
        }) => {
            assert_ne!(object, 0);
            let state = State {
                state,
                reason,
                name: name(id),
                holder: thread(holder),
                function: name(function),
            };
            Some((state, waited))
        }
        _ => None,
    };
    lane.notes.iter().filter_map(note).collect()
}

/// The only wait of each thread of that name, from the note at the wait's end. The note at its beginning must have
/// the same fields, except the holder of an object that is not a lock.
pub(crate) fn waits(trace: &Trace, thread: &str) -> Vec<State> {
    let lanes = trace.threads.iter();
    let lanes = lanes.filter(|lane| lane.thread.name == thread);
    let mut lanes: Vec<&Lane> = lanes.collect();
    // A trace has threads in the order of their places in the ring.
    lanes.sort_by_key(|lane| lane.thread.id);
    let wait = |lane: &Lane| {
        let states = states(trace, lane);
        let mut states = states.into_iter();
        let (Some((begin, early)), Some((end, late)), None) =
            (states.next(), states.next(), states.next())
        else {
            panic!("one wait has two notes");
        };
        assert_eq!(
            (begin.state, end.state),
            (thread_state::BLOCKED, thread_state::RUNNING)
        );
        assert_eq!((&begin.name, begin.reason), (&end.name, end.reason));
        assert!(late > early && early > 0, "{early} {late}");
        if end.reason == reason::LOCK {
            assert_eq!(
                (&begin.holder, &begin.function),
                (&end.holder, &end.function)
            );
        } else {
            assert_eq!((begin.holder.as_str(), begin.function.as_str()), ("", ""));
        }
        end
    };
    lanes.into_iter().map(wait).collect()
}

/// Each wait of the trace has two notes that say the same. No holder is in a traced function.
fn check_both_notes(trace: &Trace, variables: &str) {
    let (mut with_name, mut without) = (0, 0);
    for lane in &trace.threads {
        let mut named = HashSet::new();
        let mut states = states(trace, lane).into_iter();
        // The first note of a ring may be the second one of a wait.
        let first = states.as_slice().first();
        if first.is_some_and(|(state, _)| state.state == thread_state::RUNNING) {
            assert!(variables.contains("128K"));
            states.next();
        }
        while let Some((begin, _)) = states.next() {
            let (end, waited) = states.next().expect("each wait has ended");
            assert_eq!(
                (begin.state, end.state),
                (thread_state::BLOCKED, thread_state::RUNNING)
            );
            assert_eq!(begin.reason, end.reason);
            // While another thread makes the name of a lock, notes lack it. Once a thread has seen it, it is there.
            let is_named = !end.name.is_empty();
            let is_first = !is_named || named.insert(end.name.clone());
            assert!(begin.name == end.name || begin.name.is_empty() && is_first);
            (with_name, without) = (
                with_name + u64::from(is_named),
                without + u64::from(!is_named),
            );
            assert!(waited > 0);
            // The holder is in no traced function while it has a lock.
            assert_eq!((begin.function.as_str(), end.function.as_str()), ("", ""));
        }
    }
    assert!(with_name >= 4 * without, "{with_name} {without}");
}

pub(crate) fn lock(name: &str, holder: &str, function: &str) -> State {
    State {
        state: thread_state::RUNNING,
        reason: reason::LOCK,
        name: name.to_owned(),
        holder: holder.to_owned(),
        function: function.to_owned(),
    }
}

#[test]
fn waits_name_lock_holder_and_its_function() {
    for variables in ["FDR=*", "FDR=* FDR_KEEP=1ns", "FDR=* FDR_CLOCK=monotonic"] {
        let folder = Folder::new("locks-mutex");
        let trace = record(&folder, variables, "mutex");
        let turns = ["flush", "inner", "flush", "flush", "inner"];
        let wanted =
            turns.map(|turn| lock("queue", "programs", &format!("programs::locks::{turn}")));
        assert_eq!(waits(&trace, "waiter"), wanted, "{variables}");
        let report = json("report", &[&folder.only_trace()]);
        let rows = report["waits"].as_array().expect("rows");
        let [row] = &rows[..] else {
            panic!("one lock was waited for: {rows:?}");
        };
        assert_eq!(row["name"], "queue");
        assert_eq!(row["reason"], "lock");
        assert_eq!((&row["waits"], &row["threads"]), (&json!(5), &json!(5)));
        let total = row["total_ns"].as_u64().expect("a time");
        assert!(row["longest_ns"].as_u64().expect("a time") <= total);
        let mut holders = row["holders"].as_array().expect("holders").clone();
        holders.sort_by_key(|holder| holder["function"].as_str().map(str::to_owned));
        let names = holders.iter();
        let names: Vec<_> = names.map(|row| (&row["function"], &row["waits"])).collect();
        let [flush, inner] =
            ["programs::locks::flush", "programs::locks::inner"].map(|name| json!(name));
        assert_eq!(names, [(&flush, &json!(3)), (&inner, &json!(2))]);
        let shares = holders.iter().map(|row| row["share"].as_f64());
        let shares: f64 = shares.map(|share| share.expect("a share")).sum();
        assert!((shares - 1.0).abs() < 1e-6, "{shares}");
        assert_eq!(report["waiting"], json!([]));
        let text = fdr("report", &[&folder.only_trace()]);
        let row = text.lines().find(|line| line.contains("queue (lock)"));
        let row = row.unwrap_or_else(|| panic!("{text}"));
        assert!(
            row.contains("programs::locks::flush") && row.contains("programs::locks::inner"),
            "{row}"
        );
    }
}

#[test]
fn holders_functions_are_never_guessed() {
    let folder = Folder::new("locks-unkept");
    let trace = record(&folder, "FDR=* FDR_KEEP=0", "mutex");
    let wanted = [(); 5].map(|()| lock("queue", "programs", ""));
    assert_eq!(waits(&trace, "waiter"), wanted);
    let report = json("report", &[&folder.only_trace()]);
    let holders = json!([{"function": null, "waits": 5, "share": 1.0}]);
    let mut found = report["waits"][0]["holders"].clone();
    found[0]
        .as_object_mut()
        .expect("a holder")
        .remove("total_ns");
    assert_eq!(found, holders);
}

#[test]
fn a_filter_of_functions_leaves_no_wait_out() {
    let folder = Folder::new("locks-filter");
    let trace = record(&folder, "FDR=programs::locks::flush", "mutex");
    let turns = ["flush", "", "flush", "flush", ""];
    let functions = turns.map(|turn| match turn {
        "" => String::new(),
        turn => format!("programs::locks::{turn}"),
    });
    // The thread has calls of one function, and none while it is in the others.
    let wanted = functions.map(|function| lock("queue", "programs", &function));
    assert_eq!(waits(&trace, "waiter"), wanted);
}

#[test]
fn writers_and_the_only_reader_are_holders() {
    let folder = Folder::new("locks-rwlock");
    let trace = record(&folder, "FDR=*", "rwlock");
    let of_reader = [lock("routes", "programs", "programs::locks::flush")];
    assert_eq!(waits(&trace, "reader"), of_reader);
    // Two readers: none of them is named.
    let of_writers = [
        lock("routes", "programs", "programs::locks::inner"),
        lock("routes", "", ""),
    ];
    assert_eq!(waits(&trace, "writer"), of_writers);
}

#[test]
fn conditions_name_notifiers_and_channels_have_names() {
    let folder = Folder::new("locks-condition");
    let trace = record(&folder, "FDR=*", "condition");
    let wanted = State {
        reason: reason::CONDITION,
        ..lock("filled", "programs", "")
    };
    assert_eq!(waits(&trace, "waiter"), [wanted]);
    let folder = Folder::new("locks-channel");
    let trace = record(&folder, "FDR=*", "channel");
    let channel = |name: &str| State {
        reason: reason::CHANNEL,
        ..lock(name, "", "")
    };
    assert_eq!(waits(&trace, "receiver"), [channel("jobs")]);
    let [sender] = &waits(&trace, "sender")[..] else {
        panic!("one sender");
    };
    let (name, line) = sender.name.split_once(" (").expect("a place");
    assert_eq!((name, sender.reason), ("SyncSender<u32>", reason::CHANNEL));
    assert!(line.contains("src/bin/programs/locks.rs:"), "{line}");
}

/// What `fdr state` and `fdr report` say of threads that wait: thread, lock, holder, and what that is in.
pub(crate) fn waiting(document: &Value) -> Vec<[String; 4]> {
    let rows = document["waiting"].as_array().expect("rows").iter();
    let mut rows: Vec<[String; 4]> = rows
        .map(|row| {
            assert!(row["waiting_ns"].as_u64().is_some_and(|ns| ns > 0), "{row}");
            assert_eq!(row["reason"], "lock");
            ["thread_name", "name", "holder_name", "holder_function"]
                .map(|key| row[key].as_str().unwrap_or_default().to_owned())
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn deadlocks_show_in_every_kind_of_trace() {
    for variables in ["FDR=* FDR_DIR=rings/", "FDR=* FDR_DIR=rings/ FDR_KEEP=0"] {
        let folder = Folder::new("locks-deadlock");
        let running = program(&folder, variables, "deadlock").start_ready();
        let first = match variables.contains("KEEP=0") {
            true => "",
            false => "programs::locks::first",
        };
        let wanted = [
            ["audit", "accounts", "pay", first].map(str::to_owned),
            ["pay", "journal", "audit", first].map(str::to_owned),
        ];
        let ring = only_ring(&folder);
        assert_eq!(waiting(&json("state", &[&ring])), wanted);
        let text = fdr("state", &[&ring]);
        let lines = text.lines().filter(|line| line.contains("     waits for "));
        assert_eq!(lines.clone().count(), 2, "{text}");
        let of_pay = format!("held by audit ({})", {
            let state = json("state", &[&ring]);
            let waits = state["waiting"].as_array().expect("rows").clone();
            let of_audit = waits.into_iter().find(|row| row["thread_name"] == "audit");
            of_audit.expect("a wait")["thread"].clone()
        });
        assert!(text.contains(&of_pay), "{text}");
        running.signal("KILL");
        let _ = running.end();
        let trace = folder.join("after.fdr");
        let _ = fdr("dump -q -o", &[&trace, &ring]);
        assert_eq!(waiting(&json("report", &[&trace])), wanted);
        let text = fdr("report", &[&trace]);
        assert!(text.contains("waiting when it was killed: "), "{text}");
    }
    let folder = Folder::new("locks-exit");
    let mut running = program(&folder, "FDR=*", "itself").start_ready();
    running.tell("");
    let _ = running.end().ok();
    let trace = folder.only_trace();
    verify(&trace);
    let rows = waiting(&json("report", &[&trace]));
    let [[thread, name, holder, function]] = &rows[..] else {
        panic!("one thread waits: {rows:?}");
    };
    assert!(name.starts_with("Mutex<u8> ("), "{name}");
    assert_eq!(
        [thread, holder, function],
        ["once more", "once more", "programs::locks::twice"]
    );
    let text = fdr("report", &[&trace]);
    assert!(
        text.contains("held by itself in programs::locks::twice"),
        "{text}"
    );
}

#[test]
fn moments_before_a_wait_show_none() {
    let folder = Folder::new("locks-moment");
    let trace = record(&folder, "FDR=*", "mutex");
    let path = folder.only_trace();
    let before = json("state --at +0ns", &[&path]);
    assert_eq!(before["waiting"], json!([]));
    // The moment of the first wait's note.
    let lanes = trace.threads.iter();
    let mut notes = lanes.filter_map(|lane| lane.notes.first());
    let (_, ticks, _, _) = notes.next().expect("a note");
    let ns = trace.info.clock.nanos(fdr_formats::Ticks(*ticks)).0;
    let within = json(&format!("state --at {ns}"), &[&path]);
    let rows = waiting(&within);
    assert_eq!(rows.len(), 1, "{within}");
}

/// The program runs a scenario in a folder with these variables.
pub(crate) type ProgramOf = fn(&Folder, &str, &str) -> Program;

/// Locks without waits leave nothing. While recording is off there is no trace, and the result is the same.
pub(crate) fn check_quiet(name: &str, program: ProgramOf, locks: &[&str]) {
    for variables in ["FDR=*", "FDR=* FDR_KEEP=0"] {
        let folder = Folder::new(&format!("{name}-quiet"));
        let _ = program(&folder, variables, "quiet").run().ok();
        let trace = Trace::verified(&folder.only_trace());
        assert!(trace.threads.iter().all(|lane| lane.notes.is_empty()));
        assert_eq!(trace.calls()[&format!("programs::{name}::short")], 1);
        let names = trace.names();
        assert!(!locks.iter().any(|lock| names.contains(lock)), "{names:?}");
    }
    let folder = Folder::new(&format!("{name}-off"));
    let outcome = program(&folder, "", "quiet").run().ok();
    assert_eq!(outcome.stdout.trim(), "1000");
    assert_eq!(folder.names(), Vec::<String>::new());
}

/// Each of many waits leaves both notes, and the program's results are the same while recording is off.
pub(crate) fn check_busy(name: &str, program: ProgramOf, wanted: &str) {
    for variables in ["", "FDR=*", "FDR=* FDR_KEEP=0", "FDR=* FDR_BUFFER=128K"] {
        let folder = Folder::new(&format!("{name}-busy"));
        let outcome = program(&folder, variables, "busy").run().ok();
        assert_eq!(outcome.stdout, wanted, "{variables}");
        if variables.is_empty() {
            assert_eq!(folder.names(), Vec::<String>::new());
            continue;
        }
        check_both_notes(&Trace::verified(&folder.only_trace()), variables);
    }
}

#[test]
fn locks_that_nobody_waits_for_leave_nothing() {
    check_quiet("locks", program, &["queue", "routes"]);
}

#[test]
fn contended_waits_have_both_notes() {
    check_busy(
        "locks",
        program,
        "1200 1200\n1200\n[true, true, true] true\n",
    );
}

#[test]
fn hosts_record_the_waits_of_plugins() {
    let hosts = [
        env!("CARGO_BIN_EXE_traced_host"),
        env!("CARGO_BIN_EXE_bare_host"),
    ];
    for host in hosts {
        let folder = Folder::new("locks-plugin");
        let open = format!("open:{}", plugin().display());
        let program = Program::new(host, &folder).set("FDR=1");
        let outcome = program.args(&[&open, "work", "wait"]).run().ok();
        assert!(outcome.stdout.contains("done\n"), "{outcome:?}");
        let path = folder.only_trace();
        verify(&path);
        let report = json("report", &[&path]);
        let row = &report["waits"][0];
        assert_eq!(
            (&row["name"], &row["waits"]),
            (&json!("of the plug-in"), &json!(1))
        );
        assert_eq!(
            row["holders"][0]["function"], "recorded_plugin::holds",
            "{host}"
        );
    }
}

#[test]
fn other_formats_have_the_waits_too() {
    let folder = Folder::new("locks-formats");
    let _ = record(&folder, "FDR=*", "mutex");
    let trace = folder.only_trace();
    let waits = |path: &Path| json("report --window", &[path])["waits"].clone();
    let before = waits(&trace);
    assert_eq!(before[0]["waits"], 5);
    for format in ["ctf", "heph", "htdump", "et2"] {
        let other = folder.join(&format!("converted.{format}"));
        let _ = fdr(&format!("convert -q --to {format} -o"), &[&other, &trace]);
        let after = waits(&other);
        let figures = |rows: &Value| {
            let row = &rows[0];
            let holders = row["holders"].as_array().expect("holders").iter();
            let holders = holders.map(|holder| [&holder["function"], &holder["waits"]]);
            let holders: Vec<_> = holders.map(|pair| pair.map(Value::to_string)).collect();
            (row["name"].clone(), row["waits"].clone(), holders)
        };
        assert_eq!(figures(&before), figures(&after), "{format}");
        // Times are whole nanoseconds there.
        let [before_ns, after_ns] = [&before, &after].map(|rows| rows[0]["total_ns"].as_u64());
        let (before_ns, after_ns) = (before_ns.expect("a time"), after_ns.expect("a time"));
        assert!(
            before_ns.abs_diff(after_ns) <= 5,
            "{format}: {before_ns} {after_ns}"
        );
    }
}
