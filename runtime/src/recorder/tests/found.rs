//! The content of copied chunks in words, as a reader finds it. Must never look at a slot.

use fdr_formats::calls::CallStack;
use fdr_formats::xray::ChunkDecoder;
use fdr_formats::{Call, Edge, Mark, Sink};

/// What a reader finds, in words.
#[derive(Default)]
pub(super) struct ReaderLog {
    pub(super) events: Vec<String>,
    pub(super) stack: CallStack,
    pub(super) own: Vec<(u32, u64, u64)>,
    /// The bodies of notes.
    pub(super) bodies: Vec<Vec<u8>>,
}

impl Sink for ReaderLog {
    fn calls(&mut self, calls: &[Call]) {
        for call in calls {
            let sign = if call.edge == Edge::Entry { '+' } else { '-' };
            let (function, time) = (call.function.0, call.time.0);
            self.events.push(format!("{sign}{function} at {time}"));
            let own = &mut self.own;
            self.stack.call(call, |ended| {
                own.push((ended.call.function.0, ended.total(), ended.own()));
            });
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        match mark {
            Mark::ShortCalls { time, calls, ticks } => {
                self.stack.short_calls(*time, *ticks);
                self.events.push(format!("{calls} short, {ticks}"));
            }
            Mark::Threshold { ticks } => self.events.push(format!("below {ticks}")),
            Mark::Note { time, body, .. } => {
                self.events.push(format!("note at {}", time.0));
                self.bodies.push(body.to_vec());
            }
            Mark::Cpu { cpu, .. } => self.events.push(format!("cpu {}", cpu.0)),
            _ => {}
        }
    }
}

/// What is in the chunks.
pub(super) fn found_in(chunks: &[Vec<u8>]) -> ReaderLog {
    let mut found = ReaderLog::default();
    let mut decoder = ChunkDecoder::new();
    for chunk in chunks {
        decoder.decode(chunk, &mut found);
    }
    assert_eq!(decoder.unknown_bytes(), 0);
    found
}
