//! Damaged ENTRACE files: the reader gives all intact events, and reports each damage once with its place. It does not
//! panic or hang, and it allocates no memory for lengths that a file only claims.

use crate::common::entrace::{call, entry, et, file, root};
use crate::common::{self, Event, ReadTrace, enter, exit, golden, list, read, read_damaged};
use fdr_formats::{Call, registry};

/// Three calls of thread 7: a {b}, c.
fn entries() -> Vec<Vec<u8>> {
    vec![
        root(),
        call(0, "a", 10, 100),
        call(1, "b", 20, 5),
        call(0, "c", 200, 1),
    ]
}

const POOL: &[&[u64]] = &[&[1, 3], &[2], &[], &[]];

fn all_calls() -> Vec<Call> {
    vec![
        enter(10, 1),
        enter(20, 2),
        exit(25, 2),
        exit(110, 1),
        enter(200, 3),
        exit(201, 3),
    ]
}

fn without(function: u32) -> Vec<Call> {
    let calls = all_calls().into_iter();
    calls.filter(|call| call.function.0 != function).collect()
}

/// The only diagnostic: where it is, and that it says this.
fn assert_only(read: &ReadTrace, offset: u64, message: &str) {
    let [diagnostic] = &read.diagnostics[..] else {
        panic!("{:?}", read.diagnostics);
    };
    assert!(
        diagnostic.offset == offset && diagnostic.what.contains(message),
        "{diagnostic}"
    );
}

/// Calls by the name of their functions, whose numbers depend on what is intact.
fn named(read: &ReadTrace) -> Vec<(u64, String)> {
    let calls = read
        .log
        .threads
        .first()
        .map_or(&[][..], |(_, events)| events);
    let calls = calls.iter().filter_map(|event| match event {
        Event::Call(call) => Some(call),
        _ => None,
    });
    let name = |call: &Call| {
        read.info
            .function(call.function)
            .map(|function| function.name.clone())
    };
    calls
        .map(|call| (call.time.0, name(call).unwrap_or_default()))
        .collect()
}

fn names(calls: &[Call]) -> Vec<(u64, String)> {
    let name = |call: &Call| ["", "a", "b", "c"][call.function.0 as usize].to_owned();
    calls.iter().map(|call| (call.time.0, name(call))).collect()
}

#[test]
fn the_files_are_good_before_they_are_damaged() {
    for bytes in [
        file(1, &entries()),
        file(2, &entries()),
        et(&entries(), POOL),
    ] {
        let read = read_damaged(&bytes);
        assert_eq!(read.diagnostics, []);
        assert_eq!(read.log.calls(7), all_calls());
    }
}

#[test]
fn cut_files_of_others_give_what_is_whole() {
    for name in [
        "v1.iet",
        "v1.prefix.iet",
        "v2.iet",
        "v2.prefix.iet",
        "v1.et",
        "v2.et",
    ] {
        let bytes = golden(&format!("entrace/{name}"));
        let whole = read(&bytes).expect("a golden file");
        let names = |read: &ReadTrace| -> Vec<String> {
            let functions = read.info.functions.iter();
            functions.map(|function| function.name.clone()).collect()
        };
        let entries: Vec<(u64, u64)> = list(&bytes)
            .iter()
            .filter(|line| ["Root", "Entry"].contains(&&*line.2))
            .map(|line| (line.0, line.1))
            .collect();
        for end in 10..bytes.len() {
            let part = read_damaged(&bytes[..end]);
            let end = end as u64;
            let intact = entries.iter().filter(|(at, size)| at + size <= end).count();
            // Functions are numbered as they come.
            assert_eq!(
                names(&part),
                names(&whole)[..intact.max(1) - 1],
                "{name} cut at {end}"
            );
            let between = entries.iter().any(|&(at, _)| at == end) || end == 10;
            let silent = between && !name.ends_with(".et");
            assert_eq!(part.diagnostics.is_empty(), silent, "{name} cut at {end}");
            assert!(
                part.diagnostics
                    .iter()
                    .all(|diagnostic| diagnostic.offset <= end)
            );
        }
    }
}

#[test]
fn a_bad_head_is_an_error() {
    for (bytes, message) in [
        (&b"\0ENTRACE\x03\x01"[..], "version 3"),
        (b"\0ENTRACE\x00\x01", "version 0"),
        (b"\0ENTRACE\x01\x03", "container 3"),
        (b"\0ENTRACE\x01", "not a head"),
    ] {
        let Err(error) = registry::open(Box::new(bytes.to_vec())) else {
            panic!("{message}");
        };
        assert!(error.to_string().contains(message), "{error}");
    }
    for container in 0..3 {
        let read = read_damaged(&file(container, &[]));
        assert_eq!(read.log.count(), 0);
    }
}

