//! Reads a stream file step by step: packets, their events, and damage. After damage, reading resumes at the next valid
//! packet. Keeps a window of the file and one event's values.

use std::io;

use super::record::MAGIC;
use super::schema::{Schema, Stream};
use super::values::{Stop, Values, Walk};
use crate::bytes::{ReadAt, Window};
use crate::error::Diagnostic;

/// Bytes of a file in memory.
pub(super) const WINDOW: usize = 256 * 1024;
/// The most bytes to which a window grows for a longer event.
const MAX_WINDOW: usize = 32 << 20;
/// Bytes that hold any packet's head.
const HEAD: usize = 4096;

/// A packet's place, and the facts in its head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Byte offset in the file.
    pub(super) offset: u64,
    /// Bytes that are there of it.
    pub(super) size: u64,
    /// Bits of its head.
    pub(super) head: u64,
    /// Bits of head and events that are in the file.
    pub(super) content: u64,
    /// Place of its class.
    pub(super) stream: usize,
    pub(super) instance: Option<u64>,
    pub(super) begin: Option<u64>,
    pub(super) sequence: Option<u64>,
    pub(super) discarded: Option<u64>,
    pub(super) cpu: Option<u64>,
    pub(super) cpu_seen: Option<bool>,
}

/// An event's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// Byte offset in the file.
    pub(super) offset: u64,
    /// Bytes.
    pub(super) size: u64,
    /// Place of its stream class.
    pub(super) stream: usize,
    /// Place of its class.
    pub(super) class: usize,
    pub(super) time: u64,
}

/// The next part of a file.
#[derive(Debug)]
pub(super) enum Step {
    /// A packet begins.
    Packet(Packet),
    Event(Event),
    /// Skipped or missing bytes, and the reason. `size` of them are skipped.
    Damage {
        at: Diagnostic,
        size: u64,
        place: DamageScope,
    },
    /// The rest of a packet, this many bytes from this offset on, is no event.
    Padding {
        offset: u64,
        size: u64,
    },
    End,
}

/// Where there is damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DamageScope {
    /// The damage is outside of packets, or in a packet's head. So each pass over the packets meets it.
    Packets,
    /// In a packet's events.
    Events,
}

