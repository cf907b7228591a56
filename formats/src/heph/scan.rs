//! Goes through a file packet by packet. This file alone decides which bytes are a packet and which are damage, so
//! index, decoder and listing agree. Each byte of the file is in exactly one unit.
//!
//! Bytes are a packet if another packet, or the end of the file, follows them. They are also a packet if
//! their attributes fill it exactly; then the next packet is the damaged one. All other bytes are damage,
//! up to the next packet.

use std::io;

use super::record::{self, Bad, EVENT_SIZE, Event, HEAD, Kind, Metadata};
use crate::bytes::{ReadAt, Window};

/// Bytes of the file in memory.
const WINDOW: usize = 256 * 1024;
/// A longer packet is read only up to here.
pub(super) const MAX_PACKET: usize = 32 << 20;
/// Bytes that may be read again, for each byte of the file. Without this bound, a hostile file could
/// lead every byte to a long search in vain.
const AGAIN: u64 = 4;

/// The content of a place in the file.
#[derive(Debug)]
pub(super) enum Unit<'a> {
    Metadata(Metadata<'a>),
    Event(Event<'a>),
    /// Bytes that are no packet.
    Damage(String),
}

/// A unit and its place.
#[derive(Debug)]
pub(super) struct LocatedUnit<'a> {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) unit: Unit<'a>,
}

/// One pass over a file.
pub(super) struct Walker<'a> {
    packets: Packets<'a>,
    size: u64,
    at: u64,
    /// Bytes of packets that may still be read twice, because no packet behind them confirms their size.
    again: u64,
}

impl<'a> Walker<'a> {
    pub(super) fn new(bytes: &'a dyn ReadAt) -> Walker<'a> {
        Walker {
            packets: Packets::new(bytes),
            size: bytes.size(),
            at: 0,
            again: bytes.size().saturating_mul(AGAIN),
        }
    }

    /// The next unit; `None` at the end of the file.
    pub(super) fn next(&mut self) -> io::Result<Option<LocatedUnit<'_>>> {
        if self.at >= self.size {
            return Ok(None);
        }
        let offset = self.at;
        if let Some((kind, size)) = self.packet(offset)? {
            self.at = offset + size;
            let packet = self.packets.read(offset, size)?;
            let unit = match kind {
                Kind::Event => Event::decode(packet).map(Unit::Event),
                Kind::Metadata => Metadata::decode(packet).map(Unit::Metadata),
            };
            let what = "the packet's text is longer than the packet; it is skipped";
            let unit = unit.unwrap_or_else(|| Unit::Damage(what.into()));
            return Ok(Some(LocatedUnit { offset, size, unit }));
        }
        self.at = self.search(offset + 1)?;
        let size = self.at - offset;
        let unit = Unit::Damage(self.describe(offset, size)?);
        Ok(Some(LocatedUnit { offset, size, unit }))
    }

    /// Kind and size of the packet at a place, if there is one.
    fn packet(&mut self, at: u64) -> io::Result<Option<(Kind, u64)>> {
        let head = self.packets.window.at(at, HEAD, self.size)?;
        let Some((kind, size)) = record::head(head) else {
            return Ok(None);
        };
        let size = u64::from(size);
        let end = at.saturating_add(size);
        let taken = end <= self.size && (self.ends(end)? || self.fits(kind, at, size)?);
        Ok(taken.then_some((kind, size)))
    }

    /// Whether a packet, or the end, follows a place.
    fn ends(&mut self, end: u64) -> io::Result<bool> {
        if end == self.size {
            return Ok(true);
        }
        if self.packets.window.holds(end, HEAD) {
            let next = self.packets.window.at(end, HEAD, self.size)?;
            return Ok(record::head(next).is_some());
        }
        let mut next = [0; HEAD];
        let count = self.packets.bytes.read_at(end, &mut next)?;
        Ok(record::head(&next[..count]).is_some())
    }

    /// Whether the content of a packet fills it exactly.
    fn fits(&mut self, kind: Kind, at: u64, size: u64) -> io::Result<bool> {
        if size > self.again || size > MAX_PACKET as u64 {
            return Ok(false);
        }
        self.again -= size;
        let packet = self.packets.read(at, size)?;
        Ok(match kind {
            Kind::Event => Event::decode(packet)
                .is_some_and(|event| event.attributes().all(|attribute| attribute.is_ok())),
            Kind::Metadata => {
                Metadata::decode(packet).is_some_and(|metadata| metadata.epoch().is_some())
            }
        })
    }

