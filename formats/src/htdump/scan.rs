//! Gives records one by one: where each ends, and its fields. [`Tables`] holds the layouts, byte orders and damage that
//! the index pass found, so a later pass can begin at any record.

use std::collections::HashMap;
use std::io;

use super::fields::{FieldLayout, Kind};
use super::record::{HEADER_SIZE, Header, MAX_RECORD};
use super::schema::Layout;
use crate::bytes::{ByteOrder, Fields, ReadAt, Window};

/// Enough bytes for nearly every record.
const USUAL: usize = 512;
/// Klasses up to this number are found without hashing.
const DENSE: usize = 512;

/// The layouts of a klass: which one applies from which byte on, in order.
type Versions = Vec<(u64, u32)>;

/// Where what holds in a file.
#[derive(Debug, Default)]
pub(super) struct Tables {
    layouts: Vec<Layout>,
    dense: Vec<Versions>,
    sparse: HashMap<u32, Versions>,
    orders: Vec<(u64, ByteOrder)>,
    /// Beginning and end of bytes that are no records.
    gaps: Vec<(u64, u64)>,
    /// Fields of all layouts.
    fields: usize,
}

impl Tables {
    fn versions(&self, klass: u32) -> &[(u64, u32)] {
        let versions = match self.dense.get(klass as usize) {
            Some(versions) => Some(versions),
            None => self.sparse.get(&klass),
        };
        versions.map_or(&[], Vec::as_slice)
    }

    /// The layout of a klass's record at this place.
    pub(super) fn layout(&self, klass: u32, offset: u64) -> Option<&Layout> {
        let versions = self.versions(klass);
        let (_, layout) = match versions {
            [only] => *only,
            _ => {
                let after = versions.partition_point(|&(from, _)| from <= offset);
                *versions.get(after.checked_sub(1)?)?
            }
        };
        self.layouts.get(layout as usize)
    }

    /// From here on, records of the klass have this layout. False: there are too many layouts.
    pub(super) fn learn(&mut self, klass: u32, offset: u64, layout: Layout) -> bool {
        const MAX_ALL_FIELDS: usize = 1 << 20;
        self.fields += layout.places.len() + 1;
        if self.fields > MAX_ALL_FIELDS {
            return false;
        }
        let version = (offset, self.layouts.len() as u32);
        self.layouts.push(layout);
        if (klass as usize) < DENSE {
            self.dense.resize_with(DENSE, Vec::new);
            self.dense[klass as usize].push(version);
        } else {
            self.sparse.entry(klass).or_default().push(version);
        }
        true
    }

    /// The byte order at this place.
    pub(super) fn order(&self, offset: u64) -> ByteOrder {
        let after = self.orders.partition_point(|&(from, _)| from <= offset);
        let order = after.checked_sub(1).and_then(|at| self.orders.get(at));
        order.map_or(ByteOrder::Little, |&(_, order)| order)
    }

    /// From here on, the byte order is this one.
    pub(super) fn set_order(&mut self, offset: u64, order: ByteOrder) {
        if self.orders.last().is_none_or(|&(_, known)| known != order) {
            self.orders.push((offset, order));
        }
    }

    /// Whether both byte orders are in the file.
    pub(super) fn orders(&self) -> impl Iterator<Item = ByteOrder> + '_ {
        self.orders.iter().map(|&(_, order)| order)
    }

    /// These bytes are no records.
    pub(super) fn skip(&mut self, from: u64, to: u64) {
        self.gaps.push((from, to));
    }
}

/// The content of a place in the file.
pub(super) enum RecordContent<'w> {
    /// A record.
    Event(Event<'w>),
    /// The file ends within the record.
    Cut,
    /// It is longer than [`MAX_RECORD`].
    Long,
    /// The layout of this klass is not known.
    Unknown(u32),
}

