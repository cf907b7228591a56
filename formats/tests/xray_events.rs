//! `push_thread` against the other way: what a reader gives of the file that `DumpWriter` makes of the same
//! chunks. Both must give the same events, whatever the chunks hold.

use std::io::Cursor;

use crate::common::dump::{complete_info, counts};
use crate::common::{Chunk, Event, EventLog, Random, function, read};
use fdr_formats::model::ClockFaults;
use fdr_formats::xray::{DumpWriter, Version, push_thread};
use fdr_formats::{Sink, Thread, ThreadId, Ticks, TraceInfo};

/// A thread as it is at the moment of a dump.
struct Lane {
    chunks: Vec<Vec<u8>>,
    gaps: Vec<u64>,
    ended: bool,
}

/// Nanoseconds a tick, and the Unix time of tick 0.
const WALL_NS: u64 = 1_700_000_000_000_000_000;

fn random_info(random: &mut Random) -> TraceInfo {
    let functions = vec![
        function(1, "demo::main", "src/lib.rs", 10),
        function(2, "demo::leaf", "src/lib.rs", 0),
    ];
    let mut info = complete_info(functions, "signal");
    info.clock.frequency = 1_000_000_000;
    info.clock.anchor = Some((Ticks(900), WALL_NS));
    info.end = (random.below(2) == 0).then(|| Ticks(random.below(1 << 40)));
    if random.below(2) == 0 {
        info.clock.until = Some((Ticks(1 << 40), WALL_NS + random.below(1 << 41)));
        info.clock.faults = ClockFaults {
            ahead_ns: random.below(1 << 40) as i64,
            ..ClockFaults::default()
        };
    }
    info
}

/// Chunks of calls that mostly nest, of a clock that goes back, jumps and begins anew now and then.
fn random_lane(random: &mut Random) -> Lane {
    let (mut chunks, mut tick, mut open) = (Vec::new(), 900 + random.below(1 << 34), Vec::new());
    for _ in 0..random.below(5) {
        let mut chunk = Chunk::new(7, random.below(3) as u16, tick);
        for _ in 0..random.below(40) {
            let delta = random.below(100) as u32;
            tick += u64::from(delta);
            chunk = match random.below(14) {
                0..5 => {
                    open.push(1 + random.below(5) as u32);
                    chunk.enter(open[open.len() - 1], delta)
                }
                5..9 => match open.pop() {
                    Some(id) => chunk.exit(id, delta),
                    None => chunk.exit(1 + random.below(5) as u32, delta),
                },
                9 => chunk.exit(1 + random.below(5) as u32, delta),
                10 => {
                    tick = moved(random, tick);
                    chunk.cpu(random.below(3) as u16, tick)
                }
                11 => chunk.short(tick, random.below(1 << 20), random.below(1 << 30)),
                12 => chunk.event(tick, 10, random.next()),
                _ => {
                    tick = moved(random, tick);
                    chunk.wrap(tick)
                }
            };
        }
        let mut bytes = chunk.0;
        match random.below(10) {
            0 => bytes.truncate(random.below(bytes.len() as u64) as usize),
            1 => {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
            _ => {}
        }
        // The time of day of the chunk, far from where it should be now and then.
        if let Some(wall) = bytes.get_mut(17..25).filter(|_| random.below(3) == 0) {
            wall.copy_from_slice(&(1_700_000_000 + random.below(4000)).to_le_bytes());
        }
        chunks.push(bytes);
        tick = moved(random, tick);
    }
    let gap = |random: &mut Random| random.below(3).saturating_sub(1) * 50;
    Lane {
        gaps: chunks.iter().map(|_| gap(random)).collect(),
        ended: random.below(2) == 0,
        chunks,
    }
}

fn moved(random: &mut Random, tick: u64) -> u64 {
    match random.below(8) {
        0 => tick.saturating_sub(random.below(1000)),
        1 => random.below(1 << 34),
        2 => tick + random.below(1 << 36),
        _ => tick + random.below(1000),
    }
}

fn thread() -> Thread {
    Thread {
        id: ThreadId(7),
        name: "main".into(),
        counts: Some(counts()),
        ..Thread::default()
    }
}

/// The events, each CPU once until it changes: a file tells it with every chunk.
fn events(log: &EventLog) -> Vec<Event> {
    let mut last = None;
    let news = |event: &&Event| match event {
        Event::Cpu(_, cpu) => last.replace(*cpu) != Some(*cpu),
        _ => true,
    };
    log.events(7).iter().filter(news).cloned().collect()
}

#[derive(Default)]
struct ThreadedLog {
    log: EventLog,
    threads: Vec<Thread>,
}

impl Sink for ThreadedLog {
    fn thread(&mut self, thread: &Thread) {
        self.log.thread(thread);
        self.threads.push(thread.clone());
    }

    fn calls(&mut self, calls: &[fdr_formats::Call]) {
        Sink::calls(&mut self.log, calls);
    }

    fn mark(&mut self, mark: &fdr_formats::Mark<'_>) {
        self.log.mark(mark);
    }
}

#[test]
fn events_are_those_of_the_file() {
    let mut random = Random(23);
    let (mut calls, mut breaks, mut synthetic) = (0, 0, 0);
    for round in 0..4000 {
        let (info, lane) = (random_info(&mut random), random_lane(&mut random));
        let chunks: Vec<&[u8]> = lane.chunks.iter().map(Vec::as_slice).collect();
        let mut file = Cursor::new(Vec::new());
        let mut writer = DumpWriter::new(&mut file, Version::V3, &info).expect("memory");
        let written = writer.thread_with_gaps(&thread(), &chunks, &lane.gaps, lane.ended);
        let written = written.expect("memory");
        writer.finish().expect("memory");
        let read = read(file.get_ref()).expect("readable");
        let mut sink = ThreadedLog::default();
        let pushed = push_thread(&info, &thread(), &chunks, &lane.gaps, lane.ended, &mut sink);
        assert_eq!(pushed, written, "{round}");
        assert_eq!(sink.threads, read.info.threads, "{round}");
        assert_eq!(events(&sink.log), events(&read.log), "{round}");
        calls += pushed.readable;
        synthetic += pushed.synthetic_entries + pushed.synthetic_exits;
        let is_break = |event: &&Event| matches!(event, Event::Break(_));
        breaks += sink.log.events(7).iter().filter(is_break).count();
    }
    assert!(
        calls > 50_000 && synthetic > 5_000 && breaks > 500,
        "{calls} calls, {synthetic} synthetic ones and {breaks} breaks"
    );
}