/// A stream file that is being read.
pub(super) struct Reader<'a> {
    schema: &'a Schema,
    bytes: &'a dyn ReadAt,
    window: Window<'a>,
    /// A second window, which reads the end of a packet in advance.
    peek: Window<'a>,
    capacity: usize,
    size: u64,
    /// Byte offset of the next packet.
    at: u64,
    packet: Option<Packet>,
    /// The bits of the packet that were read.
    bit: u64,
    /// A step to return before the next one.
    pending: Option<Step>,
    pub(super) values: Values,
    /// The content of the last step in words, if `describe`.
    pub(super) text: String,
    pub(super) describe: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(schema: &'a Schema, bytes: &'a dyn ReadAt, window: usize) -> Reader<'a> {
        Reader {
            schema,
            bytes,
            window: Window::new(bytes, window.max(HEAD)),
            peek: Window::new(bytes, HEAD),
            capacity: window.max(HEAD),
            size: bytes.size(),
            at: 0,
            packet: None,
            bit: 0,
            pending: None,
            values: Values::new(schema.slots),
            text: String::new(),
            describe: false,
        }
    }

    /// Bytes that are behind.
    pub(super) fn position(&self) -> u64 {
        self.packet
            .map_or(self.at, |packet| packet.offset + self.bit / 8)
    }

    /// Skips the events of the packet.
    pub(super) fn skip_packet(&mut self) {
        if let Some(packet) = self.packet.take() {
            self.at = packet.offset + packet.size;
        }
    }

    /// Goes on to the next thing.
    #[inline]
    pub(super) fn step(&mut self) -> io::Result<Step> {
        if let Some(step) = self.pending.take() {
            return Ok(step);
        }
        let Some(packet) = self.packet else {
            return self.packet();
        };
        if self.bit < packet.content {
            return self.event(&packet);
        }
        // A byte that two events share belongs to the later one.
        let offset = packet.offset + self.bit / 8;
        self.skip_packet();
        let size = self.at.saturating_sub(offset);
        if size > 0 {
            return Ok(Step::Padding { offset, size });
        }
        self.packet()
    }

    /// The bytes of a text or a row of the last event.
    pub(super) fn row(&mut self, slot: usize) -> io::Result<&[u8]> {
        let Some(packet) = self.packet else {
            return Ok(&[]);
        };
        let start = packet.offset.saturating_add(self.values.number(slot));
        let size = self.values.sizes.get(slot).copied().unwrap_or(0);
        let want = usize::try_from(size).unwrap_or(usize::MAX);
        self.window.at(start, want, start.saturating_add(size))
    }

    fn packet(&mut self) -> io::Result<Step> {
        if self.at >= self.size {
            return Ok(Step::End);
        }
        let at = self.at;
        let mut packet = match self.head(at)? {
            Ok(packet) => packet,
            Err(what) => {
                let next = self.search(at + 1)?;
                let size = next - at;
                self.at = next;
                let what = format!("no packet begins here: {what}; {size} bytes are skipped");
                return Ok(damage(at, what, size, DamageScope::Packets));
            }
        };
        let text = std::mem::take(&mut self.text);
        let end = at.saturating_add(packet.size);
        let whole = end == self.size || end < self.size && self.begins(end)?;
        if !whole {
            let next = self.search(at + packet.head.div_ceil(8))?;
            let stop = end.min(self.size).min(next);
            if stop < end {
                let size = packet.size;
                let what = if stop == self.size {
                    format!("but the file ends {} bytes before that", end - stop)
                } else {
                    "but another packet begins here: it is read up to here".to_owned()
                };
                let what = format!("the packet at byte {at} should have {size} bytes, {what}");
                self.pending = Some(damage(stop, what, 0, DamageScope::Packets));
                packet.size = stop - at;
                packet.content = packet.content.min(packet.size * 8);
            }
        }
        // The head's numbers must not be taken for the clock.
        self.values.clock = packet.begin.unwrap_or(self.values.clock);
        (self.packet, self.bit, self.text) = (Some(packet), packet.head, text);
        Ok(Step::Packet(packet))
    }

    /// Whether a packet seems to begin here.
    fn begins(&mut self, at: u64) -> io::Result<bool> {
        Ok(self.head(at)?.is_ok())
    }

    /// The head of the packet at this place. If there is no valid head, the fault.
    fn head(&mut self, at: u64) -> io::Result<Result<Packet, String>> {
        let schema = self.schema;
        let clock = self.values.clock;
        if self.describe {
            self.text.clear();
        }
        let window = if self.window.holds(at, HEAD) {
            &mut self.window
        } else {
            &mut self.peek
        };
        let view = window.at(at, HEAD, self.size)?;
        let mut walk = Walk {
            view,
            first: 0,
            at: 0,
            limit: (view.len() as u64).saturating_mul(8),
            values: &mut self.values,
            text: self.describe.then_some(&mut self.text),
        };
        let read = read_head(schema, &mut walk);
        let bits = walk.at;
        self.values.clock = clock;
        let left = self.size - at;
        Ok(read.and_then(|stream| packet(schema, stream, &self.values, at, bits, left)))
    }

    /// The beginning of the next packet, or the end of the file.
    fn search(&mut self, from: u64) -> io::Result<u64> {
        let head = self.schema.packet_header.as_ref();
        let Some(magic) = head.and_then(|head| head.integer("magic")) else {
            return Ok(self.size);
        };
        let wanted = if magic.big {
            MAGIC.to_be_bytes()
        } else {
            MAGIC.to_le_bytes()
        };
        let mut at = from;
        while at < self.size {
            let view = self.window.at(at, HEAD, self.size)?;
            let found = view.windows(wanted.len()).position(|bytes| bytes == wanted);
            match found {
                Some(place) => {
                    at += place as u64;
                    if self.begins(at)? {
                        return Ok(at);
                    }
                    at += 1;
                }
                None if view.len() < HEAD => break,
                None => at += (view.len() - (wanted.len() - 1)) as u64,
            }
        }
        Ok(self.size)
    }

    fn event(&mut self, packet: &Packet) -> io::Result<Step> {
        let schema = self.schema;
        let Some(stream) = schema.streams.get(packet.stream) else {
            return Ok(self.give_up(packet, "of no known class"));
        };
        let (first, clock) = (self.bit / 8, self.values.clock);
        let offset = packet.offset + first;
        let end = packet.offset + packet.content.div_ceil(8);
        let mut want = 1;
        loop {
            let view = self.window.at(offset, want, end)?;
            let have = view.len();
            self.text.clear();
            let mut walk = Walk {
                view,
                first,
                at: self.bit,
                limit: packet.content,
                values: &mut self.values,
                text: self.describe.then_some(&mut self.text),
            };
            let read = read_event(stream, &mut walk);
            let after = walk.at;
            let what = match read {
                Ok(class) if after > self.bit => {
                    self.bit = after;
                    return Ok(Step::Event(Event {
                        offset,
                        size: after / 8 - first,
                        stream: packet.stream,
                        class,
                        time: self.values.clock,
                    }));
                }
                Ok(_) => "without a byte",
                Err(Unread::Stop(Stop::More)) if want < MAX_WINDOW => {
                    want = (2 * have).max(2 * want).max(HEAD);
                    self.values.clock = clock;
                    if want > self.capacity {
                        self.capacity = want;
                        self.window = Window::new(self.bytes, want);
                    }
                    continue;
                }
                Err(Unread::Stop(Stop::More)) => "of more than 32 MiB",
                Err(Unread::Stop(Stop::End)) => "that is longer than its packet",
                Err(Unread::Stop(Stop::Tag)) => "with a variant of no known option",
                Err(Unread::Class) => "of a class that the metadata does not have",
            };
            self.values.clock = clock;
            return Ok(self.give_up(packet, what));
        }
    }

    fn give_up(&mut self, packet: &Packet, what: &str) -> Step {
        let offset = packet.offset + self.bit / 8;
        let size = packet.offset + packet.size - offset;
        self.skip_packet();
        let what = format!("an event {what}; the rest of its packet, {size} bytes, is skipped");
        damage(offset, what, size, DamageScope::Events)
    }
}