/// A record, with its fields.
pub(super) struct Event<'w> {
    pub(super) offset: u64,
    pub(super) header: Header,
    pub(super) layout: &'w Layout,
    order: ByteOrder,
    bytes: &'w [u8],
    starts: &'w [u32],
}

impl<'w> Event<'w> {
    /// Bytes of the record.
    pub(super) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn place(&self, at: usize) -> Option<(&'w FieldLayout, &'w [u8])> {
        let start = *self.starts.get(at)? as usize;
        let place = self.layout.places.get(at)?;
        let end = match place.kind {
            // The zero byte at the text's end is not part of it.
            Kind::Text => {
                let next = self.starts.get(at + 1).map(|&next| next as usize);
                next.unwrap_or(self.bytes.len()).checked_sub(1)?
            }
            _ => start + place.size as usize,
        };
        Some((place, self.bytes.get(start..end)?))
    }

    /// The bytes of a field; empty if there is no such field.
    pub(super) fn bytes(&self, at: usize) -> &'w [u8] {
        self.place(at).map_or(&[], |(_, bytes)| bytes)
    }

    /// The value of a number field. A signed number becomes 64 bits of two's complement. 0 if there is
    /// no such field.
    #[inline]
    pub(super) fn number(&self, at: usize) -> u64 {
        let Some((place, bytes)) = self.place(at) else {
            return 0;
        };
        let mut fields = Fields::new(bytes, self.order);
        let signed = place.kind == Kind::Signed;
        let value = match place.size {
            8 => fields.u64(),
            4 if signed => fields.u32().map(|value| value as i32 as u64),
            4 => fields.u32().map(u64::from),
            2 if signed => fields.u16().map(|value| value as i16 as u64),
            2 => fields.u16().map(u64::from),
            1 if signed => fields.u8().map(|value| value as i8 as u64),
            1 => fields.u8().map(u64::from),
            _ => None,
        };
        value.unwrap_or(0)
    }

    /// The number in the field of that name; 0 if there is none.
    pub(super) fn named(&self, name: &str) -> u64 {
        self.layout.place(name).map_or(0, |at| self.number(at))
    }

    /// The text in the field of that name; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &'w [u8] {
        self.layout.place(name).map_or(&[], |at| self.bytes(at))
    }
}

/// Reads records at any place.
pub(super) struct Walker<'f> {
    file: &'f dyn ReadAt,
    window: Window<'f>,
    size: u64,
    starts: Vec<u32>,
    /// A record that is longer than the window, and its beginning.
    long: Vec<u8>,
    long_at: u64,
    capacity: usize,
}

