//! Finds the places where streams begin: a byte order record with time 0 and number 0, and behind it the
//! description of one of HawkTracer's klasses. A receiver's file has several streams if the sender was cut
//! off and connected again, perhaps in the middle of a record. Must look at each byte once.

use std::io;

use super::record::{FIELD, HEADER_SIZE, KLASS};
use crate::bytes::{ByteOrder, Fields, ReadAt, Window};

/// Bytes that are looked at for each place: two headers, a byte order, a klass and three letters.
const PATTERN: usize = 2 * HEADER_SIZE + 1 + 4 + 3;
const WINDOW: usize = 256 * 1024;

/// Whether a stream begins with these bytes.
fn begins(bytes: &[u8]) -> bool {
    let Some((zeros, rest)) = bytes.split_first_chunk::<HEADER_SIZE>() else {
        return false;
    };
    let order = match rest.first() {
        Some(0) => ByteOrder::Little,
        Some(1) => ByteOrder::Big,
        _ => return false,
    };
    let mut fields = Fields::new(rest.get(1..).unwrap_or(&[]), order);
    *zeros == [0; HEADER_SIZE]
        && fields.u32() == Some(KLASS)
        && fields.bytes(HEADER_SIZE - 4).is_some()
        && fields.u32().is_some_and(|klass| klass <= FIELD)
        && fields.bytes(3) == Some(b"HT_")
}

/// Where the next stream begins.
pub(super) struct Scout<'f> {
    window: Window<'f>,
    size: u64,
    /// The first place that was not looked at.
    at: u64,
    found: Option<u64>,
}

impl<'f> Scout<'f> {
    pub(super) fn new(file: &'f dyn ReadAt) -> Scout<'f> {
        Scout {
            window: Window::new(file, WINDOW),
            size: file.size(),
            at: 0,
            found: None,
        }
    }

    /// The first beginning of a stream behind `offset`, which does not go back from call to call.
    #[inline]
    pub(super) fn after(&mut self, offset: u64) -> io::Result<Option<u64>> {
        match self.found {
            Some(found) if found > offset => Ok(self.found),
            None if self.at >= self.size && self.at > offset => Ok(None),
            _ => self.look(offset + 1),
        }
    }

    #[cold]
    fn look(&mut self, from: u64) -> io::Result<Option<u64>> {
        self.at = self.at.max(from);
        self.found = None;
        loop {
            let view = self.window.at(self.at, PATTERN, self.size)?;
            if view.len() < PATTERN {
                self.at = self.at.max(self.size);
                return Ok(None);
            }
            if let Some(place) = search(view) {
                self.at += place as u64;
                self.found = Some(self.at);
                self.at += 1;
                return Ok(self.found);
            }
            self.at += (view.len() - PATTERN + 1) as u64;
        }
    }
}

/// The first place in the view where a stream begins that is in it up to [`PATTERN`].
fn search(view: &[u8]) -> Option<usize> {
    const WORD: usize = 8;
    // Among 20 zeros there is a word of zeros, wherever words begin; elsewhere there is seldom one.
    let mut checked = 0;
    for (nth, word) in view.chunks_exact(WORD).enumerate() {
        if word != [0; WORD] {
            continue;
        }
        let place = nth * WORD;
        // It is the first such word of the pattern, or one of the zeros before it.
        let from = checked.max(place.saturating_sub(WORD - 1));
        for start in from..=place {
            if view.get(start..).is_some_and(begins) {
                return Some(start);
            }
        }
        checked = place + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(order: u8) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_SIZE];
        bytes.push(order);
        bytes.extend(if order == 0 {
            [2, 0, 0, 0]
        } else {
            [0, 0, 0, 2]
        });
        bytes.extend([9; 16]);
        bytes.extend([0; 4]);
        bytes.extend(*b"HT_EndiannessInfoEvent");
        bytes
    }

    #[test]
    fn each_beginning_is_found_at_any_distance() {
        for fill in [0, 0x55] {
            for distance in
                (1..70).chain([WINDOW - 60, WINDOW - 47, WINDOW - 1, WINDOW, WINDOW + 1])
            {
                for order in [0, 1] {
                    let mut bytes = stream(0);
                    bytes.resize(bytes.len() + distance, fill);
                    let wanted = bytes.len() as u64;
                    bytes.extend(stream(order));
                    // Nearly one.
                    bytes.extend(&stream(order)[..PATTERN - 1]);
                    let mut scout = Scout::new(&bytes);
                    let found = scout.after(0).expect("memory can be read");
                    assert_eq!(found, Some(wanted), "{distance} bytes of {fill}");
                    assert_eq!(scout.after(wanted - 1).expect("memory"), Some(wanted));
                    assert_eq!(scout.after(wanted).expect("memory"), None);
                    assert_eq!(scout.after(wanted + 1).expect("memory"), None);
                }
            }
        }
    }

    #[test]
    fn zeros_and_short_files_are_no_beginning() {
        for size in [0, 1, PATTERN - 1, PATTERN, 1000] {
            let bytes = vec![0; size];
            let mut scout = Scout::new(&bytes);
            assert_eq!(scout.after(0).expect("memory can be read"), None);
        }
    }
}
