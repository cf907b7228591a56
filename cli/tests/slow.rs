//! `fdr slow`: a planted slow call is explained, with the lock that it waited for.

use fdr_formats::notes::{Note, reason, thread_state};
use fdr_formats::{Clock, Thread, ThreadId, TraceInfo};

use crate::common::{Folder, Item, answer, functions, json, write_noted};

const NAMES: &[&str] = &["app::handle", "app::lock", "app::compact", "queue"];
const USUAL: u64 = 40;

fn thread(id: u64, name: &str) -> Thread {
    Thread {
        id: ThreadId(id),
        name: name.to_owned(),
        ..Thread::default()
    }
}

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

/// A worker waits for a lock that the janitor holds in one long call, after some usual ones.
fn held_up(trace: &str) {
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
    let info = TraceInfo {
        functions: functions(NAMES),
        clock: Clock {
            frequency: 1_000_000_000,
            ..Clock::default()
        },
        ..TraceInfo::default()
    };
    write_noted(
        trace,
        &info,
        &[(thread(7, "worker"), worker), (thread(8, "janitor"), other)],
    );
}

#[test]
fn a_slow_call_names_the_lock_and_its_holder() {
    let folder = Folder::new("slow-lock");
    let trace = folder.file("t.fdr");
    held_up(&trace);
    let said = answer(&["slow", &trace]);
    let words = "% of the excess is in app::lock itself, because the thread waited 900.0 µs for queue (lock), held by janitor (8) \
                 in app::compact.";
    assert!(said.contains(words), "{said}");
    assert!(
        said.contains("meanwhile  janitor (8) was in app::compact for 900.0 µs"),
        "{said}"
    );
    let found = json(&["slow", "--json", "--filter", "app::handle", &trace]);
    let wait = &found["calls"][0]["wait"];
    assert_eq!(wait["waited_for"], "queue");
    assert_eq!(
        (&wait["waited_ns"], &wait["holder"]),
        (&900_000.into(), &8.into())
    );
    assert_eq!(wait["holder_function"], "app::compact");
    let documented = include_str!("../../docs/json.md");
    for field in wait.as_object().expect("an object").keys() {
        assert!(documented.contains(&format!("`{field}`")), "{field}");
    }
}

#[test]
fn a_thread_that_waited_for_the_slow_call_is_not_its_cause() {
    let folder = Folder::new("slow-holder");
    let trace = folder.file("t.fdr");
    held_up(&trace);
    let found = json(&["slow", "--json", "--filter", "app::compact", &trace]);
    let call = &found["calls"][0];
    assert_eq!(call["thread_name"], "janitor", "{found:#}");
    let sentence = "100.0 % of the excess is in app::compact itself.";
    assert_eq!(call["sentence"], sentence);
    assert!(call["meanwhile"].is_null(), "{call:#}");
}
