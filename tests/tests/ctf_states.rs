//! The states of threads in CTF folders, as babeltrace2 reads them.

use fdr_formats::ctf::CtfWriter;
use fdr_formats::model::{Account, Cause, CpuId, Sample, Schedule, State, Switch};
use fdr_formats::{Call, Clock, FunctionId, Sink, Thread, ThreadId, Ticks, TraceInfo};
use fdr_tests::support::folder::Folder;

use crate::babeltrace::{babeltrace, words};

const THREAD: ThreadId = ThreadId(41);

fn schedule() -> Schedule {
    let (time, thread, cpu) = (Ticks(2_000), THREAD, CpuId(3));
    let switch = |time, to| Switch {
        time: Ticks(time),
        thread,
        cpu,
        to,
    };
    Schedule {
        switches: vec![
            switch(1_500, Some(State::Running)),
            switch(2_500, Some(State::Preempted)),
            switch(2_600, None),
        ],
        samples: vec![Sample {
            time,
            thread,
            cpu,
            cause: Cause::PageFault,
            address: 0xabcd,
        }],
        accounts: vec![Account {
            time,
            thread,
            running_ns: 5,
            run_delay_ns: 6,
            times: 7,
        }],
        modules: Vec::new(),
        is_complete: false,
    }
}

/// The name of each event, and the end of its line.
const LINES: &[(&str, &str)] = &[
    (
        "switch",
        "thread = 41, cpu = 3, state = ( \"running\" : container = 0 ) }",
    ),
    (
        "sample",
        "thread = 41, cpu = 3, cause = ( \"page_fault\" : container = 1 ), address = 0xABCD }",
    ),
    (
        "account",
        "thread = 41, running_ns = 5, run_delay_ns = 6, times = 7 }",
    ),
    (
        "switch",
        "thread = 41, cpu = 3, state = ( \"preempted\" : container = 1 ) }",
    ),
    (
        "switch",
        "thread = 41, cpu = 3, state = ( \"unknown\" : container = 3 ) }",
    ),
];

#[test]
fn switches_samples_and_accounts_have_names_and_times() {
    let info = TraceInfo {
        clock: Clock {
            frequency: 1_000_000_000,
            ..Clock::default()
        },
        schedule: schedule(),
        ..TraceInfo::default()
    };
    let folder = Folder::new("ctf-states");
    let path = folder.join("t.ctf");
    std::fs::create_dir(&path).expect("a folder");
    let mut writer = CtfWriter::new(path.clone(), &info).expect("space");
    writer.thread(&Thread {
        id: THREAD,
        ..Thread::default()
    });
    writer.calls(&[
        Call::entry(Ticks(1_000), FunctionId(1)),
        Call::exit(Ticks(2_550), FunctionId(1)),
    ]);
    assert!(writer.finish().expect("space").is_empty());
    let Some(tool) = babeltrace() else { return };
    let words = words(&tool, &path);
    let found: Vec<&str> = words
        .iter()
        .filter(|line| !line.contains("fdr:trace") && !line.contains("fdr:thread"))
        .filter_map(|line| line.split_once("fdr:"))
        .map(|(_, event)| event)
        .collect();
    assert_eq!(found.len(), LINES.len(), "{words:#?}");
    for (line, (name, fields)) in found.iter().zip(LINES) {
        assert!(line.starts_with(name) && line.ends_with(fields), "{line}");
    }
    // Among the calls, by their times.
    let place = |text: &str| words.iter().position(|line| line.contains(text));
    assert!(place("func_entry") < place("fdr:switch"), "{words:#?}");
    assert!(place("\"preempted\"") < place("func_exit"), "{words:#?}");
}
