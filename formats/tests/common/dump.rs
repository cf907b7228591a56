//! What a dump says of itself, for the tests of both its writers: that of the dumper, and that of a
//! crash, which may not allocate.
#![allow(unreachable_pub, missing_docs)]

use std::io::Cursor;

use fdr_formats::model::{Counts, Missing};
use fdr_formats::xray::{BlockSummary, DumpWriter, Version};
use fdr_formats::{Clock, Function, Thread, Ticks, TraceInfo};

/// Everything that a dump can say, for that reason.
pub fn complete_info(functions: Vec<Function>, reason: &str) -> TraceInfo {
    TraceInfo {
        clock: Clock {
            frequency: 2_000_000_000,
            name: "rdtscp".into(),
            error_ppm: Some(1.5),
            constant: true,
            nonstop: true,
            anchor: Some((Ticks(900), 1_700_000_000_000_000_000)),
            ..Clock::default()
        },
        functions,
        program: "demo".into(),
        process: Some(4242),
        reason: reason.to_owned(),
        dump: Some(3),
        missing: Missing {
            threads: 12,
            overwritten: 5000,
            dropped: 16_000,
        },
        start: Some(Ticks(900)),
        ..TraceInfo::default()
    }
}

/// Of a thread: what the recorder knows of it, and the chunks do not say.
pub fn counts() -> Counts {
    Counts {
        recorded: 23,
        overwritten: 20,
        dropped: 1,
        ..Counts::default()
    }
}

/// A dump of one thread: its bytes, and what was repaired.
pub fn dumped(
    version: Version,
    info: &TraceInfo,
    thread: &Thread,
    chunks: &[&[u8]],
    ended: bool,
) -> (Vec<u8>, BlockSummary) {
    let mut file = Cursor::new(Vec::new());
    let mut writer = DumpWriter::new(&mut file, version, info).expect("memory");
    let block = writer.thread_with_gaps(thread, chunks, &[], ended);
    let block = block.expect("memory");
    writer.finish().expect("memory");
    (file.into_inner(), block)
}
