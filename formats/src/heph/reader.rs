//! The `Source` of Heph files, and the second pass: calls and marks of all threads go into a sink, in order of time per
//! thread. A call's other attributes are read again from the file when its entry is due.

use super::decoder_state::DecoderState;
use super::details::Attributes;
use super::index::{self, Index};
use super::list;
use super::scan::Walker;
use crate::bytes::ReadAt;
use crate::edges::EdgeSorter;
use crate::error::Error;
use crate::sink::Sink;
use crate::source::one_lane;

/// A Heph file, opened and indexed. It has one lane, because the threads' packets are mixed.
pub struct HephSource {
    bytes: Box<dyn ReadAt>,
    index: Index,
}

impl HephSource {
    /// Reads the file once for its names, threads and clock.
    ///
    /// # Errors
    /// If the file can't be read, or does not begin with a Heph packet.
    pub fn open(bytes: Box<dyn ReadAt>) -> Result<HephSource, Error> {
        let index = index::index(&*bytes)?;
        Ok(HephSource { bytes, index })
    }
}

one_lane! {
    HephSource, this:
    size: this.bytes.size(),
    decode(sink, progress): all(&*this.bytes, &this.index, sink, progress),
    records(visit): list::records(&*this.bytes, &this.index, visit),
}

/// The step of progress, in bytes.
const STEP: u64 = 256 * 1024;

/// Pushes all events into the sink.
pub(super) fn all(
    bytes: &dyn ReadAt,
    index: &Index,
    sink: &mut dyn Sink,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Error> {
    let mut walker = Walker::new(bytes);
    let mut state = DecoderState::new(index.epochs);
    let mut sorter = EdgeSorter::new(&index.plan, &index.info.threads);
    let mut known = 0;
    let mut details = Attributes::new(bytes, index);
    let mut done = 0;
    while let Some(found) = walker.next()? {
        done += found.size;
        let step = state.unit(&found);
        for (lane, item) in [step.gap, step.item].into_iter().flatten() {
            known = known.max(lane + 1);
            sorter.add(lane, &item, sink, &mut details)?;
        }
        if done >= STEP {
            progress(done);
            done = 0;
        }
    }
    sorter.finish(sink, &mut details)?;
    // The sink must also learn of threads without events. The sorter has named the threads in between.
    let quiet = index.info.threads.get(known..).unwrap_or(&[]);
    quiet.iter().for_each(|thread| sink.thread(thread));
    progress(done);
    Ok(())
}
