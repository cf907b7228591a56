//! States of threads in damaged or invented histories: the reader reports wrong values, and does not use them.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use crate::common::tcstate::{read_folder, write};
use crate::common::{Folder, thread};
use crate::tcstate_states::{PREEMPTED, RUNNING, WAITING, calls, info, schedule, stays};
use fdr_formats::states::States;
use fdr_formats::{ThreadId, Ticks, TraceInfo};

/// Two threads with states, and one that has states alone.
fn small() -> (TraceInfo, Folder) {
    let list = [
        (1000, 0, 0, None),
        (1010, 7, 1, WAITING),
        (1030, 7, 1, RUNNING),
        (1035, 7, 1, PREEMPTED),
        (1035, 8, 1, RUNNING),
        (1040, 9, 2, RUNNING),
        (1050, 0, 0, None),
    ];
    let info = info(1_000_000_000, schedule(&list));
    let (folder, _) = write(&info, &[(thread(7), calls(1000)), (thread(8), calls(1000))]);
    (info, folder)
}

/// Where each interval with a value is in history.bin, with its attribute and its value.
fn intervals(folder: &Folder) -> Vec<(usize, String)> {
    let source = fdr_formats::open(folder.path()).expect("a folder");
    let mut list = Vec::new();
    let visit = &mut |record: &fdr_formats::source::Record<'_>| {
        if record.kind == "Interval" && !record.detail.ends_with("null") {
            list.push((record.offset as usize, record.detail.to_owned()));
        }
        ControlFlow::Continue(())
    };
    source.records(visit).expect("a readable file");
    list
}

fn messages(folder: &Folder) -> Vec<String> {
    let read = read_folder(folder.path()).expect("readable");
    read.diagnostics.iter().map(ToString::to_string).collect()
}

#[test]
fn invalid_numbers_are_reported() {
    let (info, folder) = small();
    let whole = folder.bytes("history.bin");
    let at = |attribute: &str| {
        let found = intervals(&folder);
        let found = found
            .into_iter()
            .find(|(_, detail)| detail.contains(attribute));
        found.expect("an interval").0
    };
    let status = at("Threads/7 to 1029 ns: 1");
    let cpu = at("Threads/9/Current_cpu_rq to 1050 ns: 2");
    for (place, value, wanted) in [
        (
            status,
            99,
            "thread 7 has status 99, which is none of 0 to 6; that is left out",
        ),
        (
            status,
            -1,
            "thread 7 has status -1, which is none of 0 to 6; that is left out",
        ),
        (
            status,
            i64::MIN,
            "thread 7 has status -9223372036854775808, which is none",
        ),
        (
            cpu,
            1 << 40,
            "thread 9 has CPU 1099511627776; that is left out",
        ),
        (cpu, -1, "thread 9 has CPU -1; that is left out"),
    ] {
        let mut bytes = whole.clone();
        bytes[place + 20..place + 28].copy_from_slice(&value.to_le_bytes());
        folder.put("history.bin", &bytes);
        let messages = messages(&folder);
        let wanted = format!("at byte {place}: history.bin: {wanted}");
        assert!(!messages.is_empty(), "{wanted}");
        let is_expected = |message: &String| message.starts_with(&wanted);
        assert!(messages.iter().all(is_expected), "{messages:?}");
        let read = read_folder(folder.path()).expect("readable");
        let states = States::new(&read.info.schedule);
        let (thread, time) = if place == cpu { (9, 1045) } else { (7, 1020) };
        let state = states
            .at(ThreadId(thread), Ticks(time))
            .and_then(|stay| stay.state);
        assert_eq!(state, None, "{messages:?}");
        // What another thread did is known.
        assert_eq!(stays(&read.info, ThreadId(8)), stays(&info, ThreadId(8)));
    }
    // What Trace Compass's own analysis knows beside.
    for (value, wanted) in [
        (0, None),
        (3, RUNNING),
        (4, RUNNING),
        (5, PREEMPTED),
        (6, WAITING),
    ] {
        let mut bytes = whole.clone();
        bytes[status + 20..status + 28].copy_from_slice(&i64::to_le_bytes(value));
        folder.put("history.bin", &bytes);
        assert_eq!(messages(&folder), [""; 0]);
        let read = read_folder(folder.path()).expect("readable");
        let states = States::new(&read.info.schedule);
        let state = states
            .at(ThreadId(7), Ticks(1020))
            .and_then(|stay| stay.state);
        assert_eq!(state, wanted, "{value}");
    }
}

