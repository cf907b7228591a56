//! Random XRay traces with whatever makes a reader's work hard: calls over many blocks, exits without entries, gaps,
//! clocks that start again, and payloads that look like records.

use fdr_formats::bytes::ByteOrder;
use fdr_formats::xray::payload;
use fdr_formats::xray::record::{
    Action, Header, Layout, Record, RecordTime, encode_function, encode_header, encode_metadata,
};
use fdr_formats::{Thread, Ticks};

const LAYOUT: Layout = Layout {
    order: ByteOrder::Little,
    version: 3,
};

/// A trace of one or two threads, always the same for the same seed. Every other one is tame.
pub(crate) fn random_trace(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let header = Header {
        layout: LAYOUT,
        constant: true,
        nonstop: true,
        frequency: 1_000_000_000,
        buffer_size: 0,
    };
    let mut bytes = encode_header(&header).to_vec();
    let mut writer = Writer {
        odd: if seed.is_multiple_of(2) {
            0
        } else {
            1 + random.below(200)
        },
        random,
        tick: 1 << 40,
        open: Vec::new(),
        block: Vec::new(),
    };
    let threads = 1 + seed as u32 % 2;
    for thread in 0..threads {
        writer.open.clear();
        for _ in 0..1 + writer.random.below(4) {
            let records = writer.random.below(400);
            let block = writer.block(thread, records);
            let extents = Record::BufferExtents {
                bytes: block.len() as u64,
            };
            bytes.extend(encode_metadata(&extents, LAYOUT));
            bytes.extend(block);
        }
    }
    bytes
}

struct Writer {
    random: Random,
    /// Odd things in 1000 records.
    odd: u64,
    tick: u64,
    open: Vec<u32>,
    block: Vec<u8>,
}

impl Writer {
    fn block(&mut self, thread: u32, records: u64) -> Vec<u8> {
        self.metadata(&Record::NewBuffer { thread });
        self.metadata(&Record::WallTime {
            seconds: 1,
            micros: 0,
        });
        self.set_time();
        if self.random.below(3) == 0 {
            // Sooner or later than what comes.
            let latest = Ticks(self.tick + self.random.below(300_000));
            self.custom(&payload::encode_thread(&Thread::default(), Some(latest)));
            self.set_time();
        }
        for _ in 0..records {
            if self.random.below(1000) < self.odd {
                self.odd_one();
            } else if self.random.below(12) == 0 {
                self.set_time();
            } else {
                self.call();
            }
        }
        std::mem::take(&mut self.block)
    }

    fn metadata(&mut self, record: &Record) {
        self.block.extend(encode_metadata(record, LAYOUT));
    }

    fn set_time(&mut self) {
        self.tick += self.random.below(1000);
        let (cpu, tsc) = (self.random.below(4) as u16, self.tick);
        match self.random.below(4) {
            0 => self.metadata(&Record::TscWrap { tsc }),
            _ => self.metadata(&Record::NewCpu { cpu, tsc }),
        }
    }

    fn call(&mut self) {
        // Slowly up and down, so that calls reach over pieces.
        let up = (self.block.len() / 400).is_multiple_of(2);
        let enter = self.open.is_empty() || self.random.below(10) < if up { 7 } else { 3 };
        match enter {
            true => {
                let id = 1 + self.random.below(9) as u32;
                self.open.push(id);
                self.function(id, Action::Entry);
            }
            false => {
                let id = self.open.pop().unwrap_or(1);
                self.function(id, Action::Exit);
            }
        }
    }

    fn function(&mut self, id: u32, action: Action) {
        let delta = self.random.below(500) as u32;
        self.tick += u64::from(delta);
        self.block
            .extend(encode_function(id, action, delta, ByteOrder::Little));
    }

    fn custom(&mut self, data: &[u8]) {
        let (size, when) = (data.len() as i32, RecordTime::Absolute(self.tick));
        let cpu = None;
        self.metadata(&Record::Custom { size, when, cpu });
        self.block.extend(data);
    }

    /// What may not be in order.
    fn odd_one(&mut self) {
        match self.random.below(12) {
            0 => {
                let id = self.random.below(12) as u32;
                self.function(id, Action::Exit);
            }
            1 => {
                self.open.pop();
            }
            2 => self.custom(&payload::encode_lost(self.random.0 % 50 + 1)),
            3 => self.custom(&payload::encode_synthetic(self.random.0 as u32 % 5)),
            4 => self.custom(&payload::encode_break(self.random.0 % 5000)),
            5 => {
                // The clock begins anew.
                self.tick = self.random.below(1 << 33);
                self.set_time();
            }
            6 => {
                self.tick -= self.tick.min(self.random.below(1500));
                self.set_time();
            }
            7 => self.deceive(),
            8 => self.block.extend([0x08, 0, 0, 0, 0, 0, 0, 0]),
            9 => self.metadata(&Record::CallArgument { value: 7 }),
            10 => self.custom(&[7; 5]),
            _ => {
                let id = 1 + self.random.below(9) as u32;
                self.open.push(id);
                self.function(id, Action::EntryArgs);
                self.metadata(&Record::CallArgument { value: 1 });
            }
        }
    }

    /// A payload that looks like records, at a likely place.
    fn deceive(&mut self) {
        let mut data = vec![0; self.random.below(2) as usize * 8];
        for _ in 0..1 + self.random.below(4) {
            let tsc = self.tick + self.random.below(100);
            data.extend(encode_metadata(&Record::NewCpu { cpu: 1, tsc }, LAYOUT));
            for id in 1..20 {
                data.extend(encode_function(id, Action::Entry, 1, ByteOrder::Little));
            }
        }
        self.custom(&data);
    }
}

/// Pseudo-random numbers, the same for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit.max(1)
    }
}
