//! `fdr slow`: a planted slow call is explained, with the lock that it waited for.

use fdr_formats::notes::{Field, FieldValue, Form, Note, reason, task_state, thread_state};

use crate::common::{
    Folder, Item, answer, assert_contains, assert_documented, in_folder, info, json, thread,
    write_noted,
};

const NAMES: &[&str] = &["app::handle", "app::lock", "app::compact", "queue"];
const USUAL: u64 = 40;

fn state(state: u8, waited: u64) -> Note<'static> {
    Note::ThreadState {
        object: 77,
        holder: 8,
        name: 4,
        state,
        reason: reason::LOCK,
        function: 3,
        waited,
    }
}

/// 1 tick = 1 ns.
/// A worker waits for a lock that the janitor holds in one long call, after some usual ones.
pub(crate) fn held_up(trace: &str) {
    let mut worker = Vec::new();
    for at in 0..USUAL {
        let start = at * 10_000;
        worker.extend(
            [(0, 1), (100, 2), (150, -2), (1000, -1)]
                .map(|(after, id)| Item::Call(start + after, id)),
        );
    }
    let slow = USUAL * 10_000;
    worker.extend([
        Item::Call(slow, 1),
        Item::Call(slow + 100, 2),
        Item::Note(slow + 10_100, state(thread_state::BLOCKED, 10_000)),
        Item::Note(slow + 900_100, state(thread_state::RUNNING, 900_000)),
        Item::Call(slow + 900_200, -2),
        Item::Call(slow + 901_000, -1),
    ]);
    let usual =
        |at: u64| [(0, 3), (100, -3)].map(|(after, id)| Item::Call(at * 10_000 + after, id));
    let mut other: Vec<Item<'_>> = (0..USUAL).flat_map(usual).collect();
    other.extend([Item::Call(slow - 500, 3), Item::Call(slow + 900_000, -3)]);
    let info = info(NAMES);
    write_noted(
        trace,
        &info,
        &[(thread(7, "worker"), worker), (thread(8, "janitor"), other)],
    );
}

#[test]
fn slow_calls_name_lock_and_holder() {
    let (_folder, trace) = in_folder("slow-lock", "t.fdr", held_up);
    let text = answer(&["slow", &trace]);
    let words = "% of the excess is in app::lock itself, because the thread waited 900.0 µs for queue (lock), held by janitor (8) \
                 in app::compact.";
    assert_contains(&text, words);
    assert_contains(
        &text,
        "meanwhile  janitor (8) was in app::compact for 900.0 µs",
    );
    let found = json(&["slow", "--json", "--filter", "app::handle", &trace]);
    let wait = &found["calls"][0]["wait"];
    assert_eq!(wait["waited_for"], "queue");
    assert_eq!(wait["waited_ns"], 900_000);
    assert_eq!(wait["holder"], 8);
    assert_eq!(wait["holder_function"], "app::compact");
    assert_documented(wait);
}

