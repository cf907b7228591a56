//! Layout of Heph's packets, version 0.1.0, decoded and encoded. All integers are big-endian. Source: the trace format
//! document of the Heph project (`doc/Trace Format.md`). Callers give texts that fit a packet of [`MAX_EVENT`] bytes.
//!
//! | metadata packet, offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 4 | magic, `75 D1 1D 4D` |
//! | 4 | 4 | size of the packet in bytes, these 8 included |
//! | 8 | 2 | bytes of the option's name, `n` |
//! | 10 | n | the option's name, UTF-8 |
//! | 10 + n | | its value; for `epoch`: u64, zero of all times, ns since 1970 |
//!
//! | event packet, offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 4 | magic, `C1 FC 1F B7` |
//! | 4 | 4 | size of the packet in bytes, these 8 included |
//! | 8 | 4 | stream: a thread |
//! | 12 | 4 | counts the events of the stream, wraps |
//! | 16 | 8 | substream: what runs on the thread in turns; 0 if nothing does |
//! | 24 | 8 | start, ns since the epoch |
//! | 32 | 8 | end, ns since the epoch |
//! | 40 | 2 | bytes of the description, `n` |
//! | 42 | n | the description, UTF-8 |
//! | 42 + n | | attributes, up to the packet's end |
//!
//! | attribute, offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 2 | bytes of the name, `n` |
//! | 2 | n | the name, UTF-8 |
//! | 2 + n | 1 | type: 1 u64, 2 i64, 3 f64, 4 string; 128 + type: array of it |
//! | 3 + n | | the value; for an array u16 count, then `count` values |
//!
//! A number has 8 bytes. A string is a u16 length, then `length` bytes of UTF-8.

use crate::bytes::{ByteOrder, Fields, groups};

/// A payload that is longer is given only up to this many bytes.
pub(super) const MAX_PAYLOAD: usize = 16 << 20;

/// First bytes of a metadata packet.
pub(super) const METADATA: u32 = 0x75d1_1d4d;
/// First bytes of an event packet.
pub(super) const EVENT: u32 = 0xc1fc_1fb7;
/// Bytes of the part of a packet that states its kind and size.
pub(super) const HEAD: usize = 8;
/// Bytes of an event packet without description and attributes.
pub(super) const EVENT_SIZE: usize = 42;
/// Bytes of a metadata packet without name and value.
pub(super) const METADATA_SIZE: usize = 10;
/// Type of a value, or of the values of an array.
pub(super) const TYPE_U64: u8 = 1;
pub(super) const TYPE_I64: u8 = 2;
pub(super) const TYPE_F64: u8 = 3;
pub(super) const TYPE_TEXT: u8 = 4;
/// Added to the type: an array.
pub(super) const ARRAY: u8 = 0x80;
/// The option that the document knows.
pub(super) const EPOCH: &[u8] = b"epoch";

const NUMBER: usize = 8;

/// The two kinds of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Metadata,
    Event,
}

/// Kind and size of the packet at the beginning of these bytes. `None`: there is no packet, or its size
/// is impossible.
pub(super) fn head(bytes: &[u8]) -> Option<(Kind, u32)> {
    let mut fields = Fields::new(bytes, ByteOrder::Big);
    let (kind, least) = match fields.u32()? {
        METADATA => (Kind::Metadata, METADATA_SIZE),
        EVENT => (Kind::Event, EVENT_SIZE),
        _ => return None,
    };
    let size = fields.u32()?;
    (size as usize >= least).then_some((kind, size))
}

/// A metadata packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Metadata<'a> {
    pub(super) name: &'a [u8],
    pub(super) value: &'a [u8],
}

impl<'a> Metadata<'a> {
    /// Decodes a whole packet.
    pub(super) fn decode(packet: &'a [u8]) -> Option<Metadata<'a>> {
        let mut fields = Fields::new(packet.get(HEAD..)?, ByteOrder::Big);
        let name = text(&mut fields)?;
        let value = packet.get(METADATA_SIZE + name.len()..)?;
        Some(Metadata { name, value })
    }

    /// The epoch in ns since 1970, if it is one.
    pub(super) fn epoch(&self) -> Option<u64> {
        let value = self.value.try_into().ok()?;
        (self.name == EPOCH).then(|| u64::from_be_bytes(value))
    }
}

/// An event packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event<'a> {
    pub(super) stream: u32,
    pub(super) counter: u32,
    pub(super) substream: u64,
    /// In ns since the epoch.
    pub(super) start: u64,
    /// In ns since the epoch.
    pub(super) end: u64,
    pub(super) description: &'a [u8],
    attributes: &'a [u8],
}

