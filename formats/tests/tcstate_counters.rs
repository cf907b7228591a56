//! Counters as states of their threads: what the tree and the intervals have, the state at every time, numbers that no
//! state holds, and counters around calls whose clock went back.

use std::collections::BTreeMap;

use crate::common::tcstate::{read_folder, write};
use crate::common::{Event, Folder, enter, exit, synthetic, thread};
use crate::notes_formats::{HOSTILE, encoded, event, table};
use fdr_formats::TraceInfo;
use fdr_formats::model::FunctionKind;
use fdr_formats::notes::FieldValue;
use fdr_formats::tcstate::TcstateSource;
use fdr_formats::tcstate::state::{State, StateAtTime, Value};

type ByPath = BTreeMap<Vec<String>, (Option<i64>, Value)>;

fn by_path(state: &State) -> ByPath {
    let attributes = state.attributes.iter();
    attributes
        .map(|attribute| {
            let value = (attribute.since, attribute.value.clone());
            (attribute.path.clone(), value)
        })
        .collect()
}

fn info() -> TraceInfo {
    table(&[
        (1, "app::run", FunctionKind::Calls),
        (5, "app::queue", FunctionKind::Event),
        (6, "app::load", FunctionKind::Event),
        (7, "app::queue", FunctionKind::Event),
        (9, "", FunctionKind::Event),
    ])
}

fn counter(time: u64, name: u32, value: FieldValue<'_>) -> Event {
    encoded(time, &event(name, 3, 0, &[(0, value)]))
}

/// The state of the folder at each time is that of the events. Returns it.
fn is_the_state_of(folder: &Folder, info: &TraceInfo, events: &[Event], time: i64) -> ByPath {
    let source = TcstateSource::open(folder.path()).expect("our own folder");
    let of_history = by_path(&source.state(time).expect("readable"));
    let mut at = StateAtTime::new(time, info);
    fdr_formats::Sink::thread(&mut at, &thread(7));
    events
        .iter()
        .for_each(|event| crate::common::push(&mut at, event));
    assert_eq!(of_history, by_path(&at.finish(info)), "at {time}");
    of_history
}

#[test]
fn a_counter_has_its_value_until_the_next() {
    let info = info();
    let events = [
        // Before the first call.
        counter(1000, 5, FieldValue::Unsigned(3)),
        Event::Call(enter(2000, 1)),
        counter(2500, 5, FieldValue::Signed(-4)),
        counter(2500, 6, FieldValue::Float(0.5)),
        // Of another place in the program with the same name.
        counter(3000, 7, FieldValue::Truth(true)),
        counter(3000, 9, FieldValue::Unsigned(1)),
        Event::Call(exit(4000, 1)),
        // The same value is no change; this one is behind the last call.
        counter(5000, 6, FieldValue::Float(0.5)),
    ];
    let (folder, losses) = write(&info, &[(thread(7), events.to_vec())]);
    assert_eq!(
        losses.to_string(),
        "6 samples of counters: written as states of their threads, not as events"
    );
    let read = read_folder(folder.path()).expect("a folder");
    assert_eq!(read.diagnostics, []);
    // Its calls are as ever, and no name of a counter is a function.
    assert_eq!(read.log.calls(7), [enter(2000, 1), exit(4000, 1)]);
    assert_eq!(read.info.functions, info.functions[..1]);
    let tree = folder.text("tree.json");
    let counters = "\"Counters\":{\"key\":4,\"children\":{\n\"app::queue\":{\"key\":5},\n";
    assert!(tree.contains(counters), "{tree}");
    let value = |time: i64, name: &str| {
        let all = is_the_state_of(&folder, &info, &events, time);
        let path = ["Threads", "7", "Counters", name].map(str::to_owned);
        all.get(&path[..]).cloned().expect("an attribute")
    };
    for (time, name, since, wanted) in [
        (1000, "app::queue", 1000, Value::Int(3)),
        (2499, "app::queue", 1000, Value::Int(3)),
        (2500, "app::queue", 2500, Value::Int(-4)),
        (2999, "app::load", 2500, Value::Double(0.5)),
        (3000, "app::queue", 3000, Value::Int(1)),
        (5000, "app::load", 2500, Value::Double(0.5)),
        (2000, "app::load", 1000, Value::Null),
        (5000, "#9", 3000, Value::Int(1)),
    ] {
        assert_eq!(value(time, name), (Some(since), wanted), "{name} at {time}");
    }
    for time in [999, 1001, 3999, 4000, 4500, 4999] {
        is_the_state_of(&folder, &info, &events, time.max(1000));
    }
}