/// The second call's entry with a level that is none.
fn broken() -> Vec<Vec<u8>> {
    let mut entries = entries();
    let level = 1 + 1 + 2 + 1;
    assert_eq!(entries[2][level], 2);
    entries[2][level] = 9;
    entries
}

#[test]
fn reading_goes_on_after_damaged_entries() {
    let places = |head: usize, prefix: usize| {
        let mut at = head;
        let places = entries().into_iter().map(move |entry| {
            at += prefix + entry.len();
            at as u64
        });
        places.collect::<Vec<u64>>()
    };
    // An IET can't.
    let read = read_damaged(&file(1, &broken()));
    assert_only(&read, places(10, 0)[1], "there is no level 9");
    assert_eq!(named(&read), names(&[enter(10, 1), exit(110, 1)]));
    // The others know where the next one is.
    let read = read_damaged(&file(2, &broken()));
    assert_only(&read, places(10, 8)[1], "there is no level 9");
    assert_eq!(named(&read), names(&without(2)));
    let bytes = et(&broken(), POOL);
    let head = bytes.len() - entries().concat().len();
    let read = read_damaged(&bytes);
    assert_only(&read, places(head, 0)[1], "were left out");
    assert_eq!(named(&read), names(&without(2)));
}

#[test]
fn a_wrong_length_costs_no_entry() {
    let good = file(2, &entries());
    let first = 10 + 8 + root().len();
    for (wrong, message) in [
        (0, "0 bytes"),
        (1, "1 bytes"),
        (200, "200 bytes"),
        (u64::MAX, "not used"),
    ] {
        let mut bytes = good.clone();
        bytes[first..first + 8].copy_from_slice(&u64::to_le_bytes(wrong));
        let read = read_damaged(&bytes);
        assert_only(&read, first as u64, message);
        assert_eq!(read.log.calls(7), all_calls());
    }
    // The entry is shorter than its length, and that is where the next one is.
    let mut entries = entries();
    entries[2].extend([0xee; 30]);
    let read = read_damaged(&file(2, &entries));
    assert_only(&read, (first + 8 + entries[1].len()) as u64, "left out");
    assert_eq!(named(&read), names(&without(2)));
}

#[test]
fn wrong_parents_are_replaced_by_times() {
    for (parent, message) in [
        (2, "does not come before it"),
        (250, "does not come before it"),
    ] {
        let mut entries = entries();
        entries[2][0] = parent;
        let place = 10 + root().len() + entries[1].len();
        let read = read_damaged(&file(1, &entries));
        assert_only(&read, place as u64, message);
        assert_eq!(read.log.calls(7), all_calls());
    }
    // Another thread's call, or one that has ended.
    let mut entries = entries();
    entries.push(call(2, "a", 300, 1));
    let read = read_damaged(&file(1, &entries));
    assert_only(
        &read,
        (10 + entries[..4].concat().len()) as u64,
        "no open call of the same thread",
    );
    assert_eq!(read.log.calls(7).len(), 8);
    // The root's own.
    let mut entries = self::entries();
    entries[0][0] = 1;
    assert_only(
        &read_damaged(&file(1, &entries)),
        10,
        "the root has the parent 1",
    );
}

