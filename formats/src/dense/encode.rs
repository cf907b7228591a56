//! Encodes bytes of a trace as a block. Any bytes are allowed: bytes that do not look like calls are kept
//! as they are. Must never refuse a trace.

use super::columns::{CALL, LONG, PLACE, Sizes, put_planes};
use super::model::{Model, PLACES};
use super::sum::sum;
use super::{BLOCK, HEAD, Head, Kind};
use crate::bytes::groups;

/// Bits that no call has: a metadata record's, and those of actions that are none.
const NO_CALL: u64 = 0b1001;
/// Bytes of a metadata record.
const METADATA: usize = 16;
/// Longest payload that is believed; a longer one is taken for more records.
const LONGEST: usize = 1 << 20;

/// Makes blocks, one after the other; each without the others.
pub struct Encoder {
    model: Model,
    runs: Vec<u8>,
    rest: Vec<u8>,
    surprised: Vec<u8>,
    symbols: Vec<u32>,
    /// Of each call.
    places: Vec<u16>,
    deltas: Vec<u32>,
    long: Vec<u32>,
    /// The deltas place by place.
    sorted: Vec<u32>,
}

const _: () = assert!(PLACES <= 1 << 16);

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new()
    }
}

impl Encoder {
    /// An encoder. It grows to three times a block.
    #[must_use]
    pub fn new() -> Encoder {
        Encoder {
            model: Model::new(),
            runs: Vec::new(),
            rest: Vec::new(),
            surprised: Vec::new(),
            symbols: Vec::new(),
            places: Vec::new(),
            deltas: Vec::new(),
            long: Vec::new(),
            sorted: Vec::new(),
        }
    }

    /// Makes the block of the bytes from `offset` on of a trace; what was in `block` is gone. A block has
    /// [`BLOCK`] bytes, and the last one fewer.
    ///
    /// # Panics
    /// Where there are more.
    pub fn block(&mut self, offset: u64, plain: &[u8], block: &mut Vec<u8>) {
        assert!(plain.len() <= BLOCK, "more than a block");
        self.read(plain);
        let sizes = Sizes {
            calls: self.deltas.len(),
            surprises: self.symbols.len(),
            long: self.long.len(),
            runs: self.runs.len(),
            rest: self.rest.len(),
        };
        let body = sizes.body().filter(|&body| body < plain.len());
        let head = Head {
            offset,
            plain: plain.len(),
            body: body.unwrap_or(plain.len()),
            kind: body.map_or(Kind::AsItIs, |_| Kind::Columns),
            sum: sum(plain, offset),
        };
        block.clear();
        block.reserve(HEAD + head.body);
        block.extend_from_slice(&head.bytes());
        match head.kind {
            Kind::AsItIs => block.extend_from_slice(plain),
            Kind::Columns => self.write(sizes, block),
        }
        debug_assert_eq!(block.len(), HEAD + head.body);
    }

    /// Tells calls from the rest.
    fn read(&mut self, plain: &[u8]) {
        self.model.clear();
        self.runs.clear();
        self.rest.clear();
        self.surprised.clear();
        self.symbols.clear();
        self.places.clear();
        self.deltas.clear();
        self.long.clear();
        let mut left = plain;
        while !left.is_empty() {
            let calls = self.calls(left);
            left = left.get(calls * CALL..).unwrap_or(&[]);
            let rest = rest(left);
            let (bytes, others) = left.split_at_checked(rest).unwrap_or((left, &[]));
            self.rest.extend_from_slice(bytes);
            left = others;
            put_number(&mut self.runs, calls);
            put_number(&mut self.runs, bytes.len());
        }
    }

    /// Takes calls off the front; returns how many.
    fn calls(&mut self, plain: &[u8]) -> usize {
        let mut count = 0;
        for call in groups::<CALL>(plain) {
            let call = u64::from_le_bytes(call);
            if call & NO_CALL != 0 {
                break;
            }
            let (word, delta) = (call as u32, (call >> 32) as u32);
            let guess = self.model.guess();
            let symbol = guess.turn(word);
            let surprised = symbol != guess.symbol;
            if surprised {
                self.symbols.push(symbol);
            }
            let nth = self.deltas.len() % 8;
            if nth == 0 {
                self.surprised.push(0);
            }
            if let Some(bits) = self.surprised.last_mut() {
                *bits |= u8::from(surprised) << nth;
            }
            let place = self.model.learn(guess, word, symbol);
            self.places.push(place as u16);
            self.deltas.push(delta);
            if delta >> 8 >= u32::from(LONG) {
                self.long.push(delta >> 8);
            }
            count += 1;
        }
        count
    }

    fn write(&mut self, sizes: Sizes, block: &mut Vec<u8>) {
        block.extend_from_slice(&sizes.bytes());
        block.extend_from_slice(&self.runs);
        block.extend_from_slice(&self.rest);
        block.extend_from_slice(&self.surprised);
        put_planes::<4>(block, &self.symbols);
        let mut counts = [0; PLACES];
        for &place in &self.places {
            counts[usize::from(place)] += 1;
        }
        put_planes::<PLACE>(block, &counts);
        let mut at = 0;
        let mut next = counts.map(|count| {
            let start = at;
            at += count;
            start
        });
        self.sorted.clear();
        self.sorted.resize(self.deltas.len(), 0);
        for (&place, &delta) in self.places.iter().zip(&self.deltas) {
            let next = &mut next[usize::from(place)];
            // The second byte of a long one says that it is.
            let high = (delta >> 8).min(u32::from(LONG));
            if let Some(sorted) = self.sorted.get_mut(*next as usize) {
                *sorted = delta & 0xff | high << 8;
            }
            *next += 1;
        }
        put_planes::<2>(block, &self.sorted);
        put_planes::<3>(block, &self.long);
    }
}

/// How many bytes at the front are no calls, as far as can be told from the first record.
fn rest(plain: &[u8]) -> usize {
    let Some(&first) = plain.first() else {
        return 0;
    };
    let payload = match first {
        // A custom event, and one with a type: their payload follows.
        0x0b | 0x11 => {
            let size = plain.get(1..5).and_then(|size| size.try_into().ok());
            let size = size.map_or(0, i32::from_le_bytes);
            usize::try_from(size).ok().filter(|&size| size <= LONGEST)
        }
        _ => None,
    };
    let record = match first {
        // Metadata records of kinds that there are.
        1..=0x13 if first % 2 == 1 => METADATA,
        _ => CALL,
    };
    plain.len().min(record + payload.unwrap_or(0))
}

/// Writes a number as LEB128.
fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
