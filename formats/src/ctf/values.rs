//! Reads values from bytes by their type. Keeps the values of numbers and the places of texts, and writes all values in
//! words on request. An error says whether the bytes are wrong or at their end.

use std::fmt::Write as _;

use super::tsdl::types::Label;
use super::types::{Count, Field, Integer, Node, Role, Slot};
use crate::text::cut;

/// The most bytes of an event's text in words.
const MAX_TEXT: usize = 64 * 1024;
/// The most labels that are searched for a value, for people.
const MAX_LABELS: usize = 1024;

/// Why an event can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It is longer than the available bytes, which are not all of the packet's.
    More,
    /// It is longer than its packet.
    End,
    /// A variant's tag chooses nothing.
    Tag,
}

/// The values of an event or of a packet's head.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    /// Numbers; for texts and rows, the place of the first byte, from the packet's start.
    pub(super) numbers: Vec<u64>,
    /// Bytes of texts and rows.
    pub(super) sizes: Vec<u64>,
    /// The stream's clock.
    pub(super) clock: u64,
    /// The event's class.
    pub(super) event: u64,
}

impl Values {
    pub(super) fn new(slots: usize) -> Values {
        Values {
            numbers: vec![0; slots],
            sizes: vec![0; slots],
            ..Values::default()
        }
    }

    #[inline]
    pub(super) fn number(&self, slot: Slot) -> u64 {
        self.numbers.get(slot).copied().unwrap_or(0)
    }

    #[inline]
    fn set(&mut self, slot: Slot, number: u64) {
        if let Some(place) = self.numbers.get_mut(slot) {
            *place = number;
        }
    }

    fn set_place(&mut self, slot: Slot, start: u64, size: u64) {
        self.set(slot, start);
        if let Some(place) = self.sizes.get_mut(slot) {
            *place = size;
        }
    }
}

/// Bytes of a packet, and the reading position.
pub(super) struct Walk<'a> {
    /// Some bytes of the packet.
    pub(super) view: &'a [u8],
    /// The place of the first of these bytes in the packet.
    pub(super) first: u64,
    /// Bits read, from the packet's start.
    pub(super) at: u64,
    /// Bits of the packet.
    pub(super) limit: u64,
    pub(super) values: &'a mut Values,
    /// The values in words, if wanted.
    pub(super) text: Option<&'a mut String>,
}