    /// The next place from `at` on where a packet begins; the file's end if there is none.
    fn search(&mut self, mut at: u64) -> io::Result<u64> {
        const MAGIC: usize = 4;
        while at < self.size {
            let view = self.packets.window.at(at, MAGIC, self.size)?;
            let place = view.windows(MAGIC).position(|four| {
                let four = u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
                four == record::EVENT || four == record::METADATA
            });
            match place {
                Some(place) => {
                    at += place as u64;
                    if self.packet(at)?.is_some() {
                        return Ok(at);
                    }
                    at += 1;
                }
                None if view.len() < MAGIC => return Ok(self.size),
                None => at += (view.len() - MAGIC + 1) as u64,
            }
        }
        Ok(self.size)
    }

    fn describe(&mut self, offset: u64, skipped: u64) -> io::Result<String> {
        let left = self.size - offset;
        let head = self.packets.window.at(offset, HEAD, self.size)?;
        let rest = format!("{skipped} bytes are skipped");
        Ok(match (record::head(head), head.get(4..HEAD)) {
            (Some((_, size)), _) if u64::from(size) > left && skipped == left => {
                let missing = u64::from(size) - left;
                format!(
                    "the packet should have {size} bytes, but the file ends {missing} bytes before \
                     that; {rest}"
                )
            }
            (Some((_, size)), _) => {
                format!("the packet's size of {size} bytes leads to no packet; {rest}")
            }
            (None, Some(size)) if is_magic(head) => {
                let size = size.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte));
                format!("a packet of {size} bytes is too short for what it must hold; {rest}")
            }
            _ => format!("no packet begins here; {rest}"),
        })
    }
}

fn is_magic(head: &[u8]) -> bool {
    let magic = head.first_chunk().map(|four| u32::from_be_bytes(*four));
    magic == Some(record::EVENT) || magic == Some(record::METADATA)
}

/// Packets at known places.
pub(super) struct Packets<'a> {
    bytes: &'a dyn ReadAt,
    window: Window<'a>,
    /// A packet that is longer than the window, or far from it.
    long: Vec<u8>,
    /// Bytes that may still be read because they are near a packet.
    near: u64,
}

impl<'a> Packets<'a> {
    pub(super) fn new(bytes: &'a dyn ReadAt) -> Packets<'a> {
        Packets {
            bytes,
            window: Window::new(bytes, WINDOW),
            long: Vec::new(),
            near: bytes.size().saturating_mul(AGAIN),
        }
    }

    /// The packet's bytes, up to [`MAX_PACKET`]; its size was checked against the file's.
    fn read(&mut self, offset: u64, size: u64) -> io::Result<&[u8]> {
        let held = usize::try_from(size).unwrap_or(MAX_PACKET).min(MAX_PACKET);
        let end = offset.saturating_add(size);
        if held <= WINDOW {
            return self.window.at(offset, held, end);
        }
        self.alone(offset, held)
    }

    /// The event packet that a [`Walker`] has found at this place, and its size.
    pub(super) fn event(&mut self, offset: u64) -> io::Result<Option<(Event<'_>, u64)>> {
        let file = self.bytes.size();
        if !self.window.holds(offset, EVENT_SIZE) && self.near > 0 {
            self.near = self.near.saturating_sub(WINDOW as u64);
            // Places in order of time go back a little now and then, to the children of a call.
            let back = offset.saturating_sub(WINDOW as u64 / 4);
            self.window.at(back, WINDOW, file)?;
        }
        let mut head = [0; HEAD];
        let near = self.window.holds(offset, EVENT_SIZE);
        if near {
            let view = self.window.at(offset, HEAD, file)?;
            head = view.first_chunk().copied().unwrap_or_default();
        } else {
            self.bytes.read_at(offset, &mut head)?;
        }
        let Some((Kind::Event, size)) = record::head(&head) else {
            return Ok(None);
        };
        let packet = if near {
            self.read(offset, size.into())?
        } else {
            self.alone(offset, (size as usize).min(MAX_PACKET))?
        };
        Ok(Event::decode(packet).map(|event| (event, u64::from(size))))
    }

    /// Bytes that do not go through the window.
    fn alone(&mut self, offset: u64, count: usize) -> io::Result<&[u8]> {
        self.long.resize(count, 0);
        let count = self.bytes.read_at(offset, &mut self.long)?;
        Ok(self.long.get(..count).unwrap_or(&[]))
    }
}

/// The fault of an event's attributes, in words; `None`: no fault.
pub(super) fn trouble(event: &Event<'_>, size: u64) -> Option<String> {
    if size > MAX_PACKET as u64 {
        let shown = MAX_PACKET;
        return Some(format!(
            "an event of {size} bytes; only what is whole in its first {shown} is read"
        ));
    }
    let Bad { at, kind } = event.attributes().damage()?;
    let place = EVENT_SIZE + event.description.len() + at;
    let what = match kind {
        Some(kind) => format!("has type {kind}, which is none"),
        None => "leaves the packet".into(),
    };
    Some(format!(
        "the attribute at byte {place} of the event {what}; it and what follows are skipped"
    ))
}