fn damage(offset: u64, what: String, size: u64, place: DamageScope) -> Step {
    let at = Diagnostic { offset, what };
    Step::Damage { at, size, place }
}

enum Unread {
    Stop(Stop),
    Class,
}

impl From<Stop> for Unread {
    fn from(stop: Stop) -> Unread {
        Unread::Stop(stop)
    }
}

/// Reads one event; gives the place of its class.
#[inline]
fn read_event(stream: &Stream, walk: &mut Walk<'_>) -> Result<usize, Unread> {
    walk.values.event = 0;
    // The listing's other columns show enough of header and stream context.
    let text = walk.text.take();
    for part in [&stream.event_header, &stream.event_context]
        .into_iter()
        .flatten()
    {
        walk.node(part)?;
    }
    let class = stream.event_of(walk.values.event).ok_or(Unread::Class)?;
    let event = stream.events.get(class).ok_or(Unread::Class)?;
    if let Some(context) = &event.context {
        walk.node(context)?;
    }
    walk.text = text;
    if let Some(fields) = &event.fields {
        walk.node(fields)?;
    }
    Ok(class)
}

/// Reads header and context of a packet; gives the place of its class.
fn read_head(schema: &Schema, walk: &mut Walk<'_>) -> Result<usize, String> {
    let short = |_| "the file ends in its head".to_owned();
    let text = walk.text.take();
    if let Some(header) = &schema.packet_header {
        walk.node(header).map_err(short)?;
    }
    let number = |values: &Values, slot: Option<usize>| slot.map(|slot| values.number(slot));
    let magic = number(walk.values, schema.head.magic);
    if let Some(magic) = magic.filter(|&magic| magic != u64::from(MAGIC)) {
        return Err(format!("0x{magic:08x} is not the magic number 0xc1fc1fc1"));
    }
    if let (Some(slot), Some(uuid)) = (schema.head.uuid, schema.uuid) {
        let start = walk.values.number(slot) as usize;
        if walk.view.get(start..start + 16) != Some(&uuid[..]) {
            return Err("it is of a trace with another UUID".into());
        }
    }
    let id = number(walk.values, schema.head.stream);
    let stream = schema.stream_of(id);
    let stream = stream.ok_or_else(|| match id {
        Some(id) => format!("the metadata has no stream class {id}"),
        None => "it does not say which of the stream classes it is of".into(),
    })?;
    let class = schema.streams.get(stream);
    walk.text = text;
    if let Some(context) = class.and_then(|class| class.packet_context.as_ref()) {
        walk.node(context).map_err(short)?;
    }
    Ok(stream)
}

/// The meaning of a head's values. `left`: bytes of the file from the head on.
fn packet(
    schema: &Schema,
    stream: usize,
    values: &Values,
    offset: u64,
    head: u64,
    left: u64,
) -> Result<Packet, String> {
    let slots = schema
        .streams
        .get(stream)
        .map(|stream| stream.packet)
        .unwrap_or_default();
    let number = |slot: Option<usize>| slot.map(|slot| values.number(slot));
    let (content, size) = match (number(slots.content), number(slots.size)) {
        (Some(content), Some(size)) => (content, size),
        (Some(content), None) => {
            let size = content.checked_next_multiple_of(8);
            (content, size.unwrap_or(u64::MAX))
        }
        (None, Some(size)) => (size, size),
        (None, None) => (left.saturating_mul(8), left.saturating_mul(8)),
    };
    if content > size {
        return Err(format!(
            "its content of {content} bits is longer than its {size} bits"
        ));
    }
    if content < head {
        return Err(format!(
            "its content of {content} bits is shorter than its head"
        ));
    }
    if size % 8 != 0 {
        return Err(format!("its {size} bits are no whole bytes"));
    }
    Ok(Packet {
        offset,
        size: size / 8,
        head,
        content,
        stream,
        instance: number(schema.head.instance),
        begin: number(slots.begin),
        sequence: number(slots.sequence),
        discarded: number(slots.discarded),
        cpu: number(slots.cpu),
        cpu_seen: number(slots.cpu_seen).map(|seen| seen != 0),
    })
}