impl<'f> Walker<'f> {
    /// Reads `capacity` bytes at a time.
    pub(super) fn new(file: &'f dyn ReadAt, capacity: usize) -> Walker<'f> {
        Walker {
            file,
            window: Window::new(file, capacity),
            size: file.size(),
            starts: Vec::new(),
            long: Vec::new(),
            long_at: 0,
            capacity,
        }
    }

    /// `want` bytes from `offset` on, or fewer at the file's end.
    pub(super) fn view(&mut self, offset: u64, want: usize) -> io::Result<&[u8]> {
        if want <= self.capacity {
            return self.window.at(offset, want, self.size);
        }
        if self.long_at != offset || self.long.len() < want {
            let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(want);
            self.long.resize(left.min(want), 0);
            let count = self.file.read_at(offset, &mut self.long)?;
            self.long.truncate(count);
            self.long_at = offset;
        }
        Ok(&self.long)
    }

    /// The record at `offset`.
    pub(super) fn at<'w>(
        &'w mut self,
        offset: u64,
        tables: &'w Tables,
    ) -> io::Result<RecordContent<'w>> {
        if self.long_at != offset {
            self.long = Vec::new();
        }
        let order = tables.order(offset);
        let view = self.window.at(offset, USUAL, self.size)?;
        let Some(header) = Header::decode(view, order) else {
            return Ok(RecordContent::Cut);
        };
        let Some(layout) = tables.layout(header.klass, offset) else {
            return Ok(RecordContent::Unknown(header.klass));
        };
        let size = match layout.fixed {
            Some(size) => size,
            None => match self.measure(offset, layout)? {
                Measured::Whole(size) => size,
                Measured::Cut => return Ok(RecordContent::Cut),
                Measured::Long => return Ok(RecordContent::Long),
            },
        };
        let starts_known = layout.fixed.is_some();
        self.view(offset, size)?;
        // A second lookup, so that both borrows are of unchanged data.
        let bytes = if size <= self.capacity {
            self.window.at(offset, size, self.size)?
        } else {
            &self.long
        };
        let Some(bytes) = bytes.get(..size) else {
            return Ok(RecordContent::Cut);
        };
        let starts = if starts_known {
            &layout.starts
        } else {
            &self.starts
        };
        Ok(RecordContent::Event(Event {
            offset,
            header,
            layout,
            order,
            bytes,
            starts,
        }))
    }

    /// Size of a record with texts; stores the beginnings of its fields.
    fn measure(&mut self, offset: u64, layout: &Layout) -> io::Result<Measured> {
        let mut want = USUAL;
        let mut starts = std::mem::take(&mut self.starts);
        let measured = loop {
            let view = self.view(offset, want)?;
            if let Some(size) = measure(view, layout, &mut starts) {
                break Measured::Whole(size);
            }
            if view.len() < want {
                break Measured::Cut;
            }
            if want >= MAX_RECORD {
                break Measured::Long;
            }
            // Bytes that were searched in vain are searched again, a quarter as often each time.
            want = view.len().max(want).saturating_mul(4).min(MAX_RECORD);
        };
        self.starts = starts;
        Ok(measured)
    }
}

enum Measured {
    Whole(usize),
    Cut,
    Long,
}

/// Size of the record at the beginning of these bytes; `None` if they are too few.
fn measure(bytes: &[u8], layout: &Layout, starts: &mut Vec<u32>) -> Option<usize> {
    starts.clear();
    let mut at = HEADER_SIZE;
    for place in &layout.places {
        starts.push(at as u32);
        at += match place.kind {
            Kind::Text => 1 + bytes.get(at..)?.iter().position(|&byte| byte == 0)?,
            _ => place.size as usize,
        };
    }
    (at <= bytes.len()).then_some(at)
}

/// The contents of a file, one after the other.
pub(super) enum Step<'w> {
    Event(Event<'w>),
    /// Bytes that are no records, as the index pass found: beginning and end.
    Gap(u64, u64),
}

/// Goes through a file whose tables are complete.
pub(super) struct RecordPass<'f> {
    walker: Walker<'f>,
    tables: &'f Tables,
    offset: u64,
    gap: usize,
}

impl<'f> RecordPass<'f> {
    pub(super) fn new(file: &'f dyn ReadAt, tables: &'f Tables, capacity: usize) -> RecordPass<'f> {
        RecordPass {
            walker: Walker::new(file, capacity),
            tables,
            offset: 0,
            gap: 0,
        }
    }

    /// The next content; `None` at the end, and if the file has changed.
    pub(super) fn next(&mut self) -> io::Result<Option<Step<'_>>> {
        if self.offset >= self.walker.size {
            return Ok(None);
        }
        let gap = self.tables.gaps.get(self.gap).copied();
        if let Some((from, to)) = gap.filter(|&(from, _)| from == self.offset) {
            self.gap += 1;
            self.offset = to;
            return Ok(Some(Step::Gap(from, to)));
        }
        match self.walker.at(self.offset, self.tables)? {
            RecordContent::Event(event) => {
                self.offset += event.size();
                Ok(Some(Step::Event(event)))
            }
            RecordContent::Cut | RecordContent::Long | RecordContent::Unknown(_) => Ok(None),
        }
    }
}
