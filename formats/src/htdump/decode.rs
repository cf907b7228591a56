//! The second pass over a file: records to events. Threads are mixed in the file, so all of it is one
//! lane; a sink gets each thread in runs.

use super::gather::Index;
use super::index::WINDOW;
use super::items::{self, Lookup, Naming};
use super::names::Replay;
use super::walk::{Course, Step};
use crate::bytes::ReadAt;
use crate::error::Error;
use crate::nest::Nester;
use crate::sink::Sink;

/// Pushes the events of the file into the sink.
pub(super) fn events(
    file: &dyn ReadAt,
    index: &Index,
    sink: &mut dyn Sink,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Error> {
    let threads = &index.info.threads;
    let mut numbers = index.threads.again();
    let mut nester = Nester::new(&index.plan, threads);
    let mut replay = Replay::new(&index.ties);
    let mut lookup = Lookup::new(file, &index.tables);
    let mut course = Course::new(file, &index.tables, WINDOW);
    let mut untold = 0;
    while let Some(step) = course.next()? {
        untold += match &step {
            Step::Event(event) => {
                let item = items::item(event, |naming| match naming {
                    Naming::Identifier(identifier) => replay.identifier(event.offset, identifier),
                    Naming::Label(label) => replay.label(&String::from_utf8_lossy(label)),
                    Naming::Klass(klass) => replay.label(klass),
                });
                if let Some((number, item)) = item
                    && let Some(thread) = numbers.find(number)
                {
                    nester.add(thread, &item, sink, &mut lookup)?;
                }
                event.size()
            }
            Step::Gap(from, to) => to - from,
        };
        if untold >= WINDOW as u64 {
            progress(untold);
            untold = 0;
        }
    }
    nester.finish(sink, &mut lookup)?;
    let quiet = threads.iter().zip(&index.busy);
    for (thread, _) in quiet.filter(|(_, busy)| !**busy) {
        sink.thread(thread);
    }
    progress(untold);
    Ok(())
}