impl Walk<'_> {
    /// Reads a value of that type.
    #[inline]
    pub(super) fn node(&mut self, node: &Node) -> Result<(), Stop> {
        match node {
            // Most fields are these.
            Node::Integer(integer) if self.text.is_none() => self.integer(integer).map(|_| ()),
            Node::Struct { align, fields } if self.text.is_none() => {
                self.align(*align)?;
                for field in fields {
                    match &field.node {
                        Node::Integer(integer) => {
                            self.integer(integer)?;
                        }
                        other => self.any(other)?,
                    }
                }
                Ok(())
            }
            _ => self.any(node),
        }
    }

    fn any(&mut self, node: &Node) -> Result<(), Stop> {
        match node {
            Node::Integer(integer) => {
                let value = self.integer(integer)?;
                self.push_text(|text| number(text, value, integer));
            }
            Node::Enum(integer, labels) => {
                let value = self.integer(integer)?;
                self.push_text(|text| label(text, value, integer, labels));
            }
            Node::Float {
                size,
                align,
                big,
                slot,
            } => {
                self.align(*align)?;
                let bits = self.bits(*size, *big)?;
                self.values.set(*slot, bits);
                self.push_text(|text| match size {
                    32 => write!(text, "{:?}", f32::from_bits(bits as u32)),
                    _ => write!(text, "{:?}", f64::from_bits(bits)),
                });
            }
            Node::Text(slot) => self.string(*slot)?,
            Node::Struct { align, fields } => {
                self.align(*align)?;
                self.structure(fields)?;
            }
            Node::Row {
                element,
                count,
                text,
                slot,
            } => self.row(element, *count, *text, *slot)?,
            Node::Array { element, count } => self.array(element, *count)?,
            Node::Variant {
                tag,
                signed,
                choices,
                options,
            } => {
                let tag = wide(self.values.number(*tag), *signed);
                let fits = |choice: &&(i128, i128, usize)| choice.0 <= tag && tag <= choice.1;
                let place = choices.iter().find(fits).map(|choice| choice.2);
                let option = place
                    .and_then(|place| options.get(place))
                    .ok_or(Stop::Tag)?;
                self.push_text(|text| write!(text, "{{ {} = ", option.name));
                self.node(&option.node)?;
                self.push_text(|text| text.write_str(" }"));
            }
        }
        Ok(())
    }

    fn structure(&mut self, fields: &[Field]) -> Result<(), Stop> {
        for (at, field) in fields.iter().enumerate() {
            let before = if at == 0 { "{ " } else { ", " };
            self.push_text(|text| write!(text, "{before}{} = ", field.name));
            self.node(&field.node)?;
        }
        let end = if fields.is_empty() { "{ }" } else { " }" };
        self.push_text(|text| text.write_str(end));
        Ok(())
    }

    #[inline]
    fn push_text(&mut self, what: impl FnOnce(&mut String) -> std::fmt::Result) {
        let text = self.text.as_mut();
        if let Some(text) = text.filter(|text| text.len() < MAX_TEXT) {
            // Writing to a String does not fail.
            let _ = what(text);
            if text.len() > MAX_TEXT {
                text.truncate(cut(text, MAX_TEXT).len());
                text.push('…');
            }
        }
    }

    #[inline]
    fn align(&mut self, bits: u32) -> Result<(), Stop> {
        let bits = u64::from(bits);
        if self.at & (bits - 1) != 0 {
            self.at = self.at.next_multiple_of(bits);
            if self.at > self.limit {
                return Err(Stop::End);
            }
        }
        Ok(())
    }

    #[inline]
    fn integer(&mut self, integer: &Integer) -> Result<u64, Stop> {
        self.align(integer.align)?;
        let mut value = self.bits(integer.size, integer.big)?;
        match integer.role {
            Role::None => {}
            Role::Clock => {
                value = tick(self.values.clock, value, integer.size);
                self.values.clock = value;
            }
            Role::EventId => self.values.event = value,
        }
        if integer.signed {
            let unused = 64 - integer.size;
            value = (((value << unused) as i64) >> unused) as u64;
        }
        self.values.set(integer.slot, value);
        Ok(value)
    }

    /// The beginning of these bits in the view, if they are in it.
    #[inline]
    fn place(&self, bits: u64) -> Result<usize, Stop> {
        let end = self.at.saturating_add(bits);
        if end > self.limit {
            return Err(Stop::End);
        }
        if end.div_ceil(8) - self.first > self.view.len() as u64 {
            return Err(Stop::More);
        }
        Ok((self.at / 8 - self.first) as usize)
    }

    #[inline]
    fn bits(&mut self, size: u32, big: bool) -> Result<u64, Stop> {
        let start = self.place(size.into())?;
        let rest = self.view.get(start..).unwrap_or(&[]);
        let skip = (self.at % 8) as u32;
        self.at += u64::from(size);
        Ok(match (size, skip) {
            (8, 0) => rest.first().map_or(0, |byte| u64::from(*byte)),
            (32, 0) => rest
                .first_chunk()
                .map_or(0, |bytes| u64::from(word(*bytes, big))),
            (64, 0) => rest.first_chunk().map_or(0, |bytes| long(*bytes, big)),
            _ => parts(rest, skip, size, big),
        })
    }

    fn string(&mut self, slot: Slot) -> Result<(), Stop> {
        self.align(8)?;
        let start = self.place(0)?;
        let most = (self.limit / 8 - self.at / 8).min(self.view.len() as u64 - start as u64);
        let rest = &self.view[start..start + most as usize];
        let Some(size) = rest.iter().position(|byte| *byte == 0) else {
            let all = self.first + (start as u64 + most) >= self.limit / 8;
            return Err(if all { Stop::End } else { Stop::More });
        };
        self.values.set_place(slot, self.at / 8, size as u64);
        self.at += (size as u64 + 1) * 8;
        self.push_text(|text| quoted(text, &rest[..size]));
        Ok(())
    }

    fn count(&self, count: Count) -> u64 {
        match count {
            Count::Fixed(count) => count,
            Count::Slot(slot) => self.values.number(slot),
        }
    }

    fn row(&mut self, element: &Integer, count: Count, text: bool, slot: Slot) -> Result<(), Stop> {
        let count = self.count(count);
        self.align(element.align)?;
        let bits = count.checked_mul(element.size.into()).ok_or(Stop::End)?;
        let start = self.place(bits)?;
        let size = bits / 8;
        self.values.set_place(slot, self.at / 8, size);
        self.at += bits;
        if self.text.is_none() {
            return Ok(());
        }
        let bytes = self.view.get(start..start + size as usize).unwrap_or(&[]);
        if text {
            let end = bytes.iter().position(|byte| *byte == 0);
            self.push_text(|text| quoted(text, &bytes[..end.unwrap_or(bytes.len())]));
            return Ok(());
        }
        for (at, bytes) in bytes.chunks((element.size / 8) as usize).enumerate() {
            if self.text.as_ref().is_none_or(|text| text.len() >= MAX_TEXT) {
                break;
            }
            let before = if at == 0 { "[" } else { ", " };
            self.push_text(|text| {
                text.push_str(before);
                number(text, extend(whole(bytes, element.big), element), element)
            });
        }
        self.push_text(|text| text.write_str(if size == 0 { "[]" } else { "]" }));
        Ok(())
    }

    fn array(&mut self, element: &Node, count: Count) -> Result<(), Stop> {
        let count = self.count(count);
        for at in 0..count {
            let before = self.at;
            let sign = if at == 0 { "[" } else { ", " };
            self.push_text(|text| text.write_str(sign));
            self.node(element)?;
            // Elements without bits never end.
            if self.at == before {
                break;
            }
        }
        self.push_text(|text| text.write_str(if count == 0 { "[]" } else { "]" }));
        Ok(())
    }
}