#[test]
fn invalid_threads_and_times_are_reported() {
    let (info, folder) = small();
    let tree = folder.text("tree.json");
    let read = |from: &str, to: &str| {
        assert!(tree.contains(from), "{tree}");
        folder.put("tree.json", tree.replace(from, to));
        read_folder(folder.path()).expect("readable")
    };
    // A second attribute for one thread, under a number that is not its name.
    let two = read("\"8\":", "\"07\":");
    assert_eq!(two.diagnostics, []);
    assert_eq!(stays(&two.info, ThreadId(7)), stays(&info, ThreadId(7)));
    // Thread 0 stands for all threads.
    let none = read("\"9\":", "\"0\":");
    let messages = none.messages();
    let wanted = "history.bin: thread 0 is no thread of a program; its state is left out";
    assert!(
        !messages.is_empty() && messages.iter().all(|message| message.contains(wanted)),
        "{messages:?}"
    );
    assert_eq!(stays(&none.info, ThreadId(7)), stays(&info, ThreadId(7)));
    let far = read("\"9\":", &format!("\"{}\":", u64::MAX));
    assert_eq!(far.diagnostics, []);
    assert_eq!(
        stays(&far.info, ThreadId(u64::MAX)),
        stays(&info, ThreadId(9))
    );
    let lone = read("\"Current_cpu_rq\"", "\"Prio\"");
    let messages = lone.messages();
    assert!(
        messages.len() == 1 && messages[0].contains("a status without a CPU (Current_cpu_rq)"),
        "{messages:?}"
    );
    assert!(lone.info.schedule.switches.is_empty());
    folder.put("tree.json", &tree);

    fs::remove_file(folder.path().join("meta.json")).expect("a file");
    let read = read_folder(folder.path()).expect("readable");
    assert_eq!(stays(&read.info, ThreadId(7)), stays(&info, ThreadId(7)));
}

#[test]
fn damage_takes_states_away_and_makes_none() {
    let (info, folder) = small();
    let threads = [7, 8, 9].map(ThreadId);
    let whole = States::new(&info.schedule);
    let is_part = |folder: &Folder, is_flipped: bool, what: &str| {
        let Ok(read) = read_folder(folder.path()) else {
            return;
        };
        let states = States::new(&read.info.schedule);
        // Another end of an interval can be anything.
        let is_said = is_flipped && !read.diagnostics.is_empty();
        for thread in threads {
            for time in 1000..1050 {
                let state =
                    |states: &States| states.at(thread, Ticks(time)).and_then(|stay| stay.state);
                let (found, wanted) = (state(&states), state(&whole));
                assert!(
                    found.is_none() || found == wanted || is_said,
                    "{what}: thread {thread} at {time}: {found:?}"
                );
            }
        }
    };
    let bytes = folder.bytes("history.bin");
    let values = intervals(&folder);
    let is_value = |at: usize| {
        let mut from = values.iter().map(|(from, _)| from + 20);
        from.any(|from| (from..from + 8).contains(&at))
    };
    // Changed where it is: a file that is written anew may go to the disk.
    let mut options = fs::OpenOptions::new();
    let path = folder.path().join("history.bin");
    let file = options.write(true).open(path).expect("a file");
    for at in 64..bytes.len() {
        for mask in [1, 8, 0xff] {
            file.write_at(&[bytes[at] ^ mask], at as u64)
                .expect("a file");
            match is_value(at) {
                // Another value is no damage that can be seen.
                true => drop(read_folder(folder.path())),
                false => is_part(&folder, true, &format!("byte {at} ^ {mask:#x}")),
            }
        }
        file.write_at(&bytes[at..=at], at as u64).expect("a file");
    }
    for end in (0..bytes.len()).rev() {
        file.set_len(end as u64).expect("a file");
        is_part(&folder, false, &format!("cut at byte {end}"));
    }
}
