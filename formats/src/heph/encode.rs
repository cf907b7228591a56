//! Layout of Heph's packets, encoded: the other half of `record`. Must never write a length that does
//! not fit its field: the callers cut what is longer, and count it.

use super::record::{ARRAY, EPOCH, EVENT, METADATA, TYPE_F64, TYPE_TEXT, TYPE_U64};

/// Bytes that a string's length can tell.
pub(super) const MAX_TEXT: usize = u16::MAX as usize;
/// Values that an array's length can tell.
const MAX_ARRAY: usize = u16::MAX as usize;

/// A text that fits, and whether it had to be cut.
pub(super) fn cut(text: &str) -> (&str, bool) {
    let short = &text[..text.floor_char_boundary(MAX_TEXT)];
    (short, short.len() < text.len())
}

/// A metadata packet with the epoch, in ns since 1970.
pub(super) fn epoch(unix_ns: u64) -> Vec<u8> {
    let mut packet = METADATA.to_be_bytes().to_vec();
    packet.extend([0; 4]);
    put_text(&mut packet, EPOCH);
    packet.extend(unix_ns.to_be_bytes());
    close(&mut packet, 0);
    packet
}

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) stream: u32,
    pub(super) counter: u32,
    pub(super) substream: u64,
    /// In ns since the epoch.
    pub(super) start: u64,
    /// In ns since the epoch.
    pub(super) end: u64,
}

/// An event packet under construction, at the end of some bytes. It is complete when it is dropped
/// by [`EventPacket::end`].
pub(super) struct EventPacket<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> EventPacket<'a> {
    /// Begins one; a description over [`MAX_TEXT`] bytes is cut.
    #[inline]
    pub(super) fn begin(out: &'a mut Vec<u8>, place: Place, description: &str) -> EventPacket<'a> {
        let start = out.len();
        let mut fixed = [0; 40];
        fixed[..4].copy_from_slice(&EVENT.to_be_bytes());
        fixed[8..12].copy_from_slice(&place.stream.to_be_bytes());
        fixed[12..16].copy_from_slice(&place.counter.to_be_bytes());
        fixed[16..24].copy_from_slice(&place.substream.to_be_bytes());
        fixed[24..32].copy_from_slice(&place.start.to_be_bytes());
        fixed[32..].copy_from_slice(&place.end.to_be_bytes());
        out.extend_from_slice(&fixed);
        put_text(out, cut(description).0.as_bytes());
        EventPacket { out, start }
    }

    #[inline]
    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.name(name, TYPE_U64);
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn float(&mut self, name: &str, value: f64) {
        self.name(name, TYPE_F64);
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// A string; what is over [`MAX_TEXT`] bytes is cut.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.name(name, TYPE_TEXT);
        put_text(self.out, cut(value).0.as_bytes());
    }

    /// A string of any length: as many attributes of the name as it needs.
    pub(super) fn long_text(&mut self, name: &str, value: &str) {
        let mut rest = value;
        loop {
            let part = cut(rest).0;
            self.text(name, part);
            rest = &rest[part.len()..];
            if rest.is_empty() {
                return;
            }
        }
    }

    /// An array of any length: as many attributes of the name as it needs; none where it is empty.
    #[inline]
    pub(super) fn numbers(&mut self, name: &str, values: &[u64]) {
        for part in values.chunks(MAX_ARRAY) {
            self.name(name, ARRAY | TYPE_U64);
            self.out.extend_from_slice(&length(part.len()));
            for value in part {
                self.out.extend_from_slice(&value.to_be_bytes());
            }
        }
    }

    /// Writes the packet's size into its head.
    #[inline]
    pub(super) fn end(self) {
        close(self.out, self.start);
    }

    #[inline]
    fn name(&mut self, name: &str, kind: u8) {
        put_text(self.out, name.as_bytes());
        self.out.push(kind);
    }
}

#[inline]
fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&length(text.len()));
    out.extend_from_slice(text);
}

#[inline]
fn length(count: usize) -> [u8; 2] {
    debug_assert!(count <= MAX_TEXT, "{count} does not fit a length");
    (count as u16).to_be_bytes()
}

/// Payloads and arguments are bounded far below 4 GiB by the writer.
#[inline]
fn close(out: &mut [u8], start: usize) {
    let size = out.len() - start;
    debug_assert!(u32::try_from(size).is_ok(), "a packet of {size} bytes");
    out[start + 4..start + 8].copy_from_slice(&(size as u32).to_be_bytes());
}
