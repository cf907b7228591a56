//! The folder that was made by hand, read completely, with and without each of its tables.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::tcstate::read_folder;
use crate::common::{
    self, Event, Folder, Line, assert_covers, enter, exit, file_sizes, list_source,
};
use fdr_formats::{ThreadId, Ticks, registry};

fn golden() -> PathBuf {
    common::golden_path("tcstate/by_hand")
}

/// A copy without one of the files.
fn without(name: &str) -> Folder {
    Folder::golden_without(&golden(), name)
}

fn list(folder: &Path) -> Vec<Line> {
    list_source(&*registry::open_path(folder).expect("readable"))
}

fn of_390() -> Vec<Event> {
    let (main, parse) = (1, 2);
    let calls = [
        enter(110, main),
        enter(120, parse),
        exit(130, parse),
        enter(140, parse),
        exit(160, parse),
        enter(160, parse),
        exit(190, parse),
        exit(200, main),
    ];
    let mut events: Vec<Event> = calls.into_iter().map(Event::Call).collect();
    events.insert(3, Event::Cpu(140, 1));
    events.insert(0, Event::Cpu(110, 0));
    events
}

fn of_1823() -> [Event; 2] {
    [Event::Cpu(150, 0), Event::Call(enter(150, 3))]
}

#[test]
fn everything_that_a_trace_has_a_word_for() {
    let read = read_folder(&golden()).expect("readable");
    assert_eq!(read.diagnostics, []);
    assert_eq!(read.log.events(390), of_390());
    assert_eq!(read.log.events(1823), of_1823());
    let info = &read.info;
    assert_eq!(info.format, "Trace Compass state history, version 1");
    assert_eq!(info.clock.frequency, 1_000_000_000);
    assert_eq!(info.start, Some(Ticks(100)));
    let names: Vec<_> = info.functions.iter().map(|f| (f.id.0, &*f.name)).collect();
    assert_eq!(names, [(1, "main"), (2, "parse"), (3, "Größe \"x\"\n")]);
    let threads: Vec<ThreadId> = info.threads.iter().map(|thread| thread.id).collect();
    assert_eq!(threads, [ThreadId(390), ThreadId(1823)]);
}

#[test]
fn meta_json_is_not_needed() {
    let folder = without("meta.json");
    let read = read_folder(folder.path()).expect("readable");
    assert_eq!(read.diagnostics, []);
    assert_eq!(read.log.events(390), of_390());
    assert_eq!(read.log.events(1823), of_1823());
}

#[test]
fn what_is_left_without_a_table() {
    // Types of attributes that no trace has can't be guessed: their values are skipped, and as long
    // as each takes up a known place, nothing else is.
    let folder = without("types.json");
    let read = read_folder(folder.path()).expect("readable");
    assert!(
        read.diagnostics
            .iter()
            .any(|diagnostic| diagnostic.what.starts_with("types.json: "))
    );
    assert_eq!(read.log.events(390), of_390());

    let folder = without("tree.json");
    let read = read_folder(folder.path()).expect("readable");
    assert!(
        read.diagnostics
            .iter()
            .any(|diagnostic| diagnostic.what.starts_with("tree.json: "))
    );
    assert_eq!(read.log.count(), 0);

    let folder = without("state.json");
    let read = read_folder(folder.path()).expect("readable");
    let files: Vec<&str> = read
        .diagnostics
        .iter()
        .map(|diagnostic| &diagnostic.what[..11])
        .collect();
    assert!(files.iter().all(|file| *file == "state.json:"), "{files:?}");
    assert_eq!(read.log.events(390), of_390());

    let folder = without("history.bin");
    assert!(registry::open_path(folder.path()).is_err());
}

#[test]
fn the_listing_shows_tables_and_intervals() {
    let lines = list(&golden());
    let tables: Vec<(u64, &str)> = lines[..4].iter().map(|line| (line.1, &*line.3)).collect();
    let size = |name: &str| fs::metadata(golden().join(name)).expect("a file").len();
    let names = ["types.json", "tree.json", "state.json", "meta.json"];
    assert_eq!(tables, names.map(|name| (size(name), name)));
    let find = |start: &str| {
        lines
            .iter()
            .filter(|line| line.3.starts_with(start))
            .count()
    };
    assert_eq!(
        find("version 1.0, 100 to 200 ns, 44 intervals, 19 keys, 5 strings"),
        1
    );
    let wanted = [
        "key=4 Threads/390/Prio to 200 ns: -17",
        "key=13 Variable to 119 ns: 7",
        "key=13 Variable to 139 ns: null",
        "key=13 Variable to 159 ns: string 4",
        "key=13 Variable to 179 ns: -17.25",
        "key=13 Variable to 200 ns: true",
        "key=14 Load to 150 ns: 0.5",
        "key=7 Threads/390/CallStack/2 to 129 ns: string 2 parse",
        "3 \"Größe \\\"x\\\"\\n\"",
    ];
    for wanted in wanted {
        assert_eq!(find(wanted), 1, "{wanted}");
    }
}

#[test]
fn a_damaged_listing_covers_every_byte_too() {
    let whole = fs::read(golden().join("history.bin")).expect("a file");
    let folder = without("history.bin");
    for damage in [70, 80, 83, 300, 301, 1100, 1140] {
        let mut bytes = whole.clone();
        bytes[damage] ^= 0x55;
        folder.put("history.bin", &bytes);
        let sizes = file_sizes(folder.path());
        assert_covers(&list(folder.path()), &sizes, &format!("byte {damage}"));
    }
}
