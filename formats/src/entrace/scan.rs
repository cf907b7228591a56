//! Goes through the entries of a file, from the first to the last, in constant memory. This file finds where each entry
//! lies and which bytes are damaged.
//!
//! After a damaged entry, an `IETPrefix` continues by the entry's length, and an ET by its table of
//! offsets. An IET cannot continue. The length in front of an entry may contradict the entry's own size.
//! The length is not used if the bytes after the entry look like another entry.

use std::io;

use super::bincode::{Bad, Input};
use super::record::{
    Container, Decoded, Fault, HEAD_SIZE, Kind, MAX_ENTRY, PREFIX_SIZE, decode_entry,
};
use super::tables::{Numbers, Tables};
use crate::bytes::{ReadAt, Window};

const WINDOW: usize = 256 * 1024;
/// The least number of bytes that the window should hold before an entry is read.
const USUAL: usize = 1024;
/// The most bytes of a whole file that are read beyond the stated ends of entries.
const CREDIT: usize = 64 << 20;

/// The facts of a file that are known before its first entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) kind: Kind,
    /// Place of the first entry.
    pub(super) first: u64,
    /// The tables of an ET; `None` if they are damaged.
    pub(super) tables: Option<Tables>,
    /// Bytes of the file.
    pub(super) size: u64,
}

impl Layout {
    /// Bytes in front of each entry.
    pub(super) fn prefix(&self) -> u64 {
        match self.kind.container {
            Container::IetPrefix => PREFIX_SIZE as u64,
            Container::Iet | Container::Et => 0,
        }
    }
}

/// An entry and its place, or damaged bytes.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    /// Place among the entries.
    pub(super) index: u64,
    /// Place in the file: of the length, or of what else is in front of the entry.
    pub(super) offset: u64,
    /// Bytes, from there on.
    pub(super) size: u64,
    /// Bytes in front of the entry.
    pub(super) prefix: u64,
    /// `None`: damaged.
    pub(super) content: Option<Decoded<'a>>,
    /// The fault at this entry, and what the reader did about it.
    pub(super) problem: Option<String>,
}

impl Frame<'_> {
    /// A damaged one.
    fn damaged(index: u64, offset: u64, size: u64, problem: String) -> Frame<'static> {
        Frame {
            index,
            offset,
            size,
            prefix: 0,
            content: None,
            problem: Some(problem),
        }
    }
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    Enough,
}

/// Gives each frame of the file to the visitor, in order. Returns the place of missing bytes at the end,
/// and a description.
pub(super) fn each(
    bytes: &dyn ReadAt,
    layout: &Layout,
    visitor: &mut impl FnMut(&Frame<'_>) -> Flow,
) -> io::Result<Option<(u64, String)>> {
    let tables = layout.tables.as_ref();
    let mut walker = Walker {
        bytes,
        layout,
        window: Window::new(bytes, WINDOW),
        offsets: tables.map(|tables| Numbers::new(bytes, tables.offsets)),
        expected: None,
        reported: tables.is_some_and(|tables| tables.wrong.is_some()),
        credit: CREDIT,
    };
    let count = tables.map_or(u64::MAX, |tables| tables.count);
    let (mut at, mut index) = (layout.first, 0);
    if index < count {
        walker.next_offset()?;
    }
    while at < layout.size && index < count {
        match walker.frame(at, index, visitor)? {
            Some(next) => at = next,
            None => return Ok(None),
        }
        index += 1;
    }
    if at < layout.size {
        let what = format!(
            "{} bytes after the last of the {count} entries: left out",
            layout.size - at
        );
        visitor(&Frame::damaged(index, at, layout.size - at, what));
        return Ok(None);
    }
    let missing = tables.filter(|tables| index < tables.count);
    Ok(missing.map(|tables| {
        let what = format!(
            "the table of offsets announces {} entries, but the file ends after {index}",
            tables.count
        );
        (layout.size, what)
    }))
}

struct Walker<'a> {
    bytes: &'a dyn ReadAt,
    layout: &'a Layout,
    window: Window<'a>,
    offsets: Option<Numbers<'a>>,
    /// Place of the next entry, by the table.
    expected: Option<u64>,
    /// The fault of the table was reported.
    reported: bool,
    /// Bytes that may still be read for entries that claim to be longer than they are.
    credit: usize,
}

