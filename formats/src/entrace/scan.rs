//! Goes through the entries of a file, from the first to the last, in constant memory. This file finds
//! where each entry lies and which bytes are damaged. It must never interpret an entry.
//!
//! After a damaged entry, an `IETPrefix` continues by the entry's length, and an ET by its table of
//! offsets. An IET cannot continue. The length in front of an entry may contradict the entry's own size.
//! The length is not used if the bytes after the entry look like another entry.

use std::io;

use super::bincode::{Bad, Input};
use super::fast_path::{self, OrdinaryCall};
use super::record::{
    Container, Decoded, Fault, HEAD_SIZE, Kind, MAX_ENTRY, PREFIX_SIZE, Version, decode_entry,
};
use super::tables::{Numbers, Tables};
use crate::bytes::{ReadAt, Window};
use crate::model::FunctionId;

const WINDOW: usize = 256 * 1024;
/// The least that is tried to be in the window before an entry is read.
const USUAL: usize = 1024;
/// Bytes that are looked at beyond the places where entries are said to end, in a whole file.
const CREDIT: usize = 64 << 20;

/// What is known of a file before its first entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) kind: Kind,
    /// Place of the first entry.
    pub(super) first: u64,
    /// Of an ET; `None` where they are damaged.
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

/// An entry and its place, or bytes that are none.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    /// Place among the entries.
    pub(super) index: u64,
    /// Place in the file; that of the length, where there is one.
    pub(super) offset: u64,
    /// Bytes, the length included.
    pub(super) size: u64,
    /// `None`: damaged.
    pub(super) content: Option<Content<'a>>,
    /// What is wrong here, and what was done.
    pub(super) problem: Option<String>,
}

/// What is in a frame.
#[derive(Debug)]
pub(super) enum Content<'a> {
    /// An ordinary call of a function that the visitor knows.
    Call(OrdinaryCall<'a>, FunctionId),
    /// Anything.
    Entry(Decoded<'a>),
}

impl<'a> Content<'a> {
    /// The entry, where the visitor knows no function.
    pub(super) fn entry(&self) -> Option<&Decoded<'a>> {
        match self {
            Content::Entry(decoded) => Some(decoded),
            Content::Call(..) => None,
        }
    }

    /// Bytes of the entry.
    fn size(&self) -> usize {
        match self {
            Content::Entry(decoded) => decoded.size,
            Content::Call(ordinary, _) => ordinary.size,
        }
    }

    /// Place of the entry that it is in.
    pub(super) fn parent(&self) -> u32 {
        match self {
            Content::Entry(decoded) => decoded.entry.parent,
            Content::Call(ordinary, _) => ordinary.parent,
        }
    }
}

/// Who goes through the frames.
pub(super) trait Visitor {
    /// The function whose calls have this metadata. Visitors that know some get its calls as
    /// [`Content::Call`], which is faster.
    fn function(&self, _metadata: &[u8]) -> Option<FunctionId> {
        None
    }

    /// The next frame.
    fn frame(&mut self, frame: &Frame<'_>) -> Flow;
}

impl<F: FnMut(&Frame<'_>) -> Flow> Visitor for F {
    fn frame(&mut self, frame: &Frame<'_>) -> Flow {
        self(frame)
    }
}

impl Frame<'_> {
    /// A damaged one.
    fn damaged(index: u64, offset: u64, size: u64, problem: String) -> Frame<'static> {
        Frame {
            index,
            offset,
            size,
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

/// Gives every frame of the file to the visitor, in order. Returns the place of what is missing at the
/// end, and what it is.
pub(super) fn each(
    bytes: &dyn ReadAt,
    layout: &Layout,
    visitor: &mut impl Visitor,
) -> io::Result<Option<(u64, String)>> {
    let tables = layout.tables.as_ref();
    let mut walker = Walker {
        bytes,
        layout,
        window: Window::new(bytes, WINDOW),
        offsets: tables.map(|tables| Numbers::new(bytes, tables.offsets)),
        expected: None,
        told: tables.is_some_and(|tables| tables.wrong.is_some()),
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
        visitor.frame(&Frame::damaged(index, at, layout.size - at, what));
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
    /// Place of the entry that comes next, by the table.
    expected: Option<u64>,
    /// That the table is wrong was said.
    told: bool,
    /// Bytes that may still be looked at for entries which claim to be longer than they are.
    credit: usize,
}

impl Walker<'_> {
    /// Gives the frame at `at` to the visitor; returns the next one's place. `None`: that's enough.
    fn frame(
        &mut self,
        at: u64,
        index: u64,
        visitor: &mut impl Visitor,
    ) -> io::Result<Option<u64>> {
        let prefix = self.layout.prefix();
        let end = self.layout.size;
        let body = at + prefix;
        if body > end {
            let what = "the file ends in the length of an entry".to_owned();
            return Ok(after(
                visitor.frame(&Frame::damaged(index, at, end - at, what)),
                end,
            ));
        }
        let length = if prefix > 0 { self.length(at)? } else { 0 };
        let offset = self.expected;
        self.next_offset()?;
        let version = self.layout.kind.version;
        let next = self.next_after(body, prefix, length);
        let most = self.most(body, next);
        let mut want = USUAL.min(most);
        loop {
            let view = self.window.at(body, want, end)?;
            let view = view.get(..most).unwrap_or(view);
            let held = view.len();
            let content = match known_call(view, version, visitor) {
                Some(call) => Ok(call),
                None => decode_entry(view, version).map(Content::Entry),
            };
            match content {
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
                    return Ok(after(visitor.frame(&frame), next));
                }
                Ok(content) => {
                    let size = content.size() as u64;
                    let mut frame = Frame {
                        index,
                        offset: at,
                        size: prefix + size,
                        content: Some(content),
                        problem: None,
                    };
                    if prefix > 0 && size != length {
                        self.credit = self.credit.saturating_sub(held.min(size as usize));
                        contradicted(self.bytes, self.layout, &mut frame, length)?;
                    }
                    if offset.is_some_and(|offset| offset != at) && !self.told {
                        self.told = true;
                        frame.problem = Some(misplaced(offset.unwrap_or_default()));
                    }
                    let next = at + frame.size;
                    return Ok(after(visitor.frame(&frame), next));
                }
            }
        }
    }

    /// How far an entry at `body` is looked at. `next`: where the next one is said to be.
    fn most(&self, body: u64, next: Option<u64>) -> usize {
        let end = match next {
            // Many entries could lie about the same bytes: few of them are believed.
            Some(next) if self.credit == 0 => next.max(body + USUAL as u64),
            _ => self.layout.size,
        };
        usize::try_from(end - body)
            .unwrap_or(MAX_ENTRY)
            .min(MAX_ENTRY)
    }

    /// Where the entry after a damaged one is.
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

/// The ordinary call that `view` begins with, if the visitor knows its function.
#[inline]
fn known_call<'v>(view: &'v [u8], version: Version, visitor: &impl Visitor) -> Option<Content<'v>> {
    let ordinary = fast_path::decode(view, version)?;
    let function = visitor.function(ordinary.metadata)?;
    Some(Content::Call(ordinary, function))
}

fn misplaced(offset: u64) -> String {
    format!(
        "the table of offsets has this entry at byte {offset}: its place was taken from the entry \
         before"
    )
}

/// An entry that has another size than the length in front of it says.
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
    // Not through the window: that would have to come back.
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

/// What to say of a damaged entry. `left_out`: of a known size, and reading goes on after it.
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