impl Event<'_> {
    /// Whether its first attribute is a text of this name.
    #[inline]
    pub(super) fn begins_with_text(&self, name: &[u8]) -> bool {
        let Some((length, rest)) = self.attributes.split_first_chunk::<2>() else {
            return false;
        };
        let behind = rest.strip_prefix(name);
        usize::from(u16::from_be_bytes(*length)) == name.len()
            && behind.is_some_and(|behind| behind.first() == Some(&TYPE_TEXT))
    }
}

impl<'a> Event<'a> {
    /// Decodes a whole packet, except its attributes.
    #[inline]
    pub(super) fn decode(packet: &'a [u8]) -> Option<Event<'a>> {
        let (fixed, rest) = packet.split_at_checked(EVENT_SIZE)?;
        let mut fields = Fields::new(fixed.get(HEAD..)?, ByteOrder::Big);
        let (stream, counter, substream) = (fields.u32()?, fields.u32()?, fields.u64()?);
        let (start, end) = (fields.u64()?, fields.u64()?);
        let (description, attributes) = rest.split_at_checked(fields.u16()?.into())?;
        Some(Event {
            stream,
            counter,
            substream,
            start,
            end,
            description,
            attributes,
        })
    }

    /// Its attributes, in order.
    pub(super) fn attributes(&self) -> Attributes<'a> {
        Attributes {
            fields: Fields::new(self.attributes, ByteOrder::Big),
            left: self.attributes.len(),
            bytes: self.attributes.len(),
        }
    }
}

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Attribute<'a> {
    pub(super) name: &'a [u8],
    pub(super) value: Value<'a>,
}

/// Its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// UTF-8, as the document requires; not checked here.
    Text(&'a [u8]),
    Unsigneds(Numbers<'a>),
    Signeds(Numbers<'a>),
    Floats(Numbers<'a>),
    Texts(Texts<'a>),
}

/// An array of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers<'a>(&'a [u8]);

impl<'a> Numbers<'a> {
    /// The numbers' bits.
    pub(super) fn iter(self) -> impl ExactSizeIterator<Item = u64> + 'a {
        groups::<NUMBER>(self.0).map(u64::from_be_bytes)
    }
}

/// An array of strings, each of which is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Texts<'a> {
    count: u16,
    bytes: &'a [u8],
}

impl<'a> Texts<'a> {
    pub(super) fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let mut fields = Fields::new(self.bytes, ByteOrder::Big);
        (0..self.count).map_while(move |_| text(&mut fields))
    }

    pub(super) fn len(self) -> usize {
        self.count.into()
    }
}

/// Why the attributes of an event can't be read to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bad {
    /// Bytes of the attributes in front of the damaged one.
    pub(super) at: usize,
    /// The type, if the document does not know it.
    pub(super) kind: Option<u8>,
}

/// Goes through the attributes of an event. It ends behind the first damaged one.
#[derive(Clone, Debug)]
pub(super) struct Attributes<'a> {
    fields: Fields<'a>,
    /// Bytes that are not read yet.
    left: usize,
    bytes: usize,
}

impl Attributes<'_> {
    /// The fault of the attributes; `None`: no fault.
    #[inline]
    pub(super) fn damage(self) -> Option<Bad> {
        if self.left == 0 {
            return None;
        }
        self.last()?.err()
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, Bad>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let at = self.bytes - self.left;
        let decoded = attribute(&mut self.fields);
        self.left = match decoded {
            Ok((_, size)) => self.left.saturating_sub(size),
            Err(_) => 0,
        };
        Some(match decoded {
            Ok((attribute, _)) => Ok(attribute),
            Err(kind) => Err(Bad { at, kind }),
        })
    }
}

/// An attribute and its bytes; or its unknown type.
#[inline]
fn attribute<'a>(fields: &mut Fields<'a>) -> Result<(Attribute<'a>, usize), Option<u8>> {
    let name = text(fields).ok_or(None)?;
    let kind = fields.u8().ok_or(None)?;
    let (value, size) = value(fields, kind).ok_or((!is_type(kind)).then_some(kind))?;
    Ok((Attribute { name, value }, 3 + name.len() + size))
}

fn is_type(kind: u8) -> bool {
    (TYPE_U64..=TYPE_TEXT).contains(&(kind & !ARRAY))
}

