//! `DumpWriter`: calls that are open last until the moment of the dump, and those of a thread that has
//! ended until its last record.

use crate::common::dump::{complete_info, counts, dumped};
use crate::common::{Chunk, enter, exit, function, intact, synthetic};
use fdr_formats::xray::Version;
use fdr_formats::{Call, Thread, ThreadId, Ticks, TraceInfo};

fn info() -> TraceInfo {
    complete_info(vec![function(1, "demo::main", "src/lib.rs", 10)], "signal")
}

fn main_thread() -> Thread {
    Thread {
        id: ThreadId(7),
        process: None,
        name: "main".into(),
        counts: Some(counts()),
        ..Thread::default()
    }
}

/// Calls of one thread, written by both versions for a dump at that moment.
fn until(end: u64, chunk: &dyn Fn() -> Chunk, ended: bool) -> Vec<Call> {
    let [version_1, version_3] = [Version::V1, Version::V3].map(|version| {
        let info = TraceInfo {
            end: Some(Ticks(end)),
            ..info()
        };
        let (bytes, block) = dumped(version, &info, &main_thread(), &[&chunk().0], ended);
        let read = intact(&bytes);
        assert_eq!(read.info.end, Some(Ticks(end)));
        let counts = read.info.threads[0].counts.expect("counts");
        assert_eq!(counts.synthetic_exits, block.synthetic_exits);
        read.log.calls(7)
    });
    assert_eq!(version_1, version_3, "both versions hold the same");
    version_3
}

#[test]
fn open_calls_last_until_the_dump() {
    let far = 1 << 40;
    let open = || Chunk::new(7, 0, 1000).enter(1, 0).enter(2, 5);
    let at = |end| {
        [
            enter(1000, 1),
            enter(1005, 2),
            synthetic(exit(end, 2)),
            synthetic(exit(end, 1)),
        ]
    };
    // More than the 32 bits of a delta, and less.
    assert_eq!(until(far, &open, false), at(far));
    assert_eq!(until(1006, &open, false), at(1006));
    // A record that came while the dump was made.
    assert_eq!(until(1001, &open, false), at(1005));
    // What has ended is in no call any more.
    assert_eq!(until(far, &open, true), at(1005));
    // Nothing is open.
    let closed = || Chunk::new(7, 0, 1000).enter(1, 0).exit(1, 5);
    assert_eq!(until(far, &closed, false), [enter(1000, 1), exit(1005, 1)]);
}

#[test]
fn jumps_before_dumps_are_no_call_time() {
    // The machine stood still for an hour by the time of day, which the counter does not know of: 2 GHz.
    let (hour, second) = (7_200_000_000_000, 2_000_000_000);
    let begin = 1_700_000_000_000_005_000;
    let end = 1000 + hour + second;
    let mut info = info();
    info.clock.until = Some((Ticks(end), begin + 1_000_000_000));
    info.clock.faults.ahead_ns = 3_600_000_000_000;
    info.end = Some(Ticks(end));
    let chunk = Chunk::new(7, 0, 1000).enter(1, 0).0;
    let (bytes, _) = dumped(Version::V3, &info, &main_thread(), &[&chunk], false);
    let read = intact(&bytes);
    let calls = read.log.calls(7);
    assert_eq!(calls, [enter(1000, 1), synthetic(exit(1000 + second, 1))]);
}
