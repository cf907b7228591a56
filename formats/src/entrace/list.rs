//! The listing: one line for each unit of the file, in the order of the file. It must never hide a byte.
//! Damaged bytes and bytes after the last entry have lines too.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use super::facts;
use super::index::{Index, when};
use super::names;
use super::record::{Entry, HEAD_SIZE};
use super::scan::{self, Content, Flow, Frame};
use super::tables::{self, Number};
use crate::bytes::ReadAt;
use crate::error::Error;
use crate::model::{ThreadId, Ticks};
use crate::source::Record;

/// Children of an entry that are listed by number.
const CHILDREN: u64 = 16;

type Visit<'a> = &'a mut dyn FnMut(&Record<'_>) -> ControlFlow<()>;

/// Visits every unit of the file.
pub(super) fn records(bytes: &dyn ReadAt, index: &Index, visit: Visit<'_>) -> Result<(), Error> {
    let mut list = List {
        visit,
        detail: String::new(),
        enough: false,
    };
    let layout = &index.layout;
    let _ = write!(list.detail, "{}", layout.kind);
    list.line(0, HEAD_SIZE as u64, "Head");
    let head = HEAD_SIZE as u64;
    if layout.tables.is_some() {
        list.tables(bytes)?;
    } else if layout.first > head {
        let _ = write!(list.detail, "tables of offsets and children, damaged");
        list.line(head, layout.first - head, "Skipped");
    }
    if list.enough {
        return Ok(());
    }
    scan::each(bytes, layout, &mut |frame: &Frame<'_>| {
        list.frame(frame);
        if list.enough { Flow::Enough } else { Flow::On }
    })?;
    Ok(())
}

struct List<'a> {
    visit: Visit<'a>,
    detail: String,
    /// The visitor has seen enough.
    enough: bool,
}

impl List<'_> {
    fn line(&mut self, offset: u64, size: u64, kind: &str) {
        self.record(offset, size, kind, None, None);
    }

    fn record(
        &mut self,
        offset: u64,
        size: u64,
        kind: &str,
        thread: Option<ThreadId>,
        time: Option<Ticks>,
    ) {
        let record = Record {
            offset,
            size,
            thread,
            time,
            function: None,
            kind,
            detail: &self.detail,
        };
        if !self.enough {
            self.enough = (self.visit)(&record).is_break();
        }
        self.detail.clear();
    }

    fn tables(&mut self, bytes: &dyn ReadAt) -> std::io::Result<()> {
        let (mut entry, mut start) = (0u64, None);
        let mut children = (0, 0);
        let mut end = 0;
        let walked = tables::walk(bytes, &mut |at, number| {
            let next = match number {
                Number::Child(child) => {
                    children.1 += 1;
                    if children.1 <= CHILDREN {
                        let _ = write!(self.detail, " {child}");
                    } else if children.1 == children.0 {
                        let _ = write!(self.detail, " and {} more", children.0 - CHILDREN);
                    }
                    return !self.enough;
                }
                next => next,
            };
            if let Some((at_kind, kind)) = start.take() {
                self.line(at_kind, at - at_kind, kind);
            }
            let _ = match next {
                Number::Offsets(count) => write!(self.detail, "{count} offsets"),
                Number::Offset(offset) => {
                    entry += 1;
                    write!(
                        self.detail,
                        "entry {}: byte {offset} after the pool",
                        entry - 1
                    )
                }
                Number::Pool(lists) => {
                    entry = 0;
                    write!(self.detail, "children of {lists} entries")
                }
                Number::Children(count) => {
                    (entry, children) = (entry + 1, (count, 0));
                    write!(self.detail, "entry {}: {count} children:", entry - 1)
                }
                Number::Child(_) => Ok(()),
            };
            start = Some((at, kind(next)));
            !self.enough
        })?;
        if let Ok(place) = walked {
            end = place;
        }
        if let Some((at, kind)) = start {
            self.line(at, end.saturating_sub(at), kind);
        }
        Ok(())
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        let Some(decoded) = frame.content.as_ref().and_then(Content::entry) else {
            if let Some(problem) = &frame.problem {
                self.detail.push_str(problem);
            }
            self.line(frame.offset, frame.size, "Skipped");
            return;
        };
        let entry = &decoded.entry;
        let _ = write!(self.detail, "#{} in #{} ", frame.index, entry.parent);
        names::short(&mut self.detail, entry.metadata.name);
        if let Some(message) = entry.message {
            self.detail.push_str(" message=\"");
            names::short(&mut self.detail, message);
            self.detail.push('"');
        }
        names::attributes(&mut self.detail, entry);
        self.place(entry);
        let kind = match frame.index {
            0 => "Root",
            _ if entry.metadata.target == facts::TARGET => "Fact",
            _ => "Entry",
        };
        let (thread, time) = when(entry).unzip();
        self.record(frame.offset, frame.size, kind, thread, time);
    }

    /// Level, target, module and place in the source.
    fn place(&mut self, entry: &Entry<'_>) {
        let metadata = &entry.metadata;
        let _ = write!(self.detail, " level={:?} target=", metadata.level);
        names::short(&mut self.detail, metadata.target);
        if let Some(module) = metadata
            .module_path
            .filter(|&module| module != metadata.target)
        {
            self.detail.push_str(" module=");
            names::short(&mut self.detail, module);
        }
        if let Some(file) = metadata.file {
            self.detail.push_str(" file=");
            names::short(&mut self.detail, file);
        }
        if let Some(line) = metadata.line {
            let _ = write!(self.detail, " line={line}");
        }
    }
}

fn kind(number: Number) -> &'static str {
    match number {
        Number::Offsets(_) => "Offsets",
        Number::Offset(_) => "Offset",
        Number::Pool(_) => "Pool",
        Number::Children(_) | Number::Child(_) => "Children",
    }
}
