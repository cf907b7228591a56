//! Random traces in memory, on which all commands and formats must agree. They have calls without entry or exit, gaps,
//! breaks, clocks that go back, short calls without records, and totals. The same seed always gives the same trace.

use std::ops::ControlFlow;

use fdr_formats::lengths;
use fdr_formats::model::{Counts, FunctionTotals};
use fdr_formats::source::Record;
use fdr_formats::{
    Call, Diagnostic, Error, FunctionId, Mark, Sink, Source, Thread, ThreadId, Ticks, TraceInfo,
};

use crate::testing::random_xray::Random;

/// A trace in memory, of two threads.
pub(crate) struct RandomTrace {
    pub(crate) info: TraceInfo,
    threads: Vec<Vec<Event>>,
}

#[derive(Clone, Copy)]
enum Event {
    Call(Call),
    Mark(Mark<'static>),
}

impl RandomTrace {
    /// A trace of five functions. Times are whole microseconds, because Heph's times are. The seed decides how many
    /// edges are missing. `least`: the least number of microseconds between two events. `back`: before how many of
    /// 1,000 events the clock goes back.
    pub(crate) fn new(seed: u64, least: u64, back: u64) -> RandomTrace {
        let mut random = Random::new(seed);
        let odd = [0, 5, 30, 100][seed as usize % 4];
        let threads = (0..2).map(|_| {
            let (mut time, mut open, mut events) = (1_000_000, Vec::new(), Vec::new());
            for _ in 0..random.below(300) {
                time += (least + random.below(9)) * 1000;
                if back > 0 && random.below(1000) < back {
                    time -= random.below(40) * 1000;
                }
                let function = 1 + random.below(5) as u32;
                match random.below(1000) {
                    nth if nth < odd => {
                        let exit = Call::exit(Ticks(time), FunctionId(function));
                        events.push(Event::Call(exit));
                    }
                    nth if nth < 2 * odd => drop(open.pop()),
                    nth if nth < 2 * odd + odd / 5 => {
                        events.push(Event::Mark(Mark::Lost { records: 1 + nth }));
                    }
                    // A block of XRay begins with the first event, and with it the calls from before the trace.
                    nth if nth < 2 * odd + odd / 3 && events.is_empty() => {}
                    nth if nth < 2 * odd + odd / 3 => {
                        events.push(Event::Mark(Mark::Break { time: Ticks(time) }));
                    }
                    nth if nth.is_multiple_of(2) && !open.is_empty() => {
                        let left = open.pop().map_or(1, |left| left);
                        let exit = Call::exit(Ticks(time), FunctionId(left));
                        events.push(Event::Call(exit));
                    }
                    _ => {
                        open.push(function);
                        let entry = Call::entry(Ticks(time), FunctionId(function));
                        events.push(Event::Call(entry));
                    }
                }
            }
            events
        });
        let threads: Vec<_> = threads.collect();
        let thread = |id| Thread {
            id: ThreadId(id),
            ..Thread::default()
        };
        RandomTrace {
            info: TraceInfo {
                threads: (1..=threads.len() as u64).map(thread).collect(),
                // Before the end of some threads' records: these last longer.
                end: (!seed.is_multiple_of(3)).then(|| Ticks(1_000_000 + seed % 7 * 300_000)),
                ..TraceInfo::default()
            },
            threads,
        }
    }

    /// The same trace, in addition with what the recorder writes for calls without records: summaries, thresholds,
    /// totals, and counts. Some calls were only counted.
    pub(crate) fn with_short_calls(seed: u64, least: u64) -> RandomTrace {
        let mut trace = RandomTrace::new(seed, least, 0);
        let mut random = Random::new(seed ^ 0x5407);
        for (thread, events) in trace.info.threads.iter_mut().zip(&mut trace.threads) {
            let is_call = |event: &&Event| matches!(event, Event::Call(_));
            let readable = events.iter().filter(is_call).count() as u64;
            let mut short = 0;
            let (mut all, mut before) = (Vec::new(), None);
            for event in std::mem::take(events) {
                if let (Event::Call(call), Some(before)) = (&event, before) {
                    let passed = call.time.since(before).0;
                    if random.below(3) == 0 && passed > 0 {
                        let calls = 1 + random.below(1000);
                        let ticks = random.below(passed + 1);
                        short += calls;
                        let time = call.time;
                        all.push(Event::Mark(Mark::ShortCalls { time, calls, ticks }));
                    }
                    if random.below(20) == 0 {
                        let ticks = random.below(5000);
                        all.push(Event::Mark(Mark::Threshold { ticks }));
                    }
                }
                if let Event::Call(call) = &event {
                    before = Some(call.time);
                }
                all.push(event);
            }
            *events = all;
            let overwritten = random.below(2) * random.below(100);
            thread.counts = Some(Counts {
                recorded: readable + overwritten + 2 * short,
                readable,
                overwritten,
                summarised: 2 * short,
                ..Counts::default()
            });
            let functions = 1..=5;
            thread.totals = functions.map(|id| totals(id, &mut random)).collect();
        }
        trace
    }
}

/// Some calls of a function, a few of them only counted.
fn totals(id: u32, random: &mut Random) -> FunctionTotals {
    let mut totals = FunctionTotals {
        function: FunctionId(id),
        untimed: random.below(3) * random.below(50),
        ..FunctionTotals::default()
    };
    for _ in 0..random.below(20) {
        let bits = random.below(30);
        let ticks = random.below(1 << bits);
        let class = lengths::class(ticks) as u8;
        totals.add(&FunctionTotals {
            function: totals.function,
            calls: 1,
            untimed: 0,
            total: Ticks(ticks),
            own: Ticks(random.below(ticks + 1)),
            longest: Ticks(ticks),
            lengths: vec![(class, 1)],
            nests: false,
            estimate: None,
        });
    }
    totals
}

impl Source for RandomTrace {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        &[]
    }

    fn lanes(&self) -> usize {
        self.threads.len()
    }

    fn lane_bytes(&self, lane: usize) -> u64 {
        self.threads[lane].len() as u64
    }

    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        _progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        sink.thread(&self.info.threads[lane]);
        for event in &self.threads[lane] {
            match event {
                Event::Call(call) => sink.calls(&[*call]),
                Event::Mark(mark) => sink.mark(mark),
            }
        }
        Ok(())
    }

    fn records(&self, _visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        Ok(())
    }
}
