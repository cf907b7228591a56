//! The arguments of open calls, as a ring file holds them until their calls have records. Pure.
//!
//! The words lie behind the frames of the open calls. A word before them says how many are used (bits 0 to 15) and
//! where the last note begins (bits 16 to 31). Its other bits count its changes. The notes follow one another:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 2 | words of the body |
//! | 2 | 2 | index of the call's frame |
//! | 4 | 2 | where the note before begins, in words |
//! | 6 | 2 | zero |
//! | 8 | 8 | tick of the call's entry |
//! | 16 | | the body of a note of arguments ([`notes`](crate::notes)) |
//!
//! A note has no meaning after its call has ended: its frame then has another function or another tick.

use crate::bytes::{ByteOrder, Fields};

/// Bytes of a note before its body.
pub const HEAD: usize = 16;
/// Bits of a number in the first word of a note.
pub const LENGTH_BITS: u32 = 16;

/// The number of used bytes in an area of `room` bytes, from the word before the area.
pub(super) fn used(word: u64, room: usize) -> usize {
    (usize::from(word as u16) * 8).min(room)
}

/// A note in the area.
pub(super) struct Waiting<'a> {
    /// The index of its call's frame.
    pub(super) at: usize,
    /// The tick of its call's entry.
    pub(super) ticks: u64,
    /// The call's function.
    pub(super) function: u32,
    /// Its body.
    pub(super) body: &'a [u8],
}

/// The notes in the used part of an area. The first damage ends them.
pub(super) fn notes(area: &[u8]) -> impl Iterator<Item = Waiting<'_>> {
    let mut rest = area;
    core::iter::from_fn(move || {
        let mut head = Fields::new(rest, ByteOrder::Little);
        let (length, at, _, _) = (head.u16()?, head.u16()?, head.u16()?, head.u16()?);
        let (ticks, end) = (head.u64()?, HEAD + usize::from(length) * 8);
        let body = rest.get(HEAD..end)?;
        rest = rest.get(end..)?;
        let function = Fields::new(body, ByteOrder::Little).u32()?;
        let at = usize::from(at);
        Some(Waiting {
            at,
            ticks,
            function,
            body,
        })
    })
}

/// The part that two copies of an area have in common.
pub(super) fn common<'a>(one: &'a [u8], other: &[u8]) -> &'a [u8] {
    let same = one
        .iter()
        .zip(other)
        .take_while(|(one, other)| one == other);
    one.get(..same.count()).unwrap_or_default()
}
