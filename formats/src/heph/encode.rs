//! Layout of Heph's packets, encoded: the other half of `record`. Must never write a length that does
//! not fit its field: the callers give texts that fit a packet of [`MAX_EVENT`] bytes.

use super::record::{
    ARRAY, EPOCH, EVENT, EVENT_SIZE, METADATA, TYPE_F64, TYPE_I64, TYPE_TEXT, TYPE_U64,
};

/// Bytes of an event of ours without arrays, at most. Heph's own converter asks for no more at a time.
pub(super) const MAX_EVENT: usize = 128;
/// Bytes that a string's length can tell.
const MAX_TEXT: usize = u16::MAX as usize;
/// Values that an array's length can tell.
const MAX_ARRAY: usize = u16::MAX as usize;

/// Bytes of an attribute that is a number and has this name.
pub(super) const fn number_size(name: &str) -> usize {
    11 + name.len()
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

/// Bytes of an attribute of this name that is a text of so many bytes.
pub(super) const fn text_size(name: &str, text: usize) -> usize {
    5 + name.len() + text
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
    /// Begins one. The description fits a packet of [`MAX_EVENT`] bytes.
    #[inline]
    pub(super) fn begin(out: &'a mut Vec<u8>, place: Place, description: &str) -> EventPacket<'a> {
        let start = out.len();
        out.extend_from_slice(&fixed_part(place, description.len()));
        out.extend_from_slice(description.as_bytes());
        EventPacket { out, start }
    }

    /// Ends this packet and begins another one behind it.
    pub(super) fn next(&mut self, place: Place, description: &str) {
        close(self.out, self.start);
        self.start = self.out.len();
        self.out
            .extend_from_slice(&fixed_part(place, description.len()));
        self.out.extend_from_slice(description.as_bytes());
    }

    /// Bytes that the packet may still take.
    pub(super) fn room(&self) -> usize {
        MAX_EVENT.saturating_sub(self.out.len() - self.start)
    }

    /// Bytes of a text of this name that the packet may still take.
    pub(super) fn text_room(&self, name: &str) -> usize {
        self.room().saturating_sub(text_size(name, 0))
    }

    #[inline]
    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.name(name, TYPE_U64);
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn signed(&mut self, name: &str, value: i64) {
        self.name(name, TYPE_I64);
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn float(&mut self, name: &str, value: f64) {
        self.name(name, TYPE_F64);
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// A string of at most [`EventPacket::text_room`] bytes.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.name(name, TYPE_TEXT);
        put_text(self.out, value.as_bytes());
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

/// Of an event packet; its size is not known yet.
#[inline]
fn fixed_part(place: Place, description: usize) -> [u8; EVENT_SIZE] {
    let mut fixed = [0; EVENT_SIZE];
    fixed[..4].copy_from_slice(&EVENT.to_be_bytes());
    fixed[8..12].copy_from_slice(&place.stream.to_be_bytes());
    fixed[12..16].copy_from_slice(&place.counter.to_be_bytes());
    fixed[16..24].copy_from_slice(&place.substream.to_be_bytes());
    fixed[24..32].copy_from_slice(&place.start.to_be_bytes());
    fixed[32..40].copy_from_slice(&place.end.to_be_bytes());
    fixed[40..].copy_from_slice(&length(description));
    fixed
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