/// Arguments of the innermost open call of the function with that id. The names of the fields are ids, too.
type Values<'a> = &'a [(u32, FieldValue<'static>)];

fn fields(values: Values<'_>) -> Vec<Field<'static>> {
    let field = |(place, &(name, value)): (usize, &(u32, FieldValue<'static>))| Field {
        name,
        place: place as u8,
        value,
    };
    values.iter().enumerate().map(field).collect()
}

fn arguments(function: u32, values: Values<'_>) -> Note<'static> {
    let fields = fields(values);
    Note::Arguments { function, fields }
}

fn event(name: u32, level: u8, values: Values<'_>) -> Note<'static> {
    Note::Event {
        name,
        form: Form::Instant as u8,
        level,
        span: 0,
        fields: fields(values),
    }
}

#[test]
fn slow_calls_have_arguments_of_their_path() {
    let folder = Folder::new("slow-arguments");
    let trace = folder.file("t.fdr");
    let mut items = Vec::new();
    for at in 0..=USUAL {
        let start = at * 10_000;
        let id = (5, FieldValue::Unsigned(700 + at));
        let text = b"Compact, of \x1b[31mall things that there are";
        let kind = (6, FieldValue::Text(text, text.len() as u64));
        let length = if at == USUAL { 900_000 } else { 150 };
        items.extend([
            Item::Call(start, 1),
            Item::Note(start, arguments(1, &[id, kind])),
            Item::Call(start + 10, 2),
            Item::Note(start + 10, arguments(2, &[id])),
            Item::Note(start + 60, event(4, 4, &[id])),
            Item::Note(start + 70, event(4, 4, &[id])),
            Item::Call(start + 10 + length, -2),
            Item::Call(start + length + 20, 3),
            Item::Note(start + length + 20, arguments(3, &[id])),
            Item::Call(start + length + 30, -3),
            Item::Call(start + length + 100, -1),
        ]);
    }
    let info = info(&[
        "app::handle",
        "app::lock",
        "app::compact",
        "retry",
        "id",
        "kind",
    ]);
    write_noted(&trace, &info, &[(thread(7, "worker"), items)]);
    let report = answer(&["slow", &trace]);
    let line = "\n    arguments  id=740 kind=\"Compact, of \\u{1b}[31mall things that there are\" \u{b7} app::lock  id=740\n";
    assert_contains(&report, line);
    let line = "\n    events  +60 ns retry (warning)  id=740 \u{d7} 2\n";
    assert_contains(&report, line);
    let found = json(&["slow", "--json", &trace]);
    let event = &found["calls"][0]["events"][0];
    assert_eq!(event["name"], "retry");
    assert_eq!(event["level"], "warning");
    assert_eq!(event["since_begin_ns"], 60);
    assert_eq!(event["times"], 2);
    assert_eq!(event["fields"][0]["value"], 740, "{event:#}");
    assert_eq!(found["calls"][0]["events_in_all"], 2);
    let all = &found["calls"][0]["arguments"];
    assert_eq!(all.as_array().map(Vec::len), Some(2), "{found:#}");
    assert_eq!(all[0]["function"], "app::handle");
    assert_eq!(all[0]["fields"][0]["name"], "id");
    assert_eq!(all[0]["fields"][0]["value"], 740);
    assert_eq!(all[1]["function"], "app::lock");
    assert_documented(&all[0]);
    assert_documented(event);
}

#[test]
fn json_begins_with_what_the_text_begins_with() {
    let folder = Folder::new("slow-first");
    let trace = folder.file("t.fdr");
    let task = |nth: u64| {
        let elapsed = if nth == USUAL { 900_000 } else { 100 };
        Note::Task {
            task: nth + 1,
            parent: 0,
            by: 0,
            name: 2,
            state: task_state::FINISHED,
            counted: 0,
            elapsed,
            busy: 10,
            polls: 1,
        }
    };
    let mut items = Vec::new();
    for nth in 0..=USUAL {
        let (start, took) = (nth * 1_000_000, if nth == USUAL { 900_000 } else { 100 });
        items.push(Item::Call(start, 1));
        items.push(Item::Call(start + took, -1));
        items.push(Item::Note(start + took, task(nth)));
    }
    let info = info(&["app::handle", "app::task"]);
    write_noted(&trace, &info, &[(thread(7, "worker"), items)]);
    let place = |text: &str, words: &str| {
        let found = text.find(words);
        found.unwrap_or_else(|| panic!("{words}: {text}"))
    };
    let text = answer(&["slow", &trace]);
    assert!(
        place(&text, "app::task · task 41 ") < place(&text, "app::handle"),
        "{text}"
    );
    let text = answer(&["slow", "--json", &trace]);
    assert!(
        place(&text, "\n  \"tasks\": [") < place(&text, "\n  \"calls\": ["),
        "{text}"
    );
    let both = json(&["slow", "--json", &trace]);
    let tasks = json(&["slow", "--json", "--tasks", &trace]);
    assert_eq!(both["tasks"], tasks["tasks"]);
    assert_eq!(tasks["tasks"][0]["id"], 41);
    assert_eq!(tasks["is_whole_run"], false);
    assert_documented(&tasks);
    // The text has the calls alone.
    for option in ["--calls", "--over=1us"] {
        assert!(json(&["slow", "--json", option, &trace])["tasks"].is_null());
    }
}

/// A janitor takes jobs in `app::recv`, and once waits there for 9 ms. `waits`: another thread waits meanwhile for a lock
/// that the janitor holds.
fn idle_janitor(trace: &str, waits: bool) {
    let call = |at: u64, length: u64| [Item::Call(at, 1), Item::Call(at + length, -1)];
    let slow = USUAL * 10_000;
    let mut janitor: Vec<Item<'_>> = (0..USUAL).flat_map(|at| call(at * 10_000, 100)).collect();
    janitor.extend(call(slow, 9_000_000));
    let mut worker: Vec<Item<'_>> = vec![Item::Call(0, 3)];
    if waits {
        let note = |after: u64, state_of, waited| Item::Note(slow + after, state(state_of, waited));
        worker.extend([
            note(10_100, thread_state::BLOCKED, 10_000),
            note(900_100, thread_state::RUNNING, 900_000),
        ]);
    }
    worker.push(Item::Call(slow + 9_000_000, -3));
    let info = info(&["app::recv", "app::lock", "app::compact", "queue"]);
    write_noted(
        trace,
        &info,
        &[
            (thread(7, "worker"), worker),
            (thread(8, "janitor"), janitor),
        ],
    );
}

#[test]
fn idle_holders_of_locks_are_shown() {
    let folder = Folder::new("slow-idle");
    let trace = folder.file("t.fdr");
    idle_janitor(&trace, false);
    let found = json(&["slow", "--json", &trace]);
    assert_eq!(found["calls"], serde_json::json!([]));
    let idle = &found["waits_for_work"][0];
    assert_eq!(idle["function"], "app::recv");
    assert_eq!(idle["calls"], 1);
    assert_eq!(idle["total_ns"], 9_000_000);
    assert!(found["cpu_time"].is_null(), "{found:#}");
    assert_documented(idle);
    let line =
        "1 function waits for work, so its slow calls are left out: app::recv (1 call, 9.000 ms)";
    for words in [&["slow", &*trace][..], &["overview", &trace]] {
        let text = answer(words);
        assert_contains(&text, line);
    }
    idle_janitor(&trace, true);
    let found = json(&["slow", "--json", &trace]);
    assert_eq!(found["calls"][0]["function"], "app::recv");
    assert_eq!(found["waits_for_work"], serde_json::json!([]));
}

#[test]
fn waiting_threads_are_no_cause() {
    let (_folder, trace) = in_folder("slow-holder", "t.fdr", held_up);
    let found = json(&["slow", "--json", "--filter", "app::compact", &trace]);
    let call = &found["calls"][0];
    assert_eq!(call["thread_name"], "janitor", "{found:#}");
    let sentence = "100.0 % of the excess is in app::compact itself.";
    assert_eq!(call["sentence"], sentence);
    assert!(call["meanwhile"].is_null(), "{call:#}");
}
