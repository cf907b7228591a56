//! The guide's second program, as the guide has it: which calls took longest?

use std::collections::HashMap;
use std::path::Path;

use fdr_formats::calls::{CallStack, EndedCall, OpenCall};
use fdr_formats::source::drive;
use fdr_formats::{Call, Error, Mark, Sink, Thread, ThreadId, Ticks};

/// The ten longest calls so far: ticks, thread, and the call.
#[derive(Default)]
struct Slowest {
    longest: Vec<(u64, ThreadId, EndedCall<()>)>,
    thread: ThreadId,
    stacks: HashMap<ThreadId, CallStack>,
}

impl Sink for Slowest {
    fn thread(&mut self, thread: &Thread) {
        self.thread = thread.id;
    }

    fn calls(&mut self, calls: &[Call]) {
        let (thread, longest) = (self.thread, &mut self.longest);
        let stack = self.stacks.entry(thread).or_default();
        for call in calls {
            stack.call(call, |ended| {
                longest.push((ended.total(), thread, ended));
                if longest.len() > 1000 {
                    keep_ten(longest);
                }
            });
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        // If records are missing, or the clock jumped, open calls are clipped.
        let stack = self.stacks.entry(self.thread).or_default();
        match mark {
            Mark::Lost { .. } => stack.lose(),
            Mark::Break { .. } => stack.doubt(),
            Mark::ShortCalls { time, ticks, .. } => {
                stack.short_calls(*time, *ticks);
            }
            _ => {}
        }
    }
}

fn keep_ten(longest: &mut Vec<(u64, ThreadId, EndedCall<()>)>) {
    longest.sort_by_key(|(ticks, ..)| std::cmp::Reverse(*ticks));
    longest.truncate(10);
}

pub(crate) fn slowest_calls(path: &Path) -> Result<Vec<String>, Error> {
    let source = fdr_formats::open(path)?;
    let mut slowest = Slowest::default();
    drive(&*source, &mut slowest, &|_bytes_done| {})?;
    let info = source.info();
    let longest = &mut slowest.longest;
    for (&thread, stack) in &mut slowest.stacks {
        // Open calls last until the trace was written, if that moment is known.
        stack.finish(
            info.end,
            &mut |ended: EndedCall<()>, _: &mut [OpenCall<()>]| {
                longest.push((ended.total(), thread, ended));
            },
        );
    }
    keep_ten(longest);
    let line = |(ticks, thread, ended): &(u64, ThreadId, EndedCall<()>)| {
        let known = info.function(ended.call.function);
        let name = known.map_or("?", |function| &function.name);
        let clipped = if ended.clipped { " or more" } else { "" };
        let nanos = info.clock.nanos(Ticks(*ticks)).0;
        format!("{nanos:>12} ns{clipped}  {name}, thread {thread}")
    };
    Ok(longest.iter().map(line).collect())
}

fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1).unwrap_or("app.fdr".into());
    for line in slowest_calls(Path::new(&path))? {
        println!("{line}");
    }
    Ok(())
}
