//! ENTRACE files of other people's programs, read completely. The expected contents come from their makers and from an
//! independent decoder, not from this library.

use std::collections::BTreeMap;

use crate::common::entrace::{entry, file, root};
use crate::common::{
    self, Event, ReadTrace, assert_nested, enter, exit, function, golden, list, read,
    with_arguments,
};
use fdr_formats::{ThreadId, Ticks};

const CRATES: [&str; 8] = [
    "v1.et",
    "v1.from-prefix.et",
    "v2.from-prefix.et",
    "v1.iet",
    "v1.prefix.iet",
    "v2.et",
    "v2.iet",
    "v2.prefix.iet",
];

fn read_golden(name: &str) -> ReadTrace {
    common::read_golden(&format!("entrace/{name}"))
}

fn custom(time: u64, text: &str) -> Event {
    Event::Custom(time, None, text.as_bytes().to_vec())
}

/// What the files of the crates hold, in the order of the walk. The order of attributes within an
/// entry is that of the program in version 1, sorted in version 2.
fn spans(version: u8) -> Vec<Event> {
    let big = "340282366920938463463374607431768211455";
    let low = "-170141183460469231731687303715884105728";
    let mut events = vec![
        with_arguments(enter(0, 1)),
        Event::Argument(42),
        custom(0, "neg=-7 ok=true pi=3.25 who=\"Ω world\""),
        Event::Call(enter(1, 2)),
        custom(1, &format!("hello 1 big={big} low={low}")),
        Event::Call(exit(2, 2)),
        with_arguments(enter(3, 3)),
    ];
    let max = u64::from(u32::MAX);
    let numbers: [u64; 6] = if version == 1 {
        [250, 251, 65_535, 65_536, max, 1 << 32]
    } else {
        [250, 251, 65_535, max, 65_536, 1 << 32]
    };
    events.extend(numbers.map(Event::Argument));
    events.push(custom(3, "dbg=\"[1, 2, 3]\""));
    events.push(with_arguments(enter(4, 4)));
    let numbers: [u64; 2] = if version == 1 { [1, 2] } else { [2, 1] };
    events.extend(numbers.map(Event::Argument));
    events.extend([
        custom(4, "deep"),
        Event::Call(exit(5, 4)),
        Event::Call(enter(6, 5)),
        custom(6, "bytes=0x0001fbff"),
        Event::Call(exit(7, 5)),
        Event::Call(exit(8, 3)),
        Event::Call(exit(9, 1)),
        Event::Call(enter(10, 6)),
        custom(10, "code=-1"),
        Event::Call(exit(11, 6)),
    ]);
    events
}

#[test]
fn the_same_spans_in_every_container_and_version() {
    for name in CRATES {
        let version = name.as_bytes()[1] - b'0';
        let read = read_golden(name);
        assert_eq!(read.diagnostics, [], "{name}");
        let container = match &name[3..] {
            "et" | "from-prefix.et" => "ET",
            "iet" => "IET",
            _ => "IETPrefix",
        };
        let format = format!("ENTRACE {container}, version {version}, without times");
        assert_eq!(read.info.format, format);
        assert_eq!(read.info.clock.frequency, 1_000_000_000);
        assert_eq!(read.info.start, Some(Ticks(0)));
        let file = "src/main.rs";
        let functions = [
            function(1, "outer", file, 138),
            function(2, "event src/main.rs:140", file, 140),
            function(3, "inner", file, 142),
            function(4, "event src/main.rs:144", file, 144),
            function(5, "event src/main.rs:145", file, 145),
            function(6, "event src/main.rs:147", file, 147),
        ];
        assert_eq!(read.info.functions, functions, "{name}");
        assert_eq!(read.log.events(1), spans(version), "{name}");
        let ids: Vec<ThreadId> = read.info.threads.iter().map(|thread| thread.id).collect();
        assert_eq!(ids, [ThreadId(1)]);
    }
}

#[test]
fn the_demonstration() {
    let read = read_golden("scoreman.iet");
    assert_eq!(read.diagnostics, []);
    let calls = read.log.calls(1);
    assert_nested(&calls);
    assert_eq!(calls.len(), 2 * 735);
    // A step is a tick.
    assert!(
        calls
            .iter()
            .zip(0..)
            .all(|(call, step)| call.time == Ticks(step))
    );
    assert_eq!(read.info.functions.len(), 18);
    let mut entries: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut depth, mut deepest) = (0, 0);
    for call in &calls {
        if call.edge == fdr_formats::Edge::Entry {
            let function = read.info.function(call.function).expect("a name");
            *entries.entry(&function.name).or_default() += 1;
            depth += 1;
            deepest = deepest.max(depth);
        } else {
            depth -= 1;
        }
    }
    assert_eq!(deepest, 3);
    assert_eq!(entries["event src/parser/parser.rs:128"], 402);
    assert_eq!(entries["parsing tick"], 67);
    assert_eq!(entries["event src/backend/muxml/mod.rs:333"], 32);
    let count = |kind: fn(&Event) -> bool| {
        read.log
            .events(1)
            .iter()
            .filter(|event| kind(event))
            .count()
    };
    assert_eq!(count(|event| matches!(event, Event::Argument(_))), 148);
    assert_eq!(count(|event| matches!(event, Event::Custom(..))), 666);
    let texts = "line_is_valid line=\"e|---------------------------------|\" verdict=true";
    assert_eq!(read.log.events(1)[1], custom(0, texts));
}