impl Walker<'_> {
    /// Gives the frame at `at` to the visitor. Returns the next frame's place. `None`: the visitor has
    /// enough.
    fn frame(
        &mut self,
        at: u64,
        index: u64,
        visitor: &mut impl FnMut(&Frame<'_>) -> Flow,
    ) -> io::Result<Option<u64>> {
        let length_size = self.layout.prefix();
        let end = self.layout.size;
        let has_gaps = self.layout.tables.is_some_and(|tables| tables.has_gaps);
        let behind_gap = self
            .expected
            .filter(|offset| has_gaps && (at..=end).contains(offset));
        let prefix = behind_gap.map_or(length_size, |offset| offset - at);
        let body = at + prefix;
        if body > end {
            let what = "the file ends in the length of an entry".to_owned();
            return Ok(after(
                visitor(&Frame::damaged(index, at, end - at, what)),
                end,
            ));
        }
        let length = if length_size > 0 { self.length(at)? } else { 0 };
        let offset = self.expected;
        self.next_offset()?;
        let version = self.layout.kind.version;
        let next = self.next_after(body, length_size, length);
        let most = self.most(body, next);
        let mut want = USUAL.min(most);
        loop {
            let view = self.window.at(body, want, end)?;
            let view = view.get(..most).unwrap_or(view);
            let held = view.len();
            match decode_entry(view, version) {
                Err(Fault {
                    bad: Bad::Short, ..
                }) if held < most && held >= want => {
                    want = held.saturating_mul(4).min(most);
                    if want > WINDOW {
                        self.window = Window::new(self.bytes, want);
                    }
                }
                Err(fault) => {
                    let looked = if want > WINDOW { held } else { fault.at };
                    self.credit = self.credit.saturating_sub(looked);
                    let what = damage(&fault, next.map(|next| next - at), end - at, held);
                    let next = next.unwrap_or(end);
                    let frame = Frame::damaged(index, at, next - at, what);
                    return Ok(after(visitor(&frame), next));
                }
                Ok(content) => {
                    let size = content.size as u64;
                    let mut frame = Frame {
                        index,
                        offset: at,
                        size: prefix + size,
                        prefix,
                        content: Some(content),
                        problem: None,
                    };
                    if length_size > 0 && size != length {
                        self.credit = self.credit.saturating_sub(held.min(size as usize));
                        contradicted(self.bytes, self.layout, &mut frame, length)?;
                    }
                    if offset.is_some_and(|offset| offset != body) && !self.reported {
                        self.reported = true;
                        frame.problem = Some(misplaced(offset.unwrap_or_default()));
                    }
                    let next = at + frame.size;
                    return Ok(after(visitor(&frame), next));
                }
            }
        }
    }

    /// How far an entry at `body` is read. `next`: the stated place of the next entry.
    fn most(&self, body: u64, next: Option<u64>) -> usize {
        let end = match next {
            // The stated places of entries may contradict each other, and make the reader read the same bytes many
            // times. So each contradiction costs credit. Without credit, an entry gets only the usual size.
            Some(next) if self.credit == 0 => next.max(body + USUAL as u64),
            _ => self.layout.size,
        };
        usize::try_from(end - body)
            .unwrap_or(MAX_ENTRY)
            .min(MAX_ENTRY)
    }

    /// The place of the entry after a damaged one.
    fn next_after(&self, body: u64, prefix: u64, length: u64) -> Option<u64> {
        let next = if prefix > 0 {
            body.checked_add(length)
        } else {
            self.expected
        };
        next.filter(|&next| next <= self.layout.size && next > body)
    }

    /// The length at `at`.
    fn length(&mut self, at: u64) -> io::Result<u64> {
        let view = self.window.at(at, PREFIX_SIZE, self.layout.size)?;
        let length = view.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        Ok(length.unwrap_or(u64::MAX))
    }

    /// Takes the next number of the table of offsets.
    fn next_offset(&mut self) -> io::Result<()> {
        let (Some(numbers), Some(tables)) = (&mut self.offsets, &self.layout.tables) else {
            return Ok(());
        };
        self.expected = None;
        if numbers.at < tables.pool {
            let offset = numbers.u64()?.ok();
            self.expected = offset.and_then(|offset| offset.checked_add(tables.entries));
        }
        Ok(())
    }
}

fn misplaced(offset: u64) -> String {
    format!(
        "the table of offsets has this entry at byte {offset}: its place was taken from the entry \
         before"
    )
}

/// Handles an entry whose size differs from the length stored in front of it.
fn contradicted(
    bytes: &dyn ReadAt,
    layout: &Layout,
    frame: &mut Frame<'_>,
    length: u64,
) -> io::Result<()> {
    let (body, size) = (
        frame.offset + PREFIX_SIZE as u64,
        frame.size - PREFIX_SIZE as u64,
    );
    let by_length = body
        .checked_add(length)
        .filter(|&next| next <= layout.size && next > body);
    frame.problem = Some(match by_length {
        Some(next) if !plausible(bytes, layout, body + size, frame.index)? => {
            (frame.content, frame.size) = (None, next - frame.offset);
            format!("the entry has {size} bytes, its length says {length}: left out")
        }
        _ => format!(
            "the length says {length} bytes, but the entry has {size}: the length was not used"
        ),
    });
    Ok(())
}

/// Whether an entry with its length in front, or the file's end, may be at `at`.
fn plausible(bytes: &dyn ReadAt, layout: &Layout, at: u64, index: u64) -> io::Result<bool> {
    // The window is not used, because it would have to move back.
    let mut head = [0; PREFIX_SIZE + 6];
    let count = bytes.read_at(at, &mut head)?;
    let head = head.get(..count).unwrap_or(&[]);
    let Some((length, head)) = head.split_first_chunk() else {
        return Ok(count == 0);
    };
    let length = u64::from_le_bytes(*length);
    let mut input = Input::new(head);
    let parent = input.u32().is_ok_and(|parent| u64::from(parent) <= index);
    let fits = length <= layout.size.saturating_sub(at + PREFIX_SIZE as u64);
    Ok(fits && parent && input.present().is_ok())
}

fn after(flow: Flow, next: u64) -> Option<u64> {
    (flow == Flow::On).then_some(next)
}

/// The description of a damaged entry. `left_out`: its known size; reading continues behind it.
fn damage(fault: &Fault, left_out: Option<u64>, left: u64, held: usize) -> String {
    let why = match fault.bad {
        Bad::Short if held >= MAX_ENTRY => format!("it is longer than {MAX_ENTRY} bytes"),
        Bad::Short => "the file ends in it".to_owned(),
        bad => format!("at its byte {}, {bad}", fault.at),
    };
    match left_out {
        Some(size) => format!("a damaged entry ({why}): its {size} bytes were left out"),
        None => format!("a damaged entry ({why}): the last {left} bytes were left out"),
    }
}

/// Place of the first entry in files without tables.
pub(super) const FIRST: u64 = HEAD_SIZE as u64;
