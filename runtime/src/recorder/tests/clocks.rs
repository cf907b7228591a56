//! Clocks that go back, jump and begin anew, from the stamp to the reader of the trace. The reader must find what a
//! model of twenty lines says: no time goes back, and every reset is a break.

use core::sync::atomic::Ordering::Relaxed;
use std::io::Cursor;

use fdr_formats::source::drive;
use fdr_formats::xray::{DumpWriter, Version, XraySource};
use fdr_formats::{Call, Diagnostic, Mark, Sink, Thread, TraceInfo};

use super::{EXIT, FN_1, Rig};

/// What a reader gets.
#[derive(Default)]
struct TimeLog {
    times: Vec<u64>,
    breaks: u64,
}

impl Sink for TimeLog {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        let measured = calls.iter().filter(|call| !call.synthetic);
        self.times.extend(measured.map(|call| call.time.0));
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.breaks += u64::from(matches!(mark, Mark::Break { .. }));
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        panic!("{diagnostic}");
    }
}

fn read(rig: &Rig) -> TimeLog {
    let (chunks, _) = rig.read();
    let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
    let (mut file, info) = (Cursor::new(Vec::new()), TraceInfo::default());
    let mut writer = DumpWriter::new(&mut file, Version::V3, &info).unwrap();
    writer.thread(&Thread::default(), &chunks).unwrap();
    writer.finish().unwrap();
    let source = XraySource::open(Box::new(file.into_inner())).unwrap();
    let mut log = TimeLog::default();
    drive(&source, &mut log, &|_| {}).unwrap();
    log
}

/// A clock of the worst kind, and what is to be made of it.
struct Model {
    state: u64,
    tick: u64,
    /// The last tick that was believed.
    last: u64,
    /// The time that a reader shows for it.
    time: u64,
    resets: u64,
}

impl Model {
    fn draw(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.state >> 33
    }

    fn step(&mut self) {
        let small = self.draw() % 1000;
        self.tick = match self.draw() % 40 {
            0 => self.tick.saturating_sub(small),
            1 => self.tick.saturating_sub(small << 20),
            2 => self.tick + (small << 24),
            3 => small,
            4 => self.tick.saturating_sub(1 << 32),
            5 => self.tick + (1 << 32),
            _ => self.tick + small,
        };
        if self.tick >= self.last {
            self.time += self.tick - self.last;
        } else if self.last - self.tick <= u64::from(u32::MAX) {
            return;
        } else {
            self.resets += 1;
        }
        self.last = self.tick;
    }
}

#[test]
fn time_goes_on_whatever_the_clock_does() {
    let mut resets = 0;
    for seed in 1..=if cfg!(miri) { 2 } else { 100 } {
        let rig = Rig::new(2, false);
        let mut model = Model {
            state: seed,
            tick: seed << 34,
            last: seed << 34,
            time: seed << 34,
            resets: 0,
        };
        let mut wanted = vec![model.time];
        rig.write(FN_1, model.tick, 0);
        for nth in 1..300 {
            model.step();
            wanted.push(model.time);
            let word = if nth % 2 == 0 { FN_1 } else { FN_1 | EXIT };
            let cpu = (model.draw() % 3) as u32;
            rig.write(word, model.tick, cpu);
        }
        let log = read(&rig);
        assert_eq!(log.times, wanted, "seed {seed}");
        assert_eq!(log.breaks, model.resets, "seed {seed}");
        assert!(rig.slot().clock_steps.load(Relaxed) >= model.resets);
        resets += model.resets;
    }
    assert!(resets > 0, "a model without resets shows nothing");
}

#[test]
fn a_trace_may_begin_with_a_reset() {
    let rig = Rig::new(2, false);
    rig.write(FN_1, 1 << 40, 0);
    rig.write(FN_1 | EXIT, 5, 0);
    let log = read(&rig);
    assert_eq!((log.times, log.breaks), (vec![1 << 40, 1 << 40], 1));
}
