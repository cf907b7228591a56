//! The `Source` of HTDUMP files, and the second pass: records to events. The threads of a file are mixed, so the file
//! is one lane. A sink gets each thread in runs.

use super::index::{self, Index, WINDOW};
use super::items::{self, Lookup};
use super::list;
use super::scan::{RecordPass, Step};
use crate::bytes::ReadAt;
use crate::edges::EdgeSorter;
use crate::error::Error;
use crate::sink::Sink;
use crate::source::one_lane;

/// An HTDUMP file, opened and indexed. Its threads are mixed, so it is one lane.
pub struct HtdumpSource {
    bytes: Box<dyn ReadAt>,
    index: Index,
}

impl HtdumpSource {
    /// Reads all records once.
    ///
    /// # Errors
    /// If the file can't be read, or does not begin as HTDUMP does.
    pub fn open(bytes: Box<dyn ReadAt>) -> Result<HtdumpSource, Error> {
        let index = index::index(&*bytes)?;
        Ok(HtdumpSource { bytes, index })
    }
}

one_lane! {
    HtdumpSource, this:
    size: this.bytes.size(),
    decode(sink, progress): events(&*this.bytes, &this.index, sink, progress),
    records(visit): list::records(&*this.bytes, &this.index, visit),
}

/// Pushes the events of the file into the sink.
fn events(
    file: &dyn ReadAt,
    index: &Index,
    sink: &mut dyn Sink,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Error> {
    let threads = &index.info.threads;
    let mut numbers = index.threads.copy_for_pass();
    let mut sorter = EdgeSorter::new(&index.plan, threads);
    let mut lookup = Lookup::new(file, &index.tables, &index.ties);
    let mut pass = RecordPass::new(file, &index.tables, WINDOW);
    let mut unreported = 0;
    while let Some(step) = pass.next()? {
        unreported += match &step {
            Step::Event(event) => {
                let item = items::item(event, |naming| index.ties.function(event.offset, naming));
                let item = item.and_then(|(number, item)| Some((numbers.find(number)?, item)));
                if let Some((thread, item)) = item {
                    sorter.add(thread, &item, sink, &mut lookup)?;
                }
                event.size()
            }
            Step::Gap(from, to) => to - from,
        };
        if unreported >= WINDOW as u64 {
            progress(unreported);
            unreported = 0;
        }
    }
    sorter.finish(sink, &mut lookup)?;
    let quiet = threads.iter().zip(&index.busy);
    for (thread, _) in quiet.filter(|(_, busy)| !**busy) {
        sink.thread(thread);
    }
    progress(unreported);
    Ok(())
}
