//! The named moments in a ring file ([`crate::moments`]): their bytes, and the way to them.
//!
//! Source: this project. Little-endian. The control block says where the moments are ([`super::control`]). There are
//! [`MAX_MOMENTS`] places. The moment with number n is in the place (n - 1) mod [`MAX_MOMENTS`].
//!
//! | part | offset | field |
//! | --- | --- | --- |
//! | place, 80 bytes | 0 | u64: number of the moment, from 1; 0 = none, or it is being written |
//! | | 8 | u64: tick |
//! | | 16 | name, UTF-8, 64 bytes, padded with NULs |
//!
//! Only the dumper writes. It makes the number 0, writes the rest, and then the number. A reader reads the number,
//! the rest, and the number again.

#[cfg(feature = "read")]
use crate::bytes::{ByteOrder, Fields, ReadAt};
#[cfg(feature = "read")]
use crate::model::{Moment, Ticks};
use crate::moments::{MAX_BYTES, MAX_MOMENTS};
#[cfg(feature = "read")]
use std::sync::atomic::{Ordering, fence};

/// Bytes of a place.
pub const PLACE_SIZE: usize = 16 + MAX_BYTES;
/// Bytes of all places.
pub const SIZE: usize = MAX_MOMENTS * PLACE_SIZE;

/// The place of the moment with that number, from 1.
#[must_use]
pub fn place(number: u64) -> usize {
    (number.saturating_sub(1) % MAX_MOMENTS as u64) as usize
}

#[cfg(feature = "read")]
/// The moments in these bytes, in the order of their numbers. A moment that was not read whole twice, `bytes` and
/// `again`, is left out.
#[must_use]
pub fn decode(bytes: &[u8], again: &[u8]) -> Vec<Moment> {
    let places = bytes.chunks_exact(PLACE_SIZE);
    let both = places.zip(again.chunks_exact(PLACE_SIZE));
    let mut moments: Vec<Moment> = both
        .enumerate()
        .take(MAX_MOMENTS)
        .filter(|(_, (once, again))| once == again)
        .filter_map(|(at, (bytes, _))| decode_place(bytes).filter(|m| place(m.number) == at))
        .collect();
    moments.sort_by_key(|moment| moment.number);
    moments
}

/// The moments of the ring whose control block is there. Empty: it has none, or they can't be read.
#[cfg(feature = "read")]
pub(super) fn read(bytes: &dyn ReadAt, control: u64) -> Vec<Moment> {
    let mut head = [0; super::control::COMMAND_AT];
    let _ = bytes.read_at(control, &mut head);
    let behind = super::control::decode_head(&head).map_or(0, |head| head.moments);
    if control == 0 || behind == 0 {
        return Vec::new();
    }
    let at = control.saturating_add(behind.into());
    let [mut once, mut again] = [[0; SIZE]; 2];
    let mut count = bytes.read_at(at, &mut once).unwrap_or(0);
    // The second reading comes after the first one.
    fence(Ordering::Acquire);
    count = count.min(bytes.read_at(at, &mut again).unwrap_or(0));
    decode(once.get(..count).unwrap_or(&[]), &again)
}

#[cfg(feature = "read")]
fn decode_place(bytes: &[u8]) -> Option<Moment> {
    let mut fields = Fields::new(bytes, ByteOrder::Little);
    let number = fields.u64().filter(|&number| number > 0)?;
    let time = Ticks(fields.u64()?);
    Some(Moment {
        number,
        time,
        name: String::from_utf8_lossy(name(fields.bytes(MAX_BYTES)?)).into_owned(),
    })
}

/// A name without the NULs behind it.
#[must_use]
pub fn name(padded: &[u8]) -> &[u8] {
    padded.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(all(test, feature = "read"))]
mod tests {
    use super::*;

    /// A place typed by hand.
    fn typed(number: u8, tick: u8, name: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number, 0, 0, 0, 0, 0, 0, 0, tick, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend(name);
        bytes.resize(80, 0);
        bytes
    }

    #[test]
    fn places_typed_by_hand() {
        // The 33rd moment has taken the place of the first one.
        let bytes = [typed(33, 9, b"newest"), typed(2, 4, "größe".as_bytes())].concat();
        let wanted = [(2, 260, "größe"), (33, 265, "newest")].map(|(number, tick, name)| Moment {
            number,
            time: Ticks(tick),
            name: name.to_owned(),
        });
        assert_eq!(decode(&bytes, &bytes), wanted);
        assert_eq!(SIZE, 2560);
    }

    #[test]
    fn changing_or_oversized_moments_are_left_out() {
        let (old, new) = (typed(1, 1, b"old"), typed(33, 2, b"new"));
        assert_eq!(decode(&old, &new), []);
        assert_eq!(decode(&old, &old[..79]), []);
        // A number of another place, and one that is being written.
        let none = [typed(2, 1, b"x"), typed(0, 1, b"x")].concat();
        assert_eq!(decode(&none, &none), []);
        for filler in [0_u8, 0x20, 0xff] {
            let bytes = vec![filler; 2 * SIZE];
            assert!(decode(&bytes, &bytes).len() <= MAX_MOMENTS);
        }
        let odd = typed(1, 1, b"a\xffb\0c");
        assert_eq!(decode(&odd, &odd)[0].name, "a\u{fffd}b");
    }
}