#[inline]
fn value<'a>(fields: &mut Fields<'a>, kind: u8) -> Option<(Value<'a>, usize)> {
    Some(match kind {
        TYPE_U64 => (Value::Unsigned(fields.u64()?), NUMBER),
        TYPE_I64 => (Value::Signed(fields.u64()? as i64), NUMBER),
        TYPE_F64 => (Value::Float(f64::from_bits(fields.u64()?)), NUMBER),
        TYPE_TEXT => {
            let text = text(fields)?;
            (Value::Text(text), 2 + text.len())
        }
        _ => return array(fields, kind),
    })
}

fn array<'a>(fields: &mut Fields<'a>, kind: u8) -> Option<(Value<'a>, usize)> {
    let kind = kind.checked_sub(ARRAY).filter(|&kind| is_type(kind))?;
    let count = fields.u16()?;
    if kind == TYPE_TEXT {
        let texts = texts(fields, count)?;
        return Some((Value::Texts(texts), 2 + texts.bytes.len()));
    }
    let numbers = Numbers(fields.bytes(usize::from(count) * NUMBER)?);
    let size = 2 + numbers.0.len();
    Some(match kind {
        TYPE_U64 => (Value::Unsigneds(numbers), size),
        TYPE_I64 => (Value::Signeds(numbers), size),
        _ => (Value::Floats(numbers), size),
    })
}

fn texts<'a>(fields: &mut Fields<'a>, count: u16) -> Option<Texts<'a>> {
    let (mut ahead, mut size) = (*fields, 0);
    for _ in 0..count {
        size += 2 + text(&mut ahead)?.len();
    }
    let bytes = fields.bytes(size)?;
    Some(Texts { count, bytes })
}

#[inline]
fn text<'a>(fields: &mut Fields<'a>) -> Option<&'a [u8]> {
    let count = fields.u16()?;
    fields.bytes(count.into())
}

/// The most bytes of our own event without arrays. Heph's own converter reads no more at a time.
pub(super) const MAX_EVENT: usize = 128;
/// The largest length of a string.
const MAX_TEXT: usize = u16::MAX as usize;
/// The largest length of an array.
const MAX_ARRAY: usize = u16::MAX as usize;

/// Bytes of a number attribute with this name.
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

/// Bytes of a text attribute with this name and this many bytes of text.
pub(super) const fn text_size(name: &str, text: usize) -> usize {
    5 + name.len() + text
}

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventPosition {
    pub(super) stream: u32,
    pub(super) counter: u32,
    pub(super) substream: u64,
    /// In ns since the epoch.
    pub(super) start: u64,
    /// In ns since the epoch.
    pub(super) end: u64,
}

/// An event packet under construction, at the end of some bytes. [`EventPacket::end`] completes it.
pub(super) struct EventPacket<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> EventPacket<'a> {
    /// Begins one. The description fits a packet of [`MAX_EVENT`] bytes.
    #[inline]
    pub(super) fn begin(
        out: &'a mut Vec<u8>,
        place: EventPosition,
        description: &str,
    ) -> EventPacket<'a> {
        let start = out.len();
        out.extend_from_slice(&fixed_part(place, description.len()));
        out.extend_from_slice(description.as_bytes());
        EventPacket { out, start }
    }

    /// Ends this packet and begins another one behind it.
    pub(super) fn next(&mut self, place: EventPosition, description: &str) {
        close(self.out, self.start);
        self.start = self.out.len();
        self.out
            .extend_from_slice(&fixed_part(place, description.len()));
        self.out.extend_from_slice(description.as_bytes());
    }

    /// Bytes that the packet can still take.
    pub(super) fn room(&self) -> usize {
        MAX_EVENT.saturating_sub(self.out.len() - self.start)
    }

    /// Bytes of a text of this name that the packet can still take.
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

    /// An array of any length: as many attributes of the name as it needs; no attribute if it is empty.
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

/// The head of an event packet; its size is not known yet.
#[inline]
fn fixed_part(place: EventPosition, description: usize) -> [u8; EVENT_SIZE] {
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

/// The writer bounds payloads and arguments far below 4 GiB.
#[inline]
fn close(out: &mut [u8], start: usize) {
    let size = out.len() - start;
    debug_assert!(u32::try_from(size).is_ok(), "a packet of {size} bytes");
    out[start + 4..start + 8].copy_from_slice(&(size as u32).to_be_bytes());
}