/// The clock after a number with fewer bits than the clock: its low bits. The clock never goes back.
fn tick(clock: u64, value: u64, size: u32) -> u64 {
    if size >= 64 {
        return value;
    }
    let span = 1u64 << size;
    let low = clock & (span - 1);
    let high = clock - low;
    let carry = if value < low { span } else { 0 };
    high.wrapping_add(carry) | value
}

#[inline]
fn word(bytes: [u8; 4], big: bool) -> u32 {
    let word = u32::from_le_bytes(bytes);
    if big { word.swap_bytes() } else { word }
}

#[inline]
fn long(bytes: [u8; 8], big: bool) -> u64 {
    let long = u64::from_le_bytes(bytes);
    if big { long.swap_bytes() } else { long }
}

fn whole(bytes: &[u8], big: bool) -> u64 {
    let mut word = [0; 8];
    match (bytes.len(), big) {
        (1..=8, false) => {
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        }
        (1..=8, true) => {
            word[8 - bytes.len()..].copy_from_slice(bytes);
            u64::from_be_bytes(word)
        }
        _ => 0,
    }
}

/// Bits that do not begin or end at a byte. They count from the low end of each byte if little-endian,
/// from the high end if big-endian.
fn parts(bytes: &[u8], mut skip: u32, size: u32, big: bool) -> u64 {
    let (mut value, mut done) = (0u64, 0);
    for &byte in bytes {
        let count = (8 - skip).min(size - done);
        let mask = (1u64 << count) - 1;
        if big {
            value = value << count | (u64::from(byte) >> (8 - skip - count)) & mask;
        } else {
            value |= ((u64::from(byte) >> skip) & mask) << done;
        }
        (skip, done) = (0, done + count);
        if done == size {
            break;
        }
    }
    value
}

fn extend(value: u64, integer: &Integer) -> u64 {
    if !integer.signed {
        return value;
    }
    let unused = 64 - integer.size;
    (((value << unused) as i64) >> unused) as u64
}

fn wide(value: u64, signed: bool) -> i128 {
    if signed {
        i128::from(value as i64)
    } else {
        i128::from(value)
    }
}

fn number(text: &mut String, value: u64, integer: &Integer) -> std::fmt::Result {
    match (integer.base, integer.signed) {
        (16, _) => write!(text, "0x{value:x}"),
        (8, _) => write!(text, "0{value:o}"),
        (2, _) => write!(text, "0b{value:b}"),
        (_, true) => write!(text, "{}", value as i64),
        (_, false) => write!(text, "{value}"),
    }
}

fn label(text: &mut String, value: u64, integer: &Integer, labels: &[Label]) -> std::fmt::Result {
    let wide = wide(value, integer.signed);
    let mut near = labels.iter().take(MAX_LABELS);
    match near.find(|label| label.low <= wide && wide <= label.high) {
        Some(label) => write!(text, "{:?}", label.name)?,
        None => text.push_str("(no label)"),
    }
    text.push_str(" = ");
    number(text, value, integer)
}

fn quoted(text: &mut String, bytes: &[u8]) -> std::fmt::Result {
    let bytes = bytes.get(..MAX_TEXT).unwrap_or(bytes);
    write!(text, "{:?}", String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_in_both_orders() {
        // 0b1010_1100, 0b0101_0011: bits counted from the low end, and from the high end.
        let bytes = [0xac, 0x53];
        assert_eq!(parts(&bytes, 0, 4, false), 0xc);
        assert_eq!(parts(&bytes, 4, 8, false), 0x3a);
        assert_eq!(parts(&bytes, 3, 13, false), 0x53ac >> 3);
        assert_eq!(parts(&bytes, 0, 4, true), 0xa);
        assert_eq!(parts(&bytes, 4, 8, true), 0xc5);
        assert_eq!(parts(&bytes, 3, 13, true), 0xac53 & 0x1fff);
        assert_eq!(whole(&[1, 2, 3], false), 0x03_0201);
        assert_eq!(whole(&[1, 2, 3], true), 0x01_0203);
    }

    #[test]
    fn a_clock_of_few_bits_goes_on() {
        assert_eq!(tick(0x1_0000_0005, 7, 32), 0x1_0000_0007);
        assert_eq!(tick(0x1_0000_0005, 3, 32), 0x2_0000_0003);
        assert_eq!(tick(0x1_0000_0005, 5, 32), 0x1_0000_0005);
        assert_eq!(tick(9, 3, 64), 3);
        assert_eq!(tick(u64::MAX, 0, 27), 0);
    }
}
