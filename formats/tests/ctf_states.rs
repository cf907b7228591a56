//! The states of threads in CTF folders: there and back, and nothing in folders of traces without them.

use crate::common::ctf::{read_whole, write};
use crate::common::{Event, Folder, enter, exit, thread};
use fdr_formats::model::{Account, Cause, CpuId, Module, Sample, Schedule, State, Switch};
use fdr_formats::{ThreadId, Ticks, TraceInfo};

fn schedule(switches: u64) -> Schedule {
    let to = |nth: u64| match nth % 4 {
        3 => None,
        state => State::from_number(state as u8),
    };
    let switch = |nth: u64| Switch {
        time: Ticks(10 * nth),
        thread: ThreadId(if nth % 4 == 3 { 0 } else { u64::MAX - nth % 9 }),
        cpu: CpuId(nth as u32 % 5),
        to: to(nth),
    };
    let sample = |(time, cause)| Sample {
        time: Ticks(time),
        thread: ThreadId(7),
        cpu: CpuId(u32::MAX),
        cause,
        address: u64::MAX - time,
    };
    let account = |time| Account {
        time: Ticks(time),
        thread: ThreadId(7),
        running_ns: u64::MAX,
        run_delay_ns: time,
        times: 3,
    };
    let module = |build| Module {
        start: 1,
        end: u64::MAX,
        bias: 1 << 63,
        build,
        path: "/a \"ü\"".to_owned(),
    };
    Schedule {
        switches: (0..switches).map(switch).collect(),
        samples: [(5, Cause::Time), (5, Cause::PageFault), (9, Cause::Time)]
            .map(sample)
            .to_vec(),
        accounts: [1, 800_000].map(account).to_vec(),
        modules: [vec![], vec![0, 255, 16]].map(module).to_vec(),
        is_complete: false,
    }
}

fn events() -> Vec<Event> {
    vec![Event::Call(enter(1000, 1)), Event::Call(exit(9000, 1))]
}

#[test]
fn states_come_back_and_stay_absent() {
    // There are so many states that they need several packets.
    for switches in [0, 3, 20_000] {
        let info = TraceInfo {
            schedule: schedule(switches),
            ..TraceInfo::default()
        };
        let (folder, losses) = write(&info, &[(thread(7), events())]);
        assert!(losses.is_empty(), "{losses}");
        let read = read_whole(folder.path());
        assert_eq!(read.info.schedule, info.schedule);
        assert_eq!(read.info.threads.len(), 1, "states are no thread");
        assert_eq!(read.log.events(7), events());
    }
    let (folder, _) = write(&TraceInfo::default(), &[(thread(7), events())]);
    let metadata = folder.text("metadata");
    assert!(!metadata.contains("fdr:switch") && !folder.has("states"));
}

#[test]
fn cut_files_are_read_up_to_there() {
    let info = TraceInfo {
        schedule: schedule(20_000),
        ..TraceInfo::default()
    };
    let (whole, _) = write(&info, &[(thread(7), events())]);
    let bytes = whole.bytes("states");
    let folder = Folder::with_files(&[
        ("metadata", &whole.bytes("metadata")),
        ("facts", &whole.bytes("facts")),
        ("states", &bytes[..bytes.len() / 2]),
    ]);
    let source = fdr_formats::open(folder.path()).expect("a folder");
    let read = source.info().schedule.switches.len();
    assert!((5_000..15_000).contains(&read), "{read}");
    assert_eq!(
        source.info().schedule.switches[..],
        info.schedule.switches[..read]
    );
    assert!(!source.diagnostics().is_empty());
}
