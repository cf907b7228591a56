//! `fdr TRACE`: a trace on one screen; and commands that take the newest trace because none is named.

use std::fs::File;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use fdr_formats::model::{Counts, FunctionTotals};
use fdr_formats::notes::{Note, reason, task_state, thread_state};
use fdr_formats::{FunctionId, Thread, Ticks, TraceInfo};

use crate::common::{
    Folder, Item, answer, assert_contains, assert_lacks, command, fdr, functions, goldens,
    in_folder, small, stderr, stdout, task_note, thread, write_noted,
};
use crate::slow::held_up;
use crate::terminal::{on_terminal, plain, width};

/// Functions that are called, functions of tasks, and locks.
const CALLED: Range<u32> = 1..8;
const OF_TASKS: Range<u32> = 8..15;
const LOCKS: Range<u32> = 15..20;

/// A run of many functions, tasks, locks and slow calls, most of whose records are gone. `has_tasks`: otherwise it has
/// no tasks.
fn crowded(trace: &str, why: &str, has_tasks: bool) {
    let name = |id: u32| match id {
        id if CALLED.contains(&id) => format!("a_service::storage::pages::Pages::function_{id}"),
        id if OF_TASKS.contains(&id) => format!("a_service::connections::requests::task_{id}"),
        id => format!("a_service::storage::LOCK_{id}"),
    };
    let names: Vec<String> = (CALLED.start..LOCKS.end).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let wait = |name: u32, state: u8, waited| Note::ThreadState {
        object: u64::from(name),
        holder: 0,
        name,
        state,
        reason: reason::LOCK,
        function: 0,
        waited,
    };
    let (mut items, mut time) = (Vec::new(), 0);
    for id in CALLED {
        for nth in 0..40 {
            let took = if nth == 30 {
                900_000
            } else {
                1000 * u64::from(id)
            };
            items.push(Item::Call(time, id.into()));
            items.push(Item::Call(time + took, -i64::from(id)));
            time += took + 100;
        }
    }
    for lock in LOCKS {
        items.push(Item::Note(time, wait(lock, thread_state::BLOCKED, 0)));
        items.push(Item::Note(
            time + 5000,
            wait(lock, thread_state::RUNNING, 5000),
        ));
        time += 6000;
    }
    for id in OF_TASKS.filter(|_| has_tasks) {
        let note = task_note(u64::from(id), 0, id, task_state::FINISHED);
        items.push(Item::Note(time, note));
    }
    items.push(Item::Call(time + 100, 1));
    let totals = |id| FunctionTotals {
        function: FunctionId(id),
        calls: 400,
        total: Ticks(3_000_000),
        own: Ticks(3_000_000),
        longest: Ticks(900_000),
        lengths: vec![(50, 400)],
        ..FunctionTotals::default()
    };
    let readable = CALLED.len() as u64 * 80 + 1;
    let of_worker = Thread {
        totals: CALLED.map(totals).collect(),
        counts: Some(Counts {
            recorded: 10 * readable,
            readable,
            overwritten: 9 * readable,
            ..Counts::default()
        }),
        ..thread(7, "worker")
    };
    let info = TraceInfo {
        functions: functions(&names),
        program: "a_service_with_a_name".into(),
        process: Some(123_456),
        reason: why.into(),
        end: Some(Ticks(time + 9000)),
        ..TraceInfo::default()
    };
    write_noted(trace, &info, &[(of_worker, items)]);
}

const PANIC: &str = "panic in thread 7 (worker) at src/storage/pages.rs:37:5: called `Option::unwrap()` on a `None` \
                     value, while the page 12345678 of the file /var/lib/a_service/pages.db was read";

