//! Decodes a block into the bytes that it stands for. Must never panic, nor allocate more than the block's
//! own bytes can stand for.

use super::columns::{CALL, Columns, LONG};
use super::model::{Model, PLACES};
use super::sum::sum;
use super::{BLOCK, HEAD, Head, Kind};

/// What is wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Byte in the block.
    pub offset: usize,
    /// What it is.
    pub what: &'static str,
}

/// Decodes blocks, one after the other; each without the others.
pub struct Decoder {
    model: Model,
    /// Where the next delta of each place is.
    next: Box<[u32; PLACES]>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

/// What is not decoded yet.
struct Left<'a> {
    columns: Columns<'a>,
    /// Calls that came.
    calls: usize,
    surprises: usize,
    long: usize,
}

impl Decoder {
    /// A decoder, with its tables: 100 KiB.
    #[must_use]
    pub fn new() -> Decoder {
        Decoder {
            model: Model::new(),
            next: Box::new([0; PLACES]),
        }
    }

    /// Decodes a whole block into the bytes that it stands for, at most [`super::BLOCK`]; what was in `plain` is
    /// gone.
    ///
    /// # Errors
    /// Where it is none, or damaged; `plain` is empty then.
    pub fn block(&mut self, block: &[u8], plain: &mut Vec<u8>) -> Result<Head, Fault> {
        plain.clear();
        let done = self.decode(block, plain);
        if done.is_err() {
            plain.clear();
        }
        done
    }

    fn decode(&mut self, block: &[u8], plain: &mut Vec<u8>) -> Result<Head, Fault> {
        let fault = |offset, what| Fault { offset, what };
        let head = self.unsummed(block, plain)?;
        if sum(plain, head.offset) != head.sum {
            return Err(fault(28, "its checksum is another: the bytes are damaged"));
        }
        Ok(head)
    }

    /// Gives a block the sizes and the checksum of what it stands for. For tests, whose changed blocks would not
    /// come past them otherwise.
    ///
    /// # Errors
    /// Where it stands for nothing.
    pub fn seal(&mut self, block: &mut [u8]) -> Result<(), Fault> {
        let fault = |offset, what| Fault { offset, what };
        let mut head = Head::parse(block).map_err(|what| fault(0, what))?;
        let body = block.get(HEAD..).unwrap_or(&[]);
        head.body = body.len();
        head.plain = match head.kind {
            Kind::AsItIs => body.len(),
            Kind::Columns => Columns::parse(body)?.plain(),
        };
        if head.body > BLOCK || head.plain > BLOCK {
            return Err(fault(16, "a block of more than 4 MiB"));
        }
        if let Some(place) = block.first_chunk_mut() {
            *place = head.bytes();
        }
        let mut plain = Vec::new();
        self.unsummed(block, &mut plain)?;
        head.sum = sum(&plain, head.offset);
        if let Some(place) = block.first_chunk_mut() {
            *place = head.bytes();
        }
        Ok(())
    }

    /// All but the look at the checksum.
    fn unsummed(&mut self, block: &[u8], plain: &mut Vec<u8>) -> Result<Head, Fault> {
        let fault = |offset, what| Fault { offset, what };
        let head = Head::parse(block).map_err(|what| fault(0, what))?;
        let body = block.get(HEAD..).unwrap_or(&[]);
        if body.len() != head.body {
            return Err(fault(20, "its size and that in its head disagree"));
        }
        match head.kind {
            Kind::AsItIs => plain.extend_from_slice(body),
            Kind::Columns => self.columns(Columns::parse(body)?, head.plain, plain)?,
        }
        if plain.len() != head.plain {
            return Err(fault(
                16,
                "it stands for another number of bytes than it says",
            ));
        }
        Ok(head)
    }

    fn columns(
        &mut self,
        columns: Columns<'_>,
        size: usize,
        plain: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let fault = |what| Fault { offset: HEAD, what };
        let sizes = columns.sizes;
        if columns.plain() != size {
            return Err(fault(
                "its columns stand for another number of bytes than it says",
            ));
        }
        self.model.clear();
        let mut at = 0;
        for (nth, next) in self.next.iter_mut().enumerate() {
            *next = at;
            at = at.saturating_add(columns.places.get(nth).unwrap_or(0));
        }
        plain.reserve_exact(size);
        let (mut runs, mut rest) = (columns.runs, columns.rest);
        let mut left = Left {
            columns,
            calls: 0,
            surprises: 0,
            long: 0,
        };
        while !runs.is_empty() {
            let run = number(&mut runs).zip(number(&mut runs));
            let run = run.filter(|run| run.0 <= sizes.calls - left.calls);
            let parts = run.and_then(|(calls, bytes)| Some((calls, rest.split_at_checked(bytes)?)));
            let (calls, (bytes, others)) = parts.ok_or(fault("a run of calls is too long"))?;
            let start = plain.len();
            plain.resize(start + calls * CALL, 0);
            let place = plain.get_mut(start..).unwrap_or(&mut []);
            let done = self.calls(place, &mut left);
            done.ok_or(fault("a column ends too early"))?;
            plain.extend_from_slice(bytes);
            rest = others;
        }
        Ok(())
    }

    /// Decodes a run of calls; `None` where a column ends too early.
    fn calls(&mut self, plain: &mut [u8], left: &mut Left<'_>) -> Option<()> {
        let columns = &left.columns;
        for call in plain.chunks_exact_mut(CALL) {
            let surprised = columns.surprised.get(left.calls / 8)? >> (left.calls % 8) & 1;
            left.calls += 1;
            let guess = self.model.guess();
            let mut symbol = guess.symbol;
            if surprised == 1 {
                symbol = columns.symbols.get(left.surprises)?;
                left.surprises += 1;
            }
            let word = guess.turn(symbol);
            let place = self.model.learn(guess, word, symbol);
            let next = &mut self.next[place];
            let mut delta = columns.deltas.get(*next as usize)?;
            *next += 1;
            if delta >> 8 == u32::from(LONG) {
                delta = delta & 0xff | columns.long.get(left.long)? << 8;
                left.long += 1;
            }
            let bytes: [u8; CALL] = (u64::from(delta) << 32 | u64::from(word)).to_le_bytes();
            call.copy_from_slice(&bytes);
        }
        Some(())
    }
}

/// Takes a number off the front, LEB128 of at most four bytes.
fn number(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for at in 0..4 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}