#[test]
fn the_listing_names_every_entry() {
    for name in CRATES.iter().chain(&["scoreman.iet"]) {
        let lines = list(&golden(&format!("entrace/{name}")));
        let entries = lines.iter().filter(|line| line.2 == "Entry").count();
        assert_eq!(
            entries,
            if *name == "scoreman.iet" { 735 } else { 6 },
            "{name}"
        );
    }
    let lines = list(&golden("entrace/v2.et"));
    let kinds: Vec<&str> = lines.iter().map(|line| &*line.2).collect();
    let wanted = "Head Offsets Pool Root Entry Entry Entry Entry Entry Entry";
    assert_eq!(kinds.join(" "), wanted);
    let detail = |nth: usize| &*lines[nth].3;
    assert_eq!(detail(0), "ENTRACE ET, version 2");
    assert_eq!(detail(1), "7 offsets");
    assert_eq!(detail(2), "children of 7 entries");
    let deep = "#4 in #3 event src/main.rs:144 message=\"deep\" alpha=2 message=\"deep\" zeta=1 level=Debug \
                target=my::target module=entrace_check file=src/main.rs line=144";
    assert_eq!(detail(7), deep);
}

#[test]
fn children_are_walked_in_order_wherever_they_stand() {
    // As several threads write them: 1 {3 {6} 5}, 2 {4}.
    let parents = [0, 0, 1, 2, 1, 3];
    let mut entries = vec![root()];
    for (parent, name) in parents.iter().zip(["a", "b", "c", "d", "e", "f"]) {
        entries.push(entry(*parent, name, "", &[]));
    }
    for container in [1, 2] {
        let read = read(&file(container, &entries)).expect("a file");
        assert_eq!(read.diagnostics, []);
        let wanted = [
            enter(0, 1),
            enter(1, 3),
            enter(2, 6),
            exit(3, 6),
            exit(4, 3),
            enter(5, 5),
            exit(6, 5),
            exit(7, 1),
            enter(8, 2),
            enter(9, 4),
            exit(10, 4),
            exit(11, 2),
        ];
        assert_eq!(read.log.calls(1), wanted);
    }
}

#[test]
fn deep_trees_and_long_entries_are_walked() {
    let many = 50_000;
    let mut entries = vec![root()];
    entries.extend((0..many).map(|parent| entry(parent, "down", "", &[])));
    let read = read(&file(1, &entries)).expect("a file");
    let calls = read.log.calls(1);
    assert_eq!(calls.len() as u64, 2 * many);
    assert_nested(&calls);
    // Longer than any window, and against the order of the file.
    let long = "x".repeat(300_000);
    let entries = [
        root(),
        entry(0, "a", "", &[]),
        entry(0, &long, "", &[]),
        entry(1, &long, "", &[("n", 7)]),
    ];
    let read = common::read(&file(2, &entries)).expect("a file");
    assert_eq!(read.info.functions.len(), 2, "a, and the long one");
    let wanted = [
        Event::Call(enter(0, 1)),
        with_arguments(enter(1, 2)),
        Event::Argument(7),
        Event::Call(exit(2, 2)),
        Event::Call(exit(3, 1)),
        Event::Call(enter(4, 2)),
        Event::Call(exit(5, 2)),
    ];
    assert_eq!(read.log.events(1), wanted);
}

#[test]
fn attributes_of_others_among_ours_are_kept() {
    // Another program that uses our attributes for times, and adds its own: U64 arguments in any order.
    let attributes = [
        ("arg1", 8),
        ("arg0", 9),
        ("len", 5),
        ("start_ns", 10),
        ("tid", 3),
    ];
    let entries = [root(), entry(0, "theirs", "their::module", &attributes)];
    let read = read(&file(1, &entries)).expect("a file");
    // Not sorted.
    assert_eq!(read.diagnostics.len(), 1);
    let wanted = [
        with_arguments(enter(10, 1)),
        Event::Argument(9),
        Event::Argument(8),
        Event::Argument(5),
    ];
    assert_eq!(read.log.events(3), wanted);
    assert_eq!(read.info.functions, [function(1, "theirs", "", 0)]);
}

#[test]
fn foreign_function_numbers_name_none() {
    let number = [("function", 7)];
    let entries = [
        root(),
        entry(0, "a", "", &number),
        entry(0, "b", "", &number),
    ];
    let read = read(&file(1, &entries)).expect("a file");
    let wanted = [function(1, "a", "", 0), function(2, "b", "", 0)];
    assert_eq!(read.info.functions, wanted);
    let wanted = [
        with_arguments(enter(0, 1)),
        Event::Argument(7),
        Event::Call(exit(1, 1)),
        with_arguments(enter(2, 2)),
        Event::Argument(7),
        Event::Call(exit(3, 2)),
    ];
    assert_eq!(read.log.events(1), wanted);
}