#[test]
fn the_tables_of_an_et_are_checked() {
    let good = et(&entries(), POOL);
    let head = good.len() - entries().concat().len();
    // An offset that points elsewhere, in order or not.
    let mut bytes = good.clone();
    bytes[13] += 1;
    let read = read_damaged(&bytes);
    assert_only(
        &read,
        (head + entries()[..2].concat().len()) as u64,
        "table of offsets has this entry",
    );
    assert_eq!(read.log.calls(7), all_calls());
    bytes[13] = 1;
    let read = read_damaged(&bytes);
    assert_only(&read, 13, "not greater than the one before");
    assert_eq!(read.log.calls(7), all_calls());
    // Children of the wrong parent, not in order, twice, left out, not there.
    let cases: [(&[&[u64]], &str); 6] = [
        (&[&[1, 3], &[], &[2], &[]], "the pool has other children"),
        (&[&[3, 1], &[2], &[], &[]], "ascending"),
        (&[&[1, 3], &[2, 2], &[], &[]], "ascending"),
        (&[&[1, 3], &[], &[], &[]], "the pool has other children"),
        (&[&[1, 3, 9], &[2], &[], &[]], "the pool has other children"),
        (
            &[&[1, 3], &[2], &[]],
            "more lists of children than offsets, or fewer",
        ),
    ];
    for (pool, message) in cases {
        let bytes = et(&entries(), pool);
        let read = read_damaged(&bytes);
        let [diagnostic] = &read.diagnostics[..] else {
            panic!("{pool:?}: {:?}", read.diagnostics);
        };
        assert!(diagnostic.what.contains(message), "{pool:?}: {diagnostic}");
        let pool_at = bytes.len() - entries().concat().len();
        assert!(
            (10..pool_at as u64).contains(&diagnostic.offset),
            "{diagnostic}"
        );
        assert_eq!(read.log.calls(7), all_calls(), "{pool:?}");
    }
    // More entries announced than there are; fewer than there are.
    let mut bytes = good.clone();
    bytes.truncate(good.len() - entries()[3].len());
    assert_only(
        &read_damaged(&bytes),
        bytes.len() as u64,
        "announces 4 entries, but the file ends after 3",
    );
    let bytes = [good.clone(), vec![0; 5]].concat();
    assert_only(
        &read_damaged(&bytes),
        good.len() as u64,
        "5 bytes after the last of the 4 entries",
    );
    // Tables that lead nowhere: the root is looked for.
    for wrong in [0, 3, 5, 250] {
        let mut bytes = good.clone();
        bytes[10] = wrong;
        let read = read_damaged(&bytes);
        assert_only(&read, read.diagnostics[0].offset, "found by their root");
        assert_eq!(read.log.calls(7), all_calls(), "{wrong}");
    }
}

#[test]
fn unsorted_attributes_are_reported_in_version_2() {
    let entries = [
        root(),
        entry(
            0,
            "a",
            "",
            &[("tid", 7), ("start_ns", 10), ("duration_ns", 100)],
        ),
    ];
    let read = read_damaged(&file(1, &entries));
    assert_only(&read, 10 + root().len() as u64, "not sorted");
    assert_eq!(read.log.calls(7), [enter(10, 1), exit(110, 1)]);
}

#[test]
fn entries_without_time_or_thread_are_reported() {
    let mut entries = entries();
    entries.push(entry(0, "timeless", "", &[("tid", 7)]));
    let place = 10 + entries[..4].concat().len() as u64;
    entries.push(entry(0, "threadless", "", &[("start_ns", 7)]));
    let read = read_damaged(&file(1, &entries));
    assert_only(&read, place, "2 entries without `start_ns` and `tid`");
    assert_eq!(read.log.calls(7), all_calls());
    let entries = [
        self::entries(),
        vec![
            entry(0, "fdr:lost", "fdr", &[("records", 5)]),
            entry(0, "fdr:lost", "fdr", &[("records", 5), ("tid", 7)]),
        ],
    ];
    let read = read_damaged(&file(1, &entries.concat()));
    let message = read.problems();
    assert_eq!(message, ["an event without `tid`: left out"]);
    assert_eq!(read.log.events(7).last(), Some(&Event::Lost(5)));
}

#[test]
fn diagnostics_are_bounded() {
    let mut entries = entries();
    entries.extend((0..5000).map(|_| entry(4_000_000, "lost", "", &[("start_ns", 1), ("tid", 7)])));
    let read = read_damaged(&file(2, &entries));
    assert_eq!(read.diagnostics.len(), 101);
    assert_eq!(
        read.diagnostics[100].what,
        "4900 more problems are not listed"
    );
}

#[test]
fn overlapping_entries_are_read_once() {
    // 40,000 small frames, each of which claims a name of a megabyte.
    let mut lie = vec![0, 0];
    lie.extend([253]);
    lie.extend(1_000_000_u64.to_le_bytes());
    let lies = vec![lie; 40_000];
    let bytes = [
        file(2, &[root()]),
        file(2, &lies)[10..].to_vec(),
        vec![b'x'; 1_100_000],
    ]
    .concat();
    let read = common::read(&bytes).expect("a file");
    assert_eq!(read.log.count(), 0);
    assert_eq!(read.diagnostics.len(), 101);
    // 100,000, each of which claims to have 60,000 attributes without names, which follow indeed.
    let lie = [&[0; 8][..], &[251], &60_000_u16.to_le_bytes()].concat();
    let lies = vec![[lie, vec![0; 20]].concat(); 100_000];
    let bytes = [file(2, &[root()]), file(2, &lies)[10..].to_vec()].concat();
    let read = read_damaged(&bytes);
    assert_eq!(read.log.count(), 0);
    assert_eq!(read.diagnostics.len(), 101);
}
