//! Traces that are larger than what the spool keeps in memory, so that they go through its file, the
//! merge and the second thread; a test's limits are small. Must not repeat what the tests of all
//! formats do.

use super::*;
use crate::bytes::FileBytes;
use crate::entrace::EntraceSource;
use crate::entrace::container::Version;
use crate::model::{Edge, FunctionId, Ticks};
use crate::source::{Source, drive};
use crate::temporary::unlinked;

const THREADS: u64 = 3;

/// Calls of every depth up to 5 and of durations of every size; the steps differ by thread.
fn calls(thread: u64) -> Vec<Call> {
    let (mut calls, mut open, mut time) = (Vec::new(), Vec::new(), thread);
    for round in 0..6000u64 {
        time += match round % 7 {
            0 => 70_000,
            1 if round % 777 == 1 => 5_000_000_000,
            step => step * 40 + thread,
        };
        let enters = open.is_empty() || (open.len() < 5 && round % 3 > 0);
        let function = FunctionId((round % 11 + thread) as u32);
        let (edge, function) = if enters {
            open.push(function);
            (Edge::Entry, function)
        } else {
            (Edge::Exit, open.pop().unwrap_or_default())
        };
        calls.push(Call {
            time: Ticks(time),
            function,
            edge,
            synthetic: false,
            has_arguments: false,
        });
    }
    calls
}

/// What a file gives back, and the order in which it has the threads.
#[derive(Default)]
struct Kept {
    calls: [Vec<Call>; THREADS as usize],
    now: usize,
}

impl Sink for Kept {
    fn thread(&mut self, thread: &Thread) {
        self.now = thread.id.0 as usize;
    }

    fn calls(&mut self, calls: &[Call]) {
        self.calls[self.now].extend_from_slice(calls);
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        panic!("none was written: {mark:?}");
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        panic!("{diagnostic}");
    }
}

#[test]
fn what_went_through_the_temporary_file_comes_back() {
    for version in [Version::V1, Version::V2] {
        for container in [Container::Et, Container::Iet, Container::IetPrefix] {
            let file = unlinked().expect("a folder for temporary files");
            let kind = Kind { version, container };
            let out = file.try_clone().expect("a file");
            let mut writer = EntraceWriter::new(out, kind, &TraceInfo::default());
            for id in (0..THREADS).map(ThreadId) {
                let thread = Thread {
                    id,
                    ..Thread::default()
                };
                writer.thread(&thread);
                writer.calls(&calls(id.0));
            }
            assert!(writer.spool.has_spilled(), "the test must spill");
            writer.finish().expect("room");

            let bytes = FileBytes::new(file).expect("a file");
            let source = EntraceSource::open(Box::new(bytes)).expect("a trace");
            assert_eq!(source.diagnostics(), [], "{kind}");
            let mut kept = Kept::default();
            drive(&source, &mut kept, &|_| {}).expect("a readable file");
            for (thread, found) in (0..).zip(&kept.calls) {
                assert!(*found == calls(thread), "{kind}: thread {thread}");
            }
        }
    }
}