#[test]
fn an_overview_fits_80_columns_and_24_lines() {
    let folder = Folder::new("overview-screen");
    for (why, has_tasks) in [
        ("exit", true),
        (PANIC, true),
        ("exit", false),
        (PANIC, false),
    ] {
        let trace = folder.file("t.fdr");
        let _ = std::fs::remove_file(&trace);
        crowded(&trace, why, has_tasks);
        let text = plain(&on_terminal(80, &["FDR_PAGER="], &[&trace]));
        // The prompt takes a line, too.
        assert!(text.lines().count() <= 23, "{text}");
        assert!(width(&text) <= 80, "{text}");
        let rows = |of: &str| text.lines().filter(|line| line.contains(of)).count();
        assert!(rows("  function_") >= 2, "{text}");
        assert_eq!(rows("::task_") >= 1, has_tasks, "{text}");
        assert!(!has_tasks || why == PANIC || rows("::task_") >= 2, "{text}");
        for words in [
            "figures of the whole run (--window: figures of the records)\n",
            "5,610 records: 5,049 overwritten",
            "\nWaits in the records of 7.",
            "LOCK_15 (lock)",
        ] {
            assert_contains(&text, words);
        }
        let (is_panic, next) = match why {
            "exit" => (false, "\nNext: fdr slow "),
            _ => (true, "\nNext: fdr state "),
        };
        assert_contains(&text, next);
        assert_eq!(text.contains("\nwritten at exit\n"), !is_panic, "{text}");
        assert!(
            is_panic || text.contains("\nSlow in the records of 7."),
            "{text}"
        );
        assert_eq!(
            text.contains("at src/storage/pages.rs:37:5: called"),
            is_panic,
            "{text}"
        );
        assert_eq!(text.contains("open at the panic: "), is_panic, "{text}");
        // A wide screen has the same lines, and more room for others.
        let wide = plain(&on_terminal(200, &["FDR_PAGER="], &[&trace]));
        assert!(wide.lines().count() <= 23, "{wide}");
        assert_lacks(&wide, "no room for");
    }
}

#[test]
fn a_trace_alone_is_one_screen() {
    let (folder, trace) = in_folder("overview", "t.fdr", held_up);
    let text = answer(&[&trace]);
    assert_eq!(text, answer(&["overview", &trace]));
    for words in [
        " · 1.301 ms · 2 threads · ",
        "\nfigures of the records\n",
        "app::compact",
        "
Slow:
  900.5 µs app::compact: ",
        "
  901.0 µs app::handle: 100.0 % of the excess is in app::lock itself, because the thread waited",
        "\nNext: fdr slow ",
    ] {
        assert_contains(&text, words);
    }
    assert!(text.lines().count() <= 24, "{text}");
    // With options it is the report.
    let report = answer(&[&trace, "--limit", "1"]);
    assert_eq!(report, answer(&["report", "--limit", "1", &trace]));
    let usual = folder.file("usual.fdr");
    small(&usual);
    let text = answer(&[&usual]);
    assert_contains(&text, "\nNo call is far slower than");
    // Damage is reported once.
    let bytes = std::fs::read(&trace).expect("a trace");
    let cut = folder.file("cut.fdr");
    std::fs::write(&cut, &bytes[..bytes.len() - 3]).expect("a file");
    let output = fdr(&[&cut]);
    assert_eq!(
        stderr(&output).matches("is damaged").count(),
        1,
        "{output:?}"
    );
    // A trace of another program's format.
    let heph = goldens().into_iter().find(|(format, _)| *format == "heph");
    let text = answer(&[&heph.expect("a golden file").1]);
    assert_contains(&text, "Heph");
}

#[test]
fn without_a_name_the_newest_trace_is_read() {
    let folder = Folder::new("newest");
    let names = ["old.fdr", "new.fdr", "older.fdr"].map(|name| folder.file(name));
    for (name, age) in names.iter().zip([20, 10, 30]) {
        small(name);
        let file = File::options().write(true).open(name).expect("a file");
        let written = SystemTime::now() - Duration::from_secs(age);
        file.set_modified(written).expect("a time");
    }
    for name in [
        "overview", "report", "slow", "info", "flame", "graph", "replay", "state",
    ] {
        let mut tool = command();
        let output = tool.arg(name).current_dir(folder.path()).output();
        let output = output.expect("fdr runs");
        assert!(output.status.success(), "{name}: {output:?}");
        let first = stderr(&output).lines().next().unwrap_or_default();
        assert_eq!(first, "fdr: the newest trace here: new.fdr", "{name}");
        assert!(!stdout(&output).is_empty(), "{name}");
    }
    let empty = Folder::new("no-trace");
    let mut tool = command();
    let output = tool.arg("report").current_dir(empty.path()).output();
    let output = output.expect("fdr runs");
    assert_eq!(output.status.code(), Some(2));
    assert_contains(stderr(&output), "there is no trace in this folder");
}