#[test]
fn counters_without_numbers_are_left_out() {
    let two = [(0, FieldValue::Unsigned(1)), (0, FieldValue::Unsigned(2))];
    let events = [
        Event::Call(enter(1000, 1)),
        counter(1100, 5, FieldValue::Unsigned(1 << 63)),
        counter(1200, 5, FieldValue::Text(b"7", 1)),
        encoded(1300, &event(5, 3, 0, &two)),
        encoded(1400, &event(5, 3, 0, &[])),
        encoded(1500, &event(5, 0, 0, &two[..1])),
        Event::Call(exit(2000, 1)),
    ];
    let (folder, losses) = write(&info(), &[(thread(7), events.to_vec())]);
    assert_eq!(
        losses.to_string(),
        "5 notes (events, tasks, arguments, thread states): left out"
    );
    let tree = folder.text("tree.json");
    assert!(!tree.contains("Counters"), "{tree}");
}

#[test]
fn times_never_go_back() {
    let info = info();
    let events = [
        counter(5000, 5, FieldValue::Unsigned(1)),
        Event::Call(synthetic(enter(4000, 1))),
        Event::Call(enter(4500, 1)),
        counter(100, 5, FieldValue::Unsigned(2)),
        Event::Call(exit(6000, 1)),
        Event::Call(synthetic(exit(6000, 1))),
        counter(7000, 5, FieldValue::Unsigned(3)),
        counter(u64::MAX, 5, FieldValue::Unsigned(4)),
        Event::Call(exit(6500, 1)),
    ];
    let (folder, _) = write(&info, &[(thread(7), events.to_vec())]);
    let read = read_folder(folder.path()).expect("a folder");
    assert_eq!(read.diagnostics, []);
    for time in [5000, 5001, 5999, 6000, 6999, 7000, i64::MAX] {
        is_the_state_of(&folder, &info, &events, time);
    }
}

#[test]
fn no_name_breaks_the_tree() {
    let names = HOSTILE
        .into_iter()
        .chain(["CallStack", "1", "Counters", "children", "key"]);
    let names: Vec<&str> = names.collect();
    let mut all = vec![(1, "app::run", FunctionKind::Calls)];
    all.extend(
        (5..)
            .zip(names)
            .map(|(id, name)| (id, name, FunctionKind::Event)),
    );
    let info = table(&all);
    let mut events = vec![Event::Call(enter(1000, 1))];
    for (nth, (id, ..)) in (0..).zip(&all[1..]) {
        events.push(counter(2000 + nth, *id, FieldValue::Unsigned(nth)));
        let odd = f64::from_bits(0x7ff8_0000_0000_0000 + nth);
        events.push(counter(3000 + nth, *id, FieldValue::Float(odd)));
        events.push(counter(3000 + nth, *id, FieldValue::Float(f64::INFINITY)));
    }
    events.push(Event::Call(exit(9000, 1)));
    let (folder, _) = write(&info, &[(thread(7), events.clone())]);
    let read = read_folder(folder.path()).expect("a folder");
    assert_eq!(read.diagnostics, []);
    assert_eq!(read.log.calls(7), [enter(1000, 1), exit(9000, 1)]);
    is_the_state_of(&folder, &info, &events, 2500);
    is_the_state_of(&folder, &info, &events, 9000);
}
