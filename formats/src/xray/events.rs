//! Ring chunks to events, with all that [`DumpWriter`](super::DumpWriter) puts between them: how a dump is written
//! in a format that is not the recorder's own. A reader of the file that `DumpWriter` makes of the same chunks
//! gives the same events. Must never read a file.

use super::chunk::ChunkDecoder;
use super::dump::{self, BlockSummary};
use super::scan::Scan;
use super::walk::{CHUNK_HEAD, PREAMBLE};
use crate::model::{Counts, Edge, Mark, Thread, TraceInfo};
use crate::sink::Sink;

/// Pushes one thread into the sink. The arguments are those of
/// [`DumpWriter::thread_with_gaps`](super::DumpWriter::thread_with_gaps). Not async-signal-safe.
///
/// # Examples
/// ```
/// use fdr_formats::{Call, Sink, Thread, TraceInfo, xray};
///
/// struct Count(usize);
///
/// impl Sink for Count {
///     fn calls(&mut self, calls: &[Call]) {
///         self.0 += calls.len();
///     }
/// }
///
/// let (info, thread) = (TraceInfo::default(), Thread::default());
/// let mut count = Count(0);
/// let summary = xray::push_thread(&info, &thread, &[], &[], false, &mut count);
/// assert_eq!((summary.readable, count.0), (0, 0));
/// ```
pub fn push_thread(
    info: &TraceInfo,
    thread: &Thread,
    chunks: &[&[u8]],
    gaps: &[u64],
    ended: bool,
    sink: &mut dyn Sink,
) -> BlockSummary {
    let (scan, summary) = dump::look(info, chunks, gaps, ended);
    sink.thread(&Thread {
        process: thread.process.or(info.process),
        counts: thread.counts.map(|counts| Counts {
            synthetic_entries: summary.synthetic_entries,
            synthetic_exits: summary.synthetic_exits,
            ..summary.counted(counts)
        }),
        ..thread.clone()
    });
    let first = dump::first(dump::valid(chunks, &scan).unwrap_or(&[]), info);
    let (seconds, micros) = first.wall;
    sink.mark(&Mark::Wall { seconds, micros });
    let mut decoder = ChunkDecoder::new();
    decoder.begin(info.start.map_or(first.tsc, |start| start.0));
    push_chunks(chunks, gaps, &scan, &mut decoder, sink);
    summary
}

fn push_chunks(
    chunks: &[&[u8]],
    gaps: &[u64],
    scan: &Scan,
    decoder: &mut ChunkDecoder,
    sink: &mut dyn Sink,
) {
    let before = scan.walk.stack.before();
    let mut outermost = Some(before).filter(|before| before.len() > 0);
    let mut repairs = scan.repairs.iter().peekable();
    for (nth, (chunk, &end)) in chunks.iter().zip(&scan.ends).enumerate() {
        if let Some(&records @ 1..) = gaps.get(nth).filter(|_| nth > 0) {
            sink.mark(&Mark::Lost { records });
        }
        let mut from = PREAMBLE;
        let mut push = |to: usize, decoder: &mut ChunkDecoder, sink: &mut dyn Sink| {
            decoder.decode(chunk.get(from..to).unwrap_or(&[]), sink);
            from = to;
        };
        if let Some(before) = outermost.take_if(|_| end >= CHUNK_HEAD) {
            // The chunk's NewCPUId: that is the time of its first record.
            push(CHUNK_HEAD, decoder, sink);
            decoder.synthetic(before, Edge::Entry, sink);
        }
        while let Some(repair) = repairs.next_if(|repair| repair.chunk == nth) {
            push(repair.offset, decoder, sink);
            if repair.jump > 0 {
                decoder.jump(repair.jump, sink);
                continue;
            }
            let ids = scan.repaired.iter().skip(repair.first);
            let edge = if repair.entry {
                Edge::Entry
            } else {
                Edge::Exit
            };
            decoder.synthetic(ids.take(repair.count).copied(), edge, sink);
        }
        if end > 0 {
            push(end, decoder, sink);
        }
    }
    if scan.walk.stack.open().len() > 0 {
        if scan.walk.end > scan.walk.last {
            decoder.set(scan.walk.end, sink);
        }
        decoder.synthetic(scan.walk.stack.open(), Edge::Exit, sink);
    }
}
