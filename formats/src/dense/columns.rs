//! The columns of a block's body: their order, and the length of each. Knows nothing of their content. Must
//! never give a column that is longer than the body.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 4 | calls |
//! | 4 | 4 | *surprises*: calls that are not the expected ones |
//! | 8 | 4 | *long* calls: their delta needs more than two bytes |
//! | 12 | 4 | bytes of runs |
//! | 16 | 4 | bytes of the rest |
//!
//! Then the columns, one behind the other. A column in *planes* has the lowest bytes of all numbers first,
//! then all second bytes, and so on.
//!
//! | bytes | column |
//! | --- | --- |
//! | as told | runs: how many calls, then how many bytes of the rest, in turns; LEB128 |
//! | as told | the rest: all that is no call, as it is |
//! | calls / 8, rounded up | a bit for each call, the lowest bit first: 1 it is a surprise |
//! | 4 x surprises | their symbols (`model`), in planes |
//! | 3 x [`PLACES`] | how many calls each place has (`model`), in planes |
//! | 2 x calls | lower 16 bits of the deltas, in planes; place by place, and within one in order. Of a long call the second byte is 255 |
//! | 3 x long | upper 24 bits of the deltas of long calls, in order, in planes |

use super::decode::Fault;
use super::model::PLACES;
use super::{BLOCK, HEAD};
use crate::bytes::{ByteOrder, Fields};

/// Bytes in front of the columns.
pub(super) const SIZES: usize = 20;
/// Bytes of the count of a place.
pub(super) const PLACE: usize = 3;
/// Second byte of a long call's delta.
pub(super) const LONG: u8 = 255;
/// Bytes of a call in the trace.
pub(super) const CALL: usize = 8;

const _: () = assert!(BLOCK / CALL < 1 << (8 * PLACE));

/// How much there is of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) calls: usize,
    pub(super) surprises: usize,
    pub(super) long: usize,
    pub(super) runs: usize,
    pub(super) rest: usize,
}

impl Sizes {
    /// Bytes of the body. `None`: no block has these numbers.
    pub(super) fn body(self) -> Option<usize> {
        let parts = [self.calls, self.surprises, self.long, self.runs, self.rest];
        if parts.iter().any(|&part| part > BLOCK) {
            return None;
        }
        let calls = self.calls.div_ceil(8) + 2 * self.calls;
        let odd = 4 * self.surprises + 3 * self.long;
        Some(SIZES + self.runs + self.rest + calls + odd + PLACE * PLACES)
    }

    pub(super) fn bytes(self) -> [u8; SIZES] {
        let fields = [self.calls, self.surprises, self.long, self.runs, self.rest];
        let mut bytes = [0; SIZES];
        for (place, field) in bytes.chunks_exact_mut(4).zip(fields) {
            // None is above BLOCK.
            place.copy_from_slice(&(field as u32).to_le_bytes());
        }
        bytes
    }

    fn parse(fields: &mut Fields<'_>) -> Option<Sizes> {
        let mut size = || usize::try_from(fields.u32()?).ok();
        Some(Sizes {
            calls: size()?,
            surprises: size()?,
            long: size()?,
            runs: size()?,
            rest: size()?,
        })
    }
}

/// Numbers in planes, of `N` bytes each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planes<'a, const N: usize>([&'a [u8]; N]);

impl<'a, const N: usize> Planes<'a, N> {
    fn take(fields: &mut Fields<'a>, count: usize) -> Option<Planes<'a, N>> {
        let mut planes = [&[][..]; N];
        for plane in &mut planes {
            *plane = fields.bytes(count)?;
        }
        Some(Planes(planes))
    }

    /// The number at a place.
    #[inline(always)]
    pub(super) fn get(&self, nth: usize) -> Option<u32> {
        let mut number = 0;
        for (at, plane) in self.0.iter().enumerate() {
            number |= u32::from(*plane.get(nth)?) << (8 * at);
        }
        Some(number)
    }
}

/// Writes numbers in planes, of `N` bytes each.
pub(super) fn put_planes<const N: usize>(out: &mut Vec<u8>, numbers: &[u32]) {
    for at in 0..N {
        out.extend(numbers.iter().map(|number| (number >> (8 * at)) as u8));
    }
}

/// The columns of a body.
#[derive(Debug)]
pub(super) struct Columns<'a> {
    pub(super) sizes: Sizes,
    pub(super) runs: &'a [u8],
    pub(super) rest: &'a [u8],
    pub(super) surprised: &'a [u8],
    pub(super) symbols: Planes<'a, 4>,
    pub(super) places: Planes<'a, PLACE>,
    pub(super) deltas: Planes<'a, 2>,
    pub(super) long: Planes<'a, 3>,
}

impl<'a> Columns<'a> {
    /// Bytes that they stand for.
    pub(super) fn plain(&self) -> usize {
        self.sizes.calls * CALL + self.sizes.rest
    }

    /// The columns of a body that has nothing else.
    pub(super) fn parse(body: &'a [u8]) -> Result<Columns<'a>, Fault> {
        let fault = |what| Fault { offset: HEAD, what };
        let mut fields = Fields::new(body, ByteOrder::Little);
        let sizes = Sizes::parse(&mut fields).ok_or(fault("it ends within its sizes"))?;
        if sizes.body() != Some(body.len()) {
            return Err(fault("its sizes and those of its columns disagree"));
        }
        let mut parse = || {
            Some(Columns {
                sizes,
                runs: fields.bytes(sizes.runs)?,
                rest: fields.bytes(sizes.rest)?,
                surprised: fields.bytes(sizes.calls.div_ceil(8))?,
                symbols: Planes::take(&mut fields, sizes.surprises)?,
                places: Planes::take(&mut fields, PLACES)?,
                deltas: Planes::take(&mut fields, sizes.calls)?,
                long: Planes::take(&mut fields, sizes.long)?,
            })
        };
        parse().ok_or(fault("its sizes and those of its columns disagree"))
    }
}
